#include "hot/redis/hand_over.h"

#include <assert.h>

#define COPIES_MAX 5u

const char *hand_over_step_name(enum hand_over_step step)
{
    static const char *const names[] = {
        "read",
        "plan",
        "reserve",
        "write",
        "wait for home's log",
        "prepare",
        "freeze",
        "wait",
        "copy",
        "adopt",
        "release",
        "thaw",
        "stop",
        "wait",
        "take",
        "erase",
        "wait",
        "wipe",
        "wait for the store",
        "unlist",
        "gone",
        "end",
    };
    return names[step];
}

void hand_over_init(struct hand_over *over, unsigned home, bool can_dissolve)
{
    assert(home < LIMIT_CELLS);

    *over = (struct hand_over){.home = home, .can_dissolve = can_dissolve};
}

void hand_over_init_dissolve(struct hand_over *over, unsigned home, bool can_dissolve)
{
    hand_over_init(over, home, can_dissolve);
    over->dissolves = true;
}

/* ---- what comes next ---- */

static void go(struct hand_over *over, enum hand_over_step step, uint64_t cells)
{
    over->step = step;
    over->cells = cells;
}

static void end(struct hand_over *over, enum err code)
{
    over->code = code;
    go(over, HAND_OVER_END, 0);
}

/* A version that was not there before, in any life of the record. */
static void renew(struct hand_over *over, int64_t now_ms)
{
    uint64_t now = (uint64_t)now_ms;
    over->map.version = now > over->last_version ? now : over->last_version + 1;
    over->last_version = over->map.version;
}

static void write(struct hand_over *over, enum hand_over_step step, int64_t now_ms)
{
    renew(over, now_ms);
    go(over, step, 0);
}

static void finish(struct hand_over *over, int64_t now_ms)
{
    map_finish(&over->map);
    write(over, HAND_OVER_WRITE, now_ms);
}

/* The first step of the change that home's map says is under way. */
static void begin_change(struct hand_over *over)
{
    const struct map *map = &over->map;
    over->copies = 0;
    switch (map->change) {
    case MAP_STEADY:
        go(over, HAND_OVER_PLAN, 0);
        break;
    case MAP_MOVE:
    case MAP_UNDO:
        go(over, HAND_OVER_PREPARE, map_bit(map->to));
        break;
    case MAP_JOIN: /* home must not forget of whom it takes counts */
    case MAP_ERASE:
        go(over, HAND_OVER_WAIT_HOME, 0);
        break;
    case MAP_DRAIN:
        go(over, HAND_OVER_STOP, map->slices);
        break;
    case MAP_DISSOLVE:
        go(over, HAND_OVER_WIPE, UINT64_MAX);
        break;
    }
}

static void dissolve(struct hand_over *over, int64_t now_ms)
{
    if (!over->can_dissolve) {
        end(over, ERR_UNAVAILABLE);
        return;
    }
    over->map.change = MAP_DISSOLVE;
    write(over, HAND_OVER_WRITE, now_ms);
}

static void after_read(struct hand_over *over, int64_t now_ms)
{
    over->before = over->map.version;
    if (over->dissolves && over->before == 0)
        end(over, ERR_OK); /* it is in one piece */
    else if (over->dissolves && over->map.change != MAP_DISSOLVE)
        dissolve(over, now_ms);
    else
        begin_change(over);
}

/* The driver has put the next step into the map. */
static void after_plan(struct hand_over *over, int64_t now_ms)
{
    if (over->is_done) {
        end(over, ERR_OK);
        return;
    }
    write(over, HAND_OVER_WRITE, now_ms);
    if (over->map.change == MAP_JOIN)
        go(over, HAND_OVER_RESERVE, over->map.slices);
}

static void after_write(struct hand_over *over)
{
    if (map_is_folded(&over->map, over->home))
        over->map.version = 0; /* there is none any more */
    over->before = over->map.version;
    if (over->gives_up && over->map.change == MAP_STEADY)
        end(over, ERR_TIMEOUT);
    else
        begin_change(over);
}

static void after_wait_home(struct hand_over *over)
{
    const struct map *map = &over->map;
    if (map->change == MAP_JOIN)
        go(over, HAND_OVER_PREPARE, map->slices);
    else if (map->change == MAP_ERASE)
        go(over, HAND_OVER_ERASE, map->slices);
    else
        go(over, HAND_OVER_COPY, 0);
}

static void after_prepare(struct hand_over *over, int64_t now_ms)
{
    const struct map *map = &over->map;
    if (map->change == MAP_JOIN)
        finish(over, now_ms);
    else if (map->change == MAP_UNDO)
        go(over, HAND_OVER_THAW, 0);
    else if (over->adopted >= map->version)
        go(over, HAND_OVER_RELEASE, 0);
    else
        go(over, HAND_OVER_FREEZE, 0);
}

static void after_wait_stopped(struct hand_over *over, int64_t now_ms)
{
    map_finish(&over->map); /* there is still their end to come */
    write(over, HAND_OVER_TAKE, now_ms);
}

static void succeed(struct hand_over *over, int64_t now_ms)
{
    switch (over->step) {
    case HAND_OVER_READ:
        after_read(over, now_ms);
        break;
    case HAND_OVER_PLAN:
        after_plan(over, now_ms);
        break;
    case HAND_OVER_RESERVE:
        go(over, HAND_OVER_WRITE, 0);
        break;
    case HAND_OVER_WRITE:
    case HAND_OVER_TAKE:
        after_write(over);
        break;
    case HAND_OVER_WAIT_HOME:
        after_wait_home(over);
        break;
    case HAND_OVER_PREPARE:
        after_prepare(over, now_ms);
        break;
    case HAND_OVER_FREEZE:
        go(over, HAND_OVER_WAIT_SOURCE, 0);
        break;
    case HAND_OVER_WAIT_SOURCE:
        go(over, HAND_OVER_WAIT_HOME, 0);
        break;
    case HAND_OVER_COPY:
        over->copies++;
        go(over, HAND_OVER_ADOPT, 0);
        break;
    case HAND_OVER_ADOPT:
        go(over, HAND_OVER_RELEASE, 0);
        break;
    case HAND_OVER_RELEASE:
    case HAND_OVER_THAW:
    case HAND_OVER_WAIT_ERASED:
        finish(over, now_ms);
        break;
    case HAND_OVER_STOP:
        go(over, HAND_OVER_WAIT_STOPPED, over->map.slices);
        break;
    case HAND_OVER_ERASE:
        go(over, HAND_OVER_WAIT_ERASED, over->map.slices);
        break;
    case HAND_OVER_WAIT_STOPPED:
        after_wait_stopped(over, now_ms);
        break;
    case HAND_OVER_WIPE:
        go(over, HAND_OVER_WAIT_SAVED, 0);
        break;
    case HAND_OVER_WAIT_SAVED:
        go(over, HAND_OVER_UNLIST, UINT64_MAX);
        break;
    case HAND_OVER_UNLIST:
        go(over, HAND_OVER_GONE, 0);
        break;
    case HAND_OVER_GONE:
        end(over, ERR_OK);
        break;
    case HAND_OVER_END:
        break;
    }
}

/* ---- what went otherwise ---- */

/* A cell knows a later version of the map than home, or an earlier one of itself: somebody has
 * forgotten something. The change is done anew, under a version that nobody has seen. */
static void do_anew(struct hand_over *over, int64_t now_ms)
{
    if (over->map.change == MAP_MOVE)
        map_undo(&over->map);
    if (over->map.change == MAP_DRAIN || over->map.change == MAP_ERASE) {
        dissolve(over, now_ms);
        return;
    }
    write(over, HAND_OVER_WRITE, now_ms);
    if (over->map.change == MAP_JOIN)
        go(over, HAND_OVER_RESERVE, over->map.slices);
}

static bool is_of_home(enum hand_over_step step)
{
    return step == HAND_OVER_READ || step == HAND_OVER_PLAN || step == HAND_OVER_RESERVE ||
           step == HAND_OVER_WRITE || step == HAND_OVER_TAKE || step == HAND_OVER_GONE;
}

static void came_late(struct hand_over *over, int64_t now_ms)
{
    bool is_same = !is_of_home(over->step) && over->busy_version == over->map.version;
    over->busy_version = is_of_home(over->step) ? 0 : over->map.version;
    if (is_same)
        do_anew(over, now_ms);
    else
        go(over, HAND_OVER_READ, 0);
}

/* Others may have finished the change meanwhile: seen twice, it is so. What home does not take was
 * to follow a version that is still there. */
static void missed_piece(struct hand_over *over, int64_t now_ms)
{
    bool is_write = over->step == HAND_OVER_WRITE || over->step == HAND_OVER_TAKE;
    uint64_t version = is_write ? over->before : over->map.version;
    bool is_same = over->has_lost && over->lost_version == version;
    over->has_lost = true;
    over->lost_version = version;
    if (is_same)
        dissolve(over, now_ms);
    else
        go(over, HAND_OVER_READ, 0);
}

static bool waits_for_log(enum hand_over_step step)
{
    return step == HAND_OVER_WAIT_SOURCE || step == HAND_OVER_WAIT_HOME;
}

static void fail(struct hand_over *over, enum err outcome, int64_t now_ms)
{
    if (outcome == ERR_COLD && over->copies < COPIES_MAX) {
        go(over, HAND_OVER_COPY, 0);
    } else if (outcome == ERR_BUSY || outcome == ERR_COLD) {
        came_late(over, now_ms);
    } else if (outcome == ERR_CORRUPT && over->step != HAND_OVER_READ) {
        missed_piece(over, now_ms);
    } else if (outcome == ERR_TIMEOUT && over->map.change == MAP_MOVE &&
               waits_for_log(over->step)) {
        /* A move that the log does not let us finish must not keep its users waiting. */
        over->gives_up = true;
        map_undo(&over->map);
        write(over, HAND_OVER_WRITE, now_ms);
    } else {
        end(over, outcome);
    }
}

void hand_over_take(struct hand_over *over, enum err outcome, int64_t now_ms)
{
    assert(over->step != HAND_OVER_END);

    if (outcome == ERR_OK)
        succeed(over, now_ms);
    else
        fail(over, outcome, now_ms);
}
