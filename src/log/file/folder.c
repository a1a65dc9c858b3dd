#include "log/file/folder.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/slice.h"

#define LOG_FOLDER     "log"
#define LOCK_FILE      "lock"
#define NUMBER_DIGITS  12u
#define SEGMENT_SUFFIX ".log"
#define NAME_BYTES_MAX 64u /* of all the names that we make */

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + 1 + strlen(name) + 1;
    char *path = malloc(size);
    if (!path)
        abort();
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static bool ignore_name(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return false;
}

static enum err take_lock(struct folder *folder, struct error *error)
{
    char path[FOLDER_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/" LOCK_FILE, folder->path);
    enum err err = disk_lock(folder->disk, path, &folder->lock, error);
    if (err == ERR_BUSY)
        return error_set(error, ERR_BUSY, "%s is in use by another process, which holds its lock",
                         folder->path);
    return err;
}

/* Looking must not create a folder, nor a lock file where none belongs. */
static enum err must_have_log(const struct folder *folder, struct error *error)
{
    enum err err = disk_list(folder->disk, folder->log_path, ignore_name, NULL, error);
    if (err == ERR_NOT_FOUND)
        return error_set(error, err, "%s holds no data of Tally: there is no %s", folder->path,
                         folder->log_path);
    return err;
}

enum err folder_open(struct disk *disk, const char *path, bool create, struct folder *ret_folder,
                     struct error *error)
{
    assert(disk && path);

    if (strlen(path) == 0 ||
        strlen(path) + sizeof("/" LOG_FOLDER "/") + NAME_BYTES_MAX >= FOLDER_PATH_BYTES)
        return error_set(error, ERR_INVALID, "the path of the data folder is empty or too long");

    struct folder folder = {.disk = disk, .path = strdup(path), .log_path = join(path, LOG_FOLDER)};
    if (!folder.path)
        abort();
    enum err err = create ? disk_make_folder(disk, path, error) : must_have_log(&folder, error);
    if (!err)
        err = take_lock(&folder, error);
    if (err) {
        folder_close(&folder);
        return err;
    }
    *ret_folder = folder;
    return ERR_OK;
}

void folder_close(struct folder *folder)
{
    disk_file_close(folder->lock);
    free(folder->log_path);
    free(folder->path);
    *folder = (struct folder){0};
}

enum err folder_make_log(struct folder *folder, struct error *error)
{
    enum err err = disk_make_folder(folder->disk, folder->log_path, error);
    return err ? err : disk_sync_folder(folder->disk, folder->path, error);
}

const char *folder_path_of(const struct folder *folder, const char *name,
                           char to[FOLDER_PATH_BYTES])
{
    snprintf(to, FOLDER_PATH_BYTES, "%s/%s", folder->log_path, name);
    return to;
}

const char *folder_segment_path(const struct folder *folder, uint64_t number,
                                char to[FOLDER_PATH_BYTES])
{
    snprintf(to, FOLDER_PATH_BYTES, "%s/%0*" PRIu64 SEGMENT_SUFFIX, folder->log_path,
             (int)NUMBER_DIGITS, number);
    return to;
}

/* ---- what is there ---- */

struct numbers {
    uint64_t *data; /* owned */
    size_t count;
    size_t capacity;
};

/* The number of the segment with this name; 0 if it is not the name of one. */
static uint64_t segment_number(const char *name)
{
    if (strlen(name) != NUMBER_DIGITS + strlen(SEGMENT_SUFFIX) ||
        strcmp(name + NUMBER_DIGITS, SEGMENT_SUFFIX) != 0)
        return 0;

    uint64_t number = 0;
    for (unsigned i = 0; i < NUMBER_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    return number;
}

static bool note_number(void *arg, const char *name)
{
    struct numbers *numbers = arg;
    uint64_t number = segment_number(name);
    if (number == 0)
        return true;

    if (numbers->count == numbers->capacity) {
        numbers->capacity = numbers->capacity > 0 ? numbers->capacity * 2 : 64;
        numbers->data = realloc(numbers->data, numbers->capacity * sizeof(*numbers->data));
        if (!numbers->data)
            abort();
    }
    numbers->data[numbers->count++] = number;
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

enum err folder_segments(const struct folder *folder, uint64_t **ret_numbers, size_t *ret_count,
                         struct error *error)
{
    struct numbers numbers = {0};
    struct error list_error;
    enum err err = disk_list(folder->disk, folder->log_path, note_number, &numbers, &list_error);
    if (err && err != ERR_NOT_FOUND) { /* not found: nothing was ever written here */
        free(numbers.data);
        return error_set(error, err, "%s", list_error.text);
    }
    if (numbers.count > 0)
        qsort(numbers.data, numbers.count, sizeof(*numbers.data), compare_numbers);
    *ret_numbers = numbers.data;
    *ret_count = numbers.count;
    return ERR_OK;
}

struct search {
    const char *name;
    bool found;
};

static bool compare_name(void *arg, const char *name)
{
    struct search *search = arg;
    search->found = strcmp(name, search->name) == 0;
    return !search->found;
}

enum err folder_has(const struct folder *folder, const char *name, bool *ret_has,
                    struct error *error)
{
    struct search search = {.name = name};
    enum err err = disk_list(folder->disk, folder->log_path, compare_name, &search, error);
    if (!err)
        *ret_has = search.found;
    return err;
}

enum err folder_remove(const struct folder *folder, const char *name, struct error *error)
{
    char path[FOLDER_PATH_BYTES];
    struct error remove_error;
    enum err err = disk_remove(folder->disk, folder_path_of(folder, name, path), &remove_error);
    if (err && err != ERR_NOT_FOUND)
        return error_set(error, err, "%s", remove_error.text);
    return ERR_OK;
}

enum err folder_sync(const struct folder *folder, struct error *error)
{
    return disk_sync_folder(folder->disk, folder->log_path, error);
}

/* ---- what is the first segment ---- */

#define FIRST_FILE     "trimmed"
#define FIRST_FILE_NEW "trimmed.new"
#define FIRST_BYTES    (NUMBER_DIGITS + 1 + 16 + 1) /* number, blank, checksum, newline */

static void write_first(uint64_t first, char to[FIRST_BYTES + 1])
{
    char number[NUMBER_DIGITS + 16];
    int size = snprintf(number, sizeof(number), "%0*" PRIu64, (int)NUMBER_DIGITS, first);
    uint64_t checksum = hash_stable((struct slice){number, (size_t)size});
    snprintf(to, FIRST_BYTES + 1, "%.*s %016" PRIx64 "\n", (int)NUMBER_DIGITS, number, checksum);
}

/* One more byte than there should be is asked for. */
static enum err read_first(const struct folder *folder, char to[FIRST_BYTES + 2], size_t *ret_size,
                           struct error *error)
{
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    enum err err =
        disk_open(folder->disk, folder_path_of(folder, FIRST_FILE, path), DISK_READ, &file, error);
    if (err)
        return err;
    err = disk_file_read(file, 0, to, FIRST_BYTES + 1, ret_size, error);
    disk_file_close(file);
    return err;
}

enum err folder_first(const struct folder *folder, uint64_t *ret_first, struct error *error)
{
    char text[FIRST_BYTES + 2] = "";
    size_t size = 0;
    struct error why;
    enum err err = read_first(folder, text, &size, &why);
    if (err == ERR_NOT_FOUND) {
        *ret_first = 1;
        return ERR_OK;
    }
    if (err)
        return error_set(error, err, "%s", why.text);

    uint64_t first = strtoull(text, NULL, 10);
    char expected[FIRST_BYTES + 1];
    write_first(first, expected);
    if (first == 0 || size != FIRST_BYTES || memcmp(text, expected, size) != 0)
        return error_set(error, ERR_CORRUPT,
                         "%s/" FIRST_FILE ": it does not say which segment is the first",
                         folder->log_path);
    *ret_first = first;
    return ERR_OK;
}

static enum err write_file(const struct folder *folder, const char *name, const char *bytes,
                           size_t size, struct error *error)
{
    enum err err = folder_remove(folder, name, error);
    if (err)
        return err;
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    err = disk_open(folder->disk, folder_path_of(folder, name, path), DISK_CREATE, &file, error);
    if (err)
        return err;
    err = disk_file_write(file, 0, bytes, size, error);
    if (!err)
        err = disk_file_sync(file, error);
    disk_file_close(file);
    return err;
}

enum err folder_set_first(const struct folder *folder, uint64_t first, struct error *error)
{
    char text[FIRST_BYTES + 1];
    write_first(first, text);
    enum err err = write_file(folder, FIRST_FILE_NEW, text, FIRST_BYTES, error);
    char from[FOLDER_PATH_BYTES];
    char to[FOLDER_PATH_BYTES];
    if (!err)
        err = disk_rename(folder->disk, folder_path_of(folder, FIRST_FILE_NEW, from),
                          folder_path_of(folder, FIRST_FILE, to), error);
    return err ? err : folder_sync(folder, error);
}

enum err folder_forget_first(const struct folder *folder, struct error *error)
{
    enum err err = folder_remove(folder, FIRST_FILE, error);
    return err ? err : folder_sync(folder, error);
}
