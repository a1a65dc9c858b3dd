/* log_lanes_test.c - what core/log.h promises of logs of many lanes, asked of every one there is.
 *
 * Real servers, told by variables of the environment (tests/servers).
 * To add a log, write an opener and put a line into `forms`. */
/* servers: stream */
/* servers: cluster */
/* servers: kafka */
/* threads */
#include "contract/log_lanes_rig.h"

#include <signal.h>
#include <sys/wait.h>

static const struct form forms[] = {
    {"redis-stream", "TALLY_TEST_STREAM", rig_open_stream, .trims = true},
    {"redis-stream on a cluster", "TALLY_TEST_CLUSTER", rig_open_stream, .trims = true},
    {"kafka", "TALLY_TEST_KAFKA", rig_open_kafka, .trims = false},
};

static const struct form *form;
static const char *server;
static char where[64];
static struct lane_source source;
static struct lane_view view;

static int begin(void **state)
{
    (void)state;
    rig_name(where, sizeof(where));
    source_init(&source);
    view = (struct lane_view){0};
    return 0;
}

static struct log *open_started(bool follows)
{
    struct log *log = form->open(server, where, follows);
    struct error error = {0};
    if (log_start(log, &error))
        fail_msg("%s", error.text);
    return log;
}

static void append_some(struct log *log, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned lane = 0; lane < LANES; lane++)
            source_append(&source, log, lane, 1 + (round + lane) % 5);
}

/* ---- appending and following ---- */

TEST(a_new_log_is_empty_and_has_room)
{
    struct log *log = open_started(true);
    assert_int_equal(log->lanes, LANES);
    assert_int_equal(log_room(log), ERR_OK);
    wait_owned(log, LANES);
    for (unsigned i = 0; i < 20; i++) {
        view_step(&view, log);
        usleep(10000);
    }
    assert_int_equal(view.sections, 0);
    struct log_stats stats;
    log_stats(log, &stats);
    assert_int_equal(stats.down_since_ms, 0);
    assert_int_equal(stats.sections, 0);
    log_close(log);
}

TEST(each_lane_is_followed_in_the_order_of_appending)
{
    struct log *log = open_started(true);
    append_some(log, 50);
    source_wait(&source, log);
    view_all(&view, log, &source);
    assert_int_equal(view.repeated, 0);
    append_some(log, 50);
    view_all(&view, log, &source);
    assert_int_equal(view.repeated, 0);
    assert_true(view.sections == 100 * LANES);
    source_wait(&source, log); /* what can be read need not be acknowledged yet */
    struct log_stats stats;
    log_stats(log, &stats);
    assert_int_equal(stats.sections, 100 * LANES);
    assert_int_equal(stats.pending_bytes, 0);
    log_close(log);
}

TEST(a_lane_that_nothing_was_appended_to_stays_where_it_is)
{
    struct log *log = open_started(true);
    source_append(&source, log, 17, 3);
    source_wait(&source, log);
    view_all(&view, log, &source);
    for (unsigned i = 0; i < LANES; i++)
        assert_int_equal(view.last[i], i == 17 ? sequence_of(1, 3) : 0);
    log_close(log);
}

TEST(closing_makes_what_was_appended_durable)
{
    struct log *log = open_started(false);
    append_some(log, 20);
    log_close(log);
    log = open_started(true);
    view_all(&view, log, &source);
    log_close(log);
}

TEST(a_process_that_only_appends_owns_nothing)
{
    struct log *log = open_started(false);
    assert_int_equal(log_owned(log), 0);
    log_close(log);
}

/* Remembers where it was behind each section. */
struct memory {
    struct lane_view view;
    struct log_position positions[512];
    uint64_t lasts[512];
    unsigned count;
};

static enum err remember(void *arg, struct slice section, struct log_position next,
                         struct error *error)
{
    struct memory *memory = arg;
    enum err err = view_section(&memory->view, section, next, error);
    memory->positions[memory->count] = next;
    memory->lasts[memory->count++] = memory->view.last[5];
    return err;
}

TEST(following_goes_on_from_any_remembered_position_also_in_a_later_process)
{
    struct log *log = open_started(true);
    for (unsigned i = 0; i < 300; i++) {
        source_append(&source, log, 5, 2);
        if (i % 7 == 0)
            source_wait(&source, log); /* many groups */
    }
    static struct memory memory;
    memory = (struct memory){.view.lane = 5};
    wait_owned(log, LANES);
    while (memory.count < 300) {
        struct error error = {0};
        if (log_follow(log, 5, &memory.view.at[5], 1000, remember, &memory, &error))
            fail_msg("%s", error.text);
    }
    for (unsigned process = 0; process < 2; process++) {
        for (unsigned i = process; i < 300; i += 41) {
            view = (struct lane_view){0};
            view.at[5] = memory.positions[i];
            view.last[5] = memory.lasts[i]; /* what comes behind it has no gap */
            while (view.last[5] + 1 < source.next[5]) {
                struct error error = {0};
                if (view_follow(&view, log, 5, &error))
                    fail_msg("%s", error.text);
            }
        }
        log_close(log);
        log = open_started(true);
        wait_owned(log, LANES);
    }
    log_close(log);
}

TEST(sections_of_every_size_come_back_as_they_were)
{
    struct log *log = open_started(true);
    for (unsigned events = 1; events <= 60000; events = events * 3 + 1)
        source_append(&source, log, 63, events);
    source_append(&source, log, 63, 1);
    source_wait(&source, log);
    view_all(&view, log, &source);
    assert_int_equal(view.repeated, 0);
    log_close(log);
}

static enum err refuse_third(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    (void)section;
    (void)next;
    if (++*(unsigned *)arg == 3)
        return error_set(error, ERR_TIMEOUT, "enough");
    return ERR_OK;
}

TEST(a_visitor_that_refuses_is_asked_again_for_the_same_section)
{
    struct log *log = open_started(true);
    for (unsigned i = 0; i < 10; i++)
        source_append(&source, log, 3, 1);
    source_wait(&source, log);
    wait_owned(log, LANES);
    unsigned count = 0;
    enum err err = ERR_OK;
    struct error error = {0};
    struct log_position at = {0};
    for (unsigned i = 0; i < 5000 && !err; i++) {
        err = log_follow(log, 3, &at, 1 << 20, refuse_third, &count, &error);
        usleep(1000);
    }
    assert_int_equal(err, ERR_TIMEOUT);
    assert_string_equal(error.text, "enough");
    view.at[3] = at; /* behind two of them */
    view.last[3] = sequence_of(1, 2);
    view_all(&view, log, &source);
    assert_int_equal(view.last[3] + 1, source.next[3]);
    log_close(log);
}

TEST(going_back_shows_the_same_again)
{
    struct log *log = open_started(true);
    append_some(log, 10);
    view_all(&view, log, &source);
    uint64_t sections = view.sections;
    view = (struct lane_view){0};
    view_all(&view, log, &source);
    assert_int_equal(view.sections, sections);
    log_close(log);
}

TEST(the_end_is_where_following_comes_to)
{
    struct log *log = open_started(true);
    append_some(log, 10);
    source_wait(&source, log);
    view_all(&view, log, &source);
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned tries = 0;; tries++) {
            struct log_position end = log_end(log, i);
            if (end.segment == view.at[i].segment && end.offset == view.at[i].offset)
                break;
            assert_true(tries < 3000);
            usleep(1000);
        }
    log_close(log);
}

static void count_progress(void *arg)
{
    ++*(_Atomic unsigned *)arg;
}

TEST(progress_is_told)
{
    struct log *log = form->open(server, where, false);
    static _Atomic unsigned count;
    count = 0;
    callback_set(&log->progress, count_progress, &count);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    append_some(log, 1);
    source_wait(&source, log);
    for (unsigned i = 0; i < 1000 && count == 0; i++)
        usleep(1000);
    assert_true(count > 0);
    log_close(log);
}

/* Two relays, one of which does not know that its lease is over. */
TEST(what_two_append_at_once_has_no_gap)
{
    struct log *first = open_started(true);
    struct log *second = open_started(false);
    struct lane_source other;
    source_init(&other);
    for (unsigned i = 0; i < 200; i++) {
        source_append(&source, first, 9, 1 + i % 4);
        if (i >= 100 && i % 2 == 0)
            source_append(&other, second, 9, 5);
    }
    source_wait(&source, first);
    source_wait(&other, second);
    view_all(&view, first, &source);
    view_all(&view, first, &other);
    log_close(second);
    log_close(first);
}

/* What stands in a lane between two sections of one process is noticed by it: a new epoch, which
 * makes repetitions of all that comes behind it. */
TEST(who_appends_learns_that_another_has_appended_in_between)
{
    struct log *first = open_started(false);
    struct log *second = open_started(false);
    for (unsigned i = 0; i < 50; i++)
        source_append(&source, first, 9, 1 + i % 4);
    source_wait(&source, first);
    uint64_t before = log_reached(first, 9, LOG_DURABLE);
    assert_true(log_alone(first, 9) <= 1); /* nobody was there */

    struct lane_source other;
    source_init(&other);
    other.next[9] = sequence_of(2, 1);
    source_append(&other, second, 9, 1);
    source_wait(&other, second);
    source_append(&source, first, 9, 3);
    source_wait(&source, first);
    uint64_t alone = log_alone(first, 9);
    assert_true(alone > before && alone <= log_reached(first, 9, LOG_DURABLE));

    for (unsigned i = 0; i < 50; i++)
        source_append(&other, second, 9, 2);
    source_wait(&other, second);
    assert_true(log_alone(second, 9) <= 2); /* of the two it is the one that may go on */
    log_close(second);
    log_close(first);
}

/* ---- several who follow ---- */

TEST(those_who_follow_share_the_lanes)
{
    struct log *a = open_started(true);
    wait_owned(a, LANES);
    struct log *b = open_started(true);
    uint64_t until_ms = rig_now_ms() + 30000;
    uint64_t of_a = 0;
    uint64_t of_b = 0;
    while (rig_now_ms() < until_ms) {
        of_a = log_owned(a);
        of_b = log_owned(b);
        if ((of_a | of_b) == UINT64_MAX && (of_a & of_b) == 0 &&
            __builtin_popcountll(of_a) == (int)LANES / 2)
            break;
        struct lane_view idle = {0};
        view_step(&idle, a);
        view_step(&idle, b);
        usleep(20000);
    }
    assert_int_equal(__builtin_popcountll(of_a), LANES / 2);
    assert_int_equal(of_a | of_b, UINT64_MAX);

    append_some(a, 20);
    source_wait(&source, a);
    until_ms = rig_now_ms() + 30000;
    while (!view_has(&view, &source) && rig_now_ms() < until_ms) {
        view_step(&view, a);
        view_step(&view, b);
    }
    assert_true(view_has(&view, &source));
    assert_int_equal(view.repeated, 0);
    log_close(b);
    wait_owned(a, LANES); /* what it had comes back */
    log_close(a);
}

/* In a process of its own: takes part, reads, releases nothing, and is killed. */
static pid_t start_follower(int *ret_pipe)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child != 0) {
        close(ends[1]);
        *ret_pipe = ends[0];
        return child;
    }
    struct log *log = open_started(true);
    static struct lane_view seen;
    bool is_told = false;
    for (;;) {
        view_step(&seen, log);
        if (!is_told && seen.sections > 100)
            is_told = write(ends[1], "r", 1) == 1;
        usleep(1000);
    }
}

TEST(the_lanes_of_one_that_dies_go_to_the_others_and_nothing_is_lost)
{
    int ready;
    pid_t child = start_follower(&ready);
    struct log *log = open_started(false);
    append_some(log, 30);
    source_wait(&source, log);
    char byte;
    assert_int_equal(read(ready, &byte, 1), 1); /* it has read some */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready);
    append_some(log, 10);
    struct log *other = open_started(true);
    uint64_t began_ms = rig_now_ms();
    view_all(&view, other, &source);
    print_message("taken over after %" PRIu64 " ms\n", rig_now_ms() - began_ms);
    log_close(other);
    log_close(log);
}

/* ---- what is released ---- */

TEST(what_is_released_is_let_go_of_and_the_rest_stays)
{
    struct log *log = open_started(true);
    append_some(log, 20);
    view_all(&view, log, &source);
    struct lane_view half = view;
    append_some(log, 20);
    view_all(&view, log, &source);
    for (unsigned i = 0; i < LANES; i++)
        assert_int_equal(log_release(log, i, half.at[i], NULL), ERR_OK);
    usleep(800000); /* it is kept for a while, here a short one */
    log_close(log);

    log = open_started(true);
    wait_owned(log, LANES);
    half.sections = 0;
    view_all(&half, log, &source); /* from where it was released */
    struct lane_view gone = {0};   /* the beginning is not there any more */
    if (!form->trims) {
        view_all(&gone, log, &source); /* the log lets go by age */
        log_close(log);
        return;
    }
    enum err err = ERR_OK;
    struct error error = {0};
    for (unsigned i = 0; i < 3000 && !err; i++) {
        err = view_follow(&gone, log, 40, &error);
        usleep(1000);
    }
    assert_int_equal(err, ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "trimmed"));
    assert_int_equal(gone.sections, 0);
    log_close(log);
}

TEST(a_lane_that_is_wholly_released_can_be_appended_to_and_followed_on)
{
    struct log *log = open_started(true);
    for (unsigned round = 0; round < 5; round++) {
        append_some(log, 5);
        view_all(&view, log, &source);
        for (unsigned i = 0; i < LANES; i++)
            assert_int_equal(log_release(log, i, view.at[i], NULL), ERR_OK);
        if (round % 2 == 1) {
            log_close(log);
            log = open_started(true);
            memset(source.ticket, 0, sizeof(source.ticket)); /* they begin anew */
        }
    }
    assert_int_equal(view.repeated, 0);
    log_close(log);
}

/* ---- reading all that there is ---- */

struct scanned {
    struct lane_view view;
    unsigned refuse_at; /* sections; 0 = never */
};

static enum err scan_section(void *arg, unsigned lane, struct slice section,
                             struct log_position next, struct error *error)
{
    struct scanned *scanned = arg;
    if (scanned->refuse_at > 0 && scanned->view.sections + 1 == scanned->refuse_at)
        return error_set(error, ERR_TIMEOUT, "enough");
    scanned->view.lane = lane;
    scanned->view.before = scanned->view.at[lane];
    scanned->view.at[lane] = next;
    return view_section(&scanned->view, section, next, error);
}

static void scan_all(struct log *log, struct log_scan *scan, struct scanned *scanned)
{
    struct error error = {0};
    scan->visit = scan_section;
    scan->arg = scanned;
    if (log_scan(log, scan, &error))
        fail_msg("%s", error.text);
}

TEST(a_scan_shows_all_from_the_beginning_to_the_end_also_to_who_does_not_follow)
{
    struct log *log = open_started(false);
    static struct scanned scanned;
    scanned = (struct scanned){0};
    struct log_scan scan = {.must_be_whole = true};
    scan_all(log, &scan, &scanned);
    assert_int_equal(scanned.view.sections, 0);

    append_some(log, 30);
    source_wait(&source, log);
    scan_all(log, &scan, &scanned);
    assert_true(view_has(&scanned.view, &source));
    assert_int_equal(scanned.view.repeated, 0);
    assert_int_equal(scan.cut, 0);

    append_some(log, 5); /* and goes on from there */
    source_wait(&source, log);
    uint64_t sections = scanned.view.sections;
    scan_all(log, &scan, &scanned);
    assert_true(view_has(&scanned.view, &source));
    assert_int_equal(scanned.view.sections, sections + 5 * (uint64_t)LANES);
    log_close(log);
}

TEST(those_who_follow_do_not_notice_a_scan)
{
    struct log *log = open_started(true);
    static struct scanned scanned;
    append_some(log, 10);
    source_wait(&source, log);
    for (unsigned i = 0; i < 3; i++) {
        scanned = (struct scanned){0};
        struct log_scan scan = {.must_be_whole = true};
        scan_all(log, &scan, &scanned);
        assert_true(view_has(&scanned.view, &source));
        view_all(&view, log, &source);
        append_some(log, 10);
        source_wait(&source, log);
    }
    view_all(&view, log, &source);
    assert_int_equal(view.repeated, 0);
    log_close(log);
}

TEST(a_scan_ends_where_its_visitor_refuses_and_can_go_on)
{
    struct log *log = open_started(false);
    static struct scanned scanned;
    scanned = (struct scanned){.refuse_at = 100};
    append_some(log, 10);
    source_wait(&source, log);
    struct error error = {0};
    struct log_scan scan = {.visit = scan_section, .arg = &scanned};
    assert_int_equal(log_scan(log, &scan, &error), ERR_TIMEOUT);
    assert_string_equal(error.text, "enough");
    assert_int_equal(scanned.view.sections, 99);
    scanned.refuse_at = 0;
    scan_all(log, &scan, &scanned);
    assert_true(view_has(&scanned.view, &source));
    assert_true(scanned.view.repeated < 100); /* at most what was refused with its neighbours */
    log_close(log);
}

TEST(a_scan_says_that_the_beginning_is_gone)
{
    if (!form->trims)
        return; /* Kafka's retention takes minutes to act */
    struct log *log = open_started(true);
    static struct scanned scanned;
    append_some(log, 10);
    source_wait(&source, log);
    view_all(&view, log, &source);
    assert_int_equal(log_release(log, 7, view.at[7], NULL), ERR_OK);
    struct log_scan scan;
    struct error error = {0};
    enum err err = ERR_OK;
    uint64_t until_ms = rig_now_ms() + 60000;
    while (!err && rig_now_ms() < until_ms) {
        scanned = (struct scanned){0};
        scan = (struct log_scan){.must_be_whole = true, .visit = scan_section, .arg = &scanned};
        err = log_scan(log, &scan, &error);
    }
    assert_int_equal(err, ERR_OUT_OF_RANGE);
    assert_int_equal(scan.cut, UINT64_C(1) << 7);
    scanned = (struct scanned){0};
    scan = (struct log_scan){0};
    scan_all(log, &scan, &scanned);
    assert_int_equal(scan.cut, UINT64_C(1) << 7);
    assert_true(scanned.view.sections >= 10 * (LANES - 1) && scanned.view.sections < 10 * LANES);
    log_close(log);
}

TEST(a_dead_letter_may_be_told)
{
    struct log *log = open_started(false);
    struct log_letter letter = {.lane = 7,
                                .position = {1, 5},
                                .event_id = SLICE("\x01\x02"),
                                .reason = SLICE("made no sense"),
                                .raw = SLICE("bytes")};
    log_dead(log, &letter);
    log_close(log);
}

#define PROMISE(name) cmocka_unit_test_setup(name, begin)

static int run_form(const struct form *which)
{
    const struct CMUnitTest tests[] = {
        PROMISE(a_new_log_is_empty_and_has_room),
        PROMISE(each_lane_is_followed_in_the_order_of_appending),
        PROMISE(a_lane_that_nothing_was_appended_to_stays_where_it_is),
        PROMISE(closing_makes_what_was_appended_durable),
        PROMISE(a_process_that_only_appends_owns_nothing),
        PROMISE(following_goes_on_from_any_remembered_position_also_in_a_later_process),
        PROMISE(sections_of_every_size_come_back_as_they_were),
        PROMISE(a_visitor_that_refuses_is_asked_again_for_the_same_section),
        PROMISE(going_back_shows_the_same_again),
        PROMISE(the_end_is_where_following_comes_to),
        PROMISE(progress_is_told),
        PROMISE(what_two_append_at_once_has_no_gap),
        PROMISE(who_appends_learns_that_another_has_appended_in_between),
        PROMISE(those_who_follow_share_the_lanes),
        PROMISE(the_lanes_of_one_that_dies_go_to_the_others_and_nothing_is_lost),
        PROMISE(what_is_released_is_let_go_of_and_the_rest_stays),
        PROMISE(a_lane_that_is_wholly_released_can_be_appended_to_and_followed_on),
        PROMISE(a_scan_shows_all_from_the_beginning_to_the_end_also_to_who_does_not_follow),
        PROMISE(those_who_follow_do_not_notice_a_scan),
        PROMISE(a_scan_ends_where_its_visitor_refuses_and_can_go_on),
        PROMISE(a_scan_says_that_the_beginning_is_gone),
        PROMISE(a_dead_letter_may_be_told),
    };
    form = which;
    server = getenv(which->variable);
    return cmocka_run_group_tests_name(which->name, tests, NULL, NULL);
}

int main(void)
{
    int failed = 0;
    unsigned ran = 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (!getenv(forms[i].variable))
            continue;
        ran++;
        failed += run_form(&forms[i]);
    }
    if (ran == 0) {
        printf("no server to run against: TALLY_TEST_STREAM, _CLUSTER or _KAFKA\n");
        return 77;
    }
    return failed;
}
