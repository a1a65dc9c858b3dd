/* http_test.c - the door over a hot layer and a log that do what the test says: the
 * log moves on when it is told to, a batch is done when it is let go, and what is
 * cold comes when it is asked to. */
/* threads */
#include "door/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/env.h"
#include "base/message.h"
#include "door/http/http_door.h"
#include "door/http/http_worker.h"
#include "net/waker.h"
#include "unit/test.h"

/* ---- a hot layer that counts all its writes, whatever their ids ---- */

struct fake_hot {
    struct hot base;
    atomic_bool holds;            /* keep batches until they are let go of */
    atomic_bool cold;             /* ids that begin with "cold" are */
    atomic_int cold_count;        /* so often */
    struct batch *held[8];        /* the loop's thread */
    atomic_int held_count;        /* batches kept so far */
    int let_go_count;             /* of these */
    const struct gauge *timeouts; /* once there is one, batches can be collected; NULL: never */
    atomic_int pause;             /* 1: of the next batch, 2: it lasts, 0: it is over */
    struct timer *tick;           /* is stopped by the pause: it would wake who was forgotten */
    char turns[64];               /* first letters of the ids, one for each run of the same ones */
    int64_t value;
    uint64_t ticket;
};

static void note_turn(struct fake_hot *hot, char letter)
{
    size_t size = strlen(hot->turns);
    if (size + 1 < sizeof(hot->turns) && (size == 0 || hot->turns[size - 1] != letter))
        hot->turns[size] = letter;
}

static void run_op(struct fake_hot *hot, struct op *op)
{
    note_turn(hot, op->id.data[0]);
    if (atomic_load(&hot->cold) && op->id.size >= 4 && memcmp(op->id.data, "cold", 4) == 0) {
        op->code = ERR_COLD;
        atomic_fetch_add(&hot->cold_count, 1);
        return;
    }
    op->code = ERR_OK;
    if (op_is_write(op->kind)) {
        hot->value++;
        op->ticket = ++hot->ticket;
    }
    op->changed = true;
    op->value = number_of(hot->value);
    if (op->counts) {
        op->counts[0] = hot->value;
        op->counts[1] = 0;
    }
}

static void finish_batch(struct fake_hot *hot, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        run_op(hot, &batch->ops[i]);
    batch->done(batch);
}

static void fake_run(struct hot *base, struct batch *batch)
{
    struct fake_hot *hot = (struct fake_hot *)base;
    if (atomic_load(&hot->pause) == 1) {
        timer_stop(hot->tick);
        atomic_store(&hot->pause, 2);
        while (atomic_load(&hot->pause) == 2)
            usleep(100);
    }
    if (atomic_load(&hot->holds)) {
        int count = atomic_fetch_add(&hot->held_count, 1);
        assert_in_range(count, 0, 7);
        hot->held[count] = batch;
    } else {
        finish_batch(hot, batch);
    }
}

static void finish_held(struct fake_hot *hot)
{
    while (hot->let_go_count < atomic_load(&hot->held_count))
        finish_batch(hot, hot->held[hot->let_go_count++]);
}

static void fake_collect(struct hot *base, unsigned worker)
{
    struct fake_hot *hot = (struct fake_hot *)base;
    (void)worker;
    if (hot->timeouts && gauge_read(hot->timeouts) > 0)
        finish_held(hot);
}

static const struct hot_ops fake_hot_ops = {
    .name = "fake", .run = fake_run, .collect = fake_collect};

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
    struct http_options options;
    struct http *http;
    struct loop *loop;
    struct waker *let_go;
    struct waker *let_go_last;
    atomic_int let_go_lasts; /* so often */
    struct waker *measure;
    atomic_int blocks;  /* -1: it has not been looked at yet */
    size_t input_bytes; /* as of the last look, as are these */
    uint64_t client_bytes;
    int auth_holds;
    pthread_t thread;
    atomic_int drained;
};

static void let_go(void *arg)
{
    finish_held(&((struct scene *)arg)->hot);
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

static size_t input_bytes_max; /* of the next scene; 0 = the default */
static uint32_t head_timeout_s;

static void measure(void *arg);

static struct scene *start(bool is_safe)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    struct error error;
    message_set_level(MESSAGE_ERROR);
    scene->hot.base.ops = &fake_hot_ops;
    scene->log.base.ops = &fake_log_ops;
    atomic_store(&scene->log.reached, is_safe ? UINT64_MAX : 0);
    kinds_parse(&scene->kinds, SLICE("like,dislike"), NULL);
    service_init(&scene->service, env_system(), &scene->hot.base, &scene->log.base, &scene->kinds,
                 ACK_DURABLE);
    scene->options = (struct http_options)HTTP_OPTIONS_DEFAULT;
    scene->options.port = 0;
    if (input_bytes_max > 0)
        scene->options.input_bytes_max = input_bytes_max;
    if (head_timeout_s > 0)
        scene->options.head_timeout_s = head_timeout_s;
    scene->http = http_new(&scene->service, &scene->options, 1, &error);
    scene->loop = loop_new(&error);
    assert_non_null(scene->http);
    assert_int_equal(http_listen(scene->http, scene->loop, 0, &error), ERR_OK);
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

static void measure(void *arg)
{
    struct scene *scene = arg;
    size_t blocks = 0;
    const struct http_worker *worker = http_door_worker(scene->http, 0);
    for (size_t size = worker->pass.gathered.room.bytes; size > 0; blocks++)
        size -= size < ROOM_BLOCK_BYTES ? size : ROOM_BLOCK_BYTES;
    int auth_holds = 0;
    for (const struct http_client *client = worker->clients; client; client = client->next)
        auth_holds += (client->base.held & HTTP_HOLD_AUTH) != 0;
    scene->input_bytes = worker->input_bytes;
    scene->client_bytes = gauge_read(&worker->share.bytes);
    scene->auth_holds = auth_holds;
    atomic_store(&scene->blocks, (int)blocks);
}

/* Looks at the worker, on its thread. */
static void look(struct scene *scene)
{
    atomic_store(&scene->blocks, -1);
    waker_wake(scene->measure);
    while (atomic_load(&scene->blocks) < 0)
        usleep(100);
}

static void wait_until_gathered(struct scene *scene, size_t bytes)
{
    for (look(scene); scene->input_bytes < bytes; look(scene))
        usleep(100);
}

/* Clients are held after wrong passwords until the worker's tick lets go of them. */
static void wait_until_let_go(struct scene *scene)
{
    for (look(scene); scene->auth_holds > 0; look(scene))
        usleep(1000);
}

/* All that was sent has come in on the other side. */
static void wait_until_arrived(int client)
{
    int left;
    while (ioctl(client, SIOCOUTQ, &left) == 0 && left > 0)
        usleep(100);
}

static void stop(struct scene *scene)
{
    if (atomic_load(&scene->drained) == 0)
        loop_stop(scene->loop);
    pthread_join(scene->thread, NULL);
    waker_free(scene->let_go);
    waker_free(scene->let_go_last);
    waker_free(scene->measure);
    http_free(scene->http);
    loop_free(scene->loop);
    service_done(&scene->service);
    free(scene);
}

static void log_reaches(struct scene *scene, uint64_t ticket)
{
    atomic_store(&scene->log.reached, ticket);
    http_wake_all(scene->http);
}

static void arrive(struct scene *scene)
{
    atomic_store(&scene->hot.cold, false);
    atomic_fetch_add(&scene->hot.base.arrivals, 1);
    http_wake_all(scene->http);
}

static void wait_until_cold(struct scene *scene, int count)
{
    while (atomic_load(&scene->hot.cold_count) < count)
        usleep(100);
}

static int connect_to(const struct scene *scene)
{
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(http_port(scene->http))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    struct timeval patience = {.tv_sec = 5};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return client;
}

static void go_at_once(int client)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(client);
}

/* ---- talking ---- */

static void say(int client, const char *text)
{
    assert_int_equal(send(client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

#define END          " HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define ADD(id)      "POST /v1/counters/" id "/add" END
#define GET(id)      "GET /v1/counters/" id END
#define PUT_LIKE(id) "PUT /v1/items/" id "/reactions/ann" END
#define LIVE         "GET /livez" END

/* One answer: its status; its body is kept for hear_value(). */
static char body[4 << 20];

static int hear(int client)
{
    char head[2048];
    size_t size = 0;
    while (size < 4 || memcmp(head + size - 4, "\r\n\r\n", 4) != 0) {
        assert_int_equal(recv(client, head + size, 1, 0), 1);
        size++;
        assert_true(size < sizeof(head) - 1);
    }
    head[size] = '\0';
    const char *length = strstr(head, "Content-Length: ");
    size_t wanted = length ? strtoul(length + 16, NULL, 10) : 0;
    size_t got = 0;
    while (got < wanted) {
        ssize_t more = recv(client, body + got, wanted - got, 0);
        assert_true(more > 0);
        got += (size_t)more;
    }
    body[got] = '\0';
    return (int)strtol(head + 9, NULL, 10);
}

static void hear_value(int client, const char *value)
{
    assert_int_equal(hear(client), 200);
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "\"value\":\"%s\"", value);
    if (!strstr(body, wanted))
        print_message("not %s in %s\n", wanted, body);
    assert_non_null(strstr(body, wanted));
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
    struct scene *scene = start(false);
    int client = connect_to(scene);
    say(client, ADD("a") ADD("a"));
    hear_nothing(client);
    log_reaches(scene, 1);
    hear_nothing(client); /* both are of one pass, and the second is not there yet */
    log_reaches(scene, 2);
    hear_value(client, "1");
    hear_value(client, "2");
    close(client);
    stop(scene);
}

TEST(a_read_waits_for_nobody_elses_write)
{
    struct scene *scene = start(false);
    int writer = connect_to(scene);
    int reader = connect_to(scene);
    say(writer, PUT_LIKE("v"));
    hear_nothing(writer);
    say(reader, GET("a") LIVE);
    hear_value(reader, "1");
    assert_int_equal(hear(reader), 200);
    log_reaches(scene, 1);
    assert_int_equal(hear(writer), 200);
    close(writer);
    close(reader);
    stop(scene);
}

TEST(what_follows_a_write_waits_with_it)
{
    struct scene *scene = start(false);
    int client = connect_to(scene);
    say(client, ADD("a"));
    hear_nothing(client);
    say(client, GET("a") LIVE "GET /v1/nothing" END "not http\r\n");
    hear_nothing(client);
    log_reaches(scene, 1);
    hear_value(client, "1");
    hear_value(client, "1");
    assert_int_equal(hear(client), 200);
    assert_int_equal(hear(client), 404);
    assert_int_equal(hear(client), 400);
    hear_the_end(client);
    stop(scene);
}

TEST(what_was_asked_is_answered_although_the_client_has_stopped_talking)
{
    struct scene *scene = start(false);
    int client = connect_to(scene);
    say(client, ADD("a"));
    shutdown(client, SHUT_WR);
    hear_nothing(client);
    log_reaches(scene, 1);
    hear_value(client, "1");
    hear_the_end(client);
    stop(scene);
}

TEST(a_client_may_go_while_its_answer_waits)
{
    struct scene *scene = start(false);
    for (int i = 0; i < 20; i++) {
        int client = connect_to(scene);
        say(client, ADD("a") PUT_LIKE("v") LIVE);
        usleep(2000);
        if (i % 2 == 0)
            go_at_once(client);
        else
            close(client);
    }
    log_reaches(scene, UINT64_MAX);
    int client = connect_to(scene);
    say(client, LIVE);
    assert_int_equal(hear(client), 200);
    close(client);
    stop(scene);
}

/* ---- batches of lines ---- */

static void say_lines(int client, const char *line, size_t count)
{
    size_t size = strlen(line);
    char head[256];
    snprintf(head, sizeof(head),
             "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
             "Content-Length: %zu\r\n\r\n",
             size * count);
    say(client, head);
    char *lines = malloc(size * count);
    for (size_t i = 0; i < count; i++)
        memcpy(lines + i * size, line, size);
    for (size_t sent = 0; sent < size * count;) {
        ssize_t more = send(client, lines + sent, size * count - sent, MSG_NOSIGNAL);
        if (more <= 0)
            break;
        sent += (size_t)more;
    }
    free(lines);
}

static size_t count_lines(void)
{
    size_t lines = 0;
    for (const char *at = body; (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

TEST(many_lines_are_taken_in_stretches_and_answered_when_they_are_safe)
{
    struct scene *scene = start(false);
    int client = connect_to(scene);
    int other = connect_to(scene);
    say_lines(client, "{\"op\":\"add\",\"id\":\"a\"}\n", 10000);
    say(client, GET("a"));
    say(other, LIVE);
    assert_int_equal(hear(other), 200);
    hear_nothing(client);
    log_reaches(scene, 9999);
    hear_nothing(client);
    log_reaches(scene, 10000);
    assert_int_equal(hear(client), 200);
    assert_int_equal(count_lines(), 10000);
    assert_non_null(
        strstr(body, "{\"line\":10000,\"status\":200,\"changed\":true,\"value\":\"10000\""));
    hear_value(client, "10000");
    close(client);
    close(other);
    stop(scene);
}

TEST(a_client_may_go_while_its_lines_are_under_way)
{
    struct scene *scene = start(true);
    atomic_store(&scene->hot.holds, true);
    int client = connect_to(scene);
    say_lines(client, "{\"op\":\"add\",\"id\":\"a\"}\n", 10000);
    while (atomic_load(&scene->hot.held_count) == 0)
        usleep(100);
    go_at_once(client);
    usleep(10000);
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    client = connect_to(scene);
    say(client, LIVE);
    assert_int_equal(hear(client), 200);
    close(client);
    stop(scene);
}

TEST(bodies_that_are_not_whole_are_bounded_all_together)
{
    input_bytes_max = 1 << 20;
    struct scene *scene = start(true);
    input_bytes_max = 0;
    int clients[4];
    char *half = malloc(500000);
    memset(half, ' ', 500000);
    for (int i = 0; i < 4; i++) {
        clients[i] = connect_to(scene);
        say(clients[i], "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\n"
                        "Content-Type: application/x-ndjson\r\nContent-Length: 500001\r\n\r\n");
        for (size_t sent = 0; sent < 500000;) {
            ssize_t more = send(clients[i], half + sent, 500000 - sent, MSG_NOSIGNAL);
            if (more <= 0)
                break;
            sent += (size_t)more;
        }
        if (i < 2) {
            wait_until_gathered(scene, (size_t)(i + 1) * 500000);
        } else { /* two halves fill it */
            assert_int_equal(hear(clients[i]), 429);
            close(clients[i]);
        }
    }
    say(clients[0], "\n"); /* the first two go on, and make room for others */
    say(clients[1], "\n");
    assert_int_equal(hear(clients[0]), 200);
    assert_int_equal(hear(clients[1]), 200);
    say_lines(clients[0], "{\"op\":\"add\",\"id\":\"a\"}\n", 30000);
    assert_int_equal(hear(clients[0]), 200);
    close(clients[0]);
    close(clients[1]);
    free(half);
    stop(scene);
}

/* ---- a hot layer that does not have everything ---- */

static struct scene *start_cold(void)
{
    struct scene *scene = start(true);
    atomic_store(&scene->hot.cold, true);
    return scene;
}

TEST(what_is_cold_holds_up_its_own_client_alone)
{
    struct scene *scene = start_cold();
    int one = connect_to(scene);
    int two = connect_to(scene);
    say(one, ADD("a") ADD("cold%2F1") ADD("a") LIVE);
    wait_until_cold(scene, 1);
    hear_value(one, "1");
    say(one, "GET /v1/nothing" END);
    say(two, ADD("a") LIVE);
    hear_value(two, "3");
    assert_int_equal(hear(two), 200);
    hear_nothing(one);
    arrive(scene);
    hear_value(one, "4");
    assert_non_null(strstr(body, "\"id\":\"cold/1\""));
    hear_value(one, "2");
    assert_int_equal(hear(one), 200);
    assert_int_equal(hear(one), 404);
    close(one);
    close(two);
    stop(scene);
}

TEST(what_is_cold_at_the_end_is_freed)
{
    struct scene *scene = start_cold();
    int client = connect_to(scene);
    int other = connect_to(scene);
    say(client, ADD("cold") "GET /v1/items/cold/members" END LIVE);
    say_lines(other, "{\"op\":\"add\",\"id\":\"cold\",\"key\":\"k\"}\n", 5000);
    wait_until_cold(scene, 3);
    int listener = connect_to(scene);
    say(listener, "GET /v1/changes?ids=cold&match=*" END);
    wait_until_cold(scene, 4);
    stop(scene);
    close(client);
    close(other);
    close(listener);
}

TEST(what_a_client_has_asked_for_is_done_although_it_has_gone)
{
    struct scene *scene = start_cold();
    for (int i = 0; i < 10; i++) {
        int client = connect_to(scene);
        say(client, ADD("cold") ADD("cold"));
        wait_until_cold(scene, 2 * (i + 1));
        go_at_once(client);
    }
    arrive(scene);
    int client = connect_to(scene);
    say(client, ADD("cold"));
    hear_value(client, "21");
    close(client);
    stop(scene);
}

/* ---- a hot layer that takes its time ---- */

TEST(a_batch_may_take_longer_than_its_pass)
{
    struct scene *scene = start(true);
    atomic_store(&scene->hot.holds, true);
    int one = connect_to(scene);
    int two = connect_to(scene);
    say(one, ADD("a") LIVE);
    while (atomic_load(&scene->hot.held_count) == 0)
        usleep(100);
    say(two, ADD("a") LIVE); /* comes while the first is under way */
    say(one, "GET /v1/nothing" END "not http\r\n");
    hear_nothing(one);
    hear_nothing(two);
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    hear_value(one, "1");
    assert_int_equal(hear(one), 200);
    assert_int_equal(hear(one), 404);
    assert_int_equal(hear(one), 400);
    hear_the_end(one);
    hear_value(two, "2");
    assert_int_equal(hear(two), 200);
    close(two);
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

TEST(lines_are_answered_in_order_over_several_batches_and_hold_up_nobody)
{
    struct scene *scene = start(true);
    atomic_store(&scene->hot.holds, true);
    int client = connect_to(scene);
    int other = connect_to(scene);
    say_lines(client, "{\"op\":\"add\",\"id\":\"a\"}\n", 5000);
    wait_until_held(scene, 1);
    say(other, ADD("a"));
    finish_last(scene, 2);
    hear_value(other, "1");
    for (int i = 0; i < 3; i++)
        finish_last(scene, 1);
    assert_int_equal(hear(client), 200);
    assert_int_equal(count_lines(), 5000);
    const char *at = body;
    for (int i = 1; i <= 5000; i++) {
        char wanted[80];
        snprintf(wanted, sizeof(wanted),
                 "{\"line\":%d,\"status\":200,\"changed\":true,\"value\":\"%d\"", i, i + 1);
        assert_memory_equal(at, wanted, strlen(wanted));
        at = strchr(at, '\n') + 1;
    }
    close(client);
    close(other);
    stop(scene);
}

TEST(lines_that_go_on_are_charged_with_their_text_and_their_answers)
{
    static const char line[] = "{\"op\":\"add\",\"id\":\"a\"}\n";
    static const char answer[] = "{\"line\":1,\"status\":200,\"changed\":true,\"value\":\"1\"";
    struct scene *scene = start(true);
    atomic_store(&scene->hot.holds, true);
    int client = connect_to(scene);
    say_lines(client, line, 6000);
    finish_last(scene, 1);
    wait_until_held(scene, 1);
    look(scene);
    assert_true(scene->client_bytes > 3000 * (sizeof(line) - 1) + 2048 * (sizeof(answer) - 1));
    for (int i = 0; i < 2; i++)
        finish_last(scene, 1);
    assert_int_equal(hear(client), 200);
    assert_int_equal(count_lines(), 6000);
    close(client);
    for (look(scene); scene->client_bytes > 0; look(scene))
        usleep(100);
    stop(scene);
}

/* Lines go on in a pass whose batch others have filled to the last op. */
TEST(lines_for_which_there_was_no_room_go_on_in_the_next_pass)
{
    struct scene *scene = start(true);
    scene->hot.tick = http_door_worker(scene->http, 0)->tick;
    int client = connect_to(scene);
    int others[5];
    for (int i = 0; i < 5; i++) {
        others[i] = connect_to(scene);
        say(others[i], LIVE);
        assert_int_equal(hear(others[i]), 200);
    }
    atomic_store(&scene->hot.pause, 1);
    say_lines(client, "{\"op\":\"add\",\"id\":\"a\"}\n", 2100);
    while (atomic_load(&scene->hot.pause) != 2)
        usleep(100);

    char many[4096] = "GET /v1/counters?ids=a";
    size_t size = strlen(many);
    for (int i = 1; i < 1000; i++, size += 2)
        memcpy(many + size, ",a", 2);
    memcpy(many + size, END, sizeof(END));
    for (int i = 0; i < 4; i++)
        say(others[i], many);
    unsigned singles = LIMIT_BATCH - PASS_OPS_EXTRA - 4 * 1000;
    char few[8192];
    size = 0;
    for (unsigned i = 0; i < singles; i++)
        size += (size_t)snprintf(few + size, sizeof(few) - size, "%s", GET("a"));
    say(others[4], few);
    for (int i = 0; i < 5; i++)
        wait_until_arrived(others[i]);
    atomic_store(&scene->hot.pause, 0);
    assert_int_equal(hear(client), 200);
    assert_int_equal(count_lines(), 2100);
    for (unsigned i = 0; i < singles; i++)
        assert_int_equal(hear(others[4]), 200);
    close(client);
    for (int i = 0; i < 5; i++)
        close(others[i]);
    stop(scene);
}

/* The one that has waited longest goes on first, so that all of them get the same share. */
TEST(batches_of_lines_go_on_in_the_order_in_which_they_wait)
{
    struct scene *scene = start(true);
    scene->hot.tick = http_door_worker(scene->http, 0)->tick;
    int clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = connect_to(scene);
    atomic_store(&scene->hot.pause, 1);
    say_lines(clients[0], "{\"op\":\"add\",\"id\":\"a\"}\n", 8000);
    while (atomic_load(&scene->hot.pause) != 2)
        usleep(100);
    say_lines(clients[1], "{\"op\":\"add\",\"id\":\"b\"}\n", 8000);
    say_lines(clients[2], "{\"op\":\"add\",\"id\":\"c\"}\n", 8000);
    atomic_store(&scene->hot.pause, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hear(clients[i]), 200);
        assert_int_equal(count_lines(), 8000);
    }
    /* The first to come is the first to be through, since all are as long. */
    assert_true(strrchr(scene->hot.turns, 'a') < strrchr(scene->hot.turns, 'b'));
    assert_true(strrchr(scene->hot.turns, 'a') < strrchr(scene->hot.turns, 'c'));
    for (int i = 0; i < 3; i++)
        close(clients[i]);
    stop(scene);
}

static void hear_text(int client, const char *text)
{
    size_t size = 0;
    body[0] = '\0';
    while (!strstr(body, text)) {
        ssize_t more = recv(client, body + size, sizeof(body) - 1 - size, 0);
        assert_true(more > 0);
        size += (size_t)more;
        body[size] = '\0';
    }
}

/* A change is read and told after the beginning of the stream went out, and before that is back. */
TEST(who_listens_misses_nothing_while_the_beginning_is_out)
{
    struct scene *scene = start(true);
    atomic_store(&scene->hot.holds, true);
    int listener = connect_to(scene);
    int writer = connect_to(scene);
    say(listener, "GET /v1/changes?ids=a" END);
    wait_until_held(scene, 1);
    say(writer, ADD("a"));
    finish_last(scene, 2);
    hear_value(writer, "1");
    finish_last(scene, 2); /* the read of what has changed */
    hear_nothing(listener);
    finish_last(scene, 1);
    hear_text(listener, "id: 1\n");
    finish_last(scene, 1); /* is asked for once more */
    hear_text(listener, "id: 2\n");
    close(listener);
    close(writer);
    stop(scene);
}

/* A change is read before the stream has begun, and is back after it. */
TEST(who_listens_is_not_told_what_was_read_before_the_beginning)
{
    struct scene *scene = start(true);
    int early = connect_to(scene);
    int late = connect_to(scene);
    int writer = connect_to(scene);
    say(early, "GET /v1/changes?ids=a" END);
    hear_text(early, "id: 1\n");
    say(writer, ADD("b")); /* nobody is told */
    hear_value(writer, "1");
    atomic_store(&scene->hot.holds, true);
    say(writer, ADD("a"));
    finish_last(scene, 1);
    hear_value(writer, "2");
    wait_until_held(scene, 1); /* the read of what has changed */
    say(late, "GET /v1/changes?ids=a" END);
    finish_last(scene, 2);
    hear_text(late, "id: 1\n");
    finish_last(scene, 1);
    hear_text(early, "id: 2\n");
    hear_nothing(late);
    close(early);
    close(late);
    close(writer);
    stop(scene);
}

/* A large body that is to be refused while earlier requests of its client are out: the client was
 * held after wrong passwords, and others have sent too much since. */
TEST(a_body_that_is_too_much_is_refused_in_its_turn)
{
    input_bytes_max = 1 << 20;
    struct scene *scene = start(true);
    input_bytes_max = 0;
    http_set_password(scene->http, "secret");
    atomic_store(&scene->hot.holds, true);
    static char text[65536];
    size_t size = 0;
    for (int i = 0; i < 4; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size,
                                 "GET /v1/counters/a HTTP/1.1\r\nHost: localhost\r\n"
                                 "Authorization: Bearer wrong\r\n\r\n");
    size +=
        (size_t)snprintf(text + size, sizeof(text) - size,
                         "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\n"
                         "Authorization: Bearer secret\r\n"
                         "Content-Type: application/x-ndjson\r\nContent-Length: 500000\r\n\r\n");
    memset(text + size, ' ', 60000 - size);
    text[60000] = '\0';
    int client = connect_to(scene);
    say(client, text);
    wait_until_held(scene, 1);

    int other = connect_to(scene);
    say(other, "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
               "Content-Type: application/x-ndjson\r\nContent-Length: 1100000\r\n\r\n");
    memset(text, ' ', 60000);
    for (int i = 0; i < 18 && send(other, text, 60000, MSG_NOSIGNAL) == 60000; i++)
        usleep(1000);
    wait_until_held(scene, 2); /* it is refused itself, which is out as well */
    wait_until_let_go(scene);  /* the first */
    assert_int_equal(atomic_load(&scene->hot.held_count), 2);
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    for (int i = 0; i < 4; i++)
        assert_int_equal(hear(client), 401);
    go_at_once(client);
    go_at_once(other);
    stop(scene);
}

/* Nothing can go out any more; what is asked now is gathered. */
static void fill_errands(struct scene *scene, int *clients)
{
    atomic_store(&scene->hot.holds, true);
    for (unsigned i = 0; i < PASS_ERRANDS; i++) {
        clients[i] = connect_to(scene);
        say(clients[i], GET("a"));
        if (i < PASS_ERRANDS - 1)
            wait_until_held(scene, (int)i + 1);
    }
}

static void empty_errands(struct scene *scene, const int *clients)
{
    atomic_store(&scene->hot.holds, false);
    waker_wake(scene->let_go);
    for (unsigned i = 0; i < PASS_ERRANDS; i++) {
        hear_value(clients[i], "0");
        close(clients[i]);
    }
}

/* Blocks of memory that what was read and gathered lies in. */
static int count_blocks(struct scene *scene)
{
    look(scene);
    return atomic_load(&scene->blocks);
}

static void say_in_bytes(struct scene *scene, int client, char byte, unsigned count)
{
    const struct gauge *bytes_in = &http_door_worker(scene->http, 0)->stats.bytes_in;
    uint64_t before = gauge_read(bytes_in);
    for (unsigned i = 1; i <= count; i++) {
        assert_int_equal(send(client, &byte, 1, MSG_NOSIGNAL), 1);
        while (gauge_read(bytes_in) < before + i)
            usleep(10);
    }
}

TEST(a_request_that_comes_byte_by_byte_takes_no_memory_while_nothing_goes_out)
{
    struct scene *scene = start(true);
    int clients[PASS_ERRANDS];
    fill_errands(scene, clients);
    int slow = connect_to(scene);
    say(slow, "GET /");
    say_in_bytes(scene, slow, 'a', 2000);
    assert_in_range(count_blocks(scene), 1, 2);

    close(slow);
    empty_errands(scene, clients);
    stop(scene);
}

/* In one tick: the younger of two clients is too slow, and the other one has its last answer. */
TEST(who_is_answered_and_closed_while_another_times_out_is_gone)
{
    head_timeout_s = 1;
    struct scene *scene = start(true);
    head_timeout_s = 0;
    scene->hot.timeouts = &http_door_worker(scene->http, 0)->stats.timeouts;
    atomic_store(&scene->hot.holds, true);
    int last = connect_to(scene);
    say(last, "GET /v1/counters/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    while (atomic_load(&scene->hot.held_count) == 0)
        usleep(100);
    int slow = connect_to(scene);
    say(slow, "GET /live");
    assert_int_equal(hear(slow), 408);
    hear_the_end(slow);
    hear_value(last, "0");
    hear_the_end(last);
    stop(scene);
}

/* ---- keys ---- */

static enum err claim(struct scene *scene, const char *what, uint64_t *ret_number, bool *ret_is_new)
{
    struct http_claim claim = http_claim_of(SLICE("key"), HTTP_VERB_REDRIVE, slice_of(what));
    bool repeated;
    enum err err = http_door_claim(scene->http, &claim, ret_number, &repeated);
    *ret_is_new = !repeated;
    return err;
}

static void settle(struct scene *scene, const char *what, bool is_done, uint64_t number)
{
    struct http_claim claim = http_claim_of(SLICE("key"), HTTP_VERB_REDRIVE, slice_of(what));
    http_door_settle(scene->http, &claim, is_done, number);
}

TEST(a_key_is_for_one_call_and_one_at_a_time)
{
    struct scene *scene = start(true);
    uint64_t number = 0;
    bool is_new;
    assert_int_equal(claim(scene, "a", &number, &is_new), ERR_OK);
    assert_true(is_new);
    assert_int_equal(claim(scene, "a", &number, &is_new), ERR_BUSY);
    assert_int_equal(claim(scene, "b", &number, &is_new), ERR_KEY_REUSED);
    settle(scene, "a", true, 7);
    assert_int_equal(claim(scene, "a", &number, &is_new), ERR_OK);
    assert_false(is_new);
    assert_int_equal(number, 7);
    assert_int_equal(claim(scene, "b", &number, &is_new), ERR_KEY_REUSED);
    stop(scene);
}

TEST(a_key_is_free_again_when_nothing_was_done)
{
    struct scene *scene = start(true);
    uint64_t number = 0;
    bool is_new;
    assert_int_equal(claim(scene, "a", &number, &is_new), ERR_OK);
    settle(scene, "a", false, 0);
    assert_int_equal(claim(scene, "b", &number, &is_new), ERR_OK);
    assert_true(is_new);
    stop(scene);
}

/* ---- the end ---- */

TEST(draining_answers_what_has_come_in_and_closes_all)
{
    struct scene *scene = start(false);
    int busy = connect_to(scene);
    int idle = connect_to(scene);
    int listener = connect_to(scene);
    say(idle, LIVE);
    assert_int_equal(hear(idle), 200);
    say(listener, "GET /v1/changes?match=*" END);
    assert_int_equal(hear(listener), 200);
    say(busy, ADD("a") ADD("a"));
    hear_nothing(busy);
    http_drain(scene->http, 0, drained, scene);
    hear_the_end(idle);
    hear_nothing(busy);
    log_reaches(scene, 2);
    hear_value(busy, "1");
    hear_value(busy, "2");
    hear_the_end(busy);
    close(listener);
    while (atomic_load(&scene->drained) == 0)
        usleep(100);
    stop(scene);
}

RUN(cmocka_unit_test(a_request_that_comes_byte_by_byte_takes_no_memory_while_nothing_goes_out),
    cmocka_unit_test(an_answer_leaves_when_the_log_has_reached_its_ticket),
    cmocka_unit_test(a_read_waits_for_nobody_elses_write),
    cmocka_unit_test(what_follows_a_write_waits_with_it),
    cmocka_unit_test(what_was_asked_is_answered_although_the_client_has_stopped_talking),
    cmocka_unit_test(a_client_may_go_while_its_answer_waits),
    cmocka_unit_test(many_lines_are_taken_in_stretches_and_answered_when_they_are_safe),
    cmocka_unit_test(a_client_may_go_while_its_lines_are_under_way),
    cmocka_unit_test(bodies_that_are_not_whole_are_bounded_all_together),
    cmocka_unit_test(what_is_cold_holds_up_its_own_client_alone),
    cmocka_unit_test(what_is_cold_at_the_end_is_freed),
    cmocka_unit_test(what_a_client_has_asked_for_is_done_although_it_has_gone),
    cmocka_unit_test(a_batch_may_take_longer_than_its_pass),
    cmocka_unit_test(lines_are_answered_in_order_over_several_batches_and_hold_up_nobody),
    cmocka_unit_test(a_body_that_is_too_much_is_refused_in_its_turn),
    cmocka_unit_test(lines_that_go_on_are_charged_with_their_text_and_their_answers),
    cmocka_unit_test(lines_for_which_there_was_no_room_go_on_in_the_next_pass),
    cmocka_unit_test(batches_of_lines_go_on_in_the_order_in_which_they_wait),
    cmocka_unit_test(who_listens_misses_nothing_while_the_beginning_is_out),
    cmocka_unit_test(who_listens_is_not_told_what_was_read_before_the_beginning),
    cmocka_unit_test(who_is_answered_and_closed_while_another_times_out_is_gone),
    cmocka_unit_test(a_key_is_for_one_call_and_one_at_a_time),
    cmocka_unit_test(a_key_is_free_again_when_nothing_was_done),
    cmocka_unit_test(draining_answers_what_has_come_in_and_closes_all))
