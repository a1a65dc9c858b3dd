#include "flow/pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "flow/aggregator.h"
#include "flow/desk.h"
#include "flow/loader.h"
#include "flow/proof.h"
#include "flow/recovery.h"
#include "flow/service.h"

/* A hot layer outside takes a round trip for each thing that is loaded: several are at it then. */
#define LOADERS_OUTSIDE 4u

struct pipeline {
    struct pipeline_options options;
    struct suspects_queue suspects;
    struct loader *loaders[LOADERS_OUTSIDE]; /* these are owned */
    unsigned loader_count;
    struct aggregator *aggregator;
    struct desk *desk;
    char foreign_kinds[200]; /* "love, wow" */
};

static void wake_loaders(void *arg)
{
    struct pipeline *pipeline = arg;
    for (unsigned i = 0; i < pipeline->loader_count; i++)
        loader_wake(pipeline->loaders[i]);
}

struct pipeline *pipeline_new(const struct pipeline_options *options)
{
    assert(options && options->env && options->log && options->store);
    assert(options->hot || options->log->lanes > 1);

    struct pipeline *pipeline = memory_take_zeroed(sizeof(*pipeline));
    pipeline->options = *options;
    if (!options->hot)
        return pipeline;
    suspects_queue_init(&pipeline->suspects);
    struct loader_options loader_options = {
        .suspects = &pipeline->suspects,
        .env = options->env,
        .hot = options->hot,
        .store = options->store,
        .keep_keys_ms = options->keep_keys_ms,
    };
    pipeline->loader_count = options->log->lanes > 1 ? LOADERS_OUTSIDE : 1;
    for (unsigned i = 0; i < pipeline->loader_count; i++)
        pipeline->loaders[i] = loader_new(&loader_options);
    options->hot->want = wake_loaders;
    options->hot->want_arg = pipeline;
    return pipeline;
}

void pipeline_free(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    desk_free(pipeline->desk);
    aggregator_free(pipeline->aggregator);
    for (unsigned i = 0; i < pipeline->loader_count; i++)
        loader_free(pipeline->loaders[i]);
    suspects_queue_done(&pipeline->suspects);
    free(pipeline);
}

static void note_kind(void *arg, struct slice kind)
{
    struct pipeline *pipeline = arg;
    if (kinds_find(pipeline->options.kinds, kind) != KIND_NONE)
        return;
    char *names = pipeline->foreign_kinds;
    size_t used = strlen(names);
    (void)snprintf(names + used, sizeof(pipeline->foreign_kinds) - used, "%s%.*s",
                   used > 0 ? ", " : "", SLICE_ARGS(kind));
}

/* Kinds that were taken out of the settings while the store had seen them. */
static enum err check_kinds(struct pipeline *pipeline, struct error *error)
{
    enum err err = store_kinds(pipeline->options.store, note_kind, pipeline, error);
    if (!err && pipeline->foreign_kinds[0])
        message_warning("the store has kinds of reactions that are not configured: items on which "
                        "somebody holds one are refused until it is put back into the setting "
                        "kinds kinds=\"%s\"",
                        pipeline->foreign_kinds);
    return err;
}

static void make_aggregator(struct pipeline *pipeline, const struct state_mark *mark)
{
    const struct pipeline_options *options = &pipeline->options;
    pipeline->aggregator = aggregator_new(
        &(struct aggregator_options){
            .env = options->env,
            .log = options->log,
            .store = options->store,
            .hot = options->hot,
            .kinds = options->kinds,
            .idles = options->idles,
            .flush_interval_ms = options->flush_interval_ms,
            .flush_events = options->flush_events,
            .keep_events_ms = options->keep_events_ms,
            .keep_history_ms = options->keep_history_ms,
            .keep_keys_ms = options->keep_keys_ms,
            .log_keep_ms = options->log_keep_ms,
            .log_keep_bytes = options->log_keep_bytes,
            .begin_thread = options->begin_thread,
            .begin_arg = options->begin_arg,
        },
        mark);
}

void pipeline_open(struct pipeline *pipeline)
{
    assert(pipeline && pipeline->options.log->lanes > 1);

    static const struct state_mark unknown;
    (void)check_kinds(pipeline, NULL); /* as far as the store answers */
    if (pipeline->options.hot) {
        hot_begin(pipeline->options.hot, &unknown); /* what is not there may be in the store */
        for (unsigned i = 0; i < pipeline->loader_count; i++)
            loader_tell_none(pipeline->loaders[i]);
    }
    make_aggregator(pipeline, &unknown);
}

enum err pipeline_recover(struct pipeline *pipeline, struct recovery *ret_recovery,
                          struct error *error)
{
    assert(pipeline && ret_recovery);

    const struct pipeline_options *options = &pipeline->options;
    struct state_mark mark;
    enum err err = store_mark(options->store, &mark, error);
    if (!err)
        err = check_kinds(pipeline, error);
    if (!err)
        err = recovery_run_behind(options->env, options->log, options->hot, pipeline->loaders[0],
                                  &mark, ret_recovery, error);
    if (!err)
        make_aggregator(pipeline, &mark);
    return err;
}

enum err pipeline_start(struct pipeline *pipeline, struct service *service, struct error *error)
{
    assert(pipeline && pipeline->aggregator && service);

    const struct pipeline_options *options = &pipeline->options;
    pipeline->desk = desk_new(&(struct desk_options){
        .suspects = &pipeline->suspects,
        .env = options->env,
        .service = service,
        .store = options->store,
        .aggregator = pipeline->aggregator,
        .first_guest = options->first_guest,
        .has_hot = options->hot,
        .audits = options->audits,
        .audits_arg = options->audits_arg,
        .audit_every_ms = options->audit_every_ms,
        .audit_batch = options->audit_batch,
        .begin_thread = options->begin_thread,
        .begin_arg = options->begin_arg,
    });
    service->pipeline = pipeline;
    service->desk = pipeline->desk;
    service->foreign_kinds = pipeline->foreign_kinds;
    enum err err = aggregator_start(pipeline->aggregator, error);
    for (unsigned i = 0; !err && i < pipeline->loader_count; i++)
        err = loader_start(pipeline->loaders[i], error);
    if (!err && options->log->lanes == 1) /* it has recovered */
        err = proof_settle_suspects(pipeline->desk, error);
    return err ? err : desk_start(pipeline->desk, error);
}

void pipeline_hold_trim(struct pipeline *pipeline)
{
    assert(pipeline && pipeline->aggregator);

    aggregator_hold_trim(pipeline->aggregator);
}

void pipeline_release_trim(struct pipeline *pipeline)
{
    assert(pipeline && pipeline->aggregator);

    aggregator_release_trim(pipeline->aggregator);
}

bool pipeline_stop(struct pipeline *pipeline, uint64_t within_ms)
{
    assert(pipeline);

    if (pipeline->desk)
        desk_stop(pipeline->desk);
    for (unsigned i = 0; i < pipeline->loader_count; i++)
        loader_stop(pipeline->loaders[i]);
    return pipeline->aggregator && aggregator_stop(pipeline->aggregator, within_ms);
}

void pipeline_read(const struct service *service, struct pipeline_stats *ret_stats)
{
    assert(service && ret_stats);

    *ret_stats = (struct pipeline_stats){0};
    const struct pipeline *pipeline = service->pipeline;
    if (!pipeline)
        return;
    aggregator_stats(pipeline->aggregator, ret_stats);
    for (unsigned i = 0; i < pipeline->loader_count; i++)
        loader_stats(pipeline->loaders[i], ret_stats);
    desk_stats(pipeline->desk, ret_stats);
    store_stats(pipeline->options.store, &ret_stats->store);
    ret_stats->form = store_name(pipeline->options.store);
}
