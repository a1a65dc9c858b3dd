/* lines.h - what the log tells its operator, for tests that have to know that it was told: stderr
 * goes to a file for a while, and is shown after all. */
#ifndef UNIT_LOG_KAFKA_LINES_H
#define UNIT_LOG_KAFKA_LINES_H

#include "unit/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Told when what a broker refused is sent again, by a new producer with everything that waits. */
#define BEGUN_AGAIN "the log did not take an event"

struct lines {
    FILE *file;
    int shown; /* where stderr went */
};

static inline void lines_begin(struct lines *lines)
{
    lines->file = tmpfile();
    assert_non_null(lines->file);
    lines->shown = dup(STDERR_FILENO);
    assert_true(lines->shown >= 0 && dup2(fileno(lines->file), STDERR_FILENO) >= 0);
}

/* How many there are by now with `text` in them. */
static inline unsigned lines_with(const struct lines *lines, const char *text)
{
    char all[64 << 10];
    ssize_t size = pread(fileno(lines->file), all, sizeof(all) - 1, 0);
    assert_true(size >= 0);
    all[size] = '\0';
    unsigned count = 0;
    for (const char *at = strstr(all, text); at; at = strstr(at + 1, text))
        count++;
    return count;
}

static inline void lines_end(struct lines *lines)
{
    assert_true(dup2(lines->shown, STDERR_FILENO) >= 0);
    close(lines->shown);
    rewind(lines->file);
    char line[4096];
    while (fgets(line, sizeof(line), lines->file))
        fputs(line, stderr);
    fclose(lines->file);
}

#endif
