/* desk_lists.c - lists: all counters and items, and the items of a user.
 *
 * Of all there is, first what is in memory and was not loaded from the store, then what the store
 * has. Values of what is in memory come from there. What the hot layer cannot be asked for is shown
 * as the store has it, and says so. A row that is not what was written there has no value. */
#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"
#include "flow/check.h"
#include "flow/desk_own.h"
#include "flow/suspects.h"

#define PHASE_STORE (1ull << 63)

struct scan {
    struct desk_seat *seat;
    struct slice pattern;
    desk_entry_fn *visit;
    void *arg;
    bool shows_loaded;      /* the second phase */
    bool is_audit;          /* finds what is damaged by itself */
    struct state_mark mark; /* how far the store is at least; once something needs it */
    struct age *age;
};

/* As of when is the store's row true? Of what was to be spread, all lanes may have events. */
static int64_t row_as_of_ms(const struct scan *scan, const struct state_target *target)
{
    const int64_t *times_ms = scan->mark.times_ms;
    int64_t as_of_ms = times_ms[hash_stable(target->id) / (UINT64_MAX / LIMIT_CELLS + 1)];
    if (target->create.shards > 1)
        for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
            as_of_ms = times_ms[lane] < as_of_ms ? times_ms[lane] : as_of_ms;
    else if (target->written_ms > as_of_ms)
        as_of_ms = target->written_ms;
    return as_of_ms > 0 ? as_of_ms : 1;
}

/* Nobody knows what there is that could not be asked for: the store has what was there then. */
static void note_passed_over(struct scan *scan)
{
    struct age age = {.stale = true, .as_of_ms = INT64_MAX};
    aggregator_mark(scan->seat->desk->options.aggregator, &scan->mark);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        if (scan->mark.times_ms[lane] > 0 && scan->mark.times_ms[lane] < age.as_of_ms)
            age.as_of_ms = scan->mark.times_ms[lane];
    if (age.as_of_ms == INT64_MAX)
        age.as_of_ms = 1;
    age_add(scan->age, &age);
}

static void scan_hot(void *arg, const struct hot_entry *entry)
{
    struct scan *scan = arg;
    if (entry->was_loaded != scan->shows_loaded ||
        (scan->pattern.size > 0 && !match_glob(scan->pattern, entry->id)))
        return;
    scan->visit(scan->arg, &(struct desk_entry){.id = entry->id,
                                                .is_item = entry->is_item,
                                                .value = entry->value,
                                                .counts = entry->counts,
                                                .shards = entry->shards,
                                                .is_hot = true});
}

/* Nobody knows what it ought to be, before it was counted anew. */
static void show_damaged(struct scan *scan, const struct state_target *target, struct age age)
{
    const struct desk_options *options = &scan->seat->desk->options;
    struct suspects_queue *suspects = scan->is_audit ? NULL : options->suspects;
    if (suspects && options->has_hot)
        (void)suspects_queue_report(suspects, target->id);
    scan->visit(scan->arg, &(struct desk_entry){.id = target->id,
                                                .is_item = target->is_item,
                                                .shards = 1,
                                                .is_damaged = true,
                                                .age = age});
    age_add(scan->age, &age);
}

static void show_cold(struct scan *scan, const struct state_target *target, struct age age)
{
    if (target->is_wrong) {
        show_damaged(scan, target, age);
        return;
    }
    const struct kinds *kinds = scan->seat->desk->kinds;
    int64_t counts[LIMIT_KINDS] = {0};
    for (size_t i = 0; i < target->kind_count; i++) {
        uint8_t kind = kinds_find(kinds, target->kinds[i]);
        if (kind != KIND_NONE)
            counts[kind - 1] = target->counts[i];
    }
    scan->visit(scan->arg, &(struct desk_entry){.id = target->id,
                                                .is_item = target->is_item,
                                                .value = target->is_item ? NULL : &target->value,
                                                .counts = target->is_item ? counts : NULL,
                                                .shards = 1,
                                                .written_ms = target->written_ms,
                                                .age = age});
    age_add(scan->age, &age);
}

static void scan_stored(void *arg, const struct state_target *target)
{
    struct scan *scan = arg;
    struct desk *desk = scan->seat->desk;
    if (scan->pattern.size > 0 && !match_glob(scan->pattern, target->id))
        return;
    enum err err = hot_peek(desk->hot, target->id, scan_hot, scan);
    bool is_expired =
        target->deadline_ms > 0 && target->deadline_ms <= env_wall_ms(desk->options.env);
    if (err == ERR_COLD && !is_expired)
        show_cold(scan, target, (struct age){0});
    else if (err == ERR_UNAVAILABLE && !is_expired)
        show_cold(scan, target,
                  (struct age){.stale = true, .as_of_ms = row_as_of_ms(scan, target)});
}

static enum err scan_step(struct scan *scan, uint64_t *cursor, uint32_t limit, struct error *error)
{
    struct hot *hot = scan->seat->desk->hot;
    enum err err = check_pattern(scan->pattern, error);
    if (err)
        return err;
    if (!(*cursor & PHASE_STORE)) {
        uint64_t passed_over = atomic_load(&hot->passed_over);
        hot_scan(hot, cursor, limit, scan_hot, scan);
        if (atomic_load(&hot->passed_over) != passed_over)
            note_passed_over(scan);
        if (*cursor == 0)
            *cursor = PHASE_STORE;
        return ERR_OK;
    }
    struct store_reader *reader;
    err = seat_reader(scan->seat, &reader, error);
    if (err)
        return err;
    scan->shows_loaded = true;
    aggregator_mark(scan->seat->desk->options.aggregator, &scan->mark);
    uint64_t place = *cursor & ~PHASE_STORE;
    err = store_scan(reader, &place, limit, scan_stored, scan, error);
    if (!err)
        *cursor = place == 0 ? 0 : place | PHASE_STORE;
    return err;
}

enum err desk_scan(struct desk_seat *seat, struct slice pattern, uint64_t *cursor, uint32_t limit,
                   desk_entry_fn *visit, void *arg, struct age *age, struct error *error)
{
    assert(seat && cursor && limit > 0 && visit && age);

    struct scan scan = {.seat = seat, .pattern = pattern, .visit = visit, .arg = arg, .age = age};
    return scan_step(&scan, cursor, limit, error);
}

enum err desk_scan_for_audit(struct desk_seat *seat, struct slice pattern, uint64_t *cursor,
                             uint32_t limit, desk_entry_fn *visit, void *arg, struct error *error)
{
    assert(seat && cursor && limit > 0 && visit);

    struct age age = {0}; /* only ids are of interest */
    struct scan scan = {.seat = seat,
                        .pattern = pattern,
                        .visit = visit,
                        .arg = arg,
                        .age = &age,
                        .is_audit = true};
    return scan_step(&scan, cursor, limit, error);
}

/* --- a user's items --- */

#define ITEMS_MAX 1000u /* asked for at once */

struct items {
    struct buffer names;
    size_t sizes[ITEMS_MAX];
    size_t count;
};

static void keep_item(void *arg, struct slice item, struct slice kind)
{
    struct items *items = arg;
    (void)kind; /* as the store had it; what is held now is asked for */
    if (items->count < ITEMS_MAX && !buffer_append_slice(&items->names, item))
        items->sizes[items->count++] = item.size;
}

static enum err show_items(struct desk_seat *seat, struct slice user, const struct items *items,
                           desk_item_fn *visit, void *arg, struct age *age, struct error *error)
{
    struct op *ops = memory_take_zeroed((items->count + 1) * sizeof(*ops));
    const char *at = items->names.data;
    for (size_t i = 0; i < items->count; i++) {
        ops[i] = (struct op){.kind = OP_REACTION, .id = {at, items->sizes[i]}, .user = user};
        at += items->sizes[i];
    }
    enum err err = seat_run(seat, ops, items->count, error);
    for (size_t i = 0; !err && i < items->count; i++) {
        struct age one = age_of(&ops[i]);
        age_add(age, &one);
        if (ops[i].code && ops[i].code != ERR_NOT_FOUND)
            err = error_set(error, ops[i].code, "%s", err_meaning(ops[i].code));
        else if (!ops[i].code && ops[i].held != KIND_NONE)
            visit(arg, ops[i].id, kinds_name(seat->desk->kinds, ops[i].held));
    }
    free(ops);
    return err;
}

enum err desk_items_of(struct desk_seat *seat, struct slice user, uint64_t *cursor, uint32_t limit,
                       desk_item_fn *visit, void *arg, struct age *age, struct error *error)
{
    assert(seat && cursor && limit > 0 && visit && age);

    struct store_reader *reader;
    enum err err = check_user(user, error);
    if (!err)
        err = seat_reader(seat, &reader, error);
    if (!err && *cursor == 0)
        err = seat_catch_up(seat, error); /* from here on the store knows all of them */
    if (err)
        return err;
    struct items *items = memory_take_zeroed(sizeof(*items));
    buffer_init(&items->names, (size_t)ITEMS_MAX * LIMIT_ID_BYTES);
    err = store_items_of(reader, user, cursor, limit < ITEMS_MAX ? limit : ITEMS_MAX, keep_item,
                         items, error);
    if (!err)
        err = show_items(seat, user, items, visit, arg, age, error);
    buffer_done(&items->names);
    free(items);
    return err;
}
