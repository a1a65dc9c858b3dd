#include "sim/nodes/nodes_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/event.h"

/* What a node has appended and has not heard of, by lane. */
struct producer_lane {
    struct log_section *sections; /* owned; the oldest first */
    size_t count;
    size_t room;
    uint64_t appended; /* tickets */
    uint64_t reached;
    uint64_t alone;
    size_t next; /* behind what we heard of last, in the log */
};

struct producer {
    struct log base;
    struct log_model *model;
    unsigned node;
    struct producer_lane lanes[LIMIT_CELLS];
    struct producer *next; /* of those that were left */
};

static struct producer *producer_of(struct log *log)
{
    return (struct producer *)log;
}

/* --- sections --- */

static struct log_section copy_of(const char *bytes, size_t size)
{
    struct log_section copy = {.size = size, .bytes = memory_take(size)};
    memcpy(copy.bytes, bytes, size);
    return copy;
}

static void put(struct log_section **sections, size_t *count, size_t *room,
                struct log_section section)
{
    if (*count == *room) {
        *room = *room ? *room * 2 : 16;
        *sections = memory_resize(*sections, *room * sizeof(**sections));
    }
    (*sections)[(*count)++] = section;
}

static void drop_first(struct producer_lane *lane)
{
    free(lane->sections[0].bytes);
    lane->count--;
    memmove(lane->sections, lane->sections + 1, lane->count * sizeof(*lane->sections));
}

/* --- a node's log --- */

static enum err producer_start(struct log *log, struct error *error)
{
    (void)log, (void)error;
    return ERR_OK;
}

static uint64_t producer_append(struct log *log, struct slice header, struct slice body)
{
    struct producer *producer = producer_of(log);
    char *bytes = memory_take(header.size + body.size);
    memcpy(bytes, header.data, header.size);
    if (body.size > 0)
        memcpy(bytes + header.size, body.data, body.size);
    struct section_reader reader;
    enum err err = section_open(&reader, (struct slice){bytes, header.size + body.size}, NULL);
    assert(!err && reader.origin < LIMIT_CELLS);
    (void)err;
    struct producer_lane *lane = &producer->lanes[reader.origin];
    put(&lane->sections, &lane->count, &lane->room,
        (struct log_section){header.size + body.size, bytes});
    lane->appended++;
    if (producer->model->bug == NODES_BUG_LOG_ACK_FIRST)
        lane->reached = lane->appended;
    return lane->appended;
}

static enum err producer_room(struct log *log)
{
    (void)log;
    return ERR_OK;
}

static uint64_t producer_reached(struct log *log, unsigned lane, enum log_level level)
{
    (void)level;
    return producer_of(log)->lanes[lane].reached;
}

static uint64_t producer_alone(struct log *log, unsigned lane)
{
    const struct producer *producer = producer_of(log);
    return producer->model->bug == NODES_BUG_NO_OTHERS ? 0 : producer->lanes[lane].alone;
}

static enum err producer_follow(struct log *log, unsigned lane, struct log_position *at,
                                uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    struct log_model *model = producer_of(log)->model;
    if (model->down)
        return error_set(error, ERR_UNAVAILABLE, "the simulated log is down");
    const struct log_lane *from = &model->lanes[lane];
    if (at->offset > from->count)
        return error_set(error, ERR_INVALID, "lane %u ends before", lane);
    /* Sometimes less than there is. */
    uint64_t left = 1 + sim_rng_below(model->rng, 8);
    for (uint64_t bytes = 0; at->offset < from->count && bytes < limit && left > 0; left--) {
        const struct log_section *section = &from->sections[at->offset];
        struct log_position next = {0, at->offset + 1};
        enum err err = visit(arg, (struct slice){section->bytes, section->size}, next, error);
        if (err)
            return err;
        bytes += section->size;
        *at = next;
    }
    return ERR_OK;
}

static struct log_position producer_end(struct log *log, unsigned lane)
{
    return (struct log_position){0, producer_of(log)->model->lanes[lane].count};
}

static uint64_t producer_owned(struct log *log)
{
    const struct producer *producer = producer_of(log);
    return producer->model->owned[producer->node];
}

static void producer_stats(struct log *log, struct log_stats *ret_stats)
{
    const struct producer *producer = producer_of(log);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        ret_stats->pending_bytes += producer->lanes[lane].count;
    ret_stats->down_since_ms = (uint64_t)producer->model->down_since_ms;
}

static void producer_close(struct log *log)
{
    struct producer *producer = producer_of(log);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        while (producer->lanes[lane].count > 0)
            drop_first(&producer->lanes[lane]);
        free(producer->lanes[lane].sections);
    }
    free(producer);
}

static const struct log_ops producer_ops = {
    .name = "model",
    .start = producer_start,
    .append = producer_append,
    .room = producer_room,
    .reached = producer_reached,
    .alone = producer_alone,
    .follow = producer_follow,
    .end = producer_end,
    .owned = producer_owned,
    .stats = producer_stats,
    .close = producer_close,
};

/* --- delivering --- */

static void deliver_section(struct log_model *model, unsigned number,
                            const struct log_section *section)
{
    struct log_lane *lane = &model->lanes[number];
    put(&lane->sections, &lane->count, &lane->room, copy_of(section->bytes, section->size));
}

/* The first `count` sections of the lane get there, in order; perhaps all of them once more. */
static void deliver(struct producer *producer, unsigned number, size_t count, bool in_order)
{
    struct log_model *model = producer->model;
    struct producer_lane *lane = &producer->lanes[number];
    size_t at = model->lanes[number].count;
    for (size_t i = 0; i < count; i++)
        deliver_section(model, number, &lane->sections[i]);
    if (!in_order && sim_rng_chance(model->rng, model->unheard_permille)) {
        model->repeats++;
        return; /* nobody heard of it: they are sent again */
    }
    if (!in_order && sim_rng_chance(model->rng, model->repeat_permille)) {
        model->repeats++;
        for (size_t i = 0; i < count; i++)
            deliver_section(model, number, &lane->sections[i]);
    }
    if (at != lane->next)
        lane->alone = lane->reached + 1;
    lane->next = at + count;
    for (size_t i = 0; i < count; i++)
        drop_first(lane);
    lane->reached = lane->appended - lane->count;
    callback_run(&producer->base.progress);
}

static struct producer *pick_producer(struct log_model *model)
{
    unsigned pick = (unsigned)sim_rng_below(model->rng, NODES + 1);
    return pick < NODES ? model->producers[pick] : model->left;
}

void log_model_deliver(struct log_model *model)
{
    struct producer *producer = pick_producer(model);
    if (model->down || !producer)
        return;
    unsigned lane = (unsigned)sim_rng_below(model->rng, CELLS);
    size_t count = producer->lanes[lane].count;
    if (count > 0)
        deliver(producer, lane, 1 + sim_rng_below(model->rng, count), false);
}

static void settle_producer(struct producer *producer)
{
    for (unsigned lane = 0; lane < CELLS; lane++)
        if (producer->lanes[lane].count > 0)
            deliver(producer, lane, producer->lanes[lane].count, true);
}

void log_model_settle(struct log_model *model)
{
    for (struct producer *left = model->left; left; left = left->next)
        settle_producer(left);
    for (unsigned node = 0; node < NODES; node++)
        if (model->producers[node])
            settle_producer(model->producers[node]);
}

/* --- life --- */

void log_model_init(struct log_model *model, struct sim_rng *rng, enum nodes_bug bug,
                    int64_t *now_ms)
{
    *model = (struct log_model){.rng = rng, .bug = bug, .now_ms = now_ms};
}

void log_model_done(struct log_model *model)
{
    for (unsigned node = 0; node < NODES; node++)
        log_model_leave(model, node);
    while (model->left) {
        struct producer *next = model->left->next;
        producer_close(&model->left->base);
        model->left = next;
    }
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        for (size_t i = 0; i < model->lanes[lane].count; i++)
            free(model->lanes[lane].sections[i].bytes);
        free(model->lanes[lane].sections);
    }
}

struct log *log_model_open(struct log_model *model, unsigned node)
{
    assert(!model->producers[node]);

    struct producer *producer = memory_take_zeroed(sizeof(*producer));
    producer->base.ops = &producer_ops;
    producer->base.lanes = LIMIT_CELLS;
    producer->model = model;
    producer->node = node;
    model->producers[node] = producer;
    return &producer->base;
}

void log_model_leave(struct log_model *model, unsigned node)
{
    struct producer *producer = model->producers[node];
    if (!producer)
        return;
    callback_set(&producer->base.progress, NULL, NULL);
    producer->next = model->left;
    model->left = producer;
    model->producers[node] = NULL;
    model->owned[node] = 0;
}
