/* nodes_check.h - what must hold of spread things in the cells that serve: at any moment, and in
 * the end.
 *
 * Each check returns what is wrong, as a text that lives until the next call; NULL: nothing.
 * `given`: the epochs that the store has given: a cell that is open in an earlier one has a
 * successor, and what is read there is old (docs/decisions/0009-epochs.md). */
#ifndef NODES_CHECK_H
#define NODES_CHECK_H

#include "sim/nodes/nodes_clients.h"
#include "sim/nodes/nodes_redis.h"

/* A slice of users is served by one cell at most. */
const char *check_one_place(struct redis_model *model, const uint64_t given[LIMIT_CELLS],
                            unsigned item);

/* A read of all shards that lacks none says what was acknowledged, and nothing that nobody sent. */
const char *check_read(struct redis_model *model, const uint64_t given[LIMIT_CELLS],
                       unsigned counter, const struct tally *tally);

/* Where nothing is under way: hot layer and store say the same, and counts are the members. */
const char *check_at_rest(struct redis_model *model, unsigned thing, const struct store_rows *rows);

/* Nothing is under way, and no piece is missing. */
bool check_is_steady(struct redis_model *model, unsigned thing);

#endif
