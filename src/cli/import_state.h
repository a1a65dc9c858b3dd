/* import_state.h - how far an import got, in a file beside the one that it reads.
 *
 * Written before the first line is sent, so that a run that is gone on with uses the
 * same idempotency keys; and every now and then afterwards. What lies behind the state
 * and was done already is sent again, and counts once. */
#ifndef CLI_IMPORT_STATE_H
#define CLI_IMPORT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/taking.h"

#define IMPORT_STATE_NAME_BYTES 1100u

struct import_state {
    char run[TAKING_RUN_BYTES];
    char mode[8];      /* "set" or "add" */
    uint64_t source;   /* hash of what is read: the beginning of a file, a Redis and its options */
    uint64_t line;     /* lines, or sources of a Redis, that are done */
    uint64_t offset;   /* bytes of the file up to there */
    uint64_t counters; /* so far; as in struct taking */
    uint64_t reactions;
    uint64_t bad;
    char after[IMPORT_STATE_NAME_BYTES]; /* of a Redis: the last thing that is done */
};

/* ERR_NOT_FOUND: there is none. ERR_INVALID: it is something else. */
enum err import_state_read(const char *path, struct import_state *ret_state, struct error *error);

/* Replaces the file in one step; `durable`: it is on disk afterwards. */
enum err import_state_write(const char *path, const struct import_state *state, bool durable,
                            struct error *error);

#endif
