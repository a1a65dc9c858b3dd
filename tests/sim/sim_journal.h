/* sim_journal.h - a witness between the hot layer and the log.
 *
 * It is a log that passes everything on to the real one and keeps a copy of
 * each section. When the real log is read again after a crash, what comes must
 * be the beginning of what was appended, byte for byte: every section that
 * somebody relies on, none twice, none that was never appended, and none that
 * an earlier recovery had not found. While reading it adds up the events, so
 * that the hot layer's numbers can be compared with a recount of the log. Then it
 * reads once more, from a position in the middle.
 *
 * Whoever follows the log while it runs must be given the same sections in the same
 * order, and none that a power cut could still take away. Now and then the journal
 * gives one of them a second time, which a log may do. What was trimmed counts as
 * read: the journal has it still. */
#ifndef SIM_JOURNAL_H
#define SIM_JOURNAL_H

#include <stddef.h>

#include "core/kinds.h"
#include "core/limits.h"
#include "core/log.h"
#include "sim/sim_report.h"
#include "sim/sim_request.h"
#include "sim/sim_rng.h"

#define JOURNAL_USERS 160u /* no seed has more */

/* What the events of the log add up to, for one id. */
struct journal_sum {
    enum { SUM_NOTHING, SUM_COUNTER, SUM_ITEM } thing;
    sim_wide value;
    int64_t counts[SIM_KINDS];
};

struct journal_section {
    char *bytes; /* owned */
    char *old;   /* owned; as it was before it was scrubbed, NULL = it never was */
    size_t size;
    uint64_t ticket;          /* in the process that appended it */
    struct log_position next; /* behind its group; zero = nobody has seen it there yet */
};

struct journal {
    struct log base;
    struct log *inner; /* borrowed; NULL while the process is down */
    struct report *report;
    const struct kinds *kinds;

    struct journal_section *sections; /* owned; all that count, in order */
    uint64_t count;
    uint64_t capacity;
    uint64_t started; /* sections that were there when this process started */
    uint64_t relied;  /* sections that must never be lost */
    uint64_t trimmed; /* sections that may have been trimmed, at the beginning */

    struct sim_rng rng;
    unsigned repeat_permille; /* of the calls of follow: a section comes twice */

    uint64_t read;              /* sections read so far */
    struct log_position middle; /* a position somewhere within the log ... */
    uint64_t middle_count;      /* ... and the sections in front of it */
    uint64_t sequences[LIMIT_CELLS];
    uint64_t numbers[JOURNAL_USERS]; /* of named users, one more than in the log; 0 = none */
    struct journal_sum *sums;        /* owned; by id */
    unsigned ids;
};

void journal_init(struct journal *journal, unsigned ids, const struct kinds *kinds,
                  struct report *report);
void journal_done(struct journal *journal);

/* A process has opened the real log; what is to be used instead. */
struct log *journal_open(struct journal *journal, struct log *inner);

/* The number of the section with this ticket, or of the last one before it;
 * counted from 1 for the life of the journal. */
uint64_t journal_section_of(const struct journal *journal, uint64_t ticket);

/* How many sections stand before this position. */
uint64_t journal_before(const struct journal *journal, struct log_position position);

#endif
