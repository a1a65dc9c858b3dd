/* set.h - a set of 32-bit numbers: a sorted array while there are few, the gaps
 * between them (gaps.h) when there are many. Exact, and compact in both.
 *
 * Zeroed memory is an empty set. Belongs to one cell. */
#ifndef HOT_MEMORY_SET_H
#define HOT_MEMORY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SET_ARRAY_MAX 256u /* members of an array; past it gaps are smaller and quicker */

struct set {
    void *body; /* owned: uint32_t[capacity], or struct gaps when capacity is SET_GAPS */
    uint32_t count;
    uint32_t capacity;
};

#define SET_GAPS UINT32_MAX

void set_done(struct set *set);

/* True if it was not there. */
bool set_add(struct set *set, uint32_t number);
/* True if it was there. */
bool set_remove(struct set *set, uint32_t number);
bool set_has(const struct set *set, uint32_t number);

/* Copies up to `limit` members that are at least `from`, ascending, to `to`;
 * returns how many. */
uint32_t set_page(const struct set *set, uint32_t from, uint32_t *to, uint32_t limit);

/* Counts the members one by one: what `count` ought to be. */
uint64_t set_recount(const struct set *set);

size_t set_bytes(const struct set *set);

#endif
