#include "log/file/segments.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void segments_init(struct segments *segments)
{
    *segments = (struct segments){0};
    pthread_mutex_init(&segments->mutex, NULL);
}

void segments_done(struct segments *segments)
{
    pthread_mutex_destroy(&segments->mutex);
    free(segments->entries);
}

static void add(struct segments *segments, struct segments_entry entry)
{
    if (segments->count == segments->capacity) {
        segments->capacity = segments->capacity > 0 ? 2 * segments->capacity : 16;
        segments->entries =
            realloc(segments->entries, segments->capacity * sizeof(*segments->entries));
        if (!segments->entries)
            abort();
    }
    segments->entries[segments->count++] = entry;
    segments->disk_bytes += entry.header.size_bytes;
}

void segments_add_sealed(struct segments *segments, const struct segment_header *header,
                         uint64_t end)
{
    pthread_mutex_lock(&segments->mutex);
    add(segments, (struct segments_entry){.header = *header, .end = end, .sealed = true});
    pthread_mutex_unlock(&segments->mutex);
}

void segments_drop_last(struct segments *segments)
{
    pthread_mutex_lock(&segments->mutex);
    assert(segments->count > 0);
    segments->disk_bytes -= segments->entries[--segments->count].header.size_bytes;
    pthread_mutex_unlock(&segments->mutex);
}

void segments_begin(struct segments *segments, const struct segment_header *header)
{
    pthread_mutex_lock(&segments->mutex);
    if (segments->count > 0) {
        struct segments_entry *last = &segments->entries[segments->count - 1];
        assert(last->header.number + 1 == header->number && last->end == header->previous_end);
        last->sealed = true;
    }
    add(segments, (struct segments_entry){.header = *header, .end = SEGMENT_HEADER_BYTES});
    pthread_mutex_unlock(&segments->mutex);
}

void segments_reach(struct segments *segments, struct log_position durable)
{
    pthread_mutex_lock(&segments->mutex);
    segments->durable = durable;
    struct segments_entry *last =
        segments->count > 0 ? &segments->entries[segments->count - 1] : NULL;
    if (last && last->header.number == durable.segment)
        last->end = durable.offset;
    pthread_mutex_unlock(&segments->mutex);
}

struct log_position segments_end(struct segments *segments)
{
    pthread_mutex_lock(&segments->mutex);
    struct log_position durable = segments->durable;
    pthread_mutex_unlock(&segments->mutex);
    return durable;
}

struct segments_place segments_find(struct segments *segments, struct log_position position)
{
    pthread_mutex_lock(&segments->mutex);
    struct segments_place place = {.durable = segments->durable};
    if (segments->count > 0) {
        place.first = segments->entries[0].header;
        uint64_t index = position.segment - place.first.number;
        if (position.segment >= place.first.number && index < segments->count)
            place.here = segments->entries[index];
    }
    pthread_mutex_unlock(&segments->mutex);
    return place;
}

size_t segments_list(struct segments *segments, struct log_segment *to, size_t room)
{
    pthread_mutex_lock(&segments->mutex);
    size_t count = segments->count;
    for (size_t i = 0; i < count && i < room; i++) {
        const struct segments_entry *entry = &segments->entries[i];
        to[i] = (struct log_segment){
            .number = entry->header.number,
            .bytes = entry->header.size_bytes,
            .created_ms = entry->header.created_ms,
            .sealed = entry->sealed,
        };
    }
    pthread_mutex_unlock(&segments->mutex);
    return count;
}

bool segments_before(struct segments *segments, uint64_t *first)
{
    pthread_mutex_lock(&segments->mutex);
    bool are_there = false;
    if (segments->count > 0) {
        uint64_t last = segments->entries[segments->count - 1].header.number;
        if (*first > last)
            *first = last;
        are_there = segments->entries[0].header.number < *first;
    }
    pthread_mutex_unlock(&segments->mutex);
    return are_there;
}

void segments_trim(struct segments *segments, uint64_t first)
{
    pthread_mutex_lock(&segments->mutex);
    size_t gone = 0;
    while (segments->entries[gone].header.number < first)
        segments->disk_bytes -= segments->entries[gone++].header.size_bytes;
    segments->count -= gone;
    if (gone > 0)
        memmove(segments->entries, segments->entries + gone,
                segments->count * sizeof(*segments->entries));
    pthread_mutex_unlock(&segments->mutex);
}

void segments_count(struct segments *segments, uint64_t *ret_count, uint64_t *ret_bytes)
{
    pthread_mutex_lock(&segments->mutex);
    *ret_count = segments->count;
    *ret_bytes = segments->disk_bytes;
    pthread_mutex_unlock(&segments->mutex);
}
