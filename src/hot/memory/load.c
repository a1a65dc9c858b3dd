/* load.c - what comes from the store: the port's side of it.
 *
 * Whatever takes long (building sets of members) happens before a lock is taken;
 * what was built is then put in its place, or thrown away if it is not needed
 * any more. A record that is there is never overwritten. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "core/bucket.h"
#include "hot/memory/cell_own.h"
#include "hot/memory/layer.h"

static_assert(STATE_SLICES == CROWD_SLICES, "the store's slices are ours");

void load_begin(struct hot *base, const struct state_mark *mark)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    assert(!hot->cold);

    hot->cold = cold_new(hot->env, mark->counters + mark->items, mark->next_user);
    hot->begun = memory_take(sizeof(mark->sequences));
    memcpy(hot->begun, mark->sequences, sizeof(mark->sequences));
    saves_init(&hot->saves, mark->sequences);
    users_skip(hot->users, mark->next_user);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct cell *cell = &hot->cells[i];
        cell->cold = hot->cold;
        cell->generation = hot->saves.now;
        cell->sequence = mark->sequences[i];
        cell->incarnation = mark->incarnations[i];
    }
    /* Only the sums over all cells are ever looked at. */
    hot->cells[0].counters += mark->counters;
    hot->cells[0].items += mark->items;
    hot->cells[0].members += mark->members;
}

void load_tell(struct hot *base, enum hot_want_kind kind, uint64_t stable_hash)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    assert(hot->cold);

    cold_tell(hot->cold, kind, stable_hash);
}

void load_told_all(struct hot *base, enum hot_want_kind kind)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    assert(hot->cold);

    cold_told_all(hot->cold, kind);
}

bool load_wanted(struct hot *base, struct hot_want *ret_want)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    return hot->cold && cold_take(hot->cold, ret_want);
}

/* ---- members ---- */

/* Our number of each kind; ERR_NO_KIND when somebody holds one that is not configured. */
static enum err check_kind(struct memory_hot *hot, struct slice item, struct slice kind,
                           uint8_t *ret_kind)
{
    *ret_kind = kinds_find(hot->kinds, kind);
    if (*ret_kind != KIND_NONE)
        return ERR_OK;
    char id[64];
    char name[64];
    if (!atomic_exchange(&hot->has_told_kind, true))
        message_error("the store holds reactions of a kind that is not configured: put it back "
                      "into the setting kinds; until then such items are refused item=%s kind=%s",
                      message_quote(id, sizeof(id), item), message_quote(name, sizeof(name), kind));
    return ERR_NO_KIND;
}

static enum err add_members(struct memory_hot *hot, struct slice item, struct set *sets,
                            const struct state_members *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t kind;
        enum err err =
            members[i].count == 0 ? ERR_OK : check_kind(hot, item, members[i].kind, &kind);
        if (err)
            return err;
        for (size_t j = 0; j < members[i].count; j++)
            sets_add(sets, kind, members[i].named ? USER_NAMED : USER_NUMERIC,
                     members[i].numbers[j]);
    }
    return ERR_OK;
}

/* ---- a target ---- */

static size_t count_members(const struct state_target *target)
{
    size_t count = 0;
    for (size_t i = 0; i < target->member_count; i++)
        count += target->members[i].count;
    return count;
}

/* The crowd of an item that is too large for a block. */
static enum err build_crowd(struct memory_hot *hot, const struct state_target *target,
                            uint64_t hash, uint8_t home, struct crowd **ret_crowd)
{
    struct crowd *crowd = crowd_new(target->id, hash, home, hot->kinds->count);
    enum err err = ERR_OK;
    if (target->slices == 1) {
        crowd->slices[0] = sets_new(crowd->kinds);
        err = add_members(hot, target->id, crowd->slices[0], target->members, target->member_count);
        for (uint8_t kind = 1; kind <= crowd->kinds && !err; kind++)
            atomic_store(&crowd->counts[kind - 1], crowd_count_sets(crowd, kind, UINT32_MAX));
    } else {
        crowd->slice_count = CROWD_SLICES;
        atomic_store(&crowd->missing, UINT64_MAX);
        for (size_t i = 0; i < target->kind_count && !err; i++) {
            uint8_t kind;
            if (target->counts[i] != 0)
                err = check_kind(hot, target->id, target->kinds[i], &kind);
            if (!err && target->counts[i] != 0)
                atomic_store(&crowd->counts[kind - 1], target->counts[i]);
        }
    }
    if (err) {
        crowd_free(crowd);
        return err;
    }
    crowd->spread.incarnation = target->incarnation;
    crowd->spread.asked = target->create.shards > 1 ? target->create.shards : 1;
    crowd->spread.written_s = (uint32_t)(target->written_ms / 1000);
    *ret_crowd = crowd;
    return ERR_OK;
}

static void fill_block(const struct memory_hot *hot, struct entry *item,
                       const struct state_target *target)
{
    for (size_t i = 0; i < target->member_count; i++) {
        const struct state_members *members = &target->members[i];
        uint8_t kind = kinds_find(hot->kinds, members->kind);
        for (size_t j = 0; j < members->count; j++)
            block_change(item,
                         (struct user){.class = members->named ? USER_NAMED : USER_NUMERIC,
                                       .number = members->numbers[j]},
                         KIND_NONE, kind);
    }
}

static void put_counter(struct cell *cell, struct entry *counter, const struct state_target *target)
{
    entry_set_value(counter, number_copy(&target->value));
    cell->big += target->value.big != NULL;
    struct op_create as = target->create;
    as.shards = as.shards == 0 ? 1 : as.shards;
    bool is_plain = as.shards == 1 && as.policy == POLICY_LOCAL && !as.has_floor && as.idle_s == 0;
    if (is_plain && target->deadline_ms == 0)
        return;
    struct rare *rare = cell_make_rare(cell, counter);
    rare->create = as;
    rare->deadline_ms = target->deadline_ms;
    cell->mortal += cell_is_mortal(rare);
}

/* On top of the record goes what the store knows and could not apply. The totals have
 * counted it when it was decided. */
static void replay_pending(struct memory_hot *hot, struct cell *cell,
                           const struct state_target *target)
{
    uint64_t counters = cell->counters;
    uint64_t items = cell->items;
    uint64_t members = cell->members;
    for (size_t i = 0; i < target->pending_count; i++) {
        struct cell_target aimed;
        uint64_t stable;
        struct error error = {.text = ""};
        enum err err = layer_aim_event(hot, &target->pending[i], 0, &aimed, &stable, &error);
        if (!err)
            err = cell_replay_pending(cell, &target->pending[i], &aimed, &error);
        if (err)
            message_warning("an event that the store could not apply cannot be replayed, either "
                            "reason=%s",
                            error.text);
    }
    cell->counters = counters;
    cell->items = items;
    cell->members = members;
}

static void mark_loaded(struct cell *cell, struct entry *entry, int64_t written_ms)
{
    entry->flags |= ENTRY_LOADED;
    entry_set_generation(entry, 0);
    entry->used = cell->clock;
    if (written_ms != 0)
        entry->written_s = (uint32_t)(written_ms / 1000);
    if (entry->kind == ENTRY_ITEM && entry->flags & ENTRY_CROWD)
        atomic_store(&entry->crowd->spread.stamp, (uint16_t)(cell->clock << 8));
}

/* Under the cell's lock. Says what there is now. */
static enum err put_target(struct memory_hot *hot, struct cell *cell, uint64_t hash,
                           const struct state_target *target, struct crowd *crowd)
{
    if (cell_find(cell, hash, target->id)) {
        crowd_free(crowd); /* it is there by now: that one counts */
        return ERR_OK;
    }
    struct entry *entry = cell_put(
        cell, hash, target->id, target->is_item ? ENTRY_ITEM : ENTRY_COUNTER, target->incarnation);
    entry->written_s = (uint32_t)(target->written_ms / 1000);
    if (!target->is_item) {
        put_counter(cell, entry, target);
    } else if (crowd) {
        entry->flags |= ENTRY_CROWD;
        entry->crowd = crowd;
    } else {
        fill_block(hot, entry, target);
    }
    cell->loads++;
    if (target->pending_count > 0) {
        replay_pending(hot, cell, target);
        layer_collect(hot, cell);
        entry = cell_find(cell, hash, target->id);
    }
    if (!entry)
        return ERR_NOT_FOUND; /* what was pending has deleted it */
    mark_loaded(cell, entry, target->pending_count > 0 ? 0 : target->written_ms);
    return ERR_OK;
}

/* The store has no row, and events that would have made one. */
static enum err put_pending_only(struct memory_hot *hot, struct cell *cell, uint64_t hash,
                                 const struct state_target *target)
{
    if (cell_find(cell, hash, target->id))
        return ERR_OK;
    replay_pending(hot, cell, target);
    layer_collect(hot, cell);
    struct entry *entry = cell_find(cell, hash, target->id);
    if (!entry)
        return ERR_NOT_FOUND;
    mark_loaded(cell, entry, 0);
    return ERR_OK;
}

static enum err check_members(struct memory_hot *hot, const struct state_target *target)
{
    for (size_t i = 0; i < target->member_count; i++) {
        uint8_t kind;
        if (target->members[i].count > 0 &&
            check_kind(hot, target->id, target->members[i].kind, &kind))
            return ERR_NO_KIND;
    }
    return ERR_OK;
}

static void loaded_target(struct memory_hot *hot, const struct hot_want *want,
                          const struct hot_found *found)
{
    uint64_t hash = hash_keyed(want->id, hot->hash_key);
    uint8_t home = layer_home(hash_stable(want->id));
    if (!cold_is_taken(hot->cold, want, hash))
        return;
    const struct state_target *target = found->target;
    enum err err = found->code == ERR_OK && target->absent ? ERR_NOT_FOUND : found->code;
    struct crowd *crowd = NULL;
    if (err == ERR_OK && target->is_item)
        err = check_members(hot, target);
    if (err == ERR_OK && target->is_item &&
        (target->slices != 1 || count_members(target) > BLOCK_MAX || target->create.shards > 1))
        err = build_crowd(hot, target, hash, home, &crowd);

    struct cell *cell = &hot->cells[home];
    layer_take(hot, cell);
    if (err == ERR_OK)
        err = put_target(hot, cell, hash, target, crowd);
    else if (err == ERR_NOT_FOUND && target && target->pending_count > 0)
        err = put_pending_only(hot, cell, hash, target);
    const struct entry *entry = cell_find(cell, hash, want->id);
    bool is_owed_shards = entry && layer_owed(cell, entry) > 1;
    /* Still under the lock: nobody asks in between. */
    cold_answer(hot->cold, want, hash, err);
    lock_release(&cell->lock);
    if (is_owed_shards)
        balance_spread_as_asked(hot, cell, hash, want->id);
}

/* ---- a slice ---- */

static void change_sets(struct set *sets, struct user user, uint8_t before, uint8_t after)
{
    if (before != KIND_NONE)
        sets_remove(sets, before, user.class, user.number);
    if (after != KIND_NONE)
        sets_add(sets, after, user.class, user.number);
}

/* The counts have followed these when the item was loaded. */
static void change_by_pending(struct memory_hot *hot, struct set *sets, uint32_t slice,
                              const struct hot_found *found)
{
    for (size_t i = 0; i < found->pending_count; i++) {
        const struct event *event = &found->pending[i];
        struct cell_target target;
        uint64_t stable;
        if (event->type != EVENT_REACT || event->erased ||
            layer_aim_event(hot, event, 0, &target, &stable, NULL) != ERR_OK ||
            bucket_slice(target.bucket) != slice)
            continue;
        change_sets(sets, target.user, kinds_find(hot->kinds, event->before),
                    kinds_find(hot->kinds, event->after));
    }
}

static struct crowd *crowd_of(struct cell *cell, uint64_t hash, struct slice id)
{
    struct entry *entry = cell_find(cell, hash, id);
    bool has_slices = entry && entry->kind == ENTRY_ITEM && entry->flags & ENTRY_CROWD &&
                      entry->crowd->slice_count == CROWD_SLICES;
    return has_slices ? entry->crowd : NULL;
}

/* The slice belongs to the home cell as long as the item is not spread. */
static void put_slice(struct memory_hot *hot, uint64_t hash, uint8_t home,
                      const struct hot_want *want, struct set *sets)
{
    struct cell *cell = &hot->cells[home];
    layer_take(hot, cell);
    struct crowd *crowd = crowd_of(cell, hash, want->id);
    bool is_spread = crowd && crowd->spread.shards > 1;
    if (is_spread) {
        lock_release(&cell->lock);
        layer_take_all(hot);
        crowd = crowd_of(cell, hash, want->id);
    }
    if (crowd)
        crowd_put_slice(crowd, want->slice, sets);
    else
        sets_free(sets, hot->kinds->count);
    cell->loads++;
    cold_answer(hot->cold, want, hash, ERR_OK);
    if (is_spread)
        layer_release_all(hot);
    else
        lock_release(&cell->lock);
}

static void loaded_slice(struct memory_hot *hot, const struct hot_want *want,
                         const struct hot_found *found)
{
    uint64_t hash = hash_keyed(want->id, hot->hash_key);
    if (!cold_is_taken(hot->cold, want, hash))
        return;
    enum err err = found->code == ERR_NOT_FOUND ? ERR_OK : found->code; /* then it is empty */
    struct set *sets = sets_new(hot->kinds->count);
    if (found->code == ERR_OK)
        err = add_members(hot, want->id, sets, found->members, found->member_count);
    if (err) {
        sets_free(sets, hot->kinds->count);
        cold_answer(hot->cold, want, hash, err);
        return;
    }
    change_by_pending(hot, sets, want->slice, found);
    put_slice(hot, hash, layer_home(hash_stable(want->id)), want, sets);
}

/* ---- the rest ---- */

static enum err put_user(struct memory_hot *hot, struct slice name, uint32_t number)
{
    struct user user;
    uint64_t hash;
    if (!users_begin(hot->users, name, &user, &hash) &&
        users_put(hot->users, name, hash, number, 0))
        return ERR_OK;
    char text[64];
    message_error("the store has another number for a user user=%s number=%" PRIu32,
                  message_quote(text, sizeof(text), name), number);
    return ERR_CORRUPT;
}

static void loaded_user(struct memory_hot *hot, const struct hot_want *want,
                        const struct hot_found *found)
{
    struct user user;
    uint64_t hash;
    if (users_begin(hot->users, want->id, &user, &hash))
        return; /* a number by itself */
    enum err err = found->code;
    if (err == ERR_OK)
        err = put_user(hot, want->id, found->user_number);
    cold_answer(hot->cold, want, hash, err);
}

static void loaded_key(struct memory_hot *hot, const struct hot_want *want,
                       const struct hot_found *found)
{
    uint64_t low = want->key_low;
    uint64_t high = want->key_high;
    enum err err = found->code;
    if (found->code == ERR_OK) {
        const struct state_key *key = found->key;
        low = key->low;
        high = key->high;
        struct key_answer answer = {.fingerprint = key->fingerprint,
                                    .changed = key->changed,
                                    .held = kinds_find(hot->kinds, key->held),
                                    .value = key->value};
        if (!keys_load(hot->keys, low, high, &answer, key->time_ms, atomic_load(&hot->now_ms)))
            err = ERR_NOT_FOUND; /* it may be used anew */
    }
    cold_answer(hot->cold, want, cold_key_hash(low, high), err);
}

static void loaded_names(struct memory_hot *hot, const struct hot_want *want,
                         const struct hot_found *found)
{
    enum err err = found->code == ERR_NOT_FOUND ? ERR_CORRUPT : found->code;
    for (size_t i = 0; i < want->number_count && !err; i++) {
        if (found->names[i].size == 0)
            err = ERR_CORRUPT; /* a member of something must have a name */
        else
            err = put_user(hot, found->names[i], want->numbers[i]);
    }
    cold_answer(hot->cold, want, cold_names_hash(want->numbers, want->number_count), err);
}

void load_loaded(struct hot *base, const struct hot_want *want, const struct hot_found *found)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    assert(hot->cold);

    switch (want->kind) {
    case HOT_WANT_TARGET:
        loaded_target(hot, want, found);
        break;
    case HOT_WANT_SLICE:
        loaded_slice(hot, want, found);
        break;
    case HOT_WANT_USER:
        loaded_user(hot, want, found);
        break;
    case HOT_WANT_KEY:
        loaded_key(hot, want, found);
        break;
    case HOT_WANT_NAMES:
        loaded_names(hot, want, found);
        break;
    }
    layer_count_own(hot);
    layer_tell_wants(hot); /* a pending event may lack a user */
}
