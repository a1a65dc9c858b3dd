/* server.h - a Redis of a test's own, that it may stop, empty and start again. */
#ifndef TESTS_UNIT_HOT_REDIS_SERVER_H
#define TESTS_UNIT_HOT_REDIS_SERVER_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "unit/free_port.h"
#include "unit/test.h"

struct server {
    int port;
    pid_t pid;
    char folder[64];
    char url[64];
};

static inline void server_start(struct server *server)
{
    char port[8];
    snprintf(port, sizeof(port), "%d", server->port);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
               "--dir", server->folder, "--enable-debug-command", "local", (char *)NULL);
        _exit(127);
    }
    for (unsigned i = 0; i < 3000; i++) {
        redisContext *redis = redisConnect("127.0.0.1", server->port);
        redisReply *reply = redis && !redis->err ? redisCommand(redis, "PING") : NULL;
        int is_up = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        redisFree(redis);
        if (is_up)
            return;
        usleep(10000);
    }
    fail_msg("redis-server does not start");
}

static inline void server_kill(struct server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

static inline void server_new(struct server *server)
{
    *server = (struct server){.port = (int)free_port()};
    snprintf(server->folder, sizeof(server->folder), "/tmp/tally-redis-XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->url, sizeof(server->url), "redis://127.0.0.1:%d", server->port);
    server_start(server);
}

static inline void server_remove(struct server *server)
{
    char file[96];
    if (server->pid > 0)
        server_kill(server);
    snprintf(file, sizeof(file), "%s/dump.rdb", server->folder);
    unlink(file);
    rmdir(server->folder);
}

#endif
