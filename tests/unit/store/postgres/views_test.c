/* What somebody with SQL finds in the views: in Tally's words, and in those of a like counter made
 * by hand. The same whether members are rows or sets. */
/* servers: postgres */
#include "contract/store_postgres.h"

static struct rig *rig;

static struct store *open_rows(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_ROWS, false);
}

static struct store *open_sets(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_SETS, false);
}

/* 123 is liked by 456 and by ann, who also dislikes 124; video1 is liked by 456; 7 has left. */
static void fill(void)
{
    rig_react(rig, "123", "456", "", "like");
    rig_react(rig, "123", "ann", "", "like");
    rig_react(rig, "123", "7", "", "like");
    rig_react(rig, "124", "ann", "", "dislike");
    rig_react(rig, "video1", "456", "", "like");
    rig_add(rig, "13", 41);
    rig_add(rig, "views", 42);
    rig_apply_ok(rig);
    rig->now_ms += 1000;
    rig_react(rig, "123", "7", "like", "");
    rig_add(rig, "13", 1);
    rig_apply_ok(rig);
}

static int set_up_rows(void **state)
{
    (void)state;
    rig = rig_new(open_rows);
    fill();
    return 0;
}

static int set_up_sets(void **state)
{
    (void)state;
    rig = rig_new(open_sets);
    fill();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_close(rig);
    postgres_remove(rig->folder);
    rig_free(rig);
    return 0;
}

/* All rows of an answer in one text: "a,b | c,d". */
static const char *ask(const char *sql)
{
    char whole[1024];
    snprintf(whole, sizeof(whole),
             "SELECT string_agg(regexp_replace(q::text, '^\\(|\\)$', '', 'g'), ' | ') FROM (%s) q",
             sql);
    return postgres_ask(rig->folder, whole);
}

TEST(counters_and_items_are_listed_with_their_values)
{
    assert_string_equal(ask("SELECT id, value FROM counters ORDER BY id"),
                        "123/like,2 | 124/dislike,1 | 13,42 | video1/like,1 | views,42");
    assert_string_equal(ask("SELECT id, kind, count FROM items ORDER BY id"),
                        "123,like,2 | 124,dislike,1 | video1,like,1");
    assert_string_equal(ask("SELECT updated > '2023-11-14 22:13:20+0' FROM counters "
                            "WHERE id = '123/like'"),
                        "t");
}

TEST(who_likes_what_names_people)
{
    assert_string_equal(ask("SELECT user_name, item, kind FROM who_likes_what ORDER BY 2, 1"),
                        "456,123,like | ann,123,like | ann,124,dislike | 456,video1,like");
    assert_string_equal(
        ask("SELECT item, user_name, kind FROM past WHERE item = '123' ORDER BY row"),
        "123,456,like | 123,ann,like | 123,7,like | 123,7,");
}

TEST(an_item_that_was_deleted_has_nobody_who_likes_it)
{
    rig_unit(rig, "123", true)->is_gone = true;
    rig_apply_ok(rig);
    assert_string_equal(ask("SELECT user_name, item FROM who_likes_what WHERE item = '123'"), "");
    assert_string_equal(ask("SELECT * FROM posts WHERE id = 123"), "");
    struct store_unit *unit = rig_unit(rig, "123", true);
    unit->is_new = true;
    unit->incarnation = 1;
    rig_react(rig, "123", "9", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(ask("SELECT user_name, item FROM who_likes_what WHERE item = '123'"),
                        "9,123");
    assert_string_equal(ask("SELECT like_count FROM posts WHERE id = 123"), "1");
}

TEST(posts_and_likes_are_asked_by_their_numbers)
{
    assert_string_equal(ask("SELECT like_count FROM posts WHERE id = 123"), "2");
    assert_string_equal(ask("SELECT * FROM posts ORDER BY id"),
                        "123,2,123 | 124,0,124 | ,1,video1");
    assert_string_equal(ask("SELECT count(*) FROM likes WHERE post_id = 123 AND user_id = 456"),
                        "1");
    assert_string_equal(ask("SELECT count(*) FROM likes WHERE post_id = 123 AND user_id = 7"), "0");
    assert_string_equal(
        ask("SELECT post_id, user_id, item, user_name FROM likes ORDER BY item, user_name"),
        "123,456,123,456 | 123,,123,ann | ,456,video1,456");
    assert_string_equal(ask("SELECT count(DISTINCT id) = count(*) FROM likes"), "t");
    /* with a table of one's own */
    postgres_run(rig->folder, "CREATE TABLE mine(id bigint PRIMARY KEY, title text); "
                              "INSERT INTO mine VALUES(123, 'first'), (125, 'none')");
    assert_string_equal(ask("SELECT m.title, p.like_count FROM mine m JOIN posts p USING (id)"),
                        "first,2");
}

TEST(votes_are_counted_by_an_item_or_a_counter)
{
    assert_string_equal(ask("SELECT vote_count FROM item WHERE id = 13"), "42");
    assert_string_equal(ask("SELECT vote_count FROM item WHERE id = 123"), "2");
    assert_string_equal(ask("SELECT count(*) FROM vote WHERE item_id = 123"), "2");
}

TEST(events_have_a_status_each)
{
    assert_string_equal(ask("SELECT post_id, kind, delta, status, retry_count FROM "
                            "post_count_events WHERE post_id > 0 ORDER BY processed_at, post_id"),
                        "13,,41,SUCCESS,0 | 123,like,3,SUCCESS,0 | 124,dislike,1,SUCCESS,0 | "
                        "13,,1,SUCCESS,0 | 123,like,-1,SUCCESS,0");
    assert_string_equal(ask("SELECT id, delta, status FROM lives WHERE id = 'views'"),
                        "views,42,SUCCESS");
    assert_string_equal(ask("SELECT count(*) FROM letters"), "0");
    assert_string_equal(ask("SELECT origin, sequence FROM positions WHERE sequence > 0"), "0,9");
}

/* A hundred thousand others are not looked at. */
TEST(an_index_makes_look_ups_by_number_fast)
{
    postgres_run(rig->folder, "CREATE INDEX ON entries(number_of(id))");
    postgres_run(rig->folder, "INSERT INTO entries(id, type, incarnation, updated, value) SELECT "
                              "'n' || n, 0, 0, now(), 0 FROM generate_series(1, 20000) n");
    postgres_run(rig->folder, "ANALYZE entries");
    PGconn *connection = postgres_connect();
    postgres_run_in(connection, rig->folder, "SELECT 1");
    PGresult *result = PQexec(connection, "EXPLAIN SELECT like_count FROM posts WHERE id = 123");
    bool found = false;
    for (int i = 0; i < PQntuples(result); i++)
        found |= strstr(PQgetvalue(result, i, 0), "entries_number_of_idx") != NULL;
    PQclear(result);
    PQfinish(connection);
    assert_true(found);
}

#define BOTH(test)                                                 \
    cmocka_unit_test_setup_teardown(test, set_up_rows, tear_down), \
        cmocka_unit_test_setup_teardown(test, set_up_sets, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(counters_and_items_are_listed_with_their_values),
        BOTH(who_likes_what_names_people),
        BOTH(an_item_that_was_deleted_has_nobody_who_likes_it),
        BOTH(posts_and_likes_are_asked_by_their_numbers),
        BOTH(votes_are_counted_by_an_item_or_a_counter),
        BOTH(events_have_a_status_each),
        BOTH(an_index_makes_look_ups_by_number_fast),
    };
    postgres_or_skip();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
