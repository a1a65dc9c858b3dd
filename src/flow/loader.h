/* loader.h - brings from the store what the hot layer lacks.
 *
 * It takes what is wanted (core/hot.h), asks the store, and hands the answer in; the ops
 * that wait are then run again by whoever parked them. When nothing is wanted it tells the hot
 * layer which ids, users and keys the store has, so that what is new is known to be
 * new without asking. It has a thread of its own, or is driven step by step. */
#ifndef FLOW_LOADER_H
#define FLOW_LOADER_H

#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"
#include "core/store.h"
#include "flow/pipeline.h"
#include "flow/suspects.h"

struct loader;

struct loader_options {
    struct env *env; /* all borrowed */
    struct hot *hot;
    struct store *store;
    uint64_t keep_keys_ms;
    /* Rows that are not what was written there are named here, and are not handed in: ERR_CORRUPT.
     * At recovery nobody can put them right yet: they are handed in without a thread, and whoever
     * recovers has them put right before anybody asks for them. NULL: all are handed in. */
    struct suspects_queue *suspects;
};

struct loader *loader_new(const struct loader_options *options);
void loader_free(struct loader *loader);

/* Answers all that is wanted now. The first error of the store, whose code was handed in;
 * ERR_CORRUPT: there are more wrong rows than can be named. Without a thread only: recovery,
 * tests. */
enum err loader_serve(struct loader *loader, struct error *error);

/* The store is known to be empty: there is nothing to tell. Before anything is replayed. */
void loader_tell_none(struct loader *loader);

/* A want, or many at once of a store that can do that, or else a piece of the telling. Returns how
 * many milliseconds to wait until there may be more, unless something is wanted before; 0 = go on.
 * Without a thread only. */
uint64_t loader_step(struct loader *loader);

enum err loader_start(struct loader *loader, struct error *error);
void loader_stop(struct loader *loader);

/* Something is wanted. Any thread; fits hot->want. */
void loader_wake(void *loader);

/* Adds its part. Any thread. */
void loader_stats(struct loader *loader, struct pipeline_stats *stats);

#endif
