/* desk.h - questions that take a while, answered beside the workers.
 *
 * A door hands in a job; a thread of the desk runs it, and may wait for disks as
 * long as it has to; then the door is told and answers its client. Long work
 * (a recount of everything, an audit, the erasure of a user) is a task: it is
 * started, goes on by itself, and can be asked how far it is.
 *
 * The verbs below are called from a job's `run`, with the seat that it is given. They check what
 * they are asked about (check.h), as service_check() checks ops. A door checks it before it makes a
 * job, so that no more is kept of a request than what makes sense. */
#ifndef FLOW_DESK_H
#define FLOW_DESK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "base/number.h"
#include "base/slice.h"
#include "core/age.h"
#include "core/event.h"
#include "core/store.h"

struct aggregator;
struct desk;
struct pipeline_stats;
struct service;
struct desk_seat; /* a thread's own: its reader of the store, its buffers */
struct desk_job;

typedef void desk_run_fn(struct desk_job *job, struct desk_seat *seat);
typedef void desk_done_fn(struct desk_job *job);

/* The caller's memory; stays put until `done` was called. */
struct desk_job {
    desk_run_fn *run;
    desk_done_fn *done; /* right after it, on the same thread: wake up who waits, and return */
    void *arg;
    struct desk_job *next; /* the desk's own */
};

/* Any thread. False: too many jobs wait already (ERR_BUSY for the client). */
bool desk_submit(struct desk *desk, struct desk_job *job);

/* Any thread. Takes back a job that no thread has begun: it is the caller's again, and `done` is
 * not called. False: it has begun, or is over. */
bool desk_withdraw(struct desk *desk, struct desk_job *job);

/* --- proof, from the log --- */

struct desk_recount {
    struct number value;     /* as it is; all three are the caller's to free */
    struct number recount;   /* the sum of its events up to the same moment, and the base */
    struct number base;      /* of what was trimmed from the log */
    struct number discarded; /* given up by an operator; part of neither */
    uint64_t events;         /* read for it */
    bool agrees;

    /* With a log of many lanes: what else was looked at; all of it has to agree. */
    bool has_lanes;
    bool by_store; /* the log's beginning is gone: `recount` is what the store has, of the same
                    * events */
    int64_t log_begins_ms; /* with by_store: before this time events are gone; 0 = not known */
    bool has_hot;          /* the hot layer was asked; then `value` is its */
    struct number store;   /* the caller's to free */
    bool has_members;
    int64_t members; /* counted one by one in the store */
};
enum err desk_recount(struct desk_seat *seat, struct slice id, struct desk_recount *ret,
                      struct error *error);

/* Newest first. The cursor is opaque; 0 at first, 0 afterwards: no more. May come back
 * with fewer than `limit`, even none, and a cursor: it has looked through enough for once. */
typedef void desk_event_fn(void *arg, const struct event *event);
enum err desk_events(struct desk_seat *seat, struct slice id, uint64_t *cursor, uint32_t limit,
                     desk_event_fn *visit, void *arg, struct error *error);

/* ERR_OUT_OF_RANGE: the log does not reach back so far. */
enum err desk_value_at(struct desk_seat *seat, struct slice id, int64_t time_ms,
                       struct number *ret_value, struct error *error);

/* The value at a moment. */
struct desk_moment {
    int64_t time_ms;
    bool is_known;       /* the log reaches back so far */
    bool exists;         /* there was such a counter */
    struct number value; /* with `exists` */
};

/* The values at `count` moments, which are in order and zeroed but for their time; the log is read
 * once for all of them. A clock that was set back is not looked behind: a moment is over with the
 * first event that is later. The caller frees the values, also after an error. */
enum err desk_values_at(struct desk_seat *seat, struct slice id, struct desk_moment *moments,
                        size_t count, struct error *error);

/* --- all there is, hot and cold --- */

struct desk_entry {
    struct slice id;
    bool is_item;
    const struct number *value; /* a counter; NULL if it is damaged */
    const int64_t *counts;      /* an item, by kind, [0] being kind 1; NULL if it is damaged */
    uint32_t shards;
    int64_t written_ms; /* 0 = not known */
    bool is_hot;
    bool is_damaged; /* the store's row is not what was written there: it is counted anew */
    struct age age;
};
typedef void desk_entry_fn(void *arg, const struct desk_entry *entry);

/* Matches ids of counters and items with a glob (size 0 = all). Looks at about `limit`
 * entries. What is there all the time is visited, rarely twice. Adds to *age that of all that was
 * visited, and that some of the hot layer could not be asked for what it has. */
enum err desk_scan(struct desk_seat *seat, struct slice pattern, uint64_t *cursor, uint32_t limit,
                   desk_entry_fn *visit, void *arg, struct age *age, struct error *error);

typedef void desk_item_fn(void *arg, struct slice item, struct slice kind);
enum err desk_items_of(struct desk_seat *seat, struct slice user, uint64_t *cursor, uint32_t limit,
                       desk_item_fn *visit, void *arg, struct age *age, struct error *error);

/* --- the pipeline; as in core/store.h --- */

enum err desk_lives(struct desk_seat *seat, const struct store_life_filter *filter,
                    uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                    struct error *error);
enum err desk_letters(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                      store_letter_fn *visit, void *arg, struct error *error);
enum err desk_letter(struct desk_seat *seat, const unsigned char *event_id, store_letter_fn *visit,
                     void *arg, struct error *error);
enum err desk_redrive(struct desk_seat *seat, const unsigned char *event_id, uint64_t *ret_count,
                      struct error *error);
enum err desk_discard(struct desk_seat *seat, const unsigned char *event_id, uint64_t *ret_count,
                      struct error *error);
enum err desk_past(struct desk_seat *seat, struct slice item, struct slice user, uint64_t *cursor,
                   uint32_t limit, store_past_fn *visit, void *arg, struct age *age,
                   struct error *error);
enum err desk_audits(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                     store_audit_fn *visit, void *arg, struct error *error);

/* --- tasks; any thread --- */

enum desk_task_kind { DESK_RECOUNT, DESK_AUDIT, DESK_ERASE };
enum desk_task_state { DESK_RUNNING, DESK_DONE, DESK_FAILED };

#define DESK_FOUND_MAX 16u /* lines of what was found that a task keeps */

struct desk_task {
    uint64_t id;
    enum desk_task_kind kind;
    enum desk_task_state state;
    uint64_t done;    /* of `all`, in whatever `unit` says */
    uint64_t all;     /* 0 = not known yet */
    const char *unit; /* "counters", "bytes", "items" */
    int64_t started_ms;
    int64_t ended_ms;
    char text[256]; /* what came out, or why it failed */
    uint32_t found; /* drifts, of which the first are told */
    char lines[DESK_FOUND_MAX][320];
};

const char *desk_task_kind_name(enum desk_task_kind kind);    /* "recount" */
const char *desk_task_state_name(enum desk_task_state state); /* "running" */

/* ERR_BUSY: too many are running; and what check.h says. */
enum err desk_start_recount(struct desk *desk, struct slice pattern, uint64_t *ret_id,
                            struct error *error);
enum err desk_start_audit(struct desk *desk, struct slice pattern, bool repair, uint64_t *ret_id,
                          struct error *error);
enum err desk_start_erase(struct desk *desk, struct slice user, uint64_t *ret_id,
                          struct error *error);

/* Tasks are remembered for an hour. */
bool desk_task(struct desk *desk, uint64_t id, struct desk_task *ret_task);
size_t desk_tasks(struct desk *desk, struct desk_task *to, size_t room); /* newest first */

/* --- life; the server's side (flow/pipeline.h) --- */

struct desk_options {
    struct env *env; /* all borrowed */
    struct service *service;
    struct store *store;
    struct aggregator *aggregator;
    unsigned first_guest;      /* worker number of its first thread: PIPELINE_GUESTS of them */
    bool has_hot;              /* a node that only aggregates has none: it puts nothing right */
    bool (*audits)(void *arg); /* is the audit in the background ours to do now? NULL: always */
    void *audits_arg;
    struct suspects_queue *suspects; /* borrowed; may be NULL */
    uint64_t audit_every_ms;         /* in the background; 0 = never */
    uint64_t audit_batch;            /* ids at a time */
    void (*begin_thread)(void *arg); /* first thing on the tasks' thread; may be NULL */
    void *begin_arg;
};

struct desk *desk_new(const struct desk_options *options);
void desk_free(struct desk *desk);
enum err desk_start(struct desk *desk, struct error *error);

/* What waits is run before; a task that is under way is broken off and FAILED. */
void desk_stop(struct desk *desk);

/* Fills in its part. Any thread. */
void desk_stats(struct desk *desk, struct pipeline_stats *stats);

#endif
