/* pass_own.h - what the files of door/pass share among themselves. */
#ifndef DOOR_PASS_PASS_OWN_H
#define DOOR_PASS_PASS_OWN_H

#include "door/pass/pass.h"

/* Is one of the request's ops cold? */
static inline bool pass_is_cold(const struct pass_request *request, const struct op *ops)
{
    for (uint32_t i = 0; i < request->count; i++) {
        if (__builtin_expect(ops[i].code == ERR_COLD, 0))
            return true;
    }
    return false;
}

/* Of an op that went wrong. */
void pass_count_failure(struct pass *pass, const struct op *op);

#define PASS_WRITES                                                                      \
    (1u << OP_ADD | 1u << OP_SET | 1u << OP_DELETE | 1u << OP_CREATE | 1u << OP_EXPIRE | \
     1u << OP_REACT | 1u << OP_WITHDRAW | 1u << OP_TOGGLE)

static inline void pass_free_numbers(struct op *op)
{
    if (__builtin_expect(op->amount.big || op->value.big, 0)) {
        number_done(&op->amount);
        number_done(&op->value);
    }
}

/* Looks at an op after its answer was written: what it has to wait for, and what it
 * counts as. */
static inline void pass_op_answered(struct pass *pass, struct op *op, uint64_t *ticket,
                                    uint64_t *writes)
{
    if (op->ticket > *ticket)
        *ticket = op->ticket;
    *writes += PASS_WRITES >> op->kind & 1;
    if (__builtin_expect(op->code != ERR_OK, 0))
        pass_count_failure(pass, op);
    pass_free_numbers(op);
}

static inline void pass_client_answered(struct pass_client *client, uint64_t ticket)
{
    if (!client)
        return;
    if (ticket > client->ticket)
        client->ticket = ticket;
    client->unanswered--;
    pass_touch(client);
}

/* Has the request answered, and counted. */
void pass_answer(struct pass *pass, const struct pass_request *request, struct op *ops);

/* Counts what was answered, and times it from `start_ns` on; not the writes that have
 * to wait for the log. */
void pass_count_answered(struct pass *pass, uint64_t start_ns, uint64_t now_ns);

/* Times the writes that the log has reached. */
void pass_count_safe(struct pass *pass, uint64_t safe);

/* How many errands are out, and not late? Not counting what was cold. */
size_t pass_count_prompt(const struct pass *pass);

/* May what was gathered be run? */
static inline bool pass_may_run(const struct pass *pass)
{
    size_t out = pass->errand_count - pass->retrying;
    return out < PASS_PROMPT || (out < PASS_ERRANDS - 1 && pass_count_prompt(pass) < PASS_PROMPT);
}

/* The next errand; its group is empty. */
struct pass_errand *pass_next_errand(struct pass *pass);

/* Runs what was gathered, or the errand's own group. False: `done` comes later. */
bool pass_send(struct pass *pass, struct pass_errand *errand, struct pass_group *group,
               pass_run_fn *done);

#endif
