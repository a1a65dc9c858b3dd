/* taking.h - counters and reactions on their way into the server.
 *
 * What import reads, wherever from, goes through here: many commands under way, the
 * answers counted, refusals told with the place that they belong to. */
#ifndef CLI_TAKING_H
#define CLI_TAKING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "cli/line.h"
#include "cli/pipe.h"
#include "cli/session.h"

#define TAKING_RUN_BYTES 17u
#define TAKING_TOLD_MAX  20u /* bad places that are told one by one */

/* Where a thing stood, for people: "line 17", "key item_13". Written to `to`. */
typedef void taking_place_fn(void *arg, uint64_t number, char *to, size_t size);

struct taking {
    struct session *session; /* borrowed */
    struct pipe pipe;
    bool adds;                  /* --mode add */
    bool keys_by_id;            /* idempotency keys are made of ids, not of places */
    bool is_dry;                /* nothing is sent */
    char run[TAKING_RUN_BYTES]; /* stands in the idempotency keys */
    taking_place_fn *place;
    void *place_arg;
    uint64_t counters;  /* answered with success; so are the others */
    uint64_t reactions; /* of which */
    uint64_t changed;   /* were new to the server */
    uint64_t kept;      /* counters that were there with settings of their own */
    uint64_t bad;
    bool is_full; /* the server's disk is full: there is no use in going on */
};

/* Connects, unless it is dry. Returns an exit code. */
int taking_open(struct taking *taking, struct session *session, taking_place_fn *place, void *arg);
void taking_close(struct taking *taking);

/* A run that nobody had before. */
void taking_new_run(struct taking *taking);

/* Says that what stood at `number` is bad. */
void taking_refuse(struct taking *taking, uint64_t number, const char *why);

/* Sends what the line asks for. `number` is its place, and part of the idempotency key. */
enum err taking_line(struct taking *taking, uint64_t number, const struct line *line);

enum err taking_reaction(struct taking *taking, uint64_t number, struct slice item,
                         struct slice user, struct slice kind);
enum err taking_counter(struct taking *taking, uint64_t number, struct slice id,
                        struct slice value);

/* What to say when one of these fails; returns the exit code. */
int taking_failed(struct taking *taking, enum err err);

#endif
