#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/varint.h"
#include "log/redis_stream/own.h"

#define BYTES_MAX (16u << 20) /* of an entry that somebody else may have made */

struct stream_entry *stream_entry_new(uint64_t first)
{
    struct stream_entry *entry = memory_take_zeroed(sizeof(*entry));
    entry->first = first;
    buffer_init(&entry->bytes, BYTES_MAX);
    return entry;
}

void stream_entry_free(struct stream_entry *entry)
{
    if (!entry)
        return;
    buffer_done(&entry->bytes);
    free(entry);
}

void stream_entries_free(struct fifo *entries)
{
    while (entries->first)
        stream_entry_free(stream_entry_at(fifo_pop(entries)));
}

bool stream_entry_has_room(const struct stream_entry *entry, size_t size)
{
    return entry->count < ENTRY_SECTIONS_MAX && entry->bytes.size + size <= ENTRY_BYTES_MAX;
}

void stream_entry_add(struct stream_entry *entry, struct slice header, struct slice body,
                      uint64_t last)
{
    if (buffer_append_slice(&entry->bytes, header) || buffer_append_slice(&entry->bytes, body))
        abort(); /* no memory */
    entry->sizes[entry->count++] = (uint32_t)(header.size + body.size);
    entry->last = last;
}

bool stream_entry_look(struct slice section, unsigned *ret_lane, uint64_t *ret_first,
                       uint64_t *ret_last)
{
    uint64_t origin = 0;
    uint64_t time_ms;
    uint64_t count = 0;
    const char *at = section.data;
    const char *end = section.data + section.size;
    if (!(at = varint_get(at, end, &origin)) || !(at = varint_get(at, end, ret_first)) ||
        !(at = varint_get(at, end, &time_ms)) || !varint_get(at, end, &count))
        return false;
    *ret_lane = (unsigned)origin;
    *ret_last = *ret_first + count - 1;
    return origin < LIMIT_CELLS && count > 0 && *ret_last >= *ret_first;
}

void stream_entry_id(char to[ID_BYTES], uint64_t epoch, uint64_t n)
{
    (void)snprintf(to, ID_BYTES, "%" PRIu64 "-%" PRIu64, epoch, n);
}

bool stream_entry_parse_id(const char *text, uint64_t *ret_sequence)
{
    char *dash;
    uint64_t epoch = strtoull(text, &dash, 10);
    if (dash == text || *dash != '-')
        return false;
    char *end;
    uint64_t n = strtoull(dash + 1, &end, 10);
    *ret_sequence = sequence_of(epoch, n);
    return *end == '\0' && sequence_epoch(*ret_sequence) == epoch && sequence_n(*ret_sequence) == n;
}

static struct slice text_of(const struct redisReply *reply)
{
    return (struct slice){reply->str, reply->len};
}

static void add_fields(struct stream_entry *entry, const struct redisReply *fields, uint64_t last)
{
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        struct slice value = text_of(fields->element[i + 1]);
        if (strcmp(fields->element[i]->str, "s") != 0 || value.size == 0)
            continue;
        if (entry->count == ENTRY_SECTIONS_MAX ||
            buffer_reserve(&entry->bytes, value.size) != ERR_OK)
            break;
        stream_entry_add(entry, value, (struct slice){0}, last);
    }
}

/* The sequences of what it holds are looked at, and not believed: what makes no sense is handed on
 * as it is, and becomes a dead letter. */
struct stream_entry *stream_entry_of_reply(const struct redisReply *reply, uint64_t *ret_last)
{
    *ret_last = 0;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        !stream_entry_parse_id(reply->element[0]->str, ret_last) ||
        reply->element[1]->type != REDIS_REPLY_ARRAY)
        return NULL;
    struct stream_entry *entry = stream_entry_new(*ret_last);
    entry->last = *ret_last;
    add_fields(entry, reply->element[1], *ret_last);
    unsigned lane;
    uint64_t first;
    uint64_t last;
    struct slice section = {entry->bytes.data, entry->count > 0 ? entry->sizes[0] : 0};
    if (entry->count > 0 && stream_entry_look(section, &lane, &first, &last) && first <= *ret_last)
        entry->first = first;
    else if (entry->count == 0)
        stream_entry_add(entry, SLICE("?"), (struct slice){0}, *ret_last);
    return entry;
}
