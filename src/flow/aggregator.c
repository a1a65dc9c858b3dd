#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "flow/aggregator_own.h"

#define BATCH_EVENTS_MAX 250000u
#define BATCH_EVENTS_MIN 10000u
#define BATCH_NS         2e9
#define BATCH_BYTES_MAX  ((uint64_t)32 << 20)
#define FOLLOW_BYTES     ((uint64_t)1 << 20)   /* of the log at once */
#define LANE_BYTES       ((uint64_t)256 << 10) /* of one lane at once */
#define SEE_EVERY_MS     1000u /* a look at how far others have brought the store, */
#define SEE_SOON_MS      50u   /* and when somebody waits for them */
#define STUCK_EVERY_MS   1000u
#define POLL_MS          20u /* a look at the log's end costs next to nothing */

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
    a->by_lane = options->log->lanes > 1;
    a->must_look = a->must_begin = a->by_lane;
    lanes_init(&a->lanes, options->log, a->gathered);
    a->trim = trim_new(options->env, options->log, options->store, options->kinds,
                       &(struct trim_rule){options->log_keep_ms, options->log_keep_bytes});
    uint64_t now_ns = now_ns_of(a);
    a->busy_ns = now_ns;
    a->thin_ns = now_ns;
    a->trim_ns = now_ns;
    a->stats.runs = !options->idles;
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

static enum err gather_lanes(struct aggregator *a, struct error *error)
{
    a->has_read = false;
    while (!is_enough(a) && !a->has_read) {
        bool found;
        enum err err = lanes_gather(&a->lanes, LANE_BYTES, &found, error);
        if (err)
            return err;
        a->has_read = !found;
    }
    return ERR_OK;
}

static enum err gather_log(struct aggregator *a, struct error *error)
{
    while (!is_enough(a)) {
        struct log_position before = a->at;
        enum err err =
            log_follow(a->options.log, 0, &a->at, FOLLOW_BYTES, gather_section, a->gathered, error);
        if (err)
            return err;
        if (same_place(before, a->at))
            break;
    }
    return ERR_OK;
}

/* As much as is there, up to the bound of a batch. */
static enum err gather(struct aggregator *a, struct error *error)
{
    bool was_empty = coalesce_is_empty(a->gathered);
    enum err err = a->by_lane ? gather_lanes(a, error) : gather_log(a, error);
    if (err)
        return err;
    if (was_empty)
        a->gathered_ns = now_ns_of(a);
    return ERR_OK;
}

/* Goes on from where the store says that it is. */
static void go_on_from(struct aggregator *a, const struct state_mark *mark)
{
    bool is_further = a->by_lane || log_position_is_before(a->mark.position, mark->position);
    a->mark = *mark;
    a->at = mark->position;
    coalesce_begin(a->gathered, mark);
    if (a->by_lane)
        lanes_begin(&a->lanes, mark);
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
    bool is_elsewhere = a->by_lane ? a->must_begin || lanes_differ(&a->lanes, &a->mark, &mark)
                                   : !same_place(mark.position, a->mark.position);
    if (is_elsewhere)
        go_on_from(a, &mark);
    a->must_look = false;
    a->must_begin = false;
    return ERR_OK;
}

/* Other processes bring other lanes into the store. */
static enum err see_others(struct aggregator *a, struct error *error)
{
    uint64_t now_ns = now_ns_of(a);
    uint64_t every_ms = a->lanes.held ? SEE_SOON_MS : SEE_EVERY_MS;
    if (now_ns < a->see_ns && now_ns + every_ms * MS_NS >= a->see_ns)
        return ERR_OK;
    a->see_ns = now_ns + every_ms * MS_NS;
    struct state_mark mark;
    enum err err = store_mark(a->options.store, &mark, error);
    if (err)
        return err;
    if (lanes_differ(&a->lanes, &a->mark, &mark)) {
        go_on_from(a,
                   &mark); /* a standby that lags behind has taken over, or another has our lane */
        return ERR_OK;
    }
    coalesce_see(a->gathered, &mark, a->lanes.owned);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (a->lanes.owned >> lane & 1)
            mark.sequences[lane] = a->mark.sequences[lane];
        else
            a->mark.times_ms[lane] = mark.times_ms[lane];
        a->mark.sequences[lane] = mark.sequences[lane];
    }
    lock_take(&a->lock);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (!(a->lanes.owned >> lane & 1))
            a->published.lanes[lane] = mark.lanes[lane];
        a->published.times_ms[lane] = a->mark.times_ms[lane];
        a->published.sequences[lane] = mark.sequences[lane];
    }
    lock_release(&a->lock);
    if (a->options.hot)
        hot_saved(a->options.hot, mark.sequences);
    return ERR_OK;
}

/* --- flushing --- */

static void tell_of_poison(struct aggregator *a, const struct store_poison *poison, unsigned lane)
{
    log_dead(a->options.log,
             &(struct log_letter){
                 .lane = lane,
                 .position = poison->position,
                 .event_id = {(const char *)poison->event_id, sizeof(poison->event_id)},
                 .reason = slice_of(poison->reason),
                 .raw = poison->raw,
             });
}

static void count_refusals(struct aggregator *a, const struct store_batch *batch)
{
    for (size_t i = 0; i < batch->poison_count; i++)
        tell_of_poison(a, &batch->poison[i], coalesce_poison_lane(a->gathered, i));
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
    struct state_mark expected = batch->after;
    enum err err = store_apply(a->options.store, batch, error);
    if (err == ERR_INVALID) {
        message_warning("the store is not where it was left: going on from where it is "
                        "reason=\"%s\"",
                        error->text);
        a->must_begin = true;
        return look_at_mark(a, error);
    }
    if (err)
        return err;

    count_refusals(a, batch);
    a->mark = batch->after;
    if (a->by_lane)
        lanes_applied(&a->lanes, batch);
    note_flush(a, events, now_ns_of(a) - started_ns);
    if (a->by_lane && lanes_differ(&a->lanes, &expected, &a->mark)) {
        go_on_from(a, &batch->after); /* it has gone back in lanes that were not in the batch */
        return ERR_OK;
    }
    if (a->options.hot)
        hot_saved(a->options.hot, a->mark.sequences);
    coalesce_begin(a->gathered, &a->mark);
    return ERR_OK;
}

static void tell_of_stuck(struct aggregator *a)
{
    bool is_new = a->stats.lanes_stuck == 0 && a->lanes.stuck != 0 && a->has_missed;
    lock_take(&a->lock);
    a->stats.lanes_stuck = a->has_missed ? (uint64_t)__builtin_popcountll(a->lanes.stuck) : 0;
    (void)snprintf(a->stats.stuck_reason, sizeof(a->stats.stuck_reason), "%.199s",
                   a->stats.lanes_stuck > 0 ? a->lanes.why.text : "");
    lock_release(&a->lock);
    if (is_new)
        message_error("the log does not go on where the store is: nothing is left out, the lane "
                      "waits, and is looked at again and again reason=\"%s\"",
                      a->lanes.why.text);
}

/* Another may have carried over what is missing, and the log has let go of it: the store knows. */
static enum err look_at_stuck(struct aggregator *a, struct error *error)
{
    uint64_t now_ns = now_ns_of(a);
    tell_of_stuck(a);
    if (a->lanes.stuck == 0) {
        a->has_missed = false;
        return ERR_OK;
    }
    if (now_ns < a->stuck_ns)
        return ERR_OK;
    a->stuck_ns = now_ns + (uint64_t)STUCK_EVERY_MS * MS_NS;
    enum err err = coalesce_is_empty(a->gathered) ? ERR_OK : flush(a, error);
    a->has_missed = true; /* unless it is there when we look again */
    a->must_look = a->must_begin = true;
    return err;
}

/* Who owns which lane, how far others are, and what is new. */
static enum err follow_lanes(struct aggregator *a, struct error *error)
{
    if (!a->options.idles && lanes_look(&a->lanes))
        a->must_look = a->must_begin = true;
    enum err err = a->must_look ? look_at_mark(a, error) : ERR_OK;
    if (!err)
        err = see_others(a, error);
    if (!err)
        err = gather(a, error);
    return err ? err : look_at_stuck(a, error);
}

static bool is_hurried(struct aggregator *a)
{
    if (a->by_lane)
        return coalesce_has_epoch(a->gathered) || atomic_exchange(&a->hurry_all, false);
    lock_take(&a->lock);
    bool is_hurried = log_position_is_before(a->mark.position, a->hurry);
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

/* --- steps --- */

/* What there is to do, the most urgent first. */
static enum err work(struct aggregator *a, bool *did, struct error *error)
{
    enum err err = ERR_OK;
    if (a->by_lane) {
        err = follow_lanes(a, error);
    } else {
        if (a->must_look)
            err = look_at_mark(a, error);
        if (!err)
            err = gather(a, error);
    }
    if (!err && must_flush(a, now_ns_of(a))) {
        err = flush(a, error);
        *did = *did || !err;
    }
    if (!err && !a->options.idles)
        err = aggregator_do_chores(a, did, error);
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
    if (a->by_lane) {
        a->seen.owned = a->lanes.owned;
        memcpy(a->seen.lanes, a->lanes.at, sizeof(a->seen.lanes));
        a->stats.lanes = (uint64_t)__builtin_popcountll(a->lanes.owned);
        a->stats.lanes_held = (uint64_t)__builtin_popcountll(a->lanes.held);
    }
    lock_release(&a->lock);
}

uint64_t aggregator_step(struct aggregator *aggregator)
{
    assert(aggregator);

    struct aggregator *a = aggregator;
    aggregator_serve_asks(a);
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
        err = aggregator_rest(a, now_ns, &error);
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
    if (a->by_lane)
        return a->has_read && !a->must_look;
    struct log_position at = a->at;
    bool has_more = false;
    return same_place(at, log_end(a->options.log, 0)) ||
           (!log_follow(a->options.log, 0, &at, 1, note_section, &has_more, NULL) && !has_more);
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

/* What is in the log is somebody else's from now on; what was gathered need not be read twice. */
static void finish_lanes(struct aggregator *a)
{
    struct error error = {.text = ""};
    if (a->failures == 0 && !a->must_look && !coalesce_is_empty(a->gathered) && flush(a, &error))
        message_debug("the last batch was not applied, another will be reason=\"%s\"", error.text);
}

static bool finish(struct aggregator *a)
{
    a->is_stopping = true;
    if (a->by_lane) {
        finish_lanes(a);
        return true;
    }
    while (a->failures == 0 && now_ns_of(a) < atomic_load(&a->stop_ns)) {
        uint64_t wait_ms = aggregator_step(a);
        if (is_all_flushed(a))
            return true;
        if (wait_ms > 0)
            (void)bell_wait(&a->bell, 1);
    }
    message_warning("the store is not up to the log: the next start replays the rest");
    return false;
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
    a->is_flushed = finish(a);
    return NULL;
}

enum err aggregator_start(struct aggregator *aggregator, struct error *error)
{
    assert(aggregator && !aggregator->runs);

    atomic_store(&aggregator->stop, false);
    aggregator->is_flushed = false;
    aggregator->runs = true;
    int errnum = pthread_create(&aggregator->thread, NULL, run_thread, aggregator);
    if (errnum != 0) {
        aggregator->runs = false;
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the aggregator");
    }
    (void)pthread_setname_np(aggregator->thread, "aggregator");
    return ERR_OK;
}

bool aggregator_stop(struct aggregator *aggregator, uint64_t within_ms)
{
    assert(aggregator);

    if (!aggregator->runs)
        return aggregator->is_flushed;
    atomic_store(&aggregator->stop_ns, now_ns_of(aggregator) + within_ms * MS_NS);
    atomic_store(&aggregator->stop, true);
    bell_ring(&aggregator->bell);
    (void)pthread_join(aggregator->thread, NULL);
    aggregator->runs = false;
    aggregator->is_stopping = false;
    return aggregator->is_flushed;
}
