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
#include "door/resp/resp_worker.h"

#define SCAN_COUNT_DEFAULT 10u
#define SCAN_COUNT_MAX     10000u
#define KEYS_STEP          1000u

enum listed { LIST_COUNTERS, LIST_ITEMS, LIST_NOTHING };

struct listing {
    const struct kinds *kinds;
    struct slice pattern; /* data NULL = everything */
    enum listed what;
    size_t count;
    struct resp_reply names;
};

static void listing_init(struct listing *listing, const struct resp_client *client)
{
    *listing = (struct listing){.kinds = client->worker->service->kinds};
    resp_reply_init(&listing->names, client->reply.bytes.max);
}

static void list_name(struct listing *listing, struct slice name)
{
    if (listing->pattern.data && !match_glob(listing->pattern, name))
        return;
    resp_reply_bulk(&listing->names, name);
    listing->count++;
}

static void list_kinds(struct listing *listing, const struct hot_entry *entry)
{
    char name[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
    if (entry->id.size > LIMIT_ID_BYTES)
        return;
    memcpy(name, entry->id.data, entry->id.size);
    name[entry->id.size] = '/';
    for (unsigned kind = 1; kind <= listing->kinds->count; kind++) {
        if (!(entry->kinds_seen >> (kind - 1) & 1))
            continue;
        struct slice word = kinds_name(listing->kinds, (uint8_t)kind);
        memcpy(name + entry->id.size + 1, word.data, word.size);
        list_name(listing, (struct slice){name, entry->id.size + 1 + word.size});
    }
}

static void list_entry(void *arg, const struct hot_entry *entry)
{
    struct listing *listing = arg;
    if (listing->what == LIST_ITEMS && entry->is_item)
        list_name(listing, entry->id);
    else if (listing->what == LIST_COUNTERS && entry->is_item)
        list_kinds(listing, entry);
    else if (listing->what == LIST_COUNTERS)
        list_name(listing, entry->id);
}

static void reply_listing(struct resp_client *client, struct listing *listing)
{
    resp_reply_array(&client->reply, listing->count);
    resp_reply_raw(&client->reply, buffer_slice(&listing->names.bytes));
    if (listing->names.overflow)
        client->reply.overflow = true;
    resp_reply_done(&listing->names);
}

/* ---- SCAN ---- */

static bool read_scan_options(struct resp_client *client, struct resp_args *args,
                              struct listing *listing, uint32_t *ret_count)
{
    while (args->left > 0) {
        struct slice value;
        int64_t count;
        if (resp_args_option(args, SLICE("match"), &value)) {
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
    struct listing listing;
    listing_init(&listing, client);
    uint64_t cursor;
    uint32_t count = SCAN_COUNT_DEFAULT;
    if (!decimal_parse_unsigned(argv[1], &cursor)) {
        resp_client_fail(client, "ERR invalid cursor");
        return;
    }
    if (!read_scan_options(client, &args, &listing, &count))
        return;

    hot_scan(client->worker->service->hot, &cursor, count, list_entry, &listing);
    resp_reply_array(&client->reply, 2);
    resp_reply_cursor(&client->reply, cursor);
    reply_listing(client, &listing);
}

void resp_keys(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    struct listing listing;
    listing_init(&listing, client);
    listing.pattern = argv[1];
    uint64_t cursor = 0;
    do {
        hot_scan(client->worker->service->hot, &cursor, KEYS_STEP, list_entry, &listing);
    } while (cursor != 0 && !listing.names.overflow);

    if (listing.names.overflow) {
        resp_reply_done(&listing.names);
        resp_client_fail(client, "ERR too many keys for one answer, use SCAN");
        return;
    }
    reply_listing(client, &listing);
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
    op->describe = room_alloc(&pass->room, sizeof(*op->describe));
    resp_client_submit(client, 1, answer_type, NULL);
}
