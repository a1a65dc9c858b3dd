/* answer.h - what the server answered, as texts, tables and JSON.
 *
 * The connection speaks RESP2, in which a map is an array of names and values by
 * turns; numbers beyond 64 bits are texts. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <jansson.h>

#include "base/slice.h"
#include "cli/print.h"
#include "cli/session.h"

#define ANSWER_NUMBER_BYTES 24u

/* A text or a number as a text, which is written to `room` if there is need; "" for nil. */
struct slice answer_text(const redisReply *reply, char room[ANSWER_NUMBER_BYTES]);

/* A number; 0 if it is none or does not fit. */
int64_t answer_number(const redisReply *reply);

bool answer_is_nil(const redisReply *reply);

/* The value of a name in a map; NULL if it is not there. */
const redisReply *answer_field(const redisReply *map, const char *name);

/* As answer_text() and answer_number() of a field. */
struct slice answer_field_text(const redisReply *map, const char *name,
                               char room[ANSWER_NUMBER_BYTES]);
int64_t answer_field_number(const redisReply *map, const char *name);

/* A map as a JSON object. Amounts (value, delta, ...) are strings, whatever their size. */
json_t *answer_json_map(const redisReply *map);

/* Anything as JSON, arrays as arrays. */
json_t *answer_json(const redisReply *reply);

/* A map, a line for each name. */
void answer_print_map(const redisReply *map, bool colours);

/* Anything, as redis-cli would show it in a pipe: a line for each value. */
void answer_print_raw(const redisReply *reply);

/* A list that comes in pages [cursor, [row...]]. `words` are the command, without CURSOR and
 * COUNT; `columns` as in print.h, whose names are those of the maps; times end in _ms and are
 * shown as people read them. Prints `limit` rows at most (0 = all) and counts them. */
struct answer_list {
    const struct slice *words;
    size_t word_count;
    const char *columns;
    uint64_t limit;
    const char *empty; /* a remark when there is nothing */
};
int answer_print_list(struct session *session, const struct answer_list *list);

/* The pages one by one, for other shapes: `visit` gets the second half of each and says whether
 * it wants more. */
typedef bool answer_page_fn(void *arg, const redisReply *rows);
int answer_pages(struct session *session, const struct slice *words, size_t word_count,
                 uint64_t limit, answer_page_fn *visit, void *arg);

#endif
