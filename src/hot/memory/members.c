#include "hot/memory/members.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/bucket.h"
#include "core/kinds.h"
#include "hot/memory/own.h"

/* --- block --- */

static uint8_t tag_of(uint8_t kind, uint8_t class)
{
    return (uint8_t)(kind << 1 | class);
}

static uint8_t kind_of(uint8_t tag)
{
    return tag >> 1;
}

static uint8_t *block_tags(const struct entry *item)
{
    assert(item->block_head.mixed);
    return (uint8_t *)(item->block + item->block_head.capacity);
}

static uint8_t tag_at(const struct entry *item, unsigned index)
{
    return item->block_head.mixed ? block_tags(item)[index] : item->block_head.tag;
}

static int block_find(const struct entry *item, struct user user)
{
    if (!item->block_head.mixed && (item->block_head.tag & 1) != user.class)
        return -1;
    for (unsigned i = 0; i < item->block_head.count; i++)
        if (item->block[i] == user.number && (tag_at(item, i) & 1) == user.class)
            return (int)i;
    return -1;
}

uint8_t block_held(const struct entry *item, struct user user)
{
    int index = block_find(item, user);
    return index < 0 ? KIND_NONE : kind_of(tag_at(item, (unsigned)index));
}

/* What malloc gives out comes in steps of 16 bytes less 8, so room for
 * 6, 10, 14 ... numbers wastes nothing. */
static unsigned block_capacity(unsigned count)
{
    unsigned capacity = (count + 5) / 4 * 4 - 2;
    return capacity < count ? capacity + 4 : capacity;
}

static void block_resize(struct entry *item, unsigned capacity, bool mixed)
{
    assert(capacity >= item->block_head.count && capacity < 256);

    uint32_t *block = own_take(capacity * (sizeof(uint32_t) + (mixed ? 1 : 0)));
    if (item->block_head.count > 0)
        memcpy(block, item->block, item->block_head.count * sizeof(uint32_t));
    if (mixed)
        for (unsigned i = 0; i < item->block_head.count; i++)
            ((uint8_t *)(block + capacity))[i] = tag_at(item, i);
    own_free(item->block);
    item->block = block;
    item->block_head.capacity = (uint8_t)capacity;
    item->block_head.mixed = mixed;
}

static void block_set_tag(struct entry *item, unsigned index, uint8_t tag)
{
    if (!item->block_head.mixed) {
        if (item->block_head.count == 1)
            item->block_head.tag = tag;
        if (item->block_head.tag == tag)
            return;
        block_resize(item, item->block_head.capacity, true);
    }
    block_tags(item)[index] = tag;
}

static void block_add(struct entry *item, struct user user, uint8_t kind)
{
    assert(!block_full(item));

    unsigned index = item->block_head.count;
    uint8_t tag = tag_of(kind, user.class);
    if (index == 0 && !item->block_head.mixed)
        item->block_head.tag = tag;
    bool mixed = item->block_head.mixed || item->block_head.tag != tag;
    bool full = index == item->block_head.capacity;
    if (full || mixed != item->block_head.mixed)
        block_resize(item, full ? block_capacity(index + 1) : item->block_head.capacity, mixed);

    /* Only now: resizing copies what is counted. */
    item->block[index] = user.number;
    if (mixed)
        block_tags(item)[index] = tag;
    item->block_head.count++;
}

static void block_drop(struct entry *item, unsigned index)
{
    unsigned last = --item->block_head.count;
    item->block[index] = item->block[last];
    if (item->block_head.mixed)
        block_tags(item)[index] = block_tags(item)[last];
}

void block_change(struct entry *item, struct user user, uint8_t before, uint8_t after)
{
    if (before == KIND_NONE) {
        block_add(item, user, after);
        return;
    }
    int index = block_find(item, user);
    assert(index >= 0);
    if (after == KIND_NONE)
        block_drop(item, (unsigned)index);
    else
        block_set_tag(item, (unsigned)index, tag_of(after, user.class));
}

void block_counts(const struct entry *item, unsigned kinds, int64_t *ret_counts)
{
    memset(ret_counts, 0, kinds * sizeof(*ret_counts));
    for (unsigned i = 0; i < item->block_head.count; i++)
        ret_counts[kind_of(tag_at(item, i)) - 1]++;
}

/* --- crowd --- */

static struct set *set_of(struct set *sets, uint8_t kind, uint8_t class)
{
    return &sets[(kind - 1) * 2 + class];
}

struct crowd *crowd_new(struct slice id, uint64_t hash, uint8_t home, unsigned kinds)
{
    struct crowd *crowd = own_take(sizeof(*crowd));
    memset(crowd, 0, sizeof(*crowd));
    spread_init(&crowd->spread, id, hash, home);
    crowd->spread.is_item = true;
    crowd->kinds = kinds;
    crowd->slice_count = 1;
    return crowd;
}

struct set *sets_new(unsigned kinds)
{
    return own_take_zeroed(kinds * 2 * sizeof(struct set));
}

void sets_add(struct set *sets, uint8_t kind, uint8_t class, uint32_t number)
{
    set_add(set_of(sets, kind, class), number);
}

void sets_remove(struct set *sets, uint8_t kind, uint8_t class, uint32_t number)
{
    set_remove(set_of(sets, kind, class), number);
}

void sets_free(struct set *sets, unsigned kinds)
{
    if (!sets)
        return;
    for (unsigned i = 0; i < kinds * 2; i++)
        set_done(&sets[i]);
    own_free(sets);
}

void crowd_free(struct crowd *crowd)
{
    if (!crowd)
        return;
    for (unsigned slice = 0; slice < CROWD_SLICES; slice++)
        sets_free(crowd->slices[slice], crowd->kinds);
    spread_done(&crowd->spread);
    own_free(crowd);
}

static struct set *sets_for(struct crowd *crowd, uint32_t slice)
{
    if (!crowd->slices[slice])
        crowd->slices[slice] = sets_new(crowd->kinds);
    return crowd->slices[slice];
}

void crowd_from_block(struct entry *item, uint64_t hash, uint8_t home, unsigned kinds)
{
    assert(!(item->flags & ENTRY_CROWD));

    struct crowd *crowd = crowd_new(entry_id(item), hash, home, kinds);
    crowd->spread.incarnation = item->incarnation;
    atomic_store_explicit(&crowd->spread.written_s, item->written_s, memory_order_relaxed);
    for (unsigned i = 0; i < item->block_head.count; i++) {
        uint8_t tag = tag_at(item, i);
        struct user user = {.class = tag & 1, .number = item->block[i]};
        crowd_change(crowd, 0, user, KIND_NONE, kind_of(tag));
    }
    own_free(item->block);
    memset(&item->block_head, 0, sizeof(item->block_head));
    item->flags |= ENTRY_CROWD;
    item->crowd = crowd;
}

static void split_set(struct crowd *crowd, struct users *users, const struct set *from,
                      uint8_t kind, uint8_t class)
{
    uint32_t numbers[256];
    uint32_t next = 0;
    for (;;) {
        uint32_t count = set_page(from, next, numbers, 256);
        for (uint32_t i = 0; i < count; i++) {
            char name[LIMIT_USER_BYTES];
            struct user user = {.class = class, .number = numbers[i]};
            struct slice text = {name, users_name(users, user, name)};
            uint16_t bucket = bucket_of(spread_id(&crowd->spread), text);
            set_add(set_of(sets_for(crowd, bucket / CROWD_BUCKETS_A_SLICE), kind, class),
                    numbers[i]);
        }
        if (count < 256 || numbers[count - 1] == UINT32_MAX)
            return;
        next = numbers[count - 1] + 1;
    }
}

void crowd_split(struct crowd *crowd, struct users *users)
{
    assert(crowd->slice_count == 1);

    struct set *whole = crowd->slices[0];
    crowd->slices[0] = NULL;
    crowd->slice_count = CROWD_SLICES;
    if (!whole)
        return;
    for (uint8_t kind = 1; kind <= crowd->kinds; kind++)
        for (uint8_t class = 0; class < 2; class ++)
            split_set(crowd, users, set_of(whole, kind, class), kind, class);
    sets_free(whole, crowd->kinds);
}

int64_t crowd_size(const struct crowd *crowd)
{
    int64_t size = 0;
    for (unsigned i = 0; i < crowd->kinds; i++)
        size += atomic_load_explicit(&crowd->counts[i], memory_order_relaxed);
    return size;
}

uint8_t crowd_held(const struct crowd *crowd, uint32_t slice, struct user user)
{
    struct set *sets = crowd->slices[slice];
    if (!sets)
        return KIND_NONE;
    for (uint8_t kind = 1; kind <= crowd->kinds; kind++)
        if (set_has(set_of(sets, kind, user.class), user.number))
            return kind;
    return KIND_NONE;
}

static void count(struct crowd *crowd, uint8_t kind, int64_t by)
{
    spread_count(&crowd->spread, &crowd->counts[kind - 1], by);
}

void crowd_change(struct crowd *crowd, uint32_t slice, struct user user, uint8_t before,
                  uint8_t after)
{
    assert(before != after);

    struct set *sets = sets_for(crowd, slice);
    if (before != KIND_NONE) {
        bool was = set_remove(set_of(sets, before, user.class), user.number);
        assert(was);
        (void)was;
        count(crowd, before, -1);
    }
    if (after != KIND_NONE) {
        bool is_new = set_add(set_of(sets, after, user.class), user.number);
        assert(is_new);
        (void)is_new;
        count(crowd, after, 1);
    }
}

uint8_t crowd_hold(struct crowd *crowd, uint32_t slice, struct user user, uint8_t kind)
{
    struct set *sets = sets_for(crowd, slice);
    if (!set_add(set_of(sets, kind, user.class), user.number))
        return kind;
    count(crowd, kind, 1);
    for (uint8_t other = 1; other <= crowd->kinds; other++) {
        struct set *set = set_of(sets, other, user.class);
        if (other == kind || set->count == 0 || !set_remove(set, user.number))
            continue;
        count(crowd, other, -1);
        return other;
    }
    return KIND_NONE;
}

void crowd_put_slice(struct crowd *crowd, uint32_t slice, struct set *sets)
{
    assert(crowd->slice_count == CROWD_SLICES);

    if (!crowd_misses(crowd, slice)) {
        sets_free(sets, crowd->kinds);
        return;
    }
    crowd->slices[slice] = sets;
    atomic_fetch_and(&crowd->missing, ~(UINT64_C(1) << slice));
}

void crowd_count(struct crowd *crowd, uint8_t before, uint8_t after)
{
    if (before != KIND_NONE)
        count(crowd, before, -1);
    if (after != KIND_NONE)
        count(crowd, after, 1);
}

void crowd_counts(const struct crowd *crowd, int64_t *ret_counts)
{
    for (unsigned i = 0; i < crowd->kinds; i++)
        ret_counts[i] = atomic_load_explicit(&crowd->counts[i], memory_order_relaxed);
}

int64_t crowd_count_sets(const struct crowd *crowd, uint8_t kind, uint32_t recounted)
{
    int64_t sum = 0;
    for (uint32_t slice = 0; slice < crowd->slice_count; slice++) {
        struct set *sets = crowd->slices[slice];
        for (uint8_t class = 0; sets && class < 2; class ++) {
            const struct set *set = set_of(sets, kind, class);
            sum += slice == recounted ? (int64_t)set_recount(set) : set->count;
        }
    }
    return sum;
}

static int64_t count_slice(struct set *sets, uint8_t kind)
{
    return set_of(sets, kind, 0)->count + set_of(sets, kind, 1)->count;
}

void crowd_totals(const struct crowd *crowd, uint8_t kind, int64_t totals[LIMIT_CELLS])
{
    uint32_t shards = crowd->spread.shards;
    memset(totals, 0, shards * sizeof(*totals));
    for (uint32_t slice = 0; slice < crowd->slice_count; slice++) {
        int64_t *total = &totals[slice * shards / CROWD_SLICES];
        for (uint8_t of = 1; crowd->slices[slice] && of <= crowd->kinds; of++)
            if (kind == KIND_NONE || kind == of)
                *total += count_slice(crowd->slices[slice], of);
    }
}

int64_t crowd_recount(const struct crowd *crowd, uint8_t kind)
{
    int64_t count = 0;
    for (unsigned slice = 0; slice < crowd->slice_count; slice++) {
        struct set *sets = crowd->slices[slice];
        if (sets)
            count +=
                (int64_t)(set_recount(set_of(sets, kind, 0)) + set_recount(set_of(sets, kind, 1)));
    }
    return count;
}

/* --- both --- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* As set_page() does, for the block's members of one kind and class. */
static uint32_t block_page(const struct entry *item, uint8_t tag, uint32_t from, uint32_t *to,
                           uint32_t limit)
{
    uint32_t found[BLOCK_MAX];
    uint32_t count = 0;
    for (unsigned i = 0; i < item->block_head.count; i++)
        if (tag_at(item, i) == tag && item->block[i] >= from)
            found[count++] = item->block[i];
    qsort(found, count, sizeof(*found), by_number);
    count = count < limit ? count : limit;
    memcpy(to, found, count * sizeof(*to));
    return count;
}

static uint32_t any_page(const struct entry *item, uint32_t slice, uint8_t kind, uint8_t class,
                         uint32_t from, uint32_t *to, uint32_t limit)
{
    if (!(item->flags & ENTRY_CROWD))
        return block_page(item, tag_of(kind, class), from, to, limit);
    struct set *sets = item->crowd->slices[slice];
    return sets ? set_page(set_of(sets, kind, class), from, to, limit) : 0;
}

/* Somebody who is shown the members of a page. */
typedef void member_fn(void *arg, struct user user);

/* Walks a page and moves the cursor, which is slice, class and the number to go on with:
 * (slice << 1 | class) << 32 | number, plus one, so that 0 is the beginning and the
 * end. Returns the slice that is missing on the way, and stops there. */
static uint32_t walk_page(const struct entry *item, uint8_t kind, uint64_t *cursor, uint32_t limit,
                          member_fn *see, void *arg)
{
    uint64_t at = *cursor == 0 ? 0 : *cursor - 1;
    uint32_t slices = item->flags & ENTRY_CROWD ? item->crowd->slice_count : 1;
    uint32_t left = limit;

    for (uint64_t place = at >> 32; place < (uint64_t)slices * 2; place++) {
        uint8_t class = place & 1;
        uint32_t slice = (uint32_t)(place >> 1);
        uint32_t from = place == at >> 32 ? (uint32_t)at : 0;
        if (item->flags & ENTRY_CROWD && crowd_misses(item->crowd, slice))
            return slice;
        for (;;) {
            if (left == 0) {
                *cursor = (place << 32 | from) + 1;
                return MEMBERS_NO_SLICE;
            }
            uint32_t numbers[128];
            uint32_t wanted = left < 128 ? left : 128;
            uint32_t count = any_page(item, slice, kind, class, from, numbers, wanted);
            for (uint32_t i = 0; i < count; i++)
                see(arg, (struct user){.class = class, .number = numbers[i]});
            left -= count;
            if (count < wanted || numbers[count - 1] == UINT32_MAX)
                break;
            from = numbers[count - 1] + 1;
        }
    }
    *cursor = 0;
    return MEMBERS_NO_SLICE;
}

struct shown {
    struct op_page *page;
    struct users *users;
};

static void show_member(void *arg, struct user user)
{
    const struct shown *shown = arg;
    char name[LIMIT_USER_BYTES];
    size_t size = users_name(shown->users, user, name);
    shown->page->visit(shown->page->arg, (struct slice){name, size});
}

void members_page(const struct entry *item, uint8_t kind, struct users *users, struct op_page *page)
{
    struct shown shown = {page, users};
    uint32_t missing = walk_page(item, kind, &page->cursor, page->limit, show_member, &shown);
    assert(missing == MEMBERS_NO_SLICE);
    (void)missing;
}

/* ---- what is not in memory ---- */

struct seeker {
    const struct users *users;
    struct members_lack *lack;
};

static void note_nameless(void *arg, struct user user)
{
    const struct seeker *seeker = arg;
    struct members_lack *lack = seeker->lack;
    if (user.class == USER_NAMED && lack->count < HOT_NAMES_MAX &&
        !users_know(seeker->users, user.number))
        lack->numbers[lack->count++] = user.number;
}

static bool lacks_something(struct members_lack *lack)
{
    if (lack->count > 1)
        qsort(lack->numbers, lack->count, sizeof(*lack->numbers), by_number);
    return lack->slice != MEMBERS_NO_SLICE || lack->count > 0;
}

bool members_page_lacks(const struct entry *item, uint8_t kind, const struct users *users,
                        const struct op_page *page, struct members_lack *ret_lack)
{
    struct seeker seeker = {users, ret_lack};
    uint64_t cursor = page->cursor;
    ret_lack->count = 0;
    ret_lack->slice = walk_page(item, kind, &cursor, page->limit, note_nameless, &seeker);
    return lacks_something(ret_lack);
}

bool crowd_split_lacks(const struct crowd *crowd, const struct users *users,
                       struct members_lack *ret_lack)
{
    assert(crowd->slice_count == 1);

    struct seeker seeker = {users, ret_lack};
    ret_lack->count = 0;
    ret_lack->slice = MEMBERS_NO_SLICE;
    struct set *sets = crowd->slices[0];
    for (uint8_t kind = 1; sets && kind <= crowd->kinds; kind++) {
        uint32_t numbers[256];
        uint64_t from = 0;
        for (uint32_t count = 256; count == 256 && from <= UINT32_MAX;) {
            count = set_page(set_of(sets, kind, USER_NAMED), (uint32_t)from, numbers, 256);
            for (uint32_t i = 0; i < count; i++)
                note_nameless(&seeker, (struct user){.class = USER_NAMED, .number = numbers[i]});
            from = count > 0 ? (uint64_t)numbers[count - 1] + 1 : 0;
        }
    }
    return lacks_something(ret_lack);
}
