/* error.h - how a function says what went wrong.
 *
 * A function that can fail returns an `enum err`, and ERR_OK is zero. The code
 * is for the caller, who picks a branch; the text is for a person, who reads a
 * message or a reply. System and library errors are turned into one of these
 * codes where they happen, so errno never crosses a function boundary. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#define ERR_LIST(X)                                                              \
    X(ERR_OK, "ok")                                                              \
    X(ERR_INVALID, "the request makes no sense")                                 \
    X(ERR_NOT_FOUND, "there is no such thing")                                   \
    X(ERR_EXISTS, "it exists already")                                           \
    X(ERR_WRONG_TYPE, "operation against an id holding the wrong kind of value") \
    X(ERR_OUT_OF_RANGE, "the result would not fit")                              \
    X(ERR_BELOW_FLOOR, "the counter may not go below its floor")                 \
    X(ERR_KEY_REUSED, "the idempotency key was used for another write")          \
    X(ERR_TOO_LARGE, "more than we are willing to hold")                         \
    X(ERR_DENIED, "not allowed")                                                 \
    X(ERR_BUSY, "too much is waiting already, try again")                        \
    X(ERR_FULL, "no space left on the disk")                                     \
    X(ERR_UNAVAILABLE, "the other side cannot be reached")                       \
    X(ERR_TIMEOUT, "the other side did not answer in time")                      \
    X(ERR_IO, "input or output failed")                                          \
    X(ERR_CORRUPT, "the data is damaged")                                        \
    X(ERR_NO_MEMORY, "memory is at its limit, and nothing more can leave it")    \
    X(ERR_REFUSED, "the store has refused it")                                   \
    X(ERR_NO_KIND, "it holds reactions of a kind that is not configured")        \
    X(ERR_COLD, "not in memory yet: it is being loaded")                         \
    X(ERR_MOVED, "it is handed over to other nodes: go there, or try again")     \
    X(ERR_STALE, "Redis does not answer, and what the store has may be old")     \
    X(ERR_NO_FILES, "too many open files")

enum err {
#define X(code, meaning) code,
    ERR_LIST(X)
#undef X
};

struct error {
    enum err code;
    char text[256];
};

/* Fills `error` and returns `code`, so a failing branch is one statement.
 * `error` may be NULL when the caller needs the code only. */
enum err error_set(struct error *error, enum err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with the reason behind `errnum` put after the text. */
enum err error_set_errno(struct error *error, enum err code, int errnum, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The meaning of a code, for a reply that has no better text. */
const char *err_meaning(enum err code);

#endif
