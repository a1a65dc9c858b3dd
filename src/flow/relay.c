/* relay.c - from the outboxes to the log.
 *
 * A round: hear what the store has said; renew leases; read what is new in the outboxes of our
 * cells and append it; see how far the log is and tell the outboxes; ask how far others are with
 * theirs, if somebody waits; let tickets go. */
#include "flow/relay.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "core/event.h"
#include "flow/relay_own.h"

#define LEASE_EVERY_MS    250u
#define POLL_EVERY_MS     10u  /* all our cells, for what other nodes write */
#define ALONE_EVERY_MS    200u /* when all cells are ours, hardly anybody else writes */
#define BUSY_EVERY_MS     2u   /* those where others have written lately */
#define BUSY_MS           1000u
#define PROGRESS_EVERY_MS 2u
#define MARK_EVERY_MS     1000u
#define NONSENSE_EVERY_MS 60000u
#define IDLE_MS           10u
#define GATHER_MS         5u /* what nobody waits for goes into the log together */
#define READ_ENTRIES      256u
#define FLIGHTS_MAX       1024u /* of a cell */

/* --- life --- */

struct relay *relay_new(const struct relay_options *options)
{
    assert(options && options->env && options->outbox && options->log && options->store);
    assert(options->log->lanes == LIMIT_CELLS);

    struct relay *relay = memory_take_zeroed(sizeof(*relay));
    relay->options = *options;
    relay->asker = asker_new(options->store, relay_wake, relay);
    tickets_init(&relay->tickets);
    relay->stats.opening = UINT64_MAX; /* as long as nobody has looked */
    lock_init(&relay->lock);
    bell_init(&relay->bell);
    return relay;
}

void relay_free(struct relay *relay)
{
    if (!relay)
        return;
    assert(!relay->runs);
    asker_free(relay->asker);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        free(relay->cells[i].flights);
    bell_done(&relay->bell);
    lock_done(&relay->lock);
    tickets_done(&relay->tickets);
    free(relay);
}

/* --- appending --- */

void relay_begin_anew(struct relay_cell *cell)
{
    cell->read = 0;
    cell->told = 0;
    cell->logged = 0;
    cell->carried = 0;
    cell->acked = 0;
    cell->flight_count = 0;
    cell->fence = (struct fence){0};
}

static void add_flight(struct relay_cell *cell, struct flight flight)
{
    if (cell->flight_count == cell->flight_room) {
        size_t room = cell->flight_room ? cell->flight_room * 2 : 16;
        struct flight *flights = memory_take(room * sizeof(*flights));
        for (size_t i = 0; i < cell->flight_count; i++)
            flights[i] = cell->flights[(cell->first_flight + i) % cell->flight_room];
        free(cell->flights);
        cell->flights = flights;
        cell->flight_room = room;
        cell->first_flight = 0;
    }
    cell->flights[(cell->first_flight + cell->flight_count++) % cell->flight_room] = flight;
}

void relay_append(struct relay *relay, unsigned number, struct slice section, uint64_t last)
{
    struct relay_cell *cell = &relay->cells[number];
    uint64_t ticket = log_append(relay->options.log, section, (struct slice){NULL, 0});
    add_flight(cell, (struct flight){ticket, last, relay->now_ns});
    cell->read = last;
    relay->sections++;
    relay->did = true;
}

/* Does the log have this? The cell itself may be unable to say: then the store may have it already.
 */
static bool is_carried(const struct relay *relay, unsigned number, uint64_t sequence)
{
    const struct state_mark *mark = relay_mark(relay);
    return relay->cells[number].carried >= sequence ||
           (mark && mark->sequences[number] >= sequence);
}

/* Does the log have what the section's events must come after? Only members that move bring such an
 * event along, and it is the first of its section. */
static bool may_follow(struct relay *relay, struct slice section)
{
    struct section_reader reader;
    struct event event;
    if (section_open(&reader, section, NULL) || section_next(&reader, &event, NULL))
        return true; /* the aggregator makes a dead letter of it */
    bool is_after = event.type == EVENT_AFTER && event.after_origin < LIMIT_CELLS;
    event_done(&event);
    if (!is_after || is_carried(relay, event.after_origin, event.after_sequence))
        return true;
    relay->awaited |= relay_bit(event.after_origin);
    return false;
}

static enum err take_section(void *arg, unsigned number, struct slice section, uint64_t last,
                             struct error *error)
{
    (void)error;
    struct relay *relay = arg;
    struct relay_cell *cell = &relay->cells[number];
    cell->has_read = true;
    cell->has_more = ++cell->read_count >= READ_ENTRIES;
    if (cell->is_held || last <= cell->read)
        return ERR_OK;
    cell->is_held = cell->flight_count >= FLIGHTS_MAX || !may_follow(relay, section) ||
                    log_room(relay->options.log) != ERR_OK;
    if (!cell->is_held)
        relay_append(relay, number, section, last);
    return ERR_OK;
}

/* Whose outboxes this node reads: what it has leased, and what it opens. */
static uint64_t cells_of_ours(const struct relay *relay)
{
    uint64_t ours = relay->leased;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        enum opening_state state = relay->cells[i].opening.state;
        if (state == OPENING_DRAINS)
            ours |= relay_bit(i);
        else if (state != OPENING_NOT || relay->cells[i].is_stale)
            ours &= ~relay_bit(i); /* of no epoch yet */
    }
    return ours;
}

/* Others have written there lately. */
static bool is_busy(const struct relay *relay, const struct relay_cell *cell)
{
    return cell->foreign_ns > 0 && cell->foreign_ns + BUSY_MS * MS_NS > relay->now_ns;
}

/* Our own writes are known at once, those of others have to be looked for: often where they write,
 * now and then everywhere. */
static uint64_t cells_to_read(struct relay *relay, uint64_t dirty)
{
    uint64_t cells = dirty;
    bool is_due = relay->now_ns >= relay->poll_ns;
    bool is_alone = relay->leased == UINT64_MAX;
    if (is_due)
        relay->poll_ns = relay->now_ns + (is_alone ? ALONE_EVERY_MS : POLL_EVERY_MS) * MS_NS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        const struct relay_cell *cell = &relay->cells[i];
        if (is_due || is_busy(relay, cell) || cell->is_held || cell->has_more || relay_drains(cell))
            cells |= relay_bit(i);
    }
    return cells & cells_of_ours(relay);
}

/* Nothing is left out: its cell waits, until somebody has looked at it. */
static void tell_of_nonsense(struct relay *relay, const struct error *error)
{
    if (relay->now_ns < relay->nonsense_ns)
        return;
    relay->nonsense_ns = relay->now_ns + NONSENSE_EVERY_MS * MS_NS;
    message_error("an outbox cannot be carried over to the log: its cell takes writes until it is "
                  "full reason=\"%s\"",
                  error->text);
}

/* Does nobody wait for what is in our outboxes? Then they are looked at now and then only: a few
 * large readings cost Redis and the log less than many small ones. Others may wait for what they
 * have written there. */
static bool may_gather(struct relay *relay)
{
    if (relay->now_ns >= relay->gather_ns || tickets_waiting(&relay->tickets) > 0)
        return false;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        const struct relay_cell *cell = &relay->cells[i];
        if (is_busy(relay, cell) || cell->has_more || cell->opening.state != OPENING_NOT)
            return false;
    }
    return true;
}

static void read_outboxes(struct relay *relay)
{
    struct outbox *outbox = relay->options.outbox;
    uint64_t dirty = outbox->ops->dirty(outbox);
    uint64_t cells = cells_to_read(relay, dirty);
    if (cells == 0)
        return;
    uint64_t after[LIMIT_CELLS];
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        relay->cells[i].is_held = relay->cells[i].has_read = relay->cells[i].has_more = false;
        relay->cells[i].read_count = 0;
        after[i] = relay->cells[i].read;
    }
    relay->awaited = 0;
    struct error error = {.text = ""};
    if (outbox->ops->read(outbox, cells, after, READ_ENTRIES, take_section, relay, &error) ==
        ERR_CORRUPT)
        tell_of_nonsense(relay, &error);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (relay->cells[i].has_read && !(dirty & relay_bit(i)))
            relay->cells[i].foreign_ns = relay->now_ns;
}

/* --- how far the log is --- */

static void look_at_log(struct relay *relay)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct relay_cell *cell = &relay->cells[i];
        if (cell->flight_count == 0)
            continue;
        uint64_t reached = log_reached(relay->options.log, i, LOG_DURABLE);
        while (cell->flight_count > 0 && cell->flights[cell->first_flight].ticket <= reached) {
            cell->acked = cell->flights[cell->first_flight].last;
            cell->acked_ticket = cell->flights[cell->first_flight].ticket;
            cell->first_flight = (cell->first_flight + 1) % cell->flight_room;
            cell->flight_count--;
        }
    }
}

/* It is in another epoch: what we know is of the past. */
static void note_stale(struct relay_cell *cell)
{
    relay_begin_anew(cell);
    cell->is_stale = true;
}

static void note_told(struct relay *relay, unsigned number, bool is_stale, uint64_t sequence)
{
    struct relay_cell *cell = &relay->cells[number];
    relay->did = true;
    cell->told = sequence;
    cell->carried = sequence;
    if (relay_drains(cell) && is_stale)
        cell->opening.state = OPENING_WANTED; /* somebody else opens it */
    else if (is_stale)
        note_stale(cell);
    else if (!relay_drains(cell)) /* else the store will tell whether it counts: judge_by_end() */
        cell->logged = sequence;
}

static void tell_outboxes(struct relay *relay)
{
    struct outbox *outbox = relay->options.outbox;
    uint64_t sequences[LIMIT_CELLS];
    uint64_t openings[LIMIT_CELLS];
    uint64_t cells = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        sequences[i] = relay->cells[i].acked;
        openings[i] = relay_drains(&relay->cells[i]) ? relay->cells[i].opening.epoch : 0;
        if (sequences[i] > relay->cells[i].told)
            cells |= relay_bit(i);
    }
    uint64_t told = 0;
    uint64_t stale = 0;
    uint64_t late = 0;
    if (cells != 0)
        cells = relay_fence(relay, cells, sequences, &late);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (late & relay_bit(i))
            note_stale(&relay->cells[i]);
    if (cells == 0 || outbox->ops->relayed(outbox, cells, sequences, openings, &told, &stale, NULL))
        return;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (told & cells & relay_bit(i))
            note_told(relay, i, stale & relay_bit(i), sequences[i]);
}

/* What a process does not know: that its cell was opened in another one, and is open here in an
 * epoch that has ended; or that it was made to forget what it had said. Which process we talk to
 * may change, so all are told, and again. */
static void tell_of_store(struct relay *relay)
{
    struct outbox *outbox = relay->options.outbox;
    const struct state_mark *mark = relay_mark(relay);
    if (relay->leased == 0 || !mark || relay->now_ns < relay->saved_ns)
        return;
    relay->saved_ns = relay->now_ns + MARK_EVERY_MS * MS_NS;
    (void)outbox->ops->saved(outbox, relay->leased, mark->sequences, NULL);
}

/* Those that somebody here waits for and another relays, or has relayed before us; those that may
 * be open again; and those that a section of another cell waits for. The latter also where we relay
 * ourselves: another may have opened the cell, or have carried over what we did not see any more,
 * and its next section may wait for the one that waits. */
static uint64_t cells_to_ask_about(struct relay *relay)
{
    uint64_t waiting =
        atomic_load_explicit(&relay->tickets.cells, memory_order_relaxed) | relay->awaited;
    uint64_t cells = (waiting & ~relay->leased) | relay->awaited;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        const struct relay_cell *cell = &relay->cells[i];
        if (cell->is_stale || (waiting & relay_bit(i) && cell->logged == 0))
            cells |= relay_bit(i);
    }
    return cells;
}

static void look_at_others(struct relay *relay)
{
    struct outbox *outbox = relay->options.outbox;
    uint64_t cells = cells_to_ask_about(relay);
    if (cells == 0 || relay->now_ns < relay->progress_ns)
        return;
    relay->progress_ns = relay->now_ns + PROGRESS_EVERY_MS * MS_NS;
    uint64_t sequences[LIMIT_CELLS] = {0};
    uint64_t opening = 0;
    if (outbox->ops->progress(outbox, cells, sequences, &opening, NULL))
        return;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct relay_cell *cell = &relay->cells[i];
        if (!(cells & relay_bit(i)) || sequences[i] == 0)
            continue;
        cell->is_stale = false;
        if (sequences[i] > cell->carried)
            cell->carried = sequences[i];
        if (sequences[i] > cell->logged && !(opening & relay_bit(i)))
            cell->logged = sequences[i];
    }
}

static bool is_flight_overdue(const struct relay *relay)
{
    uint64_t patience_ns = relay->options.ack_timeout_ms * MS_NS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        const struct relay_cell *cell = &relay->cells[i];
        if (cell->flight_count > 0 &&
            relay->now_ns - cell->flights[cell->first_flight].since_ns > patience_ns)
            return true;
    }
    return false;
}

static void judge_log(struct relay *relay)
{
    struct log_stats stats;
    log_stats(relay->options.log, &stats);
    int64_t now_ms = env_wall_ms(relay->options.env);
    bool says_so = stats.down_since_ms > 0 &&
                   now_ms - (int64_t)stats.down_since_ms > (int64_t)relay->options.ack_timeout_ms;
    bool is_down = says_so || is_flight_overdue(relay);
    if (is_down == relay->is_log_down)
        return;
    relay->is_log_down = is_down;
    atomic_store(&relay->tickets.is_up, !is_down);
    if (is_down)
        message_warning("the log does not answer: writes are taken into the outbox, and answers "
                        "say ack=hot");
    else
        message_info("the log answers again: answers wait for it");
    lock_take(&relay->lock);
    relay->stats.down_since_ms = is_down ? now_ms : 0;
    lock_release(&relay->lock);
}

/* --- a round --- */

static void renew_leases(struct relay *relay)
{
    if (relay->now_ns < relay->lease_ns)
        return;
    relay->lease_ns = relay->now_ns + LEASE_EVERY_MS * MS_NS;
    struct outbox *outbox = relay->options.outbox;
    uint64_t leased = outbox->ops->leased(outbox);
    uint64_t gained = leased & ~relay->leased;
    relay->leased = leased;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (gained & relay_bit(i) && relay->cells[i].opening.state == OPENING_NOT)
            relay_begin_anew(&relay->cells[i]);
}

uint64_t relay_ask(struct relay *relay)
{
    relay->mark_ns = relay->now_ns;
    relay->mark_wanted = asker_want_mark(relay->asker);
    return relay->mark_wanted;
}

void relay_want_mark(struct relay *relay, uint64_t every_ms)
{
    bool is_out = relay->mark_wanted > relay->said.number;
    if (is_out || (relay->mark_ns > 0 && relay->now_ns < relay->mark_ns + every_ms * MS_NS))
        return;
    (void)relay_ask(relay);
}

static void hear_store(struct relay *relay)
{
    if (!relay->runs)
        asker_step(relay->asker);
    bool has_said = asker_mark(relay->asker, &relay->said);
    const struct state_mark *mark = relay_mark(relay);
    if (has_said && mark && relay->options.mark)
        relay->options.mark(relay->options.mark_arg, mark);
}

static void publish(struct relay *relay)
{
    uint64_t opening = relay->options.outbox->ops->closed(relay->options.outbox);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (relay->cells[i].opening.state != OPENING_NOT)
            opening |= relay_bit(i);
    lock_take(&relay->lock);
    relay->stats.leased = relay->leased;
    relay->stats.sections = relay->sections;
    relay->stats.opening = opening;
    if (opening == 0)
        relay->stats.reason[0] = '\0';
    lock_release(&relay->lock);
}

uint64_t relay_step(struct relay *relay)
{
    assert(relay);

    relay->now_ns = env_monotonic_ns(relay->options.env);
    relay->did = false;
    hear_store(relay);
    renew_leases(relay);
    relay_open_cells(relay);
    bool gathers = may_gather(relay);
    if (!gathers) {
        relay->gather_ns = relay->now_ns + GATHER_MS * MS_NS;
        read_outboxes(relay);
    }
    look_at_log(relay);
    if (!gathers)
        tell_outboxes(relay);
    look_at_others(relay);
    judge_log(relay);
    relay_want_mark(relay, MARK_EVERY_MS);
    tell_of_store(relay);
    relay_let_tickets_go(relay);
    publish(relay);
    if (relay->did)
        return 0;
    if (gathers)
        return GATHER_MS;
    return tickets_waiting(&relay->tickets) > 0 ? BUSY_EVERY_MS : IDLE_MS;
}

/* --- the thread --- */

void relay_wake(void *relay)
{
    bell_ring(&((struct relay *)relay)->bell);
}

static bool is_empty(const struct relay *relay)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (relay->cells[i].flight_count > 0 || relay->cells[i].acked > relay->cells[i].told)
            return false;
    return true;
}

static void *run_thread(void *arg)
{
    struct relay *relay = arg;
    while (!atomic_load(&relay->stop)) {
        uint64_t wait_ms = relay_step(relay);
        if (wait_ms > 0)
            (void)bell_wait(&relay->bell, wait_ms);
    }
    relay->poll_ns = relay->gather_ns = 0; /* a last look at everything */
    do {
        if (relay_step(relay) > 0)
            (void)bell_wait(&relay->bell, 1);
    } while (!is_empty(relay) && relay->now_ns < atomic_load(&relay->stop_ns));
    if (relay->options.outbox->ops->leave)
        relay->options.outbox->ops->leave(relay->options.outbox);
    return NULL;
}

enum err relay_start(struct relay *relay, struct error *error)
{
    assert(relay && !relay->runs);

    atomic_store(&relay->stop, false);
    callback_set(&relay->options.outbox->wake, relay_wake, relay);
    callback_set(&relay->options.log->progress, relay_wake, relay);
    enum err err = asker_start(relay->asker, error);
    if (err)
        return err;
    relay->runs = true;
    int errnum = pthread_create(&relay->thread, NULL, run_thread, relay);
    if (errnum != 0) {
        relay->runs = false;
        asker_stop(relay->asker);
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the relay");
    }
    (void)pthread_setname_np(relay->thread, "relay");
    return ERR_OK;
}

void relay_stop(struct relay *relay, uint64_t within_ms)
{
    assert(relay);

    if (!relay->runs)
        return;
    atomic_store(&relay->stop_ns, env_monotonic_ns(relay->options.env) + within_ms * MS_NS);
    atomic_store(&relay->stop, true);
    bell_ring(&relay->bell);
    (void)pthread_join(relay->thread, NULL);
    asker_stop(relay->asker);
    relay->runs = false;
}

void relay_stats(struct relay *relay, struct relay_stats *ret_stats)
{
    assert(relay && ret_stats);

    lock_take(&relay->lock);
    *ret_stats = relay->stats;
    lock_release(&relay->lock);
    ret_stats->waiting = tickets_waiting(&relay->tickets);
    lock_take(&relay->tickets.lock);
    ret_stats->weak = relay->tickets.weak_all;
    lock_release(&relay->tickets.lock);
}
