/* known.h - hashes of ids whose rows have been met: a hint, and never more.
 *
 * Bounded: when it is full it forgets everything. Belongs to the writer's thread. */
#ifndef STORE_POSTGRES_KNOWN_H
#define STORE_POSTGRES_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct known {
    uint64_t *slots; /* owned; 0 = free */
    size_t mask;     /* slots - 1, their number being a power of two */
    size_t count;
    uint64_t key; /* random: clients choose ids, and with this not where they land */
};

void known_init(struct known *known, uint64_t key);
void known_done(struct known *known);
void known_clear(struct known *known);
void known_add(struct known *known, uint64_t hash);
bool known_has(const struct known *known, uint64_t hash);

#endif
