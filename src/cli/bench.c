#include "cli/bench.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/memory.h"
#include "cli/answer.h"
#include "cli/pipe.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/session.h"

#define PIPELINE_MAX 2000
#define TRIPS_MAX    ((size_t)4 << 20) /* round trips that are remembered */
#define IDS          16u               /* counters, and items, that the load is spread over */
#define ID_BYTES     64u

enum part { PART_INCR, PART_LIKE, PART_COUNT };
static const char *const part_names[] = {"INCR", "LIKE"};

struct bench {
    struct session *session;
    char prefix[32];
    int64_t seconds;
    int64_t pipeline;
    uint64_t refused;
    char refusal[160];
    uint64_t *trips; /* ns of each round trip; owned */
    size_t trip_count;
    uint64_t requests;
    uint64_t spent_ns;
    struct progress progress;
};

struct result {
    uint64_t requests;
    double rate;
    double p50_ms;
    double p99_ms;
};

/* Ctrl-C ends the load early, so that there is still time to clean up. */
static volatile sig_atomic_t is_stopped;

static void stop(int number)
{
    (void)number;
    is_stopped = 1;
}

/* --- load ------------------------------------------------------------------------- */

static struct slice id_of(const struct bench *bench, enum part part, uint64_t number,
                          char to[ID_BYTES])
{
    int size = snprintf(to, ID_BYTES, "%s:%s:%llu", bench->prefix,
                        part == PART_INCR ? "counter" : "item", (unsigned long long)(number % IDS));
    return (struct slice){to, (size_t)size};
}

static void answered(void *arg, uint64_t tag, const redisReply *reply)
{
    (void)tag;
    struct bench *bench = arg;
    if (reply->type != REDIS_REPLY_ERROR)
        return;
    bench->refused++;
    (void)snprintf(bench->refusal, sizeof(bench->refusal), "%s", reply->str);
}

static enum err send_one(const struct bench *bench, struct pipe *pipe, enum part part,
                         uint64_t number)
{
    char id[ID_BYTES];
    char user[32];
    struct slice words[3] = {slice_of(part_names[part]), id_of(bench, part, number, id)};
    size_t count = 2;
    if (part == PART_LIKE) {
        (void)snprintf(user, sizeof(user), "%llu", (unsigned long long)(number / IDS));
        words[count++] = slice_of(user);
    }
    return pipe_send(pipe, number, words, count);
}

/* As many requests as go with one round trip. */
static enum err one_trip(struct bench *bench, struct pipe *pipe, enum part part)
{
    enum err err = ERR_OK;
    uint64_t started = env_monotonic_ns(env_system());
    for (int64_t i = 0; !err && i < bench->pipeline; i++)
        err = send_one(bench, pipe, part, bench->requests++);
    if (!err)
        err = pipe_finish(pipe);
    if (bench->trip_count < TRIPS_MAX)
        bench->trips[bench->trip_count++] = env_monotonic_ns(env_system()) - started;
    return err;
}

static enum err run_part(struct bench *bench, enum part part)
{
    struct pipe pipe;
    uint64_t started = env_monotonic_ns(env_system());
    uint64_t length = (uint64_t)bench->seconds * 1000000000u;
    uint64_t spent = 0;
    enum err err = ERR_OK;
    bench->trip_count = 0;
    bench->requests = 0;
    /* One more than a trip, so that pipe_finish() sends it as a whole. */
    pipe_init(&pipe, bench->session->context, (uint32_t)bench->pipeline + 1, answered, bench);
    while (!err && !is_stopped && spent < length) {
        err = one_trip(bench, &pipe, part);
        spent = env_monotonic_ns(env_system()) - started;
        progress_set(&bench->progress, part * length / 1000000 + spent / 1000000,
                     PART_COUNT * length / 1000000);
    }
    pipe_done(&pipe);
    bench->spent_ns = spent;
    return err;
}

/* --- figures ---------------------------------------------------------------------- */

static int compare_trips(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static double quantile_ms(const struct bench *bench, double share)
{
    if (bench->trip_count == 0)
        return 0;
    size_t index = (size_t)(share * (double)(bench->trip_count - 1));
    return (double)bench->trips[index] / 1e6;
}

static struct result result_of(struct bench *bench)
{
    qsort(bench->trips, bench->trip_count, sizeof(*bench->trips), compare_trips);
    return (struct result){
        .requests = bench->requests,
        .rate = bench->spent_ns > 0 ? (double)bench->requests * 1e9 / (double)bench->spent_ns : 0,
        .p50_ms = quantile_ms(bench, 0.5),
        .p99_ms = quantile_ms(bench, 0.99)};
}

static void print_results(struct session *session, const struct result *results)
{
    struct print_table table;
    print_table_init(&table, "request >requests >a_second >p50_ms >p99_ms");
    for (int i = 0; i < PART_COUNT; i++) {
        const struct result *result = &results[i];
        if (session->json) {
            print_json_line(json_pack("{s:s, s:I, s:f, s:f, s:f}", "request", part_names[i],
                                      "requests", (json_int_t)result->requests, "rate",
                                      result->rate, "p50_ms", result->p50_ms, "p99_ms",
                                      result->p99_ms));
            continue;
        }
        char cells[4][32];
        (void)snprintf(cells[0], sizeof(cells[0]), "%llu", (unsigned long long)result->requests);
        (void)snprintf(cells[1], sizeof(cells[1]), "%.0f", result->rate);
        (void)snprintf(cells[2], sizeof(cells[2]), "%.3f", result->p50_ms);
        (void)snprintf(cells[3], sizeof(cells[3]), "%.3f", result->p99_ms);
        print_table_add(&table, slice_of(part_names[i]));
        for (int j = 0; j < 4; j++)
            print_table_add(&table, slice_of(cells[j]));
    }
    print_table_write(&table, session->colours);
    print_table_done(&table);
}

/* --- all of it -------------------------------------------------------------------- */

static int clean_up(struct bench *bench)
{
    int code = EXIT_FINE;
    for (int part = 0; part < PART_COUNT; part++)
        for (uint64_t i = 0; i < IDS; i++) {
            char id[ID_BYTES];
            (void)id_of(bench, (enum part)part, i, id);
            redisReply *reply = session_call(bench->session, &code, "DEL", id, NULL);
            if (!reply)
                return code;
            freeReplyObject(reply);
        }
    return EXIT_FINE;
}

static int run_parts(struct bench *bench, struct result *results)
{
    enum err err = ERR_OK;
    progress_start(&bench->progress, "bench", "ms", bench->session->quiet);
    for (int part = 0; !err && part < PART_COUNT; part++) {
        err = run_part(bench, (enum part)part);
        results[part] = result_of(bench);
    }
    progress_end(&bench->progress);
    if (err)
        return session_broke(bench->session, bench->session->context);
    if (bench->refused > 0)
        return session_fail(EXIT_REFUSED, "%llu requests were refused: %s",
                            (unsigned long long)bench->refused, bench->refusal);
    return EXIT_FINE;
}

static int run(struct bench *bench)
{
    struct result results[PART_COUNT] = {{0}};
    struct sigaction before;
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    is_stopped = 0;
    (void)sigaction(SIGINT, &action, &before);
    int code = run_parts(bench, results);
    int cleaned = code == EXIT_UNREACHABLE ? code : clean_up(bench);
    (void)sigaction(SIGINT, &before, NULL);
    if (code == EXIT_FINE)
        code = cleaned;
    if (code == EXIT_FINE)
        print_results(bench->session, results);
    return code == EXIT_FINE && is_stopped ? EXIT_STOPPED : code;
}

int bench_run(struct session *session, const struct command_line *line)
{
    struct bench bench = {.session = session};
    struct error error;
    if (command_number(line, COMMAND_SECONDS, 2, 1, 3600, &bench.seconds, &error) ||
        command_number(line, COMMAND_PIPELINE, 500, 1, PIPELINE_MAX, &bench.pipeline, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    int code = session_connect(session);
    if (code != EXIT_FINE)
        return code;
    (void)snprintf(bench.prefix, sizeof(bench.prefix), "tally-bench:%08llx",
                   (unsigned long long)(env_random(env_system()) & 0xffffffff));
    bench.trips = memory_take(TRIPS_MAX * sizeof(*bench.trips));
    code = run(&bench);
    free(bench.trips);
    return code;
}
