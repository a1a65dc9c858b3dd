/* threads */
#include "flow/desk.h"

#include "base/decimal.h"
#include "flow/desk_own.h"
#include "unit/flow/pipe_rig.h"

/* --- jobs and tasks --- */

static void note_run(struct desk_seat *seat, void *arg)
{
    assert_non_null(seat);
    *(bool *)arg = true;
}

TEST(a_job_is_run_and_its_end_is_told)
{
    struct pipe *pipe = pipe_new();
    bool has_run = false;
    pipe_at_desk(pipe, note_run, &has_run);
    assert_true(has_run);
    pipe_free(pipe);
}

static void hold_on(struct desk_job *job, struct desk_seat *seat)
{
    (void)seat;
    if (job->arg)
        (void)bell_wait(job->arg, UINT64_MAX);
}

static void forget(struct desk_job *job)
{
    (void)job;
}

TEST(a_desk_with_too_much_to_do_says_so)
{
    enum { MANY = 4000 };
    struct pipe *pipe = pipe_new();
    struct bell bells[2];
    struct desk_job holds[2];
    for (unsigned i = 0; i < 2; i++) {
        bell_init(&bells[i]);
        holds[i] = (struct desk_job){.run = hold_on, .done = forget, .arg = &bells[i]};
        assert_true(desk_submit(pipe->service.desk, &holds[i]));
    }
    static struct desk_job jobs[MANY];
    unsigned taken = 0;
    for (unsigned i = 0; i < MANY; i++) {
        jobs[i] = (struct desk_job){.run = hold_on, .done = forget};
        taken += desk_submit(pipe->service.desk, &jobs[i]);
    }
    assert_true(taken > 100 && taken < MANY);
    bell_ring(&bells[0]);
    bell_ring(&bells[1]);
    pipe_free(pipe); /* what waits is run before */
    bell_done(&bells[0]);
    bell_done(&bells[1]);
}

static void note_done(struct desk_job *job)
{
    *(bool *)job->arg = true;
}

static void do_nothing(struct desk_job *job, struct desk_seat *seat)
{
    (void)job;
    (void)seat;
}

TEST(a_job_that_has_not_begun_can_be_taken_back)
{
    enum { MANY = 5 };
    struct pipe *pipe = pipe_new();
    struct bell bells[2];
    struct desk_job holds[2];
    for (unsigned i = 0; i < 2; i++) {
        bell_init(&bells[i]);
        holds[i] = (struct desk_job){.run = hold_on, .done = forget, .arg = &bells[i]};
        assert_true(desk_submit(pipe->service.desk, &holds[i]));
    }
    static struct desk_job jobs[MANY];
    static bool done[MANY];
    memset(done, 0, sizeof(done));
    for (unsigned i = 0; i < MANY; i++) {
        jobs[i] = (struct desk_job){.run = do_nothing, .done = note_done, .arg = &done[i]};
        assert_true(desk_submit(pipe->service.desk, &jobs[i]));
    }
    assert_true(desk_withdraw(pipe->service.desk, &jobs[4])); /* the last, */
    assert_true(desk_withdraw(pipe->service.desk, &jobs[2]));
    assert_false(desk_withdraw(pipe->service.desk, &jobs[2]));
    assert_true(desk_submit(pipe->service.desk, &jobs[4])); /* so that the next comes behind 3 */
    bell_ring(&bells[0]);
    bell_ring(&bells[1]);
    pipe_free(pipe); /* what waits is run before */
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(done[i], i != 2);
    bell_done(&bells[0]);
    bell_done(&bells[1]);
}

TEST(tasks_are_remembered_newest_first)
{
    struct pipe *pipe = pipe_new();
    pipe_add(pipe, "views", 1);
    struct desk_task first = pipe_task(pipe, pipe_start_recount(pipe, SLICE("*")));
    struct desk_task second = pipe_task(pipe, pipe_start_audit(pipe, SLICE("v*"), false));
    assert_int_equal(first.state, DESK_DONE);
    assert_int_equal(first.done, 1);
    assert_int_equal(second.state, DESK_DONE);
    struct desk_task tasks[4];
    assert_int_equal(desk_tasks(pipe->service.desk, tasks, 4), 2);
    assert_int_equal(tasks[0].id, second.id);
    assert_int_equal(tasks[1].id, first.id);
    assert_int_equal(desk_tasks(pipe->service.desk, tasks, 1), 1);
    assert_int_equal(tasks[0].id, second.id);
    assert_false(desk_task(pipe->service.desk, 77, tasks));
    assert_string_equal(desk_task_kind_name(first.kind), "recount");
    assert_string_equal(desk_task_state_name(first.state), "done");
    pipe_free(pipe);
}

/* --- proof --- */

struct recount {
    struct slice id;
    enum err err;
    struct desk_recount got;
};

static void ask_recount(struct desk_seat *seat, void *arg)
{
    struct recount *recount = arg;
    struct error error;
    recount->err = desk_recount(seat, recount->id, &recount->got, &error);
}

static void assert_recount(struct pipe *pipe, const char *id, int64_t value, uint64_t events)
{
    struct recount recount = {.id = slice_of(id)};
    pipe_at_desk(pipe, ask_recount, &recount);
    assert_int_equal(recount.err, ERR_OK);
    assert_int_equal(recount.got.value.small, value);
    assert_int_equal(recount.got.recount.small, value);
    assert_int_equal(recount.got.events, events);
    assert_true(recount.got.agrees);
}

TEST(a_recount_is_the_value_hot_or_cold)
{
    struct pipe *pipe = pipe_new();
    pipe_add(pipe, "views", 5);
    pipe_add(pipe, "views", -7);
    pipe_react(pipe, "video1", "ann", 1);
    pipe_react(pipe, "video1", "bob", 1);
    pipe_react(pipe, "video1", "ann", 2);
    assert_recount(pipe, "views", -2, 2);
    assert_recount(pipe, "video1/like", 1, 3);
    pipe_reopen(pipe); /* all is cold now */
    assert_int_equal(pipe->recovery.events, 0);
    assert_recount(pipe, "views", -2, 2);
    assert_recount(pipe, "video1/dislike", 1, 3);

    struct recount none = {.id = SLICE("nothing")};
    pipe_at_desk(pipe, ask_recount, &none);
    assert_int_equal(none.err, ERR_NOT_FOUND);
    struct recount item = {.id = SLICE("video1")};
    pipe_at_desk(pipe, ask_recount, &item);
    assert_int_equal(item.err, ERR_WRONG_TYPE);
    pipe_free(pipe);
}

/* --- events --- */

struct paging {
    struct slice id;
    uint32_t limit;
    uint64_t cursor;
    int64_t deltas[64];
    size_t count;
    unsigned calls;
    enum err err;
};

static void note_event(void *arg, const struct event *event)
{
    struct paging *paging = arg;
    assert_true(paging->count < 64);
    paging->deltas[paging->count++] = event->amount.small;
}

static void ask_events(struct desk_seat *seat, void *arg)
{
    struct paging *paging = arg;
    struct error error;
    do {
        paging->err = desk_events(seat, paging->id, &paging->cursor, paging->limit, note_event,
                                  paging, &error);
        paging->calls++;
    } while (!paging->err && paging->cursor != 0);
}

TEST(events_come_newest_first_over_segments_and_pages)
{
    struct pipe *pipe = pipe_new();
    struct error error = {.text = ""};
    for (int i = 1; i <= 30; i++) {
        pipe_add(pipe, "views", i);
        pipe_add(pipe, "others", 1000);
        if (i % 7 == 0)
            assert_int_equal(log_rotate(pipe->log, &error), ERR_OK);
    }
    pipe_settle(pipe);
    for (uint32_t limit = 1; limit <= 40; limit += 3) {
        struct paging paging = {.id = SLICE("views"), .limit = limit};
        pipe_at_desk(pipe, ask_events, &paging);
        assert_int_equal(paging.err, ERR_OK);
        assert_int_equal(paging.count, 30);
        for (int i = 0; i < 30; i++)
            assert_int_equal(paging.deltas[i], 30 - i);
    }
    struct paging none = {.id = SLICE("nothing"), .limit = 10};
    pipe_at_desk(pipe, ask_events, &none);
    assert_int_equal(none.count, 0);
    pipe_free(pipe);
}

struct past {
    struct slice id;
    int64_t time_ms;
    enum err err;
    struct number value;
};

static void ask_value_at(struct desk_seat *seat, void *arg)
{
    struct past *past = arg;
    struct error error;
    past->err = desk_value_at(seat, past->id, past->time_ms, &past->value, &error);
}

TEST(a_value_at_a_time_is_the_sum_until_then)
{
    struct pipe *pipe = pipe_new();
    int64_t times[5];
    for (int i = 0; i < 5; i++) {
        pipe_add(pipe, "views", 10);
        times[i] = env_wall_ms(env_system());
        while (env_wall_ms(env_system()) < times[i] + 2)
            pipe_nap();
    }
    pipe_settle(pipe);
    for (int i = 0; i < 5; i++) {
        struct past past = {.id = SLICE("views"), .time_ms = times[i]};
        pipe_at_desk(pipe, ask_value_at, &past);
        assert_int_equal(past.err, ERR_OK);
        assert_int_equal(past.value.small, 10 * (i + 1));
    }
    struct past before = {.id = SLICE("views"), .time_ms = times[0] - 60000};
    pipe_at_desk(pipe, ask_value_at, &before);
    assert_int_equal(before.err, ERR_NOT_FOUND);
    pipe_free(pipe);
}

struct moments {
    struct slice id;
    struct desk_moment moments[7];
    enum err err;
};

static void ask_values_at(struct desk_seat *seat, void *arg)
{
    struct moments *asked = arg;
    struct error error;
    asked->err = desk_values_at(seat, asked->id, asked->moments, 7, &error);
}

/* Waits until the clock has moved on. */
static int64_t next_moment(void)
{
    int64_t now = env_wall_ms(env_system());
    while (env_wall_ms(env_system()) < now + 2)
        pipe_nap();
    return now;
}

TEST(values_at_many_times_are_found_in_one_pass)
{
    struct pipe *pipe = pipe_new();
    struct moments asked = {.id = SLICE("views")};
    asked.moments[0].time_ms = env_wall_ms(env_system()) - 60000;
    for (int i = 1; i < 6; i++) {
        pipe_add(pipe, "views", 10);
        asked.moments[i].time_ms = next_moment();
    }
    asked.moments[6].time_ms = asked.moments[5].time_ms + 3600000;
    pipe_settle(pipe);
    pipe_at_desk(pipe, ask_values_at, &asked);
    assert_int_equal(asked.err, ERR_OK);
    for (int i = 0; i < 7; i++) {
        assert_true(asked.moments[i].is_known);
        assert_int_equal(asked.moments[i].exists, i > 0);
        assert_int_equal(asked.moments[i].value.small, i == 6 ? 50 : 10 * i);
        number_done(&asked.moments[i].value);
    }
    pipe_free(pipe);
}

/* --- what makes no sense --- */

/* One question, about an id, a user or a pattern, and at a time, whatever it needs of these. */
typedef enum err ask_fn(struct desk_seat *seat, struct slice name, int64_t time_ms,
                        struct error *error);

static void ignore_event(void *arg, const struct event *event)
{
    (void)arg;
    (void)event;
}

static void ignore_life(void *arg, const struct store_life *life)
{
    (void)arg;
    (void)life;
}

static void ignore_past(void *arg, const struct store_past *past)
{
    (void)arg;
    (void)past;
}

static void ignore_entry(void *arg, const struct desk_entry *entry)
{
    (void)arg;
    (void)entry;
}

static void ignore_item(void *arg, struct slice item, struct slice kind)
{
    (void)arg;
    (void)item;
    (void)kind;
}

static enum err recount_it(struct desk_seat *seat, struct slice name, int64_t time_ms,
                           struct error *error)
{
    struct desk_recount recount;
    (void)time_ms;
    return desk_recount(seat, name, &recount, error);
}

static enum err its_events(struct desk_seat *seat, struct slice name, int64_t time_ms,
                           struct error *error)
{
    uint64_t cursor = 0;
    (void)time_ms;
    return desk_events(seat, name, &cursor, 10, ignore_event, NULL, error);
}

static enum err its_value_at(struct desk_seat *seat, struct slice name, int64_t time_ms,
                             struct error *error)
{
    struct number value = number_of(0);
    enum err err = desk_value_at(seat, name, time_ms, &value, error);
    number_done(&value);
    return err;
}

static enum err its_values_at(struct desk_seat *seat, struct slice name, int64_t time_ms,
                              struct error *error)
{
    struct desk_moment moments[2] = {{.time_ms = 0}, {.time_ms = time_ms}};
    enum err err = desk_values_at(seat, name, moments, 2, error);
    for (int i = 0; i < 2; i++)
        number_done(&moments[i].value);
    return err;
}

static enum err its_past(struct desk_seat *seat, struct slice name, int64_t time_ms,
                         struct error *error)
{
    uint64_t cursor = 0;
    (void)time_ms;
    struct age age = {0};
    return desk_past(seat, name, SLICE("ann"), &cursor, 10, ignore_past, NULL, &age, error);
}

static enum err past_of_user(struct desk_seat *seat, struct slice name, int64_t time_ms,
                             struct error *error)
{
    uint64_t cursor = 0;
    (void)time_ms;
    struct age age = {0};
    return desk_past(seat, SLICE("video1"), name, &cursor, 10, ignore_past, NULL, &age, error);
}

static enum err items_of_user(struct desk_seat *seat, struct slice name, int64_t time_ms,
                              struct error *error)
{
    uint64_t cursor = 0;
    (void)time_ms;
    struct age age = {0};
    return desk_items_of(seat, name, &cursor, 10, ignore_item, NULL, &age, error);
}

static enum err scan_for(struct desk_seat *seat, struct slice name, int64_t time_ms,
                         struct error *error)
{
    uint64_t cursor = 0;
    (void)time_ms;
    struct age age = {0};
    return desk_scan(seat, name, &cursor, 10, ignore_entry, NULL, &age, error);
}

static enum err lives_between(struct desk_seat *seat, struct slice name, int64_t time_ms,
                              struct error *error)
{
    uint64_t cursor = 0;
    struct store_life_filter filter = {.id = name, .since_ms = time_ms, .until_ms = time_ms};
    return desk_lives(seat, &filter, &cursor, 10, ignore_life, NULL, error);
}

static enum err start_recount(struct desk_seat *seat, struct slice name, int64_t time_ms,
                              struct error *error)
{
    uint64_t id;
    (void)time_ms;
    return desk_start_recount(seat->desk, name, &id, error);
}

static enum err start_audit(struct desk_seat *seat, struct slice name, int64_t time_ms,
                            struct error *error)
{
    uint64_t id;
    (void)time_ms;
    return desk_start_audit(seat->desk, name, true, &id, error);
}

static enum err start_erase(struct desk_seat *seat, struct slice name, int64_t time_ms,
                            struct error *error)
{
    uint64_t id;
    (void)time_ms;
    return desk_start_erase(seat->desk, name, &id, error);
}

struct nonsense {
    ask_fn *ask;
    struct slice name;
    int64_t time_ms;
    enum err expected;
    const char *text; /* a part of it */
};

struct asked {
    const struct nonsense *what;
    enum err err;
    struct error error;
};

static void ask_nonsense(struct desk_seat *seat, void *arg)
{
    struct asked *asked = arg;
    const struct nonsense *what = asked->what;
    asked->err = what->ask(seat, what->name, what->time_ms, &asked->error);
}

TEST(a_question_that_makes_no_sense_is_refused_with_a_text)
{
    char long_name[LIMIT_PATTERN_BYTES + 1];
    memset(long_name, 'x', sizeof(long_name));
    struct slice long_id = {long_name, LIMIT_ID_BYTES + 1};
    struct slice long_user = {long_name, LIMIT_USER_BYTES + 1};
    struct slice long_pattern = {long_name, sizeof(long_name)};
    const struct nonsense all[] = {
        {recount_it, SLICE(""), 0, ERR_INVALID, "the id is empty"},
        {recount_it, long_id, 0, ERR_TOO_LARGE, "an id of 257 bytes"},
        {its_events, SLICE(""), 0, ERR_INVALID, "the id is empty"},
        {its_events, long_id, 0, ERR_TOO_LARGE, "an id of 257 bytes"},
        {its_value_at, SLICE(""), 1, ERR_INVALID, "the id is empty"},
        {its_value_at, long_id, 1, ERR_TOO_LARGE, "an id of 257 bytes"},
        {its_value_at, SLICE("a"), INT64_MAX, ERR_INVALID, "a time is 0 to 253402300799999"},
        {its_values_at, SLICE(""), 1, ERR_INVALID, "the id is empty"},
        {its_values_at, long_id, 1, ERR_TOO_LARGE, "an id of 257 bytes"},
        {its_values_at, SLICE("a"), INT64_MAX, ERR_INVALID, "a time is 0 to 253402300799999"},
        {its_values_at, SLICE("a"), -1, ERR_INVALID, "a time is 0 to"},
        {its_value_at, SLICE("a"), LIMIT_TIME_MS + 1, ERR_INVALID, "a time is 0 to"},
        {its_value_at, SLICE("a"), -1, ERR_INVALID, "a time is 0 to"},
        {its_value_at, SLICE("a"), INT64_MIN, ERR_INVALID, "a time is 0 to"},
        {its_past, SLICE(""), 0, ERR_INVALID, "the id is empty"},
        {its_past, long_id, 0, ERR_TOO_LARGE, "an id of 257 bytes"},
        {past_of_user, long_user, 0, ERR_TOO_LARGE, "a user of 129 bytes"},
        {items_of_user, SLICE(""), 0, ERR_INVALID, "the user is empty"},
        {items_of_user, long_user, 0, ERR_TOO_LARGE, "a user of 129 bytes"},
        {scan_for, long_pattern, 0, ERR_TOO_LARGE, "a pattern of 579 bytes"},
        {lives_between, long_id, 0, ERR_TOO_LARGE, "an id of 257 bytes"},
        {lives_between, SLICE("a"), INT64_MAX, ERR_INVALID, "a time is 0 to"},
        {lives_between, SLICE("a"), -1, ERR_INVALID, "a time is 0 to"},
        {start_recount, long_pattern, 0, ERR_TOO_LARGE, "a pattern of 579 bytes"},
        {start_audit, long_pattern, 0, ERR_TOO_LARGE, "a pattern of 579 bytes"},
        {start_erase, SLICE(""), 0, ERR_INVALID, "the user is empty"},
        {start_erase, long_user, 0, ERR_TOO_LARGE, "a user of 129 bytes"},
    };
    struct pipe *pipe = pipe_new();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct asked asked = {.what = &all[i]};
        pipe_at_desk(pipe, ask_nonsense, &asked);
        assert_int_equal(asked.err, all[i].expected);
        assert_non_null(strstr(asked.error.text, all[i].text));
    }
    pipe_free(pipe);
}

TEST(at_its_limits_a_question_is_answered)
{
    char name[LIMIT_PATTERN_BYTES];
    memset(name, 'x', sizeof(name));
    memcpy(name + LIMIT_ID_BYTES, "/like", 5);
    const struct nonsense all[] = {
        {recount_it, {name, LIMIT_ID_BYTES + 5}, 0, ERR_NOT_FOUND, ""},
        {its_events, {name, LIMIT_ID_BYTES + 5}, 0, ERR_OK, ""},
        {its_value_at, {name, LIMIT_ID_BYTES}, 0, ERR_NOT_FOUND, ""},
        {its_value_at, {name, LIMIT_ID_BYTES}, LIMIT_TIME_MS, ERR_NOT_FOUND, ""},
        {its_value_at, SLICE("views"), LIMIT_TIME_MS, ERR_OK, ""},
        {its_values_at, {name, LIMIT_ID_BYTES}, LIMIT_TIME_MS, ERR_OK, ""},
        {its_values_at, SLICE("views"), LIMIT_TIME_MS, ERR_OK, ""},
        {its_past, {name, LIMIT_ID_BYTES}, 0, ERR_OK, ""},
        {past_of_user, {name, LIMIT_USER_BYTES}, 0, ERR_OK, ""},
        {past_of_user, SLICE(""), 0, ERR_OK, ""},
        {items_of_user, {name, LIMIT_USER_BYTES}, 0, ERR_OK, ""},
        {scan_for, {name, sizeof(name)}, 0, ERR_OK, ""},
        {lives_between, SLICE(""), LIMIT_TIME_MS, ERR_OK, ""},
    };
    struct pipe *pipe = pipe_new();
    pipe_add(pipe, "views", 5);
    pipe_settle(pipe);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct asked asked = {.what = &all[i]};
        pipe_at_desk(pipe, ask_nonsense, &asked);
        assert_int_equal(asked.err, all[i].expected);
    }
    pipe_free(pipe);
}

TEST(at_the_last_moment_there_is_a_counter_has_its_value)
{
    struct pipe *pipe = pipe_new();
    pipe_add(pipe, "views", 5);
    pipe_settle(pipe);
    struct past past = {.id = SLICE("views"), .time_ms = LIMIT_TIME_MS};
    pipe_at_desk(pipe, ask_value_at, &past);
    assert_int_equal(past.err, ERR_OK);
    assert_int_equal(past.value.small, 5);

    struct moments asked = {.id = SLICE("views")};
    for (int i = 0; i < 7; i++)
        asked.moments[i].time_ms = LIMIT_TIME_MS - 6 + i;
    pipe_at_desk(pipe, ask_values_at, &asked);
    assert_int_equal(asked.err, ERR_OK);
    for (int i = 0; i < 7; i++) {
        assert_true(asked.moments[i].is_known && asked.moments[i].exists);
        assert_int_equal(asked.moments[i].value.small, 5);
        number_done(&asked.moments[i].value);
    }
    pipe_free(pipe);
}

/* --- history --- */

struct pasts {
    unsigned count;
    struct age age;
    enum err err;
};

static void count_past(void *arg, const struct store_past *past)
{
    unsigned *count = arg;
    *count += past->kind.size > 0;
}

static void ask_past(struct desk_seat *seat, void *arg)
{
    struct pasts *pasts = arg;
    uint64_t cursor = 0;
    pasts->err = desk_past(seat, SLICE("video1"), SLICE(""), &cursor, 1000, count_past,
                           &pasts->count, &pasts->age, NULL);
}

TEST(a_history_has_what_happened_a_moment_ago)
{
    struct pipe *pipe = pipe_new();
    for (unsigned i = 1; i <= 50; i++) {
        char user[24];
        snprintf(user, sizeof(user), "user%u", i);
        pipe_react(pipe, "video1", user, 1);
        struct pasts pasts = {.count = 0};
        pipe_at_desk(pipe, ask_past, &pasts);
        assert_int_equal(pasts.err, ERR_OK);
        assert_int_equal(pasts.count, i);
        assert_false(age_is_behind(&pasts.age));
        assert_int_equal(pasts.age.as_of_ms, 0);
    }
    pipe_free(pipe);
}

/* --- all there is --- */

enum { COUNTERS = 300 };

struct listing {
    struct slice pattern;
    uint64_t cursor;
    unsigned visits[COUNTERS];
    bool is_wrong;
    enum err err;
};

static void note_entry(void *arg, const struct desk_entry *entry)
{
    struct listing *listing = arg;
    uint64_t number;
    struct slice digits = {entry->id.data + 1, entry->id.size - 1};
    if (entry->is_item || !decimal_parse_unsigned(digits, &number) || number >= COUNTERS) {
        listing->is_wrong = true;
        return;
    }
    listing->visits[number]++;
    listing->is_wrong = listing->is_wrong || entry->value->small != (int64_t)number + 1;
}

static void ask_scan(struct desk_seat *seat, void *arg)
{
    struct listing *listing = arg;
    struct error error;
    do {
        listing->err = desk_scan(seat, listing->pattern, &listing->cursor, 7, note_entry, listing,
                                 &(struct age){0}, &error);
    } while (!listing->err && listing->cursor != 0);
}

static void add_number(struct pipe *pipe, int number, int64_t amount)
{
    char id[16];
    snprintf(id, sizeof(id), "c%d", number);
    pipe_add(pipe, id, amount);
}

TEST(a_scan_shows_everything_once_with_its_value_of_now_hot_or_cold)
{
    struct pipe *pipe = pipe_new();
    for (int i = 0; i < COUNTERS; i++)
        add_number(pipe, i, i < 100 ? i + 1 : i); /* some are not right yet */
    pipe_reopen(pipe);
    for (int i = 100; i < COUNTERS; i++)
        add_number(pipe, i, 1); /* loaded, and changed */
    struct listing all = {.pattern = SLICE("")};
    pipe_at_desk(pipe, ask_scan, &all);
    assert_int_equal(all.err, ERR_OK);
    assert_false(all.is_wrong);
    for (int i = 0; i < COUNTERS; i++)
        assert_int_equal(all.visits[i], 1);

    struct listing some = {.pattern = SLICE("c1?")};
    pipe_at_desk(pipe, ask_scan, &some);
    for (int i = 0; i < COUNTERS; i++)
        assert_int_equal(some.visits[i], i >= 10 && i < 20);
    pipe_free(pipe);
}

TEST(what_was_deleted_is_not_shown)
{
    struct pipe *pipe = pipe_new();
    for (int i = 0; i < COUNTERS; i++)
        add_number(pipe, i, i + 1);
    pipe_reopen(pipe);
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%d", i);
        struct op op = {.kind = OP_DELETE, .id = slice_of(id)};
        pipe_run(pipe, &op);
        assert_true(op.changed);
    }
    struct listing all = {.pattern = SLICE("")};
    pipe_at_desk(pipe, ask_scan, &all);
    for (int i = 0; i < COUNTERS; i++)
        assert_int_equal(all.visits[i], i >= 100);
    pipe_free(pipe);
}

struct holdings {
    struct slice user;
    uint64_t cursor;
    unsigned likes;
    unsigned dislikes;
    enum err err;
};

static void note_item(void *arg, struct slice item, struct slice kind)
{
    struct holdings *holdings = arg;
    (void)item;
    holdings->likes += slice_equal(kind, SLICE("like"));
    holdings->dislikes += slice_equal(kind, SLICE("dislike"));
}

static void ask_items(struct desk_seat *seat, void *arg)
{
    struct holdings *holdings = arg;
    struct error error;
    do {
        holdings->err = desk_items_of(seat, holdings->user, &holdings->cursor, 5, note_item,
                                      holdings, &(struct age){0}, &error);
    } while (!holdings->err && holdings->cursor != 0);
}

TEST(a_users_items_are_those_held_now)
{
    struct pipe *pipe = pipe_new();
    for (int i = 0; i < 40; i++) {
        char item[24];
        snprintf(item, sizeof(item), "video%d", i);
        pipe_react(pipe, item, "ann", 1);
        pipe_react(pipe, item, "bob", 2);
    }
    pipe_reopen(pipe);
    pipe_react(pipe, "video7", "ann", 2);
    pipe_react(pipe, "video8", "ann", KIND_NONE);
    pipe_react(pipe, "new", "ann", 1);
    struct holdings ann = {.user = SLICE("ann")};
    pipe_at_desk(pipe, ask_items, &ann);
    assert_int_equal(ann.err, ERR_OK);
    assert_int_equal(ann.likes, 40 - 2 + 1);
    assert_int_equal(ann.dislikes, 1);
    struct holdings nobody = {.user = SLICE("nobody")};
    pipe_at_desk(pipe, ask_items, &nobody);
    assert_int_equal(nobody.err, ERR_OK);
    assert_int_equal(nobody.likes + nobody.dislikes, 0);
    pipe_free(pipe);
}

RUN(cmocka_unit_test(a_job_is_run_and_its_end_is_told),
    cmocka_unit_test(a_job_that_has_not_begun_can_be_taken_back),
    cmocka_unit_test(a_desk_with_too_much_to_do_says_so),
    cmocka_unit_test(tasks_are_remembered_newest_first),
    cmocka_unit_test(a_recount_is_the_value_hot_or_cold),
    cmocka_unit_test(events_come_newest_first_over_segments_and_pages),
    cmocka_unit_test(a_value_at_a_time_is_the_sum_until_then),
    cmocka_unit_test(values_at_many_times_are_found_in_one_pass),
    cmocka_unit_test(a_question_that_makes_no_sense_is_refused_with_a_text),
    cmocka_unit_test(at_its_limits_a_question_is_answered),
    cmocka_unit_test(at_the_last_moment_there_is_a_counter_has_its_value),
    cmocka_unit_test(a_history_has_what_happened_a_moment_ago),
    cmocka_unit_test(a_scan_shows_everything_once_with_its_value_of_now_hot_or_cold),
    cmocka_unit_test(what_was_deleted_is_not_shown),
    cmocka_unit_test(a_users_items_are_those_held_now))
