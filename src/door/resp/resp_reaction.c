/* resp_reaction.c - what users hold on items. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "door/resp/resp_answers.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_job.h"
#include "door/resp/resp_worker.h"

#define PAGE_COUNT_DEFAULT 100u
#define PAGE_BYTES_MAX     (4u << 20) /* a page of users with the longest names */
#define ITEMS_DEFAULT      1000u      /* that REACTED looks at in one go */

static const struct kinds *kinds_of(const struct resp_client *client)
{
    return client->worker->service->kinds;
}

static __attribute__((cold, noinline)) void fail_kind(struct resp_client *client, struct slice name)
{
    const struct kinds *kinds = kinds_of(client);
    char list[LIMIT_KINDS * (LIMIT_KIND_BYTES + 2) + 1] = "";
    size_t used = 0;
    for (unsigned i = 0; i < kinds->count; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                                 kinds->names[i]);
    int size = (int)(name.size < LIMIT_KIND_BYTES ? name.size : LIMIT_KIND_BYTES);
    resp_client_fail(client, "ERR unknown reaction kind '%.*s', configured are: %s", size,
                     name.data, list);
}

/* The number of a kind; what is none is answered with an error. */
static bool find_kind(struct resp_client *client, struct slice name, uint8_t *ret_kind)
{
    *ret_kind = kinds_find(kinds_of(client), name);
    if (*ret_kind == KIND_NONE)
        fail_kind(client, name);
    return *ret_kind != KIND_NONE;
}

static int64_t *room_for_counts(struct resp_client *client)
{
    return room_alloc(&client->worker->pass.gathered.room,
                      kinds_of(client)->count * sizeof(int64_t));
}

/* ---- LIKE and its relatives: 1 when something changed ---- */

static void change(struct resp_client *client, unsigned argc, const struct slice *argv,
                   enum op_kind op_kind, uint8_t kind, struct slice name)
{
    if (kind == KIND_NONE) {
        fail_kind(client, name);
        return;
    }
    struct op *op = pass_op(&client->worker->pass, op_kind, argv[1]);
    op->user = argv[2];
    op->reaction = kind;
    op->silent = true;
    if (argc > 3) {
        struct resp_args args = resp_args_from(argc, argv, 3);
        if (!resp_args_write_options(&args, op)) {
            pass_undo(&client->worker->pass, 1);
            resp_client_fail_syntax(client);
            return;
        }
    }
    resp_client_submit(client, 1, resp_answer_changed, NULL);
}

void resp_like(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    change(client, argc, argv, OP_REACT, client->worker->like, SLICE("like"));
}

void resp_unlike(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    change(client, argc, argv, OP_WITHDRAW, client->worker->like, SLICE("like"));
}

void resp_dislike(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    change(client, argc, argv, OP_REACT, client->worker->dislike, SLICE("dislike"));
}

void resp_undislike(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    change(client, argc, argv, OP_WITHDRAW, client->worker->dislike, SLICE("dislike"));
}

/* ---- REACT and its relatives: what is held now, and the counts ---- */

static void reply_kind(struct resp_client *client, uint8_t kind)
{
    if (kind == KIND_NONE)
        resp_reply_null(&client->reply);
    else
        resp_reply_bulk(&client->reply, kinds_name(kinds_of(client), kind));
}

static void reply_counts(struct resp_client *client, const int64_t *counts)
{
    const struct kinds *kinds = kinds_of(client);
    resp_reply_map(&client->reply, kinds->count);
    for (unsigned i = 0; i < kinds->count; i++) {
        resp_reply_bulk(&client->reply, kinds_name(kinds, (uint8_t)(i + 1)));
        resp_reply_integer(&client->reply, counts[i]);
    }
}

static void answer_react(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (resp_client_answer_error(client, ops))
        return;
    resp_reply_map(&client->reply, 3);
    resp_reply_text(&client->reply, "reaction");
    reply_kind(client, ops->held);
    resp_reply_text(&client->reply, "changed");
    resp_reply_integer(&client->reply, ops->changed);
    resp_reply_text(&client->reply, "counts");
    reply_counts(client, ops->counts);
}

static void react(struct resp_client *client, struct resp_args args, enum op_kind op_kind,
                  struct slice item, struct slice user, uint8_t kind)
{
    struct op *op = pass_op(&client->worker->pass, op_kind, item);
    op->user = user;
    op->reaction = kind;
    op->silent = true;
    op->counts = room_for_counts(client);
    if (!resp_args_write_options(&args, op)) {
        pass_undo(&client->worker->pass, 1);
        resp_client_fail_syntax(client);
        return;
    }
    resp_client_submit(client, 1, answer_react, NULL);
}

void resp_react(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    uint8_t kind;
    if (find_kind(client, argv[3], &kind))
        react(client, resp_args_from(argc, argv, 4), OP_REACT, argv[1], argv[2], kind);
}

void resp_unreact(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    react(client, resp_args_from(argc, argv, 3), OP_WITHDRAW, argv[1], argv[2], KIND_NONE);
}

void resp_toggle(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp_args args = resp_args_from(argc, argv, 3);
    struct slice name = SLICE("like");
    uint8_t kind;
    resp_args_option(&args, SLICE("kind"), &name);
    if (find_kind(client, name, &kind))
        react(client, args, OP_TOGGLE, argv[1], argv[2], kind);
}

/* ---- looking ---- */

static void answer_reaction(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (!resp_client_answer_error(client, ops))
        reply_kind(client, ops->held);
}

void resp_reaction(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    pass_op(&client->worker->pass, OP_REACTION, argv[1])->user = argv[2];
    resp_client_submit(client, 1, answer_reaction, NULL);
}

static void answer_counts(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (!resp_client_answer_error(client, ops))
        reply_counts(client, ops->counts);
}

void resp_counts(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    pass_op(&client->worker->pass, OP_COUNTS, argv[1])->counts = room_for_counts(client);
    resp_client_submit(client, 1, answer_counts, NULL);
}

/* ---- pages ---- */

/* What a page has gathered: `count` things, as RESP already. */
struct gathered {
    struct op_page page;
    struct resp_reply things;
    size_t count;
};

static void gathered_init(struct gathered *gathered, const struct resp_client *client)
{
    *gathered = (struct gathered){.page.limit = PAGE_COUNT_DEFAULT};
    resp_reply_init(&gathered->things, PAGE_BYTES_MAX);
    gathered->things.version = client->reply.version;
}

static void gather_user(void *arg, struct slice user)
{
    struct gathered *gathered = arg;
    resp_reply_bulk(&gathered->things, user);
    gathered->count++;
}

static void answer_members(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    struct gathered *gathered = request->extra;
    if (gathered->things.overflow) {
        resp_reply_error(&client->reply, "ERR the page is too large, ask for a smaller COUNT");
    } else if (!resp_client_answer_error(client, ops)) {
        resp_reply_array(&client->reply, 2);
        resp_reply_cursor(&client->reply, gathered->page.cursor);
        resp_reply_array(&client->reply, gathered->count);
        resp_reply_raw(&client->reply, buffer_slice(&gathered->things.bytes));
    }
    resp_reply_done(&gathered->things);
    free(gathered);
}

void resp_members(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp_args args = resp_args_from(argc, argv, 3);
    uint64_t cursor = 0;
    uint32_t limit = PAGE_COUNT_DEFAULT;
    uint8_t kind;
    if (!find_kind(client, argv[2], &kind))
        return;
    if (!resp_args_page(&args, &cursor, &limit)) {
        resp_client_fail_syntax(client);
        return;
    }

    struct gathered *gathered = memory_take(sizeof(*gathered));
    gathered_init(gathered, client);
    gathered->page =
        (struct op_page){.cursor = cursor, .limit = limit, .visit = gather_user, .arg = gathered};
    struct op *op = pass_op(&client->worker->pass, OP_MEMBERS, argv[1]);
    op->reaction = kind;
    op->page = &gathered->page;
    if (resp_client_submit(client, 1, answer_members, gathered))
        pass_extra_stays(&client->worker->pass);
    else
        free(gathered);
}

struct items {
    struct gathered gathered;
    const struct kinds *kinds;
};

static void gather_item(void *arg, struct slice item, uint8_t kind)
{
    struct items *items = arg;
    resp_reply_bulk(&items->gathered.things, item);
    resp_reply_bulk(&items->gathered.things, kinds_name(items->kinds, kind));
    items->gathered.count++;
}

static void reacted_hot(struct resp_client *client, struct slice user, uint64_t cursor,
                        uint32_t limit)
{
    struct items items = {.kinds = kinds_of(client)};
    gathered_init(&items.gathered, client);
    hot_items_of(client->worker->service->hot, user, &cursor, limit, gather_item, &items);
    resp_reply_array(&client->reply, 2);
    resp_reply_cursor(&client->reply, cursor);
    resp_reply_map(&client->reply, items.gathered.count);
    resp_reply_raw(&client->reply, buffer_slice(&items.gathered.things.bytes));
    if (items.gathered.things.overflow)
        client->reply.overflow = true;
    resp_reply_done(&items.gathered.things);
}

static void visit_item(void *arg, struct slice item, struct slice kind)
{
    struct resp_job *job = arg;
    resp_reply_bulk(&job->things, item);
    resp_reply_bulk(&job->things, kind);
    job->count++;
    resp_job_grown(job);
}

static void work_reacted(struct pass_job *base, struct desk_seat *seat)
{
    struct resp_job *job = (struct resp_job *)base;
    enum err err = desk_items_of(seat, job->subject, &job->cursor, job->limit, visit_item, job,
                                 &job->age, &base->error);
    if (err)
        resp_job_fail(job, err, NULL);
}

static void reacted_any(struct resp_client *client, struct slice user, uint64_t cursor,
                        uint32_t limit)
{
    struct resp_job *job =
        resp_job_new(client, sizeof(*job), user, (struct slice){NULL, 0}, work_reacted);
    if (!job)
        return;
    job->form = RESP_JOB_PAIRS;
    job->cursor = cursor;
    job->limit = limit;
    resp_job_start(client, job);
}

void resp_reacted(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp_args args = resp_args_from(argc, argv, 2);
    uint64_t cursor = 0;
    uint32_t limit = ITEMS_DEFAULT;
    if (!resp_args_page(&args, &cursor, &limit)) {
        resp_client_fail_syntax(client);
        return;
    }
    if (!resp_args_user(client, argv[1]))
        return;

    if (client->worker->service->desk)
        reacted_any(client, argv[1], cursor, limit);
    else
        reacted_hot(client, argv[1], cursor, limit);
}
