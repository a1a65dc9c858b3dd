#include "hot/redis/keyname.h"

#include <assert.h>
#include <string.h>

#include "base/decimal.h"

/* Takes `text` off the front. */
static bool skip(struct slice *at, struct slice text)
{
    if (at->size < text.size || memcmp(at->data, text.data, text.size) != 0)
        return false;
    *at = (struct slice){at->data + text.size, at->size - text.size};
    return true;
}

/* The tag's number is the cell's; it has to be the very tag of that cell. */
static bool skip_tag(const struct layer *layer, struct slice *at, unsigned *ret_cell)
{
    const char *dot = at->size > 0 ? memchr(at->data, '.', at->size) : NULL;
    uint64_t cell;
    if (!dot || at->data[0] != '{' ||
        !decimal_parse_unsigned((struct slice){at->data + 1, (size_t)(dot - at->data) - 1},
                                &cell) ||
        cell >= LIMIT_CELLS)
        return false;
    *ret_cell = (unsigned)cell;
    return skip(at, slice_of(layer->tags.tags[cell]));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool keyname_parse(const struct layer *layer, struct slice key, struct keyname *ret)
{
    struct slice at = key;
    if (!skip(&at, slice_of(layer->prefix)) || !skip(&at, SLICE(":")) ||
        !skip_tag(layer, &at, &ret->cell) || !skip(&at, SLICE(":")))
        return false;
    ret->is_record = skip(&at, SLICE("r:"));
    if (!ret->is_record) {
        if (at.size < 4 || at.data[0] != 'm' || !is_digit(at.data[1]) || !is_digit(at.data[2]) ||
            at.data[3] != ':')
            return false;
        at = (struct slice){at.data + 4, at.size - 4};
    }
    ret->id = at;
    return at.size > 0 && at.size <= LIMIT_ID_BYTES;
}

/* Bytes of the prefix that mean something in a pattern lose their meaning. */
void keyname_pattern(const struct layer *layer, bool all, char pattern[KEYNAME_PATTERN_MAX])
{
    const char *rest = all ? ":{*}:[rm]*:*" : ":{*}:r:*";
    size_t size = 0;
    for (const char *at = layer->prefix; *at; at++) {
        if (strchr("*?[]\\^-", *at))
            pattern[size++] = '\\';
        pattern[size++] = *at;
    }
    assert(size + strlen(rest) < KEYNAME_PATTERN_MAX);
    memcpy(pattern + size, rest, strlen(rest) + 1);
}
