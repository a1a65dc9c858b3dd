/* put.h - what the store said goes into Redis: calls of lua/load.lua.
 *
 * put_members() blocks: any thread but the layer's. The other calls are made here and sent by
 * whoever asked for them, with ask(), many at once. */
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

/* A call that takes the token of a want; put_take_outcome() fits ask() of any of them. */
void put_init_claim(struct call *call, struct layer *layer, const struct want *wanted);
void put_take_outcome(void *arg, const struct redisReply *reply);

/* A call that puts a target, or the answer of a key, where it is missing. */
void put_init_target(struct call *call, struct layer *layer, const struct want *wanted,
                     const struct hot_found *found, const struct image *image);
void put_init_key(struct call *call, struct layer *layer, const struct want *wanted,
                  const struct hot_found *found);

/* A target that was made with several shards was put: it is to have them again. */
void put_spread(struct layer *layer, struct slice id, uint32_t shards);

/* The members of a slice, in several calls if there are many. */
enum put_outcome put_members(struct layer *layer, const struct want *wanted,
                             const struct hot_found *found, const struct image *image);

#endif
