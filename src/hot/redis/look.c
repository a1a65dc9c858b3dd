#include "hot/redis/look.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/kinds.h"
#include "core/sequence.h"
#include "core/state.h"
#include "hot/redis/ask.h"
#include "hot/redis/open.h"

#define COUNTED_MAX  200000u /* members that a script counts while everybody waits */
#define FIXED        8u      /* fields of a record in front of its counts */
#define CLOSED_TRIES 25u
#define CLOSED_US    20000u

struct slice look_target(struct layer *layer, struct slice id, uint8_t *ret_kind)
{
    struct slice target = id;
    *ret_kind = KIND_NONE;
    (void)kinds_split(layer->options.kinds, id, &target, ret_kind);
    return target;
}

/* ---- replies ---- */

static void keep_text(struct slice text, char *to, size_t room)
{
    size_t size = text.size < room - 1 ? text.size : room - 1;
    if (size > 0)
        memcpy(to, text.data, size);
    to[size] = 0;
}

static int64_t number_at(const struct redisReply *reply, size_t index)
{
    int64_t value;
    return decimal_parse(reply_text_at(reply, index), &value) ? value : 0;
}

/* The next word of a line, which moves on. */
static int64_t next_word(struct slice *line)
{
    const char *blank = line->size > 0 ? memchr(line->data, ' ', line->size) : NULL;
    size_t size = blank ? (size_t)(blank - line->data) : line->size;
    int64_t value = 0;
    (void)decimal_parse((struct slice){line->data, size}, &value);
    size_t taken = blank ? size + 1 : size;
    *line = (struct slice){line->data + taken, line->size - taken};
    return value;
}

/* shards policy has_floor floor idle_s deadline_ms */
static void take_options(struct look *look, struct slice line)
{
    look->create = (struct op_create){.shards = 1};
    if (line.size == 0)
        return;
    look->create.shards = (uint32_t)next_word(&line);
    look->create.policy = (enum policy)next_word(&line);
    look->create.has_floor = next_word(&line) != 0;
    look->create.floor = next_word(&line);
    look->create.idle_s = (uint32_t)next_word(&line);
    look->deadline_ms = next_word(&line);
}

static void take_record(struct layer *layer, struct look *look, const struct redisReply *reply)
{
    unsigned kinds = layer->options.kinds->count;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < FIXED + kinds) {
        look->is_closed = reply_is(reply, "closed");
        look->code = look->is_closed ? ERR_UNAVAILABLE : ERR_COLD;
        return;
    }
    struct slice generation = reply_text_at(reply, 0);
    struct slice written = reply_text_at(reply, 2);
    char type = generation.size > 0 ? generation.data[generation.size - 1] : 'n';
    keep_text(generation, look->generation, sizeof(look->generation));
    keep_text(reply_text_at(reply, 5), look->used, sizeof(look->used));
    look->code = type == 'n' ? ERR_NOT_FOUND : ERR_OK;
    look->is_item = type != 'n' && type != 'c' && type != 'C';
    look->is_complete = !slice_equal(reply_text_at(reply, 7), SLICE("*"));
    look->was_loaded = look->used[0] != 0;
    look->incarnation = (uint32_t)number_at(reply, 1);
    look->writes = hash_stable(written);
    look->written_ms = next_word(&written);
    if (!look->is_item && number_parse(reply_text_at(reply, 3), &look->value))
        look->value = number_of(0);
    take_options(look, reply_text_at(reply, 4));
    look->is_spread = map_parse(reply_text_at(reply, 6), &look->map);
    for (unsigned i = 0; i < kinds; i++)
        look->counts[i] = number_at(reply, FIXED + i);
}

/* ---- many of one cell ---- */

struct records {
    struct layer *layer;
    struct look *looks;
    size_t count;
};

static void take_records(void *arg, const struct redisReply *reply)
{
    const struct records *records = arg;
    if (records->count == 1)
        records->looks[0].is_closed = reply_is(reply, "closed");
    for (size_t i = 0; i < records->count; i++)
        if (reply->type == REDIS_REPLY_ARRAY && i < (size_t)reply->elements)
            take_record(records->layer, &records->looks[i], reply->element[i]);
}

static void add_kinds(struct call *call, const struct kinds *kinds)
{
    call_arg_number(call, kinds->count);
    for (uint8_t kind = 1; kind <= kinds->count; kind++)
        call_arg(call, kinds_name(kinds, kind));
}

void look_records(struct layer *layer, unsigned cell, const struct slice *ids, size_t count,
                  struct look *looks)
{
    struct records records = {.layer = layer, .looks = looks, .count = count};
    struct call call;
    call_init(&call, layer, cell, SCRIPT_LOOK);
    call_arg_text(&call, "records");
    add_kinds(&call, layer->options.kinds);
    for (size_t i = 0; i < count; i++) {
        looks[i] = (struct look){.code = ERR_UNAVAILABLE};
        call_key_of(&call, "r", ids[i]);
    }
    (void)ask(&call, take_records, &records);
    call_done(&call);
}

/* ---- one, with its members ---- */

struct counted {
    struct layer *layer;
    unsigned cell;
    struct look look;
};

static void take_counted(void *arg, const struct redisReply *reply)
{
    struct counted *counted = arg;
    unsigned kinds = counted->layer->options.kinds->count;
    size_t at = FIXED + kinds;
    take_record(counted->layer, &counted->look, reply);
    if (counted->look.code || (size_t)reply->elements < at + kinds + 2)
        return;
    for (unsigned i = 0; i < kinds; i++)
        counted->look.members[i] = number_at(reply, at + i);
    counted->look.sequences[counted->cell] =
        sequence_of(reply_number_at(reply, at + kinds), reply_number_at(reply, at + kinds + 1));
}

static void init_count(struct call *call, struct layer *layer, unsigned cell, struct slice target)
{
    call_init(call, layer, cell, SCRIPT_LOOK);
    call_key_of(call, "r", target);
    for (unsigned slice = 0; slice < STATE_SLICES; slice++) {
        char name[4] = {'m', (char)('0' + slice / 10), (char)('0' + slice % 10), 0};
        call_key_of(call, name, target);
    }
    call_arg_text(call, "count");
    call_arg_number(call, COUNTED_MAX);
    add_kinds(call, layer->options.kinds);
}

static void count_one(struct layer *layer, unsigned cell, struct slice target, struct look *ret)
{
    struct counted counted = {.layer = layer, .cell = cell, .look = {.code = ERR_UNAVAILABLE}};
    struct call call;
    memset(counted.look.sequences, 0xff, sizeof(counted.look.sequences));
    init_count(&call, layer, cell, target);
    (void)ask(&call, take_counted, &counted);
    call_done(&call);
    *ret = counted.look;
}

/* ---- pieces ---- */

static void add_piece(struct look *whole, const struct look *piece, unsigned cell)
{
    number_add(&whole->value, &piece->value);
    whole->writes = whole->writes * 31 + piece->writes;
    whole->is_complete &= piece->is_complete;
    whole->written_ms =
        piece->written_ms > whole->written_ms ? piece->written_ms : whole->written_ms;
    whole->sequences[cell] = piece->sequences[cell];
    for (unsigned i = 0; i < LIMIT_KINDS; i++) {
        whole->counts[i] += piece->counts[i];
        whole->members[i] += piece->members[i];
    }
}

/* A piece that cannot be looked at makes the whole unknown. */
static void add_pieces(struct layer *layer, struct slice target, bool counts, struct look *whole)
{
    unsigned home = layer_home(hash_stable(target));
    uint64_t cells = whole->map.cells & ~map_bit(home);
    for (unsigned cell = 0; cell < LIMIT_CELLS && !whole->code; cell++) {
        struct look piece;
        if (!(cells & map_bit(cell)))
            continue;
        if (counts)
            count_one(layer, cell, target, &piece);
        else
            look_records(layer, cell, &target, 1, &piece);
        if (piece.code == ERR_OK && piece.incarnation == whole->incarnation)
            add_piece(whole, &piece, cell);
        else
            whole->code = ERR_UNAVAILABLE;
        look_done(&piece);
    }
}

/* A cell that is closed is opened soon, as a rule. */
static void look_at_home(struct layer *layer, struct slice target, bool counts, struct look *ret)
{
    unsigned home = layer_home(hash_stable(target));
    for (unsigned i = 0; i <= CLOSED_TRIES; i++) {
        if (i > 0)
            (void)usleep(CLOSED_US);
        if (counts)
            count_one(layer, home, target, ret);
        else
            look_records(layer, home, &target, 1, ret);
        if (!ret->is_closed)
            return;
        opens_saw(layer, home, false);
    }
}

void look_at(struct layer *layer, struct slice target, bool counts, struct look *ret)
{
    look_at_home(layer, target, counts, ret);
    if (!ret->code && ret->is_spread)
        add_pieces(layer, target, counts, ret);
}

void look_done(struct look *look)
{
    number_done(&look->value);
}

bool look_is_over(const struct layer *layer, const struct look *look, int64_t now_ms)
{
    uint32_t idle_s = look->create.idle_s != 0 ? look->create.idle_s : layer->options.idle_s;
    return !look->is_item && ((look->deadline_ms != 0 && now_ms >= look->deadline_ms) ||
                              (idle_s != 0 && now_ms >= look->written_ms + idle_s * 1000LL));
}
