#include "sim/sim_planted.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/kinds.h"
#include "sim/sim_planted_own.h"

const char *bug_text(enum bug bug)
{
    static const char *const texts[] = {
#define X(code, what) [code] = (what),
        BUG_LIST(X)
#undef X
    };
    assert(bug < BUG_COUNT);
    return texts[bug];
}

struct planted *planted_new(enum bug bug)
{
    struct planted *planted = calloc(1, sizeof(*planted));
    if (!planted)
        abort();
    planted->bug = bug;
    return planted;
}

void planted_free(struct planted *planted)
{
    free(planted->last);
    free(planted);
}

static char *copy_bytes(struct slice from)
{
    char *bytes = malloc(from.size > 0 ? from.size : 1);
    if (!bytes)
        abort();
    memcpy(bytes, from.data, from.size);
    return bytes;
}

/* ---- logs ---- */

struct planted_log {
    struct log base;
    struct log *inner;
    struct planted *planted;
    uint64_t appended; /* the last ticket */

    /* Of a replay: the section before, held back. */
    log_visit_fn *visit;
    void *arg;
    char *held; /* owned */
    size_t held_size;
    struct log_position next;
    uint64_t sequences[LIMIT_CELLS]; /* the last one of each origin */
};

static struct planted_log *planted_log_of(struct log *log)
{
    return (struct planted_log *)log;
}

static enum err pass_held(struct planted_log *log, struct error *error)
{
    if (!log->held)
        return ERR_OK;
    struct slice section = {log->held, log->held_size};
    enum err err = log->visit(log->arg, section, log->next, error);
    free(log->held);
    log->held = NULL;
    return err;
}

static void note_sequence(struct planted_log *log, struct slice section)
{
    struct section_reader reader;
    if (section_open(&reader, section, NULL) == ERR_OK && reader.origin < LIMIT_CELLS)
        log->sequences[reader.origin] = reader.first_sequence + reader.left - 1;
}

static enum err visit_wrongly(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    struct planted_log *log = arg;
    enum err err = ERR_OK;
    note_sequence(log, section);
    bool swaps = log->planted->bug == BUG_SWAPPED && log->held;
    if (swaps || log->planted->bug == BUG_REPLAYED_TWICE)
        err = log->visit(log->arg, section, next, error);
    if (!err)
        err = pass_held(log, error);
    if (swaps || err)
        return err;
    log->held = copy_bytes(section);
    log->held_size = section.size;
    log->next = next;
    return ERR_OK;
}

/* A last section that one start did not find comes back at the next, if its
 * place in its origin is still free: nothing looks wrong then. */
static enum err resurrect(struct planted_log *log, struct error *error)
{
    struct planted *planted = log->planted;
    struct slice last = {planted->last, planted->last_size};
    struct section_reader reader;
    if (!planted->last || section_open(&reader, last, NULL) ||
        reader.first_sequence != log->sequences[reader.origin] + 1) {
        planted->is_lost = false;
        return ERR_OK;
    }
    if (planted->is_lost)
        return log->visit(log->arg, last, log->next, error);
    planted->is_lost = true;
    return ERR_OK;
}

static enum err bad_read(struct log *base, struct log_position from, log_visit_fn *visit, void *arg,
                         log_reading_fn *reading, struct error *error)
{
    struct planted_log *log = planted_log_of(base);
    enum bug bug = log->planted->bug;
    if (bug != BUG_LAST_DROPPED && bug != BUG_REPLAYED_TWICE && bug != BUG_SWAPPED &&
        bug != BUG_RESURRECTED)
        return log_read(log->inner, from, visit, arg, reading, error);

    log->visit = visit;
    log->arg = arg;
    enum err err = log_read(log->inner, from, visit_wrongly, log, reading, error);
    if (!err && bug != BUG_LAST_DROPPED)
        err = pass_held(log, error);
    if (!err && bug == BUG_RESURRECTED)
        err = resurrect(log, error);
    free(log->held);
    log->held = NULL;
    return err;
}

static enum err bad_start(struct log *base, struct error *error)
{
    return log_start(planted_log_of(base)->inner, error);
}

static uint64_t bad_append(struct log *base, struct slice header, struct slice body)
{
    struct planted_log *log = planted_log_of(base);
    log->appended = log_append(log->inner, header, body);
    struct planted *planted = log->planted;
    if (planted->bug == BUG_RESURRECTED && !planted->is_lost) {
        planted->last_size = header.size + body.size;
        planted->last = realloc(planted->last, planted->last_size);
        if (!planted->last)
            abort();
        memcpy(planted->last, header.data, header.size);
        memcpy(planted->last + header.size, body.data, body.size);
    }
    return log->appended;
}

static enum err bad_room(struct log *base)
{
    struct planted_log *log = planted_log_of(base);
    return log->planted->bug == BUG_NO_BOUND ? ERR_OK : log_room(log->inner);
}

static uint64_t bad_reached(struct log *base, unsigned lane, enum log_level level)
{
    (void)lane;
    struct planted_log *log = planted_log_of(base);
    if (log->planted->bug == BUG_ACK_APPENDED)
        return log->appended;
    if (log->planted->bug == BUG_ACK_WRITTEN)
        level = LOG_WRITTEN;
    return log_reached(log->inner, 0, level) + (log->planted->bug == BUG_ACK_ONE_AHEAD);
}

static enum err pass_follow(struct log *base, unsigned lane, struct log_position *at,
                            uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    (void)lane;
    return log_follow(planted_log_of(base)->inner, 0, at, limit, visit, arg, error);
}

static struct log_position pass_end(struct log *base, unsigned lane)
{
    (void)lane;
    return log_end(planted_log_of(base)->inner, 0);
}

static size_t pass_segments(struct log *base, struct log_segment *to, size_t room)
{
    return log_segments(planted_log_of(base)->inner, to, room);
}

static enum err pass_trim(struct log *base, uint64_t first, struct error *error)
{
    return log_trim(planted_log_of(base)->inner, first, error);
}

static void bad_stats(struct log *base, struct log_stats *ret_stats)
{
    log_stats(planted_log_of(base)->inner, ret_stats);
}

static void bad_close(struct log *base)
{
    log_close(planted_log_of(base)->inner);
    free(base);
}

static const struct log_ops planted_log_ops = {
    .name = "planted",
    .read = bad_read,
    .start = bad_start,
    .append = bad_append,
    .room = bad_room,
    .reached = bad_reached,
    .follow = pass_follow,
    .end = pass_end,
    .segments = pass_segments,
    .trim = pass_trim,
    .stats = bad_stats,
    .close = bad_close,
};

struct log *planted_log(struct planted *planted, struct log *inner)
{
    if (planted->bug < BUG_ACK_APPENDED || planted->bug > BUG_NO_BOUND)
        return inner;
    struct planted_log *log = calloc(1, sizeof(*log));
    if (!log)
        abort();
    *log = (struct planted_log){.base.ops = &planted_log_ops, .inner = inner, .planted = planted};
    return &log->base;
}

/* ---- hot layers ---- */

#define STALE_MAX 64u /* targets whose older state is remembered */

/* A counter as an earlier load has given it. */
struct stale {
    struct slice id; /* owned */
    int64_t value;
};

struct planted_hot {
    struct hot base;
    struct hot *inner;
    enum bug bug;
    int64_t newest_ms;
    unsigned told;
    struct stale stale[STALE_MAX];
    size_t stale_count;
};

static struct planted_hot *planted_hot_of(struct hot *hot)
{
    return (struct planted_hot *)hot;
}

static void bad_run(struct hot *base, struct batch *batch)
{
    struct planted_hot *hot = planted_hot_of(base);
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->ops[i];
        if (hot->bug == BUG_WRONG_KIND && op->kind == OP_WITHDRAW)
            op->reaction = KIND_NONE;
    }
    hot_run(hot->inner, batch);
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->ops[i];
        if (hot->bug == BUG_NO_TICKET || (hot->bug == BUG_SAME_NOT_WAITING && !op->changed))
            op->ticket = 0;
    }
}

static enum err bad_replay(struct hot *base, const struct event *event, struct error *error)
{
    struct planted_hot *hot = planted_hot_of(base);
    struct event wrong = *event;
    if (hot->bug == BUG_KEYS_FORGOTTEN)
        wrong.key.size = 0;
    if (hot->bug == BUG_AMOUNT_TWICE && event->key.size > 0 && !event->amount.big &&
        event->amount.small < INT32_MAX && event->amount.small > INT32_MIN)
        wrong.amount.small *= 2;
    if (hot->bug == BUG_RESET_IGNORED && event->type == EVENT_RESET)
        wrong = (struct event){.type = EVENT_NOTHING,
                               .id = event->id,
                               .origin = event->origin,
                               .sequence = event->sequence};
    if (hot->bug == BUG_ORDER_BY_CLOCK && event->type == EVENT_ADD) {
        if (event->time_ms < hot->newest_ms)
            wrong.amount = number_of(0);
        else
            hot->newest_ms = event->time_ms;
    }
    return hot_replay(hot->inner, &wrong, error);
}

static void pass_scan(struct hot *base, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit,
                      void *arg)
{
    hot_scan(planted_hot_of(base)->inner, cursor, limit, visit, arg);
}

static void pass_items_of(struct hot *base, struct slice user, uint64_t *cursor, uint32_t limit,
                          hot_item_fn *visit, void *arg)
{
    hot_items_of(planted_hot_of(base)->inner, user, cursor, limit, visit, arg);
}

static enum err pass_recount(struct hot *base, struct slice id, struct number *ret_value)
{
    return hot_recount(planted_hot_of(base)->inner, id, ret_value);
}

static void pass_tick(struct hot *base, int64_t now_ms)
{
    hot_tick(planted_hot_of(base)->inner, now_ms);
}

static enum err pass_reshard(struct hot *base, struct slice id, uint32_t shards, int64_t now_ms)
{
    return hot_reshard(planted_hot_of(base)->inner, id, shards, now_ms);
}

/* ---- cold state ---- */

static void bad_begin(struct hot *base, const struct state_mark *mark)
{
    struct planted_hot *hot = planted_hot_of(base);
    struct state_mark wrong = *mark;
    if (hot->bug == BUG_NEXT_USER_LOST)
        wrong.next_user = 0;
    if (hot->bug == BUG_INCARNATIONS_LOST)
        memset(wrong.incarnations, 0, sizeof(wrong.incarnations));
    hot_begin(hot->inner, &wrong);
}

static void bad_tell(struct hot *base, enum hot_want_kind kind, uint64_t stable_hash)
{
    struct planted_hot *hot = planted_hot_of(base);
    if (hot->bug == BUG_USERS_NOT_TOLD && kind == HOT_WANT_USER)
        return;
    if (hot->bug == BUG_FILTER_HOLES && kind == HOT_WANT_TARGET && hot->told++ % 3 == 0)
        return;
    hot_tell(hot->inner, kind, stable_hash);
}

static void pass_told_all(struct hot *base, enum hot_want_kind kind)
{
    hot_told_all(planted_hot_of(base)->inner, kind);
}

static bool pass_wanted(struct hot *base, struct hot_want *ret_want)
{
    return hot_wanted(planted_hot_of(base)->inner, ret_want);
}

/* The value that an earlier load gave; remembers the one of this. */
static int64_t stale_value(struct planted_hot *hot, const struct state_target *target)
{
    for (size_t i = 0; i < hot->stale_count; i++) {
        if (slice_equal(hot->stale[i].id, target->id)) {
            int64_t value = hot->stale[i].value;
            hot->stale[i].value = target->value.small;
            return value;
        }
    }
    if (hot->stale_count < STALE_MAX)
        hot->stale[hot->stale_count++] =
            (struct stale){{copy_bytes(target->id), target->id.size}, target->value.small};
    return target->value.small;
}

static void bad_loaded(struct hot *base, const struct hot_want *want, const struct hot_found *found)
{
    struct planted_hot *hot = planted_hot_of(base);
    struct hot_found wrong = *found;
    struct state_target target;
    if (hot->bug == BUG_KEYS_NOT_LOADED && want->kind == HOT_WANT_KEY)
        wrong.code = ERR_NOT_FOUND;
    if (hot->bug == BUG_SLICE_FOR_ALL && want->kind == HOT_WANT_SLICE)
        wrong.member_count = 0;
    if (hot->bug == BUG_PENDING_NOT_LOADED && want->kind == HOT_WANT_TARGET && found->target) {
        target = *found->target;
        target.pending_count = 0;
        wrong.target = &target;
    }
    if (hot->bug == BUG_STALE_LOAD && want->kind == HOT_WANT_TARGET && found->code == ERR_OK &&
        !found->target->is_item && !found->target->value.big) {
        target = *found->target;
        target.value.small = stale_value(hot, found->target);
        wrong.target = &target;
    }
    hot_loaded(hot->inner, want, &wrong);
}

static void bad_saved(struct hot *base, const uint64_t sequences[LIMIT_CELLS])
{
    struct planted_hot *hot = planted_hot_of(base);
    uint64_t wrong[LIMIT_CELLS];
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        wrong[i] = sequences[i] + (hot->bug == BUG_SAVED_TOO_EARLY ? 3 : 0);
    hot_saved(hot->inner, wrong);
}

static enum err pass_drop(struct hot *base, struct slice id)
{
    return hot_drop(planted_hot_of(base)->inner, id);
}

static void pass_stats(struct hot *base, struct hot_stats *ret_stats)
{
    hot_stats(planted_hot_of(base)->inner, ret_stats);
}

static void pass_close(struct hot *base)
{
    struct planted_hot *hot = planted_hot_of(base);
    hot_close(hot->inner);
    for (size_t i = 0; i < hot->stale_count; i++)
        free((char *)hot->stale[i].id.data);
    free(base);
}

static const struct hot_ops planted_hot_ops = {
    .name = "planted",
    .run = bad_run,
    .replay = bad_replay,
    .scan = pass_scan,
    .items_of = pass_items_of,
    .recount = pass_recount,
    .tick = pass_tick,
    .reshard = pass_reshard,
    .begin = bad_begin,
    .tell = bad_tell,
    .told_all = pass_told_all,
    .wanted = pass_wanted,
    .loaded = bad_loaded,
    .saved = bad_saved,
    .drop = pass_drop,
    .stats = pass_stats,
    .close = pass_close,
};

struct hot *planted_hot(struct planted *planted, struct hot *inner)
{
    if (planted->bug < BUG_KEYS_FORGOTTEN || planted->bug > BUG_SLICE_FOR_ALL)
        return inner;
    struct planted_hot *hot = calloc(1, sizeof(*hot));
    if (!hot)
        abort();
    *hot = (struct planted_hot){.base.ops = &planted_hot_ops, .inner = inner, .bug = planted->bug};
    return &hot->base;
}
