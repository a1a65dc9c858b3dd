#include "hot/memory/set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hot/memory/gaps.h"
#include "hot/memory/own.h"

static bool has_gaps(const struct set *set)
{
    return set->capacity == SET_GAPS;
}

void set_done(struct set *set)
{
    assert(set);

    if (has_gaps(set))
        gaps_free(set->body);
    else
        own_free(set->body);
    *set = (struct set){0};
}

/* ---- few: a sorted array ---- */

/* Room for `count` members, and for as many more as malloc gives for nothing. */
static void array_resize(struct set *set, uint32_t count)
{
    size_t bytes = memory_usable(count * sizeof(uint32_t));
    set->body = own_resize(set->body, bytes);
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

/* ---- many: gaps ---- */

static void become_gaps(struct set *set)
{
    struct gaps *gaps = gaps_new(set->body, set->count);
    own_free(set->body);
    set->body = gaps;
    set->capacity = SET_GAPS;
}

static bool add_to_gaps(struct set *set, uint32_t number)
{
    if (!gaps_add(set->body, number))
        return false;
    set->count++;
    return true;
}

static bool remove_from_gaps(struct set *set, uint32_t number)
{
    if (!gaps_remove(set->body, number))
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

    if (has_gaps(set))
        return add_to_gaps(set, number);

    uint32_t place = set->count;
    if (place > 0 && ((const uint32_t *)set->body)[place - 1] >= number) {
        place = array_place(set, number);
        if (array_has_at(set, place, number))
            return false;
    }
    if (set->count == SET_ARRAY_MAX) {
        become_gaps(set);
        return add_to_gaps(set, number);
    }
    array_insert(set, place, number);
    return true;
}

bool set_remove(struct set *set, uint32_t number)
{
    assert(set);

    if (has_gaps(set))
        return remove_from_gaps(set, number);

    uint32_t place = array_place(set, number);
    if (!array_has_at(set, place, number))
        return false;
    array_delete(set, place);
    return true;
}

bool set_has(const struct set *set, uint32_t number)
{
    assert(set);

    if (has_gaps(set))
        return gaps_has(set->body, number);
    return array_has_at(set, array_place(set, number), number);
}

uint32_t set_page(const struct set *set, uint32_t from, uint32_t *to, uint32_t limit)
{
    assert(set && (to || limit == 0));

    if (has_gaps(set))
        return gaps_page(set->body, from, to, limit);

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

    if (has_gaps(set))
        return gaps_bytes(set->body);
    return set->body ? memory_cost(set->capacity * sizeof(uint32_t)) : 0;
}
