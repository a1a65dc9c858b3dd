/* follow.h - reading a log that is being written: as far as it is durable, and
 * whatever happens to older segments meanwhile.
 *
 * A reader opens the segment files by itself and shares nothing with those who
 * write but the table of segments. Readers are kept for the next call, with
 * their buffer and the file they have open: a call then costs a read of what is
 * new. Thread-safe. */
#ifndef LOG_FILE_FOLLOW_H
#define LOG_FILE_FOLLOW_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"
#include "core/log.h"
#include "log/file/folder.h"
#include "log/file/segments.h"

#define FOLLOW_IDLE_MAX 4u

struct follow_reader;

struct follow {
    const struct folder *folder; /* borrowed */
    struct segments *segments;   /* borrowed */
    pthread_mutex_t mutex;
    struct follow_reader *idle[FOLLOW_IDLE_MAX]; /* owned; kept for the next call */
    unsigned idle_count;
    uint64_t generation; /* grows when files that readers have open are of yesterday */
};

void follow_init(struct follow *follow, const struct folder *folder, struct segments *segments);
void follow_done(struct follow *follow);

/* As log_follow(). */
enum err follow_read(struct follow *follow, struct log_position *at, uint64_t limit,
                     log_visit_fn *visit, void *arg, struct error *error);

/* Segments were removed or written anew: no file of before stays open, but for
 * the calls that are under way. */
void follow_forget(struct follow *follow);

#endif
