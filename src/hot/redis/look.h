/* look.h - looking closely at counters and items that are in Redis.
 *
 * What is spread is added up from its pieces; they are not looked at in one moment, but each with
 * the sequence of its cell. These block: any thread but the layer's. */
#ifndef HOT_REDIS_LOOK_H
#define HOT_REDIS_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"
#include "core/hot.h"
#include "hot/redis/layer.h"
#include "hot/redis/map.h"

/* A record, or the sum of the pieces. */
struct look {
    enum err code; /* ERR_NOT_FOUND: known not to be there; ERR_COLD: not in Redis;
                    * ERR_UNAVAILABLE: the cell is closed or does not answer */
    bool is_closed;
    bool is_item;
    bool is_complete; /* members were counted, all of them */
    bool is_spread;
    bool was_loaded;
    uint32_t incarnation;
    int64_t written_ms;
    struct op_create create;
    int64_t deadline_ms;
    struct number value; /* owned */
    int64_t counts[LIMIT_KINDS];
    int64_t members[LIMIT_KINDS];
    struct map map;      /* with is_spread */
    char generation[32]; /* .g and .u: which record it is */
    char used[24];
    uint64_t writes;                 /* another number after each write */
    uint64_t sequences[LIMIT_CELLS]; /* UINT64_MAX: cells that it has nothing in */
};

/* What an id names: "item/kind" an item, and then a kind of it. */
struct slice look_target(struct layer *layer, struct slice id, uint8_t *ret_kind);

/* Many records of one cell at once, without their pieces and members; each of `looks` is filled
 * in. */
void look_records(struct layer *layer, unsigned cell, const struct slice *ids, size_t count,
                  struct look *looks);

/* One, whole; with its members counted if `counts`. */
void look_at(struct layer *layer, struct slice target, bool counts, struct look *ret);
void look_done(struct look *look);

/* Is it a counter whose time is over? */
bool look_is_over(const struct layer *layer, const struct look *look, int64_t now_ms);

#endif
