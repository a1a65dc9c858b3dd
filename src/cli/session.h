/* session.h - what a command works with: the settings, the connection, the output.
 *
 * One command of a shell has one; the interactive mode keeps one for all. The
 * connection is made when the first command needs it. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#include "base/error.h"
#include "base/slice.h"
#include "cli/command.h"
#include "cli/settings.h"

#define SESSION_EXITS(X)                                                            \
    X(EXIT_FINE, 0, "all is well")                                                  \
    X(EXIT_REFUSED, 1, "the server refused, or answered with an error")             \
    X(EXIT_USAGE, 2, "the command line or the configuration makes no sense")        \
    X(EXIT_UNREACHABLE, 3, "the server cannot be reached, or the connection broke") \
    X(EXIT_DRIFT, 4, "recount or audit: something differs")                         \
    X(EXIT_NOT_FOUND, 5, "there is no such counter, reaction, event or task")       \
    X(EXIT_PARTIAL, 6, "import: some lines were bad and left out")                  \
    X(EXIT_FILE, 7, "a file could not be read or written")                          \
    X(EXIT_STOPPED, 130, "stopped by Ctrl-C")

enum session_exit {
#define X(name, code, meaning) name = code,
    SESSION_EXITS(X)
#undef X
};

struct session {
    struct settings settings;
    redisContext *context; /* owned; NULL while not connected */
    bool json;
    bool quiet;
    bool is_interactive;
    bool colours; /* of stdout */
};

void session_init(struct session *session);
void session_done(struct session *session);

/* Reads address, token and the like for this command line; a connection to another
 * address is closed. Returns an exit code, having said why. */
int session_configure(struct session *session, const struct command_line *line);

/* Says it on stderr as "tally: ..." and returns `code`. */
int session_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says that `what` cannot be written, by errno; not a word when a pipe was closed by its reader,
 * such as head, who has seen enough. Returns the exit code. */
int session_cannot_write(const char *what);

/* A remark on stderr, unless --quiet. */
void session_remark(const struct session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Connects if there is no connection that lives. */
int session_connect(struct session *session);

/* A connection of one's own, made like the session's; NULL with *ret_code set when it fails. */
redisContext *session_open(const struct session *session, int *ret_code);

/* Sends one command and returns its answer, which the caller frees with freeReplyObject();
 * NULL, having said why, with the exit code in *ret_code: refused, unreachable. */
redisReply *session_send(struct session *session, const struct slice *words, size_t count,
                         int *ret_code);

/* The same for texts, the last of which is NULL: session_call(session, &code, "GET", id, NULL) */
#define session_call(session, ret_code, ...) \
    session_send_texts(session, (const char *const[]){__VA_ARGS__}, ret_code)
redisReply *session_send_texts(struct session *session, const char *const *texts, int *ret_code);

/* As session_send(), but an error of the server is returned like any other answer. */
redisReply *session_ask(struct session *session, const struct slice *words, size_t count,
                        int *ret_code);

/* Says what the server refused and what to do about it; returns the exit code. */
int session_refused(const redisReply *reply);

/* Says that the connection broke; returns the exit code. */
int session_broke(struct session *session, const redisContext *context);

#endif
