/* desk_own.h - what the files of the desk share: seats, tasks, and how to read the log. */
#ifndef FLOW_DESK_OWN_H
#define FLOW_DESK_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/bell.h"
#include "base/lock.h"
#include "flow/aggregator.h"
#include "flow/desk.h"
#include "flow/pace.h"
#include "flow/service.h"
#include "flow/sums.h"

#define DESK_JOB_THREADS 2u
#define DESK_SEATS       (DESK_JOB_THREADS + 1) /* the last is that of the tasks */
#define DESK_TASKS_MAX   64u                    /* remembered */

struct desk_seat {
    struct desk *desk;
    unsigned worker;                 /* its number as a guest of the hot layer */
    struct store_reader *reader;     /* owned; NULL = not open; seat_reader() */
    struct bell bell;                /* to sleep by */
    uint64_t sequences[LIMIT_CELLS]; /* of the last events that its ops have made, by cell of a hot
                                      * layer outside */
    pthread_t thread;
    bool runs;
};

/* A task, and what it was asked. */
struct desk_work {
    struct desk_task task;
    char subject[LIMIT_PATTERN_BYTES]; /* pattern or user */
    size_t subject_size;
    bool repair;
    bool is_taken;
    struct desk_work *next; /* newer */
};

struct desk {
    struct desk_options options;
    struct hot *hot;
    struct log *log;
    const struct kinds *kinds;
    struct desk_seat seats[DESK_SEATS];
    atomic_bool stop;

    pthread_mutex_t mending; /* held while counts are put right: see proof_begin_mending() */

    pthread_mutex_t mutex; /* guards jobs and works */
    pthread_cond_t moved;
    struct desk_job *jobs; /* oldest first */
    struct desk_job **jobs_end;
    size_t job_count;
    struct desk_work *works; /* oldest first */
    uint64_t last_task;

    uint64_t audit_ns;     /* when the next one in the background is due */
    uint64_t audit_cursor; /* where it goes on */
    uint64_t audit_ids;    /* at once, next time: pace.h */
    struct pace_outside audit_pace;
    uint64_t strays_ns; /* when rows that are missing are looked for next */

    struct lock lock; /* guards what follows; desk_count() */
    uint64_t audited;
    uint64_t drifts;
    uint64_t repairs;
    int64_t audit_ended_ms;
};

/* Adds to one of the desk's figures. */
static inline void desk_count(struct desk *desk, uint64_t *figure, uint64_t more)
{
    lock_take(&desk->lock);
    *figure += more;
    lock_release(&desk->lock);
}

/* The seat's reader of the store, opened when it is first needed. */
enum err seat_reader(struct desk_seat *seat, struct store_reader **ret, struct error *error);

/* Runs ops, and waits for what is cold. The ops' own errors stay in them. ERR_TIMEOUT when
 * something stays cold for too long. */
enum err seat_run(struct desk_seat *seat, struct op *ops, size_t count, struct error *error);

/* Waits until the store has all that is in the log now. ERR_UNAVAILABLE if it does not get there.
 */
enum err seat_catch_up(struct desk_seat *seat, struct error *error);
enum err seat_catch_up_within(struct desk_seat *seat, uint64_t within_ns, struct error *error);

/* What there is of a counter or item now, and what it is the sum of; brought into memory first,
 * since what waits in the store for a retry counts there. ERR_NOT_FOUND. */
enum err desk_inspect(struct desk_seat *seat, struct slice target, struct hot_inspection *ret,
                      struct error *error);

/* What an id is about. */
struct desk_subject {
    struct slice target; /* the counter, or the item of an "item/kind" */
    uint8_t kind;        /* of an "item/kind"; KIND_NONE otherwise */
};

static inline struct desk_subject seat_subject(const struct desk_seat *seat, struct slice id)
{
    struct desk_subject subject = {.target = id, .kind = KIND_NONE};
    kinds_split(seat->desk->kinds, id, &subject.target, &subject.kind);
    return subject;
}

/* Is the log one of many lanes, which others follow, too? It is read again by flow/lookback.h. */
static inline bool desk_has_lanes(const struct desk *desk)
{
    return desk->log->lanes > 1;
}

/* Is the desk ending? Long work looks now and then. */
bool seat_must_stop(const struct desk_seat *seat);

/* --- the log --- */

/* Visits the sections from `from` on up to where the log ends now, and behind, until everything
 * up to the sequences in `until` was seen (NULL: no such wait). `reading` may be NULL. A log of
 * many lanes is read from its beginning: ERR_OUT_OF_RANGE if that is gone. */
enum err seat_read_log(struct desk_seat *seat, struct log_position from, const uint64_t *until,
                       log_visit_fn *visit, void *arg, log_reading_fn *reading, void *reading_arg,
                       struct error *error);

/* Visits the sections of one segment. */
enum err seat_read_segment(struct desk_seat *seat, uint64_t number, log_visit_fn *visit, void *arg,
                           struct error *error);

/* --- tasks --- */

/* How far it is; false: break it off. */
bool work_progress(struct desk_seat *seat, struct desk_work *work, uint64_t done, uint64_t all,
                   const char *unit);
void work_found(struct desk_seat *seat, struct desk_work *work, const char *line);
void work_says(struct desk_seat *seat, struct desk_work *work, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* desk_scan() for the audit, which looks at what is damaged itself. */
enum err desk_scan_for_audit(struct desk_seat *seat, struct slice pattern, uint64_t *cursor,
                             uint32_t limit, desk_entry_fn *visit, void *arg, struct error *error);

/* The tasks themselves: proof_tasks.c and erase.c. */
enum err proof_recount_all(struct desk_seat *seat, struct desk_work *work, struct error *error);
enum err proof_audit_all(struct desk_seat *seat, struct desk_work *work, struct error *error);
enum err erase_user(struct desk_seat *seat, struct desk_work *work, struct error *error);

/* Rows that are not what was written there are counted anew. False: there are none. */
bool proof_deal_with_suspects(struct desk_seat *seat);

/* A piece of the audit in the background. */
void proof_audit_some(struct desk_seat *seat);

#endif
