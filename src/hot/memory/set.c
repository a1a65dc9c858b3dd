#include "hot/memory/set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <roaring/roaring.h>

#include "base/memory.h"

static bool is_roaring(const struct set *set)
{
    return set->capacity == SET_ROARING;
}

void set_done(struct set *set)
{
    assert(set);

    if (is_roaring(set))
        roaring_bitmap_free(set->body);
    else
        free(set->body);
    *set = (struct set){0};
}

/* ---- few: a sorted array ---- */

/* The block that malloc really gives for `count` members: it adds 8 bytes of its
 * own and rounds up to a multiple of 16, at least 32. */
static size_t array_block_bytes(uint32_t count)
{
    size_t block = (count * sizeof(uint32_t) + 8 + 15) / 16 * 16;
    return block < 32 ? 32 : block;
}

/* Room for `count` members and for as many more as its block has. */
static void array_resize(struct set *set, uint32_t count)
{
    size_t bytes = array_block_bytes(count) - 8;
    set->body = memory_resize(set->body, bytes);
    set->capacity = (uint32_t)(bytes / sizeof(uint32_t));
}

/* The place of the first member that is at least `number`. */
static uint32_t array_place(const struct set *set, uint32_t number)
{
    const uint32_t *members = set->body;
    const uint32_t *from = members;
    for (uint32_t left = set->count; left > 0;) {
        uint32_t half = (left + 1) / 2;
        from += from[half - 1] < number ? half : 0;
        left -= half;
    }
    return (uint32_t)(from - members);
}

static bool array_has_at(const struct set *set, uint32_t place, uint32_t number)
{
    return place < set->count && ((const uint32_t *)set->body)[place] == number;
}

static void array_insert(struct set *set, uint32_t place, uint32_t number)
{
    if (set->count == set->capacity)
        array_resize(set, set->count + set->count / 4 + 1);

    uint32_t *members = set->body;
    memmove(members + place + 1, members + place, (set->count - place) * sizeof(*members));
    members[place] = number;
    set->count++;
}

static void array_delete(struct set *set, uint32_t place)
{
    set->count--;
    if (set->count == 0) {
        set_done(set);
        return;
    }

    uint32_t *members = set->body;
    memmove(members + place, members + place + 1, (set->count - place) * sizeof(*members));
    if (set->count < set->capacity / 2)
        array_resize(set, set->count + set->count / 4);
}

/* ---- many: a Roaring bitmap ---- */

static void become_roaring(struct set *set)
{
    roaring_bitmap_t *bitmap = roaring_bitmap_of_ptr(set->count, set->body);
    assert(bitmap);
    roaring_bitmap_shrink_to_fit(bitmap);
    free(set->body);
    set->body = bitmap;
    set->capacity = SET_ROARING;
}

/* A Roaring array grows by half and keeps what it did not need: where numbers
 * come in ascending order, that is lost for good in every container left
 * behind. So the slack is given back eight times while a set doubles, which is
 * rare enough to cost nothing. */
static void trim_now_and_then(struct set *set)
{
    uint32_t highest = UINT32_C(1) << (31 - __builtin_clz(set->count));
    if ((set->count & (highest / 8 - 1)) == 0)
        roaring_bitmap_shrink_to_fit(set->body);
}

static bool roaring_add(struct set *set, uint32_t number)
{
    if (!roaring_bitmap_add_checked(set->body, number))
        return false;
    set->count++;
    trim_now_and_then(set);
    return true;
}

static bool roaring_remove(struct set *set, uint32_t number)
{
    if (!roaring_bitmap_remove_checked(set->body, number))
        return false;
    set->count--;
    if (set->count == 0)
        set_done(set);
    return true;
}

/* ---- either ---- */

bool set_add(struct set *set, uint32_t number)
{
    assert(set);

    if (is_roaring(set))
        return roaring_add(set, number);

    uint32_t place = set->count;
    if (place > 0 && ((const uint32_t *)set->body)[place - 1] >= number) {
        place = array_place(set, number);
        if (array_has_at(set, place, number))
            return false;
    }
    if (set->count == SET_ARRAY_MAX) {
        become_roaring(set);
        return roaring_add(set, number);
    }
    array_insert(set, place, number);
    return true;
}

bool set_remove(struct set *set, uint32_t number)
{
    assert(set);

    if (is_roaring(set))
        return roaring_remove(set, number);

    uint32_t place = array_place(set, number);
    if (!array_has_at(set, place, number))
        return false;
    array_delete(set, place);
    return true;
}

bool set_has(const struct set *set, uint32_t number)
{
    assert(set);

    if (is_roaring(set))
        return roaring_bitmap_contains(set->body, number);
    return array_has_at(set, array_place(set, number), number);
}

uint32_t set_page(const struct set *set, uint32_t from, uint32_t *to, uint32_t limit)
{
    assert(set && (to || limit == 0));

    if (is_roaring(set)) {
        roaring_uint32_iterator_t iterator;
        roaring_init_iterator(set->body, &iterator);
        if (limit == 0 || !roaring_move_uint32_iterator_equalorlarger(&iterator, from))
            return 0;
        return roaring_read_uint32_iterator(&iterator, to, limit);
    }

    uint32_t place = array_place(set, from);
    uint32_t count = set->count - place < limit ? set->count - place : limit;
    if (count > 0)
        memcpy(to, (const uint32_t *)set->body + place, count * sizeof(*to));
    return count;
}

uint64_t set_recount(const struct set *set)
{
    assert(set);

    uint64_t count = 0;
    uint64_t from = 0;
    uint32_t page[256];
    for (uint32_t found; from <= UINT32_MAX; from = (uint64_t)page[found - 1] + 1) {
        found = set_page(set, (uint32_t)from, page, 256);
        if (found == 0)
            break;
        count += found;
    }
    return count;
}

size_t set_bytes(const struct set *set)
{
    assert(set);

    if (!is_roaring(set))
        return set->body ? array_block_bytes(set->capacity) : 0;
    /* What its members need; the slack of the containers is not known. */
    return sizeof(roaring_bitmap_t) + roaring_bitmap_portable_size_in_bytes(set->body);
}
