#include "hot/redis/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"

void words_done(struct words *words)
{
    free(words->bytes);
    free(words->begins);
    *words = (struct words){0};
}

void words_clear(struct words *words)
{
    words->count = 0;
    words->size = 0;
}

static void append(struct words *words, struct slice word)
{
    while (words->size + word.size > words->bytes_capacity) {
        words->bytes_capacity = words->bytes_capacity ? 2 * words->bytes_capacity : 4096;
        words->bytes = memory_resize(words->bytes, words->bytes_capacity);
    }
    if (words->count + 2 > words->begins_capacity) {
        words->begins_capacity = words->begins_capacity ? 2 * words->begins_capacity : 256;
        words->begins =
            memory_resize(words->begins, words->begins_capacity * sizeof(*words->begins));
    }
    if (word.size > 0)
        memcpy(words->bytes + words->size, word.data, word.size);
    words->begins[words->count++] = words->size;
    words->size += word.size;
    words->begins[words->count] = words->size;
}

static void append_reply(struct words *words, const struct redisReply *reply)
{
    char number[32];
    switch (reply->type) {
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < reply->elements; i++)
            append_reply(words, reply->element[i]);
        return;
    case REDIS_REPLY_INTEGER:
        append(words, (struct slice){number, (size_t)snprintf(number, sizeof(number), "%lld",
                                                              reply->integer)});
        return;
    case REDIS_REPLY_NIL:
        append(words, (struct slice){NULL, 0});
        return;
    default:
        append(words, (struct slice){reply->str, (size_t)reply->len});
    }
}

void words_take(void *arg, const struct redisReply *reply)
{
    words_clear(arg);
    append_reply(arg, reply);
}

struct slice words_at(const struct words *words, size_t index)
{
    if (index >= words->count)
        return (struct slice){NULL, 0};
    return (struct slice){words->bytes + words->begins[index],
                          words->begins[index + 1] - words->begins[index]};
}

uint64_t words_number(const struct words *words, size_t index)
{
    uint64_t value;
    return decimal_parse_unsigned(words_at(words, index), &value) ? value : 0;
}

bool words_begin_with(const struct words *words, const char *word)
{
    return words->count > 0 && slice_equal(words_at(words, 0), slice_of(word));
}
