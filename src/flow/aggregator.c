#include "flow/aggregator.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bell.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"
#include "flow/coalesce.h"
#include "flow/trim.h"

#define BATCH_EVENTS_MAX  250000u
#define BATCH_EVENTS_MIN  10000u
#define BATCH_NS          2e9
#define BATCH_BYTES_MAX   ((uint64_t)32 << 20)
#define FOLLOW_BYTES      ((uint64_t)1 << 20) /* of the log at once */
#define POLL_MS           20u                 /* a look at the log's end costs next to nothing */
#define DUE_EVERY_MS      250u                /* a look for units to try again */
#define THIN_EVERY_MS     10000u
#define THIN_ROWS         5000u
#define TRIM_EVERY_MS     5000u
#define REST_AFTER_MS     2000u /* nothing to do for so long: a quiet moment */
#define LAG_SEGMENTS      256u
#define USUAL_EVENT_BYTES 64.0
#define MS_NS             1000000u

/* What somebody wants to be done by the writer; on the asker's stack. */
struct ask {
    aggregator_ask_fn *run;
    void *arg;
    bool is_done;
    struct ask *next;
};

struct aggregator {
    struct aggregator_options options;
    struct coalesce *gathered;
    struct coalesce *again; /* for retries */
    struct buffer raw;      /* of the unit that is tried again */
    struct state_mark mark; /* of the store */
    struct log_position at; /* how far we have read */
    struct trim *trim;

    uint64_t batch_limit; /* events: what the store takes in about BATCH_NS */
    uint64_t gathered_ns; /* when the first of the batch came; meaningless while empty */
    bool is_stopping;
    bool must_look;    /* how far is the store? something went wrong */
    uint32_t failures; /* in a row */
    uint64_t try_ns;   /* paused until then */
    uint64_t due_ns;   /* next looks */
    uint64_t thin_ns;
    uint64_t trim_ns;
    uint64_t busy_ns; /* when something was last done */
    bool has_rested;

    struct lock lock; /* guards what follows */
    struct pipeline_stats stats;
    struct state_mark published;
    struct log_position read;  /* everything up to here is in the store, or is nothing to it */
    struct log_position hurry; /* somebody waits for this */
    struct {
        struct log_position at;
        uint64_t events; /* gathered */
        uint64_t bytes;
        int64_t oldest_ms;  /* of them; 0 = none */
        int64_t applied_ms; /* time of the last event that is in the store; 0 = not known */
        uint64_t all_bytes; /* applied since start */
    } seen;

    pthread_mutex_t asks_mutex;
    pthread_cond_t asks_done;
    struct ask *asks; /* oldest first */
    bool runs;        /* the thread */
    pthread_t thread;
    struct bell bell;
    atomic_uint trim_holds;
    atomic_bool stop;
    _Atomic uint64_t stop_ns; /* not later than this */
};

static uint64_t now_ns_of(const struct aggregator *a)
{
    return env_monotonic_ns(a->options.env);
}

static int64_t now_ms_of(const struct aggregator *a)
{
    return env_wall_ms(a->options.env);
}

/* --- life --- */

struct aggregator *aggregator_new(const struct aggregator_options *options,
                                  const struct state_mark *mark)
{
    assert(options && mark);
    assert(options->env && options->log && options->store && options->kinds);

    struct aggregator *a = memory_take_zeroed(sizeof(*a));
    a->options = *options;
    if (a->options.batch_events_max == 0)
        a->options.batch_events_max = BATCH_EVENTS_MAX;
    if (a->options.batch_bytes_max == 0)
        a->options.batch_bytes_max = BATCH_BYTES_MAX;
    a->batch_limit = a->options.batch_events_max;
    a->gathered = coalesce_new(options->env, options->kinds);
    a->again = coalesce_new(options->env, options->kinds);
    buffer_init(&a->raw, (size_t)1 << 30); /* the largest value of SQLite */
    a->mark = *mark;
    a->at = mark->position;
    a->published = *mark;
    a->seen.at = mark->position;
    a->read = mark->position;
    coalesce_begin(a->gathered, mark);
    a->trim = trim_new(options->env, options->log, options->store, options->kinds,
                       &(struct trim_rule){options->log_keep_ms, options->log_keep_bytes});
    uint64_t now_ns = now_ns_of(a);
    a->busy_ns = now_ns;
    a->thin_ns = now_ns;
    a->trim_ns = now_ns;
    a->stats.runs = true;
    lock_init(&a->lock);
    pthread_mutex_init(&a->asks_mutex, NULL);
    pthread_cond_init(&a->asks_done, NULL);
    bell_init(&a->bell);
    return a;
}

void aggregator_free(struct aggregator *aggregator)
{
    if (!aggregator)
        return;
    assert(!aggregator->runs);
    coalesce_free(aggregator->gathered);
    coalesce_free(aggregator->again);
    buffer_done(&aggregator->raw);
    trim_free(aggregator->trim);
    bell_done(&aggregator->bell);
    pthread_cond_destroy(&aggregator->asks_done);
    pthread_mutex_destroy(&aggregator->asks_mutex);
    lock_done(&aggregator->lock);
    free(aggregator);
}

/* --- outages --- */

static void pause_for(struct aggregator *a, const struct error *error)
{
    a->failures++;
    uint32_t step = a->failures < LIFECYCLE_RETRIES ? a->failures : LIFECYCLE_RETRIES;
    a->try_ns = now_ns_of(a) + (uint64_t)lifecycle_delay_ms(step) * MS_NS;
    a->must_look = true;
    bool is_first = a->failures == 1;
    lock_take(&a->lock);
    a->stats.paused = true;
    (void)snprintf(a->stats.reason, sizeof(a->stats.reason), "%.199s", error->text);
    if (is_first) {
        a->stats.outages++;
        a->stats.paused_since_ms = now_ms_of(a);
    }
    lock_release(&a->lock);
    if (is_first)
        message_warning("the store does not answer: reads and writes go on, and what is new waits "
                        "in the log reason=\"%s\"",
                        error->text);
}

static void note_answer(struct aggregator *a)
{
    if (a->failures == 0)
        return;
    a->failures = 0;
    lock_take(&a->lock);
    int64_t since_ms = a->stats.paused_since_ms;
    a->stats.paused = false;
    a->stats.reason[0] = '\0';
    a->stats.paused_since_ms = 0;
    lock_release(&a->lock);
    message_info("the store answers again seconds=%.1f",
                 (double)(now_ms_of(a) - since_ms) / 1000.0);
}

static bool is_paused(const struct aggregator *a, uint64_t now_ns)
{
    return a->failures > 0 && now_ns < a->try_ns;
}

/* --- gathering --- */

static bool same_place(struct log_position a, struct log_position b)
{
    return a.segment == b.segment && a.offset == b.offset;
}

static bool is_before(struct log_position a, struct log_position b)
{
    return a.segment < b.segment || (a.segment == b.segment && a.offset < b.offset);
}

static enum err gather_section(void *arg, struct slice section, struct log_position next,
                               struct error *error)
{
    (void)error;
    coalesce_take(arg, section, next);
    return ERR_OK;
}

static bool is_enough(const struct aggregator *a)
{
    return coalesce_events(a->gathered) >= a->batch_limit ||
           coalesce_bytes(a->gathered) >= a->options.batch_bytes_max;
}

/* As much as is there, up to the bound of a batch. */
static enum err gather(struct aggregator *a, struct error *error)
{
    bool was_empty = coalesce_is_empty(a->gathered);
    while (!is_enough(a)) {
        struct log_position before = a->at;
        enum err err =
            log_follow(a->options.log, &a->at, FOLLOW_BYTES, gather_section, a->gathered, error);
        if (err)
            return err;
        if (same_place(before, a->at))
            break;
    }
    if (was_empty)
        a->gathered_ns = now_ns_of(a);
    return ERR_OK;
}

/* Goes on from where the store says that it is. */
static void go_on_from(struct aggregator *a, const struct state_mark *mark)
{
    bool is_further = is_before(a->mark.position, mark->position);
    a->mark = *mark;
    a->at = mark->position;
    coalesce_begin(a->gathered, mark);
    lock_take(&a->lock);
    a->published = *mark;
    a->read = mark->position;
    lock_release(&a->lock);
    if (is_further && a->options.hot)
        hot_saved(a->options.hot, mark->sequences);
}

/* Does the log still hold what such a store lacks? One that was put there in the place of another
 * may be empty, while the beginning of the log was trimmed. */
static enum err check_log(struct aggregator *a, struct log_position mark, struct error *error)
{
    struct log_segment first;
    if (log_segments(a->options.log, &first, 1) == 0 || first.number <= 1 ||
        first.number <= mark.segment)
        return ERR_OK;
    return error_set(error, ERR_UNAVAILABLE,
                     "the log begins with segment %" PRIu64 ", and the store that stands there now "
                     "has only what is before segment %" PRIu64 ": bring back its newest copy",
                     first.number, mark.segment > 0 ? mark.segment : 1);
}

/* After a failure nobody knows whether the last transaction was done: the store does. */
static enum err look_at_mark(struct aggregator *a, struct error *error)
{
    struct state_mark mark;
    enum err err = store_mark(a->options.store, &mark, error);
    if (!err)
        err = check_log(a, mark.position, error);
    if (err)
        return err;
    if (!same_place(mark.position, a->mark.position))
        go_on_from(a, &mark);
    a->must_look = false;
    return ERR_OK;
}

/* --- flushing --- */

static void count_refusals(struct aggregator *a, const struct store_batch *batch)
{
    uint64_t refused = 0;
    const struct store_unit *first = NULL;
    for (size_t i = 0; i < batch->unit_count; i++) {
        if (batch->units[i].code != ERR_REFUSED)
            continue;
        first = first ? first : &batch->units[i];
        refused++;
    }
    if (batch->poison_count > 0)
        message_error("the log holds bytes that make no sense: they are dead letters now "
                      "count=%zu segment=%" PRIu64 " offset=%" PRIu64 " reason=\"%s\"",
                      batch->poison_count, batch->poison[0].position.segment,
                      batch->poison[0].position.offset, batch->poison[0].reason);
    if (refused == 0 && batch->poison_count == 0)
        return;
    if (refused > 0) {
        char id[128];
        message_warning("the store has refused units: they will be tried again count=%" PRIu64
                        " id=%s reason=\"%s\"",
                        refused, message_quote(id, sizeof(id), first->id), first->reason);
    }
    lock_take(&a->lock);
    a->stats.refused += refused;
    a->stats.failed += batch->poison_count;
    lock_release(&a->lock);
}

/* Large batches are cheaper for each event, but others wait for the writer meanwhile. */
static void set_limit(struct aggregator *a, uint64_t events, uint64_t duration_ns)
{
    uint64_t max = a->options.batch_events_max;
    uint64_t limit = (uint64_t)((double)events * BATCH_NS / (double)(duration_ns + 1));
    if (events < a->options.flush_events)
        return; /* too few to learn from */
    if (limit < BATCH_EVENTS_MIN)
        limit = BATCH_EVENTS_MIN;
    a->batch_limit = limit < max ? limit : max;
}

static void note_flush(struct aggregator *a, uint64_t events, uint64_t duration_ns)
{
    set_limit(a, events, duration_ns);
    lock_take(&a->lock);
    a->seen.applied_ms = coalesce_last_ms(a->gathered);
    a->seen.all_bytes += coalesce_bytes(a->gathered);
    a->published = a->mark;
    a->stats.events += events;
    a->stats.batches++;
    a->stats.batch_events = events;
    a->stats.flush_ns = duration_ns;
    a->stats.flush_ns_all += duration_ns;
    lock_release(&a->lock);
}

static enum err flush(struct aggregator *a, struct error *error)
{
    uint64_t started_ns = now_ns_of(a);
    uint64_t events = coalesce_events(a->gathered);
    struct store_batch *batch = coalesce_finish(a->gathered, a->at, now_ms_of(a));
    enum err err = store_apply(a->options.store, batch, error);
    if (err == ERR_INVALID) {
        message_warning("the store is not where it was left: going on from where it is "
                        "reason=\"%s\"",
                        error->text);
        return look_at_mark(a, error);
    }
    if (err)
        return err;

    count_refusals(a, batch);
    a->mark = batch->after;
    note_flush(a, events, now_ns_of(a) - started_ns);
    if (a->options.hot)
        hot_saved(a->options.hot, a->mark.sequences);
    coalesce_begin(a->gathered, &a->mark);
    return ERR_OK;
}

static bool is_hurried(struct aggregator *a)
{
    lock_take(&a->lock);
    bool is_hurried = is_before(a->mark.position, a->hurry);
    lock_release(&a->lock);
    return is_hurried;
}

static bool must_flush(struct aggregator *a, uint64_t now_ns)
{
    if (coalesce_is_empty(a->gathered))
        return false;
    return a->is_stopping || is_hurried(a) ||
           coalesce_events(a->gathered) >= a->options.flush_events || is_enough(a) ||
           now_ns - a->gathered_ns >= a->options.flush_interval_ms * (uint64_t)MS_NS;
}

/* --- what waits in the store --- */

struct waiting {
    struct aggregator *a;
    unsigned char event_id[STORE_EVENT_ID_BYTES];
};

static void keep_letter(void *arg, const struct store_letter *letter)
{
    struct waiting *waiting = arg;
    memcpy(waiting->event_id, letter->event_id, sizeof(waiting->event_id));
    waiting->a->raw.size = 0;
    (void)buffer_append_slice(&waiting->a->raw, letter->raw);
}

/* Tries the unit that is due, if one is. */
static enum err retry_one(struct aggregator *a, bool *ret_did, struct error *error)
{
    struct waiting waiting = {.a = a};
    *ret_did = false;
    enum err err = store_due(a->options.store, now_ms_of(a), keep_letter, &waiting, error);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;

    struct store_unit *unit;
    struct error cause = {.text = ""};
    err = coalesce_raw_unit(a->again, buffer_slice(&a->raw), waiting.event_id, &unit, &cause);
    if (err)
        return error_set(error, err, "a unit that waits cannot be read: %.180s", cause.text);
    err = store_retry(a->options.store, unit, now_ms_of(a), error);
    if (err == ERR_NOT_FOUND || err == ERR_BUSY)
        return ERR_OK; /* somebody has dealt with it; we'll look again */
    if (err)
        return err;
    *ret_did = true;

    char id[128];
    message_quote(id, sizeof(id), unit->id);
    if (unit->code == ERR_OK)
        message_info("a unit that was refused is applied now id=%s", id);
    if (unit->code == ERR_DENIED) {
        message_error("the store has refused a unit for the last time: it is a dead letter now "
                      "id=%s reason=\"%s\"",
                      id, unit->reason);
        lock_take(&a->lock);
        a->stats.failed++;
        lock_release(&a->lock);
    }
    return ERR_OK;
}

/* --- in the background --- */

static int64_t before(int64_t now_ms, uint64_t keep_ms)
{
    return keep_ms == 0 ? 0 : now_ms - (int64_t)keep_ms;
}

static enum err thin(struct aggregator *a, bool *ret_did, struct error *error)
{
    const struct aggregator_options *options = &a->options;
    int64_t now_ms = now_ms_of(a);
    uint64_t removed = 0;
    enum err err = store_thin(options->store, before(now_ms, options->keep_events_ms),
                              before(now_ms, options->keep_history_ms),
                              before(now_ms, options->keep_keys_ms), THIN_ROWS, &removed, error);
    *ret_did = removed > 0;
    return err;
}

static enum err trim(struct aggregator *a, bool *ret_did, struct error *error)
{
    uint64_t bytes = 0;
    *ret_did = false;
    if (atomic_load(&a->trim_holds) > 0)
        return ERR_OK;
    enum err err = trim_step(a->trim, a->mark.position, &bytes, error);
    *ret_did = bytes > 0;
    lock_take(&a->lock);
    a->stats.trimmed_bytes += bytes;
    lock_release(&a->lock);
    return err;
}

typedef enum err chore_fn(struct aggregator *a, bool *ret_did, struct error *error);

/* A chore whose time has come; it comes again at once as long as it finds something to do. */
static enum err run_chore(struct aggregator *a, chore_fn *chore, uint64_t *next_ns,
                          uint64_t every_ms, bool *did, struct error *error)
{
    uint64_t now_ns = now_ns_of(a);
    if (now_ns < *next_ns)
        return ERR_OK;
    bool found = false;
    enum err err = chore(a, &found, error);
    if (!found)
        *next_ns = now_ns + every_ms * MS_NS;
    *did = *did || found;
    return err;
}

static enum err rest(struct aggregator *a, uint64_t now_ns, struct error *error)
{
    if (a->has_rested || now_ns - a->busy_ns < (uint64_t)REST_AFTER_MS * MS_NS)
        return ERR_OK;
    a->has_rested = true;
    return store_rest(a->options.store, error);
}

/* --- asking --- */

static void serve_asks(struct aggregator *a)
{
    pthread_mutex_lock(&a->asks_mutex);
    while (a->asks) {
        struct ask *ask = a->asks;
        a->asks = ask->next;
        pthread_mutex_unlock(&a->asks_mutex);
        ask->run(ask->arg, a->options.store);
        a->must_look = true; /* a reload of the mark is cheap, and it may have moved */
        pthread_mutex_lock(&a->asks_mutex);
        ask->is_done = true;
        pthread_cond_broadcast(&a->asks_done);
    }
    pthread_mutex_unlock(&a->asks_mutex);
}

void aggregator_ask(struct aggregator *aggregator, aggregator_ask_fn *run, void *arg)
{
    assert(aggregator && run);

    struct ask ask = {.run = run, .arg = arg};
    pthread_mutex_lock(&aggregator->asks_mutex);
    if (!aggregator->runs) {
        run(arg, aggregator->options.store);
        pthread_mutex_unlock(&aggregator->asks_mutex);
        return;
    }
    struct ask **end = &aggregator->asks;
    while (*end)
        end = &(*end)->next;
    *end = &ask;
    bell_ring(&aggregator->bell);
    while (!ask.is_done)
        pthread_cond_wait(&aggregator->asks_done, &aggregator->asks_mutex);
    pthread_mutex_unlock(&aggregator->asks_mutex);
}

static void do_nothing(void *arg, struct store *store)
{
    (void)arg;
    (void)store;
}

void aggregator_hold_trim(struct aggregator *aggregator)
{
    assert(aggregator);

    atomic_fetch_add(&aggregator->trim_holds, 1);
    if (aggregator->options.log_keep_ms > 0 || aggregator->options.log_keep_bytes > 0)
        aggregator_ask(aggregator, do_nothing, NULL); /* what was under way is done then */
}

void aggregator_release_trim(struct aggregator *aggregator)
{
    assert(aggregator);

    unsigned before = atomic_fetch_sub(&aggregator->trim_holds, 1);
    assert(before > 0);
    (void)before;
}

/* --- steps --- */

/* What there is to do, the most urgent first. */
static enum err work(struct aggregator *a, bool *did, struct error *error)
{
    enum err err = ERR_OK;
    if (a->must_look)
        err = look_at_mark(a, error);
    if (!err)
        err = gather(a, error);
    if (!err && must_flush(a, now_ns_of(a))) {
        err = flush(a, error);
        *did = !err;
    }
    if (!err)
        err = run_chore(a, retry_one, &a->due_ns, DUE_EVERY_MS, did, error);
    if (!err && !a->is_stopping)
        err = run_chore(a, thin, &a->thin_ns, THIN_EVERY_MS, did, error);
    if (!err && !a->is_stopping)
        err = run_chore(a, trim, &a->trim_ns, TRIM_EVERY_MS, did, error);
    return err;
}

/* What is gathered and how far we have read, for those who ask. */
static void publish(struct aggregator *a)
{
    lock_take(&a->lock);
    if (coalesce_is_empty(a->gathered))
        a->read = a->at;
    a->seen.at = a->at;
    a->seen.events = coalesce_events(a->gathered);
    a->seen.bytes = coalesce_bytes(a->gathered);
    a->seen.oldest_ms = coalesce_oldest_ms(a->gathered);
    lock_release(&a->lock);
}

uint64_t aggregator_step(struct aggregator *aggregator)
{
    assert(aggregator);

    struct aggregator *a = aggregator;
    serve_asks(a);
    uint64_t now_ns = now_ns_of(a);
    if (is_paused(a, now_ns)) {
        publish(a);
        uint64_t left_ms = (a->try_ns - now_ns) / MS_NS + 1;
        return left_ms < POLL_MS ? left_ms : POLL_MS;
    }

    struct error error = {.text = ""};
    bool did = false;
    enum err err = work(a, &did, &error);
    if (did) {
        a->busy_ns = now_ns_of(a);
        a->has_rested = false;
    } else if (!err && !a->is_stopping) {
        err = rest(a, now_ns, &error);
    }
    if (err)
        pause_for(a, &error);
    else
        note_answer(a);
    publish(a);
    return did && !err ? 0 : POLL_MS;
}

static enum err note_section(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    (void)section;
    (void)next;
    (void)error;
    *(bool *)arg = true;
    return ERR_OK;
}

/* The log may end in a segment of which nothing is there yet, and which we do not enter. */
static bool has_read_all(const struct aggregator *a)
{
    struct log_position at = a->at;
    bool has_more = false;
    return same_place(at, log_end(a->options.log)) ||
           (!log_follow(a->options.log, &at, 1, note_section, &has_more, NULL) && !has_more);
}

bool aggregator_flush(struct aggregator *aggregator)
{
    assert(aggregator);

    struct aggregator *a = aggregator;
    bool was_stopping = a->is_stopping;
    a->is_stopping = true;
    do {
        (void)aggregator_step(a);
    } while (a->failures == 0 && (!coalesce_is_empty(a->gathered) || !has_read_all(a)));
    a->is_stopping = was_stopping;
    return a->failures == 0;
}

/* --- the thread --- */

/* Everything that was appended is durable, and all of that is in the store. */
static bool is_all_flushed(struct aggregator *a)
{
    struct log_stats stats;
    log_stats(a->options.log, &stats);
    return stats.pending_bytes == 0 && coalesce_is_empty(a->gathered) && has_read_all(a);
}

static void finish(struct aggregator *a)
{
    a->is_stopping = true;
    while (a->failures == 0 && now_ns_of(a) < atomic_load(&a->stop_ns)) {
        uint64_t wait_ms = aggregator_step(a);
        if (is_all_flushed(a))
            return;
        if (wait_ms > 0)
            (void)bell_wait(&a->bell, 1);
    }
    message_warning("the store is not up to the log: the next start replays the rest");
}

static void *run_thread(void *arg)
{
    struct aggregator *a = arg;
    if (a->options.begin_thread)
        a->options.begin_thread(a->options.begin_arg);
    while (!atomic_load(&a->stop)) {
        uint64_t wait_ms = aggregator_step(a);
        if (wait_ms > 0)
            (void)bell_wait(&a->bell, wait_ms);
    }
    finish(a);
    return NULL;
}

enum err aggregator_start(struct aggregator *aggregator, struct error *error)
{
    assert(aggregator && !aggregator->runs);

    atomic_store(&aggregator->stop, false);
    aggregator->runs = true;
    int errnum = pthread_create(&aggregator->thread, NULL, run_thread, aggregator);
    if (errnum != 0) {
        aggregator->runs = false;
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the aggregator");
    }
    (void)pthread_setname_np(aggregator->thread, "aggregator");
    return ERR_OK;
}

void aggregator_stop(struct aggregator *aggregator, uint64_t within_ms)
{
    assert(aggregator);

    if (!aggregator->runs)
        return;
    atomic_store(&aggregator->stop_ns, now_ns_of(aggregator) + within_ms * MS_NS);
    atomic_store(&aggregator->stop, true);
    bell_ring(&aggregator->bell);
    (void)pthread_join(aggregator->thread, NULL);
    aggregator->runs = false;
    aggregator->is_stopping = false;
}

/* --- what others want to know --- */

bool aggregator_hurry(struct aggregator *aggregator, struct log_position until)
{
    assert(aggregator);

    lock_take(&aggregator->lock);
    bool waits = is_before(aggregator->read, until);
    if (is_before(aggregator->hurry, until))
        aggregator->hurry = until;
    lock_release(&aggregator->lock);
    if (waits)
        bell_ring(&aggregator->bell);
    return waits;
}

void aggregator_mark(struct aggregator *aggregator, struct state_mark *ret_mark)
{
    assert(aggregator && ret_mark);

    lock_take(&aggregator->lock);
    *ret_mark = aggregator->published;
    lock_release(&aggregator->lock);
}

static uint64_t bytes_between(struct aggregator *a, struct log_position from,
                              struct log_position to)
{
    if (from.segment == to.segment)
        return to.offset > from.offset ? to.offset - from.offset : 0;
    struct log_segment segments[LAG_SEGMENTS];
    size_t count = log_segments(a->options.log, segments, LAG_SEGMENTS);
    uint64_t bytes = to.offset;
    for (size_t i = 0; i < count && i < LAG_SEGMENTS; i++)
        if (segments[i].number >= from.segment && segments[i].number < to.segment)
            bytes += segments[i].bytes;
    return bytes > from.offset ? bytes - from.offset : 0;
}

/* What nobody has read yet is counted as if it were like what was. */
static void fill_in_lag(struct aggregator *a, struct pipeline_stats *stats, uint64_t unread)
{
    uint64_t bytes = a->seen.bytes + a->seen.all_bytes;
    uint64_t events = a->seen.events + a->stats.events;
    double events_a_byte = bytes > 0 ? (double)events / (double)bytes : 1.0 / USUAL_EVENT_BYTES;
    stats->lag_bytes = a->seen.bytes + unread;
    stats->lag_events = a->seen.events + (uint64_t)((double)unread * events_a_byte);
    int64_t oldest_ms = a->seen.oldest_ms;
    if (oldest_ms == 0 && stats->lag_events > 0)
        oldest_ms = a->seen.applied_ms;
    int64_t age_ms = oldest_ms > 0 ? now_ms_of(a) - oldest_ms : 0;
    stats->lag_ms = age_ms > 0 ? age_ms : 0;
}

void aggregator_stats(struct aggregator *aggregator, struct pipeline_stats *stats)
{
    assert(aggregator && stats);

    lock_take(&aggregator->lock);
    struct log_position at = aggregator->seen.at;
    lock_release(&aggregator->lock);
    uint64_t unread = bytes_between(aggregator, at, log_end(aggregator->options.log));
    lock_take(&aggregator->lock);
    *stats = aggregator->stats;
    fill_in_lag(aggregator, stats, unread);
    lock_release(&aggregator->lock);
}
