#include "core/store.h"

#include <assert.h>

enum err store_mark(struct store *store, struct state_mark *ret_mark, struct error *error)
{
    assert(store && ret_mark);

    return store->ops->mark(store, ret_mark, error);
}

enum err store_epoch(struct store *store, unsigned origin, uint64_t above, uint64_t *ret_epoch,
                     struct error *error)
{
    assert(store && ret_epoch && origin < LIMIT_CELLS && store->ops->epoch);

    enum err err = store->ops->epoch(store, origin, above, ret_epoch, error);
    assert(err || *ret_epoch > above);
    return err;
}

enum err store_kinds(struct store *store, store_kind_fn *visit, void *arg, struct error *error)
{
    assert(store && visit);

    return store->ops->kinds ? store->ops->kinds(store, visit, arg, error) : ERR_OK;
}

enum err store_apply(struct store *store, struct store_batch *batch, struct error *error)
{
    assert(store && batch);

    return store->ops->apply(store, batch, error);
}

enum err store_due(struct store *store, int64_t now_ms, store_letter_fn *visit, void *arg,
                   struct error *error)
{
    assert(store && visit);

    return store->ops->due(store, now_ms, visit, arg, error);
}

enum err store_retry(struct store *store, struct store_unit *unit, int64_t now_ms,
                     struct error *error)
{
    assert(store && unit);

    return store->ops->retry(store, unit, now_ms, error);
}

enum err store_redrive(struct store *store, const unsigned char *event_id, int64_t now_ms,
                       uint64_t *ret_count, struct error *error)
{
    assert(store && ret_count);

    return store->ops->redrive(store, event_id, now_ms, ret_count, error);
}

enum err store_discard(struct store *store, const unsigned char *event_id, int64_t now_ms,
                       uint64_t *ret_count, struct error *error)
{
    assert(store && ret_count);

    return store->ops->discard(store, event_id, now_ms, ret_count, error);
}

enum err store_thin(struct store *store, int64_t lives_before_ms, int64_t history_before_ms,
                    int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                    struct error *error)
{
    assert(store && ret_removed);
    assert(limit > 0);

    return store->ops->thin(store, lives_before_ms, history_before_ms, keys_before_ms, limit,
                            ret_removed, error);
}

enum err store_mend(struct store *store, struct slice id, uint32_t incarnation, struct slice kind,
                    const struct number *by, struct slice text, int64_t now_ms, struct error *error)
{
    assert(store && by);

    return store->ops->mend(store, id, incarnation, kind, by, text, now_ms, error);
}

enum err store_mend_life(struct store *store, struct slice id, uint32_t incarnation, uint32_t life,
                         struct slice text, int64_t now_ms, struct error *error)
{
    assert(store);

    return store->ops->mend_life(store, id, incarnation, life, text, now_ms, error);
}

enum err store_mend_members(struct store *store, struct slice item,
                            const struct store_reaction *members, size_t count, const uint64_t *at,
                            struct slice text, int64_t now_ms, struct error *error)
{
    assert(store);

    return store->ops->mend_members(store, item, members, count, at, text, now_ms, error);
}

enum err store_mending(struct store *store, bool begin, bool *ret_is_ours, struct error *error)
{
    assert(store && ret_is_ours);

    *ret_is_ours = true;
    return store->ops->mending ? store->ops->mending(store, begin, ret_is_ours, error) : ERR_OK;
}

enum err store_make(struct store *store, const struct state_target *target, struct slice text,
                    int64_t now_ms, struct error *error)
{
    assert(store && target && !target->absent);

    return store->ops->make(store, target, text, now_ms, error);
}

enum err store_note(struct store *store, const struct store_audit *audit, struct error *error)
{
    assert(store && audit);

    return store->ops->note(store, audit, error);
}

enum err store_rebase(struct store *store, const struct slice *ids, const struct number *sums,
                      size_t count, struct log_position position, struct error *error)
{
    assert(store);

    return store->ops->rebase(store, ids, sums, count, position, error);
}

enum err store_erase(struct store *store, struct slice user, struct slice stub, int64_t now_ms,
                     uint64_t *ret_rows, struct error *error)
{
    assert(store && ret_rows);

    return store->ops->erase(store, user, stub, now_ms, ret_rows, error);
}

enum err store_rest(struct store *store, struct error *error)
{
    assert(store);

    return store->ops->rest(store, error);
}

enum err store_reader_open(struct store *store, struct store_reader **ret, struct error *error)
{
    assert(store && ret);

    return store->ops->reader_open(store, ret, error);
}

void store_reader_close(struct store_reader *reader)
{
    if (reader)
        reader->store->ops->reader_close(reader);
}

enum err store_load(struct store_reader *reader, struct slice id, store_target_fn *visit, void *arg,
                    struct error *error)
{
    assert(reader && visit);

    return reader->store->ops->load(reader, id, visit, arg, error);
}

bool store_loads_many(const struct store *store)
{
    assert(store);

    return store->ops->load_many != NULL;
}

enum err store_load_many(struct store_reader *reader, const struct slice *ids, size_t count,
                         store_targets_fn *visit, void *arg, struct error *error)
{
    assert(reader && ids && visit);
    assert(store_loads_many(reader->store));

    return reader->store->ops->load_many(reader, ids, count, visit, arg, error);
}

enum err store_load_slice(struct store_reader *reader, struct slice item, uint32_t slice,
                          store_members_fn *visit, void *arg, struct error *error)
{
    assert(reader && visit);
    assert(slice < STATE_SLICES);

    return reader->store->ops->load_slice(reader, item, slice, visit, arg, error);
}

enum err store_find_user(struct store_reader *reader, struct slice name, uint32_t *ret_number,
                         struct error *error)
{
    assert(reader && ret_number);

    return reader->store->ops->find_user(reader, name, ret_number, error);
}

enum err store_names(struct store_reader *reader, const uint32_t *numbers, size_t count,
                     store_name_fn *visit, void *arg, struct error *error)
{
    assert(reader && visit);

    return reader->store->ops->names(reader, numbers, count, visit, arg, error);
}

enum err store_find_key(struct store_reader *reader, uint64_t low, uint64_t high,
                        store_key_fn *visit, void *arg, struct error *error)
{
    assert(reader && visit);

    return reader->store->ops->find_key(reader, low, high, visit, arg, error);
}

bool store_seen(struct store_reader *reader, uint64_t ret_sequences[LIMIT_CELLS])
{
    assert(reader && ret_sequences);

    if (!reader->store->ops->seen)
        return false;
    reader->store->ops->seen(reader, ret_sequences);
    return true;
}

bool store_seen_ms(struct store_reader *reader, int64_t ret_times_ms[LIMIT_CELLS])
{
    assert(reader && ret_times_ms);

    if (!reader->store->ops->seen_ms)
        return false;
    reader->store->ops->seen_ms(reader, ret_times_ms);
    return true;
}

enum err store_hashes(struct store_reader *reader, bool users, uint64_t *cursor, uint32_t limit,
                      store_hash_fn *visit, void *arg, struct error *error)
{
    assert(reader && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->hashes(reader, users, cursor, limit, visit, arg, error);
}

enum err store_keys(struct store_reader *reader, int64_t since_ms, uint64_t *cursor, uint32_t limit,
                    store_key_fn *visit, void *arg, struct error *error)
{
    assert(reader && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->keys(reader, since_ms, cursor, limit, visit, arg, error);
}

enum err store_scan(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                    store_target_fn *visit, void *arg, struct error *error)
{
    assert(reader && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->scan(reader, cursor, limit, visit, arg, error);
}

enum err store_items_of(struct store_reader *reader, struct slice user, uint64_t *cursor,
                        uint32_t limit, store_item_fn *visit, void *arg, struct error *error)
{
    assert(reader && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->items_of(reader, user, cursor, limit, visit, arg, error);
}

enum err store_lives(struct store_reader *reader, const struct store_life_filter *filter,
                     uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                     struct error *error)
{
    assert(reader && filter && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->lives(reader, filter, cursor, limit, visit, arg, error);
}

enum err store_letters(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                       store_letter_fn *visit, void *arg, struct error *error)
{
    assert(reader && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->letters(reader, cursor, limit, visit, arg, error);
}

enum err store_letter(struct store_reader *reader, const unsigned char *event_id,
                      store_letter_fn *visit, void *arg, struct error *error)
{
    assert(reader && event_id && visit);

    return reader->store->ops->letter(reader, event_id, visit, arg, error);
}

enum err store_past(struct store_reader *reader, struct slice item, struct slice user,
                    uint64_t *cursor, uint32_t limit, store_past_fn *visit, void *arg,
                    struct error *error)
{
    assert(reader && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->past(reader, item, user, cursor, limit, visit, arg, error);
}

enum err store_audits(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                      store_audit_fn *visit, void *arg, struct error *error)
{
    assert(reader && cursor && visit);
    assert(limit > 0);

    return reader->store->ops->audits(reader, cursor, limit, visit, arg, error);
}

enum err store_waiting(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                       store_waiting_fn *visit, void *arg, struct error *error)
{
    assert(reader && cursor && visit && limit > 0);

    if (reader->store->ops->waiting)
        return reader->store->ops->waiting(reader, cursor, limit, visit, arg, error);
    *cursor = 0;
    return ERR_OK;
}

enum err store_base(struct store_reader *reader, struct slice id, struct number *ret_sum,
                    struct number *ret_discarded, struct log_position *ret_position,
                    struct error *error)
{
    assert(reader && ret_sum && ret_discarded && ret_position);

    return reader->store->ops->base(reader, id, ret_sum, ret_discarded, ret_position, error);
}

enum err store_inspect(struct store_reader *reader, struct slice id, struct slice kind,
                       struct number *ret_value, int64_t *ret_members, struct state_mark *ret_mark,
                       struct error *error)
{
    assert(reader && ret_value && ret_members && ret_mark);

    return reader->store->ops->inspect(reader, id, kind, ret_value, ret_members, ret_mark, error);
}

void store_stats(struct store *store, struct store_stats *ret_stats)
{
    assert(store && ret_stats);

    *ret_stats = (struct store_stats){0};
    store->ops->stats(store, ret_stats);
}

void store_close(struct store *store)
{
    if (store)
        store->ops->close(store);
}
