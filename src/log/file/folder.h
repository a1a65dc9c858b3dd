/* folder.h - the files of a data folder and their names.
 *
 *   DIR/lock                     held while a process has the folder
 *   DIR/log/000000000001.log     segments, numbered without a gap
 *   DIR/log/000000000001.log.cut what a repair took away; never read again
 *   DIR/log/next                 a zeroed segment that waits for its turn
 *   DIR/log/next.new             the same while it is being zeroed
 *   DIR/log/first.new            the first segment of a start while it is being made
 *   DIR/log/scrub.new            a segment while it is being written anew
 *   DIR/log/synced               how far the log was synced: see synced.h
 *   DIR/log/trimmed              which segment is the first, once older ones were removed
 *   DIR/log/trimmed.new          the same while it is being written
 *
 * Files of other names are left alone. */
#ifndef LOG_FILE_FOLDER_H
#define LOG_FILE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/disk.h"
#include "base/error.h"

#define FOLDER_PATH_BYTES 4096u

#define FOLDER_NEXT      "next"
#define FOLDER_NEXT_NEW  "next.new"
#define FOLDER_FIRST_NEW "first.new"
#define FOLDER_SCRUB_NEW "scrub.new"
#define FOLDER_SYNCED    "synced"

struct folder {
    struct disk *disk; /* borrowed */
    char *path;        /* DIR, owned */
    char *log_path;    /* DIR/log, owned */
    struct disk_file *lock;
};

/* Takes the folder's lock. A missing folder is made if `create`, and is
 * ERR_NOT_FOUND else. ERR_BUSY when another process has it. */
enum err folder_open(struct disk *disk, const char *path, bool create, struct folder *ret_folder,
                     struct error *error);
void folder_close(struct folder *folder);

/* Makes DIR/log and everything on the way to it durable. */
enum err folder_make_log(struct folder *folder, struct error *error);

/* Paths are written to `to`, which is returned. */
const char *folder_path_of(const struct folder *folder, const char *name,
                           char to[FOLDER_PATH_BYTES]);
const char *folder_segment_path(const struct folder *folder, uint64_t number,
                                char to[FOLDER_PATH_BYTES]);

/* The numbers of all segments, in order; the array is the caller's to free. */
enum err folder_segments(const struct folder *folder, uint64_t **ret_numbers, size_t *ret_count,
                         struct error *error);

/* The number that the log's first segment has; 1 while nothing was trimmed. What
 * has a smaller one is to be removed. ERR_CORRUPT if it cannot be told. */
enum err folder_first(const struct folder *folder, uint64_t *ret_first, struct error *error);

/* Says so for ever: durable before it returns. */
enum err folder_set_first(const struct folder *folder, uint64_t first, struct error *error);

/* Forgets it: the log begins with segment 1 again. */
enum err folder_forget_first(const struct folder *folder, struct error *error);

/* Is there a file of this name in DIR/log? */
enum err folder_has(const struct folder *folder, const char *name, bool *ret_has,
                    struct error *error);

/* Removes it if it is there. */
enum err folder_remove(const struct folder *folder, const char *name, struct error *error);

/* Makes what was created, renamed and removed in DIR/log durable. */
enum err folder_sync(const struct folder *folder, struct error *error);

#endif
