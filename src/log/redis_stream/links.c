#include "log/redis_stream/links.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/memory.h"

#define SERVERS_MAX   64u
#define REDIRECTS_MAX 5u
#define CONNECT_MS    1000
#define ANSWER_MS     2000 /* at least */
#define PAUSE_MIN_MS  50u
#define PAUSE_MAX_MS  1000u
#define MS_NS         1000000u

struct link {
    struct redis_url_server server;
    redisContext *context; /* NULL: not connected */
    uint64_t pause_ms;
    uint64_t try_ns; /* not before */
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
    if (link->context)
        redisFree(link->context);
    link->context = NULL;
    link->pause_ms = link->pause_ms == 0 ? PAUSE_MIN_MS : link->pause_ms * 2;
    if (link->pause_ms > PAUSE_MAX_MS)
        link->pause_ms = PAUSE_MAX_MS;
    link->try_ns = env_monotonic_ns(links->env) + link->pause_ms * MS_NS;
}

/* Up to the end, but for a moment. */
static struct timeval patience(const struct links *links, uint64_t most_ms)
{
    uint64_t now_ns = env_monotonic_ns(links->env);
    uint64_t end_ns = atomic_load(&links->end_ns);
    uint64_t left_ms = end_ns > now_ns ? (end_ns - now_ns) / MS_NS : 0;
    uint64_t ms = left_ms < most_ms ? left_ms + 1 : most_ms;
    return (struct timeval){.tv_sec = (time_t)(ms / 1000),
                            .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
}

static bool log_in(struct links *links, struct link *link)
{
    if (!links->password[0])
        return true;
    redisReply *reply =
        links->user[0] ? redisCommand(link->context, "AUTH %s %s", links->user, links->password)
                       : redisCommand(link->context, "AUTH %s", links->password);
    bool is_in = reply && reply->type == REDIS_REPLY_STATUS;
    if (!is_in)
        lose(links, link, reply ? reply->str : link->context->errstr);
    if (reply)
        freeReplyObject(reply);
    return is_in;
}

static bool is_connected(struct links *links, struct link *link)
{
    if (link->context)
        return true;
    if (env_monotonic_ns(links->env) < link->try_ns)
        return false;
    if (env_monotonic_ns(links->env) >= atomic_load(&links->end_ns))
        return false;
    link->context =
        redisConnectWithTimeout(link->server.host, link->server.port, patience(links, CONNECT_MS));
    if (!link->context || link->context->err) {
        lose(links, link, link->context ? link->context->errstr : "no memory");
        return false;
    }
    (void)redisSetTimeout(link->context, patience(links, links->answer_ms));
    (void)redisEnableKeepAlive(link->context);
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
    for (unsigned i = 0; i < links->count; i++) {
        struct link *link = &links->servers[i];
        int is_done = 0;
        while (link->context && !is_done)
            if (redisBufferWrite(link->context, &is_done) != REDIS_OK)
                lose(links, link, link->context->errstr);
    }
}

static redisReply *take_reply(struct links *links, struct link *link)
{
    void *reply = NULL;
    if (!link->context)
        return NULL;
    if (atomic_load(&links->end_ns) != UINT64_MAX)
        (void)redisSetTimeout(link->context, patience(links, links->answer_ms));
    if (redisGetReply(link->context, &reply) != REDIS_OK || !reply) {
        bool is_late = link->context->err == REDIS_ERR_IO && errno == EAGAIN;
        lose(links, link, is_late ? "did not answer in time" : link->context->errstr);
        return NULL;
    }
    link->pause_ms = 0;
    return reply;
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
    for (size_t i = 0; i < count; i++)
        calls[i].is_open = true;
    for (unsigned i = 0; i < REDIRECTS_MAX; i++)
        if (!try_once(links, calls, count))
            return;
    for (size_t i = 0; i < count; i++)
        calls[i].is_open = false;
}
