#include "door/http/http_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/key.h"
#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"

#define STRETCH_OPS     2048u /* of one batch in one pass */
#define LINE_MEMBERS    16u
#define OUT_BYTES_MAX   (64u << 20)
#define SPARE_BYTES_MAX (1u << 20)
#define WHY_SIZE        160u
#define LINE_ROOM_BYTES 256u /* for an answer without a big number */
#define LINE_BYTES_MAX  (LINE_ROOM_BYTES + NUMBER_DIGITS_MAX) /* of any answer to a line */
#define END_ROOM_BYTES  4096u                                 /* for the head and the last line */

_Static_assert(NUMBER_DIGITS_MAX >= 6 * WHY_SIZE, "every byte of a reason may be escaped");

/* A line that has no op. */
struct failure {
    uint64_t line;
    enum http_problem problem;
    char why[WHY_SIZE];
};

/* A batch of lines on its way. The client outlives it, closed or not. */
struct http_lines {
    struct http_call call; /* a copy, whose `extra` is this */
    char *memory;          /* owned: the text, once it outlives its pass; or NULL */
    size_t memory_size;
    char *at; /* what is left of it */
    char *end;
    uint64_t line;            /* the last one taken */
    uint64_t first;           /* of the stretch that is under way */
    struct failure *failures; /* owned: of the stretch, in order */
    size_t failure_count;
    size_t failure_room;
    struct slice ack; /* "durable" */
    struct http_text out;
    size_t out_max;                         /* bytes of `out` that can be sent */
    char region[LIMIT_REGION_BYTES];        /* of lines that name none */
    char key_prefix[KEY_LINE_PREFIX_BYTES]; /* of the lines' keys, if the batch has a key */
    char *key_memory;                       /* owned: these keys, of the stretch */
    struct http_lines *next;                /* in the worker's queue of those that go on */
};

/* The worker keeps one buffer for the answers of the next. */
static void take_buffer(struct http_lines *lines)
{
    struct http_worker *worker = lines->call.client->worker;
    lines->out = worker->lines_spare;
    http_text_init(&worker->lines_spare, OUT_BYTES_MAX);
}

static void give_buffer(struct http_lines *lines)
{
    struct http_worker *worker = lines->call.client->worker;
    if (lines->out.bytes.capacity > SPARE_BYTES_MAX ||
        lines->out.bytes.capacity < worker->lines_spare.bytes.capacity) {
        http_text_done(&lines->out);
        return;
    }
    http_text_done(&worker->lines_spare);
    worker->lines_spare = lines->out;
    worker->lines_spare.bytes.size = 0;
    worker->lines_spare.overflow = false;
}

static void free_lines(struct http_lines *lines)
{
    lines->call.client->lines_input = 0;
    lines->call.client->lines_output = 0;
    give_buffer(lines);
    free(lines->failures);
    free(lines->memory);
    free(lines->key_memory);
    free(lines);
}

static void fail(struct http_lines *lines, enum http_problem problem, const char *why)
{
    if (lines->failure_count == lines->failure_room) {
        lines->failure_room = lines->failure_room ? 2 * lines->failure_room : 16;
        lines->failures =
            memory_resize(lines->failures, lines->failure_room * sizeof(*lines->failures));
    }
    struct failure *failure = &lines->failures[lines->failure_count++];
    failure->line = lines->line;
    failure->problem = problem;
    (void)snprintf(failure->why, sizeof(failure->why), "%s", why);
}

/* ---- reading a line ---- */

/* The members that a line may have. */
struct line {
    struct slice op;
    struct slice id; /* or item */
    struct slice user;
    struct slice kind;
    struct slice key;
    struct slice region;
    struct slice amount; /* delta or value */
};

static struct slice *place_of(struct line *line, struct slice name)
{
    switch (name.size) {
    case 2:
        return memcmp(name.data, "op", 2) == 0   ? &line->op
               : memcmp(name.data, "id", 2) == 0 ? &line->id
                                                 : NULL;
    case 3:
        return memcmp(name.data, "key", 3) == 0 ? &line->key : NULL;
    case 4:
        return memcmp(name.data, "item", 4) == 0   ? &line->id
               : memcmp(name.data, "user", 4) == 0 ? &line->user
               : memcmp(name.data, "kind", 4) == 0 ? &line->kind
                                                   : NULL;
    case 5:
        return memcmp(name.data, "delta", 5) == 0 || memcmp(name.data, "value", 5) == 0
                   ? &line->amount
                   : NULL;
    case 6:
        return memcmp(name.data, "region", 6) == 0 ? &line->region : NULL;
    default:
        return NULL;
    }
}

/* False: it has failed. */
static bool read_line(struct http_lines *lines, struct slice text, struct line *line)
{
    struct http_json_pair pairs[LINE_MEMBERS];
    struct http_json_error error;
    size_t count;
    char why[WHY_SIZE];
    *line = (struct line){0};
    if (!http_json_read_flat(text, pairs, LINE_MEMBERS, &count, &error)) {
        (void)snprintf(why, sizeof(why), "byte %zu: %s", error.at, error.why);
        fail(lines, HTTP_PROBLEM_BAD_JSON, why);
        return false;
    }
    for (const struct http_json_pair *pair = pairs; pair < pairs + count; pair++) {
        struct slice *place = place_of(line, pair->name);
        if (!place || place->data ||
            (pair->type != HTTP_JSON_STRING && pair->type != HTTP_JSON_INTEGER)) {
            (void)snprintf(why, sizeof(why),
                           "%.*s: not known, there already, or not a string or an integer",
                           (int)(pair->name.size < 64 ? pair->name.size : 64), pair->name.data);
            fail(lines, HTTP_PROBLEM_BAD_JSON, why);
            return false;
        }
        *place = pair->text;
    }
    return true;
}

/* ---- what it asks for ---- */

struct word {
    struct slice name;
    enum op_kind kind;
    struct slice reaction; /* of reactions; size 0: as `kind` says */
};

/* The busiest first. */
static const struct word words[] = {
    {{"like", 4}, OP_REACT, {"like", 4}},
    {{"add", 3}, OP_ADD, {NULL, 0}},
    {{"unlike", 6}, OP_WITHDRAW, {"like", 4}},
    {{"react", 5}, OP_REACT, {NULL, 0}},
    {{"dislike", 7}, OP_REACT, {"dislike", 7}},
    {{"undislike", 9}, OP_WITHDRAW, {"dislike", 7}},
    {{"unreact", 7}, OP_WITHDRAW, {NULL, 0}},
    {{"toggle", 6}, OP_TOGGLE, {NULL, 0}},
    {{"get", 3}, OP_GET, {NULL, 0}},
    {{"set", 3}, OP_SET, {NULL, 0}},
    {{"reset", 5}, OP_SET, {NULL, 0}},
    {{"delete", 6}, OP_DELETE, {NULL, 0}},
    {{"reaction", 8}, OP_REACTION, {NULL, 0}},
};

static const struct word *find_word(struct slice name)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_equal(words[i].name, name))
            return &words[i];
    }
    return NULL;
}

/* The kind that a line speaks of; KIND_NONE where any will do. False: it has failed. */
static bool find_kind(struct http_lines *lines, const struct word *word, const struct line *line,
                      uint8_t *ret_kind)
{
    struct http_worker *worker = lines->call.client->worker;
    *ret_kind = KIND_NONE;
    if (!op_has_user(word->kind) || word->kind == OP_REACTION)
        return true;
    if (word->kind == OP_WITHDRAW && word->reaction.size == 0 && !line->kind.data)
        return true;
    struct slice name = word->reaction.size > 0 ? word->reaction : line->kind;
    if (word->kind == OP_TOGGLE && !name.data)
        name = SLICE("like");
    if (worker->like != KIND_NONE && slice_equal(name, SLICE("like")))
        *ret_kind = worker->like;
    else
        *ret_kind = kinds_find(worker->service->kinds, name);
    if (*ret_kind == KIND_NONE)
        fail(lines, HTTP_PROBLEM_INVALID, "kind: none that is configured");
    return *ret_kind != KIND_NONE;
}

/* The key that a line without one gets from the key of the batch. */
static struct slice derive_key(struct http_lines *lines, size_t index)
{
    if (!lines->call.key.data)
        return (struct slice){NULL, 0};
    if (!lines->key_memory)
        lines->key_memory = memory_take((size_t)KEY_LINE_BYTES_MAX * STRETCH_OPS);
    return key_of_line(lines->key_prefix, lines->line,
                       lines->key_memory + index * KEY_LINE_BYTES_MAX);
}

static bool read_amount(struct http_lines *lines, const struct line *line, struct op *op)
{
    if (op->kind != OP_ADD && op->kind != OP_SET)
        return true;
    op->amount = number_of(op->kind == OP_ADD ? 1 : 0);
    if (!line->amount.data || number_parse(line->amount, &op->amount) == ERR_OK)
        return true;
    fail(lines, HTTP_PROBLEM_BAD_JSON, "delta or value: not an integer");
    return false;
}

/* Appends the op of a line; false: it has failed, and there is none. */
static bool append_op(struct http_lines *lines, struct slice text, size_t index)
{
    struct http_worker *worker = lines->call.client->worker;
    struct line line;
    uint8_t kind;
    if (!read_line(lines, text, &line))
        return false;
    const struct word *word = find_word(line.op);
    if (!word) {
        fail(lines, HTTP_PROBLEM_BAD_JSON,
             "op: not like, unlike, dislike, undislike, react, unreact, toggle, reaction, add, "
             "set, reset, delete or get");
        return false;
    }
    if (!find_kind(lines, word, &line, &kind))
        return false;

    struct op *op = pass_op(&worker->pass, word->kind, line.id);
    op->user = line.user;
    op->reaction = kind;
    op->silent = op_has_user(word->kind);
    if (op_is_write(word->kind)) {
        op->key = line.key;
        op->region =
            line.region.data ? line.region : (struct slice){lines->region, lines->call.region.size};
        op->must_log = lines->call.must_log;
    }
    if (op->must_log && !service_may_log(worker->service)) {
        pass_undo(&worker->pass, 1);
        fail(lines, HTTP_PROBLEM_UNAVAILABLE, http_log_is_down);
        return false;
    }
    struct error error = {.code = ERR_INVALID};
    if (!read_amount(lines, &line, op)) {
        pass_undo(&worker->pass, 1);
        return false;
    }
    if (!pass_is_plain(&worker->pass, 1) && !pass_check(&worker->pass, 1, &error)) {
        pass_undo(&worker->pass, 1);
        fail(lines, http_problem_of(error.code), error.text);
        return false;
    }
    /* Behind the checks, since no client may send such a key. */
    if (op_is_write(op->kind) && !op->key.data)
        op->key = derive_key(lines, index);
    return true;
}

/* ---- answering ---- */

/* Inlined, so that literals are stored and not copied. */
static inline __attribute__((always_inline)) char *put(char *to, struct slice bytes)
{
    memcpy(to, bytes.data, bytes.size);
    return to + bytes.size;
}
#define PUT(to, literal) put(to, SLICE(literal))

static void write_failure(struct http_text *out, uint64_t line, enum http_problem problem,
                          const char *why)
{
    http_text_printf(out, "{\"line\":%llu,\"status\":%u,\"type\":\"/problems/%s\",\"detail\":",
                     (unsigned long long)line, http_problems[problem].status,
                     http_problems[problem].slug);
    http_text_string(out, slice_of(why));
    HTTP_TEXT(out, "}\n");
}

/* What differs by the kind of op. */
static void write_rest(struct http_lines *lines, const struct op *op)
{
    struct http_text *out = &lines->out;
    if (!op_has_user(op->kind) && op->kind != OP_DELETE) {
        HTTP_TEXT(out, ",\"value\":");
        http_text_number(out, &op->value);
    }
    if (op->repeated)
        HTTP_TEXT(out, ",\"repeated\":true");
    if (op_is_write(op->kind)) {
        HTTP_TEXT(out, ",\"ack\":\"");
        http_text_add(out, lines->ack);
        HTTP_TEXT(out, "\"}\n");
    } else {
        http_call_as_of_op(&lines->call, out, op);
        HTTP_TEXT(out, "}\n");
    }
}

static void write_op(struct http_lines *lines, uint64_t line, const struct op *op)
{
    struct http_text *out = &lines->out;
    if (op->code != ERR_OK || (op->weak && op->must_log)) {
        char meaning[SERVICE_MEANING_BYTES];
        write_failure(out, line, http_call_op_problem(&lines->call, op),
                      service_meaning(lines->call.client->worker->service, op->code, meaning));
        return;
    }
    if (buffer_reserve(&out->bytes, LINE_ROOM_BYTES) != ERR_OK) {
        out->overflow = true;
        return;
    }
    char *to = out->bytes.data + out->bytes.size;
    to = PUT(to, "{\"line\":");
    to = decimal_format_unsigned(to, line);
    to = PUT(to, ",\"status\":200");
    bool is_write = op_is_write(op->kind);
    if (is_write)
        to = op->changed ? PUT(to, ",\"changed\":true") : PUT(to, ",\"changed\":false");
    if (op_has_user(op->kind)) {
        to = PUT(to, ",\"reaction\":");
        to = put(to, lines->call.client->worker->kinds[op->held]);
        if (is_write && !op->repeated) { /* nearly every line */
            to = PUT(to, ",\"ack\":\"");
            to = put(to, lines->ack);
            to = PUT(to, "\"}\n");
            out->bytes.size = (size_t)(to - out->bytes.data);
            return;
        }
    }
    out->bytes.size = (size_t)(to - out->bytes.data);
    write_rest(lines, op);
}

static void send(struct http_lines *lines)
{
    if (lines->out.overflow)
        lines->call.client->output.overflow = true;
    http_call_send_as(&lines->call, 200, SLICE("application/x-ndjson"),
                      SLICE("Cache-Control: no-store\r\n"), buffer_slice(&lines->out.bytes));
}

/* So many answers certainly fit into what is left of the output. */
static size_t answers_left(const struct http_lines *lines)
{
    size_t used = lines->out.bytes.size;
    return used < lines->out_max ? (lines->out_max - used) / LINE_BYTES_MAX : 0;
}

/* No line is run whose answer could not be sent: the client would not know of it. */
static void refuse_rest(struct http_lines *lines)
{
    write_failure(&lines->out, lines->line + 1, HTTP_PROBLEM_TOO_LARGE,
                  "the answer is full: this line and those behind it were not run");
    lines->at = lines->end;
}

/* Its next stretch is taken in its turn, at the end of a pass. */
static void push_waiting(struct http_worker *worker, struct http_lines *lines)
{
    lines->next = NULL;
    if (worker->lines)
        worker->lines_last->next = lines;
    else
        worker->lines = lines;
    worker->lines_last = lines;
}

static struct http_lines *pop_waiting(struct http_worker *worker)
{
    struct http_lines *lines = worker->lines;
    worker->lines = lines->next;
    return lines;
}

/* What it uses while it waits is the client's. */
static void measure(const struct http_lines *lines)
{
    struct http_client *client = lines->call.client;
    size_t keys = lines->key_memory ? (size_t)KEY_LINE_BYTES_MAX * STRETCH_OPS : 0;
    client->lines_input = sizeof(*lines) + lines->memory_size + keys;
    client->lines_output =
        lines->out.bytes.capacity + lines->failure_room * sizeof(*lines->failures);
    http_client_measure(client);
}

static void answer_stretch(struct http_call *call, struct op *ops)
{
    struct http_lines *lines = call->extra;
    struct http_worker *worker = call->client->worker;
    const struct failure *failure = lines->failures;
    const struct failure *failures_end = lines->failures + lines->failure_count;
    for (uint64_t line = lines->first; line <= lines->line; line++) {
        if (failure != failures_end && failure->line == line) {
            write_failure(&lines->out, line, failure->problem, failure->why);
            failure++;
        } else {
            write_op(lines, line, ops++);
        }
    }
    lines->failure_count = 0;
    if (lines->at < lines->end && answers_left(lines) == 0)
        refuse_rest(lines);
    if (lines->at < lines->end && call->client->conn && !lines->out.overflow) {
        push_waiting(worker, lines);
        measure(lines);
        return;
    }
    send(lines);
    pass_unhold(&call->client->base, HTTP_HOLD_LINES);
    free_lines(lines);
}

/* ---- taking lines ---- */

/* Takes as many as there is room for. */
static void take_stretch(struct http_lines *lines)
{
    struct pass *pass = &lines->call.client->worker->pass;
    size_t taken = 0; /* lines */
    size_t count = 0; /* ops */
    size_t most = answers_left(lines);
    if (most > STRETCH_OPS)
        most = STRETCH_OPS;
    lines->first = lines->line + 1;
    while (lines->at < lines->end && taken < most && pass_has_room(pass, 1)) {
        char *begin = lines->at;
        char *end = memchr(begin, '\n', (size_t)(lines->end - begin));
        lines->at = end ? end + 1 : lines->end;
        struct slice text = {begin, (size_t)((end ? end : lines->end) - begin)};
        lines->line++;
        if (append_op(lines, text, taken))
            count++;
        taken++;
    }
    http_call_submit_checked(&lines->call, count, answer_stretch);
}

/* What is left outlives the pass, and the memory that it lies in. */
static void keep_rest(struct http_lines *lines)
{
    struct http_call *call = &lines->call;
    size_t size = (size_t)(lines->end - lines->at);
    lines->memory_size = size + call->origin.size;
    lines->memory = memory_take(lines->memory_size);
    memcpy(lines->memory, lines->at, size);
    lines->at = lines->memory;
    lines->end = lines->memory + size;
    if (call->origin.size > 0)
        call->origin.data = memcpy(lines->end, call->origin.data, call->origin.size);
}

/* The connection may have answers that are not sent yet. */
static size_t size_of_answer_max(const struct http_client *client)
{
    size_t max = http_door_options(client->worker->http)->output_bytes_max;
    size_t used = client->output.bytes.size + END_ROOM_BYTES;
    size_t left = max > used ? max - used : 0;
    return left < OUT_BYTES_MAX - END_ROOM_BYTES ? left : OUT_BYTES_MAX - END_ROOM_BYTES;
}

/* The end of a last line is no line. */
static size_t size_of_lines(struct slice body)
{
    while (body.size > 0 && (body.data[body.size - 1] == '\n' || body.data[body.size - 1] == '\r'))
        body.size--;
    return body.size;
}

void http_batch(struct http_call *call)
{
    struct http_client *client = call->client;
    struct http_lines *lines = memory_take_zeroed(sizeof(*lines));
    lines->call = *call;
    lines->call.extra = lines;
    lines->at = (char *)call->body.data;
    lines->end = lines->at + size_of_lines(call->body);
    lines->ack = http_call_ack_word(call);
    lines->out_max = size_of_answer_max(client);
    if (call->key.data)
        key_line_prefix(call->key, lines->key_prefix);
    if (call->region.size > 0)
        memcpy(lines->region, call->region.data, call->region.size);
    take_buffer(lines);
    take_stretch(lines);
    if (lines->at < lines->end) {
        keep_rest(lines);
        measure(lines);
        pass_hold(&client->base, HTTP_HOLD_LINES);
    }
}

void http_lines_init(struct http_worker *worker)
{
    http_text_init(&worker->lines_spare, OUT_BYTES_MAX);
}

/* Nobody would hear of the rest. */
static void forget(struct http_lines *lines)
{
    lines->call.client->base.held &= ~(unsigned)HTTP_HOLD_LINES;
    free_lines(lines);
}

void http_lines_go_on(struct http_worker *worker)
{
    while (worker->lines && pass_has_room(&worker->pass, 1)) {
        struct http_lines *lines = pop_waiting(worker);
        if (lines->call.client->conn)
            take_stretch(lines);
        else
            forget(lines);
    }
}

void http_lines_stop(struct http_worker *worker)
{
    while (worker->lines)
        forget(pop_waiting(worker));
}
