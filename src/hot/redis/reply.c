/* reply.c - the answer of run.lua, read back to the ops. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "core/bucket.h"
#include "core/heat.h"
#include "core/key.h"
#include "core/sequence.h"
#include "hot/redis/entry.h"
#include "hot/redis/layer.h"
#include "hot/redis/run.h"
#include "hot/redis/spread.h"

/* Times that an op is sent in another form before that is taken for a mistake. */
#define TRIES_MAX 16u

struct reading {
    struct run_verdict *verdict;
    struct groups *groups;
    const char *at;
    const char *end;
    bool is_bad; /* makes no sense from here on */
};

/* --- words of the answer --- */

static char take_char(struct reading *reading)
{
    if (reading->at >= reading->end) {
        reading->is_bad = true;
        return '\0';
    }
    return *reading->at++;
}

/* Up to the next blank, which is skipped. */
static struct slice take_word(struct reading *reading)
{
    const char *blank = reading->at < reading->end
                            ? memchr(reading->at, ' ', (size_t)(reading->end - reading->at))
                            : NULL;
    if (!blank) {
        reading->is_bad = true;
        return SLICE("0");
    }
    struct slice word = {reading->at, (size_t)(blank - reading->at)};
    reading->at = blank + 1;
    return word;
}

static int64_t take_number(struct reading *reading)
{
    int64_t number = 0;
    if (!decimal_parse(take_word(reading), &number))
        reading->is_bad = true;
    return number;
}

static uint64_t take_unsigned(struct reading *reading)
{
    uint64_t number = 0;
    if (!decimal_parse_unsigned(take_word(reading), &number))
        reading->is_bad = true;
    return number;
}

static void take_counts(struct reading *reading, int64_t counts[LIMIT_KINDS])
{
    unsigned count = reading->verdict->layer->options.kinds->count;
    for (unsigned i = 0; i < count; i++)
        counts[i] = take_number(reading);
}

/* Of something spread they are those of this cell. */
static void give_counts(const struct reading *reading, struct op *op, const int64_t *counts)
{
    struct layer *layer = reading->verdict->layer;
    if (op->route && !reading->is_bad)
        spreads_note_counts(layer, op, reading->verdict->cell, counts);
    if (op->counts)
        memcpy(op->counts, counts, layer->options.kinds->count * sizeof(*counts));
}

/* --- what becomes of an op --- */

static void finish(struct reading *reading, struct op *op)
{
    struct run_verdict *verdict = reading->verdict;
    if (op->code == ERR_OK && op_is_write(op->kind)) {
        op->sequence = sequence_of(verdict->epoch, verdict->n);
        if (op->changed || op->route)
            spreads_note_write(verdict->layer, op, verdict->cell);
        if (op->kind == OP_CREATE && op->changed && !op->repeated && op->create->shards > 1 &&
            spreads_created(verdict->layer, op))
            return;
    }
    runs_finish_op(verdict->layer, op);
}

static void fail(struct reading *reading, struct op *op, enum err code)
{
    op->code = code;
    finish(reading, op);
}

static void again(struct reading *reading, struct op *op)
{
    if (++op->user_class > TRIES_MAX)
        fail(reading, op, ERR_UNAVAILABLE);
    else
        run_list_add(&reading->verdict->again, op);
}

static enum err want(struct run_verdict *verdict, const struct op *op, char answer)
{
    if (answer == 'M')
        return loads_want(verdict->layer, verdict->cell, op->target);
    if (answer == 'k') {
        struct hash128 hash = key_hash(op->id, op->key);
        return loads_want_key(verdict->layer, verdict->cell, op->target, hash.low, hash.high);
    }
    uint32_t slice =
        op->kind == OP_MEMBERS ? (uint32_t)(op->page->cursor >> 56) - 1 : bucket_slice(op->bucket);
    return loads_want_slice(verdict->layer, verdict->cell, op->target, slice);
}

static void restart_page(struct op *op, bool is_sliced)
{
    if (op->kind == OP_MEMBERS)
        op->page->cursor = is_sliced ? UINT64_C(1) << 56 : 0;
}

/* Anything but an answer: the op waits, goes elsewhere, or is refused. */
static void turn_away(struct reading *reading, struct op *op, char answer)
{
    struct run_verdict *verdict = reading->verdict;
    static const struct {
        char answer;
        enum err code;
    } codes[] = {{'n', ERR_NOT_FOUND},   {'e', ERR_EXISTS},     {'t', ERR_WRONG_TYPE},
                 {'f', ERR_BELOW_FLOOR}, {'u', ERR_KEY_REUSED}, {'i', ERR_INVALID},
                 {'x', ERR_NO_KIND},     {'b', ERR_BUSY},       {'y', ERR_CORRUPT}};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].answer == answer) {
            fail(reading, op, codes[i].code);
            return;
        }
    switch (answer) {
    case 'M':
        if (verdict->cell != layer_home(op->stable)) {
            spreads_met_moved(verdict->layer, op, false);
            return;
        }
        fail(reading, op, want(verdict, op, answer));
        return;
    case 'D':
    case 'k':
        fail(reading, op, want(verdict, op, answer));
        return;
    case 'V':
    case 'v':
        spreads_met_moved(verdict->layer, op, answer == 'v');
        return;
    case 'Z':
    case 'W':
        restart_page(op, answer == 'Z');
        groups_learn(reading->groups, op->stable, HINT_SLICED, answer == 'Z');
        again(reading, op);
        return;
    case 'R':
        groups_learn(reading->groups, op->stable, HINT_CAREFUL, true);
        again(reading, op);
        return;
    default:
        reading->is_bad = true;
        fail(reading, op, ERR_CORRUPT);
    }
}

static void turn_all_away(struct reading *reading, struct run_part *part, char answer)
{
    for (struct op *op = part->ops.first, *next; op; op = next) {
        next = op->next;
        turn_away(reading, op, answer);
    }
}

/* --- reactions --- */

static void take_mark(struct reading *reading, struct op *op, char mark)
{
    if (mark == 'x' || mark < '0' || mark > '0' + 2 * (int)LIMIT_KINDS + 1) {
        op->code = mark == 'x' ? ERR_NO_KIND : ERR_CORRUPT;
        reading->is_bad |= mark != 'x';
        return;
    }
    op->held = (uint8_t)((mark - '0') / 2);
    op->changed = (mark - '0') % 2 != 0;
}

static void answer_reactions(struct reading *reading, struct run_part *part, bool all_new,
                             const char *marks)
{
    int64_t counts[LIMIT_KINDS];
    if (part->has_counts)
        take_counts(reading, counts);
    for (struct op *op = part->ops.first, *next; op; op = next) {
        next = op->next;
        if (all_new) {
            op->held = op->reaction;
            op->changed = true;
        } else {
            take_mark(reading, op, *marks++);
        }
        if (part->has_counts)
            give_counts(reading, op, counts);
        finish(reading, op);
    }
}

static void take_reactions(struct reading *reading, struct run_part *part)
{
    char answer = take_char(reading);
    if (answer == '^' || answer == '~')
        runs_split(reading->verdict->layer, part->ops.first->target);
    if (answer == '*' || answer == '^') {
        answer_reactions(reading, part, true, NULL);
    } else if ((answer == '=' || answer == '~') &&
               (size_t)(reading->end - reading->at) >= part->ops.count) {
        const char *marks = reading->at;
        reading->at += part->ops.count;
        answer_reactions(reading, part, false, marks);
    } else {
        turn_all_away(reading, part, answer);
    }
}

/* --- sums: the last value says all of them --- */

static void take_sums(struct reading *reading, struct run_part *part)
{
    char answer = take_char(reading);
    if (answer != '+' && answer != '%') {
        turn_all_away(reading, part, answer);
        return;
    }
    int64_t value = take_number(reading);
    for (const struct op *op = part->ops.first; op; op = op->next)
        value -= op->amount.small;
    for (struct op *op = part->ops.first, *next; op; op = next) {
        next = op->next;
        value += op->amount.small;
        op->value = number_of(value);
        op->changed = true;
        finish(reading, op);
    }
}

/* --- single ops --- */

static void take_describe(struct reading *reading, struct op *op)
{
    struct slice type = take_word(reading);
    struct op_describe *describe = op->describe;
    *describe = (struct op_describe){.home = reading->verdict->cell};
    describe->is_item = type.size == 1 && type.data[0] != 'c';
    describe->incarnation = (uint32_t)take_unsigned(reading);
    describe->shards_asked = (uint32_t)take_unsigned(reading);
    describe->shards = 1;
    describe->policy = (enum policy)take_unsigned(reading);
    describe->has_floor = take_unsigned(reading) != 0;
    describe->floor = take_number(reading);
    describe->idle_s = (uint32_t)take_unsigned(reading);
    describe->deadline_ms = take_number(reading);
    describe->written_ms = take_number(reading) / 1000 * 1000;
    uint64_t reason = take_unsigned(reading);
    describe->reason =
        heat_reason_text(reason < HEAT_REASON_COUNT ? (enum heat_reason)reason : HEAT_UNCHANGED);
    describe->changed_ms = take_number(reading);
}

/* A page of members. True: there is more to be asked for to fill it. */
static bool take_page(struct reading *reading, struct op *op)
{
    struct op_page *page = op->page;
    uint64_t next = take_unsigned(reading);
    uint64_t size = take_unsigned(reading);
    if (reading->is_bad || size > (size_t)(reading->end - reading->at)) {
        reading->is_bad = true;
        return false;
    }
    struct slice users = {reading->at, size};
    reading->at += size;
    uint32_t seen = 0;
    if (size > 0 && !entry_users(users, page->visit, page->arg, &seen))
        reading->is_bad = true;
    op->user_number += seen;

    uint64_t slice = page->cursor >> 56;
    if (next != 0)
        page->cursor = slice << 56 | next;
    else if (slice == 0 || slice == BUCKET_SLICES)
        page->cursor = 0;
    else
        page->cursor = (slice + 1) << 56;
    return page->cursor != 0 && op->user_number < page->limit && !reading->is_bad;
}

static void take_answer(struct reading *reading, struct run_part *part, struct op *op)
{
    op->changed = take_char(reading) == '1';
    op->held = (uint8_t)(take_char(reading) - '0');
    if (number_parse(take_word(reading), &op->value) != ERR_OK)
        reading->is_bad = true;
    if (op->kind == OP_DEADLINE)
        op->deadline_ms = take_number(reading);
    else if (op->kind == OP_DESCRIBE)
        take_describe(reading, op);
    else if (part->has_counts || op->kind == OP_COUNTS) {
        int64_t counts[LIMIT_KINDS];
        take_counts(reading, counts);
        give_counts(reading, op, counts);
    }
}

static void take_single(struct reading *reading, struct run_part *part)
{
    struct op *op = part->ops.first;
    char answer = take_char(reading);
    if (answer != 'o' && answer != 'r') {
        if (op->kind == OP_COUNTS && answer == 't')
            memset(op->counts, 0,
                   reading->verdict->layer->options.kinds->count * sizeof(*op->counts));
        if (op->kind == OP_MEMBERS && answer == 't')
            op->page->cursor = 0;
        turn_away(reading, op, answer);
        return;
    }
    op->repeated = answer == 'r';
    take_answer(reading, part, op);
    if (op->kind == OP_MEMBERS && take_page(reading, op)) {
        run_list_add(&reading->verdict->again, op);
        return;
    }
    if (op->kind == RUN_OP_SPLIT && op->changed)
        groups_learn(reading->groups, op->stable, HINT_SLICED, true);
    if (reading->is_bad)
        op->code = ERR_CORRUPT;
    finish(reading, op);
}

enum err reply_take(struct run_verdict *verdict, struct groups *groups, struct run_part *parts,
                    size_t count, struct slice answer)
{
    struct reading reading = {
        .verdict = verdict, .groups = groups, .at = answer.data, .end = answer.data + answer.size};
    for (size_t i = 0; i < count; i++) {
        struct run_part *part = &parts[i];
        if (reading.is_bad)
            turn_all_away(&reading, part, 'y');
        else if (part->what == 'L' || part->what == 'S')
            take_reactions(&reading, part);
        else if (part->what == 'A')
            take_sums(&reading, part);
        else
            take_single(&reading, part);
    }
    return reading.is_bad || reading.at != reading.end ? ERR_CORRUPT : ERR_OK;
}
