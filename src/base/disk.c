/* disk.c - from the caller to the disk, and what is true for all of them. */
#include "base/disk.h"

#include <assert.h>

enum err disk_open(struct disk *disk, const char *path, enum disk_open how,
                   struct disk_file **ret_file, struct error *error)
{
    assert(disk && path && ret_file);
    return disk->ops->open(disk, path, how, ret_file, error);
}

enum err disk_list(struct disk *disk, const char *folder, disk_list_fn *visit, void *arg,
                   struct error *error)
{
    assert(disk && folder && visit);
    return disk->ops->list(disk, folder, visit, arg, error);
}

enum err disk_rename(struct disk *disk, const char *from, const char *to, struct error *error)
{
    assert(disk && from && to);
    return disk->ops->rename(disk, from, to, error);
}

enum err disk_remove(struct disk *disk, const char *path, struct error *error)
{
    assert(disk && path);
    return disk->ops->remove(disk, path, error);
}

enum err disk_make_folder(struct disk *disk, const char *path, struct error *error)
{
    assert(disk && path && path[0] != '\0');
    return disk->ops->make_folder(disk, path, error);
}

enum err disk_sync_folder(struct disk *disk, const char *path, struct error *error)
{
    assert(disk && path);
    return disk->ops->sync_folder(disk, path, error);
}

enum err disk_lock(struct disk *disk, const char *path, struct disk_file **ret_file,
                   struct error *error)
{
    assert(disk && path && ret_file);
    return disk->ops->lock(disk, path, ret_file, error);
}

enum err disk_file_read(struct disk_file *file, uint64_t offset, void *to, size_t size,
                        size_t *ret_size, struct error *error)
{
    assert(file && (to || size == 0) && ret_size);
    return file->ops->file_read(file, offset, to, size, ret_size, error);
}

enum err disk_file_write(struct disk_file *file, uint64_t offset, const void *from, size_t size,
                         struct error *error)
{
    assert(file && (from || size == 0));
    return file->ops->file_write(file, offset, from, size, error);
}

enum err disk_file_sync(struct disk_file *file, struct error *error)
{
    assert(file);
    return file->ops->file_sync(file, error);
}

enum err disk_file_size(struct disk_file *file, uint64_t *ret_size, struct error *error)
{
    assert(file && ret_size);
    return file->ops->file_size(file, ret_size, error);
}

void disk_file_close(struct disk_file *file)
{
    if (file)
        file->ops->file_close(file);
}
