/* move.h - from one machine to many nodes, without a stop.
 *
 *   COPIES    claims an empty PostgreSQL and fills it with all that the store of this machine holds
 *   FOLLOWS   carries the log there from that point on, beside the store of this machine
 *   GIVES     told to hand over: no write is taken any more; what is in the log goes over
 *   GIVEN     PostgreSQL is the nodes': they take the writes. Reads are still answered here
 *
 * Doors and store of this machine go on as ever until GIVES, and whatever fails before PostgreSQL
 * is released leaves everything as it was: this machine takes writes again. A file in the data
 * folder, `handed-over`, is written before and says that PostgreSQL has to be asked who counts; a
 * start that finds it does, or is refused. */
#ifndef SERVER_MOVE_H
#define SERVER_MOVE_H

#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/log.h"
#include "core/store.h"
#include "flow/pipeline.h"
#include "flow/service.h"
#include "store/postgres/postgres.h"

struct move;

struct move_options {
    struct env *env;    /* all borrowed */
    const char *folder; /* of the log */
    const char *url;    /* of PostgreSQL */
    enum postgres_members members;
    struct log *log;
    struct store *store; /* SQLite */
    struct hot *hot;
    struct pipeline *pipeline;
    struct service *service;
    const struct kinds *kinds;
    uint64_t flush_interval_ms;
    uint64_t flush_events;
    uint64_t keep_events_ms;
    uint64_t keep_history_ms;
    uint64_t keep_keys_ms;
    void (*begin_thread)(void *arg);
};

/* What PostgreSQL knows this machine by, and people. */
struct move_name {
    char machine[POSTGRES_MACHINE_BYTES];
    char who[256];
};
struct move_name move_name(const struct move_options *options);

/* May the folder be served, or was it handed over? Of the options env, folder, url, members and log
 * are needed. */
enum err move_check_folder(const struct move_options *options, struct error *error);

/* Begins, in the background; after log_start(). */
enum err move_start(const struct move_options *options, struct move **ret, struct error *error);

/* Asks for it. Any thread. */
void move_hand_over(struct move *move);

const char *move_url(const struct move *move);

/* Before pipeline and log end. What was not handed over goes on with the next start. NULL does
 * nothing. */
void move_stop(struct move *move);

#endif
