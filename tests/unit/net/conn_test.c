/* threads */
#include "net/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/listener.h"
#include "net/timer.h"
#include "unit/test.h"

/* ---- a server that sends back what it gets ---- */

struct echo {
    struct loop *loop;
    struct listener *listener;
    struct conn *conn;
    int accepted;
    int passes;
    bool finish;
    int closed; /* those that have lingered */
};

static void count_pass(void *arg)
{
    ((struct echo *)arg)->passes++;
}

static void echo_closed(void *arg)
{
    struct echo *echo = arg;
    echo->closed++;
    loop_stop(echo->loop);
}

static void echo_ready(void *arg, int what)
{
    struct echo *echo = arg;
    assert_true(what & CONN_READ);
    char bytes[100];
    ssize_t got = conn_read(echo->conn, bytes, sizeof(bytes));
    if (got == CONN_LATER)
        return;
    if (got <= 0) {
        conn_close(echo->conn);
        echo->conn = NULL;
        loop_stop(echo->loop);
        return;
    }
    assert_int_equal(conn_write(echo->conn, (struct slice){bytes, (size_t)got}), got);
    if (echo->finish) {
        conn_finish(echo->conn, echo_closed, echo);
        echo->conn = NULL;
    }
}

static void echo_accept(void *arg, int descriptor)
{
    struct echo *echo = arg;
    echo->accepted++;
    assert_null(echo->conn);
    echo->conn = conn_new(echo->loop, descriptor, echo_ready, echo, NULL);
    assert_non_null(echo->conn);
    conn_want(echo->conn, CONN_READ);
}

static void echo_open(struct echo *echo, const char *address)
{
    *echo = (struct echo){.loop = loop_new(NULL)};
    struct listener_options options = {
        .address = address, .first = true, .accept = echo_accept, .arg = echo};
    echo->listener = listener_open(echo->loop, &options, NULL);
    assert_non_null(echo->listener);
}

static void echo_close(struct echo *echo)
{
    listener_close(echo->listener);
    if (echo->conn)
        conn_close(echo->conn);
    loop_free(echo->loop);
}

static int connect_to(uint16_t port)
{
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&address, sizeof(address)), 0);
    return descriptor;
}

static void *run_echo(void *arg)
{
    loop_run(((struct echo *)arg)->loop);
    return NULL;
}

TEST(what_is_sent_comes_back)
{
    struct echo echo;
    echo_open(&echo, "127.0.0.1");
    int client = connect_to(listener_port(echo.listener));
    assert_int_equal(write(client, "hello", 5), 5);
    shutdown(client, SHUT_WR);
    loop_run(echo.loop);
    char bytes[10];
    assert_int_equal(read(client, bytes, sizeof(bytes)), 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(read(client, bytes, sizeof(bytes)), 0);
    close(client);
    echo_close(&echo);
}

TEST(last_words_arrive_although_the_other_side_goes_on_talking)
{
    struct echo echo;
    echo_open(&echo, "127.0.0.1");
    echo.finish = true;
    int client = connect_to(listener_port(echo.listener));
    char bytes[1000];
    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(write(client, bytes, sizeof(bytes)), sizeof(bytes)); /* more than is read */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_echo, &echo), 0);
    assert_int_equal(read(client, bytes, sizeof(bytes)), 100);
    for (int i = 0; i < 1000; i++) /* no longer heard, and no reason for a reset */
        assert_int_equal(send(client, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    assert_int_equal(read(client, bytes, sizeof(bytes)), 0);
    assert_int_equal(send(client, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    close(client);
    pthread_join(thread, NULL);
    assert_int_equal(echo.closed, 1);
    echo_close(&echo);
}

TEST(a_connection_that_lingers_is_closed_with_its_loop)
{
    struct echo echo;
    echo_open(&echo, "127.0.0.1");
    echo.finish = true;
    int client = connect_to(listener_port(echo.listener));
    char bytes[10] = "x";
    assert_int_equal(write(client, bytes, 1), 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_echo, &echo), 0);
    assert_int_equal(read(client, bytes, sizeof(bytes)), 1);
    assert_int_equal(read(client, bytes, sizeof(bytes)), 0);
    loop_stop(echo.loop);
    pthread_join(thread, NULL);
    assert_int_equal(echo.closed, 0);
    conn_close_lingering(echo.loop);
    assert_int_equal(echo.closed, 1);
    close(client);
    echo_close(&echo);
}

TEST(addresses_are_told_as_people_write_them)
{
    struct echo echo;
    echo_open(&echo, "127.0.0.1");
    int client = connect_to(listener_port(echo.listener));
    assert_int_equal(write(client, "x", 1), 1);
    shutdown(client, SHUT_WR);
    echo.finish = true;
    struct sockaddr_in own;
    socklen_t size = sizeof(own);
    getsockname(client, (struct sockaddr *)&own, &size);
    int accepted = socket(AF_INET, SOCK_STREAM, 0); /* one that is not connected */
    struct conn *conn = conn_new(echo.loop, accepted, echo_ready, &echo, NULL);
    char text[CONN_ADDRESS_SIZE];
    conn_local(conn, text);
    assert_string_equal(text, "0.0.0.0:0");
    conn_peer(conn, text);
    assert_string_equal(text, "?:0");
    conn_close(conn);
    loop_run(echo.loop);
    close(client);
    echo_close(&echo);
}

static uint64_t network_of(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return conn_network_of((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return conn_network_of((const struct sockaddr *)&v6);
}

TEST(networks_are_ipv4_addresses_and_the_first_half_of_ipv6_ones_and_differ)
{
    assert_int_not_equal(network_of("192.0.2.1"), network_of("192.0.2.2"));
    assert_int_equal(network_of("2001:db8:1:2::1"), network_of("2001:db8:1:2:ffff::9"));
    assert_int_not_equal(network_of("2001:db8:1:2::1"), network_of("2001:db8:1:3::1"));
    assert_int_equal(network_of("::ffff:192.0.2.1"), network_of("192.0.2.1"));
    /* The same bytes, in either order, at either end. */
    assert_int_not_equal(network_of("2001:db8::"), network_of("32.1.13.184"));
    assert_int_not_equal(network_of("2001:db8::"), network_of("184.13.1.32"));
    assert_int_not_equal(network_of("0:0:2001:db8::"), network_of("32.1.13.184"));
    assert_int_not_equal(network_of("::1"), network_of("0.0.0.1"));
}

TEST(a_port_that_somebody_has_is_refused)
{
    struct echo echo;
    echo_open(&echo, "127.0.0.1");
    struct listener_options options = {.address = "127.0.0.1",
                                       .port = listener_port(echo.listener),
                                       .first = true,
                                       .accept = echo_accept,
                                       .arg = &echo};
    struct error error;
    assert_null(listener_open(echo.loop, &options, &error));
    assert_int_equal(error.code, ERR_BUSY);

    options.first = false; /* the second worker of the same program */
    struct listener *second = listener_open(echo.loop, &options, &error);
    assert_non_null(second);
    listener_close(second);
    echo_close(&echo);
}

TEST(an_address_that_is_none_is_refused)
{
    struct loop *loop = loop_new(NULL);
    struct listener_options options = {.address = "localhost", .accept = echo_accept};
    struct error error;
    assert_null(listener_open(loop, &options, &error));
    assert_int_equal(error.code, ERR_INVALID);
    options.address = "192.0.2.1"; /* nobody's */
    assert_null(listener_open(loop, &options, &error));
    assert_int_equal(error.code, ERR_INVALID);
    loop_free(loop);
}

TEST(loopback_addresses_are_known)
{
    bool loopback;
    assert_true(listener_is_address("127.0.0.1", &loopback) && loopback);
    assert_true(listener_is_address("127.9.9.9", &loopback) && loopback);
    assert_true(listener_is_address("::1", &loopback) && loopback);
    assert_true(listener_is_address("0.0.0.0", &loopback) && !loopback);
    assert_true(listener_is_address("::", &loopback) && !loopback);
    assert_true(listener_is_address("10.0.0.1", &loopback) && !loopback);
    assert_false(listener_is_address("localhost", &loopback));
    assert_false(listener_is_address("127.0.0.1:80", &loopback));
}

/* ---- no descriptors left ---- */

static void stop(void *arg)
{
    loop_stop(((struct echo *)arg)->loop);
}

TEST(without_descriptors_newcomers_are_turned_away_and_the_loop_rests)
{
    struct echo echo;
    echo_open(&echo, "127.0.0.1");
    struct loop_hook *hook = loop_hook_new(echo.loop, count_pass, &echo);
    struct timer *timer = timer_new(echo.loop, stop, &echo);
    int clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = connect_to(listener_port(echo.listener));

    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    int lowest = dup(0);
    close(lowest);
    struct rlimit none = {.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    timer_start(timer, 100, 0);
    loop_run(echo.loop);
    setrlimit(RLIMIT_NOFILE, &before);

    assert_int_equal(echo.accepted, 0);
    assert_int_equal(listener_turned_away(echo.listener), 3);
    assert_true(echo.passes < 20);
    for (int i = 0; i < 3; i++) {
        char byte;
        assert_true(read(clients[i], &byte, 1) <= 0);
        close(clients[i]);
    }

    int client = connect_to(listener_port(echo.listener)); /* and when there are some again */
    timer_start(timer, 50, 0);
    loop_run(echo.loop);
    assert_int_equal(echo.accepted, 1);
    close(client);
    timer_free(timer);
    loop_hook_free(hook);
    echo_close(&echo);
}

RUN(cmocka_unit_test(what_is_sent_comes_back),
    cmocka_unit_test(last_words_arrive_although_the_other_side_goes_on_talking),
    cmocka_unit_test(a_connection_that_lingers_is_closed_with_its_loop),
    cmocka_unit_test(addresses_are_told_as_people_write_them),
    cmocka_unit_test(networks_are_ipv4_addresses_and_the_first_half_of_ipv6_ones_and_differ),
    cmocka_unit_test(a_port_that_somebody_has_is_refused),
    cmocka_unit_test(an_address_that_is_none_is_refused),
    cmocka_unit_test(loopback_addresses_are_known),
    cmocka_unit_test(without_descriptors_newcomers_are_turned_away_and_the_loop_rests))
