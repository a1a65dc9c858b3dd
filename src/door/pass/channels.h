/* channels.h - who of a worker's clients listens to which counters.
 *
 * A channel is a counter's id, or a pattern of ids. While somebody listens, the
 * door's timer runs ten times a second: channels_ask() empties the worker's
 * mailbox (flow/watch.h) and reads the values like any other request would, and
 * the door's answer finds with channels_visit() who is to be told.
 *
 * Who listens is told the newest last. A read that went out earlier may come back later, where the
 * hot layer is outside of the process: an older value is not told after a newer one. */
#ifndef DOOR_PASS_CHANNELS_H
#define DOOR_PASS_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "door/pass/pass.h"
#include "net/timer.h"

#define CHANNELS_CHAINS 1024u

struct channel {
    struct channel *next; /* in its chain, or in the list of patterns */
    struct subscription *subscriptions;
    bool is_pattern;
    uint64_t told; /* pass->answering when it last was */
    size_t size;
    char name[];
};

/* A subscription is in two lists: its client's and its channel's. */
struct subscription {
    void *client; /* begins with a struct pass_client */
    struct channel *channel;
    struct subscription *next_of_client;
    struct subscription *next_of_channel;
    struct subscription *previous_of_channel;
};

struct channels {
    struct pass *pass;      /* borrowed */
    unsigned mailbox;       /* the worker's own, of the door */
    timer_fn *tell;         /* the door's, of the timer; calls channels_ask() */
    pass_answer_fn *answer; /* the door's, to the read of one counter that has changed */
    void *arg;              /* of both: the latter finds it as the request's extra */
    struct timer *timer;    /* runs while somebody listens; made with the first one */
    uint64_t key;           /* of the hash */
    size_t subscriptions;
    struct channel *patterns;
    struct channel *chains[CHANNELS_CHAINS];
};

void channels_init(struct channels *channels, struct pass *pass, unsigned mailbox, timer_fn *tell,
                   pass_answer_fn *answer, void *arg);

/* When nobody listens any more. */
void channels_done(struct channels *channels);

static inline struct slice channel_name(const struct channel *channel)
{
    return (struct slice){channel->name, channel->size};
}

/* Adds a subscription to the list of its client. */
void channels_subscribe(struct channels *channels, void *client, struct subscription **list,
                        struct slice name, bool is_pattern);

/* Ends it. `*link` is what points to the subscription in its client's list. */
void channels_unsubscribe(struct channels *channels, struct subscription **link);

/* Asks for the values of what has changed. Says how
 * many changes were lost because there were too many. */
size_t channels_ask(struct channels *channels);

/* The next channels_ask() asks for this one as well, if somebody listens to it. */
void channels_again(struct channels *channels, struct slice id);

/* In the door's answer: shows each subscription that the op's counter is told to. One that is gone
 * is told as 0; one that could not be read is told when it changes the next time. One that was
 * read before what its channel was told last is not told; to a pattern, which may have been told
 * of another counter, it is read again. */
typedef void channels_visit_fn(void *arg, const struct subscription *one);
void channels_visit(struct channels *channels, const struct op *op, channels_visit_fn *visit,
                    void *arg);

#endif
