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
#include "hot/redis/map.h"
#include "sim/nodes/nodes.h"
#include "sim/nodes/nodes_store.h"

#define OUTBOX_ROOM   48u
#define SECTION_BYTES 200u
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

/* What a node knows of where it sends an op to, as run.lua has it. */
enum place_known {
    KNOWN_NOT_SPREAD = 'p',
    KNOWN_HOME = 'h',
    KNOWN_PIECE = 'a',
};

/* The record of a thing in a cell: see src/hot/redis/README.md. `type` 0: there is none. */
struct record {
    char type;
    bool is_piece;
    bool has_map;
    bool has_fo;
    char own[SLICES];
    char fo[SLICES];
    uint8_t held[USERS];
    int32_t counts[HELD_COUNT];
    int64_t value;
    struct map map;
    uint64_t mv, rv, pv, av, fv, dv;
    uint64_t fs, ds;  /* sequences */
    uint64_t written; /* of the last event */
    uint64_t token;   /* who may load it; 0 = nobody */
    uint64_t slice_tokens[SLICES];
    uint64_t put_version; /* members on their way, of this version of the map */
    bool has_put[SLICES];
    uint8_t put[USERS];
};

/* As lua/open.lua has it. A cell that is lost was open; it says nothing of itself until somebody
 * begins to open it. */
enum cell_state { CELL_NOTHING, CELL_OPEN, CELL_LOST, CELL_OPENING };

struct cell_data {
    enum cell_state state;
    uint64_t epoch;
    uint64_t n;
    uint64_t last; /* sequence of the last event that the data has */
    uint64_t need; /* of the store, to be loaded from */
    unsigned run;
    unsigned opening_run;
    uint64_t opening_since; /* its first begin: a number of its own */
    bool owes;              /* an event, when it is open */
    unsigned opener;
    int64_t opener_ms;
    uint64_t relayed;
    unsigned lease; /* node + 1; 0 = free */
    int64_t lease_ms;
    struct record records[THINGS];
    bool listed[THINGS]; /* pieces of things with another home */
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

/* Before a home without its maps is opened its pieces are given up. */
struct release {
    bool is_waiting;
    uint64_t opening_since;
    int64_t began_ms;
    int64_t patience_ms;
    uint64_t sequences[LIMIT_CELLS];
};

struct redis_outbox; /* a node's view */

struct redis_model {
    struct sim_rng *rng;
    enum nodes_bug bug;
    int64_t *now_ms;       /* borrowed */
    const uint64_t *saved; /* borrowed: how far the store is, as nodes believe */
    unsigned runs;         /* so many processes there were */
    uint64_t tokens;
    uint64_t openings;
    struct redis_server servers[SERVERS];
    struct redis_ghost ghosts[SERVERS];
    unsigned server_of[CELLS];
    struct cell_data cells[CELLS];
    struct cell_data replicas[CELLS];
    struct redis_outbox *outboxes[NODES]; /* owned */
    uint64_t opened;
    uint64_t kept;
    uint64_t ghost_writes; /* done by a process that was replaced */
};

void redis_model_init(struct redis_model *model, struct sim_rng *rng, enum nodes_bug bug,
                      int64_t *now_ms, const uint64_t *saved);
void redis_model_done(struct redis_model *model);

struct outbox *redis_model_outbox(struct redis_model *model, unsigned node);

/* --- for nodes_pieces.c --- */

/* A cell in the process that somebody talks to. */
struct place {
    struct cell_data *data;
    unsigned run;
    bool down;
    bool is_ghost;
};

struct place redis_place(struct redis_model *model, unsigned node, unsigned cell);
bool redis_is_open(const struct redis_model *model, struct place place);

/* May it be asked what it has, and how far it is? One that is closed, and that nobody has begun to
 * open, says nothing of itself. */
bool redis_is_known(const struct redis_model *model, struct place place);

/* How far it is: who waits for that in the log waits for all that it has. */
uint64_t redis_sequence(const struct cell_data *data);

/* The same, with what a cell that is being opened will say of what is given up there. */
uint64_t redis_sequence_with_debt(struct redis_model *model, struct cell_data *data);

/* The cell of the servers that count, open. NULL: it does not serve. */
struct cell_data *redis_served(struct redis_model *model, unsigned cell);

/* One entry of the outbox. False: there is no room. */
bool redis_append(struct redis_model *model, unsigned node, struct cell_data *data, unsigned cell,
                  const struct event *events, size_t count);
/* As dissolve.c: ERR_COLD not yet, ERR_BUSY a cell was opened anew since. */
enum err redis_are_saved(const struct redis_model *model, const uint64_t sequences[LIMIT_CELLS]);
void redis_note_closed(struct redis_model *model, unsigned node, unsigned cell);

/* --- calls of nodes --- */

struct reply redis_react(struct redis_model *model, struct caller from, enum place_known known,
                         unsigned item, unsigned user, unsigned wanted);
struct reply redis_add(struct redis_model *model, struct caller from, enum place_known known,
                       unsigned counter, int64_t amount);

/* The epoch of the cell, as the node sees it. */
uint64_t redis_epoch(struct redis_model *model, unsigned node, unsigned cell);

#define WHOLE SLICES /* no slice, but the record */

/* A token to load the record or the slice with, which is not there; 0 = it need not be, or cannot
 * be asked. */
uint64_t redis_begin_load(struct redis_model *model, unsigned cell, unsigned thing, unsigned slice);
void redis_load(struct redis_model *model, unsigned cell, unsigned thing, unsigned slice,
                uint64_t token, const struct store_rows *rows);

/* Drops the thing from its home if the store has it, as far as the node knows. */
void redis_drop(struct redis_model *model, unsigned thing);

/* --- what happens to the servers --- */

void redis_replicate(struct redis_model *model, unsigned server);
void redis_fail_over(struct redis_model *model, unsigned server);
/* The same; but the old one was only asleep, and `nodes` take it for the primary still. */
void redis_replace(struct redis_model *model, unsigned server, uint64_t nodes);
void redis_restart_empty(struct redis_model *model, unsigned server);
void redis_migrate(struct redis_model *model, unsigned cell, unsigned server);

#endif
