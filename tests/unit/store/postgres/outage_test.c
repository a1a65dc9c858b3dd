/* What the PostgreSQL store does when its server is down, silent, full or replaced by its standby,
 * and when an answer is lost on the way. */
/* threads */
#include "unit/store/postgres/outage_rig.h"

/* ---- the server is not there ---- */

TEST(a_server_that_is_down_is_an_outage_however_long_and_nobodys_fault)
{
    struct error error;
    add_one_ok();
    server_stop(&server, "immediate");
    for (int i = 0; i < 8; i++) {
        assert_outage("", 3);
        double began = now_s();
        assert_int_equal(load("c", &error), ERR_UNAVAILABLE);
        assert_true(now_s() - began < 3);
    }
    server_start(&server);
    assert_well_again("c value=2");
}

TEST(a_store_may_be_opened_by_somebody_who_waits_for_its_server)
{
    struct error error;
    struct store *store;
    char url[256];
    server_url(&server, url, sizeof(url));
    server_stop(&server, "fast");
    assert_int_equal(open_at(&rig->env, rig->folder, url, &store, &error), ERR_UNAVAILABLE);
    assert_string_not_equal(error.text, "");
    server_start(&server);
    assert_well_again("c value=1");
}

TEST(a_server_that_was_restarted_is_found_again)
{
    for (int i = 1; i <= 3; i++) {
        char value[32];
        snprintf(value, sizeof(value), "c value=%d", i);
        server_stop(&server, i % 2 ? "fast" : "immediate");
        server_start(&server);
        assert_well_again(value);
    }
}

TEST(connections_that_an_operator_ends_are_made_anew)
{
    add_one_ok();
    postgres_run(rig->folder, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                              "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
    assert_well_again("c value=2");
}

TEST(a_network_that_swallows_everything_is_an_outage_and_not_a_wait_for_ever)
{
    struct error error;
    add_one_ok();
    atomic_store(&proxy.fault, PROXY_SILENCE);
    double began = now_s();
    assert_int_equal(add_one(&error), ERR_UNAVAILABLE);
    assert_int_equal(load("c", &error), ERR_UNAVAILABLE);
    assert_true(now_s() - began < 25);
    atomic_store(&proxy.fault, PROXY_NONE);
    assert_well_again("c value=2");
}

/* ---- an answer is lost ---- */

/* As the aggregator does: when it cannot know, the mark tells. */
static void assert_counts_once(struct store_batch *batch, enum err err)
{
    struct state_mark mark;
    struct error error;
    for (int i = 0; err && i < 20; i++) {
        assert_true(err == ERR_UNAVAILABLE || err == ERR_INVALID);
        usleep(50000);
        if (store_mark(rig->store, &mark, &error))
            continue;
        if (mark.position.offset == batch->after.position.offset)
            break;
        err = store_apply(rig->store, batch, &error);
    }
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_int_equal(rig->mark.position.offset, batch->after.position.offset);
    rig_forget(rig);
    assert_int_equal(load("c", &error), ERR_OK);
    assert_string_equal(rig->text, "c value=5");
    assert_int_equal(load("v", &error), ERR_OK);
    assert_string_equal(rig->text, "v like=1 slices=1 like:7");
    assert_int_equal(rig->mark.members, 1);
}

static void lose_reply_to(const char *word)
{
    struct error error;
    rig_add(rig, "c", 5);
    rig_react(rig, "v", "7", "", "like");
    struct store_batch batch = rig_batch(rig);
    proxy_lose_reply_to(&proxy, word);
    int lost = atomic_load(&proxy.lost);
    enum err err = store_apply(rig->store, &batch, &error);
    assert_int_equal(atomic_load(&proxy.lost), lost + 1);
    assert_counts_once(&batch, err);
}

TEST(a_batch_counts_once_although_the_answer_to_its_commit_is_lost)
{
    lose_reply_to("COMMIT");
}

TEST(a_batch_counts_once_although_the_answer_to_its_beginning_is_lost)
{
    lose_reply_to("BEGIN");
}

TEST(a_batch_counts_once_although_the_network_ends_under_it_at_any_moment)
{
    int64_t value = 0;
    for (int i = 0; i < 12; i++) {
        struct error error;
        rig_add(rig, "c", 1);
        struct store_batch batch = rig_batch(rig);
        proxy_lose_reply_to(&proxy, ""); /* whatever is asked next */
        enum err err = store_apply(rig->store, &batch, &error);
        atomic_store(&proxy.fault, PROXY_NONE);
        for (int j = 0; err && j < 20; j++) {
            struct state_mark mark;
            usleep(20000);
            if (store_mark(rig->store, &mark, &error))
                continue;
            if (mark.position.offset == batch.after.position.offset)
                break;
            err = store_apply(rig->store, &batch, &error);
        }
        assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
        rig_forget(rig);
        value++;
    }
    char wanted[32];
    snprintf(wanted, sizeof(wanted), "c value=%lld", (long long)value);
    assert_string_equal(rig_load(rig, "c"), wanted);
}

/* ---- no space ---- */

/* What is missing is said, and is a failure where nothing may be. */
static void need(bool is_there, const char *what)
{
    const char *ci = getenv("CI");
    if (is_there)
        return;
    if (ci && strcmp(ci, "true") == 0)
        fail_msg("%s, and CI=true allows no skipping", what);
    print_message("skipped: %s\n", what);
    skip();
}

TEST(no_space_left_is_an_outage)
{
    need(geteuid() == 0, "only root can make a file system that is small");
    char small[80];
    char sql[200];
    snprintf(small, sizeof(small), "%s/small", server.folder);
    SERVER_MUST("mkdir %s", small);
    bool is_small = mount("tmpfs", small, "tmpfs", 0, "size=4m,mode=0777") == 0;
    need(is_small, "no tmpfs can be mounted");
    SERVER_MUST("mkdir %s/space", small);
    snprintf(sql, sizeof(sql), "CREATE TABLESPACE small LOCATION '%s/space'", small);
    postgres_run(rig->folder, sql);
    add_one_ok();
    postgres_run(rig->folder, "ALTER TABLE entries SET TABLESPACE small");
    postgres_run(rig->folder, "ALTER INDEX entries_id_key SET TABLESPACE small");
    postgres_run(rig->folder, "CREATE TABLE junk(i int, t text) TABLESPACE "
                              "small; DO $$ BEGIN FOR i IN 1..100000 "
                              "LOOP INSERT INTO junk VALUES(i, repeat('x', "
                              "1000)); END LOOP; EXCEPTION WHEN "
                              "disk_full THEN NULL; END $$");
    PGconn *filler = postgres_connect(); /* what was rolled back has left its pages behind */
    postgres_run_in(filler, rig->folder, "SELECT 1");
    for (bool full = false; !full;) {
        PGresult *result = PQexec(filler, "INSERT INTO junk SELECT 1, repeat('x', 1000)");
        full = PQresultStatus(result) != PGRES_COMMAND_OK;
        PQclear(result);
    }
    PQfinish(filler);
    /* New rows, until there is no room in the last page. */
    static char names[4000][16];
    enum err err = ERR_OK;
    struct error error = {.text = ""};
    for (int i = 0; i < 4000 && !err; i++) {
        snprintf(names[i], sizeof(names[i]), "name-%d", i);
        rig_add(rig, names[i], 1);
        if (i % 50 == 49)
            err = rig_apply(rig, &error);
    }
    assert_int_equal(err, ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "space"));
    postgres_run(rig->folder, "DROP TABLE junk");
    assert_well_again("c value=2");
    rig_close(rig);
    postgres_remove(rig->folder);
    postgres_run(rig->folder, "DROP TABLESPACE small");
    umount(small);
    rig_open(rig);
}

/* ---- another server takes over ---- */

static struct server standby;
static char both[256];

static struct store *open_both(struct env *env, const char *folder)
{
    return must_open(env, folder, both);
}

static int set_up_standby(void **state)
{
    (void)state;
    server_new_standby(&standby, &server);
    snprintf(both, sizeof(both),
             "postgres://tally:secret@127.0.0.1:%d,127.0.0.1:%d/postgres?"
             "target_session_attrs=read-write",
             server.port, standby.port);
    rig = rig_new(open_both);
    return 0;
}

static int tear_down_standby(void **state)
{
    server_free(&standby);
    if (!server.is_running)
        server_start(&server);
    return tear_down(state);
}

static void wait_for_standby(void)
{
    wait_for("SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= "
             "pg_current_wal_lsn()",
             "1");
}

TEST(a_standby_that_takes_over_is_found_by_itself)
{
    add_one_ok();
    wait_for_standby();
    server_stop(&server, "immediate");
    assert_outage("", 6);
    server_promote(&standby);
    assert_well_again("c value=2");
}

TEST(a_standby_that_lagged_behind_says_so_and_is_filled_from_the_log)
{
    uint64_t sequences[LIMIT_CELLS];
    struct error error;
    add_one_ok();
    wait_for_standby();
    struct state_mark early = rig->mark;
    server_stop(&standby, "fast");
    add_one_ok(); /* the standby does not hear of this one */
    assert_int_equal(load("c", &error), ERR_OK);
    assert_true(store_seen(rig->reader, sequences));
    assert_int_equal(sequences[0], 2);
    server_stop(&server, "immediate");
    server_start(&standby);
    server_promote(&standby);

    enum err err = ERR_UNAVAILABLE;
    for (int i = 0; i < 20 && err == ERR_UNAVAILABLE; i++)
        err = add_one(&error);
    assert_int_equal(err, ERR_INVALID); /* it is not where we believe it to be */
    for (int i = 0; i < 20 && load("c", &error); i++)
        usleep(50000);
    assert_string_equal(rig->text, "c value=1");
    assert_true(store_seen(rig->reader, sequences));
    assert_int_equal(sequences[0], 1);
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_memory_equal(&rig->mark, &early, sizeof(early));
    /* The log has what is missing. */
    rig->sequence = rig->mark.sequences[0];
    add_one_ok();
    assert_well_again("c value=3");
}

#define STANDBY(test) cmocka_unit_test_setup_teardown(test, set_up_standby, tear_down_standby)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_server_that_is_down_is_an_outage_however_long_and_nobodys_fault),
        CASE(a_store_may_be_opened_by_somebody_who_waits_for_its_server),
        CASE(a_server_that_was_restarted_is_found_again),
        CASE(connections_that_an_operator_ends_are_made_anew),
        CASE(a_network_that_swallows_everything_is_an_outage_and_not_a_wait_for_ever),
        CASE(a_batch_counts_once_although_the_answer_to_its_commit_is_lost),
        CASE(a_batch_counts_once_although_the_answer_to_its_beginning_is_lost),
        CASE(a_batch_counts_once_although_the_network_ends_under_it_at_any_moment),
        CASE(no_space_left_is_an_outage),
        STANDBY(a_standby_that_takes_over_is_found_by_itself),
        STANDBY(a_standby_that_lagged_behind_says_so_and_is_filled_from_the_log),
    };
    return OUTAGE_RUN(tests);
}
