/* limits.h - every limit of the domain, in one place.
 *
 * Reading the log checks them too: a limit may grow, but one that shrinks makes
 * old logs unreadable. */
#ifndef CORE_LIMITS_H
#define CORE_LIMITS_H

#include <stdint.h>

#define LIMIT_ID_BYTES     256u  /* counter or item */
#define LIMIT_USER_BYTES   128u  /* user */
#define LIMIT_KEY_BYTES    128u  /* idempotency key */
#define LIMIT_REGION_BYTES 64u   /* region */
#define LIMIT_KIND_BYTES   32u   /* name of a reaction kind */
#define LIMIT_KINDS        16u   /* reaction kinds in one deployment */
#define LIMIT_CELLS        64u   /* cells of a hot layer, lanes of a log, shards of a counter */
#define LIMIT_BUCKETS      4096u /* that an item's users fall into, for ever */
#define LIMIT_WORKERS      64u   /* worker threads */
#define LIMIT_BATCH        4096u /* operations in one batch */

/* A pattern that ids are matched against: of the longest "item/kind", every byte of it escaped. */
#define LIMIT_PATTERN_BYTES (2u * (LIMIT_ID_BYTES + 1u + LIMIT_KIND_BYTES))

/* The last moment that clients may name, in milliseconds since 1970: the end of the year 9999,
 * which is the last one with four digits. The log may hold later deadlines, from before this
 * limit. */
#define LIMIT_TIME_MS INT64_C(253402300799999)

/* Digits of an amount that is added or set: so far below NUMBER_DIGITS_MAX, which
 * is what the log can be read back with, that no sum of them, and no difference
 * of sums, gets there in any number of writes that somebody could live to see. */
#define LIMIT_AMOUNT_DIGITS 900u

/* An event's largest encoding: every field at its limit, the value and the
 * difference as big integers, and some bytes for kinds and lengths. */
#define LIMIT_EVENT_BYTES 4096u

#endif
