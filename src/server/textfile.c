#include "server/textfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The group may read a secret: that is how service managers hand one to an
 * account that is not its owner. */
static enum err check_guard(int fd, const char *path, struct error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set_errno(error, ERR_INVALID, errno, "%s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, ERR_INVALID, "%s is not a file", path);
    if (status.st_mode & (S_IRWXO | S_IWGRP))
        return error_set(error, ERR_INVALID,
                         "%s has mode %04o, so that other users can get at the secret in it; "
                         "run: chmod 600 %s",
                         path, (unsigned)status.st_mode & 07777u, path);
    return ERR_OK;
}

static enum err read_all(int fd, const char *path, struct buffer *to, struct error *error)
{
    char piece[4096];
    for (;;) {
        ssize_t size = read(fd, piece, sizeof(piece));
        if (size == 0)
            return ERR_OK;
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return error_set_errno(error, ERR_INVALID, errno, "cannot read %s", path);
        if (buffer_append(to, piece, (size_t)size))
            return error_set(error, ERR_INVALID, "%s is larger than %zu bytes", path, to->max);
    }
}

enum err textfile_read(const char *path, enum textfile_guard guard, struct buffer *to,
                       struct error *error)
{
    assert(path);
    assert(to);

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set_errno(error, ERR_INVALID, errno, "cannot open %s", path);
    enum err err = guard == TEXTFILE_SECRET ? check_guard(fd, path, error) : ERR_OK;
    if (!err)
        err = read_all(fd, path, to, error);
    (void)close(fd);
    return err;
}

enum err textfile_read_secret(const char *path, char *to, size_t size, struct error *error)
{
    assert(to && size > 0);

    struct buffer text;
    buffer_init(&text, 4096);
    enum err err = textfile_read(path, TEXTFILE_SECRET, &text, error);
    if (!err) {
        const char *end = text.size > 0 ? memchr(text.data, '\n', text.size) : NULL;
        size_t length = end ? (size_t)(end - text.data) : text.size;
        if (length > 0 && text.data[length - 1] == '\r')
            length--;
        if (length == 0)
            err = error_set(error, ERR_INVALID, "%s: its first line is empty", path);
        else if (length >= size || memchr(text.data, 0, length))
            err = error_set(error, ERR_INVALID,
                            "%s: its first line is no text of %zu bytes at most", path, size - 1);
        else
            memcpy(mempcpy(to, text.data, length), "", 1);
    }
    if (text.data)
        explicit_bzero(text.data, text.size);
    buffer_done(&text);
    return err;
}
