/* nodes_run.c - serving and aggregating nodes, with the real relay and the real aggregator, over
 * models of Redis, Kafka and PostgreSQL.
 *
 * Every step something happens to somebody: a user sends something, a relay or an aggregator takes
 * a step, the log delivers, something is loaded, dropped or moved, a part fails or comes back. In
 * the end the faults stop, everything must come to rest, and then
 *   - what was acknowledged by the log is there, and nothing that nobody sent;
 *   - nothing was counted twice;
 *   - the hot layer says what the store says;
 *   - nobody waits any more. */
#include "sim/nodes/nodes_run.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/event.h"
#include "core/kinds.h"
#include "core/sequence.h"
#include "flow/aggregator.h"
#include "flow/relay.h"
#include "sim/nodes/nodes_check.h"
#include "sim/nodes/nodes_clients.h"
#include "sim/nodes/nodes_log.h"
#include "sim/nodes/nodes_movers.h"
#include "sim/nodes/nodes_redis.h"
#include "sim/nodes/nodes_routes.h"
#include "sim/nodes/nodes_store.h"

#define LOADS          6u
#define SETTLE_STEPS   60000u
#define ACK_TIMEOUT_MS 2000u

struct node {
    bool alive;
    unsigned life;
    uint64_t calls;
    const struct intent
        *again[CELLS];             /* whose call is to be sent again: one at a time for each cell */
    struct relay *relay;           /* owned */
    struct aggregator *aggregator; /* owned; NULL until the store has said how far it is */
    struct log *log;               /* the model's */
};

/* Somebody loads a piece: asks the store some time after the token was given, and hands it in some
 * time after that. */
struct loading {
    bool is_active;
    bool has_rows;
    unsigned cell;
    unsigned thing;
    unsigned slice; /* or WHOLE */
    uint64_t token;
    struct store_rows rows;
};

/* How often, in a thousand steps. */
struct rates {
    unsigned server_down;
    unsigned failover;
    unsigned replace;
    unsigned empty;
    unsigned migrate;
    unsigned move;
    unsigned mover_death; /* of its steps */
    unsigned mover_pause;
    unsigned adopt_pause; /* before that step */
    unsigned replicate;   /* less often: replicas that lag further behind */
    unsigned strike;      /* a cell that it works on, after a step */
    unsigned drop;
    unsigned kill;
    unsigned log_down;
    unsigned store_down;
    unsigned store_failover;
    unsigned rebalance;
    unsigned lost_reply; /* of replies */
};

struct world {
    struct env env;
    struct sim_rng rng;
    int64_t now_ms;
    bool trace;
    struct kinds kinds;
    struct redis_model redis;
    struct log_model log;
    struct store_model store;
    struct node nodes[NODES];
    struct clients clients;
    struct movers movers;
    struct routes routes;
    struct loading loads[LOADS];
    uint64_t saved[LIMIT_CELLS]; /* as nodes believe */
    struct rates rates;
    bool is_settling;
    bool is_focused; /* on the first item and the first counter */
    struct nodes_result *result;
};

static struct world *world_of(struct env *env)
{
    return (struct world *)env;
}

static uint64_t world_monotonic_ns(struct env *env)
{
    return (uint64_t)world_of(env)->now_ms * 1000000;
}

static int64_t world_wall_ms(struct env *env)
{
    return world_of(env)->now_ms;
}

static uint64_t world_random(struct env *env)
{
    return sim_rng_next(&world_of(env)->rng);
}

static uint64_t below(struct world *world, uint64_t count)
{
    return sim_rng_below(&world->rng, count);
}

static bool chance(struct world *world, unsigned permille)
{
    return !world->is_settling && sim_rng_chance(&world->rng, permille);
}

__attribute__((format(printf, 2, 3))) static void say(struct world *world, const char *format, ...)
{
    if (!world->trace)
        return;
    va_list args;
    va_start(args, format);
    printf("%8" PRId64 "  ", world->now_ms);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void violation(struct world *world, const char *format,
                                                            ...)
{
    if (world->result->failed)
        return;
    world->result->failed = true;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->result->violation, sizeof(world->result->violation), format, args);
    va_end(args);
    say(world, "VIOLATION %s", world->result->violation);
}

/* --- nodes --- */

static void start_aggregator(struct world *world, unsigned number)
{
    struct node *node = &world->nodes[number];
    struct state_mark mark;
    if (node->aggregator || store_mark(world->store.views[number], &mark, NULL))
        return;
    node->aggregator = aggregator_new(
        &(struct aggregator_options){
            .env = &world->env,
            .log = node->log,
            .store = world->store.views[number],
            .kinds = &world->kinds,
            .flush_interval_ms = 1 + below(world, 200),
            .flush_events = 1 + below(world, 30),
        },
        &mark);
}

static void start_node(struct world *world, unsigned number)
{
    struct node *node = &world->nodes[number];
    node->alive = true;
    node->life++;
    node->calls = 0;
    memset(node->again, 0, sizeof(node->again));
    routes_forget_node(&world->routes, number);
    node->log = log_model_open(&world->log, number);
    node->relay = relay_new(&(struct relay_options){
        .env = &world->env,
        .outbox = redis_model_outbox(&world->redis, number),
        .log = node->log,
        .store = world->store.views[number],
        .ack_timeout_ms = ACK_TIMEOUT_MS,
    });
    say(world, "node %u starts, life %u", number, node->life);
}

static void kill_node(struct world *world, unsigned number)
{
    struct node *node = &world->nodes[number];
    relay_free(node->relay);
    aggregator_free(node->aggregator);
    node->aggregator = NULL;
    node->relay = NULL;
    node->alive = false;
    log_model_leave(&world->log, number);
    say(world, "node %u is killed", number);
}

static unsigned some_node(struct world *world)
{
    unsigned number = (unsigned)below(world, NODES);
    for (unsigned i = 0; i < NODES && !world->nodes[number].alive; i++)
        number = (number + 1) % NODES;
    return number;
}

static bool is_gone(const struct world *world, const struct intent *intent)
{
    const struct node *node = &world->nodes[intent->node];
    return !node->alive || node->life != intent->life;
}

/* --- loading --- */

static void want(struct world *world, unsigned cell, unsigned thing, unsigned slice)
{
    for (unsigned i = 0; i < LOADS; i++) {
        struct loading *loading = &world->loads[i];
        if (loading->is_active)
            continue;
        uint64_t token = redis_begin_load(&world->redis, cell, thing, slice);
        if (token == 0)
            return;
        *loading = (struct loading){
            .is_active = true, .cell = cell, .thing = thing, .slice = slice, .token = token};
        return;
    }
}

/* The record, or a slice of it. */
static void want_cold(struct world *world, unsigned cell, unsigned thing, unsigned slice)
{
    if (cell == home_of(thing))
        want(world, cell, thing, WHOLE);
    if (is_item(thing))
        want(world, cell, thing, slice);
}

static void go_on_loading(struct world *world)
{
    struct loading *loading = &world->loads[below(world, LOADS)];
    if (!loading->is_active)
        return;
    if (!loading->has_rows) {
        if (world->store.down)
            loading->is_active = false;
        loading->rows = world->store.rows;
        loading->has_rows = true;
        return;
    }
    loading->is_active = false;
    redis_load(&world->redis, loading->cell, loading->thing, loading->slice, loading->token,
               &loading->rows);
    world->result->counts.loads++;
}

/* --- users --- */

/* Where the intent goes by what its node remembers; a repetition goes where it went. */
static void aim(struct world *world, struct intent *intent, unsigned thing, unsigned slice)
{
    if (intent->state == INTENT_AGAIN)
        return;
    if (chance(world, 3))
        world->routes.of[intent->node][thing].has_map = false;
    intent->cell = routes_cell(&world->routes, intent->node, thing, slice, &intent->known);
}

/* Does the call of another stand in the way? */
static bool must_wait(const struct world *world, const struct intent *intent)
{
    const struct intent *again = world->nodes[intent->node].again[intent->cell];
    return again && again != intent;
}

/* By the node that the intent is on, with the next number of its calls. */
static struct caller caller_of(struct world *world, struct intent *intent)
{
    struct node *node = &world->nodes[intent->node];
    bool is_again = intent->state == INTENT_AGAIN;
    if (!is_again) {
        intent->life = node->life;
        intent->call = ++node->calls;
        intent->epoch = redis_epoch(&world->redis, intent->node, intent->cell);
    }
    node->again[intent->cell] = NULL;
    return (struct caller){intent->node, intent->life,  intent->call,
                           intent->cell, intent->epoch, is_again};
}

/* The map is read again, sooner or later. */
static void was_sent_away(struct world *world, unsigned node, unsigned thing, unsigned slice,
                          unsigned cell)
{
    world->result->counts.old_maps++;
    if (chance(world, 300))
        return;
    if (routes_met_moved(&world->routes, node, thing, slice, cell))
        movers_dissolve(&world->movers, node, world->nodes[node].life, thing);
}

static uint64_t ticket_of(struct world *world, const struct intent *intent, unsigned cell,
                          uint64_t sequence)
{
    struct op op = {.cell = (uint8_t)cell, .sequence = sequence};
    relay_tickets(world->nodes[intent->node].relay, &op, 1);
    return op.ticket;
}

/* The reply has come, or not. True: the intent is done in the hot layer. */
static bool take_reply(struct world *world, struct intent *intent, unsigned thing, unsigned slice,
                       struct reply reply)
{
    if (reply.answer == ANSWER_DONE && chance(world, world->rates.lost_reply)) {
        intent->state = INTENT_AGAIN;
        world->nodes[intent->node].again[intent->cell] = intent;
        world->result->counts.lost_replies++;
        return false;
    }
    if (reply.answer == ANSWER_DONE) {
        intent->state = INTENT_WAITING;
        intent->ticket = ticket_of(world, intent, intent->cell, reply.sequence);
        return true;
    }
    bool is_unreachable = reply.answer == ANSWER_CLOSED || reply.answer == ANSWER_DOWN;
    if (intent->state == INTENT_AGAIN && is_unreachable && chance(world, 900)) {
        world->nodes[intent->node].again[intent->cell] = intent; /* the node goes on trying */
        return false;
    }
    /* Sent again, and refused: nobody knows about the first time. A cell that says that something
     * is missing has not done it. */
    if (intent->state == INTENT_AGAIN && (is_unreachable || reply.answer == ANSWER_UNKNOWN))
        intent->may_be_done = true;
    intent->state = INTENT_SENDS;
    if (reply.answer == ANSWER_COLD)
        want_cold(world, intent->cell, thing, slice);
    if (reply.answer == ANSWER_MOVED)
        was_sent_away(world, intent->node, thing, slice, intent->cell);
    return false;
}

enum end { END_NOT_YET, END_STRONG, END_WEAK, END_UNKNOWN };

/* What the user hears of something that waits for the log. */
static enum end look_at_answer(struct world *world, struct intent *intent)
{
    if (is_gone(world, intent))
        return END_UNKNOWN;
    struct relay *relay = world->nodes[intent->node].relay;
    if (relay_safe(relay) < intent->ticket ||
        relay_any_stuck(relay, intent->ticket, intent->ticket))
        return END_NOT_YET;
    return relay_any_weak(relay, intent->ticket, intent->ticket) ? END_WEAK : END_STRONG;
}

static void count_end(struct world *world, enum end end)
{
    world->result->counts.strong += end == END_STRONG;
    world->result->counts.weak += end == END_WEAK;
    world->result->counts.unknown += end == END_UNKNOWN;
}

/* The user does not wait for the answer of that node any more, and the node does. */
static void forget_again(struct world *world, struct intent *intent)
{
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (world->nodes[intent->node].again[cell] == intent)
            world->nodes[intent->node].again[cell] = NULL;
}

static void go_on_reacting(struct world *world, unsigned item, unsigned user)
{
    struct client *client = &world->clients.users[item][user];
    struct intent *intent = &client->intent;
    if (intent->state == INTENT_WAITING) {
        enum end end = look_at_answer(world, intent);
        if (end == END_NOT_YET)
            return;
        count_end(world, end);
        say(world, "i%u u%u %u: %s", item, user, intent->wanted,
            end == END_STRONG ? "in the log"
            : end == END_WEAK ? "weak"
                              : "unknown");
        if (end == END_STRONG)
            client->maybe = 1u << intent->wanted;
        intent->state = INTENT_NONE;
        return;
    }
    if (intent->state == INTENT_NONE) {
        *intent = (struct intent){.state = INTENT_SENDS,
                                  .wanted = (unsigned)below(world, HELD_COUNT),
                                  .node = some_node(world)};
        client->maybe |= 1u << intent->wanted;
        world->result->counts.ops++;
    } else if (is_gone(world, intent) || chance(world, 50)) {
        forget_again(world, intent);
        intent->node = some_node(world); /* the user tries another node, with a new call */
        intent->state = INTENT_SENDS;
    }
    unsigned slice = slice_of_user(user);
    if (!world->nodes[intent->node].alive)
        return;
    aim(world, intent, item, slice);
    if (must_wait(world, intent))
        return;
    struct caller from = caller_of(world, intent);
    struct reply reply =
        redis_react(&world->redis, from, intent->known, item, user, intent->wanted);
    if (take_reply(world, intent, item, slice, reply))
        say(world, "i%u u%u %u: done in cell %u, %" PRIu64 "-%" PRIu64 ", ticket %" PRIu64, item,
            user, intent->wanted, intent->cell, sequence_epoch(reply.sequence),
            sequence_n(reply.sequence), intent->ticket);
    else if (intent->state == INTENT_SENDS && chance(world, 20))
        intent->state = INTENT_NONE; /* has enough of it */
}

static void end_adding(struct world *world, struct tally *tally, enum end end)
{
    say(world, "c%u: %s", (unsigned)(tally - world->clients.counters),
        end == END_STRONG ? "in the log"
        : end == END_WEAK ? "weak"
                          : "unknown");
    count_end(world, end);
    tally->least += end == END_STRONG;
    tally->most += end != END_NOT_YET;
    tally->intent.state = INTENT_NONE;
}

static void go_on_adding(struct world *world, unsigned counter)
{
    struct tally *tally = &world->clients.counters[counter];
    struct intent *intent = &tally->intent;
    if (intent->state == INTENT_WAITING) {
        enum end end = look_at_answer(world, intent);
        if (end != END_NOT_YET)
            end_adding(world, tally, end);
        return;
    }
    if (intent->state == INTENT_NONE) {
        *intent = (struct intent){.state = INTENT_SENDS, .node = some_node(world)};
        world->result->counts.ops++;
    }
    if (is_gone(world, intent) && intent->state == INTENT_AGAIN) {
        end_adding(world, tally, END_UNKNOWN);
        return;
    }
    if (!world->nodes[intent->node].alive) {
        intent->state = INTENT_NONE;
        return;
    }
    unsigned turn = (unsigned)below(world, SLICES);
    aim(world, intent, ITEMS + counter, turn);
    if (must_wait(world, intent))
        return;
    struct caller from = caller_of(world, intent);
    struct reply reply = redis_add(&world->redis, from, intent->known, counter, 1);
    if (take_reply(world, intent, ITEMS + counter, turn, reply))
        say(world, "c%u: done in cell %u, %" PRIu64 "-%" PRIu64, counter, intent->cell,
            sequence_epoch(reply.sequence), sequence_n(reply.sequence));
    if (intent->may_be_done && intent->state == INTENT_SENDS)
        end_adding(world, tally, END_UNKNOWN); /* without a key it is not sent again */
}

/* --- what happens --- */

static void fail_redis(struct world *world)
{
    struct nodes_counts *counts = &world->result->counts;
    unsigned server = (unsigned)below(world, SERVERS);
    if (chance(world, world->rates.replicate))
        redis_replicate(&world->redis, server);
    if (chance(world, world->rates.server_down))
        world->redis.servers[server].down = !world->redis.servers[server].down;
    if (chance(world, world->rates.failover)) {
        redis_fail_over(&world->redis, server);
        counts->failovers++;
        say(world, "server %u fails over", server);
    }
    if (chance(world, world->rates.replace)) {
        redis_replace(&world->redis, server, 1 + below(world, (1u << NODES) - 1));
        counts->replaced++;
        say(world, "server %u is replaced in its sleep", server);
    }
    if (chance(world, world->rates.empty)) {
        redis_restart_empty(&world->redis, server);
        counts->empties++;
        say(world, "server %u comes back empty", server);
    }
    if (chance(world, world->rates.migrate)) {
        unsigned cell = (unsigned)below(world, CELLS);
        redis_migrate(&world->redis, cell, server);
        counts->migrations++;
        say(world, "cell %u moves to server %u", cell, server);
    }
}

/* Those that were replaced wake up, and nodes learn of it one by one. */
static void tend_ghosts(struct world *world)
{
    struct redis_ghost *ghost = &world->redis.ghosts[below(world, SERVERS)];
    if (ghost->nodes != 0 && !ghost->is_awake && chance(world, 20)) {
        ghost->is_awake = true;
        say(world, "a server that was replaced wakes up");
    }
    if (chance(world, 20))
        ghost->nodes &= ~(UINT64_C(1) << below(world, NODES));
}

static void fail_others(struct world *world)
{
    struct nodes_counts *counts = &world->result->counts;
    if (chance(world, world->rates.log_down)) {
        world->log.down = !world->log.down;
        world->log.down_since_ms = world->log.down ? world->now_ms : 0;
        say(world, "the log is %s", world->log.down ? "down" : "up");
    }
    if (chance(world, world->rates.store_down))
        world->store.down = !world->store.down;
    if (chance(world, 30))
        store_model_replicate(&world->store);
    if (chance(world, world->rates.store_failover)) {
        store_model_fail_over(&world->store);
        counts->store_failovers++;
        say(world, "the store fails over");
    }
}

static void restart_nodes(struct world *world)
{
    unsigned number = (unsigned)below(world, NODES);
    if (world->nodes[number].alive) {
        if (chance(world, world->rates.kill)) {
            kill_node(world, number);
            world->result->counts.kills++;
        }
    } else if (world->is_settling || sim_rng_chance(&world->rng, 50)) {
        start_node(world, number);
    }
}

/* Lanes go from node to node; the one that had them may not know it yet. */
static void rebalance(struct world *world)
{
    unsigned to = some_node(world);
    unsigned lane = (unsigned)below(world, CELLS);
    uint64_t bit = UINT64_C(1) << lane;
    for (unsigned node = 0; node < NODES; node++)
        if (node != to && (world->is_settling || !chance(world, 300)))
            world->log.owned[node] &= ~bit;
    if (world->nodes[to].alive)
        world->log.owned[to] |= bit;
}

static unsigned some_item(struct world *world)
{
    return world->is_focused ? 0 : (unsigned)below(world, ITEMS);
}

static unsigned some_counter(struct world *world)
{
    return world->is_focused ? 0 : (unsigned)below(world, COUNTERS);
}

static unsigned some_thing(struct world *world)
{
    bool is_of_item = sim_rng_chance(&world->rng, 600);
    return is_of_item ? some_item(world) : ITEMS + some_counter(world);
}

/* A change that was begun and is not finished: whoever meets it goes on with it. */
static bool is_changing(struct world *world, unsigned thing)
{
    struct cell_data *data = redis_served(&world->redis, home_of(thing));
    return data && data->records[thing].has_map && data->records[thing].map.change != MAP_STEADY;
}

static void begin_moves(struct world *world)
{
    unsigned thing = some_thing(world);
    unsigned node = some_node(world);
    unsigned life = world->nodes[node].life;
    if (chance(world, world->rates.move))
        movers_start(&world->movers, node, life, thing, 1 + (unsigned)below(world, 3));
    unsigned often = world->is_settling ? 100 : 20;
    if (is_changing(world, thing) && sim_rng_chance(&world->rng, often) &&
        (!movers_have(&world->movers, thing) || chance(world, 300)))
        movers_start(&world->movers, node, life, thing, 0);
    if (sim_rng_chance(&world->rng, 50) && routes_look(&world->routes, node, thing))
        movers_dissolve(&world->movers, node, life, thing);
}

/* A cell that the mover works on loses its server, just then. */
static void strike(struct world *world, const struct mover *mover)
{
    const struct map *map = &mover->over.map;
    const unsigned cells[] = {map->from, map->to, mover->over.home, (unsigned)below(world, CELLS)};
    unsigned cell = cells[below(world, sizeof(cells) / sizeof(cells[0]))];
    unsigned server = world->redis.server_of[cell];
    bool is_empty = chance(world, 500);
    if (is_empty)
        redis_restart_empty(&world->redis, server);
    else
        redis_fail_over(&world->redis, server);
    world->result->counts.empties += is_empty;
    world->result->counts.failovers += !is_empty;
    say(world, "server %u with cell %u %s", server, cell, is_empty ? "is emptied" : "fails over");
}

static void step_mover(struct world *world)
{
    struct mover *mover = &world->movers.list[below(world, MOVERS)];
    if (!mover->is_active || (world->now_ms < mover->paused_until_ms && !world->is_settling))
        return;
    const struct node *node = &world->nodes[mover->node];
    bool is_dead = !node->alive || node->life != mover->life;
    bool adopts = mover->over.step == HAND_OVER_ADOPT;
    unsigned pause = adopts ? world->rates.adopt_pause : 0;
    bool pauses = chance(world, world->rates.mover_pause) || (pause > 0 && chance(world, pause));
    if (pauses && !is_dead) {
        mover->paused_until_ms = world->now_ms + (int64_t)below(world, 20000);
        return;
    }
    bool did = false;
    if (!is_dead || sim_rng_chance(&world->rng, 300)) { /* what it has sent arrives all the same */
        enum hand_over_step step = mover->over.step;
        uint64_t version = mover->over.map.version;
        did = movers_step(&world->movers, mover);
        if (mover->over.step != step)
            say(world, "mover %u: %s of %s %" PRIu64 ", then %s",
                (unsigned)(mover - world->movers.list), hand_over_step_name(step),
                name_of_thing(mover->thing).text, version, hand_over_step_name(mover->over.step));
    }
    bool is_struck = did && chance(world, world->rates.strike);
    if (is_struck) {
        strike(world, mover);
        mover->paused_until_ms = world->now_ms + (int64_t)below(world, 20000);
    }
    if (is_dead || (did && chance(world, world->rates.mover_death)) ||
        (is_struck && chance(world, 500))) {
        world->movers.died += mover->is_active;
        mover->is_active = false;
    }
}

static void tend_things(struct world *world)
{
    unsigned thing = some_thing(world);
    if (chance(world, world->rates.drop)) {
        redis_drop(&world->redis, thing);
        world->result->counts.drops++;
    }
    begin_moves(world);
    for (unsigned i = 0; i < MOVERS; i++)
        step_mover(world);
    if (sim_rng_chance(&world->rng, 100))
        memcpy(world->saved, world->store.rows.mark.sequences, sizeof(world->saved));
}

static void check_moment(struct world *world)
{
    const char *wrong = NULL;
    if (sim_rng_chance(&world->rng, 100))
        wrong = check_one_place(&world->redis, world->store.epochs, some_item(world));
    if (!wrong && sim_rng_chance(&world->rng, 100)) {
        unsigned counter = some_counter(world);
        wrong = check_read(&world->redis, world->store.epochs, counter,
                           &world->clients.counters[counter]);
    }
    if (wrong)
        violation(world, "%s", wrong);
}

static bool is_owned(const struct world *world)
{
    uint64_t owned = 0;
    for (unsigned node = 0; node < NODES; node++)
        owned |= world->log.owned[node];
    return owned == (UINT64_C(1) << CELLS) - 1;
}

static void step_node(struct world *world)
{
    unsigned number = some_node(world);
    struct node *node = &world->nodes[number];
    if (!node->alive)
        return;
    if (sim_rng_chance(&world->rng, 500)) {
        (void)relay_step(node->relay);
        return;
    }
    start_aggregator(world, number);
    if (node->aggregator)
        (void)aggregator_step(node->aggregator);
}

static void step_user(struct world *world, bool may_begin)
{
    if (sim_rng_chance(&world->rng, 200)) {
        unsigned counter = some_counter(world);
        if (may_begin || world->clients.counters[counter].intent.state != INTENT_NONE)
            go_on_adding(world, counter);
        return;
    }
    unsigned item = some_item(world);
    unsigned user = (unsigned)below(world, USERS);
    if (may_begin || world->clients.users[item][user].intent.state != INTENT_NONE)
        go_on_reacting(world, item, user);
}

static void step(struct world *world)
{
    world->result->counts.steps++;
    world->now_ms += (int64_t)below(world, 40);
    fail_redis(world);
    tend_ghosts(world);
    fail_others(world);
    restart_nodes(world);
    if (chance(world, world->rates.rebalance) || (world->is_settling && !is_owned(world)))
        rebalance(world);
    tend_things(world);
    check_moment(world);
    step_user(world, !world->is_settling);
    step_node(world);
    log_model_deliver(&world->log);
    go_on_loading(world);
}

/* --- the end --- */

static bool is_cell_quiet(const struct world *world, unsigned cell)
{
    const struct cell_data *data = &world->redis.cells[cell];
    if (data->state == CELL_NOTHING)
        return true;
    return data->state == CELL_OPEN &&
           data->run == world->redis.servers[world->redis.server_of[cell]].run &&
           data->entry_count == 0 && world->store.rows.mark.sequences[cell] == data->last;
}

static bool are_things_quiet(struct world *world)
{
    for (unsigned i = 0; i < MOVERS; i++)
        if (world->movers.list[i].is_active)
            return false;
    for (unsigned thing = 0; thing < THINGS; thing++)
        if (!check_is_steady(&world->redis, thing))
            return false;
    return true;
}

static bool is_quiet(struct world *world)
{
    for (unsigned item = 0; item < ITEMS; item++)
        for (unsigned user = 0; user < USERS; user++)
            if (world->clients.users[item][user].intent.state != INTENT_NONE)
                return false;
    for (unsigned counter = 0; counter < COUNTERS; counter++)
        if (world->clients.counters[counter].intent.state != INTENT_NONE)
            return false;
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (!is_cell_quiet(world, cell))
            return false;
    return are_things_quiet(world);
}

/* A closed cell is opened when somebody wants something there; so is a piece missed. */
static void touch(struct world *world, unsigned thing, unsigned slice)
{
    struct caller from = {.node = some_node(world)};
    if (!world->nodes[from.node].alive)
        return;
    enum place_known known;
    from.cell = routes_cell(&world->routes, from.node, thing, slice, &known);
    const struct record *hot = &world->redis.cells[from.cell].records[thing];
    struct reply reply =
        is_item(thing) ? redis_react(&world->redis, from, known, thing, slice, hot->held[slice])
                       : redis_add(&world->redis, from, known, thing - ITEMS, 0);
    if (reply.answer == ANSWER_COLD)
        want_cold(world, from.cell, thing, slice);
    if (reply.answer == ANSWER_MOVED)
        was_sent_away(world, from.node, thing, slice, from.cell);
}

static void say_intent(struct world *world, unsigned thing, const struct intent *intent)
{
    if (intent->state != INTENT_NONE)
        say(world, "somebody waits: %s, state %d, node %u, life %u, cell %u, ticket %" PRIu64,
            name_of_thing(thing).text, (int)intent->state, intent->node, intent->life, intent->cell,
            intent->ticket);
}

static void say_records(struct world *world, unsigned thing)
{
    for (unsigned cell = 0; cell < CELLS; cell++) {
        const struct record *record = &world->redis.cells[cell].records[thing];
        if (record->type != 0)
            say(world, "%s in cell %u: type %c, slices %.*s, reserved for %" PRIu64,
                name_of_thing(thing).text, cell, record->type, (int)SLICES, record->own,
                record->rv);
    }
}

static void say_what_is_left(struct world *world)
{
    for (unsigned item = 0; item < ITEMS; item++)
        for (unsigned user = 0; user < USERS; user++)
            say_intent(world, item, &world->clients.users[item][user].intent);
    for (unsigned counter = 0; counter < COUNTERS; counter++)
        say_intent(world, ITEMS + counter, &world->clients.counters[counter].intent);
    for (unsigned cell = 0; cell < CELLS; cell++) {
        const struct cell_data *data = &world->redis.cells[cell];
        uint64_t mark = world->store.rows.mark.sequences[cell];
        say(world,
            "cell %u: state %d, run %u of %u, %zu entries, %" PRIu64 "-%" PRIu64
            ", in the store %" PRIu64 "-%" PRIu64 ", needs %" PRIu64 "-%" PRIu64,
            cell, (int)data->state, data->run,
            world->redis.servers[world->redis.server_of[cell]].run, data->entry_count,
            sequence_epoch(data->last), sequence_n(data->last), sequence_epoch(mark),
            sequence_n(mark), sequence_epoch(data->need), sequence_n(data->need));
    }
    for (unsigned node = 0; node < NODES; node++) {
        struct relay_stats stats = {0};
        if (world->nodes[node].alive)
            relay_stats(world->nodes[node].relay, &stats);
        say(world, "node %u: %s", node, stats.reason);
    }
    for (unsigned thing = 0; thing < THINGS; thing++) {
        struct map map;
        const struct record *record = &world->redis.cells[home_of(thing)].records[thing];
        map = record->map;
        say(world, "%s: steady %d, type %c, change %c, version %" PRIu64, name_of_thing(thing).text,
            check_is_steady(&world->redis, thing), record->type ? record->type : '0',
            record->has_map ? (char)map.change : '0', map.version);
    }
    for (unsigned thing = 0; thing < THINGS; thing++)
        say_records(world, thing);
    for (unsigned i = 0; i < MOVERS; i++)
        if (world->movers.list[i].is_active)
            say(world, "mover %u: %s of %s", i,
                hand_over_step_name(world->movers.list[i].over.step),
                name_of_thing(world->movers.list[i].thing).text);
}

static void settle(struct world *world)
{
    world->is_settling = true;
    world->log.down = world->store.down = false;
    world->log.down_since_ms = 0;
    world->log.repeat_permille = world->log.unheard_permille = 0;
    world->store.lost_permille = world->store.down_permille = 0;
    for (unsigned server = 0; server < SERVERS; server++) {
        world->redis.servers[server].down = false;
        world->redis.ghosts[server].nodes = 0;
    }
    for (unsigned i = 0; i < SETTLE_STEPS; i++) {
        if (i % 500 == 0)
            for (unsigned at = 0; at < THINGS * SLICES; at++)
                touch(world, at / SLICES, at % SLICES);
        if (i % 50 == 0)
            log_model_settle(&world->log);
        step(world);
        if (i % 100 == 0 && i > 2000 && is_quiet(world))
            return;
    }
    say_what_is_left(world);
    struct relay_stats stats;
    relay_stats(world->nodes[0].relay, &stats);
    violation(world, "does not come to rest (%s)", stats.reason);
}

static void check_item(struct world *world, unsigned item, unsigned user)
{
    unsigned held = world->store.rows.held[item][user];
    const struct client *client = &world->clients.users[item][user];
    if (!(client->maybe >> held & 1))
        violation(world, "i%u u%u is %u in the store, and may be one of %x", item, user, held,
                  client->maybe);
}

static void check_counter(struct world *world, unsigned counter)
{
    int64_t value = world->store.rows.values[counter];
    const struct tally *tally = &world->clients.counters[counter];
    if (value < tally->least || value > tally->most)
        violation(world, "c%u is %" PRId64 " in the store, and was counted %" PRId64 " to %" PRId64,
                  counter, value, tally->least, tally->most);
}

/* Whose calls the log has, each as a hash of who called. */
struct calls_seen {
    uint64_t *hashes; /* owned */
    size_t count;
    size_t room;
};

static void see_section(struct calls_seen *seen, struct slice section, uint64_t *last)
{
    struct section_reader reader;
    struct event event;
    if (section_open(&reader, section, NULL))
        return;
    while (section_next(&reader, &event, NULL) == ERR_OK) {
        if (event.sequence > *last && event.type == EVENT_ADD && event.region.size > 0) {
            if (seen->count == seen->room) {
                seen->room = seen->room ? seen->room * 2 : 256;
                seen->hashes = memory_resize(seen->hashes, seen->room * sizeof(*seen->hashes));
            }
            seen->hashes[seen->count++] = hash_stable(event.region);
        }
        if (event.sequence > *last)
            *last = event.sequence;
        event_done(&event);
    }
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* No call stands twice among the events that count. */
static void check_calls(struct world *world)
{
    struct calls_seen seen = {NULL, 0, 0};
    for (unsigned cell = 0; cell < CELLS; cell++) {
        const struct log_lane *lane = &world->log.lanes[cell];
        uint64_t last = 0;
        for (size_t i = 0; i < lane->count; i++)
            see_section(&seen, (struct slice){lane->sections[i].bytes, lane->sections[i].size},
                        &last);
    }
    if (seen.count > 0)
        qsort(seen.hashes, seen.count, sizeof(*seen.hashes), compare_hashes);
    for (size_t i = 1; i < seen.count; i++)
        if (seen.hashes[i] == seen.hashes[i - 1])
            violation(world, "a call was done twice");
    free(seen.hashes);
}

static void check(struct world *world)
{
    check_calls(world);
    for (unsigned item = 0; item < ITEMS; item++)
        for (unsigned user = 0; user < USERS; user++)
            check_item(world, item, user);
    for (unsigned counter = 0; counter < COUNTERS; counter++)
        check_counter(world, counter);
    for (unsigned thing = 0; thing < THINGS; thing++) {
        const char *wrong = check_at_rest(&world->redis, thing, &world->store.rows);
        if (wrong)
            violation(world, "%s", wrong);
    }
}

/* --- a seed --- */

static unsigned some_rate(struct world *world, unsigned most)
{
    return sim_rng_chance(&world->rng, 500) ? 1 + (unsigned)sim_rng_below(&world->rng, most) : 0;
}

/* All that happens has to do with the moves of one item and one counter: so much more of it meets.
 */
static void choose_rates_of_moves(struct world *world)
{
    world->is_focused = true;
    world->rates = (struct rates){
        .failover = some_rate(world, 6),
        .empty = some_rate(world, 5),
        .replace = some_rate(world, 3),
        .move = 100 + (unsigned)below(world, 200),
        .mover_death = some_rate(world, 60),
        .mover_pause = some_rate(world, 30),
        .replicate = 100,
        .strike = 5 + some_rate(world, 120),
        .store_down = some_rate(world, 10),
        .drop = some_rate(world, 10),
        .kill = some_rate(world, 3),
        .log_down = some_rate(world, 3),
        .store_failover = some_rate(world, 2),
        .rebalance = 5 + some_rate(world, 50),
        .lost_reply = some_rate(world, 50),
    };
}

/* One kind of fault more than others. */
static void choose_face(struct world *world)
{
    switch (below(world, 4)) {
    case 0: /* processes that are replaced and do not know it */
        world->rates.replace = 5 + some_rate(world, 20);
        world->rates.strike = some_rate(world, 20);
        break;
    case 1: /* cells that forget their last words, and moves that are given up */
        world->rates.failover = 5 + some_rate(world, 20);
        world->rates.empty = 0;
        world->rates.log_down = some_rate(world, 10);
        world->rates.replicate = 10 + some_rate(world, 60);
        world->rates.adopt_pause = some_rate(world, 500);
        break;
    case 2: /* homes that are lost */
        world->rates.empty = 4 + some_rate(world, 12);
        world->rates.store_down = 5 + some_rate(world, 20);
        world->rates.store_failover = some_rate(world, 10);
        break;
    default:
        break;
    }
}

static void choose_rates(struct world *world)
{
    world->rates = (struct rates){
        .server_down = some_rate(world, 10),
        .failover = some_rate(world, 10),
        .replace = some_rate(world, 10),
        .empty = some_rate(world, 5),
        .migrate = some_rate(world, 10),
        .move = some_rate(world, 100),
        .mover_death = some_rate(world, 100),
        .mover_pause = some_rate(world, 20),
        .replicate = 100,
        .drop = some_rate(world, 200),
        .kill = some_rate(world, 10),
        .log_down = some_rate(world, 10),
        .store_down = some_rate(world, 10),
        .store_failover = some_rate(world, 5),
        .rebalance = 5 + some_rate(world, 50),
        .lost_reply = some_rate(world, 200),
    };
    world->log.repeat_permille = some_rate(world, 200);
    world->log.unheard_permille = some_rate(world, 200);
    world->store.lost_permille = some_rate(world, 200);
    world->store.down_permille = some_rate(world, 50);
}

static struct world *world_new(uint64_t seed, enum nodes_bug bug, bool trace,
                               struct nodes_result *result)
{
    struct world *world = memory_take_zeroed(sizeof(*world));
    world->env = (struct env){world_monotonic_ns, world_wall_ms, world_random, NULL, NULL};
    world->rng.state = seed;
    world->now_ms = 1700000000000;
    world->trace = trace;
    world->result = result;
    enum err err = kinds_parse(&world->kinds, slice_of("like,dislike"), NULL);
    assert(!err);
    (void)err;
    redis_model_init(&world->redis, &world->rng, bug, &world->now_ms, world->saved);
    world->movers.model = world->routes.model = &world->redis;
    log_model_init(&world->log, &world->rng, bug, &world->now_ms);
    store_model_init(&world->store, &world->rng, bug);
    choose_rates(world);
    world->is_focused = sim_rng_chance(&world->rng, 500);
    bool is_of_moves = nodes_bug_is_of_moves(bug);
    if (is_of_moves || sim_rng_chance(&world->rng, 300)) {
        choose_rates_of_moves(world);
        if (!is_of_moves)
            choose_face(world);
    }
    for (unsigned item = 0; item < ITEMS; item++)
        for (unsigned user = 0; user < USERS; user++)
            world->clients.users[item][user].maybe = 1u << HELD_NONE;
    for (unsigned node = 0; node < NODES; node++)
        start_node(world, node);
    return world;
}

static void world_free(struct world *world)
{
    for (unsigned node = 0; node < NODES; node++)
        if (world->nodes[node].alive)
            kill_node(world, node);
    redis_model_done(&world->redis);
    log_model_done(&world->log);
    store_model_done(&world->store);
    free(world);
}

static void count_all(struct world *world)
{
    struct nodes_counts *counts = &world->result->counts;
    counts->opened = world->redis.opened;
    counts->kept = world->redis.kept;
    counts->ghost_writes = world->redis.ghost_writes;
    counts->movers = world->movers.begun;
    counts->mover_steps = world->movers.steps;
    counts->movers_died = world->movers.died;
    counts->movers_undone = world->movers.undone;
    counts->dissolved = world->movers.dissolved;
    counts->lost_commits = world->store.losses;
    counts->batches = world->store.batches;
    counts->repeats = world->log.repeats;
}

void nodes_run(uint64_t seed, enum nodes_bug bug, bool trace, struct nodes_result *ret_result)
{
    *ret_result = (struct nodes_result){.failed = false};
    struct world *world = world_new(seed, bug, trace, ret_result);
    uint64_t steps = 500 + below(world, 6000);
    for (uint64_t i = 0; i < steps; i++)
        step(world);
    settle(world);
    if (!ret_result->failed)
        check(world);
    count_all(world);
    ret_result->hash =
        hash_stable((struct slice){(const char *)&world->store.rows, sizeof(world->store.rows)});
    world_free(world);
}
