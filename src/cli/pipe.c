#include "cli/pipe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "base/memory.h"

#define BATCH_BYTES_MAX ((size_t)64 << 20)
#define BUSY_WAIT_MS    50
#define BUSY_ATTEMPTS   600 /* half a minute */

static struct pipe_batch *batch_new(void)
{
    struct pipe_batch *batch = memory_take_zeroed(sizeof(*batch));
    buffer_init(&batch->bytes, BATCH_BYTES_MAX);
    return batch;
}

static void batch_free(struct pipe_batch *batch)
{
    if (!batch)
        return;
    buffer_done(&batch->bytes);
    free(batch);
}

static void batch_clear(struct pipe_batch *batch)
{
    batch->bytes.size = 0;
    batch->count = 0;
}

void pipe_init(struct pipe *pipe, redisContext *context, uint32_t batch_size,
               pipe_answer_fn *answer, void *arg)
{
    /* Two batches may be refused before anything is sent again. */
    assert(batch_size > 0 && batch_size <= PIPE_BATCH_MAX / 2);
    *pipe = (struct pipe){.context = context,
                          .answer = answer,
                          .arg = arg,
                          .batch_size = batch_size,
                          .filling = batch_new(),
                          .under_way = batch_new(),
                          .again = batch_new()};
}

void pipe_done(struct pipe *pipe)
{
    batch_free(pipe->filling);
    batch_free(pipe->under_way);
    batch_free(pipe->again);
    *pipe = (struct pipe){0};
}

/* --- writing ---------------------------------------------------------------------- */

static void append_size(struct buffer *to, char sign, size_t size)
{
    char text[DECIMAL_SIZE_MAX + 3];
    text[0] = sign;
    char *end = decimal_format_unsigned(text + 1, size);
    *end++ = '\r';
    *end++ = '\n';
    (void)buffer_append(to, text, (size_t)(end - text));
}

static void encode(struct buffer *to, const struct slice *words, size_t count)
{
    append_size(to, '*', count);
    for (size_t i = 0; i < count; i++) {
        append_size(to, '$', words[i].size);
        (void)buffer_append_slice(to, words[i]);
        (void)buffer_append(to, "\r\n", 2);
    }
}

static enum err write_batch(struct pipe *pipe, const struct pipe_batch *batch)
{
    int is_done = 0;
    if (redisAppendFormattedCommand(pipe->context, batch->bytes.data, batch->bytes.size) !=
        REDIS_OK)
        return ERR_UNAVAILABLE;
    while (!is_done)
        if (redisBufferWrite(pipe->context, &is_done) != REDIS_OK)
            return ERR_UNAVAILABLE;
    return ERR_OK;
}

/* --- reading ---------------------------------------------------------------------- */

/* After these nothing was changed, and some time later it may go. */
static bool is_busy(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR &&
           (strncmp(reply->str, "BUSY ", 5) == 0 || strncmp(reply->str, "OOM ", 4) == 0 ||
            strncmp(reply->str, "UNAVAILABLE ", 12) == 0);
}

static void keep_for_again(struct pipe *pipe, const struct pipe_batch *batch, uint32_t index)
{
    struct pipe_batch *again = pipe->again;
    size_t start = batch->starts[index];
    size_t end = index + 1 < batch->count ? batch->starts[index + 1] : batch->bytes.size;
    assert(again->count < PIPE_BATCH_MAX);
    again->tags[again->count] = batch->tags[index];
    again->starts[again->count++] = again->bytes.size;
    (void)buffer_append(&again->bytes, batch->bytes.data + start, end - start);
}

static enum err read_batch(struct pipe *pipe, const struct pipe_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        void *reply = NULL;
        if (redisGetReply(pipe->context, &reply) != REDIS_OK)
            return ERR_UNAVAILABLE;
        if (is_busy(reply))
            keep_for_again(pipe, batch, i);
        else
            pipe->answer(pipe->arg, batch->tags[i], reply);
        freeReplyObject(reply);
    }
    return ERR_OK;
}

/* Sends what the server was too busy for, until it is not. */
static enum err send_again(struct pipe *pipe)
{
    const struct timespec pause = {.tv_nsec = BUSY_WAIT_MS * 1000000};
    struct pipe_batch *batch = batch_new();
    enum err err = ERR_OK;
    for (int i = 0; !err && pipe->again->count > 0; i++) {
        if (i == BUSY_ATTEMPTS) {
            err = ERR_BUSY;
            break;
        }
        struct pipe_batch *swapped = pipe->again;
        pipe->again = batch;
        batch = swapped;
        batch_clear(pipe->again);
        (void)nanosleep(&pause, NULL);
        err = write_batch(pipe, batch);
        if (!err)
            err = read_batch(pipe, batch);
    }
    batch_free(batch);
    return err;
}

static enum err read_under_way(struct pipe *pipe)
{
    struct pipe_batch *batch = pipe->under_way;
    if (batch->count == 0)
        return ERR_OK;
    enum err err = read_batch(pipe, batch);
    batch_clear(batch);
    return err;
}

/* --- both ------------------------------------------------------------------------- */

enum err pipe_flush(struct pipe *pipe)
{
    if (pipe->filling->count == 0)
        return ERR_OK;
    struct pipe_batch *batch = pipe->filling;
    enum err err = write_batch(pipe, batch);
    if (!err)
        err = read_under_way(pipe);
    pipe->filling = pipe->under_way;
    pipe->under_way = batch;
    /* Who was told to wait does so alone: nothing else is under way then. */
    if (!err && pipe->again->count > 0) {
        err = read_under_way(pipe);
        if (!err)
            err = send_again(pipe);
    }
    return err;
}

enum err pipe_finish(struct pipe *pipe)
{
    enum err err = pipe_flush(pipe);
    if (!err)
        err = read_under_way(pipe);
    return err ? err : send_again(pipe);
}

enum err pipe_send(struct pipe *pipe, uint64_t tag, const struct slice *words, size_t count)
{
    struct pipe_batch *batch = pipe->filling;
    assert(batch->count < PIPE_BATCH_MAX);
    batch->tags[batch->count] = tag;
    batch->starts[batch->count++] = batch->bytes.size;
    encode(&batch->bytes, words, count);
    bool is_full = batch->count >= pipe->batch_size || batch->bytes.size >= BATCH_BYTES_MAX / 64;
    return is_full ? pipe_flush(pipe) : ERR_OK;
}
