/* link.h - one connection to one Redis server.
 *
 * A link connects by itself, greets the server (who are you, are you set up as we need it, here are
 * our scripts), is ready then, and begins anew after a while when it broke. Commands are put into
 * it as bytes and sent by link_flush(); replies come in the order of the commands. A link whose
 * oldest command is not answered in time is broken: what was sent on it is lost, and nobody knows
 * whether it was done.
 *
 * A host may have several addresses: they are tried in turn until one of them answers.
 *
 * Belongs to the loop's thread. Names are looked up elsewhere (net/lookup.h). */
#ifndef HOT_REDIS_LINK_H
#define HOT_REDIS_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "base/env.h"
#include "base/error.h"
#include "base/slice.h"
#include "net/loop.h"

struct link;

/* The link has become ready, or is not ready any more. */
typedef void link_changed_fn(void *arg, struct link *link);

/* `reply` is freed afterwards; NULL: it was lost. */
typedef void link_reply_fn(void *arg, struct link *link, const struct redisReply *reply);

/* What all links have in common. */
struct link_setup {
    struct loop *loop; /* borrowed */
    struct env *env;   /* borrowed */
    char user[128];    /* "" = none */
    char password[256];
    uint64_t timeout_ns;
    size_t out_max; /* bytes that wait to be sent, 0 = 256 MiB; with more it breaks */
    link_changed_fn *changed;
    void *arg;
};

#define LINK_ADDRESS_SIZE 280u

/* "host:port"; the setup stays the caller's. Begins to connect at the next link_tick(). */
struct link *link_new(const struct link_setup *setup, struct slice address);

/* Replies that are still expected are lost. `changed` is not called. */
void link_free(struct link *link);

const char *link_address(const struct link *link);
bool link_is_ready(const struct link *link);
bool link_is_primary(const struct link *link); /* as it said when it was greeted */
const char *link_run_id(const struct link *link);
uint64_t link_latency_ns(const struct link *link); /* of late */

/* For how long it has not been ready, or has not answered when it was asked; 0 while it is. */
uint64_t link_down_ns(const struct link *link);

/* Why it is not ready, for a person; the code is ERR_INVALID when it never will be unless somebody
 * changes the server's settings. */
const struct error *link_trouble(const struct link *link);

/* Looks at the clock: connects again, gives up on a server that does not answer. Several times a
 * second. */
void link_tick(struct link *link);

/* Puts bytes of a command, and says who gets its reply. The link is ready. Calls nobody back: a
 * link that breaks by this is not ready from now on, takes no more bytes, and loses its replies in
 * the next link_flush() or link_tick(). */
void link_put(struct link *link, struct slice bytes);
void link_expect(struct link *link, link_reply_fn *fn, void *arg);

/* Sends what was put. */
void link_flush(struct link *link);

#endif
