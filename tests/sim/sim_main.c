/* sim_main.c - runs seeds, planted bugs and exhaustive scenarios. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "sim/sim_exhaustive.h"
#include "sim/sim_run.h"

#define TWICE_EVERY   100u  /* seeds: one is run twice */
#define ALL_HIT_SEEDS 1000u /* in so many seeds every fault must have struck */
#define CLEAN_SEEDS   100u  /* that the system has to pass before bugs are planted */
#define SEED_SECONDS  120u  /* a seed takes some milliseconds */
#define PLANTED_SEEDS 4000u /* in so many seeds every planted bug must be found */

struct arguments {
    uint64_t from;
    uint64_t seeds;
    double seconds; /* 0 = no limit */
    bool trace;
    bool planted;
    bool exhaustive;
    enum bug bug;
};

/* ---- when an assertion fails ---- */

static volatile uint64_t seed_under_way;

/* Says which seed it was; then the process dies of it. */
static void on_abort(int signal_number)
{
    char line[64];
    int size =
        snprintf(line, sizeof(line), "seed %" PRIu64 ": an assertion failed\n", seed_under_way);
    if (write(STDERR_FILENO, line, (size_t)size) < 0)
        _exit(2);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* A seed that does not end is a finding, too. */
static void on_alarm(int signal_number)
{
    (void)signal_number;
    static const char text[] = "it takes too long\n";
    if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
        abort();
    _exit(2);
}

/* ---- seeds ---- */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct run_result run_seed(uint64_t seed, const struct arguments *arguments,
                                  struct report *report)
{
    struct sim_options options;
    sim_options_of_seed(&options, seed);
    seed_under_way = seed;
    alarm(SEED_SECONDS);
    *report = (struct report){.trace = arguments->trace};
    if (arguments->trace)
        sim_options_print(&options, stdout);
    return sim_run(&options, arguments->bug, (struct injection){0}, report);
}

/* Runs it, and now and then once more: chance must come from the seed alone. */
static bool run_checked(uint64_t seed, const struct arguments *arguments, struct report *report)
{
    struct run_result result = run_seed(seed, arguments, report);
    if (report->failed || seed % TWICE_EVERY != 0)
        return !report->failed;
    struct report again;
    if (run_seed(seed, arguments, &again).hash != result.hash)
        report_violation(report, "two runs of one seed differ");
    return !report->failed;
}

static void print_failure(uint64_t seed, const struct report *report)
{
    struct sim_options options;
    sim_options_of_seed(&options, seed);
    sim_options_print(&options, stdout);
    printf("VIOLATION %s\n  again: sim --seed %" PRIu64 " --trace\n", report->violation, seed);
}

static void print_totals(uint64_t seeds, const struct report *total, double seconds)
{
    printf("%" PRIu64 " seeds, %" PRIu64 " operations in %" PRIu64 " batches, %.1f s, %.0f "
           "operations/s\n%" PRIu64 " acknowledged, %" PRIu64 " refused, %" PRIu64
           " repeated, %" PRIu64 " changes lost before they were acknowledged, %" PRIu64
           " recoveries\n%" PRIu64 " had to wait for the store, %" PRIu64 " loads, %" PRIu64
           " dropped, %" PRIu64 " flushes, %" PRIu64 " proofs of the store\n",
           seeds, total->ops, total->batches, seconds, (double)total->ops / seconds,
           total->acknowledged, total->refused, total->repeated, total->lost, total->recoveries,
           total->cold, total->loads, total->dropped, total->flushes, total->proofs);
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        printf("%10" PRIu64 "  %s\n", total->hits[i], fault_text((enum fault)i));
}

static bool all_hit(const struct report *total)
{
    bool all = true;
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        if (total->hits[i] == 0) {
            printf("never happened: %s\n", fault_text((enum fault)i));
            all = false;
        }
    }
    return all;
}

static int run_seeds(const struct arguments *arguments)
{
    struct report total = {0};
    struct report report;
    double started = now_s();
    uint64_t done = 0;
    while (done < arguments->seeds) {
        uint64_t seed = arguments->from + done;
        bool good = run_checked(seed, arguments, &report);
        report_add(&total, &report);
        done++;
        if (!good) {
            print_failure(seed, &report);
            return 1;
        }
        if (arguments->seconds > 0 && now_s() - started > arguments->seconds)
            break;
    }
    print_totals(done, &total, now_s() - started);
    if (done >= ALL_HIT_SEEDS && !all_hit(&total))
        return 1;
    printf("0 violations\n");
    return 0;
}

/* ---- planted bugs ---- */

/* In a process of its own, since a bug may trip an assertion of the system. */
static bool find_bug(enum bug bug)
{
    fflush(stdout);
    double started = now_s();
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        struct arguments arguments = {.bug = bug};
        struct report report;
        for (uint64_t seed = 1; seed <= PLANTED_SEEDS; seed++) {
            run_seed(seed, &arguments, &report);
            if (!report.failed)
                continue;
            printf("found by seed %4" PRIu64 ", %4.0f ms: %s\n  %s\n", seed,
                   (now_s() - started) * 1000, bug_text(bug), report.violation);
            fflush(stdout);
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("found by an assertion: %s\n", bug_text(bug));
    else if (WEXITSTATUS(status) == 0)
        printf("NOT FOUND in %u seeds: %s\n", PLANTED_SEEDS, bug_text(bug));
    return status != 0;
}

/* What fails without a bug finds nothing. */
static bool is_clean(void)
{
    struct arguments arguments = {.bug = BUG_NONE};
    struct report report;
    for (uint64_t seed = 1; seed <= CLEAN_SEEDS; seed++) {
        run_seed(seed, &arguments, &report);
        if (report.failed) {
            printf("seed %" PRIu64 " fails without a bug: %s\n", seed, report.violation);
            return false;
        }
    }
    return true;
}

static int run_planted(const struct arguments *arguments)
{
    if (!is_clean())
        return 1;
    unsigned missed = 0;
    for (unsigned bug = BUG_NONE + 1; bug < BUG_COUNT; bug++) {
        if (arguments->bug == BUG_NONE || arguments->bug == bug)
            missed += !find_bug((enum bug)bug);
    }
    printf("%u planted bugs, %u not found\n", BUG_COUNT - 1, missed);
    return missed > 0;
}

/* ---- the command line ---- */

static const char usage[] =
    "sim [--seeds N] [--from SEED] [--seconds S]   run seeds, until one fails\n"
    "sim --fresh --seconds S                       the same with seeds that nobody has run\n"
    "sim --seed N [--trace] [--bug B]              run one, and tell all of it\n"
    "sim --planted [--bug B]                       find the planted bugs\n"
    "sim --exhaustive                              fail and crash at every call of the disk\n";

static bool read_number(const char *text, uint64_t *ret_number)
{
    char *end;
    *ret_number = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

static bool read_arguments(int count, char **texts, struct arguments *arguments)
{
    for (int i = 1; i < count; i++) {
        uint64_t number = 0;
        bool numbered = i + 1 < count && read_number(texts[i + 1], &number);
        if (strcmp(texts[i], "--trace") == 0) {
            arguments->trace = true;
            continue;
        } else if (strcmp(texts[i], "--fresh") == 0) {
            arguments->from = (uint64_t)time(NULL) << 20;
            continue;
        } else if (strcmp(texts[i], "--planted") == 0) {
            arguments->planted = true;
            continue;
        } else if (strcmp(texts[i], "--exhaustive") == 0) {
            arguments->exhaustive = true;
            continue;
        } else if (strcmp(texts[i], "--seeds") == 0) {
            arguments->seeds = number;
        } else if (strcmp(texts[i], "--from") == 0) {
            arguments->from = number;
        } else if (strcmp(texts[i], "--seconds") == 0) {
            arguments->seconds = (double)number;
        } else if (strcmp(texts[i], "--seed") == 0) {
            arguments->from = number;
            arguments->seeds = 1;
        } else if (strcmp(texts[i], "--bug") == 0 && number < BUG_COUNT) {
            arguments->bug = (enum bug)number;
        } else {
            return false;
        }
        if (!numbered)
            return false;
        i++;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.from = 1, .seeds = 1000};
    if (!read_arguments(argc, argv, &arguments)) {
        fputs(usage, stderr);
        return 2;
    }
    message_set_level(MESSAGE_ERROR + 1); /* full disks and failed syncs are our daily bread */
    signal(SIGABRT, on_abort);
    signal(SIGALRM, on_alarm);
    if (arguments.planted)
        return run_planted(&arguments);
    if (arguments.exhaustive)
        return exhaustive_run();
    return run_seeds(&arguments);
}
