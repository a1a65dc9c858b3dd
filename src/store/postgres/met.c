#include "store/postgres/met.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

#define SLOTS_MIN 1024u
#define COUNT_MAX (1u << 20) /* 48 MB with the free slots, at most */

struct met_slot {
    struct hash128 hash;
    uint64_t next; /* number + 1; 0 = free */
};

void met_init(struct met *met, uint64_t seed)
{
    *met = (struct met){.mask = SLOTS_MIN - 1, .seed = seed};
    met->slots = memory_take_zeroed(SLOTS_MIN * sizeof(*met->slots));
}

void met_done(struct met *met)
{
    free(met->slots);
    met->slots = NULL;
}

void met_clear(struct met *met)
{
    if (met->count > 0)
        memset(met->slots, 0, (met->mask + 1) * sizeof(*met->slots));
    met->count = 0;
}

/* The slot of a hash, or the free one where it would go. */
static struct met_slot *place_of(const struct met *met, struct hash128 hash)
{
    size_t at = hash.low & met->mask;
    while (met->slots[at].next != 0 &&
           (met->slots[at].hash.low != hash.low || met->slots[at].hash.high != hash.high))
        at = (at + 1) & met->mask;
    return &met->slots[at];
}

static void grow(struct met *met)
{
    struct met larger = *met;
    larger.mask = met->mask * 2 + 1;
    larger.slots = memory_take_zeroed((larger.mask + 1) * sizeof(*larger.slots));
    for (size_t i = 0; i <= met->mask; i++) {
        if (met->slots[i].next != 0)
            *place_of(&larger, met->slots[i].hash) = met->slots[i];
    }
    free(met->slots);
    *met = larger;
}

void met_put(struct met *met, struct slice name, uint32_t number)
{
    if (met->count >= COUNT_MAX)
        met_clear(met);
    if ((met->count + 1) * 2 > met->mask)
        grow(met);
    struct hash128 hash = hash128_keyed(name, met->seed);
    struct met_slot *slot = place_of(met, hash);
    met->count += slot->next == 0;
    *slot = (struct met_slot){hash, (uint64_t)number + 1};
}

bool met_find(const struct met *met, struct slice name, uint32_t *ret_number)
{
    const struct met_slot *slot = place_of(met, hash128_keyed(name, met->seed));
    if (slot->next == 0)
        return false;
    *ret_number = (uint32_t)(slot->next - 1);
    return true;
}
