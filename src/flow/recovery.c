#include "flow/recovery.h"

#include <assert.h>
#include <inttypes.h>

#include "base/message.h"
#include "core/event.h"

#define SECOND_NS 1000000000u

struct replay {
    struct env *env;
    struct hot *hot;
    struct recovery done; /* so far; its duration at the end */
    uint64_t started_ns;
    uint64_t told_ns; /* when the operator last heard of it */
};

/* ---- telling ---- */

/* How much of it in a second, the duration being more than none. */
static double rate(uint64_t amount, uint64_t duration_ns)
{
    return (double)amount * SECOND_NS / (double)duration_ns;
}

static void tell_progress(const struct replay *replay, uint64_t now_ns, uint64_t bytes_done,
                          uint64_t bytes_all)
{
    uint64_t duration_ns = now_ns - replay->started_ns;
    double bytes_a_second = rate(bytes_done, duration_ns);
    message_info("replaying the log percent=%.0f events=%" PRIu64
                 " events_per_s=%.0f mb_per_s=%.1f left_s=%.0f",
                 100.0 * (double)bytes_done / (double)bytes_all, replay->done.events,
                 rate(replay->done.events, duration_ns), bytes_a_second / 1e6,
                 (double)(bytes_all - bytes_done) / bytes_a_second);
}

static void reading(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    struct replay *replay = arg;
    uint64_t now_ns = env_monotonic_ns(replay->env);
    if (now_ns - replay->told_ns < SECOND_NS || bytes_done == 0 || bytes_done > bytes_all)
        return;
    tell_progress(replay, now_ns, bytes_done, bytes_all);
    replay->told_ns = now_ns;
}

/* ---- replaying ---- */

static enum err replay_section(struct replay *replay, struct slice section, struct error *error)
{
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    if (err)
        return err;

    struct event event;
    while ((err = section_next(&reader, &event, error)) == ERR_OK) {
        err = hot_replay(replay->hot, &event, error);
        event_done(&event);
        if (err)
            return err;
        replay->done.events++;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err visit(void *arg, struct slice section, struct log_position next,
                      struct error *error)
{
    struct replay *replay = arg;
    struct error cause = {.text = ""};
    enum err err = replay_section(replay, section, &cause);
    if (err)
        return error_set(error, err, "before segment %" PRIu64 ", offset %" PRIu64 ": %.180s",
                         next.segment, next.offset, cause.text);
    replay->done.sections++;
    replay->done.bytes += section.size;
    return ERR_OK;
}

enum err recovery_run(struct env *env, struct log *log, struct hot *hot, struct log_position from,
                      struct recovery *ret_recovery, struct error *error)
{
    assert(env && log && hot && ret_recovery);

    uint64_t now_ns = env_monotonic_ns(env);
    struct replay replay = {.env = env, .hot = hot, .started_ns = now_ns, .told_ns = now_ns};
    enum err err = log_read(log, from, visit, &replay, reading, error);
    if (err)
        return err;

    replay.done.duration_ns = env_monotonic_ns(env) - replay.started_ns;
    *ret_recovery = replay.done;
    return ERR_OK;
}
