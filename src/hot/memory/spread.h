/* spread.h - what lives in more than one cell.
 *
 * A counter or item that is spread has one object that its home cell's record
 * points to: struct parts for a counter, struct crowd (members.h) for an item;
 * both begin with a struct spread. The object is cut so that each piece belongs
 * to one cell: part i of a counter, slice s of an item. Who holds that cell's
 * lock may touch the piece, and nobody else. Totals are atomic, so that a read
 * takes no lock and a write learns the exact new total.
 *
 * Which piece belongs to which cell follows from `home` and `shards` alone, and
 * `shards` changes only while all cells are locked: nothing has to be copied to
 * spread or fold an item, it is another reader of the same rule.
 *
 *   shard i of n  lives in cell (home + i * 64 / n) % 64
 *   slice s of 64 belongs to shard s * n / 64
 *
 * The directory is a short list of the hottest spread ids. A worker keeps a
 * copy and sends their ops straight to the right cell; for all others the home
 * cell finds out and passes the op on. */
#ifndef HOT_MEMORY_SPREAD_H
#define HOT_MEMORY_SPREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/slice.h"
#include "core/limits.h"
#include "core/op.h"

struct spread {
    uint64_t hash; /* of the id, keyed */
    bool is_item;
    _Atomic bool gone; /* deleted, dropped or replaced: its home cell knows more */
    uint8_t home;
    uint32_t id_size;
    _Atomic uint32_t shards; /* changes with all cells locked; a router may read it without */
    uint32_t asked;          /* by creation; never fewer */
    uint32_t incarnation;
    enum policy policy;
    const char *reason; /* why `shards` last changed */
    int64_t changed_ms;
    _Atomic int64_t writes;     /* since the last look of the balancer */
    _Atomic uint32_t written_s; /* last write */
    _Atomic uint16_t stamp;     /* of the last write: clock << 8 | generation, see cell.h */
    int64_t window_writes;      /* of the last window that has ended */
    uint32_t quiet;             /* windows in a row that were quiet */
    uint64_t retired;           /* epoch at which it was given up */
    struct spread *next_retired;
    char *id; /* owned */
};

/* One shard of a counter, alone on its cache line. */
struct part {
    int64_t value;
    char padding[56];
};

struct parts {
    struct spread spread;
    _Atomic int64_t total; /* always the sum of the parts */
    bool has_floor;
    int64_t floor;
    uint32_t idle_s;             /* ends when not written for so long; 0 = never */
    _Atomic int64_t deadline_ms; /* 0 = none */
    struct part part[];          /* spread.shards of them */
};

static inline uint8_t spread_cell(uint8_t home, uint32_t shards, uint32_t shard)
{
    return (uint8_t)((home + shard * LIMIT_CELLS / shards) % LIMIT_CELLS);
}

/* The shard that a cell holds, or UINT32_MAX: the inverse of spread_cell(). */
uint32_t spread_shard_of(const struct spread *spread, uint8_t cell);

void spread_init(struct spread *spread, struct slice id, uint64_t hash, uint8_t home);
void spread_done(struct spread *spread);

static inline struct slice spread_id(const struct spread *spread)
{
    return (struct slice){spread->id, spread->id_size};
}

/* Parts with `value` in the home part. */
struct parts *parts_new(struct slice id, uint64_t hash, uint8_t home, uint32_t shards,
                        int64_t value);
void parts_free(struct parts *parts);

/* Adds to a figure that the pieces share. While there is one shard, its cell's
 * lock keeps all other writers away, and the step need not be atomic. */
static inline void spread_count(const struct spread *spread, _Atomic int64_t *figure, int64_t by)
{
    if (spread->shards > 1)
        atomic_fetch_add_explicit(figure, by, memory_order_relaxed);
    else
        atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + by,
                              memory_order_relaxed);
}

/* Frees a list of retired parts and crowds. */
void spread_free_all(struct spread *list);

/* Adds to a part, whose cell the caller holds, and to the total. ERR_BELOW_FLOOR;
 * ERR_OUT_OF_RANGE when the total would pass 64 bits, or the part has not enough
 * above the floor while others have. Then nothing has changed. */
enum err parts_add(struct parts *parts, uint32_t shard, int64_t amount, int64_t *ret_total);

/* Puts `value` in place of whatever there was; all cells are locked. */
void parts_set(struct parts *parts, int64_t value);

/* What each of them holds; the caller has all their cells. */
void parts_totals(const struct parts *parts, int64_t totals[LIMIT_CELLS]);

/* Gives each part its share of what is above the floor; all is in part 0, and all
 * cells are locked. Without a floor it does not matter who has what. */
void parts_level(struct parts *parts);

/* Is its time over? Any cell may ask. */
bool parts_are_expired(const struct parts *parts, int64_t now_ms);

/* --- the directory --- */

#define DIRECTORY_MAX 256u

struct directory {
    struct lock lock;
    _Atomic uint64_t version;
    uint32_t count;
    struct spread *list[DIRECTORY_MAX];
};

/* A worker's copy, with its choice of a shard for the batch that is running. */
struct directory_copy {
    uint64_t version;
    uint32_t count;
    struct {
        struct spread *spread; /* NULL = empty */
        uint64_t batch;        /* that `cell` was chosen for */
        uint8_t cell;
    } slots[DIRECTORY_MAX * 2];
};

void directory_init(struct directory *directory);
void directory_done(struct directory *directory);

/* With all cells locked, or before there are workers. Adding to a full
 * directory does nothing: such an id takes the longer way. */
void directory_add(struct directory *directory, struct spread *spread);
void directory_remove(struct directory *directory, const struct spread *spread);

/* Is there room for one more? */
bool directory_has_room(struct directory *directory);

/* Brings a copy up to date; cheap when nothing has changed. */
void directory_refresh(struct directory *directory, struct directory_copy *copy);

/* The slot of an id, or NULL. */
static inline uint32_t directory_place(uint64_t hash)
{
    return (uint32_t)(hash >> 20) % (DIRECTORY_MAX * 2);
}

int directory_find(const struct directory_copy *copy, uint64_t hash, struct slice id);

#endif
