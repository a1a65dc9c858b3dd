/* free_port.h - a port of 127.0.0.1 for a server that a test stops and starts again. */
#ifndef TESTS_UNIT_FREE_PORT_H
#define TESTS_UNIT_FREE_PORT_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "unit/test.h"

/* Below those that the kernel gives to whoever connects somewhere, and above those of
 * tests/servers/process.py: while its server is stopped nobody else takes it. */
#define FREE_PORT_FIRST 21000u
#define FREE_PORTS      11000u

static inline bool is_free_port(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)},
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return is_free;
}

static inline unsigned free_port(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    unsigned chance = (unsigned)now.tv_nsec / 1000 + (unsigned)getpid() * 7919;
    for (unsigned i = 0; i < FREE_PORTS; i++) {
        unsigned port = FREE_PORT_FIRST + (chance + i) % FREE_PORTS;
        if (is_free_port(port))
            return port;
    }
    fail_msg("no port is free");
    return 0;
}

#endif
