/* view.h - a segment file, seen through a window: big reads, and groups looked at
 * in place. Belongs to one thread. */
#ifndef LOG_FILE_VIEW_H
#define LOG_FILE_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/disk.h"
#include "base/error.h"
#include "log/file/folder.h"
#include "log/file/segment.h"

struct view {
    struct disk_file *file;       /* owned; NULL = none */
    char path[FOLDER_PATH_BYTES]; /* of it, for error texts */
    uint64_t file_bytes;
    uint64_t limit; /* nothing behind it is read: the file's end, or where it may still change */
    char *window;   /* owned */
    size_t window_capacity; /* every group fits */
    uint64_t window_at;
    size_t window_bytes;
};

/* For segments up to this size. */
void view_init(struct view *view, uint64_t segment_bytes);
void view_done(struct view *view);

/* Opens a segment; its limit is its end. */
enum err view_open(struct view *view, const struct folder *folder, uint64_t number,
                   struct error *error);
void view_close(struct view *view); /* fine if there is nothing open */

/* `size` bytes at `offset`, which lie before the limit; good until the next call. */
enum err view_get(struct view *view, uint64_t offset, size_t size, const char **ret_bytes,
                  struct error *error);

/* Looks for a sound group at `offset` that ends at `end` or before. Gives what is
 * wrong in `ret_fault`, NULL if nothing; the whole group in `ret_bytes`. Of the
 * segment's header it needs log id, number and whether it is old. */
enum err view_group(struct view *view, const struct segment_header *header, uint64_t offset,
                    uint64_t end, struct group *ret_group, const char **ret_bytes,
                    const char **ret_fault, struct error *error);

#endif
