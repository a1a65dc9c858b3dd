#include "store/sqlite/ids.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

#define SLOTS_MIN 1024u

void ids_init(struct ids *ids, size_t max, uint64_t key)
{
    *ids = (struct ids){.max = max, .key = key};
    ids_clear(ids);
}

void ids_done(struct ids *ids)
{
    free(ids->slots);
    ids->slots = NULL;
}

void ids_replace(struct ids *ids, const struct ids *from)
{
    ids_done(ids);
    *ids = *from;
}

void ids_clear(struct ids *ids)
{
    if (ids->slots && ids->count == 0)
        return;
    free(ids->slots);
    ids->slots = memory_take_zeroed(SLOTS_MIN * sizeof(*ids->slots));
    ids->mask = SLOTS_MIN - 1;
    ids->count = 0;
}

static size_t first_slot(const struct ids *ids, uint64_t hash)
{
    return hash_slot(hash, ids->key) & ids->mask;
}

static void grow(struct ids *ids)
{
    struct ids_slot *old = ids->slots;
    size_t size = ids->mask + 1;
    ids->slots = memory_take_zeroed(size * 2 * sizeof(*ids->slots));
    ids->mask = size * 2 - 1;
    ids->count = 0;
    for (size_t i = 0; i < size; i++) {
        if (old[i].number != 0)
            ids_put(ids, old[i].hash, old[i].number);
    }
    free(old);
}

void ids_put(struct ids *ids, uint64_t hash, uint64_t number)
{
    assert(number != 0);

    if (ids->max != 0 && ids->count >= ids->max)
        ids_clear(ids);
    if ((ids->count + 1) * 4 > (ids->mask + 1) * 3)
        grow(ids);
    size_t at = first_slot(ids, hash);
    while (ids->slots[at].number != 0)
        at = (at + 1) & ids->mask;
    ids->slots[at] = (struct ids_slot){hash, number};
    ids->count++;
}

uint64_t ids_next(const struct ids *ids, uint64_t hash, size_t *at)
{
    size_t i = *at == SIZE_MAX ? first_slot(ids, hash) : (*at + 1) & ids->mask;
    for (; ids->slots[i].number != 0; i = (i + 1) & ids->mask) {
        if (ids->slots[i].hash != hash)
            continue;
        *at = i;
        return ids->slots[i].number;
    }
    return 0;
}

void ids_set(struct ids *ids, uint64_t hash, uint64_t number)
{
    size_t at = SIZE_MAX;
    if (ids_next(ids, hash, &at) == 0)
        ids_put(ids, hash, number);
    else
        ids->slots[at].number = number;
}
