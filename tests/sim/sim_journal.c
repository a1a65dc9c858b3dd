#include "sim/sim_journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/event.h"
#include "sim/sim_names.h"

static struct journal *journal_of(struct log *base)
{
    return (struct journal *)base;
}

/* ---- adding up ---- */

static void sum_reaction(struct journal *journal, struct journal_sum *sum,
                         const struct event *event)
{
    uint8_t before = kinds_find(journal->kinds, event->before);
    uint8_t after = kinds_find(journal->kinds, event->after);
    sum->thing = SUM_ITEM;
    if (before != KIND_NONE)
        sum->counts[before - 1]--;
    if (after != KIND_NONE)
        sum->counts[after - 1]++;
    for (unsigned i = 0; i < SIM_KINDS; i++) {
        if (sum->counts[i] < 0)
            report_violation(journal->report, "the log counts kind %u of '%.40s' below zero", i + 1,
                             event->id.data);
    }
}

/* A number has one name for ever. (A name may get another number, if the store was never
 * told of the first: all that it did with it was deleted before.) */
static void check_number(struct journal *journal, const struct event *event)
{
    unsigned user = sim_user_of(event->user);
    if (event->type != EVENT_REACT || event->erased)
        return;
    if (user >= JOURNAL_USERS) {
        report_violation(journal->report, "the log has a user whom nobody sent");
        return;
    }
    bool is_numeric = user % 2 == 0;
    if (is_numeric != (event->user_number == EVENT_NO_NUMBER))
        report_violation(journal->report, "user %u has a number, or has none, wrongly", user);
    for (unsigned other = 0; other < JOURNAL_USERS && !is_numeric; other++) {
        uint64_t number = journal->numbers[other];
        if (other != user && number == event->user_number + UINT64_C(1))
            report_violation(journal->report, "users %u and %u: number %u is not theirs alone",
                             user, other, event->user_number);
    }
    if (!is_numeric)
        journal->numbers[user] = event->user_number + UINT64_C(1);
}

static void sum_event(struct journal *journal, const struct event *event)
{
    check_number(journal, event);
    struct slice item = event->id;
    uint8_t kind = KIND_NONE;
    kinds_split(journal->kinds, event->id, &item, &kind);
    unsigned id = sim_id_of(item);
    if (id >= journal->ids) {
        report_violation(journal->report, "the log has an event of an id that nobody sent");
        return;
    }
    struct journal_sum *sum = &journal->sums[id];
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        sum->thing = SUM_COUNTER;
        sum->value += sim_number_wide(&event->amount);
        break;
    case EVENT_DELETE:
        *sum = (struct journal_sum){.thing = SUM_NOTHING};
        break;
    case EVENT_CREATE:
        sum->thing = kind != KIND_NONE ? SUM_ITEM : SUM_COUNTER;
        break;
    case EVENT_REACT:
        sum_reaction(journal, sum, event);
        break;
    case EVENT_EXPIRE:
    case EVENT_NOTHING:
    case EVENT_REPAIR:
    case EVENT_EPOCH:
    case EVENT_AFTER:
        break;
    }
}

/* The sequence of each origin grows by one. */
static void check_sequence(struct journal *journal, const struct section_reader *reader)
{
    if (reader->origin >= LIMIT_CELLS) {
        report_violation(journal->report, "the log has a section of origin %u", reader->origin);
        return;
    }
    uint64_t *last = &journal->sequences[reader->origin];
    if (reader->first_sequence != *last + 1)
        report_violation(journal->report,
                         "the log has event %" PRIu64 " of origin %u behind event %" PRIu64,
                         reader->first_sequence, reader->origin, *last);
    *last += reader->left;
}

static void sum_section(struct journal *journal, struct slice section)
{
    struct section_reader reader;
    struct event event;
    struct error error;
    if (section_open(&reader, section, &error)) {
        report_violation(journal->report, "the log has a section that cannot be read: %s",
                         error.text);
        return;
    }
    check_sequence(journal, &reader);
    enum err err;
    while ((err = section_next(&reader, &event, &error)) == ERR_OK) {
        sum_event(journal, &event);
        event_done(&event);
    }
    if (err != ERR_NOT_FOUND)
        report_violation(journal->report, "the log has an event that cannot be read: %s",
                         error.text);
}

/* ---- reading ---- */

struct reading {
    struct journal *journal;
    log_visit_fn *visit; /* NULL: nobody else wants to see it */
    void *arg;
    uint64_t number; /* of the next section */
};

static bool is_section(const struct journal *journal, uint64_t number, struct slice section)
{
    const struct journal_section *wanted = &journal->sections[number];
    return section.size == wanted->size &&
           (memcmp(section.data, wanted->bytes, section.size) == 0 ||
            (wanted->old && memcmp(section.data, wanted->old, section.size) == 0));
}

/* This is what the disk has: a scrub was done, or was not. */
static void settle_section(struct journal *journal, uint64_t number, struct slice section)
{
    struct journal_section *own = &journal->sections[number];
    if (!own->old)
        return;
    bool was_scrubbed = memcmp(section.data, own->bytes, section.size) == 0;
    free(was_scrubbed ? own->old : own->bytes);
    if (!was_scrubbed)
        own->bytes = own->old;
    own->old = NULL;
}

static struct slice section_bytes(const struct journal *journal, uint64_t number)
{
    return (struct slice){journal->sections[number].bytes, journal->sections[number].size};
}

/* What was trimmed is not there to be read; it is added up all the same. */
static void pass_trimmed(struct journal *journal, struct slice first)
{
    while (journal->read < journal->trimmed && journal->read < journal->count &&
           !is_section(journal, journal->read, first)) {
        sum_section(journal, section_bytes(journal, journal->read));
        journal->read++;
    }
}

static enum err visit_section(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    struct reading *reading = arg;
    struct journal *journal = reading->journal;
    if (journal->read < journal->trimmed && reading->number == 0)
        pass_trimmed(journal, section);
    reading->number++;
    uint64_t number = journal->read++;
    if (number >= journal->count)
        report_violation(journal->report,
                         "the log has %" PRIu64 " sections, of which the last was never appended "
                         "or had been lost",
                         journal->read);
    else if (!is_section(journal, number, section))
        report_violation(journal->report,
                         "section %" PRIu64 " of the log is not the one that was appended",
                         number + 1);
    else
        sum_section(journal, section);
    if (number < journal->count && !journal->report->failed)
        settle_section(journal, number, section);
    if (number < journal->count)
        journal->sections[number].next = next;
    if (number == journal->count / 2)
        journal->middle = next;
    if (next.segment == journal->middle.segment && next.offset == journal->middle.offset)
        journal->middle_count = journal->read;
    return reading->visit ? reading->visit(reading->arg, section, next, error) : ERR_OK;
}

/* Whoever has remembered a position goes on from there. */
static enum err visit_rest(void *arg, struct slice section, struct log_position next,
                           struct error *error)
{
    struct reading *reading = arg;
    struct journal *journal = reading->journal;
    if (reading->number >= journal->count || !is_section(journal, reading->number, section))
        report_violation(journal->report, "read from a position, the log is another");
    else
        journal->sections[reading->number].next = next;
    reading->number++;
    return reading->visit ? reading->visit(reading->arg, section, next, error) : ERR_OK;
}

static enum err read_rest(struct journal *journal, struct log_position from, uint64_t before,
                          log_visit_fn *visit, void *arg, struct error *error)
{
    struct reading rest = {.journal = journal, .visit = visit, .arg = arg, .number = before};
    enum err err = log_read(journal->inner, from, visit_rest, &rest, NULL, error);
    if (!err && rest.number != journal->count)
        report_violation(journal->report, "read from a position, the log ends elsewhere");
    return err;
}

static void forget_sections(struct journal *journal, uint64_t count)
{
    while (journal->count > count) {
        free(journal->sections[--journal->count].bytes);
        free(journal->sections[journal->count].old);
    }
}

/* Everything is read, whatever the caller wants of it. */
static enum err read_all(struct journal *journal, log_visit_fn *visit, void *arg,
                         struct error *error)
{
    journal->read = 0;
    journal->middle = (struct log_position){0};
    memset(journal->sequences, 0, sizeof(journal->sequences));
    memset(journal->numbers, 0, sizeof(journal->numbers));
    memset(journal->sums, 0, journal->ids * sizeof(*journal->sums));
    struct reading witness = {.journal = journal, .visit = visit, .arg = arg};
    struct log_position beginning = {0};
    enum err err = log_read(journal->inner, beginning, visit_section, &witness, NULL, error);
    if (err)
        return err;
    if (witness.number == 0) /* perhaps all of it was trimmed */
        pass_trimmed(journal, (struct slice){NULL, 0});

    if (journal->read < journal->relied)
        report_violation(journal->report,
                         "the log has %" PRIu64 " sections, but %" PRIu64
                         " were acknowledged: acknowledged writes are lost",
                         journal->read, journal->relied);
    report_trace(journal->report, "  read %" PRIu64 " of %" PRIu64 " sections", journal->read,
                 journal->count);
    forget_sections(journal, journal->read);
    return ERR_OK;
}

static enum err journal_read(struct log *base, struct log_position from, log_visit_fn *visit,
                             void *arg, log_reading_fn *reading, struct error *error)
{
    struct journal *journal = journal_of(base);
    (void)reading;

    bool from_start = from.segment == 0;
    enum err err = read_all(journal, from_start ? visit : NULL, arg, error);
    if (err)
        return err;
    if (!from_start)
        return read_rest(journal, from, journal_before(journal, from), visit, arg, error);
    if (journal->middle.segment == 0)
        return ERR_OK;
    return read_rest(journal, journal->middle, journal->middle_count, NULL, NULL, error);
}

uint64_t journal_before(const struct journal *journal, struct log_position position)
{
    uint64_t number = 0;
    for (; number < journal->count; number++) {
        struct log_position next = journal->sections[number].next;
        bool is_behind = next.segment == 0 || next.segment > position.segment ||
                         (next.segment == position.segment && next.offset > position.offset);
        if (is_behind && number >= journal->trimmed)
            break;
    }
    return number;
}

/* ---- following ---- */

struct following {
    struct reading reading;
    uint64_t durable; /* ticket */
};

static enum err visit_followed(void *arg, struct slice section, struct log_position next,
                               struct error *error)
{
    struct following *following = arg;
    struct journal *journal = following->reading.journal;
    uint64_t number = following->reading.number;
    if (number >= journal->started && number < journal->count &&
        journal->sections[number].ticket > following->durable)
        report_violation(journal->report,
                         "the log is followed to section %" PRIu64 ", which is not durable",
                         number + 1);
    return visit_rest(&following->reading, section, next, error);
}

static enum err journal_follow(struct log *base, unsigned lane, struct log_position *at,
                               uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    (void)lane;
    struct journal *journal = journal_of(base);
    struct log_position from = *at;
    uint64_t before = journal_before(journal, from);
    bool goes_on = from.offset > 0; /* who begins with a segment adds up by itself, once */
    if (before > 0 && goes_on && sim_rng_chance(&journal->rng, journal->repeat_permille)) {
        journal->report->hits[FAULT_REPEATED]++;
        enum err err = visit(arg, section_bytes(journal, before - 1), from, error);
        if (err)
            return err;
    }
    struct following following = {
        .reading = {.journal = journal, .visit = visit, .arg = arg, .number = before},
        .durable = log_reached(journal->inner, 0, LOG_DURABLE),
    };
    enum err err = log_follow(journal->inner, 0, at, limit, visit_followed, &following, error);
    if (!err && journal_before(journal, *at) != following.reading.number)
        report_violation(journal->report, "the log was followed to another place than it says");
    return err;
}

static struct log_position journal_end(struct log *base, unsigned lane)
{
    (void)lane;
    return log_end(journal_of(base)->inner, 0);
}

/* ---- what is kept of it ---- */

static size_t journal_segments(struct log *base, struct log_segment *to, size_t room)
{
    return log_segments(journal_of(base)->inner, to, room);
}

static enum err journal_rotate(struct log *base, struct error *error)
{
    return log_rotate(journal_of(base)->inner, error);
}

static enum err journal_trim(struct log *base, uint64_t first, struct error *error)
{
    struct journal *journal = journal_of(base);
    uint64_t before = journal_before(journal, (struct log_position){.segment = first});
    if (before > journal->trimmed)
        journal->trimmed = before; /* even if it fails: some of it may be gone */
    journal->report->hits[FAULT_TRIM]++;
    report_trace(journal->report, "the log is trimmed to segment %" PRIu64, first);
    return log_trim(journal->inner, first, error);
}

static char *copy_bytes(const char *bytes, size_t size)
{
    char *copy = malloc(size);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    return copy;
}

struct scrubbing {
    struct journal *journal;
    log_scrub_fn *scrub;
    void *arg;
};

static bool scrub_section(void *arg, char *section, size_t size)
{
    struct scrubbing *scrubbing = arg;
    struct journal *journal = scrubbing->journal;
    uint64_t number = 0;
    while (number < journal->count && !is_section(journal, number, (struct slice){section, size}))
        number++;
    if (number == journal->count) {
        report_violation(journal->report, "a section is scrubbed that was never appended");
        return false;
    }
    settle_section(journal, number, (struct slice){section, size});
    struct journal_section *own = &journal->sections[number];
    char *old = copy_bytes(section, size);
    bool changed = scrubbing->scrub(scrubbing->arg, section, size);
    if (!changed) {
        free(old);
        return false;
    }
    free(own->old);
    free(own->bytes);
    own->old = old; /* what is on the disk now may stay there, if the power goes */
    own->bytes = copy_bytes(section, size);
    return true;
}

static enum err journal_scrub(struct log *base, uint64_t segment, log_scrub_fn *scrub, void *arg,
                              uint64_t *ret_changed, struct error *error)
{
    struct journal *journal = journal_of(base);
    struct scrubbing scrubbing = {.journal = journal, .scrub = scrub, .arg = arg};
    for (uint64_t i = 0; i < journal->trimmed; i++) { /* these have nobody else to do it */
        char *copy = copy_bytes(journal->sections[i].bytes, journal->sections[i].size);
        scrub_section(&scrubbing, copy, journal->sections[i].size);
        free(copy);
    }
    return log_scrub(journal->inner, segment, scrub_section, &scrubbing, ret_changed, error);
}

static enum err journal_start(struct log *base, struct error *error)
{
    struct journal *journal = journal_of(base);
    enum err err = log_start(journal->inner, error);
    if (!err) {
        journal->started = journal->count;
        journal->relied = journal->count; /* what recovery has shown, stays */
    }
    return err;
}

/* ---- appending ---- */

static uint64_t journal_append(struct log *base, struct slice header, struct slice body)
{
    struct journal *journal = journal_of(base);
    if (journal->count == journal->capacity) {
        journal->capacity = journal->capacity > 0 ? journal->capacity * 2 : 64;
        journal->sections =
            realloc(journal->sections, journal->capacity * sizeof(*journal->sections));
        if (!journal->sections)
            abort();
    }
    struct journal_section section = {.size = header.size + body.size};
    section.bytes = malloc(section.size);
    if (!section.bytes)
        abort();
    memcpy(section.bytes, header.data, header.size);
    memcpy(section.bytes + header.size, body.data, body.size);
    section.ticket = log_append(journal->inner, header, body);
    journal->sections[journal->count++] = section;
    return section.ticket;
}

uint64_t journal_section_of(const struct journal *journal, uint64_t ticket)
{
    uint64_t number = journal->count;
    while (number > journal->started && journal->sections[number - 1].ticket > ticket)
        number--;
    return number;
}

static enum err journal_room(struct log *base)
{
    return log_room(journal_of(base)->inner);
}

static uint64_t journal_reached(struct log *base, unsigned lane, enum log_level level)
{
    (void)lane;
    return log_reached(journal_of(base)->inner, 0, level);
}

static void journal_stats(struct log *base, struct log_stats *ret_stats)
{
    log_stats(journal_of(base)->inner, ret_stats);
}

static void journal_close(struct log *base)
{
    struct journal *journal = journal_of(base);
    log_close(journal->inner);
    journal->inner = NULL;
}

static const struct log_ops journal_ops = {
    .name = "journal",
    .read = journal_read,
    .start = journal_start,
    .append = journal_append,
    .room = journal_room,
    .reached = journal_reached,
    .follow = journal_follow,
    .end = journal_end,
    .segments = journal_segments,
    .rotate = journal_rotate,
    .trim = journal_trim,
    .scrub = journal_scrub,
    .stats = journal_stats,
    .close = journal_close,
};

/* ---- life ---- */

void journal_init(struct journal *journal, unsigned ids, const struct kinds *kinds,
                  struct report *report)
{
    *journal = (struct journal){
        .base.ops = &journal_ops,
        .report = report,
        .kinds = kinds,
        .sums = calloc(ids, sizeof(struct journal_sum)),
        .ids = ids,
    };
    if (!journal->sums)
        abort();
}

void journal_done(struct journal *journal)
{
    forget_sections(journal, 0);
    free(journal->sections);
    free(journal->sums);
}

struct log *journal_open(struct journal *journal, struct log *inner)
{
    assert(!journal->inner);
    journal->inner = inner;
    return &journal->base;
}
