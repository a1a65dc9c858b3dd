#include "cli/progress.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/env.h"

#define DRAW_EVERY_NS 100000000u
#define BAR_COLUMNS   30u
#define LINE_BYTES    256u

void progress_start(struct progress *progress, const char *what, const char *unit, bool quiet)
{
    assert(progress);
    *progress = (struct progress){.what = what,
                                  .unit = unit,
                                  .started_ns = env_monotonic_ns(env_system()),
                                  .is_shown = !quiet && isatty(STDERR_FILENO)};
}

static void format_bar(char *to, unsigned columns, uint64_t done, uint64_t all)
{
    unsigned full =
        done >= all ? columns : (unsigned)((double)columns * (double)done / (double)all);
    for (unsigned i = 0; i < columns; i++)
        to[i] = i < full ? '#' : '-';
    to[columns] = 0;
}

void progress_format(char *to, unsigned size, const struct progress *progress, uint64_t done,
                     uint64_t all, double rate, unsigned width)
{
    char bar[BAR_COLUMNS + 1];
    char left[32] = "";
    if (all > 0) {
        format_bar(bar, BAR_COLUMNS, done, all);
        if (rate > 0 && done < all)
            (void)snprintf(left, sizeof(left), ", %.0f s left", (double)(all - done) / rate);
        (void)snprintf(to, size, "%s [%s] %3.0f%%  %llu of %llu %s, %.0f/s%s", progress->what, bar,
                       done >= all ? 100.0 : 100.0 * (double)done / (double)all,
                       (unsigned long long)done, (unsigned long long)all, progress->unit, rate,
                       left);
    } else {
        (void)snprintf(to, size, "%s  %llu %s, %.0f/s", progress->what, (unsigned long long)done,
                       progress->unit, rate);
    }
    if (width < size)
        to[width] = 0;
}

static unsigned terminal_columns(void)
{
    struct winsize window;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col < 2)
        return 80;
    return window.ws_col;
}

void progress_set(struct progress *progress, uint64_t done, uint64_t all)
{
    if (!progress->is_shown)
        return;
    uint64_t now = env_monotonic_ns(env_system());
    bool is_over = all > 0 && done >= all;
    if (progress->is_drawn && !is_over && now - progress->drawn_ns < DRAW_EVERY_NS)
        return;
    double seconds = (double)(now - progress->started_ns) / 1e9;
    char line[LINE_BYTES];
    progress_format(line, sizeof(line), progress, done, all,
                    seconds > 0 ? (double)done / seconds : 0, terminal_columns() - 1);
    (void)fprintf(stderr, "\r%s\033[K", line);
    (void)fflush(stderr);
    progress->drawn_ns = now;
    progress->is_drawn = true;
}

void progress_end(struct progress *progress)
{
    if (progress->is_drawn)
        (void)fputs("\r\033[K", stderr);
    (void)fflush(stderr);
    progress->is_shown = false;
    progress->is_drawn = false;
}
