#include "net/lookup.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"

struct lookup {
    char *host; /* owned, as all of it; port lies behind it */
    char *port;
    struct addrinfo *found;
    int status;
    _Atomic bool is_done;
    _Atomic unsigned holders; /* who asks, and the thread: the last one frees it */
};

static void release(struct lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->holders, 1) > 1)
        return;
    if (lookup->found)
        freeaddrinfo(lookup->found);
    free(lookup->host);
    free(lookup);
}

static void ask(struct lookup *lookup, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    lookup->status = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
    if (lookup->status != 0)
        lookup->found = NULL;
}

static void *run(void *arg)
{
    struct lookup *lookup = arg;
    pthread_setname_np(pthread_self(), "lookup");
    ask(lookup, 0);
    atomic_store(&lookup->is_done, true);
    release(lookup);
    return NULL;
}

/* False: there is no thread to be had right now. */
static bool start(struct lookup *lookup)
{
    pthread_t thread;
    atomic_store(&lookup->holders, 2);
    if (pthread_create(&thread, NULL, run, lookup) != 0) {
        atomic_store(&lookup->holders, 1);
        return false;
    }
    (void)pthread_detach(thread);
    return true;
}

struct lookup *lookup_new(const char *host, const char *port)
{
    assert(host && port);

    struct lookup *lookup = memory_take_zeroed(sizeof(*lookup));
    size_t host_size = strlen(host) + 1;
    size_t port_size = strlen(port) + 1;
    lookup->host = memory_take(host_size + port_size);
    lookup->port = lookup->host + host_size;
    memcpy(lookup->host, host, host_size);
    memcpy(lookup->port, port, port_size);
    atomic_store(&lookup->holders, 1);
    ask(lookup, AI_NUMERICHOST);
    if (lookup->status == EAI_NONAME && start(lookup))
        return lookup;
    lookup->status = lookup->status == EAI_NONAME ? EAI_AGAIN : lookup->status;
    atomic_store(&lookup->is_done, true);
    return lookup;
}

bool lookup_is_done(const struct lookup *lookup)
{
    assert(lookup);

    return atomic_load(&lookup->is_done);
}

int lookup_take(struct lookup *lookup, struct addrinfo **ret_found)
{
    assert(lookup && ret_found && lookup_is_done(lookup));

    *ret_found = lookup->found;
    lookup->found = NULL;
    return lookup->status;
}

void lookup_free(struct lookup *lookup)
{
    if (lookup)
        release(lookup);
}
