/* reader.c - the thread that reads, and the queues between it and the one who follows. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/redis_stream/own.h"

#define POLL_MIN_MS   5u
#define POLL_MAX_MS   40u
#define DOWN_MS       200u
#define TIDY_EVERY_MS 250u

void reader_forget(struct in_lane *lane)
{
    stream_entries_free(&lane->queue);
    lane->phase = PHASE_NONE;
    lane->generation++;
    lane->given_count = 0;
    lane->suspicions = 0;
    lane->fault = ERR_OK;
}

/* ---- following ---- */

static bool is_same(struct log_position a, struct log_position b)
{
    return a.segment == b.segment && a.offset == b.offset;
}

static void begin_at(struct in_lane *lane, struct log_position at)
{
    reader_forget(lane);
    lane->at = at;
    lane->fetched = at;
    lane->phase = PHASE_CLAIM;
    lane->cursor[0] = '\0';
}

/* A position may lie within an entry: then the entry comes again, and the sequences of its sections
 * tell which of them were there. So whoever cannot take one yet need not take those before it twice
 * for want of a position. */
enum err reader_visit_entry(const struct stream_entry *entry, struct log_position *at,
                            log_visit_fn *visit, void *arg, struct error *error)
{
    const char *bytes = entry->bytes.data;
    for (uint32_t i = 0; i < entry->count; i++) {
        struct slice section = {bytes, entry->sizes[i]};
        unsigned lane;
        uint64_t first;
        uint64_t last;
        struct log_position next = *at;
        if (i + 1 == entry->count)
            next = position_behind(entry->last);
        else if (stream_entry_look(section, &lane, &first, &last) && last <= entry->last &&
                 log_position_is_before(next, position_behind(last)))
            next = position_behind(last);
        enum err err = visit(arg, section, next, error);
        if (err)
            return err;
        *at = next;
        bytes += entry->sizes[i];
    }
    return ERR_OK;
}

/* Outside of the mutex: what is taken is ours. Those that were not visited stay in *taken. */
static enum err visit_taken(struct fifo *taken, struct log_position *at, log_visit_fn *visit,
                            void *arg, struct error *error)
{
    while (taken->first) {
        enum err err = reader_visit_entry(stream_entry_at(taken->first), at, visit, arg, error);
        if (err)
            return err;
        stream_entry_free(stream_entry_at(fifo_pop(taken)));
    }
    return ERR_OK;
}

/* The queue from *at on; none: nothing is there yet, or something is wrong. */
static enum err look_at_queue(struct stream_log *log, struct in_lane *lane, struct log_position at,
                              uint64_t limit, struct fifo *ret_taken, struct error *error)
{
    struct reader *reader = &log->reader;
    *ret_taken = (struct fifo){.first = NULL};
    if (lane->leased_ns <= env_monotonic_ns(log->env))
        return ERR_OK;
    if (lane->phase == PHASE_NONE || !is_same(lane->at, at)) {
        begin_at(lane, at);
        bell_ring(&reader->bell);
        return ERR_OK;
    }
    *ret_taken = fifo_take(&lane->queue, limit);
    if (ret_taken->first || !lane->fault)
        return ERR_OK;
    enum err fault = lane->fault;
    (void)error_set(error, fault, "%s", lane->fault_text);
    reader_forget(lane); /* whoever asks again wants us to look again */
    return fault;
}

enum err reader_follow(struct stream_log *log, unsigned number, struct log_position *at,
                       uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    struct reader *reader = &log->reader;
    struct in_lane *lane = &reader->lanes[number];
    pthread_mutex_lock(&reader->mutex);
    struct fifo taken;
    enum err err = look_at_queue(log, lane, *at, limit, &taken, error);
    uint32_t generation = lane->generation;
    pthread_mutex_unlock(&reader->mutex);
    if (err || !taken.first)
        return err;

    err = visit_taken(&taken, at, visit, arg, error);
    pthread_mutex_lock(&reader->mutex);
    if (lane->generation == generation) {
        lane->at = *at;
        fifo_put_back(&lane->queue, &taken); /* a visitor who refuses is offered the same again */
    }
    pthread_mutex_unlock(&reader->mutex);
    stream_entries_free(&taken);
    bell_ring(&reader->bell);
    return err;
}

/* ---- the thread ---- */

/* All that is asked takes a while where answers do: in between it is read. */
static void look_after_leases(struct stream_log *log)
{
    if (env_monotonic_ns(log->env) < log->reader.lease_ns)
        return;
    leases_tick(log);
    fetch_ends(log, log->reader.links);
    log->reader.lease_ns = env_monotonic_ns(log->env) + leases_every_ms(log) * MS_NS;
}

static bool is_due(struct stream_log *log, uint64_t *next_ns, uint64_t every_ms)
{
    uint64_t now_ns = env_monotonic_ns(log->env);
    if (now_ns < *next_ns)
        return false;
    *next_ns = now_ns + every_ms * MS_NS;
    return true;
}

static void *run(void *arg)
{
    struct stream_log *log = arg;
    struct reader *reader = &log->reader;
    bool is_stopping = false;
    uint64_t poll_ms = POLL_MIN_MS;
    while (!is_stopping) {
        look_after_leases(log);
        bool is_more = fetch_round(log);
        if (is_due(log, &reader->tidy_ns, TIDY_EVERY_MS))
            tidy_acknowledge(log);
        if (is_due(log, &reader->trim_ns, tidy_trim_every_ms(log)))
            tidy_trim(log);
        pthread_mutex_lock(&reader->mutex);
        is_stopping = reader->is_stopping;
        uint64_t wait_ms = reader->is_down ? DOWN_MS : poll_ms;
        pthread_mutex_unlock(&reader->mutex);
        poll_ms = is_more ? POLL_MIN_MS : poll_ms * 2;
        poll_ms = poll_ms < POLL_MAX_MS ? poll_ms : POLL_MAX_MS;
        if (!is_more && !is_stopping)
            (void)bell_wait(&reader->bell, wait_ms);
    }
    tidy_acknowledge(log);
    tidy_trim(log);
    leases_give_back(log);
    return NULL;
}

void reader_start(struct stream_log *log)
{
    if (pthread_create(&log->reader.thread, NULL, run, log) != 0)
        abort();
    log->reader.runs = true;
}

void reader_stop(struct stream_log *log)
{
    struct reader *reader = &log->reader;
    if (reader->runs) {
        pthread_mutex_lock(&reader->mutex);
        reader->is_stopping = true;
        pthread_mutex_unlock(&reader->mutex);
        bell_ring(&reader->bell);
        pthread_join(reader->thread, NULL);
        reader->runs = false;
    }
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        reader_forget(&reader->lanes[i]);
        free(reader->lanes[i].given);
    }
}
