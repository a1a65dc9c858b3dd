/* outage_test.c - the stream log beside servers that fail, lose replies or entries. */
/* servers: stream+proxy */
/* threads */
#include "contract/log_lanes_rig.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "log/redis_stream/lane_key.h"
#include "unit/free_port.h"
#include "unit/log/kafka/lines.h"

static const char *server; /* through the proxy */
static const char *direct;
static char where[64];
static struct lane_source source;
static struct lane_view view;

/* ---- the proxy and the server beside it ---- */

static int connect_to(unsigned port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void set_faults(const char *json)
{
    int fd = connect_to((unsigned)strtoul(getenv("TALLY_TEST_STREAM_FAULTS"), NULL, 10));
    char line[256];
    int size = snprintf(line, sizeof(line), "%s\n", json);
    assert_int_equal(write(fd, line, (size_t)size), size);
    assert_true(read(fd, line, sizeof(line)) > 0);
    close(fd);
}

static unsigned port_of(const char *url)
{
    return (unsigned)strtoul(strrchr(url, ':') + 1, NULL, 10);
}

static redisReply *ask(const char *format, ...)
{
    redisContext *context = redisConnect("127.0.0.1", (int)port_of(direct));
    assert_non_null(context);
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(context, format, args);
    va_end(args);
    redisFree(context);
    assert_non_null(reply);
    return reply;
}

static const char *key_of(unsigned lane)
{
    static char key[LANE_KEY_BYTES];
    lane_key(key, where, lane, "log");
    return key;
}

static int begin(void **state)
{
    (void)state;
    rig_name(where, sizeof(where));
    source_init(&source);
    view = (struct lane_view){0};
    set_faults("{}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    set_faults("{}");
    return 0;
}

static struct log *open_at(const char *url, bool follows)
{
    struct log *log = rig_open_stream(url, where, follows);
    struct error error = {0};
    if (log_start(log, &error))
        fail_msg("%s", error.text);
    return log;
}

static enum err follow_until_error(struct log *log, unsigned lane, struct error *error)
{
    enum err err = ERR_OK;
    for (unsigned i = 0; i < 5000 && !err; i++) {
        err = view_follow(&view, log, lane, error);
        usleep(1000);
    }
    return err;
}

/* ---- appending ---- */

TEST(a_lost_reply_leaves_no_gap_and_nothing_twice)
{
    struct log *log = open_at(server, false);
    set_faults("{\"lose\":\"XADD\",\"lose_every\":5}");
    source_append_some(&source, log, 60);
    usleep(300000);
    set_faults("{}");
    source_wait(&source, log);
    struct log *reader = open_at(direct, true);
    view_all(&view, reader, &source);
    assert_int_equal(view.repeated, 0);
    log_close(reader);
    log_close(log);
}

TEST(a_server_that_does_not_answer_is_down_until_it_does)
{
    struct log *log = open_at(server, false);
    source_append_some(&source, log, 2);
    source_wait(&source, log);
    set_faults("{\"hole\":true}");
    source_append_some(&source, log, 5);
    rig_wait_room(log, ERR_UNAVAILABLE);
    struct log_stats stats;
    log_stats(log, &stats);
    assert_true(stats.down_since_ms > 0);
    assert_true(stats.pending_bytes > 0);
    set_faults("{\"keep\":false,\"reset_all\":true}");
    set_faults("{}");
    rig_wait_room(log, ERR_OK);
    source_wait(&source, log);
    struct log *reader = open_at(direct, true);
    view_all(&view, reader, &source);
    assert_int_equal(view.repeated, 0);
    log_close(reader);
    log_stats(log, &stats);
    assert_int_equal(stats.down_since_ms, 0);
    log_close(log);
}

TEST(a_log_may_start_before_its_server)
{
    set_faults("{\"refuse\":true}");
    struct log *log = open_at(server, true);
    assert_int_equal(log_room(log), ERR_UNAVAILABLE);
    source_append_some(&source, log, 3);
    set_faults("{}");
    rig_wait_room(log, ERR_OK);
    source_wait(&source, log);
    view_all(&view, log, &source);
    log_close(log);
}

TEST(closing_without_a_server_ends)
{
    struct log *log = open_at(server, true);
    set_faults("{\"refuse\":true,\"reset_all\":true}");
    source_append_some(&source, log, 1);
    uint64_t began_ms = rig_now_ms();
    log_close(log);
    assert_true(rig_now_ms() - began_ms < 10000);
}

TEST(closing_beside_a_silent_server_does_not_wait_for_it_again_and_again)
{
    struct log *log = open_at(server, true);
    source_append_some(&source, log, 2);
    source_wait(&source, log);
    set_faults("{\"hole\":true}");
    source_append_some(&source, log, 5);
    rig_wait_room(log, ERR_UNAVAILABLE);
    uint64_t began_ms = rig_now_ms();
    log_close(log);
    assert_true(rig_now_ms() - began_ms < 3500);
    set_faults("{\"keep\":false,\"reset_all\":true}");
}

static _Atomic bool is_hole_next; /* what is written next to the server gets no answer */

int redisBufferWrite(redisContext *context, int *is_done)
{
    typedef int fn(redisContext *, int *);
    fn *real = (fn *)dlsym(RTLD_NEXT, "redisBufferWrite");
    if (sdslen(context->obuf) > 0 && is_hole_next) {
        set_faults("{\"hole\":true}");
        is_hole_next = false;
    }
    return real(context, is_done);
}

TEST(closing_does_not_wait_as_long_as_answers_are_waited_for)
{
    char url[128];
    snprintf(url, sizeof(url), "%s/%s", server, where);
    struct redis_stream_log_options options = {.url = url, .answer_ms = 60000};
    struct log *log;
    assert_int_equal(redis_stream_log_open(env_system(), &options, &log, NULL), ERR_OK);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    source_append_some(&source, log, 1);
    source_wait(&source, log);
    is_hole_next = true;
    source_append(&source, log, 3, 1);
    uint64_t until_ms = rig_now_ms() + 30000;
    while (is_hole_next) {
        assert_true(rig_now_ms() < until_ms);
        usleep(1000);
    }
    uint64_t began_ms = rig_now_ms();
    log_close(log);
    assert_true(rig_now_ms() - began_ms < 20000);
    set_faults("{\"keep\":false,\"reset_all\":true}");
}

/* No replica has ever been there; before that it was the server that was not. */
TEST(replicas_that_are_missing_are_the_reason_and_not_an_outage_that_is_over)
{
    char name[sizeof(where) + 16];
    snprintf(name, sizeof(name), "%s?replicas=1", where);
    set_faults("{\"refuse\":true}");
    struct log *log = rig_open_stream(server, name, false);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    assert_int_equal(log_room(log), ERR_UNAVAILABLE);
    set_faults("{}");
    rig_wait_room(log, ERR_OK);
    struct lines lines;
    lines_begin(&lines);
    source_append(&source, log, 3, 1);
    uint64_t until_ms = rig_now_ms() + 30000;
    while (lines_with(&lines, "they wait reason=") == 0 && rig_now_ms() < until_ms)
        usleep(1000);
    unsigned told = lines_with(&lines, "they wait reason=\"0 of 1 replicas have it\"");
    lines_end(&lines);
    assert_int_equal(told, 1);
    log_close(log);
}

/* An id made of the time is above all of ours for ever. */
TEST(an_entry_that_is_not_ours_does_not_make_appending_look_done)
{
    struct log *log = open_at(direct, false);
    source_append(&source, log, 3, 2);
    source_wait(&source, log);
    freeReplyObject(ask("XADD %s * s x", key_of(3)));
    uint64_t before = source.ticket[3];
    source_append(&source, log, 3, 2);
    usleep(500000);
    assert_int_equal(log_reached(log, 3, LOG_DURABLE), before);
    struct log_stats stats;
    log_stats(log, &stats);
    assert_true(stats.down_since_ms > 0);
    log_close(log);
}

/* ---- a server of our own, which is killed ---- */

static pid_t start_redis(const char *folder, unsigned port)
{
    pid_t child = fork();
    if (child == 0) {
        char text[16];
        snprintf(text, sizeof(text), "%u", port);
        execlp("redis-server", "redis-server", "--port", text, "--dir", folder, "--appendonly",
               "yes", "--appendfsync", "always", "--save", "", "--bind", "127.0.0.1", "--logfile",
               "redis.log", (char *)NULL);
        _exit(127);
    }
    return child;
}

TEST(a_server_that_is_killed_under_appends_leaves_no_gap)
{
    char folder[] = "/tmp/tally-stream-XXXXXX";
    assert_non_null(mkdtemp(folder));
    unsigned port = free_port();
    char url[64];
    snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    pid_t redis = start_redis(folder, port);
    struct log *log = open_at(url, true);
    for (unsigned round = 0; round < 4; round++) {
        source_append_some(&source, log, 50);
        kill(redis, SIGKILL);
        waitpid(redis, NULL, 0);
        source_append_some(&source, log, 20);
        redis = start_redis(folder, port);
        source_append_some(&source, log, 50);
        view_step(&view, log);
    }
    source_wait(&source, log);
    view_all(&view, log, &source);
    assert_int_equal(view.repeated, 0);
    log_close(log);
    kill(redis, SIGTERM);
    waitpid(redis, NULL, 0);
    char command[96];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own name */
}

/* ---- following ---- */

TEST(an_entry_that_is_missing_is_told_and_not_passed_over)
{
    struct log *log = open_at(direct, true);
    for (unsigned i = 0; i < 5; i++) {
        source_append(&source, log, 8, 1);
        source_wait(&source, log);
    }
    freeReplyObject(ask("XDEL %s 1-3", key_of(8)));
    wait_owned(log, LANES);
    struct error error = {0};
    assert_int_equal(follow_until_error(log, 8, &error), ERR_NOT_FOUND);
    assert_int_equal(view.last[8], sequence_of(1, 2));
    assert_non_null(strstr(error.text, "lane 8"));
    log_close(log);
}

TEST(a_stream_that_has_lost_its_end_is_told_when_it_goes_on)
{
    struct log *log = open_at(direct, true);
    for (unsigned i = 0; i < 5; i++) {
        source_append(&source, log, 8, 1);
        source_wait(&source, log);
    }
    freeReplyObject(ask("DEL %s", key_of(8))); /* came back empty */
    source_append(&source, log, 8, 1);
    source_wait(&source, log);
    wait_owned(log, LANES);
    view.at[8] = (struct log_position){1, 4}; /* the store has up to 1-3 */
    view.last[8] = sequence_of(1, 3);
    struct error error = {0};
    assert_int_equal(follow_until_error(log, 8, &error), ERR_NOT_FOUND);
    view.at[8] = (struct log_position){1, 6}; /* a store that had it all goes on */
    view.last[8] = sequence_of(1, 5);
    view_all(&view, log, &source);
    log_close(log);
}

TEST(an_empty_stream_whose_events_the_store_lacks_is_told)
{
    struct log *log = open_at(direct, true);
    source_append(&source, log, 8, 4);
    source_wait(&source, log);
    freeReplyObject(ask("XTRIM %s MAXLEN 0", key_of(8)));
    wait_owned(log, LANES);
    struct error error = {0};
    assert_int_equal(follow_until_error(log, 8, &error), ERR_NOT_FOUND);
    log_close(log);
}

/* One that had lost its lease, and did not know, is given an entry. */
TEST(what_another_reader_was_given_meanwhile_is_claimed)
{
    struct log *log = open_at(direct, true);
    source_append(&source, log, 8, 1);
    source_wait(&source, log);
    view_all(&view, log, &source);
    struct log *writer = open_at(direct, false);
    memset(source.ticket, 0, sizeof(source.ticket));
    for (unsigned i = 0; i < 100; i++) {
        source_append(&source, writer, 8, 1);
        redisReply *reply = ask("XREADGROUP GROUP tally stale COUNT 1 STREAMS %s >", key_of(8));
        freeReplyObject(reply);
    }
    view_all(&view, log, &source);
    assert_int_equal(view.repeated, 0);
    log_close(writer);
    log_close(log);
}

static long long length_of(unsigned lane)
{
    redisReply *reply = ask("XLEN %s", key_of(lane));
    long long length = reply->integer;
    freeReplyObject(reply);
    return length;
}

static long long pending_of(unsigned lane)
{
    redisReply *reply = ask("XPENDING %s tally", key_of(lane));
    long long pending = reply->elements > 0 ? reply->element[0]->integer : -1;
    freeReplyObject(reply);
    return pending;
}

TEST(only_what_was_released_is_acknowledged_and_trimmed)
{
    struct log *log = open_at(direct, true);
    for (unsigned i = 0; i < 6; i++) {
        source_append(&source, log, 8, 1);
        source_wait(&source, log);
    }
    view_all(&view, log, &source);
    usleep(600000);
    assert_int_equal(length_of(8), 6);
    assert_int_equal(pending_of(8), 6);
    assert_int_equal(log_release(log, 8, (struct log_position){1, 5}, NULL), ERR_OK);
    for (unsigned i = 0; i < 3000 && length_of(8) > 2; i++)
        usleep(1000);
    assert_int_equal(length_of(8), 2);
    assert_int_equal(pending_of(8), 2);
    log_close(log);
}

/* A store that fails over to a standby may be behind what it has said. */
TEST(what_was_released_is_kept_for_a_store_that_goes_back)
{
    char url[128];
    snprintf(url, sizeof(url), "%s/%s", direct, where);
    struct redis_stream_log_options options = {.url = url, .follows = true, .keep_ms = 3000};
    struct log *log;
    assert_int_equal(redis_stream_log_open(env_system(), &options, &log, NULL), ERR_OK);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    for (unsigned i = 0; i < 6; i++) {
        source_append(&source, log, 8, 1);
        source_wait(&source, log);
    }
    view_all(&view, log, &source);
    assert_int_equal(log_release(log, 8, view.at[8], NULL), ERR_OK);
    uint64_t released_ms = rig_now_ms();
    for (unsigned i = 0; i < 3000 && pending_of(8) > 0; i++)
        usleep(1000);
    assert_int_equal(pending_of(8), 0);

    view.at[8] = (struct log_position){1, 3};
    view.last[8] = sequence_of(1, 2);
    view.sections = 0;
    view_all(&view, log, &source);
    assert_int_equal(view.sections, 4);
    assert_int_equal(length_of(8), 6);
    while (length_of(8) > 0 && rig_now_ms() - released_ms < 8000)
        usleep(10000);
    assert_int_equal(length_of(8), 0);
    assert_true(rig_now_ms() - released_ms >= 2900);
    log_close(log);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    server = getenv("TALLY_TEST_STREAM");
    direct = getenv("TALLY_TEST_STREAM_DIRECT");
    if (!server || !direct) {
        printf("no server to run against: TALLY_TEST_STREAM\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        PROMISE(a_lost_reply_leaves_no_gap_and_nothing_twice),
        PROMISE(a_server_that_does_not_answer_is_down_until_it_does),
        PROMISE(a_log_may_start_before_its_server),
        PROMISE(closing_without_a_server_ends),
        PROMISE(closing_beside_a_silent_server_does_not_wait_for_it_again_and_again),
        PROMISE(closing_does_not_wait_as_long_as_answers_are_waited_for),
        PROMISE(replicas_that_are_missing_are_the_reason_and_not_an_outage_that_is_over),
        PROMISE(an_entry_that_is_not_ours_does_not_make_appending_look_done),
        PROMISE(a_server_that_is_killed_under_appends_leaves_no_gap),
        PROMISE(an_entry_that_is_missing_is_told_and_not_passed_over),
        PROMISE(a_stream_that_has_lost_its_end_is_told_when_it_goes_on),
        PROMISE(an_empty_stream_whose_events_the_store_lacks_is_told),
        PROMISE(what_another_reader_was_given_meanwhile_is_claimed),
        PROMISE(only_what_was_released_is_acknowledged_and_trimmed),
        PROMISE(what_was_released_is_kept_for_a_store_that_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
