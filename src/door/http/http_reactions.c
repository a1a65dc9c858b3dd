/* http_reactions.c - /v1/items: what users hold on items. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "door/http/http_call.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"

#define PAGE_DEFAULT   100u
#define PAGE_BYTES_MAX (4u << 20) /* a page of users with the longest names */

/* ---- changing ---- */

static void answer_change(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"item\":");
    http_text_string(body, ops->id);
    HTTP_TEXT(body, ",\"user\":");
    http_text_string(body, ops->user);
    HTTP_TEXT(body, ",\"reaction\":");
    http_call_write_kind(call, body, ops->held);
    http_text_add(body, ops->changed ? SLICE(",\"changed\":true") : SLICE(",\"changed\":false"));
    http_text_add(body, ops->repeated ? SLICE(",\"repeated\":true,\"counts\":")
                                      : SLICE(",\"repeated\":false,\"counts\":"));
    http_call_write_counts(call, body, ops->counts);
    http_call_ack(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

static void change(struct http_call *call, enum op_kind op_kind, uint8_t kind)
{
    struct op *op = http_call_op(call, op_kind, call->args[0]);
    op->user = call->args[1];
    op->reaction = kind;
    op->silent = true;
    op->counts = http_call_counts(call);
    http_call_submit(call, 1, answer_change);
}

/* {"kind":"like"}, or nothing, which means the same. */
static bool read_choice(struct http_call *call, uint8_t *ret_kind)
{
    static const char *const names[] = {"kind", "region", NULL};
    *ret_kind = call->client->worker->like;
    if (call->body.size == 0 && *ret_kind != KIND_NONE)
        return true;
    struct slice name = SLICE("like");
    const struct http_json *object = http_call_object(call, names);
    return object && http_call_string(call, object, "region", &call->region) &&
           http_call_string(call, object, "kind", &name) && http_call_kind(call, name, ret_kind);
}

void http_reaction_put(struct http_call *call)
{
    uint8_t kind;
    if (read_choice(call, &kind))
        change(call, OP_REACT, kind);
}

void http_reaction_toggle(struct http_call *call)
{
    uint8_t kind;
    if (read_choice(call, &kind))
        change(call, OP_TOGGLE, kind);
}

/* ?kind=like: only if that is what is held. */
void http_reaction_delete(struct http_call *call)
{
    static const char *const names[] = {"kind", NULL};
    struct slice name;
    uint8_t kind = KIND_NONE;
    if (!http_call_query(call, names, &name) || (name.data && !http_call_kind(call, name, &kind)))
        return;
    change(call, OP_WITHDRAW, kind);
}

/* ---- looking ---- */

static void answer_reaction(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    const struct kinds *kinds = call->client->worker->service->kinds;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"item\":");
    http_text_string(body, ops->id);
    HTTP_TEXT(body, ",\"user\":");
    http_text_string(body, ops->user);
    HTTP_TEXT(body, ",\"reaction\":");
    http_call_write_kind(call, body, ops->held);
    http_call_as_of_op(call, body, ops);
    HTTP_TEXT(body, "}");
    if (ops->held == KIND_NONE)
        http_call_send_tagged(call, SLICE("none"));
    else if (slice_equal(kinds_name(kinds, ops->held), SLICE("none")))
        http_call_send(call, 200);
    else
        http_call_send_tagged(call, kinds_name(kinds, ops->held));
}

void http_reaction_get(struct http_call *call)
{
    http_call_op(call, OP_REACTION, call->args[0])->user = call->args[1];
    http_call_submit(call, 1, answer_reaction);
}

/* Are these the kinds that are configured if nobody says otherwise? */
static bool are_usual(const struct kinds *kinds)
{
    return kinds->count == 2 && slice_equal(kinds_name(kinds, 1), SLICE("like")) &&
           slice_equal(kinds_name(kinds, 2), SLICE("dislike"));
}

/* The tag of the usual kinds is "likes.dislikes". Others may be configured anew and stand in
 * another order: their names are part of the content. */
static void send_counts(struct http_call *call, const int64_t *counts)
{
    if (!are_usual(call->client->worker->service->kinds)) {
        http_call_send(call, 200);
        return;
    }
    char tag[2 * DECIMAL_SIZE_MAX + 1];
    char *at = decimal_format(tag, counts[0]);
    *at++ = '.';
    at = decimal_format(at, counts[1]);
    http_call_send_tagged(call, (struct slice){tag, (size_t)(at - tag)});
}

static void answer_item(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"item\":");
    http_text_string(body, ops->id);
    HTTP_TEXT(body, ",\"counts\":");
    http_call_write_counts(call, body, ops->counts);
    http_call_as_of_op(call, body, ops);
    HTTP_TEXT(body, "}");
    send_counts(call, ops->counts);
}

void http_item_get(struct http_call *call)
{
    static const char *const names[] = {"exact", NULL};
    struct slice value = {NULL, 0};
    bool exact = false;
    if (call->query.size > 0 &&
        (!http_call_query(call, names, &value) || !http_call_exact(call, value, &exact)))
        return;
    struct op *op = http_call_op(call, OP_COUNTS, call->args[0]);
    op->counts = http_call_counts(call);
    op->exact = exact;
    http_call_submit(call, 1, answer_item);
}

/* ---- for many items ---- */

static void answer_mine(struct http_call *call, struct op *ops)
{
    struct http_text *body = http_call_body(call);
    struct age all = {0};
    HTTP_TEXT(body, "{\"user\":");
    http_text_string(body, ops->user);
    HTTP_TEXT(body, ",\"reactions\":[");
    for (uint64_t i = 0; i < call->number; i++) {
        http_text_add(body, i > 0 ? SLICE(",{\"item\":") : SLICE("{\"item\":"));
        http_text_string(body, ops[i].id);
        HTTP_TEXT(body, ",\"reaction\":");
        http_call_write_kind(call, body, ops[i].code == ERR_OK ? ops[i].held : KIND_NONE);
        if (ops[i].code != ERR_OK)
            http_text_printf(body, ",\"problem\":\"/problems/%s\"",
                             http_problems[http_problem_of(ops[i].code)].slug);
        struct age age = age_of(&ops[i]);
        http_call_write_age(&all, body, &age);
        HTTP_TEXT(body, "}");
    }
    HTTP_TEXT(body, "]");
    http_call_as_of_age(call, body, &all);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

void http_reactions_mine(struct http_call *call)
{
    static const char *const names[] = {"user", "items", NULL};
    const struct http_json *object = http_call_object(call, names);
    struct slice user = {NULL, 0};
    if (!object || !http_call_id(call, object, "user", &user))
        return;
    const struct http_json *items = http_json_member(object, SLICE("items"));
    if (!user.data || !items || items->type != HTTP_JSON_ARRAY || items->count == 0 ||
        items->count > HTTP_ROUTE_OPS_MAX) {
        http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "wanted are user, and items: 1 to %u of them",
                       HTTP_ROUTE_OPS_MAX);
        return;
    }
    for (uint32_t i = 0; i < items->count; i++) {
        const struct http_json *item = items + 1 + i;
        if (item->type != HTTP_JSON_STRING && item->type != HTTP_JSON_INTEGER) {
            pass_undo(&call->client->worker->pass, i);
            http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "items: not strings or integers only");
            return;
        }
        http_call_op(call, OP_REACTION, item->text)->user = user;
    }
    call->number = items->count;
    http_call_submit(call, items->count, answer_mine);
}

/* ---- members ---- */

/* A page that is being gathered. */
struct gathered {
    struct op_page page;
    struct http_text users;
    size_t count;
};

static void gather_user(void *arg, struct slice user)
{
    struct gathered *gathered = arg;
    if (gathered->count++ > 0)
        HTTP_TEXT(&gathered->users, ",");
    http_text_string(&gathered->users, user);
}

static void send_members(struct http_call *call, const struct op *op,
                         const struct gathered *gathered)
{
    if (gathered->users.overflow) {
        http_call_problem(call, HTTP_PROBLEM_INVALID, "the page is too large: lower limit");
        return;
    }
    if (http_call_answer_error(call, op))
        return;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"item\":");
    http_text_string(body, op->id);
    HTTP_TEXT(body, ",\"kind\":");
    http_call_write_kind(call, body, op->reaction);
    HTTP_TEXT(body, ",\"members\":[");
    http_text_add(body, buffer_slice(&gathered->users.bytes));
    if (gathered->page.cursor == 0)
        HTTP_TEXT(body, "],\"cursor\":null");
    else
        http_text_printf(body, "],\"cursor\":\"%llu\"", (unsigned long long)gathered->page.cursor);
    http_call_as_of(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

static void free_gathered(struct gathered *gathered)
{
    http_text_done(&gathered->users);
    free(gathered);
}

static void answer_members(struct http_call *call, struct op *ops)
{
    send_members(call, ops, call->extra);
    free_gathered(call->extra);
}

void http_item_members(struct http_call *call)
{
    static const char *const names[] = {"kind", "cursor", "limit", NULL};
    struct slice values[3];
    uint64_t cursor;
    uint32_t limit;
    uint8_t kind;
    if (!http_call_query(call, names, values) ||
        !http_call_page(call, values[1], values[2], PAGE_DEFAULT, &cursor, &limit) ||
        !http_call_kind(call, values[0].data ? values[0] : SLICE("like"), &kind))
        return;

    struct op *op = http_call_op(call, OP_MEMBERS, call->args[0]);
    op->reaction = kind;
    struct error error;
    if (!pass_check(&call->client->worker->pass, 1, &error)) {
        pass_undo(&call->client->worker->pass, 1);
        http_call_fail_with(call, &error);
        return;
    }
    struct gathered *gathered = memory_take_zeroed(sizeof(*gathered));
    http_text_init(&gathered->users, PAGE_BYTES_MAX);
    gathered->page =
        (struct op_page){.cursor = cursor, .limit = limit, .visit = gather_user, .arg = gathered};
    op->page = &gathered->page;
    call->extra = gathered;
    http_call_submit(call, 1, answer_members);
}
