#include "hot/redis/outbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "core/sequence.h"
#include "hot/redis/ask.h"
#include "hot/redis/entry.h"
#include "hot/redis/lease.h"
#include "hot/redis/open.h"

#define READ_BYTES_MAX ((size_t)256 << 20) /* of one cell's entries in one reading */

/* A call to a cell, and what came back of it. */
struct errand {
    unsigned cell;
    struct buffer entries; /* READ: struct entry_head, its bytes, and so on */
    uint64_t sequence;     /* PROGRESS */
    bool is_stale;         /* RELAYED */
    bool is_opening;       /* PROGRESS */
};

/* How an entry lies in an errand's buffer; `size` bytes follow. */
struct entry_head {
    uint64_t epoch;
    uint64_t first;
    uint64_t last;
    int64_t time_ms;
    bool is_raw;
    uint32_t size;
};

struct outboxes {
    struct layer *layer; /* borrowed */
    struct call calls[LIMIT_CELLS];
    struct errand errands[LIMIT_CELLS];
    struct buffer section;
};

struct outboxes *outboxes_new(struct layer *layer)
{
    struct outboxes *outboxes = memory_take_zeroed(sizeof(*outboxes));
    outboxes->layer = layer;
    buffer_init(&outboxes->section, READ_BYTES_MAX);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        call_init(&outboxes->calls[i], layer, i, SCRIPT_OUTBOX);
        buffer_init(&outboxes->errands[i].entries, READ_BYTES_MAX);
    }
    return outboxes;
}

void outboxes_free(struct outboxes *outboxes)
{
    if (!outboxes)
        return;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        call_done(&outboxes->calls[i]);
        buffer_done(&outboxes->errands[i].entries);
    }
    buffer_done(&outboxes->section);
    free(outboxes);
}

/* ---- who has written ---- */

void outbox_note_written(struct layer *layer, unsigned cell)
{
    uint64_t bit = UINT64_C(1) << cell;
    if (atomic_load_explicit(&layer->opens->dirty, memory_order_relaxed) & bit)
        return;
    atomic_fetch_or(&layer->opens->dirty, bit);
    callback_run(&layer->outbox.wake);
}

static uint64_t outbox_dirty(struct outbox *outbox)
{
    return atomic_exchange(&ask_layer(outbox)->opens->dirty, 0);
}

/* ---- a call to each of some cells ---- */

/* The next call is one to `cell`, with the outbox as its second key. */
static struct call *add_call(struct outboxes *outboxes, size_t *count, unsigned cell,
                             const char *verb)
{
    struct call *call = &outboxes->calls[*count];
    struct errand *errand = &outboxes->errands[*count];
    errand->cell = cell;
    errand->entries.size = 0;
    errand->sequence = 0;
    errand->is_stale = errand->is_opening = false;
    call_clear(call, cell, SCRIPT_OUTBOX);
    call_key(call, "out");
    call_arg_text(call, verb);
    ++*count;
    return call;
}

/* The mask of those that answered. */
static uint64_t ask_cells(struct outboxes *outboxes, size_t count, ask_take_fn *take)
{
    void *args[LIMIT_CELLS];
    enum err codes[LIMIT_CELLS];
    uint64_t answered = 0;
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        args[i] = &outboxes->errands[i];
    ask_all(outboxes->calls, count, codes, take, args);
    for (size_t i = 0; i < count; i++)
        if (!codes[i])
            answered |= UINT64_C(1) << outboxes->errands[i].cell;
    return answered;
}

static enum err none_answered(struct error *error)
{
    return error_set(error, ERR_UNAVAILABLE, "Redis does not answer");
}

/* ---- reading ---- */

/* "<epoch>-<n>" */
static bool parse_id(struct slice id, uint64_t *ret_epoch, uint64_t *ret_n)
{
    const char *dash = id.size > 0 ? memchr(id.data, '-', id.size) : NULL;
    if (!dash)
        return false;
    size_t front = (size_t)(dash - id.data);
    return decimal_parse_unsigned((struct slice){id.data, front}, ret_epoch) &&
           decimal_parse_unsigned((struct slice){dash + 1, id.size - front - 1}, ret_n);
}

/* [id, [f, first, t, ms, d or b, bytes]] */
static bool parse_entry(const struct redisReply *reply, struct entry_head *ret, struct slice *bytes)
{
    bool has_fields = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                      reply->element[1]->type == REDIS_REPLY_ARRAY &&
                      reply->element[1]->elements >= 6;
    if (!has_fields || !parse_id(reply_text_at(reply, 0), &ret->epoch, &ret->last))
        return false;
    const struct redisReply *fields = reply->element[1];
    ret->first = reply_number_at(fields, 1);
    ret->time_ms = (int64_t)reply_number_at(fields, 3);
    ret->is_raw = slice_equal(reply_text_at(fields, 4), SLICE("b"));
    *bytes = reply_text_at(fields, 5);
    ret->size = (uint32_t)bytes->size;
    return true;
}

/* What cannot be understood is kept with no bytes, so that the reader is told. */
static void take_entries(void *arg, const struct redisReply *reply)
{
    struct errand *errand = arg;
    if (reply->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i < (size_t)reply->elements; i++) {
        struct entry_head head = {.size = 0};
        struct slice bytes = {NULL, 0};
        if (!parse_entry(reply->element[i], &head, &bytes))
            head.size = 0;
        if (buffer_reserve(&errand->entries, sizeof(head) + head.size))
            return; /* the rest is read the next time */
        (void)buffer_append(&errand->entries, &head, sizeof(head));
        (void)buffer_append(&errand->entries, bytes.data, head.size);
    }
}

static enum err visit_entry(struct outboxes *outboxes, unsigned cell, const struct entry_head *head,
                            struct slice bytes, outbox_visit_fn *visit, void *arg,
                            struct error *error)
{
    if (head->size == 0 || head->first == 0 || head->first > head->last)
        return error_set(error, ERR_CORRUPT, "cell %u: an entry of its outbox makes no sense",
                         cell);
    outboxes->section.size = 0;
    enum err err = entry_section(cell, sequence_of(head->epoch, head->first),
                                 sequence_of(head->epoch, head->last), head->time_ms, bytes,
                                 head->is_raw, &outboxes->section, error);
    return err ? err
               : visit(arg, cell, buffer_slice(&outboxes->section),
                       sequence_of(head->epoch, head->last), error);
}

static enum err visit_entries(struct outboxes *outboxes, const struct errand *errand,
                              outbox_visit_fn *visit, void *arg, struct error *error)
{
    enum err err = ERR_OK;
    for (size_t at = 0; at < errand->entries.size && !err;) {
        struct entry_head head;
        memcpy(&head, errand->entries.data + at, sizeof(head));
        struct slice bytes = {errand->entries.data + at + sizeof(head), head.size};
        at += sizeof(head) + head.size;
        err = visit_entry(outboxes, errand->cell, &head, bytes, visit, arg, error);
    }
    return err;
}

static enum err outbox_read(struct outbox *outbox, uint64_t cells,
                            const uint64_t after[LIMIT_CELLS], uint32_t limit,
                            outbox_visit_fn *visit, void *arg, struct error *error)
{
    struct outboxes *outboxes = ask_layer(outbox)->opens->outboxes;
    size_t count = 0;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        if (!(cells & UINT64_C(1) << cell))
            continue;
        struct call *call = add_call(outboxes, &count, cell, "read");
        call_arg_number(call, sequence_epoch(after[cell]));
        call_arg_number(call, sequence_n(after[cell]));
        call_arg_number(call, limit);
    }
    if (count > 0 && ask_cells(outboxes, count, take_entries) == 0)
        return none_answered(error);
    enum err first = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        /* A cell with an entry that makes no sense does not keep the others. */
        if (first == ERR_OK || first == ERR_CORRUPT) {
            enum err err = visit_entries(outboxes, &outboxes->errands[i], visit, arg,
                                         first == ERR_OK ? error : NULL);
            first = first == ERR_OK ? err : first;
        }
        buffer_shrink(&outboxes->errands[i].entries, (size_t)1 << 20);
    }
    return first;
}

/* ---- how far the log is ---- */

static void take_relayed(void *arg, const struct redisReply *reply)
{
    ((struct errand *)arg)->is_stale = !reply_is(reply, "ok");
}

static enum err outbox_relayed(struct outbox *outbox, uint64_t cells,
                               const uint64_t sequences[LIMIT_CELLS],
                               const uint64_t openings[LIMIT_CELLS], uint64_t *ret_told,
                               uint64_t *ret_stale, struct error *error)
{
    struct outboxes *outboxes = ask_layer(outbox)->opens->outboxes;
    size_t count = 0;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        if (!(cells & UINT64_C(1) << cell))
            continue;
        struct call *call = add_call(outboxes, &count, cell, "relayed");
        call_arg_number(call, sequence_epoch(sequences[cell]));
        call_arg_number(call, sequence_n(sequences[cell]));
        call_arg_number(call, openings ? openings[cell] : 0);
    }
    *ret_told = ask_cells(outboxes, count, take_relayed);
    *ret_stale = 0;
    for (size_t i = 0; i < count; i++)
        if (outboxes->errands[i].is_stale)
            *ret_stale |= UINT64_C(1) << outboxes->errands[i].cell;
    return count > 0 && *ret_told == 0 ? none_answered(error) : ERR_OK;
}

static void take_nothing(void *arg, const struct redisReply *reply)
{
    (void)arg, (void)reply;
}

static enum err outbox_saved(struct outbox *outbox, uint64_t cells,
                             const uint64_t sequences[LIMIT_CELLS], struct error *error)
{
    struct outboxes *outboxes = ask_layer(outbox)->opens->outboxes;
    size_t count = 0;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        if (!(cells & UINT64_C(1) << cell))
            continue;
        struct call *call = add_call(outboxes, &count, cell, "saved");
        call_arg_number(call, sequence_epoch(sequences[cell]));
        call_arg_number(call, sequence_n(sequences[cell]));
    }
    uint64_t told = ask_cells(outboxes, count, take_nothing);
    return count > 0 && told == 0 ? none_answered(error) : ERR_OK;
}

static void take_progress(void *arg, const struct redisReply *reply)
{
    struct errand *errand = arg;
    uint64_t epoch;
    uint64_t n;
    if (parse_id(reply_text_at(reply, 0), &epoch, &n))
        errand->sequence = sequence_of(epoch, n);
    errand->is_opening = slice_equal(reply_text_at(reply, 1), SLICE("opening"));
}

static enum err outbox_progress(struct outbox *outbox, uint64_t cells,
                                uint64_t ret_sequences[LIMIT_CELLS], uint64_t *ret_opening,
                                struct error *error)
{
    struct outboxes *outboxes = ask_layer(outbox)->opens->outboxes;
    size_t count = 0;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (cells & UINT64_C(1) << cell)
            (void)add_call(outboxes, &count, cell, "progress");
    if (count > 0 && ask_cells(outboxes, count, take_progress) == 0)
        return none_answered(error);
    *ret_opening = 0;
    for (size_t i = 0; i < count; i++) {
        const struct errand *errand = &outboxes->errands[i];
        ret_sequences[errand->cell] = errand->sequence;
        if (errand->is_opening)
            *ret_opening |= UINT64_C(1) << errand->cell;
    }
    return ERR_OK;
}

static const struct outbox_ops outboxes_ops = {
    .leased = leases_leased,
    .leave = leases_leave,
    .dirty = outbox_dirty,
    .read = outbox_read,
    .relayed = outbox_relayed,
    .saved = outbox_saved,
    .progress = outbox_progress,
    .closed = opens_closed,
    .begin = opens_begin,
    .open = opens_open,
};

void outbox_init(struct layer *layer)
{
    layer->outbox.ops = &outboxes_ops;
}
