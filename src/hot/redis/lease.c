#include "hot/redis/lease.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "hot/redis/ask.h"
#include "hot/redis/open.h"

#define SECOND_NS   UINT64_C(1000000000)
#define ROUND_NS    (SECOND_NS / 4)
#define LEASE_NS    (3 * SECOND_NS - SECOND_NS / 4) /* a little less than the server's */
#define PRUNE_NS    (300 * SECOND_NS)
#define LEAVE_CELLS 4u /* given up in one round */

struct lease {
    uint64_t asked_ns; /* when we asked for it that was granted last; 0 = not ours */
    bool is_others;    /* it was in the last round */
};

struct leases {
    struct layer *layer; /* borrowed */
    struct lease cells[LIMIT_CELLS];
    struct call calls[LIMIT_CELLS];
    unsigned first; /* the cell where we begin to look: each node elsewhere */
    unsigned nodes; /* that relay, as far as we know */
    bool has_grown; /* our share, since others have gone: what they had may be free */
    uint64_t round_ns;
    uint64_t pruned_ns;
    _Atomic uint64_t held;
    _Atomic uint64_t entries[LIMIT_CELLS]; /* in the outboxes, whoever relays them */
};

struct leases *leases_new(struct layer *layer)
{
    struct leases *leases = memory_take_zeroed(sizeof(*leases));
    leases->layer = layer;
    leases->nodes = 1;
    leases->first = (unsigned)(env_random(layer->env) % LIMIT_CELLS);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        call_init(&leases->calls[i], layer, i, SCRIPT_OUTBOX);
    return leases;
}

void leases_free(struct leases *leases)
{
    if (!leases)
        return;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        call_done(&leases->calls[i]);
    free(leases);
}

uint64_t leases_held(struct layer *layer)
{
    return atomic_load_explicit(&layer->opens->leases->held, memory_order_relaxed);
}

void leases_entries(struct layer *layer, uint64_t *ret_sum, uint64_t *ret_longest)
{
    *ret_sum = *ret_longest = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        uint64_t entries =
            atomic_load_explicit(&layer->opens->leases->entries[i], memory_order_relaxed);
        *ret_sum += entries;
        if (entries > *ret_longest)
            *ret_longest = entries;
    }
}

static uint64_t held_at(const struct leases *leases, uint64_t now_ns)
{
    uint64_t held = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        uint64_t asked_ns = leases->cells[i].asked_ns;
        if (asked_ns != 0 && now_ns - asked_ns < LEASE_NS)
            held |= UINT64_C(1) << i;
    }
    return held;
}

static void take_nodes(void *arg, const struct redisReply *reply)
{
    uint64_t nodes = reply_number(reply);
    struct leases *leases = arg;
    unsigned known = nodes == 0 ? 1 : nodes > LIMIT_CELLS ? LIMIT_CELLS : (unsigned)nodes;
    leases->has_grown = known < leases->nodes;
    leases->nodes = known;
}

/* When cell 0 does not answer there are as many as there were. */
static void say_to_nodes(struct leases *leases, const char *verb, ask_take_fn *take)
{
    struct call *call = &leases->calls[0];
    call_clear(call, 0, SCRIPT_OUTBOX);
    call_key(call, "nodes");
    call_arg_text(call, verb);
    call_arg_text(call, leases->layer->node);
    (void)ask(call, take, leases);
}

static void show_up(struct leases *leases)
{
    leases->has_grown = false;
    say_to_nodes(leases, "nodes", take_nodes);
}

struct asking {
    struct leases *leases;
    unsigned cell;
    uint64_t now_ns;
};

static void take_lease(void *arg, const struct redisReply *reply)
{
    const struct asking *asking = arg;
    struct leases *leases = asking->leases;
    bool is_ours = slice_equal(reply_text_at(reply, 0), slice_of(leases->layer->node));
    leases->cells[asking->cell].asked_ns = is_ours ? asking->now_ns : 0;
    leases->cells[asking->cell].is_others = !is_ours && reply_text_at(reply, 0).size > 0;
    atomic_store_explicit(&leases->entries[asking->cell], reply_number_at(reply, 2),
                          memory_order_relaxed);
    opens_saw(leases->layer, asking->cell, slice_equal(reply_text_at(reply, 1), SLICE("open")));
    atomic_store(&leases->layer->opens->looked_ns[asking->cell], asking->now_ns);
}

/* What to do about each cell: those that are ours we hold, but for a few that are too many; of
 * those that were free we try to hold as many as we lack. */
static void decide(const struct leases *leases, uint64_t held, const char *what[LIMIT_CELLS])
{
    unsigned share = (LIMIT_CELLS + leases->nodes - 1) / leases->nodes;
    unsigned count = (unsigned)__builtin_popcountll(held);
    unsigned leave = count > share ? count - share : 0;
    unsigned lack = count < share ? share - count : 0;
    leave = leave < LEAVE_CELLS ? leave : LEAVE_CELLS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        unsigned cell = (leases->first + i) % LIMIT_CELLS;
        bool is_ours = held & UINT64_C(1) << cell;
        what[cell] = is_ours ? "hold" : "look";
        if (is_ours && leave > 0) {
            what[cell] = "leave";
            leave--;
        } else if (!is_ours && lack > 0 && (!leases->cells[cell].is_others || leases->has_grown)) {
            what[cell] = "hold";
            lack--;
        }
    }
}

static void ask_cells(struct leases *leases, uint64_t now_ns, const char *what[LIMIT_CELLS],
                      bool prunes)
{
    struct asking askings[LIMIT_CELLS];
    void *args[LIMIT_CELLS];
    enum err codes[LIMIT_CELLS];
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct call *call = &leases->calls[i];
        askings[i] = (struct asking){.leases = leases, .cell = i, .now_ns = now_ns};
        args[i] = &askings[i];
        call_clear(call, i, SCRIPT_OUTBOX);
        call_key(call, "out");
        call_arg_text(call, "lease");
        call_arg_text(call, leases->layer->node);
        call_arg_text(call, what[i]);
        call_arg_number(call, prunes);
    }
    ask_probing(leases->calls, LIMIT_CELLS, codes, take_lease, args);
}

static void go_round(struct leases *leases, uint64_t now_ns)
{
    const char *what[LIMIT_CELLS];
    bool prunes = now_ns - leases->pruned_ns > PRUNE_NS;
    leases->pruned_ns = prunes ? now_ns : leases->pruned_ns;
    decide(leases, held_at(leases, now_ns), what);
    ask_cells(leases, now_ns, what, prunes);
}

static void take_nothing(void *arg, const struct redisReply *reply)
{
    (void)arg;
    (void)reply;
}

/* First the count of nodes: who finds a cell free knows that it is one of fewer by then. */
void leases_leave(struct outbox *outbox)
{
    struct layer *layer = ask_layer(outbox);
    struct leases *leases = layer->opens->leases;
    const char *what[LIMIT_CELLS];
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        what[i] = "leave";
    say_to_nodes(leases, "gone", take_nothing);
    ask_cells(leases, env_monotonic_ns(layer->env), what, false);
    atomic_store_explicit(&leases->held, 0, memory_order_relaxed);
}

uint64_t leases_leased(struct outbox *outbox)
{
    struct layer *layer = ask_layer(outbox);
    struct leases *leases = layer->opens->leases;
    uint64_t now_ns = env_monotonic_ns(layer->env);
    if (leases->round_ns == 0 || now_ns - leases->round_ns >= ROUND_NS) {
        leases->round_ns = now_ns;
        show_up(leases);
        go_round(leases, env_monotonic_ns(layer->env));
        now_ns = env_monotonic_ns(layer->env);
    }
    uint64_t held = held_at(leases, now_ns);
    atomic_store_explicit(&leases->held, held, memory_order_relaxed);
    return held;
}
