#include "net/listener.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/message.h"
#include "net/loop_uv.h"

#define BACKLOG        1024
#define REFUSE_READS   16
#define ACCEPTS_A_PASS 64 /* so that a flood of newcomers does not starve who is in */

struct listener {
    uv_poll_t poll;
    struct loop *loop; /* borrowed */
    int descriptor;
    int spare; /* held back for the day that no other is left; -1 = given up */
    uint16_t port;
    uint64_t turned_away;
    listener_accept_fn *accept;
    void *arg;
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool read_address(const char *text, uint16_t port, union address *ret, socklen_t *ret_size)
{
    memset(ret, 0, sizeof(*ret));
    if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(port);
        *ret_size = sizeof(ret->v4);
        return true;
    }
    if (inet_pton(AF_INET6, text, &ret->v6.sin6_addr) == 1) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(port);
        *ret_size = sizeof(ret->v6);
        return true;
    }
    return false;
}

bool listener_is_address(const char *address, bool *ret_loopback)
{
    union address parsed;
    socklen_t size;
    if (!read_address(address, 0, &parsed, &size))
        return false;
    *ret_loopback = parsed.any.sa_family == AF_INET ? ntohl(parsed.v4.sin_addr.s_addr) >> 24 == 127
                                                    : IN6_IS_ADDR_LOOPBACK(&parsed.v6.sin6_addr);
    return true;
}

static void set_option(int descriptor, int level, int name)
{
    int on = 1;
    (void)setsockopt(descriptor, level, name, &on, sizeof(on));
}

/* Returns a bound and listening socket, or a negative errno. */
static int open_socket(const union address *address, socklen_t size, bool shared)
{
    int descriptor =
        socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (descriptor < 0)
        return -errno;

    set_option(descriptor, SOL_SOCKET, SO_REUSEADDR);
    if (shared)
        set_option(descriptor, SOL_SOCKET, SO_REUSEPORT);
    if (address->any.sa_family == AF_INET6)
        set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY);

    if (bind(descriptor, &address->any, size) != 0 || listen(descriptor, BACKLOG) != 0) {
        int errnum = errno;
        close(descriptor);
        return -errnum;
    }
    return descriptor;
}

/* SO_REUSEPORT would let a second program share the port in silence. So the
 * first worker tries without it, which fails if anybody is there. */
static int open_first(const union address *address, socklen_t size)
{
    if (address->v4.sin_port != 0) { /* v6 has its port at the same place */
        int probe = open_socket(address, size, false);
        if (probe < 0)
            return probe;
        close(probe);
    }
    return open_socket(address, size, true);
}

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* No descriptor is left: gives up the spare one, so that who is waiting can be
 * accepted and closed. True if somebody was. */
static bool turn_away(struct listener *listener)
{
    if (listener->spare >= 0)
        close(listener->spare);
    int descriptor = accept4(listener->descriptor, NULL, NULL, SOCK_CLOEXEC);
    if (descriptor >= 0)
        close(descriptor);
    listener->spare = open_spare();
    if (descriptor < 0)
        return false;

    if (listener->turned_away++ == 0)
        message_warning("no descriptors left, connections are turned away");
    return true;
}

/* Accepts one connection. False when there is nobody to accept. */
static bool accept_one(struct listener *listener)
{
    int descriptor = accept4(listener->descriptor, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
        listener->accept(listener->arg, descriptor);
        return true;
    }
    switch (errno) {
    case EINTR:
    case ECONNABORTED:
        return true;
    case EMFILE:
    case ENFILE:
        return turn_away(listener);
    default:
        return false;
    }
}

static void ready(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = (struct listener *)poll;
    (void)events;
    if (status < 0)
        return;
    for (int i = 0; i < ACCEPTS_A_PASS && accept_one(listener); i++) {
    }
}

static uint16_t port_of(int descriptor)
{
    union address address = {0};
    socklen_t size = sizeof(address);
    if (getsockname(descriptor, &address.any, &size) != 0)
        return 0;
    return ntohs(address.v4.sin_port);
}

struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct error *error)
{
    assert(loop && options->accept);

    union address address;
    socklen_t size;
    if (!read_address(options->address, options->port, &address, &size)) {
        error_set(error, ERR_INVALID, "'%s' is not an IP address", options->address);
        return NULL;
    }
    int descriptor =
        options->first ? open_first(&address, size) : open_socket(&address, size, true);
    if (descriptor < 0) {
        char what[96];
        snprintf(what, sizeof(what), "cannot listen on %s port %u", options->address,
                 options->port);
        loop_error(error, descriptor, what);
        return NULL;
    }

    struct listener *listener = memory_take_zeroed(sizeof(*listener));
    listener->loop = loop;
    listener->descriptor = descriptor;
    listener->spare = open_spare();
    listener->port = port_of(descriptor);
    listener->accept = options->accept;
    listener->arg = options->arg;
    int status = uv_poll_init(&loop->uv, &listener->poll, descriptor);
    if (status != 0) {
        loop_error(error, status, "cannot watch the port");
        close(descriptor);
        close(listener->spare);
        free(listener);
        return NULL;
    }
    uv_poll_start(&listener->poll, UV_READABLE, ready);
    return listener;
}

uint16_t listener_port(const struct listener *listener)
{
    return listener->port;
}

uint64_t listener_turned_away(const struct listener *listener)
{
    return listener->turned_away;
}

void listener_refuse(int descriptor)
{
    char ignored[4096];
    (void)shutdown(descriptor, SHUT_WR);
    for (int i = 0; i < REFUSE_READS && recv(descriptor, ignored, sizeof(ignored), 0) > 0; i++) {
    }
    close(descriptor);
}

void listener_close(struct listener *listener)
{
    if (!listener)
        return;

    for (int i = 0; i < BACKLOG && accept_one(listener); i++) {
    }
    uv_poll_stop(&listener->poll);
    close(listener->descriptor);
    if (listener->spare >= 0)
        close(listener->spare);
    loop_close_handle((uv_handle_t *)&listener->poll);
}
