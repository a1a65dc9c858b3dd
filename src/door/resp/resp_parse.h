/* resp_parse.h - bytes to requests, for the protocol of Redis.
 *
 *   *2\r\n$4\r\nINCR\r\n$3\r\nkey\r\n      an array of bulk strings, or
 *   INCR "a key"\r\n                       a line of words, as typed by a person
 *
 * Pure: no I/O, no clock, no memory of its own but the argument list. It looks
 * at the bytes of one request from its first byte on, and says whether they
 * are a whole one; if not it is asked again, with more bytes. The answer does
 * not depend on how the bytes were cut.
 *
 * Lengths are refused where they are declared, before anything is kept. */
#ifndef DOOR_RESP_RESP_PARSE_H
#define DOOR_RESP_RESP_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

#define RESP_ARGS_MAX           1024u
#define RESP_BULK_BYTES_MAX     (1u << 20)
#define RESP_INLINE_BYTES_MAX   (64u << 10)
#define RESP_STRANGER_ARGS_MAX  10u /* before AUTH */
#define RESP_STRANGER_BYTES_MAX (16u << 10)
#define RESP_PARSE_ERROR_SIZE   80u

enum resp_found {
    RESP_REQUEST, /* argc and argv are there; argc 0: nothing is asked */
    RESP_MORE,    /* the request is not whole: ask again with `need` bytes or more */
    RESP_BROKEN,  /* `error` says why; what follows cannot be read */
};

/* Reused from request to request. */
struct resp_parser {
    unsigned argc;
    bool stranger; /* has not said the password: smaller limits */
    size_t used;   /* bytes of the request found */
    size_t need;   /* see RESP_MORE */

    /* What quoted words of a line were unquoted to. Slices of argv that point here are good until
     * the next request is looked for; 0: there are none. */
    size_t scratch_used;

    char error[RESP_PARSE_ERROR_SIZE]; /* with Redis' words */
    struct slice argv[RESP_ARGS_MAX];  /* into the data, or into scratch */
    char scratch[RESP_INLINE_BYTES_MAX];
};

void resp_parser_init(struct resp_parser *parser);

/* Looks for one request at the beginning of `data`. */
enum resp_found resp_parse(struct resp_parser *parser, struct slice data);

#endif
