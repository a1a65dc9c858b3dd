/* members.h - who holds which reaction on an item.
 *
 * Three forms, by size. None of them loses exactness:
 *
 *   block   up to 100 members: their numbers in one array that the item's record
 *           points to. Kind and class of a member are its tag; one tag for all
 *           while they agree, else one byte for each behind the numbers.
 *   crowd   more: for each kind and class a set (set.h);
 *           in one slice up to 4,096 members, then
 *           in 64 slices, one for each 64 buckets. A slice is what a cell owns
 *           when the item is spread (spread.h). Where there is a store, a crowd may
 *           be there without some of its slices: its counts are right, and who
 *           needs such a slice waits until it is loaded.
 *
 * An item grows through these forms and never goes back, except by deletion, or by
 * leaving memory. */
#ifndef HOT_MEMORY_MEMBERS_H
#define HOT_MEMORY_MEMBERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/hot.h"
#include "core/limits.h"
#include "hot/memory/entry.h"
#include "hot/memory/set.h"
#include "hot/memory/spread.h"
#include "hot/memory/users.h"

/* The class of a user whom nobody has heard of: holds nothing anywhere. */
#define USER_UNKNOWN 2u

#define BLOCK_MAX             100u
#define CROWD_SLICES          64u
#define CROWD_WHOLE_MAX       4096 /* members of a crowd in one slice */
#define CROWD_BUCKETS_A_SLICE (LIMIT_BUCKETS / CROWD_SLICES)

struct crowd {
    struct spread spread;
    unsigned kinds;
    uint32_t slice_count;                /* 1 or CROWD_SLICES */
    _Atomic uint64_t missing;            /* bit s: slice s is in the store only */
    _Atomic int64_t counts[LIMIT_KINDS]; /* [0] is kind 1; the sum over the slices */
    struct set *slices[CROWD_SLICES];    /* owned; kinds * 2 sets each; NULL = nobody yet */
};

/* --- block --- */

uint8_t block_held(const struct entry *item, struct user user);

/* Is there no room for one more member? */
static inline bool block_full(const struct entry *item)
{
    return item->block_head.count == BLOCK_MAX;
}

/* `before` is what block_held() says; the block must have room if it is KIND_NONE. */
void block_change(struct entry *item, struct user user, uint8_t before, uint8_t after);
void block_counts(const struct entry *item, unsigned kinds, int64_t *ret_counts);

/* --- crowd --- */

struct crowd *crowd_new(struct slice id, uint64_t hash, uint8_t home, unsigned kinds);
void crowd_free(struct crowd *crowd);

/* Turns the item's block into a crowd, in one slice. */
void crowd_from_block(struct entry *item, uint64_t hash, uint8_t home, unsigned kinds);

/* From one slice to 64, which needs the names: the bucket follows from the name. */
void crowd_split(struct crowd *crowd, struct users *users);

/* Is the slice in the store only? */
static inline bool crowd_misses(const struct crowd *crowd, uint32_t slice)
{
    uint64_t missing = atomic_load_explicit(&crowd->missing, memory_order_relaxed);
    return __builtin_expect(missing != 0, 0) && missing >> slice & 1;
}

/* The sets of a slice, made by themselves from what the store has, and put in their
 * place when it is still missing; the counts stay. Else freed. */
struct set *sets_new(unsigned kinds);
void sets_add(struct set *sets, uint8_t kind, uint8_t class, uint32_t number);
void sets_remove(struct set *sets, uint8_t kind, uint8_t class, uint32_t number);
void sets_free(struct set *sets, unsigned kinds);
void crowd_put_slice(struct crowd *crowd, uint32_t slice, struct set *sets);

/* Changes the counts by what a user of a missing slice has done. */
void crowd_count(struct crowd *crowd, uint8_t before, uint8_t after);

int64_t crowd_size(const struct crowd *crowd);

static inline uint32_t crowd_slice_of(const struct crowd *crowd, uint16_t bucket)
{
    return crowd->slice_count == 1 ? 0 : bucket / CROWD_BUCKETS_A_SLICE;
}

/* The cell that owns a slice; the home cell while there is one slice only. */
static inline uint8_t crowd_cell_of(const struct crowd *crowd, uint32_t slice)
{
    return spread_cell(crowd->spread.home, crowd->spread.shards,
                       slice * crowd->spread.shards / CROWD_SLICES);
}

uint8_t crowd_held(const struct crowd *crowd, uint32_t slice, struct user user);
void crowd_change(struct crowd *crowd, uint32_t slice, struct user user, uint8_t before,
                  uint8_t after);

/* Has the user hold `kind` and returns what was held before: one look-up less
 * than crowd_held() and crowd_change() in the most frequent case. */
uint8_t crowd_hold(struct crowd *crowd, uint32_t slice, struct user user, uint8_t kind);

void crowd_counts(const struct crowd *crowd, int64_t *ret_counts);

/* The members of a kind, counted one by one; no slice is missing. */
int64_t crowd_recount(const struct crowd *crowd, uint8_t kind);

/* The same from the sets' own counts, but for one slice. */
int64_t crowd_count_sets(const struct crowd *crowd, uint8_t kind, uint32_t recounted);

/* What each shard of it has of a kind, KIND_NONE: of all. The caller owns all slices. */
void crowd_totals(const struct crowd *crowd, uint8_t kind, int64_t totals[LIMIT_CELLS]);

/* --- both --- */

/* Visits about page->limit members that hold `kind`, from page->cursor on, in
 * the order of slice, class and number; moves the cursor. The caller owns all
 * slices. */
void members_page(const struct entry *item, uint8_t kind, struct users *users,
                  struct op_page *page);

/* What somebody needs and is not in memory: a slice, or names. */
struct members_lack {
    uint32_t slice; /* MEMBERS_NO_SLICE: none */
    uint32_t count;
    uint32_t numbers[HOT_NAMES_MAX]; /* of named users, ascending */
};
#define MEMBERS_NO_SLICE UINT32_MAX

/* Does members_page(), or crowd_split(), need something that is not here? */
bool members_page_lacks(const struct entry *item, uint8_t kind, const struct users *users,
                        const struct op_page *page, struct members_lack *ret_lack);
bool crowd_split_lacks(const struct crowd *crowd, const struct users *users,
                       struct members_lack *ret_lack);

#endif
