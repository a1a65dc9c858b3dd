/* distributed.c - many nodes: counts in Redis, a log and a store that all of them share.
 *
 * What the node needs may not answer when it starts. Its doors are open all the same, and say what
 * is waited for; a thread tries again and again, and then puts the rest together:
 *
 *   PostgreSQL   twice: for the pipeline, and for the relay, which asks how far the store is
 *   Redis        unless the node only aggregates
 *   pipeline     loader, aggregator, desk
 *   relay        and then the doors get the hot layer
 *
 * Only what will not get better by waiting ends the process: servers that are not set up as the
 * promises need it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/memory.h"
#include "base/message.h"
#include "hot/redis/redis.h"
#include "log/kafka/kafka.h"
#include "log/redis_stream/redis_stream.h"
#include "server/process.h"
#include "server/server_own.h"
#include "store/postgres/postgres.h"

#define AGAIN_MS        1000u /* the next try */
#define FREE_LOOK_MS    100u  /* clients wait for the store that a machine hands over */
#define RELAY_WITHIN_MS 3000u
#define WHY_BYTES       200u
#define WAIT_MS         2000u
#define WAIT_LOOK_MS    10u
#define FIRST_LOOKS     50u
#define SHARE_MS        30000u

/* Something that is waited for. */
struct wait {
    const char *name;
    bool is_there;
    char why[WHY_BYTES]; /* not, when it was last tried */
};

struct distributed {
    struct late_hot late;
    struct hot *redis;   /* owned; NULL: not there, or not wanted */
    struct store *marks; /* owned: for the relay */
    struct relay *relay; /* owned */
    uint64_t started_ns; /* when the relay was */

    pthread_t thread; /* that opens all this */
    bool runs;
    atomic_bool stop;
    struct bell bell;

    pthread_mutex_t mutex; /* guards what follows */
    struct wait store;
    struct wait hot;
};

static bool serves(const struct server *server)
{
    return server->config.role != CONFIG_AGGREGATE;
}

static bool aggregates(const struct server *server)
{
    return server->config.role != CONFIG_SERVE;
}

/* --- the log --- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static enum err open_log(struct server *server, struct error *error)
{
    const char *url = server->config.log.text;
    if (begins(url, "kafka://")) {
        struct kafka_log_options options = {
            .url = url,
            .follows = aggregates(server),
            .pending_bytes_max = server->config.log_pending_max,
            .answer_ms = server->config.ack_timeout,
        };
        return kafka_log_open(server->env, &options, &server->log, error);
    }
    struct redis_stream_log_options options = {
        .url = url,
        .follows = aggregates(server),
        .pending_bytes_max = server->config.log_pending_max,
        .answer_ms = server->config.ack_timeout,
    };
    return redis_stream_log_open(server->env, &options, &server->log, error);
}

/* --- what is waited for --- */

static void note(struct distributed *own, struct wait *wait, enum err err,
                 const struct error *error)
{
    pthread_mutex_lock(&own->mutex);
    bool is_first = wait->why[0] == '\0';
    wait->is_there = !err;
    (void)snprintf(wait->why, sizeof(wait->why), "%.199s", err ? error->text : "");
    pthread_mutex_unlock(&own->mutex);
    if (err && is_first)
        message_warning("waiting for the %s: clients are told to come later reason=\"%s\"",
                        wait->name, error->text);
}

/* It connects by itself, which takes a moment. */
static bool is_hot_up(struct distributed *own, char *why, size_t size)
{
    bool is_up = redis_hot_status(own->redis, why, size);
    for (unsigned i = 0; i < FIRST_LOOKS && !is_up && !atomic_load(&own->stop); i++) {
        (void)bell_wait(&own->bell, WAIT_LOOK_MS);
        is_up = redis_hot_status(own->redis, why, size);
    }
    return is_up;
}

/* They are opened also while nobody answers. */
static void tell_of(struct server *server, const struct wait *wait)
{
    char why[WHY_BYTES] = "";
    struct store_stats stats = {0};
    bool is_up;
    if (wait == &server->distributed->hot) {
        is_up = is_hot_up(server->distributed, why, sizeof(why));
    } else {
        store_stats(server->store, &stats);
        is_up = stats.down_since_ms == 0;
    }
    if (is_up)
        message_info("connected to the %s", wait->name);
    else
        message_warning("waiting for the %s: clients are told to come later reason=\"%s\"",
                        wait->name, why[0] ? why : "it does not answer");
}

/* Servers that are not set up as they must be: nothing was answered yet. */
static void leave(const struct wait *wait, const struct error *error)
{
    message_error("cannot go on with this %s: %s", wait->name, error->text);
    _exit(PROCESS_FAILED);
}

static enum err open_one_store(struct server *server, struct store **ret, struct error *error)
{
    struct postgres_store_options options = {
        .url = server->config.store.text,
        .members = server->config.members == 0 ? POSTGRES_ROWS : POSTGRES_SETS,
        .names = true,
        .may_wait = true,
    };
    return *ret ? ERR_OK : postgres_store_open(server->env, &options, ret, error);
}

static enum err open_stores(struct server *server, struct error *error)
{
    enum err err = open_one_store(server, &server->store, error);
    if (!err && serves(server))
        err = open_one_store(server, &server->distributed->marks, error);
    if (err)
        return err;
    /* While nobody answers nodes go on with what is in Redis. No cell is opened on a machine's
     * store either way: it gives no epochs then. */
    return postgres_store_is_free(server->store, error) == ERR_BUSY ? ERR_BUSY : ERR_OK;
}

static enum err open_redis(struct server *server, struct error *error)
{
    const struct config *config = &server->config;
    struct redis_hot_options options = {
        .url = config->hot.text,
        .kinds = &server->kinds,
        .workers = server->worker_count,
        .guests = PIPELINE_GUESTS,
        .keys_kept_ms = config->keys_kept,
        .idle_s = (uint32_t)(config->expire_idle / 1000),
        .spread_rate = config->spread_rate,
        .retention_ms = config->retention,
        .totals_ttl_ms = config->totals_ttl,
        .outbox_max = config->outbox_max,
        .serves = true,
    };
    return redis_hot_open(server->env, &options, &server->distributed->redis, error);
}

/* One try. False: it is to be tried again. */
static bool try_one(struct server *server, struct wait *wait, server_step_fn *step)
{
    if (wait->is_there)
        return true;
    struct error error = {.text = ""};
    enum err err = step(server, &error);
    note(server->distributed, wait, err, &error);
    if (err == ERR_INVALID)
        leave(wait, &error);
    if (!err)
        tell_of(server, wait);
    return !err;
}

/* --- together --- */

static void note_mark(void *arg, const struct state_mark *mark)
{
    struct distributed *own = arg;
    hot_saved(own->redis, mark->sequences);
    late_hot_note(&own->late, mark);
}

static enum err start_relay(struct server *server, struct error *error)
{
    struct distributed *own = server->distributed;
    struct relay_options options = {
        .env = server->env,
        .outbox = redis_hot_outbox(own->redis),
        .log = server->log,
        .store = own->marks,
        .ack_timeout_ms = server->config.ack_timeout,
        .progress = server_wake_doors,
        .progress_arg = server,
        .mark = note_mark,
        .mark_arg = own,
    };
    own->relay = relay_new(&options);
    enum err err = relay_start(own->relay, error);
    if (!err)
        server->service.relay = own->relay;
    own->started_ns = env_monotonic_ns(server->env);
    return err;
}

/* One node does what one node should do: the one that has leased the first cell. */
static bool leads(void *arg)
{
    struct distributed *own = ((struct server *)arg)->distributed;
    struct relay_stats stats = {0};
    if (atomic_load(&own->late.real)) /* the relay was there before */
        relay_stats(own->relay, &stats);
    return stats.leased & 1;
}

static enum err start_pipeline(struct server *server, struct error *error)
{
    struct pipeline_options options = server_pipeline_options(server);
    options.hot = server->distributed->redis;
    options.idles = !aggregates(server);
    options.audits = leads;
    options.audits_arg = server;
    if (!serves(server))
        options.audit_every_ms = 0; /* it cannot look into Redis */
    server->pipeline = pipeline_new(&options);
    pipeline_open(server->pipeline);
    return pipeline_start(server->pipeline, &server->service, error);
}

static enum err start_rest(struct server *server, struct error *error)
{
    struct distributed *own = server->distributed;
    enum err err = start_pipeline(server, error);
    if (err || !serves(server))
        return err;
    err = start_relay(server, error);
    if (!err)
        late_hot_set(&own->late, own->redis);
    return err;
}

static bool is_all_there(struct server *server)
{
    struct distributed *own = server->distributed;
    bool has_store = try_one(server, &own->store, open_stores);
    bool has_hot = !serves(server) || try_one(server, &own->hot, open_redis);
    return has_store && has_hot;
}

static void *open_rest(void *arg)
{
    struct server *server = arg;
    struct distributed *own = server->distributed;
    while (!is_all_there(server)) {
        bool is_taken = server->store && !own->store.is_there; /* by a machine */
        (void)bell_wait(&own->bell, is_taken ? FREE_LOOK_MS : AGAIN_MS);
        if (atomic_load(&own->stop))
            return NULL;
    }
    struct error error = {.text = ""};
    if (start_rest(server, &error)) {
        message_error("cannot go on: %s", error.text);
        _exit(PROCESS_FAILED);
    }
    return NULL;
}

/* --- readiness --- */

/* Of something that is not in use yet: it may be there already, but nothing goes through it. */
static void say_wait(struct distributed *own, const struct wait *wait, service_say_fn *say,
                     void *to)
{
    struct wait copy;
    pthread_mutex_lock(&own->mutex);
    copy = *wait;
    pthread_mutex_unlock(&own->mutex);
    const char *why = copy.why[0] ? copy.why : "not tried yet";
    say(to, copy.name, false, true, copy.is_there ? "it is there, and being taken into use" : why);
}

static void say_hot(struct distributed *own, service_say_fn *say, void *to)
{
    if (!atomic_load(&own->late.real)) {
        say_wait(own, &own->hot, say, to);
        return;
    }
    char why[256];
    uint64_t now_ns = env_monotonic_ns(env_system());
    if (!redis_hot_status(own->redis, why, sizeof(why))) {
        say(to, "hot", false, true, why);
        return;
    }
    struct relay_stats stats;
    relay_stats(own->relay, &stats);
    /* Until then those that it will relay may be those of a node that is gone, and nobody's. Of
     * very many nodes some have none. */
    if (stats.leased == 0 && now_ns < own->started_ns + SHARE_MS * UINT64_C(1000000)) {
        say(to, "hot", false, true, "it waits for its share of the cells");
        return;
    }
    uint64_t closed = stats.opening | redis_hot_doubtful(own->redis);
    unsigned opening = (unsigned)__builtin_popcountll(closed);
    (void)snprintf(why, sizeof(why), "%u of %u cells are being opened: %s", opening, LIMIT_CELLS,
                   stats.reason[0] ? stats.reason : "under way");
    say(to, "hot", opening == 0, true, why);
}

static void say_log(struct server *server, service_say_fn *say, void *to)
{
    struct log_stats stats;
    log_stats(server->log, &stats);
    char why[128];
    (void)snprintf(why, sizeof(why), "it has not answered for %lld s",
                   (long long)(env_wall_ms(server->env) - (int64_t)stats.down_since_ms) / 1000);
    say(to, "log", stats.down_since_ms == 0, !serves(server), why);
}

static void say_store(struct server *server, service_say_fn *say, void *to)
{
    struct distributed *own = server->distributed;
    if (!server->service.pipeline) {
        say_wait(own, &own->store, say, to);
        return;
    }
    struct pipeline_stats stats;
    pipeline_read(&server->service, &stats);
    say(to, "store", !stats.paused, !serves(server), stats.reason);
    if (stats.lanes_stuck > 0)
        say(to, "lanes", false, !serves(server), stats.stuck_reason);
}

static void say_ready(void *arg, service_say_fn *say, void *to)
{
    struct server *server = arg;
    if (serves(server))
        say_hot(server->distributed, say, to);
    say_log(server, say, to);
    say_store(server, say, to);
}

/* --- life --- */

enum err distributed_open(struct server *server, struct error *error)
{
    struct distributed *own = memory_take_zeroed(sizeof(*own));
    server->distributed = own;
    own->store.name = "store";
    own->hot.name = "hot";
    pthread_mutex_init(&own->mutex, NULL);
    bell_init(&own->bell);
    late_hot_init(&own->late);
    server->hot = &own->late.base;
    return open_log(server, error);
}

enum err distributed_start(struct server *server, struct error *error)
{
    struct distributed *own = server->distributed;
    server->service.ready = say_ready;
    server->service.ready_arg = server;
    enum err err = log_start(server->log, error);
    if (err)
        return err;
    int errnum = pthread_create(&own->thread, NULL, open_rest, server);
    if (errnum != 0)
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the opener");
    own->runs = true;
    (void)pthread_setname_np(own->thread, "opener");
    return ERR_OK;
}

struct readiness {
    bool is_ready;
};

static void note_ready(void *arg, const char *name, bool is_well, bool is_needed, const char *why)
{
    (void)name;
    (void)why;
    struct readiness *readiness = arg;
    readiness->is_ready = readiness->is_ready && (is_well || !is_needed);
}

enum err distributed_wait(struct server *server, struct error *error)
{
    (void)error;
    for (unsigned i = 0; i < WAIT_MS / WAIT_LOOK_MS; i++) {
        struct readiness readiness = {.is_ready = true};
        say_ready(server, note_ready, &readiness);
        if (readiness.is_ready)
            break;
        (void)bell_wait(&server->distributed->bell, WAIT_LOOK_MS);
    }
    return ERR_OK;
}

void distributed_drain(struct server *server)
{
    struct distributed *own = server->distributed;
    if (!own->runs)
        return;
    atomic_store(&own->stop, true);
    bell_ring(&own->bell);
    (void)pthread_join(own->thread, NULL);
    own->runs = false;
}

/* The relay carries over what the last answers left, and gives its cells to others. */
void distributed_stop(struct server *server)
{
    if (server->distributed->relay)
        relay_stop(server->distributed->relay, RELAY_WITHIN_MS);
}

void distributed_close(struct server *server)
{
    struct distributed *own = server->distributed;
    relay_free(own->relay);
    if (own->redis)
        hot_close(own->redis);
    store_close(own->marks);
    bell_done(&own->bell);
    pthread_mutex_destroy(&own->mutex);
    free(own);
}
