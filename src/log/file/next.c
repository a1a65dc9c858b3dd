/* next.c - the next segment: wanted, prepared in good time, and gone over to. */
#include "log/file/file_own.h"

/* The first segment of a start is small, and each one after it twice as large,
 * up to the size that was asked for: starting is quick, many starts do not fill
 * the disk, and the next segment is always ready before this one is full. */
#define FIRST_SEGMENT_BYTES (4u << 20)

enum err next_begin(struct file_log *log, struct disk_file *file, const char *name,
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
    room_decide(log);
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->wanted);
}

uint64_t next_size_bytes(const struct file_log *log)
{
    uint64_t size = log->writer.file ? 2 * log->writer.size_bytes : FIRST_SEGMENT_BYTES;
    return size < log->options.segment_bytes ? size : log->options.segment_bytes;
}

/* The same, if it has to take a group of this size. */
static uint64_t fitting_bytes(const struct file_log *log, uint64_t group_size)
{
    uint64_t following = next_size_bytes(log);
    uint64_t size = SEGMENT_HEADER_BYTES + group_size;
    size = (size + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    return size > following ? size : following;
}

enum err next_rotate(struct file_log *log, uint64_t group_size, struct error *error)
{
    pthread_mutex_lock(&log->mutex);
    struct disk_file *next = log->next; /* nobody else touches it while it is there */
    uint64_t next_bytes = log->next_bytes;
    enum err waiting = log->prepare_full ? ERR_FULL : ERR_BUSY;
    pthread_mutex_unlock(&log->mutex);
    if (!next)
        return error_set(error, waiting, "the next segment of the log is not ready");

    if (next_bytes < SEGMENT_HEADER_BYTES + group_size) {
        disk_file_close(next);
        want_segment(log, fitting_bytes(log, group_size));
        return ERR_BUSY;
    }
    enum err err = next_begin(log, next, FOLDER_NEXT, next_bytes, error);
    if (!err)
        want_segment(log, next_size_bytes(log));
    return err;
}

/* ---- preparing it ---- */

bool next_may_prepare(const struct file_log *log)
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
    room_note_space(log, &log->prepare_full, NULL);
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

void next_prepare_some(struct file_log *log, uint64_t wanted_bytes)
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
        file_log_fail(log, &error);
        return;
    }
    pthread_mutex_lock(&log->mutex);
    log->retry_ns = env_monotonic_ns(log->env) + RETRY_NS;
    room_note_space(log, &log->prepare_full, &error);
    pthread_mutex_unlock(&log->mutex);
}
