/* desk.c - threads, jobs and tasks, and what is common to all verbs. The verbs are in
 * desk_verbs.c, the long work in proof_tasks.c and erase.c. */
#include "flow/desk.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/message.h"
#include "flow/check.h"
#include "flow/desk_own.h"
#include "flow/lookback.h"
#include "flow/pipeline.h"

#define JOBS_MAX          1024u
#define RUNNING_MAX       8u
#define REMEMBER_MS       (3600 * 1000)
#define TASKS_LOOK_MS     500u
#define COLD_WITHIN_NS    (30u * 1000000000ull)
#define CATCH_UP_NS       (10u * 1000000000ull)
#define FOLLOW_BYTES      ((uint64_t)4 << 20)
#define DURABLE_WITHIN_NS (5u * 1000000000ull)
#define MS_NS             1000000u

/* --- life --- */

struct desk *desk_new(const struct desk_options *options)
{
    assert(options && options->env && options->service && options->store && options->aggregator);

    struct desk *desk = memory_take_zeroed(sizeof(*desk));
    desk->options = *options;
    desk->hot = options->service->hot;
    desk->log = options->service->log;
    desk->kinds = options->service->kinds;
    desk->jobs_end = &desk->jobs;
    desk->audit_ids = options->audit_batch;
    desk->audit_ns = env_monotonic_ns(options->env) + options->audit_every_ms * MS_NS;
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_mutex_init(&desk->mending, NULL);
    pthread_cond_init(&desk->moved, NULL);
    lock_init(&desk->lock);
    for (unsigned i = 0; i < DESK_SEATS; i++) {
        struct desk_seat *seat = &desk->seats[i];
        seat->desk = desk;
        seat->worker = options->first_guest + i;
        bell_init(&seat->bell);
    }
    return desk;
}

void desk_free(struct desk *desk)
{
    if (!desk)
        return;
    while (desk->works) {
        struct desk_work *work = desk->works;
        desk->works = work->next;
        free(work);
    }
    for (unsigned i = 0; i < DESK_SEATS; i++) {
        assert(!desk->seats[i].runs);
        store_reader_close(desk->seats[i].reader);
        bell_done(&desk->seats[i].bell);
    }
    lock_done(&desk->lock);
    pthread_cond_destroy(&desk->moved);
    pthread_mutex_destroy(&desk->mutex);
    pthread_mutex_destroy(&desk->mending);
    free(desk);
}

void desk_stats(struct desk *desk, struct pipeline_stats *stats)
{
    assert(desk && stats);

    lock_take(&desk->lock);
    stats->audited = desk->audited;
    stats->drifts = desk->drifts;
    stats->repairs = desk->repairs;
    stats->audit_ended_ms = desk->audit_ended_ms;
    lock_release(&desk->lock);
}

/* --- jobs --- */

bool desk_submit(struct desk *desk, struct desk_job *job)
{
    assert(desk && job && job->run && job->done);

    pthread_mutex_lock(&desk->mutex);
    bool has_room = desk->job_count < JOBS_MAX && !atomic_load(&desk->stop);
    if (has_room) {
        job->next = NULL;
        *desk->jobs_end = job;
        desk->jobs_end = &job->next;
        desk->job_count++;
        pthread_cond_broadcast(&desk->moved);
    }
    pthread_mutex_unlock(&desk->mutex);
    return has_room;
}

bool desk_withdraw(struct desk *desk, struct desk_job *job)
{
    assert(desk && job);

    pthread_mutex_lock(&desk->mutex);
    struct desk_job **link = &desk->jobs;
    while (*link && *link != job)
        link = &(*link)->next;
    bool is_there = *link != NULL;
    if (is_there) {
        *link = job->next;
        if (desk->jobs_end == &job->next)
            desk->jobs_end = link;
        desk->job_count--;
    }
    pthread_mutex_unlock(&desk->mutex);
    return is_there;
}

/* The oldest job; waits for one. NULL: the desk ends, and none is left. */
static struct desk_job *take_job(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    while (!desk->jobs && !atomic_load(&desk->stop))
        pthread_cond_wait(&desk->moved, &desk->mutex);
    struct desk_job *job = desk->jobs;
    if (job) {
        desk->jobs = job->next;
        if (!desk->jobs)
            desk->jobs_end = &desk->jobs;
        desk->job_count--;
    }
    pthread_mutex_unlock(&desk->mutex);
    return job;
}

static void *run_jobs(void *arg)
{
    struct desk_seat *seat = arg;
    struct desk_job *job;
    while ((job = take_job(seat->desk))) {
        job->run(job, seat);
        job->done(job);
    }
    return NULL;
}

/* --- tasks --- */

const char *desk_task_kind_name(enum desk_task_kind kind)
{
    static const char *const names[] = {"recount", "audit", "erase"};
    return names[kind];
}

const char *desk_task_state_name(enum desk_task_state state)
{
    static const char *const names[] = {"running", "done", "failed"};
    return names[state];
}

/* Forgets tasks that ended long ago. With the mutex. */
static void forget_works(struct desk *desk)
{
    int64_t now_ms = env_wall_ms(desk->options.env);
    size_t count = 0;
    for (struct desk_work *work = desk->works; work; work = work->next)
        count++;
    for (struct desk_work **at = &desk->works; *at;) {
        struct desk_work *work = *at;
        bool is_old = work->task.state != DESK_RUNNING &&
                      (count > DESK_TASKS_MAX || now_ms - work->task.ended_ms > REMEMBER_MS);
        if (is_old) {
            *at = work->next;
            free(work);
            count--;
        } else {
            at = &work->next;
        }
    }
}

static enum err start_work(struct desk *desk, enum desk_task_kind kind, struct slice subject,
                           bool repair, uint64_t *ret_id, struct error *error)
{
    assert(desk && ret_id && subject.size <= sizeof(((struct desk_work *)0)->subject));

    pthread_mutex_lock(&desk->mutex);
    forget_works(desk);
    unsigned running = 0;
    struct desk_work **end = &desk->works;
    for (; *end; end = &(*end)->next)
        running += (*end)->task.state == DESK_RUNNING;
    uint64_t id = 0;
    if (running < RUNNING_MAX && !atomic_load(&desk->stop)) {
        struct desk_work *work = memory_take_zeroed(sizeof(*work));
        id = ++desk->last_task;
        work->task = (struct desk_task){.id = id,
                                        .kind = kind,
                                        .state = DESK_RUNNING,
                                        .unit = kind == DESK_ERASE ? "items" : "counters",
                                        .started_ms = env_wall_ms(desk->options.env)};
        work->subject_size = subject.size;
        if (subject.size > 0)
            memcpy(work->subject, subject.data, work->subject_size);
        work->repair = repair;
        *end = work;
    }
    pthread_mutex_unlock(&desk->mutex);
    if (id == 0)
        return error_set(error, ERR_BUSY, "too many tasks are running, try again");
    bell_ring(&desk->seats[DESK_JOB_THREADS].bell);
    *ret_id = id;
    return ERR_OK;
}

enum err desk_start_recount(struct desk *desk, struct slice pattern, uint64_t *ret_id,
                            struct error *error)
{
    enum err err = check_pattern(pattern, error);
    return err ? err : start_work(desk, DESK_RECOUNT, pattern, false, ret_id, error);
}

enum err desk_start_audit(struct desk *desk, struct slice pattern, bool repair, uint64_t *ret_id,
                          struct error *error)
{
    enum err err = check_pattern(pattern, error);
    return err ? err : start_work(desk, DESK_AUDIT, pattern, repair, ret_id, error);
}

enum err desk_start_erase(struct desk *desk, struct slice user, uint64_t *ret_id,
                          struct error *error)
{
    enum err err = check_user(user, error);
    return err ? err : start_work(desk, DESK_ERASE, user, false, ret_id, error);
}

bool desk_task(struct desk *desk, uint64_t id, struct desk_task *ret_task)
{
    assert(desk && ret_task);

    pthread_mutex_lock(&desk->mutex);
    const struct desk_work *work = desk->works;
    while (work && work->task.id != id)
        work = work->next;
    if (work)
        *ret_task = work->task;
    pthread_mutex_unlock(&desk->mutex);
    return work;
}

size_t desk_tasks(struct desk *desk, struct desk_task *to, size_t room)
{
    assert(desk && (to || room == 0));

    pthread_mutex_lock(&desk->mutex);
    size_t all = 0;
    for (const struct desk_work *work = desk->works; work; work = work->next)
        all++;
    size_t place = all;
    for (const struct desk_work *work = desk->works; work; work = work->next)
        if (--place < room)
            to[place] = work->task;
    pthread_mutex_unlock(&desk->mutex);
    return all < room ? all : room;
}

bool work_progress(struct desk_seat *seat, struct desk_work *work, uint64_t done, uint64_t all,
                   const char *unit)
{
    struct desk *desk = seat->desk;
    pthread_mutex_lock(&desk->mutex);
    work->task.done = done;
    work->task.all = all;
    work->task.unit = unit;
    pthread_mutex_unlock(&desk->mutex);
    return !seat_must_stop(seat);
}

void work_found(struct desk_seat *seat, struct desk_work *work, const char *line)
{
    struct desk *desk = seat->desk;
    pthread_mutex_lock(&desk->mutex);
    struct desk_task *task = &work->task;
    if (task->found < DESK_FOUND_MAX)
        (void)snprintf(task->lines[task->found], sizeof(task->lines[0]), "%s", line);
    task->found++;
    pthread_mutex_unlock(&desk->mutex);
}

void work_says(struct desk_seat *seat, struct desk_work *work, const char *format, ...)
{
    char text[sizeof(work->task.text)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* NOLINT(clang-analyzer-valist*) */
    va_end(args);
    pthread_mutex_lock(&seat->desk->mutex);
    memcpy(work->task.text, text, sizeof(text));
    pthread_mutex_unlock(&seat->desk->mutex);
}

static enum err do_work(struct desk_seat *seat, struct desk_work *work, struct error *error)
{
    switch (work->task.kind) {
    case DESK_RECOUNT:
        return proof_recount_all(seat, work, error);
    case DESK_AUDIT:
        return proof_audit_all(seat, work, error);
    case DESK_ERASE:
        return erase_user(seat, work, error);
    }
    return ERR_INVALID;
}

static void run_work(struct desk_seat *seat, struct desk_work *work)
{
    struct desk *desk = seat->desk;
    struct error error = {.text = ""};
    enum err err = do_work(seat, work, &error);
    pthread_mutex_lock(&desk->mutex);
    work->task.state = err ? DESK_FAILED : DESK_DONE;
    work->task.ended_ms = env_wall_ms(desk->options.env);
    if (err)
        (void)snprintf(work->task.text, sizeof(work->task.text), "%.250s",
                       error.text[0] ? error.text : err_meaning(err));
    struct desk_task task = work->task;
    pthread_mutex_unlock(&desk->mutex);

    char text[300];
    message_quote(text, sizeof(text), slice_of(task.text));
    if (err)
        message_warning("task failed id=%llu kind=%s text=%s", (unsigned long long)task.id,
                        desk_task_kind_name(task.kind), text);
    else
        message_info("task done id=%llu kind=%s text=%s", (unsigned long long)task.id,
                     desk_task_kind_name(task.kind), text);
}

/* The oldest task that nobody has begun; NULL: there is none. */
static struct desk_work *take_work(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    struct desk_work *work = desk->works;
    while (work && work->is_taken)
        work = work->next;
    if (work)
        work->is_taken = true;
    pthread_mutex_unlock(&desk->mutex);
    return work;
}

static bool is_audit_due(const struct desk *desk)
{
    const struct desk_options *options = &desk->options;
    return options->audit_every_ms > 0 && env_monotonic_ns(options->env) >= desk->audit_ns &&
           (!options->audits || options->audits(options->audits_arg));
}

static void *run_tasks(void *arg)
{
    struct desk_seat *seat = arg;
    struct desk *desk = seat->desk;
    if (desk->options.begin_thread)
        desk->options.begin_thread(desk->options.begin_arg);
    while (!atomic_load(&desk->stop)) {
        struct desk_work *work = take_work(desk);
        if (work)
            run_work(seat, work);
        else if (proof_deal_with_suspects(seat))
            continue;
        else if (is_audit_due(desk))
            proof_audit_some(seat);
        else
            (void)bell_wait(&seat->bell, TASKS_LOOK_MS);
    }
    return NULL;
}

enum err desk_start(struct desk *desk, struct error *error)
{
    assert(desk);

    for (unsigned i = 0; i < DESK_SEATS; i++) {
        struct desk_seat *seat = &desk->seats[i];
        bool is_job = i < DESK_JOB_THREADS;
        int errnum = pthread_create(&seat->thread, NULL, is_job ? run_jobs : run_tasks, seat);
        if (errnum != 0)
            return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the desk");
        seat->runs = true;
        (void)pthread_setname_np(seat->thread, is_job ? "desk" : "tasks");
    }
    return ERR_OK;
}

void desk_stop(struct desk *desk)
{
    assert(desk);

    pthread_mutex_lock(&desk->mutex);
    atomic_store(&desk->stop, true);
    pthread_cond_broadcast(&desk->moved);
    pthread_mutex_unlock(&desk->mutex);
    for (unsigned i = 0; i < DESK_SEATS; i++) {
        struct desk_seat *seat = &desk->seats[i];
        if (!seat->runs)
            continue;
        bell_ring(&seat->bell);
        (void)pthread_join(seat->thread, NULL);
        seat->runs = false;
    }
}

/* --- seats --- */

bool seat_must_stop(const struct desk_seat *seat)
{
    return atomic_load(&seat->desk->stop);
}

enum err seat_reader(struct desk_seat *seat, struct store_reader **ret, struct error *error)
{
    enum err err = ERR_OK;
    if (!seat->reader)
        err = store_reader_open(seat->desk->options.store, &seat->reader, error);
    *ret = seat->reader;
    return err;
}

static void batch_is_done(struct batch *batch)
{
    *(bool *)batch->arg = true;
}

static void run_batch(struct desk_seat *seat, struct op *ops, size_t count)
{
    bool is_done = false;
    struct batch batch = {
        .ops = ops, .count = count, .worker = seat->worker, .done = batch_is_done, .arg = &is_done};
    service_run(seat->desk->options.service, &batch);
    assert(is_done); /* the hot layer calls back before it returns */
    (void)is_done;
}

/* Runs the ops that are cold again, in their order, one by one: the others are done. */
static bool run_cold(struct desk_seat *seat, struct op *ops, size_t count)
{
    bool is_cold = false;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].code == ERR_COLD)
            run_batch(seat, &ops[i], 1);
        is_cold = is_cold || ops[i].code == ERR_COLD;
    }
    return is_cold;
}

enum err seat_run(struct desk_seat *seat, struct op *ops, size_t count, struct error *error)
{
    struct env *env = seat->desk->options.env;
    for (size_t i = 0; i < count; i += LIMIT_BATCH)
        run_batch(seat, ops + i, count - i < LIMIT_BATCH ? count - i : LIMIT_BATCH);
    bool is_cold = false;
    for (size_t i = 0; i < count; i++)
        is_cold = is_cold || ops[i].code == ERR_COLD;
    uint64_t until_ns = env_monotonic_ns(env) + COLD_WITHIN_NS;
    while (is_cold) {
        if (seat_must_stop(seat) || env_monotonic_ns(env) > until_ns)
            return error_set(error, ERR_TIMEOUT, "the store takes too long to load what is cold");
        (void)bell_wait(&seat->bell, 1);
        is_cold = run_cold(seat, ops, count);
    }
    for (size_t i = 0; i < count; i++)
        if (ops[i].sequence > seat->sequences[ops[i].cell])
            seat->sequences[ops[i].cell] = ops[i].sequence;
    return ERR_OK;
}

/* What is appended and not durable yet cannot be read; wait for it. Under load something is always
 * pending, but what was appended before a commit begins is part of it. */
static void wait_for_durable(struct desk_seat *seat)
{
    struct desk *desk = seat->desk;
    uint64_t until_ns = env_monotonic_ns(desk->options.env) + DURABLE_WITHIN_NS;
    struct log_stats stats;
    log_stats(desk->log, &stats);
    uint64_t groups = stats.groups + 2; /* one may be under way */
    while (stats.pending_bytes > 0 && stats.groups < groups &&
           env_monotonic_ns(desk->options.env) < until_ns) {
        (void)bell_wait(&seat->bell, 1);
        log_stats(desk->log, &stats);
    }
}

/* Others may carry some of the lanes: the mark is theirs, too, a second old at most. What we did
 * ourselves may be in an outbox still. */
static enum err catch_up_lanes(struct desk_seat *seat, uint64_t within_ns, struct error *error)
{
    struct desk *desk = seat->desk;
    struct log_position ends[LIMIT_CELLS];
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        ends[lane] = log_end(desk->log, lane);
    uint64_t until_ns = env_monotonic_ns(desk->options.env) + within_ns;
    for (;;) {
        struct state_mark mark;
        aggregator_mark(desk->options.aggregator, &mark);
        unsigned lane = 0;
        while (lane < LIMIT_CELLS && !log_position_is_before(mark.lanes[lane], ends[lane]) &&
               mark.sequences[lane] >= seat->sequences[lane])
            lane++;
        if (lane == LIMIT_CELLS)
            return ERR_OK;
        if (seat_must_stop(seat) || env_monotonic_ns(desk->options.env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE,
                             "the store is too far behind the log; try again later");
        aggregator_hurry_all(desk->options.aggregator);
        (void)bell_wait(&seat->bell, 50);
    }
}

enum err seat_catch_up_within(struct desk_seat *seat, uint64_t within_ns, struct error *error)
{
    struct desk *desk = seat->desk;
    if (desk_has_lanes(desk))
        return catch_up_lanes(seat, within_ns, error);
    wait_for_durable(seat);
    struct log_position end = log_end(desk->log, 0);
    uint64_t until_ns = env_monotonic_ns(desk->options.env) + within_ns;
    struct state_mark mark;
    for (;;) {
        aggregator_mark(desk->options.aggregator, &mark);
        if (!log_position_is_before(mark.position, end))
            return ERR_OK;
        if (!aggregator_hurry(desk->options.aggregator, end))
            return ERR_OK;
        if (seat_must_stop(seat) || env_monotonic_ns(desk->options.env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE,
                             "the store is too far behind the log; try again later");
        (void)bell_wait(&seat->bell, 5);
    }
}

enum err seat_catch_up(struct desk_seat *seat, struct error *error)
{
    return seat_catch_up_within(seat, CATCH_UP_NS, error);
}

/* --- the log --- */

struct follower {
    log_visit_fn *visit;
    void *arg;
    uint64_t seen[LIMIT_CELLS];
    uint64_t bytes;
    uint64_t segment; /* only this one; 0 = all */
    bool is_over;
};

static enum err follow_section(void *arg, struct slice section, struct log_position next,
                               struct error *error)
{
    struct follower *follower = arg;
    if (follower->segment > 0 && next.segment != follower->segment) {
        follower->is_over = true;
        return ERR_NOT_FOUND;
    }
    struct section_reader reader;
    if (!section_open(&reader, section, NULL) && reader.origin < LIMIT_CELLS && reader.left > 0 &&
        reader.first_sequence + reader.left - 1 > follower->seen[reader.origin])
        follower->seen[reader.origin] = reader.first_sequence + reader.left - 1;
    follower->bytes += section.size;
    return follower->visit(follower->arg, section, next, error);
}

static bool has_seen(const struct follower *follower, const uint64_t *until,
                     const struct state_mark *mark)
{
    for (unsigned i = 0; until && i < LIMIT_CELLS; i++)
        if (until[i] > follower->seen[i] && until[i] > mark->sequences[i])
            return false;
    return true;
}

static uint64_t bytes_of_log(struct log *log)
{
    struct log_stats stats;
    log_stats(log, &stats);
    return stats.disk_bytes;
}

enum err seat_read_log(struct desk_seat *seat, struct log_position from, const uint64_t *until,
                       log_visit_fn *visit, void *arg, log_reading_fn *reading, void *reading_arg,
                       struct error *error)
{
    struct desk *desk = seat->desk;
    if (desk_has_lanes(desk))
        return lookback_all(seat, until, visit, arg, error);
    struct env *env = desk->options.env;
    struct follower follower = {.visit = visit, .arg = arg};
    struct state_mark mark; /* what the store has is in front of the end */
    aggregator_mark(desk->options.aggregator, &mark);
    struct log_position end = log_end(desk->log, 0);
    struct log_position at = from;
    uint64_t all = bytes_of_log(desk->log);
    uint64_t until_ns = UINT64_MAX;
    while (log_position_is_before(at, end) || !has_seen(&follower, until, &mark)) {
        struct log_position before = at;
        enum err err =
            log_follow(desk->log, 0, &at, FOLLOW_BYTES, follow_section, &follower, error);
        if (err)
            return err;
        if (seat_must_stop(seat))
            return error_set(error, ERR_UNAVAILABLE, "the server is stopping");
        if (reading)
            reading(reading_arg, follower.bytes, all > follower.bytes ? all : follower.bytes);
        if (log_position_is_before(before, at))
            continue;
        if (has_seen(&follower, until, &mark))
            return ERR_OK; /* the end is in a segment of which nothing is there yet */
        uint64_t now_ns = env_monotonic_ns(env);
        if (until_ns == UINT64_MAX)
            until_ns = now_ns + DURABLE_WITHIN_NS;
        if (now_ns > until_ns)
            return error_set(error, ERR_TIMEOUT, "the last events do not become durable");
        (void)bell_wait(&seat->bell, 1);
    }
    return ERR_OK;
}

enum err seat_read_segment(struct desk_seat *seat, uint64_t number, log_visit_fn *visit, void *arg,
                           struct error *error)
{
    struct desk *desk = seat->desk;
    struct follower follower = {.visit = visit, .arg = arg, .segment = number};
    struct log_position at = {number, 0};
    while (at.segment == number) {
        struct log_position before = at;
        enum err err =
            log_follow(desk->log, 0, &at, FOLLOW_BYTES, follow_section, &follower, error);
        if (follower.is_over)
            return ERR_OK;
        if (err)
            return err;
        if (seat_must_stop(seat))
            return error_set(error, ERR_UNAVAILABLE, "the server is stopping");
        if (!log_position_is_before(before, at))
            break;
    }
    return ERR_OK;
}
