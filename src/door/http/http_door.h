/* http_door.h - what the parts of the door ask of the whole. The door itself,
 * and what others may know of it, is in http.h. */
#ifndef DOOR_HTTP_HTTP_DOOR_H
#define DOOR_HTTP_HTTP_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "door/http/http.h"
#include "door/http/http_route.h"
#include "door/pass/client_limits.h"
#include "door/pass/password.h"
#include "flow/desk.h"

struct http_worker;

const struct http_options *http_door_options(const struct http *http);
const struct http_routes *http_door_routes(const struct http *http);
unsigned http_door_workers(const struct http *http);
struct http_worker *http_door_worker(struct http *http, unsigned index);

/* The text of /openapi.json. */
struct slice http_door_openapi(const struct http *http);

/* Any thread, each of these. */
struct http_limits http_door_limits(const struct http *http);
struct client_limits *http_door_client_limits(const struct http *http);
struct password *http_door_password(struct http *http);

/* May a request with this Host be answered? A page whose name was made to point here
 * has another. */
bool http_door_is_host(const struct http *http, struct slice host);

/* The idempotency key of a call that the service does not see, and what the call is:
 * the door remembers the last few thousand of them for an hour. */
struct http_claim {
    bool has_key;
    uint64_t key;
    uint64_t fingerprint;
};

/* Numbers of verbs, beyond those of tasks. */
enum http_verb { HTTP_VERB_REDRIVE = 1000, HTTP_VERB_DISCARD };

/* `key` with data NULL = none; a claim without a key is always new. */
struct http_claim http_claim_of(struct slice key, uint64_t verb, struct slice what);

/* Any thread. Was this done before? Then `ret_number` is what it came to. Otherwise the
 * caller does it now, and settles the claim. ERR_KEY_REUSED: the key was for another call;
 * ERR_BUSY: somebody is at it. */
enum err http_door_claim(struct http *http, const struct http_claim *claim, uint64_t *ret_number,
                         bool *ret_repeated);

/* Of what was not done nothing is remembered. */
void http_door_settle(struct http *http, const struct http_claim *claim, bool is_done,
                      uint64_t number);

/* A task to be started at the desk. */
struct http_start {
    struct desk *desk;
    enum desk_task_kind kind;
    struct slice what; /* a pattern, or a user */
    bool repair;
};

/* Starts it; with a key (data NULL = none) that was used within the hour for the same
 * says which task that was. ERR_BUSY; ERR_KEY_REUSED: it was for another. */
enum err http_door_start(struct http *http, const struct http_start *start, struct slice key,
                         uint64_t *ret_task, bool *ret_repeated, struct error *error);

/* Is it one of the origins that scripts may come from? */
bool http_door_is_origin(const struct http *http, struct slice origin);

#endif
