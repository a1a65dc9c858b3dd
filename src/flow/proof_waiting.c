/* proof_waiting.c - units that wait in the store: is what its lists say of them what they are made
 * of? Nobody applies anything by those lists, but what is given up is taken off by its delta. */
#include "flow/proof_own.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/uuid.h"
#include "core/stores.h"
#include "flow/coalesce.h"

#define STEP 16u /* units at once; what is wrong with them is told behind them */

struct finding {
    size_t id_size;
    char id[LIMIT_ID_BYTES];
    char line[320];
};

struct waits {
    struct proof *proof;
    struct coalesce *coalesce; /* owned */
    struct finding found[STEP];
    size_t count;
};

/* --- deltas of an item: {"like":3,"dislike":-1} --- */

/* The next one; false behind the last, and if it makes no sense. */
static bool next_delta(struct slice *left, struct slice *ret_name, int64_t *ret_by)
{
    const char *end = left->data + left->size;
    const char *name = left->size > 0 ? memchr(left->data, '"', left->size) : NULL;
    const char *quote = name ? memchr(name + 1, '"', (size_t)(end - name - 1)) : NULL;
    if (!quote || quote + 1 >= end || quote[1] != ':')
        return false;
    const char *digits = quote + 2;
    const char *stop = digits;
    while (stop < end && *stop != ',' && *stop != '}')
        stop++;
    *ret_name = (struct slice){name + 1, (size_t)(quote - name - 1)};
    *left = (struct slice){stop, (size_t)(end - stop)};
    return decimal_parse((struct slice){digits, (size_t)(stop - digits)}, ret_by);
}

static unsigned know_kind(struct kind_names *kinds, struct slice name)
{
    unsigned kind = kind_names_find(kinds, name);
    if (kind != SETS_KINDS || !kind_names_may_add(kinds, name))
        return kind;
    kind = ++kinds->count;
    kinds->sizes[kind] = (uint8_t)name.size;
    memcpy(kinds->names[kind], name.data, name.size);
    return kind;
}

/* Takes what the text says off the deltas. False: it makes no sense. */
static bool take_off(struct slice text, struct kind_names *kinds, int64_t deltas[SETS_KINDS])
{
    if (text.size < 2 || text.data[0] != '{' || text.data[text.size - 1] != '}')
        return false;
    struct slice name;
    int64_t by;
    struct slice left = text;
    while (next_delta(&left, &name, &by)) {
        unsigned kind = know_kind(kinds, name);
        if (kind == 0 || kind == SETS_KINDS)
            return false;
        deltas[kind] -= by;
    }
    return left.size == 1 || text.size == 2;
}

static bool is_delta_of_item(const struct desk *desk, const struct store_unit *unit,
                             struct slice text)
{
    struct kind_names kinds = {.count = 0};
    int64_t deltas[SETS_KINDS] = {0};
    for (uint8_t kind = 1; kind <= desk->kinds->count; kind++)
        (void)know_kind(&kinds, kinds_name(desk->kinds, kind));
    bool is_right = take_off(text, &kinds, deltas);
    for (size_t i = 0; i < unit->reaction_count; i++)
        stores_count_claimed(&kinds, &unit->reactions[i], deltas);
    for (unsigned kind = 1; kind <= kinds.count; kind++)
        is_right = is_right && deltas[kind] == 0;
    return is_right;
}

static bool is_delta_of_counter(const struct store_unit *unit, struct slice text)
{
    struct number delta = number_of(0);
    bool is_right =
        number_parse(text, &delta) == ERR_OK && number_compare(&delta, &unit->delta) == 0;
    number_done(&delta);
    return is_right;
}

/* --- a unit --- */

static const char *fault_of(struct waits *waits, const struct store_waiting *waiting)
{
    const struct desk *desk = waits->proof->seat->desk;
    struct store_unit *unit;
    struct error ignored;
    if (!waiting->agrees)
        return "the lists do not agree about it";
    if (coalesce_raw_unit(waits->coalesce, waiting->raw, waiting->event_id, &unit, &ignored))
        return "its events cannot be read";
    if (!slice_equal(unit->id, waiting->id))
        return "its events are of another id";
    bool is_right = unit->is_item ? is_delta_of_item(desk, unit, waiting->delta)
                                  : is_delta_of_counter(unit, waiting->delta);
    return is_right ? NULL : "its delta is not that of its events";
}

static void look_at_unit(void *arg, const struct store_waiting *waiting)
{
    struct waits *waits = arg;
    const char *fault = fault_of(waits, waiting);
    if (!fault || waits->count == STEP)
        return;
    struct finding *finding = &waits->found[waits->count++];
    char id[128];
    char event[UUID_TEXT_BYTES];
    finding->id_size = waiting->id.size < LIMIT_ID_BYTES ? waiting->id.size : LIMIT_ID_BYTES;
    memcpy(finding->id, waiting->id.data, finding->id_size);
    uuid_format(waiting->event_id, event);
    (void)snprintf(finding->line, sizeof(finding->line), "id=%s event=%.*s delta=%.*s fault=\"%s\"",
                   message_quote(id, sizeof(id), waiting->id), (int)UUID_TEXT_BYTES, event,
                   (int)(waiting->delta.size < 64 ? waiting->delta.size : 64), waiting->delta.data,
                   fault);
}

/* The store is written to behind its reader's moment. */
static void tell_all(struct waits *waits)
{
    for (size_t i = 0; i < waits->count; i++) {
        const struct finding *finding = &waits->found[i];
        proof_tell(waits->proof, "a unit that waits is not what was written there",
                   (struct slice){finding->id, finding->id_size}, finding->line);
    }
    waits->count = 0;
}

enum err proof_check_waiting(struct proof *proof, struct error *error)
{
    struct desk *desk = proof->seat->desk;
    struct store_reader *reader;
    struct waits *waits = memory_take_zeroed(sizeof(*waits));
    waits->proof = proof;
    waits->coalesce = coalesce_new(desk->options.env, desk->kinds);
    uint64_t cursor = 0;
    enum err err;
    do {
        err = seat_reader(proof->seat, &reader, error);
        if (!err)
            err = store_waiting(reader, &cursor, STEP, look_at_unit, waits, error);
        tell_all(waits);
    } while (!err && cursor != 0 && !seat_must_stop(proof->seat));
    coalesce_free(waits->coalesce);
    free(waits);
    return err;
}
