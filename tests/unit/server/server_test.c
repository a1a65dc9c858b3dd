/* The whole of tallyd inside the test: real disk, real sockets, one life after
 * the other on the same data. */
/* threads */
#include "server/server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/message.h"
#include "unit/test.h"

static char folder[64];
static struct config config;
static struct error error;

static int make_folder(void **state)
{
    (void)state;
    message_set_level(MESSAGE_ERROR + 1);
    memcpy(folder, "/tmp/tally-server-XXXXXX", sizeof("/tmp/tally-server-XXXXXX"));
    assert_non_null(mkdtemp(folder));
    config_init(&config);
    snprintf(config.data.text, sizeof(config.data.text), "%s", folder);
    config.resp.port = 0;
    config.http.port = 0; /* another run of this test may have the usual one */
    config.workers = 2;
    config.segment_size = 1u << 20;
    config.verbosity = MESSAGE_ERROR;
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static struct server *start(void)
{
    struct server *server = NULL;
    if (server_start(&config, &server, &error))
        fail_msg("%s", error.text);
    return server;
}

static int connect_to(const struct server *server)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(server_port(server)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    struct timeval patience = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

/* Sends a line and compares the answer, whose size is known. */
static void assert_answer(int fd, const char *line, const char *expected)
{
    assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
    char answer[256];
    size_t size = 0;
    while (size < strlen(expected)) {
        ssize_t got = recv(fd, answer + size, sizeof(answer) - 1 - size, 0);
        assert_true(got > 0);
        size += (size_t)got;
    }
    answer[size] = '\0';
    assert_string_equal(answer, expected);
}

static void assert_closed(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

TEST(what_was_acknowledged_is_there_in_the_next_life)
{
    struct server *server = start();
    int fd = connect_to(server);
    assert_answer(fd, "INCR views\r\n", ":1\r\n");
    assert_answer(fd, "INCRBY views 41\r\n", ":42\r\n");
    server_stop(server);
    assert_closed(fd);

    server = start();
    fd = connect_to(server);
    assert_answer(fd, "GET views\r\n", "$2\r\n42\r\n");
    close(fd);
    server_stop(server);
}

TEST(a_folder_belongs_to_one_server_at_a_time)
{
    struct server *first = start();
    struct server *second = NULL;
    assert_int_equal(server_start(&config, &second, &error), ERR_BUSY);
    assert_null(second);
    server_stop(first);

    server_stop(start());
}

TEST(a_taken_port_fails_the_start_and_leaves_the_data_as_it_was)
{
    struct server *first = start();
    struct config other = config;
    snprintf(other.data.text, sizeof(other.data.text), "%s/other", folder);
    other.resp.port = server_port(first);
    struct server *second = NULL;
    assert_int_not_equal(server_start(&other, &second, &error), ERR_OK);
    assert_null(second);
    server_stop(first);
}

TEST(a_new_password_counts_from_the_reload_on)
{
    struct server *server = start();
    int before = connect_to(server);
    assert_answer(before, "PING\r\n", "+PONG\r\n");

    struct config next = config;
    snprintf(next.password.text, sizeof(next.password.text), "hunter2");
    assert_int_equal(server_reload(server, &next, NULL), ERR_OK);
    int fd = connect_to(server);
    assert_answer(fd, "GET views\r\n", "-NOAUTH Authentication required.\r\n");
    assert_answer(fd, "AUTH hunter2\r\n", "+OK\r\n");
    close(fd);
    close(before);
    server_stop(server);
}

TEST(new_limits_count_from_the_reload_on)
{
    struct server *server = start();
    int fd = connect_to(server);
    assert_answer(fd, "PING\r\n", "+PONG\r\n");

    struct config next = config;
    next.max_connections = 1;
    next.idle_timeout = 1000;
    assert_int_equal(server_reload(server, &next, NULL), ERR_OK);
    int refused = connect_to(server);
    assert_answer(refused, "", "-ERR max number of clients reached\r\n");
    assert_closed(refused);
    assert_closed(fd); /* it was silent for too long */
    server_stop(server);
}

/* There are fewer files than the server itself needs, and clients cannot be given any. The number
 * of connections is more than a process may open, so that nobody may raise the limit to it. */
TEST(a_reload_that_fails_changes_nothing)
{
    struct server *server = start();
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct config next = config;
    next.max_connections = UINT32_MAX;
    snprintf(next.password.text, sizeof(next.password.text), "hunter2");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){60, 60}), 0);
    assert_int_equal(server_reload(server, &next, &error), ERR_TOO_LARGE);
    (void)setrlimit(RLIMIT_NOFILE, &before); /* which only root may */

    int fd = connect_to(server);
    assert_answer(fd, "PING\r\n", "+PONG\r\n");
    assert_answer(fd, "CONFIG GET max-connections\r\n",
                  "*2\r\n$15\r\nmax-connections\r\n$5\r\n10000\r\n");
    close(fd);
    server_stop(server);
}

TEST(a_server_that_lives_moves)
{
    struct server *server = start();
    usleep(500000);
    assert_true(server_moves(server));
    server_stop(server);
}

#define TEST_IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

RUN(TEST_IN_FOLDER(what_was_acknowledged_is_there_in_the_next_life),
    TEST_IN_FOLDER(a_folder_belongs_to_one_server_at_a_time),
    TEST_IN_FOLDER(a_taken_port_fails_the_start_and_leaves_the_data_as_it_was),
    TEST_IN_FOLDER(a_new_password_counts_from_the_reload_on),
    TEST_IN_FOLDER(new_limits_count_from_the_reload_on), TEST_IN_FOLDER(a_server_that_lives_moves),
    TEST_IN_FOLDER(a_reload_that_fails_changes_nothing)) /* last: see there */
