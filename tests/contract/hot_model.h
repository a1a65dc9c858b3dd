/* hot_model.h - a hot layer against a model of plain arrays.
 *
 * Random ops in batches of random size, by several workers, while ticks come,
 * shards grow and shrink, time passes and everything is closed and replayed: each
 * answer must be what the model says. A seed makes the run; it is printed when
 * something differs, and SEED in the environment runs it again.
 *
 * Over Redis (RIG_REDIS) every other seed has two nodes, which take turns. Keys are kept by the
 * clock of Redis, which no test can move: they stay. And a key of a reaction counts within the
 * item and its user there. */
#ifndef HOT_MODEL_H
#define HOT_MODEL_H

#include "contract/hot_rig.h"

#include <time.h>

#include "sim/sim_rng.h"

#define COUNTERS   12u
#define ITEMS      6u
#define IDS        (COUNTERS + ITEMS)
#define USERS      600u
#define KEYS_AN_ID 6u
#define BATCH_MAX  60u
#ifdef RIG_REDIS
#define KEPT_MS     1000000000
#define SECONDS_ALL 20.0
#define BATCHES     60u
#define NODES       2u
#define SHARDS_MAX  12u /* folding many takes its time on a busy machine */
#else
#define KEPT_MS     20000
#define SECONDS_ALL 4.0
#define BATCHES     300u
#define NODES       1u
#define SHARDS_MAX  64u
#endif

/* ---- the model ---- */

struct model_key {
    bool used;
    int64_t put_ms;
    struct op question; /* what makes two writes the same */
    struct op_create create;
    __int128 amount;
    bool changed;
    uint8_t held;
    __int128 value;
};

struct model_id {
    enum { NOTHING, COUNTER, ITEM } type;
    __int128 value;
    struct op_create create;
    int64_t deadline_ms;
    int64_t written_s;
    uint8_t held[USERS];
    struct model_key keys[KEYS_AN_ID];
};

static struct model_id model[IDS];
static char ids[IDS][16];
static char likes[IDS][24]; /* "id/like" */
static char users[USERS][48];
static char keys[KEYS_AN_ID][8];
static struct sim_rng rng;
static uint64_t seed;
static struct rig rig;
#ifdef RIG_REDIS
static struct rig other; /* a second node, in every other run */
#endif
static bool has_other;

/* An op, what it was made from, and the model's answer. */
struct trial {
    unsigned id;
    unsigned user;
    int key;          /* -1 = none */
    bool of_reaction; /* the id is "id/like" */
    __int128 amount;
    struct op_create create;
    struct op_describe describe;
    int64_t counts[2];

    enum err code;
    bool changed;
    bool repeated;
    uint8_t held;
    __int128 value;
    int64_t deadline_ms;
    int64_t counts_ought[2];
    struct op_describe describe_ought;
};

static uint32_t below(uint32_t count)
{
    return (uint32_t)sim_rng_below(&rng, count);
}

static struct number number_of_wide(__int128 value)
{
    bool negative = value < 0;
    unsigned __int128 rest = negative ? -(unsigned __int128)value : (unsigned __int128)value;
    char digits[48];
    char *at = digits + sizeof(digits);
    do {
        *--at = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest > 0);
    if (negative)
        *--at = '-';
    struct number number;
    struct slice text = {at, (size_t)(digits + sizeof(digits) - at)};
    assert_int_equal(number_parse(text, &number), ERR_OK);
    return number;
}

static bool is_expired(const struct model_id *id)
{
    if (id->type != COUNTER)
        return false;
    if (id->deadline_ms != 0 && rig.now_ms >= id->deadline_ms)
        return true;
    return id->create.idle_s != 0 && rig.now_ms / 1000 >= id->written_s + id->create.idle_s;
}

/* What is past its time is not there. Keys outlive what they were used on. */
static void clear(struct model_id *id)
{
    id->type = NOTHING;
    id->value = 0;
    id->create = (struct op_create){.shards = 1};
    id->deadline_ms = 0;
    memset(id->held, 0, sizeof(id->held));
}

static void count(const struct model_id *id, int64_t counts[2])
{
    counts[0] = counts[1] = 0;
    for (unsigned i = 0; i < USERS; i++)
        if (id->held[i])
            counts[id->held[i] - 1]++;
}

static void write_add(struct model_id *id, struct trial *trial)
{
    if (id->type == ITEM) {
        trial->code = ERR_WRONG_TYPE;
        return;
    }
    if (id->create.has_floor && trial->amount < 0 && id->value + trial->amount < id->create.floor) {
        trial->code = ERR_BELOW_FLOOR;
        return;
    }
    trial->changed = id->type == NOTHING || trial->amount != 0;
    id->type = COUNTER;
    id->value += trial->amount;
    trial->value = id->value;
    if (trial->changed || trial->key >= 0)
        id->written_s = rig.now_ms / 1000;
}

static void write_set(struct model_id *id, struct trial *trial)
{
    if (id->type == ITEM) {
        trial->code = ERR_WRONG_TYPE;
        return;
    }
    if (id->create.has_floor && trial->amount < id->create.floor) {
        trial->code = ERR_BELOW_FLOOR;
        return;
    }
    trial->changed = id->type == NOTHING || trial->amount != id->value;
    id->type = COUNTER;
    id->value = trial->amount;
    id->deadline_ms = 0;
    id->written_s = rig.now_ms / 1000;
    trial->value = id->value;
}

static void write_create(struct model_id *id, struct trial *trial)
{
    if (id->type != NOTHING) {
        trial->code = ERR_EXISTS;
        return;
    }
    if (trial->create.has_floor && trial->create.floor > 0) {
        trial->code = ERR_INVALID;
        return;
    }
    id->type = trial->of_reaction ? ITEM : COUNTER;
    id->create = trial->create;
    id->written_s = rig.now_ms / 1000;
    trial->changed = true;
}

static void write_expire(struct model_id *id, const struct op *op, struct trial *trial)
{
    if (id->type == ITEM) {
        trial->code = ERR_WRONG_TYPE;
        return;
    }
    trial->changed = id->type == COUNTER;
    if (id->type == COUNTER && op->deadline_ms != 0 && op->deadline_ms <= rig.now_ms)
        clear(id);
    else if (id->type == COUNTER)
        id->deadline_ms = op->deadline_ms;
}

static void react_or_look(struct model_id *id, const struct op *op, struct trial *trial)
{
    if (id->type == COUNTER) {
        trial->code = ERR_WRONG_TYPE;
        return;
    }
    uint8_t *held = &id->held[trial->user];
    uint8_t before = *held;
    if (op->kind == OP_REACT)
        *held = op->reaction;
    else if (op->kind == OP_TOGGLE)
        *held = before == op->reaction ? 0 : op->reaction;
    else if (op->kind == OP_WITHDRAW && (op->reaction == 0 || op->reaction == before))
        *held = 0;
    trial->held = *held;
    trial->changed = *held != before;
    if (trial->changed)
        id->type = ITEM;
    count(id, trial->counts_ought);
}

static void read_get(const struct model_id *id, struct trial *trial)
{
    int64_t counts[2];
    if (id->type == NOTHING || (id->type == COUNTER && trial->of_reaction)) {
        trial->code = ERR_NOT_FOUND;
    } else if (id->type == ITEM && !trial->of_reaction) {
        trial->code = ERR_WRONG_TYPE;
    } else if (id->type == ITEM) {
        count(id, counts);
        trial->value = counts[0];
    } else {
        trial->value = id->value;
    }
}

static void read_describe(const struct model_id *id, struct trial *trial)
{
    if (id->type == NOTHING || (id->type == COUNTER && trial->of_reaction)) {
        trial->code = ERR_NOT_FOUND;
        return;
    }
    trial->describe_ought =
        (struct op_describe){.is_item = id->type == ITEM, .shards_asked = id->create.shards};
    if (id->type == COUNTER) {
        trial->describe_ought.policy = id->create.policy;
        trial->describe_ought.has_floor = id->create.has_floor;
        trial->describe_ought.floor = id->create.floor;
        trial->describe_ought.idle_s = id->create.idle_s;
        trial->describe_ought.deadline_ms = id->deadline_ms;
    }
}

static void run_on_model(struct model_id *id, const struct op *op, struct trial *trial)
{
    switch (op->kind) {
    case OP_GET:
        read_get(id, trial);
        break;
    case OP_EXISTS:
        trial->changed = id->type == ITEM || (id->type == COUNTER && !trial->of_reaction);
        break;
    case OP_ADD:
        write_add(id, trial);
        break;
    case OP_SET:
        write_set(id, trial);
        break;
    case OP_DELETE:
        trial->changed = id->type != NOTHING;
        clear(id);
        break;
    case OP_CREATE:
        write_create(id, trial);
        break;
    case OP_EXPIRE:
        write_expire(id, op, trial);
        break;
    case OP_DEADLINE:
        trial->code = id->type == NOTHING ? ERR_NOT_FOUND : ERR_OK;
        trial->deadline_ms = id->deadline_ms;
        break;
    case OP_DESCRIBE:
        read_describe(id, trial);
        break;
    case OP_COUNTS:
        trial->code = id->type == COUNTER ? ERR_WRONG_TYPE : ERR_OK;
        trial->changed = id->type == ITEM;
        count(id, trial->counts_ought);
        break;
    default:
        react_or_look(id, op, trial);
        break;
    }
}

static bool is_same_write(const struct model_key *key, const struct op *op,
                          const struct trial *trial)
{
    const struct op *first = &key->question;
    if (first->kind != op->kind || first->reaction != op->reaction ||
        !slice_equal(first->user, op->user))
        return false;
    if (op->kind == OP_ADD || op->kind == OP_SET)
        return key->amount == trial->amount;
    if (op->kind == OP_EXPIRE)
        return first->deadline_ms == op->deadline_ms;
    if (op->kind == OP_CREATE)
        return memcmp(&key->create, &trial->create, sizeof(key->create)) == 0;
    return true;
}

/* "item/kind" counters may not be written, whatever the key; and their keys are
 * not the item's. */
static void ask_model(const struct op *op, struct trial *trial)
{
    struct model_id *id = &model[trial->id];
    if (is_expired(id))
        clear(id);
    if (trial->key < 0) {
        run_on_model(id, op, trial);
        return;
    }
    struct model_key *key = &id->keys[trial->key];
    if (key->used && rig.now_ms - key->put_ms <= KEPT_MS) {
        trial->repeated = is_same_write(key, op, trial);
        trial->code = trial->repeated ? ERR_OK : ERR_KEY_REUSED;
        if (trial->repeated) {
            trial->changed = key->changed;
            trial->held = key->held;
            trial->value = key->value;
        }
        return;
    }
    run_on_model(id, op, trial);
    if (trial->code == ERR_OK)
        *key = (struct model_key){.used = true,
                                  .put_ms = rig.now_ms,
                                  .question = *op,
                                  .create = trial->create,
                                  .amount = trial->amount,
                                  .changed = trial->changed,
                                  .held = trial->held,
                                  .value = trial->value};
}

/* ---- random ops ---- */

static __int128 random_amount(void)
{
    switch (below(8)) {
    case 0:
        return 0;
    case 1:
        return (__int128)(below(2) ? INT64_MAX : INT64_MIN) / (1 + below(3));
    case 2:
        return ((__int128)1 << (60 + below(20))) * (below(2) ? 1 : -1);
    default:
        return (__int128)below(20) - 8;
    }
}

static enum op_kind random_kind(void)
{
    static const enum op_kind kinds[] = {
        OP_ADD,    OP_ADD,      OP_ADD,      OP_ADD,      OP_ADD,      OP_GET,    OP_GET,
        OP_GET,    OP_SET,      OP_REACT,    OP_REACT,    OP_REACT,    OP_REACT,  OP_REACT,
        OP_TOGGLE, OP_WITHDRAW, OP_TOGGLE,   OP_WITHDRAW, OP_REACTION, OP_COUNTS, OP_EXISTS,
        OP_EXPIRE, OP_DEADLINE, OP_DESCRIBE, OP_CREATE,   OP_CREATE,
    };
    if (below(100) == 0)
        return OP_DELETE;
    return kinds[below(sizeof(kinds) / sizeof(kinds[0]))];
}

/* Mostly of the right type, sometimes not. */
static unsigned random_id(enum op_kind kind)
{
    bool item = op_has_user(kind) || kind == OP_COUNTS;
    if (below(40) == 0)
        item = !item;
    return item ? COUNTERS + below(ITEMS) : below(COUNTERS);
}

#ifdef RIG_REDIS
static void forget_key(struct op *op, struct trial *trial)
{
    op->key = (struct slice){0};
    trial->key = -1;
}
#endif

static struct op random_op(struct trial *trial, bool alone)
{
    *trial = (struct trial){.key = -1};
    struct op op = {.kind = random_kind()};
    trial->id = random_id(op.kind);
    trial->of_reaction = (op.kind == OP_GET || op.kind == OP_EXISTS || op.kind == OP_DESCRIBE ||
                          (op.kind == OP_CREATE && trial->id >= COUNTERS)) &&
                         below(2) == 0;
    op.id = slice_of(trial->of_reaction ? likes[trial->id] : ids[trial->id]);
    if (op_has_user(op.kind)) {
        trial->user = below(below(2) ? USERS : 20);
        op.user = slice_of(users[trial->user]);
        op.reaction = (uint8_t)(op.kind == OP_REACTION ? 0 : 1 + below(2));
        if (op.kind == OP_WITHDRAW && below(3) == 0)
            op.reaction = KIND_NONE;
    }
    if (op.kind == OP_ADD || op.kind == OP_SET) {
        trial->amount = random_amount();
        op.amount = number_of_wide(trial->amount);
    }
    if (op.kind == OP_CREATE) {
        trial->create.shards = 1 + (below(2) ? below(SHARDS_MAX) : 0);
        trial->create.policy = (enum policy)below(POLICY_COUNT);
        trial->create.has_floor = below(3) == 0;
        trial->create.floor = trial->create.has_floor ? (int64_t)below(12) - 10 : 0;
        trial->create.idle_s = below(4) ? 0 : 1 + below(20);
        op.create = &trial->create;
    }
    if (op.kind == OP_EXPIRE)
        op.deadline_ms = below(4) ? rig.now_ms + below(5000) - 200 : 0;
    if (op.kind == OP_DESCRIBE)
        op.describe = &trial->describe;
    /* The counts beside a reaction are of some moment in the batch. */
    if (op.kind == OP_COUNTS || (alone && op_has_user(op.kind) && op_is_write(op.kind)))
        op.counts = trial->counts;
    if (op_is_write(op.kind) && !trial->of_reaction && below(4) == 0) {
        trial->key = (int)below(KEYS_AN_ID);
        op.key = slice_of(keys[trial->key]);
    }
#ifdef RIG_REDIS
    op.exact = true;
    if (trial->id >= COUNTERS)
        forget_key(&op, trial);
#endif
    return op;
}

/* ---- comparing ---- */

static void compare(const struct op *op, const struct trial *trial)
{
    struct number value = number_of_wide(trial->code == ERR_OK ? trial->value : 0);
    /* What another node has added is known a moment later; a read that asks for it is exact. */
    bool is_estimate = has_other && op->kind == OP_ADD;
    bool same = op->code == trial->code && op->changed == trial->changed &&
                op->repeated == trial->repeated && op->held == trial->held &&
                (is_estimate || number_compare(&op->value, &value) == 0);
#ifdef RIG_REDIS
    /* Of two reasons to refuse, something that is spread may name the other one. */
    if (trial->code == ERR_KEY_REUSED && op->code == ERR_WRONG_TYPE)
        same = true;
#endif
    if (op->kind == OP_DEADLINE && op->code == ERR_OK)
        same = same && op->deadline_ms == trial->deadline_ms;
    /* What is repeated has the counts of now: of the end of its batch. */
    if (op->counts && op->code == ERR_OK && !op->repeated && !(has_other && op_is_write(op->kind)))
        same = same && memcmp(trial->counts, trial->counts_ought, sizeof(trial->counts)) == 0;
    if (op->kind == OP_DESCRIBE && op->code == ERR_OK) {
        const struct op_describe *is = &trial->describe;
        const struct op_describe *ought = &trial->describe_ought;
        same = same && is->is_item == ought->is_item && is->shards_asked == ought->shards_asked &&
               is->policy == ought->policy && is->has_floor == ought->has_floor &&
               is->floor == ought->floor && is->idle_s == ought->idle_s &&
               is->deadline_ms == ought->deadline_ms;
    }
    if (!same)
        fail_msg("SEED=%llu: op %d on %.*s, user %.*s, key %d: code %d changed %d repeated %d "
                 "held %d value %s; ought to be code %d changed %d repeated %d held %d value %s",
                 (unsigned long long)seed, op->kind, SLICE_ARGS(op->id), SLICE_ARGS(op->user),
                 trial->key, op->code, op->changed, op->repeated, op->held, rig_text(&op->value),
                 trial->code, trial->changed, trial->repeated, trial->held, rig_text(&value));
    number_done(&value);
}

static void compare_members(unsigned i)
{
    for (uint8_t kind = 1; kind <= 2; kind++) {
        struct rig_lines is = rig_members(&rig, slice_of(ids[i]), kind, 1 + below(200));
        struct rig_lines ought = {0};
        for (unsigned user = 0; user < USERS; user++)
            if (model[i].held[user] == kind)
                rig_line(&ought, slice_of(users[user]));
        rig_sort(&ought);
        assert_int_equal(is.count, ought.count);
        for (size_t n = 0; n < is.count; n++)
            assert_string_equal(is.lines[n], ought.lines[n]);
        rig_lines_done(&is);
        rig_lines_done(&ought);
    }
}

static void compare_everything(void)
{
    for (unsigned i = 0; i < IDS; i++) {
        if (is_expired(&model[i]))
            clear(&model[i]);
        struct number value;
        if (model[i].type == ITEM)
            compare_members(i);
        if (model[i].type == COUNTER) {
            struct number ought = number_of_wide(model[i].value);
            assert_int_equal(hot_recount(rig.hot, slice_of(ids[i]), &value), ERR_OK);
            assert_int_equal(number_compare(&value, &ought), 0);
            number_done(&value);
            number_done(&ought);
        }
    }
}

/* ---- the run ---- */

/* Which of two users of an item is the first to use a key is not said for one
 * batch: does the last of these trials do that? */
static bool is_used_by_another(const struct trial *trials, unsigned last)
{
    for (unsigned i = 0; i < last; i++)
        if (trials[i].id == trials[last].id && trials[i].key == trials[last].key &&
            trials[i].user != trials[last].user)
            return true;
    return false;
}

static struct rig *next_node(void)
{
#ifdef RIG_REDIS
    if (has_other) {
        other.now_ms = rig.now_ms;
        return below(2) ? &rig : &other;
    }
#endif
    return &rig;
}

static void run_a_batch(void)
{
    static struct op ops[BATCH_MAX];
    static struct trial trials[BATCH_MAX];
    unsigned size = below(3) ? 1 + below(BATCH_MAX) : 1;
    for (unsigned i = 0; i < size; i++) {
        ops[i] = random_op(&trials[i], size == 1);
        if (is_used_by_another(trials, i)) {
            trials[i].key = -1;
            ops[i].key = (struct slice){0};
        }
        ask_model(&ops[i], &trials[i]);
    }
    rig_run(next_node(), below(rig.workers), ops, size);
    for (unsigned i = 0; i < size; i++) {
        compare(&ops[i], &trials[i]);
        number_done(&ops[i].value);
        number_done(&ops[i].amount);
    }
}

static void do_something_else(void)
{
    switch (below(6)) {
    case 0:
        rig.now_ms += below(1200);
        break;
    case 1:
    case 2:
        hot_tick(rig.hot, rig.now_ms);
        break;
    default:
        hot_reshard(rig.hot, slice_of(ids[below(IDS)]), 1 + (below(2) ? below(SHARDS_MAX) : 0),
                    rig.now_ms);
        break;
    }
}

static void name_everything(void)
{
    for (unsigned i = 0; i < IDS; i++) {
        snprintf(ids[i], sizeof(ids[i]), "%s%u", i < COUNTERS ? "c" : "item", i);
        snprintf(likes[i], sizeof(likes[i]), "%s%u/like", i < COUNTERS ? "c" : "item", i);
        clear(&model[i]);
    }
    for (unsigned i = 0; i < USERS; i++) {
        if (i % 3 == 0)
            snprintf(users[i], sizeof(users[i]), "%u", i * 7127u);
        else if (i % 3 == 1)
            snprintf(users[i], sizeof(users[i]), "u%u", i);
        else
            snprintf(users[i], sizeof(users[i]), "%08x-0000-4000-8000-00000000000a", i);
    }
    for (unsigned i = 0; i < KEYS_AN_ID; i++)
        snprintf(keys[i], sizeof(keys[i]), "k%u", i);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void open_other(void)
{
#ifdef RIG_REDIS
    has_other = seed % NODES == 0;
    other = (struct rig){.workers = rig.workers,
                         .keys_kept_ms = KEPT_MS,
                         .spread_rate = rig.spread_rate,
                         .prefix = rig.own_prefix};
    if (has_other)
        rig_open(&other);
#endif
}

static void close_other(void)
{
#ifdef RIG_REDIS
    if (has_other)
        rig_close(&other);
#endif
}

static void run_seed(double until)
{
    rng = (struct sim_rng){seed};
    memset(model, 0, sizeof(model));
    name_everything();
    rig = (struct rig){.workers = 1 + below(4),
                       .keys_kept_ms = KEPT_MS,
                       .spread_rate = below(2) ? 50 : 0,
                       .keys_forgotten = true};
    rig_open(&rig);
    open_other();
    for (unsigned round = 0; round < 3 && seconds() < until; round++) {
        for (unsigned i = 0; i < BATCHES && seconds() < until; i++) {
            run_a_batch();
            if (below(3) == 0)
                do_something_else();
        }
        compare_everything();
        if (!has_other)
            rig_restart(&rig);
        compare_everything();
    }
    close_other();
    rig_close(&rig);
}

TEST(every_answer_is_what_the_model_says)
{
    const char *given = getenv("SEED");
    double until = seconds() + SECONDS_ALL;
    seed = given ? strtoull(given, NULL, 10) : 1;
    unsigned runs = 0;
    for (; seconds() < until; seed++, runs++) {
        run_seed(given ? until + 1e9 : until);
        if (given)
            break;
    }
    assert_true(runs > 0 || given);
}

#endif
