/* sql_sums.h - checksums of rows, within SQL: of what hot state is loaded from, and of what a
 * recount begins with.
 *
 * A counter is added to without being read, so its sum must be something that can be added to, too:
 * a hash of what seldom changes, and the value times a constant, modulo 2^62. A row that was wrong
 * stays wrong that way, whatever is added to it. The constant is odd: no other value has the same
 * product, unless it is further away than any that fits 62 bits.
 *
 * hashtextextended() is what PostgreSQL partitions tables by: it stays as it is. */
#ifndef STORE_POSTGRES_SQL_SUMS_H
#define STORE_POSTGRES_SQL_SUMS_H

/* clang-format off */
#define SQL_SUM_MASK "4611686018427387903"
#define SQL_SUM_PART(number) \
    "mod(COALESCE((" number ")::numeric, 0) * 2862933555777941757, 4611686018427387904)::bigint"
#define SQL_SUM_HASH(text) "(hashtextextended((" text ") COLLATE \"C\", 0) & " SQL_SUM_MASK ")"

/* What becomes of a sum when so much is added to the number. */
#define SQL_SUM_ADD(sum, number) \
    "((" sum " & " SQL_SUM_MASK ") + " SQL_SUM_PART(number) ") & " SQL_SUM_MASK

/* Of a row of `entries`. */
#define SQL_ENTRY_SUM(id, type, incarnation, slices, settings, deadline, value) \
    "((" SQL_SUM_HASH("concat(" type ", '/', " incarnation ", '/', " slices ", '/', " deadline ", '/', " settings ", '/', " id ")") \
    " + " SQL_SUM_PART(value) ") & " SQL_SUM_MASK ")"
#define SQL_ENTRY_SUM_OF(e) \
    SQL_ENTRY_SUM(e ".id", e ".type", e ".incarnation", e ".slices", e ".settings", e ".deadline_ms", e ".value")
#define SQL_ENTRY_FITS(e) "COALESCE(" e ".checksum = " SQL_ENTRY_SUM_OF(e) ", false)"
#define SQL_SUM_WRONG "-1" /* that no row has */

/* What a row of `entries` is, by what is in it. One whose type says something else has a sum that
 * does not fit, and is nevertheless the row of a counter or of an item, which is counted anew. */
#define SQL_ENTRY_TYPE(e) \
    "(CASE WHEN " e ".value IS NOT NULL THEN 0 WHEN " e ".slices IS NOT NULL THEN 1 ELSE 2 END)"
#define SQL_ENTRY_LIVES(e) "(" e ".value IS NOT NULL OR " e ".slices IS NOT NULL)"

/* Of an UPDATE: the row is right as it stands. */
#define SQL_ENTRY_ANEW(e) \
    "type = " SQL_ENTRY_TYPE(e) ", checksum = " SQL_ENTRY_SUM(e ".id", SQL_ENTRY_TYPE(e), \
        e ".incarnation", e ".slices", e ".settings", e ".deadline_ms", e ".value")

/* What is written over a row that was wrong is wrong as well: nobody knows what has begun anew. */
#define SQL_ENTRY_STAYS_RIGHT(o) "(NOT " SQL_ENTRY_LIVES(o) " OR " SQL_ENTRY_FITS(o) ")"

/* Of a row of `counts`. */
#define SQL_COUNT_SUM(item, kind, count) \
    "((" SQL_SUM_HASH("concat(" item ", '/', " kind ")") " + " SQL_SUM_PART(count) ") & " SQL_SUM_MASK ")"

/* Of a row of `bases`. */
#define SQL_BASE_CHECKSUM(id, sum, discarded) \
    "hashtextextended(" id " || ' ' || (" sum ")::text || ' ' || (" discarded ")::text, 0)"
/* The one that it gets when it is changed: what was wrong stays wrong, whatever is added to it. */
#define SQL_BASE_CHECKSUM_THEN(sum, discarded) \
    "CASE WHEN b.checksum = " SQL_BASE_CHECKSUM("b.id", "b.sum", "b.discarded") " THEN " \
    SQL_BASE_CHECKSUM("b.id", sum, discarded) " ELSE ~" SQL_BASE_CHECKSUM("b.id", sum, discarded) " END"
/* clang-format on */

#endif
