/* textfile.h - a small file, read whole: the configuration, a password. */
#ifndef SERVER_TEXTFILE_H
#define SERVER_TEXTFILE_H

#include "base/buffer.h"
#include "base/error.h"

enum textfile_guard {
    TEXTFILE_OPEN,   /* anybody may read it */
    TEXTFILE_SECRET, /* refused unless its owner, or at most its group, can read it alone */
};

/* Appends the file's bytes, up to the buffer's maximum. ERR_INVALID with a
 * text that names the file and says what to do. */
enum err textfile_read(const char *path, enum textfile_guard guard, struct buffer *to,
                       struct error *error);

/* The first line of a secret file, as a text closed by a zero: 1 to size - 1
 * bytes, without the end of the line. */
enum err textfile_read_secret(const char *path, char *to, size_t size, struct error *error);

#endif
