#include "store/postgres/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

#define LISTS 8u

/* The home cell of an id is in the upper bits of its hash, one of LIMIT_CELLS. */
#define HOME_SHIFT 58u
static_assert(LIMIT_CELLS == 64, "six bits");

void plan_init(struct plan *plan, size_t count)
{
    struct work **room = memory_take((count + 1) * LISTS * sizeof(struct work *));
    *plan = (struct plan){
        .room = room,
        .remove = room,
        .bury = room + count,
        .wipe = room + 2 * count,
        .make = room + 3 * count,
        .set = room + 4 * count,
        .add = room + 5 * count,
        .alter = room + 6 * count,
        .live = room + 7 * count,
    };
}

void plan_done(struct plan *plan)
{
    free(plan->room);
}

/* Others may have deleted it since the unit was made: then its home cell is further. */
static bool may_create(const struct postgres_store *store, const struct work *work)
{
    const struct store_unit *unit = work->unit;
    if (!unit->may_create || !store->is_shared)
        return unit->may_create;
    return unit->incarnation >= store->homes[work->hash >> HOME_SHIFT];
}

/* A unit of an incarnation that is over, or that never was. What a row says of that is believed
 * only if it is what was written there. */
static bool is_late(const struct postgres_store *store, const struct work *work, bool is_there)
{
    if (!is_there && !work->unit->is_new && !may_create(store, work))
        return true;
    return work->entry.number != 0 && !work->entry.is_wrong &&
           work->unit->incarnation < work->entry.incarnation;
}

static void refuse(struct store_unit *unit, const char *why)
{
    unit->code = ERR_REFUSED;
    (void)snprintf(unit->reason, sizeof(unit->reason), "%.*s%s",
                   (int)(unit->id.size < 100 ? unit->id.size : 100), unit->id.data, why);
}

static bool has_strange_kind(const struct postgres_store *store, const struct store_unit *unit)
{
    for (size_t i = 0; i < unit->reaction_count; i++) {
        if (kind_names_find(&store->kinds, unit->reactions[i].after) == SETS_KINDS)
            return true;
    }
    return false;
}

static void plan_end(struct postgres_store *store, struct plan *plan, struct work *work)
{
    if (work->entry.type == ENTRY_COUNTER) {
        store->totals.counters--;
        plan->remove[plan->remove_count++] = work;
        return;
    }
    store->totals.items--;
    plan->wipe[plan->wipe_count++] = work;
    plan->bury[plan->bury_count++] = work;
}

static void plan_counter(struct postgres_store *store, struct plan *plan, struct work *work,
                         bool is_there)
{
    known_add(&store->counters, work->hash);
    if (!is_there)
        store->totals.counters++;
    if (work->entry.number == 0)
        plan->make[plan->make_count++] = work;
    else
        plan->set[plan->set_count++] = work;
    work->is_done = true;
}

static void plan_item(struct postgres_store *store, struct plan *plan, struct work *work,
                      bool is_there)
{
    const struct store_unit *unit = work->unit;
    struct entry *entry = &work->entry;
    bool is_whole = work->is_anew || entry->slices != STATE_SLICES;
    int64_t held = work->is_anew ? 0 : entry->held;
    /* Who is to live on several shards can do so only in slices. */
    bool is_large = (unit->has_create && unit->create.shards > 1) ||
                    held + (int64_t)unit->reaction_count > (int64_t)STATE_WHOLE_MAX;
    work->is_split = is_whole && is_large && !work->is_anew;
    entry->slices = !is_whole || is_large ? STATE_SLICES : 1;
    if (!is_there)
        store->totals.items++;
    if (entry->number == 0)
        plan->add[plan->add_count++] = work;
    else if (work->is_anew || work->is_split || unit->has_create ||
             unit->incarnation != entry->incarnation)
        plan->alter[plan->alter_count++] = work;
    if (unit->reaction_count > 0 || work->is_split)
        plan->live[plan->live_count++] = work;
    work->is_done = true;
}

void plan_decide(struct postgres_store *store, struct plan *plan, struct work *work)
{
    struct store_unit *unit = work->unit;
    struct entry *entry = &work->entry;
    bool is_there = entry->number != 0 && entry->type != ENTRY_GONE;
    work->is_anew = !is_there;
    work->is_split = work->is_done = false;
    if (is_late(store, work, is_there))
        return;
    if (unit->is_gone) {
        if (is_there)
            plan_end(store, plan, work);
        return;
    }
    if (unit->is_item && has_strange_kind(store, unit)) {
        refuse(unit, ": a kind of reaction that cannot be kept");
        return;
    }
    if (is_there && (unit->is_new || unit->incarnation > entry->incarnation)) {
        work->is_anew = true;
        if (entry->type == ENTRY_ITEM)
            plan->wipe[plan->wipe_count++] = work;
        /* The totals count what there is: one kind for the other. */
        store->totals.counters -= entry->type == ENTRY_COUNTER;
        store->totals.items -= entry->type == ENTRY_ITEM;
        is_there = false;
    } else if (is_there && (entry->type == ENTRY_ITEM) != unit->is_item) {
        refuse(unit, unit->is_item ? " is a counter here" : " is an item here");
        return;
    }
    if (unit->is_item)
        plan_item(store, plan, work, is_there);
    else
        plan_counter(store, plan, work, is_there);
}
