#include "flow/recovery.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/message.h"
#include "core/event.h"

#define SECOND_NS    1000000000u
#define AHEAD        32u /* events */
#define SEGMENTS_MAX 65536u
#define LOADS_MAX    16u /* for one event: its item, its slice, its user, its key */

struct replay {
    struct env *env;
    struct hot *hot;
    struct loader *loader; /* NULL: there is no store, and nothing is cold */
    struct recovery done;  /* so far; its duration at the end */
    uint64_t started_ns;
    uint64_t told_ns; /* when the operator last heard of it */
    struct event ahead[AHEAD];
    bool has_failed; /* an event; not the reading */
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

/* Reads up to AHEAD events, so that the hot layer hears of each before its turn. */
static enum err read_ahead(struct replay *replay, struct section_reader *reader, size_t *ret_count,
                           struct error *error)
{
    size_t count = 0;
    enum err err = ERR_OK;
    while (count < AHEAD && (err = section_next(reader, &replay->ahead[count], error)) == ERR_OK) {
        hot_replay_ahead(replay->hot, &replay->ahead[count]);
        count++;
    }
    *ret_count = count;
    return err;
}

/* What the event touches may have to come from the store first. */
static enum err replay_event(struct replay *replay, const struct event *event, struct error *error)
{
    enum err err = hot_replay(replay->hot, event, error);
    for (unsigned i = 0; err == ERR_COLD && replay->loader && i < LOADS_MAX; i++) {
        err = loader_serve(replay->loader, error);
        if (!err)
            err = hot_replay(replay->hot, event, error);
    }
    return err;
}

static enum err replay_section(struct replay *replay, struct slice section, struct error *error)
{
    struct section_reader reader;
    enum err read = section_open(&reader, section, error);
    enum err err = read;
    while (!read && !err) {
        size_t count;
        read = read_ahead(replay, &reader, &count, error);
        for (size_t i = 0; i < count; i++) {
            if (!err)
                err = replay_event(replay, &replay->ahead[i], error);
            event_done(&replay->ahead[i]);
        }
        replay->done.events += err ? 0 : count;
    }
    if (err)
        return err;
    return read == ERR_NOT_FOUND ? ERR_OK : read;
}

static enum err visit(void *arg, struct slice section, struct log_position next,
                      struct error *error)
{
    struct replay *replay = arg;
    struct error cause = {.text = ""};
    enum err err = replay_section(replay, section, &cause);
    replay->has_failed = err != ERR_OK;
    if (err)
        return error_set(error, err, "before segment %" PRIu64 ", offset %" PRIu64 ": %.180s",
                         next.segment, next.offset, cause.text);
    replay->done.sections++;
    replay->done.bytes += section.size;
    return ERR_OK;
}

/* The log was not found to go on where the store is. */
static enum err does_not_fit(const struct error *cause, struct error *error)
{
    if (cause->code != ERR_INVALID)
        return error_set(error, cause->code, "%s", cause->text);
    return error_set(error, ERR_INVALID,
                     "the store does not fit the log: %.110s: bring back the whole log, or move "
                     "the store away and it is made anew from the log",
                     cause->text);
}

static enum err run(struct env *env, struct log *log, struct hot *hot, struct loader *loader,
                    struct log_position from, struct recovery *ret_recovery, struct error *error)
{
    uint64_t now_ns = env_monotonic_ns(env);
    struct replay replay = {
        .env = env, .hot = hot, .loader = loader, .started_ns = now_ns, .told_ns = now_ns};
    struct error cause = {.text = ""};
    if (log_read(log, from, visit, &replay, reading, &cause))
        return loader && !replay.has_failed ? does_not_fit(&cause, error)
                                            : error_set(error, cause.code, "%s", cause.text);

    replay.done.duration_ns = env_monotonic_ns(env) - replay.started_ns;
    *ret_recovery = replay.done;
    return ERR_OK;
}

/* Is the log everything? */
static enum err check_whole(struct log *log, struct error *error)
{
    struct log_segment first;
    if (log_segments(log, &first, 1) == 0 || first.number == 1)
        return ERR_OK;
    return error_set(error, ERR_INVALID,
                     "the log begins with segment %" PRIu64 ": what was before is in the store "
                     "only, and cannot be left out",
                     first.number);
}

enum err recovery_run(struct env *env, struct log *log, struct hot *hot, struct log_position from,
                      struct recovery *ret_recovery, struct error *error)
{
    assert(env && log && hot && ret_recovery);

    enum err err = from.segment == 0 ? check_whole(log, error) : ERR_OK;
    return err ? err : run(env, log, hot, NULL, from, ret_recovery, error);
}

static enum err is_ahead(struct log_position mark, struct log_position end, struct error *error)
{
    return error_set(error, ERR_INVALID,
                     "the store is at segment %" PRIu64 ", offset %" PRIu64 ", but the log ends at "
                     "segment %" PRIu64 ", offset %" PRIu64 ": bring back the whole log, or move "
                     "the store away and it is made anew from the log",
                     mark.segment, mark.offset, end.segment, end.offset);
}

/* Do store and log belong together? A log that begins behind the mark has lost what
 * the store lacks; one that ends before it is another log, or was cut. */
static enum err check_segments(struct log *log, struct log_position mark, struct error *error)
{
    struct log_segment *segments = memory_take(SEGMENTS_MAX * sizeof(*segments));
    size_t count = log_segments(log, segments, SEGMENTS_MAX);
    uint64_t first = count > 0 ? segments[0].number : 1;
    uint64_t last = count > 0 && count <= SEGMENTS_MAX ? segments[count - 1].number : 0;
    free(segments);
    if (first > 1 && first > mark.segment)
        return error_set(error, ERR_INVALID,
                         "the log begins with segment %" PRIu64 ", but the store has only what is "
                         "before segment %" PRIu64 ": bring back the newest copy of the store",
                         first, mark.segment > 0 ? mark.segment : 1);
    if (mark.segment > last && count <= SEGMENTS_MAX)
        return is_ahead(mark, (struct log_position){last, 0}, error);
    return ERR_OK;
}

static enum err check_end(struct log *log, struct log_position mark, struct error *error)
{
    struct log_position end = log_end(log, 0);
    if (mark.segment < end.segment || (mark.segment == end.segment && mark.offset <= end.offset))
        return ERR_OK;
    return is_ahead(mark, end, error);
}

enum err recovery_run_behind(struct env *env, struct log *log, struct hot *hot,
                             struct loader *loader, const struct state_mark *mark,
                             struct recovery *ret_recovery, struct error *error)
{
    assert(env && log && hot && loader && mark && ret_recovery);

    enum err err = check_segments(log, mark->position, error);
    if (err)
        return err;
    hot_begin(hot, mark);
    if (mark->position.segment == 0) /* nothing was ever applied: a new store */
        loader_tell_none(loader);
    err = run(env, log, hot, loader, mark->position, ret_recovery, error);
    return err ? err : check_end(log, mark->position, error);
}

static enum err skip_section(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    (void)arg;
    (void)section;
    (void)next;
    (void)error;
    return ERR_OK;
}

enum err recovery_check(struct log *log, const struct state_mark *mark, struct error *error)
{
    assert(log);

    if (!mark)
        return check_whole(log, error);
    enum err err = check_segments(log, mark->position, error);
    if (err)
        return err;
    struct error cause = {.text = ""};
    err = log_read(log, mark->position, skip_section, NULL, NULL, &cause);
    return err ? does_not_fit(&cause, error) : check_end(log, mark->position, error);
}
