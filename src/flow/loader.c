#include "flow/loader.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/bell.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/message.h"

#define TELL_ROWS     5000u /* at once: somebody may come to want something */
#define TELL_AGAIN_MS 1000u
#define TELL_AT_LEAST 64u /* a piece for so many wants: those who want never end */
#define NOTHING_TO_DO UINT64_MAX
#define MANY          64u /* asked of a store at once, if it can: four loaders have enough under way */
#define NAMES_BYTES   ((size_t)HOT_NAMES_MAX * (LIMIT_USER_BYTES + 8))

enum telling { TELL_IDS, TELL_USERS, TELL_KEYS, TOLD_ALL };

/* A want on its way, and whether the store's answer was handed in. */
struct errand {
    struct loader *loader;
    struct hot_want want;
    bool is_done;
};

struct loader {
    struct loader_options options;
    struct errand *errands; /* owned; under way */
    size_t errand_max;
    size_t unanswered;           /* of those that are asked for together */
    struct store_reader *reader; /* owned; NULL = not open */
    enum telling telling;
    uint64_t cursor;
    uint64_t told;
    bool has_unnamed;    /* a wrong row was handed in, and could not be named */
    uint32_t served;     /* wants since the last piece of the telling */
    struct buffer names; /* of a want */
    struct slice *found_names;

    _Atomic uint64_t loads;
    _Atomic uint64_t load_ns;
    pthread_t thread;
    bool runs;
    atomic_bool stop;
    struct bell bell;
};

struct loader *loader_new(const struct loader_options *options)
{
    assert(options && options->env && options->hot && options->store);

    struct loader *loader = memory_take_zeroed(sizeof(*loader));
    loader->options = *options;
    loader->errand_max = store_loads_many(options->store) ? MANY : 1;
    loader->errands = memory_take(loader->errand_max * sizeof(*loader->errands));
    buffer_init(&loader->names, NAMES_BYTES);
    loader->found_names = memory_take(HOT_NAMES_MAX * sizeof(*loader->found_names));
    bell_init(&loader->bell);
    return loader;
}

void loader_free(struct loader *loader)
{
    if (!loader)
        return;
    assert(!loader->runs);
    store_reader_close(loader->reader);
    buffer_done(&loader->names);
    free(loader->found_names);
    free(loader->errands);
    bell_done(&loader->bell);
    free(loader);
}

static enum err open_reader(struct loader *loader, struct error *error)
{
    return loader->reader ? ERR_OK
                          : store_reader_open(loader->options.store, &loader->reader, error);
}

/* --- one want --- */

/* With how far the store was in the moment that it speaks of. Those that were asked for together
 * go in together, too. */
static void hand_in(struct errand *errand, const struct hot_found *found)
{
    struct loader *loader = errand->loader;
    struct hot_found dated = *found;
    uint64_t sequences[LIMIT_CELLS];
    int64_t times_ms[LIMIT_CELLS];
    if (loader->reader && store_seen(loader->reader, sequences))
        dated.sequences = sequences;
    if (loader->reader && store_seen_ms(loader->reader, times_ms))
        dated.times_ms = times_ms;
    if (loader->unanswered > 0)
        dated.more = --loader->unanswered > 0;
    hot_loaded(loader->options.hot, &errand->want, &dated);
    errand->is_done = true;
}

/* Is it to be put right before anybody counts on it? */
static bool is_refused(struct errand *errand, const struct state_target *target)
{
    struct loader *loader = errand->loader;
    if (!target->is_wrong || !loader->options.suspects)
        return false;
    if (suspects_queue_report(loader->options.suspects, target->id))
        return loader->runs;
    if (!loader->runs && !suspects_queue_has(loader->options.suspects, target->id))
        loader->has_unnamed = true;
    return loader->runs;
}

static void give_target(void *arg, const struct state_target *target)
{
    if (is_refused(arg, target)) {
        hand_in(arg, &(struct hot_found){.code = ERR_CORRUPT});
        return;
    }
    hand_in(arg,
            &(struct hot_found){.code = target->absent ? ERR_NOT_FOUND : ERR_OK, .target = target});
}

static void give_slice(void *arg, const struct state_members *members, size_t count,
                       const struct event *pending, size_t pending_count)
{
    hand_in(arg, &(struct hot_found){.code = ERR_OK,
                                     .members = members,
                                     .member_count = count,
                                     .pending = pending,
                                     .pending_count = pending_count});
}

static void give_key(void *arg, const struct state_key *key)
{
    hand_in(arg, &(struct hot_found){.code = ERR_OK, .key = key});
}

/* Names come in any order and live during the call only; numbers are ascending. */
static void keep_name(void *arg, uint32_t number, struct slice name)
{
    struct errand *errand = arg;
    struct loader *loader = errand->loader;
    size_t low = 0;
    size_t high = errand->want.number_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (errand->want.numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == errand->want.number_count || errand->want.numbers[low] != number)
        return;
    const char *at = loader->names.data + loader->names.size;
    if (!buffer_append_slice(&loader->names, name))
        loader->found_names[low] = (struct slice){at, name.size};
}

static enum err find_names(struct errand *errand, struct error *error)
{
    struct loader *loader = errand->loader;
    const struct hot_want *want = &errand->want;
    assert(want->number_count <= HOT_NAMES_MAX);
    loader->names.size = 0;
    enum err err = buffer_reserve(&loader->names, want->number_count * LIMIT_USER_BYTES);
    if (err)
        return error_set(error, err, "no memory for the names of users");
    memset(loader->found_names, 0, want->number_count * sizeof(*loader->found_names));
    err = store_names(loader->reader, want->numbers, want->number_count, keep_name, errand, error);
    if (!err)
        hand_in(errand, &(struct hot_found){.code = ERR_OK, .names = loader->found_names});
    return err;
}

static enum err find_user(struct errand *errand, struct error *error)
{
    uint32_t number;
    enum err err = store_find_user(errand->loader->reader, errand->want.id, &number, error);
    if (!err)
        hand_in(errand, &(struct hot_found){.code = ERR_OK, .user_number = number});
    return err;
}

static enum err load_slice(struct errand *errand, struct error *error)
{
    struct loader *loader = errand->loader;
    const struct hot_want *want = &errand->want;
    enum err err =
        store_load_slice(loader->reader, want->id, want->slice, give_slice, errand, error);
    if (err == ERR_CORRUPT && loader->runs && loader->options.suspects)
        (void)suspects_queue_report(loader->options.suspects, want->id);
    return err;
}

static enum err ask_store(struct errand *errand, struct error *error)
{
    struct store_reader *reader = errand->loader->reader;
    const struct hot_want *want = &errand->want;
    switch (want->kind) {
    case HOT_WANT_TARGET:
        return store_load(reader, want->id, give_target, errand, error);
    case HOT_WANT_SLICE:
        return load_slice(errand, error);
    case HOT_WANT_USER:
        return find_user(errand, error);
    case HOT_WANT_KEY:
        return store_find_key(reader, want->key_low, want->key_high, give_key, errand, error);
    case HOT_WANT_NAMES:
        return find_names(errand, error);
    }
    abort(); /* a kind of want that nobody has told us of */
}

/* Always hands something in: ops wait for it. */
static enum err answer_one(struct errand *errand, struct error *error)
{
    enum err err = open_reader(errand->loader, error);
    if (!err)
        err = ask_store(errand, error);
    if (!errand->is_done)
        hand_in(errand, &(struct hot_found){.code = err ? err : ERR_NOT_FOUND});
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* --- many wants --- */

struct together {
    struct errand *errands[MANY];
    struct slice ids[MANY];
    size_t count;
};

static void give_one_of_many(void *arg, size_t place, const struct state_target *target)
{
    struct together *together = arg;
    if (target)
        give_target(together->errands[place], target);
    else
        hand_in(together->errands[place], &(struct hot_found){.code = ERR_NOT_FOUND});
}

/* An outage is that of all; anything else may be the fault of one, and the others do not suffer
 * from it. */
static enum err answer_together(struct loader *loader, struct together *together,
                                struct error *error)
{
    loader->unanswered = together->count;
    enum err err = open_reader(loader, error);
    if (!err)
        err = store_load_many(loader->reader, together->ids, together->count, give_one_of_many,
                              together, error);
    enum err last = err;
    for (size_t i = 0; i < together->count; i++) {
        struct errand *errand = together->errands[i];
        if (errand->is_done)
            continue;
        if (last == ERR_UNAVAILABLE)
            hand_in(errand, &(struct hot_found){.code = last});
        else
            last = answer_one(errand, NULL);
    }
    assert(loader->unanswered == 0);
    return err;
}

static enum err answer_all(struct loader *loader, size_t count, struct error *error)
{
    struct together together = {.count = 0};
    enum err first = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        struct errand *errand = &loader->errands[i];
        if (errand->want.kind == HOT_WANT_TARGET && count > 1) {
            together.ids[together.count] = errand->want.id;
            together.errands[together.count++] = errand;
            continue;
        }
        enum err err = answer_one(errand, first ? NULL : error);
        first = first ? first : err;
    }
    if (together.count == 0)
        return first;
    enum err err = answer_together(loader, &together, first ? NULL : error);
    return first ? first : err;
}

/* Takes as many wants as there are, up to a limit, and answers them. Says how many: 0 = nothing is
 * wanted. */
static size_t serve_some(struct loader *loader, enum err *ret_err, struct error *error)
{
    size_t count = 0;
    while (count < loader->errand_max &&
           hot_wanted(loader->options.hot, &loader->errands[count].want)) {
        loader->errands[count].loader = loader;
        loader->errands[count++].is_done = false;
    }
    if (count == 0)
        return 0;
    uint64_t started_ns = env_monotonic_ns(loader->options.env);
    *ret_err = answer_all(loader, count, error);
    uint64_t taken_ns = env_monotonic_ns(loader->options.env) - started_ns;
    atomic_fetch_add_explicit(&loader->loads, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->load_ns, taken_ns * count, memory_order_relaxed);
    return count;
}

enum err loader_serve(struct loader *loader, struct error *error)
{
    assert(loader);

    enum err first = ERR_OK;
    enum err err = ERR_OK;
    while (serve_some(loader, &err, first ? NULL : error) > 0)
        first = first ? first : err;
    if (first || !loader->has_unnamed)
        return first;
    return error_set(error, ERR_CORRUPT,
                     "more than %u rows of the store are not what was written there: move it away "
                     "and it is made anew from the log, or bring back a copy",
                     SUSPECTS_MAX);
}

/* --- telling --- */

static void tell_id(void *arg, uint64_t stable_hash)
{
    struct loader *loader = arg;
    hot_tell(loader->options.hot, HOT_WANT_TARGET, stable_hash);
    loader->told++;
}

static void tell_user(void *arg, uint64_t stable_hash)
{
    struct loader *loader = arg;
    hot_tell(loader->options.hot, HOT_WANT_USER, stable_hash);
    loader->told++;
}

static void tell_key(void *arg, const struct state_key *key)
{
    struct loader *loader = arg;
    struct hot_want want = {.kind = HOT_WANT_KEY, .key_low = key->low, .key_high = key->high};
    hot_loaded(loader->options.hot, &want,
               &(struct hot_found){.code = ERR_OK, .key = key, .unasked = true});
    loader->told++;
}

static enum err tell_some(struct loader *loader, struct error *error)
{
    struct store_reader *reader = loader->reader;
    switch (loader->telling) {
    case TELL_IDS:
        return store_hashes(reader, false, &loader->cursor, TELL_ROWS, tell_id, loader, error);
    case TELL_USERS:
        return store_hashes(reader, true, &loader->cursor, TELL_ROWS, tell_user, loader, error);
    case TELL_KEYS: {
        int64_t since_ms = env_wall_ms(loader->options.env) - (int64_t)loader->options.keep_keys_ms;
        return store_keys(reader, since_ms, &loader->cursor, TELL_ROWS, tell_key, loader, error);
    }
    case TOLD_ALL:
        break;
    }
    return ERR_OK;
}

static const enum hot_want_kind told_kinds[] = {HOT_WANT_TARGET, HOT_WANT_USER, HOT_WANT_KEY};

void loader_tell_none(struct loader *loader)
{
    assert(loader && !loader->runs && loader->cursor == 0);

    for (; loader->telling < TOLD_ALL; loader->telling++)
        hot_told_all(loader->options.hot, told_kinds[loader->telling]);
}

/* One piece; when that was all of its sort, the next begins. */
static uint64_t tell(struct loader *loader)
{
    assert(loader->telling < TOLD_ALL);
    enum hot_want_kind kind = told_kinds[loader->telling];
    struct error error = {.text = ""};
    enum err err = open_reader(loader, &error);
    if (!err)
        err = tell_some(loader, &error);
    loader->served = 0;
    if (err) {
        loader->cursor = 0;   /* what stands there next may be another file, in another order */
        return TELL_AGAIN_MS; /* the aggregator tells of the outage */
    }
    if (loader->cursor == 0) {
        hot_told_all(loader->options.hot, kind);
        loader->telling++;
        if (loader->telling == TOLD_ALL)
            message_debug("the hot layer knows what the store has rows=%llu",
                          (unsigned long long)loader->told);
    }
    return 0;
}

uint64_t loader_step(struct loader *loader)
{
    assert(loader);

    struct error error;
    enum err err;
    size_t served = serve_some(loader, &err, &error);
    bool is_wanted = served > 0;
    loader->served += (uint32_t)served;
    if (loader->telling == TOLD_ALL)
        return is_wanted ? 0 : NOTHING_TO_DO;
    if (is_wanted && loader->served < TELL_AT_LEAST)
        return 0;
    uint64_t wait_ms = tell(loader);
    return is_wanted ? 0 : wait_ms;
}

/* --- the thread --- */

static void *run_thread(void *arg)
{
    struct loader *loader = arg;
    (void)open_reader(loader, NULL); /* so that nobody waits for a connection */
    while (!atomic_load(&loader->stop)) {
        uint64_t wait_ms = loader_step(loader);
        if (wait_ms > 0)
            (void)bell_wait(&loader->bell, wait_ms);
    }
    return NULL;
}

enum err loader_start(struct loader *loader, struct error *error)
{
    assert(loader && !loader->runs);

    atomic_store(&loader->stop, false);
    int errnum = pthread_create(&loader->thread, NULL, run_thread, loader);
    if (errnum != 0)
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the loader");
    loader->runs = true;
    (void)pthread_setname_np(loader->thread, "loader");
    return ERR_OK;
}

void loader_stop(struct loader *loader)
{
    assert(loader);

    if (!loader->runs)
        return;
    atomic_store(&loader->stop, true);
    bell_ring(&loader->bell);
    (void)pthread_join(loader->thread, NULL);
    loader->runs = false;
}

void loader_wake(void *loader)
{
    bell_ring(&((struct loader *)loader)->bell);
}

void loader_stats(struct loader *loader, struct pipeline_stats *stats)
{
    assert(loader && stats);

    stats->cold_loads += atomic_load_explicit(&loader->loads, memory_order_relaxed);
    stats->cold_load_ns_all += atomic_load_explicit(&loader->load_ns, memory_order_relaxed);
}
