/* words.h - what a script has answered, kept for another thread.
 *
 * A reply lives on the layer's thread and only while it is looked at (ask.h). Whoever asks in steps
 * keeps its texts and numbers here: all of them in a row, those of nested lists, too. */
#ifndef HOT_REDIS_WORDS_H
#define HOT_REDIS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "base/slice.h"

struct words {
    char *bytes; /* owned, and so are these: where each word begins, and one more */
    size_t *begins;
    size_t count;
    size_t size;
    size_t bytes_capacity;
    size_t begins_capacity;
};

/* Zeroed memory is empty. */
void words_done(struct words *words);
void words_clear(struct words *words);

/* An ask_take_fn: `arg` is struct words. */
void words_take(void *arg, const struct redisReply *reply);

/* Empty and 0 behind the last. The slice lives until the next change. */
struct slice words_at(const struct words *words, size_t index);
uint64_t words_number(const struct words *words, size_t index);

/* Is this the first? */
bool words_begin_with(const struct words *words, const char *word);

#endif
