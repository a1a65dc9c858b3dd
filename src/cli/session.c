#include "cli/session.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/message.h"

#define CONNECT_WITHIN_S 5
#define CALL_WORDS_MAX   16u

void session_init(struct session *session)
{
    *session = (struct session){.settings = {.host = "127.0.0.1", .port = 6380, .timeout_s = 60}};
}

static void disconnect(struct session *session)
{
    if (session->context)
        redisFree(session->context);
    session->context = NULL;
}

void session_done(struct session *session)
{
    disconnect(session);
    explicit_bzero(&session->settings, sizeof(session->settings));
}

static const char *variable(const char *name)
{
    return getenv(name);
}

int session_configure(struct session *session, const struct command_line *line)
{
    struct settings next;
    struct error error;
    if (settings_load(line, variable, &next, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);

    const struct settings *now = &session->settings;
    if (strcmp(next.host, now->host) != 0 || next.port != now->port ||
        strcmp(next.token, now->token) != 0)
        disconnect(session);
    session->settings = next;
    explicit_bzero(next.token, sizeof(next.token));
    session->json = command_has(line, COMMAND_JSON);
    session->quiet = command_has(line, COMMAND_QUIET);
    session->colours = isatty(STDOUT_FILENO) && !session->settings.no_colour && !session->json;
    return EXIT_FINE;
}

/* --- words for people ------------------------------------------------------------- */

int session_fail(int code, const char *format, ...)
{
    (void)fflush(stdout);
    va_list args;
    va_start(args, format);
    (void)fputs("tally: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    return code;
}

int session_cannot_write(const char *what)
{
    if (errno == EPIPE)
        return EXIT_FILE;
    return session_fail(EXIT_FILE, "cannot write %s: %s", what, strerror(errno));
}

void session_remark(const struct session *session, const char *format, ...)
{
    if (session->quiet)
        return;
    (void)fflush(stdout);
    va_list args;
    va_start(args, format);
    (void)fputs("tally: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
}

/* What to do, by the first word of an error. */
static const struct {
    const char *begins;
    const char *advice;
} advices[] = {
    {"NOAUTH", "the server wants a password: put it into TALLY_TOKEN, or name a --token-file"},
    {"WRONGPASS", "look at TALLY_TOKEN, --token-file, and the token of the configuration"},
    {"ERR AUTH", "the server has no password: take the token away"},
    {"WRONGTYPE",
     "a counter is written with add and set, an item with like and react; see: tally info ID"},
    {"BUSYKEY", "it is there already: look at it with: tally info ID"},
    {"IDMISMATCH", "take another --key: this one was used for another write"},
    {"MISCONF", "the server's disk is full: reads go on; make room and try again"},
    {"OOM", "--max-memory of the server is reached: nothing was changed; raise it, or wait until "
            "the store has caught up"},
    {"UNAVAILABLE", "nothing was changed: the server's store does not answer; see: tally status"},
    {"BUSY", "nothing was changed: try again in a moment"},
    {"ERR unknown command",
     "this tallyd is older than this tally, or is not tallyd: tally version"},
    {"ERR unknown reaction kind", "the kinds are a setting of the server: tallyd --kinds"},
};

int session_refused(const redisReply *reply)
{
    assert(reply->type == REDIS_REPLY_ERROR);

    char quoted[512];
    (void)message_quote(quoted, sizeof(quoted), (struct slice){reply->str, reply->len});
    /* Quoted for what it may hold; the quotes themselves would be in the way. */
    size_t size = strlen(quoted);
    quoted[size - 1] = 0;
    const char *text = quoted + 1;
    const char *advice = NULL;
    for (size_t i = 0; !advice && i < sizeof(advices) / sizeof(advices[0]); i++)
        if (strncmp(reply->str, advices[i].begins, strlen(advices[i].begins)) == 0)
            advice = advices[i].advice;
    bool is_missing =
        strncmp(reply->str, "ERR no such", 11) == 0 || strncmp(reply->str, "NOTFOUND", 8) == 0;
    int code = is_missing ? EXIT_NOT_FOUND : EXIT_REFUSED;
    if (advice)
        return session_fail(code, "%s\n       %s", text, advice);
    return session_fail(code, "%s", text);
}

/* --- the connection ---------------------------------------------------------------- */

static int cannot_connect(const struct session *session, const char *why)
{
    char address[SETTINGS_HOST_BYTES + 16];
    (void)settings_address(&session->settings, address, sizeof(address));
    return session_fail(EXIT_UNREACHABLE,
                        "cannot reach tallyd at %s: %s\n"
                        "       is it running? try: tallyd; elsewhere? try: --address HOST:PORT",
                        address, why);
}

/* Is that an answer of another protocol? Then nothing was done: no such server understands a
 * command. */
static bool is_other_protocol(const redisContext *context)
{
    return context->err == REDIS_ERR_PROTOCOL;
}

/* Of the answer its first byte is left, as in HTTP/1.1 400. */
static int say_other_protocol(const struct session *session, const redisContext *context)
{
    char address[SETTINGS_HOST_BYTES + 16];
    (void)settings_address(&session->settings, address, sizeof(address));
    bool is_http = strstr(context->errstr, "got \"H\"") != NULL;
    return session_fail(EXIT_UNREACHABLE,
                        "%s is %s: nothing was done\n"
                        "       use --address HOST:PORT with the port for Redis clients, which is "
                        "6380 unless tallyd --resp says otherwise",
                        address, is_http ? "an HTTP port" : "no port for Redis clients");
}

/* Gives the password, if there is one. */
static int authenticate(redisContext *context, const struct session *session)
{
    if (!session->settings.token[0])
        return EXIT_FINE;
    redisReply *reply = redisCommand(context, "AUTH %s", session->settings.token);
    if (!reply)
        return is_other_protocol(context) ? say_other_protocol(session, context)
                                          : cannot_connect(session, context->errstr);
    int code = reply->type == REDIS_REPLY_ERROR ? session_refused(reply) : EXIT_FINE;
    freeReplyObject(reply);
    return code;
}

redisContext *session_open(const struct session *session, int *ret_code)
{
    struct timeval within = {.tv_sec = CONNECT_WITHIN_S};
    redisContext *context =
        redisConnectWithTimeout(session->settings.host, session->settings.port, within);
    if (!context || context->err) {
        *ret_code = cannot_connect(session, context ? context->errstr : "out of memory");
        if (context)
            redisFree(context);
        return NULL;
    }
    struct timeval patience = {.tv_sec = session->settings.timeout_s};
    (void)redisSetTimeout(context, patience);
    int code = authenticate(context, session);
    if (code != EXIT_FINE) {
        redisFree(context);
        *ret_code = code;
        return NULL;
    }
    return context;
}

/* A server that closed an idle connection has left its end in the socket. */
static bool has_ended(const redisContext *context)
{
    struct pollfd poller = {.fd = context->fd, .events = POLLIN};
    return context->err || poll(&poller, 1, 0) != 0;
}

int session_connect(struct session *session)
{
    if (session->context && !has_ended(session->context))
        return EXIT_FINE;
    disconnect(session);
    int code = EXIT_FINE;
    session->context = session_open(session, &code);
    return code;
}

static int say_how_it_broke(const struct session *session, const redisContext *context)
{
    if (is_other_protocol(context))
        return say_other_protocol(session, context);
    if (context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK))
        return session_fail(EXIT_UNREACHABLE, "no answer within %lld s; try: --timeout SECONDS",
                            (long long)session->settings.timeout_s);
    return session_fail(EXIT_UNREACHABLE,
                        "the connection broke: %s\n"
                        "       whether a write was done is not known; with --key it "
                        "can be sent again and counts once",
                        context->errstr);
}

int session_broke(struct session *session, const redisContext *context)
{
    int code = say_how_it_broke(session, context);
    if (context == session->context)
        disconnect(session);
    return code;
}

/* --- questions and answers ----------------------------------------------------------- */

redisReply *session_ask(struct session *session, const struct slice *words, size_t count,
                        int *ret_code)
{
    *ret_code = session_connect(session);
    if (*ret_code != EXIT_FINE)
        return NULL;

    const char **argv = memory_take(count * sizeof(*argv));
    size_t *sizes = memory_take(count * sizeof(*sizes));
    for (size_t i = 0; i < count; i++) {
        argv[i] = words[i].data;
        sizes[i] = words[i].size;
    }
    redisReply *reply = redisCommandArgv(session->context, (int)count, argv, sizes);
    free(argv);
    free(sizes);
    if (!reply)
        *ret_code = session_broke(session, session->context);
    return reply;
}

redisReply *session_send(struct session *session, const struct slice *words, size_t count,
                         int *ret_code)
{
    redisReply *reply = session_ask(session, words, count, ret_code);
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return reply;
    *ret_code = session_refused(reply);
    freeReplyObject(reply);
    return NULL;
}

redisReply *session_send_texts(struct session *session, const char *const *texts, int *ret_code)
{
    struct slice words[CALL_WORDS_MAX];
    size_t count = 0;
    for (; texts[count]; count++) {
        assert(count < CALL_WORDS_MAX);
        words[count] = slice_of(texts[count]);
    }
    return session_send(session, words, count, ret_code);
}
