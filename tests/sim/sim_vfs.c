#include "sim/sim_vfs.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 256u
#define ZEROS      4096u

struct vfs_file {
    sqlite3_file base;
    struct disk_file *file;
    uint64_t size;     /* as SQLite sees it */
    bool is_new;       /* its name may not be durable yet */
    bool is_temporary; /* goes when it is closed */
    char path[PATH_BYTES];
};

static struct {
    struct env *env;
    char folder[PATH_BYTES];
    unsigned temporaries;
} here;

static struct vfs_file *file_of(sqlite3_file *base)
{
    return (struct vfs_file *)base;
}

static int code_of(enum err err, int otherwise)
{
    return err == ERR_OK ? SQLITE_OK : err == ERR_FULL ? SQLITE_FULL : otherwise;
}

/* ---- files ---- */

static int close_file(sqlite3_file *base)
{
    struct vfs_file *file = file_of(base);
    disk_file_close(file->file);
    if (file->is_temporary)
        (void)disk_remove(here.env->disk, file->path, NULL);
    return SQLITE_OK;
}

static int read_file(sqlite3_file *base, void *to, int amount, sqlite3_int64 offset)
{
    struct vfs_file *file = file_of(base);
    uint64_t at = (uint64_t)offset;
    size_t wanted = (size_t)amount;
    size_t there = at >= file->size ? 0 : (size_t)(file->size - at);
    size_t size = 0;
    if (!file->file)
        return SQLITE_IOERR_READ;
    if (there > wanted)
        there = wanted;
    if (there > 0 && disk_file_read(file->file, at, to, there, &size, NULL))
        return SQLITE_IOERR_READ;
    if (size == wanted)
        return SQLITE_OK;
    memset((char *)to + size, 0, wanted - size);
    return SQLITE_IOERR_SHORT_READ;
}

/* A write that failed may have written a part, and the file is longer for it. */
static void note_part(struct vfs_file *file, uint64_t end)
{
    uint64_t size;
    if (disk_file_size(file->file, &size, NULL) || size > end)
        size = end;
    if (size > file->size)
        file->size = size;
}

static int write_file(sqlite3_file *base, const void *from, int amount, sqlite3_int64 offset)
{
    struct vfs_file *file = file_of(base);
    uint64_t at = (uint64_t)offset;
    if (!file->file)
        return SQLITE_IOERR_WRITE;
    enum err err = disk_file_write(file->file, at, from, (size_t)amount, NULL);
    if (err) {
        note_part(file, at + (uint64_t)amount);
        return code_of(err, SQLITE_IOERR_WRITE);
    }
    if (at + (uint64_t)amount > file->size)
        file->size = at + (uint64_t)amount;
    return SQLITE_OK;
}

/* Nothing is left of it: a new file takes its place. */
static int empty_file(struct vfs_file *file)
{
    struct disk *disk = here.env->disk;
    if (file->size == 0)
        return SQLITE_OK;
    disk_file_close(file->file);
    file->file = NULL;
    enum err err = disk_remove(disk, file->path, NULL);
    if (!err)
        err = disk_open(disk, file->path, DISK_CREATE, &file->file, NULL);
    file->size = 0;
    file->is_new = true;
    return code_of(err, SQLITE_IOERR_TRUNCATE);
}

static int truncate_file(sqlite3_file *base, sqlite3_int64 size)
{
    static const char zeros[ZEROS];
    struct vfs_file *file = file_of(base);
    if (size == 0)
        return empty_file(file);
    for (uint64_t at = (uint64_t)size; at < file->size;) {
        uint64_t left = file->size - at;
        size_t amount = left < ZEROS ? (size_t)left : ZEROS;
        enum err err = disk_file_write(file->file, at, zeros, amount, NULL);
        if (err)
            return code_of(err, SQLITE_IOERR_TRUNCATE);
        at += amount;
    }
    file->size = (uint64_t)size;
    return SQLITE_OK;
}

/* Like the real one: whoever might have created the file makes its name durable with the first
 * bytes. */
static int sync_file(sqlite3_file *base, int flags)
{
    struct vfs_file *file = file_of(base);
    (void)flags;
    if (!file->file || disk_file_sync(file->file, NULL))
        return SQLITE_IOERR_FSYNC;
    if (file->is_new && disk_sync_folder(here.env->disk, here.folder, NULL))
        return SQLITE_IOERR_DIR_FSYNC;
    file->is_new = false;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *ret_size)
{
    *ret_size = (sqlite3_int64)file_of(base)->size;
    return SQLITE_OK;
}

static int lock_file(sqlite3_file *base, int level)
{
    (void)base;
    (void)level;
    return SQLITE_OK;
}

static int is_reserved(sqlite3_file *base, int *ret_is)
{
    (void)base;
    *ret_is = 0;
    return SQLITE_OK;
}

static int control(sqlite3_file *base, int op, void *arg)
{
    (void)base;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *base)
{
    (void)base;
    return 512;
}

/* A sector that is written when the power goes may be torn. */
static int characteristics(sqlite3_file *base)
{
    (void)base;
    return 0;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = lock_file,
    .xCheckReservedLock = is_reserved,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
};

/* ---- names ---- */

static enum err open_or_create(struct vfs_file *file, int flags)
{
    struct disk *disk = here.env->disk;
    enum err err = disk_open(disk, file->path, DISK_WRITE, &file->file, NULL);
    file->is_new = flags & SQLITE_OPEN_CREATE;
    if (err != ERR_NOT_FOUND || !file->is_new)
        return err;
    return disk_open(disk, file->path, DISK_CREATE, &file->file, NULL);
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags,
                     int *ret_flags)
{
    struct vfs_file *file = file_of(base);
    (void)vfs;
    memset(file, 0, sizeof(*file));
    file->is_temporary = !name || flags & SQLITE_OPEN_DELETEONCLOSE;
    if (name)
        snprintf(file->path, sizeof(file->path), "%s", name);
    else
        snprintf(file->path, sizeof(file->path), "%.200s/temporary%u", here.folder,
                 here.temporaries++);
    if (open_or_create(file, flags))
        return SQLITE_CANTOPEN;
    if (disk_file_size(file->file, &file->size, NULL)) {
        disk_file_close(file->file);
        return SQLITE_IOERR_FSTAT;
    }
    base->pMethods = &methods;
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int delete_file(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    enum err err = disk_remove(here.env->disk, name, NULL);
    if (err == ERR_NOT_FOUND)
        return SQLITE_IOERR_DELETE_NOENT;
    if (!err && sync_folder && disk_sync_folder(here.env->disk, here.folder, NULL))
        return SQLITE_IOERR_DIR_FSYNC;
    return code_of(err, SQLITE_IOERR_DELETE);
}

static int look_for(sqlite3_vfs *vfs, const char *name, int flags, int *ret_is)
{
    struct disk_file *file;
    (void)vfs;
    (void)flags;
    enum err err = disk_open(here.env->disk, name, DISK_READ, &file, NULL);
    if (err && err != ERR_NOT_FOUND)
        return SQLITE_IOERR_ACCESS;
    *ret_is = !err;
    if (!err)
        disk_file_close(file);
    return SQLITE_OK;
}

static int full_path(sqlite3_vfs *vfs, const char *name, int size, char *to)
{
    (void)vfs;
    snprintf(to, (size_t)size, "%s", name);
    return SQLITE_OK;
}

/* ---- the rest of the world ---- */

static int randomness(sqlite3_vfs *vfs, int size, char *to)
{
    (void)vfs;
    for (int i = 0; i < size; i++)
        to[i] = (char)env_random(here.env);
    return size;
}

static int sleep_a_while(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    return microseconds;
}

static int current_time(sqlite3_vfs *vfs, double *ret_days)
{
    (void)vfs;
    *ret_days = 2440587.5 + (double)env_wall_ms(here.env) / 86400000.0;
    return SQLITE_OK;
}

static int last_error(sqlite3_vfs *vfs, int size, char *to)
{
    (void)vfs;
    (void)size;
    (void)to;
    return 0;
}

void sim_vfs_use(struct env *env, const char *folder)
{
    static sqlite3_vfs vfs = {
        .iVersion = 1,
        .szOsFile = sizeof(struct vfs_file),
        .mxPathname = PATH_BYTES,
        .zName = SIM_VFS,
        .xOpen = open_file,
        .xDelete = delete_file,
        .xAccess = look_for,
        .xFullPathname = full_path,
        .xRandomness = randomness,
        .xSleep = sleep_a_while,
        .xCurrentTime = current_time,
        .xGetLastError = last_error,
    };
    here.env = env;
    here.temporaries = 0;
    snprintf(here.folder, sizeof(here.folder), "%s", folder);
    int code = sqlite3_vfs_find(SIM_VFS) ? SQLITE_OK : sqlite3_vfs_register(&vfs, 0);
    assert(code == SQLITE_OK);
    (void)code;
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, 1, NULL);
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_RESET);
}
