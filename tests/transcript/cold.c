#include "cold.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"

#define IDS_MAX 65536u
#define LOAD_US 300

static const struct hot_ops *inner;
static struct hot_ops outer;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t ids[IDS_MAX]; /* hashes: first those that are there, then those that are wanted */
static size_t there;
static size_t wanted;
static bool stopping;
static pthread_t loader;

static bool is_there(uint64_t hash)
{
    for (size_t i = 0; i < there; i++) {
        if (ids[i] == hash)
            return true;
    }
    for (size_t i = there; i < there + wanted; i++) {
        if (ids[i] == hash)
            return false;
    }
    if (there + wanted == IDS_MAX)
        return true;
    ids[there + wanted++] = hash;
    return false;
}

static void note_done(struct batch *batch)
{
    *(bool *)batch->arg = true;
}

static void run(struct hot *hot, struct batch *batch)
{
    struct op *ops = memory_take_zeroed((batch->count + 1) * sizeof(*ops));
    struct op **places = memory_take_zeroed((batch->count + 1) * sizeof(*places));
    bool is_done = false;
    struct batch sub = *batch;
    sub.ops = ops;
    sub.count = 0;
    sub.done = note_done;
    sub.arg = &is_done;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->ops[i];
        if (!is_there(hash_stable(op->id))) {
            op->code = ERR_COLD;
            continue;
        }
        op->code = ERR_OK;
        places[sub.count] = op;
        ops[sub.count++] = *op;
    }
    pthread_mutex_unlock(&mutex);
    inner->run(hot, &sub);
    if (!is_done)
        abort();
    for (size_t i = 0; i < sub.count; i++)
        *places[i] = ops[i];
    free(ops);
    free(places);
    batch->done(batch);
}

static void *load(void *arg)
{
    struct hot *hot = arg;
    for (;;) {
        usleep(LOAD_US);
        pthread_mutex_lock(&mutex);
        bool stops = stopping;
        bool any = wanted > 0;
        if (any) {
            there++;
            wanted--;
        }
        pthread_mutex_unlock(&mutex);
        if (stops)
            return NULL;
        if (any) {
            atomic_fetch_add(&hot->arrivals, 1);
            hot->arrive(hot->arrive_arg);
        }
    }
}

void cold_begin(struct hot *hot)
{
    there = wanted = 0;
    stopping = false;
    inner = hot->ops;
    outer = *inner;
    outer.run = run;
    hot->ops = &outer;
    pthread_create(&loader, NULL, load, hot);
}

size_t cold_end(struct hot *hot)
{
    pthread_mutex_lock(&mutex);
    stopping = true;
    pthread_mutex_unlock(&mutex);
    pthread_join(loader, NULL);
    hot->ops = inner;
    return there;
}
