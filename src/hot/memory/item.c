/* item.c - what a cell does with items and their reactions. */
#include "hot/memory/cell_own.h"

#include <assert.h>
#include <string.h>

#include "core/reaction.h"

static void emit_reaction(struct cell *cell, const struct cell_turn *turn, const struct op *op,
                          uint32_t incarnation, uint8_t before, uint8_t after)
{
    struct slice name_before = kinds_name(cell->kinds, before);
    struct slice name_after = kinds_name(cell->kinds, after);
    uint32_t number = op->user_class == USER_NAMED ? op->user_number : EVENT_NO_NUMBER;
    if (cell->cold && op->user_class == USER_NAMED)
        users_note(cell->users, number, cell->generation);
    if (op->key.size == 0) {
        section_react(turn->section, incarnation, op->id, op->user, number, name_before, name_after,
                      op->region);
        return;
    }
    cell_emit(cell, turn, op,
              (struct event){.type = EVENT_REACT,
                             .incarnation = incarnation,
                             .id = op->id,
                             .user = op->user,
                             .user_number = number,
                             .before = name_before,
                             .after = name_after});
}

void item_counts(const struct cell *cell, const struct entry *item, int64_t *ret_counts)
{
    if (item->flags & ENTRY_CROWD)
        crowd_counts(item->crowd, ret_counts);
    else
        block_counts(item, cell->kinds->count, ret_counts);
}

/* The op's item; NULL when there is none, or a counter whose time is over. Any
 * other counter is refused, and what is in the store only is waited for: op->code. */
static struct entry *find_item(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_use(cell, op);
    if (entry && entry->kind == ENTRY_ITEM)
        return entry;
    if (!entry)
        cell_is_cold(cell, turn, op);
    else if (!cell_is_expired(cell, entry, turn->now_ms))
        op->code = ERR_WRONG_TYPE;
    return NULL;
}

enum cell_result item_run_counts(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    assert(op->counts);

    const struct entry *item = find_item(cell, turn, op);
    if (!item) {
        memset(op->counts, 0, cell->kinds->count * sizeof(*op->counts));
        return CELL_DONE;
    }
    item_counts(cell, item, op->counts);
    op->changed = true; /* it is there */
    return CELL_DONE;
}

enum cell_result item_run_members(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    const struct entry *item = find_item(cell, turn, op);
    if (op->code == ERR_COLD)
        return CELL_DONE;
    if (!item) {
        op->page->cursor = 0;
        return CELL_DONE;
    }
    if (item->flags & ENTRY_CROWD && item->crowd->spread.shards > 1 && !turn->alone)
        return CELL_ALONE;
    struct members_lack lack;
    if (cell->cold && members_page_lacks(item, op->reaction, cell->users, op->page, &lack))
        return cell_fail(op, cell_ask_members(cell, op->hash, op->target, &lack));
    members_page(item, op->reaction, cell->users, op->page);
    return CELL_DONE;
}

static struct user op_user(const struct op *op)
{
    return (struct user){.class = op->user_class, .number = op->user_number};
}

/* The answer to a reaction that is decided: held, changed and counts. */
static void answer_reaction(struct op *op, uint8_t before, uint8_t after)
{
    op->held = after;
    op->changed = before != after;
}

static void touch_crowd(struct cell *cell, struct crowd *crowd, uint8_t before, uint8_t after,
                        int64_t now_ms)
{
    cell->members += (uint64_t)((after != KIND_NONE) - (before != KIND_NONE));
    spread_count(&crowd->spread, &crowd->spread.writes, 1);
    cell_touch_spread(cell, &crowd->spread, now_ms);
}

/* A member more is memory more. */
static bool is_refused(const struct cell_turn *turn, struct op *op, uint8_t before, uint8_t after)
{
    if (before == after)
        return false;
    op->code = turn->room;
    if (!op->code && turn->tight && before == KIND_NONE)
        op->code = ERR_NO_MEMORY;
    return op->code != ERR_OK;
}

enum cell_result item_run_in_slice(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                   struct crowd *crowd)
{
    uint32_t slice = crowd_slice_of(crowd, op->bucket);
    uint8_t owner = crowd_cell_of(crowd, slice);
    if (owner != cell->number) {
        op->cell = owner;
        op->route = crowd;
        return CELL_ELSEWHERE;
    }
    if (crowd_misses(crowd, slice))
        return cell_fail(op, cell_is_too_full(turn, op)
                                 ? ERR_NO_MEMORY
                                 : cold_ask_slice(cell->cold, op->hash, op->target, slice));
    uint8_t before;
    uint8_t after = op->reaction;
    if (op->kind == OP_REACT && turn->room == ERR_OK && !turn->tight) {
        before = crowd_hold(crowd, slice, op_user(op), op->reaction);
    } else {
        bool known = op->user_class != USER_UNKNOWN;
        before = known ? crowd_held(crowd, slice, op_user(op)) : KIND_NONE;
        if (op->kind == OP_REACTION) {
            op->held = before;
            return CELL_DONE;
        }
        after = reaction_after(op->kind, before, op->reaction);
        if (is_refused(turn, op, before, after))
            return CELL_DONE;
        if (before != after)
            crowd_change(crowd, slice, op_user(op), before, after);
    }
    if (before != after)
        touch_crowd(cell, crowd, before, after, turn->now_ms);
    answer_reaction(op, before, after);
    if (op->counts)
        crowd_counts(crowd, op->counts);
    cell_note_write(cell, op);
    if (before != after)
        emit_reaction(cell, turn, op, crowd->spread.incarnation, before, after);
    return CELL_DONE;
}

void item_change(struct cell *cell, struct entry *item, uint64_t hash, struct user user,
                 uint16_t bucket, uint8_t before, uint8_t after)
{
    cell->members += (uint64_t)((after != KIND_NONE) - (before != KIND_NONE));
    if (!(item->flags & ENTRY_CROWD)) {
        if (before != KIND_NONE || !block_full(item)) {
            block_change(item, user, before, after);
            return;
        }
        crowd_from_block(item, hash, cell->number, cell->kinds->count);
    }
    struct crowd *crowd = item->crowd;
    crowd_change(crowd, crowd_slice_of(crowd, bucket), user, before, after);
}

static enum err split(struct cell *cell, struct entry *item, uint64_t hash)
{
    struct members_lack lack;
    if (cell->cold && crowd_split_lacks(item->crowd, cell->users, &lack))
        return cell_ask_members(cell, hash, entry_id(item), &lack);
    crowd_split(item->crowd, cell->users);
    return ERR_OK;
}

enum err item_split_if_large(struct cell *cell, struct entry *item, uint64_t hash)
{
    if (item->flags & ENTRY_CROWD && item->crowd->slice_count == 1 &&
        crowd_size(item->crowd) >= CROWD_WHOLE_MAX)
        return split(cell, item, hash);
    return ERR_OK;
}

/* Makes the item. A counter of this id is past its time and goes; NULL if all
 * cells have to be locked for that. */
static struct entry *create_item(struct cell *cell, const struct cell_turn *turn,
                                 const struct op *op)
{
    struct entry *over = cell_find(cell, op->hash, op->target);
    if (counter_is_spread(cell, over) && !turn->alone)
        return NULL;
    if (over)
        cell_expire(cell, turn, op->hash, over);
    return cell_create(cell, op->hash, op->target, ENTRY_ITEM);
}

enum cell_result item_run(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *item = find_item(cell, turn, op);
    if (op->code)
        return CELL_DONE;
    if (item && item->flags & ENTRY_CROWD) {
        enum err err = item_split_if_large(cell, item, op->hash);
        if (err)
            return cell_fail(op, err);
        return item_run_in_slice(cell, turn, op, item->crowd);
    }

    bool known = op->user_class != USER_UNKNOWN;
    uint8_t before = item && known ? block_held(item, op_user(op)) : KIND_NONE;
    if (op->kind == OP_REACTION) {
        op->held = before;
        return CELL_DONE;
    }
    uint8_t after = reaction_after(op->kind, before, op->reaction);
    if (is_refused(turn, op, before, after))
        return CELL_DONE;
    if (before != after) {
        if (!item)
            item = create_item(cell, turn, op);
        if (!item)
            return CELL_ALONE;
        item_change(cell, item, op->hash, op_user(op), op->bucket, before, after);
        cell_touch(cell, item, turn->now_ms);
    }
    answer_reaction(op, before, after);
    if (op->counts) {
        if (item)
            item_counts(cell, item, op->counts);
        else
            memset(op->counts, 0, cell->kinds->count * sizeof(*op->counts));
    }
    cell_note_write(cell, op);
    if (before != after)
        emit_reaction(cell, turn, op, item->incarnation, before, after);
    return CELL_DONE;
}

void cell_reshard_item(struct cell *cell, struct entry *item, uint32_t shards)
{
    assert(item->flags & ENTRY_CROWD && item->crowd->slice_count == CROWD_SLICES);

    cell->spread -= item->crowd->spread.shards > 1;
    item->crowd->spread.shards = shards;
    cell->spread += shards > 1;
}

struct crowd *cell_crowd(struct cell *cell, struct entry *item, uint64_t hash)
{
    assert(item->kind == ENTRY_ITEM);

    if (!(item->flags & ENTRY_CROWD))
        crowd_from_block(item, hash, cell->number, cell->kinds->count);
    if (item->crowd->slice_count == 1 && split(cell, item, hash) != ERR_OK)
        return NULL;
    return item->crowd;
}
