/* hot_model_redis_test.c - the Redis hot layer against a model of plain arrays. */
/* servers: redis */
/* servers: cluster */
/* threads */
#define RIG_REDIS
#include "contract/hot_model.h"

RUN(cmocka_unit_test(every_answer_is_what_the_model_says))
