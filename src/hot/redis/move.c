/* move.c - what to do next, until something has the shards that it shall have. */
#include "hot/redis/move.h"

#include <assert.h>
#include <string.h>

#include "hot/redis/dissolve.h"
#include "hot/redis/move_own.h"

#define MOVE_MS       30000u
#define SLICES_A_MOVE 8u
#define HOT_MS        10000u
#define TRIES_MAX     1000u /* steps of one change of shards, and then some */

/* A move that the log does not let us finish must not keep its users waiting. */
static enum err give_up(struct move *move)
{
    map_undo(&move->map);
    enum err err = move_write(move, move_type(move));
    err = err ? err : move_undo(move);
    if (err)
        return err;
    map_finish(&move->map);
    err = move_write(move, move_type(move));
    return err ? err : ERR_TIMEOUT;
}

static enum err change(struct move *move)
{
    enum err err = ERR_OK;
    switch (move->map.change) {
    case MAP_JOIN:
        err = move_join(move);
        break;
    case MAP_MOVE:
        err = move_slices(move);
        if (err == ERR_TIMEOUT)
            return give_up(move);
        break;
    case MAP_UNDO:
        err = move_undo(move);
        break;
    case MAP_DRAIN:
        return move_drain(move);
    case MAP_ERASE:
        err = move_erase(move);
        break;
    case MAP_DISSOLVE:
        return dissolve(move->layer, move->id);
    case MAP_STEADY:
        return ERR_OK;
    }
    if (err)
        return err;
    map_finish(&move->map);
    return move_write(move, move_type(move));
}

/* The first map of a whole item needs slices. */
static enum err split(struct move *move)
{
    move_call(move, move->home, "split");
    move_slice_keys(move, "m", UINT64_MAX);
    enum err err = move_ask(move);
    if (!err)
        move->type = 's';
    return err;
}

/* Where it shall be with `shards`; 0 = where it was going already. */
static enum err next(struct move *move, uint32_t shards, enum heat_reason reason, bool *ret_is_done)
{
    struct map *map = &move->map;
    uint8_t owner[BUCKET_SLICES];
    uint32_t goal = shards > 0 ? shards : map->shards;
    char before[MAP_TEXT_MAX];
    char after[MAP_TEXT_MAX];
    map_format(map, before);
    if (goal != map->shards) {
        map->shards = goal;
        map->reason = reason;
        map->changed_ms = env_wall_ms(move->layer->env);
    }
    map_plan(map, move->home, goal, move->primary_of, owner);
    bool has_step = map_next(map, move->home, owner, SLICES_A_MOVE);
    map_format(map, after);
    if (!has_step && strcmp(before, after) == 0) {
        *ret_is_done = true;
        return ERR_OK;
    }
    if (move->type == 'i') {
        enum err err = split(move);
        if (err)
            return err;
    }
    return move_write(move, move_type(move));
}

/* What a node has found quiet others may have found hot. */
static bool is_hot(const struct move *move, enum heat_reason reason)
{
    uint64_t now_ms = (uint64_t)env_wall_ms(move->layer->env);
    return reason == HEAT_QUIET && now_ms < move->hot_ms + HOT_MS;
}

/* Changes made by others meanwhile are met by reading again; a piece that is lost, twice. */
static enum err go(struct move *move, uint32_t shards, enum heat_reason reason)
{
    uint64_t lost_version = 0;
    for (unsigned tries = 0; tries < TRIES_MAX && !move_is_late(move); tries++) {
        enum err err = move_read(move);
        if (err)
            return err;
        if (move->stays || is_hot(move, reason))
            return ERR_OK;
        if (reason == HEAT_BUSY && shards < move->asked)
            shards = move->asked;
        while (!err) {
            bool is_done = false;
            if (move->map.change != MAP_STEADY)
                err = change(move);
            else
                err = next(move, shards, reason, &is_done);
            if (is_done)
                return ERR_OK;
        }
        if (err == ERR_CORRUPT && lost_version == move->map.version)
            return dissolve(move->layer, move->id);
        if (err != ERR_CORRUPT && err != ERR_BUSY)
            return err;
        lost_version = err == ERR_CORRUPT ? move->map.version : 0;
        move_pause(5);
    }
    return ERR_BUSY;
}

enum err move_reshard(struct layer *layer, struct slice id, uint32_t shards,
                      enum heat_reason reason)
{
    assert(!layer_is_own_thread(layer) && shards <= LIMIT_CELLS);

    struct move move;
    move_init(&move, layer, id, MOVE_MS);
    enum err err = go(&move, shards, reason);
    move_done(&move);
    return err;
}

enum err move_go_on(struct layer *layer, struct slice id)
{
    return move_reshard(layer, id, 0, HEAT_UNCHANGED);
}
