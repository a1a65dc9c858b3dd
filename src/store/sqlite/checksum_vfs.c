#include "store/sqlite/checksum_vfs.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

#define PAGE_MIN      512
#define PAGE_MAX      65536
#define HEADER_BYTES  100
#define MAGIC         "SQLite format 3" /* with its NUL: 16 bytes */
#define AT_PAGE_SIZE  16
#define AT_RESERVED   20
#define SLOT_CKPT     1 /* of the shared memory's locks */
#define UNDER_MAX     8
#define NAME_BYTES    64
#define CONTROL_FIRST 0x54616c00 /* SQLite's own are below 100 */

enum control {
    CONTROL_IS_ON = CONTROL_FIRST,
    CONTROL_KEEP_CHECKPOINTS,
    CONTROL_DAMAGED_PAGE,
    CONTROL_CHECK,
};

struct check {
    int64_t page;
    int count;
};

/* The main file of a database. That of the VFS below stands right behind it. */
struct checked_file {
    sqlite3_file base;
    bool has_sums;
    int page_bytes; /* 0: not known yet */
    int64_t damaged_page;
    bool keeps_checkpoints;
    bool has_checkpoints; /* the lock is ours */
};

static struct checked_file *checked(sqlite3_file *file)
{
    return (struct checked_file *)file;
}

static sqlite3_file *real(struct checked_file *file)
{
    return (sqlite3_file *)(file + 1);
}

/* --- sums --- */

void checksum_of_page(const unsigned char *page, int size, unsigned char sum[CHECKSUM_BYTES])
{
    uint64_t hash = hash_stable((struct slice){(const char *)page, (size_t)size - CHECKSUM_BYTES});
    for (int i = 0; i < CHECKSUM_BYTES; i++)
        sum[i] = (unsigned char)(hash >> 8 * i);
}

static bool matches(const unsigned char *page, int size)
{
    unsigned char sum[CHECKSUM_BYTES];
    checksum_of_page(page, size, sum);
    return memcmp(page + size - CHECKSUM_BYTES, sum, CHECKSUM_BYTES) == 0;
}

static bool is_page(int size, sqlite3_int64 offset)
{
    return size >= PAGE_MIN && size <= PAGE_MAX && (size & (size - 1)) == 0 && offset % size == 0;
}

/* The page with the bytes that SQLite locks, at 1 GiB, is never used nor written. Asked for with 0
 * SQLite only says where they are. */
#define PENDING_BYTE 0x40000000 /* of a library that does not say */

bool checksum_is_lock_page(int size, int64_t offset)
{
    int byte = sqlite3_test_control(SQLITE_TESTCTRL_PENDING_BYTE, 0u);
    return offset / size == (byte > 0 ? byte : PENDING_BYTE) / size;
}

static int damaged(struct checked_file *file, int size, sqlite3_int64 offset)
{
    file->damaged_page = offset / size + 1;
    return SQLITE_IOERR_DATA;
}

static int page_size_of(const unsigned char *header)
{
    int size = header[AT_PAGE_SIZE] << 8 | header[AT_PAGE_SIZE + 1];
    return size == 1 ? PAGE_MAX : size;
}

static int read_whole_first_page(struct checked_file *file, int size, unsigned char **ret_page)
{
    *ret_page = memory_take((size_t)size);
    int code = real(file)->pMethods->xRead(real(file), *ret_page, size, 0);
    if (code != SQLITE_OK) {
        free(*ret_page);
        *ret_page = NULL;
    }
    return code;
}

/* The first page says whether there are sums, and may be damaged in just that place: a page that
 * matches when it says that there are was written so. Else it is checked when it is read: there may
 * be a newer one in the WAL. */
static int note_header(struct checked_file *file, const unsigned char *header)
{
    int size = page_size_of(header);
    file->has_sums = header[AT_RESERVED] == CHECKSUM_BYTES;
    if (memcmp(header, MAGIC, sizeof(MAGIC)) != 0 || !is_page(size, 0))
        return SQLITE_OK; /* SQLite says that this is no database */
    file->page_bytes = size;
    unsigned char *page;
    if (file->has_sums || read_whole_first_page(file, size, &page) != SQLITE_OK)
        return SQLITE_OK;
    page[AT_RESERVED] = CHECKSUM_BYTES;
    bool is_summed = matches(page, size);
    free(page);
    return is_summed ? damaged(file, size, 0) : SQLITE_OK;
}

static int checked_read(sqlite3_file *base, void *to, int size, sqlite3_int64 offset)
{
    struct checked_file *file = checked(base);
    int code = real(file)->pMethods->xRead(real(file), to, size, offset);
    if (code == SQLITE_OK && offset == 0 && size >= HEADER_BYTES && size < PAGE_MIN)
        return note_header(file, to);
    if (!is_page(size, offset))
        return code;
    if (code == SQLITE_OK && offset == 0)
        code = note_header(file, to);
    if (!file->has_sums || (code == SQLITE_IOERR_SHORT_READ && offset == 0))
        return code;
    if (code == SQLITE_IOERR_SHORT_READ || (code == SQLITE_OK && !matches(to, size)))
        return checksum_is_lock_page(size, offset) ? code : damaged(file, size, offset);
    return code;
}

/* The reserved bytes are nobody else's, so that they are set in the caller's own page: it is the
 * page of SQLite's cache, or what it has read from the WAL. */
static int checked_write(sqlite3_file *base, const void *from, int size, sqlite3_int64 offset)
{
    struct checked_file *file = checked(base);
    unsigned char *page = (unsigned char *)(uintptr_t)from;
    if (offset == 0 && size >= HEADER_BYTES && memcmp(page, MAGIC, sizeof(MAGIC)) == 0) {
        file->has_sums = page[AT_RESERVED] == CHECKSUM_BYTES;
        file->page_bytes = page_size_of(page);
    }
    if (file->has_sums && is_page(size, offset))
        checksum_of_page(page, size, page + size - CHECKSUM_BYTES);
    return real(file)->pMethods->xWrite(real(file), from, size, offset);
}

/* --- all pages --- */

static int check_pages(struct checked_file *file, struct check *check)
{
    sqlite3_int64 bytes;
    int code = real(file)->pMethods->xFileSize(real(file), &bytes);
    int size = file->page_bytes;
    if (code != SQLITE_OK || !file->has_sums || size == 0) {
        check->page = 0;
        return code;
    }
    unsigned char *page = memory_take((size_t)size);
    for (; code == SQLITE_OK && check->count > 0 && check->page * size <= bytes; check->count--) {
        code = checked_read(&file->base, page, size, (check->page - 1) * size);
        check->page += code == SQLITE_OK;
    }
    free(page);
    if (code == SQLITE_OK)
        file->damaged_page = 0;
    if (code == SQLITE_OK && check->page * size > bytes)
        check->page = 0;
    return code;
}

/* --- the lock for checkpoints --- */

static int real_lock(struct checked_file *file, int first, int count, int flags)
{
    return count == 0 ? SQLITE_OK : real(file)->pMethods->xShmLock(real(file), first, count, flags);
}

static void take_checkpoints(struct checked_file *file)
{
    if (file->keeps_checkpoints && !file->has_checkpoints)
        file->has_checkpoints =
            real_lock(file, SLOT_CKPT, 1, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE) == SQLITE_OK;
}

/* What we keep is ours whenever SQLite asks for it, alone or, to recover the WAL, with the next
 * ones. */
static int checked_shm_lock(sqlite3_file *base, int first, int count, int flags)
{
    struct checked_file *file = checked(base);
    bool is_kept = file->has_checkpoints && first == SLOT_CKPT && (flags & SQLITE_SHM_EXCLUSIVE);
    if (is_kept)
        return real_lock(file, first + 1, count - 1, flags);
    int code = real_lock(file, first, count, flags);
    if (first != SLOT_CKPT)
        take_checkpoints(file);
    return code;
}

static int checked_shm_unmap(sqlite3_file *base, int remove)
{
    struct checked_file *file = checked(base);
    if (file->has_checkpoints)
        (void)real_lock(file, SLOT_CKPT, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
    file->has_checkpoints = file->keeps_checkpoints = false;
    return real(file)->pMethods->xShmUnmap(real(file), remove);
}

/* --- what else a file does --- */

static int checked_close(sqlite3_file *base)
{
    return real(checked(base))->pMethods->xClose(real(checked(base)));
}

static int checked_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    return real(checked(base))->pMethods->xTruncate(real(checked(base)), size);
}

static int checked_sync(sqlite3_file *base, int flags)
{
    return real(checked(base))->pMethods->xSync(real(checked(base)), flags);
}

static int checked_size(sqlite3_file *base, sqlite3_int64 *ret_size)
{
    return real(checked(base))->pMethods->xFileSize(real(checked(base)), ret_size);
}

static int checked_lock(sqlite3_file *base, int level)
{
    return real(checked(base))->pMethods->xLock(real(checked(base)), level);
}

static int checked_unlock(sqlite3_file *base, int level)
{
    return real(checked(base))->pMethods->xUnlock(real(checked(base)), level);
}

static int checked_is_reserved(sqlite3_file *base, int *ret_is)
{
    return real(checked(base))->pMethods->xCheckReservedLock(real(checked(base)), ret_is);
}

static int checked_control(sqlite3_file *base, int control, void *arg)
{
    struct checked_file *file = checked(base);
    switch (control) {
    case CONTROL_IS_ON:
        *(bool *)arg = file->has_sums;
        return SQLITE_OK;
    case CONTROL_KEEP_CHECKPOINTS:
        file->keeps_checkpoints = true;
        return SQLITE_OK;
    case CONTROL_DAMAGED_PAGE:
        *(int64_t *)arg = file->damaged_page;
        return SQLITE_OK;
    case CONTROL_CHECK:
        return check_pages(file, arg);
    default:
        return real(file)->pMethods->xFileControl(real(file), control, arg);
    }
}

static int checked_sector(sqlite3_file *base)
{
    const sqlite3_io_methods *methods = real(checked(base))->pMethods;
    return methods->xSectorSize ? methods->xSectorSize(real(checked(base))) : 4096;
}

static int checked_device(sqlite3_file *base)
{
    return real(checked(base))->pMethods->xDeviceCharacteristics(real(checked(base)));
}

static int checked_shm_map(sqlite3_file *base, int region, int size, int extend, void volatile **to)
{
    return real(checked(base))->pMethods->xShmMap(real(checked(base)), region, size, extend, to);
}

static void checked_shm_barrier(sqlite3_file *base)
{
    real(checked(base))->pMethods->xShmBarrier(real(checked(base)));
}

#define FILE_METHODS                                                                             \
    .xClose = checked_close, .xRead = checked_read, .xWrite = checked_write,                     \
    .xTruncate = checked_truncate, .xSync = checked_sync, .xFileSize = checked_size,             \
    .xLock = checked_lock, .xUnlock = checked_unlock, .xCheckReservedLock = checked_is_reserved, \
    .xFileControl = checked_control, .xSectorSize = checked_sector,                              \
    .xDeviceCharacteristics = checked_device

static const sqlite3_io_methods alone_methods = {.iVersion = 1, FILE_METHODS};
static const sqlite3_io_methods shared_methods = {
    .iVersion = 2,
    FILE_METHODS,
    .xShmMap = checked_shm_map,
    .xShmLock = checked_shm_lock,
    .xShmBarrier = checked_shm_barrier,
    .xShmUnmap = checked_shm_unmap,
};

/* --- the VFS --- */

struct named_vfs {
    sqlite3_vfs vfs;
    char name[NAME_BYTES];
};

static sqlite3_vfs *under(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

/* Journals and WALs are the business of the VFS below alone. */
static int checked_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *base, int flags,
                        int *ret_flags)
{
    if (!(flags & SQLITE_OPEN_MAIN_DB))
        return under(vfs)->xOpen(under(vfs), name, base, flags, ret_flags);
    struct checked_file *file = checked(base);
    memset(file, 0, sizeof(*file));
    int code = under(vfs)->xOpen(under(vfs), name, real(file), flags, ret_flags);
    if (real(file)->pMethods)
        file->base.pMethods = real(file)->pMethods->iVersion > 1 ? &shared_methods : &alone_methods;
    return code;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    return under(vfs)->xDelete(under(vfs), name, sync);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_is)
{
    return under(vfs)->xAccess(under(vfs), name, flags, ret_is);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *to)
{
    return under(vfs)->xFullPathname(under(vfs), name, size, to);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *to)
{
    return under(vfs)->xRandomness(under(vfs), size, to);
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
    return under(vfs)->xSleep(under(vfs), microseconds);
}

static int vfs_time(sqlite3_vfs *vfs, double *ret_days)
{
    return under(vfs)->xCurrentTime(under(vfs), ret_days);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *to)
{
    return under(vfs)->xGetLastError(under(vfs), size, to);
}

static const char *add_vfs(struct named_vfs *named, sqlite3_vfs *below)
{
    snprintf(named->name, sizeof(named->name), "tally-%s", below->zName);
    named->vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = (int)sizeof(struct checked_file) + below->szOsFile,
        .mxPathname = below->mxPathname,
        .zName = named->name,
        .pAppData = below,
        .xOpen = checked_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time,
        .xGetLastError = vfs_last_error,
    };
    int code = sqlite3_vfs_register(&named->vfs, 0);
    assert(code == SQLITE_OK);
    (void)code;
    return named->name;
}

const char *checksum_vfs(const char *under_name)
{
    static struct named_vfs all[UNDER_MAX];
    static size_t count;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    sqlite3_vfs *below = sqlite3_vfs_find(under_name);
    const char *name = NULL;
    for (size_t i = 0; i < count && !name; i++)
        if (all[i].vfs.pAppData == below)
            name = all[i].name;
    if (!name && below) {
        assert(count < UNDER_MAX);
        name = add_vfs(&all[count++], below);
    }
    pthread_mutex_unlock(&mutex);
    return name;
}

/* --- for the connection --- */

static int control(sqlite3 *handle, enum control which, void *arg)
{
    return sqlite3_file_control(handle, "main", (int)which, arg);
}

bool checksum_is_on(sqlite3 *handle)
{
    bool is_on = false;
    (void)control(handle, CONTROL_IS_ON, &is_on);
    return is_on;
}

void checksum_keep_checkpoints(sqlite3 *handle)
{
    (void)control(handle, CONTROL_KEEP_CHECKPOINTS, NULL);
}

int64_t checksum_damaged_page(sqlite3 *handle)
{
    int64_t page = 0;
    (void)control(handle, CONTROL_DAMAGED_PAGE, &page);
    return page;
}

int checksum_check(sqlite3 *handle, int64_t *page, int count)
{
    assert(page && *page > 0);

    struct check check = {*page, count};
    int code = control(handle, CONTROL_CHECK, &check);
    *page = check.page;
    return code;
}
