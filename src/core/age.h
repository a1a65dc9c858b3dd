/* age.h - how old the answer to a read is, and what it lacks.
 *
 * A value that comes from where counts live has no age. One that the store answers for, or that
 * lacks shards which could not be asked, says up to when it is known to be true. Pure. */
#ifndef CORE_AGE_H
#define CORE_AGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/op.h"

struct age {
    bool stale;              /* of the store, since the hot layer cannot be asked */
    unsigned shards_missing; /* of the one that lacks most */
    int64_t as_of_ms;        /* of the oldest; 0 = of now */
};

static inline struct age age_of(const struct op *op)
{
    return (struct age){op->stale, op->shards_missing, op->as_of_ms};
}

/* May it lack something that was acknowledged? */
static inline bool age_is_behind(const struct age *age)
{
    return age->stale || age->shards_missing > 0;
}

/* The age of many things is that of the oldest. */
static inline void age_add(struct age *all, const struct age *one)
{
    all->stale |= one->stale;
    if (one->shards_missing > all->shards_missing)
        all->shards_missing = one->shards_missing;
    if (one->as_of_ms != 0 && (all->as_of_ms == 0 || one->as_of_ms < all->as_of_ms))
        all->as_of_ms = one->as_of_ms;
}

#endif
