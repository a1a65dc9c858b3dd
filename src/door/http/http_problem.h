/* http_problem.h - what may go wrong, as RFC 9457 has it.
 *
 * One table: each problem has a `type` that programs branch on and that never
 * changes, a status, a title, and what to do about it. The one place where our
 * error codes become words of HTTP. */
#ifndef DOOR_HTTP_HTTP_PROBLEM_H
#define DOOR_HTTP_HTTP_PROBLEM_H

#include "base/error.h"
#include "base/slice.h"
#include "door/http/http_text.h"

/*    name                status  slug                    title, advice */
#define HTTP_PROBLEM_LIST(X)                                                                       \
    X(INVALID, 400, "invalid", "The request makes no sense", "Correct it; the detail says where.") \
    X(BAD_JSON, 400, "invalid-json", "The body is not what is asked for",                          \
      "Send JSON as /openapi.json describes it.")                                                  \
    X(BAD_HTTP, 400, "malformed-request", "This is not a request of HTTP",                         \
      "Send a well-formed request; the connection is closed.")                                     \
    X(TOO_LONG, 400, "too-long", "A value is longer than allowed",                                 \
      "Shorten it; the detail says what and how long it may be.")                                  \
    X(UNAUTHORIZED, 401, "unauthorized", "The password is missing or wrong",                       \
      "Send the header \\\"Authorization: Bearer PASSWORD\\\".")                                   \
    X(DENIED, 403, "denied", "This is not allowed", "Ask the operator.")                           \
    X(BAD_HOST, 403, "host-not-allowed", "The Host is none that this server answers to",           \
      "Use localhost or an address of the server, or have the name put into http-hosts.")          \
    X(NO_PATH, 404, "no-such-path", "There is nothing at this path",                               \
      "See /openapi.json for what there is.")                                                      \
    X(NOT_FOUND, 404, "not-found", "There is no such thing",                                       \
      "Check the id; a slash within it is written as %2F.")                                        \
    X(BAD_METHOD, 405, "method-not-allowed", "The method is none of this path",                    \
      "Use one of those that the header Allow names.")                                             \
    X(SLOW, 408, "timeout", "The request did not come in time", "Send it again, faster.")          \
    X(EXISTS, 409, "exists", "It exists already", "Use it as it is, or delete it first.")          \
    X(WRONG_TYPE, 409, "wrong-type", "The id holds something of another kind",                     \
      "Counters of reactions change by reactions only; use another id for a plain counter.")       \
    X(TOO_LARGE, 413, "too-large", "The body is larger than allowed", "Send less at once.")        \
    X(BAD_TYPE, 415, "unsupported-media-type", "The body is of a type that is not read here",      \
      "Send \\\"Content-Type: application/json\\\" (application/x-ndjson for /v1/batch).")         \
    X(EXPECTATION, 417, "expectation-failed", "The header Expect asks for something unknown",      \
      "Leave it out, or send \\\"Expect: 100-continue\\\".")                                       \
    X(OUT_OF_RANGE, 422, "out-of-range", "The value would not fit, or reaches too far back",       \
      "Use a smaller amount, or a later time.")                                                    \
    X(BELOW_FLOOR, 422, "below-floor", "The counter may not go below its floor",                   \
      "Nothing was changed. Take away less.")                                                      \
    X(KEY_REUSED, 422, "key-reused", "The idempotency key was used for another write",             \
      "Nothing was changed. Use a new key for a new write.")                                       \
    X(REFUSED, 422, "refused", "The store has refused it", "The detail says why.")                 \
    X(BUSY, 429, "busy", "Too much is waiting already", "Nothing was changed. Try again later.")   \
    X(LONG_HEAD, 431, "headers-too-large", "The request line and headers are too long",            \
      "Send fewer or shorter headers.")                                                            \
    X(INTERNAL, 500, "internal", "Something is wrong with this server",                            \
      "Look at what the server has written to stderr.")                                            \
    X(UNAVAILABLE, 503, "unavailable", "A part of the server cannot answer now",                   \
      "Nothing was changed. Try again later.")                                                     \
    X(MOVED, 503, "moved", "Writes are taken by other nodes from now on",                          \
      "Nothing was changed. Send it to them, or here again a little later.")                       \
    X(UNKNOWN, 503, "unknown-outcome", "Nobody knows whether it was done",                         \
      "Send it again with the same Idempotency-Key; without one it may count twice.")              \
    X(NO_KIND, 503, "kind-not-configured", "The item holds reactions of a kind that is not known", \
      "Nothing was changed. Have the kind put back into the setting kinds.")                       \
    X(BAD_VERSION, 505, "http-version", "The version of HTTP is not spoken here", "Use HTTP/1.1.") \
    X(DISK_FULL, 507, "disk-full", "No space is left on the disk",                                 \
      "Nothing was changed. Make room; reads go on.")                                              \
    X(TOO_MANY_FILES, 507, "too-many-files", "The server has too many open files",                 \
      "Nothing was changed. Raise its limit (ulimit -n, LimitNOFILE=); reads go on.")              \
    X(MEMORY_FULL, 507, "memory-full", "The memory that may be used is full",                      \
      "Nothing was changed. Raise max-memory, or wait until idle counters were dropped.")

enum http_problem {
#define X(name, ...) HTTP_PROBLEM_##name,
    HTTP_PROBLEM_LIST(X)
#undef X
        HTTP_PROBLEMS
};

struct http_problem_row {
    unsigned status;
    const char *slug;
    const char *title;
    const char *advice; /* as it stands in JSON */
};
extern const struct http_problem_row http_problems[HTTP_PROBLEMS];

enum http_problem http_problem_of(enum err code);

/* Why a write that asks for the log is not tried. */
extern const char http_log_is_down[];

/* The problem that the parser has answered with this status. */
enum http_problem http_problem_of_status(unsigned status);

/* Writes the body. `detail` may be NULL. */
void http_problem_write(struct http_text *to, enum http_problem problem, const char *detail);

/* "OK", "Not Found" */
const char *http_status_name(unsigned status);

#endif
