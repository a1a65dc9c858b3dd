/* met.h - the numbers of users whose names were met lately.
 *
 * Kept by a hash of 128 bits that is taken for the name itself. Bounded: when it is full it forgets
 * everything. What it says is true as long as nobody was erased and no transaction that added to
 * it has failed: then it has to be cleared. Belongs to the writer's thread. */
#ifndef STORE_POSTGRES_MET_H
#define STORE_POSTGRES_MET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct met_slot;

struct met {
    struct met_slot *slots; /* owned */
    size_t mask;            /* slots - 1, their number being a power of two */
    size_t count;
    uint64_t seed; /* differs from process to process: nobody can choose names that meet */
};

void met_init(struct met *met, uint64_t seed);
void met_done(struct met *met);
void met_clear(struct met *met);
void met_put(struct met *met, struct slice name, uint32_t number);
bool met_find(const struct met *met, struct slice name, uint32_t *ret_number);

#endif
