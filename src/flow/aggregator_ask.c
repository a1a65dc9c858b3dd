/* aggregator_ask.c - what others want of the aggregator: a turn as the writer, speed, figures. */
#include <assert.h>
#include <string.h>

#include "flow/aggregator_own.h"

#define LAG_SEGMENTS      256u
#define USUAL_EVENT_BYTES 64.0

/* --- asking --- */

void aggregator_serve_asks(struct aggregator *a)
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

/* --- what others want to know --- */

bool aggregator_hurry(struct aggregator *aggregator, struct log_position until)
{
    assert(aggregator);

    lock_take(&aggregator->lock);
    bool waits = log_position_is_before(aggregator->read, until);
    if (log_position_is_before(aggregator->hurry, until))
        aggregator->hurry = until;
    lock_release(&aggregator->lock);
    if (waits)
        bell_ring(&aggregator->bell);
    return waits;
}

void aggregator_hurry_all(struct aggregator *aggregator)
{
    assert(aggregator);

    atomic_store(&aggregator->hurry_all, true);
    bell_ring(&aggregator->bell);
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

/* Where all events come from this process: those that the store does not have. */
static uint64_t events_behind(const struct aggregator *a, const uint64_t sequences[LIMIT_CELLS])
{
    uint64_t events = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (sequences[i] > a->published.sequences[i])
            events += sequences[i] - a->published.sequences[i];
    return events;
}

/* What nobody has read yet is counted as if it were like what was. */
static void fill_in_lag(struct aggregator *a, struct pipeline_stats *stats, uint64_t unread,
                        uint64_t unread_events)
{
    uint64_t bytes = a->seen.bytes + a->seen.all_bytes;
    uint64_t events = a->seen.events + a->stats.events;
    double events_a_byte = bytes > 0 ? (double)events / (double)bytes : 1.0 / USUAL_EVENT_BYTES;
    stats->lag_bytes = a->seen.bytes + unread;
    stats->lag_events = a->seen.events + unread_events + (uint64_t)((double)unread * events_a_byte);
    int64_t oldest_ms = a->seen.oldest_ms;
    if (oldest_ms == 0 && stats->lag_events > 0)
        oldest_ms = a->seen.applied_ms;
    int64_t age_ms = oldest_ms > 0 ? now_ms_of(a) - oldest_ms : 0;
    stats->lag_ms = age_ms > 0 ? age_ms : 0;
}

static uint64_t unread_bytes(struct aggregator *a)
{
    lock_take(&a->lock);
    struct log_position at = a->seen.at;
    lock_release(&a->lock);
    return bytes_between(a, at, log_end(a->options.log, 0));
}

/* Offsets of lanes count sections, or events: that is near enough. */
static uint64_t unread_of_lanes(struct aggregator *a)
{
    struct log_position at[LIMIT_CELLS];
    lock_take(&a->lock);
    uint64_t owned = a->seen.owned;
    memcpy(at, a->seen.lanes, sizeof(at));
    lock_release(&a->lock);
    uint64_t unread = 0;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (!(owned >> lane & 1))
            continue;
        struct log_position end = log_end(a->options.log, lane);
        if (end.segment > at[lane].segment)
            unread += end.offset;
        else if (end.segment == at[lane].segment && end.offset > at[lane].offset)
            unread += end.offset - at[lane].offset;
    }
    return unread;
}

void aggregator_stats(struct aggregator *aggregator, struct pipeline_stats *stats)
{
    assert(aggregator && stats);

    uint64_t unread = aggregator->by_lane ? 0 : unread_bytes(aggregator);
    uint64_t unread_events = aggregator->by_lane ? unread_of_lanes(aggregator) : 0;
    uint64_t sequences[LIMIT_CELLS];
    struct hot *hot = aggregator->by_lane ? NULL : aggregator->options.hot;
    bool is_exact = hot && hot_sequences(hot, sequences);
    lock_take(&aggregator->lock);
    *stats = aggregator->stats;
    fill_in_lag(aggregator, stats, unread, unread_events);
    stats->lag_is_estimated = !is_exact;
    if (is_exact)
        stats->lag_events = events_behind(aggregator, sequences);
    lock_release(&aggregator->lock);
}
