/* cold.h - what is not in memory: whether the store might have it, who has asked for
 * it, and what is known not to be there.
 *
 * Whoever misses something asks here. Either the store surely has none of it, and
 * it is new; or it is wanted from now on, once, however many ask; or the store could
 * not say a moment ago, and who asks now is refused.
 *
 *   asked for --> WANTED --cold_take()--> TAKEN --cold_answer()--> gone
 *                    ^                                   |
 *                    +------ a second later ------ FAILED
 *
 * Absent is what the store has said it does not have; and what was deleted here
 * while the store may still have it. The latter is never forgotten before the
 * deletion is saved.
 *
 * Thread-safe. The lock is the last of all leaves: whoever holds it takes no other. */
#ifndef HOT_MEMORY_COLD_H
#define HOT_MEMORY_COLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/hot.h"
#include "hot/memory/saves.h"

struct cold;

/* About so many targets and named users are in the store. */
struct cold *cold_new(struct env *env, uint64_t targets, uint64_t users);
void cold_free(struct cold *cold);

/* The store has something of this stable hash; and that was all of this kind. */
void cold_tell(struct cold *cold, enum hot_want_kind kind, uint64_t stable_hash);
void cold_told_all(struct cold *cold, enum hot_want_kind kind);

/* Somebody has missed it. ERR_OK: there is none. ERR_COLD: it is wanted. ERR_UNAVAILABLE:
 * the store could not say. ERR_BUSY: too much is wanted already. `hash` is keyed. */
enum err cold_ask_target(struct cold *cold, uint64_t hash, uint64_t stable_hash, struct slice id);
enum err cold_ask_user(struct cold *cold, uint64_t hash, struct slice name);
enum err cold_ask_key(struct cold *cold, uint64_t low, uint64_t high);
enum err cold_ask_slice(struct cold *cold, uint64_t hash, struct slice item, uint32_t slice);
enum err cold_ask_names(struct cold *cold, const uint32_t *numbers, size_t count);

/* Might the store have it? Nothing is wanted because of this. */
bool cold_may_have(struct cold *cold, uint64_t hash, uint64_t stable_hash);

/* Has anything been added to the wants since this was last asked? */
bool cold_has_news(struct cold *cold);

/* For the loader. */
bool cold_take(struct cold *cold, struct hot_want *ret_want);
bool cold_is_taken(struct cold *cold, const struct hot_want *want, uint64_t hash);

/* The want is over: with ERR_OK, with ERR_NOT_FOUND, and then it is absent, or with
 * another code, which is told to those who ask in the next second. */
void cold_answer(struct cold *cold, const struct hot_want *asked, uint64_t hash, enum err code);

/* A target was deleted, by an event of this generation (saves.h). */
void cold_bury(struct cold *cold, uint64_t hash, uint8_t generation);

/* The store may have got what it did not have: it is asked again, unless we know better. */
void cold_doubt(struct cold *cold, uint64_t hash, uint64_t stable_hash, const struct saves *saves);

/* A target is about to be dropped from memory: from now on the store is asked for
 * it. False: something of it is being loaded right now, and it has to stay. */
bool cold_let_go(struct cold *cold, uint64_t hash, uint64_t stable_hash);

/* The same for a user's name and for an idempotency key. */
void cold_let_go_user(struct cold *cold, uint64_t hash, struct slice name);
void cold_let_go_key(struct cold *cold, uint64_t low, uint64_t high);

/* Forgets the keys that were let go before the last call of this: called when all of those
 * are too old to count. All cells are locked. */
void cold_turn_keys(struct cold *cold);

/* Forgets what is absent and was not asked for lately, when there is a lot of it or memory
 * is short, and shrinks its table. All cells are locked, or nothing of `saves` changes
 * otherwise. */
void cold_tidy(struct cold *cold, const struct saves *saves, bool is_short);

/* The keyed hash that a want is found by, where that is not the target's or the user's. */
uint64_t cold_key_hash(uint64_t low, uint64_t high);
uint64_t cold_names_hash(const uint32_t *numbers, size_t count);

uint64_t cold_misses(struct cold *cold);
size_t cold_bytes(struct cold *cold);

#endif
