/* entry.h - the records of a cell: a counter, or an item.
 *
 * Memory per counter is a promise, so the record is packed by hand: 24 bytes,
 * then the id. What few counters have (a floor, a deadline, shards) is kept
 * aside, in struct rare.
 *
 *   counter  kind flags id_last used | incarnation | written_s rare | small or big | id
 *   item     kind flags id_last used | incarnation | written_s ···· | block or crowd | id
 *                                                     count tag mixed
 */
#ifndef HOT_MEMORY_ENTRY_H
#define HOT_MEMORY_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"
#include "base/slice.h"
#include "core/limits.h"
#include "core/op.h"

enum entry_kind { ENTRY_FREE, ENTRY_COUNTER, ENTRY_ITEM };

enum entry_flag {
    ENTRY_BIG = 1,    /* a counter beyond 64 bits */
    ENTRY_CROWD = 2,  /* an item with more members than a block holds */
    ENTRY_LOADED = 4, /* from the store, and not made here */
    ENTRY_SEEN = 8,   /* by an inspection, see inspect.c */
    /* the upper four bits are the generation of the last write, see saves.h */
};
#define ENTRY_GENERATION_SHIFT 4u

struct crowd;
struct parts;

struct entry {
    uint8_t kind;
    uint8_t flags;
    uint8_t id_last; /* the id's size less one */
    uint8_t used;    /* last use, on the clock of the cell: see cell.h */
    uint32_t incarnation;
    uint32_t written_s; /* last write, seconds since 1970 */
    union {
        uint32_t rare; /* counter: number of its struct rare in the cell, 0 = none */
        struct {       /* item with a block, see members.h */
            uint8_t count;
            uint8_t capacity;
            uint8_t tag;
            bool mixed;
        } block_head;
    };
    union {
        int64_t small;
        struct number_big *big;
        uint32_t *block; /* owned */
        struct crowd *crowd;
    };
    char id[];
};

_Static_assert(sizeof(struct entry) == 24, "memory per counter is a promise");
_Static_assert(LIMIT_ID_BYTES <= 256, "an id's size less one is a byte");

/* What few counters have. */
struct rare {
    struct op_create create; /* as asked for; 1 shard, local, no floor, never idle by default */
    int64_t deadline_ms;     /* 0 = none */
    struct parts *parts;     /* owned; NULL while the counter is in its home cell only */
    const char *reason;      /* why the shards last changed */
    int64_t changed_ms;
};

/* A rare's place in its cell, or a link in the list of the free ones. */
union rare_place {
    struct rare *rare; /* owned */
    uint32_t next_free;
};

static inline size_t entry_id_size(const struct entry *entry)
{
    return (size_t)entry->id_last + 1;
}

static inline struct slice entry_id(const struct entry *entry)
{
    return (struct slice){entry->id, entry_id_size(entry)};
}

static inline uint8_t entry_generation(const struct entry *entry)
{
    return entry->flags >> ENTRY_GENERATION_SHIFT;
}

static inline void entry_set_generation(struct entry *entry, uint8_t generation)
{
    uint8_t flags = entry->flags & ((1u << ENTRY_GENERATION_SHIFT) - 1);
    entry->flags = (uint8_t)(flags | generation << ENTRY_GENERATION_SHIFT);
}

static inline size_t entry_size(size_t id_size)
{
    return sizeof(struct entry) + id_size;
}

/* A counter's value, borrowed: valid until the counter changes. */
static inline struct number entry_value(const struct entry *entry)
{
    return entry->flags & ENTRY_BIG ? (struct number){.small = 0, .big = entry->big}
                                    : number_of(entry->small);
}

/* Puts a value in place of one that entry_value() has handed out and that was
 * changed since: the entry owns the big part. */
static inline void entry_set_value(struct entry *entry, struct number value)
{
    if (value.big) {
        entry->flags |= ENTRY_BIG;
        entry->big = value.big;
    } else {
        entry->flags &= (uint8_t)~ENTRY_BIG;
        entry->small = value.small;
    }
}

#endif
