#include "flow/sums.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

#define TABLE_FIRST 256u

struct node {
    uint64_t hash;
    uint32_t same;            /* the next entry of the same id + 1; 0 = none */
    struct sums_entry *entry; /* owned, with the id behind it */
};

struct sums {
    const struct kinds *kinds;
    uint64_t hash_key;
    struct node *nodes; /* owned */
    size_t count;
    size_t room;
    uint32_t *table; /* the first node of an id + 1; 0 = empty; owned */
    size_t table_size;
    bool takes_all;
};

struct sums *sums_new(const struct kinds *kinds, uint64_t hash_key)
{
    assert(kinds);

    struct sums *sums = memory_take_zeroed(sizeof(*sums));
    sums->kinds = kinds;
    sums->hash_key = hash_key;
    sums->table_size = TABLE_FIRST;
    sums->table = memory_take_zeroed(TABLE_FIRST * sizeof(*sums->table));
    return sums;
}

void sums_clear(struct sums *sums)
{
    for (size_t i = 0; i < sums->count; i++) {
        number_done(&sums->nodes[i].entry->value);
        free(sums->nodes[i].entry);
    }
    sums->count = 0;
    sums->takes_all = false;
    memset(sums->table, 0, sums->table_size * sizeof(*sums->table));
}

void sums_free(struct sums *sums)
{
    if (!sums)
        return;
    sums_clear(sums);
    free(sums->nodes);
    free(sums->table);
    free(sums);
}

static size_t slot_of(const struct sums *sums, uint64_t hash, struct slice id)
{
    size_t mask = sums->table_size - 1;
    size_t slot = (size_t)hash & mask;
    while (sums->table[slot] != 0) {
        const struct node *node = &sums->nodes[sums->table[slot] - 1];
        if (node->hash == hash && slice_equal(node->entry->id, id))
            break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static void widen(struct sums *sums)
{
    uint32_t *old = sums->table;
    size_t old_size = sums->table_size;
    sums->table_size *= 2;
    sums->table = memory_take_zeroed(sums->table_size * sizeof(*sums->table));
    size_t mask = sums->table_size - 1;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i] == 0)
            continue;
        size_t slot = (size_t)sums->nodes[old[i] - 1].hash & mask;
        while (sums->table[slot] != 0)
            slot = (slot + 1) & mask;
        sums->table[slot] = old[i];
    }
    free(old);
}

struct sums_entry *sums_watch(struct sums *sums, struct slice id, const uint64_t *until, void *arg)
{
    assert(sums && id.size > 0);

    if (sums->count == sums->room) {
        sums->room = sums->room ? sums->room * 2 : TABLE_FIRST / 2;
        sums->nodes = memory_resize(sums->nodes, sums->room * sizeof(*sums->nodes));
    }
    if (sums->count * 2 >= sums->table_size)
        widen(sums);
    size_t counts = sums->kinds->count * sizeof(int64_t);
    struct sums_entry *entry = memory_take_zeroed(sizeof(*entry) + counts + id.size);
    char *copy = (char *)entry + sizeof(*entry) + counts;
    memcpy(copy, id.data, id.size);
    entry->id = (struct slice){copy, id.size};
    entry->until = until;
    entry->arg = arg;

    uint64_t hash = hash_keyed(id, sums->hash_key);
    size_t slot = slot_of(sums, hash, id);
    sums->nodes[sums->count] =
        (struct node){.hash = hash, .same = sums->table[slot], .entry = entry};
    sums->table[slot] = (uint32_t)++sums->count;
    return entry;
}

void sums_watch_all(struct sums *sums)
{
    sums->takes_all = true;
}

/* What was counted so far is no part of it. */
static void forget(const struct sums *sums, struct sums_entry *entry, uint32_t incarnation)
{
    number_done(&entry->value);
    memset(entry->counts, 0, sums->kinds->count * sizeof(*entry->counts));
    entry->is_item = false;
    entry->events = 0;
    entry->incarnation = incarnation;
}

static void count_kind(const struct sums *sums, struct sums_entry *entry, struct slice kind,
                       int64_t by)
{
    uint8_t number = kinds_find(sums->kinds, kind);
    if (number != KIND_NONE)
        entry->counts[number - 1] += by;
}

static void count_event(const struct sums *sums, struct sums_entry *entry,
                        const struct event *event)
{
    if (entry->until && event->sequence > entry->until[event->origin])
        return;
    if (event->incarnation < entry->incarnation)
        return;
    if (event->type == EVENT_DELETE) {
        forget(sums, entry, event->next_incarnation);
        entry->begins = true;
        entry->begins_origin = event->origin;
        entry->begins_sequence = event->sequence;
        return;
    }
    /* Nothing is made anew without a deletion: if we have seen none, it came before the first
     * event that we were given, and what was counted since was late. */
    if (event->incarnation > entry->incarnation)
        forget(sums, entry, event->incarnation);
    entry->events++;
    if (event->type == EVENT_REACT) {
        entry->is_item = true;
        count_kind(sums, entry, event->before, -1);
        count_kind(sums, entry, event->after, 1);
    } else if (event->type == EVENT_ADD || event->type == EVENT_RESET) {
        number_add(&entry->value, &event->amount);
    }
}

void sums_take(struct sums *sums, const struct event *event)
{
    if (!event_changes(event->type) || event->origin >= LIMIT_CELLS)
        return;
    struct slice id = event->id;
    uint8_t kind;
    if (event->type == EVENT_CREATE)
        kinds_split(sums->kinds, event->id, &id, &kind);
    uint64_t hash = hash_keyed(id, sums->hash_key);
    uint32_t at = sums->table[slot_of(sums, hash, id)];
    if (at == 0 && sums->takes_all) {
        (void)sums_watch(sums, id, NULL, NULL);
        at = (uint32_t)sums->count;
    }
    for (; at != 0; at = sums->nodes[at - 1].same)
        count_event(sums, sums->nodes[at - 1].entry, event);
}

enum err sums_take_section(struct sums *sums, struct slice section, struct error *error)
{
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    struct event event;
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        sums_take(sums, &event);
        event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

size_t sums_count(const struct sums *sums)
{
    return sums->count;
}

struct sums_entry *sums_at(struct sums *sums, size_t index)
{
    assert(index < sums->count);
    return sums->nodes[index].entry;
}
