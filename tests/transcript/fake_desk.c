#include "fake_desk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "flow/check.h"

#define JOBS_MAX 4u

struct desk {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    pthread_t thread;
    struct desk_job *first;
    unsigned waiting;
    bool stops;
    uint64_t tasks;
};

static void *sit(void *arg)
{
    struct desk *desk = arg;
    pthread_mutex_lock(&desk->mutex);
    while (!desk->stops) {
        struct desk_job *job = desk->first;
        if (!job) {
            pthread_cond_wait(&desk->moved, &desk->mutex);
            continue;
        }
        desk->first = job->next;
        desk->waiting--;
        pthread_mutex_unlock(&desk->mutex);
        usleep(200);
        job->run(job, NULL);
        job->done(job);
        pthread_mutex_lock(&desk->mutex);
    }
    pthread_mutex_unlock(&desk->mutex);
    return NULL;
}

struct desk *fake_desk_open(void)
{
    struct desk *desk = memory_take_zeroed(sizeof(*desk));
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_cond_init(&desk->moved, NULL);
    pthread_create(&desk->thread, NULL, sit, desk);
    return desk;
}

void fake_desk_close(struct desk *desk)
{
    if (!desk)
        return;
    pthread_mutex_lock(&desk->mutex);
    desk->stops = true;
    pthread_cond_signal(&desk->moved);
    pthread_mutex_unlock(&desk->mutex);
    pthread_join(desk->thread, NULL);
    pthread_mutex_destroy(&desk->mutex);
    pthread_cond_destroy(&desk->moved);
    free(desk);
}

bool desk_submit(struct desk *desk, struct desk_job *job)
{
    pthread_mutex_lock(&desk->mutex);
    bool fits = desk->waiting < JOBS_MAX;
    if (fits) {
        struct desk_job **link = &desk->first;
        while (*link)
            link = &(*link)->next;
        job->next = NULL;
        *link = job;
        desk->waiting++;
        pthread_cond_signal(&desk->moved);
    }
    pthread_mutex_unlock(&desk->mutex);
    return fits;
}

bool desk_withdraw(struct desk *desk, struct desk_job *job)
{
    (void)desk;
    (void)job;
    return false; /* they are run soon */
}

static enum err check(struct slice id, struct error *error)
{
    if (slice_equal(id, SLICE("none")))
        return error_set(error, ERR_NOT_FOUND, "no such counter");
    if (slice_equal(id, SLICE("down")))
        return error_set(error, ERR_UNAVAILABLE, "the store is locked");
    return ERR_OK;
}

/* ---- proof ---- */

enum err desk_recount(struct desk_seat *seat, struct slice id, struct desk_recount *ret,
                      struct error *error)
{
    (void)seat;
    enum err err = check(id, error);
    if (err)
        return err;
    *ret = (struct desk_recount){
        .value = number_of(7),
        .recount = number_of(slice_equal(id, SLICE("wrong")) ? 5 : 7),
        .base = number_of(2),
        .events = 3,
    };
    if (slice_equal(id, SLICE("big"))) {
        number_parse(SLICE("123456789012345678901234567890"), &ret->value);
        number_parse(SLICE("123456789012345678901234567890"), &ret->recount);
    }
    return ERR_OK;
}

enum err desk_events(struct desk_seat *seat, struct slice id, uint64_t *cursor, uint32_t limit,
                     desk_event_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)limit;
    enum err err = check(id, error);
    if (err)
        return err;
    struct event react = {
        .type = EVENT_REACT,
        .id = SLICE("video1"),
        .user = SLICE("ann"),
        .before = SLICE("dislike"),
        .after = SLICE("like"),
        .key = SLICE("k1"),
        .region = SLICE("eu"),
        .origin = 5,
        .sequence = 12,
        .time_ms = 1700000000123,
    };
    struct event add = {
        .type = EVENT_ADD,
        .id = id,
        .amount = number_of(-3),
        .origin = 4,
        .sequence = 9,
        .time_ms = 1700000000000,
    };
    if (*cursor == 0) {
        visit(arg, &react);
        react.erased = true;
        react.user = (struct slice){NULL, 0};
        react.key = SLICE("~~");
        visit(arg, &react);
        *cursor = 77;
    } else {
        visit(arg, &add);
        *cursor = 0;
    }
    return ERR_OK;
}

enum err desk_value_at(struct desk_seat *seat, struct slice id, int64_t time_ms,
                       struct number *ret_value, struct error *error)
{
    (void)seat;
    if (time_ms < 1000)
        return error_set(error, ERR_OUT_OF_RANGE, "the log does not reach back so far");
    enum err err = check(id, error);
    if (!err)
        *ret_value = number_of(42);
    return err;
}

enum err desk_values_at(struct desk_seat *seat, struct slice id, struct desk_moment *moments,
                        size_t count, struct error *error)
{
    (void)seat;
    enum err err = check(id, error);
    for (size_t i = 0; !err && i < count; i++) {
        moments[i].is_known = moments[i].time_ms >= 1000;
        moments[i].exists = moments[i].time_ms >= 2000;
        moments[i].value = number_of(42);
    }
    return err;
}

/* ---- all there is ---- */

enum err desk_scan(struct desk_seat *seat, struct slice pattern, uint64_t *cursor, uint32_t limit,
                   desk_entry_fn *visit, void *arg, struct age *age, struct error *error)
{
    (void)seat;
    (void)age;
    (void)pattern;
    (void)limit;
    (void)error;
    struct number value = number_of(1);
    const int64_t counts[LIMIT_KINDS] = {3, 0};
    if (*cursor == 0) {
        visit(arg, &(struct desk_entry){.id = SLICE("views"), .value = &value});
        *cursor = 9000000000;
    } else {
        visit(arg, &(struct desk_entry){.id = SLICE("video1"), .is_item = true, .counts = counts});
        *cursor = 0;
    }
    return ERR_OK;
}

enum err desk_items_of(struct desk_seat *seat, struct slice user, uint64_t *cursor, uint32_t limit,
                       desk_item_fn *visit, void *arg, struct age *age, struct error *error)
{
    (void)seat;
    (void)age;
    (void)limit;
    enum err err = check(user, error);
    if (err)
        return err;
    visit(arg, SLICE("video1"), SLICE("like"));
    visit(arg, SLICE("video2"), SLICE("dislike"));
    *cursor = 0;
    return ERR_OK;
}

/* ---- the pipeline ---- */

static const unsigned char event_id[16] = {0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 0x70, 0x00,
                                           0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2a};

enum err desk_lives(struct desk_seat *seat, const struct store_life_filter *filter,
                    uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                    struct error *error)
{
    (void)seat;
    (void)limit;
    enum err err = check(filter->id, error);
    if (err)
        return err;
    struct store_life life = {
        .id = filter->id.size > 0 ? filter->id : SLICE("views"),
        .delta = SLICE("5"),
        .state = filter->has_state ? filter->state : LIFECYCLE_SUCCESS,
        .events = 2,
        .created_ms = filter->since_ms,
        .processed_ms = filter->until_ms,
        .next_ms = (int64_t)*cursor,
    };
    memcpy(life.event_id, event_id, sizeof(event_id));
    visit(arg, &life);
    *cursor = 0;
    return ERR_OK;
}

static struct store_letter letter(void)
{
    struct store_letter letter = {
        .id = SLICE("views"),
        .delta = SLICE("5"),
        .reason = SLICE("a constraint"),
        .raw = SLICE("\1\2\3"),
        .retry_count = 5,
        .created_ms = 10,
        .failed_ms = 20,
    };
    memcpy(letter.event_id, event_id, sizeof(event_id));
    return letter;
}

enum err desk_letters(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                      store_letter_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)limit;
    (void)error;
    struct store_letter one = letter();
    visit(arg, &one);
    *cursor = 0;
    return ERR_OK;
}

static bool is_there(const unsigned char *id)
{
    return !id || memcmp(id, event_id, sizeof(event_id)) == 0;
}

enum err desk_letter(struct desk_seat *seat, const unsigned char *id, store_letter_fn *visit,
                     void *arg, struct error *error)
{
    (void)seat;
    if (!is_there(id))
        return error_set(error, ERR_NOT_FOUND, "not there");
    struct store_letter one = letter();
    visit(arg, &one);
    return ERR_OK;
}

enum err desk_redrive(struct desk_seat *seat, const unsigned char *id, uint64_t *ret_count,
                      struct error *error)
{
    (void)seat;
    if (!is_there(id))
        return error_set(error, ERR_NOT_FOUND, "not there");
    *ret_count = id ? 1 : 2;
    return ERR_OK;
}

enum err desk_discard(struct desk_seat *seat, const unsigned char *id, uint64_t *ret_count,
                      struct error *error)
{
    return desk_redrive(seat, id, ret_count, error);
}

enum err desk_past(struct desk_seat *seat, struct slice item, struct slice user, uint64_t *cursor,
                   uint32_t limit, store_past_fn *visit, void *arg, struct age *age,
                   struct error *error)
{
    (void)seat;
    (void)limit;
    (void)age;
    (void)error;
    struct store_past past = {
        .item = item,
        .user = user.size > 0 ? user : SLICE("ann"),
        .kind = SLICE("like"),
        .time_ms = 5,
    };
    visit(arg, &past);
    past.kind.size = 0;
    past.time_ms = 4;
    visit(arg, &past);
    *cursor = 0;
    return ERR_OK;
}

enum err desk_audits(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                     store_audit_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)limit;
    (void)error;
    visit(arg, &(struct store_audit){
                   .time_ms = 6,
                   .what = SLICE("drift"),
                   .id = SLICE("views"),
                   .text = SLICE("hot 5, log 4"),
               });
    *cursor = 0;
    return ERR_OK;
}

/* ---- tasks ---- */

const char *desk_task_kind_name(enum desk_task_kind kind)
{
    return kind == DESK_AUDIT ? "audit" : kind == DESK_ERASE ? "erase" : "recount";
}

const char *desk_task_state_name(enum desk_task_state state)
{
    return state == DESK_DONE ? "done" : state == DESK_FAILED ? "failed" : "running";
}

enum err desk_start_recount(struct desk *desk, struct slice pattern, uint64_t *ret_id,
                            struct error *error)
{
    if (slice_equal(pattern, SLICE("busy")))
        return error_set(error, ERR_BUSY, "too many tasks are running, try again");
    *ret_id = ++desk->tasks;
    return ERR_OK;
}

enum err desk_start_audit(struct desk *desk, struct slice pattern, bool repair, uint64_t *ret_id,
                          struct error *error)
{
    *ret_id = 1000;
    return repair ? desk_start_recount(desk, pattern, ret_id, error) : ERR_OK;
}

enum err desk_start_erase(struct desk *desk, struct slice user, uint64_t *ret_id,
                          struct error *error)
{
    enum err err = check_user(user, error);
    return err ? err : desk_start_recount(desk, user, ret_id, error);
}

bool desk_task(struct desk *desk, uint64_t id, struct desk_task *ret_task)
{
    if (id == 0 || id > desk->tasks)
        return false;
    *ret_task = (struct desk_task){
        .id = id,
        .kind = DESK_RECOUNT,
        .state = DESK_DONE,
        .done = 3,
        .all = 3,
        .unit = "counters",
        .started_ms = 1,
        .ended_ms = 2,
        .found = 1,
    };
    snprintf(ret_task->text, sizeof(ret_task->text), "3 counters, 1 drift");
    snprintf(ret_task->lines[0], sizeof(ret_task->lines[0]), "views: 5, not 4");
    return true;
}

size_t desk_tasks(struct desk *desk, struct desk_task *to, size_t room)
{
    size_t count = 0;
    for (uint64_t id = desk->tasks; id > 0 && count < room; id--)
        desk_task(desk, id, &to[count++]);
    return count;
}
