/* progress.h - a bar on stderr for work that takes a while.
 *
 * Only in a terminal; in a pipe, in a file and with --quiet it stays silent. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* borrowed: "import" */
    const char *unit; /* borrowed: "lines" */
    uint64_t started_ns;
    uint64_t drawn_ns;
    bool is_shown;
    bool is_drawn;
};

void progress_start(struct progress *progress, const char *what, const char *unit, bool quiet);

/* `all` is 0 as long as nobody knows it. Draws ten times a second at most. */
void progress_set(struct progress *progress, uint64_t done, uint64_t all);

/* Takes the bar away, for what comes next on stderr. */
void progress_end(struct progress *progress);

/* The text of the bar, `width` columns wide at most; for tests. */
void progress_format(char *to, unsigned size, const struct progress *progress, uint64_t done,
                     uint64_t all, double rate, unsigned width);

#endif
