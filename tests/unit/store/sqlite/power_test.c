/* The power goes off at every call of the disk that a few batches make, or the call fails and the
 * power goes off later: afterwards the store is at one of its marks, not before the last one that
 * it said was done, and has exactly what belongs to it. */
#include "sim/sim_disk.c"
#include "sim/sim_vfs.c"

#include "core/bucket.h"
#include "core/store.h"
#include "store/sqlite/sqlite.h"
#include "unit/test.h"

#define BATCHES 3u
#define SEEDS   3u
#define LIKES   40u /* in a batch */

static struct env env;

static enum err open_store(struct store **ret)
{
    struct sqlite_store_options options = {
        .path = "data/tally.db", .vfs = SIM_VFS, .exclusive = true};
    return sqlite_store_open(&env, &options, ret, NULL);
}

/* Batch number `batch`: 1 more on "c", and likes by new users, named ones among them. */
static enum err apply(struct store *store, struct state_mark *mark)
{
    static char names[LIKES][16];
    static struct store_reaction reactions[LIKES];
    unsigned batch = (unsigned)mark->position.offset;
    for (unsigned i = 0; i < LIKES; i++) {
        unsigned user = batch * LIKES + i;
        bool named = i % 2;
        snprintf(names[i], sizeof(names[i]), named ? "u%u" : "%u", user);
        reactions[i] = (struct store_reaction){
            .user = slice_of(names[i]),
            .named = named,
            .number = named ? user / 2 : user,
            .bucket = bucket_of(SLICE("v"), slice_of(names[i])),
            .after = SLICE("like"),
        };
    }
    struct store_unit units[] = {
        {.event_id = {1, (unsigned char)batch},
         .id = SLICE("c"),
         .may_create = true,
         .events = 1,
         .delta = number_of(1)},
        {.event_id = {2, (unsigned char)batch},
         .id = SLICE("v"),
         .is_item = true,
         .may_create = true,
         .events = LIKES,
         .reactions = reactions,
         .reaction_count = LIKES},
    };
    struct store_batch work = {
        .units = units,
        .unit_count = 2,
        .before = mark->position,
        .after = *mark,
    };
    work.after.position.offset++;
    work.after.sequences[0] += LIKES + 1;
    enum err err = store_apply(store, &work, NULL);
    if (!err)
        *mark = work.after;
    return err;
}

static void assert_as_marked(struct store *store, const struct state_mark *mark)
{
    uint64_t batches = mark->position.offset;
    assert_int_equal(mark->sequences[0], batches * (LIKES + 1));
    assert_int_equal(mark->members, batches * LIKES);
    struct store_reader *reader;
    assert_int_equal(store_reader_open(store, &reader, NULL), ERR_OK);
    struct number value;
    int64_t members;
    struct state_mark seen;
    enum err err = store_inspect(reader, SLICE("c"), SLICE(""), &value, &members, &seen, NULL);
    assert_int_equal(err, batches > 0 ? ERR_OK : ERR_NOT_FOUND);
    assert_memory_equal(&seen, mark, sizeof(seen));
    if (batches > 0) {
        assert_int_equal(value.small, batches);
        assert_int_equal(
            store_inspect(reader, SLICE("v"), SLICE("like"), &value, &members, &seen, NULL),
            ERR_OK);
        assert_int_equal(value.small, batches * LIKES);
        assert_int_equal(members, batches * LIKES);
        char last[16];
        uint32_t number;
        snprintf(last, sizeof(last), "u%u", (unsigned)batches * LIKES - 1);
        assert_int_equal(store_find_user(reader, slice_of(last), &number, NULL), ERR_OK);
    }
    struct store_stats stats;
    store_stats(store, &stats);
    assert_int_equal(stats.history_rows, batches * LIKES);
    assert_int_equal(stats.succeeded, batches * 2);
    store_reader_close(reader);
}

/* One life with the power going off at `call`; false when it was not reached. */
static bool live_once(uint64_t seed, uint64_t call)
{
    struct sim_disk *disk = sim_disk_new(seed);
    struct sim_rng rng = {seed * 1000003 + call};
    env = *env_system();
    env.disk = &disk->base;
    assert_int_equal(disk_make_folder(env.disk, "data", NULL), ERR_OK);
    sim_vfs_use(&env, "data");
    disk->faults.crash_at_call = call;

    uint64_t done = 0;
    struct store *store = NULL;
    struct state_mark mark = {.counters = 0};
    enum err err = open_store(&store);
    while (!err && mark.position.offset < BATCHES) {
        err = apply(store, &mark);
        done = mark.position.offset;
    }
    if (!err)
        store_rest(store, NULL);
    bool reached = disk->counts.calls >= call;
    store_close(store);
    sim_disk_crash(disk, &rng);

    sim_vfs_use(&env, "data");
    assert_int_equal(open_store(&store), ERR_OK);
    assert_int_equal(store_mark(store, &mark, NULL), ERR_OK);
    assert_true(mark.position.offset >= done);
    assert_true(mark.position.offset <= done + 1);
    assert_as_marked(store, &mark);
    assert_int_equal(store_rest(store, NULL), ERR_OK); /* a page that was torn is no damage */
    assert_int_equal(apply(store, &mark), ERR_OK);
    assert_as_marked(store, &mark);
    store_close(store);
    sim_disk_free(disk);
    return reached;
}

TEST(the_power_may_go_off_at_any_call)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t call = 1;
        while (live_once(seed, call))
            call++;
        assert_true(call > 20);
    }
}

static enum err open_again(struct store **ret)
{
    enum err err = open_store(ret);
    return err ? open_store(ret) : ERR_OK;
}

/* What the store says that it has, it has, also if it found it after a failure. */
static void apply_again(struct store *store, struct state_mark *mark)
{
    if (!apply(store, mark))
        return;
    assert_int_equal(store_mark(store, mark, NULL), ERR_OK);
    assert_as_marked(store, mark);
}

/* One life in which `call` fails; what it wrote or synced is then in the system's memory only. */
static bool live_with_failure(uint64_t seed, uint64_t call)
{
    struct sim_disk *disk = sim_disk_new(seed);
    struct sim_rng rng = {seed * 1000003 + call};
    env = *env_system();
    env.disk = &disk->base;
    assert_int_equal(disk_make_folder(env.disk, "data", NULL), ERR_OK);
    sim_vfs_use(&env, "data");
    disk->faults.fail_at_call = call;
    disk->faults.fail_with = ERR_IO;

    struct store *store = NULL;
    struct state_mark mark = {.counters = 0};
    assert_int_equal(open_again(&store), ERR_OK);
    for (unsigned i = 0; i < BATCHES + 1; i++) {
        apply_again(store, &mark);
        if (i == 1)
            store_rest(store, NULL);
    }
    bool reached = disk->counts.calls >= call;
    sim_disk_power_off(disk);
    store_close(store);
    sim_disk_crash(disk, &rng);

    sim_vfs_use(&env, "data");
    struct state_mark found;
    assert_int_equal(open_store(&store), ERR_OK);
    assert_int_equal(store_mark(store, &found, NULL), ERR_OK);
    assert_int_equal(found.position.offset, mark.position.offset);
    assert_as_marked(store, &found);
    store_close(store);
    sim_disk_free(disk);
    return reached;
}

TEST(what_a_failed_sync_has_left_is_not_believed_before_it_is_on_the_disk)
{
    for (uint64_t seed = 1; seed <= SEEDS * 3; seed++) {
        uint64_t call = 1;
        while (live_with_failure(seed, call))
            call++;
        assert_true(call > 20);
    }
}

RUN(cmocka_unit_test(the_power_may_go_off_at_any_call),
    cmocka_unit_test(what_a_failed_sync_has_left_is_not_believed_before_it_is_on_the_disk))
