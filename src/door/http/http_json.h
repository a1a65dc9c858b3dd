/* http_json.h - JSON, read strictly and without memory of its own.
 *
 * A text becomes a row of values, each before what it contains, in room that the
 * caller gives:
 *
 *   {"item":"v1","ids":[1,2]}   →   object(2) "item" "v1" "ids" array(2) 1 2
 *
 * Refused: what RFC 8259 refuses, and also names that stand twice in an object,
 * lone surrogates, \u0000, invalid UTF-8, a byte order mark, more than
 * HTTP_JSON_DEPTH_MAX levels. Numbers stay text, so integers of any size are
 * exact; "5.0" is the integer 5, and "-0" is 0. Strings with escapes are undone in place. Pure. */
#ifndef DOOR_HTTP_HTTP_JSON_H
#define DOOR_HTTP_HTTP_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define HTTP_JSON_DEPTH_MAX   32u
#define HTTP_JSON_MEMBERS_MAX 64u /* of one object */

enum http_json_type {
    HTTP_JSON_NULL,
    HTTP_JSON_FALSE,
    HTTP_JSON_TRUE,
    HTTP_JSON_NUMBER, /* not whole: 1.5, 1e3 */
    HTTP_JSON_INTEGER,
    HTTP_JSON_STRING,
    HTTP_JSON_ARRAY,
    HTTP_JSON_OBJECT,
};

struct http_json {
    enum http_json_type type;
    uint32_t count;    /* of things in an array, of members of an object */
    uint32_t size;     /* values in all, with those inside: the next one is so far */
    struct slice text; /* of a string or a number */
};

struct http_json_error {
    size_t at;       /* byte */
    const char *why; /* a constant text */
};

/* Reads all of `text`, whose bytes may be written to, into `values`, of which there
 * are `room`. False with an error. values[0] is the whole. */
bool http_json_read(struct slice text, struct http_json *values, size_t room,
                    struct http_json_error *ret_error);

/* A member of a flat object. */
struct http_json_pair {
    struct slice name;
    enum http_json_type type;
    struct slice text; /* of a string or a number */
};

/* The same for an object that holds neither objects nor arrays, quicker: lines of
 * such come by the thousand. Whether a name stands twice is the caller's to see.
 * False with an error, also for more than `room` members. */
bool http_json_read_flat(struct slice text, struct http_json_pair *pairs, size_t room,
                         size_t *ret_count, struct http_json_error *ret_error);

/* The member of an object, or NULL. */
const struct http_json *http_json_member(const struct http_json *object, struct slice name);

#endif
