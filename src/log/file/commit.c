/* commit.c - what is pending becomes durable: taken, written as one group, synced, published. */
#include "log/file/file_own.h"

#define SETTLE_IDLE_NS (UINT64_C(100) * 1000 * 1000)
#define SETTLE_BUSY_NS (UINT64_C(1000) * 1000 * 1000)
#define SETTLE_SHARE   100u

/* A group of that size is not worth waiting for more. */
#define LAUNCH_BYTES (256u << 10)

bool commit_is_held(const struct file_log *log)
{
    return atomic_load(&log->holds) > 0 && !log->launched && !log->stopping &&
           log->pending_bytes < LAUNCH_BYTES;
}

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
    callback_run(&log->base.progress);
}

/* Writes the chunk into the segment, or into the next one if it does not fit. */
static enum err write_chunk(struct file_log *log, struct chunk *chunk, struct error *error)
{
    uint32_t size = group_bytes(chunk->body_bytes);
    if (!writer_fits(&log->writer, size)) {
        enum err err = next_rotate(log, size, error);
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

static void publish_durable(struct file_log *log, uint64_t sync_ns)
{
    segments_reach(&log->segments, writer_position(&log->writer));

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
    room_note_space(log, &log->commit_full, NULL);
    pthread_mutex_unlock(&log->mutex);

    atomic_store_explicit(&log->durable, ticket, memory_order_release);
    tell_progress(log);
}

void commit_block(struct file_log *log, const struct error *full)
{
    pthread_mutex_lock(&log->mutex);
    log->blocked = full || !log->next;
    room_note_space(log, &log->commit_full, full);
    pthread_mutex_unlock(&log->mutex);
}

bool commit_some(struct file_log *log)
{
    if (!log->in_hand)
        log->in_hand = take_chunk(log);
    struct chunk *chunk = log->in_hand;
    if (!chunk)
        return false;

    struct error error;
    enum err err = write_chunk(log, chunk, &error);
    if (err == ERR_BUSY || err == ERR_FULL) {
        commit_block(log, err == ERR_FULL ? &error : NULL);
        return false;
    }
    if (err) {
        file_log_fail(log, &error);
        return false;
    }
    atomic_store_explicit(&log->written, chunk->last_ticket, memory_order_release);
    tell_progress(log);

    uint64_t before_ns = env_monotonic_ns(log->env);
    err = writer_sync(&log->writer, &error);
    if (err) {
        file_log_fail(log, &error);
        return false;
    }
    log->synced_ns = env_monotonic_ns(log->env);
    log->sync_took_ns = log->synced_ns - before_ns;
    if (log->unsettled_ns == 0)
        log->unsettled_ns = log->synced_ns;
    publish_durable(log, log->sync_took_ns);
    return true;
}

/* ---- the note of what was synced ---- */

uint64_t commit_settles_at(const struct file_log *log, bool has_work)
{
    if (log->unsettled_ns == 0)
        return 0;
    if (!has_work)
        return log->synced_ns + SETTLE_IDLE_NS;
    uint64_t share_ns = log->sync_took_ns * SETTLE_SHARE;
    return log->unsettled_ns + (share_ns > SETTLE_BUSY_NS ? share_ns : SETTLE_BUSY_NS);
}

bool commit_settle(struct file_log *log, bool has_work)
{
    uint64_t at_ns = commit_settles_at(log, has_work);
    uint64_t now_ns = env_monotonic_ns(log->env);
    if (at_ns == 0 || now_ns < at_ns)
        return false;
    struct error error;
    enum err err = writer_settle(&log->writer, &error);
    log->synced_ns = now_ns;
    log->unsettled_ns = err == ERR_FULL ? now_ns : 0; /* without space it is tried again */
    if (err && err != ERR_FULL)
        file_log_fail(log, &error);
    return !err;
}
