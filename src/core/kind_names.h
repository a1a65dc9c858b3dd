/* kind_names.h - the kinds of reactions that a store has met, by number.
 *
 * A store gives a kind its number when it meets it first, counting from 1, for ever: what is kept
 * of members has numbers, and the configuration may name its kinds in any order. */
#ifndef CORE_KIND_NAMES_H
#define CORE_KIND_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "core/limits.h"
#include "core/sets.h"

struct kind_names {
    unsigned count; /* numbers 1 to count are in use */
    uint8_t sizes[SETS_KINDS];
    char names[SETS_KINDS][LIMIT_KIND_BYTES];
};

/* The name of a number; the empty slice for 0, and for one that is not in use. */
struct slice kind_names_at(const struct kind_names *kinds, unsigned kind);

/* The number of a name: 0 of the empty one, SETS_KINDS if it has none yet. */
unsigned kind_names_find(const struct kind_names *kinds, struct slice name);

/* Is there a number left, and may the name have it? Names stand in JSON as they are: one that could
 * not is left out, and its unit is refused for it. */
bool kind_names_may_add(const struct kind_names *kinds, struct slice name);

#endif
