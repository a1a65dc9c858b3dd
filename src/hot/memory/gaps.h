/* gaps.h - many 32-bit numbers in order, kept as the gaps between them.
 *
 * A crowd's members are cut into 64 slices by a hash, so that even where every
 * user likes, a slice holds each 64th number: too few for a bitmap, and a gap is
 * shorter than a number. Gaps are varints, in blocks that are short enough to
 * be read through; an index holds the first number of each:
 *
 *   firsts   17            90210          1700003
 *   blocks   +3 +900 +12   +64 +1 +2000   +77
 *
 * A gap takes one byte below 128 and two below 16,384: 1 to 3 bytes a number in
 * all, whatever the numbers are. (A Roaring bitmap shares the upper 16 bits
 * between neighbours; where it has few neighbours, it takes 9 to 70.)
 *
 * Belongs to one cell. */
#ifndef HOT_MEMORY_GAPS_H
#define HOT_MEMORY_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gaps;

/* Holds `numbers` at first: ascending, at least one. */
struct gaps *gaps_new(const uint32_t *numbers, uint32_t count);
void gaps_free(struct gaps *gaps);

/* True if it was not there. */
bool gaps_add(struct gaps *gaps, uint32_t number);
/* True if it was there. Whoever removes the last one frees the gaps: they may
 * not be used without a number. */
bool gaps_remove(struct gaps *gaps, uint32_t number);
bool gaps_has(const struct gaps *gaps, uint32_t number);

/* Copies up to `limit` numbers that are at least `from`, ascending, to `to`;
 * returns how many. */
uint32_t gaps_page(const struct gaps *gaps, uint32_t from, uint32_t *to, uint32_t limit);

size_t gaps_bytes(const struct gaps *gaps);

#endif
