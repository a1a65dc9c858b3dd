/* state.h - what the store keeps and the hot layer is loaded from.
 *
 * The two never meet: flow/ carries these from one to the other. All slices and
 * arrays live during the call that hands them over only. Pure data. */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number.h"
#include "base/slice.h"
#include "core/event.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/op.h"

#define STATE_SLICES 64u /* of a large item; a slice is 64 buckets: bucket / 64 */

/* Up to 4,096 members an item is in one piece, then in STATE_SLICES for ever; one that was
 * created on several shards is so from the start. */
#define STATE_WHOLE_MAX 4096u

/* How far the store is: everything up to here is in it, nothing behind is. */
struct state_mark {
    struct log_position position;           /* to read on from: a log of one lane */
    struct log_position lanes[LIMIT_CELLS]; /* and one of many, by lane */
    uint64_t sequences[LIMIT_CELLS];        /* by origin: of the last event applied; 0 = none */
    int64_t times_ms[LIMIT_CELLS];          /* by origin: when that was written; 0 = not known */
    uint64_t ended[LIMIT_CELLS]; /* by origin: the last sequence before its epoch; 0 = none */
    uint64_t given[LIMIT_CELLS]; /* by origin: the last epoch that was given (store.h), used or not;
                                  * only store_mark() says it */
    uint32_t incarnations[LIMIT_CELLS]; /* by home cell: deletions so far */
    uint64_t counters;                  /* all there are, hot or cold */
    uint64_t items;
    uint64_t members;
    uint32_t next_user; /* the lowest number that no named user has */
};

/* Members of one kind and class (a user is a number by itself, or a named one). */
struct state_members {
    struct slice kind; /* name */
    bool named;
    const uint32_t *numbers;   /* sorted, no number twice */
    const struct slice *names; /* of named ones instead, when the hot layer knows users by their
                                * names only; in any order */
    size_t count;
};

/* A counter or an item as the store has it. */
struct state_target {
    struct slice id;
    bool absent; /* there is no row: only `pending` counts, on top of nothing */
    bool is_item;
    bool is_wrong; /* what stands in the row is not what was written there: nothing to rest on */
    uint32_t incarnation;
    int64_t written_ms;
    struct op_create create; /* of an item: its shards */
    /* a counter */
    struct number value; /* borrowed */
    int64_t deadline_ms; /* 0 = none */
    /* an item: counts by the kinds' names, zero ones may be left out */
    const struct slice *kinds;
    const int64_t *counts;
    size_t kind_count;
    uint32_t slices; /* 1: `members` are all there are; STATE_SLICES: they come slice by slice */
    const struct state_members *members;
    size_t member_count;
    /* Events of it that are behind the mark and that the store could not apply
     * (yet): to be replayed on top. In order. */
    const struct event *pending;
    size_t pending_count;
};

/* The answer that an idempotency key repeats. */
struct state_key {
    uint64_t low; /* 128-bit hash of id and key: key_hash() */
    uint64_t high;
    uint64_t fingerprint;
    bool changed;
    struct slice held; /* kind's name; size 0 = none */
    struct number value;
    int64_t time_ms;
};

#endif
