#include "sim/sim_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "sim/sim_names.h"

#define SOME_KEYS  4u
#define PAGE       16u
#define SCAN_LIMIT 7u
#define PAGES_MAX  1000u

static void wrong(struct clients *clients, unsigned id, const char *what)
{
    report_violation(clients->report, "after op %" PRIu64 ": id %u: %s", clients->report->ops, id,
                     what);
}

/* ---- counters and items, one by one ---- */

/* The model's answers are compared in clients_send(). */
static void check_reads(struct clients *clients, unsigned id)
{
    struct request requests[2 + SIM_KINDS];
    unsigned count = 0;
    requests[count++] = (struct request){.kind = OP_GET, .id = (uint16_t)id};
    requests[count++] = (struct request){.kind = OP_COUNTS, .id = (uint16_t)id};
    for (uint8_t kind = 1; kind <= SIM_KINDS; kind++)
        requests[count++] = (struct request){.kind = OP_GET, .id = (uint16_t)id, .id_kind = kind};
    for (unsigned i = 0; i < count; i++)
        requests[i].key = SIM_NO_KEY;
    clients_send(clients, requests, count, NULL);
}

static bool equals(const struct number *number, sim_wide wanted)
{
    if (!number->big)
        return number->small == wanted;
    struct buffer digits;
    buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
    number_format(number, &digits);
    bool same = sim_wide_of(buffer_slice(&digits)) == wanted;
    buffer_done(&digits);
    return same;
}

/* Counted anew from members or shards, it must give the same. */
static void check_recount(struct clients *clients, unsigned id, uint8_t kind, sim_wide wanted)
{
    char name[SIM_NAME_BYTES];
    struct number value;
    enum err err =
        hot_recount(clients->world->hot, sim_id_name(clients->options, id, kind, name), &value);
    if (clients->world->store && (err == ERR_COLD || err == ERR_NOT_FOUND))
        return; /* not all of it is in memory */
    if (err) {
        wrong(clients, id, "cannot be counted anew");
        return;
    }
    if (!equals(&value, wanted))
        wrong(clients, id, "the sum of its parts is not its value");
    number_done(&value);
}

struct members {
    struct clients *clients;
    unsigned id;
    uint8_t kind;
    bool *seen; /* by user */
    int64_t count;
};

static void visit_member(void *arg, struct slice user)
{
    struct members *members = arg;
    struct clients *clients = members->clients;
    unsigned number = sim_user_of(user);
    if (number >= clients->options->users) {
        wrong(clients, members->id, "has a member whom nobody knows");
        return;
    }
    if (members->seen[number])
        wrong(clients, members->id, "a user is a member twice");
    if (model_held(clients->model, members->id, number) != members->kind)
        wrong(clients, members->id, "a user is a member who should not be");
    members->seen[number] = true;
    members->count++;
}

/* Then nobody can say. */
static bool is_out_of_memory(const struct clients *clients, const struct op *op)
{
    return clients->options->memory_max > 0 && op->code == ERR_NO_MEMORY;
}

static void check_members(struct clients *clients, unsigned id)
{
    char name[SIM_NAME_BYTES];
    struct slice item = sim_id_name(clients->options, id, 0, name);
    int64_t counts[SIM_KINDS];
    model_counts(clients->model, id, counts);
    bool *seen = calloc(clients->options->users, sizeof(*seen));
    if (!seen)
        abort();
    for (uint8_t kind = 1; kind <= SIM_KINDS; kind++) {
        struct members members = {.clients = clients, .id = id, .kind = kind, .seen = seen};
        struct op_page page = {.limit = PAGE, .visit = visit_member, .arg = &members};
        unsigned pages = 0;
        bool is_known = true;
        do {
            struct op op = {.kind = OP_MEMBERS, .reaction = kind, .id = item, .page = &page};
            clients_ask(clients, &op);
            is_known = !is_out_of_memory(clients, &op);
            if (op.code && is_known)
                wrong(clients, id, "its members cannot be listed");
        } while (is_known && page.cursor != 0 && ++pages < PAGES_MAX && !clients->report->failed);
        if (is_known && members.count != counts[kind - 1])
            wrong(clients, id, "the number of members is not the count");
        check_recount(clients, id, kind, counts[kind - 1]);
    }
    free(seen);
}

/* What it was created with, and when it ends. */
static void check_settings(struct clients *clients, unsigned id)
{
    if (model_thing(clients->model, id, clients->world->wall_ms) != THING_COUNTER)
        return;
    char name[SIM_NAME_BYTES];
    struct op_describe got;
    struct op op = {
        .kind = OP_DESCRIBE, .id = sim_id_name(clients->options, id, 0, name), .describe = &got};
    clients_ask(clients, &op);
    const struct model_record *record = model_record(clients->model, id);
    const struct op_create *wanted = &record->create;
    if (is_out_of_memory(clients, &op))
        return;
    if (op.code)
        wrong(clients, id, "cannot be described");
    else if (got.shards_asked != wanted->shards || got.policy != wanted->policy ||
             got.idle_s != wanted->idle_s || got.has_floor != wanted->has_floor ||
             (wanted->has_floor && got.floor != wanted->floor))
        wrong(clients, id, "it is not as it was created");
    else if (got.deadline_ms != record->deadline_ms)
        wrong(clients, id, "it has another deadline");
}

static void check_id(struct clients *clients, unsigned id)
{
    check_reads(clients, id);
    check_settings(clients, id);
    const struct model_record *record = model_record(clients->model, id);
    if (record->thing == THING_ITEM)
        check_members(clients, id);
    else if (model_thing(clients->model, id, clients->world->wall_ms) == THING_COUNTER)
        check_recount(clients, id, 0, record->value);
}

/* ---- everything at once ---- */

struct scan {
    struct clients *clients;
    unsigned *visits; /* by id */
};

static void visit_entry(void *arg, const struct hot_entry *entry)
{
    struct scan *scan = arg;
    struct clients *clients = scan->clients;
    unsigned id = sim_id_of(entry->id);
    if (id >= clients->options->ids) {
        report_violation(clients->report, "a scan meets an id that nobody sent");
        return;
    }
    scan->visits[id]++;
    const struct model_record *record = model_record(clients->model, id);
    int64_t counts[SIM_KINDS];
    model_counts(clients->model, id, counts);
    if (entry->is_item != (record->thing == THING_ITEM) || record->thing == THING_NONE)
        wrong(clients, id, "a scan meets what should not be there");
    else if (entry->is_item && memcmp(entry->counts, counts, sizeof(counts)) != 0)
        wrong(clients, id, "a scan gives other counts");
    else if (!entry->is_item && !equals(entry->value, record->value))
        wrong(clients, id, "a scan gives another value");
}

static void check_scan(struct clients *clients)
{
    struct scan scan = {clients, calloc(clients->options->ids, sizeof(unsigned))};
    if (!scan.visits)
        abort();
    uint64_t cursor = 0;
    unsigned rounds = 0;
    do
        hot_scan(clients->world->hot, &cursor, SCAN_LIMIT, visit_entry, &scan);
    while (cursor != 0 && ++rounds < PAGES_MAX);

    struct hot_stats wanted = {0};
    for (unsigned id = 0; id < clients->options->ids; id++) {
        enum thing thing = model_record(clients->model, id)->thing;
        bool is_shown = model_thing(clients->model, id, clients->world->wall_ms) != THING_NONE;
        if (scan.visits[id] > is_shown || (scan.visits[id] < is_shown && !clients->world->store))
            wrong(clients, id, "a scan meets it too often, or not at all");
        wanted.counters += thing == THING_COUNTER;
        wanted.items += thing == THING_ITEM;
        for (unsigned user = 0; user < clients->options->users; user++)
            wanted.members += model_held(clients->model, id, user) != KIND_NONE;
    }
    free(scan.visits);

    struct hot_stats stats;
    hot_stats(clients->world->hot, &stats);
    if (clients->world->store && clients->world->began_waiting)
        return;
    if (stats.counters != wanted.counters || stats.items != wanted.items ||
        stats.members != wanted.members)
        report_violation(clients->report,
                         "there are %" PRIu64 " counters, %" PRIu64 " items and %" PRIu64
                         " members, not %" PRIu64 ", %" PRIu64 " and %" PRIu64,
                         stats.counters, stats.items, stats.members, wanted.counters, wanted.items,
                         wanted.members);
}

struct items_of {
    struct clients *clients;
    unsigned user;
    unsigned count;
};

static void visit_item(void *arg, struct slice item, uint8_t kind)
{
    struct items_of *items = arg;
    unsigned id = sim_id_of(item);
    if (id >= items->clients->options->ids ||
        model_held(items->clients->model, id, items->user) != kind)
        report_violation(items->clients->report, "user %u is said to hold a reaction on id %u",
                         items->user, id);
    items->count++;
}

static void check_items_of(struct clients *clients)
{
    unsigned user = (unsigned)sim_rng_below(&clients->rng, clients->options->users);
    struct items_of items = {.clients = clients, .user = user};
    char name[SIM_NAME_BYTES];
    uint64_t cursor = 0;
    do
        hot_items_of(clients->world->hot, sim_user_name(user, name), &cursor, SCAN_LIMIT,
                     visit_item, &items);
    while (cursor != 0);
    unsigned wanted = 0;
    for (unsigned id = 0; id < clients->options->ids; id++)
        wanted += model_held(clients->model, id, user) != KIND_NONE;
    if (items.count > wanted || (items.count < wanted && !clients->world->store))
        report_violation(clients->report, "user %u holds %u reactions, but %u are listed", user,
                         wanted, items.count);
}

/* ---- keys ---- */

/* A write that was answered is answered the same way again, and not done again. */
static void check_keys(struct clients *clients, bool all)
{
    const struct model *model = clients->model;
    unsigned asked = 0;
    for (uint32_t i = 0; i < model->key_count && !clients->report->failed; i++) {
        uint32_t key = all ? i : (uint32_t)sim_rng_below(&clients->rng, model->key_count);
        if (!all && ++asked > SOME_KEYS)
            break;
        if (model->keys[key].known && !model->keys[key].retired)
            clients_repeat(clients, key);
    }
}

/* ---- the log against the hot layer ---- */

static void check_sum(struct clients *clients, unsigned id)
{
    const struct journal_sum *sum = &clients->world->journal.sums[id];
    const struct model_record *record = model_record(clients->model, id);
    int64_t counts[SIM_KINDS];
    model_counts(clients->model, id, counts);
    if ((sum->thing == SUM_COUNTER) != (record->thing == THING_COUNTER) ||
        (sum->thing == SUM_ITEM) != (record->thing == THING_ITEM))
        wrong(clients, id, "the log says that it is something else");
    else if (record->thing == THING_COUNTER && sum->value != record->value)
        wrong(clients, id, "the events of the log add up to another value");
    else if (record->thing == THING_ITEM && memcmp(sum->counts, counts, sizeof(counts)) != 0)
        wrong(clients, id, "the events of the log add up to other counts");
}

void check_all(struct clients *clients, bool with_keys)
{
    for (unsigned id = 0; id < clients->options->ids && !clients->report->failed; id++)
        check_id(clients, id);
    if (clients->report->failed)
        return;
    check_scan(clients);
    check_items_of(clients);
    check_keys(clients, with_keys);
}

void check_recovered(struct clients *clients)
{
    for (unsigned id = 0; id < clients->options->ids && !clients->report->failed; id++)
        check_sum(clients, id);
    check_all(clients, false);
}
