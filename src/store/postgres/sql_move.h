/* sql_move.h - the statements of whoever comes to these tables, or leaves them: claims, and rows of
 * another store (core/copy.h). */
#ifndef STORE_POSTGRES_SQL_MOVE_H
#define STORE_POSTGRES_SQL_MOVE_H

#include "store/postgres/sql_sums.h"

/* clang-format off */
#define SQL_MOVE(X) \
    /* who writes */ \
    X(SQL_CLAIM, "SELECT owner, who, released FROM claim") \
    X(SQL_CLAIM_LOCK, \
      "SELECT c.owner, c.who, c.released, " \
      "EXISTS(SELECT 1 FROM epochs WHERE epoch > 0), p.segment > 0 OR EXISTS(SELECT 1 FROM entries) " \
      "FROM claim c CROSS JOIN progress p FOR NO KEY UPDATE OF c") \
    X(SQL_CLAIM_SET, \
      "UPDATE claim SET owner = $1::text, who = $2::text, released = false, since = now()") \
    X(SQL_CLAIM_RELEASE, \
      "UPDATE claim SET released = true, since = now() " \
      "WHERE owner = $1::text RETURNING owner") \
    /* rows of another store */ \
    X(SQL_FILL_KINDS, \
      "INSERT INTO kinds(number, name) SELECT number, name " \
      "FROM unnest($1::int8[], $2::text[]) b(number, name)") \
    X(SQL_FILL_HISTORY, \
      "INSERT INTO history(row, item, user_id, stub, kind, time) OVERRIDING SYSTEM VALUE " \
      "SELECT row, item, user_id, stub, kind, time FROM unnest($1::int8[], $2::int8[], " \
      "  $3::int8[], $4::text[], $5::int8[], $6::timestamptz[]) " \
      "  b(row, item, user_id, stub, kind, time)") \
    X(SQL_FILL_ENTRIES, \
      "WITH b AS MATERIALIZED (SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[], " \
      "    $4::int8[], $5::timestamptz[], $6::text[], $7::text[], $8::int8[], $9::text[], " \
      "    $10::int8[], $11::int8[]) b(number, id, type, incarnation, updated, value, counts, " \
      "    slices, settings, deadline_ms, first_row)), " \
      "  c AS (INSERT INTO counts(item, kind, count, updated, checksum) " \
      "    SELECT b.number, k.number, j.value::int8, b.updated, " \
      SQL_COUNT_SUM("b.number", "k.number", "j.value") " FROM b " \
      "    CROSS JOIN LATERAL json_each_text(b.counts::json) j JOIN kinds k ON k.name = j.key " \
      "    WHERE b.type = 1) " \
      "INSERT INTO entries(number, id, type, incarnation, updated, value, slices, settings, " \
      "  deadline_ms, first_row, checksum) SELECT number, id, type, incarnation, updated, " \
      "  value::numeric, slices, settings, deadline_ms, first_row, " SQL_ENTRY_SUM_OF("b") " FROM b") \
    X(SQL_FILL_REACTIONS, \
      "INSERT INTO reactions(item, user_id, kind, slice, time) " \
      "SELECT b.item, b.user_id, b.kind, b.slice, COALESCE(s.time, e.updated) " \
      "FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[]) b(item, user_id, kind, slice) " \
      "JOIN entries e ON e.number = b.item " \
      "LEFT JOIN since s ON s.item = b.item AND s.user_id = b.user_id") \
    X(SQL_FILL_LIVES, \
      "INSERT INTO count_events(row, event_id, id, delta, state, retry_count, events, created, " \
      "  processed, next, reason) SELECT * FROM unnest($1::int8[], $2::uuid[], $3::text[], " \
      "  $4::text[], $5::int8[], $6::int8[], $7::int8[], $8::timestamptz[], $9::timestamptz[], " \
      "  $10::timestamptz[], $11::text[]) b") \
    X(SQL_FILL_WAITING, \
      "INSERT INTO waiting(row, event_id, id, state, next, adds_only, raw) " \
      "SELECT * FROM unnest($1::int8[], $2::uuid[], $3::text[], $4::int8[], $5::timestamptz[], " \
      "  $6::bool[], $7::bytea[]) b") \
    X(SQL_FILL_LETTERS, \
      "INSERT INTO dead_letters(row, event_id, id, delta, reason, raw, segment, position, " \
      "  retry_count, created, failed) OVERRIDING SYSTEM VALUE SELECT * FROM unnest($1::int8[], " \
      "  $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::int8[], $8::int8[], " \
      "  $9::int8[], $10::timestamptz[], $11::timestamptz[]) b") \
    X(SQL_FILL_BASES, \
      "INSERT INTO bases(id, sum, discarded, checksum) SELECT id, sum::numeric, discarded::numeric, " \
      SQL_BASE_CHECKSUM("id", "sum::numeric", "discarded::numeric") " " \
      "FROM unnest($1::text[], $2::text[], $3::text[]) b(id, sum, discarded)") \
    X(SQL_FILL_AUDITS, \
      "INSERT INTO audit_trail(time, what, id, text) " \
      "SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[]) b")
/* clang-format on */

#endif
