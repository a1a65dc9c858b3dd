/* store_twins_test.c - the stores are given the same random batches, and say the same afterwards.
 *
 * SQLite is the oracle: it goes unit by unit, and PostgreSQL by the set. */
/* servers: postgres */
#include "contract/store_postgres.h"
#include "contract/store_rig.h"
#include "contract/store_sqlite.h"

enum { TWINS = 3, BATCHES = 60, IDS = 10, USERS = 40 };

static struct store *open_rows(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_ROWS, false);
}

static struct store *open_sets(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_SETS, false);
}

static struct rig *twins[TWINS];
static uint64_t seed_now = 4711; /* another one: $TALLY_SEED */
static uint32_t incarnations[IDS];

static unsigned pick(unsigned below)
{
    seed_now = seed_now * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed_now >> 33) % below;
}

/* What is done to one id, the same for all twins. */
struct deed {
    unsigned id;
    bool is_item;
    unsigned what;
    int64_t amount;
    unsigned users[8];
    unsigned kinds[8];
    unsigned user_count;
    bool is_erased;
    uint32_t incarnation;
    bool is_late; /* then its home cell is further, and it may not create */
};

static char id_names[IDS][8];
static char user_names[USERS][8];
static const char *const kind_names[] = {"", "like", "dislike"};

static struct deed choose(unsigned id)
{
    struct deed deed = {.id = id, .is_item = id % 2, .what = pick(20)};
    deed.amount = (int64_t)pick(1000) - 500;
    deed.user_count = 1 + pick(8);
    for (unsigned i = 0; i < deed.user_count; i++) {
        deed.users[i] = pick(USERS);
        deed.kinds[i] = pick(3);
    }
    deed.is_erased = pick(30) == 0;
    if (deed.what < 2)
        incarnations[id]++;
    /* Now and then somebody is late. */
    deed.is_late = deed.what > 17 && incarnations[id] > 0;
    deed.incarnation = incarnations[id] - deed.is_late;
    return deed;
}

static void react(struct rig *rig, const struct deed *deed)
{
    for (unsigned i = 0; i < deed->user_count; i++)
        rig_react(rig, id_names[deed->id], user_names[deed->users[i]], "",
                  kind_names[deed->kinds[i]]);
    if (deed->is_erased)
        rig->reactions[rig->unit_count - 1][0].erased = true;
}

static void carry_out(struct rig *rig, const struct deed *deed)
{
    struct store_unit *unit = rig_unit(rig, id_names[deed->id], deed->is_item);
    unit->incarnation = deed->incarnation;
    unit->is_gone = deed->what == 0;
    unit->is_new = deed->what == 1;
    unit->may_create = deed->what != 2 && !deed->is_late;
    if (deed->what == 3) {
        unit->has_create = true;
        unit->create = (struct op_create){.shards = deed->is_item ? 8 : 2};
    }
    if (deed->what == 4 && !deed->is_item) {
        unit->has_deadline = true;
        unit->deadline_ms = deed->amount + 500;
    }
    if (deed->what == 5)
        unit->last_ms = 0;
    if (deed->what == 0)
        return;
    if (deed->is_item)
        react(rig, deed);
    else
        rig_add(rig, id_names[deed->id], deed->amount);
}

static void print_slice(void *arg, const struct state_members *members, size_t count,
                        const struct event *pending, size_t pending_count)
{
    (void)pending;
    (void)pending_count;
    rig_print_members(arg, members, count);
}

static const char *say(struct rig *rig, unsigned id)
{
    if (strcmp(rig_load(rig, id_names[id]), "none") == 0)
        return "none";
    if (!strstr(rig->text, "slices=64"))
        return rig->text;
    for (uint32_t slice = 0; slice < STATE_SLICES; slice++)
        assert_int_equal(
            store_load_slice(rig->reader, slice_of(id_names[id]), slice, print_slice, rig, NULL),
            ERR_OK);
    return rig->text;
}

static void compare(unsigned batch)
{
    for (unsigned twin = 1; twin < TWINS; twin++) {
        for (unsigned id = 0; id < IDS; id++) {
            char wanted[sizeof(twins[0]->text)];
            snprintf(wanted, sizeof(wanted), "%s", say(twins[0], id));
            const char *found = say(twins[twin], id);
            if (strcmp(wanted, found) != 0)
                fail_msg("batch %u, twin %u:\n%s\n%s", batch, twin, wanted, found);
        }
        assert_int_equal(twins[twin]->mark.counters, twins[0]->mark.counters);
        assert_int_equal(twins[twin]->mark.items, twins[0]->mark.items);
        assert_int_equal(twins[twin]->mark.members, twins[0]->mark.members);
        assert_int_equal(twins[twin]->mark.next_user, twins[0]->mark.next_user);
    }
}

static void give_batch(void)
{
    struct deed deeds[IDS];
    unsigned first = pick(IDS);
    unsigned count = 1 + pick(IDS);
    for (unsigned i = 0; i < count; i++)
        deeds[i] = choose((first + i) % IDS);
    for (unsigned twin = 0; twin < TWINS; twin++) {
        twins[twin]->now_ms += 1000;
        rig_of_clock = twins[twin];
        for (unsigned i = 0; i < count; i++)
            carry_out(twins[twin], &deeds[i]);
        rig_apply_ok(twins[twin]);
    }
}

TEST(stores_that_are_given_the_same_say_the_same)
{
    static rig_open_fn *const openers[TWINS] = {open_sqlite, open_rows, open_sets};
    const char *seed = getenv("TALLY_SEED");
    if (seed)
        seed_now = strtoull(seed, NULL, 10);
    for (unsigned i = 0; i < IDS; i++)
        snprintf(id_names[i], sizeof(id_names[i]), "id%u", i);
    for (unsigned i = 0; i < USERS; i++)
        snprintf(user_names[i], sizeof(user_names[i]), i % 2 ? "%u" : "u%u", i);
    for (unsigned i = 0; i < TWINS; i++)
        twins[i] = rig_new(openers[i]);
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        give_batch();
        compare(batch);
    }
    for (unsigned i = 0; i < TWINS; i++) {
        rig_close(twins[i]);
        if (i > 0)
            postgres_remove(twins[i]->folder);
        rig_free(twins[i]);
    }
}

int main(void)
{
    postgres_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_that_are_given_the_same_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
