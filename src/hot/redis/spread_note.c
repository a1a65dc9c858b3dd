/* spread_note.c - what the answers to writes tell of their pieces, and so of the sum. And what home
 * is told of a fold. */
#include <string.h>

#include "base/hash.h"
#include "hot/redis/ask.h"
#include "hot/redis/spread_own.h"

void spreads_note_counts(struct layer *layer, const struct op *op, unsigned cell,
                         const int64_t *counts)
{
    struct spread_entry *entry = spread_entry_of(op);
    const struct spread_part *known = entry->parts[cell];
    size_t size = layer->options.kinds->count * sizeof(*counts);
    if (!entry->has_map || !entry->map.is_item ||
        (known && known->is_known && known->incarnation == entry->incarnation &&
         memcmp(known->counts, counts, size) == 0))
        return;
    struct spread_part *part = total_part(entry, cell);
    memcpy(part->counts, counts, size);
    if (!part->is_known)
        part->as_of_ms = env_wall_ms(layer->env);
    part->is_known = true;
    part->incarnation = entry->incarnation;
    total_publish(entry);
}

static void note_value(struct spread_entry *entry, const struct op *op, unsigned cell)
{
    struct spread_part *part = total_part(entry, cell);
    number_done(&part->value);
    part->value = number_copy(&op->value);
    if (!part->is_known)
        part->as_of_ms = env_wall_ms(entry->layer->env);
    part->is_known = true;
    part->incarnation = entry->incarnation;
    total_publish(entry);
}

static void note_time(struct spread_entry *entry)
{
    int64_t now_ms = env_wall_ms(entry->layer->env);
    entry->written_ms = now_ms > entry->written_ms ? now_ms : entry->written_ms;
}

/* What is repeated is the answer of the first time, and says nothing of now. */
void spreads_note_write(struct layer *layer, struct op *op, unsigned cell)
{
    struct spread_entry *entry = spread_entry_of(op);
    if (!entry) {
        warmth_note(layer->spreads, op, cell);
        return;
    }
    entry->window_writes += op->changed;
    if (op->changed && !op->repeated)
        note_time(entry);
    if (!entry->has_map || (!entry->map.is_item && op->repeated))
        return;
    if (!entry->map.is_item)
        note_value(entry, op, cell);
    else if (!op->counts)
        return;
    struct op total = {.kind = entry->map.is_item ? OP_COUNTS : OP_GET, .counts = op->counts};
    total_answer(entry, &total);
    if (total.code == ERR_OK && !entry->map.is_item) {
        number_done(&op->value);
        op->value = total.value;
    }
}
