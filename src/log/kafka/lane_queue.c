/* lane_queue.c - what was fetched, between the consumer's thread and the one who follows. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "log/kafka/own.h"

static void drop(struct fifo *queue)
{
    while (queue->first)
        free(fifo_pop(queue));
}

void lane_queue_forget(struct in_lane *lane)
{
    drop(&lane->queue);
    lane->is_wanted = false;
    lane->must_seek = false;
    lane->is_suspect = false;
    lane->is_lost = false;
    lane->generation++;
    lane->fault = ERR_OK;
}

void lane_queue_put(struct in_lane *lane, uint64_t behind, struct slice section)
{
    struct fetched *fetched = memory_take(sizeof(*fetched) + section.size);
    *fetched = (struct fetched){.node.size = section.size, .behind = behind};
    memcpy(fetched->data, section.data, section.size);
    fifo_push(&lane->queue, &fetched->node);
    lane->fetched = behind;
}

void lane_queue_fault(struct in_lane *lane, enum err fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(lane->fault_text, sizeof(lane->fault_text), format, args);
    va_end(args);
    lane->fault = fault;
}

/* ---- following ---- */

static void begin_at(struct in_lane *lane, uint64_t offset)
{
    lane_queue_forget(lane);
    lane->is_wanted = true;
    lane->must_seek = true;
    lane->at = offset;
    lane->fetched = offset;
}

static enum err look_at_queue(struct in_lane *lane, struct log_position at, uint64_t limit,
                              struct fifo *ret_taken, struct error *error)
{
    *ret_taken = (struct fifo){.first = NULL};
    if (!lane->is_owned)
        return ERR_OK;
    if (at.segment != 0)
        return error_set(error, ERR_INVALID, "the position is not one of a log in Kafka");
    if (!lane->is_wanted || lane->at != at.offset) {
        begin_at(lane, at.offset);
        return ERR_OK;
    }
    *ret_taken = fifo_take(&lane->queue, limit);
    if (ret_taken->first || !lane->fault)
        return ERR_OK;
    enum err fault = lane->fault;
    (void)error_set(error, fault, "%s", lane->fault_text);
    lane_queue_forget(lane); /* whoever asks again wants us to look again */
    return fault;
}

/* Outside of the mutex: what was taken is ours. Those that were not visited stay in *taken. */
static enum err visit_taken(struct fifo *taken, struct log_position *at, log_visit_fn *visit,
                            void *arg, struct error *error)
{
    while (taken->first) {
        const struct fetched *section = (const struct fetched *)taken->first;
        struct log_position next = {.offset = section->behind};
        enum err err = visit(arg, (struct slice){section->data, section->node.size}, next, error);
        if (err)
            return err;
        *at = next;
        free(fifo_pop(taken));
    }
    return ERR_OK;
}

enum err lane_queue_follow(struct kafka_log *log, unsigned number, struct log_position *at,
                           uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    struct consumer *consumer = &log->consumer;
    struct in_lane *lane = &consumer->lanes[number];
    struct fifo taken;
    pthread_mutex_lock(&consumer->mutex);
    enum err err = look_at_queue(lane, *at, limit, &taken, error);
    uint32_t generation = lane->generation;
    pthread_mutex_unlock(&consumer->mutex);
    if (err || !taken.first)
        return err;

    err = visit_taken(&taken, at, visit, arg, error);
    pthread_mutex_lock(&consumer->mutex);
    if (lane->generation == generation) {
        lane->at = at->offset;
        fifo_put_back(&lane->queue, &taken); /* a visitor who refuses is offered the same again */
    }
    pthread_mutex_unlock(&consumer->mutex);
    drop(&taken);
    return err;
}
