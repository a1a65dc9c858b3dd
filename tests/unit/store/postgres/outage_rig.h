/* outage_rig.h - a store whose server may fail: behind a proxy, and a server that the test has for
 * itself. */
#ifndef OUTAGE_RIG_H
#define OUTAGE_RIG_H

#include "contract/store_postgres.h"
#include "unit/store/postgres/proxy.h"

#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#define OPEN_TRIES 40u

static struct server server;
static struct proxy proxy; /* before the server: the stores go through it */
static struct rig *rig;

/* ---- openers ---- */

static inline enum err open_at(struct env *env, const char *folder, const char *where,
                               struct store **ret, struct error *error)
{
    char url[512];
    snprintf(url, sizeof(url), "%s%coptions=-csearch_path%%3D%%22%s%%22", where,
             strchr(where, '?') ? '&' : '?', postgres_schema(folder));
    struct postgres_store_options options = {
        .url = url, .statement_timeout_ms = 1500, .lock_timeout_ms = 400};
    return postgres_store_open(env, &options, ret, error);
}

/* The server is there, and a busy machine may take longer than the timeouts, which are short for
 * what the tests do to it: opened again, as by a node that starts, until it has answered in time.
 */
static inline struct store *must_open(struct env *env, const char *folder, const char *where)
{
    struct store *store;
    struct error error;
    postgres_create_schema(folder);
    enum err err = open_at(env, folder, where, &store, &error);
    for (unsigned tries = 1; err == ERR_UNAVAILABLE && tries < OPEN_TRIES; tries++)
        err = open_at(env, folder, where, &store, &error);
    if (err)
        fail_msg("%s", error.text);
    return store;
}

static inline struct store *open_by_proxy(struct env *env, const char *folder)
{
    char url[256];
    snprintf(url, sizeof(url), "postgres://tally:secret@127.0.0.1:%d/postgres", proxy.port);
    return must_open(env, folder, url);
}

static inline int set_up_server(void **state)
{
    (void)state;
    char url[256];
    server_new(&server);
    proxy_start(&proxy, server.port);
    server_url(&server, url, sizeof(url));
    return setenv("TALLY_TEST_POSTGRES", url, 1);
}

static inline int tear_down_server(void **state)
{
    (void)state;
    char small[80];
    snprintf(small, sizeof(small), "%s/small", server.folder);
    umount2(small, MNT_DETACH); /* of a test that has failed */
    proxy_stop(&proxy);
    server_free(&server);
    return 0;
}

static inline int set_up(void **state)
{
    (void)state;
    rig = rig_new(open_by_proxy);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    atomic_store(&proxy.fault, PROXY_NONE);
    rig_close(rig);
    postgres_remove(rig->folder);
    rig_free(rig);
    return 0;
}

/* ---- what happened ---- */

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Adds 1 to "c"; what came of it, with its text in *error. */
static inline enum err add_one(struct error *error)
{
    error->text[0] = 0;
    rig_add(rig, "c", 1);
    return rig_apply(rig, error);
}

static inline void add_one_ok(void)
{
    struct error error;
    if (add_one(&error))
        fail_msg("%s", error.text);
}

static inline enum err load(const char *id, struct error *error)
{
    error->text[0] = 0;
    rig->text[0] = 0;
    return store_load(rig->reader, slice_of(id), rig_print_target, rig, error);
}

/* An outage with a text that has `word` in it, and nobody waits for it longer
 * than `seconds`. */
static inline void assert_outage(const char *word, double seconds)
{
    struct error error;
    for (int i = 0; i < 3; i++) {
        double began = now_s();
        assert_int_equal(add_one(&error), ERR_UNAVAILABLE);
        if (!strstr(error.text, word))
            fail_msg("%s is not in: %s", word, error.text);
        assert_true(now_s() - began < seconds);
    }
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.down_since_ms, rig->now_ms);
}

/* Nothing was lost, nothing is there twice, and nobody took an outage for a
 * refusal. The first try may be the one that finds the connection gone. */
static inline void assert_well_again(const char *value)
{
    struct error error;
    enum err err = add_one(&error);
    for (int i = 0; i < 20 && err == ERR_UNAVAILABLE; i++) {
        usleep(100000);
        err = add_one(&error);
    }
    if (err)
        fail_msg("%s", error.text);
    for (int i = 0; i < 20 && load("c", &error) == ERR_UNAVAILABLE; i++)
        usleep(100000);
    assert_string_equal(rig->text, value);
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.down_since_ms, 0);
    assert_int_equal(stats.retrying + stats.pending + stats.failed, 0);
}

static inline void wait_for(const char *sql, const char *answer)
{
    for (int i = 0; i < 3000; i++) {
        if (strcmp(postgres_ask(rig->folder, sql), answer) == 0)
            return;
        usleep(20000);
    }
    fail_msg("it does not become %s: %s", answer, sql);
}

/* Ends as skipped where there is no PostgreSQL to start. */
#define OUTAGE_RUN(tests)                                                               \
    (server_programs() ? cmocka_run_group_tests(tests, set_up_server, tear_down_server) \
                       : skip_all("PostgreSQL's server is not installed"))
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static inline int skip_all(const char *why)
{
    const char *ci = getenv("CI");
    printf("skipped: %s\n", why);
    return ci && strcmp(ci, "true") == 0 ? EXIT_FAILURE : SKIPPED;
}

#endif
