#include "log/redis_stream/links.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/memory.h"

#define SERVERS_MAX   64u
#define REDIRECTS_MAX 5u
#define CONNECT_MS    5000 /* at most; nobody can interrupt it */
#define ANSWER_MS     2000 /* at least */
#define SLICE_MS      100  /* between two looks at whether the end has come */
#define PAUSE_MIN_MS  50u
#define PAUSE_MAX_MS  1000u
#define MS_NS         1000000u

struct link {
    struct redis_url_server server;
    redisContext *context; /* NULL: not connected */
    uint64_t pause_ms;
    uint64_t try_ns;  /* not before */
    char reason[192]; /* why it was lost; "": it has answered since */
};

struct links {
    struct env *env; /* borrowed */
    _Atomic uint64_t end_ns;
    uint64_t answer_ms;
    char user[sizeof(((struct redis_url *)0)->user)];
    char password[sizeof(((struct redis_url *)0)->password)];
    struct link servers[SERVERS_MAX];
    unsigned count;
    unsigned server_of[LIMIT_CELLS];
    char reason[192];
};

struct links *links_new(struct env *env, const struct redis_url *url, uint64_t answer_ms)
{
    struct links *links = memory_take_zeroed(sizeof(*links));
    links->env = env;
    links->answer_ms = answer_ms > ANSWER_MS ? answer_ms : ANSWER_MS;
    atomic_store(&links->end_ns, UINT64_MAX);
    memcpy(links->user, url->user, sizeof(links->user));
    memcpy(links->password, url->password, sizeof(links->password));
    for (unsigned i = 0; i < url->count; i++)
        links->servers[i].server = url->servers[i];
    links->count = url->count;
    return links;
}

void links_free(struct links *links)
{
    if (!links)
        return;
    for (unsigned i = 0; i < links->count; i++)
        if (links->servers[i].context)
            redisFree(links->servers[i].context);
    free(links);
}

void links_end_at(struct links *links, uint64_t end_ns)
{
    atomic_store(&links->end_ns, end_ns);
}

uint64_t links_answer_ms(const struct links *links)
{
    return links->answer_ms;
}

const char *links_reason(const struct links *links)
{
    return links->reason;
}

/* ---- a call ---- */

void links_call_init(struct links_call *call, unsigned lane, int count, const char **args,
                     const size_t *sizes)
{
    *call = (struct links_call){.lane = lane, .server = -1};
    int size = (int)redisFormatCommandArgv(&call->command, count, args, sizes);
    if (size < 0)
        abort(); /* no memory */
    call->size = (size_t)size;
}

void links_call_text(struct links_call *call, unsigned lane, int count, const char **args)
{
    size_t sizes[LINKS_ARGS_MAX];
    assert(count > 0 && count <= (int)LINKS_ARGS_MAX);
    for (int i = 0; i < count; i++)
        sizes[i] = strlen(args[i]);
    links_call_init(call, lane, count, args, sizes);
}

void links_call_done(struct links_call *call)
{
    free(call->command);
    if (call->reply)
        freeReplyObject(call->reply);
    *call = (struct links_call){0};
}

/* ---- a connection ---- */

static void note_reason(struct links *links, const struct link *link, const char *reason)
{
    (void)snprintf(links->reason, sizeof(links->reason), "%.100s:%u: %.70s", link->server.host,
                   link->server.port, reason);
}

static void lose(struct links *links, struct link *link, const char *reason)
{
    note_reason(links, link, reason);
    memcpy(link->reason, links->reason, sizeof(link->reason));
    if (link->context)
        redisFree(link->context);
    link->context = NULL;
    link->pause_ms = link->pause_ms == 0 ? PAUSE_MIN_MS : link->pause_ms * 2;
    if (link->pause_ms > PAUSE_MAX_MS)
        link->pause_ms = PAUSE_MAX_MS;
    link->try_ns = env_monotonic_ns(links->env) + link->pause_ms * MS_NS;
}

/* Up to the end, but for a moment. */
static struct timeval connect_patience(const struct links *links)
{
    uint64_t now_ns = env_monotonic_ns(links->env);
    uint64_t end_ns = atomic_load(&links->end_ns);
    uint64_t left_ms = end_ns > now_ns ? (end_ns - now_ns) / MS_NS : 0;
    uint64_t most_ms = links->answer_ms < CONNECT_MS ? links->answer_ms : CONNECT_MS;
    uint64_t ms = left_ms < most_ms ? left_ms + 1 : most_ms;
    return (struct timeval){.tv_sec = (time_t)(ms / 1000),
                            .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
}

/* False: nothing happened in time, or the end has come. */
static bool wait_for(const struct links *links, const struct link *link, short event,
                     uint64_t until_ns)
{
    struct pollfd wanted = {.fd = link->context->fd, .events = event};
    for (;;) {
        uint64_t now_ns = env_monotonic_ns(links->env);
        uint64_t end_ns = atomic_load(&links->end_ns);
        uint64_t last_ns = until_ns < end_ns ? until_ns : end_ns;
        uint64_t left_ms = last_ns > now_ns ? (last_ns - now_ns) / MS_NS + 1 : 0;
        if (poll(&wanted, 1, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS) > 0)
            return true;
        if (left_ms == 0)
            return false;
    }
}

static uint64_t answer_ns(const struct links *links)
{
    return env_monotonic_ns(links->env) + links->answer_ms * MS_NS;
}

/* What was gathered for a server goes to it. */
static void write_all(struct links *links, struct link *link)
{
    uint64_t until_ns = answer_ns(links);
    int is_done = 0;
    while (link->context && !is_done) {
        if (redisBufferWrite(link->context, &is_done) != REDIS_OK)
            lose(links, link, link->context->errstr);
        else if (!is_done && !wait_for(links, link, POLLOUT, until_ns))
            lose(links, link, "took nothing in time");
    }
}

static redisReply *take_reply(struct links *links, struct link *link)
{
    uint64_t until_ns = answer_ns(links);
    void *reply = NULL;
    while (link->context && !reply) {
        if (redisGetReplyFromReader(link->context, &reply) != REDIS_OK)
            lose(links, link, link->context->errstr);
        else if (reply)
            break;
        else if (!wait_for(links, link, POLLIN, until_ns))
            lose(links, link, "did not answer in time");
        else if (redisBufferRead(link->context) != REDIS_OK)
            lose(links, link, link->context->errstr);
    }
    if (reply) {
        link->pause_ms = 0;
        link->reason[0] = '\0';
    }
    return reply;
}

/* We wait ourselves, so that it can be interrupted. */
static void set_nonblocking(redisContext *context)
{
    (void)fcntl(context->fd, F_SETFL, fcntl(context->fd, F_GETFL) | O_NONBLOCK);
    context->flags &= ~REDIS_BLOCK;
}

static bool log_in(struct links *links, struct link *link)
{
    if (!links->password[0])
        return true;
    if (links->user[0])
        (void)redisAppendCommand(link->context, "AUTH %s %s", links->user, links->password);
    else
        (void)redisAppendCommand(link->context, "AUTH %s", links->password);
    write_all(links, link);
    redisReply *reply = take_reply(links, link);
    bool is_in = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply && !is_in)
        lose(links, link, reply->str);
    if (reply)
        freeReplyObject(reply);
    return is_in;
}

static bool is_connected(struct links *links, struct link *link)
{
    if (link->context)
        return true;
    if (env_monotonic_ns(links->env) < link->try_ns) {
        memcpy(links->reason, link->reason, sizeof(links->reason));
        return false;
    }
    if (env_monotonic_ns(links->env) >= atomic_load(&links->end_ns)) {
        note_reason(links, link, "the log is being closed");
        return false;
    }
    link->context =
        redisConnectWithTimeout(link->server.host, link->server.port, connect_patience(links));
    if (!link->context || link->context->err) {
        lose(links, link, link->context ? link->context->errstr : "no memory");
        return false;
    }
    (void)redisEnableKeepAlive(link->context);
    set_nonblocking(link->context);
    return log_in(links, link);
}

/* ---- who has a lane ---- */

static int find_server(struct links *links, const char *host, unsigned port)
{
    for (unsigned i = 0; i < links->count; i++)
        if (links->servers[i].server.port == port &&
            strcmp(links->servers[i].server.host, host) == 0)
            return (int)i;
    if (links->count == SERVERS_MAX)
        return -1;
    struct link *link = &links->servers[links->count];
    *link = (struct link){.server.port = (uint16_t)port};
    (void)snprintf(link->server.host, sizeof(link->server.host), "%s", host);
    return (int)links->count++;
}

/* "MOVED 3999 127.0.0.1:6381"; without a host it is the one that says so. */
static int named_server(struct links *links, const struct link *teller, const char *text)
{
    const char *address = strrchr(text, ' ');
    const char *colon = address ? strrchr(address, ':') : NULL;
    long port = colon ? strtol(colon + 1, NULL, 10) : 0;
    if (port <= 0 || port > UINT16_MAX)
        return -1;
    char host[sizeof(teller->server.host)];
    int size = (int)(colon - address - 1);
    (void)snprintf(host, sizeof(host), "%.*s", size, address + 1);
    return find_server(links, host[0] ? host : teller->server.host, (unsigned)port);
}

/* Its server does not answer: another one may know who has it now. */
static void ask_another(struct links *links, const struct links_call *call, unsigned server)
{
    if (links->server_of[call->lane] == server)
        links->server_of[call->lane] = (server + 1) % links->count;
}

/* ---- a round ---- */

static unsigned server_of(const struct links *links, const struct links_call *call)
{
    return call->server >= 0 ? (unsigned)call->server : links->server_of[call->lane];
}

static void send(struct links *links, struct links_call *call)
{
    unsigned server = server_of(links, call);
    struct link *link = &links->servers[server];
    if (!is_connected(links, link)) {
        call->is_open = false;
        call->server = -1;
        ask_another(links, call, server);
        return;
    }
    if (call->server >= 0)
        (void)redisAppendCommand(link->context, "ASKING");
    (void)redisAppendFormattedCommand(link->context, call->command, call->size);
}

/* What was gathered goes to all servers before the first of them is waited for. */
static void flush(struct links *links)
{
    for (unsigned i = 0; i < links->count; i++)
        write_all(links, &links->servers[i]);
}

static bool begins(const redisReply *reply, const char *word)
{
    return strncmp(reply->str, word, strlen(word)) == 0;
}

static bool is_not_now(const redisReply *reply)
{
    return begins(reply, "LOADING") || begins(reply, "CLUSTERDOWN") || begins(reply, "TRYAGAIN") ||
           begins(reply, "MASTERDOWN") || begins(reply, "READONLY") || begins(reply, "BUSY ");
}

/* An error reply may send the call elsewhere; false: it is the call's answer. */
static bool is_redirected(struct links *links, struct links_call *call, const struct link *link,
                          const redisReply *reply)
{
    bool is_moved = begins(reply, "MOVED ");
    if (!is_moved && !begins(reply, "ASK ")) {
        if (!is_not_now(reply))
            return false;
        note_reason(links, link, reply->str);
        call->is_open = false;
        ask_another(links, call, (unsigned)(link - links->servers));
        return true;
    }
    int server = named_server(links, link, reply->str);
    if (server < 0)
        call->is_open = false;
    else if (is_moved)
        links->server_of[call->lane] = (unsigned)server;
    else
        call->server = server;
    return true;
}

static void receive(struct links *links, struct links_call *call, unsigned server)
{
    struct link *link = &links->servers[server];
    redisReply *reply = take_reply(links, link);
    if (reply && call->server >= 0) { /* that was the answer to ASKING */
        freeReplyObject(reply);
        reply = take_reply(links, link);
    }
    call->server = -1;
    if (!reply) {
        call->is_open = false;
        ask_another(links, call, server);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR && is_redirected(links, call, link, reply)) {
        freeReplyObject(reply);
        return;
    }
    call->is_open = false;
    call->reply = reply;
}

/* The calls that are open, once; replies come in the order of sending on each connection. */
static bool try_once(struct links *links, struct links_call *calls, size_t count)
{
    unsigned *servers = memory_take(count * sizeof(*servers));
    bool *was_sent = memory_take(count * sizeof(*was_sent));
    bool is_any = false;
    for (size_t i = 0; i < count; i++) {
        servers[i] = server_of(links, &calls[i]);
        was_sent[i] = false;
        if (!calls[i].is_open)
            continue;
        send(links, &calls[i]);
        was_sent[i] = calls[i].is_open;
    }
    flush(links);
    for (size_t i = 0; i < count; i++) {
        if (was_sent[i])
            receive(links, &calls[i], servers[i]);
        is_any |= calls[i].is_open;
    }
    free(was_sent);
    free(servers);
    return is_any;
}

void links_round(struct links *links, struct links_call *calls, size_t count)
{
    assert(links);

    if (count == 0)
        return;
    links->reason[0] = '\0';
    for (size_t i = 0; i < count; i++)
        calls[i].is_open = true;
    for (unsigned i = 0; i < REDIRECTS_MAX; i++)
        if (!try_once(links, calls, count))
            return;
    for (size_t i = 0; i < count; i++) {
        if (calls[i].is_open)
            note_reason(links, &links->servers[server_of(links, &calls[i])],
                        "one server names the other");
        calls[i].is_open = false;
    }
}
