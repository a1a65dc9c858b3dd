#include "door/http/http.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "door/http/http_door.h"
#include "door/http/http_openapi.h"
#include "door/http/http_worker.h"

#define KEYS        4096u
#define KEY_KEPT_MS 3600000 /* as long as the desk remembers a task */

enum key_state { KEY_NONE, KEY_UNDER_WAY, KEY_DONE };

/* What was done with an idempotency key. */
struct known_key {
    uint64_t key; /* its hash */
    uint64_t fingerprint;
    uint64_t number; /* of the task; or how many letters */
    int64_t time_ms;
    enum key_state state;
};

struct http {
    struct service *service; /* borrowed */
    struct http_options options;
    char *address; /* owned, as are the next three: what the options point to */
    char *version;
    char *cors_origins;
    char *hosts;
    bool is_loopback;
    uint16_t port;
    struct http_routes routes;
    struct http_text openapi;

    struct client_limits own_limits; /* unless the options have some */
    struct client_limits *limits;
    struct gauge idle_timeout_s; /* as of http_set_limits() */
    struct gauge partial_timeout_s;
    struct password password;

    struct lock lock; /* of what follows */
    struct known_key keys[KEYS];
    unsigned next_key;

    unsigned worker_count;
    struct http_worker workers[];
};

/* ---- for others ---- */

static char *copy_text(const char *text)
{
    size_t size = strlen(text ? text : "") + 1;
    return memcpy(memory_take(size), text ? text : "", size);
}

static enum err check_options(const struct http_options *options, struct error *error)
{
    bool loopback;
    if (!listener_is_address(options->address, &loopback))
        return error_set(error, ERR_INVALID, "'%s' is not an IP address", options->address);
    if (options->password && strlen(options->password) > PASSWORD_BYTES_MAX)
        return error_set(error, ERR_TOO_LARGE, "the password has more than %u bytes",
                         PASSWORD_BYTES_MAX);
    if (options->limits.connections_max == 0)
        return error_set(error, ERR_INVALID, "no connection would be accepted");
    return ERR_OK;
}

struct http *http_new(struct service *service, const struct http_options *options, unsigned workers,
                      struct error *error)
{
    assert(service && options && workers > 0 && workers <= LIMIT_WORKERS);

    if (check_options(options, error))
        return NULL;

    struct http *http = memory_take_zeroed(sizeof(*http) + workers * sizeof(http->workers[0]));
    http->service = service;
    http->options = *options;
    http->options.address = http->address = copy_text(options->address);
    http->options.version = http->version = copy_text(options->version);
    http->options.cors_origins = http->cors_origins = copy_text(options->cors_origins);
    http->options.hosts = http->hosts = copy_text(options->hosts);
    http->options.password = NULL;
    client_limits_init(&http->own_limits, options->limits.connections_max, 0,
                       env_random(service->env));
    http->limits = options->shared ? options->shared : &http->own_limits;
    http->port = options->port;
    (void)listener_is_address(options->address, &http->is_loopback);
    http_routes_init(&http->routes);
    http_openapi_write(&http->openapi, service->kinds, http->version);
    http_set_limits(http, &options->limits);
    lock_init(&http->lock);
    password_init(&http->password, options->password);
    http->worker_count = workers;
    for (unsigned i = 0; i < workers; i++)
        http_worker_init(&http->workers[i], http, service, i);
    return http;
}

enum err http_listen(struct http *http, struct loop *loop, unsigned worker, struct error *error)
{
    assert(http && loop && worker < http->worker_count);

    bool first = true;
    for (unsigned i = 0; i < http->worker_count; i++) {
        if (http->workers[i].listener)
            first = false;
    }
    struct listener_options options = {
        .address = http->options.address,
        .port = http->port,
        .first = first,
    };
    enum err err = http_worker_start(&http->workers[worker], loop, &options, error);
    if (!err)
        http->port = listener_port(http->workers[worker].listener);
    return err;
}

uint16_t http_port(const struct http *http)
{
    return http->port;
}

void http_drain(struct http *http, unsigned worker, http_drained_fn *drained, void *arg)
{
    assert(http && worker < http->worker_count && drained);

    struct http_worker *part = &http->workers[worker];
    lock_take(&part->lock);
    part->drain_asked = true;
    part->drained = drained;
    part->drained_arg = arg;
    http_worker_ask(part);
    lock_release(&part->lock);
}

void http_wake_all(struct http *http)
{
    uint64_t safe = service_safe(http->service);
    for (unsigned i = 0; i < http->worker_count; i++)
        pass_reached(&http->workers[i].pass, safe);
}

void http_finished(struct http *http, unsigned worker)
{
    assert(http && worker < http->worker_count);

    pass_finished(&http->workers[worker].pass);
}

void http_free(struct http *http)
{
    if (!http)
        return;

    for (unsigned i = 0; i < http->worker_count; i++)
        http_worker_done(&http->workers[i]);
    client_limits_done(&http->own_limits);
    lock_done(&http->lock);
    password_done(&http->password);
    http_text_done(&http->openapi);
    free(http->address);
    free(http->version);
    free(http->cors_origins);
    free(http->hosts);
    free(http);
}

void http_metrics(void *arg, struct metrics_door *ret_door)
{
    const struct http *http = arg;
    ret_door->door = "http";
    for (unsigned i = 0; i < http->worker_count; i++) {
        const struct http_worker_stats *stats = &http->workers[i].stats;
        pass_add_figures(&http->workers[i].pass, ret_door);
        ret_door->connections += gauge_read(&stats->connections);
        ret_door->accepted += gauge_read(&stats->accepted);
        ret_door->rejected += gauge_read(&stats->refused) + gauge_read(&stats->turned_away);
        ret_door->bytes_in += gauge_read(&stats->bytes_in);
        ret_door->bytes_out += gauge_read(&stats->bytes_out);
        ret_door->protocol_errors += gauge_read(&stats->protocol_errors);
        ret_door->auth_failures += gauge_read(&stats->auth_failures);
        ret_door->timeouts += gauge_read(&stats->timeouts);
        ret_door->evicted += gauge_read(&http->workers[i].share.evicted);
        ret_door->buffer_bytes += gauge_read(&http->workers[i].share.bytes);
    }
}

/* ---- for the parts of the door ---- */

const struct http_options *http_door_options(const struct http *http)
{
    return &http->options;
}

const struct http_routes *http_door_routes(const struct http *http)
{
    return &http->routes;
}

unsigned http_door_workers(const struct http *http)
{
    return http->worker_count;
}

struct http_worker *http_door_worker(struct http *http, unsigned index)
{
    assert(index < http->worker_count);

    return &http->workers[index];
}

struct slice http_door_openapi(const struct http *http)
{
    return buffer_slice(&http->openapi.bytes);
}

struct client_limits *http_door_client_limits(const struct http *http)
{
    return http->limits;
}

/* ---- the limits ---- */

void http_set_limits(struct http *http, const struct http_limits *limits)
{
    gauge_set(&http->limits->connections_max, limits->connections_max);
    gauge_set(&http->idle_timeout_s, limits->idle_timeout_s);
    gauge_set(&http->partial_timeout_s, limits->partial_timeout_s);
}

struct http_limits http_door_limits(const struct http *http)
{
    return (struct http_limits){
        .connections_max = (uint32_t)gauge_read(&http->limits->connections_max),
        .idle_timeout_s = (uint32_t)gauge_read(&http->idle_timeout_s),
        .partial_timeout_s = (uint32_t)gauge_read(&http->partial_timeout_s),
    };
}

/* ---- the password ---- */

void http_set_password(struct http *http, const char *password)
{
    password_set(&http->password, password);
}

struct password *http_door_password(struct http *http)
{
    return &http->password;
}

/* ---- keys ---- */

struct http_claim http_claim_of(struct slice key, uint64_t verb, struct slice what)
{
    return (struct http_claim){
        .has_key = key.data != NULL,
        .key = hash_stable(key),
        .fingerprint = hash_stable_seeded(what, verb),
    };
}

static struct known_key *find_key(struct http *http, const struct http_claim *claim, int64_t now_ms)
{
    for (unsigned i = 0; i < KEYS && claim->has_key; i++) {
        struct known_key *one = &http->keys[i];
        bool counts = one->state == KEY_UNDER_WAY ||
                      (one->state == KEY_DONE && now_ms - one->time_ms < KEY_KEPT_MS);
        if (counts && one->key == claim->key)
            return one;
    }
    return NULL;
}

static void keep_key(struct http *http, const struct http_claim *claim, enum key_state state,
                     uint64_t number, int64_t now_ms)
{
    if (claim->has_key)
        http->keys[http->next_key++ % KEYS] =
            (struct known_key){claim->key, claim->fingerprint, number, now_ms, state};
}

/* What the first answer was. */
static enum err repeat(const struct known_key *before, const struct http_claim *claim,
                       uint64_t *ret_number)
{
    if (before->fingerprint != claim->fingerprint)
        return ERR_KEY_REUSED;
    if (before->state == KEY_UNDER_WAY)
        return ERR_BUSY;
    *ret_number = before->number;
    return ERR_OK;
}

enum err http_door_claim(struct http *http, const struct http_claim *claim, uint64_t *ret_number,
                         bool *ret_repeated)
{
    int64_t now_ms = env_wall_ms(http->service->env);
    enum err err = ERR_OK;
    lock_take(&http->lock);
    const struct known_key *before = find_key(http, claim, now_ms);
    *ret_repeated = before != NULL;
    if (before)
        err = repeat(before, claim, ret_number);
    else
        keep_key(http, claim, KEY_UNDER_WAY, 0, now_ms);
    lock_release(&http->lock);
    return err;
}

/* Others may have pushed the claim out meanwhile: then what was done is kept anew. */
void http_door_settle(struct http *http, const struct http_claim *claim, bool is_done,
                      uint64_t number)
{
    int64_t now_ms = env_wall_ms(http->service->env);
    lock_take(&http->lock);
    struct known_key *own = find_key(http, claim, now_ms);
    if (own && own->fingerprint == claim->fingerprint) {
        own->state = is_done ? KEY_DONE : KEY_NONE;
        own->number = number;
        own->time_ms = now_ms;
    } else if (is_done) {
        keep_key(http, claim, KEY_DONE, number, now_ms);
    }
    lock_release(&http->lock);
}

/* ---- tasks ---- */

static enum err start_task(const struct http_start *start, uint64_t *ret_task, struct error *error)
{
    switch (start->kind) {
    case DESK_RECOUNT:
        return desk_start_recount(start->desk, start->what, ret_task, error);
    case DESK_AUDIT:
        return desk_start_audit(start->desk, start->what, start->repair, ret_task, error);
    case DESK_ERASE:
        return desk_start_erase(start->desk, start->what, ret_task, error);
    }
    abort(); /* not a kind of task */
}

/* Finding and starting are one step: the same call twice at once starts one task. */
enum err http_door_start(struct http *http, const struct http_start *start, struct slice key,
                         uint64_t *ret_task, bool *ret_repeated, struct error *error)
{
    int64_t now_ms = env_wall_ms(http->service->env);
    struct http_claim claim =
        http_claim_of(key, (uint64_t)start->kind << 1 | start->repair, start->what);
    enum err err = ERR_OK;
    lock_take(&http->lock);
    const struct known_key *before = find_key(http, &claim, now_ms);
    *ret_repeated = before != NULL;
    if (before) {
        err = repeat(before, &claim, ret_task);
    } else {
        err = start_task(start, ret_task, error);
        if (!err)
            keep_key(http, &claim, KEY_DONE, *ret_task, now_ms);
    }
    lock_release(&http->lock);
    return err;
}

/* ---- names ---- */

/* Is it a word of a list with commas? */
static bool is_listed(const char *list, struct slice word)
{
    while (*list) {
        size_t size = strcspn(list, ",");
        const char *end = list + size;
        while (size > 0 && *list == ' ') {
            list++;
            size--;
        }
        if (slice_equal_nocase((struct slice){list, size}, word) && size > 0)
            return true;
        list = *end ? end + 1 : end;
    }
    return false;
}

/* "localhost:3001" without its port, "[::1]:3001" likewise. */
static struct slice name_of(struct slice host)
{
    size_t size = host.size;
    while (size > 0 && host.data[size - 1] >= '0' && host.data[size - 1] <= '9')
        size--;
    if (size > 0 && size < host.size && host.data[size - 1] == ':')
        host.size = size - 1;
    return host;
}

/* A name that points to this machine for everybody, and cannot be taken by others;
 * a port that was forwarded to ours does no harm. Beyond this machine there is a
 * password, and any name will do unless some are given. */
bool http_door_is_host(const struct http *http, struct slice host)
{
    struct slice name = name_of(host);
    if (!host.data)
        return true; /* HTTP/1.0: browsers do not speak it */
    if (slice_equal_nocase(name, SLICE("localhost")) || slice_equal(name, SLICE("127.0.0.1")) ||
        slice_equal(name, SLICE("[::1]")) || slice_equal_nocase(name, slice_of(http->address)))
        return true;
    if (http->hosts[0] == '\0')
        return !http->is_loopback;
    return strcmp(http->hosts, "*") == 0 || is_listed(http->hosts, host) ||
           is_listed(http->hosts, name);
}

bool http_door_is_origin(const struct http *http, struct slice origin)
{
    return is_listed(http->cors_origins, origin);
}
