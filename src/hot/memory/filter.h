/* filter.h - might the store know this? A set of hashes that never forgets one,
 * and that takes few strangers for known.
 *
 * A blocked Bloom filter: a hash picks a block of one cache line and eight of
 * its 512 bits. With FILTER_BITS of memory for each member one stranger in a hundred
 * is taken for known, with FILTER_BITS_FINE one in some thousands. When a stage is full, one of
 * twice the size is put in front of it: nothing is ever moved, so that adding and
 * asking need no lock. Any thread. */
#ifndef HOT_MEMORY_FILTER_H
#define HOT_MEMORY_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct filter;

#define FILTER_BITS      12u
#define FILTER_BITS_FINE 20u

/* The first stage has room for `expected` members. */
struct filter *filter_new(uint64_t expected, unsigned bits);
void filter_free(struct filter *filter);

/* Adding what is there already costs no room. */
void filter_add(struct filter *filter, uint64_t hash);

/* False: it was never added. */
bool filter_may_have(const struct filter *filter, uint64_t hash);

size_t filter_bytes(const struct filter *filter);

#endif
