/* asker.c - a thread, and a lock that is never held while the store is asked. */
#include "flow/asker.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/bell.h"
#include "base/lock.h"
#include "base/memory.h"

enum wish_state { WISH_NONE, WISH_WANTED, WISH_ASKED, WISH_ANSWERED };

struct epoch_wish {
    enum wish_state state;
    uint64_t above;
    uint64_t given;
    enum err err;
    struct error error;
};

struct asker {
    struct store *store; /* borrowed */
    void (*answered)(void *arg);
    void *arg;

    struct lock lock; /* guards the next ones */
    uint64_t wanted;  /* number of the last question about the mark */
    uint64_t begun;   /* of the last one that the store was asked */
    struct asker_mark mark;
    struct epoch_wish epochs[LIMIT_CELLS];

    bool runs; /* the thread */
    pthread_t thread;
    struct bell bell;
    atomic_bool stop;
};

struct asker *asker_new(struct store *store, void (*answered)(void *arg), void *arg)
{
    assert(store && answered);

    struct asker *asker = memory_take_zeroed(sizeof(*asker));
    asker->store = store;
    asker->answered = answered;
    asker->arg = arg;
    lock_init(&asker->lock);
    bell_init(&asker->bell);
    return asker;
}

void asker_free(struct asker *asker)
{
    if (!asker)
        return;
    assert(!asker->runs);
    bell_done(&asker->bell);
    lock_done(&asker->lock);
    free(asker);
}

/* --- asking --- */

static void ask_for_mark(struct asker *asker)
{
    lock_take(&asker->lock);
    bool is_wanted = asker->wanted > asker->begun;
    asker->begun = asker->wanted;
    struct asker_mark answer = {.number = asker->begun};
    lock_release(&asker->lock);
    if (!is_wanted)
        return;
    answer.is_known = store_mark(asker->store, &answer.mark, NULL) == ERR_OK;
    lock_take(&asker->lock);
    asker->mark = answer;
    lock_release(&asker->lock);
    asker->answered(asker->arg);
}

static void ask_for_epoch(struct asker *asker, unsigned cell)
{
    struct epoch_wish *wish = &asker->epochs[cell];
    lock_take(&asker->lock);
    bool is_wanted = wish->state == WISH_WANTED;
    struct epoch_wish answer = *wish;
    if (is_wanted)
        wish->state = WISH_ASKED;
    lock_release(&asker->lock);
    if (!is_wanted)
        return;
    answer.err = store_epoch(asker->store, cell, answer.above, &answer.given, &answer.error);
    answer.state = WISH_ANSWERED;
    lock_take(&asker->lock);
    *wish = answer;
    lock_release(&asker->lock);
    asker->answered(asker->arg);
}

void asker_step(struct asker *asker)
{
    assert(asker);

    ask_for_mark(asker);
    for (unsigned cell = 0; cell < LIMIT_CELLS && !atomic_load(&asker->stop); cell++)
        ask_for_epoch(asker, cell);
}

/* --- questions and answers --- */

uint64_t asker_want_mark(struct asker *asker)
{
    lock_take(&asker->lock);
    if (asker->wanted == asker->begun) /* else nobody has asked yet, and will after this */
        asker->wanted++;
    uint64_t number = asker->wanted;
    lock_release(&asker->lock);
    bell_ring(&asker->bell);
    return number;
}

bool asker_mark(struct asker *asker, struct asker_mark *last)
{
    lock_take(&asker->lock);
    bool is_newer = asker->mark.number > last->number;
    if (is_newer)
        *last = asker->mark;
    lock_release(&asker->lock);
    return is_newer;
}

void asker_want_epoch(struct asker *asker, unsigned cell, uint64_t above)
{
    assert(cell < LIMIT_CELLS);

    lock_take(&asker->lock);
    assert(asker->epochs[cell].state == WISH_NONE);
    asker->epochs[cell] = (struct epoch_wish){.state = WISH_WANTED, .above = above};
    lock_release(&asker->lock);
    bell_ring(&asker->bell);
}

bool asker_epoch(struct asker *asker, unsigned cell, uint64_t *ret_epoch, enum err *ret_err,
                 struct error *error)
{
    assert(cell < LIMIT_CELLS);

    struct epoch_wish *wish = &asker->epochs[cell];
    lock_take(&asker->lock);
    bool is_there = wish->state == WISH_ANSWERED;
    if (is_there) {
        *ret_epoch = wish->given;
        *ret_err = wish->err;
        if (wish->err)
            *error = wish->error;
        wish->state = WISH_NONE;
    }
    lock_release(&asker->lock);
    return is_there;
}

/* --- the thread --- */

static void *run_thread(void *arg)
{
    struct asker *asker = arg;
    while (!atomic_load(&asker->stop)) {
        asker_step(asker);
        (void)bell_wait(&asker->bell, UINT64_MAX);
    }
    return NULL;
}

enum err asker_start(struct asker *asker, struct error *error)
{
    assert(asker && !asker->runs);

    atomic_store(&asker->stop, false);
    int errnum = pthread_create(&asker->thread, NULL, run_thread, asker);
    if (errnum != 0)
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start who asks the store");
    asker->runs = true;
    (void)pthread_setname_np(asker->thread, "asker");
    return ERR_OK;
}

void asker_stop(struct asker *asker)
{
    assert(asker);

    if (!asker->runs)
        return;
    atomic_store(&asker->stop, true);
    bell_ring(&asker->bell);
    (void)pthread_join(asker->thread, NULL);
    asker->runs = false;
}
