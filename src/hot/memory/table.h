/* table.h - from the hash of an id to its record.
 *
 * Open addressing over 8-byte slots: 32 bits of the hash, 32 bits of the
 * record's address in the heap. A look-up that misses touches no record, and
 * growing touches none at all. A table does not know what a record is: the
 * caller compares ids. Belongs to one cell.
 *
 * Growing takes one go, which is short because a cell holds a 64th of all; and
 * each table fills to another degree before it grows, so that the 64 do not all
 * grow in the same moment. */
#ifndef HOT_MEMORY_TABLE_H
#define HOT_MEMORY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
    uint64_t *slots; /* owned */
    uint32_t size;   /* slots */
    uint32_t used;   /* live and gone */
    uint32_t count;  /* live */
    uint32_t limit;  /* grow when `used` reaches it */
    uint32_t fill_percent;
};

/* `salt` (the cell's number) decides how full it gets before it grows: 60 to 75
 * percent. Fuller, and a search for what is not there takes long. */
void table_init(struct table *table, uint32_t salt);
void table_done(struct table *table);

/* The 32 bits of a hash that are kept; they decide the place as well. */
static inline uint32_t table_tag(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

/* Where a tag belongs among `size` slots: tags in their order spread evenly, so
 * that any size will do, and growing goes through memory from front to back. */
static inline uint32_t table_place(uint32_t tag, uint32_t size)
{
    return (uint32_t)((uint64_t)tag * size >> 32);
}

/* Brings the slot of `hash` towards the cache. */
static inline void table_prefetch(const struct table *table, uint64_t hash)
{
    __builtin_prefetch(&table->slots[table_place(table_tag(hash), table->size)]);
}

/* Walks the records whose 32 hash bits equal: start with *at = TABLE_START; returns
 * the record's address, or 0 when there are no more; *at is then the empty slot. */
#define TABLE_START UINT32_MAX
uint32_t table_find(const struct table *table, uint64_t hash, uint32_t *at);

/* The record must not be there yet. */
void table_add(struct table *table, uint64_t hash, uint32_t ref);

/* The same, behind a table_find() with this hash that found no more: `at` is what
 * it was called with, and spares the walk. */
void table_add_behind(struct table *table, uint64_t hash, uint32_t ref, uint32_t at);

/* The record must be there. */
void table_remove(struct table *table, uint64_t hash, uint32_t ref);

/* Gives back slots if a quarter of them would do; takes one go, as growing does. */
void table_fit(struct table *table);

size_t table_bytes(const struct table *table);

#endif
