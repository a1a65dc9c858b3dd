#include "core/lifecycle.h"

#include <assert.h>
#include <string.h>

static const char *const names[LIFECYCLE_STATES] = {
    [LIFECYCLE_PENDING] = "PENDING",     [LIFECYCLE_RETRYING] = "RETRYING",
    [LIFECYCLE_SUCCESS] = "SUCCESS",     [LIFECYCLE_FAILED] = "FAILED",
    [LIFECYCLE_DISCARDED] = "DISCARDED",
};

struct step {
    bool allowed;
    enum lifecycle_state to;
    enum lifecycle_action action;
};

/* What is not here is not allowed. */
static const struct step steps[LIFECYCLE_STATES][LIFECYCLE_MOVES] = {
    [LIFECYCLE_PENDING] =
        {
            [LIFECYCLE_SET_SUCCESS] = {true, LIFECYCLE_SUCCESS, LIFECYCLE_APPLY},
            [LIFECYCLE_SET_RETRYING] = {true, LIFECYCLE_RETRYING, LIFECYCLE_WAIT},
        },
    [LIFECYCLE_RETRYING] =
        {
            [LIFECYCLE_SET_SUCCESS] = {true, LIFECYCLE_SUCCESS, LIFECYCLE_APPLY},
            [LIFECYCLE_SET_RETRYING] = {true, LIFECYCLE_RETRYING, LIFECYCLE_WAIT},
            [LIFECYCLE_SET_FAILED] = {true, LIFECYCLE_FAILED, LIFECYCLE_TO_LETTERS},
        },
    [LIFECYCLE_FAILED] =
        {
            [LIFECYCLE_REDRIVE] = {true, LIFECYCLE_RETRYING, LIFECYCLE_RESTART},
            [LIFECYCLE_DISCARD] = {true, LIFECYCLE_DISCARDED, LIFECYCLE_GIVE_UP},
        },
};

enum err lifecycle_move(enum lifecycle_state state, enum lifecycle_move move,
                        enum lifecycle_state *ret_state, enum lifecycle_action *ret_action)
{
    assert(ret_state && ret_action);

    if ((unsigned)state >= LIFECYCLE_STATES || (unsigned)move >= LIFECYCLE_MOVES)
        return ERR_INVALID;
    const struct step *step = &steps[state][move];
    if (!step->allowed)
        return ERR_INVALID;
    *ret_state = step->to;
    *ret_action = step->action;
    return ERR_OK;
}

enum lifecycle_move lifecycle_refused(uint32_t retry_count)
{
    return retry_count < LIFECYCLE_RETRIES ? LIFECYCLE_SET_RETRYING : LIFECYCLE_SET_FAILED;
}

int64_t lifecycle_delay_ms(uint32_t retry_count)
{
    assert(retry_count >= 1 && retry_count <= LIFECYCLE_RETRIES);

    return INT64_C(1000) << (retry_count - 1);
}

bool lifecycle_is_due(int64_t next_ms, int64_t now_ms)
{
    return next_ms <= now_ms || next_ms > now_ms + lifecycle_delay_ms(LIFECYCLE_RETRIES);
}

void lifecycle_queue_add(struct lifecycle_queue *queue, enum lifecycle_state state, bool adds_only)
{
    if (state != LIFECYCLE_FAILED)
        queue->waits = true;
    else if (adds_only)
        queue->has_letter = true;
    else
        queue->has_barrier = true;
}

bool lifecycle_queue_blocks(const struct lifecycle_queue *queue, bool adds_only)
{
    return queue->waits || queue->has_barrier || (queue->has_letter && !adds_only);
}

const char *lifecycle_name(enum lifecycle_state state)
{
    assert((unsigned)state < LIFECYCLE_STATES);

    return names[state];
}

bool lifecycle_parse(struct slice name, enum lifecycle_state *ret_state)
{
    for (unsigned i = 0; i < LIFECYCLE_STATES; i++) {
        if (!slice_equal(name, slice_of(names[i])))
            continue;
        *ret_state = (enum lifecycle_state)i;
        return true;
    }
    return false;
}
