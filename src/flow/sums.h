/* sums.h - what the log says that counters are: the sums of their events.
 *
 * Names the ids to be counted, perhaps only up to some sequences (those that a value was
 * made of), or counts whatever comes; then takes events in the log's order. An event
 * of an incarnation that is gone does not count, and a deletion begins anew.
 * Belongs to one thread. Pure. */
#ifndef FLOW_SUMS_H
#define FLOW_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number.h"
#include "base/slice.h"
#include "core/event.h"
#include "core/kinds.h"

struct sums;

struct sums_entry {
    struct slice id;       /* counter or item; a copy */
    const uint64_t *until; /* by origin: the last event that counts; borrowed, NULL = all */
    void *arg;             /* of whoever watches */
    bool is_item;
    bool begins;            /* it was deleted on the way: what came before is no part of it */
    uint32_t begins_origin; /* the deletion: with `begins` */
    uint64_t begins_sequence;
    uint32_t incarnation;
    uint64_t events; /* that counted */
    struct number value;
    int64_t counts[]; /* by kind, [0] being kind 1 */
};

/* Was it deleted behind these sequences? Then what is recorded up to them is of what is gone. */
static inline bool sums_begins_behind(const struct sums_entry *entry, const uint64_t *sequences)
{
    return entry->begins && entry->begins_sequence > sequences[entry->begins_origin];
}

struct sums *sums_new(const struct kinds *kinds, uint64_t hash_key);
void sums_free(struct sums *sums);
void sums_clear(struct sums *sums);

/* One more to be counted; the same id may be watched more than once. It stays until the
 * next clear. */
struct sums_entry *sums_watch(struct sums *sums, struct slice id, const uint64_t *until, void *arg);

/* From now on ids that nobody has named are counted, too. */
void sums_watch_all(struct sums *sums);

void sums_take(struct sums *sums, const struct event *event);

/* A whole section, ERR_CORRUPT. */
enum err sums_take_section(struct sums *sums, struct slice section, struct error *error);

/* All entries, in the order in which they came. */
size_t sums_count(const struct sums *sums);
struct sums_entry *sums_at(struct sums *sums, size_t index);

#endif
