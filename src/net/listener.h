/* listener.h - a port that connections come in by.
 *
 * Every worker opens the same address on its own loop, and the system spreads
 * the connections over them (SO_REUSEPORT). When the process has no descriptor
 * left, the listener gives up its spare one to accept and close who is waiting:
 * they hear of it at once, and the loop does not spin on what it cannot take. */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "net/loop.h"

struct listener;

/* A connection has come in: `descriptor` is the callee's now, for conn_new(). */
typedef void listener_accept_fn(void *arg, int descriptor);

struct listener_options {
    const char *address; /* numeric, IPv4 or IPv6 */
    uint16_t port;       /* 0 = any that is free */
    bool first;          /* fails with ERR_BUSY when anybody listens there already */
    listener_accept_fn *accept;
    void *arg;
};

/* ERR_INVALID for an address that is none or not ours, ERR_DENIED, ERR_BUSY. */
struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct error *error);

/* Is `address` a numeric one? And of this machine only? */
bool listener_is_address(const char *address, bool *ret_loopback);

/* The port it has got. */
uint16_t listener_port(const struct listener *listener);

/* Connections turned away for want of a descriptor. */
uint64_t listener_turned_away(const struct listener *listener);

/* Closes the descriptor of a connection that is turned away, after something was written to it:
 * what has come in is read first, so that the other side gets to see what was written. */
void listener_refuse(int descriptor);

/* Accepts who is waiting already, then closes. NULL does nothing. */
void listener_close(struct listener *listener);

#endif
