/* file.c - the file log: the port, opening and closing.
 *
 * Workers copy sections into the pending chunk under one mutex and go on. The
 * log thread takes the chunk, writes it as one group, syncs, and publishes how
 * far the log has come; meanwhile the next chunk fills, so that under load a
 * sync is shared by all who came during the one before. A second thread zeroes
 * the next segment in good time. Those who follow, trim and scrub bring their
 * own threads, and meet the log thread at the table of segments only.
 *
 * A full disk is waited out (room.c). An error of the disk is another matter:
 * what a failed sync leaves in the file nobody knows, so the log stops there
 * and then. */
#include "log/file/file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/message.h"
#include "log/file/file_own.h"
#include "log/file/upkeep.h"

/* ---- when nothing goes any more ---- */

void file_log_fail(struct file_log *log, const struct error *error)
{
    pthread_mutex_lock(&log->mutex);
    bool is_first = !log->broken;
    log->broken = true;
    room_decide(log);
    pthread_cond_broadcast(&log->work);
    pthread_cond_broadcast(&log->wanted);
    pthread_cond_broadcast(&log->sealed);
    pthread_cond_broadcast(&log->ending);
    pthread_mutex_unlock(&log->mutex);

    if (is_first)
        log->options.fatal(log->options.fatal_arg, error);
}

/* ---- appending ---- */

static uint64_t file_append(struct log *base, struct slice header, struct slice body)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->mutex);
    uint64_t ticket = ++log->last_ticket;
    log->pending_bytes += pending_append(&log->pending, header, body, ticket);
    room_decide(log);
    bool wake = log->idle && !commit_is_held(log);
    if (wake)
        log->idle = false; /* one waking is enough */
    pthread_mutex_unlock(&log->mutex);

    if (wake)
        pthread_cond_signal(&log->work);
    return ticket;
}

static void file_hold(struct log *base)
{
    atomic_fetch_add(&file_log_of(base)->holds, 1);
}

static void file_launch(struct log *base)
{
    struct file_log *log = file_log_of(base);
    unsigned held = atomic_fetch_sub(&log->holds, 1);
    assert(held > 0);
    (void)held;

    pthread_mutex_lock(&log->mutex);
    log->launched = log->pending.first != NULL;
    bool wake = log->idle && log->launched;
    if (wake)
        log->idle = false;
    pthread_mutex_unlock(&log->mutex);
    if (wake)
        pthread_cond_signal(&log->work);
}

static enum err file_room(struct log *base)
{
    struct file_log *log = file_log_of(base);
    return (enum err)atomic_load_explicit(&log->room, memory_order_relaxed);
}

static uint64_t file_reached(struct log *base, unsigned lane, enum log_level level)
{
    (void)lane;
    struct file_log *log = file_log_of(base);
    return atomic_load_explicit(level == LOG_WRITTEN ? &log->written : &log->durable,
                                memory_order_acquire);
}

/* ---- looking ---- */

static void file_stats(struct log *base, struct log_stats *ret_stats)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->mutex);
    *ret_stats = log->stats;
    ret_stats->pending_bytes = log->pending_bytes;
    pthread_mutex_unlock(&log->mutex);
    segments_count(&log->segments, &ret_stats->segments, &ret_stats->disk_bytes);
}

static enum err file_follow(struct log *base, unsigned lane, struct log_position *at,
                            uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    (void)lane;
    return follow_read(&file_log_of(base)->follow, at, limit, visit, arg, error);
}

static struct log_position file_end(struct log *base, unsigned lane)
{
    (void)lane;
    return segments_end(&file_log_of(base)->segments);
}

static size_t file_segments(struct log *base, struct log_segment *to, size_t room)
{
    return segments_list(&file_log_of(base)->segments, to, room);
}

/* ---- upkeep ---- */

/* Readers forget the files before they are removed: their space comes back at once. */
static enum err trim(struct file_log *log, uint64_t first, struct error *error)
{
    enum err err = folder_set_first(&log->folder, first, error);
    if (err)
        return err;
    segments_trim(&log->segments, first);
    follow_forget(&log->follow);
    return upkeep_remove(&log->folder, first, error);
}

static enum err file_trim(struct log *base, uint64_t first, struct error *error)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->upkeep);
    struct error why;
    enum err err = ERR_OK;
    if (segments_before(&log->segments, &first))
        err = trim(log, first, &why);
    if (err && err != ERR_FULL)
        file_log_fail(log, &why); /* nobody knows which names are left */
    pthread_mutex_unlock(&log->upkeep);
    return err ? error_set(error, err, "%s", why.text) : ERR_OK;
}

static enum err scrub_segment(struct file_log *log, uint64_t number, log_scrub_fn *scrub, void *arg,
                              uint64_t *ret_changed, struct error *error)
{
    struct log_position position = {.segment = number};
    struct segments_place place = segments_find(&log->segments, position);
    if (place.here.header.number == 0)
        return error_set(error, ERR_NOT_FOUND, "the log has no segment %" PRIu64, number);
    if (!place.here.sealed)
        return error_set(error, ERR_INVALID, "segment %" PRIu64 " of the log is in use", number);

    bool renamed;
    struct error why;
    enum err err = upkeep_scrub(&log->folder, &place.here, scrub, arg, ret_changed, &renamed, &why);
    if (renamed)
        follow_forget(&log->follow);
    if (err && renamed) /* a sync that failed: see file_log_fail() */
        file_log_fail(log, &why);
    return err ? error_set(error, err, "%s", why.text) : ERR_OK;
}

static enum err file_scrub(struct log *base, uint64_t number, log_scrub_fn *scrub, void *arg,
                           uint64_t *ret_changed, struct error *error)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->upkeep);
    enum err err = scrub_segment(log, number, scrub, arg, ret_changed, error);
    pthread_mutex_unlock(&log->upkeep);
    return err;
}

/* ---- life ---- */

static void free_log(struct file_log *log)
{
    verify_done(&log->verify);
    prepare_done(&log->prepare);
    disk_file_close(log->next);
    writer_done(&log->writer);
    free(log->in_hand);
    pending_done(&log->pending);
    follow_done(&log->follow);
    segments_done(&log->segments);
    pthread_mutex_destroy(&log->upkeep);
    pthread_cond_destroy(&log->ending);
    pthread_cond_destroy(&log->sealed);
    pthread_cond_destroy(&log->wanted);
    pthread_cond_destroy(&log->work);
    pthread_mutex_destroy(&log->mutex);
    chain_done(&log->chain);
    folder_close(&log->folder);
    free(log);
}

static void file_close(struct log *base)
{
    struct file_log *log = file_log_of(base);
    if (log->threads_run)
        threads_stop(log);
    else if (log->options.manual)
        while ((log->in_hand || log->pending.first) && file_log_step(base))
            ;
    if (log->pending_bytes > 0)
        message_error("the log ends without what was not acknowledged yet bytes=%" PRIu64,
                      log->pending_bytes);

    struct error error;
    if (!log->broken && !log->in_hand && writer_close(&log->writer, &error))
        file_log_fail(log, &error);
    free_log(log);
}

uint64_t file_log_id(const struct log *base)
{
    const struct file_log *log = (const struct file_log *)base;
    return log->chain.count > 0 ? log->chain.segments[0].log_id : log->writer.log_id;
}

static const struct log_ops file_ops = {
    .name = "file",
    .read = start_read,
    .start = start_log,
    .append = file_append,
    .hold = file_hold,
    .launch = file_launch,
    .room = file_room,
    .reached = file_reached,
    .follow = file_follow,
    .end = file_end,
    .segments = file_segments,
    .rotate = seal_rotate,
    .trim = file_trim,
    .scrub = file_scrub,
    .stats = file_stats,
    .close = file_close,
};

static enum err check_options(const struct file_log_options *options, struct error *error)
{
    if (options->segment_bytes % SEGMENT_ALIGN != 0 ||
        options->segment_bytes < 2 * SEGMENT_HEADER_BYTES || options->segment_bytes > INT64_MAX)
        return error_set(error, ERR_INVALID, "segments of %" PRIu64 " bytes: not a multiple of %u",
                         options->segment_bytes, SEGMENT_ALIGN);
    return ERR_OK;
}

/* Where the last one ends is known when it has been read. */
static void note_segments(struct file_log *log)
{
    const struct chain *chain = &log->chain;
    for (size_t i = 0; i < chain->count; i++) {
        const struct segment_header *header = &chain->segments[i];
        bool is_last = i + 1 == chain->count;
        segments_add_sealed(&log->segments, header,
                            is_last ? SEGMENT_HEADER_BYTES : header[1].previous_end);
    }
}

static void init_locks(struct file_log *log)
{
    pthread_mutex_init(&log->mutex, NULL);
    pthread_mutex_init(&log->upkeep, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&log->work, &clock);
    pthread_cond_init(&log->wanted, &clock);
    pthread_cond_init(&log->sealed, &clock);
    pthread_cond_init(&log->ending, &clock);
    pthread_condattr_destroy(&clock);
}

enum err file_log_open(struct env *env, const struct file_log_options *options,
                       struct log **ret_log, struct error *error)
{
    assert(env && options && options->folder && options->fatal);

    enum err err = check_options(options, error);
    if (err)
        return err;
    struct file_log *log = calloc(1, sizeof(*log));
    if (!log)
        abort();
    err = folder_open(env->disk, options->folder, true, &log->folder, error);
    if (err) {
        free(log);
        return err;
    }
    log->base.ops = &file_ops;
    log->base.lanes = 1;
    log->env = env;
    log->options = *options;
    log->options.folder = NULL;
    pending_init(&log->pending);
    init_locks(log);
    segments_init(&log->segments);
    follow_init(&log->follow, &log->folder, &log->segments);
    verify_init(&log->verify, &log->folder, &log->segments);

    err = chain_open(&log->folder, &log->chain, error);
    if (err) {
        free_log(log);
        return err;
    }
    note_segments(log);
    *ret_log = &log->base;
    return ERR_OK;
}
