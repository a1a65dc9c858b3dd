/* writer.c - the thread that appends.
 *
 * Of each lane one entry is under way at a time, and one round carries those of all lanes. What is
 * appended meanwhile gathers into the lane's next entry. So no entry can overtake one that failed,
 * and there is never a gap: whatever happens to an entry, it is sent again until Redis has it, or
 * says that it has one with an id as high already. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "log/redis_stream/own.h"

#define WAIT_MIN_MS    20u
#define WAIT_MAX_MS    500u
#define PROBE_EVERY_MS 1000u
#define FIELDS_MAX     (7u + 2 * ENTRY_SECTIONS_MAX)
#define STALE_ID       "ERR The ID specified in XADD"

/* ---- appending ---- */

/* Does the section belong behind those of this entry? */
static bool continues(const struct out_lane *lane, size_t size, uint64_t first)
{
    const struct stream_entry *entry = stream_entry_at(lane->entries.last);
    return entry && !(lane->is_sent && &entry->node == lane->entries.first) &&
           stream_entry_has_room(entry, size) && first == entry->last + 1;
}

uint64_t writer_append(struct stream_log *log, struct slice header, struct slice body)
{
    unsigned number = 0;
    uint64_t first = 0;
    uint64_t last = 0;
    bool is_sound = stream_entry_look(header, &number, &first, &last);
    assert(is_sound && last > 0);
    (void)is_sound;

    struct writer *writer = &log->writer;
    struct out_lane *lane = &writer->lanes[number];
    pthread_mutex_lock(&writer->mutex);
    uint64_t ticket = ++lane->appended;
    size_t size = header.size + body.size;
    if (!continues(lane, size, first))
        fifo_push(&lane->entries, &stream_entry_new(first)->node);
    struct stream_entry *entry = stream_entry_at(lane->entries.last);
    stream_entry_add(entry, header, body, last);
    entry->ticket = ticket;
    writer->pending_bytes += size;
    pthread_mutex_unlock(&writer->mutex);
    bell_ring(&writer->bell);
    return ticket;
}

/* ---- sending ---- */

/* The entry is under way: nobody changes it. */
static void make_call(const struct stream_log *log, unsigned lane, const struct stream_entry *entry,
                      struct links_call *call)
{
    char id[ID_BYTES];
    char first[24];
    char count[24];
    stream_entry_id(id, sequence_epoch(entry->last), sequence_n(entry->last));
    (void)snprintf(first, sizeof(first), "%" PRIu64, sequence_n(entry->first));
    (void)snprintf(count, sizeof(count), "%" PRIu64, entry->last - entry->first + 1);
    const char *args[FIELDS_MAX] = {"XADD", log->keys[lane], id, "first", first, "count", count};
    size_t sizes[FIELDS_MAX];
    int used = 7;
    for (int i = 0; i < used; i++)
        sizes[i] = strlen(args[i]);
    const char *at = entry->bytes.data;
    for (uint32_t i = 0; i < entry->count; i++) {
        args[used] = "s";
        sizes[used++] = 1;
        args[used] = at;
        sizes[used++] = entry->sizes[i];
        at += entry->sizes[i];
    }
    links_call_init(call, lane, used, args, sizes);
}

/* The oldest entry of each lane that may be tried now. */
static size_t take_entries(struct writer *writer, uint64_t now_ns, struct stream_entry **entries,
                           unsigned *numbers)
{
    size_t count = 0;
    pthread_mutex_lock(&writer->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct out_lane *lane = &writer->lanes[i];
        if (!lane->entries.first || now_ns < lane->try_ns)
            continue;
        lane->is_sent = true;
        entries[count] = stream_entry_at(lane->entries.first);
        numbers[count++] = i;
    }
    pthread_mutex_unlock(&writer->mutex);
    return count;
}

static bool is_there(const struct redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_STRING;
}

static bool is_refused_as_old(const struct redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, STALE_ID, strlen(STALE_ID)) == 0;
}

/* The stream ends with an id as high already. If that is one of ours, then what we sent is there,
 * or is of an epoch that has ended. If somebody else has put an entry there, with an id made of
 * the time, all we send would be refused for ever: that must not look like success. The reply
 * gives way to one that says which. */
static void look_at_last(struct stream_log *log, struct links_call *call)
{
    struct links_call look;
    const char *args[] = {"XREVRANGE", log->keys[call->lane], "+", "-", "COUNT", "1"};
    links_call_text(&look, call->lane, 6, args);
    links_round(log->writer.links, &look, 1);
    const struct redisReply *reply = look.reply;
    uint64_t last;
    bool is_ours = reply && reply->type == REDIS_REPLY_ARRAY &&
                   (reply->elements == 0 /* trimmed: it was applied */ ||
                    stream_entry_parse_id(reply->element[0]->element[0]->str, &last));
    if (is_ours)
        call->reply->type = REDIS_REPLY_STRING;
    else if (reply && log->writer.lanes[call->lane].failures == 0)
        message_error(
            "a stream of the log holds an entry that is not ours, and takes nothing more: "
            "remove it (XDEL) and set the stream back (XSETID) key=%s",
            log->keys[call->lane]);
    links_call_done(&look);
}

static void note_there(struct stream_log *log, unsigned number, const struct stream_entry *entry)
{
    struct writer *writer = &log->writer;
    struct out_lane *lane = &writer->lanes[number];
    (void)fifo_pop(&lane->entries);
    lane->is_sent = false;
    lane->failures = 0;
    lane->try_ns = 0;
    writer->pending_bytes -= entry->bytes.size;
    writer->stats.sections += entry->count;
    writer->stats.bytes += entry->bytes.size;
    writer->stats.groups++;
    if (lane->is_old) /* else nothing in the stream is above it */
        atomic_store_explicit(&lane->alone, lane->reached + 1, memory_order_relaxed);
    lane->is_old = false;
    atomic_store_explicit(&lane->reached, entry->ticket, memory_order_release);
}

static void note_failed(struct out_lane *lane, uint64_t now_ns)
{
    uint64_t wait_ms = (uint64_t)WAIT_MIN_MS << (lane->failures < 5 ? lane->failures : 5);
    lane->failures++;
    lane->try_ns = now_ns + (wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS) * MS_NS;
}

static void note_ends(struct stream_log *log, const struct links_call *calls,
                      struct stream_entry *const *entries, size_t count)
{
    pthread_mutex_lock(&log->reader.mutex);
    for (size_t i = 0; i < count; i++) {
        struct log_position end = position_behind(entries[i]->last);
        struct log_position *known = &log->reader.ends[calls[i].lane];
        if (is_there(calls[i].reply) && log_position_is_before(*known, end))
            *known = end;
    }
    pthread_mutex_unlock(&log->reader.mutex);
}

/* Down: some lane is not taken. Nobody answers: none is. */
static void note_health(struct stream_log *log, size_t there, size_t count, const char *reason)
{
    struct writer *writer = &log->writer;
    bool is_down = there < count;
    pthread_mutex_lock(&writer->mutex);
    bool was_down = writer->stats.down_since_ms != 0;
    writer->is_down = is_down && there == 0;
    if (is_down && !was_down)
        writer->stats.down_since_ms = (uint64_t)env_wall_ms(log->env);
    if (!is_down) {
        bool is_waiting = false; /* a lane that has failed, and was not tried in this round */
        for (unsigned i = 0; i < LIMIT_CELLS; i++)
            is_waiting |= writer->lanes[i].failures > 0;
        is_down = is_waiting;
    }
    uint64_t since_ms = writer->stats.down_since_ms;
    if (!is_down)
        writer->stats.down_since_ms = 0;
    pthread_mutex_unlock(&writer->mutex);
    if (is_down && !was_down)
        message_warning("the log does not take events: they wait reason=\"%s\"", reason);
    if (!is_down && was_down)
        message_info("the log takes events again seconds=%.1f",
                     (double)((uint64_t)env_wall_ms(log->env) - since_ms) / 1000.0);
}

static const char *reason_of(const struct stream_log *log, const struct links_call *calls,
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i].reply && !is_there(calls[i].reply) && calls[i].reply->str)
            return calls[i].reply->str;
    return log->writer.reason;
}

static size_t note_round(struct stream_log *log, const struct links_call *calls,
                         struct stream_entry **entries, size_t count)
{
    struct writer *writer = &log->writer;
    size_t there = 0;
    uint64_t now_ns = env_monotonic_ns(log->env);
    note_ends(log, calls, entries, count);
    pthread_mutex_lock(&writer->mutex);
    for (size_t i = 0; i < count; i++) {
        if (is_there(calls[i].reply)) {
            note_there(log, calls[i].lane, entries[i]);
            there++;
        } else {
            note_failed(&writer->lanes[calls[i].lane], now_ns);
            entries[i] = NULL;
        }
    }
    pthread_mutex_unlock(&writer->mutex);
    return there;
}

/* Of an entry that failed the first reason counts. */
static void note_reason(struct writer *writer, const char *reason)
{
    if (!writer->reason[0])
        (void)snprintf(writer->reason, sizeof(writer->reason), "%s", reason);
}

static void note_few(struct stream_log *log, const struct redisReply *written,
                     const struct redisReply *waited)
{
    char few[64];
    const struct redisReply *refused =
        written && written->type == REDIS_REPLY_ERROR ? written : waited;
    if (refused && refused->type == REDIS_REPLY_ERROR)
        note_reason(&log->writer, refused->str);
    if (!written || !waited || waited->type != REDIS_REPLY_INTEGER)
        return;
    (void)snprintf(few, sizeof(few), "%lld of %u replicas have it", waited->integer,
                   log->url.replicas);
    note_reason(&log->writer, few);
}

/* Replicas have what the connection wrote last, and so all before it. On a new connection nothing
 * was written yet, though the entry may be there: hence a write of its own. An entry that too few
 * have is tried again, and is found to be there. */
static void wait_for_replicas(struct stream_log *log, struct links_call *calls, size_t count)
{
    struct links_call waits[2 * LIMIT_CELLS];
    char replicas[16];
    char patience_ms[24]; /* the answer is on its way before it is waited for too long */
    (void)snprintf(replicas, sizeof(replicas), "%u", log->url.replicas);
    (void)snprintf(patience_ms, sizeof(patience_ms), "%" PRIu64,
                   links_answer_ms(log->writer.links) / 4 * 3);
    for (size_t i = 0; i < count; i++) {
        const char *write[] = {"SET", log->waits[calls[i].lane], ""};
        const char *wait[] = {"WAIT", replicas, patience_ms};
        links_call_text(&waits[2 * i], calls[i].lane, 3, write);
        links_call_text(&waits[2 * i + 1], calls[i].lane, 3, wait);
    }
    links_round(log->writer.links, waits, 2 * count);
    const char *reason = links_reason(log->writer.links);
    for (size_t i = 0; i < count; i++) {
        const struct redisReply *written = waits[2 * i].reply;
        const struct redisReply *waited = waits[2 * i + 1].reply;
        bool is_enough = written && written->type == REDIS_REPLY_STATUS && waited &&
                         waited->type == REDIS_REPLY_INTEGER &&
                         waited->integer >= (long long)log->url.replicas;
        if (!is_enough && calls[i].reply) {
            note_few(log, written, waited);
            note_reason(&log->writer, reason);
            freeReplyObject(calls[i].reply);
            calls[i].reply = NULL;
        }
    }
    for (size_t i = 0; i < 2 * count; i++)
        links_call_done(&waits[i]);
}

static void send_round(struct stream_log *log, struct stream_entry **entries,
                       const unsigned *numbers, size_t count)
{
    struct links_call calls[LIMIT_CELLS];
    uint64_t began_ns = env_monotonic_ns(log->env);
    for (size_t i = 0; i < count; i++)
        make_call(log, numbers[i], entries[i], &calls[i]);
    links_round(log->writer.links, calls, count);
    log->writer.reason[0] = '\0';
    note_reason(&log->writer, links_reason(log->writer.links));
    for (size_t i = 0; i < count; i++) {
        bool is_old = is_refused_as_old(calls[i].reply);
        log->writer.lanes[calls[i].lane].is_old |= is_old;
        if (is_old)
            look_at_last(log, &calls[i]);
    }
    if (log->url.replicas > 0)
        wait_for_replicas(log, calls, count);
    uint64_t took_ns = env_monotonic_ns(log->env) - began_ns;
    size_t there = note_round(log, calls, entries, count);
    note_health(log, there, count, reason_of(log, calls, count));
    pthread_mutex_lock(&log->writer.mutex);
    log->writer.stats.sync_ns += took_ns;
    if (took_ns > log->writer.stats.sync_ns_max)
        log->writer.stats.sync_ns_max = took_ns;
    pthread_mutex_unlock(&log->writer.mutex);
    for (size_t i = 0; i < count; i++) {
        links_call_done(&calls[i]);
        stream_entry_free(entries[i]);
    }
    if (there > 0 && log->follows)
        bell_ring(&log->reader.bell); /* there is something to read, perhaps for us */
    if (there > 0)
        callback_run(&log->base.progress);
}

/* While nothing is to be sent, somebody has to find out that the servers are there. */
static void probe(struct stream_log *log)
{
    struct links_call call;
    const char *args[] = {"PING"};
    links_call_text(&call, 0, 1, args);
    links_round(log->writer.links, &call, 1);
    note_health(log, call.reply != NULL, 1, links_reason(log->writer.links));
    links_call_done(&call);
}

/* Others append as well: where the streams end has to be asked, if there is no reader who does. */
static void look_around(struct stream_log *log, uint64_t now_ns, bool is_busy)
{
    struct writer *writer = &log->writer;
    uint64_t next_ns = now_ns + (uint64_t)PROBE_EVERY_MS * MS_NS;
    if (is_busy)
        writer->probe_ns = next_ns;
    if (now_ns >= writer->probe_ns) {
        writer->probe_ns = next_ns;
        probe(log);
    }
    if (!log->follows && now_ns >= writer->ends_ns) {
        writer->ends_ns = next_ns;
        fetch_ends(log, writer->links);
    }
}

/* ---- the thread ---- */

static uint64_t wait_ms_of(struct writer *writer, uint64_t now_ns)
{
    uint64_t wait_ms = writer->is_down ? WAIT_MAX_MS : PROBE_EVERY_MS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        const struct out_lane *lane = &writer->lanes[i];
        if (!lane->entries.first)
            continue;
        uint64_t lane_ms = lane->try_ns > now_ns ? (lane->try_ns - now_ns) / MS_NS + 1 : 0;
        wait_ms = lane_ms < wait_ms ? lane_ms : wait_ms;
    }
    return wait_ms;
}

static bool is_finished(struct writer *writer, uint64_t now_ns, uint64_t *ret_wait_ms)
{
    pthread_mutex_lock(&writer->mutex);
    bool is_finished =
        writer->is_stopping && (writer->pending_bytes == 0 || now_ns >= writer->stop_ns);
    *ret_wait_ms = wait_ms_of(writer, now_ns);
    pthread_mutex_unlock(&writer->mutex);
    return is_finished;
}

static void *run(void *arg)
{
    struct stream_log *log = arg;
    struct writer *writer = &log->writer;
    for (;;) {
        struct stream_entry *entries[LIMIT_CELLS];
        unsigned numbers[LIMIT_CELLS];
        uint64_t now_ns = env_monotonic_ns(log->env);
        size_t count = take_entries(writer, now_ns, entries, numbers);
        if (count > 0)
            send_round(log, entries, numbers, count);
        now_ns = env_monotonic_ns(log->env);
        uint64_t wait_ms;
        if (is_finished(writer, now_ns, &wait_ms))
            return NULL;
        look_around(log, now_ns, count > 0);
        if (wait_ms > 0)
            (void)bell_wait(&writer->bell, wait_ms);
    }
}

void writer_start(struct stream_log *log)
{
    if (pthread_create(&log->writer.thread, NULL, run, log) != 0)
        abort();
    log->writer.runs = true;
}

void writer_stop(struct stream_log *log)
{
    struct writer *writer = &log->writer;
    if (!writer->runs)
        return;
    pthread_mutex_lock(&writer->mutex);
    writer->is_stopping = true;
    writer->stop_ns = env_monotonic_ns(log->env) + log->close_ms * MS_NS;
    pthread_mutex_unlock(&writer->mutex);
    bell_ring(&writer->bell);
    pthread_join(writer->thread, NULL);
    writer->runs = false;
    if (writer->pending_bytes > 0)
        message_error("the log ends without what was not acknowledged yet bytes=%" PRIu64,
                      writer->pending_bytes);
}
