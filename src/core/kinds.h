/* kinds.h - the reaction kinds of a deployment, by name and by number.
 *
 * Numbers count from 1 in the order of the configuration and live only in
 * memory; 0 is "no reaction". Events carry names, so the order may change. */
#ifndef CORE_KINDS_H
#define CORE_KINDS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/limits.h"

#define KIND_NONE 0u

struct kinds {
    unsigned count;
    char names[LIMIT_KINDS][LIMIT_KIND_BYTES + 1];
    uint8_t sizes[LIMIT_KINDS];
    bool ends[256]; /* does a name end in this byte? */
};

/* Reads "like,dislike". A name is 1 to 32 of [a-z0-9_-] or bytes above 0x7f
 * (emoji), and stands once. */
enum err kinds_parse(struct kinds *kinds, struct slice list, struct error *error);

/* The number of a name, KIND_NONE if there is none. */
uint8_t kinds_find(const struct kinds *kinds, struct slice name);

/* The name of a number; the empty slice for KIND_NONE. */
static inline struct slice kinds_name(const struct kinds *kinds, uint8_t kind)
{
    assert(kind <= kinds->count);
    return kind == KIND_NONE ? (struct slice){NULL, 0}
                             : (struct slice){kinds->names[kind - 1], kinds->sizes[kind - 1]};
}

/* The slow half of kinds_split(): the id ends as a kind does. */
bool kinds_split_ending(const struct kinds *kinds, struct slice id, struct slice *ret_item,
                        uint8_t *ret_kind);

/* Is `id` the counter of a reaction, "item/kind"? Then says of which item and
 * kind. Asked for every op: its last byte decides for nearly every id. */
static inline bool kinds_split(const struct kinds *kinds, struct slice id, struct slice *ret_item,
                               uint8_t *ret_kind)
{
    return id.size > 0 && kinds->ends[(unsigned char)id.data[id.size - 1]] &&
           kinds_split_ending(kinds, id, ret_item, ret_kind);
}

#endif
