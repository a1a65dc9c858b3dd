/* rig.h - layers on a real Redis for tests, with a store that says what the test wants.
 *
 * Each rig has a prefix of its own, so that tests do not meet. Several layers on one rig are
 * several nodes. */
#ifndef TESTS_UNIT_HOT_REDIS_RIG_H
#define TESTS_UNIT_HOT_REDIS_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/env.h"
#include "base/hash.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/outbox.h"
#include "core/sequence.h"
#include "hot/redis/layer.h"
#include "hot/redis/redis.h"
#include "unit/test.h"

#define RIG_NODES 3u
#define LIKE      1u
#define DISLIKE   2u

struct rig {
    char url[256];
    char prefix[32];
    struct kinds kinds;
    struct redis_hot_options options;
    struct hot *nodes[RIG_NODES];
    redisContext *redis;
};

/* "redis://127.0.0.1:6379": asks that server. */
static inline redisContext *rig_connect(const char *url)
{
    char host[64];
    int port;
    assert_int_equal(sscanf(url, "redis://%63[^:]:%d", host, &port), 2);
    redisContext *redis = redisConnect(host, port);
    assert_true(redis && !redis->err);
    return redis;
}

/* `url`: of the server, without a prefix. */
static inline void rig_open_at(struct rig *rig, const char *url)
{
    *rig = (struct rig){.redis = rig_connect(url)};
    assert_int_equal(kinds_parse(&rig->kinds, SLICE("like,dislike"), NULL), ERR_OK);
    snprintf(rig->prefix, sizeof(rig->prefix), "t%llx",
             (unsigned long long)(env_random(env_system()) >> 20));
    snprintf(rig->url, sizeof(rig->url), "%s/%s", url, rig->prefix);
    rig->options = (struct redis_hot_options){.url = rig->url,
                                              .kinds = &rig->kinds,
                                              .workers = 1,
                                              .guests = 1,
                                              .keys_kept_ms = 60000,
                                              .retention_ms = 600000,
                                              .totals_ttl_ms = 1000,
                                              .outbox_max = 10000,
                                              .serves = true};
}

static inline void rig_open(struct rig *rig)
{
    const char *url = getenv("TALLY_TEST_REDIS");
    url = url ? url : getenv("TALLY_TEST_CLUSTER");
    if (!url) {
        puts("1..0 # SKIP TALLY_TEST_REDIS is not set: run by tests/servers/with redis");
        exit(getenv("CI") ? 1 : 77);
    }
    rig_open_at(rig, url);
}

/* One more node. */
static inline struct hot *rig_node(struct rig *rig)
{
    unsigned i = 0;
    while (rig->nodes[i])
        i++;
    assert_true(i < RIG_NODES);
    struct error error = {.text = ""};
    if (redis_hot_open(env_system(), &rig->options, &rig->nodes[i], &error))
        fail_msg("%s", error.text);
    return rig->nodes[i];
}

static inline void rig_close(struct rig *rig)
{
    for (unsigned i = 0; i < RIG_NODES; i++)
        hot_close(rig->nodes[i]);
    redisFree(rig->redis);
}

/* The name of a key of a cell. */
static inline const char *rig_key(struct rig *rig, struct hot *hot, unsigned cell, const char *name)
{
    static char keys[8][320];
    static unsigned next;
    char *key = keys[next++ % 8];
    snprintf(key, sizeof(keys[0]), "%s:%s:%s", rig->prefix, layer_of(hot)->tags.tags[cell], name);
    return key;
}

static inline unsigned rig_home(const char *id)
{
    return layer_home(hash_stable(slice_of(id)));
}

/* The answer of whoever has the key: in a cluster that may be another server. */
static inline redisReply *rig_ask(struct rig *rig, int count, const char **words)
{
    redisReply *reply = redisCommandArgv(rig->redis, count, words, NULL);
    char host[64];
    int port;
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ERROR ||
        sscanf(reply->str, "MOVED %*d %63[^:]:%d", host, &port) != 2)
        return reply;
    freeReplyObject(reply);
    redisFree(rig->redis);
    rig->redis = redisConnect(host, port);
    return redisCommandArgv(rig->redis, count, words, NULL);
}

/* A command that answers with a text or a number, as text; "" when it is nothing. */
static inline const char *rig_text(struct rig *rig, int count, const char **words)
{
    static char texts[8][512];
    static unsigned next;
    char *text = texts[next++ % 8];
    redisReply *reply = rig_ask(rig, count, words);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text, sizeof(texts[0]), "%lld", reply->integer);
    else
        snprintf(text, sizeof(texts[0]), "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    return text;
}
#define RIG_DO(rig, ...)                                                               \
    rig_text(rig, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)), \
             (const char *[]){__VA_ARGS__})

static inline uint64_t rig_bit(unsigned cell)
{
    return UINT64_C(1) << cell;
}

static inline struct outbox *rig_outbox(struct hot *hot)
{
    return redis_hot_outbox(hot);
}

/* Opens a cell that nobody else opens; its data is thrown away unless `keep`. */
static inline uint64_t rig_open_cell(struct hot *hot, unsigned cell, bool keep)
{
    struct outbox *outbox = rig_outbox(hot);
    struct error error = {.text = ""};
    uint64_t epoch = 0;
    uint64_t last;
    if (outbox->ops->begin(outbox, cell, 0, &epoch, &last, &error) ||
        outbox->ops->open(outbox, cell, epoch, 0, keep, 0, &error))
        fail_msg("%s", error.text);
    return epoch;
}

/* The store has everything, and what will be written in the epochs that the cells are in now. */
static inline void rig_save_all(struct rig *rig, struct hot *hot)
{
    uint64_t sequences[LIMIT_CELLS];
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        sequences[i] = sequence_of(
            strtoull(RIG_DO(rig, "HGET", rig_key(rig, hot, i, "cell"), "epoch"), NULL, 10), 1000);
    hot_saved(hot, sequences);
}

static inline void rig_open_all(struct hot *hot)
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        rig_open_cell(hot, cell, false);
}

/* ---- ops: a guest's, so that they are done when run() returns ---- */

static inline void rig_done(struct batch *batch)
{
    *(bool *)batch->arg = true;
}

static inline struct op rig_run(struct hot *hot, struct op op)
{
    bool is_done = false;
    struct batch batch = {.ops = &op,
                          .count = 1,
                          .worker = 1,
                          .now_ms = env_wall_ms(env_system()),
                          .done = rig_done,
                          .arg = &is_done};
    op.code = ERR_OK;
    hot_run(hot, &batch);
    assert_true(is_done);
    return op;
}

static inline struct op rig_add(const char *id, int64_t amount)
{
    return (struct op){.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
}

static inline struct op rig_get(const char *id)
{
    return (struct op){.kind = OP_GET, .id = slice_of(id)};
}

static inline struct op rig_like(const char *id, const char *user)
{
    return (struct op){
        .kind = OP_REACT, .id = slice_of(id), .user = slice_of(user), .reaction = LIKE};
}

/* The want that comes next, within a second or two. */
static inline void rig_wanted(struct hot *hot, struct hot_want *ret)
{
    for (unsigned i = 0; i < 200; i++) {
        if (hot_wanted(hot, ret))
            return;
        usleep(10000);
    }
    fail_msg("nothing is wanted");
}

static inline void rig_answer(struct hot *hot, const struct hot_want *want,
                              const struct state_target *target)
{
    hot_loaded(hot, want,
               &(struct hot_found){.code = target ? ERR_OK : ERR_NOT_FOUND, .target = target});
}

static inline void rig_begin(struct hot *hot)
{
    struct state_mark mark = {.next_user = 1};
    hot_begin(hot, &mark);
}

/* Runs the op, and says that the store has none of what it lacks. */
static inline struct op rig_run_new(struct hot *hot, struct op op)
{
    struct op done = rig_run(hot, op);
    for (unsigned i = 0; done.code == ERR_COLD && i < 100; i++) {
        struct hot_want want;
        while (hot_wanted(hot, &want))
            rig_answer(hot, &want, NULL);
        done = rig_run(hot, op);
        if (done.code == ERR_COLD)
            usleep(10000);
    }
    return done;
}

#endif
