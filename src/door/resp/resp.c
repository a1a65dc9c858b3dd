#include "door/resp/resp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/memory.h"
#include "door/resp/resp_command.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_worker.h"

struct resp {
    struct service *service; /* borrowed */
    struct resp_options options;
    char *address; /* owned, as are the next two: what the options point to */
    char *version;
    char *data_folder;
    uint16_t port;
    struct resp_commands commands;

    struct client_limits own_limits; /* unless the options have some */
    struct client_limits *limits;
    struct gauge idle_timeout_s; /* as of resp_set_limits() */
    struct gauge partial_timeout_s;
    struct password password;

    struct lock lock; /* of what follows */
    uint64_t next_id;

    unsigned worker_count;
    struct resp_worker workers[];
};

/* ---- for others ---- */

static char *copy_text(const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    return memcpy(memory_take(size), text, size);
}

static enum err check_options(const struct resp_options *options, struct error *error)
{
    bool loopback;
    if (!listener_is_address(options->address, &loopback))
        return error_set(error, ERR_INVALID, "'%s' is not an IP address", options->address);
    if (options->password && strlen(options->password) > PASSWORD_BYTES_MAX)
        return error_set(error, ERR_TOO_LARGE, "the password has more than %u bytes",
                         PASSWORD_BYTES_MAX);
    if (options->connections_max == 0)
        return error_set(error, ERR_INVALID, "no connection would be accepted");
    return ERR_OK;
}

struct resp *resp_new(struct service *service, const struct resp_options *options, unsigned workers,
                      struct error *error)
{
    assert(service && options && workers > 0 && workers <= LIMIT_WORKERS);

    if (check_options(options, error))
        return NULL;

    struct resp *resp = memory_take_zeroed(sizeof(*resp) + workers * sizeof(resp->workers[0]));
    resp->service = service;
    resp->options = *options;
    resp->options.address = resp->address = copy_text(options->address);
    resp->options.version = resp->version = copy_text(options->version ? options->version : "0");
    resp->options.data_folder = resp->data_folder = copy_text(options->data_folder);
    resp->options.password = NULL;
    client_limits_init(&resp->own_limits, options->connections_max, 0, env_random(service->env));
    resp->limits = options->limits ? options->limits : &resp->own_limits;
    resp->port = options->port;
    resp_commands_init(&resp->commands);
    resp_set_limits(resp, &(struct resp_limits){
                              .connections_max = options->connections_max,
                              .idle_timeout_s = options->idle_timeout_s,
                              .partial_timeout_s = options->partial_timeout_s,
                          });
    lock_init(&resp->lock);
    password_init(&resp->password, options->password);
    resp->worker_count = workers;
    for (unsigned i = 0; i < workers; i++)
        resp_worker_init(&resp->workers[i], resp, i);
    for (unsigned i = 0; i < workers; i++)
        resp->workers[i].pass.refuses_stale = !options->serves_stale;
    return resp;
}

enum err resp_listen(struct resp *resp, struct loop *loop, unsigned worker, struct error *error)
{
    assert(resp && loop && worker < resp->worker_count);

    bool first = true;
    for (unsigned i = 0; i < resp->worker_count; i++) {
        if (resp->workers[i].listener)
            first = false;
    }
    struct listener_options options = {
        .address = resp->options.address,
        .port = resp->port,
        .first = first,
    };
    enum err err = resp_worker_start(&resp->workers[worker], loop, &options, error);
    if (!err)
        resp->port = listener_port(resp->workers[worker].listener);
    return err;
}

uint16_t resp_port(const struct resp *resp)
{
    return resp->port;
}

void resp_drain(struct resp *resp, unsigned worker, resp_drained_fn *drained, void *arg)
{
    assert(resp && worker < resp->worker_count && drained);

    struct resp_worker *part = &resp->workers[worker];
    lock_take(&part->lock);
    part->drain_asked = true;
    part->drained = drained;
    part->drained_arg = arg;
    resp_worker_ask(part);
    lock_release(&part->lock);
}

void resp_wake_all(struct resp *resp)
{
    uint64_t safe = service_safe(resp->service);
    for (unsigned i = 0; i < resp->worker_count; i++)
        pass_reached(&resp->workers[i].pass, safe);
}

void resp_finished(struct resp *resp, unsigned worker)
{
    assert(resp && worker < resp->worker_count);

    pass_finished(&resp->workers[worker].pass);
}

void resp_metrics(void *arg, struct metrics_door *ret_door)
{
    const struct resp *resp = arg;
    *ret_door = (struct metrics_door){.door = "resp"};
    for (unsigned i = 0; i < resp->worker_count; i++) {
        const struct resp_worker_stats *stats = &resp->workers[i].stats;
        pass_add_figures(&resp->workers[i].pass, ret_door);
        ret_door->connections += gauge_read(&stats->connections);
        ret_door->accepted += gauge_read(&stats->accepted);
        ret_door->rejected += gauge_read(&stats->refused) + gauge_read(&stats->turned_away);
        ret_door->bytes_in += gauge_read(&stats->bytes_in);
        ret_door->bytes_out += gauge_read(&stats->bytes_out);
        ret_door->protocol_errors += gauge_read(&stats->protocol_errors);
        ret_door->auth_failures += gauge_read(&stats->auth_failures);
        ret_door->timeouts += gauge_read(&stats->timeouts);
        ret_door->evicted += gauge_read(&resp->workers[i].share.evicted);
        ret_door->buffer_bytes += gauge_read(&resp->workers[i].share.bytes);
    }
}

void resp_free(struct resp *resp)
{
    if (!resp)
        return;

    for (unsigned i = 0; i < resp->worker_count; i++)
        resp_worker_done(&resp->workers[i]);
    client_limits_done(&resp->own_limits);
    lock_done(&resp->lock);
    password_done(&resp->password);
    free(resp->address);
    free(resp->version);
    free(resp->data_folder);
    free(resp);
}

/* ---- for the parts of the door ---- */

struct service *resp_door_service(struct resp *resp)
{
    return resp->service;
}

const struct resp_options *resp_door_options(const struct resp *resp)
{
    return &resp->options;
}

const struct resp_commands *resp_door_commands(const struct resp *resp)
{
    return &resp->commands;
}

unsigned resp_door_workers(const struct resp *resp)
{
    return resp->worker_count;
}

struct resp_worker *resp_door_worker(struct resp *resp, unsigned index)
{
    assert(index < resp->worker_count);

    return &resp->workers[index];
}

uint64_t resp_door_next_id(struct resp *resp)
{
    lock_take(&resp->lock);
    uint64_t id = ++resp->next_id;
    lock_release(&resp->lock);
    return id;
}

struct client_limits *resp_door_client_limits(const struct resp *resp)
{
    return resp->limits;
}

/* ---- the limits ---- */

void resp_set_limits(struct resp *resp, const struct resp_limits *limits)
{
    gauge_set(&resp->limits->connections_max, limits->connections_max);
    gauge_set(&resp->idle_timeout_s, limits->idle_timeout_s);
    gauge_set(&resp->partial_timeout_s, limits->partial_timeout_s);
}

struct resp_limits resp_door_limits(const struct resp *resp)
{
    return (struct resp_limits){
        .connections_max = (uint32_t)gauge_read(&resp->limits->connections_max),
        .idle_timeout_s = (uint32_t)gauge_read(&resp->idle_timeout_s),
        .partial_timeout_s = (uint32_t)gauge_read(&resp->partial_timeout_s),
    };
}

/* ---- the password ---- */

void resp_set_password(struct resp *resp, const char *password)
{
    password_set(&resp->password, password);
}

struct password *resp_door_password(struct resp *resp)
{
    return &resp->password;
}
