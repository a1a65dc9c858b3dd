/* filter.h - might the store know this? A set of hashes that never forgets one,
 * and that takes one in a hundred strangers for known.
 *
 * A blocked Bloom filter: a hash picks a block of one cache line and eight of
 * its 512 bits; 12 bits of memory for each member. When a stage is full, one of
 * twice the size is put in front of it: nothing is ever moved, so that adding and
 * asking need no lock. Any thread. */
#ifndef HOT_MEMORY_FILTER_H
#define HOT_MEMORY_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct filter;

/* The first stage has room for `expected` members. */
struct filter *filter_new(uint64_t expected);
void filter_free(struct filter *filter);

/* Adding what is there already costs no room. */
void filter_add(struct filter *filter, uint64_t hash);

/* False: it was never added. */
bool filter_may_have(const struct filter *filter, uint64_t hash);

size_t filter_bytes(const struct filter *filter);

#endif
