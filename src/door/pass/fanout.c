#include "door/pass/fanout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "door/pass/client_limits.h"
#include "door/pass/pass.h"

#define BLOCK_FIRST_BYTES 1024u
#define BYTES_LEAST       (4u << 20) /* of all streams: a few blocks */
#define RANGES_FIRST      4u

struct fanout_block {
    size_t references; /* of ranges, and one of the stream while it is its last block */
    bool is_last;
    uint32_t size;
    uint32_t published; /* what follows is not */
    uint32_t capacity;
    char *data; /* owned: messages, each behind its size as a uint32_t */
};

struct fanout_range {
    struct fanout_block *block;
    uint32_t at;
    uint32_t end;
    uint64_t after;
};

void fanout_init(struct fanout *fanout, struct client_share *share, size_t bytes_max,
                 fanout_prefix_fn *prefix)
{
    *fanout = (struct fanout){
        .share = share,
        .prefix = prefix,
        .bytes_max = bytes_max > BYTES_LEAST ? bytes_max : BYTES_LEAST,
        .client_bytes_max = bytes_max,
    };
}

void fanout_done(struct fanout *fanout)
{
    assert(fanout->bytes == 0 && !fanout->queues);

    free(fanout->scratch);
}

/* ---- blocks ---- */

/* Of messages: what is kept of a stream without any is memory, but no reason to drop anybody. */
static void count_bytes(struct fanout *fanout, int64_t bytes)
{
    fanout->bytes += (size_t)bytes;
    client_share_add(fanout->share, bytes);
}

/* A stream's last block that nobody has to send anything of begins anew. */
static void rewind_block(struct fanout *fanout, struct fanout_block *block)
{
    if (!block->is_last || block->references > 1 || block->size > block->published)
        return;
    block->size = block->published = 0;
    count_bytes(fanout, -(int64_t)block->capacity);
    free(block->data);
    block->data = NULL;
    block->capacity = 0;
}

static void release(struct fanout *fanout, struct fanout_block *block)
{
    block->references--;
    rewind_block(fanout, block);
    if (block->references > 0)
        return;
    count_bytes(fanout, -(int64_t)block->capacity);
    client_share_add(fanout->share, -(int64_t)sizeof(*block));
    free(block->data);
    free(block);
}

static struct fanout_block *new_block(struct fanout *fanout)
{
    struct fanout_block *block = memory_take_zeroed(sizeof(*block));
    block->references = 1;
    block->is_last = true;
    client_share_add(fanout->share, sizeof(*block));
    return block;
}

static void grow_block(struct fanout *fanout, struct fanout_block *block, size_t size)
{
    uint32_t capacity = block->capacity > 0 ? block->capacity : BLOCK_FIRST_BYTES;
    while (capacity < size)
        capacity *= 2;
    if (capacity == block->capacity)
        return;
    count_bytes(fanout, (int64_t)capacity - block->capacity);
    block->data = memory_resize(block->data, capacity);
    block->capacity = capacity;
}

/* ---- streams ---- */

bool fanout_fits(const struct fanout_stream *stream, size_t size)
{
    const struct fanout_block *block = stream->block;
    return !block || block->size == block->published ||
           block->size + sizeof(uint32_t) + size <= FANOUT_BLOCK_BYTES;
}

static void leave_block(struct fanout *fanout, struct fanout_stream *stream)
{
    if (!stream->block)
        return;
    stream->block->is_last = false;
    release(fanout, stream->block);
    stream->block = NULL;
}

/* The last block, or a new one if that is full. */
static struct fanout_block *block_for(struct fanout *fanout, struct fanout_stream *stream,
                                      size_t size)
{
    struct fanout_block *block = stream->block;
    if (block && block->size > 0 && block->size + size > FANOUT_BLOCK_BYTES)
        leave_block(fanout, stream);
    if (!stream->block)
        stream->block = new_block(fanout);
    return stream->block;
}

static void make_room(struct fanout *fanout, size_t wanted);

bool fanout_add(struct fanout *fanout, struct fanout_stream *stream, struct slice message)
{
    assert(message.size < FANOUT_BLOCK_BYTES * 1024u && fanout_fits(stream, message.size));

    size_t record = sizeof(uint32_t) + message.size;
    if (fanout->bytes + 2 * record > fanout->bytes_max) {
        make_room(fanout, 2 * record);
        if (fanout->bytes + 2 * record > fanout->bytes_max)
            return false;
    }
    struct fanout_block *block = block_for(fanout, stream, record);
    grow_block(fanout, block, block->size + record);
    uint32_t size = (uint32_t)message.size;
    memcpy(block->data + block->size, &size, sizeof(size));
    if (size > 0)
        memcpy(block->data + block->size + sizeof(size), message.data, size);
    block->size += (uint32_t)record;
    return true;
}

void fanout_published(struct fanout *fanout, struct fanout_stream *stream)
{
    if (!stream->block)
        return;
    stream->block->published = stream->block->size;
    rewind_block(fanout, stream->block);
}

void fanout_stream_done(struct fanout *fanout, struct fanout_stream *stream)
{
    leave_block(fanout, stream);
}

/* ---- queues ---- */

static struct fanout_range *range_at(const struct fanout_queue *queue, uint32_t index)
{
    return &queue->ranges[(queue->first + index) & (queue->capacity - 1)];
}

static void grow_queue(struct fanout_queue *queue)
{
    uint32_t capacity = queue->capacity > 0 ? 2 * queue->capacity : RANGES_FIRST;
    struct fanout_range *ranges = memory_take(capacity * sizeof(*ranges));
    for (uint32_t i = 0; i < queue->count; i++)
        ranges[i] = *range_at(queue, i);
    free(queue->ranges);
    queue->ranges = ranges;
    queue->capacity = capacity;
    queue->first = 0;
}

static void link_queue(struct fanout *fanout, struct fanout_queue *queue)
{
    queue->fanout = fanout;
    queue->previous = NULL;
    queue->next = fanout->queues;
    if (queue->next)
        queue->next->previous = queue;
    fanout->queues = queue;
}

static void unlink_queue(struct fanout_queue *queue)
{
    if (queue->previous)
        queue->previous->next = queue->next;
    else
        queue->fanout->queues = queue->next;
    if (queue->next)
        queue->next->previous = queue->previous;
}

static void drop_first(struct fanout_queue *queue)
{
    release(queue->fanout, range_at(queue, 0)->block);
    queue->first++;
    if (--queue->count == 0)
        unlink_queue(queue);
}

static void clear(struct fanout_queue *queue)
{
    while (queue->count > 0)
        drop_first(queue);
    free(queue->ranges);
    queue->ranges = NULL;
    queue->capacity = 0;
    queue->bytes = 0;
}

void fanout_queue_done(struct fanout_queue *queue)
{
    clear(queue);
}

size_t fanout_queue_bytes(const struct fanout_queue *queue)
{
    return queue->capacity * sizeof(struct fanout_range) + queue->subscription_bytes;
}

void fanout_queue_tick(struct fanout_queue *queue)
{
    queue->published_long = queue->published_before;
    queue->published_before = queue->published;
}

void fanout_drop(struct fanout_queue *queue)
{
    clear(queue);
    queue->is_dropped = true;
    pass_touch(queue->client);
}

static size_t lag_of(const struct fanout_queue *queue)
{
    return fanout_queue_lag(queue);
}

static size_t unsent_of(const struct fanout_queue *queue)
{
    return queue->bytes;
}

static size_t find_most(const struct fanout *fanout, size_t (*measure)(const struct fanout_queue *))
{
    size_t most = 0;
    for (const struct fanout_queue *one = fanout->queues; one; one = one->next)
        most = measure(one) > most ? measure(one) : most;
    return most;
}

/* Drops clients until there is room for so much: those that lag most, until half of all is free;
 * only if nobody lags those that have most to be sent, and no more of them than it takes. */
static void make_room(struct fanout *fanout, size_t wanted)
{
    while (fanout->queues) {
        bool any_lags = find_most(fanout, lag_of) > 0;
        if (fanout->bytes + (any_lags ? fanout->bytes_max / 2 : wanted) <= fanout->bytes_max)
            return;
        size_t (*measure)(const struct fanout_queue *) = any_lags ? lag_of : unsent_of;
        size_t most = find_most(fanout, measure);
        struct fanout_queue *next;
        for (struct fanout_queue *one = fanout->queues; one; one = next) {
            next = one->next;
            if (measure(one) >= most - most / 4)
                fanout_drop(one);
        }
    }
}

/* Continues the last range where that is possible. */
static void append_range(struct fanout *fanout, struct fanout_queue *queue,
                         struct fanout_range range)
{
    struct fanout_range *last = queue->count > 0 ? range_at(queue, queue->count - 1) : NULL;
    if (last && last->block == range.block && last->end == range.at && last->after == range.after) {
        last->end = range.end;
        return;
    }
    if (queue->count == queue->capacity)
        grow_queue(queue);
    if (queue->count++ == 0)
        link_queue(fanout, queue);
    *range_at(queue, queue->count - 1) = range;
    range.block->references++;
}

void fanout_publish(struct fanout *fanout, const struct fanout_stream *stream,
                    struct fanout_queue *queue, uint64_t after)
{
    struct fanout_block *block = stream->block;
    if (!block || block->size == block->published || queue->is_dropped)
        return;
    append_range(fanout, queue, (struct fanout_range){block, block->published, block->size, after});
    queue->bytes += block->size - block->published;
    queue->published += block->size - block->published;
    if (queue->bytes > fanout->client_bytes_max)
        fanout_drop(queue);
    else
        pass_touch(queue->client);
}

uint64_t fanout_next(const struct fanout_queue *queue)
{
    return queue->count > 0 ? range_at(queue, 0)->after : UINT64_MAX;
}

/* ---- sending ---- */

/* A message as it is sent to one client. */
struct message {
    char prefix[FANOUT_PREFIX_BYTES];
    size_t prefix_size;
    struct slice body;
    uint32_t end; /* in its block */
};

static struct message message_at(const struct fanout_queue *queue, const struct fanout_range *range,
                                 uint32_t at, uint64_t number)
{
    struct message message;
    uint32_t size;
    memcpy(&size, range->block->data + at, sizeof(size));
    message.body = (struct slice){range->block->data + at + sizeof(size), size};
    message.end = at + (uint32_t)sizeof(size) + size;
    message.prefix_size = queue->fanout->prefix ? queue->fanout->prefix(number, message.prefix) : 0;
    return message;
}

/* Copies the message from byte `from` on, as much of it as fits; how much that is. */
static size_t copy_message(const struct message *message, size_t from, char *to, size_t room)
{
    size_t copied = 0;
    if (from < message->prefix_size) {
        copied = message->prefix_size - from;
        copied = copied < room ? copied : room;
        memcpy(to, message->prefix + from, copied);
        from = message->prefix_size;
    }
    from -= message->prefix_size;
    size_t rest = message->body.size - from;
    rest = rest < room - copied ? rest : room - copied;
    memcpy(to + copied, message->body.data + from, rest);
    return copied + rest;
}

/* What is to be sent next, in the scratch. */
static size_t compose(const struct fanout_queue *queue, uint64_t position)
{
    char *to = queue->fanout->scratch;
    size_t size = 0;
    size_t from = queue->sent;
    uint64_t number = queue->number;
    for (uint32_t i = 0; i < queue->count; i++) {
        const struct fanout_range *range = range_at(queue, i);
        if (range->after > position)
            return size;
        for (uint32_t at = range->at; at < range->end;) {
            struct message message = message_at(queue, range, at, ++number);
            size += copy_message(&message, from, to + size, FANOUT_SEND_BYTES - size);
            if (size == FANOUT_SEND_BYTES)
                return size;
            from = 0;
            at = message.end;
        }
    }
    return size;
}

/* So many bytes of what was composed are sent. */
static void advance(struct fanout_queue *queue, size_t bytes)
{
    while (bytes > 0) {
        struct fanout_range *range = range_at(queue, 0);
        struct message message = message_at(queue, range, range->at, queue->number + 1);
        size_t left = message.prefix_size + message.body.size - queue->sent;
        if (bytes < left) {
            queue->sent += (uint32_t)bytes;
            return;
        }
        bytes -= left;
        queue->sent = 0;
        queue->number++;
        queue->bytes -= message.end - range->at;
        range->at = message.end;
        if (range->at == range->end)
            drop_first(queue);
    }
}

ssize_t fanout_send(struct fanout_queue *queue, uint64_t position, struct conn *conn, bool *ret_all)
{
    assert(queue->count > 0);

    struct fanout *fanout = queue->fanout;
    *ret_all = true;
    if (fanout->sends == FANOUT_SENDS)
        return 0;
    fanout->sends++;
    if (!fanout->scratch)
        fanout->scratch = memory_take(FANOUT_SEND_BYTES);
    size_t size = compose(queue, position);
    ssize_t sent = conn_write(conn, (struct slice){fanout->scratch, size});
    *ret_all = sent == (ssize_t)size;
    if (sent > 0)
        advance(queue, (size_t)sent);
    return sent;
}
