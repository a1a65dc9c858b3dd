/* http_call.h - one request on its way through its handler, and its answer.
 *
 * A handler reads what it needs from the call and ends in one of
 *
 *   http_call_submit   the ops it has appended are run; then `answer` is called
 *   http_call_answer   nothing is to be run: `answer` is called in its turn
 *   http_call_job      a thread of the desk finds out (http_job.h)
 *   http_call_fail     a problem
 *
 * An answer writes a body into http_call_body() and ends in one of the
 * http_call_send functions. A call lies in the room of the pass, as does what
 * its slices point to: nothing is allocated on the way. */
#ifndef DOOR_HTTP_HTTP_CALL_H
#define DOOR_HTTP_HTTP_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/age.h"
#include "core/op.h"
#include "door/http/http_client.h"
#include "door/http/http_json.h"
#include "door/http/http_problem.h"
#include "door/http/http_route.h"
#include "door/http/http_text.h"

/* On every answer: nobody guesses types, runs scripts but those that `policy` names, or puts it
 * into a frame. */
#define HTTP_SECURITY(policy, resource)                                                 \
    "X-Content-Type-Options: nosniff\r\n"                                               \
    "Content-Security-Policy: default-src 'none'; " policy "frame-ancestors 'none'\r\n" \
    "X-Frame-Options: DENY\r\n"                                                         \
    "Referrer-Policy: no-referrer\r\n"                                                  \
    "Cross-Origin-Resource-Policy: " resource "\r\n"
#define HTTP_SECURITY_USUAL HTTP_SECURITY("", "same-origin")

struct http_call;
typedef void http_answer_fn(struct http_call *call, struct op *ops);

struct http_call {
    struct http_client *client;
    const struct http_route *route; /* NULL until it is found */
    http_answer_fn *answer;
    bool is_head;
    bool is_old; /* HTTP/1.0 */
    bool keep_alive;
    bool is_known;                          /* the password was given, or none is needed */
    struct slice args[HTTP_ROUTE_ARGS_MAX]; /* of the path, decoded */
    struct slice query;                     /* its bytes may be written to, as those of the body */
    struct slice body;
    struct slice key;    /* data NULL = none */
    struct slice region; /* size 0 = none */
    bool must_log;       /* ?ack=log: nothing less will do */
    bool untagged;       /* the answer may be older than one that the client has: no ETag, no 304 */
    struct slice if_none_match;
    struct slice origin;   /* that may see the answer; size 0 = none */
    struct slice security; /* headers in place of HTTP_SECURITY_USUAL; size 0 = those */

    /* what a handler wants to know when it answers */
    uint64_t number;
    void *extra;
    enum http_problem problem;
    char *detail;
};

/* Takes the parser's request and has it handled. False: it has to wait until the
 * requests before it are answered, and nothing was done. */
bool http_call_take(struct http_client *client);

/* What follows cannot be understood: answers that, then closes. False as above. */
bool http_call_refuse(struct http_client *client, unsigned status, const char *error);

/* The time is up for who sends too slowly. At once: nothing is under way. */
void http_call_time_out(struct http_client *client);

/* Is the head of a request, whose body is to follow, one that may come in? */
bool http_call_may_send(struct http_client *client);

/* ---- in a handler ---- */

/* Appends an op; a write has the call's key and region. */
struct op *http_call_op(struct http_call *call, enum op_kind kind, struct slice id);

/* Room for the counts of an op, for all kinds. */
int64_t *http_call_counts(struct http_call *call);

/* Memory until the call is answered. */
void *http_call_alloc(struct http_call *call, size_t size);

/* The last `count` ops are what is asked; checks them first, and fails if they make no
 * sense; or believes the caller that they do. */
void http_call_submit(struct http_call *call, size_t count, http_answer_fn *answer);
void http_call_submit_checked(struct http_call *call, size_t count, http_answer_fn *answer);
void http_call_answer(struct http_call *call, http_answer_fn *answer);
void http_call_fail(struct http_call *call, enum http_problem problem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void http_call_fail_with(struct http_call *call, const struct error *error);

/* A field of the query; data NULL if it is not there. Fields are looked for in one
 * go: names are closed by a NULL; what has "=" before its name stays encoded. False, and it has
 * failed, when the query holds another name, a name twice, or is not well formed. */
bool http_call_query(struct http_call *call, const char *const *names, struct slice *ret_values);

/* Appends a read of each of the counters in a list with commas, still encoded. Returns how
 * many; 0: it has failed. */
size_t http_call_read_ids(struct http_call *call, struct slice ids);

/* A time of the query; 0 if it is not there. False: it has failed. */
bool http_call_time(struct http_call *call, const char *name, struct slice text, int64_t *ret_ms);

/* cursor and limit of a page, where they are there. False: it has failed. */
bool http_call_page(struct http_call *call, struct slice cursor, struct slice limit,
                    uint32_t limit_default, uint64_t *ret_cursor, uint32_t *ret_limit);

/* The body as an object that has no other members than these; an empty body is an
 * empty object. NULL: it has failed. Lives until the next call is handled. */
const struct http_json *http_call_object(struct http_call *call, const char *const *names);

/* Members of it: what is not there leaves the value alone. False: it has failed. */
bool http_call_string(struct http_call *call, const struct http_json *object, const char *name,
                      struct slice *value);
bool http_call_id(struct http_call *call, const struct http_json *object, const char *name,
                  struct slice *value); /* a string, or an integer, as text */
bool http_call_number(struct http_call *call, const struct http_json *object, const char *name,
                      struct number *value); /* the same, of any size; owned by the caller */
bool http_call_int(struct http_call *call, const struct http_json *object, const char *name,
                   int64_t min, int64_t max, int64_t *value);
bool http_call_bool(struct http_call *call, const struct http_json *object, const char *name,
                    bool *value);

/* What a check (flow/check.h) has said. False: the call has failed with that. */
bool http_call_accept(struct http_call *call, enum err err, const struct error *error);

/* A pattern, which is not empty. False: it has failed. */
bool http_call_check_match(struct http_call *call, struct slice match);

/* The number of a kind; fails if there is none of that name. */
bool http_call_kind(struct http_call *call, struct slice name, uint8_t *ret_kind);

/* ---- in an answer ---- */

/* The text of the answer, empty. */
struct http_text *http_call_body(struct http_call *call);

/* Sends it, as JSON. */
void http_call_send(struct http_call *call, unsigned status);

/* The same for a read, only if the client has not got it already. `content` differs whenever the
 * answer differs in more than `as_of`; it is the tag itself, or its hash is if it is long.
 * http_call_send() of a tagged route makes a tag of all but `as_of`. */
void http_call_send_tagged(struct http_call *call, struct slice content);

/* Has the client got what is named by `tag`? */
bool http_call_has_tag(const struct http_call *call, struct slice tag);

/* As something else. `headers` are whole lines, or empty. */
void http_call_send_as(struct http_call *call, unsigned status, struct slice type,
                       struct slice headers, struct slice body);

void http_call_problem(struct http_call *call, enum http_problem problem, const char *detail);

/* Answers an op's error, if it has one. */
bool http_call_answer_error(struct http_call *call, const struct op *op);

/* ,"as_of":"..." of the batch that has just run; ,"ack":"durable" as well */
void http_call_as_of(struct http_call *call, struct http_text *to);
void http_call_ack(struct http_call *call, struct http_text *to);

/* The same of a read: of the moment that it is of, ,"stale":true if the hot layer could not be
 * asked, ,"shards_missing":2 if some of it could not. */
void http_call_as_of_op(struct http_call *call, struct http_text *to, const struct op *op);
void http_call_as_of_age(struct http_call *call, struct http_text *to, const struct age *age);

/* Of one of many things in an answer: only if it may lack something. Added to that of all. */
void http_call_write_age(struct age *all, struct http_text *to, const struct age *age);

/* What an answer to a write of this call says that it has waited for: "durable", "log". */
struct slice http_call_ack_word(const struct http_call *call);

/* What is wrong with the op; HTTP_PROBLEMS: nothing. */
enum http_problem http_call_op_problem(const struct http_call *call, const struct op *op);

/* ?exact=true. False: it has failed. */
bool http_call_exact(struct http_call *call, struct slice value, bool *ret_exact);

/* {"like":"3","dislike":"0"} */
void http_call_write_counts(struct http_call *call, struct http_text *to, const int64_t *counts);
/* "like", or null */
void http_call_write_kind(struct http_call *call, struct http_text *to, uint8_t kind);

#endif
