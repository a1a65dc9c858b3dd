/* What becomes of the ops of a call: answered, queued again, or failed. */
#include "base/decimal.h"
#include "hot/redis/run_own.h"

#define NO_MEMORY_NS (100 * RUN_MS) /* refuse writes for so long after the server has */

/* May it be done twice? Reads, what has a key, and what says what shall hold afterwards. */
static bool is_safe(const struct op *op)
{
    return !op_is_write(op->kind) || op->key.size > 0 || op->kind == OP_REACT ||
           op->kind == OP_WITHDRAW;
}

/* All ops of the call, in the order in which those of an id were queued. */
static struct run_list take_ops(struct run_cell *cell)
{
    struct run_list all;
    run_list_clear(&all);
    for (size_t i = 0; i < cell->part_count; i++)
        for (struct op *op = cell->parts[i].ops.first, *next; op; op = next) {
            next = op->next;
            run_list_add(&all, op);
        }
    cell->part_count = 0;
    return all;
}

/* Back into the queue, those that have the patience. With `is_unknown`, nobody knows whether they
 * were done. */
static void queue_again(struct run_cell *cell, bool is_unknown)
{
    struct runs *runs = cell->runs;
    uint64_t now = run_now_ns(runs);
    struct run_list all = take_ops(cell);
    struct run_list again;
    run_list_clear(&again);
    for (struct op *op = all.first, *next; op; op = next) {
        next = op->next;
        if (is_unknown && !is_safe(op))
            run_fail(runs, op, ERR_TIMEOUT);
        else if (runs->is_shut ||
                 (cell->trouble_ns != 0 && now - run_began_ns(op) > run_patience_ns(runs, op)))
            run_refuse(runs, op);
        else
            run_list_add(&again, op);
    }
    run_put_back(cell, &again);
}

static void fail_all(struct run_cell *cell, enum err code)
{
    struct run_list all = take_ops(cell);
    for (struct op *op = all.first, *next; op; op = next) {
        next = op->next;
        run_fail(cell->runs, op, code);
    }
}

/* The server has no memory for writes; what it has can be read. */
static void out_of_memory(struct run_cell *cell)
{
    cell->no_memory_ns = run_now_ns(cell->runs) + NO_MEMORY_NS;
    struct run_list all = take_ops(cell);
    struct run_list again;
    run_list_clear(&again);
    for (struct op *op = all.first, *next; op; op = next) {
        next = op->next;
        if (op_is_write(op->kind))
            run_fail(cell->runs, op, ERR_NO_MEMORY);
        else
            run_list_add(&again, op);
    }
    run_put_back(cell, &again);
}

static bool take_decimal(struct slice *text, uint64_t *ret_value)
{
    size_t size = 0;
    while (size < text->size && text->data[size] != ' ')
        size++;
    if (!decimal_parse_unsigned((struct slice){text->data, size}, ret_value))
        return false;
    size += size < text->size;
    text->data += size;
    text->size -= size;
    return true;
}

static void take_answers(struct run_cell *cell, struct slice text)
{
    struct runs *runs = cell->runs;
    struct run_verdict verdict = {.layer = runs->layer, .cell = cell->number};
    run_list_clear(&verdict.again);
    if (!take_decimal(&text, &verdict.epoch) || !take_decimal(&text, &verdict.n)) {
        fail_all(cell, ERR_CORRUPT);
        return;
    }
    cell->epoch = verdict.epoch;
    cell->has_epoch = true;
    bool writes = false;
    for (size_t i = 0; i < cell->part_count; i++)
        writes |= cell->parts[i].is_writing;
    if (writes)
        outbox_note_written(runs->layer, cell->number);
    reply_take(&verdict, runs->groups, cell->parts, cell->part_count, text);
    cell->part_count = 0;
    run_put_back(cell, &verdict.again);
}

/* Closed, of another epoch, or overtaken: this try has done nothing; an earlier one may have. */
static void met_other(struct run_cell *cell, struct slice text)
{
    bool is_unknown = cell->call.may_be_done;
    if (text.data[0] == 'E') {
        text.data++;
        text.size--;
        cell->has_epoch = take_decimal(&text, &cell->epoch);
        run_all_is_well(cell);
    } else if (text.data[0] == 'C') {
        cell->has_epoch = false;
        run_note_trouble(cell);
        opens_met_closed(cell->runs->layer, cell->number);
    }
    queue_again(cell, is_unknown);
}

void run_call_ended(void *arg, enum err code, const struct redisReply *reply)
{
    struct run_cell *cell = arg;
    cell->is_calling = false;
    if (code == ERR_OK && (reply->type != REDIS_REPLY_STRING || reply->len == 0))
        code = ERR_REFUSED;
    if (code == ERR_OK && reply->str[0] == 'O') {
        run_all_is_well(cell);
        take_answers(cell, (struct slice){reply->str + 1, reply->len - 1});
    } else if (code == ERR_OK) {
        met_other(cell, (struct slice){reply->str, reply->len});
    } else if (code == ERR_NO_MEMORY) {
        out_of_memory(cell);
    } else if (code == ERR_UNAVAILABLE || code == ERR_TIMEOUT) {
        run_note_trouble(cell);
        queue_again(cell, code == ERR_TIMEOUT);
    } else {
        run_note_trouble(cell);
        fail_all(cell, ERR_IO);
    }
}
