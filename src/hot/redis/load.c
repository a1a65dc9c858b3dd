#include "hot/redis/load.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"
#include "hot/redis/ask.h"
#include "hot/redis/drop.h"
#include "hot/redis/image.h"
#include "hot/redis/put.h"
#include "hot/redis/stale.h"
#include "hot/redis/want.h"
#include "net/timer.h"

#define CLAIM_AT_ONCE 64u
#define PUT_AT_ONCE   64u
#define PUT_BYTES     (1u << 20) /* then it goes at once: the server has others to see to */
#define OTHER_MS      30u        /* another node loads it: look again after */
#define BEHIND_MS     200u       /* the store has to catch up first */
#define FAILED_MS     1000u
#define DUE_MS        15u

/* What goes into Redis together. */
struct puts {
    size_t count;
    size_t bytes;
    struct call calls[PUT_AT_ONCE];
    struct want wanted[PUT_AT_ONCE];
    uint32_t shards[PUT_AT_ONCE]; /* that it is to have again, 1 = no more than it has */
};

struct loads {
    struct layer *layer; /* borrowed */
    struct wants *wants;
    struct stales *stales;
    struct timer *timer; /* of the layer's thread: some wait */
    struct lock lock;    /* of `puts` */
    struct puts *puts;   /* owned; NULL: none */
    _Atomic uint64_t count;
    _Atomic bool has_told_kind;
};

/* ---- waiting ---- */

void loads_ring(struct layer *layer)
{
    atomic_fetch_add(&layer->base.arrivals, 1);
    if (layer->base.arrive)
        layer->base.arrive(layer->base.arrive_arg);
}

static void look_for_due(void *arg)
{
    struct loads *loads = arg;
    bool more;
    if (wants_is_due(loads->wants, &more))
        loads_ring(loads->layer);
    if (!more)
        timer_stop(loads->timer);
}

static void start_timer(void *arg)
{
    struct loads *loads = arg;
    if (!timer_runs(loads->timer))
        timer_start(loads->timer, DUE_MS, DUE_MS);
}

static void let_wait(struct loads *loads, uint64_t number, enum err code, uint64_t wait_ms)
{
    wants_wait(loads->wants, number, code, wait_ms);
    (void)layer_post(loads->layer, start_timer, loads);
}

static void puts_free(struct puts *puts)
{
    for (size_t i = 0; puts && i < puts->count; i++)
        call_done(&puts->calls[i]);
    free(puts);
}

struct loads *loads_new(struct layer *layer)
{
    struct loads *loads = memory_take_zeroed(sizeof(*loads));
    loads->layer = layer;
    loads->wants = wants_new(layer->env, layer->node);
    loads->stales = stales_new(layer->env, layer->options.idle_s);
    loads->timer = timer_new(layer->loop, look_for_due, loads);
    lock_init(&loads->lock);
    return loads;
}

void loads_free(struct loads *loads)
{
    if (!loads)
        return;
    timer_free(loads->timer);
    puts_free(loads->puts);
    lock_done(&loads->lock);
    wants_free(loads->wants);
    stales_free(loads->stales);
    free(loads);
}

/* ---- wanting ---- */

static enum err want(struct layer *layer, const struct want_question *question)
{
    bool is_news;
    enum err err = wants_add(layer->loads->wants, question, &is_news);
    if (is_news && layer->base.want)
        layer->base.want(layer->base.want_arg);
    return err;
}

enum err loads_want(struct layer *layer, unsigned cell, struct slice id)
{
    return want(layer, &(struct want_question){.kind = HOT_WANT_TARGET, .cell = cell, .id = id});
}

enum err loads_want_slice(struct layer *layer, unsigned cell, struct slice id, uint32_t slice)
{
    return want(layer, &(struct want_question){
                           .kind = HOT_WANT_SLICE, .cell = cell, .id = id, .slice = slice});
}

enum err loads_want_key(struct layer *layer, unsigned cell, struct slice id, uint64_t low,
                        uint64_t high)
{
    (void)id;
    return want(layer, &(struct want_question){
                           .kind = HOT_WANT_KEY, .cell = cell, .key_low = low, .key_high = high});
}

/* Who has a page of members, or a write, has to wait until the cell is open. */
static bool may_be_stale(const struct op *op)
{
    return !op_is_write(op->kind) && op->kind != OP_MEMBERS;
}

bool loads_answer_stale(struct layer *layer, struct op *op)
{
    struct loads *loads = layer->loads;
    uint32_t slice;
    op->code = ERR_UNAVAILABLE;
    if (!may_be_stale(op) || op_wants_all(op) || !atomic_load(&layer->has_store))
        return true;
    if (stales_answer(loads->stales, op, spreads_cells_with(layer, op), &slice))
        return true;
    struct want_question question = {
        .kind = slice == STALE_WHOLE ? HOT_WANT_TARGET : HOT_WANT_SLICE,
        .is_stale = true,
        .id = op->target,
        .slice = slice == STALE_WHOLE ? 0 : slice,
    };
    op->code = want(layer, &question);
    return op->code != ERR_COLD;
}

/* ---- claiming, by the loader's thread ---- */

/* False: there was nothing to claim. */
static bool claim(struct loads *loads)
{
    struct want wanted[CLAIM_AT_ONCE];
    struct call calls[CLAIM_AT_ONCE];
    enum put_outcome outcomes[CLAIM_AT_ONCE] = {PUT_NONE};
    enum err codes[CLAIM_AT_ONCE];
    void *args[CLAIM_AT_ONCE];
    bool is_there = false;
    size_t count = wants_to_claim(loads->wants, wanted, CLAIM_AT_ONCE);
    if (count == 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        wanted[i].question.id.data = wanted[i].bytes;
        put_init_claim(&calls[i], loads->layer, &wanted[i]);
        args[i] = &outcomes[i];
    }
    ask_all(calls, count, codes, put_take_outcome, args);
    for (size_t i = 0; i < count; i++) {
        call_done(&calls[i]);
        if (!codes[i] && outcomes[i] == PUT_DONE) {
            wants_claimed(loads->wants, wanted[i].number);
        } else if (codes[i] || outcomes[i] == PUT_NO) {
            /* Those that do not answer are not even asked for a while: nor are we, at once. */
            let_wait(loads, wanted[i].number, ERR_COLD, OTHER_MS);
        } else {
            wants_end(loads->wants, wanted[i].number);
            is_there = true;
        }
    }
    if (is_there)
        loads_ring(loads->layer);
    return true;
}

bool loads_wanted(struct hot *hot, struct hot_want *ret_want)
{
    struct loads *loads = layer_of(hot)->loads;
    struct want wanted;
    while (!wants_take(loads->wants, &wanted))
        if (!claim(loads))
            return false;
    const struct want_question *question = &wanted.question;
    bool is_key = question->kind == HOT_WANT_KEY;
    *ret_want = (struct hot_want){.kind = question->kind,
                                  .slice = question->slice,
                                  .key_low = is_key ? question->key_low : wanted.number,
                                  .key_high = question->key_high};
    memcpy(ret_want->bytes, wanted.bytes, question->id.size);
    ret_want->id = (struct slice){ret_want->bytes, question->id.size};
    return true;
}

/* ---- what goes in together ---- */

static void end_put(struct loads *loads, uint64_t number, enum put_outcome outcome)
{
    if (outcome == PUT_BEHIND)
        let_wait(loads, number, ERR_COLD, BEHIND_MS);
    else
        wants_end(loads->wants, number);
    if (outcome == PUT_DONE)
        atomic_fetch_add_explicit(&loads->count, 1, memory_order_relaxed);
}

static void send_puts(struct loads *loads, struct puts *puts)
{
    enum put_outcome outcomes[PUT_AT_ONCE] = {PUT_NONE};
    enum err codes[PUT_AT_ONCE];
    void *args[PUT_AT_ONCE];
    for (size_t i = 0; i < puts->count; i++)
        args[i] = &outcomes[i];
    ask_all(puts->calls, puts->count, codes, put_take_outcome, args);
    for (size_t i = 0; i < puts->count; i++) {
        const struct want *wanted = &puts->wanted[i];
        enum put_outcome outcome = codes[i] ? PUT_NONE : outcomes[i];
        if (outcome == PUT_DONE && puts->shards[i] > 1)
            put_spread(loads->layer, (struct slice){wanted->bytes, wanted->question.id.size},
                       puts->shards[i]);
        end_put(loads, wanted->number, outcome);
    }
    puts_free(puts);
}

/* Loaders share what is gathered: whoever has no more to add sends all that is there, also what
 * another has added, and whoever waits for that is told after it. */
static void flush_puts(struct loads *loads)
{
    lock_take(&loads->lock);
    struct puts *puts = loads->puts;
    loads->puts = NULL;
    lock_release(&loads->lock);
    if (puts)
        send_puts(loads, puts);
}

/* Takes the call. */
static void add_put(struct loads *loads, const struct want *wanted, const struct call *call,
                    uint32_t shards)
{
    struct puts *full = NULL;
    lock_take(&loads->lock);
    if (!loads->puts) {
        loads->puts = memory_take(sizeof(*loads->puts));
        loads->puts->count = loads->puts->bytes = 0;
    }
    struct puts *puts = loads->puts;
    puts->calls[puts->count] = *call;
    puts->wanted[puts->count] = *wanted;
    puts->shards[puts->count++] = shards;
    puts->bytes += call->args.size;
    if (puts->count == PUT_AT_ONCE || puts->bytes >= PUT_BYTES) {
        full = puts;
        loads->puts = NULL;
    }
    lock_release(&loads->lock);
    if (full)
        send_puts(loads, full);
}

/* ---- what the store says ---- */

static void tell_kind(struct loads *loads, struct slice id)
{
    char text[64];
    if (!atomic_exchange(&loads->has_told_kind, true))
        message_error("the store holds reactions of a kind that is not configured: put it back "
                      "into the setting kinds; until then such items are refused item=%s",
                      message_quote(text, sizeof(text), id));
}

static enum err make_image(struct loads *loads, const struct want *wanted,
                           const struct hot_found *found, struct image *image)
{
    const struct want_question *question = &wanted->question;
    enum err err;
    if (found->code != ERR_OK && found->code != ERR_NOT_FOUND)
        return ERR_UNAVAILABLE;
    if (question->kind == HOT_WANT_TARGET)
        err = image_of_target(image, found->target);
    else
        err = image_of_slice(image, question->id, question->slice, found->members,
                             found->code == ERR_OK ? found->member_count : 0, found->pending,
                             found->pending_count);
    if (err == ERR_NO_KIND)
        tell_kind(loads, question->id);
    return err == ERR_OK || err == ERR_NO_KIND ? err : ERR_UNAVAILABLE;
}

static void put_image(struct loads *loads, const struct want *wanted, const struct hot_found *found,
                      struct image *image)
{
    const struct want_question *question = &wanted->question;
    bool is_target = question->kind == HOT_WANT_TARGET;
    struct call call;
    if (question->is_stale) {
        stales_put(loads->stales, question->id, is_target ? STALE_WHOLE : question->slice, image,
                   found->times_ms);
        end_put(loads, wanted->number, PUT_DONE);
    } else if (is_target) {
        bool is_spread = image->is_there && !image->create.has_floor;
        put_init_target(&call, loads->layer, wanted, found, image);
        add_put(loads, wanted, &call, is_spread ? image->create.shards : 1);
    } else {
        end_put(loads, wanted->number, put_members(loads->layer, wanted, found, image));
    }
}

static enum err take_key(struct loads *loads, const struct want *wanted,
                         const struct hot_found *found)
{
    struct call call;
    if (found->code != ERR_OK && found->code != ERR_NOT_FOUND)
        return ERR_UNAVAILABLE;
    put_init_key(&call, loads->layer, wanted, found);
    add_put(loads, wanted, &call, 1);
    return ERR_OK;
}

static enum err take_image(struct loads *loads, const struct want *wanted,
                           const struct hot_found *found)
{
    struct image image;
    image_init(&image, loads->layer->options.kinds);
    enum err err = make_image(loads, wanted, found, &image);
    if (!err)
        put_image(loads, wanted, found, &image);
    image_done(&image);
    return err;
}

static void take_found(struct loads *loads, const struct want *wanted,
                       const struct hot_found *found)
{
    enum err err = wanted->question.kind == HOT_WANT_KEY ? take_key(loads, wanted, found)
                                                         : take_image(loads, wanted, found);
    if (err)
        wants_wait(loads->wants, wanted->number, err, FAILED_MS);
}

void loads_loaded(struct hot *hot, const struct hot_want *want, const struct hot_found *found)
{
    struct loads *loads = layer_of(hot)->loads;
    struct want wanted;
    /* What nobody has asked for is not put in: Redis is not filled by who starts. */
    if (!found->unasked && wants_find(loads->wants, want, &wanted))
        take_found(loads, &wanted, found);
    if (!found->more)
        flush_puts(loads);
}

/* ---- the rest of the port ---- */

void loads_begin(struct hot *hot, const struct state_mark *mark)
{
    drops_saved(hot, mark->sequences);
    atomic_store(&layer_of(hot)->has_store, true);
}

/* Nobody knows what other nodes have made meanwhile: what is missing is always asked for. */
void loads_tell(struct hot *hot, enum hot_want_kind kind, uint64_t stable_hash)
{
    (void)hot;
    (void)kind;
    (void)stable_hash;
}

void loads_told_all(struct hot *hot, enum hot_want_kind kind)
{
    (void)hot;
    (void)kind;
}

void loads_tick(struct layer *layer)
{
    stales_tidy(layer->loads->stales);
}

uint64_t loads_count(struct layer *layer)
{
    return atomic_load_explicit(&layer->loads->count, memory_order_relaxed);
}

uint64_t loads_misses(struct layer *layer)
{
    return wants_misses(layer->loads->wants);
}
