#include "hot/redis/mover.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bell.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "hot/redis/move.h"

#define JOBS_MAX 256u

struct job {
    struct job *next;
    struct mover *mover; /* borrowed */
    enum mover_work work;
    uint32_t shards;
    enum heat_reason reason;
    bool has_entry; /* that is to be told */
    enum err code;
    size_t id_size;
    char id[LIMIT_ID_BYTES];
};

struct mover {
    struct layer *layer; /* borrowed, and so are these: the layer may not know them yet */
    struct spreads *spreads;
    pthread_t thread;
    struct bell bell;
    struct lock lock; /* of these */
    struct job *first;
    struct job **last;
    unsigned count;
};

static struct slice job_id(const struct job *job)
{
    return (struct slice){job->id, job->id_size};
}

static struct job *take(struct mover *mover)
{
    lock_take(&mover->lock);
    struct job *job = mover->first;
    if (job) {
        mover->first = job->next;
        if (!mover->first)
            mover->last = &mover->first;
        mover->count--;
    }
    lock_release(&mover->lock);
    return job;
}

static void tell(void *arg)
{
    struct job *job = arg;
    struct spreads *spreads = job->mover->spreads;
    struct slice id = job_id(job);
    struct spread_entry *entry = spread_find(spreads, hash_stable(id), id);
    if (entry && job->has_entry)
        spread_was_moved(entry, job->code);
    free(job);
}

static void work(struct mover *mover, struct job *job)
{
    switch (job->work) {
    case MOVER_RESHARD:
        job->code = move_reshard(mover->layer, job_id(job), job->shards, job->reason);
        break;
    case MOVER_GO_ON:
        job->code = move_go_on(mover->layer, job_id(job));
        break;
    case MOVER_DISSOLVE:
        job->code = dissolve(mover->layer, job_id(job));
        break;
    }
}

static void *run(void *arg)
{
    struct mover *mover = arg;
    pthread_setname_np(pthread_self(), "hot-mover");
    while (!atomic_load(&mover->spreads->is_closing)) {
        struct job *job = take(mover);
        if (!job) {
            bell_wait(&mover->bell, 1000);
            continue;
        }
        work(mover, job);
        if (!layer_post(mover->layer, tell, job))
            free(job);
    }
    return NULL;
}

struct mover *mover_new(struct spreads *spreads)
{
    struct mover *mover = memory_take_zeroed(sizeof(*mover));
    mover->layer = spreads->layer;
    mover->spreads = spreads;
    mover->last = &mover->first;
    lock_init(&mover->lock);
    bell_init(&mover->bell);
    if (pthread_create(&mover->thread, NULL, run, mover) != 0)
        abort();
    return mover;
}

void mover_free(struct mover *mover)
{
    assert(atomic_load(&mover->spreads->is_closing));

    bell_ring(&mover->bell);
    pthread_join(mover->thread, NULL);
    for (struct job *job = take(mover); job; job = take(mover))
        free(job);
    bell_done(&mover->bell);
    lock_done(&mover->lock);
    free(mover);
}

static bool ask_for(struct mover *mover, struct job job, struct slice id)
{
    assert(id.size <= LIMIT_ID_BYTES);

    struct job *copy = memory_take(sizeof(*copy));
    *copy = job;
    copy->mover = mover;
    copy->id_size = id.size;
    memcpy(copy->id, id.data, id.size);
    lock_take(&mover->lock);
    bool has_room = mover->count < JOBS_MAX;
    if (has_room) {
        *mover->last = copy;
        mover->last = &copy->next;
        mover->count++;
    }
    lock_release(&mover->lock);
    if (has_room)
        bell_ring(&mover->bell);
    else
        free(copy);
    return has_room;
}

bool mover_ask(struct mover *mover, struct spread_entry *entry, enum mover_work work_to_do,
               uint32_t shards, enum heat_reason reason)
{
    struct job job = {.work = work_to_do, .shards = shards, .reason = reason, .has_entry = true};
    return ask_for(mover, job, entry->id);
}

bool mover_ask_id(struct mover *mover, struct slice id, uint32_t shards, enum heat_reason reason)
{
    struct job job = {.work = MOVER_RESHARD, .shards = shards, .reason = reason};
    return ask_for(mover, job, id);
}
