/* want.h - what is wanted of the store, by whom it is being loaded, and what has come of it.
 *
 *   wants_add() --> WANTED --claimed--> READY --wants_take()--> TAKEN --wants_end()--> gone
 *                     ^  \                                        |
 *                     |   +-- another node loads it --> WAITING <-+ the store could not say
 *                     +------------- asked for again, later --+
 *
 * What is to be put into Redis needs a token there (lua/load.lua) before the store is asked; the
 * answer to a key, and what is only read while a cell is closed, do not. Each want has a number, by
 * which the loader's answer finds it. Thread-safe. */
#ifndef HOT_REDIS_WANT_H
#define HOT_REDIS_WANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"

#define WANT_TOKEN_SIZE 64u

struct wants;

/* What is asked for. */
struct want_question {
    enum hot_want_kind kind; /* TARGET, SLICE or KEY */
    bool is_stale;           /* to be read, and not to be put into Redis */
    unsigned cell;
    struct slice id; /* TARGET, SLICE */
    uint32_t slice;
    uint64_t key_low; /* KEY */
    uint64_t key_high;
};

/* What others see of a want: a copy. */
struct want {
    uint64_t number;
    struct want_question question; /* its id points into `bytes` */
    char token[WANT_TOKEN_SIZE];
    char bytes[LIMIT_ID_BYTES];
};

/* Tokens begin with the node's name. */
struct wants *wants_new(struct env *env, const char *node);
void wants_free(struct wants *wants);

/* Somebody lacks this. ERR_COLD: it is wanted (*ret_news: since now). Another code: what to tell
 * who asks, since the store could not say a moment ago, or too much is wanted. */
enum err wants_add(struct wants *wants, const struct want_question *question, bool *ret_news);

/* Up to `room` of those that need a token, the oldest first. Each is then claimed or not. */
size_t wants_to_claim(struct wants *wants, struct want *to, size_t room);
void wants_claimed(struct wants *wants, uint64_t number);

/* Takes what is ready: false if nothing is. */
bool wants_take(struct wants *wants, struct want *ret);

/* Finds one that was taken; of a KEY by what it is, of the others by its number. */
bool wants_find(struct wants *wants, const struct hot_want *asked, struct want *ret);

/* It has come to an end, one way or another: whoever still lacks it asks again. */
void wants_end(struct wants *wants, uint64_t number);

/* Not now: who asks within `wait_ms` is told `code`; its token stays. With ERR_COLD, wants_is_due()
 * tells when it is worth asking again. */
void wants_wait(struct wants *wants, uint64_t number, enum err code, uint64_t wait_ms);

/* Has the time of any come that wait with ERR_COLD? *ret_more: others still wait. Also forgets what
 * nobody asked for again. */
bool wants_is_due(struct wants *wants, bool *ret_more);

/* How often something was lacking. */
uint64_t wants_misses(struct wants *wants);

#endif
