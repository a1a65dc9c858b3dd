#include "hot/redis/open.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/message.h"
#include "core/event.h"
#include "core/sequence.h"
#include "hot/redis/ask.h"
#include "hot/redis/cluster.h"
#include "hot/redis/lease.h"
#include "hot/redis/outbox.h"
#include "hot/redis/spread.h"

struct opens *opens_new(struct layer *layer)
{
    struct opens *opens = memory_take_zeroed(sizeof(*opens));
    opens->outboxes = outboxes_new(layer);
    opens->leases = leases_new(layer);
    return opens;
}

void opens_free(struct opens *opens)
{
    if (!opens)
        return;
    outboxes_free(opens->outboxes);
    leases_free(opens->leases);
    free(opens);
}

/* ---- what is known ---- */

/* A cell was opened, by us or by another node. */
struct news {
    struct layer *layer;
    unsigned cell;
    bool is_ours;
};

static void tell_opened(void *arg)
{
    struct news *news = arg;
    runs_cell_opened(news->layer, news->cell);
    atomic_fetch_and(&news->layer->opens->untold, ~(UINT64_C(1) << news->cell));
    if (news->is_ours)
        spreads_cell_opened(news->layer, news->cell);
    free(news);
}

static void note_opened(struct layer *layer, unsigned cell, bool is_ours)
{
    atomic_fetch_or(&layer->opens->untold, UINT64_C(1) << cell);
    atomic_fetch_and(&layer->opens->closed, ~(UINT64_C(1) << cell));
    struct news *news = memory_take(sizeof(*news));
    *news = (struct news){.layer = layer, .cell = cell, .is_ours = is_ours};
    if (!layer_post(layer, tell_opened, news))
        free(news);
}

void opens_saw(struct layer *layer, unsigned cell, bool is_open)
{
    assert(cell < LIMIT_CELLS);

    uint64_t bit = UINT64_C(1) << cell;
    if (is_open && opens_closed_now(layer) & bit)
        note_opened(layer, cell, false);
    if (is_open || atomic_fetch_or(&layer->opens->closed, bit) & bit)
        return;
    callback_run(&layer->outbox.wake);
}

void opens_met_closed(struct layer *layer, unsigned cell)
{
    opens_saw(layer, cell, false);
}

uint64_t opens_closed_now(struct layer *layer)
{
    return atomic_load(&layer->opens->closed);
}

/* In the order in which a cell goes through these, so that it is met in one of them. */
uint64_t opens_doubtful(struct layer *layer)
{
    const struct opens *opens = layer->opens;
    uint64_t cells = 0;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (atomic_load(&opens->looked_ns[cell]) <= cluster_changed_ns(layer->cluster, cell))
            cells |= UINT64_C(1) << cell;
    cells |= atomic_load(&opens->closed);
    return cells | atomic_load(&opens->untold);
}

uint64_t opens_closed(struct outbox *outbox)
{
    return opens_closed_now(ask_layer(outbox));
}

/* ---- opening ---- */

static void init_call(struct call *call, struct layer *layer, unsigned cell, const char *verb)
{
    call_init(call, layer, cell, SCRIPT_OPEN);
    call_key(call, "out");
    call_key(call, "pieces");
    call_arg_text(call, verb);
    call_arg_text(call, layer->node);
}

struct begun {
    enum err code;
    uint64_t epoch;
    uint64_t last;
    uint64_t since;
};

static void take_begun(void *arg, const struct redisReply *reply)
{
    struct begun *begun = arg;
    begun->code = reply_is(reply, "new") ? ERR_OK : reply_is(reply, "open") ? ERR_EXISTS : ERR_BUSY;
    begun->epoch = reply_number_at(reply, 1);
    begun->last = sequence_of(reply_number_at(reply, 2), reply_number_at(reply, 3));
    begun->since = reply_number_at(reply, 4);
}

enum err opens_begin(struct outbox *outbox, unsigned cell, uint64_t epoch, uint64_t *ret_epoch,
                     uint64_t *ret_last, struct error *error)
{
    assert(cell < LIMIT_CELLS);

    struct layer *layer = ask_layer(outbox);
    struct begun begun = {.code = ERR_UNAVAILABLE};
    struct call call;
    init_call(&call, layer, cell, "begin");
    call_arg_number(&call, epoch);
    enum err err = ask(&call, take_begun, &begun);
    call_done(&call);
    if (err)
        return error_set(error, ERR_UNAVAILABLE, "cell %u: Redis does not answer", cell);
    if (begun.code == ERR_EXISTS)
        opens_saw(layer, cell, true);
    if (begun.code == ERR_BUSY)
        return error_set(error, ERR_BUSY, "cell %u: another node is opening it", cell);
    if (begun.code)
        return error_set(error, begun.code, "cell %u is open", cell);
    layer->opens->since[cell] = begun.since;
    *ret_epoch = begun.epoch;
    *ret_last = begun.last;
    return ERR_OK;
}

struct opened {
    enum err code;
    uint64_t left;
};

static void take_opened(void *arg, const struct redisReply *reply)
{
    struct opened *opened = arg;
    opened->code = reply_is(reply, "ok") ? ERR_OK : reply_is(reply, "left") ? ERR_EXISTS : ERR_BUSY;
    opened->left = reply_number_at(reply, 1);
}

enum err opens_open(struct outbox *outbox, unsigned cell, uint64_t epoch, uint64_t n, bool keep,
                    uint32_t incarnations, struct error *error)
{
    assert(cell < LIMIT_CELLS);

    struct layer *layer = ask_layer(outbox);
    struct section first_events;
    section_init(&first_events);
    /* What is spread from here has pieces elsewhere, which nobody will find any more. */
    if (!keep && spreads_release(layer, cell, layer->opens->since[cell], &first_events)) {
        section_done(&first_events);
        return error_set(error, ERR_UNAVAILABLE,
                         "cell %u: what was spread from it is not all in the store yet", cell);
    }
    struct opened opened = {.code = ERR_UNAVAILABLE};
    struct call call;
    init_call(&call, layer, cell, "open");
    call_arg_number(&call, epoch);
    call_arg_number(&call, keep);
    call_arg_number(&call, incarnations);
    call_arg_number(&call, n);
    call_arg(&call, buffer_slice(&first_events.body));
    call_arg_number(&call, first_events.count);
    enum err err = ask(&call, take_opened, &opened);
    call_done(&call);
    if (first_events.count > 0)
        atomic_fetch_or(&layer->opens->dirty, UINT64_C(1) << cell);
    section_done(&first_events);
    if (err)
        return error_set(error, ERR_UNAVAILABLE, "cell %u: Redis does not answer", cell);
    if (opened.code == ERR_EXISTS)
        return error_set(error, ERR_EXISTS, "cell %u: %" PRIu64 " entries are left in its outbox",
                         cell, opened.left);
    if (opened.code)
        return error_set(error, opened.code, "cell %u: another node has begun anew", cell);
    note_opened(layer, cell, true);
    return ERR_OK;
}
