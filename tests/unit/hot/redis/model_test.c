/* model_test.c - two nodes on one Redis against plain arrays: ops, a relay, a store that lags,
 * dropping and loading, and cells that are lost, come back behind, or are another process.
 *
 * The log is the truth: what was relayed is kept for good. When a cell loses data, what it had not
 * relayed is gone, and the arrays are made anew from the log. */
#include "unit/hot/redis/rig.h"

#include <pthread.h>

#include "base/decimal.h"
#include "core/bucket.h"
#include "core/event.h"
#include "core/key.h"
#include "hot/redis/drop.h"

/* servers: redis */
/* servers: cluster */
/* threads */

#define IDS       10u /* the first half counters, the rest items */
#define USERS     24u
#define KEYS      16u
#define WHOLE_MAX 6u /* members of an item that the store gives in one piece */
#define STEPS     3000u
#define LOG_MAX   20000u
#define KEPT_MAX  400u

/* ---- what is true ---- */

struct truth {
    bool exists[IDS];
    int64_t values[IDS];
    uint8_t held[IDS][USERS];
    bool has_key[IDS][KEYS];
    int64_t key_values[IDS][KEYS];
    uint64_t fingerprints[IDS][KEYS];
    uint32_t incarnations[IDS];
};

struct logged {
    enum event_type type;
    unsigned id;
    unsigned user;
    uint8_t after;
    int64_t amount;
    uint32_t incarnation;
    uint32_t next_incarnation;
    int key; /* -1 = none */
    int64_t key_value;
    uint64_t fingerprint;
    unsigned after_origin;
    uint64_t after_sequence;
    unsigned cell;
    uint64_t sequence;
};

/* A key of Redis as it was once. */
struct kept {
    char *name;
    size_t name_size;
    char *dump;
    size_t dump_size;
};

struct model {
    struct rig rig;
    struct hot *nodes[2];
    struct truth now;    /* what every answer has to agree with */
    struct truth stored; /* the store */
    struct logged *log;
    atomic_size_t log_count;         /* grows under the lock, and is looked at without it */
    size_t applied[LIMIT_CELLS];     /* how far the store is in the log, by cell */
    uint64_t sequences[LIMIT_CELLS]; /* of the store */
    uint64_t relayed[LIMIT_CELLS];
    uint64_t ends[LIMIT_CELLS]; /* of the log */
    uint32_t deletions[LIMIT_CELLS];
    struct kept kept[KEPT_MAX]; /* of one cell, now and then */
    size_t kept_count;
    unsigned kept_cell;
    uint64_t random;
    bool spreads; /* things are spread over cells, too: a thread relays all the time */
    pthread_t relay;
    _Atomic bool is_stopping;
    pthread_mutex_t lock; /* of log and store */
    unsigned losses;
    unsigned loads;
};

static struct model model;

static unsigned pick(unsigned below)
{
    model.random = model.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(model.random >> 33) % below;
}

/* Written before there are threads, which all read them. */
static char id_names[IDS][16];
static char user_names[USERS][16];
static char key_names[KEYS][16];

static void make_names(void)
{
    for (unsigned id = 0; id < IDS; id++)
        snprintf(id_names[id], sizeof(id_names[id]), "%s%u", id < IDS / 2 ? "c" : "i", id);
    for (unsigned user = 0; user < USERS; user++) /* even ones are numbers by themselves */
        snprintf(user_names[user], sizeof(user_names[user]), user % 2 ? "user%u" : "%u", user);
    for (unsigned key = 0; key < KEYS; key++)
        snprintf(key_names[key], sizeof(key_names[key]), "k%u", key);
}

static const char *id_name(unsigned id)
{
    return id_names[id];
}

/* The number behind the first letter. */
static unsigned id_of(struct slice name)
{
    uint64_t number = 0;
    assert_true(decimal_parse_unsigned((struct slice){name.data + 1, name.size - 1}, &number));
    return (unsigned)number;
}

static const char *user_name(unsigned user)
{
    return user_names[user];
}

static unsigned user_of(struct slice name)
{
    for (unsigned user = 0; user < USERS; user++)
        if (slice_equal(slice_of(user_name(user)), name))
            return user;
    fail_msg("a user that is nobody");
    return 0;
}

static const char *key_name(unsigned key)
{
    return key_names[key];
}

static int64_t count_of(const struct truth *truth, unsigned id, uint8_t kind)
{
    int64_t count = 0;
    for (unsigned user = 0; user < USERS; user++)
        count += truth->held[id][user] == kind;
    return count;
}

/* ---- the log ---- */

static void apply(struct truth *truth, const struct logged *event)
{
    unsigned id = event->id;
    if (event->key >= 0) {
        truth->has_key[id][event->key] = true;
        truth->key_values[id][event->key] = event->key_value;
        truth->fingerprints[id][event->key] = event->fingerprint;
    }
    switch (event->type) {
    case EVENT_DELETE:
        truth->exists[id] = false;
        truth->values[id] = 0;
        memset(truth->held[id], 0, sizeof(truth->held[id]));
        return;
    case EVENT_ADD:
    case EVENT_RESET:
        truth->values[id] += event->amount;
        break;
    case EVENT_REACT:
        truth->held[id][event->user] = event->after;
        break;
    default:
        return;
    }
    if (!truth->exists[id])
        truth->incarnations[id] = event->incarnation;
    truth->exists[id] = true;
}

static enum err take_section(void *arg, unsigned cell, struct slice section, uint64_t last,
                             struct error *error)
{
    struct section_reader reader;
    struct event event;
    (void)arg;
    (void)error;
    assert_int_equal(section_open(&reader, section, NULL), ERR_OK);
    while (section_next(&reader, &event, NULL) == ERR_OK) {
        assert_true(model.log_count < LOG_MAX);
        struct logged *logged = &model.log[model.log_count];
        *logged = (struct logged){.type = event.type,
                                  .id = event.type == EVENT_AFTER ? 0 : id_of(event.id),
                                  .after = kinds_find(&model.rig.kinds, event.after),
                                  .amount = event.amount.small,
                                  .incarnation = event.incarnation,
                                  .next_incarnation = event.next_incarnation,
                                  .key = -1,
                                  .after_origin = event.after_origin,
                                  .after_sequence = event.after_sequence,
                                  .cell = cell,
                                  .sequence = event.sequence};
        if (event.type == EVENT_REACT)
            logged->user = user_of(event.user);
        if (event.key.size > 0) {
            logged->key = (int)id_of(event.key);
            logged->key_value = event.answer.value.small;
            logged->fingerprint = event.answer.fingerprint;
        }
        if (event.sequence > model.ends[cell]) { /* else a repetition */
            assert_true(sequence_follows(model.ends[cell], event.sequence));
            model.ends[cell] = event.sequence;
            model.log_count++;
        }
        event_done(&event);
    }
    model.relayed[cell] = last;
    return ERR_OK;
}

/* Everything of these cells' outboxes goes into the log. */
static void relay_cells(struct hot *hot, uint64_t cells)
{
    struct outbox *outbox = rig_outbox(hot);
    uint64_t told;
    uint64_t stale;
    uint64_t after[LIMIT_CELLS] = {0};
    memset(model.relayed, 0, sizeof(model.relayed));
    assert_int_equal(outbox->ops->read(outbox, cells, after, 10000, take_section, NULL, NULL),
                     ERR_OK);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (model.relayed[cell] == 0)
            cells &= ~rig_bit(cell);
    if (cells != 0)
        assert_int_equal(
            outbox->ops->relayed(outbox, cells, model.relayed, NULL, &told, &stale, NULL), ERR_OK);
}

static void relay(struct hot *hot, unsigned cell)
{
    relay_cells(hot, rig_bit(cell));
}

/* A store takes what is of an earlier life for late, and lets nothing be made by it. */
static void check_incarnation(const struct logged *event)
{
    if (!event_changes(event->type))
        return;
    if (model.stored.exists[event->id])
        assert_int_equal(event->incarnation, model.stored.incarnations[event->id]);
    else
        assert_true(event->incarnation >= model.deletions[rig_home(id_name(event->id))]);
}

static void store_cell(unsigned cell, size_t count)
{
    for (size_t *at = &model.applied[cell]; *at < model.log_count && count > 0; ++*at) {
        const struct logged *event = &model.log[*at];
        if (event->cell != cell)
            continue;
        if (event->type == EVENT_AFTER &&
            model.sequences[event->after_origin] < event->after_sequence)
            return;
        check_incarnation(event);
        apply(&model.stored, event);
        if (event->type == EVENT_DELETE)
            model.deletions[cell] = event->next_incarnation;
        model.sequences[cell] = event->sequence;
        count--;
    }
}

/* Cells wait for one another where something has moved. */
static void store_all(void)
{
    for (unsigned round = 0; round < LIMIT_CELLS; round++)
        for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
            store_cell(cell, SIZE_MAX);
}

static void relay_all(struct hot *hot)
{
    relay_cells(hot, UINT64_MAX);
}

static void tell_saved(void)
{
    hot_saved(model.nodes[0], model.sequences);
    hot_saved(model.nodes[1], model.sequences);
}

/* ---- the store's answers ---- */

static size_t list_members(unsigned id, uint32_t slice, struct slice *names,
                           struct state_members *ret)
{
    size_t sets = 0;
    for (uint8_t kind = LIKE; kind <= DISLIKE; kind++) {
        size_t count = 0;
        for (unsigned user = 0; user < USERS; user++) {
            struct slice name = slice_of(user_name(user));
            if (model.stored.held[id][user] == kind &&
                (slice == STATE_SLICES ||
                 bucket_slice(bucket_of(slice_of(id_name(id)), name)) == slice))
                names[count++] = name;
        }
        ret[sets++] = (struct state_members){.kind = kinds_name(&model.rig.kinds, kind),
                                             .named = true, /* a number's name is one as well */
                                             .names = names,
                                             .count = count};
        names += count;
    }
    return sets;
}

static void answer_target(struct hot *hot, const struct hot_want *want, struct hot_found *found)
{
    unsigned id = id_of(want->id);
    const struct truth *stored = &model.stored;
    struct slice kinds[] = {SLICE("like"), SLICE("dislike")};
    struct slice names[USERS];
    struct state_members members[2];
    int64_t counts[] = {count_of(stored, id, LIKE), count_of(stored, id, DISLIKE)};
    bool is_large = counts[0] + counts[1] > WHOLE_MAX;
    struct state_target target = {.id = want->id,
                                  .is_item = id >= IDS / 2,
                                  .incarnation = stored->incarnations[id],
                                  .written_ms = 1000,
                                  .create = {.shards = 1},
                                  .value = number_of(stored->values[id]),
                                  .kinds = kinds,
                                  .counts = counts,
                                  .kind_count = 2,
                                  .slices = is_large ? STATE_SLICES : 1,
                                  .members = members};
    if (!is_large)
        target.member_count = list_members(id, STATE_SLICES, names, members);
    if (stored->exists[id]) {
        found->code = ERR_OK;
        found->target = &target;
    }
    hot_loaded(hot, want, found);
}

static void answer_slice(struct hot *hot, const struct hot_want *want, struct hot_found *found)
{
    struct slice names[USERS];
    struct state_members members[2];
    found->code = ERR_OK;
    found->members = members;
    found->member_count = list_members(id_of(want->id), want->slice, names, members);
    hot_loaded(hot, want, found);
}

static void answer_key(struct hot *hot, const struct hot_want *want, struct hot_found *found)
{
    struct state_key key;
    for (unsigned id = 0; id < IDS; id++)
        for (unsigned i = 0; i < KEYS; i++) {
            struct hash128 hash = key_hash(slice_of(id_name(id)), slice_of(key_name(i)));
            if (hash.low != want->key_low || hash.high != want->key_high ||
                !model.stored.has_key[id][i])
                continue;
            key = (struct state_key){.low = hash.low,
                                     .high = hash.high,
                                     .fingerprint = model.stored.fingerprints[id][i],
                                     .changed = true,
                                     .value = number_of(model.stored.key_values[id][i]),
                                     .time_ms = env_wall_ms(env_system())};
            found->code = ERR_OK;
            found->key = &key;
        }
    hot_loaded(hot, want, found);
}

static void load(struct hot *hot)
{
    struct hot_want want;
    while (hot_wanted(hot, &want)) {
        struct hot_found found = {.code = ERR_NOT_FOUND, .sequences = model.sequences};
        model.loads++;
        pthread_mutex_lock(&model.lock);
        if (want.kind == HOT_WANT_TARGET)
            answer_target(hot, &want, &found);
        else if (want.kind == HOT_WANT_SLICE)
            answer_slice(hot, &want, &found);
        else
            answer_key(hot, &want, &found);
        pthread_mutex_unlock(&model.lock);
    }
}

/* ---- ops ---- */

static void catch_up(struct hot *hot, unsigned cell)
{
    pthread_mutex_lock(&model.lock);
    relay(hot, cell);
    store_cell(cell, SIZE_MAX);
    pthread_mutex_unlock(&model.lock);
}

/* What is moved waits for the log and the store. */
static void *run_relay(void *arg)
{
    while (!atomic_load(&model.is_stopping)) {
        pthread_mutex_lock(&model.lock);
        relay_all(arg);
        store_all();
        tell_saved();
        pthread_mutex_unlock(&model.lock);
        usleep(2000);
    }
    return NULL;
}

static bool is_done(const struct op *op)
{
    return op->code != ERR_COLD && op->code != ERR_UNAVAILABLE && !op->stale &&
           op->shards_missing == 0;
}

/* Runs it until it is done; the store catches up when it has to. */
static struct op finish(struct op op)
{
    struct hot *hot = model.nodes[pick(2)];
    struct op done = rig_run(hot, op);
    for (unsigned i = 0; !is_done(&done); i++) {
        if (i == 2000)
            fail_msg("'%.*s' waits for ever: %d", SLICE_ARGS(op.id), done.code);
        load(hot);
        if (i > 1)
            usleep(5000);
        if (i % 50 == 5)
            catch_up(hot, rig_home(id_name(id_of(op.id))));
        done = rig_run(hot, op);
    }
    return done;
}

static void add_to(unsigned id, int key)
{
    struct truth *now = &model.now;
    int64_t amount = key >= 0 ? key + 1 : (int64_t)pick(100) + 1;
    struct op op = rig_add(id_name(id), amount);
    if (key >= 0)
        op.key = slice_of(key_name((unsigned)key));
    op = finish(op);
    assert_int_equal(op.code, ERR_OK);
    if (key >= 0 && now->has_key[id][key]) {
        assert_true(op.repeated);
        if (!model.spreads)
            assert_int_equal(op.value.small, now->key_values[id][key]);
        return;
    }
    assert_false(op.repeated);
    now->exists[id] = true;
    now->values[id] += amount;
    if (!model.spreads) /* else it is a total of a moment ago */
        assert_int_equal(op.value.small, now->values[id]);
    if (key >= 0) {
        now->has_key[id][key] = true;
        now->key_values[id][key] = op.value.small;
    }
}

static void check_counter(unsigned id)
{
    struct op get = rig_get(id_name(id));
    get.exact = true;
    struct op op = finish(get);
    assert_int_equal(op.code, model.now.exists[id] ? ERR_OK : ERR_NOT_FOUND);
    if (!op.code)
        assert_int_equal(op.value.small, model.now.values[id]);
}

static void check_item(unsigned id)
{
    int64_t counts[LIMIT_KINDS];
    struct op op = finish((struct op){
        .kind = OP_COUNTS, .id = slice_of(id_name(id)), .exact = true, .counts = counts});
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(counts[0], count_of(&model.now, id, LIKE));
    assert_int_equal(counts[1], count_of(&model.now, id, DISLIKE));
}

static void react(unsigned id, unsigned user)
{
    uint8_t *held = &model.now.held[id][user];
    struct op op = {.kind = pick(4) == 0 ? OP_WITHDRAW : OP_REACT,
                    .id = slice_of(id_name(id)),
                    .user = slice_of(user_name(user)),
                    .reaction = (uint8_t)(1 + pick(2))};
    uint8_t after = op.kind == OP_REACT ? op.reaction : *held == op.reaction ? KIND_NONE : *held;
    struct op done = finish(op);
    assert_int_equal(done.code, ERR_OK);
    assert_int_equal(done.changed, after != *held);
    assert_int_equal(done.held, after);
    *held = after;
    model.now.exists[id] |= done.changed;
}

static void delete_id(unsigned id)
{
    struct op op = finish((struct op){.kind = OP_DELETE, .id = slice_of(id_name(id))});
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.changed, model.now.exists[id]);
    model.now.exists[id] = false;
    model.now.values[id] = 0;
    memset(model.now.held[id], 0, sizeof(model.now.held[id]));
}

static void some_op(void)
{
    unsigned id = pick(IDS);
    bool is_item = id >= IDS / 2;
    unsigned what = pick(20);
    if (what == 0)
        delete_id(id);
    else if (what < 5)
        is_item ? check_item(id) : check_counter(id);
    else if (is_item)
        react(id, pick(USERS));
    else
        add_to(id, what < 9 ? (int)pick(KEYS) : -1);
}

/* ---- trouble ---- */

static void for_each_key(unsigned cell, void (*visit)(const char *name, size_t size))
{
    char pattern[128];
    struct rig *rig = &model.rig;
    /* to whoever has the cell */
    RIG_DO(rig, "EXISTS", rig_key(rig, model.nodes[0], cell, "cell"));
    snprintf(pattern, sizeof(pattern), "%s", rig_key(rig, model.nodes[0], cell, "*"));
    redisReply *reply = redisCommand(rig->redis, "KEYS %s", pattern);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < reply->elements; i++)
        visit(reply->element[i]->str, (size_t)reply->element[i]->len);
    freeReplyObject(reply);
}

static void remove_key(const char *name, size_t size)
{
    freeReplyObject(redisCommand(model.rig.redis, "DEL %b", name, size));
}

static void keep_key(const char *name, size_t size)
{
    redisReply *reply = redisCommand(model.rig.redis, "DUMP %b", name, size);
    assert_true(model.kept_count < KEPT_MAX);
    if (reply->type == REDIS_REPLY_STRING) {
        struct kept *kept = &model.kept[model.kept_count++];
        *kept = (struct kept){malloc(size), size, malloc((size_t)reply->len), (size_t)reply->len};
        memcpy(kept->name, name, size);
        memcpy(kept->dump, reply->str, kept->dump_size);
    }
    freeReplyObject(reply);
}

static void forget_kept(void)
{
    for (size_t i = 0; i < model.kept_count; i++) {
        free(model.kept[i].name);
        free(model.kept[i].dump);
    }
    model.kept_count = 0;
}

static void keep_cell(void)
{
    forget_kept();
    model.kept_cell = rig_home(id_name(pick(IDS)));
    for_each_key(model.kept_cell, keep_key);
}

static void bring_back_kept(void)
{
    for_each_key(model.kept_cell, remove_key);
    for (size_t i = 0; i < model.kept_count; i++) {
        const struct kept *kept = &model.kept[i];
        freeReplyObject(redisCommand(model.rig.redis, "RESTORE %b 0 %b", kept->name,
                                     kept->name_size, kept->dump, kept->dump_size));
    }
}

/* What the cell had not relayed is gone, as far as anybody knows. */
static void forget_unlogged(unsigned cell)
{
    struct truth log = {.exists = {false}};
    for (size_t i = 0; i < model.log_count; i++)
        if (model.log[i].cell == cell)
            apply(&log, &model.log[i]);
    for (unsigned id = 0; id < IDS; id++) {
        if (rig_home(id_name(id)) != cell)
            continue;
        model.now.exists[id] = log.exists[id];
        model.now.values[id] = log.values[id];
        memcpy(model.now.held[id], log.held[id], sizeof(log.held[id]));
        memcpy(model.now.has_key[id], log.has_key[id], sizeof(log.has_key[id]));
        memcpy(model.now.key_values[id], log.key_values[id], sizeof(log.key_values[id]));
    }
}

/* As flow's relay does it. */
static void open_again(struct hot *hot, unsigned cell)
{
    struct outbox *outbox = rig_outbox(hot);
    uint64_t epoch;
    uint64_t last;
    relay_cells(hot, ~rig_bit(cell));
    assert_int_equal(
        outbox->ops->begin(outbox, cell, sequence_epoch(model.ends[cell]), &epoch, &last, NULL),
        ERR_OK);
    relay(hot, cell);
    store_all();
    bool keep = last == model.ends[cell] && last != 0;
    if (!model.spreads)
        forget_unlogged(cell);
    assert_int_equal(model.sequences[cell], model.ends[cell]);
    uint64_t n = keep ? 0 : 1; /* of its EPOCH event: see relay_open.c */
    model.ends[cell] = model.sequences[cell] = sequence_of(epoch, n);
    tell_saved();
    enum err err = ERR_UNAVAILABLE;
    for (unsigned i = 0; err == ERR_UNAVAILABLE && i < 100; i++) {
        err = outbox->ops->open(outbox, cell, epoch, n, keep, model.deletions[cell], NULL);
        if (err) {
            relay_all(hot);
            store_all();
            tell_saved();
        }
    }
    assert_int_equal(err, ERR_OK);
    model.losses++;
}

static void lose_cell(void)
{
    struct hot *hot = model.nodes[pick(2)];
    unsigned cell = rig_home(id_name(pick(IDS)));
    if (model.spreads) {
        cell = pick(2) ? cell : pick(LIMIT_CELLS);
        relay_all(hot); /* what is spread has unlogged events in many cells */
    }
    switch (pick(3)) {
    case 0: /* another process has the same data */
        break;
    case 1:
        for_each_key(cell, remove_key);
        break;
    default:
        if (model.kept_count == 0)
            return;
        cell = model.kept_cell;
        bring_back_kept();
        break;
    }
    RIG_DO(&model.rig, "HSET", rig_key(&model.rig, hot, cell, "cell"), "run", "another");
    open_again(hot, cell);
}

static void some_trouble(void)
{
    unsigned cell = rig_home(id_name(pick(IDS)));
    if (model.spreads && pick(3) == 0) {
        /* What is not in Redis cannot be spread. */
        (void)hot_reshard(model.nodes[pick(2)], slice_of(id_name(pick(IDS))), 1 + pick(8), 0);
        return;
    }
    unsigned what = pick(12);
    pthread_mutex_lock(&model.lock);
    switch (what) {
    case 0:
        lose_cell();
        break;
    case 1:
        keep_cell();
        break;
    case 2:
    case 3:
    case 4:
        relay(model.nodes[pick(2)], cell);
        break;
    case 5:
    case 6:
        store_cell(cell, pick(20));
        tell_saved();
        break;
    case 7:
    case 8:
    case 9:
        (void)hot_drop(model.nodes[pick(2)], slice_of(id_name(pick(IDS))));
        break;
    default:
        drops_step(layer_of(model.nodes[0]));
        break;
    }
    pthread_mutex_unlock(&model.lock);
}

/* ---- */

static void check_all(void)
{
    for (unsigned id = 0; id < IDS / 2; id++)
        check_counter(id);
    for (unsigned id = IDS / 2; id < IDS; id++) {
        check_item(id);
        for (unsigned user = 0; user < USERS; user++) {
            struct op op = finish((struct op){.kind = OP_REACTION,
                                              .id = slice_of(id_name(id)),
                                              .user = slice_of(user_name(user))});
            assert_int_equal(op.held, model.now.held[id][user]);
        }
    }
}

static void check_store(void)
{
    relay_all(model.nodes[0]);
    store_all();
    for (unsigned id = 0; id < IDS; id++) {
        assert_int_equal(model.stored.exists[id], model.now.exists[id]);
        assert_int_equal(model.stored.values[id], model.now.values[id]);
        assert_memory_equal(model.stored.held[id], model.now.held[id], USERS);
    }
}

/* Whoever relays adds to the log meanwhile, and hardly ever lets go of the lock. */
static bool log_has_room(void)
{
    return model.log_count < LOG_MAX - 2000;
}

static void open_model(uint64_t seed, bool spreads)
{
    make_names();
    model = (struct model){.random = seed, .spreads = spreads};
    model.log = calloc(LOG_MAX, sizeof(*model.log));
    rig_open(&model.rig);
    model.rig.options.retention_ms = 20;
    model.nodes[0] = rig_node(&model.rig);
    model.nodes[1] = rig_node(&model.rig);
    rig_open_all(model.nodes[0]);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        model.ends[cell] = model.sequences[cell] = sequence_of(1, 0);
    rig_begin(model.nodes[0]);
    rig_begin(model.nodes[1]);
    tell_saved();
    pthread_mutex_init(&model.lock, NULL);
    if (spreads)
        assert_int_equal(pthread_create(&model.relay, NULL, run_relay, model.nodes[0]), 0);
}

static void close_model(void)
{
    rig_close(&model.rig);
    forget_kept();
    free(model.log);
}

static void run_model(bool spreads)
{
    const char *text = getenv("TALLY_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    printf("TALLY_SEED=%llu\n", (unsigned long long)seed);
    open_model(seed, spreads);
    for (unsigned i = 0; i < (spreads ? STEPS / 3 : STEPS) && log_has_room(); i++) {
        if (pick(8) == 0)
            some_trouble();
        else
            some_op();
        if (i % 500 == 499)
            check_all();
    }
    check_all();
    atomic_store(&model.is_stopping, true);
    if (spreads)
        pthread_join(model.relay, NULL);
    check_store();
    printf("%zu events, %u losses, %u loads\n", model.log_count, model.losses, model.loads);
    close_model();
}

TEST(two_nodes_agree_with_arrays_whatever_is_dropped_loaded_and_lost)
{
    run_model(false);
}

TEST(they_do_so_also_while_things_are_spread_over_cells)
{
    run_model(true);
}

RUN(cmocka_unit_test(two_nodes_agree_with_arrays_whatever_is_dropped_loaded_and_lost),
    cmocka_unit_test(they_do_so_also_while_things_are_spread_over_cells))
