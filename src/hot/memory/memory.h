/* memory.h - the embedded hot layer: 64 cells in this process's memory. */
#ifndef HOT_MEMORY_MEMORY_H
#define HOT_MEMORY_MEMORY_H

#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/log.h"

struct memory_hot_options {
    const struct kinds *kinds; /* borrowed */
    struct log *log;           /* borrowed; where changes go */
    unsigned workers;
    unsigned guests;       /* others who run batches: worker numbers behind the workers' */
    uint64_t keys_kept_ms; /* idempotency keys: 24 h */
    uint32_t idle_s;       /* counters without an own setting expire after; 0 = never */
    uint64_t spread_rate;  /* writes a second of one id that make it spread */
    uint64_t retention_ms; /* what is saved and idle for so long is dropped: 10 min; 0 = never */
    uint64_t memory_max;   /* bytes of state that are held at most; 0 = no limit */
};

struct hot *memory_hot_open(struct env *env, const struct memory_hot_options *options);

#endif
