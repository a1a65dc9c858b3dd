#include "sim/nodes/nodes_movers.h"

#include <string.h>

#include "core/sequence.h"

#define LOG_MS      3000
#define PATIENCE_MS 30000 /* with cells that do not answer */

#define NOT_YET ERR_MOVED /* no step ends so: it is to be tried again */

static struct asker_of_piece asker_of(const struct movers *movers, const struct mover *mover)
{
    return (struct asker_of_piece){movers->model, mover->node, mover->thing};
}

/* --- steps that wait --- */

static bool is_late(const struct movers *movers, const struct mover *mover, int64_t ms)
{
    return *movers->model->now_ms - mover->step_began_ms > ms;
}

static enum err wait_for_log(struct movers *movers, struct mover *mover, unsigned cell,
                             uint64_t sequence)
{
    uint64_t at;
    uint64_t relayed;
    enum err err = pieces_progress(asker_of(movers, mover), cell, &at, &relayed);
    if (err)
        return err;
    if (sequence_epoch(at) != sequence_epoch(sequence))
        return ERR_BUSY;
    if (relayed >= sequence)
        return ERR_OK;
    return is_late(movers, mover, LOG_MS) ? ERR_TIMEOUT : NOT_YET;
}

static enum err wait_home(struct movers *movers, struct mover *mover)
{
    uint64_t relayed;
    unsigned home = mover->over.home;
    enum nodes_bug bug = movers->model->bug;
    if (bug == NODES_BUG_NO_WAIT_HOME ||
        (bug == NODES_BUG_STOP_AT_ONCE && mover->over.map.change == MAP_ERASE))
        return ERR_OK;
    if (mover->home_sequence == 0) {
        enum err err =
            pieces_progress(asker_of(movers, mover), home, &mover->home_sequence, &relayed);
        if (err)
            return err;
    }
    return wait_for_log(movers, mover, home, mover->home_sequence);
}

static enum err wait_source(struct movers *movers, struct mover *mover)
{
    if (movers->model->bug == NODES_BUG_MOVE_AT_ONCE)
        return ERR_OK;
    return wait_for_log(movers, mover, mover->over.map.from, mover->frozen.sequence);
}

static enum err wait_saved(struct movers *movers, struct mover *mover)
{
    if (movers->model->bug == NODES_BUG_DISSOLVE_EARLY)
        return ERR_OK;
    enum err err = redis_are_saved(movers->model, mover->wiped);
    if (err != ERR_COLD)
        return err;
    return is_late(movers, mover, PATIENCE_MS) ? ERR_TIMEOUT : NOT_YET;
}

/* --- steps of one cell --- */

static enum err do_in_cell(struct movers *movers, struct mover *mover, unsigned cell)
{
    struct hand_over *over = &mover->over;
    struct asker_of_piece asker = asker_of(movers, mover);
    switch (over->step) {
    case HAND_OVER_RESERVE:
        return pieces_reserve(asker, cell, over->map.version);
    case HAND_OVER_PREPARE:
        return pieces_prepare(asker, cell, &over->map, &over->adopted, &mover->target_epoch,
                              &over->last_version);
    case HAND_OVER_STOP:
        mover->stopped_cells |= map_bit(cell);
        return pieces_stop(asker, cell, &over->map, &mover->stopped[cell]);
    case HAND_OVER_WAIT_STOPPED:
        return movers->model->bug == NODES_BUG_STOP_AT_ONCE
                   ? ERR_OK
                   : wait_for_log(movers, mover, cell, mover->stopped[cell].sequence);
    case HAND_OVER_ERASE:
        return pieces_erase(asker, cell, &over->map, &mover->stopped[cell].sequence);
    case HAND_OVER_WAIT_ERASED:
        return movers->model->bug == NODES_BUG_ERASE_UNSAID
                   ? ERR_OK
                   : wait_for_log(movers, mover, cell, mover->stopped[cell].sequence);
    case HAND_OVER_WIPE:
        return cell == over->home
                   ? pieces_progress(asker, cell, &mover->wiped[cell], &(uint64_t){0})
                   : pieces_wipe(asker, cell, over->map.version, &mover->wiped[cell]);
    case HAND_OVER_UNLIST:
        return pieces_unlist(asker, cell);
    case HAND_OVER_COPY:
        return pieces_copy(asker, &over->map, &mover->frozen, cell);
    default:
        return ERR_OK;
    }
}

/* One of those that are left. */
static enum err do_next_cell(struct movers *movers, struct mover *mover)
{
    if (mover->left == 0)
        return ERR_OK;
    unsigned cell = (unsigned)__builtin_ctzll(mover->left);
    enum err err = do_in_cell(movers, mover, cell);
    if (err)
        return err;
    mover->left &= mover->left - 1;
    return mover->left == 0 ? ERR_OK : NOT_YET;
}

/* --- steps --- */

static enum err plan(struct mover *mover)
{
    struct map *map = &mover->over.map;
    uint8_t now[BUCKET_SLICES];
    memcpy(now, map->owner, sizeof(now));
    if (mover->finishes)
        memcpy(mover->goal, now, sizeof(now));
    bool has_step = map_next(map, mover->over.home, mover->goal, BUCKET_SLICES);
    mover->over.is_done = !has_step && memcmp(now, map->owner, sizeof(now)) == 0;
    return ERR_OK;
}

static enum err do_step(struct movers *movers, struct mover *mover)
{
    struct hand_over *over = &mover->over;
    struct asker_of_piece asker = asker_of(movers, mover);
    switch (over->step) {
    case HAND_OVER_READ:
        return pieces_read(asker, &over->map, &over->last_version);
    case HAND_OVER_PLAN:
        return plan(mover);
    case HAND_OVER_WRITE:
        return pieces_write(asker, &over->map, over->before, NULL, 0);
    case HAND_OVER_TAKE:
        return pieces_write(asker, &over->map, over->before, mover->stopped, mover->stopped_cells);
    case HAND_OVER_WAIT_HOME:
        return wait_home(movers, mover);
    case HAND_OVER_WAIT_SOURCE:
        return wait_source(movers, mover);
    case HAND_OVER_FREEZE:
        return pieces_freeze(asker, &over->map, &mover->frozen);
    case HAND_OVER_ADOPT:
        return pieces_adopt(asker, &over->map, &mover->frozen, mover->target_epoch);
    case HAND_OVER_RELEASE:
        return pieces_release(asker, &over->map);
    case HAND_OVER_THAW:
        return pieces_thaw(asker, &over->map, over->adopted);
    case HAND_OVER_WAIT_SAVED:
        return wait_saved(movers, mover);
    case HAND_OVER_GONE:
        return pieces_gone(asker, over->map.version, mover->wiped);
    case HAND_OVER_END:
        return ERR_OK;
    default:
        return do_next_cell(movers, mover);
    }
}

static void begin_step(struct movers *movers, struct mover *mover)
{
    const struct hand_over *over = &mover->over;
    mover->is_in_step = true;
    mover->step_began_ms = *movers->model->now_ms;
    mover->home_sequence = 0;
    mover->left = over->cells & (map_bit(CELLS) - 1);
    if (over->step == HAND_OVER_COPY)
        for (unsigned slice = 0; slice < SLICES; slice++)
            mover->left |= mover->frozen.owned[slice] == '1' ? map_bit(slice) : 0;
    if (over->step == HAND_OVER_STOP)
        mover->stopped_cells = 0;
    movers->undone += over->step == HAND_OVER_THAW;
    movers->steps++;
}

bool movers_step(struct movers *movers, struct mover *mover)
{
    if (!mover->is_in_step)
        begin_step(movers, mover);
    enum hand_over_step step = mover->over.step;
    uint64_t left = mover->left;
    enum err err = do_step(movers, mover);
    if (err == ERR_UNAVAILABLE && !is_late(movers, mover, PATIENCE_MS))
        return false;
    if (err == NOT_YET)
        return mover->left != left;
    if (!err && sim_rng_chance(movers->model->rng, 50) && step != HAND_OVER_PLAN) {
        begin_step(movers, mover); /* the answer was lost: it is asked again */
        return true;
    }
    mover->is_in_step = false;
    hand_over_take(&mover->over, err, *movers->model->now_ms);
    if (mover->over.step != HAND_OVER_END)
        return true;
    mover->is_active = false;
    movers->ended += mover->over.code == ERR_OK;
    movers->dissolved += step == HAND_OVER_GONE && !err;
    return true;
}

/* --- who moves what --- */

static struct mover *new_mover(struct movers *movers, unsigned node, unsigned life, unsigned thing)
{
    for (unsigned i = 0; i < MOVERS; i++) {
        struct mover *mover = &movers->list[i];
        if (mover->is_active)
            continue;
        *mover = (struct mover){.is_active = true, .node = node, .life = life, .thing = thing};
        hand_over_init(&mover->over, home_of(thing), true);
        movers->begun++;
        return mover;
    }
    return NULL;
}

/* Slices beyond those of the simulation go with them. */
static void choose_owners(struct movers *movers, struct mover *mover, unsigned shards)
{
    uint8_t owner[SLICES];
    mover->finishes = shards == 0;
    for (unsigned slice = 0; slice < SLICES; slice++) {
        unsigned cell = (unsigned)sim_rng_below(movers->model->rng, CELLS);
        owner[slice] = (uint8_t)(shards == 1 ? mover->over.home : cell);
    }
    for (unsigned slice = 0; slice < BUCKET_SLICES; slice++)
        mover->goal[slice] = owner[slice % SLICES];
}

void movers_start(struct movers *movers, unsigned node, unsigned life, unsigned thing,
                  unsigned shards)
{
    struct mover *mover = new_mover(movers, node, life, thing);
    if (mover)
        choose_owners(movers, mover, shards);
}

void movers_dissolve(struct movers *movers, unsigned node, unsigned life, unsigned thing)
{
    struct mover *mover = movers_have(movers, thing) ? NULL : new_mover(movers, node, life, thing);
    if (mover)
        hand_over_init_dissolve(&mover->over, home_of(thing), true);
}

bool movers_have(const struct movers *movers, unsigned thing)
{
    for (unsigned i = 0; i < MOVERS; i++)
        if (movers->list[i].is_active && movers->list[i].thing == thing)
            return true;
    return false;
}
