#include "log/file/pending.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "core/log.h"

/* One that is written, one that fills, one to take over: these stay once they
 * were needed. More come and go with a disk that cannot keep up. */
#define SPARE_MAX 3u

#define BODY_BYTES_MAX (GROUP_BYTES_MAX - GROUP_HEADER_BYTES - GROUP_ALIGN)

_Static_assert(LOG_SECTION_BYTES_MAX + VARINT_SIZE_MAX <= BODY_BYTES_MAX,
               "every section fits into a group");

static struct chunk *new_chunk(void)
{
    struct chunk *chunk = malloc(sizeof(*chunk)); /* touched only as far as it is used */
    if (!chunk)
        abort();
    return chunk;
}

void pending_init(struct pending *pending)
{
    *pending = (struct pending){0};
}

static void free_chunks(struct chunk *chunk)
{
    while (chunk) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void pending_done(struct pending *pending)
{
    free_chunks(pending->first);
    free_chunks(pending->spare);
    *pending = (struct pending){0};
}

static struct chunk *add_chunk(struct pending *pending)
{
    struct chunk *chunk = pending->spare;
    if (chunk) {
        pending->spare = chunk->next;
        pending->spare_count--;
    } else {
        chunk = new_chunk();
    }
    chunk->next = NULL;
    chunk->last_ticket = 0;
    chunk->sections = 0;
    chunk->body_bytes = 0;

    if (pending->last)
        pending->last->next = chunk;
    else
        pending->first = chunk;
    pending->last = chunk;
    return chunk;
}

static char *copy(char *to, struct slice from)
{
    if (from.size > 0)
        memcpy(to, from.data, from.size);
    return to + from.size;
}

uint32_t pending_append(struct pending *pending, struct slice header, struct slice body,
                        uint64_t ticket)
{
    size_t size = header.size + body.size;
    assert(size <= LOG_SECTION_BYTES_MAX);

    struct chunk *chunk = pending->last;
    if (!chunk || BODY_BYTES_MAX - chunk->body_bytes < size + VARINT_SIZE_MAX)
        chunk = add_chunk(pending);

    char *start = chunk->bytes + GROUP_HEADER_BYTES + chunk->body_bytes;
    char *end = copy(copy(varint_put(start, size), header), body);
    uint32_t taken = (uint32_t)(end - start);

    chunk->body_bytes += taken;
    chunk->sections++;
    chunk->last_ticket = ticket;
    return taken;
}

struct chunk *pending_take(struct pending *pending)
{
    struct chunk *chunk = pending->first;
    if (chunk) {
        pending->first = chunk->next;
        if (!pending->first)
            pending->last = NULL;
        chunk->next = NULL;
    }
    return chunk;
}

void pending_give_back(struct pending *pending, struct chunk *chunk)
{
    if (pending->spare_count >= SPARE_MAX) {
        free(chunk);
        return;
    }
    chunk->next = pending->spare;
    pending->spare = chunk;
    pending->spare_count++;
}
