#include "server/notify.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/test.h"

static int manager = -1;
static char heard[512];

/* A socket of a service manager, named as NOTIFY_SOCKET says. */
static void start_manager(bool abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    snprintf(name, sizeof(name), "%s/tmp/tally-notify-%ld", abstract ? "@" : "", (long)getpid());
    memcpy(address.sun_path, name, strlen(name));
    if (abstract)
        address.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    assert_int_equal(bind(manager, (struct sockaddr *)&address, size), 0);
    setenv("NOTIFY_SOCKET", name, 1);
}

static void stop_manager(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    if (name[0] == '/')
        unlink(name);
    close(manager);
    unsetenv("NOTIFY_SOCKET");
}

static const char *hear(void)
{
    ssize_t size = recv(manager, heard, sizeof(heard) - 1, 0);
    heard[size > 0 ? size : 0] = '\0';
    return heard;
}

TEST(the_manager_hears_how_we_are)
{
    start_manager(false);
    notify_status("recovering %d%%", 40);
    assert_string_equal(hear(), "STATUS=recovering 40%");
    notify_ready();
    assert_string_equal(hear(), "READY=1\nSTATUS=serving");
    notify_reloading();
    assert_ptr_equal(strstr(hear(), "RELOADING=1\nMONOTONIC_USEC="), heard);
    notify_alive();
    assert_string_equal(hear(), "WATCHDOG=1");
    notify_stopping();
    assert_string_equal(hear(), "STOPPING=1\nSTATUS=stopping");
    stop_manager();
}

TEST(an_abstract_socket_will_do)
{
    start_manager(true);
    notify_ready();
    assert_ptr_equal(strstr(hear(), "READY=1"), heard);
    stop_manager();
}

TEST(without_a_manager_nothing_happens)
{
    unsetenv("NOTIFY_SOCKET");
    notify_ready();
    setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
    notify_ready();
    setenv("NOTIFY_SOCKET", "relative", 1);
    notify_ready();
    unsetenv("NOTIFY_SOCKET");
}

TEST(the_watchdog_is_fed_twice_in_its_time)
{
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    assert_int_equal(notify_alive_every_ms(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(notify_alive_every_ms(), 15000);
    setenv("WATCHDOG_USEC", "soon", 1);
    assert_int_equal(notify_alive_every_ms(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(notify_alive_every_ms(), 0);
    char pid[32];
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_alive_every_ms(), 15000);
}

RUN(cmocka_unit_test(the_manager_hears_how_we_are), cmocka_unit_test(an_abstract_socket_will_do),
    cmocka_unit_test(without_a_manager_nothing_happens),
    cmocka_unit_test(the_watchdog_is_fed_twice_in_its_time))
