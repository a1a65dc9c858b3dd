#include "cli/parse.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "base/memory.h"

/* --- times ------------------------------------------------------------------------ */

static int64_t unit_ms(char unit)
{
    switch (unit) {
    case 's':
        return 1000;
    case 'm':
        return 60 * 1000;
    case 'h':
        return 60 * 60 * 1000;
    case 'd':
        return 24 * 60 * 60 * 1000;
    default:
        return 0;
    }
}

/* "-90s" */
static bool parse_back(struct slice text, int64_t now_ms, int64_t *ret_ms)
{
    uint64_t amount;
    if (text.size < 3 || text.data[0] != '-')
        return false;
    int64_t unit = unit_ms(text.data[text.size - 1]);
    if (unit == 0 ||
        !decimal_parse_unsigned((struct slice){text.data + 1, text.size - 2}, &amount) ||
        amount > (uint64_t)(INT64_MAX / unit) || (int64_t)amount * unit > now_ms)
        return false;
    *ret_ms = now_ms - (int64_t)amount * unit;
    return true;
}

/* The milliseconds of ".123456"; moves on behind it. */
static int parse_fraction(const char **rest)
{
    int ms = 0;
    int unit = 100;
    if (**rest != '.')
        return 0;
    for ((*rest)++; isdigit((unsigned char)**rest); (*rest)++) {
        ms += unit * (**rest - '0');
        unit /= 10;
    }
    return ms;
}

static bool parse_calendar(const char *text, int64_t *ret_ms)
{
    struct tm parts = {0};
    int ms = 0;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (!rest) {
        parts = (struct tm){0};
        rest = strptime(text, "%Y-%m-%d %H:%M:%S", &parts);
    }
    if (rest) {
        ms = parse_fraction(&rest);
    } else {
        parts = (struct tm){0};
        rest = strptime(text, "%Y-%m-%d", &parts);
    }
    if (!rest || !(*rest == 0 || (*rest == 'Z' && rest[1] == 0)))
        return false;
    *ret_ms = (int64_t)timegm(&parts) * 1000 + ms;
    return true;
}

enum err parse_time(struct slice text, int64_t now_ms, int64_t *ret_ms, struct error *error)
{
    assert(ret_ms);

    char copy[64];
    int64_t time_ms;
    if (slice_equal(text, SLICE("now"))) {
        *ret_ms = now_ms;
        return ERR_OK;
    }
    (void)snprintf(copy, sizeof(copy), "%.*s", text.size < 63 ? (int)text.size : 63, text.data);
    if (text.size < sizeof(copy) &&
        (parse_back(text, now_ms, &time_ms) || parse_calendar(copy, &time_ms) ||
         (decimal_parse(text, &time_ms) && time_ms >= 0))) {
        *ret_ms = time_ms;
        return ERR_OK;
    }
    return error_set(error, ERR_INVALID,
                     "'%.40s' is no time; write 2026-01-31, 2026-01-31T12:00:00Z, milliseconds "
                     "since 1970, or -15m, -24h, -7d",
                     copy);
}

/* --- words ------------------------------------------------------------------------ */

/* Takes one word at *from, without its quotes, to `to`. False: a quote is open. */
static bool take_word(const char **from, char *to)
{
    const char *at = *from;
    char quote = 0;
    for (; *at && (quote || !isspace((unsigned char)*at)); at++) {
        if (*at == quote)
            quote = 0;
        else if (!quote && (*at == '"' || *at == '\''))
            quote = *at;
        else if (*at == '\\' && quote != '\'' && at[1])
            *to++ = *++at;
        else
            *to++ = *at;
    }
    *to = 0;
    *from = at;
    return quote == 0;
}

enum err parse_words(const char *line, struct parse_words *ret_words, struct error *error)
{
    assert(line);

    /* A word takes a byte and a blank at least, and gets no longer without its quotes. */
    size_t size = strlen(line);
    struct parse_words words = {.words = memory_take_zeroed((size / 2 + 2) * sizeof(*words.words))};
    for (const char *at = line + strspn(line, " \t\r\n"); *at; at += strspn(at, " \t\r\n")) {
        char *word = memory_take(strlen(at) + 1);
        words.words[words.count++] = word;
        if (!take_word(&at, word)) {
            parse_words_done(&words);
            return error_set(error, ERR_INVALID, "a quote is not closed");
        }
    }
    *ret_words = words;
    return ERR_OK;
}

void parse_words_done(struct parse_words *words)
{
    for (int i = 0; i < words->count; i++)
        free(words->words[i]);
    free(words->words);
    *words = (struct parse_words){0};
}
