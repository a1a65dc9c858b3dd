/* layer.h - the Redis hot layer as its own files see it.
 *
 * One thread does everything that has to do with Redis: it owns the connections, the slot map, and
 * what is known of spread things. Workers hand batches in and collect them; the relay, the loader
 * and the desk ask and wait. So nothing in here is locked but the mailbox between them.
 *
 *   redis.c    life, and the table of the port           wire: link.c cluster.c call.c script.c
 *   run.c      batches become calls (group.c), replies become answers (reply.c)
 *   open.c outbox.c load.c drop.c scan.c look.c          spread.c map.c move.c total.c
 *
 * Each part has x_new(layer), called when the loop is there and does not run yet, and x_free(),
 * called when it does not run any more. */
#ifndef HOT_REDIS_LAYER_H
#define HOT_REDIS_LAYER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/hot.h"
#include "core/limits.h"
#include "core/outbox.h"
#include "hot/redis/call.h"
#include "hot/redis/mail.h"
#include "hot/redis/redis.h"
#include "hot/redis/slots.h"
#include "net/loop.h"

struct cluster; /* cluster.h: connections and slots */
struct calls;   /* call.h: calls that wait for a connection */
struct runs;    /* run.h: batches under way, and the queue of each cell */
struct opens;   /* open.h: what is known of the cells: open or closed, leases */
struct loads;   /* load.h: what is wanted, and what is stale */
struct drops;   /* drop.h: the sweeper */
struct spreads; /* spread.h: what is spread, its maps and totals */

struct layer {
    struct hot base;
    struct outbox outbox;
    struct env *env; /* borrowed */
    struct redis_hot_options options;
    char prefix[64];
    char node[33]; /* a random name of this process, for leases and call numbers */
    struct slots_tags tags;
    _Atomic bool has_store; /* hot_begin() was called: what is not in Redis may be in the store */

    struct loop *loop; /* these are owned */
    struct mail *mail;
    struct loop_hook *hook; /* at the end of each pass what has gathered is sent */
    pthread_t thread;
    bool runs_thread;
    struct cluster *cluster;
    struct calls *calls;
    struct runs *runs;
    struct opens *opens;
    struct loads *loads;
    struct drops *drops;
    struct spreads *spreads;
};

static inline struct layer *layer_of(struct hot *hot)
{
    return (struct layer *)hot;
}

/* The home cell of an id with this hash_stable(); as flow/coalesce.c has it, and the memory layer.
 */
static inline unsigned layer_home(uint64_t stable)
{
    return (unsigned)(stable >> 58);
}

/* Has `run` called on the layer's thread, soon, in the order of posting. Any thread. False: the
 * layer is being closed, and it is not called. */
typedef void layer_fn(void *arg);
bool layer_post(struct layer *layer, layer_fn *run, void *arg);

/* Is this the layer's thread? For asserts. */
bool layer_is_own_thread(const struct layer *layer);

/* Any thread. Where a cell's keys are now: the number of its primary, 0 to layer_primaries() - 1,
 * in an order that stays while the cluster stays as it is. And how long it has taken to answer of
 * late. */
unsigned layer_primaries(const struct layer *layer);
unsigned layer_primary_of(const struct layer *layer, unsigned cell);
uint64_t layer_latency_ns(const struct layer *layer, unsigned primary);

/* --- called by the parts of one another, on the layer's thread unless it says otherwise --- */

/* open.c, outbox.c: a reply said that the cell is closed; events were written to its outbox. */
struct opens *opens_new(struct layer *layer);
void opens_free(struct opens *opens);
void outbox_init(struct layer *layer);
void opens_met_closed(struct layer *layer, unsigned cell);
void outbox_note_written(struct layer *layer, unsigned cell);

/* load.c: the record `id` is not in the cell, or a slice or a key is not, and the store may know
 * it. Queues a want, rings hot->want; any number of times. ERR_COLD: it is wanted; another code:
 * what the op is to be told, since the store could not say a moment ago. */
struct loads *loads_new(struct layer *layer);
void loads_free(struct loads *loads);
enum err loads_want(struct layer *layer, unsigned cell, struct slice id);
enum err loads_want_slice(struct layer *layer, unsigned cell, struct slice id, uint32_t slice);
enum err loads_want_key(struct layer *layer, unsigned cell, struct slice id, uint64_t low,
                        uint64_t high);

/* The cell is closed or cannot be reached: may the store answer this read? If it has been asked
 * already, fills in op (stale, as_of_ms) and returns true; else wants it, and the op is ERR_COLD.
 */
bool loads_answer_stale(struct layer *layer, struct op *op);

void loads_begin(struct hot *hot, const struct state_mark *mark);
void loads_tell(struct hot *hot, enum hot_want_kind kind, uint64_t stable_hash);
void loads_told_all(struct hot *hot, enum hot_want_kind kind);
bool loads_wanted(struct hot *hot, struct hot_want *ret_want);
void loads_loaded(struct hot *hot, const struct hot_want *want, const struct hot_found *found);

/* drop.c */
struct drops *drops_new(struct layer *layer);
void drops_free(struct drops *drops);
void drops_saved(struct hot *hot, const uint64_t sequences[LIMIT_CELLS]);
enum err drops_id(struct hot *hot, struct slice id);
void drops_tick(struct layer *layer, int64_t now_ms); /* any thread */

/* scan.c, look.c: the port's own signatures, any thread */
void scans_scan(struct hot *hot, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg);
enum err scans_peek(struct hot *hot, struct slice id, hot_visit_fn *visit, void *arg);
void scans_items_of(struct hot *hot, struct slice user, uint64_t *cursor, uint32_t limit,
                    hot_item_fn *visit, void *arg);
enum err scans_recount(struct hot *hot, struct slice id, struct number *ret_value);
enum err scans_inspect(struct hot *hot, struct slice id, struct hot_inspection *ret);
enum err scans_mend(struct hot *hot, struct slice id, const struct hot_record *record, uint8_t kind,
                    const struct number *by);
enum err scans_note(struct hot *hot, const struct event *repair, int64_t now_ms);
void scans_stats(struct hot *hot, struct hot_stats *ret_stats);

/* spread.c: where an op goes: the home cell, or where the user's slice is now, or a part of the
 * counter chosen by its policy; then op->route is set. UINT_MAX: the op was taken, and comes back
 * by runs_again() or runs_finish_op(). */
struct spreads *spreads_new(struct layer *layer);
void spreads_free(struct spreads *spreads);
unsigned spreads_cell_of(struct layer *layer, struct op *op);

/* The cells that have pieces of the op's target, as far as is known; its home is always one. */
uint64_t spreads_cells_with(struct layer *layer, const struct op *op);

/* A cell said that the op does not belong there (any more), or not right now: the map is read again
 * from home, and the op comes back by runs_again() or runs_finish_op(). */
void spreads_met_moved(struct layer *layer, struct op *op, bool is_moving);

/* A write was done in `cell`, and is about to be answered: heat; of something spread, value and
 * counts become the totals. */
void spreads_note_write(struct layer *layer, struct op *op, unsigned cell);

/* CREATE with several shards was done at home, where the record is an ordinary one yet. True: the
 * op is finished by spread_change.c when the shards are there. */
bool spreads_created(struct layer *layer, struct op *op);

/* A read. True: answered. False with op->route set: it is asked for, and runs_finish_op() comes
 * later. False without: it is not spread. */
bool spreads_read(struct layer *layer, struct op *op);

/* The same on a worker's thread, of what is known at once. False: no answer that will do. */
bool spreads_answer(struct layer *layer, struct op *op);

enum err spreads_reshard(struct hot *hot, struct slice id, uint32_t shards, int64_t now_ms);
void spreads_hottest(struct hot *hot, uint32_t limit, hot_shards_fn *visit, void *arg);

/* run.c: the op has its answer; the batch is finished with its last one. */
void runs_finish_op(struct layer *layer, struct op *op);

/* Which batch the op is of: a number that no other batch has, before or after. 0: of none, it is
 * one of our own. */
uint64_t runs_batch_serial(const struct op *op);

/* The op could not be done where it was sent: it is aimed and queued again, in the order of these
 * calls. Refused with ERR_UNAVAILABLE when that has gone on for too long. */
void runs_again(struct layer *layer, struct op *op);

/* Has the op waited for as long as one of its kind does? Then it is refused: a write with
 * ERR_UNAVAILABLE, and of a read the store is asked instead. */
bool runs_is_impatient(const struct layer *layer, const struct op *op);
void runs_refuse(struct layer *layer, struct op *op);

/* The cell was opened: what was refused is asked for again. */
void runs_cell_opened(struct layer *layer, unsigned cell);

/* Deletes the counter in its home cell if its time is over, with its event. Cuts an item there that
 * has grown large into slices. */
void runs_sweep(struct layer *layer, struct slice id);
void runs_split(struct layer *layer, struct slice id);

#endif
