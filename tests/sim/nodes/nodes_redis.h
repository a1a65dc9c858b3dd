/* nodes_redis.h - a model of the hot layer on Redis: what the scripts do, and what may happen to
 * the servers under them.
 *
 * Each cell lies on one of the servers. A server can be down, fail over to a replica that lags
 * behind, and come back empty; a cell can move to another server. A server that was replaced may
 * have been asleep only: it wakes up, and for a while some nodes still talk to it. Whatever happens
 * in one call is whole. */
#ifndef NODES_REDIS_H
#define NODES_REDIS_H

#include "core/outbox.h"
#include "sim/nodes/nodes.h"
#include "sim/nodes/nodes_store.h"

#define OUTBOX_ROOM   48u
#define SECTION_BYTES 120u
#define OPENER_MS     5000
#define LEASE_MS      3000

struct cell_entry {
    uint64_t last; /* sequence */
    size_t size;
    char bytes[SECTION_BYTES];
};

/* Who calls: a node, in one of its lives, with a number. The same call sent again has the same, and
 * says in which epoch it was sent first. */
struct caller {
    unsigned node;
    unsigned life;
    uint64_t call; /* 0 = it does not matter */
    unsigned cell;
    uint64_t epoch;
    bool is_again;
};

enum answer {
    ANSWER_DONE,
    ANSWER_CLOSED,
    ANSWER_COLD,
    ANSWER_MOVED,   /* another cell has it, or will have it soon */
    ANSWER_UNKNOWN, /* sent again, in another epoch */
    ANSWER_FULL,
    ANSWER_DOWN,
};

struct reply {
    enum answer answer;
    bool changed;
    uint64_t sequence; /* of the event, or the last one of the cell */
};

/* A slice of an item, or a counter, in a cell. */
struct piece {
    bool loaded;
    bool frozen;       /* it is moving */
    uint64_t token;    /* who may load it; 0 = nobody */
    uint64_t sequence; /* of its last event */
    uint8_t held[USERS];
    int64_t value;
};
#define PIECES (ITEMS * SLICES + COUNTERS)

struct cell_data {
    bool exists;
    bool open;
    uint64_t epoch;
    uint64_t n;
    uint64_t last; /* sequence of the last event that the data has */
    uint64_t need; /* of the store, to be loaded from */
    unsigned run;
    unsigned opening_run;
    unsigned opener;
    int64_t opener_ms;
    uint64_t relayed;
    unsigned lease; /* node + 1; 0 = free */
    int64_t lease_ms;
    struct piece pieces[PIECES];
    struct cell_entry entries[OUTBOX_ROOM];
    size_t entry_count;
    struct {
        struct caller from;
        struct reply reply;
    } calls[NODES];
};

struct redis_server {
    bool down;
    unsigned run;
};

/* A process that was replaced and does not know it. */
struct redis_ghost {
    uint64_t nodes; /* that still take it for the primary, a bit each */
    uint64_t had;   /* cells, a bit each */
    bool is_awake;
    unsigned run;
    struct cell_data cells[CELLS];
};

/* Members on their way from one cell to another. */
struct move {
    bool is_active;
    unsigned piece;
    unsigned to;
    uint64_t from_epoch;
    uint64_t to_epoch;
    uint64_t note;  /* sequence of the event that the source has written of it */
    uint64_t after; /* and of the target's AFTER event */
};
#define MOVES 3u

struct redis_outbox; /* a node's view */

struct redis_model {
    struct sim_rng *rng;
    enum nodes_bug bug;
    int64_t *now_ms; /* borrowed */
    unsigned runs;   /* so many processes there were */
    uint64_t tokens;
    struct redis_server servers[SERVERS];
    struct redis_ghost ghosts[SERVERS];
    unsigned server_of[CELLS];
    unsigned owner[PIECES]; /* cell */
    struct move moves[MOVES];
    struct cell_data cells[CELLS];
    struct cell_data replicas[CELLS];
    struct redis_outbox *outboxes[NODES]; /* owned */
    uint64_t opened;
    uint64_t kept;
    uint64_t ghost_writes; /* done by a process that was replaced */
};

void redis_model_init(struct redis_model *model, struct sim_rng *rng, enum nodes_bug bug,
                      int64_t *now_ms);
void redis_model_done(struct redis_model *model);

struct outbox *redis_model_outbox(struct redis_model *model, unsigned node);

static inline unsigned piece_of_item(unsigned item, unsigned slice)
{
    return item * SLICES + slice;
}

static inline unsigned piece_of_counter(unsigned counter)
{
    return ITEMS * SLICES + counter;
}

/* --- calls of nodes --- */

struct reply redis_react(struct redis_model *model, struct caller from, unsigned item,
                         unsigned user, unsigned wanted);
struct reply redis_add(struct redis_model *model, struct caller from, unsigned counter,
                       int64_t amount);

/* The epoch of the cell, as the node sees it. */
uint64_t redis_epoch(struct redis_model *model, unsigned node, unsigned cell);

/* A token to load the piece with, which is not there; 0 = it need not be, or cannot be asked. */
uint64_t redis_begin_load(struct redis_model *model, unsigned piece, unsigned *ret_cell);
void redis_load(struct redis_model *model, unsigned cell, unsigned piece, uint64_t token,
                const struct store_rows *rows);

/* Drops the piece if the store has it, as far as the node knows. */
void redis_drop(struct redis_model *model, unsigned piece, const uint64_t saved[LIMIT_CELLS]);

/* Moves the piece of an item to another cell: begins it, and ends it when the log has the AFTER
 * event and the source's, or gives it up when one of the cells was opened anew. */
void redis_begin_move(struct redis_model *model, unsigned piece, unsigned to);
void redis_go_on_moving(struct redis_model *model);

/* --- what happens to the servers --- */

void redis_replicate(struct redis_model *model, unsigned server);
void redis_fail_over(struct redis_model *model, unsigned server);
/* The same; but the old one was only asleep, and `nodes` take it for the primary still. */
void redis_replace(struct redis_model *model, unsigned server, uint64_t nodes);
void redis_restart_empty(struct redis_model *model, unsigned server);
void redis_migrate(struct redis_model *model, unsigned cell, unsigned server);

#endif
