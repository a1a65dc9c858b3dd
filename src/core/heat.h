/* heat.h - how many shards something should have, and why; and which id of a
 * cell is the hot one.
 *
 * Decisions are made once a window, from what was counted in it. Shards double
 * when each of them takes more writes than `spread_rate` a second, or when the
 * lock of its cells is often found taken while each takes a good part of that
 * rate. They halve when each has taken less than an eighth of it for ten windows
 * on end. Doubling halves the writes of each shard, and halving doubles them, so
 * that neither calls for the other at a steady rate.
 *
 * Pure: counts and times are handed in. */
#ifndef CORE_HEAT_H
#define CORE_HEAT_H

#include <stdint.h>

#include "base/slice.h"
#include "core/limits.h"

/* ---- how many ---- */

#define HEAT_QUIET_WINDOWS   10u  /* on end, before shards are halved */
#define HEAT_WINDOW_MS       1000 /* the length to give a window; HEAT_QUIET's text is made for it */
#define HEAT_TAKEN_PER_MILLE 50u  /* of the tries: from here on a lock is often found taken */

/* Why the shards last changed: a byte in a record, a text in an answer. */
enum heat_reason {
    HEAT_UNCHANGED,
    HEAT_CREATED,
    HEAT_BUSY,
    HEAT_CONTENDED,
    HEAT_QUIET,
    HEAT_BY_HAND,
};
#define HEAT_REASON_COUNT 6u

/* A constant text: "not changed since it was created or loaded", "asked for at creation",
 * "more writes than spread-rate", "its cell's lock was found taken", "quiet for 10 s",
 * "asked for by hand". */
const char *heat_reason_text(enum heat_reason reason);

/* What was seen of one id in the window that has just ended. */
struct heat_window {
    uint64_t writes;
    uint32_t duration_ms;
    uint32_t taken_per_mille; /* how often its cells' locks were found taken */
};

struct heat_rule {
    uint64_t spread_rate; /* writes a second of one shard; 0 = never spread */
    uint32_t shards_max;  /* heat_shards_max() */
};

struct heat_verdict {
    uint32_t shards; /* to have from now on */
    enum heat_reason reason;
    uint8_t quiet_windows; /* to hand in the next time */
};

/* Spreading goes no further by itself: four shards for each worker, rounded up
 * to a power of two, LIMIT_CELLS at most. A single worker meets nobody: 1. */
uint32_t heat_shards_max(unsigned workers);

/* `shards` there are now, `asked` is the least there may be, `quiet_windows` is
 * of the last verdict, 0 at first. HEAT_UNCHANGED says that `shards` may stay. */
struct heat_verdict heat_judge(const struct heat_rule *rule, const struct heat_window *window,
                               uint32_t shards, uint32_t asked, uint8_t quiet_windows);

/* ---- which ----
 *
 * A cell notes every n-th of its writes. A few candidates stay (Misra and
 * Gries): whatever has more than one in HEAT_CANDIDATES + 1 of the writes noted
 * is among them, in a space that does not grow with the number of ids. */

#define HEAT_CANDIDATES 4u

struct heat_candidate {
    uint64_t hash;
    uint32_t count; /* at most what was noted of it; 0 = nobody is here */
    uint16_t id_size;
    char id[LIMIT_ID_BYTES];
};

struct heat_sample {
    uint64_t noted; /* writes, of all ids */
    struct heat_candidate candidates[HEAT_CANDIDATES];
};

/* Zeroed memory is an empty sample, too. */
void heat_clear(struct heat_sample *sample);

/* A write of `id`, whose hash tells it from all others of the cell. */
void heat_note(struct heat_sample *sample, uint64_t hash, struct slice id);

/* The candidate with the highest count; NULL when nobody stands out. Its count
 * falls short of the truth by noted / (HEAT_CANDIDATES + 1) at most. */
const struct heat_candidate *heat_top(const struct heat_sample *sample);

static inline struct slice heat_candidate_id(const struct heat_candidate *candidate)
{
    return (struct slice){candidate->id, candidate->id_size};
}

#endif
