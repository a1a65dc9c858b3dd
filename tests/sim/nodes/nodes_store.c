#include "sim/nodes/nodes_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct store_view {
    struct store base;
    struct store_model *model;
};

static struct store_model *model_of(struct store *store)
{
    return ((struct store_view *)store)->model;
}

static bool is_down(struct store_model *model)
{
    return model->down || sim_rng_chance(model->rng, model->down_permille);
}

static enum err unavailable(struct error *error)
{
    return error_set(error, ERR_UNAVAILABLE, "the simulated store is down");
}

static enum err view_mark(struct store *store, struct state_mark *ret_mark, struct error *error)
{
    struct store_model *model = model_of(store);
    if (is_down(model))
        return unavailable(error);
    *ret_mark = model->rows.mark;
    if (model->bug != NODES_BUG_NO_GIVEN)
        memcpy(ret_mark->given, model->epochs, sizeof(ret_mark->given));
    return ERR_OK;
}

static enum err view_epoch(struct store *store, unsigned origin, uint64_t above,
                           uint64_t *ret_epoch, struct error *error)
{
    struct store_model *model = model_of(store);
    if (is_down(model))
        return unavailable(error);
    uint64_t *epoch = &model->epochs[origin];
    *epoch = (*epoch > above ? *epoch : above) + 1;
    *ret_epoch = model->bug == NODES_BUG_EPOCH_AGAIN ? above + 1 : *epoch;
    return ERR_OK;
}

static bool is_where(const struct store_model *model, const struct store_batch *batch)
{
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (batch->lanes >> lane & 1 &&
            model->rows.mark.sequences[lane] != batch->before_sequences[lane])
            return false;
        if (model->rows.mark.sequences[lane] < batch->needed_sequences[lane])
            return false;
    }
    return true;
}

static void apply_unit(struct store_rows *rows, struct store_unit *unit)
{
    unit->code = ERR_OK;
    unsigned number = number_in(unit->id);
    if (!unit->is_item) {
        assert(number < COUNTERS && !unit->delta.big);
        rows->values[number] += unit->delta.small;
        return;
    }
    assert(number < ITEMS);
    for (size_t i = 0; i < unit->reaction_count; i++) {
        const struct store_reaction *reaction = &unit->reactions[i];
        rows->held[number][number_in(reaction->user)] = (uint8_t)held_of(reaction->after);
    }
}

static void move_mark(struct state_mark *mark, const struct store_batch *batch)
{
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (!(batch->lanes >> lane & 1))
            continue;
        mark->sequences[lane] = batch->after.sequences[lane];
        mark->lanes[lane] = batch->after.lanes[lane];
        mark->ended[lane] = batch->after.ended[lane];
    }
}

static enum err view_apply(struct store *store, struct store_batch *batch, struct error *error)
{
    struct store_model *model = model_of(store);
    assert(batch->lanes != 0);
    if (is_down(model))
        return unavailable(error);
    if (model->bug != NODES_BUG_STORE_NO_CHECK && !is_where(model, batch))
        return error_set(error, ERR_INVALID, "another has been here");
    for (size_t i = 0; i < batch->unit_count; i++)
        apply_unit(&model->rows, &batch->units[i]);
    model->batches++;
    if (model->bug == NODES_BUG_MARK_APART && sim_rng_chance(model->rng, 100))
        return unavailable(error);
    move_mark(&model->rows.mark, batch);
    batch->after = model->rows.mark;
    if (sim_rng_chance(model->rng, model->lost_permille)) {
        model->losses++;
        return error_set(error, ERR_UNAVAILABLE, "the answer to the commit was lost");
    }
    return ERR_OK;
}

static enum err view_due(struct store *store, int64_t now_ms, store_letter_fn *visit, void *arg,
                         struct error *error)
{
    (void)store, (void)now_ms, (void)visit, (void)arg, (void)error;
    return ERR_NOT_FOUND;
}

static enum err view_thin(struct store *store, int64_t lives_before_ms, int64_t history_before_ms,
                          int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                          struct error *error)
{
    (void)store, (void)lives_before_ms, (void)history_before_ms, (void)keys_before_ms;
    (void)limit, (void)error;
    *ret_removed = 0;
    return ERR_OK;
}

static enum err view_rest(struct store *store, struct error *error)
{
    (void)store, (void)error;
    return ERR_OK;
}

static void view_stats(struct store *store, struct store_stats *ret_stats)
{
    (void)store;
    *ret_stats = (struct store_stats){0};
}

static void view_close(struct store *store)
{
    free(store);
}

static const struct store_ops view_ops = {
    .name = "model",
    .mark = view_mark,
    .epoch = view_epoch,
    .apply = view_apply,
    .due = view_due,
    .thin = view_thin,
    .rest = view_rest,
    .stats = view_stats,
    .close = view_close,
};

void store_model_init(struct store_model *model, struct sim_rng *rng, enum nodes_bug bug)
{
    *model = (struct store_model){.rng = rng, .bug = bug};
    for (unsigned node = 0; node < NODES; node++) {
        struct store_view *view = memory_take_zeroed(sizeof(*view));
        view->base.ops = &view_ops;
        view->model = model;
        model->views[node] = &view->base;
    }
}

void store_model_done(struct store_model *model)
{
    for (unsigned node = 0; node < NODES; node++)
        store_close(model->views[node]);
}

void store_model_replicate(struct store_model *model)
{
    model->standby = model->rows;
}

void store_model_fail_over(struct store_model *model)
{
    model->rows = model->standby;
}
