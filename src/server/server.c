#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "door/pass/password.h"
#include "server/figures.h"
#include "server/process.h"
#include "server/server_own.h"

#define TICK_MS    100u
#define LOOK_TICKS 10u

#define BODY_BYTES_LEAST (9u << 20) /* a whole batch */

_Static_assert(CONFIG_PASSWORD_BYTES_MAX <= PASSWORD_BYTES_MAX, "a password that a door refuses");

/* A client that does not take its answers must not keep us from ending. */
#define DRAIN_WITHIN_S 5

/* --- the parts -------------------------------------------------------------- */

void server_give_way(void *arg)
{
    if (arg)
        turns_join(arg);
    else
        (void)process_give_way(process_thread());
}

struct pipeline_options server_pipeline_options(struct server *server)
{
    const struct config *config = &server->config;
    return (struct pipeline_options){
        .env = server->env,
        .log = server->log,
        .store = server->store,
        .hot = server->hot,
        .kinds = &server->kinds,
        .first_guest = server->worker_count,
        .flush_interval_ms = config->flush_interval,
        .flush_events = config->flush_events,
        .keep_events_ms = config->keep_events,
        .keep_history_ms = config->keep_history,
        .keep_keys_ms = config->keys_kept,
        .log_keep_ms = config->log_keep_age,
        .log_keep_bytes = config->log_keep_bytes,
        .audit_every_ms = config->audit_every,
        .audit_batch = config->audit_batch,
        .begin_thread = server_give_way,
        .begin_arg = &server->turns,
    };
}

static enum err open_parts(struct server *server, struct error *error)
{
    enum err err = kinds_parse(&server->kinds, slice_of(server->config.kinds.text), error);
    if (err)
        return err;
    return config_is_distributed(&server->config) ? distributed_open(server, error)
                                                  : embedded_open(server, error);
}

static enum err start_parts(struct server *server, struct error *error)
{
    return server->distributed ? distributed_start(server, error) : embedded_start(server, error);
}

static enum err open_service(struct server *server, struct error *error)
{
    (void)error;
    enum ack ack = (enum ack)server->config.ack;
    if (server->distributed && ack == ACK_DURABLE)
        ack = ACK_LOG;
    service_init(&server->service, server->env, server->hot, server->log, &server->kinds, ack);
    server->has_service = true;
    server->metrics = (struct metrics){
        .version = TALLY_VERSION,
        .started_ms = env_wall_ms(server->env),
        .service = &server->service,
        .process = figures_process,
        .brief = figures_brief,
        .process_arg = server->config.data.text,
    };
    server->samples = samples_new(&server->metrics);
    return ERR_OK;
}

static void say_config(void *arg, resp_config_say_fn *say, void *to)
{
    struct server *server = arg;
    pthread_mutex_lock(&server->config_mutex);
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const struct config_setting *setting = &config_settings[i];
        char value[VALUE_TEXT_MAX + 1];
        if (setting->kind != VALUE_SECRET)
            say(to, setting->name,
                value_format(setting->kind, setting->limits,
                             (const char *)&server->config + setting->offset, value,
                             sizeof(value)));
    }
    pthread_mutex_unlock(&server->config_mutex);
}

static uint32_t seconds_of(uint64_t ms)
{
    return (uint32_t)((ms + 999) / 1000);
}

static const char *password_of(const struct config *config)
{
    return config->password.text[0] ? config->password.text : NULL;
}

static bool begins(const struct value_text *value, const char *scheme)
{
    return strncmp(value->text, scheme, strlen(scheme)) == 0;
}

static uint64_t own_files(const struct server *server, const struct config *config)
{
    bool is_distributed = config_is_distributed(config);
    bool has_postgres = begins(&config->store, "postgres") || config->move_to.text[0] != '\0';
    struct process_parts parts = {
        .workers = server->worker_count,
        .listeners = (config->role != CONFIG_AGGREGATE) + (config->http.host[0] != '\0'),
        .has_file_log = !is_distributed,
        .has_sqlite =
            !begins(&config->store, "postgres") && strcmp(config->store.text, "none") != 0,
        .has_postgres = has_postgres,
        .has_redis = is_distributed,
        .has_streams = begins(&config->log, "redis-stream://"),
        .has_kafka = begins(&config->log, "kafka://"),
    };
    return process_own_files(&parts);
}

/* For clients of both listeners, beside what we need ourselves. */
static enum err reserve_files(const struct server *server, const struct config *config,
                              uint32_t *ret_connections, struct error *error)
{
    uint64_t room;
    enum err err =
        process_reserve_files(own_files(server, config), config->max_connections, &room, error);
    if (!err)
        *ret_connections = (uint32_t)room;
    return err;
}

static enum err open_limits(struct server *server, struct error *error)
{
    uint32_t connections;
    enum err err = reserve_files(server, &server->config, &connections, error);
    if (err)
        return err;
    client_limits_init(&server->limits, connections, server->config.max_client_memory,
                       env_random(server->env));
    server->has_limits = true;
    return ERR_OK;
}

static struct resp_limits limits_of(const struct config *config, uint32_t connections_max)
{
    return (struct resp_limits){
        .connections_max = connections_max,
        .idle_timeout_s = seconds_of(config->idle_timeout),
        .partial_timeout_s = seconds_of(config->request_timeout),
    };
}

static enum err open_resp(struct server *server, struct error *error)
{
    const struct config *config = &server->config;
    if (config->role == CONFIG_AGGREGATE)
        return ERR_OK;
    struct resp_limits limits =
        limits_of(config, (uint32_t)gauge_read(&server->limits.connections_max));
    struct resp_options options = RESP_OPTIONS_DEFAULT;
    options.address = config->resp.host;
    options.port = config->resp.port;
    options.password = password_of(config);
    options.limits = &server->limits;
    options.connections_max = limits.connections_max;
    options.output_bytes_max = config->max_output;
    options.idle_timeout_s = limits.idle_timeout_s;
    options.partial_timeout_s = limits.partial_timeout_s;
    options.serves_stale = config->stale_reads == CONFIG_SERVE_STALE;
    options.config = say_config;
    options.config_arg = server;
    options.version = TALLY_VERSION;
    options.data_folder = config->data.text;
    options.started_ms = env_wall_ms(server->env);
    server->resp = resp_new(&server->service, &options, server->worker_count, error);
    if (!server->resp)
        return error->code;
    metrics_add_door(&server->metrics, resp_metrics, server->resp);
    return ERR_OK;
}

static struct http_limits http_limits_of(const struct config *config, uint32_t connections_max)
{
    struct resp_limits limits = limits_of(config, connections_max);
    return (struct http_limits){
        .connections_max = limits.connections_max,
        .idle_timeout_s = limits.idle_timeout_s,
        .partial_timeout_s = limits.partial_timeout_s,
    };
}

/* Large bodies that are not whole are refused before clients have to be closed for them. */
static size_t body_bytes_max(const struct server *server, size_t usual)
{
    uint64_t share = server->config.max_client_memory / (2 * server->worker_count);
    if (share == 0 || share > usual)
        return usual;
    return share > BODY_BYTES_LEAST ? (size_t)share : BODY_BYTES_LEAST;
}

static enum err open_http(struct server *server, struct error *error)
{
    const struct config *config = &server->config;
    if (config->http.host[0] == '\0')
        return ERR_OK;
    struct http_options options = HTTP_OPTIONS_DEFAULT;
    options.address = config->http.host;
    options.port = config->http.port;
    options.password = password_of(config);
    options.shared = &server->limits;
    options.limits = http_limits_of(config, (uint32_t)gauge_read(&server->limits.connections_max));
    options.input_bytes_max = body_bytes_max(server, options.input_bytes_max);
    options.output_bytes_max = config->max_output;
    options.cors_origins = config->cors_origins.text;
    options.hosts = config->http_hosts.text;
    options.version = TALLY_VERSION;
    options.started_ms = env_wall_ms(server->env);
    options.has_demo = config_has_demo(config);
    options.metrics = &server->metrics;
    options.samples = server->samples;
    server->http = http_new(&server->service, &options, server->worker_count, error);
    if (!server->http)
        return error->code;
    metrics_add_door(&server->metrics, http_metrics, server->http);
    return ERR_OK;
}

static void look_at_turns(struct server *server)
{
    struct hot_stats hot;
    struct pipeline_stats pipeline;
    hot_stats(server->hot, &hot);
    pipeline_read(&server->service, &pipeline);
    struct turns_figures figures = {
        .refused = hot.memory_refused,
        .lag_ms = pipeline.lag_ms,
        .now_ns = env_monotonic_ns(server->env),
    };
    if (turns_look(&server->turns, &figures))
        message_info("the store's threads %s", server->turns.is_pressed
                                                   ? "take their turn: it has fallen behind"
                                                   : "give way again to those that serve");
}

static void ring_tick(void *arg)
{
    struct server *server = arg;
    hot_tick(server->hot, env_wall_ms(server->env));
    unsigned long tick = atomic_fetch_add_explicit(&server->ticks, 1, memory_order_relaxed);
    if (tick % LOOK_TICKS == 0)
        look_at_turns(server);
}

static enum err open_loops(struct server *server, struct error *error)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        struct worker *worker = &server->workers[i];
        *worker = (struct worker){.server = server, .number = i, .loop = loop_new(error)};
        if (!worker->loop)
            return error->code;
        enum err err = ERR_OK;
        if (server->resp)
            err = resp_listen(server->resp, worker->loop, i, error);
        if (!err && server->http)
            err = http_listen(server->http, worker->loop, i, error);
        if (err)
            return err;
    }
    server->tick = timer_new(server->workers[0].loop, ring_tick, server);
    timer_start(server->tick, TICK_MS, TICK_MS);
    atomic_store_explicit(&server->is_open, true, memory_order_release);
    return ERR_OK;
}

void server_wake_doors(void *arg)
{
    struct server *server = arg;
    if (!atomic_load_explicit(&server->is_open, memory_order_acquire))
        return;
    if (server->resp)
        resp_wake_all(server->resp);
    if (server->http)
        http_wake_all(server->http);
}

/* Whichever door of the worker ends its pass first collects for both. */
static void finish_batches(void *arg, unsigned worker)
{
    struct server *server = arg;
    if (server->resp)
        resp_finished(server->resp, worker);
    else if (server->http)
        http_finished(server->http, worker);
}

static enum err set_hooks(struct server *server, struct error *error)
{
    (void)error;
    server->hot->finish = finish_batches;
    server->hot->finish_arg = server;
    server->hot->arrive = server_wake_doors;
    server->hot->arrive_arg = server;
    return ERR_OK;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    loop_run(worker->loop);
    return NULL;
}

static enum err start_workers(struct server *server, struct error *error)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        struct worker *worker = &server->workers[i];
        int errnum = pthread_create(&worker->thread, NULL, work, worker);
        if (errnum != 0)
            return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start worker %u", i);
        worker->runs = true;
        char name[] = "worker-00";
        name[7] = (char)('0' + i / 10);
        name[8] = (char)('0' + i % 10);
        (void)pthread_setname_np(worker->thread, name);
    }
    return ERR_OK;
}

static enum err start_sampler(struct server *server, struct error *error)
{
    server->sampler = sampler_start(server->samples, error);
    return server->sampler ? ERR_OK : error->code;
}

/* --- messages --------------------------------------------------------------- */

static void warn_of_open_doors(const struct config *config)
{
    const struct value_address *addresses[] = {&config->resp, &config->http};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
        if (config->insecure && !password_of(config) && !value_is_loopback(addresses[i]))
            message_warning("everybody who reaches %s can read and change everything: there is no "
                            "password, and --insecure allows it",
                            addresses[i]->host);
}

static void warn_of_password(const struct config *config, const struct value_text *url)
{
    char where[160];
    config_where(config, url, where, sizeof(where));
    if (value_has_password(url->text) && strncmp(where, "--", 2) == 0)
        message_warning("every user of the machine can read the password of %s in the command "
                        "line: give it in the environment or in the file instead",
                        where);
}

static void say_where_others_are(const struct server *server)
{
    static const char *const roles[] = {"all", "serve", "aggregate"};
    const struct config *config = &server->config;
    const struct value_text *urls[] = {&config->hot, &config->log, &config->store};
    char text[3][256];
    for (size_t i = 0; i < 3; i++) {
        value_hide_password(urls[i]->text, text[i], sizeof(text[i]));
        warn_of_password(config, urls[i]);
    }
    message_info("tallyd starts version=%s role=%s hot=%s log=%s store=%s ack=%s workers=%u "
                 "pid=%ld",
                 TALLY_VERSION, roles[config->role], text[0], text[1], text[2],
                 config->ack == ACK_HOT ? "hot" : "log", server->worker_count, (long)getpid());
    if (config->ack == ACK_HOT)
        message_warning("a failover of Redis can lose the last acknowledged writes: ack=hot "
                        "answers before they are in the log");
    warn_of_open_doors(config);
}

static void say_what_starts(const struct server *server)
{
    const struct config *config = &server->config;
    if (config_is_distributed(config)) {
        say_where_others_are(server);
        return;
    }
    char data[256];
    char *path = realpath(config->data.text, NULL);
    message_info("tallyd starts version=%s data=%s ack=%s workers=%u pid=%ld", TALLY_VERSION,
                 message_quote(data, sizeof(data), slice_of(path ? path : config->data.text)),
                 ack_name((enum ack)config->ack), server->worker_count, (long)getpid());
    free(path);

    if (config->ack == ACK_WRITTEN)
        message_warning("a power cut can lose the last acknowledged writes: ack=written answers "
                        "before they are on disk");
    if (config->ack == ACK_MEMORY)
        message_warning("a crash or a power cut can lose the last acknowledged writes: ack=memory "
                        "answers before they are written anywhere");
    warn_of_open_doors(config);
}

/* How to reach the address from this machine. redis-cli goes to 127.0.0.1 unless
 * told otherwise, which is right for 0.0.0.0 as well. */
static void format_client(const struct value_address *address, bool has_password, char *to,
                          size_t size)
{
    bool is_usual =
        strcmp(address->host, "127.0.0.1") == 0 || strcmp(address->host, "0.0.0.0") == 0;
    const char *host = strcmp(address->host, "::") == 0 ? "::1" : address->host;
    (void)snprintf(to, size, "redis-cli%s%s -p %u%s", is_usual ? "" : " -h ", is_usual ? "" : host,
                   (unsigned)address->port, has_password ? " --askpass" : "");
}

/* How to reach it from this machine. */
static void say_where_http(const struct server *server)
{
    struct value_address address = server->config.http;
    address.port = http_port(server->http);
    char where[64];
    value_format(VALUE_ADDRESS, "", &address, where, sizeof(where));
    const char *password = password_of(&server->config);
    message_info("listening door=http address=%s password=%s", where, password ? "yes" : "no");

    if (server->config.role == CONFIG_AGGREGATE)
        return; /* it counts nothing itself */
    bool is_all = strcmp(address.host, "0.0.0.0") == 0 || strcmp(address.host, "::") == 0;
    const char *name = is_all ? "localhost" : "";
    const char *rest = is_all ? strrchr(where, ':') : where;
    message_info("try: curl -X PUT %shttp://%s%s/v1/items/video1/reactions/ann",
                 password ? "-H 'Authorization: Bearer PASSWORD' " : "", name, rest);
    if (http_has_page())
        message_info("open in a browser: http://%s%s/", name, rest);
}

static void say_where_resp(const struct server *server)
{
    struct value_address address = server->config.resp;
    address.port = server_port(server);
    char where[64];
    value_format(VALUE_ADDRESS, "", &address, where, sizeof(where));
    message_info("listening door=resp address=%s password=%s", where,
                 password_of(&server->config) ? "yes" : "no");

    char client[128];
    format_client(&address, password_of(&server->config) != NULL, client, sizeof(client));
    message_info("try: %s INCR views", client);
    message_info("try: %s LIKE video1 ann", client);
    message_info("try: %s COUNTS video1", client);
}

static void say_where(const struct server *server)
{
    if (server->resp)
        say_where_resp(server);
    if (server->http)
        say_where_http(server);
}

/* --- start ------------------------------------------------------------------ */

static unsigned workers_for(const struct config *config)
{
    unsigned count = config->workers > 0 ? (unsigned)config->workers : process_cores();
    unsigned max = LIMIT_WORKERS - PIPELINE_GUESTS;
    return count < max ? count : max;
}

static struct server *server_new(const struct config *config)
{
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        abort();
    server->env = env_system();
    server->config = *config;
    server->worker_count = workers_for(config);
    pthread_mutex_init(&server->config_mutex, NULL);
    pthread_mutex_init(&server->drain_mutex, NULL);

    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->drain_moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return server;
}

/* Each needs those above it. The port is taken before the log is started, so
 * that a start that fails leaves the data as it was. */
static server_step_fn *const embedded_steps[] = {
    open_limits, open_parts,  open_service,  open_resp,     open_http, open_loops,
    set_hooks,   start_parts, start_workers, start_sampler, NULL,
};

/* Nobody comes in before it is known whether the others answer: a node that is started again
 * should not turn away who could go to another. */
static server_step_fn *const distributed_steps[] = {
    open_limits, open_parts,       open_service, open_resp,     open_http,     set_hooks,
    start_parts, distributed_wait, open_loops,   start_workers, start_sampler, NULL,
};

enum err server_start(const struct config *config, struct server **ret_server, struct error *error)
{
    assert(config);
    assert(ret_server);
    assert(error);

    struct server *server = server_new(config);
    say_what_starts(server);
    server_step_fn *const *step =
        config_is_distributed(config) ? distributed_steps : embedded_steps;
    for (; *step; step++) {
        enum err err = (*step)(server, error);
        if (err) {
            server_stop(server);
            return err;
        }
    }
    say_where(server);
    *ret_server = server;
    return ERR_OK;
}

/* --- while it runs ---------------------------------------------------------- */

uint16_t server_port(const struct server *server)
{
    assert(server);

    return server->resp ? resp_port(server->resp) : 0;
}

static void say_change(void *arg, const struct config_setting *setting, const char *before,
                       const char *after)
{
    unsigned *changes = arg;
    char from[128];
    char to[128];
    message_quote(from, sizeof(from), slice_of(before));
    message_quote(to, sizeof(to), slice_of(after));
    if (setting->reloads)
        message_info("setting changed name=%s from=%s to=%s", setting->name, from, to);
    else
        message_warning("setting needs a restart name=%s from=%s to=%s", setting->name, from, to);
    (*changes)++;
}

static void ignore_change(void *arg, const struct config_setting *setting, const char *before,
                          const char *after)
{
    (void)arg;
    (void)setting;
    (void)before;
    (void)after;
}

/* All of a reload that can fail; nothing has changed if it does. Moving comes last, since it cannot
 * be taken back. */
static enum err prepare_reload(struct server *server, const struct config *next,
                               uint32_t *ret_connections, struct error *error)
{
    struct config updated = server->config;
    enum err err = config_update(&updated, next, ignore_change, NULL, error);
    if (!err)
        err = reserve_files(server, &updated, ret_connections, error);
    if (!err && !server->distributed)
        err = embedded_move(server, &updated, error);
    explicit_bzero(&updated, sizeof(updated));
    return err;
}

static void apply_limits(struct server *server, uint32_t connections)
{
    gauge_set(&server->limits.connections_max, connections);
    gauge_set(&server->limits.memory_max, server->config.max_client_memory);
    if (server->resp) {
        struct resp_limits limits = limits_of(&server->config, connections);
        resp_set_password(server->resp, password_of(&server->config));
        resp_set_limits(server->resp, &limits);
    }
    if (server->http) {
        struct http_limits http_limits = http_limits_of(&server->config, connections);
        http_set_password(server->http, password_of(&server->config));
        http_set_limits(server->http, &http_limits);
    }
}

enum err server_reload(struct server *server, const struct config *next, struct error *error)
{
    assert(server);
    assert(next);

    uint32_t connections;
    enum err err = prepare_reload(server, next, &connections, error);
    if (err)
        return err;
    unsigned changes = 0;
    pthread_mutex_lock(&server->config_mutex);
    err = config_update(&server->config, next, say_change, &changes, error);
    pthread_mutex_unlock(&server->config_mutex);
    assert(!err); /* the same update of a copy did not fail */
    if (changes == 0)
        message_info("configuration read again: nothing changed");
    message_set_level((enum message_level)server->config.verbosity);
    apply_limits(server, connections);
    return ERR_OK;
}

void server_hand_over(struct server *server)
{
    assert(server);

    if (server->move)
        move_hand_over(server->move);
    else
        message_warning("told to hand over, but nothing is being moved: set move-to first");
}

bool server_moves(struct server *server)
{
    assert(server);

    unsigned long ticks = atomic_load_explicit(&server->ticks, memory_order_relaxed);
    bool moved = ticks != server->ticks_seen;
    server->ticks_seen = ticks;
    return moved;
}

/* --- stop ------------------------------------------------------------------- */

static void note_drained(void *arg, unsigned worker)
{
    (void)worker;
    struct server *server = arg;
    pthread_mutex_lock(&server->drain_mutex);
    server->drained++;
    pthread_cond_signal(&server->drain_moved);
    pthread_mutex_unlock(&server->drain_mutex);
}

/* Ops that wait for the log, or for a Redis that is down, would keep their clients from being
 * answered, and the doors from being closed: by then nobody carries anything into the log. */
static void hurry_hot(struct server *server)
{
    if (server->hot)
        hot_hurry(server->hot);
}

/* Answers what has come in and closes the clients. */
static void drain_clients(struct server *server)
{
    unsigned asked = 0;
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (!server->workers[i].runs)
            continue;
        if (server->resp)
            resp_drain(server->resp, i, note_drained, server);
        if (server->http)
            http_drain(server->http, i, note_drained, server);
        asked += (server->resp != NULL) + (server->http != NULL);
    }

    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += DRAIN_WITHIN_S;
    pthread_mutex_lock(&server->drain_mutex);
    int errnum = 0;
    while (server->drained < asked && errnum != ETIMEDOUT)
        errnum = pthread_cond_timedwait(&server->drain_moved, &server->drain_mutex, &until);
    if (server->drained < asked)
        message_warning("some clients do not take their answers: closing them seconds=%d",
                        DRAIN_WITHIN_S);
    pthread_mutex_unlock(&server->drain_mutex);
}

static void stop_workers(struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++)
        if (server->workers[i].runs)
            loop_stop(server->workers[i].loop);
    for (unsigned i = 0; i < server->worker_count; i++)
        if (server->workers[i].runs)
            (void)pthread_join(server->workers[i].thread, NULL);
}

/* Before the log and the doors go: it reads the one and wakes the others. */
static void stop_pipeline(struct server *server)
{
    if (!server->distributed) {
        embedded_stop(server);
        return;
    }
    if (server->pipeline)
        (void)pipeline_stop(server->pipeline, FLUSH_WITHIN_MS);
    distributed_stop(server);
}

static void stop_opening(struct server *server)
{
    if (server->distributed)
        distributed_drain(server);
}

static void stop_sampler(struct server *server)
{
    sampler_stop(server->sampler);
}

static void close_log(struct server *server)
{
    if (server->log)
        log_close(server->log);
}

static void close_doors(struct server *server)
{
    resp_free(server->resp); /* they may wait for the hot layer's last batches */
    http_free(server->http);
}

static void close_loops(struct server *server)
{
    timer_free(server->tick);
    for (unsigned i = 0; i < server->worker_count; i++)
        if (server->workers[i].loop)
            loop_free(server->workers[i].loop);
}

static void close_service(struct server *server)
{
    if (server->has_service)
        service_done(&server->service);
    samples_free(server->samples);
}

static void close_pipeline(struct server *server)
{
    pipeline_free(server->pipeline);
}

static void close_store(struct server *server)
{
    store_close(server->store);
}

static void close_hot(struct server *server)
{
    if (server->hot)
        hot_close(server->hot);
    if (server->distributed)
        distributed_close(server);
}

/* Also right for a server that started only in part. */
static void (*const stop_steps[])(struct server *server) = {
    stop_sampler,   stop_opening, hurry_hot,   drain_clients, stop_workers,
    stop_pipeline,  close_log,    close_doors, close_loops,   close_service,
    close_pipeline, close_store,  close_hot,
};

void server_stop(struct server *server)
{
    assert(server);

    for (size_t i = 0; i < sizeof(stop_steps) / sizeof(stop_steps[0]); i++)
        stop_steps[i](server);

    if (server->has_limits)
        client_limits_done(&server->limits);
    pthread_cond_destroy(&server->drain_moved);
    pthread_mutex_destroy(&server->drain_mutex);
    pthread_mutex_destroy(&server->config_mutex);
    explicit_bzero(&server->config, sizeof(server->config));
    free(server);
}
