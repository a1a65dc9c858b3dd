/* nodes_clients.h - users and what they were told.
 *
 * Every user does one thing on an item at a time, and sends it again, on any node, until there is
 * an answer or they have enough of it. What may be there in the end follows from the answers: after
 * "in the log" exactly that, after anything less also what was there before. */
#ifndef NODES_CLIENTS_H
#define NODES_CLIENTS_H

#include "sim/nodes/nodes.h"
#include "sim/nodes/nodes_redis.h"

enum intent_state {
    INTENT_NONE,
    INTENT_SENDS,   /* to be sent, perhaps again */
    INTENT_AGAIN,   /* the reply was lost: the same call once more */
    INTENT_WAITING, /* done in the hot layer; waits for the log */
};

struct intent {
    enum intent_state state;
    unsigned wanted; /* of a counter: always one more */
    unsigned node;
    unsigned life;
    uint64_t call;
    unsigned cell;          /* where it was sent, */
    enum place_known known; /* and what the node knew of that */
    uint64_t epoch;         /* of the cell then */
    uint64_t ticket;
    bool may_be_done; /* some try of it has an unknown end */
};

struct client {
    struct intent intent;
    unsigned maybe; /* what may be held, a bit each */
};

struct tally {
    struct intent intent;
    int64_t least; /* added for sure */
    int64_t most;
};

struct clients {
    struct client users[ITEMS][USERS];
    struct tally counters[COUNTERS];
};

#endif
