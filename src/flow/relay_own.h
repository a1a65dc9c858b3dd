/* relay_own.h - the relay as its own files see it: relay.c carries over, relay_fence.c knows
 * whether that counts, relay_tickets.c lets answers go, relay_open.c opens. */
#ifndef FLOW_RELAY_OWN_H
#define FLOW_RELAY_OWN_H

#include <pthread.h>

#include "base/bell.h"
#include "core/state.h"
#include "flow/asker.h"
#include "flow/relay.h"
#include "flow/tickets.h"

#define MS_NS UINT64_C(1000000)

/* A section that was appended to the log and is not there yet, as far as we know. */
struct flight {
    uint64_t ticket; /* of the lane */
    uint64_t last;   /* sequence */
    uint64_t since_ns;
};

enum opening_state {
    OPENING_NOT,
    OPENING_WANTED,  /* it is closed */
    OPENING_ASKS,    /* begun: the store has to give the epoch */
    OPENING_DRAINS,  /* it has: what is left in the outbox goes to the log */
    OPENING_MARKED,  /* an EPOCH event is on its way to the log */
    OPENING_APPLIES, /* it is there; the store has to come so far */
};

struct opening {
    enum opening_state state;
    uint64_t epoch;
    uint64_t last; /* sequence that the cell's data has */
    uint64_t n;    /* of the EPOCH event; 1 = the second one, which gives the data up */
    uint64_t ticket;
    struct log_position end; /* of the lane, behind the EPOCH event */
    uint64_t try_ns;         /* not before */
};

/* The store is asked whether what the log has of a lane counts (relay_fence.c). */
struct fence {
    uint64_t number; /* of the question; 0 = none is out */
    uint64_t acked;  /* what the log had of us by then: sequence, */
    uint64_t ticket; /* and ticket of the lane */
    uint64_t try_ns; /* not asked before */
};

struct relay_cell {
    uint64_t read;    /* everything up to this sequence was appended; 0 = from the beginning on */
    uint64_t told;    /* the outbox knows that the log is so far */
    uint64_t logged;  /* the log is so far, and answers may rest on it */
    uint64_t carried; /* the log is so far; what must come after it may follow */
    struct flight *flights; /* owned; a ring, the oldest first */
    size_t flight_room;
    size_t first_flight;
    size_t flight_count;
    uint64_t acked;        /* the log has so much of what we appended; perhaps not told yet */
    uint64_t acked_ticket; /* of the lane */
    uint64_t sure_ticket; /* up to here there is no epoch above `newest` in the lane; 0 = unknown */
    uint64_t newest;
    struct fence fence;
    bool is_held;        /* in this round: its next section waits for another cell */
    bool has_read;       /* in this round: there was something */
    bool has_more;       /* and perhaps there is more */
    uint32_t read_count; /* entries, in this round */
    bool is_stale;       /* it was in another epoch: not read until it is open */
    uint64_t foreign_ns; /* when something was last found that we had not written ourselves */
    struct opening opening;
};

struct relay {
    struct relay_options options;
    struct relay_cell cells[LIMIT_CELLS];
    uint64_t leased;
    uint64_t awaited; /* cells of which a held section waits for the log, a bit each */
    uint64_t lease_ns;
    uint64_t poll_ns;
    uint64_t gather_ns; /* before it what nobody waits for stays in the outboxes */
    uint64_t progress_ns;
    uint64_t mark_ns;     /* when the store was last asked how far it is */
    uint64_t saved_ns;    /* before it the outboxes are not told again how far the store is */
    uint64_t nonsense_ns; /* before it nobody is told again */
    uint64_t now_ns;
    bool is_log_down;
    bool did;               /* something in this round */
    uint64_t sections;      /* carried over since start */
    struct asker *asker;    /* owned */
    uint64_t mark_wanted;   /* number of the last question */
    struct asker_mark said; /* what the store has said last */
    struct tickets tickets;

    struct lock lock; /* guards stats */
    struct relay_stats stats;

    bool runs; /* the thread */
    pthread_t thread;
    struct bell bell;
    atomic_bool stop;
    _Atomic uint64_t stop_ns;
};

static inline uint64_t relay_bit(unsigned cell)
{
    return UINT64_C(1) << cell;
}

/* Appends a section to the lane of the cell of that number. */
void relay_append(struct relay *relay, unsigned number, struct slice section, uint64_t last);

/* Forgets how far the cell was read: it is read from the beginning again. */
void relay_begin_anew(struct relay_cell *cell);

/* How far the store is, as it has said last; NULL: it did not answer. */
static inline const struct state_mark *relay_mark(const struct relay *relay)
{
    return relay->said.is_known ? &relay->said.mark : NULL;
}

/* Has the store asked how far it is, from now on: a question that is out may have been put too
 * early. Returns its number. */
uint64_t relay_ask(struct relay *relay);

/* Likewise, unless it was `every_ms` ago or a question is out: who only wants to know now and then.
 */
void relay_want_mark(struct relay *relay, uint64_t every_ms);

/* Which of `cells`, of which the log has what we appended up to `sequences`, count: others must not
 * be told of as carried over. Where only a part does, that sequence is lowered. `ret_late`: those
 * that never will, since a newer epoch came before. */
uint64_t relay_fence(struct relay *relay, uint64_t cells, uint64_t sequences[LIMIT_CELLS],
                     uint64_t *ret_late);

/* Up to `ticket` the lane has no epoch above this one. */
void relay_be_sure(struct relay_cell *cell, uint64_t ticket, uint64_t epoch);

/* Lets those go of which the log has what they rest on, or never will. */
void relay_let_tickets_go(struct relay *relay);

/* Goes on with what is to be opened. */
void relay_open_cells(struct relay *relay);

/* Of a cell whose outbox is read for its opening. */
static inline bool relay_drains(const struct relay_cell *cell)
{
    return cell->opening.state == OPENING_DRAINS;
}

#endif
