/* log.h - the contract that Tally asks of an event log.
 *
 * A log takes sections (core/event.h) and makes them durable in the order in
 * which they were appended. Appending does not wait: it gives back a ticket,
 * and the answer to the client leaves when the log has reached that ticket.
 *
 * A log has lanes. A log of one lane has one order for everything that is appended; one of
 * LIMIT_CELLS has an order for each origin: the sections of origin o are lane o. Tickets and
 * positions are those of a lane.
 *
 * append, room and reached may be called from any thread. */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/callback.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/limits.h"

/* No section is larger: who writes sections cuts them before. */
#define LOG_SECTION_BYTES_MAX (1u << 20)

/* How safe a section is. */
enum log_level {
    LOG_WRITTEN, /* handed to the system: outlives the process, not the machine */
    LOG_DURABLE, /* on disk: outlives a power cut */
};

/* A place in the log that can be remembered; ordered by segment, then offset.
 * All zero is the beginning, wherever that is now; offset zero of a segment is the
 * beginning of it. */
struct log_position {
    uint64_t segment;
    uint64_t offset;
};

static inline bool log_position_is_before(struct log_position a, struct log_position b)
{
    return a.segment < b.segment || (a.segment == b.segment && a.offset < b.offset);
}

struct log;

/* Called for each section while reading; an error stops the reading and is
 * returned, and what it refused is visited again. `next` is the position behind this section; of
 * a log of one lane, behind its commit group, which is visited as a whole. */
typedef enum err log_visit_fn(void *arg, struct slice section, struct log_position next,
                              struct error *error);

/* Called now and then while reading, so that somebody can be told. */
typedef void log_reading_fn(void *arg, uint64_t bytes_done, uint64_t bytes_all);

/* What an operator wants to know; all since start unless said. */
struct log_stats {
    uint64_t sections;
    uint64_t bytes;
    uint64_t groups;  /* commits */
    uint64_t sync_ns; /* time spent in syncs, all together */
    uint64_t sync_ns_max;
    uint64_t pending_bytes;    /* appended, not yet durable, now */
    uint64_t segments;         /* now */
    uint64_t disk_bytes;       /* now */
    uint64_t full_since_ms;    /* wall clock; 0 = there is room */
    uint64_t verified_bytes;   /* of older segments, read to see that they are sound */
    uint64_t verified_ms;      /* wall clock: all of them had been read then; 0 = not yet */
    uint64_t damaged_segments; /* of them, now */
    uint64_t down_since_ms;    /* wall clock; 0 = the log's server answers, or there is none */
};

/* A piece of the log that is kept or removed as a whole. */
struct log_segment {
    uint64_t number;
    uint64_t bytes; /* on disk */
    int64_t created_ms;
    bool sealed; /* nothing is appended to it any more */
};

/* Something of the log that will never be applied as it stands there (store.h: a dead letter). */
struct log_letter {
    unsigned lane;
    struct log_position position; /* behind it, as `next` of the visit */
    struct slice event_id;
    struct slice reason;
    struct slice raw; /* the section, or what was in its place */
};

/* As log_visit_fn, of one of many lanes. */
typedef enum err log_scan_fn(void *arg, unsigned lane, struct slice section,
                             struct log_position next, struct error *error);

/* A reading of what a log of many lanes has, beside those who follow it. */
struct log_scan {
    struct log_position at[LIMIT_CELLS]; /* from here on, and then behind what was visited; all
                                          * zero: where the lane begins now */
    uint64_t cut;       /* the answer, a bit for each lane that was to be read from its beginning:
                         * that is gone */
    bool must_be_whole; /* if there are such lanes, nothing is read: ERR_OUT_OF_RANGE */
    log_scan_fn *visit;
    void *arg;
};

/* May change bytes of a section in place, but not its size or its sense for
 * others: true if it did. */
typedef bool log_scrub_fn(void *arg, char *section, size_t size);

struct log_ops {
    const char *name; /* as written in the configuration: "file" */

    /* read, segments, rotate, trim and scrub are of logs that are files of our own. NULL in others:
     * there is nothing to read at a start, there are no segments, and nothing can be scrubbed.
     *
     * Reads everything from `from` on, in order. Called before start(). */
    enum err (*read)(struct log *log, struct log_position from, log_visit_fn *visit, void *arg,
                     log_reading_fn *reading, struct error *error);

    /* Makes the log ready for append(). Called once, after reading. */
    enum err (*start)(struct log *log, struct error *error);

    /* Takes a copy of header and body, which together are one section, and
     * returns its ticket. Tickets grow. Does not fail: room() was asked. */
    uint64_t (*append)(struct log *log, struct slice header, struct slice body);

    /* hold() says that the caller is about to append more, launch() that it has
     * nothing more for now: a log that commits in groups waits in between, so that
     * one group carries more. The pair belongs to one thread, and lies less than a
     * millisecond apart. Nobody has to hold: what is appended without it is
     * committed at once. Both NULL: the log does not care. */
    void (*hold)(struct log *log);
    void (*launch)(struct log *log);

    /* May more be appended? ERR_OK, ERR_FULL (no space on the disk), ERR_NO_FILES (too many are
     * open), ERR_BUSY (the disk or the log's server does not keep up) or ERR_UNAVAILABLE (the
     * server does not answer; what was appended already waits for it). Cheap: asked once a batch.
     */
    enum err (*room)(struct log *log);

    /* The ticket up to which everything in the lane has reached the level. Cheap. */
    uint64_t (*reached)(struct log *log, unsigned lane, enum log_level level);

    /* The first ticket of ours in the lane from which on nobody else's section stands between ours,
     * as far as the lane has been reached; the log may name a later one. So what others have
     * appended (a new epoch, say) stands before that ticket, or behind all that was reached. Asked
     * after reached(). Cheap. NULL: nobody else appends. */
    uint64_t (*alone)(struct log *log, unsigned lane);

    /* Reads a lane on while the log is running: visits sections from *at on, as far as
     * they are durable, whole commit groups at a time, until `limit` bytes or more
     * were visited, and moves *at behind them: into the next segment only with the
     * first group there. ERR_OK and *at as it was: there is nothing new.
     * ERR_NOT_FOUND: what stands there was trimmed; ERR_INVALID: the log ends before
     * it. Any thread, several at once; never in the way of append().
     * Logs of many lanes, whose server is elsewhere, fetch in the background: nothing new may also
     * mean not here yet, that the lane is not ours, or that the server does not answer (see
     * stats). One thread follows. What comes may have come before; its sequences tell. It may be
     * bytes that make no sense. ERR_NOT_FOUND also for a beginning that is gone. After an error
     * the next call looks again. */
    enum err (*follow)(struct log *log, unsigned lane, struct log_position *at, uint64_t limit,
                       log_visit_fn *visit, void *arg, struct error *error);

    /* Visits all lanes from scan->at on, up to where they end when this is called: each in its
     * order, by turns. What comes may have come before, and may be bytes that make no sense, as
     * with follow(). Waits for the server, and changes nothing there: whoever follows does not
     * notice. Any thread, several at once. What was trimmed behind scan->at is ERR_NOT_FOUND, or
     * is missed among the sequences. ERR_UNAVAILABLE; or what `visit` refused with. NULL: it cannot
     * be read again, as if nothing of it were left. */
    enum err (*scan)(struct log *log, struct log_scan *scan, struct error *error);

    /* Where the durable part of the lane ends: what follow() would come to. Known after read() or
     * start(). Cheap. */
    struct log_position (*end)(struct log *log, unsigned lane);

    /* The lanes that this process is to carry into the store now, a bit each: where several
     * processes share a log, they share out its lanes. A lane that is new to the caller is
     * followed from where the store is. Called several times a second by the one who follows;
     * never waits for long. NULL: all of them. */
    uint64_t (*owned)(struct log *log);

    /* The store has everything of the lane before `position`, for good: a log that others do not
     * read may let go of it. NULL: nothing is let go of in this way. */
    enum err (*release)(struct log *log, unsigned lane, struct log_position position,
                        struct error *error);

    /* The segments there are, oldest first; returns how many, fills in up to `room`.
     * Also before read(). */
    size_t (*segments)(struct log *log, struct log_segment *to, size_t room);

    /* Ends the segment in use: all that was appended before is durable and in
     * sealed segments when this returns. Waits for the disk. */
    enum err (*rotate)(struct log *log, struct error *error);

    /* Removes the sealed segments before number `first`. */
    enum err (*trim)(struct log *log, uint64_t first, struct error *error);

    /* Writes a sealed segment anew with the bytes that `scrub` has changed, in one
     * step: after a crash it is the old one or the new one. Positions stay. Says
     * how many sections were changed. The old bytes are gone from the disk's files. */
    enum err (*scrub)(struct log *log, uint64_t segment, log_scrub_fn *scrub, void *arg,
                      uint64_t *ret_changed, struct error *error);

    /* Tells those who read the log beside us of a dead letter. Does not wait; may be lost, since
     * the store has the letter. NULL: nobody is told. */
    void (*dead)(struct log *log, const struct log_letter *letter);

    void (*stats)(struct log *log, struct log_stats *ret_stats);

    /* Makes what was appended durable, then frees the log. */
    void (*close)(struct log *log);
};

/* The first member of every log's own struct. */
struct log {
    const struct log_ops *ops;
    atomic_bool is_shut;      /* log_shut() */
    unsigned lanes;           /* LIMIT_CELLS; up to 1: there is one */
    struct callback progress; /* called when the log has reached further, on a thread of the log's
                               * own: wake up whoever waits, and return */
};

/* Callers use these, not the table: what is true of every log is checked here. */
enum err log_read(struct log *log, struct log_position from, log_visit_fn *visit, void *arg,
                  log_reading_fn *reading, struct error *error);
enum err log_start(struct log *log, struct error *error);
uint64_t log_append(struct log *log, struct slice header, struct slice body);
void log_hold(struct log *log);
void log_launch(struct log *log);
enum err log_room(struct log *log); /* ERR_MOVED: it is shut */

/* Lets in nobody any more who asks for room, or lets them in again: others are to take the writes.
 * Who asked before may still append (hot_settle() waits for them). Any thread. */
void log_shut(struct log *log, bool is_shut);
uint64_t log_reached(struct log *log, unsigned lane, enum log_level level);
uint64_t log_alone(struct log *log, unsigned lane);
enum err log_follow(struct log *log, unsigned lane, struct log_position *at, uint64_t limit,
                    log_visit_fn *visit, void *arg, struct error *error);
enum err log_scan(struct log *log, struct log_scan *scan, struct error *error);
struct log_position log_end(struct log *log, unsigned lane);
uint64_t log_owned(struct log *log);
enum err log_release(struct log *log, unsigned lane, struct log_position position,
                     struct error *error);
size_t log_segments(struct log *log, struct log_segment *to, size_t room);
enum err log_rotate(struct log *log, struct error *error);
enum err log_trim(struct log *log, uint64_t first, struct error *error);
enum err log_scrub(struct log *log, uint64_t segment, log_scrub_fn *scrub, void *arg,
                   uint64_t *ret_changed, struct error *error);
void log_dead(struct log *log, const struct log_letter *letter);
void log_stats(struct log *log, struct log_stats *ret_stats);
void log_close(struct log *log);

/* "file" */
static inline const char *log_name(const struct log *log)
{
    return log->ops->name;
}

#endif
