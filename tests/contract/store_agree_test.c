/* Stores that are given the same agree on everything: SQLite, PostgreSQL with rows, PostgreSQL with
 * sets. Random batches of a seed, with deletions, late units, refusals and retries. So do those
 * that were filled from one of them, and go on.
 *
 *   TALLY_SEED=7 STORE_BATCHES=1000 contract_store_agree_test */
/* servers: postgres */
/* threads */
#include "contract/store_cases.h"
#include "contract/store_postgres.h"
#include "contract/store_sqlite.h"

#define STORES 3
#define IDS    12
#define USERS  40

static struct store *open_rows(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_ROWS, false);
}

static struct store *open_sets(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_SETS, false);
}

static const struct form stores[STORES] = {
    {.name = "sqlite", .open = open_sqlite, .refuse = refuse_sqlite, .accept = accept_sqlite},
    {.name = "postgres", .open = open_rows, .refuse = postgres_refuse, .accept = postgres_accept},
    {.name = "sets", .open = open_sets, .refuse = postgres_refuse, .accept = postgres_accept},
};
static struct rig *rigs[STORES];
static int store_count = STORES; /* the first of them are at work */

/* ---- what is to happen: drawn once, done to each ---- */

struct act {
    enum { ACT_ADD, ACT_REACT, ACT_ERASED, ACT_DELETE, ACT_ANEW, ACT_LATE, ACT_CREATE } type;
    unsigned id;
    unsigned user;
    const char *kind;
    int64_t delta;
};

struct model {
    uint64_t state; /* of the random numbers */
    char ids[IDS][16];
    bool is_item[IDS];
    uint32_t incarnations[IDS];
    char users[USERS][16];
    bool refuses;
};
static struct model model;

static uint64_t draw(uint64_t below)
{
    model.state ^= model.state << 13;
    model.state ^= model.state >> 7;
    model.state ^= model.state << 17;
    return model.state % below;
}

/* Of those that may be refused only the simplest things are asked: retries are remade by hand. */
static bool may_be_refused(unsigned id)
{
    return id % 6 == 5;
}

static void name_all(uint64_t seed)
{
    model = (struct model){.state = seed * 0x9e3779b97f4a7c15u + 1};
    for (unsigned i = 0; i < IDS; i++) {
        model.is_item[i] = i >= IDS / 2;
        snprintf(model.ids[i], sizeof(model.ids[i]), "%s%s%u", may_be_refused(i) ? "bad-" : "",
                 model.is_item[i] ? "v" : "c", i);
    }
    for (unsigned i = 0; i < USERS; i++)
        snprintf(model.users[i], sizeof(model.users[i]), i % 2 ? "name-%u" : "%u", i * 7);
}

static struct act draw_act(void)
{
    static const char *const kinds[] = {"like", "dislike", "wow", ""};
    struct act act = {.id = (unsigned)draw(IDS), .user = (unsigned)draw(USERS)};
    bool is_plain = may_be_refused(act.id);
    uint64_t dice = draw(100);
    act.kind = is_plain ? "like" : kinds[draw(4)];
    act.delta = draw(50) == 0 ? INT64_MAX : (int64_t)draw(20) - 9;
    act.type = model.is_item[act.id] ? ACT_REACT : ACT_ADD;
    if (is_plain || dice < 80)
        return act;
    act.type = dice < 84   ? ACT_DELETE
               : dice < 90 ? ACT_ANEW
               : dice < 94 ? ACT_LATE
               : dice < 97 ? ACT_CREATE
                           : act.type;
    if (dice >= 97 && model.is_item[act.id])
        act.type = ACT_ERASED;
    return act;
}

static void add_or_react(const struct act *act)
{
    const char *id = model.ids[act->id];
    if (model.is_item[act->id])
        rig_react(rig, id, model.users[act->user], "", act->kind);
    else
        rig_add(rig, id, act->delta);
}

static void do_act(const struct act *act)
{
    bool is_item = model.is_item[act->id];
    struct store_unit *unit = rig_unit(rig, model.ids[act->id], is_item);
    uint32_t incarnation = model.incarnations[act->id];
    unit->incarnation = incarnation;
    switch (act->type) {
    case ACT_ADD:
    case ACT_REACT:
        add_or_react(act);
        break;
    case ACT_ERASED:
        add_or_react(act);
        rig->reactions[unit - rig->units][unit->reaction_count - 1].erased = true;
        break;
    case ACT_DELETE:
        unit->is_gone = true;
        break;
    case ACT_ANEW:
        unit->is_new = true;
        unit->incarnation = incarnation + 1;
        add_or_react(act);
        break;
    case ACT_LATE:
        unit->incarnation = incarnation > 0 ? incarnation - 1 : 0;
        unit->may_create = incarnation == 0;
        add_or_react(act);
        break;
    case ACT_CREATE:
        unit->has_create = true;
        unit->create = (struct op_create){.shards = is_item ? 4 : 1 + (uint32_t)act->user % 3,
                                          .policy = is_item ? POLICY_LOCAL : POLICY_RANDOM};
        break;
    }
}

/* Several acts of one id in a batch are one unit: only adding and reacting goes together. */
static size_t draw_acts(struct act *acts, size_t most)
{
    size_t count = 0;
    bool used[IDS] = {false};
    for (size_t i = 0; i < most; i++) {
        struct act act = draw_act();
        if (used[act.id] && (act.type > ACT_REACT))
            continue;
        bool is_alone = false;
        for (size_t j = 0; j < count; j++)
            is_alone |= acts[j].id == act.id && acts[j].type > ACT_REACT;
        if (is_alone)
            continue;
        used[act.id] = true;
        acts[count++] = act;
    }
    return count;
}

/* ---- do they agree? ---- */

static void assert_same(const char *what, const char *name, const char *texts[STORES])
{
    for (int i = 1; i < store_count; i++) {
        if (strcmp(texts[0], texts[i]) != 0)
            fail_msg("%s of %s:\n%-10s %s\n%-10s %s", what, name, stores[0].name, texts[0],
                     stores[i].name, texts[i]);
    }
}

typedef const char *answer_fn(const char *name);

static const char *load_answer(const char *name)
{
    return rig_load(rig, name);
}

static const char *past_answer(const char *name)
{
    return past(name, "");
}

/* In no order that was promised. */
static const char *held_answer(const char *name)
{
    static char sorted[STORES][400];
    static int next;
    char *to = sorted[next++ % STORES];
    const char *found = items_of(name);
    size_t size = 0;
    to[0] = 0;
    for (unsigned i = 0; i < IDS; i++) {
        char word[24];
        snprintf(word, sizeof(word), "%s=", model.ids[i]);
        const char *at = strstr(found, word);
        if (at)
            size += (size_t)snprintf(to + size, sizeof(sorted[0]) - size, "%.*s ",
                                     (int)strcspn(at, " "), at);
    }
    return to;
}

/* Who is in which slice of an item that has some: a number for all of them. */
static void add_slice(void *arg, const struct state_members *members, size_t count,
                      const struct event *pending, size_t pending_count)
{
    uint64_t *sum = arg;
    (void)pending;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < members[i].count; j++) {
            uint64_t member[3] = {members[i].numbers[j], members[i].named,
                                  hash_stable(members[i].kind)};
            sum[1] += hash_stable_seeded((struct slice){(char *)member, sizeof(member)}, sum[0]);
            sum[2]++;
        }
    }
    sum[2] += pending_count << 32;
}

static const char *slices_answer(const char *name)
{
    uint64_t sum[3] = {0};
    for (uint32_t slice = 0; slice < STATE_SLICES; slice++) {
        sum[0] = slice;
        if (store_load_slice(rig->reader, slice_of(name), slice, add_slice, sum, NULL))
            return "in one piece";
    }
    snprintf(rig->text, sizeof(rig->text), "%llx of %llu", (unsigned long long)sum[1],
             (unsigned long long)sum[2]);
    return rig->text;
}

static const char *lives_answer(const char *name)
{
    struct store_life_filter filter = {.id = slice_of(name)};
    uint64_t cursor = 0;
    rig->text[0] = 0;
    do {
        assert_int_equal(store_lives(rig->reader, &filter, &cursor, 50, print_life, NULL, NULL),
                         ERR_OK);
    } while (cursor != 0);
    return rig->text;
}

static void compare(const char *what, answer_fn *answer, const char *name)
{
    const char *texts[STORES];
    for (int i = 0; i < store_count; i++) {
        rig = rigs[i];
        texts[i] = answer(name);
    }
    assert_same(what, name, texts);
}

static void compare_marks(void)
{
    struct state_mark marks[STORES];
    for (int i = 0; i < store_count; i++) {
        assert_int_equal(store_mark(rigs[i]->store, &marks[i], NULL), ERR_OK);
        assert_int_equal(marks[i].counters, marks[0].counters);
        assert_int_equal(marks[i].items, marks[0].items);
        assert_int_equal(marks[i].members, marks[0].members);
        assert_int_equal(marks[i].next_user, marks[0].next_user);
        assert_memory_equal(marks[i].sequences, marks[0].sequences, sizeof(marks[0].sequences));
    }
}

/* Slices are 64 questions each. What became of each unit is not copied, but for those that wait. */
static void compare_all(bool with_slices, bool with_lives)
{
    for (unsigned i = 0; i < IDS; i++) {
        compare("the state", load_answer, model.ids[i]);
        if (with_lives)
            compare("the lives", lives_answer, model.ids[i]);
        if (with_slices)
            compare("the slices", slices_answer, model.ids[i]);
        if (model.is_item[i])
            compare("the history", past_answer, model.ids[i]);
    }
    for (unsigned i = 0; i < USERS; i += 5)
        compare("what is held", held_answer, model.users[i]);
    compare_marks();
}

/* ---- a run ---- */

static void apply_to_all(const struct act *acts, size_t count)
{
    for (int i = 0; i < store_count; i++) {
        rig = rigs[i];
        for (size_t j = 0; j < count; j++)
            do_act(&acts[j]);
        rig_apply_ok(rig);
    }
    for (size_t j = 0; j < count; j++)
        model.incarnations[acts[j].id] += acts[j].type == ACT_ANEW || acts[j].type == ACT_DELETE;
}

static void refuse_or_accept(void)
{
    model.refuses = !model.refuses;
    for (int i = 0; i < store_count; i++) {
        if (model.refuses)
            stores[i].refuse(rigs[i]->folder, "bad-%", "ABORT");
        else
            stores[i].accept(rigs[i]->folder);
    }
}

/* Some seconds later; what is due is tried, and in the same order. */
static void retry_all(void)
{
    int64_t seconds = 1 + (int64_t)draw(20);
    char results[STORES][2000];
    const char *texts[STORES];
    for (int i = 0; i < store_count; i++) {
        rig = rigs[i];
        rig->now_ms += seconds * 1000;
        results[i][0] = 0;
        for (const char *text = retry_due(); strcmp(text, "nothing") != 0; text = retry_due()) {
            size_t size = strlen(results[i]);
            snprintf(results[i] + size, sizeof(results[i]) - size, "%s, ", text);
        }
        texts[i] = results[i];
    }
    assert_same("what became", "retries", texts);
}

static void deal_with_letters(void)
{
    bool redrive = draw(2) == 0;
    uint64_t counts[STORES];
    for (int i = 0; i < store_count; i++) {
        struct rig *of = rigs[i];
        enum err err = redrive ? store_redrive(of->store, NULL, of->now_ms, &counts[i], NULL)
                               : store_discard(of->store, NULL, of->now_ms, &counts[i], NULL);
        assert_int_equal(err, ERR_OK);
        assert_int_equal(counts[i], counts[0]);
    }
}

/* Retries by hand take up to 16 reactions, so such units are kept small. */
static void one_step(void)
{
    struct act acts[24];
    uint64_t dice = draw(100);
    if (dice < 6)
        refuse_or_accept();
    else if (dice < 18)
        retry_all();
    else if (dice < 20)
        deal_with_letters();
    else if (dice < 22)
        for (int i = 0; i < store_count; i++)
            rig_reopen(rigs[i]);
    else
        apply_to_all(acts, draw_acts(acts, 1 + draw(24)));
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void free_rigs(void)
{
    for (int i = 0; i < store_count; i++) {
        rig_close(rigs[i]);
        if (i > 0)
            postgres_remove(rigs[i]->folder);
        rig_free(rigs[i]);
    }
}

TEST(what_is_given_the_same_is_the_same)
{
    uint64_t seed = number_from("TALLY_SEED", 1);
    uint64_t batches = number_from("STORE_BATCHES", 150);
    printf("seed %llu\n", (unsigned long long)seed);
    name_all(seed);
    for (int i = 0; i < store_count; i++)
        rigs[i] = rig_new(stores[i].open);
    for (uint64_t i = 0; i < batches; i++) {
        one_step();
        if (i % 5 == 4)
            compare_all(i % 50 == 49, true);
    }
    free_rigs();
}

/* ---- copies ---- */

static bool go_on(void *arg, uint64_t rows)
{
    *(uint64_t *)arg = rows;
    return true;
}

/* Knows all that the first rig knows, but for what it has learnt from its store. */
static void fill_from_first(int i)
{
    rigs[i] = rig_new(stores[i].open);
    struct rig *to = rigs[i];
    const struct rig *from = rigs[0];
    uint64_t rows = 0;
    struct error error = {.text = ""};
    assert_int_equal(postgres_store_claim(to->store, "1", "here", false, &error), ERR_OK);
    if (postgres_store_fill(to->store, sqlite_dump, from->reader, go_on, &rows, &error))
        fail_msg("%s: %s", stores[i].name, error.text);
    assert_true(rows > 0);
    to->now_ms = from->now_ms;
    to->sequence = from->sequence;
    to->next_number = from->next_number;
    memcpy(to->names, from->names, sizeof(to->names));
    rig_reopen(to);
    if (model.refuses)
        stores[i].refuse(to->folder, "bad-%", "ABORT");
}

TEST(what_was_copied_is_the_same_and_goes_on_the_same)
{
    uint64_t seed = number_from("TALLY_SEED", 1);
    uint64_t batches = number_from("STORE_BATCHES", 150);
    name_all(seed + 1000);
    store_count = 1;
    rigs[0] = rig_new(stores[0].open);
    for (uint64_t i = 0; i < batches; i++)
        one_step();
    for (int i = 1; i < STORES; i++)
        fill_from_first(i);
    store_count = STORES;
    compare_all(true, false);
    for (uint64_t i = 0; i < batches; i++) {
        one_step();
        if (i % 5 == 4)
            compare_all(i % 50 == 49, false);
    }
    free_rigs();
}

/* The copy would give the row a sum that fits. */
TEST(what_is_not_what_was_written_there_is_not_copied)
{
    static const char *const changes[] = {
        "UPDATE entries SET value = 555 WHERE id = 'c'",
        "UPDATE entries SET type = 2 WHERE id = 'c'",
        "INSERT INTO bases VALUES('c', 0, 7, 1)",
    };
    static const char *const advice[] = {"let an audit", "let an audit", "from a copy, or, with"};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct rig *from = rig_new(stores[0].open);
        struct rig *to = rig_new(stores[1].open);
        rig = from;
        rig_add(from, "c", 1);
        rig_apply_ok(from);
        assert_true(takes_sqlite(from->folder, changes[i]));
        uint64_t rows = 0;
        struct error error = {.text = ""};
        assert_int_equal(postgres_store_claim(to->store, "1", "here", false, &error), ERR_OK);
        assert_int_equal(
            postgres_store_fill(to->store, sqlite_dump, from->reader, go_on, &rows, &error),
            ERR_CORRUPT);
        assert_non_null(strstr(error.text, "is not what was written there"));
        assert_non_null(strstr(error.text, advice[i]));
        rig_close(from);
        rig_free(from);
        rig_close(to);
        postgres_remove(to->folder);
        rig_free(to);
    }
}

/* ---- claims ---- */

TEST(a_machine_and_nodes_never_have_one_store)
{
    struct rig *machine = rig_new(open_rows);
    struct rig *node = rig_new_beside(machine, 1);
    rig = machine;
    uint64_t epoch;
    struct error error = {.text = ""};
    assert_int_equal(postgres_store_claim(machine->store, "7", "old:/data", false, &error), ERR_OK);
    rig_add(machine, "a", 1);
    rig_apply_ok(machine);
    assert_int_equal(postgres_store_is_free(node->store, &error), ERR_BUSY);
    assert_non_null(strstr(error.text, "old:/data"));
    assert_int_equal(store_epoch(node->store, 1, 0, &epoch, &error), ERR_BUSY);
    assert_int_equal(postgres_store_claim(node->store, "8", "other:/data", true, &error),
                     ERR_EXISTS);

    assert_int_equal(postgres_store_release(machine->store, &error), ERR_OK);
    assert_int_equal(postgres_store_is_free(node->store, &error), ERR_OK);
    rig_add(machine, "a", 1);
    assert_int_equal(rig_apply(machine, &error), ERR_UNAVAILABLE); /* it has let go of it */
    assert_int_equal(postgres_store_claim(machine->store, "7", "old:/data", false, &error), ERR_OK);
    assert_int_equal(postgres_store_release(machine->store, &error), ERR_OK);

    assert_int_equal(store_epoch(node->store, 1, 0, &epoch, &error), ERR_OK);
    assert_int_equal(postgres_store_release(machine->store, &error), ERR_OK); /* it was done */
    assert_int_equal(postgres_store_claim(machine->store, "7", "old:/data", true, &error),
                     ERR_EXISTS);
    assert_non_null(strstr(error.text, "many nodes"));
    rig_close(node);
    rig_close(machine);
    postgres_remove(machine->folder);
    rig_free(node);
    rig_free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_the_same_is_the_same),
        cmocka_unit_test(what_was_copied_is_the_same_and_goes_on_the_same),
        cmocka_unit_test(what_is_not_what_was_written_there_is_not_copied),
        cmocka_unit_test(a_machine_and_nodes_never_have_one_store),
    };
    postgres_or_skip();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
