#include "hot/redis/cluster.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"
#include "core/limits.h"
#include "hot/redis/layer.h"
#include "net/redis_url.h"
#include "net/timer.h"

#define NODES_MAX     256u /* servers that we are willing to know */
#define TICK_MS       20u
#define ASK_EVERY_NS  UINT64_C(200000000) /* for the map, when it is in doubt */
#define ASK_ANYWAY_NS UINT64_C(10000000000)
#define DOWN_NS       UINT64_C(1000000000) /* a server that was not there for so long */
#define NOBODY        UINT32_MAX

struct node {
    struct link *link; /* owned */
    bool is_seed;      /* of the URL: kept for ever */
    bool is_named;     /* by the map */
};

struct cluster {
    struct layer *layer; /* borrowed */
    struct link_setup setup;
    struct timer *timer;
    struct node nodes[NODES_MAX];
    uint32_t node_count;
    uint32_t of_cell[LIMIT_CELLS];           /* node, or NOBODY */
    const struct link *link_of[LIMIT_CELLS]; /* the same, as it was last; may be gone */
    _Atomic uint8_t primary_of[LIMIT_CELLS]; /* these are for any thread */
    _Atomic unsigned primaries;
    _Atomic uint64_t latencies_ns[LIMIT_CELLS]; /* by primary */
    _Atomic uint64_t changed_ns[LIMIT_CELLS];   /* cluster_changed_ns() */
    struct lock lock;                           /* of `status` */
    struct error status;                        /* what cluster_state() said last */
    bool is_shut;
    bool is_known;   /* whether it is a cluster: */
    bool is_cluster; /* else one server has everything */
    bool is_asked;   /* for the map, and it has not answered */
    bool in_doubt;
    bool was_warned; /* that the map is not told, since it was */
    uint64_t asked_ns;
    uint64_t began_ns;
    uint32_t turn; /* whom to ask next */
};

/* --- the map --- */

static uint32_t node_of(const struct cluster *cluster, const struct link *link)
{
    for (uint32_t i = 0; i < cluster->node_count; i++)
        if (cluster->nodes[i].link == link)
            return i;
    return NOBODY;
}

static uint32_t find_node(struct cluster *cluster, struct slice address)
{
    for (uint32_t i = 0; i < cluster->node_count; i++)
        if (slice_equal(slice_of(link_address(cluster->nodes[i].link)), address))
            return i;
    return NOBODY;
}

static uint32_t add_node(struct cluster *cluster, struct slice address, bool is_seed)
{
    uint32_t node = find_node(cluster, address);
    if (node != NOBODY || cluster->node_count == NODES_MAX || address.size >= LINK_ADDRESS_SIZE)
        return node;
    node = cluster->node_count++;
    cluster->nodes[node] =
        (struct node){.link = link_new(&cluster->setup, address), .is_seed = is_seed};
    return node;
}

static void note_changed(struct cluster *cluster, unsigned cell)
{
    atomic_store(&cluster->changed_ns[cell], env_monotonic_ns(cluster->layer->env));
}

static void note_moved(struct cluster *cluster)
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        uint32_t node = cluster->of_cell[cell];
        const struct link *link = node == NOBODY ? NULL : cluster->nodes[node].link;
        if (link != cluster->link_of[cell])
            note_changed(cluster, cell);
        cluster->link_of[cell] = link;
    }
}

/* Numbers the primaries in the order of the first cell of each. */
static void number_primaries(struct cluster *cluster)
{
    uint32_t nodes[LIMIT_CELLS];
    unsigned count = 0;
    note_moved(cluster);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        unsigned i = 0;
        while (i < count && nodes[i] != cluster->of_cell[cell])
            i++;
        if (i == count)
            nodes[count++] = cluster->of_cell[cell];
        atomic_store_explicit(&cluster->primary_of[cell], (uint8_t)i, memory_order_relaxed);
    }
    atomic_store_explicit(&cluster->primaries, count, memory_order_relaxed);
}

static void set_all(struct cluster *cluster, uint32_t node)
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        cluster->of_cell[cell] = node;
    number_primaries(cluster);
}

/* No cluster: the first of the servers that is a primary has everything. */
static void pick_single(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->node_count; i++)
        if (link_is_ready(cluster->nodes[i].link) && link_is_primary(cluster->nodes[i].link)) {
            if (cluster->of_cell[0] != i)
                set_all(cluster, i);
            return;
        }
}

/* Servers that neither the URL nor the map names are let go; not the one that is talking. */
static void drop_strangers(struct cluster *cluster, const struct link *by)
{
    for (uint32_t i = cluster->node_count; i-- > 0;) {
        struct node *node = &cluster->nodes[i];
        if (node->is_seed || node->is_named || node->link == by)
            continue;
        struct link *gone = node->link;
        uint32_t last = --cluster->node_count;
        *node = cluster->nodes[last];
        for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
            if (cluster->of_cell[cell] == i)
                cluster->of_cell[cell] = NOBODY;
            else if (cluster->of_cell[cell] == last)
                cluster->of_cell[cell] = i;
        calls_forget_link(cluster->layer->calls, gone);
        link_free(gone);
    }
}

/* "host:port" of a node in an answer to CLUSTER SLOTS; a host that it does not know is that of who
 * answers. */
static bool read_address(const struct redisReply *node, const struct link *by, char *to,
                         size_t size)
{
    if (node->type != REDIS_REPLY_ARRAY || node->elements < 2 ||
        node->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    const struct redisReply *host = node->element[0];
    bool is_known =
        host->type == REDIS_REPLY_STRING && host->len > 0 && strcmp(host->str, "?") != 0;
    const char *name = is_known ? host->str : link_address(by);
    int name_size = is_known ? (int)host->len : (int)(strrchr(name, ':') - name);
    bool needs_brackets = is_known && strchr(name, ':');
    int written = snprintf(to, size, needs_brackets ? "[%.*s]:%lld" : "%.*s:%lld", name_size, name,
                           node->element[1]->integer);
    return written > 0 && (size_t)written < size;
}

static void read_range(struct cluster *cluster, const struct redisReply *range,
                       const struct link *by, uint32_t of_cell[LIMIT_CELLS])
{
    char address[LINK_ADDRESS_SIZE];
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        range->element[0]->type != REDIS_REPLY_INTEGER ||
        range->element[1]->type != REDIS_REPLY_INTEGER ||
        !read_address(range->element[2], by, address, sizeof(address)))
        return;
    uint32_t node = add_node(cluster, slice_of(address), false);
    if (node == NOBODY)
        return;
    cluster->nodes[node].is_named = true;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (cluster->layer->tags.slots[cell] >= range->element[0]->integer &&
            cluster->layer->tags.slots[cell] <= range->element[1]->integer)
            of_cell[cell] = node;
}

/* Cells that the answer does not name stay where they were: the slots are on their way. */
static void read_map(struct cluster *cluster, const struct redisReply *map, const struct link *by)
{
    uint32_t of_cell[LIMIT_CELLS];
    memset(of_cell, 0xff, sizeof(of_cell));
    for (uint32_t i = 0; i < cluster->node_count; i++)
        cluster->nodes[i].is_named = false;
    for (size_t i = 0; i < map->elements; i++)
        read_range(cluster, map->element[i], by, of_cell);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (of_cell[cell] != NOBODY)
            cluster->of_cell[cell] = of_cell[cell];
        else if (cluster->of_cell[cell] != NOBODY)
            cluster->nodes[cluster->of_cell[cell]].is_named = true;
    drop_strangers(cluster, by);
    number_primaries(cluster);
}

static void got_map(void *arg, struct link *link, const struct redisReply *reply)
{
    struct cluster *cluster = arg;
    cluster->is_asked = false;
    if (!reply || cluster->is_shut)
        return;
    bool is_told = true;
    if (reply->type == REDIS_REPLY_ARRAY) {
        cluster->is_known = true;
        cluster->is_cluster = true;
        cluster->in_doubt = reply->elements == 0;
        read_map(cluster, reply, link);
    } else if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "cluster support disabled")) {
        cluster->is_known = true;
        cluster->is_cluster = false;
        cluster->in_doubt = false;
        pick_single(cluster);
    } else {
        is_told = false;
        if (!cluster->was_warned)
            message_warning("redis: no answer to CLUSTER SLOTS address=%s reason=\"%s\"",
                            link_address(link),
                            reply->type == REDIS_REPLY_ERROR ? reply->str : "of an odd type");
    }
    cluster->was_warned = !is_told;
    calls_go_on(cluster->layer->calls);
}

static void ask_for_map(struct cluster *cluster, uint64_t now_ns)
{
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        struct link *link = cluster->nodes[cluster->turn++ % cluster->node_count].link;
        if (!link_is_ready(link))
            continue;
        cluster->is_asked = true;
        cluster->asked_ns = now_ns;
        link_put(link, SLICE("*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"));
        link_expect(link, got_map, cluster);
        return;
    }
}

/* What other threads may know. */
static void publish(struct cluster *cluster)
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        uint32_t node = cluster->of_cell[cell];
        bool is_up = node != NOBODY && link_is_ready(cluster->nodes[node].link);
        uint64_t latency_ns = is_up ? link_latency_ns(cluster->nodes[node].link) : UINT64_MAX;
        atomic_store_explicit(&cluster->latencies_ns[cluster->primary_of[cell]], latency_ns,
                              memory_order_relaxed);
    }
    struct error status = {.code = ERR_OK, .text = ""};
    enum err before = cluster->status.code;
    cluster_state(cluster, &status);
    lock_take(&cluster->lock);
    cluster->status = status;
    lock_release(&cluster->lock);
    if (status.code != before && (status.code == ERR_INVALID || status.code == ERR_DENIED))
        message_error("%s", status.text);
}

static void tick(void *arg)
{
    struct cluster *cluster = arg;
    if (cluster->is_shut)
        return;
    for (uint32_t i = 0; i < cluster->node_count; i++)
        link_tick(cluster->nodes[i].link);
    uint64_t now_ns = env_monotonic_ns(cluster->layer->env);
    uint64_t since_ns = now_ns - cluster->asked_ns;
    bool is_due = cluster->in_doubt ? since_ns >= ASK_EVERY_NS
                                    : cluster->is_cluster && since_ns >= ASK_ANYWAY_NS;
    if (!cluster->is_asked && is_due)
        ask_for_map(cluster, now_ns);
    publish(cluster);
    cluster_flush(cluster);
}

static void link_changed(void *arg, struct link *link)
{
    struct cluster *cluster = arg;
    if (!link_is_ready(link)) {
        cluster->in_doubt |= node_of(cluster, link) != NOBODY;
        return;
    }
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (cluster->link_of[cell] == link)
            note_changed(cluster, cell); /* it may be another process, at the same address */
    if (cluster->is_known && !cluster->is_cluster)
        pick_single(cluster);
    if (!cluster->is_known)
        cluster->in_doubt = true;
    if (cluster->in_doubt)
        tick(cluster);
    calls_go_on(cluster->layer->calls);
}

void cluster_doubt(struct cluster *cluster)
{
    cluster->in_doubt = true;
}

/* --- the URL --- */

static void add_seed(struct cluster *cluster, const struct redis_url_server *server)
{
    char address[LINK_ADDRESS_SIZE];
    int size = snprintf(address, sizeof(address), strchr(server->host, ':') ? "[%s]:%u" : "%s:%u",
                        server->host, server->port);
    assert(size > 0 && (size_t)size < sizeof(address));
    add_node(cluster, slice_of(address), true);
}

static void take_url(struct cluster *cluster, const struct redis_url *url)
{
    snprintf(cluster->setup.user, sizeof(cluster->setup.user), "%s", url->user);
    snprintf(cluster->setup.password, sizeof(cluster->setup.password), "%s", url->password);
    snprintf(cluster->layer->prefix, sizeof(cluster->layer->prefix), "%s", url->prefix);
    for (unsigned i = 0; i < url->count; i++)
        add_seed(cluster, &url->servers[i]);
}

static enum err read_url(struct cluster *cluster, const char *text, struct error *error)
{
    static const char scheme[] = "redis://";
    if (strncmp(text, scheme, strlen(scheme)) != 0)
        return error_set(error, ERR_INVALID, "redis: the URL does not begin with %s", scheme);
    struct redis_url *url = memory_take(sizeof(*url)); /* too large for a stack */
    enum err err = redis_url_parse("redis: the URL", text + strlen(scheme), url, error);
    if (!err && url->settings.data)
        err = error_set(error, ERR_INVALID, "redis: the URL: nothing may follow the prefix");
    if (!err)
        take_url(cluster, url);
    free(url);
    return err;
}

/* --- life --- */

struct cluster *cluster_new(struct layer *layer, struct error *error)
{
    struct cluster *cluster = memory_take_zeroed(sizeof(*cluster));
    cluster->layer = layer;
    cluster->setup = (struct link_setup){.loop = layer->loop,
                                         .env = layer->env,
                                         .timeout_ns = layer->options.call_timeout_ms * 1000000,
                                         .changed = link_changed,
                                         .arg = cluster};
    cluster->in_doubt = true;
    cluster->began_ns = env_monotonic_ns(layer->env);
    lock_init(&cluster->lock);
    error_set(&cluster->status, ERR_UNAVAILABLE, "redis: not connected yet");
    set_all(cluster, NOBODY);
    if (read_url(cluster, layer->options.url, error) != ERR_OK) {
        cluster_free(cluster);
        return NULL;
    }
    cluster->timer = timer_new(layer->loop, tick, cluster);
    timer_start(cluster->timer, 0, TICK_MS);
    return cluster;
}

void cluster_shut(struct cluster *cluster)
{
    cluster->is_shut = true;
    timer_free(cluster->timer);
    cluster->timer = NULL;
    set_all(cluster, NOBODY);
    while (cluster->node_count > 0)
        link_free(cluster->nodes[--cluster->node_count].link);
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    if (!cluster->is_shut)
        cluster_shut(cluster);
    lock_done(&cluster->lock);
    free(cluster);
}

enum err cluster_state(const struct cluster *cluster, struct error *error)
{
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct error *trouble = link_trouble(cluster->nodes[i].link);
        if (!link_is_ready(cluster->nodes[i].link) &&
            (trouble->code == ERR_INVALID || trouble->code == ERR_DENIED))
            return error_set(error, trouble->code, "redis: %s", trouble->text);
    }
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        uint32_t node = cluster->of_cell[cell];
        const struct link *link = cluster->nodes[node == NOBODY ? 0 : node].link;
        if (node != NOBODY && link_is_ready(link))
            continue;
        if (!link_is_ready(link))
            return error_set(error, ERR_UNAVAILABLE, "redis: %s", link_trouble(link)->text);
        return error_set(error, ERR_UNAVAILABLE,
                         "redis: no server is a primary for slot %u (cell %u)",
                         cluster->layer->tags.slots[cell], cell);
    }
    return ERR_OK;
}

enum err cluster_status(struct cluster *cluster, struct error *error)
{
    lock_take(&cluster->lock);
    struct error status = cluster->status;
    lock_release(&cluster->lock);
    return status.code ? error_set(error, status.code, "%s", status.text) : ERR_OK;
}

/* --- finding --- */

struct link *cluster_link(struct cluster *cluster, unsigned cell)
{
    uint32_t node = cluster->of_cell[cell];
    if (node == NOBODY || !link_is_ready(cluster->nodes[node].link))
        return NULL;
    return cluster->nodes[node].link;
}

uint64_t cluster_down_ns(const struct cluster *cluster, unsigned cell)
{
    uint32_t node = cluster->of_cell[cell];
    if (node != NOBODY)
        return link_down_ns(cluster->nodes[node].link);
    return env_monotonic_ns(cluster->layer->env) - cluster->began_ns;
}

bool cluster_is_down(const struct cluster *cluster, unsigned cell)
{
    return cluster_down_ns(cluster, cell) >= DOWN_NS * cluster->layer->options.patience;
}

uint64_t cluster_changed_ns(struct cluster *cluster, unsigned cell)
{
    return atomic_load(&cluster->changed_ns[cell]);
}

static uint32_t node_at(struct cluster *cluster, const struct link *by, struct slice address)
{
    char whole[LINK_ADDRESS_SIZE];
    if (address.size > 0 && address.data[0] == ':') {
        const char *own = link_address(by);
        int size = snprintf(whole, sizeof(whole), "%.*s%.*s", (int)(strrchr(own, ':') - own), own,
                            SLICE_ARGS(address));
        if (size < 0 || (size_t)size >= sizeof(whole))
            return NOBODY;
        address = slice_of(whole);
    }
    return memchr(address.data, ':', address.size) ? add_node(cluster, address, false) : NOBODY;
}

struct link *cluster_link_at(struct cluster *cluster, const struct link *by, struct slice address)
{
    uint32_t node = node_at(cluster, by, address);
    if (node == NOBODY)
        return NULL;
    cluster->nodes[node].is_named = true; /* until the next map */
    return link_is_ready(cluster->nodes[node].link) ? cluster->nodes[node].link : NULL;
}

void cluster_moved(struct cluster *cluster, unsigned cell, const struct link *by,
                   struct slice address)
{
    uint32_t node = node_at(cluster, by, address);
    cluster->in_doubt = true;
    if (node == NOBODY)
        return;
    cluster->nodes[node].is_named = true;
    cluster->of_cell[cell] = node;
    number_primaries(cluster);
}

void cluster_flush(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->node_count; i++)
        link_flush(cluster->nodes[i].link);
}

/* --- what the layer tells of it --- */

unsigned layer_primaries(const struct layer *layer)
{
    return atomic_load_explicit(&layer->cluster->primaries, memory_order_relaxed);
}

unsigned layer_primary_of(const struct layer *layer, unsigned cell)
{
    return atomic_load_explicit(&layer->cluster->primary_of[cell], memory_order_relaxed);
}

uint64_t layer_latency_ns(const struct layer *layer, unsigned primary)
{
    return atomic_load_explicit(&layer->cluster->latencies_ns[primary], memory_order_relaxed);
}
