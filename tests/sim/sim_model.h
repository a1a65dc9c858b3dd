/* sim_model.h - what the system ought to answer and to hold: plain arrays, no
 * cells, no shards, no log.
 *
 * Every change is noted with the section of the log that carries it. When a
 * crash leaves only the first so many sections, model_rollback() takes back
 * what the others did, and what is left is what recovery must bring back,
 * neither more nor less. So an outcome that a client does not know is known
 * here, also that of a write without an idempotency key. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stddef.h>

#include "sim/sim_options.h"
#include "sim/sim_request.h"

enum thing { THING_NONE, THING_COUNTER, THING_ITEM };

/* What an id stands for. */
struct model_record {
    enum thing thing;
    sim_wide value;
    struct op_create create; /* a counter's: as it was asked for, or shards = 1 */
    int64_t deadline_ms;
    int64_t written_s;
    uint64_t since; /* the section that made it so */
};

/* What a user holds on an item. */
struct model_hold {
    uint8_t kind;
    uint64_t since;
};

/* A write that was answered, and what the answer was. */
struct model_key {
    bool known;
    bool retired; /* it may have been forgotten: nobody sends it any more */
    struct request request;
    struct answer answer;
    uint64_t since;
};

struct model_change;

struct model {
    unsigned ids;
    unsigned users;
    uint32_t idle_s;
    struct model_record *records; /* all owned */
    struct model_hold *holds;     /* of each id, of each user */
    struct model_key *keys;
    uint32_t key_count;
    struct model_change *changes; /* since the last rollback, in order */
    size_t change_count;
    size_t change_capacity;
};

void model_init(struct model *model, const struct sim_options *options);
void model_done(struct model *model);

/* A key that nobody has used yet. */
uint32_t model_new_key(struct model *model, const struct request *request);

/* From now on old keys may be forgotten. */
void model_retire_keys(struct model *model);

/* Does what was asked, at this time, in this section, and says what the answer
 * must be, and which section it rests on: if the answer has been heard, that
 * section must never be lost. */
void model_apply(struct model *model, const struct request *request, int64_t now_ms,
                 uint64_t section, struct answer *ret_answer, uint64_t *ret_rests_on);

/* The system has deleted a counter by itself; false if it had no reason to. */
bool model_expire(struct model *model, unsigned id, int64_t now_ms, uint64_t section);

/* Takes back what the sections behind this one did; says how many changes. */
uint64_t model_rollback(struct model *model, uint64_t section);

/* Is there a counter or item that a reader sees? */
enum thing model_thing(const struct model *model, unsigned id, int64_t now_ms);
const struct model_record *model_record(const struct model *model, unsigned id);
uint8_t model_held(const struct model *model, unsigned id, unsigned user);
void model_counts(const struct model *model, unsigned id, int64_t counts[SIM_KINDS]);

#endif
