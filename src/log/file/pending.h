/* pending.h - what was appended and is not yet on its way to the disk.
 *
 * Sections gather in chunks, and a chunk is written to the disk as it stands,
 * as one group: room for the group's header is left at its front, and appending
 * is one copy. While one chunk is being written the next one fills. Chunks that
 * come back are used again, the last one first, since it is still in the cache.
 *
 * Not thread-safe: the owner has a lock around it. */
#ifndef LOG_FILE_PENDING_H
#define LOG_FILE_PENDING_H

#include <stdint.h>

#include "base/slice.h"
#include "log/file/segment.h"

struct chunk {
    struct chunk *next;
    uint64_t last_ticket; /* of its last section */
    uint32_t sections;
    uint32_t body_bytes;
    char bytes[GROUP_BYTES_MAX]; /* room for the header, then the body */
};

struct pending {
    struct chunk *first; /* the oldest, to be written next; NULL = nothing is pending */
    struct chunk *last;  /* the one that fills; NULL likewise */
    struct chunk *spare;
    unsigned spare_count;
};

void pending_init(struct pending *pending);
void pending_done(struct pending *pending);

/* Adds a section and returns how many bytes it takes in the group. */
uint32_t pending_append(struct pending *pending, struct slice header, struct slice body,
                        uint64_t ticket);

/* The oldest chunk, now the caller's until it gives it back; NULL if there is none. */
struct chunk *pending_take(struct pending *pending);
void pending_give_back(struct pending *pending, struct chunk *chunk);

#endif
