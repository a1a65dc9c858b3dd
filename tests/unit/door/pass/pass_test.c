/* pass_test.c - a door of texts over a hot layer whose ids are cold until the test
 * says that they are there, and a desk whose jobs run when the test says so. */
#include "door/pass/pass.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "door/pass/channels.h"
#include "door/pass/client_limits.h"
#include "flow/relay.h"
#include "unit/test.h"

/* ---- the outside ---- */

struct fake_env {
    struct env base;
    uint64_t now_ns;
};

static uint64_t fake_ns(struct env *env)
{
    return ((struct fake_env *)env)->now_ns;
}

static int64_t fake_ms(struct env *env)
{
    return (int64_t)(((struct fake_env *)env)->now_ns / 1000000);
}

static uint64_t fake_random(struct env *env)
{
    (void)env;
    return 4;
}

struct fake_log {
    struct log base;
    uint64_t reached;
};

static uint64_t fake_reached(struct log *log, unsigned lane, enum log_level level)
{
    (void)lane;
    (void)level;
    return ((struct fake_log *)log)->reached;
}

/* Ids that begin with '?' are cold until they are there: all of them, or by their
 * second letter; reads of those that begin with '~' are stale. Every op counts one; the value says
 * which it was. */
struct fake_hot {
    struct hot base;
    bool there[256];
    bool late; /* a batch is done when the test says so */
    struct batch *out[PASS_ERRANDS];
    size_t out_count;
    size_t decided_count; /* so many of those can be collected, from the oldest on */
    bool youngest_first;  /* or from the youngest on */
    unsigned deaf;        /* so often nothing can be collected */
    unsigned batches;
    unsigned decided;
    uint64_t ticket;
};

static void decide(struct fake_hot *hot, struct op *op)
{
    if (op->id.data[0] == '?' && !hot->there[(unsigned char)op->id.data[1]]) {
        op->code = ERR_COLD;
        return;
    }
    op->code = op->id.data[0] == '!' ? ERR_NOT_FOUND : ERR_OK;
    op->stale = op->id.data[0] == '~' && !op_is_write(op->kind);
    op->value = number_of(++hot->decided);
    op->ticket = op_is_write(op->kind) ? ++hot->ticket : 0;
    if (op->counts)
        op->counts[0] = (int64_t)hot->decided;
}

static void finish(struct fake_hot *hot, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        decide(hot, &batch->ops[i]);
    batch->done(batch);
}

static void fake_run(struct hot *base, struct batch *batch)
{
    struct fake_hot *hot = (struct fake_hot *)base;
    hot->batches++;
    if (hot->late)
        hot->out[hot->out_count++] = batch;
    else
        finish(hot, batch);
}

static void fake_collect(struct hot *base, unsigned worker)
{
    struct fake_hot *hot = (struct fake_hot *)base;
    assert_int_equal(worker, 0);
    if (hot->deaf > 0) {
        hot->deaf--;
        return;
    }
    for (; hot->decided_count > 0; hot->decided_count--) {
        size_t which = hot->youngest_first ? hot->out_count - 1 : 0;
        struct batch *batch = hot->out[which];
        hot->out_count--;
        memmove(&hot->out[which], &hot->out[which + 1],
                (hot->out_count - which) * sizeof(hot->out[0]));
        finish(hot, batch);
    }
}

/* ---- a desk ---- */

static struct desk_job *waiting_job;
static bool desk_is_full;

bool desk_submit(struct desk *desk, struct desk_job *job)
{
    (void)desk;
    if (desk_is_full)
        return false;
    waiting_job = job;
    return true;
}

bool desk_withdraw(struct desk *desk, struct desk_job *job)
{
    (void)desk;
    bool is_there = waiting_job == job;
    if (is_there)
        waiting_job = NULL;
    return is_there;
}

static void run_waiting_job(void)
{
    struct desk_job *job = waiting_job;
    waiting_job = NULL;
    job->run(job, NULL);
    job->done(job);
}

/* ---- a relay ---- */

static uint64_t relay_reached;
static uint64_t weak_first; /* tickets from here to there were let go without the log */
static uint64_t weak_last;
static uint64_t stuck_ticket; /* waits although later ones go */
static uint64_t stuck_rounds;

uint64_t relay_safe(const struct relay *relay)
{
    (void)relay;
    return relay_reached;
}

bool relay_any_weak(struct relay *relay, uint64_t first, uint64_t last)
{
    (void)relay;
    return first <= weak_last && last >= weak_first && weak_last > 0;
}

bool relay_any_stuck(struct relay *relay, uint64_t first, uint64_t last)
{
    (void)relay;
    return first <= stuck_ticket && last >= stuck_ticket && stuck_ticket > 0;
}

uint64_t relay_rounds(const struct relay *relay)
{
    (void)relay;
    return stuck_rounds;
}

void relay_tickets(struct relay *relay, struct op *ops, size_t count)
{
    (void)relay;
    (void)ops;
    (void)count; /* the hot layer has given them */
}

/* ---- a door ---- */

struct client {
    struct pass_client base;
    char text[16384]; /* all answers */
    size_t released;  /* as of the last flush */
    unsigned resumed;
    unsigned flushed;
    bool is_lost;
};

struct rig {
    struct fake_env env;
    struct fake_log log;
    struct fake_hot hot;
    struct kinds kinds;
    struct service service;
    struct loop *loop;
    struct pass pass;
    struct client a, b, c;
    bool crowd; /* clients are bare, and have no output */
};

static const struct rig *rig_of(const struct pass_client *client)
{
    return (const struct rig *)((const char *)client->pass - offsetof(struct rig, pass));
}

static void held(struct pass_client *client)
{
    (void)client;
}

static void resume(struct pass_client *client)
{
    const struct rig *rig = rig_of(client);
    if (!rig->crowd)
        ((struct client *)client)->resumed++;
}

static void settle(struct pass_client *base, uint64_t safe)
{
    const struct rig *rig = rig_of(base);
    if (!rig->crowd)
        pass_settle(base, strlen(((struct client *)base)->text), safe);
}

static void flush(struct pass_client *base)
{
    const struct rig *rig = rig_of(base);
    if (rig->crowd)
        return;
    ((struct client *)base)->released = base->released;
    ((struct client *)base)->flushed++;
}

/* Small letters become large ones. */
static void weaken(struct pass_client *base, uint64_t from, uint64_t to)
{
    char *text = ((struct client *)base)->text;
    for (uint64_t i = from; i < to; i++)
        text[i] = (char)(text[i] >= 'a' ? text[i] - 'a' + 'A' : text[i]);
}

static void lose(struct pass_client *base)
{
    ((struct client *)base)->is_lost = true;
}

static const struct pass_door door = {.held = held,
                                      .resume = resume,
                                      .settle = settle,
                                      .flush = flush,
                                      .weaken = weaken,
                                      .lose = lose};

static struct rig *rig_new(void)
{
    static const struct log_ops log_ops = {.name = "fake", .reached = fake_reached};
    static const struct hot_ops hot_ops = {
        .name = "fake", .run = fake_run, .collect = fake_collect};
    struct rig *rig = memory_take_zeroed(sizeof(*rig));
    rig->env.base =
        (struct env){.monotonic_ns = fake_ns, .wall_ms = fake_ms, .random = fake_random};
    rig->env.now_ns = 1;
    rig->log.base.ops = &log_ops;
    rig->log.reached = UINT64_MAX;
    rig->hot.base.ops = &hot_ops;
    assert_int_equal(kinds_parse(&rig->kinds, SLICE("like,dislike"), NULL), ERR_OK);
    service_init(&rig->service, &rig->env.base, &rig->hot.base, &rig->log.base, &rig->kinds,
                 ACK_DURABLE);
    rig->service.desk = (struct desk *)rig; /* there is one */
    rig->loop = loop_new(NULL);
    assert_non_null(rig->loop);
    pass_init(&rig->pass, &rig->service, 0, &door);
    assert_int_equal(pass_start(&rig->pass, rig->loop, NULL), ERR_OK);
    rig->a.base.pass = rig->b.base.pass = rig->c.base.pass = &rig->pass;
    return rig;
}

static void rig_free(struct rig *rig)
{
    pass_stop(&rig->pass);
    assert_false(pass_names(&rig->a.base));
    assert_false(pass_names(&rig->b.base));
    assert_false(pass_names(&rig->c.base));
    pass_done(&rig->pass);
    loop_free(rig->loop);
    service_done(&rig->service);
    free(rig);
}

/* ---- asking ---- */

static void say(struct client *client, const char *text)
{
    size_t size = strlen(client->text);
    snprintf(client->text + size, sizeof(client->text) - size, "%s", text);
}

/* The ids of the ops, with '!' behind those that failed. */
static void answer_ids(void *to, const struct pass_request *request, struct op *ops)
{
    struct client *client = to;
    for (uint32_t i = 0; i < request->count; i++) {
        char id[64];
        memcpy(id, ops[i].id.data, ops[i].id.size);
        id[ops[i].id.size] = '\0';
        say(client, id);
        say(client, ops[i].code == ERR_OK ? " " : "! ");
    }
    if (request->extra)
        say(client, request->extra);
}

/* The id lies in the room, as if it had been read there. */
static struct slice in_room(struct rig *rig, const char *text)
{
    size_t size = strlen(text);
    char *copy = room_alloc(&rig->pass.gathered.room, size + 1);
    memcpy(copy, text, size + 1);
    return (struct slice){copy, size};
}

static void ask(struct rig *rig, struct client *client, const char *id)
{
    pass_op(&rig->pass, OP_ADD, in_room(rig, id));
    pass_request(&rig->pass, client, 1, answer_ids, NULL);
}

static void ask_two(struct rig *rig, struct client *client, const char *id, const char *other)
{
    pass_op(&rig->pass, OP_ADD, in_room(rig, id));
    pass_op(&rig->pass, OP_ADD, in_room(rig, other));
    pass_request(&rig->pass, client, 2, answer_ids, NULL);
}

/* All that is cold and begins with the letter is there from now on. */
static void arrive(struct rig *rig, char letter)
{
    rig->hot.there[(unsigned char)letter] = true;
    atomic_fetch_add(&rig->hot.base.arrivals, 1);
}

/* Writes over everything that passes have used. */
static void spoil_room(struct rig *rig)
{
    size_t size;
    char *space = room_look(&rig->pass.gathered.room, ROOM_BLOCK_BYTES, &size);
    memset(space, 'x', size);
}

/* ---- tests: cold ---- */

TEST(a_cold_request_waits_and_others_are_answered)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "a1");
    ask(rig, &rig->b, "?b");
    ask(rig, &rig->c, "c1");
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    assert_string_equal(rig->b.text, "");
    assert_string_equal(rig->c.text, "c1 ");
    assert_int_equal(rig->a.base.held, 0);
    assert_int_equal(rig->b.base.held, PASS_HOLD_PARKED);
    assert_int_equal(rig->a.released, 3);

    ask(rig, &rig->a, "a2"); /* life goes on */
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 a2 ");

    arrive(rig, 'b');
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "?b ");
    assert_int_equal(rig->b.base.held, 0);
    assert_int_equal(rig->b.released, 3);
    pass_end(&rig->pass);
    assert_int_equal(rig->b.resumed, 1);
    rig_free(rig);
}

TEST(later_requests_of_the_same_client_wait_behind)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "a1");
    ask(rig, &rig->a, "?x");
    ask(rig, &rig->a, "a2");
    ask(rig, &rig->b, "b1");
    ask(rig, &rig->a, "?y");
    ask(rig, &rig->a, "a3");
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    assert_string_equal(rig->b.text, "b1 ");

    arrive(rig, 'y'); /* the second of the two comes first */
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ?x a2 ?y a3 ");
    assert_int_equal(rig->a.base.unanswered, 0);
    rig_free(rig);
}

TEST(clients_of_one_pass_do_not_wait_for_one_another)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    ask(rig, &rig->b, "?y");
    pass_end(&rig->pass);
    arrive(rig, 'y');
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");
    assert_string_equal(rig->b.text, "?y ");
    rig_free(rig);
}

TEST(an_op_that_was_decided_is_not_run_again)
{
    struct rig *rig = rig_new();
    ask_two(rig, &rig->a, "a1", "?x");
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.decided, 1);
    arrive(rig, 'z'); /* something else */
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.decided, 2);
    assert_string_equal(rig->a.text, "a1 ?x ");
    rig_free(rig);
}

TEST(nothing_is_run_again_unless_something_has_arrived)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    unsigned batches = rig->hot.batches;
    for (int i = 0; i < 10; i++)
        pass_end(&rig->pass);
    assert_int_equal(rig->hot.batches, batches);
    rig_free(rig);
}

TEST(an_answer_of_a_parked_request_waits_for_the_log)
{
    struct rig *rig = rig_new();
    rig->log.reached = 0;
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x ");
    assert_int_equal(rig->a.released, 0);
    rig->log.reached = rig->hot.ticket;
    pass_end(&rig->pass);
    assert_int_equal(rig->a.released, 3);
    rig_free(rig);
}

TEST(what_a_parked_op_points_to_stays)
{
    struct rig *rig = rig_new();
    struct op *op = pass_op(&rig->pass, OP_REACT, in_room(rig, "?item"));
    op->user = in_room(rig, "ann");
    op->key = in_room(rig, "key1");
    op->region = in_room(rig, "eu");
    op->counts = room_alloc(&rig->pass.gathered.room, 2 * sizeof(*op->counts));
    pass_request(&rig->pass, &rig->a, 1, answer_ids, NULL);
    pass_end(&rig->pass);
    spoil_room(rig);
    arrive(rig, 'i');
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?item ");
    rig_free(rig);
}

TEST(what_extra_points_to_in_the_room_stays)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_request(&rig->pass, &rig->a, 0, answer_ids, (void *)in_room(rig, "an error ").data);
    pass_end(&rig->pass);
    ask(rig, &rig->b, "?y"); /* another pass, another room */
    pass_request(&rig->pass, &rig->b, 0, answer_ids, (void *)in_room(rig, "another ").data);
    pass_end(&rig->pass);
    spoil_room(rig);
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x an error ");
    spoil_room(rig);
    arrive(rig, 'y');
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "?y another ");
    rig_free(rig);
}

/* A batch that is full is run in the middle of a pass, and what follows lies in the
 * same room. */
TEST(a_pass_may_park_twice)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_request(&rig->pass, &rig->a, 0, answer_ids, (void *)in_room(rig, "one ").data);
    assert_true(pass_run(&rig->pass));
    ask(rig, &rig->b, "?y");
    pass_request(&rig->pass, &rig->b, 0, answer_ids, (void *)in_room(rig, "two ").data);
    pass_end(&rig->pass);
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x one ");
    spoil_room(rig);
    arrive(rig, 'y');
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "?y two ");
    rig_free(rig);
}

/* A door may answer an error to a client whose requests are parked already. */
TEST(what_comes_later_of_a_parked_client_is_answered_later)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    pass_request(&rig->pass, &rig->a, 0, answer_ids, (void *)in_room(rig, "too large ").data);
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x too large ");
    rig_free(rig);
}

TEST(what_stays_cold_is_refused_after_ten_seconds)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    ask(rig, &rig->a, "a1");
    pass_end(&rig->pass);
    rig->env.now_ns += UINT64_C(9900000000);
    pass_tick(&rig->pass);
    assert_string_equal(rig->a.text, "");
    rig->env.now_ns += UINT64_C(200000000);
    pass_tick(&rig->pass);
    assert_string_equal(rig->a.text, "?x! a1 ");
    assert_int_equal(rig->a.base.held, 0);

    arrive(rig, 'x'); /* it was refused: it does not happen any more */
    unsigned decided = rig->hot.decided;
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.decided, decided);
    rig_free(rig);
}

/* More than one batch can carry, of one client each, in passes of all sizes. */
static void count_answer(void *to, const struct pass_request *request, struct op *ops)
{
    (void)request;
    ((struct pass_client *)to)->ticket += ops->code == ERR_OK;
}

TEST(many_may_be_parked)
{
    enum { MANY = 10000 };
    struct rig *rig = rig_new();
    rig->crowd = true;
    struct pass_client *crowd = memory_take_zeroed(MANY * sizeof(*crowd));
    for (int i = 0; i < MANY; i++) {
        char id[] = {'?', (char)('a' + i % 16), '\0'};
        crowd[i].pass = &rig->pass;
        pass_op(&rig->pass, OP_GET, in_room(rig, id));
        pass_request(&rig->pass, &crowd[i], 1, count_answer, NULL);
        if (i % 7 == 0 || i > MANY / 2)
            assert_true(pass_run(&rig->pass));
    }
    pass_run(&rig->pass);
    assert_int_equal(gauge_read(&rig->pass.stats.waits), MANY);
    for (char letter = 'a'; letter < 'a' + 16; letter++)
        arrive(rig, letter);
    for (int i = 0; i < 5; i++) { /* a batch at a time */
        assert_true(rig->pass.parked || i >= 3);
        pass_end(&rig->pass);
    }
    assert_null(rig->pass.parked);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(crowd[i].unanswered, 0);
        assert_int_equal(crowd[i].held, 0);
        assert_int_equal(crowd[i].ticket, 1);
    }
    rig_free(rig);
    free(crowd);
}

TEST(a_batch_of_cold_ops_may_be_done_later)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    arrive(rig, 'x');
    rig->hot.late = true;
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 1);
    pass_end(&rig->pass);
    pass_tick(&rig->pass);
    assert_string_equal(rig->a.text, "");
    assert_int_equal(rig->hot.out_count, 1);

    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x ");
    rig_free(rig);
}

TEST(a_batch_that_is_done_later_is_collected)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    ask(rig, &rig->a, "a1");
    ask(rig, &rig->b, "b1");
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 1);
    spoil_room(rig); /* what ops point to stays until it is done */
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");

    rig->hot.decided_count = 1;
    pass_finished(&rig->pass);
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    assert_string_equal(rig->b.text, "b1 ");
    assert_int_equal(rig->a.released, 3);
    rig_free(rig);
}

TEST(others_are_gathered_for_while_a_batch_is_out)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    ask(rig, &rig->a, "a1");
    pass_end(&rig->pass);
    ask(rig, &rig->b, "b1");
    spoil_room(rig);
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 2);

    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    assert_string_equal(rig->b.text, "");
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "b1 ");
    rig_free(rig);
}

TEST(a_batch_is_answered_when_it_is_done_whichever_went_out_first)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    ask(rig, &rig->a, "a1");
    pass_end(&rig->pass);
    ask(rig, &rig->b, "b1");
    pass_end(&rig->pass);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 1);
    assert_string_equal(rig->a.text, "");
    assert_string_equal(rig->b.text, "b1 ");
    assert_int_equal(rig->b.released, 3);

    rig->hot.late = false;
    ask(rig, &rig->c, "c1"); /* is done at once */
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");
    assert_string_equal(rig->c.text, "c1 ");
    assert_int_equal(rig->c.released, 3);
    rig->hot.late = true;
    ask(rig, &rig->b, "b2"); /* takes the free place */
    pass_end(&rig->pass);
    assert_int_equal(rig->pass.errand_count, 2);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "b1 b2 ");
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    assert_int_equal(rig->pass.errand_count, 0);
    rig_free(rig);
}

/* What a client waits for, with three batches out, does not depend on the others. */
TEST(a_client_is_named_until_its_own_batch_is_done)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    struct client *clients[] = {&rig->a, &rig->b, &rig->c};
    for (size_t i = 0; i < 3; i++) {
        ask(rig, clients[i], "?x");
        ask(rig, clients[i], "y");
        pass_end(&rig->pass);
        assert_true(pass_must_wait(&clients[i]->base));
    }
    arrive(rig, 'x');
    for (size_t i = 3; i-- > 0;) {
        assert_true(pass_names(&clients[i]->base));
        assert_int_equal(clients[i]->base.held, PASS_HOLD_BATCH);
        rig->hot.decided_count = 1;
        pass_end(&rig->pass);
        assert_string_equal(clients[i]->text, "?x y ");
        assert_false(pass_names(&clients[i]->base));
        assert_int_equal(clients[i]->base.held, 0);
        assert_int_equal(clients[i]->resumed, 1);
    }
    rig_free(rig);
}

TEST(what_was_cold_and_comes_back_late_keeps_the_order_of_its_client)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    arrive(rig, 'x');
    pass_end(&rig->pass); /* is run again */
    pass_request(&rig->pass, &rig->a, 0, answer_ids, (void *)in_room(rig, "too large ").data);
    ask(rig, &rig->b, "b1");
    pass_end(&rig->pass);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");
    assert_string_equal(rig->b.text, "b1 ");
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x too large ");
    rig_free(rig);
}

/* How often the loop goes round within a while: once more for who wakes it. */
struct rounds {
    struct loop *loop;
    struct loop_hook *hook;
    struct timer *timer;
    unsigned count;
};

static void count_round(void *arg)
{
    ((struct rounds *)arg)->count++;
}

static void stop_rounds(void *arg)
{
    loop_stop(((struct rounds *)arg)->loop);
}

static unsigned rounds_run(struct rounds *rounds)
{
    rounds->count = 0;
    timer_start(rounds->timer, 20, 0);
    loop_run(rounds->loop);
    return rounds->count;
}

/* Says how often it is if nobody does. */
static unsigned rounds_init(struct rounds *rounds, struct loop *loop)
{
    rounds->loop = loop;
    rounds->hook = loop_hook_new(loop, count_round, rounds);
    rounds->timer = timer_new(loop, stop_rounds, rounds);
    (void)rounds_run(rounds); /* with what was there before */
    return rounds_run(rounds);
}

static void rounds_done(struct rounds *rounds)
{
    timer_free(rounds->timer);
    loop_hook_free(rounds->hook);
}

TEST(who_collects_for_itself_wakes_nobody)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    ask(rig, &rig->a, "a1");
    pass_end(&rig->pass);
    struct rounds rounds;
    unsigned quiet = rounds_init(&rounds, rig->loop);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    assert_int_equal(rounds_run(&rounds), quiet);
    pass_finished(&rig->pass);
    assert_int_equal(rounds_run(&rounds), quiet + 1);
    rounds_done(&rounds);
    rig_free(rig);
}

/* The other door of the same worker. */
static void ignore_client(struct pass_client *client)
{
    (void)client;
}

static void settle_text(struct pass_client *base, uint64_t safe)
{
    pass_settle(base, strlen(((struct client *)base)->text), safe);
}

static void flush_text(struct pass_client *base)
{
    ((struct client *)base)->released = base->released;
}

TEST(two_doors_of_a_worker_collect_for_each_other)
{
    static const struct pass_door other_door = {
        .held = ignore_client,
        .resume = ignore_client,
        .settle = settle_text,
        .flush = flush_text,
    };
    struct rig *rig = rig_new();
    struct pass *other = memory_take_zeroed(sizeof(*other));
    pass_init(other, &rig->service, 0, &other_door);
    assert_int_equal(pass_start(other, rig->loop, NULL), ERR_OK);
    rig->b.base.pass = other;

    rig->hot.late = true;
    rig->hot.youngest_first = true;
    ask(rig, &rig->a, "a1");
    pass_end(&rig->pass);
    pass_op(other, OP_ADD, SLICE("b1"));
    pass_request(other, &rig->b, 1, answer_ids, NULL);
    pass_end(other);
    ask(rig, &rig->c, "c1");
    pass_end(&rig->pass);

    struct rounds rounds;
    unsigned quiet = rounds_init(&rounds, rig->loop);
    rig->hot.decided_count = 2; /* c1 and b1 */
    pass_end(&rig->pass);
    assert_string_equal(rig->c.text, "c1 ");
    assert_int_equal(rig->c.released, 3);
    assert_string_equal(rig->b.text, "b1 ");
    assert_int_equal(rig->b.released, 0);
    assert_int_equal(rounds_run(&rounds), quiet + 1); /* the other one is woken */
    rounds_done(&rounds);
    pass_end(other);
    assert_int_equal(rig->b.released, 3);
    assert_string_equal(rig->a.text, "");

    pass_op(other, OP_ADD, SLICE("b2"));
    pass_request(other, &rig->b, 1, answer_ids, NULL);
    pass_end(other);
    rig->hot.decided_count = 2;
    pass_stop(other); /* collects for both */
    assert_string_equal(rig->b.text, "b1 b2 ");
    assert_string_equal(rig->a.text, "a1 ");
    pass_done(other);
    free(other);
    rig_free(rig);
}

TEST(beside_batches_that_are_late_others_go_out)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    rig->crowd = true;
    struct pass_client crowd[PASS_ERRANDS + 1] = {0};
    size_t count = 0;
    for (; count < PASS_PROMPT + 1; count++) {
        crowd[count].pass = &rig->pass;
        pass_op(&rig->pass, OP_ADD, in_room(rig, "id"));
        pass_request(&rig->pass, &crowd[count], 1, count_answer, NULL);
        pass_end(&rig->pass);
    }
    assert_int_equal(rig->hot.out_count, PASS_PROMPT);
    rig->env.now_ns += 60000000;
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, PASS_PROMPT + 1);
    for (; count < PASS_ERRANDS + 1; count++) {
        crowd[count].pass = &rig->pass;
        rig->env.now_ns += 60000000;
        pass_op(&rig->pass, OP_ADD, in_room(rig, "id"));
        pass_request(&rig->pass, &crowd[count], 1, count_answer, NULL);
        pass_end(&rig->pass);
    }
    assert_int_equal(rig->hot.out_count, PASS_ERRANDS - 1); /* and that is all */
    assert_int_equal(crowd[PASS_ERRANDS].unanswered, 1);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_int_equal(crowd[PASS_ERRANDS - 2].unanswered, 0);
    assert_int_equal(rig->hot.out_count, PASS_ERRANDS - 1);
    rig->hot.decided_count = PASS_ERRANDS - 1;
    pass_end(&rig->pass);
    assert_int_equal(rig->pass.errand_count, 0);
    for (size_t i = 0; i < PASS_ERRANDS + 1; i++)
        assert_int_equal(crowd[i].unanswered, 0);
    rig_free(rig);
}

TEST(a_client_with_requests_out_is_not_read_from)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    assert_false(pass_must_wait(&rig->a.base));
    ask(rig, &rig->a, "a1");
    assert_false(pass_must_wait(&rig->a.base)); /* what was gathered can be added to */
    pass_end(&rig->pass);
    assert_true(pass_must_wait(&rig->a.base));
    assert_int_equal(rig->a.base.held, PASS_HOLD_BATCH);
    assert_false(pass_must_wait(&rig->b.base));
    pass_end(&rig->pass);
    assert_int_equal(rig->a.base.held, PASS_HOLD_BATCH);

    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_int_equal(rig->a.base.held, 0);
    assert_int_equal(rig->a.resumed, 1);
    assert_false(pass_must_wait(&rig->a.base));
    rig_free(rig);
}

TEST(what_cannot_go_out_yet_gathers_until_there_is_no_room)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    struct client *others = memory_take_zeroed(PASS_PROMPT * sizeof(*others));
    for (size_t i = 0; i < PASS_PROMPT; i++) {
        others[i].base.pass = &rig->pass;
        ask(rig, &others[i], "a ");
        pass_end(&rig->pass);
    }
    size_t count = 0;
    for (; pass_has_room(&rig->pass, 1); count++) {
        ask(rig, &rig->b, "b");
        if (count % 1000 == 0)
            pass_end(&rig->pass);
    }
    assert_int_equal(rig->hot.out_count, PASS_PROMPT);
    pass_wait(&rig->b.base);
    pass_wait(&rig->c.base);
    pass_end(&rig->pass);
    assert_int_equal(rig->c.base.held, PASS_HOLD_BATCH); /* nothing has changed */

    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_int_equal(rig->c.base.held, 0);
    assert_int_equal(rig->c.resumed, 1);
    assert_int_equal(rig->b.base.held, PASS_HOLD_BATCH);
    assert_int_equal(rig->hot.out_count, PASS_PROMPT);
    assert_int_equal(rig->hot.out[PASS_PROMPT - 1]->count, count);
    assert_true(pass_has_room(&rig->pass, 1));
    rig->hot.decided_count = PASS_PROMPT;
    pass_end(&rig->pass);
    assert_int_equal(rig->b.base.held, 0);
    rig_free(rig);
    free(others);
}

static void fill_room(struct rig *rig)
{
    while (rig->pass.gathered.room.bytes <= PASS_ROOM_BYTES_MAX)
        (void)room_alloc(&rig->pass.gathered.room, ROOM_BLOCK_BYTES / 2);
}

TEST(who_says_more_than_there_is_memory_for_waits_until_it_has_gone_out)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    struct client *others = memory_take_zeroed(PASS_PROMPT * sizeof(*others));
    for (size_t i = 0; i < PASS_PROMPT; i++) {
        others[i].base.pass = &rig->pass;
        ask(rig, &others[i], "o");
        pass_end(&rig->pass);
    }
    ask(rig, &rig->b, "b1");
    assert_false(pass_must_wait(&rig->b.base));
    fill_room(rig);
    assert_true(pass_must_wait(&rig->b.base)); /* also who has asked something */
    assert_true(pass_must_wait(&rig->c.base));
    pass_end(&rig->pass);
    assert_int_equal(rig->c.base.held, PASS_HOLD_BATCH);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_int_equal(rig->c.base.held, 0);
    assert_int_equal(rig->c.resumed, 1);
    assert_false(pass_must_wait(&rig->c.base));
    assert_int_equal(rig->b.base.held, PASS_HOLD_BATCH);
    rig->hot.decided_count = PASS_PROMPT;
    pass_end(&rig->pass);
    assert_int_equal(rig->b.base.held, 0);
    rig_free(rig);
    free(others);
}

TEST(who_has_waited_for_memory_goes_on_in_the_next_pass)
{
    struct rig *rig = rig_new();
    struct rounds rounds;
    unsigned quiet = rounds_init(&rounds, rig->loop);
    ask(rig, &rig->a, "a1");
    fill_room(rig);
    assert_true(pass_must_wait(&rig->a.base));
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    assert_int_equal(rounds_run(&rounds), quiet + 1);
    pass_end(&rig->pass);
    assert_int_equal(rig->a.base.held, 0);
    assert_int_equal(rig->a.resumed, 1);
    rounds_done(&rounds);
    rig_free(rig);
}

/* The place that got free is taken before the pass ends: who was answered goes on all the same. */
TEST(who_was_answered_is_read_from_although_nothing_can_go_out)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    struct client *others = memory_take_zeroed(PASS_PROMPT * sizeof(*others));
    ask(rig, &rig->a, "a1");
    pass_end(&rig->pass);
    assert_true(pass_must_wait(&rig->a.base));
    for (size_t i = 0; i < PASS_PROMPT; i++) { /* one more than can go */
        others[i].base.pass = &rig->pass;
        ask(rig, &others[i], "b ");
        pass_end(&rig->pass);
    }
    rig->hot.decided_count = 1;
    fake_collect(&rig->hot.base, 0); /* as the other door of the worker does */
    assert_string_equal(rig->a.text, "a1 ");
    pass_wait(&rig->c.base);
    ask(rig, &rig->b, "b1");
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, PASS_PROMPT);
    assert_int_equal(rig->a.base.held, 0);
    assert_int_equal(rig->a.resumed, 1);
    assert_int_equal(rig->c.base.held, PASS_HOLD_BATCH); /* its bytes went with the last batch */
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_int_equal(rig->c.base.held, 0);
    rig->hot.decided_count = PASS_PROMPT;
    pass_end(&rig->pass);
    rig_free(rig);
    free(others);
}

TEST(newcomers_do_not_keep_what_was_cold_waiting)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    rig->hot.late = true;
    struct client *others = memory_take_zeroed((PASS_PROMPT + 1) * sizeof(*others));
    for (size_t i = 0; i < PASS_PROMPT + 1; i++) {
        others[i].base.pass = &rig->pass;
        ask(rig, &others[i], "b ");
        pass_end(&rig->pass);
    }
    assert_int_equal(rig->hot.out_count, PASS_PROMPT);
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, PASS_PROMPT + 1);

    rig->hot.decided_count = PASS_PROMPT + 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x ");
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    rig_free(rig);
    free(others);
}

static struct rig *rig_with_relay(void)
{
    struct rig *rig = rig_new();
    rig->service.relay = (struct relay *)rig; /* there is one */
    relay_reached = weak_first = weak_last = stuck_ticket = 0;
    return rig;
}

TEST(an_answer_that_leaves_without_the_log_says_so)
{
    struct rig *rig = rig_with_relay();
    ask(rig, &rig->a, "aa"); /* ticket 1 */
    ask(rig, &rig->b, "bb");
    pass_end(&rig->pass);
    ask(rig, &rig->a, "cc"); /* ticket 3 */
    pass_end(&rig->pass);
    assert_int_equal(rig->a.released, 0);

    relay_reached = 2;
    weak_first = weak_last = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "AA cc ");
    assert_int_equal(rig->a.released, 3);
    assert_string_equal(rig->b.text, "bb ");
    assert_int_equal(rig->b.released, 3);

    relay_reached = 4; /* ahead: what comes next leaves at once */
    weak_first = weak_last = 4;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "AA cc ");
    ask_two(rig, &rig->b, "dd", "ee"); /* tickets 4 and 5 */
    relay_reached = 5;
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "bb DD EE ");
    assert_int_equal(rig->b.released, 9);
    rig_free(rig);
}

TEST(an_answer_that_is_stuck_holds_up_its_own_client_only)
{
    struct rig *rig = rig_with_relay();
    ask(rig, &rig->a, "aa"); /* ticket 1 */
    ask(rig, &rig->b, "bb");
    pass_end(&rig->pass);
    ask(rig, &rig->a, "cc"); /* ticket 3 */
    pass_end(&rig->pass);
    stuck_ticket = 1;
    relay_reached = 3;
    pass_end(&rig->pass);
    assert_int_equal(rig->b.released, 3);
    assert_int_equal(rig->a.released, 0);
    ask(rig, &rig->b, "dd"); /* ticket 4: it is not waited for from the beginning */
    relay_reached = 4;
    pass_end(&rig->pass);
    assert_int_equal(rig->b.released, 6);

    ask(rig, &rig->a, "ee"); /* ticket 5 */
    pass_end(&rig->pass);
    stuck_ticket = 3; /* the next one of the same client */
    stuck_rounds++;
    relay_reached = 5;
    pass_end(&rig->pass);
    assert_int_equal(rig->a.released, 3);
    weak_first = weak_last = 3;
    stuck_ticket = 0;
    stuck_rounds++;
    pass_end(&rig->pass);
    assert_int_equal(rig->a.released, 9);
    assert_string_equal(rig->a.text, "aa CC ee ");
    rig_free(rig);
}

TEST(what_is_stuck_when_the_door_closes_is_forgotten)
{
    struct rig *rig = rig_with_relay();
    ask(rig, &rig->a, "aa");
    pass_end(&rig->pass);
    stuck_ticket = 1;
    relay_reached = 1;
    pass_end(&rig->pass);
    assert_int_equal(rig->a.base.promised, 1);
    pass_stop(&rig->pass);
    assert_int_equal(rig->a.base.promised, 0);
    rig_free(rig);
}

TEST(a_client_that_wants_the_log_is_not_told_less)
{
    struct rig *rig = rig_with_relay();
    pass_op(&rig->pass, OP_ADD, in_room(rig, "aa"))->must_log = true;
    pass_request(&rig->pass, &rig->a, 1, answer_ids, NULL);
    ask(rig, &rig->b, "bb");
    pass_end(&rig->pass);
    relay_reached = 2;
    weak_first = 1;
    weak_last = 2;
    pass_end(&rig->pass);
    assert_true(rig->a.is_lost);
    assert_int_equal(rig->a.released, 0);
    assert_false(rig->b.is_lost);
    assert_string_equal(rig->b.text, "BB ");
    rig_free(rig);
}

static void answer_read(void *to, const struct pass_request *request, struct op *ops)
{
    (void)request;
    (void)ops;
    say(to, "read ");
}

TEST(a_read_does_not_wait_for_the_log_behind_writes_of_others)
{
    struct rig *rig = rig_new();
    rig->log.reached = 0;
    rig->hot.late = true;
    ask(rig, &rig->a, "a1");
    pass_op(&rig->pass, OP_GET, in_room(rig, "a1"));
    pass_request(&rig->pass, &rig->b, 1, answer_read, NULL);
    pass_end(&rig->pass);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "read ");
    assert_int_equal(rig->b.released, 5);
    assert_int_equal(rig->a.released, 0);

    rig->log.reached = 1; /* while the next batch is under way */
    ask(rig, &rig->c, "c1");
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 1);
    assert_int_equal(rig->a.released, 3);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->c.text, "c1 ");
    assert_int_equal(rig->c.released, 0);
    rig_free(rig);
}

TEST(what_stays_cold_is_refused_also_when_batches_follow_one_another)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    rig->env.now_ns += UINT64_C(11000000000);
    rig->hot.late = true;
    arrive(rig, 'y'); /* something else */
    ask(rig, &rig->b, "b1");
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 2);
    pass_tick(&rig->pass); /* it is being run again */
    assert_string_equal(rig->a.text, "");
    rig->hot.decided_count = 2;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x! ");
    assert_string_equal(rig->b.text, "b1 ");
    assert_int_equal(rig->a.base.held, 0);
    rig_free(rig);
}

TEST(a_door_that_closes_waits_for_its_batch)
{
    struct rig *rig = rig_new();
    rig->hot.late = true;
    ask(rig, &rig->a, "a1");
    pass_end(&rig->pass);
    rig->hot.decided_count = 1;
    pass_stop(&rig->pass);
    assert_string_equal(rig->a.text, "a1 ");
    rig_free(rig);
}

TEST(a_door_that_closes_waits_for_all_its_batches_in_any_order)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    arrive(rig, 'x');
    pass_end(&rig->pass);
    ask(rig, &rig->b, "b1");
    pass_end(&rig->pass);
    ask(rig, &rig->c, "?c");
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 3);
    rig->hot.deaf = 10; /* a while */
    rig->hot.decided_count = 3;
    pass_stop(&rig->pass);
    assert_int_equal(rig->hot.out_count, 0);
    assert_string_equal(rig->a.text, "?x ");
    assert_string_equal(rig->b.text, "b1 ");
    assert_string_equal(rig->c.text, "?c! ");
    rig_free(rig);
}

TEST(what_is_parked_when_the_door_closes_is_refused)
{
    struct rig *rig = rig_new();
    ask(rig, &rig->a, "?x");
    pass_end(&rig->pass);
    ask(rig, &rig->b, "b1"); /* and what was never run */
    pass_stop(&rig->pass);
    assert_string_equal(rig->a.text, "?x! ");
    assert_string_equal(rig->b.text, "b1! ");
    rig_free(rig);
}

/* ---- tests: telling ---- */

static void tell(void *arg)
{
    (void)arg;
}

/* What is written is heard at once by all who listen there. */
static void write_change(void *arg, const struct channel *channel, unsigned form,
                         const struct op *op, struct buffer *to)
{
    (void)arg;
    (void)form;
    (void)to;
    char text[32];
    snprintf(text, sizeof(text), "%c%lld ", op->id.data[0], (long long)op->value.small);
    for (const struct subscription *one = channel->subscriptions; one; one = one->next_of_channel)
        say(one->client, text);
}

static void deliver(void *arg, const struct subscription *one)
{
    (void)arg;
    (void)one;
}

static void answer_tell(void *to, const struct pass_request *request, struct op *ops)
{
    (void)to;
    channels_tell(request->extra, ops);
}

static struct client_limits limits;
static struct client_share share;
static struct fanout_queue queue; /* nothing is ever delivered */

static struct channels *channels_of(struct rig *rig)
{
    static const struct channels_door own = {
        .tell = tell,
        .answer = answer_tell,
        .write = write_change,
        .deliver = deliver,
        .forms = 1,
        .bytes_max = 1 << 20,
    };
    struct channels *channels = memory_take_zeroed(sizeof(*channels));
    client_limits_init(&limits, 1, 0, 0);
    client_share_init(&share, &limits, &rig->pass);
    channels_init(channels, &rig->pass, 0, &share, &own, channels);
    return channels;
}

static void free_channels(struct channels *channels)
{
    channels_done(channels);
    client_share_done(&share);
    client_limits_done(&limits);
    free(channels);
}

/* It has changed, and is being read. */
static void change(struct rig *rig, struct channels *channels, struct slice id)
{
    watch_changed(rig->service.watch, id);
    assert_int_equal(channels_ask(channels), 0);
    pass_end(&rig->pass);
}

TEST(who_listens_is_told_the_newest_last)
{
    struct rig *rig = rig_new();
    struct channels *channels = channels_of(rig);
    struct subscription *of_a = NULL;
    channels_subscribe(channels, &rig->a, &queue, &of_a, SLICE("x"), false);
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    change(rig, channels, SLICE("x"));
    change(rig, channels, SLICE("x"));
    assert_int_equal(rig->hot.out_count, 2);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "x1 ");
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "x1 "); /* the other one was read before it */

    change(rig, channels, SLICE("x"));
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "x1 x3 ");
    channels_unsubscribe(channels, of_a);
    free_channels(channels);
    rig_free(rig);
}

TEST(to_a_pattern_what_was_overtaken_is_read_again)
{
    struct rig *rig = rig_new();
    struct channels *channels = channels_of(rig);
    struct subscription *of_a = NULL;
    struct subscription *of_b = NULL;
    channels_subscribe(channels, &rig->a, &queue, &of_a, SLICE("*"), true);
    channels_subscribe(channels, &rig->b, &queue, &of_b, SLICE("x"), false);
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    change(rig, channels, SLICE("x"));
    change(rig, channels, SLICE("y"));
    rig->hot.decided_count = 2;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "y1 ");
    assert_string_equal(rig->b.text, "x2 "); /* it waits for its own only */
    assert_int_equal(channels_ask(channels), 0);
    pass_end(&rig->pass);
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "y1 x3 ");
    channels_unsubscribe(channels, of_a);
    channels_unsubscribe(channels, of_b);
    free_channels(channels);
    rig_free(rig);
}

TEST(what_was_cold_is_told_as_new_as_when_it_was_read_again)
{
    struct rig *rig = rig_new();
    struct channels *channels = channels_of(rig);
    struct subscription *of_a = NULL;
    channels_subscribe(channels, &rig->a, &queue, &of_a, SLICE("?x"), false);
    change(rig, channels, SLICE("?x"));
    rig->hot.late = true;
    rig->hot.youngest_first = true;
    change(rig, channels, SLICE("?x")); /* goes out before the first is read again */
    arrive(rig, 'x');
    pass_end(&rig->pass);
    assert_int_equal(rig->hot.out_count, 2);
    rig->hot.decided_count = 2;
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?1 ");
    channels_unsubscribe(channels, of_a);
    free_channels(channels);
    rig_free(rig);
}

static size_t longest_chain(const struct channels *channels)
{
    size_t longest = 0;
    for (size_t i = 0; i < channels->chain_count; i++) {
        size_t size = 0;
        for (const struct channel *one = channels->chains[i]; one; one = one->next)
            size++;
        longest = size > longest ? size : longest;
    }
    for (size_t i = 0; i < channels->pair_count; i++) {
        size_t size = 0;
        for (const struct subscription *one = channels->pairs[i]; one; one = one->next)
            size++;
        longest = size > longest ? size : longest;
    }
    return longest;
}

/* Two clients, of whom the second has every other one, and each name once as a pattern. */
TEST(thousands_of_subscriptions_are_found_without_a_search)
{
    struct rig *rig = rig_new();
    struct channels *channels = channels_of(rig);
    static struct fanout_queue queues[2];
    memset(queues, 0, sizeof(queues));
    struct client *clients[] = {&rig->a, &rig->b};
    struct subscription *lists[2] = {NULL, NULL};
    char name[32];
    for (int i = 0; i < 10000; i++) {
        struct slice id = {name, (size_t)snprintf(name, sizeof(name), "id%d", i / 2)};
        for (int who = 0; who < 2 - i / 2 % 2; who++) {
            assert_null(channels_find(channels, &queues[who], id, i % 2));
            channels_subscribe(channels, clients[who], &queues[who], &lists[who], id, i % 2);
        }
    }
    assert_int_equal(channels->count, 10000);
    assert_int_equal(channels->subscriptions, 15000);
    assert_in_range(longest_chain(channels), 1, 16);
    assert_in_range(fanout_queue_bytes(&queues[0]), 10000 * sizeof(struct subscription),
                    10000 * 1000);

    for (int i = 0; i < 10000; i++) {
        struct slice id = {name, (size_t)snprintf(name, sizeof(name), "id%d", i / 2)};
        for (int who = 0; who < 2; who++) {
            struct subscription *one = channels_find(channels, &queues[who], id, i % 2);
            assert_int_equal(one != NULL, who == 0 || i / 2 % 2 == 0);
            if (!one)
                continue;
            assert_true(slice_equal(channel_name(one->channel), id));
            assert_int_equal(one->channel->is_pattern, i % 2);
            assert_ptr_equal(one->client, clients[who]);
            channels_unsubscribe(channels, one);
            assert_null(channels_find(channels, &queues[who], id, i % 2));
        }
    }
    for (int who = 0; who < 2; who++) {
        assert_null(lists[who]);
        assert_int_equal(fanout_queue_bytes(&queues[who]), 0);
    }
    free_channels(channels);
    rig_free(rig);
}

/* ---- tests: a crowd that listens ---- */

enum { CROWD = 2000, CHANGES = 4000 };

static struct fanout_queue crowd_queues[CROWD];
static struct channels *crowd_channels;
static size_t deliveries;
static size_t written;

static size_t write_line(struct buffer *to)
{
    static const char line[] = "data: {\"id\":\"a counter like many others\",\"value\":\"1\"}\n\n";
    assert_int_equal(buffer_append(to, line, sizeof(line) - 1), ERR_OK);
    return sizeof(line) - 1;
}

static void write_to_crowd(void *arg, const struct channel *channel, unsigned form,
                           const struct op *op, struct buffer *to)
{
    (void)arg;
    (void)channel;
    (void)form;
    (void)op;
    written += write_line(to);
}

static void deliver_to_crowd(void *arg, const struct subscription *one)
{
    (void)arg;
    deliveries++;
    fanout_publish(&crowd_channels->fanout, &one->channel->streams[0], one->queue, 0);
}

/* What they are sent is written once, and handed to each of them once for each 64 KiB of it: the
 * number of changes does not matter. */
TEST(changes_for_thousands_are_delivered_by_the_block)
{
    static const struct channels_door own = {
        .tell = tell,
        .answer = answer_tell,
        .write = write_to_crowd,
        .deliver = deliver_to_crowd,
        .forms = 1,
        .bytes_max = 16 << 20,
    };
    struct rig *rig = rig_new();
    rig->crowd = true;
    struct channels *channels = crowd_channels = memory_take_zeroed(sizeof(*channels));
    client_limits_init(&limits, 1, 0, 0);
    client_share_init(&share, &limits, &rig->pass);
    channels_init(channels, &rig->pass, 0, &share, &own, channels);
    struct pass_client *clients = memory_take_zeroed(CROWD * sizeof(*clients));
    struct subscription **lists = memory_take_zeroed(CROWD * sizeof(struct subscription *));
    memset(crowd_queues, 0, sizeof(crowd_queues));
    for (int i = 0; i < CROWD; i++) {
        clients[i].pass = &rig->pass;
        channels_subscribe(channels, &clients[i], &crowd_queues[i], &lists[i], SLICE("*"), true);
    }

    deliveries = written = 0;
    char name[32];
    for (int i = 0; i < CHANGES; i++) {
        struct slice id = {name, (size_t)snprintf(name, sizeof(name), "id%d", i)};
        watch_changed(rig->service.watch, id);
    }
    assert_int_equal(channels_ask(channels), 0);
    pass_end(&rig->pass);
    assert_true(written >= CHANGES * sizeof("id"));
    assert_true(written < CHANGES * (size_t)100);
    size_t blocks = written / (FANOUT_BLOCK_BYTES - 1024) + 1;
    assert_in_range(deliveries, CROWD, CROWD * blocks);
    for (int i = 0; i < CROWD; i++)
        assert_in_range(crowd_queues[i].count, 1, blocks);

    for (int i = 0; i < CROWD; i++) {
        channels_unsubscribe(channels, lists[i]);
        fanout_queue_done(&crowd_queues[i]);
    }
    free_channels(channels);
    rig_free(rig);
    free(clients);
    free(lists);
}

TEST(a_change_that_nobody_could_ask_for_is_asked_for_later)
{
    struct rig *rig = rig_new();
    struct channels *channels = channels_of(rig);
    struct subscription *of_a = NULL;
    channels_subscribe(channels, &rig->a, &queue, &of_a, SLICE("x"), false);
    rig->hot.late = true;
    struct client *others = memory_take_zeroed(PASS_PROMPT * sizeof(*others));
    for (size_t i = 0; i < PASS_PROMPT; i++) {
        others[i].base.pass = &rig->pass;
        ask(rig, &others[i], "o");
        pass_end(&rig->pass);
    }
    while (pass_has_room(&rig->pass, 1))
        ask(rig, &rig->b, "b");
    change(rig, channels, SLICE("x"));
    rig->hot.decided_count = PASS_PROMPT;
    pass_end(&rig->pass);
    rig->hot.late = false;
    assert_int_equal(channels_ask(channels), 0);
    pass_end(&rig->pass);
    assert_int_equal(rig->a.text[0], 'x');
    rig->hot.decided_count = 1;
    pass_end(&rig->pass);
    channels_unsubscribe(channels, of_a);
    free_channels(channels);
    rig_free(rig);
    free(others);
}

/* ---- tests: figures ---- */

/* What subscribers are told is read by the worker itself: no client has asked, and none is refused.
 */
TEST(only_reads_of_clients_count_as_stale)
{
    struct rig *rig = rig_with_relay();
    struct channels *channels = channels_of(rig);
    struct subscription *subscriptions = NULL;
    channels_subscribe(channels, &rig->a, &queue, &subscriptions, SLICE("~id"), false);
    for (int refuses = 0; refuses < 2; refuses++) {
        rig->pass.refuses_stale = refuses;
        change(rig, channels, SLICE("~id"));
        assert_string_equal(rig->a.text, ""); /* it is read again later */
        assert_int_equal(gauge_read(&rig->pass.stats.stale_served), 0);
        assert_int_equal(gauge_read(&rig->pass.stats.stale_refused), 0);
    }
    pass_op(&rig->pass, OP_GET, SLICE("~id"));
    pass_request(&rig->pass, &rig->b, 1, answer_ids, NULL);
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "~id! ");
    assert_int_equal(gauge_read(&rig->pass.stats.stale_refused), 1);
    channels_unsubscribe(channels, subscriptions);
    free_channels(channels);
    rig_free(rig);
}

TEST(ops_are_counted_by_result_and_timed)
{
    struct rig *rig = rig_new();
    rig->log.reached = 0;
    ask(rig, &rig->a, "a1");
    ask_two(rig, &rig->b, "b1", "b2");
    pass_op(&rig->pass, OP_GET, in_room(rig, "c1"));
    pass_request(&rig->pass, &rig->c, 1, answer_ids, NULL);
    pass_op(&rig->pass, OP_GET, in_room(rig, "!c2")); /* there is none */
    pass_request(&rig->pass, &rig->c, 1, answer_ids, NULL);
    pass_end(&rig->pass);
    struct metrics_door figures = {0};
    pass_add_figures(&rig->pass, &figures);
    assert_int_equal(figures.writes[METRICS_OK], 3);
    assert_int_equal(figures.reads[METRICS_OK], 1);
    assert_int_equal(figures.reads[METRICS_REFUSED], 1);
    assert_int_equal(histogram_count(&figures.read_time), 2);
    assert_int_equal(histogram_count(&figures.write_time), 0); /* they are not safe yet */

    rig->env.now_ns += 1000000;
    rig->log.reached = rig->hot.ticket;
    pass_end(&rig->pass);
    figures = (struct metrics_door){0};
    pass_add_figures(&rig->pass, &figures);
    assert_int_equal(histogram_count(&figures.write_time), 3);
    assert_int_equal(figures.write_time.sum_ns, 3000000);
    rig_free(rig);
}

TEST(the_time_of_what_was_cold_begins_when_it_was_parked)
{
    struct rig *rig = rig_new();
    pass_op(&rig->pass, OP_GET, in_room(rig, "?x"));
    pass_request(&rig->pass, &rig->a, 1, answer_ids, NULL);
    pass_end(&rig->pass);
    rig->env.now_ns += 5000000;
    arrive(rig, 'x');
    pass_end(&rig->pass);
    struct metrics_door figures = {0};
    pass_add_figures(&rig->pass, &figures);
    assert_int_equal(figures.reads[METRICS_OK], 1);
    assert_int_equal(figures.read_time.sum_ns, 5000000);
    rig_free(rig);
}

/* ---- tests: jobs ---- */

struct text_job {
    struct pass_job base;
    const char *text;
    bool *freed;
};

static void work(struct pass_job *base, struct desk_seat *seat)
{
    (void)seat;
    ((struct text_job *)base)->text = "worked ";
}

static void free_job(struct pass_job *base)
{
    *((struct text_job *)base)->freed = true;
    free(base);
}

static void answer_job(void *to, const struct pass_request *request, struct op *ops)
{
    (void)ops;
    const struct text_job *job = request->extra;
    say(to, job->base.error.code == ERR_OK ? job->text : "stopped ");
}

static struct pass_job *new_job(bool *freed)
{
    struct text_job *job = memory_take_zeroed(sizeof(*job));
    job->base.work = work;
    job->base.free = free_job;
    job->freed = freed;
    *freed = false;
    return &job->base;
}

TEST(a_job_answers_when_it_is_done)
{
    struct rig *rig = rig_new();
    bool freed;
    assert_true(pass_job(&rig->pass, &rig->a, answer_job, new_job(&freed)));
    assert_int_equal(rig->a.base.held, PASS_HOLD_PARKED);
    ask(rig, &rig->b, "b1");
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");
    assert_string_equal(rig->b.text, "b1 ");

    run_waiting_job();
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "worked ");
    assert_int_equal(rig->a.base.held, 0);
    assert_int_equal(rig->a.released, 7);
    assert_true(freed);
    rig_free(rig);
}

TEST(what_is_answered_beside_a_job_is_timed_by_itself)
{
    struct rig *rig = rig_new();
    bool freed;
    assert_true(pass_job(&rig->pass, &rig->a, answer_job, new_job(&freed)));
    run_waiting_job();
    rig->env.now_ns = 7000000000;
    pass_op(&rig->pass, OP_GET, in_room(rig, "b1"));
    pass_request(&rig->pass, &rig->b, 1, answer_ids, NULL);
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "worked ");
    struct metrics_door figures = {0};
    pass_add_figures(&rig->pass, &figures);
    assert_int_equal(histogram_count(&figures.read_time), 1);
    assert_int_equal(figures.read_time.sum_ns, 0);
    rig_free(rig);
}

TEST(a_desk_that_is_full_is_said_at_once)
{
    struct rig *rig = rig_new();
    bool freed;
    struct pass_job *job = new_job(&freed);
    desk_is_full = true;
    assert_false(pass_job(&rig->pass, &rig->a, answer_job, job));
    desk_is_full = false;
    assert_int_equal(rig->a.base.held, 0);
    assert_int_equal(rig->a.base.unanswered, 0);
    free_job(job);
    rig_free(rig);
}

/* ---- tests: the memory of what waits ---- */

TEST(what_waits_is_counted_with_its_client)
{
    struct rig *rig = rig_new();
    bool freed;
    struct pass_job *job = new_job(&freed);
    assert_true(pass_job_uses(job, 1000));
    assert_int_equal(pass_waiting_bytes(&rig->a.base), 0);
    assert_true(pass_job(&rig->pass, &rig->a, answer_job, job));
    assert_in_range(pass_waiting_bytes(&rig->a.base), 1000, 2000);
    assert_true(rig->a.base.touched); /* the door measures it at the end of the pass */
    pass_end(&rig->pass);

    /* As the work does: its client is measured again when the answer has grown by much. */
    assert_true(pass_job_uses(job, 1100));
    unsigned measured = rig->a.flushed;
    pass_end(&rig->pass);
    assert_int_equal(rig->a.flushed, measured);
    assert_true(pass_job_uses(job, 8 << 20));
    pass_end(&rig->pass);
    assert_int_equal(rig->a.flushed, measured + 1);
    assert_in_range(pass_waiting_bytes(&rig->a.base), 8 << 20, 9 << 20);
    run_waiting_job();
    pass_end(&rig->pass);
    assert_true(freed);
    assert_int_equal(pass_waiting_bytes(&rig->a.base), 0);

    ask_two(rig, &rig->a, "?x", "?y");
    ask(rig, &rig->b, "there");
    pass_end(&rig->pass);
    assert_in_range(pass_waiting_bytes(&rig->a.base), 2 * sizeof(struct op), 10000);
    assert_int_equal(pass_waiting_bytes(&rig->b.base), 0);
    arrive(rig, 'x');
    arrive(rig, 'y');
    pass_end(&rig->pass);
    assert_int_equal(pass_waiting_bytes(&rig->a.base), 0);
    rig_free(rig);
}

TEST(a_question_of_a_client_that_has_gone_is_not_asked)
{
    struct rig *rig = rig_new();
    bool freed;
    assert_true(pass_job(&rig->pass, &rig->a, answer_job, new_job(&freed)));
    pass_leave(&rig->a.base, false);
    pass_leave(&rig->b.base, false); /* it waits for nothing */
    assert_null(waiting_job);
    assert_false(freed);
    pass_end(&rig->pass);
    assert_true(freed);
    assert_string_equal(rig->a.text, "stopped ");
    pass_end(&rig->pass);
    assert_false(pass_names(&rig->a.base));
    rig_free(rig);
}

static struct client *leaver;
static bool is_wanted_before;
static bool is_wanted_after;

static void work_while_its_client_goes(struct pass_job *job, struct desk_seat *seat)
{
    is_wanted_before = pass_job_uses(job, 100);
    pass_leave(&leaver->base, false);
    is_wanted_after = pass_job_uses(job, 200);
    work(job, seat);
}

TEST(work_learns_that_nobody_waits_for_it_any_more)
{
    struct rig *rig = rig_new();
    bool freed;
    struct pass_job *job = new_job(&freed);
    job->work = work_while_its_client_goes;
    leaver = &rig->a;
    assert_true(pass_job(&rig->pass, &rig->a, answer_job, job));
    run_waiting_job();
    assert_true(is_wanted_before);
    assert_false(is_wanted_after);
    pass_end(&rig->pass);
    assert_true(freed);
    rig_free(rig);
}

TEST(a_write_is_done_although_its_client_has_gone)
{
    struct rig *rig = rig_new();
    bool freed;
    for (int all = 0; all < 2; all++) {
        struct pass_job *job = new_job(&freed);
        job->is_write = true;
        assert_true(pass_job(&rig->pass, &rig->a, answer_job, job));
        pass_leave(&rig->a.base, all);
        assert_int_equal(waiting_job != NULL, !all); /* unless its memory is wanted */
        if (!all)
            run_waiting_job();
        pass_end(&rig->pass);
        assert_true(freed);
    }
    assert_string_equal(rig->a.text, "worked stopped ");
    rig_free(rig);
}

TEST(what_is_cold_of_a_client_whose_memory_is_wanted_is_refused)
{
    struct rig *rig = rig_new();
    ask_two(rig, &rig->a, "?x", "there");
    ask(rig, &rig->b, "?y");
    pass_end(&rig->pass);
    pass_leave(&rig->a.base, false);
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "");
    pass_leave(&rig->a.base, true);
    pass_end(&rig->pass);
    assert_string_equal(rig->a.text, "?x! there ");
    assert_string_equal(rig->b.text, "");
    arrive(rig, 'y');
    pass_end(&rig->pass);
    assert_string_equal(rig->b.text, "?y ");
    rig_free(rig);
}

TEST(a_job_that_was_never_run_is_freed_with_the_door)
{
    struct rig *rig = rig_new();
    bool freed;
    assert_true(pass_job(&rig->pass, &rig->a, answer_job, new_job(&freed)));
    pass_stop(&rig->pass);
    assert_true(freed);
    assert_string_equal(rig->a.text, "stopped ");
    rig_free(rig);
}

RUN(cmocka_unit_test(a_cold_request_waits_and_others_are_answered),
    cmocka_unit_test(later_requests_of_the_same_client_wait_behind),
    cmocka_unit_test(clients_of_one_pass_do_not_wait_for_one_another),
    cmocka_unit_test(an_op_that_was_decided_is_not_run_again),
    cmocka_unit_test(nothing_is_run_again_unless_something_has_arrived),
    cmocka_unit_test(an_answer_of_a_parked_request_waits_for_the_log),
    cmocka_unit_test(what_a_parked_op_points_to_stays),
    cmocka_unit_test(what_extra_points_to_in_the_room_stays),
    cmocka_unit_test(a_pass_may_park_twice),
    cmocka_unit_test(what_comes_later_of_a_parked_client_is_answered_later),
    cmocka_unit_test(what_stays_cold_is_refused_after_ten_seconds),
    cmocka_unit_test(many_may_be_parked), cmocka_unit_test(a_batch_of_cold_ops_may_be_done_later),
    cmocka_unit_test(a_batch_that_is_done_later_is_collected),
    cmocka_unit_test(others_are_gathered_for_while_a_batch_is_out),
    cmocka_unit_test(a_batch_is_answered_when_it_is_done_whichever_went_out_first),
    cmocka_unit_test(a_client_is_named_until_its_own_batch_is_done),
    cmocka_unit_test(what_was_cold_and_comes_back_late_keeps_the_order_of_its_client),
    cmocka_unit_test(who_collects_for_itself_wakes_nobody),
    cmocka_unit_test(two_doors_of_a_worker_collect_for_each_other),
    cmocka_unit_test(beside_batches_that_are_late_others_go_out),
    cmocka_unit_test(who_says_more_than_there_is_memory_for_waits_until_it_has_gone_out),
    cmocka_unit_test(who_has_waited_for_memory_goes_on_in_the_next_pass),
    cmocka_unit_test(who_was_answered_is_read_from_although_nothing_can_go_out),
    cmocka_unit_test(a_client_with_requests_out_is_not_read_from),
    cmocka_unit_test(what_cannot_go_out_yet_gathers_until_there_is_no_room),
    cmocka_unit_test(newcomers_do_not_keep_what_was_cold_waiting),
    cmocka_unit_test(a_read_does_not_wait_for_the_log_behind_writes_of_others),
    cmocka_unit_test(what_stays_cold_is_refused_also_when_batches_follow_one_another),
    cmocka_unit_test(a_door_that_closes_waits_for_its_batch),
    cmocka_unit_test(a_door_that_closes_waits_for_all_its_batches_in_any_order),
    cmocka_unit_test(an_answer_that_leaves_without_the_log_says_so),
    cmocka_unit_test(an_answer_that_is_stuck_holds_up_its_own_client_only),
    cmocka_unit_test(what_is_stuck_when_the_door_closes_is_forgotten),
    cmocka_unit_test(a_client_that_wants_the_log_is_not_told_less),
    cmocka_unit_test(what_is_parked_when_the_door_closes_is_refused),
    cmocka_unit_test(who_listens_is_told_the_newest_last),
    cmocka_unit_test(to_a_pattern_what_was_overtaken_is_read_again),
    cmocka_unit_test(what_was_cold_is_told_as_new_as_when_it_was_read_again),
    cmocka_unit_test(thousands_of_subscriptions_are_found_without_a_search),
    cmocka_unit_test(changes_for_thousands_are_delivered_by_the_block),
    cmocka_unit_test(a_change_that_nobody_could_ask_for_is_asked_for_later),
    cmocka_unit_test(only_reads_of_clients_count_as_stale),
    cmocka_unit_test(ops_are_counted_by_result_and_timed),
    cmocka_unit_test(the_time_of_what_was_cold_begins_when_it_was_parked),
    cmocka_unit_test(a_job_answers_when_it_is_done),
    cmocka_unit_test(what_is_answered_beside_a_job_is_timed_by_itself),
    cmocka_unit_test(a_desk_that_is_full_is_said_at_once),
    cmocka_unit_test(a_job_that_was_never_run_is_freed_with_the_door),
    cmocka_unit_test(what_waits_is_counted_with_its_client),
    cmocka_unit_test(a_question_of_a_client_that_has_gone_is_not_asked),
    cmocka_unit_test(work_learns_that_nobody_waits_for_it_any_more),
    cmocka_unit_test(a_write_is_done_although_its_client_has_gone),
    cmocka_unit_test(what_is_cold_of_a_client_whose_memory_is_wanted_is_refused))
