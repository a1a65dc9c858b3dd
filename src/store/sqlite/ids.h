/* ids.h - where something of a hash probably stands: a bounded table in memory.
 *
 * Not the truth, only a hint: what is found has to be looked at. Two things of one hash may
 * both be in it. When it is full it is emptied, or, if it may not forget, it grows. */
#ifndef STORE_SQLITE_IDS_H
#define STORE_SQLITE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ids_slot {
    uint64_t hash;
    uint64_t number; /* 0: free */
};

struct ids {
    struct ids_slot *slots; /* owned */
    size_t mask;            /* slots - 1 */
    size_t count;
    size_t max;   /* 0: it may not forget */
    uint64_t key; /* random: clients choose ids, and with this not where they land */
};

void ids_init(struct ids *ids, size_t max, uint64_t key);
void ids_done(struct ids *ids);
void ids_clear(struct ids *ids);

/* `from` takes the place of `ids`, and must not be used any more. */
void ids_replace(struct ids *ids, const struct ids *from);

void ids_put(struct ids *ids, uint64_t hash, uint64_t number);

/* The numbers of a hash one by one: begins with *at = SIZE_MAX; 0 when there are no more. */
uint64_t ids_next(const struct ids *ids, uint64_t hash, size_t *at);
static inline uint64_t ids_get(const struct ids *ids, uint64_t hash)
{
    size_t at = SIZE_MAX;
    return ids_next(ids, hash, &at);
}

/* Makes the hash point to `number` and to nothing else. */
void ids_set(struct ids *ids, uint64_t hash, uint64_t number);

#endif
