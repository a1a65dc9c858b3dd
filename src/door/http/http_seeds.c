/* http_seeds.c - the short paths that the web has known first: POST /like,
 * GET /like/count/:id, GET /:videoId/count. Their counts are numbers, as clients
 * of them expect. */
#include "door/http/http_call.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"

/* An id as it was sent: a number stays a number. */
static void write_id(struct http_text *to, struct slice id, bool is_number)
{
    if (is_number)
        http_text_add(to, id);
    else
        http_text_string(to, id);
}

static int64_t likes_of(struct http_call *call, const struct op *op)
{
    uint8_t like = call->client->worker->like;
    return like == KIND_NONE ? 0 : op->counts[like - 1];
}

enum { POST_IS_NUMBER = 1, USER_IS_NUMBER = 2 };

static void answer_like(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"post_id\":");
    write_id(body, ops->id, call->number & POST_IS_NUMBER);
    HTTP_TEXT(body, ",\"user_id\":");
    write_id(body, ops->user, call->number & USER_IS_NUMBER);
    http_text_add(body, ops->held == call->client->worker->like
                            ? SLICE(",\"liked\":true,\"delta\":")
                            : SLICE(",\"liked\":false,\"delta\":"));
    http_text_int(body, !ops->changed ? 0 : ops->held == call->client->worker->like ? 1 : -1);
    HTTP_TEXT(body, ",\"like_count\":");
    http_text_int(body, likes_of(call, ops));
    http_text_add(body, ops->repeated ? SLICE(",\"repeated\":true") : SLICE(",\"repeated\":false"));
    http_call_ack(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

static bool is_integer(const struct http_json *object, const char *name)
{
    return http_json_member(object, slice_of(name))->type == HTTP_JSON_INTEGER;
}

void http_seed_like(struct http_call *call)
{
    static const char *const names[] = {"post_id", "user_id", NULL};
    const struct http_json *object = http_call_object(call, names);
    struct slice post = {NULL, 0};
    struct slice user = {NULL, 0};
    if (!object || !http_call_id(call, object, "post_id", &post) ||
        !http_call_id(call, object, "user_id", &user))
        return;
    if (!post.data || !user.data) {
        http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "wanted are post_id and user_id");
        return;
    }
    call->number = (is_integer(object, "post_id") ? POST_IS_NUMBER : 0) |
                   (is_integer(object, "user_id") ? USER_IS_NUMBER : 0);
    uint8_t kind;
    if (!http_call_kind(call, SLICE("like"), &kind))
        return;
    struct op *op = http_call_op(call, OP_TOGGLE, post);
    op->user = user;
    op->reaction = kind;
    op->silent = true;
    op->counts = http_call_counts(call);
    http_call_submit(call, 1, answer_like);
}

/* ---- counts ---- */

static bool is_decimal(struct slice text)
{
    int64_t number;
    return decimal_parse(text, &number);
}

static void send_count(struct http_call *call, struct op *ops, struct slice id_name,
                       bool may_be_number, struct slice count_name)
{
    if (http_call_answer_error(call, ops))
        return;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"");
    http_text_add(body, id_name);
    HTTP_TEXT(body, "\":");
    write_id(body, ops->id, may_be_number && is_decimal(ops->id));
    HTTP_TEXT(body, ",\"");
    http_text_add(body, count_name);
    HTTP_TEXT(body, "\":");
    int64_t likes = likes_of(call, ops);
    http_text_int(body, likes);
    http_call_as_of_op(call, body, ops);
    HTTP_TEXT(body, "}");
    char tag[DECIMAL_SIZE_MAX];
    char *end = decimal_format(tag, likes);
    http_call_send_tagged(call, (struct slice){tag, (size_t)(end - tag)});
}

static void answer_like_count(struct http_call *call, struct op *ops)
{
    send_count(call, ops, SLICE("post_id"), true, SLICE("like_count"));
}

static void answer_video_count(struct http_call *call, struct op *ops)
{
    send_count(call, ops, SLICE("videoId"), false, SLICE("likeCount"));
}

static void ask_counts(struct http_call *call, http_answer_fn *answer)
{
    http_call_op(call, OP_COUNTS, call->args[0])->counts = http_call_counts(call);
    http_call_submit(call, 1, answer);
}

void http_seed_like_count(struct http_call *call)
{
    ask_counts(call, answer_like_count);
}

void http_seed_video_count(struct http_call *call)
{
    ask_counts(call, answer_video_count);
}
