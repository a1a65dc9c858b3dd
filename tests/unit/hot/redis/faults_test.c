/* Two nodes write at once while replies get lost and connections break: nothing is lost or counted
 * twice, and the outbox has what the counts have. */
/* servers: redis+proxy */
/* threads */
#include "unit/hot/redis/rig.h"

#include <pthread.h>

#include "core/event.h"
#include "hot/redis/entry.h"
#include "unit/hot/redis/faults.h"

#define WRITERS 4u
#define ROUNDS  150u

static struct rig rig;

struct writer {
    pthread_t thread;
    struct hot *hot;
    unsigned number;
    int64_t surely;
    int64_t perhaps;
};

static void note_done(struct batch *batch)
{
    (void)batch;
}

/* A batch of what must not be done twice, and of likes that may be repeated at will. */
static void write_some(struct writer *writer, unsigned round)
{
    char user[24];
    char key[24];
    snprintf(user, sizeof(user), "u%u.%u", writer->number, round);
    snprintf(key, sizeof(key), "k%u.%u", writer->number, round);
    struct op ops[4] = {rig_add("sum", 1), rig_add("sum", 2), rig_like("item", user),
                        rig_add("keyed", 1)};
    ops[3].key = slice_of(key);
    struct batch batch = {.ops = ops,
                          .count = 4,
                          .worker = 1 + writer->number,
                          .now_ms = env_wall_ms(env_system()),
                          .done = note_done};
    hot_run(writer->hot, &batch);
    for (unsigned i = 0; i < 2; i++) {
        writer->surely += ops[i].code == ERR_OK ? ops[i].amount.small : 0;
        writer->perhaps += ops[i].code == ERR_TIMEOUT ? ops[i].amount.small : 0;
        assert_true(ops[i].code == ERR_OK || ops[i].code == ERR_TIMEOUT ||
                    ops[i].code == ERR_UNAVAILABLE);
    }
    for (unsigned i = 2; i < 4; i++) /* until it is there */
        for (unsigned tries = 0; ops[i].code != ERR_OK; tries++) {
            assert_true(tries < 500);
            usleep(20000);
            batch.ops = &ops[i];
            batch.count = 1;
            hot_run(writer->hot, &batch);
        }
}

static void *write_all(void *arg)
{
    struct writer *writer = arg;
    for (unsigned round = 0; round < ROUNDS; round++)
        write_some(writer, round);
    return NULL;
}

/* ---- what the outboxes have ---- */

struct sums {
    int64_t sum;
    int64_t likes;
    int64_t keyed;
    uint64_t last;
};

static void add_up(struct sums *sums, struct slice bytes)
{
    struct section_reader reader;
    struct event event;
    assert_int_equal(section_open(&reader, bytes, NULL), ERR_OK);
    while (section_next(&reader, &event, NULL) == ERR_OK) {
        assert_true(sums->last == 0 || event.sequence == sums->last + 1);
        sums->last = event.sequence;
        sums->likes += event.type == EVENT_REACT;
        if (event.type == EVENT_ADD && slice_equal(event.id, SLICE("sum")))
            sums->sum += event.amount.small;
        if (event.type == EVENT_ADD && slice_equal(event.id, SLICE("keyed")))
            sums->keyed += event.amount.small;
        event_done(&event);
    }
}

static void read_outbox(struct hot *hot, unsigned cell, struct sums *sums)
{
    struct buffer section;
    buffer_init(&section, 1 << 20);
    sums->last = 0;
    redisReply *reply = redisCommand(rig.redis, "XRANGE %s - +", rig_key(&rig, hot, cell, "out"));
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *fields = reply->element[i]->element[1];
        const char *id = reply->element[i]->element[0]->str;
        uint64_t epoch = strtoull(id, NULL, 10);
        section.size = 0;
        assert_int_equal(
            entry_section(cell, sequence_of(epoch, strtoull(fields->element[1]->str, NULL, 10)),
                          sequence_of(epoch, strtoull(strchr(id, '-') + 1, NULL, 10)), 1,
                          (struct slice){fields->element[5]->str, fields->element[5]->len},
                          fields->element[4]->str[0] == 'b', &section, NULL),
            ERR_OK);
        add_up(sums, buffer_slice(&section));
    }
    freeReplyObject(reply);
    buffer_done(&section);
}

static int64_t value_of(struct hot *hot, const char *id)
{
    struct op op = rig_run(hot, rig_get(id));
    assert_int_equal(op.code, ERR_OK);
    return op.value.small;
}

TEST(lost_replies_and_broken_connections_change_no_count)
{
    rig_open(&rig);
    redisFree(rig.redis);
    rig.redis = rig_connect(getenv("TALLY_TEST_REDIS_DIRECT"));
    rig.options.guests = 1 + WRITERS;
    struct hot *nodes[2] = {rig_node(&rig), rig_node(&rig)};
    rig_open_all(nodes[0]);

    make_faults("{\"lose\":\"EVALSHA\",\"lose_every\":9}");
    struct writer writers[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.hot = nodes[i % 2], .number = i};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    for (unsigned i = 0; i < 10; i++) {
        usleep(200000);
        make_faults("{\"keep\":true,\"reset_all\":true}");
    }
    int64_t surely = 0;
    int64_t perhaps = 0;
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        surely += writers[i].surely;
        perhaps += writers[i].perhaps;
    }
    make_faults("{}");
    usleep(500000);

    struct sums sums = {0};
    unsigned homes[] = {rig_home("sum"), rig_home("item"), rig_home("keyed")};
    uint64_t seen = 0;
    for (unsigned i = 0; i < 3; i++) {
        if (!(seen & rig_bit(homes[i])))
            read_outbox(nodes[0], homes[i], &sums);
        seen |= rig_bit(homes[i]);
    }
    int64_t sum = value_of(nodes[0], "sum");
    assert_true(sum >= surely && sum <= surely + perhaps);
    assert_int_equal(sums.sum, sum);
    assert_int_equal(value_of(nodes[1], "item/like"), WRITERS * ROUNDS);
    assert_int_equal(sums.likes, WRITERS * ROUNDS);
    assert_int_equal(value_of(nodes[1], "keyed"), WRITERS * ROUNDS);
    assert_int_equal(sums.keyed, WRITERS * ROUNDS);
    rig_close(&rig);
}

RUN(cmocka_unit_test(lost_replies_and_broken_connections_change_no_count))
