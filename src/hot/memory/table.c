#include "hot/memory/table.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/pages.h"

/* A slot:
 *
 *   63          32 31           0
 *   | tag         | ref          |     in use: ref is never 0
 *   | 0         1 | 0            |     TABLE_GONE
 *   | 0           | 0            |     empty
 *
 * A record's place follows from its tag alone, and the tag is in the slot: so
 * growing needs no record. */
#define TABLE_GONE (UINT64_C(1) << 32)

#define SLOTS_MIN    64u
#define SLOTS_MAX    (UINT32_C(1) << 31)
#define FILL_LEAST   60u
#define FILL_CHOICES 16u

static uint32_t ref_of(uint64_t slot)
{
    return (uint32_t)slot;
}

static uint32_t tag_of(uint64_t slot)
{
    return (uint32_t)(slot >> 32);
}

static uint64_t slot_of(uint64_t hash, uint32_t ref)
{
    return (uint64_t)table_tag(hash) << 32 | ref;
}

static bool is_on_pages(size_t size)
{
    return size % PAGES_BLOCK_MIN == 0;
}

static void give_slots(uint64_t *slots, uint32_t slot_count)
{
    size_t size = slot_count * sizeof(*slots);
    if (is_on_pages(size))
        pages_give(slots, size);
    else
        free(slots);
}

static void take_slots(struct table *table, uint32_t slot_count)
{
    size_t size = slot_count * sizeof(*table->slots);
    table->slots = is_on_pages(size) ? pages_take(size) : memory_take_zeroed(size);
    table->size = slot_count;
    table->used = 0;
    table->limit = (uint32_t)((uint64_t)slot_count * table->fill_percent / 100);
}

/* Twice as much while that is little, then half as much again: 4096, 8192, 12288,
 * 16384, 24576 ... */
static uint32_t larger(uint32_t slot_count)
{
    if (slot_count < 8192)
        return slot_count * 2;
    bool is_power_of_two = (slot_count & (slot_count - 1)) == 0;
    return is_power_of_two ? slot_count / 2 * 3 : slot_count / 3 * 4;
}

static uint32_t behind(const struct table *table, uint32_t i)
{
    return i + 1 == table->size ? 0 : i + 1;
}

static uint32_t before(const struct table *table, uint32_t i)
{
    return i == 0 ? table->size - 1 : i - 1;
}

void table_init(struct table *table, uint32_t salt)
{
    assert(table);

    *table = (struct table){.fill_percent = FILL_LEAST + salt % FILL_CHOICES};
    take_slots(table, SLOTS_MIN);
}

void table_done(struct table *table)
{
    assert(table);

    give_slots(table->slots, table->size);
    *table = (struct table){0};
}

uint32_t table_find(const struct table *table, uint64_t hash, uint32_t *at)
{
    assert(table && at);

    uint32_t tag = table_tag(hash);
    uint32_t i = *at == TABLE_START ? table_place(tag, table->size) : behind(table, *at);
    for (; table->slots[i] != 0; i = behind(table, i)) {
        uint64_t slot = table->slots[i];
        if (tag_of(slot) == tag && ref_of(slot) != 0) {
            *at = i;
            return ref_of(slot);
        }
    }
    *at = i;
    return 0;
}

/* Puts a slot's content where it belongs; true if that place was empty. */
static bool place(struct table *table, uint64_t slot)
{
    uint32_t i = table_place(tag_of(slot), table->size);
    while (ref_of(table->slots[i]) != 0)
        i = behind(table, i);
    bool was_empty = table->slots[i] == 0;
    table->slots[i] = slot;
    return was_empty;
}

static void rehash(struct table *table, uint32_t slot_count)
{
    uint64_t *old_slots = table->slots;
    uint32_t old_count = table->size;

    take_slots(table, slot_count);
    for (uint32_t i = 0; i < old_count; i++) {
        if (ref_of(old_slots[i]) != 0)
            place(table, old_slots[i]);
    }
    table->used = table->count;
    give_slots(old_slots, old_count);
}

/* Half as many slots again, or as many as before when a good part of them is only
 * gone. */
static void make_room(struct table *table)
{
    bool grows = table->count >= table->limit / 4 * 3;
    assert(!grows || table->size < SLOTS_MAX);

    rehash(table, grows ? larger(table->size) : table->size);
}

void table_add(struct table *table, uint64_t hash, uint32_t ref)
{
    assert(table && ref != 0);

    if (table->used >= table->limit)
        make_room(table);
    if (place(table, slot_of(hash, ref)))
        table->used++;
    table->count++;
}

void table_add_behind(struct table *table, uint64_t hash, uint32_t ref, uint32_t at)
{
    if (table->used >= table->limit) {
        table_add(table, hash, ref);
        return;
    }
    assert(ref != 0 && at < table->size && table->slots[at] == 0);
    table->slots[at] = slot_of(hash, ref);
    table->used++;
    table->count++;
}

void table_remove(struct table *table, uint64_t hash, uint32_t ref)
{
    assert(table && ref != 0);

    uint64_t slot = slot_of(hash, ref);
    uint32_t i = table_place(tag_of(slot), table->size);
    while (table->slots[i] != slot) {
        assert(table->slots[i] != 0);
        i = behind(table, i);
    }
    table->slots[i] = TABLE_GONE;
    table->count--;

    /* A walk that comes here goes on only if something follows. */
    if (table->slots[behind(table, i)] != 0)
        return;
    for (; table->slots[i] == TABLE_GONE; i = before(table, i)) {
        table->slots[i] = 0;
        table->used--;
    }
}

void table_fit(struct table *table)
{
    assert(table);

    uint64_t needed = (uint64_t)table->count * 100 / table->fill_percent * 2;
    if (table->size <= SLOTS_MIN || needed * 2 > table->size)
        return;
    uint32_t slot_count = SLOTS_MIN;
    while (slot_count < needed)
        slot_count = larger(slot_count);
    if (slot_count < table->size)
        rehash(table, slot_count);
}

size_t table_bytes(const struct table *table)
{
    assert(table);

    return (size_t)table->size * sizeof(*table->slots);
}
