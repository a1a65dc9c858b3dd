#include "store/sqlite/checksum_adopt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/message.h"
#include "store/sqlite/checksum_vfs.h"

#define PATH_BYTES   600
#define HEADER_BYTES 100
#define MAGIC        "SQLite format 3"
#define AT_PAGE_SIZE 16
#define AT_RESERVED  20
#define SLOT_CKPT    1
#define BUSY_MS      2000
#define OPEN         "-open"
#define ADOPTING     "-adopting"

static void beside(const char *path, const char *suffix, char to[PATH_BYTES])
{
    snprintf(to, PATH_BYTES, "%s%s", path, suffix);
}

static off_t size_of(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 ? facts.st_size : -1;
}

/* --- marks: empty files beside it, durable --- */

static bool sync_folder_of(const char *path)
{
    char folder[PATH_BYTES];
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    int file = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = file >= 0 && fsync(file) == 0;
    if (file >= 0)
        close(file);
    return is_synced;
}

static bool is_marked(const char *path, const char *suffix)
{
    char mark[PATH_BYTES];
    beside(path, suffix, mark);
    return size_of(mark) >= 0;
}

static bool set_mark(const char *path, const char *suffix)
{
    char mark[PATH_BYTES];
    beside(path, suffix, mark);
    int file = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
    return file >= 0 && sync_folder_of(path);
}

/* Only the removal of one that was there has to be made durable. */
static void clear_mark(const char *path, const char *suffix)
{
    char mark[PATH_BYTES];
    beside(path, suffix, mark);
    if (unlink(mark) == 0)
        (void)sync_folder_of(path);
}

static bool was_left_open(const char *path)
{
    char wal[PATH_BYTES];
    beside(path, "-wal", wal);
    return is_marked(path, OPEN) && size_of(wal) < 0;
}

void checksum_mark_closed(const char *path)
{
    if (was_left_open(path))
        checksum_mark_open(path, false);
}

void checksum_mark_open(const char *path, bool is_open)
{
    if (is_open)
        (void)set_mark(path, OPEN);
    else
        clear_mark(path, OPEN);
}

/* --- the first page --- */

struct pages {
    sqlite3_file *file;
    unsigned char *page; /* owned */
    int size;
    bool only_unsummed;    /* a page with a wrong sum is damaged */
    sqlite3_int64 damaged; /* its number; 0: none */
};

static int read_page(const struct pages *pages, sqlite3_int64 offset)
{
    return pages->file->pMethods->xRead(pages->file, pages->page, pages->size, offset);
}

/* Does it have reserved bytes for sums? Reads the first page. */
static bool has_sums(struct pages *pages)
{
    unsigned char header[HEADER_BYTES];
    if (pages->file->pMethods->xRead(pages->file, header, HEADER_BYTES, 0) != SQLITE_OK ||
        memcmp(header, MAGIC, sizeof(MAGIC)) != 0 || header[AT_RESERVED] != CHECKSUM_BYTES)
        return false;
    int size = header[AT_PAGE_SIZE] << 8 | header[AT_PAGE_SIZE + 1];
    pages->size = size == 1 ? 65536 : size;
    if (pages->size < 512)
        return false;
    pages->page = memory_take((size_t)pages->size);
    return read_page(pages, 0) == SQLITE_OK;
}

static bool has_no_sum(const struct pages *pages)
{
    static const unsigned char none[CHECKSUM_BYTES];
    return memcmp(pages->page + pages->size - CHECKSUM_BYTES, none, CHECKSUM_BYTES) == 0;
}

/* --- all of them --- */

static bool is_sum_wrong(const struct pages *pages)
{
    unsigned char sum[CHECKSUM_BYTES];
    checksum_of_page(pages->page, pages->size, sum);
    return !has_no_sum(pages) &&
           memcmp(pages->page + pages->size - CHECKSUM_BYTES, sum, CHECKSUM_BYTES) != 0;
}

static int check_page(struct pages *pages, sqlite3_int64 offset)
{
    int code = read_page(pages, offset);
    if (code != SQLITE_OK || !is_sum_wrong(pages) || checksum_is_lock_page(pages->size, offset))
        return code;
    pages->damaged = offset / pages->size + 1;
    return SQLITE_IOERR_DATA;
}

static int sum_page(struct pages *pages, sqlite3_int64 offset)
{
    unsigned char sum[CHECKSUM_BYTES];
    if (checksum_is_lock_page(pages->size, offset))
        return SQLITE_OK;
    int code = read_page(pages, offset);
    if (code != SQLITE_OK)
        return code;
    checksum_of_page(pages->page, pages->size, sum);
    return pages->file->pMethods->xWrite(pages->file, sum, CHECKSUM_BYTES,
                                         offset + pages->size - CHECKSUM_BYTES);
}

typedef int page_fn(struct pages *pages, sqlite3_int64 offset);

/* All but the first. */
static int for_each_page(struct pages *pages, page_fn *visit)
{
    sqlite3_int64 bytes;
    int code = pages->file->pMethods->xFileSize(pages->file, &bytes);
    for (sqlite3_int64 at = pages->size; at + pages->size <= bytes && code == SQLITE_OK;
         at += pages->size)
        code = visit(pages, at);
    return code;
}

static int sync_pages(const struct pages *pages)
{
    return pages->file->pMethods->xSync(pages->file, SQLITE_SYNC_NORMAL);
}

/* The first page last: whoever is interrupted begins again. */
static int sum_pages(struct pages *pages)
{
    int code = pages->only_unsummed ? for_each_page(pages, check_page) : SQLITE_OK;
    if (code == SQLITE_OK)
        code = for_each_page(pages, sum_page);
    if (code == SQLITE_OK)
        code = sync_pages(pages);
    if (code == SQLITE_OK)
        code = sum_page(pages, 0);
    return code == SQLITE_OK ? sync_pages(pages) : code;
}

/* Nobody may write, or carry a WAL over, meanwhile. */
static int sum_alone(sqlite3 *handle, struct pages *pages)
{
    sqlite3_file *file = pages->file;
    int code = sqlite3_exec(handle, "PRAGMA journal_mode=WAL; BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return code;
    bool is_shared = file->pMethods->iVersion > 1;
    if (is_shared)
        code = file->pMethods->xShmLock(file, SLOT_CKPT, 1, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE);
    if (code == SQLITE_OK)
        code = sum_pages(pages);
    if (code == SQLITE_OK && is_shared)
        (void)file->pMethods->xShmLock(file, SLOT_CKPT, 1,
                                       SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
    (void)sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL);
    return code;
}

static int adopt_pages(sqlite3 *handle, const char *path, struct pages *pages)
{
    int code = sum_alone(handle, pages);
    if (code == SQLITE_OK)
        message_warning("another program has written to the store while nobody watched: its pages "
                        "have got their checksums anew, as they are file=%s",
                        path);
    return code;
}

/* The WAL that is made meanwhile hides that it was left open: so that is marked before. */
static int adopt_as_it_is(sqlite3 *handle, const char *path, struct pages *pages)
{
    if (!set_mark(path, ADOPTING))
        return SQLITE_IOERR_WRITE;
    int code = adopt_pages(handle, path, pages);
    if (code == SQLITE_OK)
        clear_mark(path, ADOPTING);
    return code;
}

static int adopt(sqlite3 *handle, const char *path, struct pages *pages)
{
    int code = sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &pages->file);
    if (code != SQLITE_OK || !pages->file || !pages->file->pMethods || !has_sums(pages))
        return code;
    if (is_marked(path, ADOPTING) || was_left_open(path))
        return adopt_as_it_is(handle, path, pages);
    pages->only_unsummed = true;
    return has_no_sum(pages) ? adopt_pages(handle, path, pages) : SQLITE_OK;
}

/* As adopt(), which sums the pages where this says that it would. */
static int look(sqlite3 *handle, const char *path, struct pages *pages, bool *ret_adopts)
{
    int code = sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &pages->file);
    if (code != SQLITE_OK || !pages->file || !pages->file->pMethods || !has_sums(pages))
        return code;
    bool takes_all = is_marked(path, ADOPTING) || was_left_open(path);
    *ret_adopts = takes_all || has_no_sum(pages);
    return *ret_adopts && !takes_all ? for_each_page(pages, check_page) : SQLITE_OK;
}

static enum err fail(const char *path, int code, const struct pages *pages, struct error *error)
{
    if (pages->damaged > 0)
        return error_set(error, ERR_UNAVAILABLE,
                         "%s: page %lld at offset %lld is DAMAGED: move the file away, with its "
                         "-wal and -shm, to have it rebuilt from the log, or restore a backup",
                         path, (long long)pages->damaged,
                         (long long)(pages->damaged - 1) * pages->size);
    return error_set(error, ERR_UNAVAILABLE,
                     "%s: its checksums cannot be written anew (%s): try again, or move it away to "
                     "have it rebuilt from the log",
                     path, sqlite3_errstr(code));
}

enum err checksum_adopts(const char *path, const char *vfs, bool *ret_adopts, struct error *error)
{
    sqlite3 *handle;
    struct pages pages = {0};
    *ret_adopts = false;
    int code = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, vfs);
    if (code == SQLITE_OK)
        code = look(handle, path, &pages, ret_adopts);
    sqlite3_close_v2(handle);
    free(pages.page);
    return code == SQLITE_OK ? ERR_OK : fail(path, code, &pages, error);
}

enum err checksum_adopt(const char *path, struct error *error)
{
    if (size_of(path) <= 0) {
        clear_mark(path, ADOPTING); /* that was another file */
        return ERR_OK;
    }
    sqlite3 *handle;
    struct pages pages = {0};
    int code = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(handle, BUSY_MS);
        (void)sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        code = adopt(handle, path, &pages);
    }
    sqlite3_close_v2(handle);
    free(pages.page);
    return code == SQLITE_OK || code == SQLITE_CANTOPEN ? ERR_OK : fail(path, code, &pages, error);
}
