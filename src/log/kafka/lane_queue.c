/* lane_queue.c - what was fetched, between the consumer's thread and the one who follows. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "log/kafka/own.h"

static void drop_queue(struct in_lane *lane)
{
    while (lane->first) {
        struct fetched *section = lane->first;
        lane->first = section->next;
        free(section);
    }
    lane->last = NULL;
    lane->queued_bytes = 0;
}

void lane_queue_forget(struct in_lane *lane)
{
    drop_queue(lane);
    lane->is_wanted = false;
    lane->must_seek = false;
    lane->is_suspect = false;
    lane->generation++;
    lane->fault = ERR_OK;
}

void lane_queue_put(struct in_lane *lane, uint64_t behind, struct slice section)
{
    struct fetched *fetched = memory_take(sizeof(*fetched) + section.size);
    *fetched = (struct fetched){.behind = behind, .size = section.size};
    memcpy(fetched->data, section.data, section.size);
    if (lane->last)
        lane->last->next = fetched;
    else
        lane->first = fetched;
    lane->last = fetched;
    lane->queued_bytes += section.size;
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

static struct fetched *take_queue(struct in_lane *lane, uint64_t limit)
{
    struct fetched *taken = lane->first;
    struct fetched *last = NULL;
    uint64_t bytes = 0;
    for (struct fetched *at = taken; at && (bytes < limit || !last); at = at->next) {
        bytes += at->size;
        last = at;
    }
    if (!last)
        return NULL;
    lane->first = last->next;
    if (!lane->first)
        lane->last = NULL;
    last->next = NULL;
    lane->queued_bytes -= bytes;
    return taken;
}

static enum err look_at_queue(struct in_lane *lane, struct log_position at, uint64_t limit,
                              struct fetched **ret_taken, struct error *error)
{
    *ret_taken = NULL;
    if (!lane->is_owned)
        return ERR_OK;
    if (at.segment != 0)
        return error_set(error, ERR_INVALID, "the position is not one of a log in Kafka");
    if (!lane->is_wanted || lane->at != at.offset) {
        begin_at(lane, at.offset);
        return ERR_OK;
    }
    *ret_taken = take_queue(lane, limit);
    if (*ret_taken || !lane->fault)
        return ERR_OK;
    enum err fault = lane->fault;
    (void)error_set(error, fault, "%s", lane->fault_text);
    lane_queue_forget(lane); /* whoever asks again wants us to look again */
    return fault;
}

/* Outside of the mutex: what was taken is ours. Those that were not visited stay in *taken. */
static enum err visit_taken(struct fetched **taken, struct log_position *at, log_visit_fn *visit,
                            void *arg, struct error *error)
{
    while (*taken) {
        struct fetched *section = *taken;
        struct log_position next = {.offset = section->behind};
        enum err err = visit(arg, (struct slice){section->data, section->size}, next, error);
        if (err)
            return err;
        *at = next;
        *taken = section->next;
        free(section);
    }
    return ERR_OK;
}

/* A visitor who refuses is offered the same again. */
static void put_back(struct in_lane *lane, struct fetched *taken, bool is_same_generation)
{
    while (taken && !is_same_generation) {
        struct fetched *section = taken;
        taken = section->next;
        free(section);
    }
    if (!taken)
        return;
    struct fetched *last = taken;
    lane->queued_bytes += last->size;
    for (; last->next; last = last->next)
        lane->queued_bytes += last->next->size;
    last->next = lane->first;
    lane->first = taken;
    if (!lane->last)
        lane->last = last;
}

enum err lane_queue_follow(struct kafka_log *log, unsigned number, struct log_position *at,
                           uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    struct consumer *consumer = &log->consumer;
    struct in_lane *lane = &consumer->lanes[number];
    struct fetched *taken;
    pthread_mutex_lock(&consumer->mutex);
    enum err err = look_at_queue(lane, *at, limit, &taken, error);
    uint32_t generation = lane->generation;
    pthread_mutex_unlock(&consumer->mutex);
    if (err || !taken)
        return err;

    err = visit_taken(&taken, at, visit, arg, error);
    pthread_mutex_lock(&consumer->mutex);
    bool is_same_generation = lane->generation == generation;
    if (is_same_generation)
        lane->at = at->offset;
    put_back(lane, taken, is_same_generation);
    pthread_mutex_unlock(&consumer->mutex);
    return err;
}
