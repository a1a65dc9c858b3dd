/* sim_clients.h - those who count and like, and remember what they were told.
 *
 * Clients send batches of random requests through the service, and each answer
 * is compared with the model's at once. It counts as heard when the log has
 * come as far as its ticket, which is the rule by which a door releases it.
 * What was not heard when the process dies is unknown to its client, and sent
 * again with the same idempotency key if it has one.
 *
 * A request whose counter is cold is parked, and run again when something has been
 * loaded; until then nothing has happened. */
#ifndef SIM_CLIENTS_H
#define SIM_CLIENTS_H

#include "sim/sim_model.h"
#include "sim/sim_world.h"

#define CLIENTS_BATCH_MAX  64u
#define CLIENTS_PARKED_MAX 256u

struct unheard {
    uint64_t ticket;
    uint64_t rests_on; /* section */
    uint32_t key;
};

struct clients {
    struct world *world; /* all borrowed */
    struct model *model;
    const struct sim_options *options;
    struct report *report;
    struct sim_rng rng;

    struct unheard *unheard; /* owned */
    size_t unheard_count;
    size_t unheard_capacity;
    uint32_t *retries; /* owned; keys of requests whose outcome is unknown */
    size_t retry_count;
    size_t retry_capacity;

    struct request parked[CLIENTS_PARKED_MAX];
    unsigned parked_count;
    uint64_t arrivals; /* as they were when the parked ones last ran */
    bool patient;      /* all are answered before anything else happens, and none is refused */
    bool settling;
};

void clients_init(struct clients *clients, struct world *world, struct model *model,
                  struct report *report);
void clients_done(struct clients *clients);

/* One pass of a worker: some random requests. */
void clients_batch(struct clients *clients);

/* Requests of the caller's choice, compared with the model's answers as well.
 * `ret_answers` may be NULL. */
void clients_send(struct clients *clients, const struct request *requests, unsigned count,
                  struct answer *ret_answers);

/* Runs the parked requests again, if something has been loaded since. */
void clients_wake(struct clients *clients);

/* Loads and runs again until nothing is parked. */
void clients_settle(struct clients *clients);

/* One op of the caller's own, which the model has no word for; loads what it lacks. */
void clients_ask(struct clients *clients, struct op *op);

/* Sends the keyed request once more whose key this is. */
void clients_repeat(struct clients *clients, uint32_t key);

/* Whatever may leave by now is heard. */
void clients_listen(struct clients *clients);

/* The process has ended: what was not heard is unknown. */
void clients_hung_up(struct clients *clients);

#endif
