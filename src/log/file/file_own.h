/* file_own.h - what the files of the file log share: its state, and who does what.
 *
 *   file.c      the port; opening and closing
 *   start.c     reading what is there, and beginning behind its end
 *   room.c      is there room for more?
 *   next.c      the next segment: wanted, prepared, gone over to
 *   commit.c    what is pending becomes durable
 *   seal.c      ending a segment when it is asked for
 *   threads.c   who does the work, and when */
#ifndef LOG_FILE_FILE_OWN_H
#define LOG_FILE_FILE_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "log/file/chain.h"
#include "log/file/file.h"
#include "log/file/folder.h"
#include "log/file/follow.h"
#include "log/file/pending.h"
#include "log/file/prepare.h"
#include "log/file/segment.h"
#include "log/file/segments.h"
#include "log/file/verify.h"
#include "log/file/writer.h"

#define RETRY_NS (UINT64_C(1000) * 1000 * 1000) /* after a full disk */

struct file_log {
    struct log base;
    struct env *env;                 /* borrowed */
    struct file_log_options options; /* but for `folder`, which is not kept */
    struct folder folder;
    struct chain chain;   /* what was there when the log was opened */
    struct chain_end end; /* where that ends, once it is known */
    bool end_known;
    struct segments segments;
    struct follow follow;
    pthread_mutex_t upkeep; /* one at a time rotates, trims or scrubs */

    /* Of the log thread alone. */
    struct writer writer;
    struct chunk *in_hand; /* taken, not yet durable */
    uint64_t unsettled_ns; /* since when what was noted as synced is not durable; 0 = it is */
    uint64_t synced_ns;    /* when the last group was synced, and how long that took */
    uint64_t sync_took_ns;

    /* Of the preparing thread alone. */
    struct prepare prepare;

    /* Of the verifying thread alone. */
    struct verify verify;
    uint64_t damaged; /* segments, of those that were looked at since the beginning of the log */

    pthread_mutex_t mutex;
    pthread_cond_t work;   /* for the log thread */
    pthread_cond_t wanted; /* for the preparing thread */
    pthread_cond_t sealed; /* for who asked for it */
    pthread_cond_t ending; /* for the verifying thread */
    pthread_t log_thread;
    pthread_t prepare_thread;
    pthread_t verify_thread;
    bool threads_run;
    bool verify_runs;

    /* Under the mutex. */
    struct pending pending;
    uint64_t last_ticket;
    uint64_t pending_bytes; /* appended, not yet durable */
    uint64_t left_bytes;    /* behind the groups of the segment */
    struct disk_file *next; /* a zeroed segment; NULL = not ready */
    uint64_t next_bytes;
    uint64_t wanted_bytes; /* size of the segment to prepare; 0 = there is one */
    uint64_t retry_ns;     /* not to be tried again before */
    bool prepare_full;     /* preparing met a full disk */
    bool commit_full;      /* so did the chunk in hand */
    bool blocked;          /* the chunk in hand has no place at the moment */
    bool idle;             /* the log thread sleeps and wants to be woken */
    bool launched;         /* somebody waits for what is pending */
    bool seal_wanted;      /* the segment in use shall end behind `seal_ticket` */
    uint64_t seal_ticket;
    enum err seal_result; /* of the last time that it was wanted */
    bool stopping;
    bool quit;   /* for the preparing and the verifying thread */
    bool broken; /* fatal() was called */
    struct log_stats stats;

    atomic_uint holds; /* threads that are about to append more */
    atomic_int room;
    bool lacks_files; /* it is full for want of descriptors, not of space */
    _Atomic uint64_t written;
    _Atomic uint64_t durable;
};

static inline struct file_log *file_log_of(struct log *base)
{
    return (struct file_log *)base;
}

/* Nothing goes any more: tells everybody who waits, and the owner, once. */
void file_log_fail(struct file_log *log, const struct error *error);

/* ---- start.c: of the port ---- */

enum err start_read(struct log *base, struct log_position from, log_visit_fn *visit, void *arg,
                    log_reading_fn *reading, struct error *error);
enum err start_log(struct log *base, struct error *error);

/* ---- room.c; under the mutex ---- */

/* Says anew what room() answers. */
void room_decide(struct file_log *log);

/* The disk was found full, or not if `why` is NULL; `flag` is prepare_full or commit_full. */
void room_note_space(struct file_log *log, bool *flag, const struct error *why);

/* ---- next.c ---- */

/* The size of the segment behind this one. */
uint64_t next_size_bytes(const struct file_log *log);

/* Goes on in this file, which is full of zeros. */
enum err next_begin(struct file_log *log, struct disk_file *file, const char *name,
                    uint64_t size_bytes, struct error *error);

/* Goes over to the next segment for a group of this size. ERR_BUSY while none
 * is ready, ERR_FULL when the disk has no space. */
enum err next_rotate(struct file_log *log, uint64_t group_size, struct error *error);

/* Is one wanted, and is it time to try? Under the mutex. */
bool next_may_prepare(const struct file_log *log);

/* Does a step of the work. `wanted_bytes` counts when a segment is begun. */
void next_prepare_some(struct file_log *log, uint64_t wanted_bytes);

/* ---- commit.c ---- */

/* Is it worth waiting for more? Not if somebody waits for it, nor for ever. Under the mutex. */
bool commit_is_held(const struct file_log *log);

/* Takes what is pending, writes it as a group, syncs it and publishes that.
 * True if something became durable. */
bool commit_some(struct file_log *log);

/* What was noted as synced becomes durable, too, once nothing was written for a moment; while there
 * is always something to write now and then, at a hundredth of the time at most. When is that? On
 * env_monotonic_ns(); 0 = nothing was noted. */
uint64_t commit_settles_at(const struct file_log *log, bool has_work);

/* Does it if it is time. True if that was done. */
bool commit_settle(struct file_log *log, bool has_work);

/* What was to be written has no place now, with ERR_FULL for `why` or without a reason: it
 * is kept and tried again. */
void commit_block(struct file_log *log, const struct error *full);

/* ---- seal.c ---- */

/* True if it was asked for, and has been done or has failed. */
bool seal_if_wanted(struct file_log *log);

/* Of the port: asks for it and waits until it is done. */
enum err seal_rotate(struct log *base, struct error *error);

/* ---- threads.c ---- */

enum err threads_start(struct file_log *log, struct error *error);

/* What was appended is written first; that may need one more segment. */
void threads_stop(struct file_log *log);

#endif
