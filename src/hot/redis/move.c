/* move.c - what to do next, until something has the shards that it shall have. */
#include "hot/redis/move.h"

#include <assert.h>
#include <string.h>

#include "base/message.h"
#include "hot/redis/load.h"
#include "hot/redis/move_own.h"
#include "hot/redis/spread.h"

#define MOVE_MS       30000u
#define SLICES_A_MOVE 8u
#define HOT_MS        10000u
#define STEPS_MAX     20000u /* of one change of shards, and then some */

/* ---- what is asked for ---- */

/* What a node has found quiet others may have found hot. */
static bool is_hot(const struct move *move)
{
    uint64_t now_ms = (uint64_t)env_wall_ms(move->layer->env);
    return move->reason == HEAT_QUIET && now_ms < move->hot_ms + HOT_MS;
}

static enum err read_home(struct move *move)
{
    enum err err = move_read(move);
    if (err || move->over.dissolves)
        return err;
    move->over.is_done = move->stays || is_hot(move);
    if (move->reason == HEAT_BUSY && move->shards < move->asked)
        move->shards = move->asked;
    return ERR_OK;
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

/* Puts into the map what comes next on the way to `shards`. */
static enum err plan(struct move *move)
{
    struct map *map = &move->over.map;
    uint8_t owner[BUCKET_SLICES];
    uint32_t goal = move->shards > 0 ? move->shards : map->shards;
    char before[MAP_TEXT_MAX];
    char after[MAP_TEXT_MAX];
    map_format(map, before);
    if (goal != map->shards) {
        map->shards = goal;
        map->reason = move->reason;
        map->changed_ms = env_wall_ms(move->layer->env);
    }
    map_plan(map, move->home, goal, move->primary_of, owner);
    bool has_step = map_next(map, move->home, owner, SLICES_A_MOVE);
    map_format(map, after);
    move->over.is_done = !has_step && strcmp(before, after) == 0;
    return move->over.is_done || move->type != 'i' ? ERR_OK : split(move);
}

/* ---- step by step ---- */

static void warn_of_loss(const struct move *move)
{
    char quoted[LIMIT_ID_BYTES];
    if (move->over.map.change == MAP_DISSOLVE)
        message_warning("a piece was lost, its item is loaded anew from the store id=%s",
                        message_quote(quoted, sizeof(quoted), move->id));
}

static enum err write(struct move *move)
{
    warn_of_loss(move);
    return move_write(move);
}

static enum err end_dissolving(struct move *move)
{
    enum err err = dissolve_end(move);
    if (!err)
        loads_ring(move->layer);
    return err;
}

static enum err do_step(struct move *move)
{
    switch (move->over.step) {
    case HAND_OVER_READ:
        return read_home(move);
    case HAND_OVER_PLAN:
        return plan(move);
    case HAND_OVER_RESERVE:
        return move_reserve(move);
    case HAND_OVER_WRITE:
        return write(move);
    case HAND_OVER_WAIT_HOME:
        return move_wait_home(move);
    case HAND_OVER_PREPARE:
        return move_prepare(move);
    case HAND_OVER_FREEZE:
        return move_freeze(move);
    case HAND_OVER_WAIT_SOURCE:
        return move_wait_source(move);
    case HAND_OVER_COPY:
        return move_copy(move);
    case HAND_OVER_ADOPT:
        return move_adopt(move);
    case HAND_OVER_RELEASE:
        return move_release(move);
    case HAND_OVER_THAW:
        return move_thaw(move);
    case HAND_OVER_STOP:
        return move_stop_pieces(move);
    case HAND_OVER_WAIT_STOPPED:
    case HAND_OVER_WAIT_ERASED:
        return move_wait_noted(move);
    case HAND_OVER_TAKE:
        return move_take(move);
    case HAND_OVER_ERASE:
        return move_erase(move);
    case HAND_OVER_WIPE:
        return dissolve_wipe(move);
    case HAND_OVER_WAIT_SAVED:
        return dissolve_wait(move);
    case HAND_OVER_UNLIST:
        return dissolve_unlist(move);
    case HAND_OVER_GONE:
        return end_dissolving(move);
    case HAND_OVER_END:
        break;
    }
    return ERR_OK;
}

/* Changes made by others meanwhile are met by reading again, after a moment. */
enum err move_run(struct move *move)
{
    struct hand_over *over = &move->over;
    for (unsigned steps = 0; steps < STEPS_MAX; steps++) {
        enum hand_over_step step = over->step;
        enum err err = do_step(move);
        hand_over_take(over, err, env_wall_ms(move->layer->env));
        if (over->step == HAND_OVER_END)
            return over->code;
        if (step == HAND_OVER_READ && over->is_done)
            return ERR_OK;
        if (over->step != HAND_OVER_READ)
            continue;
        if (move_is_late(move))
            break;
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
    move.shards = shards;
    move.reason = reason;
    enum err err = move_run(&move);
    move_done(&move);
    return err;
}

enum err move_go_on(struct layer *layer, struct slice id)
{
    return move_reshard(layer, id, 0, HEAT_UNCHANGED);
}
