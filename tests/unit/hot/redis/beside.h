/* beside.h - an op that runs beside the test, and what servers have answered meanwhile. */
#ifndef TESTS_UNIT_HOT_REDIS_BESIDE_H
#define TESTS_UNIT_HOT_REDIS_BESIDE_H

#include <pthread.h>

#include "unit/hot/redis/rig.h"

struct beside {
    pthread_t thread;
    struct hot *hot;
    struct op op;
};

static inline void *beside_run(void *arg)
{
    struct beside *beside = arg;
    beside->op = rig_run(beside->hot, beside->op);
    return NULL;
}

static inline void beside_start(struct beside *beside, struct hot *hot, struct op op)
{
    beside->hot = hot;
    beside->op = op;
    assert_int_equal(pthread_create(&beside->thread, NULL, beside_run, beside), 0);
}

static inline struct op beside_end(struct beside *beside)
{
    pthread_join(beside->thread, NULL);
    return beside->op;
}

/* How often a server has answered with an error that begins with this word. */
static inline unsigned long errors_met(redisContext *redis, const char *word)
{
    char field[64];
    snprintf(field, sizeof(field), "errorstat_%s:count=", word);
    redisReply *reply = redisCommand(redis, "INFO errorstats");
    assert_non_null(reply);
    const char *at = strstr(reply->str, field);
    unsigned long count = at ? strtoul(at + strlen(field), NULL, 10) : 0;
    freeReplyObject(reply);
    return count;
}

/* Waits until it has done so more often than `before`. */
static inline void wait_for_error(redisContext *redis, const char *word, unsigned long before)
{
    for (unsigned i = 0; i < 2000; i++) {
        if (errors_met(redis, word) > before)
            return;
        usleep(5000);
    }
    fail_msg("nobody was told %s", word);
}

#endif
