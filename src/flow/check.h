/* check.h - what clients may name: ids, users, idempotency keys, regions, patterns, times.
 *
 * The one place that decides it, for ops (service_check()) and for the questions of the desk
 * (desk.h), and so for every protocol: what comes from outside reaches no assertion behind it.
 * Bytes are bytes: NUL and what is not UTF-8 are as good as others.
 *
 * Each is ERR_OK, or ERR_INVALID or ERR_TOO_LARGE with a text that says what is allowed. */
#ifndef FLOW_CHECK_H
#define FLOW_CHECK_H

#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/kinds.h"
#include "core/limits.h"

/* A counter, an item, or the counter of a reaction, "item/kind": the item then has the limit, not
 * the whole. */
enum err check_counter(const struct kinds *kinds, struct slice id, struct error *error);

/* An id that is there as it stands: an item, or what is written to. */
enum err check_id(struct slice id, struct error *error);

enum err check_user(struct slice user, struct error *error);

/* The optional parts of a write: data NULL (a key) and size 0 (a region) stand for none. */
enum err check_key(struct slice key, struct error *error);
enum err check_region(struct slice region, struct error *error);

/* A glob that ids of counters are compared with; size 0 = all. */
enum err check_pattern(struct slice pattern, struct error *error);

/* A moment, in milliseconds since 1970: 0 to LIMIT_TIME_MS. */
enum err check_time(int64_t time_ms, struct error *error);

#endif
