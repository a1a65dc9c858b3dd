/* sim_request.h - what a client asks and what it hears, in the simulator's own
 * words: plain values that can be kept, compared and sent again. */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/op.h"

#define SIM_KINDS  3u /* reaction kinds: like, dislike, wow */
#define SIM_NO_KEY UINT32_MAX

/* Wide enough for every sum that a run can reach. */
typedef __int128 sim_wide;

struct request {
    enum op_kind kind;
    uint16_t id;
    uint8_t id_kind; /* not 0: the counter "id/kind" */
    uint16_t user;
    uint8_t reaction;
    bool regional;
    sim_wide amount;
    struct op_create create;
    int64_t deadline_ms;
    uint32_t key; /* SIM_NO_KEY = none; it counts within the id */
};

struct answer {
    enum err code;
    bool changed;
    bool repeated;
    uint8_t held;
    sim_wide value;
    int64_t counts[SIM_KINDS];
};

/* Digits of a wide number: `to` has room for SIM_DIGITS. */
#define SIM_DIGITS 48u
const char *sim_digits(sim_wide number, char to[SIM_DIGITS]);

/* Would an idempotency key take the two for the same write? */
bool request_same(const struct request *a, const struct request *b);

/* One line for the trace and for violations. */
#define REQUEST_TEXT 192u
const char *request_text(const struct request *request, char to[REQUEST_TEXT]);
const char *answer_text(const struct answer *answer, char to[REQUEST_TEXT]);

#endif
