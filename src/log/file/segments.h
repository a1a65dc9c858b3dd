/* segments.h - the segments that a running log has, and how far it is durable:
 * what those who read and tidy up need to know of those who write.
 *
 * Thread-safe; nothing here waits for a disk. */
#ifndef LOG_FILE_SEGMENTS_H
#define LOG_FILE_SEGMENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/log.h"
#include "log/file/segment.h"

struct segments_entry {
    struct segment_header header;
    uint64_t end; /* of its groups; grows until it is sealed */
    bool sealed;
};

struct segments {
    pthread_mutex_t mutex;
    struct segments_entry *entries; /* owned; in order, without a gap */
    size_t count;
    size_t capacity;
    uint64_t disk_bytes;
    struct log_position durable; /* behind the last group that is */
};

void segments_init(struct segments *segments);
void segments_done(struct segments *segments);

/* Adds one that an earlier process has left, and that ends there. */
void segments_add_sealed(struct segments *segments, const struct segment_header *header,
                         uint64_t end);

/* The last one was empty, and is going to be replaced. */
void segments_drop_last(struct segments *segments);

/* The next one is in use from now on, and the one before it sealed. */
void segments_begin(struct segments *segments, const struct segment_header *header);

/* Everything up to there is durable. */
void segments_reach(struct segments *segments, struct log_position durable);
struct log_position segments_end(struct segments *segments);

/* What a reader at `position` has to know. */
struct segments_place {
    struct log_position durable;
    struct segment_header first; /* number 0 = there is none */
    struct segments_entry here;  /* the segment it is in; number 0 = there is none */
};
struct segments_place segments_find(struct segments *segments, struct log_position position);

/* As log_segments(). */
size_t segments_list(struct segments *segments, struct log_segment *to, size_t room);

/* Are there sealed ones before number *first? The last one is never counted: *first
 * becomes its number at most. */
bool segments_before(struct segments *segments, uint64_t *first);

/* Forgets those before number `first`, which is there. */
void segments_trim(struct segments *segments, uint64_t first);

/* How many there are, and their bytes. */
void segments_count(struct segments *segments, uint64_t *ret_count, uint64_t *ret_bytes);

#endif
