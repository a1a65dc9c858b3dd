/* desk_values.c - the values of one counter at many moments, in one pass over the log. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "flow/check.h"
#include "flow/desk_own.h"
#include "flow/sums.h"

#define SEGMENTS_MAX   4096u
#define CLOCK_SLACK_MS 60000 /* clocks go back now and then */

/* How far the log has been added up, and which moment is next. */
struct series {
    struct sums *sums;
    struct sums_entry *entry;
    struct desk_subject subject;
    struct number base; /* what was counted before the log begins */
    struct desk_moment *moments;
    size_t count;
    size_t next;
};

/* The sum so far is the value at the next moment. */
static void note_moment(struct series *series)
{
    struct desk_moment *moment = &series->moments[series->next++];
    const struct sums_entry *entry = series->entry;
    bool has_base = !entry->begins && number_compare(&series->base, &(struct number){0}) != 0;
    if (entry->events == 0 && !has_base)
        return;
    moment->exists = true;
    moment->value = series->subject.kind == KIND_NONE
                        ? number_copy(&entry->value)
                        : number_of(entry->counts[series->subject.kind - 1]);
    if (has_base)
        number_add(&moment->value, &series->base);
}

static enum err sum_section(void *arg, struct slice section, struct log_position next,
                            struct error *error)
{
    struct series *series = arg;
    struct section_reader reader;
    (void)next;
    enum err err = section_open(&reader, section, error);
    if (err)
        return err;
    while (series->next < series->count && series->moments[series->next].time_ms < reader.time_ms)
        note_moment(series);
    return series->next < series->count ? sums_take_section(series->sums, section, error) : ERR_OK;
}

/* Moments before the log begins stay unknown. */
static void skip_unknown(struct series *series, const struct log_segment *segments, size_t count)
{
    bool is_trimmed = count > 0 && segments[0].number > 1;
    while (series->next < series->count && is_trimmed &&
           segments[0].created_ms > series->moments[series->next].time_ms)
        series->next++;
    for (size_t i = series->next; i < series->count; i++)
        series->moments[i].is_known = true;
}

static enum err sum_segments(struct desk_seat *seat, struct log_position from,
                             struct series *series, struct error *error)
{
    struct log_segment *segments = memory_take(SEGMENTS_MAX * sizeof(*segments));
    size_t count = log_segments(seat->desk->log, segments, SEGMENTS_MAX);
    if (count > SEGMENTS_MAX)
        count = SEGMENTS_MAX;
    skip_unknown(series, segments, count);
    int64_t last_ms = series->moments[series->count - 1].time_ms + CLOCK_SLACK_MS;
    enum err err = ERR_OK;
    for (size_t i = 0; !err && i < count && series->next < series->count; i++) {
        if (segments[i].number >= from.segment && segments[i].created_ms <= last_ms)
            err = seat_read_segment(seat, segments[i].number, sum_section, series, error);
    }
    while (!err && series->next < series->count)
        note_moment(series);
    free(segments);
    return err;
}

static enum err values_at(struct desk_seat *seat, struct slice id, struct series *series,
                          struct error *error)
{
    struct store_reader *reader;
    struct number discarded = number_of(0);
    struct log_position from = {0};
    enum err err = seat_reader(seat, &reader, error);
    if (!err)
        err = store_base(reader, id, &series->base, &discarded, &from, error);
    number_done(&discarded);
    if (err && err != ERR_NOT_FOUND)
        return err;
    series->sums = sums_new(seat->desk->kinds, env_random(seat->desk->options.env));
    series->entry = sums_watch(series->sums, series->subject.target, NULL, NULL);
    err = sum_segments(seat, from, series, error);
    sums_free(series->sums);
    return err;
}

enum err desk_values_at(struct desk_seat *seat, struct slice id, struct desk_moment *moments,
                        size_t count, struct error *error)
{
    assert(seat && moments && count > 0);

    enum err err = check_counter(seat->desk->kinds, id, error);
    for (size_t i = 0; i < count && !err; i++)
        err = check_time(moments[i].time_ms, error);
    if (err)
        return err;
    if (desk_has_lanes(seat->desk))
        return error_set(error, ERR_INVALID,
                         "the log is outside of this server, and too long to be searched: its "
                         "events can be read there");
    struct series series = {.subject = seat_subject(seat, id),
                            .base = number_of(0),
                            .moments = moments,
                            .count = count};
    aggregator_hold_trim(seat->desk->options.aggregator);
    err = values_at(seat, id, &series, error);
    aggregator_release_trim(seat->desk->options.aggregator);
    number_done(&series.base);
    return err;
}
