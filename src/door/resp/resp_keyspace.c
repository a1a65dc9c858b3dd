/* resp_keyspace.c - going through all counters.
 *
 * What is listed are counters, so an item shows as one for each kind that
 * somebody holds: "video1/like". SCAN ... TYPE item lists the items instead. */
#include <stdlib.h>

#include "base/decimal.h"
#include "base/match.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_job.h"
#include "door/resp/resp_worker.h"

#define SCAN_COUNT_DEFAULT 10u
#define SCAN_COUNT_MAX     10000u
#define KEYS_STEP          1000u
#define SCAN_STEPS         4u

enum listed { LIST_COUNTERS, LIST_ITEMS, LIST_NOTHING };

/* What is looked for, and where it is written down. */
struct listing {
    const struct kinds *kinds;
    struct slice pattern; /* data NULL = everything */
    enum listed what;
    size_t count;
    struct resp_reply *names;
};

static void list_name(struct listing *listing, struct slice name)
{
    if (listing->pattern.data && !match_glob(listing->pattern, name))
        return;
    resp_reply_bulk(listing->names, name);
    listing->count++;
}

static void list_kind(struct listing *listing, struct slice item, uint8_t kind)
{
    char name[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
    struct slice word = kinds_name(listing->kinds, kind);
    if (item.size > LIMIT_ID_BYTES)
        return;
    memcpy(name, item.data, item.size);
    name[item.size] = '/';
    memcpy(name + item.size + 1, word.data, word.size);
    list_name(listing, (struct slice){name, item.size + 1 + word.size});
}

/* Bit k - 1 of `kinds_seen`: somebody holds kind k. */
static void list(struct listing *listing, struct slice id, bool is_item, uint32_t kinds_seen)
{
    if (listing->what == LIST_NOTHING)
        return;
    if (is_item == (listing->what == LIST_ITEMS)) {
        list_name(listing, id);
        return;
    }
    for (unsigned kind = 1; is_item && kind <= listing->kinds->count; kind++) {
        if (kinds_seen >> (kind - 1) & 1)
            list_kind(listing, id, (uint8_t)kind);
    }
}

/* ---- what is in memory, when there is nothing else ---- */

static void list_hot(void *arg, const struct hot_entry *entry)
{
    list(arg, entry->id, entry->is_item, entry->kinds_seen);
}

static void reply_listing(struct resp_client *client, const struct listing *listing)
{
    resp_reply_array(&client->reply, listing->count);
    resp_reply_raw(&client->reply, buffer_slice(&listing->names->bytes));
    if (listing->names->overflow)
        client->reply.overflow = true;
}

static void scan_hot(struct resp_client *client, const struct listing *wanted, uint64_t cursor,
                     uint32_t count)
{
    struct listing listing = *wanted;
    struct resp_reply names;
    resp_reply_init(&names, client->reply.bytes.max);
    listing.names = &names;
    hot_scan(client->worker->service->hot, &cursor, count, list_hot, &listing);
    resp_reply_array(&client->reply, 2);
    resp_reply_cursor(&client->reply, cursor);
    reply_listing(client, &listing);
    resp_reply_done(&names);
}

#define TOO_MANY_KEYS "too many keys for one answer, use SCAN"

static void keys_hot(struct resp_client *client, const struct listing *wanted)
{
    struct listing listing = *wanted;
    struct resp_reply names;
    resp_reply_init(&names, client->reply.bytes.max);
    listing.names = &names;
    uint64_t cursor = 0;
    do {
        hot_scan(client->worker->service->hot, &cursor, KEYS_STEP, list_hot, &listing);
    } while (cursor != 0 && !names.overflow);

    if (names.overflow)
        resp_client_fail(client, "ERR %s", TOO_MANY_KEYS);
    else
        reply_listing(client, &listing);
    resp_reply_done(&names);
}

/* ---- what is in memory and in the store, on the desk ---- */

struct list_job {
    struct resp_job base;
    struct listing listing;
    size_t met; /* entries, listed or not */
};

static void list_any(void *arg, const struct desk_entry *entry)
{
    struct list_job *job = arg;
    uint32_t kinds_seen = 0;
    for (unsigned i = 0; entry->counts && i < job->listing.kinds->count; i++)
        kinds_seen |= (uint32_t)(entry->counts[i] > 0) << i;
    list(&job->listing, entry->id, entry->is_item, kinds_seen);
    job->met++;
    resp_job_grown(&job->base);
}

static enum err scan_step(struct list_job *job, struct desk_seat *seat)
{
    struct resp_job *base = &job->base;
    enum err err = desk_scan(seat, (struct slice){NULL, 0}, &base->cursor, base->limit, list_any,
                             job, &base->age, &base->base.error);
    if (err)
        resp_job_fail(base, err, NULL);
    base->count = job->listing.count;
    return err;
}

/* A few steps, so that who has little is not sent from memory to the store and back. */
static void work_scan(struct pass_job *base, struct desk_seat *seat)
{
    struct list_job *job = (struct list_job *)base;
    enum err err = scan_step(job, seat);
    for (unsigned i = 1; !err && i < SCAN_STEPS && job->base.cursor != 0; i++) {
        if (job->met >= job->base.limit)
            return;
        err = scan_step(job, seat);
    }
}

static void work_keys(struct pass_job *base, struct desk_seat *seat)
{
    struct list_job *job = (struct list_job *)base;
    enum err err;
    do {
        err = scan_step(job, seat);
    } while (!err && job->base.cursor != 0 && !job->base.things.overflow);
    if (!err && job->base.things.overflow)
        resp_job_fail(&job->base, ERR_TOO_LARGE, TOO_MANY_KEYS);
}

static void list_on_desk(struct resp_client *client, const struct listing *listing, uint64_t cursor,
                         uint32_t count, enum resp_job_form form, pass_work_fn *work)
{
    struct list_job *job =
        resp_job_new(client, sizeof(*job), listing->pattern, (struct slice){NULL, 0}, work);
    if (!job)
        return;
    job->listing = *listing;
    job->listing.names = &job->base.things;
    if (listing->pattern.data)
        job->listing.pattern = job->base.subject;
    job->base.form = form;
    job->base.cursor = cursor;
    job->base.limit = count;
    resp_job_start(client, &job->base);
}

/* ---- SCAN ---- */

static bool read_scan_options(struct resp_client *client, struct resp_args *args,
                              struct listing *listing, uint32_t *ret_count)
{
    while (args->left > 0) {
        struct slice value;
        int64_t count;
        if (resp_args_option(args, SLICE("match"), &value)) {
            if (!resp_args_pattern(client, value))
                return false;
            listing->pattern = value;
        } else if (resp_args_option(args, SLICE("count"), &value)) {
            if (!resp_args_int(client, value, &count))
                return false;
            if (count < 1) {
                resp_client_fail_syntax(client);
                return false;
            }
            *ret_count = count < SCAN_COUNT_MAX ? (uint32_t)count : SCAN_COUNT_MAX;
        } else if (resp_args_option(args, SLICE("type"), &value)) {
            if (slice_equal_nocase(value, SLICE("item")))
                listing->what = LIST_ITEMS;
            else if (!slice_equal_nocase(value, SLICE("string")))
                listing->what = LIST_NOTHING;
        } else {
            resp_client_fail_syntax(client);
            return false;
        }
    }
    return true;
}

void resp_scan(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp_args args = resp_args_from(argc, argv, 2);
    struct listing listing = {.kinds = client->worker->service->kinds};
    uint64_t cursor;
    uint32_t count = SCAN_COUNT_DEFAULT;
    if (!decimal_parse_unsigned(argv[1], &cursor)) {
        resp_client_fail(client, "ERR invalid cursor");
        return;
    }
    if (!read_scan_options(client, &args, &listing, &count))
        return;

    if (client->worker->service->desk)
        list_on_desk(client, &listing, cursor, count, RESP_JOB_PAGE, work_scan);
    else
        scan_hot(client, &listing, cursor, count);
}

void resp_keys(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    const struct service *service = client->worker->service;
    struct listing listing = {.kinds = service->kinds, .pattern = argv[1]};
    if (!resp_args_pattern(client, argv[1]))
        return;
    if (service->desk)
        list_on_desk(client, &listing, 0, KEYS_STEP, RESP_JOB_ARRAY, work_keys);
    else
        keys_hot(client, &listing);
}

void resp_dbsize(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    struct hot_stats stats;
    hot_stats(client->worker->service->hot, &stats);
    resp_reply_integer(&client->reply, (int64_t)(stats.counters + stats.items));
}

/* ---- TYPE ---- */

static void answer_type(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (ops->code == ERR_NOT_FOUND) {
        resp_reply_status(&client->reply, "none");
        return;
    }
    if (resp_client_answer_error(client, ops))
        return;
    struct slice item;
    uint8_t kind;
    bool is_counter = !ops->describe->is_item ||
                      kinds_split(client->worker->service->kinds, ops->id, &item, &kind);
    resp_reply_status(&client->reply, is_counter ? "string" : "item");
}

void resp_type(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    struct pass *pass = &client->worker->pass;
    struct op *op = pass_op(pass, OP_DESCRIBE, argv[1]);
    op->describe = room_alloc(&pass->gathered.room, sizeof(*op->describe));
    resp_client_submit(client, 1, answer_type, NULL);
}
