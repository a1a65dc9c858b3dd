/* desk_verbs.c - the questions that the desk answers, one by one. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "flow/check.h"
#include "flow/desk_own.h"
#include "flow/proof.h"
#include "flow/recount.h"

static const char log_is_elsewhere[] =
    "the log is outside of this server, and too long to be searched: its events can be read there";

/* --- what an id is about --- */

static bool is_about(const struct desk_seat *seat, const struct desk_subject *subject,
                     const struct event *event)
{
    struct slice id = event->id;
    uint8_t kind = KIND_NONE;
    if (event->type == EVENT_CREATE)
        kinds_split(seat->desk->kinds, event->id, &id, &kind);
    if (!slice_equal(id, subject->target))
        return false;
    if (subject->kind == KIND_NONE || event->type != EVENT_REACT)
        return true;
    struct slice name = kinds_name(seat->desk->kinds, subject->kind);
    return slice_equal(event->before, name) || slice_equal(event->after, name);
}

/* --- recount --- */

enum err desk_inspect(struct desk_seat *seat, struct slice target, struct hot_inspection *ret,
                      struct error *error)
{
    struct desk *desk = seat->desk;
    for (unsigned i = 0; i < 4; i++) {
        struct op_describe describe;
        struct op op = {.kind = OP_DESCRIBE, .id = target, .describe = &describe};
        enum err err = seat_run(seat, &op, 1, error);
        if (err)
            return err;
        char text[SERVICE_MEANING_BYTES];
        if (op.code)
            return error_set(error, op.code, "%s",
                             service_meaning(desk->options.service, op.code, text));
        err = hot_inspect(desk->hot, target, ret);
        if (err == ERR_OK)
            return ERR_OK;
        if (err != ERR_NOT_FOUND) /* it was dropped in between: once more */
            return error_set(error, err, "%s", err_meaning(err));
    }
    return error_set(error, ERR_BUSY, "memory is too short to hold it; try again");
}

static enum err sum_section(void *arg, struct slice section, struct log_position next,
                            struct error *error)
{
    (void)next;
    return sums_take_section(arg, section, error);
}

/* The sum of the log from `from` on, up to the sequences in `until`; without the base, and without
 * letters that were discarded before a deletion that the store at `saved` does not have. */
static enum err sum_log(struct desk_seat *seat, struct slice target, struct log_position from,
                        const uint64_t *until, const uint64_t *saved, uint8_t kind,
                        struct desk_recount *found, struct error *error)
{
    struct sums *sums = sums_new(seat->desk->kinds, env_random(seat->desk->options.env));
    struct sums_entry *entry = sums_watch(sums, target, until, NULL);
    enum err err = seat_read_log(seat, from, until, sum_section, sums, NULL, NULL, error);
    if (!err) {
        found->recount =
            kind == KIND_NONE ? number_copy(&entry->value) : number_of(entry->counts[kind - 1]);
        found->events = entry->events;
        if (entry->begins)
            number_done(&found->base); /* of what was deleted since */
        if (sums_begins_behind(entry, saved))
            number_done(&found->discarded);
    }
    sums_free(sums);
    return err;
}

static enum err recount(struct desk_seat *seat, struct slice id, struct desk_recount *ret,
                        struct error *error)
{
    struct store_reader *reader;
    struct desk_subject subject = seat_subject(seat, id);
    struct hot_inspection seen = {.value = number_of(0)};
    enum err err = seat_reader(seat, &reader, error);
    if (!err)
        err = desk_inspect(seat, subject.target, &seen, error);
    if (err)
        return err;
    if (seen.is_item != (subject.kind != KIND_NONE)) {
        number_done(&seen.value);
        return seen.is_item ? error_set(error, ERR_WRONG_TYPE,
                                        "an item: ask for one of its counts, item/kind")
                            : error_set(error, ERR_NOT_FOUND, "there is no such item");
    }

    struct desk_recount found = {.value = seen.is_item ? number_of(seen.counts[subject.kind - 1])
                                                       : seen.value,
                                 .recount = number_of(0),
                                 .base = number_of(0),
                                 .discarded = number_of(0)};
    struct log_position from = {0};
    struct state_mark mark;
    aggregator_mark(seat->desk->options.aggregator, &mark);
    err = store_base(reader, id, &found.base, &found.discarded, &from, error);
    if (err == ERR_NOT_FOUND)
        err = ERR_OK;
    if (!err)
        err = sum_log(seat, subject.target, from, seen.sequences, mark.sequences, subject.kind,
                      &found, error);
    if (err) {
        number_done(&found.value);
        number_done(&found.base);
        number_done(&found.discarded);
        return err;
    }
    number_add(&found.recount, &found.base);
    number_subtract(&found.recount, &found.discarded);
    found.agrees = number_compare(&found.value, &found.recount) == 0;
    *ret = found;
    return ERR_OK;
}

enum err desk_recount(struct desk_seat *seat, struct slice id, struct desk_recount *ret,
                      struct error *error)
{
    assert(seat && ret);

    enum err err = check_counter(seat->desk->kinds, id, error);
    if (err)
        return err;
    if (desk_has_lanes(seat->desk))
        return recount_lanes(seat, id, ret, error);
    aggregator_hold_trim(seat->desk->options.aggregator);
    err = recount(seat, id, ret, error);
    aggregator_release_trim(seat->desk->options.aggregator);
    return err;
}

/* --- events, newest first ---
 *
 * A segment can only be read from its beginning, so the newest are found by reading
 * all of it and keeping the last. The cursor is the segment, and how many
 * of its events on the subject, counted from its beginning, are still to come:
 *
 *   segment (upper 32 bits)  index (lower 32 bits; all ones: all of them) */

#define EVENTS_MAX         1000u
#define SEGMENTS_LOOKED_AT 4u /* in one call */
#define SEGMENTS_MAX       4096u
#define INDEX_ALL          UINT32_MAX

struct kept_event {
    struct buffer section; /* of this one event */
};

struct hunt {
    struct desk_seat *seat;
    const struct desk_subject *subject;
    struct kept_event *kept; /* a ring of the last ones */
    uint32_t room;
    uint32_t found;  /* so far, in this segment */
    uint32_t before; /* only those with a smaller index */
};

static void keep_event(struct hunt *hunt, const struct event *event, struct slice bytes)
{
    struct buffer *section = &hunt->kept[hunt->found % hunt->room].section;
    struct section one = {.count = 1};
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&one, event->origin, event->sequence, event->time_ms, header);
    section->size = 0;
    (void)buffer_append(section, header, size);
    (void)buffer_append_slice(section, bytes);
}

static enum err hunt_section(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    struct hunt *hunt = arg;
    struct section_reader reader;
    (void)next;
    enum err err = section_open(&reader, section, error);
    while (!err) {
        struct event event;
        const char *begin = reader.at;
        err = section_next(&reader, &event, error);
        if (err)
            break;
        if (is_about(hunt->seat, hunt->subject, &event)) {
            if (hunt->found < hunt->before)
                keep_event(hunt, &event, (struct slice){begin, (size_t)(reader.at - begin)});
            hunt->found += hunt->found < hunt->before;
        }
        event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void show_event(const struct kept_event *kept, desk_event_fn *visit, void *arg)
{
    struct section_reader reader;
    struct event event;
    if (section_open(&reader, buffer_slice(&kept->section), NULL) ||
        section_next(&reader, &event, NULL))
        return;
    visit(arg, &event);
    event_done(&event);
}

/* Shows the last ones of the segment; returns how many. Says how many are left before them. */
static uint32_t show_found(const struct hunt *hunt, uint32_t limit, desk_event_fn *visit, void *arg,
                           uint32_t *ret_left)
{
    uint32_t count = hunt->found < limit ? hunt->found : limit;
    for (uint32_t i = 0; i < count; i++)
        show_event(&hunt->kept[(hunt->found - 1 - i) % hunt->room], visit, arg);
    *ret_left = hunt->found - count;
    return count;
}

static enum err hunt_back(struct hunt *hunt, const struct log_segment *segments, size_t count,
                          uint64_t *cursor, uint32_t limit, desk_event_fn *visit, void *arg,
                          struct error *error)
{
    uint64_t from = *cursor ? *cursor >> 32 : UINT64_MAX;
    hunt->before = *cursor ? (uint32_t)*cursor : INDEX_ALL;
    *cursor = 0;
    unsigned looked_at = 0;
    uint32_t shown = 0;
    for (size_t i = count; i-- > 0;) {
        if (segments[i].number > from)
            continue;
        if (shown == limit || looked_at++ == SEGMENTS_LOOKED_AT) {
            *cursor = segments[i].number << 32 | INDEX_ALL;
            return ERR_OK;
        }
        hunt->found = 0;
        enum err err = seat_read_segment(hunt->seat, segments[i].number, hunt_section, hunt, error);
        if (err)
            return err;
        uint32_t left;
        shown += show_found(hunt, limit - shown, visit, arg, &left);
        if (left > 0) {
            *cursor = segments[i].number << 32 | left;
            return ERR_OK;
        }
        hunt->before = INDEX_ALL;
    }
    return ERR_OK;
}

enum err desk_events(struct desk_seat *seat, struct slice id, uint64_t *cursor, uint32_t limit,
                     desk_event_fn *visit, void *arg, struct error *error)
{
    assert(seat && cursor && limit > 0 && visit);

    enum err err = check_counter(seat->desk->kinds, id, error);
    if (err)
        return err;
    if (desk_has_lanes(seat->desk))
        return error_set(error, ERR_INVALID, "%s", log_is_elsewhere);
    struct desk_subject subject = seat_subject(seat, id);
    struct log_segment *segments = memory_take(SEGMENTS_MAX * sizeof(*segments));
    size_t count = log_segments(seat->desk->log, segments, SEGMENTS_MAX);
    struct hunt hunt = {
        .seat = seat, .subject = &subject, .room = limit < EVENTS_MAX ? limit : EVENTS_MAX};
    hunt.kept = memory_take_zeroed(hunt.room * sizeof(*hunt.kept));
    for (uint32_t i = 0; i < hunt.room; i++)
        buffer_init(&hunt.kept[i].section, 2 * LIMIT_EVENT_BYTES);
    err = hunt_back(&hunt, segments, count < SEGMENTS_MAX ? count : SEGMENTS_MAX, cursor, hunt.room,
                    visit, arg, error);
    for (uint32_t i = 0; i < hunt.room; i++)
        buffer_done(&hunt.kept[i].section);
    free(hunt.kept);
    free(segments);
    return err;
}

/* --- the value at a time --- */

#define CLOCK_SLACK_MS 60000 /* clocks go back now and then */

struct past {
    struct sums *sums;
    int64_t time_ms;
};

static enum err sum_past(void *arg, struct slice section, struct log_position next,
                         struct error *error)
{
    const struct past *past = arg;
    struct section_reader reader;
    (void)next;
    enum err err = section_open(&reader, section, error);
    if (err || reader.time_ms > past->time_ms)
        return err;
    return sums_take_section(past->sums, section, error);
}

static enum err sum_until(struct desk_seat *seat, struct log_position from, struct past *past,
                          struct error *error)
{
    struct log_segment *segments = memory_take(SEGMENTS_MAX * sizeof(*segments));
    size_t count = log_segments(seat->desk->log, segments, SEGMENTS_MAX);
    enum err err = ERR_OK;
    for (size_t i = 0; !err && i < count && i < SEGMENTS_MAX; i++) {
        if (segments[i].number < from.segment ||
            segments[i].created_ms > past->time_ms + CLOCK_SLACK_MS)
            continue;
        err = seat_read_segment(seat, segments[i].number, sum_past, past, error);
    }
    if (!err && count > 0 && segments[0].number > 1 && segments[0].created_ms > past->time_ms)
        err = error_set(error, ERR_OUT_OF_RANGE, "the log does not reach back so far");
    free(segments);
    return err;
}

static enum err value_at(struct desk_seat *seat, struct slice id, int64_t time_ms,
                         struct number *ret_value, struct error *error)
{
    struct desk_subject subject = seat_subject(seat, id);
    struct store_reader *reader;
    struct number base = number_of(0);
    struct number discarded = number_of(0);
    struct log_position from = {0};
    enum err err = seat_reader(seat, &reader, error);
    if (!err)
        err = store_base(reader, id, &base, &discarded, &from, error);
    if (err && err != ERR_NOT_FOUND)
        return err;

    struct past past = {.sums = sums_new(seat->desk->kinds, env_random(seat->desk->options.env)),
                        .time_ms = time_ms};
    struct sums_entry *entry = sums_watch(past.sums, subject.target, NULL, NULL);
    err = sum_until(seat, from, &past, error);
    bool is_zero = number_compare(&base, &(struct number){0}) == 0;
    if (!err && entry->events == 0 && (is_zero || entry->begins))
        err = error_set(error, ERR_NOT_FOUND, "there was no such counter at that time");
    if (!err) {
        *ret_value = subject.kind == KIND_NONE ? number_copy(&entry->value)
                                               : number_of(entry->counts[subject.kind - 1]);
        if (!entry->begins)
            number_add(ret_value, &base);
    }
    sums_free(past.sums);
    number_done(&base);
    number_done(&discarded);
    return err;
}

enum err desk_value_at(struct desk_seat *seat, struct slice id, int64_t time_ms,
                       struct number *ret_value, struct error *error)
{
    assert(seat && ret_value);

    enum err err = check_counter(seat->desk->kinds, id, error);
    if (!err)
        err = check_time(time_ms, error);
    if (err)
        return err;
    if (desk_has_lanes(seat->desk))
        return error_set(error, ERR_INVALID, "%s", log_is_elsewhere);
    aggregator_hold_trim(seat->desk->options.aggregator);
    err = value_at(seat, id, time_ms, ret_value, error);
    aggregator_release_trim(seat->desk->options.aggregator);
    return err;
}

/* --- the pipeline --- */

/* What a filter does not ask for is 0 there. */
static enum err check_lives(const struct desk_seat *seat, const struct store_life_filter *filter,
                            struct error *error)
{
    enum err err = check_time(filter->since_ms, error);
    if (!err)
        err = check_time(filter->until_ms, error);
    if (!err && filter->id.size > 0)
        err = check_counter(seat->desk->kinds, filter->id, error);
    return err;
}

enum err desk_lives(struct desk_seat *seat, const struct store_life_filter *filter,
                    uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                    struct error *error)
{
    struct store_reader *reader;
    enum err err = check_lives(seat, filter, error);
    if (!err)
        err = seat_reader(seat, &reader, error);
    return err ? err : store_lives(reader, filter, cursor, limit, visit, arg, error);
}

enum err desk_letters(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                      store_letter_fn *visit, void *arg, struct error *error)
{
    struct store_reader *reader;
    enum err err = seat_reader(seat, &reader, error);
    return err ? err : store_letters(reader, cursor, limit, visit, arg, error);
}

enum err desk_letter(struct desk_seat *seat, const unsigned char *event_id, store_letter_fn *visit,
                     void *arg, struct error *error)
{
    struct store_reader *reader;
    enum err err = seat_reader(seat, &reader, error);
    return err ? err : store_letter(reader, event_id, visit, arg, error);
}

/* --- history --- */

#define PAST_WITHIN_NS (5u * 1000000000ull)

/* Does the store lack something that is in this lane of the log? */
static bool lane_is_behind(const struct desk *desk, const struct state_mark *mark, unsigned lane)
{
    struct log_position at = desk_has_lanes(desk) ? mark->lanes[lane] : mark->position;
    return log_position_is_before(at, log_end(desk->log, desk_has_lanes(desk) ? lane : 0));
}

/* Up to when does the store have all that was written? A log of one lane is read in its order, so
 * that the newest event that the store has tells; of many lanes the one that is furthest behind.
 * 0: it has everything. */
static int64_t stored_until_ms(const struct desk *desk)
{
    struct state_mark mark;
    aggregator_mark(desk->options.aggregator, &mark);
    int64_t newest_ms = 1;
    int64_t oldest_ms = INT64_MAX;
    bool is_behind = false;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        int64_t time_ms = mark.times_ms[lane];
        newest_ms = time_ms > newest_ms ? time_ms : newest_ms;
        if (!lane_is_behind(desk, &mark, lane))
            continue;
        is_behind = true;
        oldest_ms = time_ms < oldest_ms ? time_ms : oldest_ms;
    }
    if (!is_behind)
        return 0;
    if (!desk_has_lanes(desk))
        return newest_ms;
    return oldest_ms > 0 ? oldest_ms : 1;
}

enum err desk_past(struct desk_seat *seat, struct slice item, struct slice user, uint64_t *cursor,
                   uint32_t limit, store_past_fn *visit, void *arg, struct age *age,
                   struct error *error)
{
    assert(seat && cursor && visit && age);

    struct store_reader *reader;
    enum err err = check_id(item, error);
    if (!err && user.size > 0)
        err = check_user(user, error);
    if (!err)
        err = seat_reader(seat, &reader, error);
    if (err)
        return err;
    if (seat_catch_up_within(seat, PAST_WITHIN_NS, NULL)) {
        struct age behind = {.as_of_ms = stored_until_ms(seat->desk)};
        behind.stale = behind.as_of_ms != 0;
        age_add(age, &behind);
    }
    return store_past(reader, item, user, cursor, limit, visit, arg, error);
}

enum err desk_audits(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                     store_audit_fn *visit, void *arg, struct error *error)
{
    struct store_reader *reader;
    enum err err = seat_reader(seat, &reader, error);
    return err ? err : store_audits(reader, cursor, limit, visit, arg, error);
}

/* --- dead letters: the writer's work --- */

#define LETTERS_AT_ONCE 500u

struct letter_ask {
    const unsigned char *event_id;
    int64_t now_ms;
    bool discard;
    uint64_t count;
    enum err err;
    struct error *error;
};

static void ask_letters(void *arg, struct store *store)
{
    struct letter_ask *ask = arg;
    ask->err = (ask->discard ? store_discard : store_redrive)(store, ask->event_id, ask->now_ms,
                                                              &ask->count, ask->error);
}

static enum err deal_with_letters(struct desk_seat *seat, const unsigned char *event_id,
                                  bool discard, uint64_t *ret_count, struct error *error)
{
    struct desk *desk = seat->desk;
    struct letter_ask ask = {.event_id = event_id,
                             .now_ms = env_wall_ms(desk->options.env),
                             .discard = discard,
                             .error = error};
    aggregator_ask(desk->options.aggregator, ask_letters, &ask);
    if (!ask.err)
        *ret_count = ask.count;
    return ask.err;
}

enum err desk_redrive(struct desk_seat *seat, const unsigned char *event_id, uint64_t *ret_count,
                      struct error *error)
{
    assert(seat && ret_count);
    return deal_with_letters(seat, event_id, false, ret_count, error);
}

static void keep_id(void *arg, const struct store_letter *letter)
{
    if (letter->id.size > 0)
        proof_ids_add(arg, letter->id);
}

/* What the letters are about: one, or all of them. */
static enum err find_ids(struct desk_seat *seat, const unsigned char *event_id,
                         struct proof_ids *ids, struct error *error)
{
    struct store_reader *reader;
    enum err err = seat_reader(seat, &reader, error);
    if (err || event_id)
        return err ? err : store_letter(reader, event_id, keep_id, ids, error);
    uint64_t cursor = 0;
    do {
        err = store_letters(reader, &cursor, LETTERS_AT_ONCE, keep_id, ids, error);
    } while (!err && cursor != 0);
    return err;
}

/* What was given up counts no more, in memory as in the store. */
enum err desk_discard(struct desk_seat *seat, const unsigned char *event_id, uint64_t *ret_count,
                      struct error *error)
{
    assert(seat && ret_count);

    struct proof_ids ids;
    proof_ids_init(&ids);
    enum err err = find_ids(seat, event_id, &ids, error);
    if (!err)
        err = deal_with_letters(seat, event_id, true, ret_count, error);
    if (!err && ids.count > 0) {
        struct proof proof = {.seat = seat, .repair = true, .is_expected = true};
        err = proof_check(&proof, &ids, error);
    }
    proof_ids_done(&ids);
    return err;
}
