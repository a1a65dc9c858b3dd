#include "core/stores.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool stores_adds_only(const struct store_unit *unit)
{
    return !unit->is_item && !unit->is_gone && !unit->is_new && !unit->has_create &&
           !unit->has_deadline;
}

struct slice stores_raw_of(const struct store_batch *batch, size_t unit, struct buffer *scratch)
{
    if (!batch->raw)
        return batch->units[unit].raw;
    scratch->size = 0;
    batch->raw(batch->raw_arg, unit, scratch);
    return buffer_slice(scratch);
}

void stores_count_claimed(const struct kind_names *kinds, const struct store_reaction *reaction,
                          int64_t *deltas)
{
    unsigned before = kind_names_find(kinds, reaction->before);
    unsigned after = kind_names_find(kinds, reaction->after);
    if (before != 0 && before <= kinds->count)
        deltas[before]--;
    if (after != 0 && after <= kinds->count)
        deltas[after]++;
}

struct slice stores_count_id(struct slice item, struct slice kind, char to[STORES_COUNT_ID_BYTES])
{
    assert(item.size <= LIMIT_ID_BYTES && kind.size <= LIMIT_KIND_BYTES);

    memcpy(to, item.data, item.size);
    to[item.size] = '/';
    memcpy(to + item.size + 1, kind.data, kind.size);
    return (struct slice){to, item.size + 1 + kind.size};
}

bool stores_life_matches(const struct store_life *life, const struct store_life_filter *filter)
{
    return (!filter->has_state || life->state == filter->state) &&
           (filter->id.size == 0 || slice_equal(life->id, filter->id)) &&
           (filter->since_ms == 0 || life->created_ms >= filter->since_ms) &&
           (filter->until_ms == 0 || life->created_ms <= filter->until_ms);
}

/* ---- event ids ---- */

struct slice stores_event_slice(const unsigned char *event_id)
{
    return (struct slice){(const char *)event_id, STORE_EVENT_ID_BYTES};
}

void stores_copy_event_id(struct slice from, unsigned char *to)
{
    memset(to, 0, STORE_EVENT_ID_BYTES);
    if (from.size == STORE_EVENT_ID_BYTES)
        memcpy(to, from.data, from.size);
}

/* ---- the audit trail ---- */

void stores_repair_text(const struct event *repair, struct buffer *to)
{
    static const char *const place_names[PLACE_COUNT] = {
        [PLACE_HOT] = "memory",
        [PLACE_HOT_MEMBERS] = "members in memory",
        [PLACE_STORE] = "store",
        [PLACE_STORE_MEMBERS] = "members in the store",
    };
    to->size = 0;
    (void)buffer_printf(to, "%s was wrong%s%.*s: put right by ",
                        place_names[repair->place % PLACE_COUNT], repair->kind.size > 0 ? ", " : "",
                        SLICE_ARGS(repair->kind));
    (void)number_format(&repair->amount, to);
}

struct slice stores_letter_text(const unsigned char *event_id, char to[STORES_LETTER_TEXT_BYTES])
{
    int size = snprintf(to, STORES_LETTER_TEXT_BYTES, "event ");
    for (unsigned i = 0; i < STORE_EVENT_ID_BYTES; i++)
        size += snprintf(to + size, 3, "%02x", event_id[i]);
    return (struct slice){to, (size_t)size};
}
