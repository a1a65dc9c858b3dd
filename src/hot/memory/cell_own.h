/* cell_own.h - what the files of a cell share among themselves.
 *
 *   cell.c         records, their birth and death; which file decides an op
 *   counter.c      counters
 *   item.c         items and reactions
 *   cell_replay.c  events from the log
 *   cell_cold.c    what is not in memory, and what may leave it */
#ifndef HOT_MEMORY_CELL_OWN_H
#define HOT_MEMORY_CELL_OWN_H

#include "hot/memory/cell.h"

/* --- records --- */

/* A record of the incarnation of now; there is none of this id yet. */
struct entry *cell_create(struct cell *cell, uint64_t hash, struct slice id, uint8_t kind);

/* What creation asks for, in a new record; live and in replay. */
void cell_create_as_asked(struct cell *cell, uint64_t hash, struct entry *entry,
                          const struct op_create *asked, int64_t now_ms);

/* Takes a record out for good and frees what it has. Its pieces in other cells go
 * with it: all cells are locked, or there are none. */
void cell_drop(struct cell *cell, uint64_t hash, struct entry *entry);

/* The same for one that the store keeps: the totals stay. */
void cell_take_out(struct cell *cell, uint64_t hash, struct entry *entry);

/* The record of an op's target, or NULL; it counts as used. */
static inline struct entry *cell_use(struct cell *cell, const struct op *op)
{
    struct entry *entry = cell_find(cell, op->hash, op->target);
    if (entry)
        entry->used = cell->clock;
    return entry;
}

/* At the limit of memory what is there may still be loaded for any op: only what is new
 * is refused. But what is written to stays until it is saved, so there is an end to that. */
static inline bool cell_is_too_full(const struct cell_turn *turn, const struct op *op)
{
    return turn->full && (op->kind == OP_ADD || op->kind == OP_SET || op->kind == OP_CREATE ||
                          op->kind == OP_REACT || op->kind == OP_TOGGLE);
}

/* There is no record of the target. True: the store may have it, and the op has to wait
 * or is refused: op->code. */
bool cell_ask(struct cell *cell, const struct cell_turn *turn, struct op *op);
static inline bool cell_is_cold(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    return cell->cold && cell_ask(cell, turn, op);
}

/* The same while replaying: ERR_OK, and there is none, or ERR_COLD. */
enum err cell_ask_to_replay(struct cell *cell, uint64_t hash, struct slice id, struct error *error);

/* Wants what is lacking. */
enum err cell_ask_members(struct cell *cell, uint64_t hash, struct slice item,
                          const struct members_lack *lack);

/* The record was written to: notes when, and that it is not saved. */
static inline void cell_touch(const struct cell *cell, struct entry *entry, int64_t now_ms)
{
    entry->written_s = (uint32_t)(now_ms / 1000);
    entry->used = cell->clock;
    entry_set_generation(entry, cell->generation);
}

static inline void cell_touch_spread(const struct cell *cell, struct spread *spread, int64_t now_ms)
{
    atomic_store_explicit(&spread->written_s, (uint32_t)(now_ms / 1000), memory_order_relaxed);
    uint16_t stamp = (uint16_t)(cell->clock << 8 | cell->generation);
    atomic_store_explicit(&spread->stamp, stamp, memory_order_relaxed);
}

/* Another worker may be on its way to a piece of it: whoever holds the locks
 * takes the list and frees it when that cannot be any more. */
void cell_retire(struct cell *cell, struct spread *spread);

struct rare *cell_make_rare(struct cell *cell, struct entry *counter);
bool cell_is_mortal(const struct rare *rare);
bool cell_is_expired(const struct cell *cell, const struct entry *counter, int64_t now_ms);
uint32_t cell_idle_s(const struct cell *cell, const struct rare *rare);
uint32_t cell_written_s(const struct rare *rare, const struct entry *counter);

/* A record that is there and of the kind that is asked for; NULL: op->code. */
struct entry *cell_entry_for_read(struct cell *cell, const struct cell_turn *turn, struct op *op);

/* --- answers and events --- */

enum cell_result cell_fail(struct op *op, enum err code);

/* Writes an event down with what every event of an op has. The op's answer is
 * complete by now: an idempotency key takes it along. */
void cell_emit(struct cell *cell, const struct cell_turn *turn, const struct op *op,
               struct event event);

/* Counts a write, and now and then notes its id for the search for hot ones. */
void cell_note_write(struct cell *cell, const struct op *op);

/* Deletes the record because its time is over. */
void cell_expire(struct cell *cell, const struct cell_turn *turn, uint64_t hash,
                 struct entry *entry);
enum cell_result cell_run_delete(struct cell *cell, const struct cell_turn *turn, struct op *op);

/* --- counters --- */

enum cell_result counter_run_add(struct cell *cell, const struct cell_turn *turn, struct op *op);
enum cell_result counter_run_set(struct cell *cell, const struct cell_turn *turn, struct op *op);
enum cell_result counter_run_expire(struct cell *cell, const struct cell_turn *turn, struct op *op);
enum cell_result counter_run_deadline(struct cell *cell, const struct cell_turn *turn,
                                      struct op *op);

/* GET or ADD of a spread counter, in the part that this cell owns, if it does. */
enum cell_result counter_run_in_part(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                     struct parts *parts);

/* Adds to the value of a counter that is in this cell only. */
void counter_add_value(struct cell *cell, struct entry *counter, const struct number *amount);
void counter_set_deadline(struct cell *cell, struct entry *counter, int64_t deadline_ms);
void counter_answer(struct op *op, const struct entry *counter);

/* Is it a counter that has pieces in other cells? NULL and items are not. */
bool counter_is_spread(const struct cell *cell, const struct entry *entry);

/* --- items --- */

enum cell_result item_run(struct cell *cell, const struct cell_turn *turn, struct op *op);
enum cell_result item_run_counts(struct cell *cell, const struct cell_turn *turn, struct op *op);
enum cell_result item_run_members(struct cell *cell, const struct cell_turn *turn, struct op *op);

/* The same for an item that is known to be a crowd, in the slice of the user. */
enum cell_result item_run_in_slice(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                   struct crowd *crowd);

void item_counts(const struct cell *cell, const struct entry *item, int64_t *ret_counts);

/* A crowd that has outgrown one slice is cut into 64 before the next change. ERR_COLD:
 * names have to be loaded for that. */
enum err item_split_if_large(struct cell *cell, struct entry *item, uint64_t hash);

/* Puts a change into the item's members, which grow into another form when they
 * must. The caller owns the slice. */
void item_change(struct cell *cell, struct entry *item, uint64_t hash, struct user user,
                 uint16_t bucket, uint8_t before, uint8_t after);

#endif
