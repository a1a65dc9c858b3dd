/* synced.h - how far the log was synced, noted beside it: DIR/log/synced.
 *
 * It is noted after each sync and before anything is acknowledged. The note itself
 * is synced when a segment begins, when nothing was written for a moment, now and then
 * while something always is, and when the log is closed. So it survives the death of
 * the process as it is; after a power cut it may be older than the truth, by a moment
 * or, under load, about a second, and never newer. What is missing in front of it was
 * lost; behind it a write may have been cut short.
 *
 *   slot, two of them, 512 bytes apart, written in turn
 *      0 magic "TALLYSYN"   8
 *      8 log id             8
 *     16 segment            8
 *     24 offset             8
 *     32 checksum, XXH3     8
 *
 * A slot that cannot be read says nothing, and the older one holds. Belongs to
 * one thread. */
#ifndef LOG_FILE_SYNCED_H
#define LOG_FILE_SYNCED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/disk.h"
#include "base/error.h"
#include "core/log.h"
#include "log/file/folder.h"

struct synced {
    struct disk_file *file; /* NULL: there was no space for it, and nothing is noted */
    uint64_t log_id;
    unsigned slot; /* to be written next */
    bool has_told_full;
};

/* What was noted last; all zero if nothing is known of the log `log_id`, or of any
 * log if that is 0. */
enum err synced_read(const struct folder *folder, uint64_t log_id, struct log_position *ret_synced,
                     struct error *error);

/* Opens the file, or makes it; *synced is zeroed, or was opened before in vain. Its name is durable
 * with the next folder_sync(). */
enum err synced_open(struct synced *synced, const struct folder *folder, uint64_t log_id,
                     struct error *error);
void synced_close(struct synced *synced);

/* Notes that everything in front of `position` is durable. */
enum err synced_note(struct synced *synced, struct log_position position, struct error *error);

/* Makes what was noted last durable. */
enum err synced_settle(const struct synced *synced, struct error *error);

/* From now on nothing is known, durably: the log was cut. */
enum err synced_forget(const struct folder *folder, struct error *error);

#endif
