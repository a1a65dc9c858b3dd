/* start.c - reading what is there, and beginning behind its end. */
#include "log/file/file_own.h"
#include "log/file/upkeep.h"

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

enum err start_read(struct log *base, struct log_position from, log_visit_fn *visit, void *arg,
                    log_reading_fn *reading, struct error *error)
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
    segments_reach(&log->segments, writer_position(&log->writer));
}

static enum err begin_first_segment(struct file_log *log, struct error *error)
{
    uint64_t size_bytes = next_size_bytes(log);
    struct disk_file *file;
    enum err err = prepare_all(&log->folder, FOLDER_FIRST_NEW, size_bytes, &file, error);
    if (err)
        return err;
    err = next_begin(log, file, FOLDER_FIRST_NEW, size_bytes, error);
    if (err)
        disk_file_close(file);
    return err;
}

/* A zeroed segment that an earlier process did not come to use is as good as a
 * new one: no group is written to a file before it has got its number. */
static enum err adopt_next(struct file_log *log, struct error *error)
{
    log->wanted_bytes = next_size_bytes(log);
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

enum err start_log(struct log *base, struct error *error)
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
    struct error full_error;
    err = begin_first_segment(log, &full_error);
    bool full = err == ERR_FULL;
    if (err && !full)
        return error_set(error, err, "%s", full_error.text);
    err = adopt_next(log, error);
    if (err)
        return err;
    if (full && !log->next) { /* reading goes on, and writing when there is space */
        log->retry_ns = env_monotonic_ns(log->env) + RETRY_NS;
        room_note_space(log, &log->prepare_full, &full_error);
    }
    return log->options.manual ? ERR_OK : threads_start(log, error);
}
