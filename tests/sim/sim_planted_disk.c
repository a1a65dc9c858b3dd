/* sim_planted_disk.c - disks that lie. */
#include <stdlib.h>
#include <string.h>

#include "log/file/segment.h"
#include "log/file/synced.h"
#include "sim/sim_planted_own.h"

struct planted_file {
    struct disk_file base;
    struct disk_file *inner; /* NULL: it only looks like one */
    struct planted_disk *disk;
    enum bug bug;
    enum disk_open how;
    bool has_header; /* was written through this file */
    bool has_groups;
    bool is_synced_note; /* the file that says how far the log was synced */
};

static const struct disk_ops planted_disk_ops;

static struct disk *inner_of(struct disk *disk)
{
    return ((struct planted_disk *)disk)->inner;
}

static enum bug bug_of(struct disk *disk)
{
    return ((struct planted_disk *)disk)->bug;
}

static bool is_synced_note(const char *path)
{
    const char *name = strrchr(path, '/');
    return name && strcmp(name + 1, FOLDER_SYNCED) == 0;
}

static enum err wrap_file(struct disk *disk, enum err err, enum disk_open how,
                          struct disk_file *inner, struct disk_file **ret_file)
{
    if (err)
        return err;
    struct planted_file *file = calloc(1, sizeof(*file));
    if (!file)
        abort();
    *file = (struct planted_file){
        .base.ops = &planted_disk_ops,
        .inner = inner,
        .disk = (struct planted_disk *)disk,
        .bug = bug_of(disk),
        .how = how,
    };
    *ret_file = &file->base;
    return ERR_OK;
}

static enum err open_file(struct disk *disk, const char *path, enum disk_open how,
                          struct disk_file **ret_file, struct error *error)
{
    struct disk_file *inner = NULL;
    enum err err = disk_open(inner_of(disk), path, how, &inner, error);
    err = wrap_file(disk, err, how, inner, ret_file);
    if (err || !is_synced_note(path))
        return err;
    struct planted_file *file = (struct planted_file *)*ret_file;
    file->is_synced_note = true;
    if (how != DISK_READ)
        file->disk->synced_note = inner;
    return ERR_OK;
}

static enum err list(struct disk *disk, const char *folder, disk_list_fn *visit, void *arg,
                     struct error *error)
{
    return disk_list(inner_of(disk), folder, visit, arg, error);
}

static enum err rename_file(struct disk *disk, const char *from, const char *to,
                            struct error *error)
{
    return disk_rename(inner_of(disk), from, to, error);
}

static enum err remove_file(struct disk *disk, const char *path, struct error *error)
{
    return disk_remove(inner_of(disk), path, error);
}

static enum err make_folder(struct disk *disk, const char *path, struct error *error)
{
    return disk_make_folder(inner_of(disk), path, error);
}

static enum err sync_folder(struct disk *disk, const char *path, struct error *error)
{
    if (bug_of(disk) == BUG_NO_FOLDER_SYNC)
        return ERR_OK;
    return disk_sync_folder(inner_of(disk), path, error);
}

static enum err lock(struct disk *disk, const char *path, struct disk_file **ret_file,
                     struct error *error)
{
    struct disk_file *inner = NULL;
    enum err err = disk_lock(inner_of(disk), path, &inner, error);
    if (err == ERR_BUSY && bug_of(disk) == BUG_NO_LOCK)
        err = ERR_OK;
    return wrap_file(disk, err, DISK_WRITE, inner, ret_file);
}

/* The size of the group at `bytes`, if a whole one is there, else 0. */
static size_t group_at(const char *bytes, size_t left, struct group *ret_group)
{
    if (left < GROUP_HEADER_BYTES || !group_get(bytes, ret_group))
        return 0;
    size_t size = group_bytes(ret_group->body_bytes);
    return size <= left ? size : 0;
}

static void mend_checksums(char *bytes, size_t size)
{
    struct group group;
    for (size_t at = 0; at < size; at += GROUP_ALIGN) {
        if (group_at(bytes + at, size - at, &group) > 0)
            group_seal(bytes + at, &group);
    }
}

static bool has_sound_group(const char *bytes, size_t size)
{
    struct group group;
    for (size_t at = 0; at < size; at += GROUP_ALIGN) {
        if (group_at(bytes + at, size - at, &group) > 0 && group_is_intact(bytes + at, &group))
            return true;
    }
    return false;
}

static void cut_at_damage(char *bytes, size_t size, bool only_last)
{
    struct group group;
    size_t at = 0;
    size_t group_size;
    while ((group_size = group_at(bytes + at, size - at, &group)) > 0) {
        if (!group_is_intact(bytes + at, &group))
            break;
        at += group_size;
    }
    if (!only_last || !has_sound_group(bytes + at, size - at))
        memset(bytes + at, 0, size - at);
}

/* A bug of the end of the log does not look at what was noted, either. */
static bool hides_note(enum bug bug)
{
    return bug == BUG_DAMAGE_CUT || bug == BUG_LAST_CUT || bug == BUG_SYNCED_UNKNOWN;
}

static enum err file_read(struct disk_file *base, uint64_t offset, void *to, size_t size,
                          size_t *ret_size, struct error *error)
{
    struct planted_file *file = (struct planted_file *)base;
    enum err err = disk_file_read(file->inner, offset, to, size, ret_size, error);
    if (!err && file->is_synced_note && hides_note(file->bug))
        memset(to, 0, *ret_size);
    if (err || offset < SEGMENT_HEADER_BYTES)
        return err;
    if (file->bug == BUG_NO_CHECKSUM)
        mend_checksums(to, *ret_size);
    bool cuts = file->bug == BUG_DAMAGE_CUT || file->bug == BUG_LAST_CUT;
    if (cuts && offset == SEGMENT_HEADER_BYTES)
        cut_at_damage(to, *ret_size, file->bug == BUG_LAST_CUT);
    return ERR_OK;
}

static void note_too_early(const struct planted_disk *disk, const struct group *group)
{
    struct synced synced = {.file = disk->synced_note, .log_id = group->log_id};
    struct log_position end = {group->segment, group->offset + group_size(group)};
    if (synced.file)
        synced_note(&synced, end, NULL);
}

static enum err file_write(struct disk_file *base, uint64_t offset, const void *from, size_t size,
                           struct error *error)
{
    struct planted_file *file = (struct planted_file *)base;
    struct group group;
    if (offset == 0) {
        file->has_header = true;
    } else if (group_at(from, size, &group) > 0) {
        file->has_groups = true;
        if (file->bug == BUG_SYNCED_EARLY)
            note_too_early(file->disk, &group);
    }
    enum err err = disk_file_write(file->inner, offset, from, size, error);
    return err == ERR_FULL && file->bug == BUG_FULL_IGNORED ? ERR_OK : err;
}

/* Is this a sync that the bug leaves out? Recovery writes a group to a segment
 * that it did not begin; everybody else writes a header first. */
static bool is_left_out(const struct planted_file *file)
{
    switch (file->bug) {
    case BUG_NO_SYNC:
        return true;
    case BUG_HEADER_UNSYNCED:
        return !file->has_groups;
    case BUG_UNSETTLED:
        return file->how == DISK_WRITE && !file->has_header;
    default:
        return false;
    }
}

static enum err file_sync(struct disk_file *base, struct error *error)
{
    struct planted_file *file = (struct planted_file *)base;
    if (is_left_out(file))
        return ERR_OK;
    enum err err = disk_file_sync(file->inner, error);
    if (err && file->bug == BUG_SYNC_RETRIED)
        err = disk_file_sync(file->inner, error);
    return err;
}

static enum err file_size(struct disk_file *base, uint64_t *ret_size, struct error *error)
{
    return disk_file_size(((struct planted_file *)base)->inner, ret_size, error);
}

static void file_close(struct disk_file *base)
{
    struct planted_file *file = (struct planted_file *)base;
    if (file->disk->synced_note == file->inner)
        file->disk->synced_note = NULL;
    disk_file_close(file->inner);
    free(file);
}

static const struct disk_ops planted_disk_ops = {
    .open = open_file,
    .list = list,
    .rename = rename_file,
    .remove = remove_file,
    .make_folder = make_folder,
    .sync_folder = sync_folder,
    .lock = lock,
    .file_read = file_read,
    .file_write = file_write,
    .file_sync = file_sync,
    .file_size = file_size,
    .file_close = file_close,
};

struct disk *planted_disk(struct planted *planted, struct disk *inner)
{
    if (planted->bug < BUG_NO_SYNC || planted->bug > BUG_FULL_IGNORED)
        return inner;
    planted->disk =
        (struct planted_disk){.base.ops = &planted_disk_ops, .inner = inner, .bug = planted->bug};
    return &planted->disk.base;
}
