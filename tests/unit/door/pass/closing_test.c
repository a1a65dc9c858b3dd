#include "door/pass/closing.h"

#include <sys/socket.h>
#include <unistd.h>

#include "unit/test.h"

static void nothing(void *arg, int what)
{
    (void)arg;
    (void)what;
}

struct scene {
    struct loop *loop;
    struct conn *conn;
    int other;
    struct closing closing;
};

/* A connection that takes nothing more. */
static void start(struct scene *scene)
{
    int ends[2];
    *scene = (struct scene){.loop = loop_new(NULL)};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    scene->conn = conn_new(scene->loop, ends[0], nothing, NULL, NULL);
    scene->other = ends[1];
    char bytes[4096] = "";
    while (conn_write(scene->conn, (struct slice){bytes, sizeof(bytes)}) > 0)
        continue;
    closing_progress(&scene->closing, 1000);
}

static void stop(struct scene *scene)
{
    conn_close(scene->conn);
    close(scene->other);
    loop_free(scene->loop);
}

static bool is_stuck(struct scene *scene, size_t ready, uint64_t now_ms)
{
    return closing_is_stuck(&scene->closing, scene->conn, ready, now_ms);
}

TEST(who_reads_nothing_for_ten_seconds_is_stuck)
{
    struct scene scene;
    start(&scene);
    assert_false(is_stuck(&scene, 100, 1000));
    assert_false(is_stuck(&scene, 100, 1000 + CLOSING_SILENT_MS));
    assert_true(is_stuck(&scene, 100, 1001 + CLOSING_SILENT_MS));
    stop(&scene);
}

TEST(who_reads_a_little_now_and_then_is_not_although_the_connection_takes_nothing)
{
    struct scene scene;
    start(&scene);
    char bytes[5000];
    uint64_t now_ms = 1000;
    for (int i = 0; i < 10; i++) {
        assert_false(is_stuck(&scene, 100, now_ms));
        assert_true(read(scene.other, bytes, sizeof(bytes)) > 0);
        now_ms += CLOSING_SILENT_MS;
        assert_false(is_stuck(&scene, 100, now_ms));
    }
    assert_true(is_stuck(&scene, 100, now_ms + CLOSING_SILENT_MS + 1));
    stop(&scene);
}

TEST(who_waits_for_us_is_not_stuck)
{
    struct scene scene;
    start(&scene);
    assert_false(is_stuck(&scene, 0, 1000 + 10 * CLOSING_SILENT_MS));
    assert_false(is_stuck(&scene, 100, 1000 + 11 * CLOSING_SILENT_MS));
    stop(&scene);
}

RUN(cmocka_unit_test(who_reads_nothing_for_ten_seconds_is_stuck),
    cmocka_unit_test(who_reads_a_little_now_and_then_is_not_although_the_connection_takes_nothing),
    cmocka_unit_test(who_waits_for_us_is_not_stuck))
