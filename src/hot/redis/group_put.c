/* group_put.c - a stretch of ops as arguments of run.lua, which says how they look. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "base/varint.h"
#include "core/bucket.h"
#include "core/fingerprint.h"
#include "core/key.h"
#include "hot/redis/group.h"
#include "hot/redis/layer.h"

void group_buffers_init(struct group_buffers *buffers)
{
    buffer_init(&buffers->amounts, RUN_PART_MAX * VARINT_SIZE_MAX);
    buffer_init(&buffers->codes, RUN_PART_MAX * 2);
    buffer_init(&buffers->places, BUCKET_SLICES * 3);
    buffer_init(&buffers->users, RUN_PART_MAX * (LIMIT_USER_BYTES + 3));
}

void group_buffers_done(struct group_buffers *buffers)
{
    buffer_done(&buffers->amounts);
    buffer_done(&buffers->codes);
    buffer_done(&buffers->places);
    buffer_done(&buffers->users);
}

struct description {
    char what;
    bool is_last;
    char place;
    bool has_region;
    bool has_counts;
    char op;
    unsigned kind;
    unsigned a, b, c;
};

static void put_description(struct call *call, const struct description *d)
{
    char bytes[] = {d->what,
                    d->is_last ? '1' : '0',
                    d->place,
                    d->has_region ? '1' : '0',
                    d->has_counts ? '1' : '0',
                    d->op,
                    (char)('0' + d->kind),
                    (char)('0' + d->a),
                    (char)('0' + d->b),
                    (char)('0' + d->c)};
    call_arg(call, (struct slice){bytes, sizeof(bytes)});
}

static char place_of(const struct op *op)
{
    if (!op->route)
        return 'p';
    return op->cell == layer_home(op->stable) ? 'h' : 'a';
}

static char letter_of(enum op_kind kind)
{
    switch ((int)kind) {
    case OP_GET:
        return 'G';
    case OP_EXISTS:
        return 'E';
    case OP_ADD:
        return 'A';
    case OP_SET:
        return 'S';
    case OP_DELETE:
        return 'D';
    case OP_CREATE:
        return 'C';
    case OP_EXPIRE:
        return 'X';
    case OP_DEADLINE:
        return 'L';
    case OP_DESCRIBE:
        return 'I';
    case OP_REACT:
        return 'R';
    case OP_WITHDRAW:
        return 'W';
    case OP_TOGGLE:
        return 'T';
    case OP_REACTION:
        return 'Q';
    case OP_COUNTS:
        return 'O';
    case OP_MEMBERS:
        return 'M';
    case (int)RUN_OP_SWEEP:
        return 'Y';
    case (int)RUN_OP_SPLIT:
        return 'P';
    }
    abort(); /* not an op of a known kind */
}

/* To hold nothing is to withdraw whatever is held. */
static char verb_of(const struct op *op)
{
    bool is_none = op->reaction == KIND_NONE && (op->kind == OP_REACT || op->kind == OP_TOGGLE);
    return is_none ? 'W' : letter_of(op->kind);
}

static unsigned kind_of(const struct op *op)
{
    return op_has_user(op->kind) || op->kind == OP_MEMBERS ? op->reaction : op->target_kind;
}

static struct run_part *add_part(struct making *making, char what)
{
    struct run_part *part = &making->parts[making->part_count++];
    *part = (struct run_part){.what = what};
    run_list_clear(&part->ops);
    return part;
}

static void put_user(struct call *call, const struct op *op)
{
    char slice = (char)('0' + bucket_slice(op->bucket));
    call_arg_pair(call, (struct slice){&slice, 1}, op->user);
}

/* As a string of msgpack. */
static void pack_user(struct buffer *to, const struct op *op)
{
    _Static_assert(1 + LIMIT_USER_BYTES <= UINT8_MAX, "a length is one byte");
    size_t size = 1 + op->user.size;
    if (buffer_reserve(to, 2 + size))
        abort(); /* its maximum is that of a part */
    char *at = to->data + to->size;
    if (size > 31)
        *at++ = (char)0xd9;
    *at++ = (char)(size > 31 ? size : 0xa0 | size);
    *at++ = (char)('0' + bucket_slice(op->bucket));
    memcpy(at, op->user.data, op->user.size);
    to->size = (size_t)(at - to->data) + op->user.size;
}

static void put_slice_key(struct call *call, unsigned slice, struct slice id)
{
    char name[] = {'m', (char)('0' + slice / 10), (char)('0' + slice % 10), '\0'};
    call_key_of(call, name, id);
}

static void put_all_slice_keys(struct call *call, struct slice id)
{
    for (unsigned slice = 0; slice < BUCKET_SLICES; slice++)
        put_slice_key(call, slice, id);
}

/* What a run of reactions of different users needs, gathered part by part. */
struct reactions {
    const struct op *first;
    bool is_uniform;
    bool has_counts;
};

static void add_reactions(struct making *making, struct reactions *run, struct run_list *ops,
                          char what)
{
    struct run_part *part = add_part(making, what);
    struct group_buffers *buffers = making->buffers;
    for (const struct op *op = ops->first; op; op = op->next) {
        char code[] = {verb_of(op), (char)('0' + op->reaction)};
        buffer_append(&buffers->codes, code, sizeof(code));
        pack_user(&buffers->users, op);
        run->is_uniform &= op->kind == run->first->kind && op->reaction == run->first->reaction;
        run->has_counts |= op->counts != NULL || op->route != NULL;
        part->is_writing |= op_is_write(op->kind);
    }
    part->ops = *ops;
}

static void put_reactions(struct making *making, const struct reactions *run, size_t first_part,
                          bool is_last)
{
    const struct op *first = run->first;
    const struct group_buffers *buffers = making->buffers;
    char what = making->parts[first_part].what;
    for (size_t i = first_part; i < making->part_count; i++)
        making->parts[i].has_counts = run->has_counts;
    put_description(making->call,
                    &(struct description){.what = what,
                                          .is_last = is_last,
                                          .place = place_of(first),
                                          .has_region = first->region.size > 0,
                                          .has_counts = run->has_counts,
                                          .op = run->is_uniform ? verb_of(first) : '~',
                                          .kind = run->is_uniform ? first->reaction : 1});
    if (first->region.size > 0)
        call_arg(making->call, first->region);
    if (!run->is_uniform)
        call_arg(making->call, buffer_slice(&buffers->codes));
    if (what == 'S')
        call_arg(making->call, buffer_slice(&buffers->places));
    call_arg(making->call, buffer_slice(&buffers->users));
}

static struct reactions begin_reactions(struct making *making, const struct run_list *ops)
{
    making->buffers->codes.size = 0;
    making->buffers->places.size = 0;
    making->buffers->users.size = 0;
    return (struct reactions){.first = ops->first, .is_uniform = true};
}

/* Of an item that is one piece: one part, in the order of the ops. */
static void put_whole(struct making *making, struct run_list *ops, bool is_last)
{
    struct reactions run = begin_reactions(making, ops);
    size_t first_part = making->part_count;
    add_reactions(making, &run, ops, 'L');
    put_reactions(making, &run, first_part, is_last);
}

/* Of an item in slices: a part for each slice that somebody is in. */
static void put_by_slice(struct making *making, struct run_list *ops, bool is_last)
{
    struct run_list slices[BUCKET_SLICES];
    for (unsigned i = 0; i < BUCKET_SLICES; i++)
        run_list_clear(&slices[i]);
    struct reactions run = begin_reactions(making, ops);
    for (struct op *op = ops->first, *next; op; op = next) {
        next = op->next;
        run_list_add(&slices[bucket_slice(op->bucket)], op);
    }
    size_t first_part = making->part_count;
    for (unsigned i = 0; i < BUCKET_SLICES; i++) {
        size_t count = slices[i].count;
        if (count == 0)
            continue;
        char place[] = {(char)('0' + i), (char)('0' + count / 64), (char)('0' + count % 64)};
        buffer_append(&making->buffers->places, place, sizeof(place));
        put_slice_key(making->call, i, making->id);
        add_reactions(making, &run, &slices[i], 'S');
    }
    put_reactions(making, &run, first_part, is_last);
}

static void put_sums(struct making *making, struct stretch *stretch, bool is_last)
{
    struct run_part *part = add_part(making, 'A');
    struct group_buffers *buffers = making->buffers;
    const struct op *first = stretch->ops.first;
    buffers->amounts.size = 0;
    for (const struct op *op = first; op; op = op->next) {
        char bytes[VARINT_SIZE_MAX];
        char *end = varint_put(bytes, varint_zigzag(op->amount.small));
        buffer_append(&buffers->amounts, bytes, (size_t)(end - bytes));
    }
    part->is_writing = true;
    put_description(making->call, &(struct description){.what = 'A',
                                                        .is_last = is_last,
                                                        .place = place_of(first),
                                                        .has_region = first->region.size > 0,
                                                        .op = 'A',
                                                        .a = (unsigned)stretch->ops.count / 64,
                                                        .b = (unsigned)stretch->ops.count % 64});
    if (first->region.size > 0)
        call_arg(making->call, first->region);
    char sum[DECIMAL_SIZE_MAX];
    char *end = decimal_format(sum, stretch->sum);
    call_arg(making->call, (struct slice){sum, (size_t)(end - sum)});
    call_arg(making->call, buffer_slice(&buffers->amounts));
    part->ops = stretch->ops;
}

/* --- any other op --- */

static void put_key_of(struct making *making, const struct op *op)
{
    struct hash128 hash = key_hash(op->id, op->key);
    char hex[33];
    snprintf(hex, sizeof(hex), "%016llx%016llx", (unsigned long long)hash.high,
             (unsigned long long)hash.low);
    call_key_of(making->call, "k", (struct slice){hex, 32});
    if (op_has_user(op->kind))
        call_key_of(making->call, "x", op->target);
    snprintf(hex, sizeof(hex), "%016llx",
             (unsigned long long)fingerprint_of(making->layer->options.kinds, op));
    call_arg(making->call, op->key);
    call_arg(making->call, (struct slice){hex, 16});
}

static void put_signed(struct call *call, int64_t value)
{
    char digits[DECIMAL_SIZE_MAX];
    char *end = decimal_format(digits, value);
    call_arg(call, (struct slice){digits, (size_t)(end - digits)});
}

static void put_amount(struct call *call, const struct number *amount)
{
    if (!amount->big) {
        put_signed(call, amount->small);
        return;
    }
    struct buffer digits;
    buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
    number_format(amount, &digits);
    call_arg(call, buffer_slice(&digits));
    buffer_done(&digits);
}

static void put_create(struct call *call, const struct op_create *create)
{
    call_arg_number(call, create->shards);
    call_arg_number(call, create->policy);
    call_arg_number(call, create->idle_s);
    call_arg_number(call, create->has_floor);
    put_signed(call, create->floor);
}

/* The cursor of a page: the slice + 1 in the top byte, none for a whole item, and Redis' own. */
static void put_page(struct call *call, const struct op_page *page, struct slice id)
{
    unsigned slice = (unsigned)(page->cursor >> 56);
    char digit = (char)('0' + (slice > 0 ? slice - 1 : 0));
    call_arg(call, (struct slice){&digit, 1});
    call_arg_number(call, page->cursor & ((UINT64_C(1) << 56) - 1));
    call_arg_number(call, page->limit > 0 ? page->limit : 1);
    if (slice > 0)
        put_slice_key(call, slice - 1, id);
}

static void put_arguments(struct call *call, const struct op *op, bool is_sliced)
{
    switch ((int)op->kind) {
    case OP_ADD:
    case OP_SET:
        put_amount(call, &op->amount);
        break;
    case OP_DELETE:
        if (is_sliced)
            put_all_slice_keys(call, op->target);
        break;
    case OP_CREATE:
        put_create(call, op->create);
        if (op->target_kind != 0 && op->create->shards > 1)
            put_all_slice_keys(call, op->target);
        break;
    case OP_EXPIRE:
        put_signed(call, op->deadline_ms);
        break;
    case OP_REACT:
    case OP_WITHDRAW:
    case OP_TOGGLE:
    case OP_REACTION:
        put_user(call, op);
        if (is_sliced)
            put_slice_key(call, bucket_slice(op->bucket), op->target);
        break;
    case OP_MEMBERS:
        put_page(call, op->page, op->target);
        break;
    case (int)RUN_OP_SPLIT:
        put_all_slice_keys(call, op->target);
        break;
    default:
        break;
    }
}

/* How many arguments and keys the op brings has to stand in front of them: they are written behind,
 * and the place is filled in. */
static void put_single(struct making *making, struct run_list *ops, bool is_last, unsigned hint)
{
    struct op *op = ops->first;
    struct call *call = making->call;
    struct run_part *part = add_part(making, 'G');
    bool is_keyed = op->key.size > 0 && op_is_write(op->kind);
    struct description description = {.what = 'G',
                                      .is_last = is_last,
                                      .place = place_of(op),
                                      .has_region = op->region.size > 0,
                                      .has_counts =
                                          (op->counts || op->route) && op_has_user(op->kind),
                                      .op = verb_of(op),
                                      .kind = kind_of(op),
                                      .a = is_keyed};
    put_description(call, &description);
    char *counts = call->args.data + call->args.size - 4; /* of b and c, before CR LF */
    size_t counts_at = (size_t)(counts - call->args.data);
    if (op->region.size > 0)
        call_arg(call, op->region);
    uint32_t keys = call->key_count;
    if (is_keyed)
        put_key_of(making, op);
    uint32_t args = call->arg_count;
    put_arguments(call, op, hint & HINT_SLICED);
    call->args.data[counts_at] = (char)('0' + (call->arg_count - args));
    call->args.data[counts_at + 1] = (char)('0' + (call->key_count - keys));
    part->has_counts = description.has_counts;
    part->is_writing = run_op_writes(op);
    part->ops = *ops;
}

void group_put(struct making *making, struct stretch *stretch, bool is_last, unsigned hint)
{
    if (stretch->ops.count == 0)
        return;
    if (stretch->what == 'A')
        put_sums(making, stretch, is_last);
    else if (stretch->what == 'G')
        put_single(making, &stretch->ops, is_last, hint);
    else if (hint & HINT_SLICED)
        put_by_slice(making, &stretch->ops, is_last);
    else
        put_whole(making, &stretch->ops, is_last);
    stretch->sum = 0;
    run_list_clear(&stretch->ops);
}
