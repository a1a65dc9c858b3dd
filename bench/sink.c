/* sink.c - how many likes a second the store takes, by itself.
 *
 * Fills a store with --stored likes, then applies --likes more in batches of --batch, all of them
 * by users who have liked nothing before, and prints likes a second of the second part. Only
 * store_apply() is on the clock: what the aggregator does before (reading, decoding, coalescing)
 * is measured by the pipeline's own benchmark.
 *
 *   bench_sink --items 1000000 --users numeric --batch 200000 --stored 10000000
 *
 * One item, or --items of them: up to 1,000 are all equally liked, more follow Zipf's law. The
 * store is SQLite, or PostgreSQL with --store URL, which has to be empty, and --members rows or
 * sets. With
 * --counters N the likes are additions to N counters without users, no counter twice in a batch. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/decimal.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/uuid.h"
#include "core/bucket.h"
#include "core/store.h"
#include "store/postgres/postgres.h"
#include "store/sqlite/sqlite.h"

#define UNIFORM_MAX 1000u
#define USER_BITS   27u /* of numeric users: 134 million, each used once */
#define FILL_BATCH  1000000u

struct options {
    uint64_t items;
    uint64_t batch;
    uint64_t stored;
    uint64_t likes;
    uint64_t counters; /* 0: likes */
    bool uuids;
    bool sets;
    const char *folder;
    const char *store; /* URL; NULL: SQLite in the folder */
};

struct like {
    uint32_t item;
    uint32_t user;
};

struct bench {
    struct options options;
    struct store *store;
    struct state_mark mark;
    uint64_t random;
    uint64_t next_like;
    double *zipf; /* owned; sums of the shares up to each item; NULL: all are equal */
    struct like *likes;
    struct store_reaction *reactions;
    struct store_unit *units;
    char (*ids)[16];   /* of the items of the batch */
    char (*names)[40]; /* of its users */
};

static uint64_t next_random(struct bench *bench)
{
    bench->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = bench->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void make_zipf(struct bench *bench)
{
    uint64_t items = bench->options.items;
    bench->zipf = memory_take(items * sizeof(*bench->zipf));
    double sum = 0;
    for (uint64_t i = 0; i < items; i++)
        bench->zipf[i] = sum += 1.0 / (double)(i + 1);
}

static uint32_t pick_item(struct bench *bench)
{
    uint64_t items = bench->options.items;
    if (!bench->zipf)
        return (uint32_t)(next_random(bench) % items);
    double wanted = (double)(next_random(bench) >> 11) * 0x1p-53 * bench->zipf[items - 1];
    uint64_t low = 0;
    uint64_t high = items - 1;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (bench->zipf[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Each number below 2^USER_BITS once, in an order that looks like none. */
static uint32_t scatter(uint64_t i)
{
    uint64_t mask = (UINT64_C(1) << USER_BITS) - 1;
    i = (i * UINT64_C(0x9e3779b1)) & mask;
    i ^= i >> 13;
    return (uint32_t)((i * UINT64_C(0x85ebca6b)) & mask);
}

static int by_item(const void *a, const void *b)
{
    const struct like *left = a;
    const struct like *right = b;
    if (left->item != right->item)
        return left->item < right->item ? -1 : 1;
    return left < right ? -1 : 1;
}

static size_t name_user(struct bench *bench, uint64_t like, uint32_t user, char *to)
{
    if (!bench->options.uuids)
        return (size_t)(decimal_format_unsigned(to, user) - to);
    unsigned char bytes[UUID_BYTES];
    uint64_t halves[2] = {XXH3_64bits_withSeed(&like, sizeof(like), 1),
                          XXH3_64bits_withSeed(&like, sizeof(like), 2)};
    memcpy(bytes, halves, sizeof(bytes));
    uuid_format(bytes, to);
    return UUID_TEXT_BYTES;
}

/* Ids do not sort as their popularity does. */
static size_t name_item(uint32_t item, char *to)
{
    return (size_t)snprintf(to, 16, "video%u", (item * 7919u) % 10000019u);
}

static size_t make_units(struct bench *bench, size_t count)
{
    size_t units = 0;
    for (size_t i = 0; i < count; i++) {
        struct like *like = &bench->likes[i];
        if (i == 0 || like->item != bench->likes[i - 1].item) {
            struct store_unit *unit = &bench->units[units];
            *unit = (struct store_unit){
                .id = {bench->ids[units], name_item(like->item, bench->ids[units])},
                .is_item = true,
                .may_create = true,
                .first_ms = 1700000000000,
                .last_ms = 1700000000000,
                .reactions = &bench->reactions[i],
            };
            uint64_t halves[2] = {next_random(bench), next_random(bench)};
            memcpy(unit->event_id, halves, sizeof(unit->event_id));
            units++;
        }
        struct store_unit *unit = &bench->units[units - 1];
        unit->events++;
        unit->reaction_count++;
        struct slice name = {bench->names[i],
                             name_user(bench, like->user, like->user, bench->names[i])};
        bench->reactions[i] = (struct store_reaction){
            .user = name,
            .named = bench->options.uuids,
            .number = like->user,
            .bucket = bucket_of(unit->id, name),
            .after = SLICE("like"),
            .time_ms = 1700000000000 + (int64_t)(bench->next_like / 500),
        };
    }
    return units;
}

/* Each counter of the batch once: the next so many, round and round. */
static size_t make_additions(struct bench *bench, size_t count)
{
    assert(count <= bench->options.counters);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = (bench->next_like - count + i) % bench->options.counters;
        char *id = bench->ids[i];
        bench->units[i] = (struct store_unit){
            .id = {id, (size_t)snprintf(id, sizeof(bench->ids[i]), "c%llu",
                                        (unsigned long long)number)},
            .may_create = true,
            .events = 1,
            .first_ms = 1700000000000,
            .last_ms = 1700000000000,
            .delta = number_of(1),
        };
        uint64_t halves[2] = {next_random(bench), next_random(bench)};
        memcpy(bench->units[i].event_id, halves, sizeof(bench->units[i].event_id));
    }
    return count;
}

/* The aggregator has them in no order. */
static void shuffle_units(struct bench *bench, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = next_random(bench) % i;
        struct store_unit unit = bench->units[i - 1];
        bench->units[i - 1] = bench->units[other];
        bench->units[other] = unit;
    }
}

static double seconds(void)
{
    return (double)env_monotonic_ns(env_system()) / 1e9;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Makes a batch and applies it; the time of the second part is added. */
static void run_batch(struct bench *bench, size_t count, double *wall, double *cpu)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t like = bench->next_like++;
        bench->likes[i] =
            (struct like){pick_item(bench), bench->options.uuids ? (uint32_t)like : scatter(like)};
    }
    qsort(bench->likes, count, sizeof(*bench->likes), by_item);
    struct store_batch batch = {
        .units = bench->units,
        .unit_count =
            bench->options.counters > 0 ? make_additions(bench, count) : make_units(bench, count),
        .before = bench->mark.position,
        .after = bench->mark,
        .now_ms = 1700000000000,
    };
    shuffle_units(bench, batch.unit_count);
    batch.after.position.offset++;
    batch.after.sequences[0] += count;
    double start = seconds();
    double start_cpu = cpu_seconds();
    struct error error;
    if (store_apply(bench->store, &batch, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    *wall += seconds() - start;
    *cpu += cpu_seconds() - start_cpu;
    bench->mark = batch.after;
}

static void run(struct bench *bench, uint64_t likes, uint64_t batch, double *wall, double *cpu)
{
    while (likes > 0) {
        uint64_t count = likes < batch ? likes : batch;
        run_batch(bench, count, wall, cpu);
        likes -= count;
    }
}

static uint64_t store_bytes(struct bench *bench)
{
    struct store_stats stats;
    store_stats(bench->store, &stats);
    return stats.bytes;
}

static void parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--items") == 0)
            options->items = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--batch") == 0)
            options->batch = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--stored") == 0)
            options->stored = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--likes") == 0)
            options->likes = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--users") == 0)
            options->uuids = strcmp(value, "uuid") == 0;
        else if (strcmp(argv[i], "--folder") == 0)
            options->folder = value;
        else if (strcmp(argv[i], "--store") == 0)
            options->store = value;
        else if (strcmp(argv[i], "--members") == 0)
            options->sets = strcmp(value, "sets") == 0;
        else if (strcmp(argv[i], "--counters") == 0)
            options->counters = strtoull(value, NULL, 10);
    }
}

static enum err open_store(struct bench *bench, const char *path, struct error *error)
{
    const struct options *options = &bench->options;
    if (!options->store)
        return sqlite_store_open(env_system(), &(struct sqlite_store_options){.path = path},
                                 &bench->store, error);
    return postgres_store_open(
        env_system(),
        &(struct postgres_store_options){.url = options->store,
                                         .members = options->sets ? POSTGRES_SETS : POSTGRES_ROWS},
        &bench->store, error);
}

static void remove_files(const char *folder, const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char name[320];
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
    (void)rmdir(folder);
}

static uint64_t fill_batch(const struct options *options)
{
    return options->counters > 0 && options->counters < FILL_BATCH ? options->counters : FILL_BATCH;
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .options = {
            .items = 1, .batch = 200000, .stored = 1000000, .likes = 2000000, .folder = "/tmp"}};
    parse(&bench.options, argc, argv);
    size_t largest = bench.options.batch > FILL_BATCH ? bench.options.batch : FILL_BATCH;
    bench.likes = memory_take(largest * sizeof(*bench.likes));
    bench.reactions = memory_take(largest * sizeof(*bench.reactions));
    bench.units = memory_take(largest * sizeof(*bench.units));
    bench.ids = memory_take(largest * sizeof(*bench.ids));
    bench.names = memory_take(largest * sizeof(*bench.names));
    if (bench.options.items > UNIFORM_MAX)
        make_zipf(&bench);

    char folder[256];
    snprintf(folder, sizeof(folder), "%s/tally-sink-XXXXXX", bench.options.folder);
    if (!mkdtemp(folder))
        return 1;
    char path[300];
    snprintf(path, sizeof(path), "%s/tally.db", folder);
    struct error error;
    if (open_store(&bench, path, &error) || store_mark(bench.store, &bench.mark, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    double wall = 0;
    double cpu = 0;
    run(&bench, bench.options.stored, fill_batch(&bench.options), &wall, &cpu);
    fprintf(stderr, "filled: %.0f likes/s\n", (double)bench.options.stored / wall);
    wall = cpu = 0;
    run(&bench, bench.options.likes, bench.options.batch, &wall, &cpu);
    printf("items %llu users %s stored %llu batch %llu: %.0f likes/s, %.2f us of a core each, "
           "%.1f bytes each\n",
           (unsigned long long)bench.options.items, bench.options.uuids ? "uuid" : "numeric",
           (unsigned long long)bench.options.stored, (unsigned long long)bench.options.batch,
           (double)bench.options.likes / wall, cpu * 1e6 / (double)bench.options.likes,
           (double)store_bytes(&bench) / (double)(bench.options.stored + bench.options.likes));
    store_close(bench.store);
    remove_files(folder, path);
    return 0;
}
