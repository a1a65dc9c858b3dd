/* sql_write.h - the statements of the writer. Arrays are as long as the batch: a batch is a few
 * statements, however many units it has. */
#ifndef STORE_POSTGRES_SQL_WRITE_H
#define STORE_POSTGRES_SQL_WRITE_H

#include "store/postgres/sql_sums.h"

/* clang-format off */
#define SQL_WRITE(X) \
    /* how far it is */ \
    X(SQL_MARK, \
      "SELECT o.origin, o.sequence, o.ended, o.segment, o.position, h.incarnation, " \
      "o.counters, o.items, o.members, p.segment, p.position, p.counters, p.items, p.members, " \
      "p.next_user, u.last_value + u.is_called::int, COALESCE(e.epoch, 0), o.applied_ms " \
      "FROM origins o JOIN homes h ON h.cell = o.origin LEFT JOIN epochs e USING (origin) " \
      "CROSS JOIN progress p " \
      "CROSS JOIN user_numbers u") \
    X(SQL_PROGRESS_LOCK, \
      "SELECT p.segment, p.position, p.next_user, EXISTS(SELECT 1 FROM waiting), p.erased, " \
      "c.owner, c.who, c.released FROM progress p CROSS JOIN claim c FOR NO KEY UPDATE") \
    X(SQL_LANES_LOCK, \
      "SELECT o.origin, o.sequence, p.next_user, EXISTS(SELECT 1 FROM waiting), p.erased, " \
      "c.owner, c.who, c.released " \
      "FROM origins o CROSS JOIN progress p CROSS JOIN claim c WHERE o.origin = ANY($1::int8[]) " \
      "ORDER BY o.origin FOR NO KEY UPDATE OF o") \
    X(SQL_LANES_SEE, "SELECT origin, sequence FROM origins WHERE origin = ANY($1::int8[])") \
    X(SQL_PROGRESS_SET, \
      "UPDATE progress SET segment = $1::int8, position = $2::int8, " \
      "counters = counters + $3::int8, items = items + $4::int8, members = members + $5::int8, " \
      "next_user = GREATEST(next_user, $6::int8), updated = $7::timestamptz") \
    X(SQL_TOTALS_ADD, \
      "UPDATE progress SET counters = counters + $1::int8, items = items + $2::int8, " \
      "members = members + $3::int8, next_user = GREATEST(next_user, $4::int8)") \
    X(SQL_ORIGINS_SET, \
      "UPDATE origins o SET sequence = b.sequence, ended = b.ended, segment = b.segment, " \
      "position = b.position, counters = o.counters + b.counters, items = o.items + b.items, " \
      "members = o.members + b.members, applied_ms = b.applied_ms " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], " \
      "  $7::int8[], $8::int8[], $9::int8[]) " \
      "  b(origin, sequence, ended, segment, position, counters, items, members, applied_ms) " \
      "WHERE o.origin = b.origin") \
    X(SQL_SEQUENCES_SET, \
      "UPDATE origins o SET sequence = b.sequence, ended = b.ended, applied_ms = b.applied_ms " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[]) " \
      "  b(origin, sequence, ended, applied_ms) " \
      "WHERE o.origin = b.origin AND (o.sequence <> b.sequence OR o.ended <> b.ended)") \
    X(SQL_EPOCH_SAFELY, \
      "SELECT set_config('synchronous_commit', 'on', true) " \
      "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')") \
    X(SQL_EPOCH_NEXT, \
      "INSERT INTO epochs AS e VALUES($1::int8, $2::int8 + 1) ON CONFLICT (origin) " \
      "DO UPDATE SET epoch = GREATEST(e.epoch + 1, EXCLUDED.epoch) RETURNING epoch") \
    X(SQL_HOMES, "SELECT cell, incarnation FROM homes") \
    X(SQL_HOMES_SET, \
      "UPDATE homes h SET incarnation = GREATEST(h.incarnation, b.incarnation) " \
      "FROM unnest($1::int8[], $2::int8[]) b(cell, incarnation) WHERE h.cell = b.cell") \
    X(SQL_KINDS, "SELECT number, name FROM kinds ORDER BY number") \
    X(SQL_KIND_ADD, \
      "INSERT INTO kinds SELECT COALESCE(max(number), 0) + 1, $1::text FROM kinds " \
      "HAVING NOT EXISTS (SELECT 1 FROM kinds WHERE name = $1::text)") \
    /* counters and items */ \
    X(SQL_COUNTERS_ADD, \
      "UPDATE entries e SET value = e.value + b.value::numeric, updated = b.updated, " \
      "checksum = " SQL_SUM_ADD("e.checksum", "b.value") " " \
      "FROM unnest($1::text[], $2::int8[], $3::timestamptz[], $4::text[]) WITH ORDINALITY " \
      "  b(id, incarnation, updated, value, n) " \
      "WHERE e.id = b.id AND e.type = 0 AND e.incarnation = b.incarnation RETURNING b.n") \
    X(SQL_ENTRIES, \
      "SELECT b.n, e.number, " SQL_ENTRY_TYPE("e") ", e.incarnation, e.slices, " \
      "CASE WHEN e.slices = 1 THEN " \
      "  (SELECT sum(count)::int8 FROM counts c WHERE c.item = e.number) END, " \
      SQL_ENTRY_STAYS_RIGHT("e") " " \
      "FROM unnest($1::text[]) WITH ORDINALITY b(id, n) JOIN entries e ON e.id = b.id " \
      "ORDER BY b.n") \
    X(SQL_ENTRIES_LOCK, \
      "SELECT b.n, e.number, " SQL_ENTRY_TYPE("e") ", e.incarnation, e.slices, " \
      "CASE WHEN e.slices = 1 THEN " \
      "  (SELECT sum(count)::int8 FROM counts c WHERE c.item = e.number) END, " \
      SQL_ENTRY_STAYS_RIGHT("e") " " \
      "FROM unnest($1::text[]) WITH ORDINALITY b(id, n) JOIN entries e ON e.id = b.id " \
      "ORDER BY b.n FOR NO KEY UPDATE OF e") \
    X(SQL_ITEMS_ADD, \
      "INSERT INTO entries(id, type, incarnation, updated, slices, settings, checksum) " \
      "SELECT id, 1, incarnation, updated, slices, NULLIF(settings, ''), " \
      SQL_ENTRY_SUM("id", "1", "incarnation", "slices", "settings", "''", "NULL") " " \
      "FROM unnest($1::text[], $2::int8[], $3::timestamptz[], $4::int8[], $5::text[]) " \
      "  b(id, incarnation, updated, slices, settings) " \
      "RETURNING number, id") \
    X(SQL_ITEMS_SET, \
      "UPDATE entries e SET type = 1, incarnation = n.incarnation, updated = n.updated, " \
      "slices = n.slices, settings = n.settings, value = NULL, deadline_ms = NULL, " \
      "members = CASE WHEN n.anew THEN NULL ELSE e.members END, " \
      "checksum = CASE WHEN n.fits THEN " \
      SQL_ENTRY_SUM("n.id", "1", "n.incarnation", "n.slices", "n.settings", "''", "NULL") \
      " ELSE " SQL_SUM_WRONG " END FROM (SELECT o.number, o.id, b.incarnation, " \
      "  COALESCE(b.updated, o.updated) AS updated, b.slices, CASE WHEN b.settings IS NULL " \
      "    THEN o.settings ELSE NULLIF(b.settings, '') END AS settings, " \
      "  b.anew, " SQL_ENTRY_STAYS_RIGHT("o") " AS fits " \
      "  FROM unnest($1::int8[], $2::int8[], $3::timestamptz[], $4::int8[], $5::text[], " \
      "    $6::bool[]) b(number, incarnation, updated, slices, settings, anew) " \
      "  JOIN entries o ON o.number = b.number) n WHERE e.number = n.number") \
    X(SQL_COUNTERS_MAKE, \
      "INSERT INTO entries(id, type, incarnation, updated, value, settings, deadline_ms, checksum) " \
      "SELECT id, 0, incarnation, updated, value::numeric, NULLIF(settings, ''), " \
      "  NULLIF(deadline_ms, 0), " \
      SQL_ENTRY_SUM("id", "0", "incarnation", "''", "settings", "NULLIF(deadline_ms, 0)", "value") " " \
      "FROM unnest($1::text[], $2::int8[], $3::timestamptz[], $4::text[], $5::text[], " \
      "  $6::int8[]) b(id, incarnation, updated, value, settings, deadline_ms)") \
    X(SQL_COUNTERS_PLAIN, \
      "INSERT INTO entries(id, type, incarnation, updated, value, checksum) " \
      "SELECT id, 0, incarnation, updated, value::numeric, " \
      SQL_ENTRY_SUM("id", "0", "incarnation", "''", "''", "''", "value") " " \
      "FROM unnest($1::text[], $2::int8[], $3::timestamptz[], $4::text[]) " \
      "  b(id, incarnation, updated, value)") \
    X(SQL_COUNTERS_SET, \
      "UPDATE entries e SET type = 0, incarnation = n.incarnation, updated = n.updated, " \
      "value = n.value, settings = n.settings, deadline_ms = n.deadline_ms, " \
      "slices = NULL, members = NULL, checksum = CASE WHEN n.fits THEN " \
      SQL_ENTRY_SUM("n.id", "0", "n.incarnation", "''", "n.settings", "n.deadline_ms", "n.value") \
      " ELSE " SQL_SUM_WRONG " END FROM (SELECT o.number, o.id, b.incarnation, " \
      "  COALESCE(b.updated, o.updated) AS updated, " \
      "  CASE WHEN b.anew THEN b.value::numeric ELSE o.value + b.value::numeric END AS value, " \
      "  CASE WHEN b.anew OR b.settings IS NOT NULL THEN NULLIF(b.settings, '') " \
      "    ELSE o.settings END AS settings, " \
      "  CASE WHEN b.deadline_ms IS NOT NULL THEN NULLIF(b.deadline_ms, 0) " \
      "    WHEN b.anew THEN NULL ELSE o.deadline_ms END AS deadline_ms, " \
      "  " SQL_ENTRY_STAYS_RIGHT("o") " AS fits " \
      "  FROM unnest($1::int8[], $2::int8[], $3::timestamptz[], $4::text[], $5::text[], " \
      "    $6::int8[], $7::bool[]) " \
      "    b(number, incarnation, updated, value, settings, deadline_ms, anew) " \
      "  JOIN entries o ON o.number = b.number) n WHERE e.number = n.number") \
    X(SQL_COUNTERS_REMOVE, "DELETE FROM entries WHERE number = ANY($1::int8[])") \
    X(SQL_ITEMS_BURY, \
      "UPDATE entries e SET type = 2, incarnation = b.incarnation, updated = b.updated, " \
      "slices = NULL, settings = NULL, members = NULL, checksum = NULL " \
      "FROM unnest($1::int8[], $2::int8[], $3::timestamptz[]) b(number, incarnation, updated) " \
      "WHERE e.number = b.number") \
    X(SQL_ITEMS_END, \
      "UPDATE entries SET first_row = (SELECT COALESCE(max(row), 0) + 1 FROM history) " \
      "WHERE number = ANY($1::int8[])") \
    X(SQL_COUNTS_WIPE, \
      "WITH gone AS (DELETE FROM counts WHERE item = ANY($1::int8[]) RETURNING count) " \
      "SELECT COALESCE(sum(count), 0)::int8 FROM gone") \
    X(SQL_REACTIONS_WIPE, "DELETE FROM reactions WHERE item = ANY($1::int8[])") \
    X(SQL_MEMBERS_WIPE, "DELETE FROM members WHERE item = ANY($1::int8[])") \
    X(SQL_COUNTS_ADD, \
      "UPDATE counts c SET count = c.count + b.count, updated = GREATEST(c.updated, b.updated), " \
      "checksum = " SQL_SUM_ADD("c.checksum", "b.count") " " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::timestamptz[]) WITH ORDINALITY " \
      "  b(item, kind, count, updated, n) WHERE c.item = b.item AND c.kind = b.kind " \
      "RETURNING b.n") \
    X(SQL_COUNTS_MAKE, \
      "INSERT INTO counts(item, kind, count, updated, checksum) SELECT item, kind, count, updated, " \
      SQL_COUNT_SUM("item", "kind", "count") " " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::timestamptz[]) " \
      "  b(item, kind, count, updated)") \
    /* Forgets what was discarded of a counter, or of all kinds of an item. */ \
    X(SQL_BASES_FORGET, \
      "UPDATE bases b SET discarded = 0, checksum = " SQL_BASE_CHECKSUM_THEN("b.sum", "0::numeric") \
      " WHERE discarded <> 0 AND id = ANY($1::text[])") \
    /* members as rows */ \
    X(SQL_REACT, \
      "WITH b AS MATERIALIZED (SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], " \
      "    $4::int8[], $5::timestamptz[], $6::bool[]) " \
      "    b(item, user_id, kind, slice, time, is_last)), " \
      "  h AS (INSERT INTO history(item, user_id, kind, time) " \
      "    SELECT item, user_id, kind, time FROM b), " \
      "  o AS MATERIALIZED (SELECT b.item, b.user_id, b.kind, b.slice, b.time, " \
      "    COALESCE(r.kind, 0) AS was FROM b LEFT JOIN reactions r " \
      "    ON r.item = b.item AND r.user_id = b.user_id WHERE b.is_last), " \
      "  i AS (INSERT INTO reactions(item, user_id, kind, slice, time) " \
      "    SELECT item, user_id, kind, slice, time FROM o WHERE was = 0 AND kind <> 0), " \
      "  u AS (UPDATE reactions r SET kind = o.kind, time = o.time FROM o " \
      "    WHERE o.was <> 0 AND o.kind <> 0 AND o.was <> o.kind " \
      "    AND r.item = o.item AND r.user_id = o.user_id), " \
      "  d AS (DELETE FROM reactions r USING o WHERE o.was <> 0 AND o.kind = 0 " \
      "    AND r.item = o.item AND r.user_id = o.user_id) " \
      "SELECT item, was::int8, kind, count(*) FROM o WHERE was <> kind GROUP BY 1, 2, 3") \
    X(SQL_REACTIONS_OF, \
      "SELECT r.item, r.user_id, u.name FROM reactions r " \
      "LEFT JOIN users u ON r.user_id < 0 AND u.number = -1 - r.user_id " \
      "WHERE r.item = ANY($1::int8[])") \
    X(SQL_REACTIONS_SLICE, \
      "UPDATE reactions r SET slice = b.slice " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[]) b(item, user_id, slice) " \
      "WHERE r.item = b.item AND r.user_id = b.user_id") \
    X(SQL_REACTIONS_PUT, \
      "INSERT INTO reactions(item, user_id, kind, slice, time) " \
      "SELECT item, user_id, kind, slice, time " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::timestamptz[]) " \
      "  b(item, user_id, kind, slice, time)") \
    /* members as sets */ \
    X(SQL_SETS_WHOLE, \
      "SELECT number, members FROM entries WHERE number = ANY($1::int8[]) " \
      "AND members IS NOT NULL") \
    X(SQL_SETS_SLICES, \
      "SELECT m.item, m.slice, m.members FROM unnest($1::int8[], $2::int8[]) b(item, slice) " \
      "JOIN members m ON m.item = b.item AND m.slice = b.slice") \
    X(SQL_SETS_WHOLE_SET, \
      "UPDATE entries e SET members = b.members FROM unnest($1::int8[], $2::bytea[]) " \
      "b(number, members) WHERE e.number = b.number") \
    X(SQL_SETS_SLICES_SET, \
      "INSERT INTO members AS m(item, slice, members) SELECT item, slice, members " \
      "FROM unnest($1::int8[], $2::int8[], $3::bytea[]) b(item, slice, members) " \
      "ON CONFLICT (item, slice) DO UPDATE SET members = EXCLUDED.members") \
    X(SQL_SETS_SLICES_REMOVE, \
      "DELETE FROM members m USING unnest($1::int8[], $2::int8[]) b(item, slice) " \
      "WHERE m.item = b.item AND m.slice = b.slice") \
    X(SQL_HISTORY_ADD, \
      "INSERT INTO history(item, user_id, kind, time) SELECT item, user_id, kind, time " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::timestamptz[]) " \
      "  b(item, user_id, kind, time)") \
    /* users */ \
    X(SQL_USERS_ADD, \
      "INSERT INTO users(number, name) SELECT number, name " \
      "FROM unnest($1::int8[], $2::text[]) b(number, name)") \
    X(SQL_USERS_ADD_SHARED, \
      "INSERT INTO users(number, name) SELECT number, name " \
      "FROM unnest($1::int8[], $2::text[]) b(number, name) ON CONFLICT DO NOTHING") \
    X(SQL_USERS_FIND, \
      "SELECT b.n, u.number FROM unnest($1::text[]) WITH ORDINALITY b(name, n) " \
      "JOIN users u ON u.name = b.name") \
    X(SQL_USERS_ALIGN, \
      "SELECT setval('user_numbers', p.next, false) FROM user_numbers u, " \
      "(SELECT GREATEST($1::int8, next_user) AS next FROM progress) p " \
      "WHERE u.last_value + u.is_called::int < p.next") \
    X(SQL_USERS_NEW, \
      "INSERT INTO users(number, name) SELECT nextval('user_numbers'), name " \
      "FROM unnest($1::text[]) b(name) RETURNING number, name") \
    X(SQL_USERS_NEW_SHARED, \
      "INSERT INTO users(number, name) SELECT nextval('user_numbers'), name " \
      "FROM unnest($1::text[]) b(name) ON CONFLICT DO NOTHING RETURNING number, name") \
    X(SQL_USER_NAMES, \
      "SELECT number, name FROM users WHERE number = ANY($1::int8[])") \
    /* lives of units */ \
    X(SQL_LIVES_DONE, \
      "INSERT INTO applied(batch, processed, units, event_ids, ids, deltas, events, created) " \
      "VALUES(nextval('batches'), $6::timestamptz, $7::int8, $1::uuid[], $2::text[], " \
      "  $3::text[], $4::int8[], $5::timestamptz[])") \
    X(SQL_LIVES_WAIT, \
      "WITH s AS MATERIALIZED (SELECT nextval('batches') AS batch), " \
      "  b AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], " \
      "    $4::int8[], $5::int8[], $6::int8[], $7::timestamptz[], $8::timestamptz[], " \
      "    $9::text[], $10::bool[], $11::bytea[]) WITH ORDINALITY b(event_id, id, delta, state, " \
      "    retry_count, events, created, next, reason, adds_only, raw, n)), " \
      "  c AS (INSERT INTO count_events(row, event_id, id, delta, state, retry_count, events, " \
      "    created, next, reason) SELECT s.batch << 20 | b.n, event_id, id, delta, state, " \
      "    retry_count, events, created, next, reason FROM s, b) " \
      "INSERT INTO waiting(row, event_id, id, state, next, adds_only, raw) " \
      "SELECT s.batch << 20 | b.n, event_id, id, state, next, adds_only, raw FROM s, b") \
    X(SQL_WAITING_OF, \
      "SELECT b.n, w.row, w.state, w.adds_only FROM unnest($1::text[]) WITH ORDINALITY " \
      "b(id, n) JOIN waiting w ON w.id = b.id ORDER BY b.n, w.row") \
    X(SQL_WAITING, \
      "SELECT id, row, state, next, adds_only FROM waiting ORDER BY id, row") \
    X(SQL_LIFE_BY_ROW, \
      "SELECT c.row, c.event_id, c.id, c.delta, c.reason, w.raw, c.retry_count, c.created " \
      "FROM waiting w JOIN count_events c ON c.row = w.row WHERE w.row = $1::int8") \
    X(SQL_LIFE_BY_EVENT, \
      "SELECT w.row, w.state, c.retry_count, w.adds_only, c.delta FROM waiting w " \
      "JOIN count_events c ON c.row = w.row WHERE w.event_id = $1::uuid " \
      "FOR UPDATE OF w SKIP LOCKED") \
    X(SQL_LIFE_DONE, \
      "UPDATE count_events SET state = $2::int8, processed = $3::timestamptz, next = NULL, " \
      "delta = $4::text, reason = NULL WHERE row = $1::int8") \
    X(SQL_LIFE_WAIT, \
      "UPDATE count_events SET state = $2::int8, retry_count = $3::int8, " \
      "next = $4::timestamptz, reason = $5::text WHERE row = $1::int8") \
    X(SQL_LIFE_FAIL, \
      "UPDATE count_events SET state = $2::int8, processed = $3::timestamptz, next = NULL, " \
      "reason = $4::text WHERE row = $1::int8") \
    X(SQL_LIFE_REDRIVE, \
      "UPDATE count_events SET state = $2::int8, retry_count = 0, next = $3::timestamptz, " \
      "processed = NULL WHERE row = $1::int8") \
    X(SQL_LIFE_DISCARD, \
      "UPDATE count_events SET state = $2::int8, processed = $3::timestamptz " \
      "WHERE row = $1::int8") \
    X(SQL_WAITING_SET, \
      "UPDATE waiting SET state = $2::int8, next = $3::timestamptz WHERE row = $1::int8") \
    X(SQL_WAITING_RAW_SET, \
      "UPDATE waiting SET raw = $2::bytea WHERE row = $1::int8") \
    X(SQL_WAITING_REMOVE, "DELETE FROM waiting WHERE row = $1::int8") \
    /* dead letters */ \
    X(SQL_LETTER_ADD, \
      "INSERT INTO dead_letters(event_id, reason, raw, segment, position, retry_count, " \
      "  created, failed) VALUES($1::uuid, $2::text, $3::bytea, $4::int8, $5::int8, 0, " \
      "  $6::timestamptz, $6::timestamptz) ON CONFLICT (event_id) DO NOTHING") \
    X(SQL_LETTER_FROM_LIFE, \
      "INSERT INTO dead_letters(event_id, id, delta, reason, raw, retry_count, created, " \
      "  failed) SELECT c.event_id, c.id, c.delta, $2::text, w.raw, c.retry_count, c.created, " \
      "  $3::timestamptz FROM waiting w JOIN count_events c ON c.row = w.row " \
      "WHERE w.row = $1::int8") \
    X(SQL_LETTER_NEXT, \
      "SELECT row, event_id, id, raw FROM dead_letters WHERE row > $1::int8 ORDER BY row " \
      "LIMIT 1 FOR UPDATE") \
    X(SQL_LETTER_FIND, \
      "SELECT row, event_id, id, raw FROM dead_letters WHERE event_id = $1::uuid FOR UPDATE") \
    X(SQL_LETTER_REMOVE, "DELETE FROM dead_letters WHERE row = $1::int8") \
    /* keys */ \
    X(SQL_KEYS_ADD, \
      "INSERT INTO keys(low, high, fingerprint, changed, held, value, time) " \
      "SELECT low, high, fingerprint, changed, held, value::numeric, time " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::bool[], $5::text[], $6::text[], " \
      "  $7::timestamptz[]) b(low, high, fingerprint, changed, held, value, time)")
/* clang-format on */

#endif
