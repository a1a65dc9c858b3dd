/* file.c - the file log: appending and group commit.
 *
 * Workers copy sections into the pending chunk under one mutex and go on. The
 * log thread takes the chunk, writes it as one group, syncs, and publishes how
 * far the log has come; meanwhile the next chunk fills, so that under load a
 * sync is shared by all who came during the one before. A second thread zeroes
 * the next segment in good time. In manual mode there are no threads, and
 * file_log_step() does the same work with the same functions. Those who follow,
 * trim and scrub bring their own threads, and meet the log thread at the table of
 * segments only.
 *
 * When the disk is full no segment can be prepared. room() then says so as soon
 * as what is left would not take all that may be appended before everybody has
 * noticed, and until there is space again. Whatever slips past that waits in
 * memory, is tried again every second and is not acknowledged before it is on
 * disk. An error of the disk is another matter: what a failed sync leaves in
 * the file nobody knows, so the log stops there and then. */
#include "log/file/file.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/message.h"
#include "log/file/chain.h"
#include "log/file/folder.h"
#include "log/file/follow.h"
#include "log/file/pending.h"
#include "log/file/prepare.h"
#include "log/file/segment.h"
#include "log/file/segments.h"
#include "log/file/upkeep.h"
#include "log/file/writer.h"

#define LAUNCH_BYTES                                                            \
    (256u << 10) /* pending: a group of that size is not worth waiting for more \
                  */
#define RETRY_NS (UINT64_C(1000) * 1000 * 1000)

/* The first segment of a start is small, and each one after it twice as large,
 * up to the size that was asked for: starting is quick, many starts do not fill
 * the disk, and the next segment is always ready before this one is full. */
#define FIRST_SEGMENT_BYTES (4u << 20)

struct file_log {
    struct log base;
    struct env *env;                 /* borrowed */
    struct file_log_options options; /* but for `folder`, which is not kept */
    struct folder folder;
    struct chain chain;   /* what was there when the log was opened */
    struct chain_end end; /* where that ends, once it is known */
    bool end_known;
    struct segments segments;
    struct follow follow;
    pthread_mutex_t upkeep; /* one at a time rotates, trims or scrubs */

    /* Of the log thread alone. */
    struct writer writer;
    struct chunk *in_hand; /* taken, not yet durable */

    /* Of the preparing thread alone. */
    struct prepare prepare;

    pthread_mutex_t mutex;
    pthread_cond_t work;   /* for the log thread */
    pthread_cond_t wanted; /* for the preparing thread */
    pthread_cond_t sealed; /* for who asked for it */
    pthread_t log_thread;
    pthread_t prepare_thread;
    bool threads_run;

    /* Under the mutex. */
    struct pending pending;
    uint64_t last_ticket;
    uint64_t pending_bytes; /* appended, not yet durable */
    uint64_t left_bytes;    /* behind the groups of the segment */
    struct disk_file *next; /* a zeroed segment; NULL = not ready */
    uint64_t next_bytes;
    uint64_t wanted_bytes; /* size of the segment to prepare; 0 = there is one */
    uint64_t retry_ns;     /* not to be tried again before */
    bool prepare_full;     /* preparing met a full disk */
    bool commit_full;      /* so did the chunk in hand */
    bool blocked;          /* the chunk in hand has no place at the moment */
    bool idle;             /* the log thread sleeps and wants to be woken */
    bool launched;         /* somebody waits for what is pending */
    bool seal_wanted;      /* the segment in use shall end behind `seal_ticket` */
    uint64_t seal_ticket;
    enum err seal_result; /* of the last time that it was wanted */
    bool stopping;
    bool quit;   /* for the preparing thread */
    bool broken; /* fatal() was called */
    struct log_stats stats;

    atomic_uint holds; /* threads that are about to append more */
    atomic_int room;
    _Atomic uint64_t written;
    _Atomic uint64_t durable;
};

static struct file_log *file_log_of(struct log *base)
{
    return (struct file_log *)base;
}

/* ---- what room() says; all under the mutex ---- */

/* On a full disk we stop while all that may be pending still has a place, even
 * if a group that does not fit at the end of a segment wastes that end. Since
 * room() is asked once a batch, a batch of each worker may come on top. */
static bool is_full(const struct file_log *log)
{
    uint64_t place = log->left_bytes + (log->next ? log->next_bytes : 0);
    uint64_t reserve = log->options.pending_bytes_max + GROUP_BYTES_MAX;
    return log->commit_full || (log->prepare_full && place < log->pending_bytes + reserve);
}

static void decide_room(struct file_log *log)
{
    enum err room = ERR_OK;
    if (log->broken)
        room = ERR_BUSY;
    else if (is_full(log))
        room = ERR_FULL;
    else if (log->pending_bytes > log->options.pending_bytes_max)
        room = ERR_BUSY;
    atomic_store_explicit(&log->room, (int)room, memory_order_relaxed);
}

/* `flag` is prepare_full or commit_full. */
static void note_space(struct file_log *log, bool *flag, bool is_full_now)
{
    bool was_full = log->prepare_full || log->commit_full;
    *flag = is_full_now;
    bool full = log->prepare_full || log->commit_full;
    decide_room(log);
    if (full == was_full)
        return;

    log->stats.full_since_ms = full ? (uint64_t)env_wall_ms(log->env) : 0;
    if (full)
        message_warning("no space for the log folder=%s", log->folder.log_path);
    else
        message_info("there is space for the log again folder=%s", log->folder.log_path);
}

/* ---- when nothing goes any more ---- */

static void fail(struct file_log *log, const struct error *error)
{
    pthread_mutex_lock(&log->mutex);
    bool is_first = !log->broken;
    log->broken = true;
    decide_room(log);
    pthread_cond_broadcast(&log->work);
    pthread_cond_broadcast(&log->wanted);
    pthread_cond_broadcast(&log->sealed);
    pthread_mutex_unlock(&log->mutex);

    if (is_first)
        log->options.fatal(log->options.fatal_arg, error);
}

/* ---- the next segment ---- */

static enum err begin_segment(struct file_log *log, struct disk_file *file, const char *name,
                              uint64_t size_bytes, struct error *error)
{
    struct segment_header header;
    enum err err = writer_begin(&log->writer, file, name, size_bytes, &header, error);
    if (err)
        return err;
    segments_begin(&log->segments, &header);
    pthread_mutex_lock(&log->mutex);
    log->left_bytes = size_bytes - SEGMENT_HEADER_BYTES;
    pthread_mutex_unlock(&log->mutex);
    return ERR_OK;
}

static void want_segment(struct file_log *log, uint64_t size_bytes)
{
    pthread_mutex_lock(&log->mutex);
    log->next = NULL;
    log->wanted_bytes = size_bytes;
    decide_room(log);
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->wanted);
}

/* The size of the segment behind this one. */
static uint64_t following_bytes(const struct file_log *log)
{
    uint64_t size = log->writer.file ? 2 * log->writer.size_bytes : FIRST_SEGMENT_BYTES;
    return size < log->options.segment_bytes ? size : log->options.segment_bytes;
}

/* The same, if it has to take a group of this size. */
static uint64_t fitting_bytes(const struct file_log *log, uint64_t group_size)
{
    uint64_t following = following_bytes(log);
    uint64_t size = SEGMENT_HEADER_BYTES + group_size;
    size = (size + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    return size > following ? size : following;
}

/* Goes over to the next segment for a group of this size. ERR_BUSY while none
 * is ready, ERR_FULL when the disk has no space. */
static enum err rotate(struct file_log *log, uint64_t group_size, struct error *error)
{
    pthread_mutex_lock(&log->mutex);
    struct disk_file *next = log->next; /* nobody else touches it while it is there */
    uint64_t next_bytes = log->next_bytes;
    enum err waiting = log->prepare_full ? ERR_FULL : ERR_BUSY;
    pthread_mutex_unlock(&log->mutex);
    if (!next)
        return waiting;

    if (next_bytes < SEGMENT_HEADER_BYTES + group_size) {
        disk_file_close(next);
        want_segment(log, fitting_bytes(log, group_size));
        return ERR_BUSY;
    }
    enum err err = begin_segment(log, next, FOLDER_NEXT, next_bytes, error);
    if (!err)
        want_segment(log, following_bytes(log));
    return err;
}

/* ---- preparing the next segment ---- */

static bool may_prepare(const struct file_log *log)
{
    return log->wanted_bytes > 0 && !log->broken &&
           (!log->prepare_full || env_monotonic_ns(log->env) >= log->retry_ns);
}

static void hand_over(struct file_log *log, struct disk_file *file, uint64_t size_bytes)
{
    pthread_mutex_lock(&log->mutex);
    log->next = file;
    log->next_bytes = size_bytes;
    log->wanted_bytes = 0;
    log->blocked = false;
    note_space(log, &log->prepare_full, false);
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->work);
}

/* The name is not synced here: that of a segment is before it counts, and until
 * then losing the file costs nothing. */
static enum err name_next(struct file_log *log, struct error *error)
{
    char from[FOLDER_PATH_BYTES];
    char to[FOLDER_PATH_BYTES];
    return disk_rename(log->folder.disk, folder_path_of(&log->folder, FOLDER_NEXT_NEW, from),
                       folder_path_of(&log->folder, FOLDER_NEXT, to), error);
}

/* Does a step of the work. `wanted_bytes` counts when a segment is begun. */
static void prepare_some(struct file_log *log, uint64_t wanted_bytes)
{
    struct prepare *prepare = &log->prepare;
    if (!prepare->file)
        prepare_init(prepare, &log->folder, FOLDER_NEXT_NEW, wanted_bytes);

    struct error error;
    struct disk_file *file;
    enum err err = prepare_step(prepare, &file, &error);
    if (!err && !file)
        return;
    if (!err) {
        err = name_next(log, &error);
        if (!err) {
            hand_over(log, file, prepare->size_bytes);
            return;
        }
        disk_file_close(file);
    }
    if (err != ERR_FULL) {
        fail(log, &error);
        return;
    }
    pthread_mutex_lock(&log->mutex);
    log->retry_ns = env_monotonic_ns(log->env) + RETRY_NS;
    note_space(log, &log->prepare_full, true);
    pthread_mutex_unlock(&log->mutex);
}

/* ---- the commit stage ---- */

static struct chunk *take_chunk(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    log->launched = false;
    struct chunk *chunk = pending_take(&log->pending);
    pthread_mutex_unlock(&log->mutex);
    return chunk;
}

static void tell_progress(struct file_log *log)
{
    if (log->base.progress)
        log->base.progress(log->base.progress_arg);
}

/* Writes the chunk into the segment, or into the next one if it does not fit. */
static enum err write_chunk(struct file_log *log, struct chunk *chunk, struct error *error)
{
    uint32_t size = group_bytes(chunk->body_bytes);
    if (!writer_fits(&log->writer, size)) {
        enum err err = rotate(log, size, error);
        if (err)
            return err;
    }
    struct group group = {
        .kind = GROUP_SECTIONS,
        .body_bytes = chunk->body_bytes,
        .sections = chunk->sections,
    };
    return writer_put(&log->writer, chunk->bytes, group, error);
}

static struct log_position writer_position(const struct file_log *log)
{
    return (struct log_position){log->writer.segment, log->writer.at};
}

static void publish_durable(struct file_log *log, uint64_t sync_ns)
{
    segments_reach(&log->segments, writer_position(log));

    struct chunk *chunk = log->in_hand;
    log->in_hand = NULL;
    uint64_t ticket = chunk->last_ticket;
    uint32_t size = group_bytes(chunk->body_bytes);

    pthread_mutex_lock(&log->mutex);
    log->pending_bytes -= chunk->body_bytes;
    log->left_bytes -= size;
    log->stats.sections += chunk->sections;
    log->stats.bytes += size;
    log->stats.groups++;
    log->stats.sync_ns += sync_ns;
    if (sync_ns > log->stats.sync_ns_max)
        log->stats.sync_ns_max = sync_ns;
    pending_give_back(&log->pending, chunk);
    note_space(log, &log->commit_full, false);
    pthread_mutex_unlock(&log->mutex);

    atomic_store_explicit(&log->durable, ticket, memory_order_release);
    tell_progress(log);
}

/* The chunk in hand has no place now: it is kept and tried again. */
static void block(struct file_log *log, bool full)
{
    pthread_mutex_lock(&log->mutex);
    log->blocked = full || !log->next;
    note_space(log, &log->commit_full, full);
    pthread_mutex_unlock(&log->mutex);
}

/* Takes what is pending, writes it as a group, syncs it and publishes that.
 * True if something became durable. */
static bool commit(struct file_log *log)
{
    if (!log->in_hand)
        log->in_hand = take_chunk(log);
    struct chunk *chunk = log->in_hand;
    if (!chunk)
        return false;

    struct error error;
    enum err err = write_chunk(log, chunk, &error);
    if (err == ERR_BUSY || err == ERR_FULL) {
        block(log, err == ERR_FULL);
        return false;
    }
    if (err) {
        fail(log, &error);
        return false;
    }
    atomic_store_explicit(&log->written, chunk->last_ticket, memory_order_release);
    tell_progress(log);

    uint64_t before_ns = env_monotonic_ns(log->env);
    err = writer_sync(&log->writer, &error);
    if (err) {
        fail(log, &error);
        return false;
    }
    publish_durable(log, env_monotonic_ns(log->env) - before_ns);
    return true;
}

/* ---- ending a segment when it is asked for ---- */

static void end_sealing(struct file_log *log, enum err result)
{
    pthread_mutex_lock(&log->mutex);
    log->seal_wanted = false;
    log->seal_result = result;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_broadcast(&log->sealed);
}

/* Is it time? Not before what was appended until then is durable; ERR_FULL when
 * that cannot be. */
static enum err may_seal(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    enum err err = ERR_OK;
    if (log->commit_full)
        err = ERR_FULL;
    else if (log->in_hand || atomic_load(&log->durable) < log->seal_ticket)
        err = ERR_BUSY;
    pthread_mutex_unlock(&log->mutex);
    return err;
}

static bool is_seal_wanted(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    bool wanted = log->seal_wanted && !log->broken;
    pthread_mutex_unlock(&log->mutex);
    return wanted;
}

/* True if it was asked for, and has been done or has failed. */
static bool seal(struct file_log *log)
{
    if (!is_seal_wanted(log))
        return false;
    bool has_groups = log->writer.file && log->writer.at > SEGMENT_HEADER_BYTES;
    struct error error;
    enum err err = may_seal(log);
    if (err == ERR_BUSY)
        return false;
    if (!err && has_groups)
        err = rotate(log, 0, &error);
    if (err == ERR_BUSY) {
        block(log, false);
        return false;
    }
    if (err && err != ERR_FULL)
        fail(log, &error);
    end_sealing(log, err);
    return true;
}

/* ---- threads ---- */

static void wait_until(struct file_log *log, pthread_cond_t *condition, uint64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000),
        .tv_nsec = (long)(deadline_ns % 1000000000),
    };
    pthread_cond_timedwait(condition, &log->mutex, &deadline);
}

/* Is it worth waiting for more? Not if somebody waits for it, nor for ever. */
static bool is_held(const struct file_log *log)
{
    return atomic_load(&log->holds) > 0 && !log->launched && !log->stopping &&
           log->pending_bytes < LAUNCH_BYTES;
}

/* True when there is something to commit, false when it is time to end. */
static bool wait_for_work(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    bool go = false;
    while (!log->broken) {
        bool has_work = log->in_hand || log->pending.first || log->seal_wanted;
        go = has_work && !log->blocked && (log->in_hand || log->seal_wanted || !is_held(log));
        if (go || (log->stopping && (!has_work || log->commit_full)))
            break;
        if (log->blocked) {
            wait_until(log, &log->work, env_monotonic_ns(log->env) + RETRY_NS);
            log->blocked = false;
        } else {
            log->idle = true;
            pthread_cond_wait(&log->work, &log->mutex);
            log->idle = false;
        }
    }
    pthread_mutex_unlock(&log->mutex);
    return go;
}

static void *run_log(void *arg)
{
    struct file_log *log = arg;
    while (wait_for_work(log)) {
        commit(log);
        seal(log);
    }
    return NULL;
}

/* The size of the segment to prepare, 0 when it is time to end. */
static uint64_t wait_for_want(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    while (!log->quit && !may_prepare(log)) {
        if (log->wanted_bytes > 0 && !log->broken)
            wait_until(log, &log->wanted, log->retry_ns);
        else
            pthread_cond_wait(&log->wanted, &log->mutex);
    }
    uint64_t wanted_bytes = log->quit ? 0 : log->wanted_bytes;
    pthread_mutex_unlock(&log->mutex);
    return wanted_bytes;
}

static void *run_prepare(void *arg)
{
    struct file_log *log = arg;
    for (;;) {
        uint64_t wanted_bytes = wait_for_want(log);
        if (wanted_bytes == 0)
            return NULL;
        prepare_some(log, wanted_bytes);
    }
}

static void stop_preparing(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    log->quit = true;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->wanted);
    pthread_join(log->prepare_thread, NULL);
}

static enum err start_threads(struct file_log *log, struct error *error)
{
    int errnum = pthread_create(&log->prepare_thread, NULL, run_prepare, log);
    if (errnum == 0) {
        errnum = pthread_create(&log->log_thread, NULL, run_log, log);
        if (errnum != 0)
            stop_preparing(log);
    }
    if (errnum != 0)
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start a thread of the log");

    pthread_setname_np(log->prepare_thread, "log-prepare");
    pthread_setname_np(log->log_thread, "log-commit");
    log->threads_run = true;
    return ERR_OK;
}

/* What was appended is written first; that may need one more segment. */
static void stop_threads(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    log->stopping = true;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->work);
    pthread_join(log->log_thread, NULL);
    stop_preparing(log);
}

bool file_log_step(struct log *base)
{
    struct file_log *log = file_log_of(base);
    assert(log->options.manual);

    if (log->broken)
        return false;
    bool prepares = may_prepare(log);
    if (prepares)
        prepare_some(log, log->wanted_bytes);
    bool commits = commit(log);
    bool seals = seal(log);
    return commits || seals || prepares ||
           may_prepare(log); /* a larger segment may be wanted now */
}

/* ---- reading ---- */

struct section_visit {
    const struct folder *folder;
    log_visit_fn *visit;
    log_reading_fn *reading;
    void *arg;
};

static enum err visit_sections(void *arg, const struct group *group, struct slice body,
                               struct log_position next, struct error *error)
{
    const struct section_visit *to = arg;
    return chain_visit_sections(to->folder, group, body, next, to->visit, to->arg, error);
}

static void pass_reading(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    const struct section_visit *to = arg;
    to->reading(to->arg, bytes_done, bytes_all);
}

static enum err file_read(struct log *base, struct log_position from, log_visit_fn *visit,
                          void *arg, log_reading_fn *reading, struct error *error)
{
    struct file_log *log = file_log_of(base);
    struct section_visit to = {&log->folder, visit, reading, arg};
    enum err err = chain_walk(&log->chain, from, visit_sections, &to, reading ? pass_reading : NULL,
                              &log->end, error);
    log->end_known = !err;
    if (!err)
        segments_reach(&log->segments, chain_end_of_groups(&log->chain, &log->end));
    return err;
}

/* ---- starting ---- */

static enum err skip_group(void *arg, const struct group *group, struct slice body,
                           struct log_position next, struct error *error)
{
    (void)arg;
    (void)group;
    (void)body;
    (void)next;
    (void)error;
    return ERR_OK;
}

static enum err find_end(struct file_log *log, struct error *error)
{
    if (log->end_known)
        return ERR_OK;
    const struct segment_header *last = chain_last(&log->chain);
    struct log_position from = {.segment = last ? last->number : 0};
    return chain_walk(&log->chain, from, skip_group, NULL, NULL, &log->end, error);
}

/* The first segment of this start replaces a last one that is empty. */
static void note_end(struct file_log *log)
{
    const struct segment_header *last = chain_last(&log->chain);
    if (last && last->number > log->writer.segment)
        segments_drop_last(&log->segments);
    segments_reach(&log->segments, writer_position(log));
}

static enum err begin_first_segment(struct file_log *log, struct error *error)
{
    uint64_t size_bytes = following_bytes(log);
    struct disk_file *file;
    enum err err = prepare_all(&log->folder, FOLDER_FIRST_NEW, size_bytes, &file, error);
    if (err)
        return err;
    err = begin_segment(log, file, FOLDER_FIRST_NEW, size_bytes, error);
    if (err)
        disk_file_close(file);
    return err;
}

/* A zeroed segment that an earlier process did not come to use is as good as a
 * new one: no group is written to a file before it has got its number. */
static enum err adopt_next(struct file_log *log, struct error *error)
{
    log->wanted_bytes = following_bytes(log);
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    enum err err = disk_open(log->folder.disk, folder_path_of(&log->folder, FOLDER_NEXT, path),
                             DISK_WRITE, &file, error);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;

    uint64_t size_bytes;
    err = disk_file_size(file, &size_bytes, error);
    if (err || size_bytes < 2 * SEGMENT_HEADER_BYTES || size_bytes % SEGMENT_ALIGN != 0) {
        disk_file_close(file);
        return err;
    }
    log->next = file;
    log->next_bytes = size_bytes;
    log->wanted_bytes = 0;
    return ERR_OK;
}

static enum err file_start(struct log *base, struct error *error)
{
    struct file_log *log = file_log_of(base);
    enum err err = find_end(log, error);
    if (!err)
        err = folder_make_log(&log->folder, error);
    if (!err)
        err = upkeep_tidy(&log->folder, log->chain.first, error);
    if (!err)
        err = writer_resume(&log->writer, log->env, &log->folder, &log->chain, &log->end, error);
    if (err)
        return err;

    note_end(log);
    err = begin_first_segment(log, error);
    bool full = err == ERR_FULL;
    if (!err || full)
        err = adopt_next(log, error);
    if (err)
        return err;
    if (full && !log->next) { /* reading goes on, and writing when there is space */
        log->retry_ns = env_monotonic_ns(log->env) + RETRY_NS;
        note_space(log, &log->prepare_full, true);
    }
    return log->options.manual ? ERR_OK : start_threads(log, error);
}

/* ---- the port ---- */

static uint64_t file_append(struct log *base, struct slice header, struct slice body)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->mutex);
    uint64_t ticket = ++log->last_ticket;
    log->pending_bytes += pending_append(&log->pending, header, body, ticket);
    decide_room(log);
    bool wake = log->idle && !is_held(log);
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

static uint64_t file_reached(struct log *base, enum log_level level)
{
    struct file_log *log = file_log_of(base);
    return atomic_load_explicit(level == LOG_WRITTEN ? &log->written : &log->durable,
                                memory_order_acquire);
}

static void file_stats(struct log *base, struct log_stats *ret_stats)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->mutex);
    *ret_stats = log->stats;
    ret_stats->pending_bytes = log->pending_bytes;
    pthread_mutex_unlock(&log->mutex);
    segments_count(&log->segments, &ret_stats->segments, &ret_stats->disk_bytes);
}

static enum err file_follow(struct log *base, struct log_position *at, uint64_t limit,
                            log_visit_fn *visit, void *arg, struct error *error)
{
    return follow_read(&file_log_of(base)->follow, at, limit, visit, arg, error);
}

static struct log_position file_end(struct log *base)
{
    return segments_end(&file_log_of(base)->segments);
}

static size_t file_segments(struct log *base, struct log_segment *to, size_t room)
{
    return segments_list(&file_log_of(base)->segments, to, room);
}

static enum err refuse_broken(struct error *error)
{
    return error_set(error, ERR_IO, "the log has failed and takes nothing more");
}

/* Waits until the log thread has done it, or does its work. */
static enum err wait_for_seal(struct file_log *log, struct error *error)
{
    while (log->options.manual && log->seal_wanted && file_log_step(&log->base))
        ;
    pthread_mutex_lock(&log->mutex);
    while (!log->options.manual && log->seal_wanted && !log->broken)
        pthread_cond_wait(&log->sealed, &log->mutex);
    bool broken = log->broken;
    enum err err = log->seal_wanted ? ERR_FULL : log->seal_result;
    log->seal_wanted = false;
    pthread_mutex_unlock(&log->mutex);
    if (broken)
        return refuse_broken(error);
    return err ? error_set(error, err, "there is no space for the next segment of the log") : err;
}

static enum err file_rotate(struct log *base, struct error *error)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->upkeep);
    pthread_mutex_lock(&log->mutex);
    log->seal_wanted = true;
    log->seal_ticket = log->last_ticket;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->work);
    enum err err = wait_for_seal(log, error);
    pthread_mutex_unlock(&log->upkeep);
    return err;
}

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
        fail(log, &why); /* nobody knows which names are left */
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
    if (err && renamed) /* a sync that failed: see fail() */
        fail(log, &why);
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

static void free_log(struct file_log *log)
{
    prepare_done(&log->prepare);
    disk_file_close(log->next);
    writer_done(&log->writer);
    free(log->in_hand);
    pending_done(&log->pending);
    follow_done(&log->follow);
    segments_done(&log->segments);
    pthread_mutex_destroy(&log->upkeep);
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
        stop_threads(log);
    else if (log->options.manual)
        while ((log->in_hand || log->pending.first) && file_log_step(base))
            ;
    if (log->pending_bytes > 0)
        message_error("the log ends without what was not acknowledged yet bytes=%" PRIu64,
                      log->pending_bytes);

    struct error error;
    if (!log->broken && !log->in_hand && writer_close(&log->writer, &error))
        fail(log, &error);
    free_log(log);
}

static const struct log_ops file_ops = {
    .name = "file",
    .read = file_read,
    .start = file_start,
    .append = file_append,
    .hold = file_hold,
    .launch = file_launch,
    .room = file_room,
    .reached = file_reached,
    .follow = file_follow,
    .end = file_end,
    .segments = file_segments,
    .rotate = file_rotate,
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
    log->env = env;
    log->options = *options;
    log->options.folder = NULL;
    pending_init(&log->pending);
    pthread_mutex_init(&log->mutex, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&log->work, &clock);
    pthread_cond_init(&log->wanted, &clock);
    pthread_cond_init(&log->sealed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&log->upkeep, NULL);
    segments_init(&log->segments);
    follow_init(&log->follow, &log->folder, &log->segments);

    err = chain_open(&log->folder, &log->chain, error);
    if (err) {
        free_log(log);
        return err;
    }
    note_segments(log);
    *ret_log = &log->base;
    return ERR_OK;
}
