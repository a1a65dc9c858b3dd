#include "net/conn.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/loop_uv.h"
#include "net/timer.h"

#define KEEPALIVE_IDLE_S     300
#define KEEPALIVE_INTERVAL_S 60
#define KEEPALIVE_PROBES     3

#define LINGER_READS 16u /* at a time: others have their turn */

struct conn {
    uv_poll_t poll;
    int descriptor;
    int wanted;
    conn_ready_fn *ready;
    void *arg;
    struct loop *loop;        /* borrowed */
    struct lingering *linger; /* owned; NULL: it does not linger */
};

/* What a connection has that waits for the other side to close. */
struct lingering {
    struct conn *next;
    struct conn *previous;
    struct timer *deadline; /* owned */
    uint64_t end_ms;        /* loop clock */
    conn_closed_fn *closed;
    void *arg;
};

static void set_option(int descriptor, int level, int name, int value)
{
    (void)setsockopt(descriptor, level, name, &value, sizeof(value));
}

/* Sockets that are no TCP ones, as in tests, refuse these; they do without. */
static void set_options(int descriptor)
{
    set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
}

struct conn *conn_new(struct loop *loop, int descriptor, conn_ready_fn *ready, void *arg,
                      struct error *error)
{
    assert(loop && ready);

    struct conn *conn = memory_take_zeroed(sizeof(*conn));
    conn->loop = loop;
    conn->descriptor = descriptor;
    conn->ready = ready;
    conn->arg = arg;
    int status = uv_poll_init(&loop->uv, &conn->poll, descriptor);
    if (status != 0) {
        loop_error(error, status, "cannot watch a connection");
        close(descriptor);
        free(conn);
        return NULL;
    }
    set_options(descriptor);
    return conn;
}

void conn_close(struct conn *conn)
{
    uv_poll_stop(&conn->poll);
    close(conn->descriptor);
    loop_close_handle((uv_handle_t *)&conn->poll);
}

static void poll_ready(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = (struct conn *)poll;
    int what = 0;
    if (events & UV_READABLE)
        what |= CONN_READ;
    if (events & UV_WRITABLE)
        what |= CONN_WRITE;
    if (status < 0) { /* libuv has stopped watching: whoever looks next finds it broken */
        what = conn->wanted;
        conn->wanted = 0;
    }
    conn->ready(conn->arg, what);
}

void conn_want(struct conn *conn, int what)
{
    if (what == conn->wanted)
        return;

    conn->wanted = what;
    if (what == 0) {
        uv_poll_stop(&conn->poll);
        return;
    }
    int events = (what & CONN_READ ? UV_READABLE : 0) | (what & CONN_WRITE ? UV_WRITABLE : 0);
    uv_poll_start(&conn->poll, events, poll_ready);
}

static ssize_t why_not(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? CONN_LATER : CONN_BROKEN;
}

ssize_t conn_read(struct conn *conn, char *to, size_t size)
{
    ssize_t got = recv(conn->descriptor, to, size, 0);
    return got >= 0 ? got : why_not();
}

ssize_t conn_write(struct conn *conn, struct slice bytes)
{
    ssize_t sent = send(conn->descriptor, bytes.data, bytes.size, MSG_NOSIGNAL);
    return sent >= 0 ? sent : why_not();
}

size_t conn_in_flight(const struct conn *conn)
{
    int bytes = 0;
    return ioctl(conn->descriptor, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

/* ---- lingering ---- */

static void link_lingering(struct conn *conn)
{
    struct loop *loop = conn->loop;
    conn->linger->next = loop->lingering;
    if (loop->lingering)
        loop->lingering->linger->previous = conn;
    loop->lingering = conn;
}

static void unlink_lingering(struct conn *conn)
{
    struct lingering *linger = conn->linger;
    if (linger->previous)
        linger->previous->linger->next = linger->next;
    else
        conn->loop->lingering = linger->next;
    if (linger->next)
        linger->next->linger->previous = linger->previous;
}

static void end_lingering(struct conn *conn)
{
    struct lingering *linger = conn->linger;
    unlink_lingering(conn);
    timer_free(linger->deadline);
    conn_close(conn);
    if (linger->closed)
        linger->closed(linger->arg);
    free(linger);
}

static void linger_timed_out(void *arg)
{
    end_lingering(arg);
}

/* Reads and discards what is there. */
static ssize_t discard_input(struct conn *conn, bool *ret_some)
{
    char ignored[16 << 10];
    ssize_t got = CONN_LATER;
    *ret_some = false;
    for (unsigned i = 0; i < LINGER_READS; i++) {
        got = conn_read(conn, ignored, sizeof(ignored));
        if (got <= 0)
            return got;
        *ret_some = true;
    }
    return got;
}

static void linger_ready(void *arg, int what)
{
    struct conn *conn = arg;
    (void)what;
    bool some;
    ssize_t got = discard_input(conn, &some);
    uint64_t now_ms = loop_now_ms(conn->loop);
    if (got == 0 || got == CONN_BROKEN || now_ms >= conn->linger->end_ms) {
        end_lingering(conn);
        return;
    }
    uint64_t left_ms = conn->linger->end_ms - now_ms;
    if (some)
        timer_start(conn->linger->deadline,
                    left_ms < CONN_LINGER_SILENT_MS ? left_ms : CONN_LINGER_SILENT_MS, 0);
}

static void start_lingering(struct conn *conn, conn_closed_fn *closed, void *arg)
{
    conn->linger = memory_take_zeroed(sizeof(*conn->linger));
    conn->linger->closed = closed;
    conn->linger->arg = arg;
    conn->linger->end_ms = loop_now_ms(conn->loop) + CONN_LINGER_MS;
    conn->linger->deadline = timer_new(conn->loop, linger_timed_out, conn);
    link_lingering(conn);
    conn->ready = linger_ready;
    conn->arg = conn;
    timer_start(conn->linger->deadline, CONN_LINGER_SILENT_MS, 0);
    conn_want(conn, CONN_READ);
}

void conn_finish(struct conn *conn, conn_closed_fn *closed, void *arg)
{
    assert(!conn->linger);

    (void)shutdown(conn->descriptor, SHUT_WR);
    bool some;
    ssize_t got = discard_input(conn, &some);
    if (got != 0 && got != CONN_BROKEN) {
        start_lingering(conn, closed, arg);
        return;
    }
    conn_close(conn);
    if (closed)
        closed(arg);
}

void conn_close_lingering(struct loop *loop)
{
    while (loop->lingering)
        end_lingering(loop->lingering);
}

/* ---- addresses ---- */

static uint64_t network_of_v6(const struct in6_addr *address)
{
    uint64_t high;
    uint32_t low;
    memcpy(&high, address->s6_addr, sizeof(high));
    memcpy(&low, address->s6_addr + 12, sizeof(low));
    return IN6_IS_ADDR_V4MAPPED(address) ? CONN_NETWORK_IPV4 | ntohl(low) : be64toh(high);
}

uint64_t conn_network_of(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return CONN_NETWORK_IPV4 | ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
    if (address->sa_family == AF_INET6)
        return network_of_v6(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return 0;
}

uint64_t conn_network(const struct conn *conn)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    (void)getpeername(conn->descriptor, (struct sockaddr *)&address, &size);
    return conn_network_of((const struct sockaddr *)&address);
}

static void format_address(const struct sockaddr_storage *address, char to[CONN_ADDRESS_SIZE])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(to, CONN_ADDRESS_SIZE, "%s:%u", host, ntohs(v4->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        snprintf(to, CONN_ADDRESS_SIZE, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        snprintf(to, CONN_ADDRESS_SIZE, "?:0");
    }
}

void conn_peer(const struct conn *conn, char to[CONN_ADDRESS_SIZE])
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    (void)getpeername(conn->descriptor, (struct sockaddr *)&address, &size);
    format_address(&address, to);
}

void conn_local(const struct conn *conn, char to[CONN_ADDRESS_SIZE])
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    (void)getsockname(conn->descriptor, (struct sockaddr *)&address, &size);
    format_address(&address, to);
}
