/* sim_report.h - what a run has to say: its trace, its counts, and the first
 * thing that was wrong. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* Everything unkind that can happen, as printed in the totals. */
#define FAULT_LIST(X)                                                   \
    X(FAULT_POWER, "power cut between two operations")                  \
    X(FAULT_KILL, "kill -9 between two operations")                     \
    X(FAULT_POWER_AT_CALL, "power cut at a call of the disk")           \
    X(FAULT_KILL_AT_CALL, "kill -9 at a call of the disk")              \
    X(FAULT_IN_RECOVERY, "death during recovery")                       \
    X(FAULT_IO_ERROR, "a call of the disk fails")                       \
    X(FAULT_FULL_CALL, "a call finds the disk full")                    \
    X(FAULT_FULL_DISK, "the disk is full for a while")                  \
    X(FAULT_SYNC_ERROR, "syncs fail")                                   \
    X(FAULT_SLOW_DISK, "the disk does not keep up")                     \
    X(FAULT_FLIP, "a bit of the log turns")                             \
    X(FAULT_MISPLACED, "a group of the log is where another should be") \
    X(FAULT_LAST, "the last group of the log changes, or a block goes") \
    X(FAULT_BEHIND, "a bit turns that the log does not rest on")        \
    X(FAULT_SECOND_OPEN, "a second process opens the folder")           \
    X(FAULT_CLOCK, "the clock jumps")                                   \
    X(FAULT_RESTART, "the process ends in order and starts again")      \
    X(FAULT_STORE_DOWN, "the store is down for a while")                \
    X(FAULT_STORE_MOMENT, "a call of the store fails")                  \
    X(FAULT_STORE_CALL, "power cut at a call of the store")             \
    X(FAULT_REFUSED, "the store refuses units")                         \
    X(FAULT_POISON, "the store refuses an id for good, for a while")    \
    X(FAULT_REPEATED, "the log gives a section twice")                  \
    X(FAULT_DROP, "something is dropped from memory at once")           \
    X(FAULT_UNASKED, "the store's answer comes unasked")                \
    X(FAULT_SCRUB, "a user is taken out of the log")                    \
    X(FAULT_TRIM, "the log is trimmed")

enum fault {
#define X(code, what) code,
    FAULT_LIST(X)
#undef X
        FAULT_COUNT
};

const char *fault_text(enum fault fault);

struct report {
    bool trace;
    bool failed;
    char violation[1024]; /* the first one */

    uint64_t ops;
    uint64_t batches;
    uint64_t acknowledged;
    uint64_t refused;  /* for want of space or because the disk was slow */
    uint64_t repeated; /* answers given a second time */
    uint64_t lost;     /* writes that were never acknowledged and are gone */
    uint64_t recoveries;
    uint64_t cold;    /* requests that had to wait for the store */
    uint64_t loads;   /* answers of the store */
    uint64_t dropped; /* counters and items that left memory */
    uint64_t flushes; /* batches that reached the store */
    uint64_t proofs;  /* times the store was compared with the log */
    uint64_t hits[FAULT_COUNT];
    uint64_t hash; /* over all answers */
};

/* Notes the first violation; later ones follow from it and are dropped. */
void report_violation(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void report_trace(const struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Mixes a number into the hash that two runs of one seed must share. */
void report_mix(struct report *report, uint64_t number);

void report_add(struct report *total, const struct report *run);

#endif
