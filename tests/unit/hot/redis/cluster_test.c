/* Redirections of a real cluster: every cell is found, and found again when its slot has moved. */
/* servers: cluster */
/* threads */
#include "unit/hot/redis/beside.h"
#include "unit/hot/redis/rig.h"

static struct rig rig;
static struct hot *hot;

static int begin(void **state)
{
    (void)state;
    const char *url = getenv("TALLY_TEST_CLUSTER");
    if (!url) {
        puts("1..0 # SKIP TALLY_TEST_CLUSTER is not set: run by tests/servers/with cluster");
        exit(getenv("CI") ? 1 : 77);
    }
    rig_open_at(&rig, url);
    hot = rig_node(&rig);
    rig_open_all(hot);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* ---- a slot moves ---- */

struct place {
    redisContext *redis;
    char host[64];
    int port;
    char id[64];
};

static void ask(redisContext *redis, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(redis, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    freeReplyObject(reply);
}

/* The primaries, the owner of the slot first. */
static unsigned find_primaries(unsigned slot, struct place places[16])
{
    redisReply *map = redisCommand(rig.redis, "CLUSTER SLOTS");
    unsigned count = 0;
    unsigned owner = 0;
    for (size_t i = 0; i < map->elements; i++) {
        const redisReply *range = map->element[i];
        const redisReply *node = range->element[2];
        struct place *place = &places[count];
        snprintf(place->host, sizeof(place->host), "%s", node->element[0]->str);
        snprintf(place->id, sizeof(place->id), "%s", node->element[2]->str);
        place->port = (int)node->element[1]->integer;
        unsigned at = 0;
        while (strcmp(places[at].id, place->id) != 0)
            at++;
        if (slot >= range->element[0]->integer && slot <= range->element[1]->integer)
            owner = at;
        if (at == count) {
            place->redis = redisConnect(place->host, place->port);
            count++;
        }
    }
    freeReplyObject(map);
    struct place first = places[owner];
    places[owner] = places[0];
    places[0] = first;
    return count;
}

static void move_keys(const struct place *from, const struct place *to, unsigned slot)
{
    for (;;) {
        redisReply *keys = redisCommand(from->redis, "CLUSTER GETKEYSINSLOT %u 100", slot);
        size_t count = keys->elements;
        for (size_t i = 0; i < count; i++)
            ask(from->redis, "MIGRATE %s %d %s 0 5000", to->host, to->port, keys->element[i]->str);
        freeReplyObject(keys);
        if (count == 0)
            return;
    }
}

static void begin_move(const struct place *from, const struct place *to, unsigned slot)
{
    ask(to->redis, "CLUSTER SETSLOT %u IMPORTING %s", slot, from->id);
    ask(from->redis, "CLUSTER SETSLOT %u MIGRATING %s", slot, to->id);
}

static void end_move(struct place *places, unsigned count, unsigned slot)
{
    ask(places[1].redis, "CLUSTER SETSLOT %u NODE %s", slot, places[1].id);
    for (unsigned i = 0; i < count; i++)
        if (i != 1)
            ask(places[i].redis, "CLUSTER SETSLOT %u NODE %s", slot, places[1].id);
}

/* What the relay does: the log has what is in the outbox, then the cell is opened, all kept. */
static void reopen(unsigned cell)
{
    struct outbox *outbox = rig_outbox(hot);
    struct error error = {.text = ""};
    uint64_t epoch = 0;
    uint64_t sequences[LIMIT_CELLS] = {0};
    uint64_t told;
    uint64_t stale;
    enum err err = outbox->ops->begin(outbox, cell, 0, &epoch, &sequences[cell], &error);
    if (!err)
        err = outbox->ops->relayed(outbox, rig_bit(cell), sequences, NULL, &told, &stale, &error);
    if (!err)
        err = outbox->ops->open(outbox, cell, epoch, 0, true, 0, &error);
    if (err)
        fail_msg("%s", error.text);
}

/* ---- tests ---- */

TEST(every_cell_is_found_where_it_is)
{
    uint64_t cells = 0;
    for (unsigned i = 0; i < 500; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%u", i);
        struct op op = rig_run(hot, rig_add(id, (int64_t)i));
        assert_int_equal(op.code, ERR_OK);
        assert_int_equal(rig_run(hot, rig_get(id)).value.small, i);
        cells |= rig_bit(op.cell);
    }
    assert_true(cells == UINT64_MAX);
    assert_int_equal(layer_primaries(layer_of(hot)), 3);
    for (unsigned primary = 0; primary < 3; primary++)
        assert_true(layer_latency_ns(layer_of(hot), primary) > 0);
}

static struct op run_until_it_works(struct op op)
{
    struct op done = rig_run(hot, op);
    for (int i = 0; done.code == ERR_UNAVAILABLE && i < 100; i++) {
        usleep(20000);
        done = rig_run(hot, op);
    }
    return done;
}

TEST(a_cell_whose_slot_moves_is_found_again_with_all_it_has)
{
    for (int i = 1; i <= 50; i++)
        rig_run(hot, rig_add("mover", 1));
    for (int i = 0; i < 50; i++) {
        char user[8];
        snprintf(user, sizeof(user), "u%d", i);
        rig_run(hot, rig_like("mover item", user));
    }
    unsigned cell = rig_home("mover");
    unsigned slot = layer_of(hot)->tags.slots[cell];
    struct place places[16] = {0};
    unsigned count = find_primaries(slot, places);
    assert_int_equal(count, 3);

    begin_move(&places[0], &places[1], slot);
    struct op op = rig_run(hot, rig_add("mover", 1)); /* its keys are still there */
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 51);
    move_keys(&places[0], &places[1], slot); /* now it is sent on by ASK */
    op = rig_run(hot, rig_add("mover", 1));
    assert_int_equal(op.code, ERR_UNAVAILABLE); /* another server: the cell has to be opened */
    end_move(places, count, slot);
    reopen(cell);
    op = run_until_it_works(rig_add("mover", 1));
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 52);
    for (unsigned i = 0; i < count; i++)
        redisFree(places[i].redis);
}

TEST(a_primary_that_fails_over_is_left_for_its_replica)
{
    assert_int_equal(rig_run(hot, rig_add("failing", 7)).code, ERR_OK);
    unsigned cell = rig_home("failing");
    struct place places[16] = {0};
    unsigned count = find_primaries(layer_of(hot)->tags.slots[cell], places);
    redisReply *map = redisCommand(places[0].redis, "CLUSTER REPLICAS %s", places[0].id);
    char address[64];
    int port;
    assert_int_equal(sscanf(map->element[0]->str, "%*s %63[^:]:%d", address, &port), 2);
    freeReplyObject(map);
    redisContext *replica = redisConnect(address, port);
    struct op op;
    for (int i = 0; i < 3000; i++) { /* until it is noticed: another server, so it is closed */
        if (i % 700 == 0) /* Redis gives up one that is not granted within five seconds */
            freeReplyObject(redisCommand(replica, "CLUSTER FAILOVER"));
        op = rig_run(hot, rig_add("failing", 0));
        if (op.code)
            break;
        usleep(10000);
    }
    assert_int_equal(op.code, ERR_UNAVAILABLE);
    struct outbox *outbox = rig_outbox(hot);
    for (int i = 0; i < 300 && !(outbox->ops->closed(outbox) & rig_bit(cell)); i++)
        usleep(10000);
    reopen(cell);
    op = run_until_it_works(rig_add("failing", 1));
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 8);
    redisFree(replica);
    for (unsigned i = 0; i < count; i++)
        redisFree(places[i].redis);
}

/* ---- errors that pass, or last ---- */

/* A counter with 7 in it, and the servers, its own first. */
static unsigned count_to_7(const char *id, struct place places[16])
{
    assert_int_equal(rig_run(hot, rig_add(id, 7)).code, ERR_OK);
    return find_primaries(layer_of(hot)->tags.slots[rig_home(id)], places);
}

static void let_go(struct place *places, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        redisFree(places[i].redis);
}

static void assert_next_is(const char *id, int64_t value)
{
    struct op op = run_until_it_works(rig_add(id, 1));
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, value);
}

static void move_key(const struct place *from, const struct place *to, const char *key)
{
    ask(from->redis, "MIGRATE %s %d %s 0 5000", to->host, to->port, key);
}

/* Another id of the same cell. */
static const char *neighbour_of(const char *id)
{
    static char other[32];
    unsigned i = 0;
    do
        snprintf(other, sizeof(other), "neighbour%u", i++);
    while (rig_home(other) != rig_home(id));
    return other;
}

/* TRYAGAIN: some of a call's keys are here, and others may be where the slot goes. */
TEST(a_cell_whose_keys_are_in_two_places_is_waited_for)
{
    struct place places[16] = {0};
    unsigned count = count_to_7("torn", places);
    unsigned slot = layer_of(hot)->tags.slots[rig_home("torn")];
    begin_move(&places[0], &places[1], slot);
    unsigned long before = errors_met(places[0].redis, "TRYAGAIN");
    struct beside passing;
    beside_start(&passing, hot, rig_add(neighbour_of("torn"), 1)); /* has no key yet */
    wait_for_error(places[0].redis, "TRYAGAIN", before);
    ask(places[0].redis, "CLUSTER SETSLOT %u STABLE", slot);
    struct op op = beside_end(&passing);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 1);

    const char *key = rig_key(&rig, hot, rig_home("torn"), "r:torn");
    ask(places[0].redis, "CLUSTER SETSLOT %u MIGRATING %s", slot, places[1].id);
    move_key(&places[0], &places[1], key);
    assert_int_equal(rig_run(hot, rig_add("torn", 1)).code, ERR_UNAVAILABLE);
    ask(places[0].redis, "CLUSTER SETSLOT %u STABLE", slot);
    move_key(&places[1], &places[0], key);
    ask(places[1].redis, "CLUSTER SETSLOT %u STABLE", slot);
    assert_next_is("torn", 8);
    assert_next_is(neighbour_of("torn"), 2);
    let_go(places, count);
}

/* CLUSTERDOWN: nobody serves the slot. */
TEST(a_slot_that_nobody_serves_is_waited_for)
{
    struct place places[16] = {0};
    unsigned count = count_to_7("unserved", places);
    unsigned slot = layer_of(hot)->tags.slots[rig_home("unserved")];
    unsigned long before = errors_met(places[0].redis, "CLUSTERDOWN");
    ask(places[0].redis, "CLUSTER DELSLOTS %u", slot);
    struct beside passing;
    beside_start(&passing, hot, rig_add("unserved", 1));
    wait_for_error(places[0].redis, "CLUSTERDOWN", before);
    ask(places[0].redis, "CLUSTER ADDSLOTS %u", slot);
    struct op op = beside_end(&passing);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 8);

    ask(places[0].redis, "CLUSTER DELSLOTS %u", slot);
    assert_int_equal(rig_run(hot, rig_add("unserved", 1)).code, ERR_UNAVAILABLE);
    ask(places[0].redis, "CLUSTER ADDSLOTS %u", slot);
    assert_next_is("unserved", 9);
    let_go(places, count);
}

static unsigned long redirected(struct place *places)
{
    return errors_met(places[0].redis, "MOVED") + errors_met(places[1].redis, "MOVED");
}

static void drop_keys(const struct place *at, unsigned slot)
{
    redisReply *keys = redisCommand(at->redis, "CLUSTER GETKEYSINSLOT %u 1000", slot);
    for (size_t i = 0; i < keys->elements; i++)
        ask(at->redis, "DEL %s", keys->element[i]->str);
    freeReplyObject(keys);
}

TEST(servers_that_send_us_to_each_other_are_not_followed_for_ever)
{
    struct place places[16] = {0};
    unsigned count = count_to_7("to and fro", places);
    unsigned cell = rig_home("to and fro");
    unsigned slot = layer_of(hot)->tags.slots[cell];
    drop_keys(&places[0], slot);
    ask(places[1].redis, "CLUSTER SETSLOT %u NODE %s", slot, places[0].id);
    ask(places[0].redis, "CLUSTER SETSLOT %u NODE %s", slot, places[1].id);
    unsigned long before = redirected(places);
    struct beside lost;
    beside_start(&lost, hot, rig_add("to and fro", 1));
    for (unsigned i = 0; i < 100; i++) { /* the other cells do not notice */
        char id[16];
        snprintf(id, sizeof(id), "c%u", i);
        if (rig_home(id) != cell)
            assert_int_equal(run_until_it_works(rig_add(id, 1)).code, ERR_OK);
    }
    assert_int_equal(beside_end(&lost).code, ERR_UNAVAILABLE);
    unsigned long after = redirected(places);
    assert_true(after >= before + 10 && after <= before + 1000);

    ask(places[0].redis, "CLUSTER SETSLOT %u NODE %s", slot, places[0].id);
    rig_open_cell(hot, cell, false);
    assert_int_equal(run_until_it_works(rig_add("to and fro", 1)).code, ERR_OK);
    let_go(places, count);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin, end)

RUN(PROMISE(every_cell_is_found_where_it_is),
    PROMISE(a_cell_whose_slot_moves_is_found_again_with_all_it_has),
    PROMISE(a_cell_whose_keys_are_in_two_places_is_waited_for),
    PROMISE(a_slot_that_nobody_serves_is_waited_for),
    PROMISE(servers_that_send_us_to_each_other_are_not_followed_for_ever),
    PROMISE(a_primary_that_fails_over_is_left_for_its_replica))
