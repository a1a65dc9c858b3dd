#include "reply.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any bulk string or array that a server under test sends. */
#define COUNT_MAX (1 << 30)

static void note_error(struct reply_errors *errors, const char *line, size_t size)
{
    if (errors->count++ > 0)
        return;
    if (size >= sizeof(errors->first))
        size = sizeof(errors->first) - 1;
    memcpy(errors->first, line, size);
    errors->first[size] = '\0';
}

/* The number on a `$` or `*` line, -1 for null; -2 when it is no such number. */
static long parse_count(const char *digits, const char *end)
{
    char *stop = NULL;
    long count = strtol(digits, &stop, 10);
    bool whole = stop != digits && stop == end - 2 && end[-2] == '\r';
    return whole && count >= -1 && count <= COUNT_MAX ? count : -2;
}

static void value_complete(struct reply_scanner *scanner)
{
    if (scanner->open > 0)
        scanner->open--;
    if (scanner->open == 0)
        scanner->replies++;
}

static void array_begins(struct reply_scanner *scanner, long count)
{
    if (count <= 0) {
        value_complete(scanner);
        return;
    }
    if (scanner->open > 0)
        scanner->open--;
    scanner->open += (uint64_t)count;
}

static void bulk_begins(struct reply_scanner *scanner, long count)
{
    if (count < 0)
        value_complete(scanner);
    else
        scanner->skip = (size_t)count + 2;
}

/* Takes in one whole line, of which `end` is one past the '\n'. */
static void scan_line(struct reply_scanner *scanner, const char *line, const char *end)
{
    long count = 0;
    switch (line[0]) {
    case '-':
        note_error(scanner->errors, line + 1, (size_t)(end - line) - 1 - (end[-2] == '\r' ? 2 : 1));
        value_complete(scanner);
        break;
    case ':':
    case '+':
        value_complete(scanner);
        break;
    case '$':
    case '*':
        count = parse_count(line + 1, end);
        if (count == -2)
            scanner->broken = true;
        else if (line[0] == '$')
            bulk_begins(scanner, count);
        else
            array_begins(scanner, count);
        break;
    default:
        scanner->broken = true;
    }
}

/* Skips what is there of a bulk string's body; the value ends with its last byte. */
static size_t skip_body(struct reply_scanner *scanner, size_t available)
{
    size_t skipped = scanner->skip < available ? scanner->skip : available;
    scanner->skip -= skipped;
    if (scanner->skip == 0)
        value_complete(scanner);
    return skipped;
}

/* Integer replies at top level are what nearly all runs are made of. Short as
 * they are, a plain loop beats a call of memchr for each. */
static const char *scan_integers(struct reply_scanner *scanner, const char *at, const char *end)
{
    if (scanner->open > 0)
        return at;
    uint64_t replies = 0;
    while (at < end && *at == ':') {
        const char *byte = at + 1;
        while (byte < end && *byte != '\n')
            byte++;
        if (byte == end)
            break;
        at = byte + 1;
        replies++;
    }
    scanner->replies += replies;
    return at;
}

size_t reply_scan(struct reply_scanner *scanner, const char *data, size_t size)
{
    assert(scanner && scanner->errors);

    const char *at = data;
    const char *end = data + size;
    while (at < end && !scanner->broken) {
        if (scanner->skip > 0) {
            at += skip_body(scanner, (size_t)(end - at));
            continue;
        }
        at = scan_integers(scanner, at, end);
        const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!line_end)
            break;
        scan_line(scanner, at, line_end + 1);
        at = line_end + 1;
    }
    return (size_t)(at - data);
}
