/* proxy.h - stands between a store and its server, and does to the connection what networks do.
 *
 *   store --- proxy --- server
 *
 * A thread of its own carries the bytes of every connection; the test says what is to go wrong.
 * Belongs to one test at a time. */
#ifndef PROXY_H
#define PROXY_H

#include "unit/store/postgres/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum proxy_fault {
    PROXY_NONE,
    PROXY_LOSE_REPLY, /* to a request that has `word` in it: both sides are cut off */
    PROXY_SILENCE,    /* takes everything, passes on nothing */
    PROXY_CUT,        /* ends all connections at once, and takes no new ones */
};

#define PROXY_LINKS 32

struct proxy {
    int listener;
    int port;
    int target;
    pthread_t thread;
    _Atomic bool is_over;
    _Atomic int fault;
    _Atomic int lost; /* replies so far */
    const char *word;
    struct {
        int near; /* the store's; -1: free */
        int far;
        bool is_armed; /* the next reply is lost */
    } links[PROXY_LINKS];
};

static inline void proxy_end_link(struct proxy *proxy, int i)
{
    struct linger at_once = {1, 0};
    setsockopt(proxy->links[i].near, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(proxy->links[i].near);
    close(proxy->links[i].far);
    proxy->links[i].near = -1;
}

static inline void proxy_accept(struct proxy *proxy)
{
    int near = accept(proxy->listener, NULL, NULL);
    int far = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)proxy->target),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int i = 0;
    while (i < PROXY_LINKS && proxy->links[i].near >= 0)
        i++;
    if (i == PROXY_LINKS || atomic_load(&proxy->fault) == PROXY_CUT ||
        connect(far, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(near);
        close(far);
        return;
    }
    proxy->links[i].near = near;
    proxy->links[i].far = far;
    proxy->links[i].is_armed = false;
}

/* Carries what one side has sent. False: the link has to end. */
static inline bool proxy_carry(struct proxy *proxy, int i, bool is_request)
{
    char bytes[65536];
    int from = is_request ? proxy->links[i].near : proxy->links[i].far;
    int to = is_request ? proxy->links[i].far : proxy->links[i].near;
    ssize_t size = recv(from, bytes, sizeof(bytes), 0);
    int fault = atomic_load(&proxy->fault);
    if (size <= 0 || fault == PROXY_CUT)
        return false;
    if (fault == PROXY_SILENCE)
        return true;
    if (!is_request && proxy->links[i].is_armed) {
        atomic_fetch_add(&proxy->lost, 1);
        atomic_store(&proxy->fault, PROXY_NONE); /* once */
        return false;
    }
    if (is_request && fault == PROXY_LOSE_REPLY &&
        memmem(bytes, (size_t)size, proxy->word, strlen(proxy->word)))
        proxy->links[i].is_armed = true;
    return send(to, bytes, (size_t)size, MSG_NOSIGNAL) == size;
}

static inline void proxy_serve(struct proxy *proxy)
{
    struct pollfd polls[1 + 2 * PROXY_LINKS] = {{.fd = proxy->listener, .events = POLLIN}};
    for (int i = 0; i < PROXY_LINKS; i++) {
        bool open = proxy->links[i].near >= 0;
        polls[1 + 2 * i] = (struct pollfd){open ? proxy->links[i].near : -1, POLLIN, 0};
        polls[2 + 2 * i] = (struct pollfd){open ? proxy->links[i].far : -1, POLLIN, 0};
    }
    if (poll(polls, 1 + 2 * PROXY_LINKS, 20) < 0)
        return;
    for (int i = 0; i < PROXY_LINKS; i++) {
        bool ends = proxy->links[i].near >= 0 && atomic_load(&proxy->fault) == PROXY_CUT;
        if (!ends && polls[1 + 2 * i].revents)
            ends = !proxy_carry(proxy, i, true);
        if (!ends && polls[2 + 2 * i].revents)
            ends = !proxy_carry(proxy, i, false);
        if (ends)
            proxy_end_link(proxy, i);
    }
    if (polls[0].revents)
        proxy_accept(proxy);
}

static inline void *proxy_main(void *arg)
{
    struct proxy *proxy = arg;
    while (!atomic_load(&proxy->is_over))
        proxy_serve(proxy);
    return NULL;
}

static inline void proxy_start(struct proxy *proxy, int target)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    memset(proxy, 0, sizeof(*proxy));
    for (int i = 0; i < PROXY_LINKS; i++)
        proxy->links[i].near = -1;
    proxy->target = target;
    proxy->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(proxy->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(proxy->listener, 16), 0);
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&address, &size), 0);
    proxy->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&proxy->thread, NULL, proxy_main, proxy), 0);
}

static inline void proxy_lose_reply_to(struct proxy *proxy, const char *word)
{
    proxy->word = word;
    atomic_store(&proxy->fault, PROXY_LOSE_REPLY);
}

static inline void proxy_stop(struct proxy *proxy)
{
    atomic_store(&proxy->is_over, true);
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < PROXY_LINKS; i++) {
        if (proxy->links[i].near >= 0)
            proxy_end_link(proxy, i);
    }
    close(proxy->listener);
}

#endif
