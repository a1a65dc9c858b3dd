/* server.h - a PostgreSQL server of the test's own, which may be stopped, killed, filled up and
 * replaced by its standby.
 *
 * It listens on a free port of 127.0.0.1, lives in a folder under /tmp and ends with the test.
 * PostgreSQL does not run as root: then it runs as the user postgres. */
#ifndef SERVER_H
#define SERVER_H

#include "unit/free_port.h"
#include "unit/test.h"

#include <glob.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct server {
    char folder[64]; /* with `data`, the socket and the server's own messages in it */
    int port;
    bool is_running;
};

/* The folder of initdb and pg_ctl; NULL: PostgreSQL is not installed. */
static inline const char *server_programs(void)
{
    static char folder[128];
    glob_t found;
    if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0) {
        snprintf(folder, sizeof(folder), "%s", found.gl_pathv[found.gl_pathc - 1]);
        *strrchr(folder, '/') = 0;
        globfree(&found);
        return folder;
    }
    return NULL;
}

/* Runs a shell command, as whom the server runs. */
static inline int server_try(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int server_try(const char *format, ...)
{
    char command[1024];
    char whole[1400];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    snprintf(whole, sizeof(whole),
             "%s sh -c 'cd /tmp && export PATH=%s:$PATH && %s' >/dev/null 2>&1",
             geteuid() == 0 ? "runuser -u postgres --" : "", server_programs(), command);
    return system(whole); /* NOLINT: our own words */
}

#define SERVER_MUST(...) assert_int_equal(server_try(__VA_ARGS__), 0)

static inline void server_start(struct server *server)
{
    SERVER_MUST("pg_ctl -w -t 60 -D %s/data -l %s/messages -o \"-p %d -h 127.0.0.1 -k %s "
                "-c max_connections=40 -c shared_buffers=16MB -c deadlock_timeout=300ms\" start",
                server->folder, server->folder, server->port, server->folder);
    server->is_running = true;
}

/* How: "fast" ends what is under way, "immediate" is a crash. */
static inline void server_stop(struct server *server, const char *how)
{
    SERVER_MUST("pg_ctl -w -t 60 -D %s/data -m %s stop", server->folder, how);
    server->is_running = false;
}

/* A test that is killed cannot clean up: this does, when its process is gone. */
static inline void server_watch(const struct server *server)
{
    char command[640];
    snprintf(command, sizeof(command),
             "(while kill -0 %d; do sleep 1; done; %s %s/pg_ctl -D %s/data -m immediate stop; "
             "rm -rf %s) </dev/null >/dev/null 2>&1 &",
             (int)getpid(), geteuid() == 0 ? "runuser -u postgres --" : "", server_programs(),
             server->folder, server->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own words */
}

static inline void server_make_folder(struct server *server)
{
    snprintf(server->folder, sizeof(server->folder), "/tmp/tally-postgres-XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    char command[160];
    snprintf(command, sizeof(command), "chown postgres %s", server->folder);
    if (geteuid() == 0)
        assert_int_equal(system(command), 0); /* NOLINT: our own words */
    server->port = (int)free_port();
    server_watch(server);
}

/* A new server, which knows the user `tally` with the password `secret`. */
static inline void server_new(struct server *server)
{
    memset(server, 0, sizeof(*server));
    server_make_folder(server);
    SERVER_MUST("printf secret > %s/password && initdb -N -U tally -E UTF8 --locale=C "
                "--auth=scram-sha-256 --pwfile=%s/password -D %s/data",
                server->folder, server->folder, server->folder);
    server_start(server);
}

/* Another one, which follows `server` as its standby. */
static inline void server_new_standby(struct server *standby, const struct server *server)
{
    memset(standby, 0, sizeof(*standby));
    server_make_folder(standby);
    SERVER_MUST("pg_basebackup -c fast -R -D %s/data -d "
                "postgres://tally:secret@127.0.0.1:%d/postgres",
                standby->folder, server->port);
    server_start(standby);
}

static inline void server_promote(const struct server *standby)
{
    SERVER_MUST("pg_ctl -w -D %s/data promote", standby->folder);
}

static inline void server_url(const struct server *server, char *to, size_t size)
{
    snprintf(to, size, "postgres://tally:secret@127.0.0.1:%d/postgres", server->port);
}

static inline void server_free(struct server *server)
{
    if (server->is_running)
        server_stop(server, "immediate");
    char command[160];
    snprintf(command, sizeof(command), "rm -rf %s", server->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own words */
}

#endif
