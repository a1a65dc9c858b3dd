/* redis.c - the layer's life, and its table. */
#include "hot/redis/redis.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "hot/redis/cluster.h"
#include "hot/redis/layer.h"
#include "hot/redis/open.h"
#include "hot/redis/run.h"
#include "net/timer.h"

#define CALL_TIMEOUT_MS 1500u
#define OPEN_WAIT_MS    2000u /* for servers, before it goes on without them */
#define OPEN_LOOK_MS    10u

static _Thread_local const struct layer *own_layer; /* of the thread that runs it */

bool layer_is_own_thread(const struct layer *layer)
{
    return own_layer == layer;
}

bool layer_post(struct layer *layer, layer_fn *run, void *arg)
{
    return mail_post(layer->mail, run, arg);
}

/* --- the table --- */

static enum err replay(struct hot *hot, const struct event *event, struct error *error)
{
    (void)hot, (void)event, (void)error;
    return ERR_OK; /* what is in the log is in Redis, too, or is loaded from the store */
}

static void tick(struct hot *hot, int64_t now_ms)
{
    runs_note_time(layer_of(hot)->runs, now_ms);
    drops_tick(layer_of(hot), now_ms);
}

static void start_to_hurry(void *arg)
{
    struct layer *layer = arg;
    runs_hurry(layer->runs);
}

static void hurry(struct hot *hot)
{
    (void)layer_post(layer_of(hot), start_to_hurry, layer_of(hot));
}

static void stop(void *arg)
{
    struct layer *layer = arg;
    calls_refuse(layer->calls);
    cluster_shut(layer->cluster);
    runs_shut(layer->runs);
    loop_stop(layer->loop);
}

static void free_layer(struct layer *layer)
{
    spreads_free(layer->spreads);
    drops_free(layer->drops);
    loads_free(layer->loads);
    opens_free(layer->opens);
    runs_free(layer->runs);
    cluster_free(layer->cluster);
    calls_free(layer->calls);
    loop_hook_free(layer->hook);
    mail_free(layer->mail);
    loop_free(layer->loop);
    free(layer);
}

static void close_layer(struct hot *hot)
{
    struct layer *layer = layer_of(hot);
    if (layer->runs_thread) {
        layer_post(layer, stop, layer);
        pthread_join(layer->thread, NULL);
    }
    mail_shut(layer->mail);
    own_layer = layer; /* of what is left, we are the thread now */
    mail_read(layer->mail);
    free_layer(layer);
    own_layer = NULL;
}

static const struct hot_ops redis_ops = {
    .name = "redis",
    .run = runs_run,
    .collect = runs_collect,
    .replay = replay,
    .scan = scans_scan,
    .peek = scans_peek,
    .items_of = scans_items_of,
    .recount = scans_recount,
    .tick = tick,
    .reshard = spreads_reshard,
    .begin = loads_begin,
    .tell = loads_tell,
    .told_all = loads_told_all,
    .wanted = loads_wanted,
    .loaded = loads_loaded,
    .saved = drops_saved,
    .drop = drops_id,
    .inspect = scans_inspect,
    .mend = scans_mend,
    .note = scans_note,
    .hottest = spreads_hottest,
    .stats = scans_stats,
    .hurry = hurry,
    .close = close_layer,
};

struct outbox *redis_hot_outbox(struct hot *hot)
{
    assert(hot->ops == &redis_ops);
    return &layer_of(hot)->outbox;
}

bool redis_hot_status(struct hot *hot, char *reason, size_t size)
{
    assert(hot->ops == &redis_ops);
    struct error error = {.text = ""};
    enum err err = cluster_status(layer_of(hot)->cluster, &error);
    snprintf(reason, size, "%s", error.text);
    return err == ERR_OK;
}

uint64_t redis_hot_doubtful(struct hot *hot)
{
    assert(hot->ops == &redis_ops);
    return opens_doubtful(layer_of(hot));
}

/* --- opening --- */

/* Redis has its next calls before workers are woken: they have time until those are answered. */
static void end_pass(void *arg)
{
    struct layer *layer = arg;
    if (layer->runs)
        runs_pass(layer->runs);
    cluster_flush(layer->cluster);
    if (layer->runs)
        runs_tell(layer->runs);
}

static void *run_thread(void *arg)
{
    struct layer *layer = arg;
    own_layer = layer;
    pthread_setname_np(pthread_self(), "hot-redis");
    loop_run(layer->loop);
    return NULL;
}

struct opening {
    struct layer *layer;
    uint64_t until_ns;
    enum err code;
    struct error error;
};

static void look_at_opening(void *arg)
{
    struct opening *opening = arg;
    opening->code = cluster_state(opening->layer->cluster, &opening->error);
    if (opening->code != ERR_UNAVAILABLE ||
        env_monotonic_ns(opening->layer->env) >= opening->until_ns)
        loop_stop(opening->layer->loop);
}

/* Runs the loop here until all servers are there, or until it makes no sense to wait. */
static enum err wait_for_servers(struct layer *layer, struct error *error)
{
    struct opening opening = {.layer = layer,
                              .until_ns =
                                  env_monotonic_ns(layer->env) + OPEN_WAIT_MS * UINT64_C(1000000)};
    struct timer *timer = timer_new(layer->loop, look_at_opening, &opening);
    timer_start(timer, OPEN_LOOK_MS, OPEN_LOOK_MS);
    own_layer = layer;
    loop_run(layer->loop);
    own_layer = NULL;
    timer_free(timer);
    if (opening.code == ERR_UNAVAILABLE) {
        message_warning("%s; it is tried again", opening.error.text);
        return ERR_OK;
    }
    return opening.code ? error_set(error, opening.code, "%s", opening.error.text) : ERR_OK;
}

static void name_node(struct layer *layer)
{
    uint64_t high = env_random(layer->env);
    uint64_t low = env_random(layer->env);
    snprintf(layer->node, sizeof(layer->node), "%016llx%016llx", (unsigned long long)high,
             (unsigned long long)low);
}

static enum err make_parts(struct layer *layer, struct error *error)
{
    layer->loop = loop_new(error);
    if (!layer->loop)
        return ERR_IO;
    layer->mail = mail_new(layer->loop, error);
    if (!layer->mail)
        return ERR_IO;
    layer->calls = calls_new(layer);
    layer->cluster = cluster_new(layer, error);
    if (!layer->cluster)
        return ERR_INVALID;
    layer->hook = loop_hook_new(layer->loop, end_pass, layer);
    enum err err = wait_for_servers(layer, error);
    if (err)
        return err;
    layer->runs = runs_new(layer);
    layer->opens = opens_new(layer);
    layer->loads = loads_new(layer);
    layer->drops = drops_new(layer);
    layer->spreads = spreads_new(layer);
    outbox_init(layer);
    return ERR_OK;
}

enum err redis_hot_open(struct env *env, const struct redis_hot_options *options,
                        struct hot **ret_hot, struct error *error)
{
    assert(env && options && options->url && options->kinds && ret_hot);

    struct layer *layer = memory_take_zeroed(sizeof(*layer));
    layer->base.ops = &redis_ops;
    layer->env = env;
    layer->options = *options;
    if (layer->options.call_timeout_ms == 0)
        layer->options.call_timeout_ms = CALL_TIMEOUT_MS;
    if (layer->options.patience == 0)
        layer->options.patience = 1;
    layer->options.call_timeout_ms *= layer->options.patience;
    slots_tags_make(&layer->tags);
    name_node(layer);
    enum err err = make_parts(layer, error);
    if (err) {
        if (layer->calls)
            calls_refuse(layer->calls);
        free_layer(layer);
        return err;
    }
    if (pthread_create(&layer->thread, NULL, run_thread, layer) != 0)
        abort();
    layer->runs_thread = true;
    *ret_hot = &layer->base;
    return ERR_OK;
}
