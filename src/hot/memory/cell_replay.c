/* cell_replay.c - a cell takes its past from the log. What was decided then is
 * not decided again: an event is applied, or it is late, or it cannot follow what
 * came before, and then the log is damaged. */
#include "hot/memory/cell_own.h"

#include <assert.h>

static enum err cannot_follow(const struct event *event, const char *why, struct error *error)
{
    return error_set(error, ERR_CORRUPT, "event %llu of origin %u on '%.*s' cannot follow: %s",
                     (unsigned long long)event->sequence, event->origin, SLICE_ARGS(event->id),
                     why);
}

/* The record that an event is about, made if the event is what made it. NULL
 * with ERR_OK: the event is late, its incarnation is gone. */
static enum err record_for_event(struct cell *cell, const struct event *event, struct slice target,
                                 uint64_t hash, uint8_t kind, struct entry **ret_entry,
                                 struct error *error)
{
    struct entry *entry = cell_find(cell, hash, target);
    *ret_entry = NULL;
    if (!entry) {
        enum err err = cell_ask_to_replay(cell, hash, target, error);
        if (err)
            return err;
        if (event->incarnation == cell->incarnation)
            *ret_entry = cell_create(cell, hash, target, kind);
        else if (event->incarnation > cell->incarnation)
            return cannot_follow(event, "it is of an incarnation yet to come", error);
        return ERR_OK;
    }
    if (event->incarnation < entry->incarnation)
        return ERR_OK;
    if (event->incarnation > entry->incarnation)
        return cannot_follow(event, "its incarnation was never created", error);
    if (entry->kind != kind)
        return cannot_follow(event, "it is of another type", error);
    *ret_entry = entry;
    return ERR_OK;
}

static enum err replay_amount(struct cell *cell, const struct event *event, struct slice target,
                              uint64_t hash, struct error *error)
{
    struct entry *counter;
    enum err err = record_for_event(cell, event, target, hash, ENTRY_COUNTER, &counter, error);
    if (err || !counter)
        return err;

    struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->parts) {
        int64_t total;
        bool had_floor = rare->parts->has_floor;
        rare->parts->has_floor = false; /* it was obeyed when this was decided */
        err = event->amount.big ? ERR_OUT_OF_RANGE
                                : parts_add(rare->parts, 0, event->amount.small, &total);
        rare->parts->has_floor = had_floor;
        cell_touch_spread(cell, &rare->parts->spread, event->time_ms);
        if (!err)
            return ERR_OK;
        cell_reshard_counter(cell, counter, 1);
    }
    counter_add_value(cell, counter, &event->amount);
    cell_touch(cell, counter, event->time_ms);
    return ERR_OK;
}

static void touch_item(struct cell *cell, struct entry *item, int64_t time_ms)
{
    cell_touch(cell, item, time_ms);
    if (item->flags & ENTRY_CROWD)
        cell_touch_spread(cell, &item->crowd->spread, time_ms);
}

static enum err replay_reaction(struct cell *cell, const struct event *event, struct slice target,
                                uint64_t hash, struct user user, uint16_t bucket, bool may_split,
                                struct error *error)
{
    uint8_t before = kinds_find(cell->kinds, event->before);
    uint8_t after = kinds_find(cell->kinds, event->after);
    if ((event->before.size > 0 && before == KIND_NONE) ||
        (event->after.size > 0 && after == KIND_NONE))
        return error_set(error, ERR_INVALID,
                         "the log holds reactions of the kind '%.*s', which is not configured: "
                         "add it to the setting kinds",
                         SLICE_ARGS(before == KIND_NONE && event->before.size > 0 ? event->before
                                                                                  : event->after));
    struct entry *item;
    enum err err = record_for_event(cell, event, target, hash, ENTRY_ITEM, &item, error);
    if (err || !item)
        return err;

    if (event->erased) { /* whoever it was has withdrawn it since, in another such event */
        touch_item(cell, item, event->time_ms);
        return ERR_OK;
    }
    err = may_split ? item_split_if_large(cell, item, hash) : ERR_OK;
    if (err)
        return err;
    uint8_t held;
    if (item->flags & ENTRY_CROWD) {
        uint32_t slice = crowd_slice_of(item->crowd, bucket);
        if (crowd_misses(item->crowd, slice))
            return error_set(error, cold_ask_slice(cell->cold, hash, target, slice),
                             "slice %u of '%.*s' is in the store", slice, SLICE_ARGS(target));
        held = crowd_held(item->crowd, slice, user);
    } else {
        held = block_held(item, user);
    }
    if (held != before || before == after)
        return cannot_follow(event, "the user holds another reaction", error);
    item_change(cell, item, hash, user, bucket, before, after);
    touch_item(cell, item, event->time_ms);
    return ERR_OK;
}

static enum err replay_delete(struct cell *cell, const struct event *event, struct slice target,
                              uint64_t hash, struct error *error)
{
    bool is_next =
        event->next_incarnation > cell->incarnation || event->next_incarnation == UINT32_MAX;
    if (!is_next && cell->incarnation != 0)
        return cannot_follow(event, "a later deletion came before it", error);
    struct entry *entry = cell_find(cell, hash, target);
    enum err err = entry ? ERR_OK : cell_ask_to_replay(cell, hash, target, error);
    if (err)
        return err;
    if (entry && entry->incarnation == event->incarnation)
        cell_drop(cell, hash, entry);
    cell->incarnation = event->next_incarnation;
    return ERR_OK;
}

static enum err replay_create(struct cell *cell, const struct event *event, struct slice target,
                              uint8_t target_kind, uint64_t hash, struct error *error)
{
    if (event->incarnation < cell->incarnation)
        return ERR_OK; /* late: what was created then has been deleted since */
    if (event->incarnation > cell->incarnation)
        return cannot_follow(event, "it is of an incarnation yet to come", error);
    if (cell_find(cell, hash, target))
        return cannot_follow(event, "it exists already", error);
    enum err err = cell_ask_to_replay(cell, hash, target, error);
    if (err)
        return err;
    struct entry *entry = cell_create(cell, hash, target, target_kind ? ENTRY_ITEM : ENTRY_COUNTER);
    cell_create_as_asked(cell, hash, entry, &event->create, event->time_ms);
    return ERR_OK;
}

static enum err replay_expire(struct cell *cell, const struct event *event, struct slice target,
                              uint64_t hash, struct error *error)
{
    struct entry *counter = cell_find(cell, hash, target);
    enum err err = counter ? ERR_OK : cell_ask_to_replay(cell, hash, target, error);
    if (err)
        return err;
    if (counter && counter->kind == ENTRY_COUNTER && counter->incarnation == event->incarnation)
        counter_set_deadline(cell, counter, event->deadline_ms);
    return ERR_OK;
}

enum err cell_replay(struct cell *cell, const struct event *event, const struct cell_target *target,
                     struct error *error)
{
    struct slice id = target->id;
    uint64_t hash = target->hash;
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        return replay_amount(cell, event, id, hash, error);
    case EVENT_REACT:
        return replay_reaction(cell, event, id, hash, target->user, target->bucket, true, error);
    case EVENT_DELETE:
        return replay_delete(cell, event, id, hash, error);
    case EVENT_CREATE:
        return replay_create(cell, event, id, target->kind, hash, error);
    case EVENT_EXPIRE:
        return replay_expire(cell, event, id, hash, error);
    case EVENT_NOTHING:
    case EVENT_REPAIR:
    case EVENT_EPOCH:
    case EVENT_AFTER:
        return ERR_OK;
    }
    return cannot_follow(event, "its type is not known", error);
}

/* The user's slice may be missing: then only the counts follow, and the members do
 * when the slice is loaded, with the same events on top. To be split the item may need names
 * from the store, which cannot be waited for here: the next operation sees to that. */
static enum err replay_pending_reaction(struct cell *cell, const struct event *event,
                                        const struct cell_target *target, struct entry *item,
                                        struct error *error)
{
    uint8_t before = kinds_find(cell->kinds, event->before);
    uint8_t after = kinds_find(cell->kinds, event->after);
    bool is_missing = item->flags & ENTRY_CROWD &&
                      crowd_misses(item->crowd, crowd_slice_of(item->crowd, target->bucket));
    if (!is_missing || before == after)
        return replay_reaction(cell, event, target->id, target->hash, target->user, target->bucket,
                               false, error);
    if (item->incarnation == event->incarnation)
        crowd_count(item->crowd, before, after);
    return ERR_OK;
}

/* It is spread later: only this cell is locked. */
static void replay_pending_create(struct cell *cell, const struct event *event, uint64_t hash,
                                  struct entry *entry)
{
    cell_touch(cell, entry, event->time_ms);
    if (entry->kind == ENTRY_COUNTER) {
        struct rare *rare = cell_make_rare(cell, entry);
        cell->mortal -= cell_is_mortal(rare);
        rare->create = event->create;
        cell->mortal += cell_is_mortal(rare);
    } else if (event->create.shards > 1) {
        struct crowd *crowd = cell_crowd(cell, entry, hash);
        if (crowd) /* else there are members already: it was not created just now */
            crowd->spread.asked = event->create.shards;
    }
}

enum err cell_replay_pending(struct cell *cell, const struct event *event,
                             const struct cell_target *target, struct error *error)
{
    struct entry *entry = cell_find(cell, target->hash, target->id);
    if (event->type == EVENT_DELETE) {
        if (entry && entry->incarnation == event->incarnation)
            cell_take_out(cell, target->hash, entry);
        return ERR_OK;
    }
    if (!event_changes(event->type))
        return ERR_OK;
    bool is_item = event->type == EVENT_REACT || target->kind != 0;
    if (!entry)
        entry = cell_put(cell, target->hash, target->id, is_item ? ENTRY_ITEM : ENTRY_COUNTER,
                         event->incarnation);
    if (event->type == EVENT_CREATE) {
        replay_pending_create(cell, event, target->hash, entry);
        return ERR_OK;
    }
    if (event->type == EVENT_REACT && !event->erased && entry->kind == ENTRY_ITEM)
        return replay_pending_reaction(cell, event, target, entry, error);
    return cell_replay(cell, event, target, error);
}
