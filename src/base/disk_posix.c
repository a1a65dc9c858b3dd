/* disk_posix.c - the disk of this machine: POSIX calls, finished or failed.
 *
 * A folder that was synced once stays open: what is done to it later, as when the
 * log goes over to its next segment, takes no descriptor any more. */
#include "base/disk.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

struct posix_file {
    struct disk_file base;
    int fd;
    char path[]; /* for error texts */
};

static const struct disk_ops posix_ops;

/* ---- errors ---- */

/* No descriptor is a want of room, too: it passes when others give some back. */
static enum err err_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return ERR_FULL;
    case EWOULDBLOCK:
        return ERR_BUSY;
    default:
        return ERR_IO;
    }
}

/* The reason is in errno; `what` is what we wanted to do to `path`. */
static enum err failed(struct error *error, const char *what, const char *path)
{
    int errnum = errno;
    enum err err = error_set_errno(error, err_of_errno(errnum), errnum, "cannot %s %s", what, path);
    if (error && (errnum == EMFILE || errnum == ENFILE))
        error->code = ERR_NO_FILES;
    return err;
}

/* A failed sync is never ERR_FULL, even when the space ran out: the kernel has
 * marked the pages clean, so that what was written may be lost and a second
 * sync would succeed over it. */
static enum err sync_failed(struct error *error, const char *path)
{
    return error_set_errno(error, ERR_IO, errno, "cannot sync %s", path);
}

/* ---- files ---- */

static int open_retrying(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, 0600);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static struct disk_file *new_file(int fd, const char *path)
{
    size_t path_size = strlen(path) + 1;
    struct posix_file *file = malloc(sizeof(*file) + path_size);
    if (!file)
        abort();
    file->base.ops = &posix_ops;
    file->fd = fd;
    memcpy(file->path, path, path_size);
    return &file->base;
}

static struct posix_file *posix_file_of(struct disk_file *file)
{
    assert(file->ops == &posix_ops);
    return (struct posix_file *)file;
}

static enum err posix_open(struct disk *disk, const char *path, enum disk_open how,
                           struct disk_file **ret_file, struct error *error)
{
    (void)disk;
    static const int flags[] = {
        [DISK_READ] = O_RDONLY,
        [DISK_WRITE] = O_RDWR,
        [DISK_CREATE] = O_RDWR | O_CREAT | O_EXCL,
    };
    int fd = open_retrying(path, flags[how]);
    if (fd < 0)
        return failed(error, how == DISK_CREATE ? "create" : "open", path);
    *ret_file = new_file(fd, path);
    return ERR_OK;
}

static enum err posix_lock(struct disk *disk, const char *path, struct disk_file **ret_file,
                           struct error *error)
{
    (void)disk;
    int fd = open_retrying(path, O_RDWR | O_CREAT);
    if (fd < 0)
        return failed(error, "open", path);

    int status;
    do
        status = flock(fd, LOCK_EX | LOCK_NB);
    while (status < 0 && errno == EINTR);
    if (status < 0) {
        enum err err = failed(error, "lock", path);
        close(fd);
        return err;
    }
    *ret_file = new_file(fd, path);
    return ERR_OK;
}

static enum err posix_file_read(struct disk_file *base, uint64_t offset, void *to, size_t size,
                                size_t *ret_size, struct error *error)
{
    struct posix_file *file = posix_file_of(base);
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file->fd, (char *)to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed(error, "read", file->path);
        if (got == 0)
            break;
        done += (size_t)got;
    }
    *ret_size = done;
    return ERR_OK;
}

static enum err posix_file_write(struct disk_file *base, uint64_t offset, const void *from,
                                 size_t size, struct error *error)
{
    struct posix_file *file = posix_file_of(base);
    size_t done = 0;
    while (done < size) {
        ssize_t put =
            pwrite(file->fd, (const char *)from + done, size - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return failed(error, "write", file->path);
        if (put == 0)
            return error_set(error, ERR_IO, "cannot write %s: it takes no more bytes", file->path);
        done += (size_t)put;
    }
    return ERR_OK;
}

static enum err posix_file_sync(struct disk_file *base, struct error *error)
{
    struct posix_file *file = posix_file_of(base);
    int status;
    do
        status = fdatasync(file->fd);
    while (status < 0 && errno == EINTR);
    return status < 0 ? sync_failed(error, file->path) : ERR_OK;
}

static enum err posix_file_size(struct disk_file *base, uint64_t *ret_size, struct error *error)
{
    struct posix_file *file = posix_file_of(base);
    struct stat status;
    if (fstat(file->fd, &status) < 0)
        return failed(error, "look at", file->path);
    *ret_size = (uint64_t)status.st_size;
    return ERR_OK;
}

static void posix_file_close(struct disk_file *base)
{
    struct posix_file *file = posix_file_of(base);
    /* Linux closes it even when interrupted: a second call could hit another file. */
    close(file->fd);
    free(file);
}

/* ---- folders ---- */

static bool is_folder(int folder_fd, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    struct stat status;
    return fstatat(folder_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
}

static enum err posix_list(struct disk *disk, const char *path, disk_list_fn *visit, void *arg,
                           struct error *error)
{
    (void)disk;
    DIR *folder = opendir(path);
    if (!folder)
        return failed(error, "list", path);

    enum err err = ERR_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry) {
            if (errno != 0)
                err = failed(error, "list", path);
            break;
        }
        if (!is_folder(dirfd(folder), entry) && !visit(arg, entry->d_name))
            break;
    }
    closedir(folder);
    return err;
}

static enum err posix_rename(struct disk *disk, const char *from, const char *to,
                             struct error *error)
{
    (void)disk;
    return rename(from, to) < 0 ? failed(error, "rename", from) : ERR_OK;
}

static enum err posix_remove(struct disk *disk, const char *path, struct error *error)
{
    (void)disk;
    return unlink(path) < 0 ? failed(error, "remove", path) : ERR_OK;
}

/* ---- folders that stay open ---- */

#define KEPT_MAX 8u

struct kept_folder {
    char *path;
    int fd;
};

/* Of the process; only grows, so that a descriptor that was given out stays good. */
static struct {
    pthread_mutex_t mutex;
    struct kept_folder folders[KEPT_MAX];
    unsigned count;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const struct kept_folder *find_kept(const char *path)
{
    for (unsigned i = 0; i < kept.count; i++) {
        if (strcmp(kept.folders[i].path, path) == 0)
            return &kept.folders[i];
    }
    return NULL;
}

static bool is_same_folder(const char *path, int fd)
{
    struct stat named;
    struct stat opened;
    return stat(path, &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

/* Opens the folder, or finds it open. The caller closes it unless *ret_kept. */
static int open_folder(const char *path, bool *ret_kept)
{
    *ret_kept = false;
    pthread_mutex_lock(&kept.mutex);
    const struct kept_folder *found = find_kept(path);
    int fd = found && is_same_folder(path, found->fd) ? found->fd : -1;
    if (fd >= 0) {
        *ret_kept = true;
    } else {
        fd = open_retrying(path, O_RDONLY | O_DIRECTORY);
        char *copy = fd >= 0 && !found && kept.count < KEPT_MAX ? strdup(path) : NULL;
        *ret_kept = copy != NULL;
        if (copy)
            kept.folders[kept.count++] = (struct kept_folder){copy, fd};
    }
    pthread_mutex_unlock(&kept.mutex);
    return fd;
}

static enum err posix_sync_folder(struct disk *disk, const char *path, struct error *error)
{
    (void)disk;
    bool is_kept;
    int fd = open_folder(path, &is_kept);
    if (fd < 0) /* what was done in it is not durable, and a second try is not asked for */
        return errno == ENOENT ? failed(error, "open", path) : sync_failed(error, path);

    int status;
    do
        status = fsync(fd);
    while (status < 0 && errno == EINTR);
    enum err err = status < 0 ? sync_failed(error, path) : ERR_OK;
    if (!is_kept)
        close(fd);
    return err;
}

/* Syncs the folder that holds `path`, which is cut and mended for it. */
static enum err sync_parent(struct disk *disk, char *path, struct error *error)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return posix_sync_folder(disk, ".", error);
    if (slash == path)
        return posix_sync_folder(disk, "/", error);

    *slash = '\0';
    enum err err = posix_sync_folder(disk, path, error);
    *slash = '/';
    return err;
}

static enum err make_one_folder(struct disk *disk, char *path, bool is_last, struct error *error)
{
    if (mkdir(path, 0700) == 0)
        return sync_parent(disk, path, error);
    if (errno != EEXIST)
        return failed(error, "create", path);
    if (!is_last)
        return ERR_OK;

    struct stat status;
    if (stat(path, &status) < 0)
        return failed(error, "look at", path);
    if (!S_ISDIR(status.st_mode))
        return error_set(error, ERR_EXISTS, "%s is not a folder", path);

    /* Whoever made it may have died before the sync. Where we may not look into
     * the folder above, it is not one that we made. */
    sync_parent(disk, path, NULL);
    return ERR_OK;
}

static enum err posix_make_folder(struct disk *disk, const char *path, struct error *error)
{
    char *part = strdup(path);
    if (!part)
        abort();
    for (size_t size = strlen(part); size > 1 && part[size - 1] == '/'; size--)
        part[size - 1] = '\0';

    /* "/a/b/c" is made as "/a", "/a/b", "/a/b/c". */
    enum err err = ERR_OK;
    char *slash = part;
    while (!err && (slash = strchr(slash + 1, '/'))) {
        *slash = '\0';
        err = make_one_folder(disk, part, false, error);
        *slash = '/';
    }
    if (!err)
        err = make_one_folder(disk, part, true, error);
    free(part);
    return err;
}

static const struct disk_ops posix_ops = {
    .open = posix_open,
    .list = posix_list,
    .rename = posix_rename,
    .remove = posix_remove,
    .make_folder = posix_make_folder,
    .sync_folder = posix_sync_folder,
    .lock = posix_lock,
    .file_read = posix_file_read,
    .file_write = posix_file_write,
    .file_sync = posix_file_sync,
    .file_size = posix_file_size,
    .file_close = posix_file_close,
};

struct disk *disk_posix(void)
{
    static struct disk disk = {.ops = &posix_ops};
    return &disk;
}
