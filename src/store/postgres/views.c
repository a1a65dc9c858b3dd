/* views.c - views made to be read: in Tally's words, and in those that a like counter made by hand
 * would have (likes, posts.like_count, post_count_events, item.vote_count, vote). The latter name
 * things by numbers: what has none has NULL there. An index on number_of(id) makes look-ups by it
 * fast.
 *
 * Who holds what now is in `reactions`, or, where members are sets, is told by the history. */
#include "store/postgres/own.h"

#define STATUS                                                                       \
    "CASE state WHEN 0 THEN 'PENDING' WHEN 1 THEN 'RETRYING' WHEN 2 THEN 'SUCCESS' " \
    "WHEN 3 THEN 'FAILED' ELSE 'DISCARDED' END"

/* A user_id as the name that it stands for. */
#define USER_NAME "CASE WHEN h.user_id >= 0 THEN h.user_id::text ELSE u.name END"

/* Deadlines may be anything; timestamps may not. */
#define EXPIRES                                                                            \
    "CASE WHEN deadline_ms BETWEEN 1 AND 253402300799000 THEN to_timestamp(deadline_ms / " \
    "1000.0) END"

/* What users hold now. */
const char *const postgres_held[] = {
    [POSTGRES_ROWS] = "CREATE VIEW held(item, user_id, kind, time) AS "
                      "SELECT item, user_id, kind, time FROM reactions",
    [POSTGRES_SETS] =
        "CREATE VIEW held(item, user_id, kind, time) AS SELECT item, user_id, kind, time FROM "
        "(SELECT DISTINCT ON (h.item, h.user_id) h.* FROM history h JOIN entries e ON e.number = "
        "h.item WHERE h.user_id IS NOT NULL AND h.row >= COALESCE(e.first_row, 0) "
        "ORDER BY h.item, h.user_id, h.row DESC) last WHERE kind <> 0",
};

const char postgres_views[] =
    "CREATE FUNCTION number_of(id text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS "
    "$$ SELECT CASE WHEN id ~ '^(0|[1-9][0-9]{0,17})$' THEN id::bigint END $$;"

    "CREATE VIEW counters(id, value, updated, incarnation, settings, expires) AS "
    "SELECT id, value, updated, incarnation, settings::json, " EXPIRES
    " FROM entries WHERE type = 0 UNION ALL "
    "SELECT e.id || '/' || k.name, c.count, GREATEST(e.updated, c.updated), e.incarnation, NULL, "
    "NULL FROM counts c JOIN entries e ON e.number = c.item JOIN kinds k ON k.number = c.kind "
    "WHERE e.type = 1;"

    "CREATE VIEW items(id, kind, count, updated) AS "
    "SELECT e.id, k.name, c.count, GREATEST(e.updated, c.updated) FROM counts c "
    "JOIN entries e ON e.number = c.item JOIN kinds k ON k.number = c.kind WHERE e.type = 1;"

    "CREATE VIEW who_likes_what(user_name, item, kind, since) AS "
    "SELECT " USER_NAME ", e.id, k.name, h.time FROM held h JOIN entries e "
    "ON e.number = h.item JOIN kinds k ON k.number = h.kind LEFT JOIN users u "
    "ON u.number = -1 - h.user_id WHERE e.type = 1;"

    "CREATE VIEW past(row, item, user_name, kind, time) AS "
    "SELECT h.row, e.id, CASE WHEN h.user_id IS NULL THEN COALESCE(h.stub, '(erased)') "
    "ELSE " USER_NAME
    " END, k.name, h.time FROM history h LEFT JOIN entries e ON e.number = h.item "
    "LEFT JOIN kinds k ON k.number = h.kind LEFT JOIN users u ON u.number = -1 - h.user_id;"

    "CREATE VIEW lives(event_id, id, delta, status, retry_count, events, created, processed, "
    "next_attempt, reason) AS SELECT event_id, id, delta, " STATUS ", retry_count, events, "
    "created, processed, next, reason FROM unit_lives;"

    "CREATE VIEW letters(event_id, id, delta, reason, raw, retry_count, created, failed) AS "
    "SELECT event_id, id, delta, reason, encode(raw, 'hex'), retry_count, created, failed "
    "FROM dead_letters;"

    "CREATE VIEW positions(origin, sequence, ended, incarnation) AS "
    "SELECT o.origin, o.sequence, o.ended, h.incarnation FROM origins o JOIN homes h "
    "ON h.cell = o.origin;"

    "CREATE VIEW likes(id, post_id, user_id, created_at, item, user_name) AS "
    "SELECT md5(h.item || ':' || h.user_id)::uuid, number_of(e.id), "
    "CASE WHEN h.user_id >= 0 THEN h.user_id END, h.time, e.id, " USER_NAME " FROM held "
    "h JOIN entries e ON e.number = h.item JOIN kinds k ON k.number = h.kind "
    "LEFT JOIN users u ON u.number = -1 - h.user_id WHERE e.type = 1 AND k.name = 'like';"

    "CREATE VIEW posts(id, like_count, item) AS "
    "SELECT number_of(e.id), COALESCE(c.count, 0), e.id FROM entries e LEFT JOIN counts c "
    "ON c.item = e.number AND c.kind = (SELECT number FROM kinds WHERE name = 'like') "
    "WHERE e.type = 1;"

    "CREATE VIEW post_count_events(event_id, post_id, delta, status, retry_count, processed_at, "
    "created_at, kind, item) AS SELECT c.event_id, number_of(c.id), d.value::numeric, " STATUS
    ", c.retry_count, c.processed, c.created, d.key, c.id FROM unit_lives c CROSS JOIN LATERAL "
    "(SELECT j.key, j.value FROM json_each_text(CASE WHEN c.delta LIKE '{%' THEN c.delta::json "
    "END) j UNION ALL SELECT NULL, c.delta WHERE c.delta NOT LIKE '{%') d;"

    /* A vote is a like; where votes are only counted, it is the counter. */
    "CREATE VIEW item(id, name, vote_count) AS SELECT number_of(id), id, value FROM entries "
    "WHERE type = 0 UNION ALL SELECT id, item, like_count FROM posts;"
    "CREATE VIEW vote(id, item_id) AS SELECT id, post_id FROM likes;";
