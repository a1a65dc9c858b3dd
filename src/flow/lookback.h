/* lookback.h - a log of many lanes, read again from its beginning: as those did who carried it
 * into the store.
 *
 * Repetitions, and what came late from an epoch that had ended, are left out by their sequences;
 * so are bytes that make no sense, which became dead letters. What is missing is an error. Lanes
 * are read by turns, and nothing waits for another lane (EVENT_AFTER): whoever looks back takes
 * sums, for which the order between lanes makes no difference.
 *
 * Not every log has its beginning: events go when their time is over, and a store may have had
 * another log before. Belongs to one thread. */
#ifndef FLOW_LOOKBACK_H
#define FLOW_LOOKBACK_H

#include "core/log.h"
#include "flow/desk_own.h"

struct lookback {
    struct desk_seat *seat;
    log_visit_fn *visit;
    void *arg;
    const struct state_mark *limit; /* nothing behind it; NULL: all that there is */
    struct log_scan scan;
    uint64_t seen[LIMIT_CELLS]; /* sequences */
    struct buffer rest;         /* of a section that came before in part */
};

void lookback_init(struct lookback *lookback, struct desk_seat *seat, log_visit_fn *visit,
                   void *arg);
void lookback_done(struct lookback *lookback);

/* Reads on, up to where the log ends now, and behind, until everything up to the sequences in
 * `until` was seen (NULL: no such wait; UINT64_MAX of a lane: none there). ERR_OUT_OF_RANGE: the
 * beginning is gone; ERR_CORRUPT: events are missing. */
enum err lookback_read(struct lookback *lookback, const uint64_t *until, struct error *error);

/* Reads on up to where a store with this mark is, and no further. */
enum err lookback_read_to(struct lookback *lookback, const struct state_mark *mark,
                          struct error *error);

/* All of it, in one go. */
enum err lookback_all(struct desk_seat *seat, const uint64_t *until, log_visit_fn *visit, void *arg,
                      struct error *error);

/* Of a log whose beginning is gone: since when it has everything, as far as that can be said
 * without reading all of it; 0 = not known. */
enum err lookback_reach(struct desk_seat *seat, int64_t *ret_since_ms, struct error *error);

#endif
