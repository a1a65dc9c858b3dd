/* pipe.h - many commands under way at once on one connection.
 *
 * Commands are gathered into batches; while one batch is on its way, the answers of
 * the one before are read. A command that was answered with BUSY, OOM or UNAVAILABLE,
 * which mean that nothing was done, is sent again after a while, behind the others. */
#ifndef CLI_PIPE_H
#define CLI_PIPE_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#define PIPE_BATCH_MAX 4096u

/* The answer to the command with this tag; borrowed for the call. */
typedef void pipe_answer_fn(void *arg, uint64_t tag, const redisReply *reply);

struct pipe_batch {
    struct buffer bytes;
    uint64_t tags[PIPE_BATCH_MAX];
    size_t starts[PIPE_BATCH_MAX];
    uint32_t count;
};

struct pipe {
    redisContext *context; /* borrowed */
    pipe_answer_fn *answer;
    void *arg;
    uint32_t batch_size;
    struct pipe_batch *filling;   /* owned, as the others */
    struct pipe_batch *under_way; /* count 0: none */
    struct pipe_batch *again;     /* to be sent again */
};

void pipe_init(struct pipe *pipe, redisContext *context, uint32_t batch_size,
               pipe_answer_fn *answer, void *arg);
void pipe_done(struct pipe *pipe);

/* Adds a command. ERR_UNAVAILABLE when the connection broke: see context->errstr. ERR_BUSY when
 * the server stayed busy for too long. */
enum err pipe_send(struct pipe *pipe, uint64_t tag, const struct slice *words, size_t count);

/* Sends what was gathered; reads the answers of what was sent before. */
enum err pipe_flush(struct pipe *pipe);

/* Sends all and reads all answers. */
enum err pipe_finish(struct pipe *pipe);

#endif
