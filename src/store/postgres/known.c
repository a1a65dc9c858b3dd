#include "store/postgres/known.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

#define SLOTS_MIN 1024u
#define COUNT_MAX (1u << 21) /* 32 MB with the free slots, at most */

void known_init(struct known *known, uint64_t key)
{
    *known = (struct known){.mask = SLOTS_MIN - 1, .key = key};
    known->slots = memory_take_zeroed(SLOTS_MIN * sizeof(*known->slots));
}

void known_done(struct known *known)
{
    free(known->slots);
    known->slots = NULL;
}

void known_clear(struct known *known)
{
    memset(known->slots, 0, (known->mask + 1) * sizeof(*known->slots));
    known->count = 0;
}

/* The slot of a hash, or the free one where it would go. */
static size_t place_of(const struct known *known, uint64_t hash)
{
    size_t at = hash_slot(hash, known->key) & known->mask;
    while (known->slots[at] != 0 && known->slots[at] != hash)
        at = (at + 1) & known->mask;
    return at;
}

static void grow(struct known *known)
{
    struct known larger = {.mask = known->mask * 2 + 1, .count = known->count, .key = known->key};
    larger.slots = memory_take_zeroed((larger.mask + 1) * sizeof(*larger.slots));
    for (size_t i = 0; i <= known->mask; i++) {
        if (known->slots[i] != 0)
            larger.slots[place_of(&larger, known->slots[i])] = known->slots[i];
    }
    free(known->slots);
    *known = larger;
}

void known_add(struct known *known, uint64_t hash)
{
    hash += hash == 0;
    size_t at = place_of(known, hash);
    if (known->slots[at] == hash)
        return;
    if (known->count >= COUNT_MAX)
        known_clear(known);
    if ((known->count + 1) * 2 > known->mask)
        grow(known);
    known->slots[place_of(known, hash)] = hash;
    known->count++;
}

bool known_has(const struct known *known, uint64_t hash)
{
    hash += hash == 0;
    return known->slots[place_of(known, hash)] == hash;
}
