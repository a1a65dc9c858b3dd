/* disk.h - files, as much of them as the log needs.
 *
 * The real disk (disk_posix.c) and the simulated one of the tests fulfil this
 * contract. Calls block; interrupted and short transfers are continued inside.
 * No errno comes out: ERR_FULL means no space is left (ENOSPC, EDQUOT) or no
 * descriptor (EMFILE, ENFILE: error->code is ERR_NO_FILES then), which may pass; ERR_NOT_FOUND no
 * such file, ERR_EXISTS it is there already, ERR_BUSY it is locked by somebody else, ERR_IO
 * everything else. */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct disk;
struct disk_file;

enum disk_open {
    DISK_READ,   /* must exist */
    DISK_WRITE,  /* must exist; read and write */
    DISK_CREATE, /* must not exist; read and write */
};

/* Called for each file of a folder, in no order; false stops the walk. */
typedef bool disk_list_fn(void *arg, const char *name);

struct disk_ops {
    enum err (*open)(struct disk *disk, const char *path, enum disk_open how,
                     struct disk_file **ret_file, struct error *error);
    enum err (*list)(struct disk *disk, const char *folder, disk_list_fn *visit, void *arg,
                     struct error *error);
    enum err (*rename)(struct disk *disk, const char *from, const char *to, struct error *error);
    enum err (*remove)(struct disk *disk, const char *path, struct error *error);
    /* Creates a folder (0700) with the missing ones above it, durably; fine if it
     * exists. */
    enum err (*make_folder)(struct disk *disk, const char *path, struct error *error);
    /* Makes creations, renames and removals in the folder durable. */
    enum err (*sync_folder)(struct disk *disk, const char *path, struct error *error);
    /* Takes the lock file at `path`, creating it, until the file is closed.
     * ERR_BUSY when another process has it. */
    enum err (*lock)(struct disk *disk, const char *path, struct disk_file **ret_file,
                     struct error *error);

    enum err (*file_read)(struct disk_file *file, uint64_t offset, void *to, size_t size,
                          size_t *ret_size, struct error *error); /* short only at the end */
    enum err (*file_write)(struct disk_file *file, uint64_t offset, const void *from, size_t size,
                           struct error *error);
    /* fdatasync. A failure is always ERR_IO: what was written since the last sync
     * may be lost, and a second try would not tell. The same holds for folders. */
    enum err (*file_sync)(struct disk_file *file, struct error *error);
    enum err (*file_size)(struct disk_file *file, uint64_t *ret_size, struct error *error);
    void (*file_close)(struct disk_file *file);
};

/* The first members of every disk's own structs. */
struct disk {
    const struct disk_ops *ops;
};
struct disk_file {
    const struct disk_ops *ops;
};

/* Callers use these, not the table. */
enum err disk_open(struct disk *disk, const char *path, enum disk_open how,
                   struct disk_file **ret_file, struct error *error);
enum err disk_list(struct disk *disk, const char *folder, disk_list_fn *visit, void *arg,
                   struct error *error);
enum err disk_rename(struct disk *disk, const char *from, const char *to, struct error *error);
enum err disk_remove(struct disk *disk, const char *path, struct error *error);
enum err disk_make_folder(struct disk *disk, const char *path, struct error *error);
enum err disk_sync_folder(struct disk *disk, const char *path, struct error *error);
enum err disk_lock(struct disk *disk, const char *path, struct disk_file **ret_file,
                   struct error *error);
enum err disk_file_read(struct disk_file *file, uint64_t offset, void *to, size_t size,
                        size_t *ret_size, struct error *error);
enum err disk_file_write(struct disk_file *file, uint64_t offset, const void *from, size_t size,
                         struct error *error);
enum err disk_file_sync(struct disk_file *file, struct error *error);
enum err disk_file_size(struct disk_file *file, uint64_t *ret_size, struct error *error);
void disk_file_close(struct disk_file *file); /* NULL does nothing */

/* The disk of this machine; never freed. */
struct disk *disk_posix(void);

#endif
