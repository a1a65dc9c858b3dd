#include "flow/trim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/message.h"
#include "flow/sums.h"

#define SEGMENTS_MAX 4096u /* that are looked at in one go */
#define FOLLOW_BYTES ((uint64_t)4 << 20)

struct trim {
    struct env *env;
    struct log *log;
    struct store *store;
    const struct kinds *kinds;
    struct trim_rule rule;
    struct log_segment *segments; /* owned */
};

struct trim *trim_new(struct env *env, struct log *log, struct store *store,
                      const struct kinds *kinds, const struct trim_rule *rule)
{
    struct trim *trim = memory_take_zeroed(sizeof(*trim));
    *trim = (struct trim){.env = env, .log = log, .store = store, .kinds = kinds, .rule = *rule};
    trim->segments = memory_take(SEGMENTS_MAX * sizeof(*trim->segments));
    return trim;
}

void trim_free(struct trim *trim)
{
    if (!trim)
        return;
    free(trim->segments);
    free(trim);
}

/* May the oldest segment go? What it holds is as old as the beginning of the next. */
static bool may_go(const struct trim *trim, size_t count, struct log_position position)
{
    if (count < 2 || !trim->segments[0].sealed || trim->segments[1].number > position.segment)
        return false;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += trim->segments[i].bytes;
    if (trim->rule.keep_bytes > 0 && bytes > trim->rule.keep_bytes)
        return true;
    return trim->rule.keep_ms > 0 &&
           env_wall_ms(trim->env) - trim->segments[1].created_ms > (int64_t)trim->rule.keep_ms;
}

/* --- summing up a segment --- */

struct scan {
    struct sums *sums;
    uint64_t segment;
    bool is_over; /* this is the next segment */
};

static enum err scan_section(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    struct scan *scan = arg;
    scan->is_over = next.segment != scan->segment;
    return scan->is_over ? ERR_NOT_FOUND : sums_take_section(scan->sums, section, error);
}

static enum err sum_segment(struct trim *trim, struct sums *sums, uint64_t number,
                            struct error *error)
{
    struct log_position at = {number, 0};
    struct scan scan = {.sums = sums, .segment = number};
    while (at.segment == number) {
        struct log_position before = at;
        enum err err = log_follow(trim->log, 0, &at, FOLLOW_BYTES, scan_section, &scan, error);
        if (scan.is_over)
            return ERR_OK;
        if (err)
            return err;
        if (at.segment == before.segment && at.offset == before.offset)
            break;
    }
    return ERR_OK;
}

/* What goes to the store: names and what is to be added to their sums. */
struct additions {
    struct store_reader *reader;
    struct slice *ids;
    struct number *sums;
    char (*names)[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
    size_t count;
};

static enum err add_sum(struct additions *to, struct slice id, const struct number *sum,
                        bool begins, struct error *error)
{
    struct number by = number_copy(sum);
    if (begins) { /* what is recorded is of something that is gone */
        struct number base = number_of(0);
        struct number discarded = number_of(0);
        struct log_position position;
        enum err err = store_base(to->reader, id, &base, &discarded, &position, error);
        if (err && err != ERR_NOT_FOUND) {
            number_done(&by);
            return err;
        }
        number_subtract(&by, &base);
        number_done(&base);
        number_done(&discarded);
    }
    memcpy(to->names[to->count], id.data, id.size);
    to->ids[to->count] = (struct slice){to->names[to->count], id.size};
    to->sums[to->count++] = by;
    return ERR_OK;
}

static enum err add_entry(struct additions *to, const struct kinds *kinds,
                          const struct sums_entry *entry, struct error *error)
{
    enum err err = ERR_OK;
    if (!entry->is_item || entry->begins)
        err = add_sum(to, entry->id, &entry->value, entry->begins, error);
    for (unsigned i = 0; !err && (entry->is_item || entry->begins) && i < kinds->count; i++) {
        char id[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
        struct slice kind = kinds_name(kinds, (uint8_t)(i + 1));
        memcpy(id, entry->id.data, entry->id.size);
        id[entry->id.size] = '/';
        memcpy(id + entry->id.size + 1, kind.data, kind.size);
        struct number count = number_of(entry->counts[i]);
        if (entry->counts[i] != 0 || entry->begins)
            err = add_sum(to, (struct slice){id, entry->id.size + 1 + kind.size}, &count,
                          entry->begins, error);
    }
    return err;
}

static enum err rebase(struct trim *trim, struct store_reader *reader, struct sums *sums,
                       uint64_t next, struct error *error)
{
    size_t room = sums_count(sums) * (1 + trim->kinds->count) + 1;
    struct additions to = {
        .reader = reader,
        .ids = memory_take(room * sizeof(*to.ids)),
        .sums = memory_take(room * sizeof(*to.sums)),
        .names = memory_take(room * sizeof(*to.names)),
    };
    enum err err = ERR_OK;
    for (size_t i = 0; !err && i < sums_count(sums); i++)
        err = add_entry(&to, trim->kinds, sums_at(sums, i), error);
    if (!err)
        err = store_rebase(trim->store, to.ids, to.sums, to.count, (struct log_position){next, 0},
                           error);
    for (size_t i = 0; i < to.count; i++)
        number_done(&to.sums[i]);
    free(to.ids);
    free(to.sums);
    free(to.names);
    return err;
}

/* Is the segment's sum recorded already? Then only its removal was missed. */
static enum err is_recorded(struct store_reader *reader, uint64_t next, bool *ret_is,
                            struct error *error)
{
    struct number sum = number_of(0);
    struct number discarded = number_of(0);
    struct log_position position = {0};
    enum err err = store_base(reader, SLICE("-"), &sum, &discarded, &position, error);
    number_done(&sum);
    number_done(&discarded);
    *ret_is = position.segment >= next;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err record(struct trim *trim, uint64_t first, uint64_t next, struct error *error)
{
    struct store_reader *reader;
    enum err err = store_reader_open(trim->store, &reader, error);
    if (err)
        return err;
    bool is_there = false;
    err = is_recorded(reader, next, &is_there, error);
    if (!err && !is_there) {
        struct sums *sums = sums_new(trim->kinds, env_random(trim->env));
        sums_watch_all(sums);
        err = sum_segment(trim, sums, first, error);
        if (!err)
            err = rebase(trim, reader, sums, next, error);
        sums_free(sums);
    }
    store_reader_close(reader);
    return err;
}

enum err trim_step(struct trim *trim, struct log_position position, uint64_t *ret_bytes,
                   struct error *error)
{
    assert(trim && ret_bytes);

    *ret_bytes = 0;
    if (trim->rule.keep_ms == 0 && trim->rule.keep_bytes == 0)
        return ERR_OK;
    size_t count = log_segments(trim->log, trim->segments, SEGMENTS_MAX);
    if (count > SEGMENTS_MAX)
        count = SEGMENTS_MAX;
    if (!may_go(trim, count, position))
        return ERR_OK;

    uint64_t first = trim->segments[0].number;
    uint64_t next = trim->segments[1].number;
    enum err err = record(trim, first, next, error);
    if (!err)
        err = log_trim(trim->log, next, error);
    if (err)
        return err;
    *ret_bytes = trim->segments[0].bytes;
    message_info("the oldest part of the log was removed segment=%" PRIu64 " bytes=%" PRIu64, first,
                 trim->segments[0].bytes);
    return ERR_OK;
}
