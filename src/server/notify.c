#include "server/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/decimal.h"

/* A manager that cannot be told is not our trouble: errors end here. */
static void notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* the abstract namespace */

    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    (void)close(fd);
}

void notify_status(const char *format, ...)
{
    char text[256] = "STATUS=";
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text + used, sizeof(text) - used, format, arguments);
    va_end(arguments);
    notify_send(text);
}

void notify_ready(void)
{
    notify_send("READY=1\nSTATUS=serving");
}

void notify_reloading(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    char text[64];
    (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify_send(text);
}

void notify_stopping(void)
{
    notify_send("STOPPING=1\nSTATUS=stopping");
}

void notify_alive(void)
{
    notify_send("WATCHDOG=1");
}

uint64_t notify_alive_every_ms(void)
{
    const char *limit = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    uint64_t number;
    if (pid && (!decimal_parse_unsigned(slice_of(pid), &number) || number != (uint64_t)getpid()))
        return 0;
    if (!limit || !decimal_parse_unsigned(slice_of(limit), &number) || number == 0)
        return 0;
    uint64_t half_ms = number / 2000;
    return half_ms > 0 ? half_ms : 1;
}
