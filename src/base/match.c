#include "base/match.h"

#include <stddef.h>

static bool is_between(unsigned char byte, unsigned char a, unsigned char b)
{
    return a <= b ? a <= byte && byte <= b : b <= byte && byte <= a;
}

/* Is `byte` in the class that starts at `at`, behind its bracket? A class that
 * nobody closed ends with the pattern. */
static bool match_class(const char *at, const char *end, char byte, const char **ret_behind)
{
    bool negated = at < end && *at == '^';
    if (negated)
        at++;

    bool found = false;
    while (at < end && *at != ']') {
        if (*at == '\\' && end - at >= 2) {
            found |= at[1] == byte;
            at += 2;
        } else if (end - at >= 3 && at[1] == '-') {
            found |= is_between((unsigned char)byte, (unsigned char)at[0], (unsigned char)at[2]);
            at += 3;
        } else {
            found |= *at++ == byte;
        }
    }
    *ret_behind = at < end ? at + 1 : at;
    return found != negated;
}

/* Does the element of the pattern at `at`, which is no star, take `byte`? */
static bool match_one(const char *at, const char *end, char byte, const char **ret_behind)
{
    if (*at == '[')
        return match_class(at + 1, end, byte, ret_behind);
    if (*at == '\\' && end - at >= 2) {
        *ret_behind = at + 2;
        return at[1] == byte;
    }
    *ret_behind = at + 1;
    return *at == '?' || *at == byte;
}

bool match_glob(struct slice pattern, struct slice text)
{
    if (pattern.size == 0 || text.size == 0) {
        for (size_t i = 0; i < pattern.size; i++) {
            if (pattern.data[i] != '*')
                return false;
        }
        return text.size == 0;
    }

    const char *at = pattern.data;
    const char *at_end = pattern.data + pattern.size;
    const char *in = text.data;
    const char *in_end = text.data + text.size;

    /* Everything but a star takes exactly one byte, so when a match fails only
     * the last star need be tried again, one byte longer: what the stars before
     * it took is as good as any other choice. */
    const char *behind_star = NULL;
    const char *star_until = NULL;
    while (in < in_end) {
        if (at < at_end && *at == '*') {
            behind_star = ++at;
            star_until = in;
            if (at == at_end)
                return true;
        } else if (at < at_end && match_one(at, at_end, *in, &at)) {
            in++;
        } else if (behind_star) {
            at = behind_star;
            in = ++star_until;
        } else {
            return false;
        }
    }
    while (at < at_end && *at == '*')
        at++;
    return at == at_end;
}
