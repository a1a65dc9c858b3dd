/* parse.h - small texts that people type: times, and lines of words.
 *
 * Pure: no clock, no input or output. */
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

/* A time as 2026-01-31, 2026-01-31T12:00:00Z (the Z and fractions may be left out; it is
 * always UTC), milliseconds since 1970, "now", or back from `now_ms`: -90s, -15m, -24h,
 * -7d. ERR_INVALID with a text that shows how. */
enum err parse_time(struct slice text, int64_t now_ms, int64_t *ret_ms, struct error *error);

/* The words of a line, as a shell would take them apart: 'as it is', "with \" in it", a\ b. */
struct parse_words {
    char **words; /* owned, and so are the texts; the last is NULL */
    int count;
};

/* ERR_INVALID when a quote is not closed. */
enum err parse_words(const char *line, struct parse_words *ret_words, struct error *error);
void parse_words_done(struct parse_words *words);

#endif
