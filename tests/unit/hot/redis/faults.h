/* faults.h - what the proxy before a test's Redis shall do wrong. */
#ifndef TESTS_UNIT_HOT_REDIS_FAULTS_H
#define TESTS_UNIT_HOT_REDIS_FAULTS_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/test.h"

/* Tells the proxy what shall go wrong from now on. */
static inline void make_faults(const char *json)
{
    unsigned long port = strtoul(getenv("TALLY_TEST_REDIS_FAULTS"), NULL, 10);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&at, sizeof(at)), 0);
    char line[512];
    snprintf(line, sizeof(line), "%s\n", json);
    assert_int_equal(send(descriptor, line, strlen(line), 0), (ssize_t)strlen(line));
    assert_true(recv(descriptor, line, sizeof(line), 0) > 0);
    close(descriptor);
}

#endif
