#include "store/sqlite/readonly_vfs.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <sqlite3.h>

#define NAME      "tally-readonly"
#define NAME_FILE "tally-readonly-file"

/* The file of the VFS below stands right behind it. */
struct readonly_file {
    sqlite3_file base;
    bool is_absent; /* a WAL that does not exist: it is empty */
    bool may_write; /* the file of the VFS below */
    bool locks;
};

static struct readonly_file *readonly(sqlite3_file *file)
{
    return (struct readonly_file *)file;
}

static sqlite3_file *real(sqlite3_file *file)
{
    return (sqlite3_file *)(readonly(file) + 1);
}

/* --- a file --- */

static int readonly_close(sqlite3_file *file)
{
    return readonly(file)->is_absent ? SQLITE_OK : real(file)->pMethods->xClose(real(file));
}

static int readonly_read(sqlite3_file *file, void *to, int size, sqlite3_int64 offset)
{
    if (!readonly(file)->is_absent)
        return real(file)->pMethods->xRead(real(file), to, size, offset);
    memset(to, 0, (size_t)size);
    return SQLITE_IOERR_SHORT_READ;
}

static int refuse_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 offset)
{
    (void)file;
    (void)from;
    (void)size;
    (void)offset;
    return SQLITE_READONLY;
}

static int refuse_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    (void)file;
    (void)size;
    return SQLITE_READONLY;
}

static int readonly_sync(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    return SQLITE_OK;
}

static int readonly_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    *ret_size = 0;
    return readonly(file)->is_absent ? SQLITE_OK
                                     : real(file)->pMethods->xFileSize(real(file), ret_size);
}

/* A file that may not be written cannot be locked against readers, and nobody writes to it. */
static int readonly_lock(sqlite3_file *file, int level)
{
    bool is_real =
        readonly(file)->locks && (level <= SQLITE_LOCK_SHARED || readonly(file)->may_write);
    if (!is_real)
        return SQLITE_OK;
    return real(file)->pMethods->xLock(real(file), level);
}

static int readonly_unlock(sqlite3_file *file, int level)
{
    return readonly(file)->locks ? real(file)->pMethods->xUnlock(real(file), level) : SQLITE_OK;
}

static int readonly_is_reserved(sqlite3_file *file, int *ret_is)
{
    *ret_is = 0;
    if (!readonly(file)->locks)
        return SQLITE_OK;
    return real(file)->pMethods->xCheckReservedLock(real(file), ret_is);
}

static int readonly_control(sqlite3_file *file, int control, void *arg)
{
    return readonly(file)->is_absent ? SQLITE_NOTFOUND
                                     : real(file)->pMethods->xFileControl(real(file), control, arg);
}

static int readonly_sector(sqlite3_file *file)
{
    bool is_known = !readonly(file)->is_absent && real(file)->pMethods->xSectorSize;
    return is_known ? real(file)->pMethods->xSectorSize(real(file)) : 4096;
}

static int readonly_device(sqlite3_file *file)
{
    return readonly(file)->is_absent ? 0 : real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static const sqlite3_io_methods methods = {
    .iVersion = 1, /* no shared memory */
    .xClose = readonly_close,
    .xRead = readonly_read,
    .xWrite = refuse_write,
    .xTruncate = refuse_truncate,
    .xSync = readonly_sync,
    .xFileSize = readonly_size,
    .xLock = readonly_lock,
    .xUnlock = readonly_unlock,
    .xCheckReservedLock = readonly_is_reserved,
    .xFileControl = readonly_control,
    .xSectorSize = readonly_sector,
    .xDeviceCharacteristics = readonly_device,
};

/* --- the VFS --- */

static sqlite3_vfs whole; /* the file and its WAL */
static sqlite3_vfs file_alone;

static sqlite3_vfs *below(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static int open_below(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *base, int flags,
                      int *ret_flags)
{
    sqlite3_file *file = real(base);
    memset(file, 0, sizeof(*file));
    int code = below(vfs)->xOpen(below(vfs), name, file, flags, ret_flags);
    if (code != SQLITE_OK && file->pMethods) {
        file->pMethods->xClose(file);
        file->pMethods = NULL;
    }
    return code;
}

/* The file itself is opened for writing if that is allowed, so that it can be locked. */
static int readonly_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *base, int flags,
                         int *ret_flags)
{
    bool is_main = (flags & SQLITE_OPEN_MAIN_DB) != 0;
    int as = flags & ~SQLITE_OPEN_CREATE;
    if (!is_main)
        as = (as & ~SQLITE_OPEN_READWRITE) | SQLITE_OPEN_READONLY;
    int got = 0;
    bool is_hidden = vfs == &file_alone && !is_main;
    int code = is_hidden ? SQLITE_CANTOPEN : open_below(vfs, name, base, as, &got);
    bool is_absent = code != SQLITE_OK && (flags & SQLITE_OPEN_WAL);
    if (code != SQLITE_OK && !is_absent)
        return code;
    *readonly(base) = (struct readonly_file){
        .base.pMethods = &methods,
        .is_absent = is_absent,
        .may_write = (got & SQLITE_OPEN_READWRITE) != 0,
        .locks = vfs == &whole,
    };
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int refuse_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    (void)name;
    (void)sync;
    return SQLITE_READONLY;
}

/* SQLite asks for a journal and a WAL so. */
static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_is)
{
    *ret_is = 0;
    if (vfs == &file_alone)
        return SQLITE_OK;
    return below(vfs)->xAccess(below(vfs), name, flags, ret_is);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *to)
{
    return below(vfs)->xFullPathname(below(vfs), name, size, to);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *to)
{
    return below(vfs)->xRandomness(below(vfs), size, to);
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
    return below(vfs)->xSleep(below(vfs), microseconds);
}

static int vfs_time(sqlite3_vfs *vfs, double *ret_days)
{
    return below(vfs)->xCurrentTime(below(vfs), ret_days);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *to)
{
    return below(vfs)->xGetLastError(below(vfs), size, to);
}

static void add_vfs(sqlite3_vfs *vfs, const char *name, sqlite3_vfs *usual)
{
    *vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = (int)sizeof(struct readonly_file) + usual->szOsFile,
        .mxPathname = usual->mxPathname,
        .zName = name,
        .pAppData = usual,
        .xOpen = readonly_open,
        .xDelete = refuse_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time,
        .xGetLastError = vfs_last_error,
    };
    int code = sqlite3_vfs_register(vfs, 0);
    assert(code == SQLITE_OK);
    (void)code;
}

static void add_both(void)
{
    sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    assert(usual);
    add_vfs(&whole, NAME, usual);
    add_vfs(&file_alone, NAME_FILE, usual);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *readonly_vfs(void)
{
    pthread_once(&once, add_both);
    return NAME;
}

const char *readonly_file_vfs(void)
{
    pthread_once(&once, add_both);
    return NAME_FILE;
}
