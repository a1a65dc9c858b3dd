/* What the PostgreSQL store does when others are in its way, and when its tables are not as they
 * should be: locks, deadlocks, read-only, missing, slow, of somebody else. */
/* threads */
#include "unit/store/postgres/outage_rig.h"

/* ---- others are at it, too ---- */

TEST(a_row_that_somebody_keeps_locked_is_an_outage)
{
    add_one_ok();
    PGconn *locker = postgres_connect();
    postgres_run_in(locker, rig->folder, "BEGIN; UPDATE entries SET value = value WHERE id = 'c'");
    assert_outage("lock", 6);
    /* Reading goes on. */
    assert_string_equal(rig_load(rig, "c"), "c value=1");
    PQfinish(locker);
    assert_well_again("c value=2");
}

struct attempt {
    enum err err;
    struct error error;
    atomic_bool is_over;
};

static void *apply_in_thread(void *arg)
{
    struct attempt *attempt = arg;
    attempt->err = rig_apply(rig, &attempt->error);
    atomic_store(&attempt->is_over, true);
    return NULL;
}

static void add_to_both(void)
{
    rig_add(rig, "a", 1);
    rig_add(rig, "b", 1);
}

/* The store wants a, then b; the other one has b and wants a. Whoever looks first finds it: the
 * store does, since the other one looks after half a minute. */
static void meet_crosswise(void)
{
    PGconn *locker = postgres_connect();
    postgres_run_in(locker, rig->folder, "SET deadlock_timeout = '30s'");
    postgres_run_in(locker, rig->folder, "BEGIN; UPDATE entries SET value = value WHERE id = 'b'");
    add_to_both();
    pthread_t thread;
    struct attempt attempt = {0};
    assert_int_equal(pthread_create(&thread, NULL, apply_in_thread, &attempt), 0);
    const char *waits = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted";
    while (!atomic_load(&attempt.is_over) && strcmp(postgres_ask(rig->folder, waits), "t") != 0)
        usleep(1000);
    assert_int_equal(
        PQsendQuery(locker, "UPDATE entries SET value = value WHERE id = 'a'; ROLLBACK"), 1);
    pthread_join(thread, NULL);
    PQfinish(locker);
    for (int i = 0; attempt.err == ERR_UNAVAILABLE && i < 10; i++) {
        add_to_both();
        attempt.err = rig_apply(rig, &attempt.error);
    }
    assert_int_equal(attempt.err, ERR_OK);
}

static bool server_has_said(const char *word)
{
    char command[256];
    snprintf(command, sizeof(command), "grep -q '%s' %s/messages", word, server.folder);
    return system(command) == 0;
}

/* On a busy machine the other one may come when the store waits no longer: they meet again. */
TEST(a_deadlock_is_tried_again)
{
    add_to_both();
    rig_apply_ok(rig);
    int met = 0;
    while (met < 50 && !server_has_said("deadlock detected")) {
        meet_crosswise();
        met++;
    }
    assert_true(server_has_said("deadlock detected"));
    char wanted[32];
    snprintf(wanted, sizeof(wanted), "a value=%d", met + 1);
    assert_string_equal(rig_load(rig, "a"), wanted);
    wanted[0] = 'b';
    assert_string_equal(rig_load(rig, "b"), wanted);
}

/* Fails so often with this state, whatever is written, then no more. */
static void fail_with(const char *state, int times)
{
    char sql[600];
    snprintf(sql, sizeof(sql),
             "CREATE SEQUENCE failures; CREATE FUNCTION fail() RETURNS trigger "
             "LANGUAGE plpgsql AS "
             "$$ BEGIN IF nextval('failures') <= %d THEN RAISE EXCEPTION 'not "
             "now' USING ERRCODE = "
             "'%s'; END IF; RETURN NEW; END $$; CREATE TRIGGER fails BEFORE "
             "INSERT OR UPDATE ON "
             "entries FOR EACH ROW EXECUTE FUNCTION fail()",
             times, state);
    postgres_run(rig->folder, sql);
}

TEST(a_serialization_failure_is_tried_again_at_once)
{
    fail_with("40001", 2);
    add_one_ok();
    assert_string_equal(rig_load(rig, "c"), "c value=1");
}

TEST(one_that_does_not_end_is_an_outage_and_no_refusal)
{
    fail_with("40001", 1000000);
    assert_outage("not now", 10);
    postgres_run(rig->folder, "DROP TRIGGER fails ON entries");
    assert_well_again("c value=1");
}

TEST(too_little_of_something_is_an_outage)
{
    static const char *const states[] = {"53100", "53200", "53300", "57P01", "58030", "XX000"};
    char wanted[32];
    for (int i = 0; i < 6; i++) {
        fail_with(states[i], 1000000);
        assert_outage("", 6);
        postgres_run(rig->folder, "DROP TRIGGER fails ON entries; DROP FUNCTION "
                                  "fail; DROP SEQUENCE failures");
        snprintf(wanted, sizeof(wanted), "c value=%d", i + 1);
        assert_well_again(wanted);
    }
}

/* ---- the database is not as it should be ---- */

/* The server reads its settings and tells its processes before it takes a new connection, and these
 * read them before their next statement: when a new connection knows, so do all. */
static void wait_for_all_to_know(const char *value)
{
    wait_for("SHOW default_transaction_read_only", value);
}

TEST(a_database_that_may_only_be_read_is_an_outage)
{
    add_one_ok();
    postgres_run(rig->folder, "ALTER SYSTEM SET default_transaction_read_only = on");
    postgres_run(rig->folder, "SELECT pg_reload_conf()");
    wait_for_all_to_know("on");
    assert_outage("read-only", 5);
    assert_string_equal(rig_load(rig, "c"), "c value=1");
    PGconn *connection = postgres_connect();
    postgres_run_in(connection, rig->folder, "SET default_transaction_read_only = off");
    postgres_run_in(connection, rig->folder, "ALTER SYSTEM RESET default_transaction_read_only");
    postgres_run_in(connection, rig->folder, "SELECT pg_reload_conf()");
    PQfinish(connection);
    wait_for_all_to_know("off");
    assert_well_again("c value=2");
}

TEST(a_table_that_is_missing_is_an_outage_that_names_it)
{
    add_one_ok();
    postgres_run(rig->folder, "ALTER TABLE entries RENAME TO elsewhere");
    assert_outage("entries", 5);
    postgres_run(rig->folder, "ALTER TABLE elsewhere RENAME TO entries");
    assert_well_again("c value=2");
}

TEST(tables_that_are_all_gone_are_no_new_beginning_under_a_running_store)
{
    char sql[160];
    add_one_ok();
    snprintf(sql, sizeof(sql), "ALTER SCHEMA \"%s\" RENAME TO elsewhere",
             postgres_schema(rig->folder));
    postgres_run(rig->folder, sql);
    assert_outage("", 5);
    snprintf(sql, sizeof(sql), "ALTER SCHEMA elsewhere RENAME TO \"%s\"",
             postgres_schema(rig->folder));
    postgres_run(rig->folder, sql);
    assert_well_again("c value=2");
}

TEST(a_statement_that_takes_too_long_is_an_outage)
{
    add_one_ok();
    postgres_run(rig->folder, "CREATE FUNCTION sleep() RETURNS trigger LANGUAGE "
                              "plpgsql AS $$ BEGIN PERFORM "
                              "pg_sleep(20); RETURN NEW; END $$; CREATE TRIGGER "
                              "sleeps BEFORE INSERT OR UPDATE "
                              "ON entries FOR EACH ROW EXECUTE FUNCTION sleep()");
    assert_outage("timeout", 8);
    postgres_run(rig->folder, "DROP TRIGGER sleeps ON entries");
    assert_well_again("c value=2");
}

TEST(a_wrong_password_is_told)
{
    struct store *store;
    struct error error;
    char url[256];
    snprintf(url, sizeof(url), "postgres://tally:wrong@127.0.0.1:%d/postgres", server.port);
    assert_int_not_equal(open_at(&rig->env, rig->folder, url, &store, &error), ERR_OK);
    assert_non_null(strstr(error.text, "password"));
    assert_null(strstr(error.text, "wrong"));
}

/* Opening it once more says this, and it is nothing that waiting would help. */
static void assert_refused(enum postgres_members members, const char *word)
{
    struct store *store;
    struct error error;
    char url[512];
    postgres_url(rig->folder, "", url, sizeof(url));
    struct postgres_store_options options = {.url = url, .members = members};
    assert_int_equal(postgres_store_open(&rig->env, &options, &store, &error), ERR_INVALID);
    if (!strstr(error.text, word))
        fail_msg("%s is not in: %s", word, error.text);
}

TEST(tables_of_a_newer_tally_or_of_somebody_else_are_left_alone)
{
    assert_refused(POSTGRES_SETS, "rows"); /* members are kept the other way */
    postgres_run(rig->folder, "UPDATE tally_schema SET version = version + 1");
    assert_refused(POSTGRES_ROWS, "newer");
    postgres_run(rig->folder, "DROP TABLE tally_schema CASCADE");
    assert_refused(POSTGRES_ROWS, "not");
    postgres_remove(rig->folder);
    postgres_create_schema(rig->folder);
    postgres_run(rig->folder, "CREATE TABLE entries(ours int)");
    assert_refused(POSTGRES_ROWS, "not");
    assert_string_equal(postgres_ask(rig->folder, "SELECT count(*) FROM pg_tables WHERE "
                                                  "schemaname = current_schema()"),
                        "1");
}

TEST(two_that_open_an_empty_database_at_once_make_one_set_of_tables)
{
    rig_close(rig);
    for (int round = 0; round < 5; round++) {
        pid_t children[3];
        postgres_remove(rig->folder);
        postgres_create_schema(rig->folder);
        for (int i = 0; i < 3; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                struct store *store;
                struct error error;
                char url[256];
                server_url(&server, url, sizeof(url));
                enum err err =
                    ERR_UNAVAILABLE; /* while another makes them, for longer than 400 ms */
                for (int j = 0; j < 50 && err == ERR_UNAVAILABLE; j++)
                    err = open_at(env_system(), rig->folder, url, &store, &error);
                _exit(err != ERR_OK);
            }
        }
        for (int i = 0; i < 3; i++) {
            int status;
            waitpid(children[i], &status, 0);
            assert_int_equal(status, 0);
        }
    }
    rig_open(rig);
    assert_well_again("c value=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_row_that_somebody_keeps_locked_is_an_outage),
        CASE(a_deadlock_is_tried_again),
        CASE(a_serialization_failure_is_tried_again_at_once),
        CASE(one_that_does_not_end_is_an_outage_and_no_refusal),
        CASE(too_little_of_something_is_an_outage),
        CASE(a_database_that_may_only_be_read_is_an_outage),
        CASE(a_table_that_is_missing_is_an_outage_that_names_it),
        CASE(tables_that_are_all_gone_are_no_new_beginning_under_a_running_store),
        CASE(a_statement_that_takes_too_long_is_an_outage),
        CASE(a_wrong_password_is_told),
        CASE(tables_of_a_newer_tally_or_of_somebody_else_are_left_alone),
        CASE(two_that_open_an_empty_database_at_once_make_one_set_of_tables),
    };
    return OUTAGE_RUN(tests);
}
