#include "door/pass/fanout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "door/pass/client_limits.h"
#include "door/pass/outbound.h"
#include "door/pass/pass.h"
#include "unit/test.h"

#define CLIENTS 5

/* Somebody who listens, what is to arrive there, and what has. */
struct listener {
    struct pass_client base;
    struct fanout_queue queue;
    struct outbound out;
    struct buffer own;
    struct conn *conn;
    int other;
    struct buffer expected;
    struct buffer heard;
    uint64_t number;
};

struct scene {
    struct loop *loop;
    struct pass pass;
    struct client_limits limits;
    struct client_share share;
    struct fanout fanout;
    struct fanout_stream stream;
    struct listener clients[CLIENTS];
    uint64_t seed;
};

static size_t prefix(uint64_t number, char to[FANOUT_PREFIX_BYTES])
{
    return (size_t)snprintf(to, FANOUT_PREFIX_BYTES, "%llu:", (unsigned long long)number);
}

static void nothing(void *arg, int what)
{
    (void)arg;
    (void)what;
}

static struct scene *start(size_t bytes_max)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    scene->loop = loop_new(NULL);
    client_limits_init(&scene->limits, 10, 0, 7);
    client_share_init(&scene->share, &scene->limits, &scene->pass);
    fanout_init(&scene->fanout, &scene->share, bytes_max, prefix);
    for (int i = 0; i < CLIENTS; i++) {
        struct listener *client = &scene->clients[i];
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        client->conn = conn_new(scene->loop, ends[0], nothing, client, NULL);
        client->other = ends[1];
        client->base.pass = &scene->pass;
        client->queue.client = client;
        client->out.shared = &client->queue;
        buffer_init(&client->own, 1 << 20);
        buffer_init(&client->expected, 1 << 28);
        buffer_init(&client->heard, 1 << 28);
    }
    return scene;
}

static void stop(struct scene *scene)
{
    fanout_stream_done(&scene->fanout, &scene->stream);
    for (int i = 0; i < CLIENTS; i++) {
        struct listener *client = &scene->clients[i];
        fanout_queue_done(&client->queue);
        conn_close(client->conn);
        close(client->other);
        buffer_done(&client->own);
        buffer_done(&client->expected);
        buffer_done(&client->heard);
    }
    fanout_done(&scene->fanout);
    assert_int_equal(gauge_read(&scene->share.bytes), 0);
    client_share_done(&scene->share);
    client_limits_done(&scene->limits);
    loop_free(scene->loop);
    free(scene);
}

static uint64_t next(struct scene *scene, uint64_t below)
{
    scene->seed = scene->seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (scene->seed >> 33) % below;
}

static void publish(struct scene *scene)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct listener *client = &scene->clients[i];
        fanout_publish(&scene->fanout, &scene->stream, &client->queue,
                       outbound_end(&client->out, &client->own));
    }
    fanout_published(&scene->fanout, &scene->stream);
}

static bool add(struct scene *scene, struct slice message)
{
    if (!fanout_fits(&scene->stream, message.size))
        publish(scene);
    if (!fanout_add(&scene->fanout, &scene->stream, message))
        return false;
    for (int i = 0; i < CLIENTS; i++) {
        struct listener *client = &scene->clients[i];
        char number[FANOUT_PREFIX_BYTES];
        size_t size = prefix(++client->number, number);
        assert_int_equal(buffer_append(&client->expected, number, size), ERR_OK);
        assert_int_equal(buffer_append_slice(&client->expected, message), ERR_OK);
    }
    return true;
}

static void say_own(struct listener *client, const char *text)
{
    assert_int_equal(buffer_append_slice(&client->own, slice_of(text)), ERR_OK);
    assert_int_equal(buffer_append_slice(&client->expected, slice_of(text)), ERR_OK);
}

static void send_some(struct scene *scene, struct listener *client)
{
    fanout_new_pass(&scene->fanout);
    client->out.is_full = false;
    uint64_t end = outbound_end(&client->out, &client->own);
    assert_true(outbound_send(&client->out, &client->own, end, client->conn) >= 0);
}

static void hear_some(struct listener *client, size_t most)
{
    static char bytes[1 << 16];
    ssize_t got = read(client->other, bytes, most < sizeof(bytes) ? most : sizeof(bytes));
    if (got > 0)
        assert_int_equal(buffer_append(&client->heard, bytes, (size_t)got), ERR_OK);
}

static void assert_all_is_heard(struct scene *scene)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct listener *client = &scene->clients[i];
        while (outbound_waiting(&client->out, &client->own) > 0) {
            send_some(scene, client);
            hear_some(client, SIZE_MAX);
        }
        while (client->heard.size < client->expected.size)
            hear_some(client, SIZE_MAX);
        assert_int_equal(client->heard.size, client->expected.size);
        assert_memory_equal(client->heard.data, client->expected.data, client->heard.size);
    }
}

TEST(everybody_hears_all_messages_and_their_own_answers_in_order)
{
    static char text[200000];
    memset(text, 'x', sizeof(text));
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct scene *scene = start(256u << 20);
        scene->seed = seed;
        for (int step = 0; step < 600; step++) {
            struct listener *client = &scene->clients[next(scene, CLIENTS)];
            switch (next(scene, 6)) {
            case 0:
                publish(scene); /* own answers come behind what was published */
                say_own(client, "an answer of its own;");
                break;
            case 1:
                send_some(scene, client);
                break;
            case 2:
                hear_some(client, 1 + next(scene, 40000));
                break;
            case 3:
                publish(scene);
                break;
            default:
                assert_true(
                    add(scene, (struct slice){text, next(scene, 20) == 0 ? next(scene, sizeof(text))
                                                                         : next(scene, 300)}));
            }
        }
        publish(scene);
        assert_all_is_heard(scene);
        stop(scene);
    }
}

TEST(memory_is_that_of_what_was_not_read_whoever_has_not_read_it)
{
    struct scene *scene = start(256u << 20);
    char text[1000];
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 1000; i++)
        assert_true(add(scene, (struct slice){text, sizeof(text)}));
    publish(scene);
    assert_in_range(scene->fanout.bytes, 1000 * 1000, 1000 * 1000 + 200000);
    for (int i = 0; i < CLIENTS; i++)
        assert_true(fanout_queue_bytes(&scene->clients[i].queue) < 2000);
    assert_all_is_heard(scene);
    assert_true(scene->fanout.bytes < 4096);
    stop(scene);
}

TEST(past_the_limit_those_that_lag_are_dropped_and_the_others_go_on)
{
    struct scene *scene = start(8u << 20);
    char text[1000];
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 20000; i++) {
        assert_true(add(scene, (struct slice){text, sizeof(text)}));
        if (i % 50 != 0)
            continue;
        publish(scene);
        for (int n = 0; n < 2; n++) { /* two of them read */
            send_some(scene, &scene->clients[n]);
            hear_some(&scene->clients[n], SIZE_MAX);
        }
        assert_true(scene->fanout.bytes <= 8u << 20);
    }
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(scene->clients[i].queue.is_dropped, i >= 2);
    assert_true(scene->clients[4].base.touched);
    for (int i = 2; i < CLIENTS; i++)
        scene->clients[i].expected.size = scene->clients[i].heard.size = 0;
    publish(scene);
    for (int n = 0; n < 2; n++)
        assert_false(scene->clients[n].queue.is_dropped);
    assert_all_is_heard(scene);
    stop(scene);
}

TEST(a_pass_sends_to_so_many_and_leaves_the_others_for_the_next)
{
    struct scene *scene = start(8u << 20);
    assert_true(add(scene, SLICE("message")));
    publish(scene);
    fanout_new_pass(&scene->fanout);
    scene->fanout.sends = FANOUT_SENDS - 1;
    int served = 0;
    for (int i = 0; i < CLIENTS; i++) {
        struct listener *client = &scene->clients[i];
        if (outbound_send(&client->out, &client->own, 0, client->conn) > 0)
            served++;
    }
    assert_int_equal(served, 1);
    assert_all_is_heard(scene);
    stop(scene);
}

/* Who waits for the end of a pass of 2,000 who read nothing waits for so many writes of so many
 * bytes, and for none of those who are known to take nothing. */
TEST(a_pass_of_thousands_who_read_nothing_is_bounded)
{
    enum { CROWD = 2000, MESSAGES = 4000 };
    static struct listener crowd[CROWD];
    struct scene *scene = start(64u << 20);
    struct conn *deaf = scene->clients[0].conn; /* its other end is never read */
    memset(crowd, 0, sizeof(crowd));
    for (int i = 0; i < CROWD; i++) {
        crowd[i].base.pass = &scene->pass;
        crowd[i].queue.client = &crowd[i];
        crowd[i].out.shared = &crowd[i].queue;
    }
    char text[60];
    memset(text, 'x', sizeof(text));
    for (int n = 0; n < MESSAGES; n++) {
        bool is_last = n == MESSAGES - 1;
        bool fits = fanout_fits(&scene->stream, sizeof(text));
        if (!fits) {
            for (int i = 0; i < CROWD; i++)
                fanout_publish(&scene->fanout, &scene->stream, &crowd[i].queue, 0);
            fanout_published(&scene->fanout, &scene->stream);
        }
        assert_true(fanout_add(&scene->fanout, &scene->stream, (struct slice){text, sizeof(text)}));
        for (int i = 0; is_last && i < CROWD; i++)
            fanout_publish(&scene->fanout, &scene->stream, &crowd[i].queue, 0);
    }
    fanout_published(&scene->fanout, &scene->stream);
    size_t blocks = scene->fanout.bytes / FANOUT_BLOCK_BYTES + 1;
    assert_true(blocks < 8);
    for (int i = 0; i < CROWD; i++)
        assert_in_range(crowd[i].queue.count, 1, blocks);

    /* All are tried once, 32 in a pass; then nobody is, until the connection takes something. */
    unsigned passes = 0;
    size_t tried = 0;
    do {
        fanout_new_pass(&scene->fanout);
        size_t before = scene->fanout.sends;
        for (int i = 0; i < CROWD; i++) {
            if (outbound_waiting(&crowd[i].out, &crowd[i].own) > 0 && !crowd[i].out.is_full)
                (void)outbound_send(&crowd[i].out, &crowd[i].own, 0, deaf);
        }
        tried = scene->fanout.sends - before;
        assert_in_range(tried, 0, FANOUT_SENDS);
        passes++;
    } while (tried > 0 && passes < 2 * CROWD);
    assert_in_range(passes, CROWD / FANOUT_SENDS, CROWD / FANOUT_SENDS + 64);
    for (int i = 0; i < CROWD; i++)
        fanout_queue_done(&crowd[i].queue);
    stop(scene);
}

/* The first client reads all the while; there are so many streams that a little for each of them
 * would be more than the limit. */
TEST(streams_whose_messages_were_sent_cost_nobody_the_connection)
{
    enum { STREAMS = 10000 };
    struct scene *scene = start(4 << 20);
    struct listener *client = &scene->clients[0];
    struct fanout_stream *streams = calloc(STREAMS, sizeof(*streams));
    for (int i = 0; i < STREAMS; i++) {
        assert_true(fanout_add(&scene->fanout, &streams[i], SLICE("news")));
        fanout_publish(&scene->fanout, &streams[i], &client->queue, 0);
        fanout_published(&scene->fanout, &streams[i]);
        send_some(scene, client);
        hear_some(client, SIZE_MAX);
        assert_false(client->queue.is_dropped);
        assert_int_equal(scene->fanout.bytes, 0);
    }
    for (int i = 0; i < STREAMS; i++)
        fanout_stream_done(&scene->fanout, &streams[i]);
    free(streams);
    stop(scene);
}

/* All have nearly as much to read, but one of them has had it for long. */
TEST(past_the_limit_who_lags_is_dropped_and_not_who_has_much_to_read)
{
    static char text[30 << 10]; /* two of them in a block */
    struct slice message = {text, sizeof(text)};
    struct scene *scene = start(4 << 20);
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 32; i++) { /* 1 MiB */
        assert_true(add(scene, message));
        publish(scene);
        for (int n = 1; n < CLIENTS; n++) {
            while (scene->clients[n].queue.count > 0) {
                send_some(scene, &scene->clients[n]);
                hear_some(&scene->clients[n], SIZE_MAX);
            }
        }
    }
    for (int tick = 0; tick < 2; tick++) {
        for (int n = 0; n < CLIENTS; n++)
            fanout_queue_tick(&scene->clients[n].queue);
    }
    assert_in_range(fanout_queue_lag(&scene->clients[0].queue), 900 << 10, 2 << 20);
    assert_int_equal(fanout_queue_lag(&scene->clients[1].queue), 0);
    for (int i = 0; i < 110; i++) { /* nearly 3.5 MiB */
        assert_true(add(scene, message));
        publish(scene);
    }
    assert_true(scene->clients[0].queue.is_dropped);
    for (int n = 1; n < CLIENTS; n++)
        assert_false(scene->clients[n].queue.is_dropped);
    stop(scene);
}

RUN(cmocka_unit_test(a_pass_of_thousands_who_read_nothing_is_bounded),
    cmocka_unit_test(streams_whose_messages_were_sent_cost_nobody_the_connection),
    cmocka_unit_test(past_the_limit_who_lags_is_dropped_and_not_who_has_much_to_read),
    cmocka_unit_test(everybody_hears_all_messages_and_their_own_answers_in_order),
    cmocka_unit_test(memory_is_that_of_what_was_not_read_whoever_has_not_read_it),
    cmocka_unit_test(past_the_limit_those_that_lag_are_dropped_and_the_others_go_on),
    cmocka_unit_test(a_pass_sends_to_so_many_and_leaves_the_others_for_the_next))
