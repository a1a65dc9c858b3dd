#include "hot/redis/link.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/message.h"
#include "hot/redis/script.h"
#include "net/conn.h"
#include "net/lookup.h"
#include "net/redis_info.h"

#define OUT_MAX        (256u << 20)
#define OUT_KEPT       (1u << 20)
#define READ_SIZE      (64u << 10)
#define BACKOFF_MIN_NS UINT64_C(50000000)
#define BACKOFF_MAX_NS UINT64_C(1000000000)
#define VERSION_MIN    7u
#define LATENCY_SHARE  8u /* a new sample counts for one in so many */

enum link_state { LINK_DOWN, LINK_GREETING, LINK_READY };

/* Replies that are expected, a ring. */
struct expected {
    link_reply_fn *fn;
    void *arg;
    uint64_t sent_ns;
};

struct link {
    const struct link_setup *setup; /* borrowed */
    char address[LINK_ADDRESS_SIZE];
    enum link_state state;
    struct lookup *lookup;  /* these are owned: the name is being looked up, */
    struct addrinfo *found; /* and these are its addresses */
    struct addrinfo *at;    /* the one that is tried, of `found` */
    bool has_answered;      /* that one: the others are not tried */
    uint64_t lookup_ns;     /* since when */
    struct conn *conn;      /* owned; NULL while down */
    struct redisReader *reader;
    struct buffer out;

    struct expected *ring;
    size_t ring_size; /* a power of two */
    size_t ring_first;
    size_t ring_count;

    uint64_t down_ns;  /* since when it is not ready */
    uint64_t retry_ns; /* when to connect again */
    uint64_t backoff_ns;
    uint64_t latency_ns;
    bool is_primary;
    bool was_warned; /* that we may not ask for its settings */
    bool is_reading; /* breaking has to wait until the replies at hand are done with */
    bool is_broken;  /* to be broken off: nothing is put, sent or read any more */
    char run_id[64];
    struct error trouble;
};

static uint64_t now_ns(const struct link *link)
{
    return env_monotonic_ns(link->setup->env);
}

struct link *link_new(const struct link_setup *setup, struct slice address)
{
    assert(setup && address.size < LINK_ADDRESS_SIZE);

    struct link *link = memory_take_zeroed(sizeof(*link));
    link->setup = setup;
    memcpy(link->address, address.data, address.size);
    link->backoff_ns = BACKOFF_MIN_NS;
    link->down_ns = now_ns(link);
    buffer_init(&link->out, setup->out_max ? setup->out_max : OUT_MAX);
    error_set(&link->trouble, ERR_UNAVAILABLE, "%s: not connected yet", link->address);
    return link;
}

const char *link_address(const struct link *link)
{
    return link->address;
}

bool link_is_ready(const struct link *link)
{
    return link->state == LINK_READY && !link->is_broken;
}

bool link_is_primary(const struct link *link)
{
    return link->is_primary;
}

const char *link_run_id(const struct link *link)
{
    return link->run_id;
}

/* Who is silent is as slow as that, at least. */
uint64_t link_latency_ns(const struct link *link)
{
    if (link->ring_count == 0)
        return link->latency_ns;
    uint64_t waits_ns = now_ns(link) - link->ring[link->ring_first & (link->ring_size - 1)].sent_ns;
    return waits_ns > link->latency_ns ? waits_ns : link->latency_ns;
}

uint64_t link_down_ns(const struct link *link)
{
    return link_is_ready(link) ? 0 : now_ns(link) - link->down_ns;
}

const struct error *link_trouble(const struct link *link)
{
    return &link->trouble;
}

/* --- going down --- */

static void lose_replies(struct link *link)
{
    while (link->ring_count > 0) {
        struct expected lost = link->ring[link->ring_first & (link->ring_size - 1)];
        link->ring_first++;
        link->ring_count--;
        lost.fn(lost.arg, link, NULL);
    }
}

static void disconnect(struct link *link)
{
    if (link->conn)
        conn_close(link->conn);
    if (link->reader)
        redisReaderFree(link->reader);
    link->conn = NULL;
    link->reader = NULL;
    link->out.size = 0;
    buffer_shrink(&link->out, OUT_KEPT);
    link->state = LINK_DOWN;
    link->is_broken = false;
}

static void forget_addresses(struct link *link)
{
    lookup_free(link->lookup);
    if (link->found)
        freeaddrinfo(link->found);
    link->lookup = NULL;
    link->found = NULL;
    link->at = NULL;
}

/* It is down since it owes us an answer, if it does. */
static uint64_t silent_since_ns(const struct link *link)
{
    return link->ring_count > 0 ? link->ring[link->ring_first & (link->ring_size - 1)].sent_ns
                                : now_ns(link);
}

/* Of a host with several addresses some may lead nowhere: "localhost" is ::1 as well as 127.0.0.1,
 * and Redis may listen at one of them. */
static bool has_other_address(const struct link *link)
{
    return link->at && link->at->ai_next && !link->has_answered;
}

static void wait_for_retry(struct link *link)
{
    if (has_other_address(link)) {
        link->at = link->at->ai_next;
        link->retry_ns = now_ns(link);
        return;
    }
    forget_addresses(link);
    link->retry_ns = now_ns(link) + link->backoff_ns;
    link->backoff_ns =
        link->backoff_ns * 2 > BACKOFF_MAX_NS ? BACKOFF_MAX_NS : link->backoff_ns * 2;
}

static void mark_broken(struct link *link)
{
    if (link_is_ready(link))
        link->down_ns = silent_since_ns(link);
    link->is_broken = true;
}

/* Nothing is known any more of what was sent; connects again after a while. */
static void break_off(struct link *link)
{
    bool was_ready = link->state == LINK_READY;
    mark_broken(link);
    if (link->is_reading)
        return;
    disconnect(link);
    wait_for_retry(link);
    if (was_ready)
        message_warning("redis: lost a server address=%s reason=\"%s\"", link->address,
                        link->trouble.text);
    lose_replies(link);
    link->setup->changed(link->setup->arg, link);
}

static const char *why_broken(const struct link *link)
{
    return link->state == LINK_READY ? "the connection broke" : "cannot connect";
}

static void fail(struct link *link, enum err code, const char *why)
{
    if (!link->is_broken)
        error_set(&link->trouble, code, "%s: %s", link->address, why);
    break_off(link);
}

void link_free(struct link *link)
{
    if (!link)
        return;
    assert(!link->is_reading);
    disconnect(link);
    forget_addresses(link);
    lose_replies(link);
    buffer_done(&link->out);
    free(link->ring);
    free(link);
}

/* --- sending --- */

void link_put(struct link *link, struct slice bytes)
{
    if (link->is_broken || buffer_append_slice(&link->out, bytes) == ERR_OK)
        return;
    /* Whoever puts this is in the middle of a command, and goes on. */
    error_set(&link->trouble, ERR_TOO_LARGE,
              "%s: more is waiting to be sent than we are willing to hold", link->address);
    mark_broken(link);
}

void link_expect(struct link *link, link_reply_fn *fn, void *arg)
{
    if (link->ring_count == link->ring_size) {
        size_t size = link->ring_size == 0 ? 64 : link->ring_size * 2;
        struct expected *ring = memory_take(size * sizeof(*ring));
        for (size_t i = 0; i < link->ring_count; i++)
            ring[i] = link->ring[(link->ring_first + i) & (link->ring_size - 1)];
        free(link->ring);
        link->ring = ring;
        link->ring_size = size;
        link->ring_first = 0;
    }
    link->ring[(link->ring_first + link->ring_count++) & (link->ring_size - 1)] =
        (struct expected){fn, arg, now_ns(link)};
}

void link_flush(struct link *link)
{
    if (link->is_broken) {
        break_off(link);
        return;
    }
    if (!link->conn || link->out.size == 0)
        return;
    ssize_t size = conn_write(link->conn, buffer_slice(&link->out));
    if (size == CONN_BROKEN) {
        fail(link, ERR_UNAVAILABLE, why_broken(link));
        return;
    }
    if (size > 0)
        buffer_consume(&link->out, (size_t)size);
    conn_want(link->conn, link->out.size > 0 ? CONN_READ | CONN_WRITE : CONN_READ);
}

/* --- greeting --- */

static void put_head(struct link *link, char sign, size_t number)
{
    char head[32];
    int size = snprintf(head, sizeof(head), "%c%zu\r\n", sign, number);
    link_put(link, (struct slice){head, (size_t)size});
}

static void put_command(struct link *link, const struct slice *words, size_t count,
                        link_reply_fn *fn)
{
    put_head(link, '*', count);
    for (size_t i = 0; i < count; i++) {
        put_head(link, '$', words[i].size);
        link_put(link, words[i]);
        link_put(link, SLICE("\r\n"));
    }
    link_expect(link, fn, NULL);
}

static struct slice info_value(const struct redisReply *reply, const char *name)
{
    return redis_info_value((struct slice){reply->str, reply->str ? reply->len : 0}, name);
}

/* False: the greeting has failed. */
static bool is_good(struct link *link, const struct redisReply *reply, const char *what)
{
    if (!reply)
        return false; /* the link is going down already */
    if (reply->type != REDIS_REPLY_ERROR)
        return true;
    char why[200];
    snprintf(why, sizeof(why), "%s: %s", what, reply->str);
    bool is_busy = strncmp(reply->str, "LOADING", 7) == 0 || strncmp(reply->str, "BUSY", 4) == 0 ||
                   strncmp(reply->str, "MASTERDOWN", 10) == 0;
    fail(link, is_busy ? ERR_UNAVAILABLE : ERR_DENIED, why);
    return false;
}

static void greeted_auth(void *arg, struct link *link, const struct redisReply *reply)
{
    (void)arg;
    is_good(link, reply, "AUTH");
}

static void greeted_server(void *arg, struct link *link, const struct redisReply *reply)
{
    (void)arg;
    if (!is_good(link, reply, "INFO server"))
        return;
    struct slice run_id = info_value(reply, "run_id:");
    struct slice version = info_value(reply, "redis_version:");
    if (run_id.size == 0 || run_id.size >= sizeof(link->run_id)) {
        fail(link, ERR_INVALID, "INFO does not say its run_id: this is not Redis or Valkey");
        return;
    }
    memcpy(link->run_id, run_id.data, run_id.size);
    link->run_id[run_id.size] = '\0';
    if (version.size == 0 || strtoul(version.data, NULL, 10) < VERSION_MIN) {
        char why[120];
        snprintf(why, sizeof(why), "Redis %.*s is too old: 7.0 or newer is needed, or Valkey",
                 SLICE_ARGS(version));
        fail(link, ERR_INVALID, why);
    }
}

static void greeted_replication(void *arg, struct link *link, const struct redisReply *reply)
{
    (void)arg;
    if (is_good(link, reply, "INFO replication"))
        link->is_primary = slice_equal(info_value(reply, "role:"), SLICE("master"));
}

/* A server that throws data away when memory is short would answer from what is left. */
static void greeted_policy(void *arg, struct link *link, const struct redisReply *reply)
{
    (void)arg;
    if (!reply || link->is_broken)
        return;
    bool is_known = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                    reply->element[1]->type == REDIS_REPLY_STRING;
    if (!is_known && !link->was_warned) {
        link->was_warned = true;
        message_warning("redis: CONFIG GET is not allowed, make sure that maxmemory-policy is "
                        "noeviction address=%s",
                        link->address);
    }
    if (is_known && strcmp(reply->element[1]->str, "noeviction") != 0) {
        char why[160];
        snprintf(why, sizeof(why),
                 "maxmemory-policy is %s, and counts would be thrown away: set it to noeviction",
                 reply->element[1]->str);
        fail(link, ERR_INVALID, why);
    }
}

static void greeted_script(void *arg, struct link *link, const struct redisReply *reply)
{
    (void)arg;
    is_good(link, reply, "SCRIPT LOAD");
}

static void greeted_all(void *arg, struct link *link, const struct redisReply *reply)
{
    (void)arg;
    if (link->is_broken || !is_good(link, reply, "PING"))
        return;
    link->state = LINK_READY;
    link->backoff_ns = BACKOFF_MIN_NS;
    link->setup->changed(link->setup->arg, link);
}

static void greet(struct link *link)
{
    struct slice user = slice_of(link->setup->user);
    struct slice password = slice_of(link->setup->password);
    if (password.size > 0 && user.size > 0)
        put_command(link, (struct slice[]){SLICE("AUTH"), user, password}, 3, greeted_auth);
    else if (password.size > 0)
        put_command(link, (struct slice[]){SLICE("AUTH"), password}, 2, greeted_auth);
    put_command(link, (struct slice[]){SLICE("INFO"), SLICE("server")}, 2, greeted_server);
    put_command(link, (struct slice[]){SLICE("INFO"), SLICE("replication")}, 2,
                greeted_replication);
    put_command(link, (struct slice[]){SLICE("CONFIG"), SLICE("GET"), SLICE("maxmemory-policy")}, 3,
                greeted_policy);
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        if (script_source(i).size > 0)
            put_command(link, (struct slice[]){SLICE("SCRIPT"), SLICE("LOAD"), script_source(i)}, 3,
                        greeted_script);
    put_command(link, (struct slice[]){SLICE("PING")}, 1, greeted_all);
}

/* --- receiving --- */

static void take_reply(struct link *link, const struct redisReply *reply)
{
    struct expected expected = link->ring[link->ring_first & (link->ring_size - 1)];
    link->ring_first++;
    link->ring_count--;
    uint64_t took_ns = now_ns(link) - expected.sent_ns;
    if (link->state == LINK_READY)
        link->latency_ns = (link->latency_ns * (LATENCY_SHARE - 1) + took_ns) / LATENCY_SHARE;
    expected.fn(expected.arg, link, reply);
}

static void take_replies(struct link *link)
{
    void *reply = NULL;
    while (!link->is_broken) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            fail(link, ERR_UNAVAILABLE, "it does not speak as Redis does");
            return;
        }
        if (!reply)
            return;
        if (link->ring_count == 0)
            fail(link, ERR_UNAVAILABLE, "it answers without being asked");
        else
            take_reply(link, reply);
        freeReplyObject(reply);
    }
}

static void receive(struct link *link)
{
    char bytes[READ_SIZE];
    ssize_t size = conn_read(link->conn, bytes, sizeof(bytes));
    if (size == CONN_LATER)
        return;
    if (size <= 0) {
        fail(link, ERR_UNAVAILABLE, size == 0 ? "it has hung up" : why_broken(link));
        return;
    }
    link->has_answered = true;
    link->is_reading = true;
    if (redisReaderFeed(link->reader, bytes, (size_t)size) != REDIS_OK)
        fail(link, ERR_UNAVAILABLE, "it does not speak as Redis does");
    else
        take_replies(link);
    link->is_reading = false;
    if (link->is_broken)
        break_off(link);
}

static void ready(void *arg, int what)
{
    struct link *link = arg;
    if (what & CONN_READ)
        receive(link);
    if (link->conn && what & CONN_WRITE)
        link_flush(link);
}

/* --- connecting --- */

static void look_up(struct link *link)
{
    char host[LINK_ADDRESS_SIZE];
    snprintf(host, sizeof(host), "%s", link->address);
    char *colon = strrchr(host, ':');
    assert(colon);
    *colon = '\0';
    char *name = host;
    if (*name == '[' && colon[-1] == ']') {
        name++;
        colon[-1] = '\0';
    }
    link->lookup = lookup_new(name, colon + 1);
    link->lookup_ns = now_ns(link);
}

/* True: there are addresses to be tried. */
static bool take_addresses(struct link *link)
{
    if (link->found)
        return true;
    if (!link->lookup)
        look_up(link);
    if (!lookup_is_done(link->lookup)) {
        if (now_ns(link) - link->lookup_ns > link->setup->timeout_ns)
            error_set(&link->trouble, ERR_UNAVAILABLE, "%s: its name is being looked up",
                      link->address);
        return false;
    }
    int status = lookup_take(link->lookup, &link->found);
    lookup_free(link->lookup);
    link->lookup = NULL;
    link->at = link->found;
    if (link->found)
        return true;
    error_set(&link->trouble, ERR_UNAVAILABLE, "%s: %s", link->address, gai_strerror(status));
    break_off(link);
    return false;
}

static int open_socket(struct link *link)
{
    int descriptor = socket(link->at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 &&
        (connect(descriptor, link->at->ai_addr, link->at->ai_addrlen) == 0 || errno == EINPROGRESS))
        return descriptor;
    error_set_errno(&link->trouble, ERR_UNAVAILABLE, errno, "%s: cannot connect", link->address);
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

static void connect_again(struct link *link)
{
    if (!take_addresses(link))
        return;
    link->has_answered = false;
    int descriptor = open_socket(link);
    if (descriptor >= 0)
        link->conn = conn_new(link->setup->loop, descriptor, ready, link, &link->trouble);
    if (!link->conn) {
        break_off(link);
        return;
    }
    link->reader = redisReaderCreate();
    if (!link->reader)
        abort();
    link->reader->maxbuf = 0; /* what it has grown to it keeps */
    link->state = LINK_GREETING;
    greet(link);
    conn_want(link->conn, CONN_READ | CONN_WRITE);
}

void link_tick(struct link *link)
{
    uint64_t now = now_ns(link);
    if (link->is_broken) {
        break_off(link);
        return;
    }
    if (link->state == LINK_DOWN) {
        if (now >= link->retry_ns)
            connect_again(link);
        return;
    }
    if (link->ring_count == 0)
        return;
    const struct expected *oldest = &link->ring[link->ring_first & (link->ring_size - 1)];
    if (now > oldest->sent_ns && now - oldest->sent_ns > link->setup->timeout_ns)
        fail(link, ERR_UNAVAILABLE, "no answer in time");
}
