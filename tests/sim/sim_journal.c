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

static sim_wide wide_of(const struct number *number)
{
    if (!number->big)
        return number->small;
    struct buffer digits;
    buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
    number_format(number, &digits);
    sim_wide wide = sim_wide_of(buffer_slice(&digits));
    buffer_done(&digits);
    return wide;
}

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

static void sum_event(struct journal *journal, const struct event *event)
{
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
        sum->value += wide_of(&event->amount);
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
    log_visit_fn *visit;
    void *arg;
};

static bool is_section(const struct journal *journal, uint64_t number, struct slice section)
{
    const struct journal_section *wanted = &journal->sections[number];
    return section.size == wanted->size && memcmp(section.data, wanted->bytes, section.size) == 0;
}

static enum err visit_section(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    struct reading *reading = arg;
    struct journal *journal = reading->journal;
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
    if (number == journal->count / 2)
        journal->middle = next;
    if (next.segment == journal->middle.segment && next.offset == journal->middle.offset)
        journal->middle_count = journal->read;
    return reading->visit(reading->arg, section, next, error);
}

/* Whoever has remembered a position goes on from there. */
static enum err visit_rest(void *arg, struct slice section, struct log_position next,
                           struct error *error)
{
    struct journal *journal = arg;
    (void)next;
    (void)error;
    if (journal->middle_count >= journal->count ||
        !is_section(journal, journal->middle_count, section))
        report_violation(journal->report, "read from a position, the log is another");
    journal->middle_count++;
    return ERR_OK;
}

static enum err read_rest(struct journal *journal, struct error *error)
{
    if (journal->middle.segment == 0)
        return ERR_OK;
    enum err err = log_read(journal->inner, journal->middle, visit_rest, journal, NULL, error);
    if (!err && journal->middle_count != journal->count)
        report_violation(journal->report, "read from a position, the log ends elsewhere");
    return err;
}

static void forget_sections(struct journal *journal, uint64_t count)
{
    while (journal->count > count)
        free(journal->sections[--journal->count].bytes);
}

static enum err journal_read(struct log *base, struct log_position from, log_visit_fn *visit,
                             void *arg, log_reading_fn *reading, struct error *error)
{
    struct journal *journal = journal_of(base);
    assert(from.segment == 0);
    (void)reading;

    journal->read = 0;
    journal->middle = (struct log_position){0};
    memset(journal->sequences, 0, sizeof(journal->sequences));
    memset(journal->sums, 0, journal->ids * sizeof(*journal->sums));
    struct reading witness = {.journal = journal, .visit = visit, .arg = arg};
    enum err err = log_read(journal->inner, from, visit_section, &witness, NULL, error);
    if (err)
        return err;

    if (journal->read < journal->relied)
        report_violation(journal->report,
                         "the log has %" PRIu64 " sections, but %" PRIu64
                         " were acknowledged: acknowledged writes are lost",
                         journal->read, journal->relied);
    report_trace(journal->report, "  read %" PRIu64 " of %" PRIu64 " sections", journal->read,
                 journal->count);
    forget_sections(journal, journal->read);
    return read_rest(journal, error);
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

static uint64_t journal_reached(struct log *base, enum log_level level)
{
    return log_reached(journal_of(base)->inner, level);
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
