/* chain.h - reading the log: its segments in order and the groups in them.
 *
 * All decisions of recovery are here, and none of them changes a file:
 *
 * - Each segment's header says where the one before it ends. Up to there every
 *   group must be sound; behind it nothing counts, whatever it looks like.
 * - The last segment ends where no sound group begins. If a sound one follows
 *   further on, or the log was noted to have been synced further (synced.h), what
 *   is missing had been synced: that is damage, and refused. If sectors are missing
 *   in it, it is what a crash left of the last write: not part of the log, and
 *   never acknowledged. If none are, all of it arrived once: damage again.
 *
 * The same bytes always give the same answer, however often a start is cut short. */
#ifndef LOG_FILE_CHAIN_H
#define LOG_FILE_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/log.h"
#include "log/file/folder.h"
#include "log/file/segment.h"

struct chain {
    const struct folder *folder;     /* borrowed */
    uint64_t first;                  /* number of the first segment: what is older was trimmed */
    bool first_unknown;              /* the folder should tell it and does not: a guess */
    bool has_leftovers;              /* of older ones there are files still */
    struct segment_header *segments; /* owned; in order, without a gap */
    size_t count;
    uint64_t disk_bytes;        /* of all of them */
    struct log_position synced; /* so far at least; zero = not known */
};

/* Reads and compares all segment headers. On ERR_CORRUPT the chain holds the
 * segments in front of the damage, and chain_done() is due all the same. */
enum err chain_open(const struct folder *folder, struct chain *ret_chain, struct error *error);
void chain_done(struct chain *chain);

/* The last segment; NULL if there is none. */
const struct segment_header *chain_last(const struct chain *chain);

/* Does a log whose first segment is this one go on behind `from`, although the
 * segment that it lies in was trimmed? Only from the very end of that. */
bool chain_continues(const struct segment_header *first, struct log_position from);
enum err chain_trimmed(const struct folder *folder, struct log_position from, struct error *error);

/* Called for each group that holds sections; `next` is the position behind it. */
typedef enum err chain_group_fn(void *arg, const struct group *group, struct slice body,
                                struct log_position next, struct error *error);

/* Where a walk came to an end: at the end of the log or before the damage. */
struct chain_end {
    struct log_position position; /* all zero: there is no segment */
    uint64_t next_group;          /* number for the next group */
    uint64_t last_offset;         /* of the last group of that segment; 0 = it has none */
    uint64_t torn_bytes;          /* what a crash left behind the end */
    bool closed;                  /* the log was closed in order */
};

/* The position behind the last group of a log that ends there. */
struct log_position chain_end_of_groups(const struct chain *chain, const struct chain_end *end);

/* Walks all groups from `from` on. ERR_CORRUPT names file and offset of the
 * damage; ERR_INVALID when `from` is not a position of this log, ERR_NOT_FOUND
 * when what stands there was trimmed; an error of
 * `visit` ends the walk. `ret_end` is filled on success and on ERR_CORRUPT. */
enum err chain_walk(const struct chain *chain, struct log_position from, chain_group_fn *visit,
                    void *arg, log_reading_fn *reading, struct chain_end *ret_end,
                    struct error *error);

/* Visits the sections of a group; ERR_CORRUPT if they are malformed. */
enum err chain_visit_sections(const struct folder *folder, const struct group *group,
                              struct slice body, struct log_position next, log_visit_fn *visit,
                              void *arg, struct error *error);

/* Visits every sound group of one file from `offset` on, whatever stands between
 * them: to say what a repair takes away. */
enum err chain_scan(const struct folder *folder, uint64_t log_id, uint64_t number, uint64_t offset,
                    chain_group_fn *visit, void *arg, struct error *error);

#endif
