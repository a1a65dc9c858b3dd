/* delta.c - what a unit has done, or ought to do, as text: for `lives` and for people. */
#include "store/postgres/own.h"

static void write_number(struct postgres_store *store, const struct number *delta)
{
    store->delta.size = 0;
    (void)number_format(delta, &store->delta);
}

/* {"like":3,"dislike":-1} */
static void write_deltas(struct postgres_store *store, const int64_t *deltas)
{
    struct buffer *to = &store->delta;
    to->size = 0;
    char comma = '{';
    for (unsigned kind = 1; kind <= store->kinds.count; kind++) {
        if (deltas[kind] == 0)
            continue;
        (void)buffer_printf(to, "%c\"%.*s\":%lld", comma,
                            SLICE_ARGS(kind_names_at(&store->kinds, kind)),
                            (long long)deltas[kind]);
        comma = ',';
    }
    (void)buffer_printf(to, "%s", comma == '{' ? "{}" : "}");
}

void postgres_delta_done(struct postgres_store *store, const struct work *work)
{
    struct number zero = number_of(0);
    if (work->unit->is_item)
        write_deltas(store, postgres_deltas(store, work));
    else
        write_number(store, work->is_done ? &work->unit->delta : &zero);
}

void postgres_delta_expected(struct postgres_store *store, const struct store_unit *unit)
{
    if (!unit->is_item) {
        write_number(store, &unit->delta);
        return;
    }
    int64_t deltas[SETS_KINDS] = {0};
    for (size_t i = 0; i < unit->reaction_count; i++)
        stores_count_claimed(&store->kinds, &unit->reactions[i], deltas);
    write_deltas(store, deltas);
}
