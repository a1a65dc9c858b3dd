/* resp_test.c - the door over a hot layer and a log that do what the test says:
 * the log moves on when it is told to, and a batch is done when it is let go. */
/* threads */
#include "door/resp/resp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_worker.h"
#include "net/waker.h"
#include "unit/test.h"

/* ---- a hot layer that counts all its writes, whatever their ids ---- */

struct fake_hot {
    struct hot base;
    atomic_bool holds;     /* keep batches until they are let go of */
    struct batch *held[8]; /* the loop's thread */
    atomic_int held_count; /* batches kept so far */
    int let_go_count;      /* of these */
    atomic_bool cold;      /* ids that begin with a c are not in memory */
    atomic_int cold_count; /* ops that were cold */
    atomic_int writing;    /* batches that have written */
    int64_t value;
    uint64_t ticket;
};

static void run_op(struct fake_hot *hot, struct op *op)
{
    op->code = ERR_OK;
    if (op->id.data[0] == 'c' && atomic_load(&hot->cold)) {
        op->code = ERR_COLD;
        atomic_fetch_add(&hot->cold_count, 1);
        return;
    }
    if (op_is_write(op->kind)) {
        hot->value++;
        op->ticket = ++hot->ticket;
    }
    op->changed = true;
    op->value = number_of(hot->value);
}

static void finish_batch(struct fake_hot *hot, struct batch *batch)
{
    int64_t before = hot->value;
    for (size_t i = 0; i < batch->count; i++)
        run_op(hot, &batch->ops[i]);
    atomic_fetch_add(&hot->writing, hot->value != before);
    batch->done(batch);
}

static void fake_run(struct hot *base, struct batch *batch)
{
    struct fake_hot *hot = (struct fake_hot *)base;
    if (atomic_load(&hot->holds)) {
        int count = atomic_fetch_add(&hot->held_count, 1);
        assert_in_range(count, 0, 7);
        hot->held[count] = batch;
    } else {
        finish_batch(hot, batch);
    }
}

static void fake_hot_stats(struct hot *hot, struct hot_stats *ret_stats)
{
    (void)hot;
    *ret_stats = (struct hot_stats){0};
}

static const struct hot_ops fake_hot_ops = {
    .name = "fake", .run = fake_run, .stats = fake_hot_stats};

/* ---- a log that is as far as the test says ---- */

struct fake_log {
    struct log base;
    atomic_uint_fast64_t reached;
};

static uint64_t fake_reached(struct log *log, unsigned lane, enum log_level level)
{
    (void)lane;
    (void)level;
    return atomic_load(&((struct fake_log *)log)->reached);
}

static const struct log_ops fake_log_ops = {.name = "fake", .reached = fake_reached};

/* ---- the scene ---- */

struct scene {
    struct fake_hot hot;
    struct fake_log log;
    struct kinds kinds;
    struct service service;
    struct resp_options options;
    struct resp *resp;
    struct loop *loop;
    struct waker *let_go;
    struct waker *let_go_last;
    atomic_int let_go_lasts; /* so often */
    struct waker *measure;
    atomic_int blocks;
    pthread_t thread;
    atomic_int drained;
};

static void let_go(void *arg)
{
    struct fake_hot *hot = &((struct scene *)arg)->hot;
    while (hot->let_go_count < atomic_load(&hot->held_count))
        finish_batch(hot, hot->held[hot->let_go_count++]);
}

/* Only what went out last; it is held no more. */
static void let_go_last(void *arg)
{
    struct fake_hot *hot = &((struct scene *)arg)->hot;
    finish_batch(hot, hot->held[atomic_fetch_sub(&hot->held_count, 1) - 1]);
    atomic_fetch_add(&((struct scene *)arg)->let_go_lasts, 1);
}

static void *run(void *arg)
{
    loop_run(((struct scene *)arg)->loop);
    return NULL;
}

static struct scene *new_scene(void)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    scene->hot.base.ops = &fake_hot_ops;
    scene->log.base.ops = &fake_log_ops;
    kinds_parse(&scene->kinds, SLICE("like,dislike"), NULL);
    service_init(&scene->service, env_system(), &scene->hot.base, &scene->log.base, &scene->kinds,
                 ACK_DURABLE);
    scene->options = (struct resp_options)RESP_OPTIONS_DEFAULT;
    scene->options.port = 0;
    return scene;
}

static void measure(void *arg);

static struct scene *start(struct scene *scene)
{
    struct error error;
    scene->resp = resp_new(&scene->service, &scene->options, 1, &error);
    scene->loop = loop_new(&error);
    assert_non_null(scene->resp);
    assert_int_equal(resp_listen(scene->resp, scene->loop, 0, &error), ERR_OK);
    scene->let_go = waker_new(scene->loop, let_go, scene, &error);
    scene->let_go_last = waker_new(scene->loop, let_go_last, scene, &error);
    scene->measure = waker_new(scene->loop, measure, scene, &error);
    pthread_create(&scene->thread, NULL, run, scene);
    return scene;
}

static void drained(void *arg, unsigned worker)
{
    struct scene *scene = arg;
    assert_int_equal(worker, 0);
    atomic_fetch_add(&scene->drained, 1);
    loop_stop(scene->loop);
}

static void stop(struct scene *scene)
{
    if (atomic_load(&scene->drained) == 0)
        loop_stop(scene->loop);
    pthread_join(scene->thread, NULL);
    waker_free(scene->let_go);
    waker_free(scene->let_go_last);
    waker_free(scene->measure);
    resp_free(scene->resp);
    loop_free(scene->loop);
    service_done(&scene->service);
    free(scene);
}

static void log_reaches(struct scene *scene, uint64_t ticket)
{
    atomic_store(&scene->log.reached, ticket);
    resp_wake_all(scene->resp);
}

static int connect_to(const struct scene *scene)
{
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(resp_port(scene->resp))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    struct timeval patience = {.tv_sec = 5};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return client;
}

static void say(int client, const char *text)
{
    assert_int_equal(send(client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void hear(int client, const char *expected)
{
    char got[4096];
    size_t size = 0;
    while (size < strlen(expected)) {
        ssize_t more = recv(client, got + size, strlen(expected) - size, 0);
        assert_true(more > 0);
        size += (size_t)more;
    }
    got[size] = '\0';
    assert_string_equal(got, expected);
}

static void hear_nothing(int client)
{
    usleep(30000);
    char byte;
    assert_int_equal(recv(client, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static void hear_the_end(int client)
{
    char byte;
    assert_int_equal(recv(client, &byte, 1, 0), 0);
    close(client);
}

/* ---- waiting for the log ---- */

TEST(an_answer_leaves_when_the_log_has_reached_its_ticket)
{
    struct scene *scene = start(new_scene());
    int client = connect_to(scene);
    say(client, "INCR a\r\nINCR a\r\n");
    hear_nothing(client);
    log_reaches(scene, 1);
    hear_nothing(client); /* both are of one pass, and the second is not there yet */
    log_reaches(scene, 2);
    hear(client, ":1\r\n:2\r\n");
    close(client);
    stop(scene);
}

TEST(a_read_waits_for_nobody_elses_write)
{
    struct scene *scene = start(new_scene());
    int writer = connect_to(scene);
    int reader = connect_to(scene);
    say(writer, "INCR a\r\n");
    hear_nothing(writer);
    say(reader, "GET a\r\nPING\r\n");
    hear(reader, "$1\r\n1\r\n+PONG\r\n");
    log_reaches(scene, 1);
    hear(writer, ":1\r\n");
    close(writer);
    close(reader);
    stop(scene);
}

TEST(what_follows_a_write_waits_with_it)
{
    struct scene *scene = start(new_scene());
    int client = connect_to(scene);
    say(client, "INCR a\r\n");
    hear_nothing(client);
    say(client, "GET a\r\nPING\r\nFOO\r\n");
    hear_nothing(client);
    log_reaches(scene, 1);
    hear(client, ":1\r\n$1\r\n1\r\n+PONG\r\n"
                 "-ERR unknown command 'FOO', with args beginning with: \r\n");
    close(client);
    stop(scene);
}

TEST(what_was_asked_is_answered_although_the_client_has_stopped_talking)
{
    struct scene *scene = start(new_scene());
    int client = connect_to(scene);
    say(client, "INCR a\r\n");
    shutdown(client, SHUT_WR);
    hear_nothing(client);
    log_reaches(scene, 1);
    hear(client, ":1\r\n");
    hear_the_end(client);
    stop(scene);
}

TEST(a_client_may_go_while_its_answer_waits)
{
    struct scene *scene = start(new_scene());
    for (int i = 0; i < 20; i++) {
        int client = connect_to(scene);
        say(client, "INCR a\r\n");
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        if (i % 2 == 0)
            setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        usleep(2000);
        close(client);
    }
    log_reaches(scene, 20);
    int client = connect_to(scene);
    say(client, "PING\r\n");
    hear(client, "+PONG\r\n");
    close(client);
    stop(scene);
}

/* ---- a batch that is full ---- */

#define UNKNOWN "-ERR unknown command 'x', with args beginning with: \r\n"

static void say_often(int client, const char *text, size_t count)
{
    size_t size = strlen(text);
    char *all = malloc(count * size);
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * size, text, size);
    for (size_t sent = 0; sent < count * size;) {
        ssize_t more = send(client, all + sent, count * size - sent, MSG_NOSIGNAL);
        assert_true(more > 0);
        sent += (size_t)more;
    }
    free(all);
}

static void hear_often(int client, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hear(client, text);
}

TEST(what_cannot_be_read_is_refused_in_its_turn_also_when_the_batch_is_full)
{
    struct scene *scene = start(new_scene());
    int client = connect_to(scene);
    char text[16 << 10] = "GET a\r\n"; /* in one read */
    size_t size = strlen(text);
    for (unsigned i = 1; i < LIMIT_BATCH; i++, size += 3)
        memcpy(text + size, "x\r\n", 3);
    memcpy(text + size, "*x\r\n", 5);
    say(client, text);
    hear(client, "$1\r\n0\r\n");
    hear_often(client, UNKNOWN, LIMIT_BATCH - 1);
    hear(client, "-ERR Protocol error: invalid multibulk length\r\n");
    hear_the_end(client);
    stop(scene);
}

TEST(requests_that_wait_are_not_too_big_all_together)
{
    struct scene *scene = new_scene();
    scene->options.query_bytes_max = 1000; /* each of them */
    start(scene);
    atomic_store(&scene->hot.holds, true);
    int client = connect_to(scene);
    say_often(client, "GET a\r\n", 8000); /* more than a batch, in one read */
    while (atomic_load(&scene->hot.held_count) == 0)
        usleep(100);
    hear_nothing(client);
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    hear_often(client, "$1\r\n0\r\n", 8000);
    close(client);
    stop(scene);
}

/* ---- a hot layer that does not have everything ---- */

static void wait_until_cold(struct scene *scene, int count)
{
    while (atomic_load(&scene->hot.cold_count) < count)
        usleep(100);
}

static void arrive(struct scene *scene)
{
    atomic_store(&scene->hot.cold, false);
    atomic_fetch_add(&scene->hot.base.arrivals, 1);
    resp_wake_all(scene->resp);
}

static struct scene *start_cold(void)
{
    struct scene *scene = new_scene();
    atomic_store(&scene->log.reached, UINT64_MAX);
    atomic_store(&scene->hot.cold, true);
    return start(scene);
}

TEST(what_is_cold_holds_up_its_own_client_alone)
{
    struct scene *scene = start_cold();
    int one = connect_to(scene);
    int two = connect_to(scene);
    say(one, "INCR a\r\nINCR cold\r\nINCR a\r\nPING\r\n");
    wait_until_cold(scene, 1);
    hear(one, ":1\r\n");
    say(one, "ECHO x\r\nFOO\r\n"); /* lies there until its turn comes */
    say(two, "INCR a\r\nPING\r\nGET a\r\n");
    hear(two, ":3\r\n+PONG\r\n$1\r\n3\r\n");
    hear_nothing(one);
    arrive(scene);
    hear(one, ":4\r\n:2\r\n+PONG\r\n$1\r\nx\r\n"
              "-ERR unknown command 'FOO', with args beginning with: \r\n");
    close(one);
    close(two);
    stop(scene);
}

TEST(what_a_client_has_asked_for_is_done_although_it_has_gone)
{
    struct scene *scene = start_cold();
    for (int i = 0; i < 20; i++) {
        int client = connect_to(scene);
        say(client, "INCR cold\r\nINCR cold\r\n");
        wait_until_cold(scene, 2 * (i + 1));
        struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        if (i % 2 == 0)
            setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(client);
    }
    arrive(scene);
    int client = connect_to(scene);
    say(client, "INCR cold\r\n");
    hear(client, ":41\r\n");
    close(client);
    stop(scene);
}

TEST(a_client_that_has_stopped_talking_hears_what_was_cold)
{
    struct scene *scene = start_cold();
    int client = connect_to(scene);
    say(client, "INCR cold\r\n");
    wait_until_cold(scene, 1);
    shutdown(client, SHUT_WR);
    hear_nothing(client);
    arrive(scene);
    hear(client, ":1\r\n");
    hear_the_end(client);
    stop(scene);
}

TEST(what_is_cold_at_the_end_is_freed)
{
    struct scene *scene = start_cold();
    int client = connect_to(scene);
    say(client, "INCR cold\r\nMEMBERS cold like\r\nFOO\r\nINCR a\r\n");
    wait_until_cold(scene, 2);
    stop(scene);
    close(client);
}

/* ---- a hot layer that takes its time ---- */

TEST(a_batch_may_take_longer_than_its_pass)
{
    struct scene *scene = start(new_scene());
    atomic_store(&scene->log.reached, UINT64_MAX);
    atomic_store(&scene->hot.holds, true);
    int one = connect_to(scene);
    int two = connect_to(scene);
    say(one, "INCR a\r\nPING\r\nINCR a\r\nECHO x\r\n");
    while (atomic_load(&scene->hot.held_count) == 0)
        usleep(100);
    say(two, "INCR a\r\nPING\r\n"); /* goes out while the first is */
    while (atomic_load(&scene->hot.held_count) == 1)
        usleep(100);
    say(one, "PING\r\n");
    hear_nothing(one);
    hear_nothing(two);

    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    char got[64] = {0};
    size_t size = 0;
    while (size < 4 + 7 + 4 + 7 + 7)
        size += (size_t)recv(one, got + size, sizeof(got) - size, 0);
    assert_true(strcmp(got, ":1\r\n+PONG\r\n:2\r\n$1\r\nx\r\n+PONG\r\n") == 0 ||
                strcmp(got, ":1\r\n+PONG\r\n:3\r\n$1\r\nx\r\n+PONG\r\n") == 0);
    memset(got, 0, sizeof(got));
    for (size = 0; size < 4 + 7;)
        size += (size_t)recv(two, got + size, sizeof(got) - size, 0);
    assert_string_equal(got + 4, "+PONG\r\n");
    close(one);
    close(two);
    stop(scene);
}

TEST(a_client_may_go_while_its_batch_is_under_way)
{
    struct scene *scene = start(new_scene());
    atomic_store(&scene->log.reached, UINT64_MAX);
    atomic_store(&scene->hot.holds, true);
    int client = connect_to(scene);
    say(client, "INCR a\r\nPING\r\n");
    while (atomic_load(&scene->hot.held_count) == 0)
        usleep(100);
    close(client);
    usleep(5000);
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    client = connect_to(scene);
    say(client, "GET a\r\n");
    hear(client, "$1\r\n1\r\n");
    close(client);
    stop(scene);
}

static void wait_until_held(struct scene *scene, int count)
{
    while (atomic_load(&scene->hot.held_count) != count)
        usleep(100);
}

static void finish_last(struct scene *scene, int count)
{
    wait_until_held(scene, count);
    int before = atomic_load(&scene->let_go_lasts);
    waker_wake(scene->let_go_last);
    while (atomic_load(&scene->let_go_lasts) == before)
        usleep(100);
}

TEST(a_batch_that_takes_long_holds_up_its_own_clients_only)
{
    struct scene *scene = start(new_scene());
    atomic_store(&scene->log.reached, UINT64_MAX);
    atomic_store(&scene->hot.holds, true);
    int clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = connect_to(scene);
        say(clients[i], "INCR a\r\nPING\r\n");
        wait_until_held(scene, i + 1);
    }
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(clients[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(clients[1]);
    finish_last(scene, 3);
    hear(clients[2], ":1\r\n+PONG\r\n");
    finish_last(scene, 2);
    say(clients[2], "GET a\r\n"); /* what the one that has gone had asked for is done */
    finish_last(scene, 2);
    hear(clients[2], "$1\r\n2\r\n");
    hear_nothing(clients[0]);
    finish_last(scene, 1);
    hear(clients[0], ":3\r\n+PONG\r\n");
    close(clients[0]);
    close(clients[2]);
    stop(scene);
}

/* Nothing can go out any more; what is asked now is gathered. */
static void fill_errands(struct scene *scene, int *clients)
{
    atomic_store(&scene->hot.holds, true);
    for (unsigned i = 0; i < PASS_ERRANDS; i++) {
        clients[i] = connect_to(scene);
        say(clients[i], "GET a\r\n");
        if (i < PASS_ERRANDS - 1)
            wait_until_held(scene, (int)i + 1);
    }
}

static void empty_errands(struct scene *scene, const int *clients)
{
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    for (unsigned i = 0; i < PASS_ERRANDS; i++) {
        hear(clients[i], "$1\r\n0\r\n");
        close(clients[i]);
    }
}

static void measure(void *arg)
{
    struct scene *scene = arg;
    size_t blocks = 0;
    const struct pass *pass = &resp_door_worker(scene->resp, 0)->pass;
    for (size_t size = pass->gathered.room.bytes; size > 0; blocks++)
        size -= size < ROOM_BLOCK_BYTES ? size : ROOM_BLOCK_BYTES;
    atomic_store(&scene->blocks, (int)blocks);
}

/* Blocks of memory that what was read and gathered lies in. */
static int count_blocks(struct scene *scene)
{
    atomic_store(&scene->blocks, -1);
    waker_wake(scene->measure);
    while (atomic_load(&scene->blocks) < 0)
        usleep(100);
    return atomic_load(&scene->blocks);
}

static void say_in_bytes(struct scene *scene, int client, char byte, unsigned count)
{
    const struct gauge *bytes_in = &resp_door_worker(scene->resp, 0)->stats.bytes_in;
    uint64_t before = gauge_read(bytes_in);
    for (unsigned i = 1; i <= count; i++) {
        assert_int_equal(send(client, &byte, 1, MSG_NOSIGNAL), 1);
        while (gauge_read(bytes_in) < before + i)
            usleep(10);
    }
}

TEST(a_request_that_comes_byte_by_byte_takes_no_memory_while_nothing_goes_out)
{
    struct scene *scene = start(new_scene());
    int clients[PASS_ERRANDS];
    fill_errands(scene, clients);
    int slow = connect_to(scene);
    say(slow, "GET ");
    say_in_bytes(scene, slow, 'a', 2000);
    assert_in_range(count_blocks(scene), 1, 2);
    say_often(slow, "a", 55000); /* a long one, which lies in memory of its own */
    usleep(20000);
    say_in_bytes(scene, slow, 'a', 300);
    assert_in_range(count_blocks(scene), 1, 2);
    close(slow);
    empty_errands(scene, clients);
    stop(scene);
}

/* ---- who does not take its answers ---- */

#define ECHO_BYTES 50000u
#define ECHOES     1000u

static void *send_echoes(void *arg)
{
    int client = *(int *)arg;
    char *request = malloc(ECHO_BYTES + 64);
    int head = snprintf(request, 64, "*2\r\n$4\r\nECHO\r\n$%u\r\n", ECHO_BYTES);
    memset(request + head, 'e', ECHO_BYTES);
    memcpy(request + head + ECHO_BYTES, "\r\n", 2);
    size_t size = (size_t)head + ECHO_BYTES + 2;
    for (unsigned i = 0; i < ECHOES; i++) {
        for (size_t sent = 0; sent < size;)
            sent += (size_t)send(client, request + sent, size - sent, MSG_NOSIGNAL);
    }
    free(request);
    return NULL;
}

TEST(who_does_not_take_its_answers_is_not_read_from)
{
    struct scene *scene = start(new_scene());
    int client = connect_to(scene);
    pthread_t sender;
    pthread_create(&sender, NULL, send_echoes, &client);

    const struct resp_worker *worker = resp_door_worker(scene->resp, 0);
    uint64_t before;
    do { /* until nothing moves any more */
        before = gauge_read(&worker->stats.bytes_in);
        usleep(100000);
    } while (gauge_read(&worker->stats.bytes_in) != before || before == 0);
    assert_true(before < (uint64_t)ECHOES * ECHO_BYTES / 2);

    size_t expected = ECHOES * (ECHO_BYTES + 10);
    size_t got = 0;
    char bytes[65536];
    while (got < expected) {
        ssize_t more = recv(client, bytes, sizeof(bytes), 0);
        assert_true(more > 0);
        got += (size_t)more;
    }
    assert_int_equal(got, expected);
    pthread_join(sender, NULL);
    say(client, "PING\r\n");
    hear(client, "+PONG\r\n");
    close(client);
    stop(scene);
}

TEST(past_the_limit_of_its_output_a_client_is_closed)
{
    struct scene *scene = new_scene();
    scene->options.output_bytes_max = ECHO_BYTES / 2;
    start(scene);
    int client = connect_to(scene);
    char request[ECHO_BYTES + 64];
    int head = snprintf(request, 64, "*2\r\n$4\r\nECHO\r\n$%u\r\n", ECHO_BYTES);
    memset(request + head, 'e', ECHO_BYTES);
    memcpy(request + head + ECHO_BYTES, "\r\n", 3);
    say(client, request);
    hear_the_end(client);
    assert_int_equal(gauge_read(&resp_door_worker(scene->resp, 0)->stats.overflows), 1);
    stop(scene);
}

TEST(a_request_that_is_too_large_in_all_is_refused)
{
    struct scene *scene = new_scene();
    scene->options.query_bytes_max = 100000;
    start(scene);
    int client = connect_to(scene);
    say(client, "*3\r\n$4\r\nMGET\r\n$90000\r\n");
    char part[1000];
    memset(part, 'x', sizeof(part));
    for (int i = 0; i < 90; i++)
        assert_int_equal(send(client, part, sizeof(part), MSG_NOSIGNAL), sizeof(part));
    say(client, "\r\n$90000\r\n");
    hear(client, "-ERR Protocol error: too big request\r\n");
    hear_the_end(client);
    stop(scene);
}

/* ---- time ---- */

TEST(who_says_nothing_or_never_ends_a_request_is_closed)
{
    struct scene *scene = new_scene();
    scene->options.idle_timeout_s = 2;
    scene->options.partial_timeout_s = 1;
    start(scene);
    int idle = connect_to(scene);
    int slow = connect_to(scene);
    int listener = connect_to(scene);
    say(listener, "SUBSCRIBE a\r\n");
    hear(listener, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    for (int i = 0; i < 20; i++) { /* a byte now and then does not help it */
        if (send(slow, "P", 1, MSG_NOSIGNAL) != 1)
            break;
        usleep(150000);
    }
    char byte;
    assert_true(recv(slow, &byte, 1, 0) <= 0);
    close(slow);
    hear_the_end(idle);
    say(listener, "PING\r\n");
    hear(listener, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    assert_int_equal(gauge_read(&resp_door_worker(scene->resp, 0)->stats.timeouts), 2);
    close(listener);
    stop(scene);
}

TEST(after_some_wrong_passwords_each_costs_time)
{
    struct scene *scene = new_scene();
    scene->options.password = "sesame";
    start(scene);
    int client = connect_to(scene);
    struct env *env = env_system();
    uint64_t begin = env_monotonic_ns(env);
    for (int i = 0; i < 5; i++) {
        say(client, "AUTH x\r\n");
        hear(client, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    }
    assert_true(env_monotonic_ns(env) - begin > 100000000); /* it waited for a tick */
    say(client, "AUTH sesame\r\nPING\r\n");
    hear(client, "+OK\r\n+PONG\r\n");

    resp_set_password(scene->resp, "other");
    say(client, "PING\r\n");
    hear(client, "+PONG\r\n"); /* who is in stays in */
    int newcomer = connect_to(scene);
    say(newcomer, "AUTH sesame\r\nAUTH other\r\n");
    hear(newcomer, "-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n");
    close(newcomer);
    close(client);
    stop(scene);
}

/* ---- the end ---- */

TEST(draining_answers_what_is_under_way)
{
    struct scene *scene = start(new_scene());
    int waiting = connect_to(scene);
    int idle = connect_to(scene);
    say(waiting, "INCR a\r\n");
    say(idle, "PING\r\n");
    hear(idle, "+PONG\r\n");
    hear_nothing(waiting);
    resp_drain(scene->resp, 0, drained, scene);
    hear_the_end(idle);
    hear_nothing(waiting);
    assert_int_equal(atomic_load(&scene->drained), 0);
    log_reaches(scene, 1);
    hear(waiting, ":1\r\n");
    hear_the_end(waiting);
    stop(scene);
}

TEST(what_is_left_at_the_end_is_freed)
{
    struct scene *scene = start(new_scene());
    int waiting = connect_to(scene);
    int subscribed = connect_to(scene);
    int partial = connect_to(scene);
    say(waiting, "INCR a\r\n");
    say(subscribed, "SUBSCRIBE a b\r\nPSUBSCRIBE c*\r\n");
    hear(subscribed, "*3\r\n");
    say(partial, "*2\r\n$4\r\nINCR");
    hear_nothing(waiting);
    stop(scene);
    close(waiting);
    close(subscribed);
    close(partial);
}

TEST(options_that_make_no_sense_are_refused)
{
    struct scene *scene = new_scene();
    struct error error;
    scene->options.address = "nowhere";
    assert_null(resp_new(&scene->service, &scene->options, 1, &error));
    assert_int_equal(error.code, ERR_INVALID);
    scene->options.address = "127.0.0.1";
    scene->options.connections_max = 0;
    assert_null(resp_new(&scene->service, &scene->options, 1, &error));
    service_done(&scene->service);
    free(scene);
}

/* ---- transactions ---- */

static void hear_values(int client, int64_t from, int64_t to)
{
    for (int64_t value = from; value <= to; value++) {
        char expected[32];
        snprintf(expected, sizeof(expected), ":%lld\r\n", (long long)value);
        hear(client, expected);
    }
}

TEST(a_transaction_is_one_batch_where_it_can_be)
{
    struct scene *scene = start(new_scene());
    atomic_store(&scene->log.reached, UINT64_MAX);
    int client = connect_to(scene);
    char text[32 << 10];
    size_t size = 0;
    for (unsigned i = 0; i < 3500; i++, size += 7)
        memcpy(text + size, "GET a\r\n", 7);
    size += (size_t)snprintf(text + size, 16, "MULTI\r\n");
    for (unsigned i = 0; i < 400; i++, size += 8)
        memcpy(text + size, "INCR a\r\n", 8);
    snprintf(text + size, 32, "EXEC\r\nGET a\r\n");
    say(client, text);
    hear_often(client, "$1\r\n0\r\n", 3500);
    hear(client, "+OK\r\n");
    hear_often(client, "+QUEUED\r\n", 400);
    hear(client, "*400\r\n");
    hear_values(client, 1, 400);
    hear(client, "$3\r\n400\r\n");
    assert_int_equal(atomic_load(&scene->hot.writing), 1);
    close(client);
    stop(scene);
}

TEST(a_transaction_may_be_larger_than_a_batch)
{
    enum { MANY = 3 * LIMIT_BATCH };
    struct scene *scene = start(new_scene());
    atomic_store(&scene->log.reached, UINT64_MAX);
    int client = connect_to(scene);
    say(client, "MULTI\r\n");
    hear(client, "+OK\r\n");
    for (unsigned i = 0; i < 3; i++) {
        say_often(client, "INCR a\r\n", LIMIT_BATCH);
        hear_often(client, "+QUEUED\r\n", LIMIT_BATCH);
    }
    say(client, "EXEC\r\nPING\r\n");
    hear(client, "*12288\r\n");
    hear_values(client, 1, MANY);
    hear(client, "+PONG\r\n");
    close(client);
    stop(scene);
}

/* The echo in it waits for what is before it: in the middle, the rest is kept for later. */
TEST(a_transaction_may_take_longer_than_its_pass)
{
    struct scene *scene = start(new_scene());
    atomic_store(&scene->log.reached, UINT64_MAX);
    atomic_store(&scene->hot.holds, true);
    int one = connect_to(scene);
    int two = connect_to(scene);
    say(one, "MULTI\r\nINCR a\r\nECHO x\r\nFOO\r\nDISCARD\r\n"
             "MULTI\r\nINCR a\r\nECHO x\r\nINCR a\r\nEXEC\r\nMULTI\r\nINCR a\r\nEXEC\r\nPING\r\n");
    wait_until_held(scene, 1);
    say(two, "GET a\r\n");
    wait_until_held(scene, 2);
    say(one, "PING\r\n");
    finish_last(scene, 2);
    hear(two, "$1\r\n0\r\n"); /* another is not held up, and sees nothing of it yet */
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    hear(one,
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n-ERR unknown command 'FOO', with args beginning with: \r\n"
         "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n$1\r\nx\r\n:2\r\n"
         "+OK\r\n+QUEUED\r\n*1\r\n:3\r\n+PONG\r\n+PONG\r\n");
    close(one);
    close(two);
    stop(scene);
}

TEST(a_client_may_go_in_the_middle_of_a_transaction)
{
    struct scene *scene = start(new_scene());
    atomic_store(&scene->log.reached, UINT64_MAX);
    atomic_store(&scene->hot.holds, true);
    int client = connect_to(scene);
    say(client, "MULTI\r\nINCR a\r\nECHO x\r\nINCR a\r\nEXEC\r\n");
    wait_until_held(scene, 1);
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(client);
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    client = connect_to(scene);
    say(client, "PING\r\n");
    hear(client, "+PONG\r\n");
    close(client);
    stop(scene);
}

/* Each takes 21 bytes of the queue: "*2\r\n$4\r\nINCR\r\n$1\r\na\r\n" */
TEST(a_transaction_that_is_too_large_is_refused_as_a_whole)
{
    struct scene *scene = new_scene();
    scene->options.query_bytes_max = 21000;
    start(scene);
    atomic_store(&scene->log.reached, UINT64_MAX);
    int client = connect_to(scene);
    say(client, "MULTI\r\n");
    hear(client, "+OK\r\n");
    say_often(client, "INCR a\r\n", 1000);
    hear_often(client, "+QUEUED\r\n", 1000);
    say(client, "INCR a\r\nINCR a\r\nEXEC\r\nGET a\r\n");
    hear(client, "-ERR the transaction is too large: it has more than 21000 bytes\r\n+QUEUED\r\n"
                 "-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n0\r\n");
    close(client);
    stop(scene);
}

TEST(what_is_queued_at_the_end_is_freed)
{
    struct scene *scene = start(new_scene());
    int clients[2] = {connect_to(scene), connect_to(scene)};
    for (int i = 0; i < 2; i++) {
        say(clients[i], "MULTI\r\nINCR a\r\n");
        hear(clients[i], "+OK\r\n+QUEUED\r\n");
    }
    close(clients[0]);
    stop(scene);
    close(clients[1]);
}

RUN(cmocka_unit_test(a_transaction_is_one_batch_where_it_can_be),
    cmocka_unit_test(a_transaction_may_be_larger_than_a_batch),
    cmocka_unit_test(a_transaction_may_take_longer_than_its_pass),
    cmocka_unit_test(a_client_may_go_in_the_middle_of_a_transaction),
    cmocka_unit_test(a_transaction_that_is_too_large_is_refused_as_a_whole),
    cmocka_unit_test(what_is_queued_at_the_end_is_freed),
    cmocka_unit_test(a_request_that_comes_byte_by_byte_takes_no_memory_while_nothing_goes_out),
    cmocka_unit_test(what_cannot_be_read_is_refused_in_its_turn_also_when_the_batch_is_full),
    cmocka_unit_test(requests_that_wait_are_not_too_big_all_together),
    cmocka_unit_test(what_is_cold_holds_up_its_own_client_alone),
    cmocka_unit_test(what_a_client_has_asked_for_is_done_although_it_has_gone),
    cmocka_unit_test(a_client_that_has_stopped_talking_hears_what_was_cold),
    cmocka_unit_test(what_is_cold_at_the_end_is_freed),
    cmocka_unit_test(an_answer_leaves_when_the_log_has_reached_its_ticket),
    cmocka_unit_test(a_read_waits_for_nobody_elses_write),
    cmocka_unit_test(what_follows_a_write_waits_with_it),
    cmocka_unit_test(what_was_asked_is_answered_although_the_client_has_stopped_talking),
    cmocka_unit_test(a_client_may_go_while_its_answer_waits),
    cmocka_unit_test(a_batch_may_take_longer_than_its_pass),
    cmocka_unit_test(a_client_may_go_while_its_batch_is_under_way),
    cmocka_unit_test(a_batch_that_takes_long_holds_up_its_own_clients_only),
    cmocka_unit_test(who_does_not_take_its_answers_is_not_read_from),
    cmocka_unit_test(past_the_limit_of_its_output_a_client_is_closed),
    cmocka_unit_test(a_request_that_is_too_large_in_all_is_refused),
    cmocka_unit_test(who_says_nothing_or_never_ends_a_request_is_closed),
    cmocka_unit_test(after_some_wrong_passwords_each_costs_time),
    cmocka_unit_test(draining_answers_what_is_under_way),
    cmocka_unit_test(what_is_left_at_the_end_is_freed),
    cmocka_unit_test(options_that_make_no_sense_are_refused))
