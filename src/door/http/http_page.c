#include "door/http/http_page.h"

#include <stdio.h>
#include <string.h>

#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"

#define BUTTON_MAX_AGE "3600" /* seconds that a site may use a button that has been replaced */

const struct http_page_file *http_page_find(const struct http_page_file *files, unsigned count,
                                            struct slice name)
{
    for (unsigned i = 0; i < count; i++) {
        if (slice_equal(slice_of(files[i].name), name))
            return &files[i];
    }
    return NULL;
}

/* ---- what a client takes ---- */

static struct slice trim(struct slice text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (struct slice){text.data + 1, text.size - 1};
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* Cuts off what stands before the next `mark`. False: nothing is left. */
static bool cut(struct slice *left, char mark, struct slice *ret_piece)
{
    if (!left->data)
        return false;
    const char *at = left->size > 0 ? memchr(left->data, mark, left->size) : NULL;
    size_t size = at ? (size_t)(at - left->data) : left->size;
    *ret_piece = trim((struct slice){left->data, size});
    *left = at ? (struct slice){at + 1, left->size - size - 1} : (struct slice){NULL, 0};
    return true;
}

/* Is this parameter "q=0", "q=0.0" and so on: the thing is not wanted? */
static bool is_refusal(struct slice parameter)
{
    if (parameter.size < 3 || !slice_equal_nocase((struct slice){parameter.data, 2}, SLICE("q=")))
        return false;
    for (size_t i = 2; i < parameter.size; i++) {
        if (parameter.data[i] != '0' && parameter.data[i] != '.')
            return false;
    }
    return true;
}

enum word { WORD_MISSING, WORD_REFUSED, WORD_TAKEN };

/* What a list like "text/html;q=0.9, *" says of one word. */
static enum word look_for(struct slice list, struct slice wanted)
{
    struct slice entry;
    while (cut(&list, ',', &entry)) {
        struct slice name;
        struct slice parameter;
        if (!cut(&entry, ';', &name) || !slice_equal_nocase(name, wanted))
            continue;
        while (cut(&entry, ';', &parameter)) {
            if (is_refusal(parameter))
                return WORD_REFUSED;
        }
        return WORD_TAKEN;
    }
    return WORD_MISSING;
}

bool http_page_wants_html(struct slice accept)
{
    return look_for(accept, SLICE("text/html")) == WORD_TAKEN;
}

bool http_page_takes_gzip(struct slice accept_encoding)
{
    enum word gzip = look_for(accept_encoding, SLICE("gzip"));
    if (gzip == WORD_MISSING)
        gzip = look_for(accept_encoding, SLICE("*"));
    return gzip == WORD_TAKEN;
}

/* ---- answers ---- */

/* What the page may do: talk to us, and run and show what is ours. */
#define PAGE_SECURITY                                                                         \
    HTTP_SECURITY("script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " \
                  "base-uri 'none'; form-action 'none'; ",                                    \
                  "same-origin")

/* Every site may run the button; what it may ask of us is up to cors-origins. */
#define BUTTON_SECURITY HTTP_SECURITY("", "cross-origin")

static bool is_html(const struct http_page_file *file)
{
    return strncmp(file->type, "text/html", 9) == 0;
}

/* `number` of the call says whether it takes gzip. */
static void send_file(struct http_call *call, const struct http_page_file *file, const char *cache,
                      const char *vary)
{
    bool is_gzip = call->number != 0 && file->gzip.size > 0 && file->gzip.size < file->plain.size;
    char headers[320];
    int size =
        snprintf(headers, sizeof(headers), "Cache-Control: %s\r\nVary: %s\r\nETag: W/\"%s\"\r\n%s",
                 cache, vary, file->tag, is_gzip ? "Content-Encoding: gzip\r\n" : "");
    struct slice lines = {headers, (size_t)size};
    if (is_html(file))
        call->security = SLICE(PAGE_SECURITY);
    if (http_call_has_tag(call, slice_of(file->tag)))
        http_call_send_as(call, 304, (struct slice){NULL, 0}, lines, (struct slice){NULL, 0});
    else
        http_call_send_as(call, 200, slice_of(file->type), lines,
                          is_gzip ? file->gzip : file->plain);
}

static void answer_asset(struct http_call *call, struct op *ops)
{
    (void)ops;
    const struct http_page_file *file = call->extra;
    send_file(call, file, file->is_fixed ? "public, max-age=31536000, immutable" : "no-cache",
              "Accept-Encoding");
}

static void answer_button(struct http_call *call, struct op *ops)
{
    (void)ops;
    call->security = SLICE(BUTTON_SECURITY);
    send_file(call, call->extra, "public, max-age=" BUTTON_MAX_AGE, "Accept-Encoding");
}

static void answer_page(struct http_call *call, struct op *ops)
{
    (void)ops;
    send_file(call, call->extra, "no-cache", "Accept, Accept-Encoding");
}

static void answer_index(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"name\":\"tally\",\"version\":");
    http_text_string(body, slice_of(http_door_options(call->client->worker->http)->version));
    HTTP_TEXT(body, ",\"openapi\":\"/openapi.json\",\"status\":\"/v1/status\","
                    "\"metrics\":\"/metrics\"}");
    http_call_send_as(call, 200, SLICE("application/json"),
                      SLICE("Cache-Control: no-store\r\nVary: Accept\r\n"),
                      buffer_slice(&body->bytes));
}

bool http_has_page(void)
{
    return http_page_is_whole;
}

/* ---- handlers ---- */

/* Has a file answered, if there is one of that name. */
static void serve(struct http_call *call, struct slice name, http_answer_fn *answer)
{
    const struct http_page_file *file = http_page_find(http_page_files, http_page_file_count, name);
    if (!file) {
        http_call_fail(call, HTTP_PROBLEM_NO_PATH,
                       http_page_is_whole ? NULL : "this server was built without its page");
        return;
    }
    const struct http_request *request = &call->client->parser.request;
    call->number = http_page_takes_gzip(request->headers[HTTP_HEADER_ACCEPT_ENCODING]);
    call->extra = (void *)file;
    http_call_answer(call, answer);
}

void http_index(struct http_call *call)
{
    if (http_page_wants_html(call->client->parser.request.headers[HTTP_HEADER_ACCEPT]))
        serve(call, SLICE("index.html"), answer_page);
    else
        http_call_answer(call, answer_index);
}

void http_page_asset(struct http_call *call)
{
    serve(call, call->args[0], answer_asset);
}

void http_page_button(struct http_call *call)
{
    serve(call, SLICE("tally.js"), answer_button);
}
