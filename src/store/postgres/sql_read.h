/* sql_read.h - the statements of the readers, and of what keeps the tables in order. */
#ifndef STORE_POSTGRES_SQL_READ_H
#define STORE_POSTGRES_SQL_READ_H

#include "store/postgres/sql_sums.h"

/* How far every origin is, of the same moment as the rest of a statement: all sequences, and behind
 * them all times. */
#define SQL_SEQUENCES                                                                          \
    "(SELECT array_agg(sequence ORDER BY origin) || array_agg(applied_ms ORDER BY origin) AS " \
    "sequences FROM origins) o"

/* The counts of an item in two arrays, when the last of them was changed, and whether they are what
 * was written there. */
#define SQL_COUNTS                                                        \
    "LATERAL (SELECT array_agg(kind::bigint ORDER BY kind) AS kinds, "    \
    "array_agg(count ORDER BY kind) AS counts, max(updated) AS updated, " \
    "bool_and(COALESCE(checksum = " SQL_COUNT_SUM(                        \
        "item", "kind", "count") ", false)) AS fit FROM counts WHERE item = e.number) c"
/* Is all of it what was written there? */
#define SQL_FITS "(" SQL_ENTRY_FITS("e") " AND COALESCE(c.fit, true))"

/* Numbers that are names before users with names, and both sorted. */
#define SQL_MEMBER_SORT  "r.kind, r.user_id < 0, abs(r.user_id)"
#define SQL_MEMBER_ORDER "ORDER BY " SQL_MEMBER_SORT
#define SQL_WHOLES \
    "unnest($1::bigint[]) WITH ORDINALITY i(item, place) JOIN reactions r ON r.item = i.item"
#define SQL_MEMBER_NAMED                                                   \
    "SELECT r.kind, r.user_id, u.name FROM reactions r LEFT JOIN users u " \
    "ON u.number = -1 - r.user_id AND r.user_id < 0 WHERE r.item = $1::bigint "

#define SQL_LIFE                                                                      \
    "c.row, c.event_id, c.id, c.delta, c.state, c.retry_count, c.events, c.created, " \
    "c.processed, c.next, c.reason"
#define SQL_LETTER \
    "row, event_id, id, delta, reason, raw, segment, position, retry_count, created, failed"

#define SQL_READ(X)                                                                                \
    /* what hot state is loaded from */                                                            \
    X(SQL_READ_TARGET,                                                                             \
      "SELECT o.sequences, w.waits, e.number, " SQL_ENTRY_TYPE(                                    \
          "e") ", e.incarnation, "                                                                 \
               "GREATEST(e.updated, c.updated), e.value::text, e.slices, e.settings, "             \
               "e.deadline_ms, "                                                                   \
               "c.kinds, c.counts, " SQL_FITS ", e.members FROM " SQL_SEQUENCES " CROSS JOIN "     \
               "(SELECT EXISTS(SELECT 1 FROM waiting WHERE id = $1::text) AS waits) w "            \
               "LEFT JOIN entries e ON e.id = $1::text AND " SQL_ENTRY_LIVES(                      \
                   "e") " LEFT JOIN " SQL_COUNTS " ON true")                                       \
    X(SQL_READ_TARGETS,                                                                            \
      "SELECT CASE WHEN i.place = 1 THEN o.sequences END, "                                        \
      "EXISTS(SELECT 1 FROM waiting WHERE id = i.id), e.number, " SQL_ENTRY_TYPE(                  \
          "e") ", e.incarnation, "                                                                 \
               "GREATEST(e.updated, c.updated), e.value::text, e.slices, e.settings, "             \
               "e.deadline_ms, "                                                                   \
               "c.kinds, c.counts, " SQL_FITS                                                      \
               " FROM unnest($1::text[]) WITH ORDINALITY i(id, place) "                            \
               "CROSS JOIN " SQL_SEQUENCES                                                         \
               " LEFT JOIN entries e ON e.id = i.id AND " SQL_ENTRY_LIVES(                         \
                   "e") " LEFT JOIN " SQL_COUNTS " ON true ORDER BY i.place")                      \
    X(SQL_READ_WHOLES, "SELECT r.kind, r.user_id, NULL, i.place FROM " SQL_WHOLES                  \
                       " ORDER BY i.place, " SQL_MEMBER_SORT)                                      \
    X(SQL_READ_WHOLES_NAMED,                                                                       \
      "SELECT r.kind, r.user_id, u.name, i.place FROM " SQL_WHOLES " LEFT JOIN users u "           \
      "ON u.number = -1 - r.user_id AND r.user_id < 0 ORDER BY i.place, " SQL_MEMBER_SORT)         \
    X(SQL_READ_WAITING,                                                                            \
      "SELECT CASE WHEN w.state = 3 THEN d.raw ELSE w.raw END FROM waiting w "                     \
      "LEFT JOIN dead_letters d ON d.event_id = w.event_id WHERE w.id = $1::text ORDER BY w.row")  \
    X(SQL_READ_WHOLE,                                                                              \
      "SELECT r.kind, r.user_id FROM reactions r WHERE r.item = $1::bigint " SQL_MEMBER_ORDER)     \
    X(SQL_READ_WHOLE_NAMED, SQL_MEMBER_NAMED SQL_MEMBER_ORDER)                                     \
    X(SQL_READ_SLICE, "SELECT r.kind, r.user_id FROM reactions r WHERE r.item = $1::bigint "       \
                      "AND r.slice = $2::bigint " SQL_MEMBER_ORDER)                                \
    X(SQL_READ_SLICE_NAMED, SQL_MEMBER_NAMED "AND r.slice = $2::bigint " SQL_MEMBER_ORDER)         \
    X(SQL_READ_SETS, "SELECT members FROM members WHERE item = $1::bigint AND slice = $2::bigint") \
    X(SQL_READ_SETS_ALL,                                                                           \
      "SELECT members FROM entries WHERE number = $1::bigint AND slices = 1 "                      \
      "AND members IS NOT NULL UNION ALL SELECT members FROM members WHERE item = $1::bigint")     \
    X(SQL_READ_MEMBER_COUNT,                                                                       \
      "SELECT count(*) FROM reactions WHERE item = $1::bigint AND kind = $2::bigint")              \
    /* users and keys */                                                                           \
    X(SQL_READ_USER, "SELECT number FROM users WHERE name = $1::text")                             \
    X(SQL_READ_NAMES,                                                                              \
      "SELECT number, name FROM users WHERE number = ANY($1::bigint[]) ORDER BY number")           \
    X(SQL_READ_NAMES_IN_ORDER,                                                                     \
      "SELECT u.number, u.name FROM unnest($1::bigint[]) WITH ORDINALITY w(number, place) "        \
      "JOIN users u ON u.number = w.number ORDER BY w.place")                                      \
    X(SQL_READ_KEY,                                                                                \
      "SELECT o.sequences, k.low, k.high, k.fingerprint, k.changed, k.held, k.value::text, "       \
      "k.time FROM " SQL_SEQUENCES " LEFT JOIN LATERAL (SELECT * FROM keys WHERE "                 \
      "low = $1::bigint AND high = $2::bigint ORDER BY row DESC LIMIT 1) k ON true")               \
    /* walks */                                                                                    \
    X(SQL_READ_KEYS, "SELECT row, low, high, fingerprint, changed, held, value::text, time "       \
                     "FROM keys WHERE row > $1::bigint ORDER BY row LIMIT $2::bigint")             \
    X(SQL_READ_USERS, "SELECT number, name FROM users WHERE number >= $1::bigint "                 \
                      "ORDER BY number LIMIT $2::bigint")                                          \
    X(SQL_READ_IDS, "SELECT number, id FROM entries WHERE number > $1::bigint "                    \
                    "ORDER BY number LIMIT $2::bigint")                                            \
    X(SQL_READ_WAITING_IDS, "SELECT DISTINCT id FROM waiting")                                     \
    X(SQL_READ_SCAN,                                                                               \
      "SELECT e.number, e.id, " SQL_ENTRY_TYPE(                                                    \
          "e") ", e.incarnation, GREATEST(e.updated, c.updated), "                                 \
               "e.value::text, e.slices, e.settings, e.deadline_ms, c.kinds, c.counts, " SQL_FITS  \
               " FROM "                                                                            \
               "(SELECT * FROM entries WHERE number > $1::bigint ORDER BY number LIMIT "           \
               "$2::bigint) e "                                                                    \
               "LEFT JOIN " SQL_COUNTS " ON e.slices IS NOT NULL ORDER BY e.number")               \
    /* The limit keeps it to one look at the index for each item. */                               \
    X(SQL_READ_ITEMS_OF,                                                                           \
      "SELECT e.number, e.id, r.kind FROM (SELECT number, id FROM entries "                        \
      "WHERE number > $1::bigint ORDER BY number LIMIT $2::bigint) e LEFT JOIN LATERAL "           \
      "(SELECT kind FROM reactions WHERE item = e.number AND user_id = $3::bigint LIMIT 1) r "     \
      "ON true ORDER BY e.number")                                                                 \
    X(SQL_READ_ITEMS_AND_SETS,                                                                     \
      "SELECT number, id, " SQL_ENTRY_TYPE(                                                        \
          "e") ", slices, members FROM entries e WHERE number > $1::bigint "                       \
               "ORDER BY number LIMIT $2::bigint")                                                 \
    /* lists for people, newest first */                                                           \
    /* Of `applied` as few rows as hold enough units. */                                           \
    X(SQL_READ_LIVES,                                                                              \
      "SELECT " SQL_LIFE " FROM ((SELECT * FROM count_events WHERE row < $1::bigint "              \
      "ORDER BY row DESC LIMIT $2::bigint) UNION ALL SELECT a.batch << 20 | u.n, u.event_id, "     \
      "u.id, u.delta, 2::smallint, 0, u.events, u.created, a.processed, NULL, NULL FROM "          \
      "(SELECT s.*, sum(s.rest) OVER (ORDER BY s.batch DESC) - s.rest AS before FROM "             \
      "(SELECT *, CASE WHEN batch = $1::bigint >> 20 THEN LEAST(units, ($1::bigint & 1048575) "    \
      "- 1) ELSE units END AS rest FROM applied WHERE batch <= $1::bigint >> 20 "                  \
      "ORDER BY batch DESC LIMIT $2::bigint + 1) s) a "                                            \
      "CROSS JOIN LATERAL unnest(a.event_ids, a.ids, a.deltas, a.events, a.created) "              \
      "WITH ORDINALITY u(event_id, id, delta, events, created, n) "                                \
      "WHERE a.before < $2::bigint AND a.batch << 20 | u.n < $1::bigint) c "                       \
      "ORDER BY c.row DESC LIMIT $2::bigint")                                                      \
    X(SQL_READ_LIVES_WAITING,                                                                      \
      "SELECT " SQL_LIFE " FROM waiting w JOIN count_events c ON c.row = w.row "                   \
      "WHERE w.row < $1::bigint ORDER BY w.row DESC LIMIT $2::bigint")                             \
    X(SQL_READ_WAITING_FROM,                                                                       \
      "SELECT w.row, w.event_id, w.id, c.delta, CASE WHEN w.state = 3 THEN d.raw ELSE w.raw END, " \
      "(c.event_id, c.id, c.state) IS NOT DISTINCT FROM (w.event_id, w.id, w.state) AND "          \
      "(w.state <> 3 OR (d.id, d.delta) IS NOT DISTINCT FROM (c.id, c.delta)) FROM waiting w "     \
      "LEFT JOIN count_events c ON c.row = w.row "                                                 \
      "LEFT JOIN dead_letters d ON w.state = 3 AND d.event_id = w.event_id "                       \
      "WHERE w.row > $1::bigint ORDER BY w.row LIMIT $2::bigint")                                  \
    X(SQL_READ_LETTERS, "SELECT " SQL_LETTER " FROM dead_letters WHERE row < $1::bigint "          \
                        "ORDER BY row DESC LIMIT $2::bigint")                                      \
    X(SQL_READ_LETTER, "SELECT " SQL_LETTER " FROM dead_letters WHERE event_id = $1::uuid")        \
    X(SQL_READ_ENTRY_NUMBER, "SELECT number FROM entries WHERE id = $1::text")                     \
    X(SQL_READ_PAST,                                                                               \
      "SELECT h.row, e.id, h.user_id, u.name, h.stub, h.kind, h.time FROM "                        \
      "(SELECT * FROM (SELECT * FROM history WHERE row < $1::bigint ORDER BY row DESC "            \
      "LIMIT $2::bigint) rows WHERE ($3::bigint IS NULL OR item = $3::bigint) AND "                \
      "($4::bigint IS NULL OR user_id = $4::bigint) ORDER BY row DESC LIMIT $5::bigint) h "        \
      "LEFT JOIN entries e ON e.number = h.item LEFT JOIN users u ON u.number = -1 - h.user_id "   \
      "ORDER BY h.row DESC")                                                                       \
    X(SQL_READ_PAST_END, "SELECT min(row), count(*) FROM (SELECT row FROM history "                \
                         "WHERE row < $1::bigint ORDER BY row DESC LIMIT $2::bigint) rows")        \
    X(SQL_READ_AUDITS, "SELECT row, time, what, id, text FROM audit_trail WHERE row < $1::bigint " \
                       "ORDER BY row DESC LIMIT $2::bigint")                                       \
    X(SQL_READ_BASE,                                                                               \
      "SELECT p.base_segment, p.base_position, b.sum::text, b.discarded::text, "                   \
      "COALESCE(b.checksum = " SQL_BASE_CHECKSUM(                                                  \
          "b.id", "b.sum", "b.discarded") ", false) "                                              \
                                          "FROM progress p LEFT JOIN bases b ON b.id = $1::text")  \
    /* figures */                                                                                  \
    X(SQL_STATS_WAITING, "SELECT count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE "       \
                         "state = 1), (SELECT count(*) FROM dead_letters) FROM waiting")           \
    X(SQL_STATS_ROWS,                                                                              \
      "SELECT (SELECT count(*) FROM (SELECT 1 FROM count_events WHERE state IN (2, 4) "            \
      "LIMIT $1::bigint) r) + (SELECT COALESCE(sum(units), 0)::bigint FROM (SELECT units FROM "    \
      "applied LIMIT $1::bigint) r), "                                                             \
      "(SELECT count(*) FROM (SELECT 1 FROM history "                                              \
      "LIMIT $1::bigint) r), 0::bigint, "                                                          \
      "(SELECT reltuples::bigint FROM pg_class WHERE oid = 'history'::regclass), "                 \
      "(SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind = 'r' AND "    \
      "relnamespace = quote_ident(current_schema())::regnamespace)")                               \
    /* thinning */                                                                                 \
    X(SQL_TEND_THIN_LIVES,                                                                         \
      "DELETE FROM count_events WHERE row <= (SELECT max(row) FROM (SELECT row FROM count_events " \
      "WHERE state IN (2, 4) ORDER BY row LIMIT $2::bigint) rows) AND created < "                  \
      "$1::timestamptz AND state IN (2, 4)")                                                       \
    X(SQL_TEND_THIN_APPLIED,                                                                       \
      "WITH gone AS (DELETE FROM applied WHERE processed < $1::timestamptz AND batch IN "          \
      "(SELECT batch FROM (SELECT batch, sum(units) OVER (ORDER BY batch) - units AS before "      \
      "FROM (SELECT batch, units FROM applied ORDER BY batch LIMIT $2::bigint) s) t "              \
      "WHERE before < $2::bigint) RETURNING units) "                                               \
      "SELECT COALESCE(sum(units), 0)::bigint FROM gone")                                          \
    X(SQL_TEND_THIN_HISTORY,                                                                       \
      "DELETE FROM history WHERE row <= (SELECT max(row) FROM (SELECT row FROM history "           \
      "ORDER BY row LIMIT $2::bigint) rows) AND time < $1::timestamptz")                           \
    X(SQL_TEND_THIN_KEYS,                                                                          \
      "DELETE FROM keys WHERE row <= (SELECT max(row) FROM (SELECT row FROM keys "                 \
      "ORDER BY row LIMIT $2::bigint) rows) AND time < $1::timestamptz")                           \
    X(SQL_TEND_THIN_GONE, "DELETE FROM entries e WHERE type = 2 AND updated < "                    \
                          "$1::timestamptz AND NOT " SQL_ENTRY_LIVES("e"))                         \
    /* mending */                                                                                  \
    X(SQL_TEND_MENDING, "SELECT pg_try_advisory_lock(x'54414c59'::int, 2)")                        \
    X(SQL_TEND_MENDED, "SELECT pg_advisory_unlock(x'54414c59'::int, 2)")                           \
    X(SQL_TEND_AUDIT, "INSERT INTO audit_trail(time, what, id, text) "                             \
                      "VALUES($1::timestamptz, $2::text, $3::text, $4::text)")                     \
    X(SQL_TEND_MEND_VALUE,                                                                         \
      "UPDATE entries e SET type = 0, value = COALESCE(e.value, 0) + ($2::text)::numeric, "        \
      "checksum = " SQL_ENTRY_SUM(                                                                 \
          "e.id", "0", "e.incarnation", "e.slices", "e.settings", "e.deadline_ms",                 \
          "COALESCE(e.value, 0) + ($2::text)::numeric") " WHERE number = $1::bigint")              \
    X(SQL_TEND_MEND_LIFE, "UPDATE entries SET incarnation = $2::bigint WHERE number = $1::bigint") \
    X(SQL_TEND_SETTINGS, "SELECT settings FROM entries WHERE number = $1::bigint")                 \
    X(SQL_TEND_SETTINGS_REMOVE, "UPDATE entries SET settings = NULL WHERE number = $1::bigint")    \
    X(SQL_TEND_MEND_COUNT,                                                                         \
      "INSERT INTO counts AS c(item, kind, count, updated, checksum) "                             \
      "SELECT $1::bigint, $2::bigint, $3::bigint, updated, " SQL_COUNT_SUM(                        \
          "$1::bigint", "$2::bigint",                                                              \
          "$3::bigint") " FROM entries WHERE number = $1::bigint ON CONFLICT (item, kind) DO "     \
                        "UPDATE "                                                                  \
                        "SET count = c.count + EXCLUDED.count, checksum = " SQL_SUM_ADD(           \
                            "c.checksum", "EXCLUDED.count"))                                       \
    /* All of it is right: it gets the sums of what stands there. */                               \
    X(SQL_TEND_SUM_ANEW,                                                                           \
      "WITH c AS (UPDATE counts SET checksum = " SQL_COUNT_SUM(                                    \
          "item", "kind", "count") " WHERE item = $1::bigint) UPDATE entries e "                   \
                                   "SET " SQL_ENTRY_ANEW("e") " WHERE number = $1::bigint")        \
    X(SQL_TEND_MAKE,                                                                               \
      "INSERT INTO entries(id, type, incarnation, updated, value, slices, settings, deadline_ms, " \
      "checksum) VALUES($1::text, $2::bigint, $3::bigint, $4::timestamptz, ($5::text)::numeric, "  \
      "$6::bigint, $7::text, $8::bigint, " SQL_ENTRY_SUM(                                          \
          "$1::text", "$2::bigint", "$3::bigint", "$6::bigint", "$7::text", "$8::bigint",          \
          "($5::text)") ") ON CONFLICT (id) DO UPDATE SET type = EXCLUDED.type, "                  \
                        "incarnation = EXCLUDED.incarnation, updated = EXCLUDED.updated, value = " \
                        "EXCLUDED.value, "                                                         \
                        "slices = EXCLUDED.slices, settings = EXCLUDED.settings, deadline_ms = "   \
                        "EXCLUDED.deadline_ms, members = NULL, checksum = EXCLUDED.checksum "      \
                        "WHERE NOT " SQL_ENTRY_LIVES("entries") " RETURNING number")               \
    /* bases */                                                                                    \
    X(SQL_TEND_BASE_ADD,                                                                           \
      "INSERT INTO bases AS b VALUES($1::text, ($2::text)::numeric, "                              \
      "($3::text)::numeric, " SQL_BASE_CHECKSUM(                                                   \
          "$1::text", "($2::text)::numeric",                                                       \
          "($3::text)::numeric") ") "                                                              \
                                 "ON CONFLICT (id) DO UPDATE SET sum = b.sum + EXCLUDED.sum, "     \
                                 "discarded = b.discarded + EXCLUDED.discarded, checksum "         \
                                 "= " SQL_BASE_CHECKSUM_THEN("b.sum + EXCLUDED.sum",               \
                                                             "b.discarded + EXCLUDED.discarded"))  \
    X(SQL_TEND_BASE_SET, "UPDATE progress SET base_segment = $1::bigint, base_position = "         \
                         "$2::bigint")                                                             \
    /* erasing */                                                                                  \
    X(SQL_TEND_HOLDS, "SELECT item FROM reactions WHERE user_id = $1::bigint LIMIT 1")             \
    X(SQL_TEND_HELD_SETS,                                                                          \
      "SELECT e.id, e.slices, e.members, e.number FROM (SELECT DISTINCT item FROM history WHERE "  \
      "user_id = $1::bigint) h JOIN entries e ON e.number = h.item WHERE e.type = 1")              \
    X(SQL_TEND_STUB, "UPDATE history SET user_id = NULL, stub = $2::text WHERE user_id = "         \
                     "$1::bigint")                                                                 \
    X(SQL_TEND_FORGET_USER, "WITH gone AS (DELETE FROM users WHERE number = $1::bigint) "          \
                            "UPDATE progress SET erased = erased + 1")                             \
    X(SQL_TEND_RAWS, "SELECT row, raw FROM waiting WHERE raw IS NOT NULL AND row > $1::bigint "    \
                     "ORDER BY row LIMIT 1")                                                       \
    X(SQL_TEND_RAW_SET, "UPDATE waiting SET raw = $2::bytea WHERE row = $1::bigint")               \
    X(SQL_TEND_LETTER_RAWS, "SELECT row, raw FROM dead_letters WHERE raw IS NOT NULL "             \
                            "AND row > $1::bigint ORDER BY row LIMIT 1")                           \
    X(SQL_TEND_LETTER_RAW_SET, "UPDATE dead_letters SET raw = $2::bytea WHERE row = $1::bigint")

#endif
