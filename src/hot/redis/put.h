/* put.h - what the store said goes into Redis: calls of lua/load.lua.
 *
 * All but put_init_claim() and put_take_outcome() block: any thread but the layer's. */
#ifndef HOT_REDIS_PUT_H
#define HOT_REDIS_PUT_H

#include <hiredis/hiredis.h>

#include "core/hot.h"
#include "hot/redis/image.h"
#include "hot/redis/layer.h"
#include "hot/redis/want.h"

enum put_outcome {
    PUT_NONE,   /* it is there already, or the token is not ours, or nobody answers */
    PUT_DONE,   /* also: the token is ours */
    PUT_NO,     /* the token is another's */
    PUT_BEHIND, /* the store has to catch up first */
};

/* A call that takes the token of a want; put_take_outcome() fits ask(). */
void put_init_claim(struct call *call, struct layer *layer, const struct want *wanted);
void put_take_outcome(void *arg, const struct redisReply *reply);

enum put_outcome put_target(struct layer *layer, const struct want *wanted,
                            const struct hot_found *found, const struct image *image);
enum put_outcome put_members(struct layer *layer, const struct want *wanted,
                             const struct hot_found *found, const struct image *image);
enum put_outcome put_key(struct layer *layer, const struct want *wanted,
                         const struct hot_found *found);

#endif
