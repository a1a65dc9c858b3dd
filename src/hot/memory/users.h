/* users.h - the dictionary of users: a name becomes a 32-bit number, once.
 *
 * Decimal ids below 2^32 (in their canonical form) stand for themselves and
 * cost nothing: class USER_NUMERIC. All others get the next number: class
 * USER_NAMED. A like then costs a few bits in a set, and the name is paid for
 * once, however much its user likes. A UUID in its canonical form is kept as its
 * 16 bytes, and so is any name of up to 16 bytes.
 *
 * A number is for ever: events carry name and number, and the store keeps both.
 * Where there is a store, not every name is here, and a number may be met in a set
 * before its name is; names that the store has may leave again. Thread-safe: names are spread over
 * 64 stripes with a lock each; numbers are given out in the order of arrival. */
#ifndef HOT_MEMORY_USERS_H
#define HOT_MEMORY_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/limits.h"
#include "hot/memory/saves.h"

enum user_class { USER_NUMERIC, USER_NAMED };

struct user {
    uint8_t class; /* enum user_class */
    uint32_t number;
};

struct users;

struct users *users_new(uint64_t hash_key);
void users_free(struct users *users);

/* First half of a look-up: is it a number? Then *ret_user is the answer and it
 * returns true. Otherwise gives the hash, and brings the dictionary's slot
 * towards the cache. */
bool users_begin(const struct users *users, struct slice name, struct user *ret_user,
                 uint64_t *ret_hash);

/* Second half, for names: finds the number of the name. */
bool users_find(struct users *users, struct slice name, uint64_t hash, struct user *ret_user);

/* The same, and gives it a number if it has none. False only when the 2^32
 * numbers are used up. */
bool users_take(struct users *users, struct slice name, uint64_t hash, struct user *ret_user);

/* Is a name that is not here a new one? Called with a lock held; ERR_OK: it is. */
typedef enum err users_new_fn(void *arg, struct slice name, uint64_t hash);

/* The same where there is a store: whoever is not here gets a number only if `is_new`
 * says so; else its answer is returned. ERR_TOO_LARGE when the numbers are used up. */
enum err users_take_if_new(struct users *users, struct slice name, uint64_t hash,
                           users_new_fn *is_new, void *arg, struct user *ret_user);

/* Puts a name in with the number that it was given before: by the store, or by an event
 * of `generation` (saves.h), 0 being the store. False: the name has another number, or
 * the number another name. */
bool users_put(struct users *users, struct slice name, uint64_t hash, uint32_t number,
               uint8_t generation);

/* An event of `generation` carries this number of a named user: from now on it is on
 * its way to the store. Whoever calls holds a cell. */
void users_note(struct users *users, uint32_t number, uint8_t generation);

/* Lets names go that the store has, in steps: looks at up to `limit` chunks of 64 numbers
 * from `cursor` on, and drops those of which none was used since the last look. Tells
 * of each name. True: that was the end, and it begins anew. Nobody else may read names
 * meanwhile: all cells are locked. */
typedef void users_gone_fn(void *arg, struct slice name, uint64_t hash);
bool users_shed(struct users *users, const struct saves *saves, uint32_t *cursor, uint32_t limit,
                users_gone_fn *gone, void *arg);

/* Gives back what the tables do not need any more. */
void users_fit(struct users *users);

/* The numbers below `next` are not given out any more. */
void users_skip(struct users *users, uint64_t next);

/* Is the name of a named user's number here? */
bool users_know(const struct users *users, uint32_t number);

/* Writes the name, which must be here, to `to`; returns its size. */
size_t users_name(struct users *users, struct user user, char to[LIMIT_USER_BYTES]);

uint64_t users_count(struct users *users); /* named ones that are here */
size_t users_bytes(struct users *users);

#endif
