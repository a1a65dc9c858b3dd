#include "flow/lookback.h"

#include <assert.h>
#include <inttypes.h>

#include "core/event.h"
#include "core/sequence.h"

#define WITHIN_NS      (10u * 1000000000ull) /* for what is on its way into the log */
#define LOOK_AGAIN_MS  20u
#define REACH_SECTIONS 100000u

void lookback_init(struct lookback *lookback, struct desk_seat *seat, log_visit_fn *visit,
                   void *arg)
{
    assert(lookback && seat && visit);

    *lookback = (struct lookback){.seat = seat, .visit = visit, .arg = arg};
    buffer_init(&lookback->rest, LOG_SECTION_BYTES_MAX + SECTION_HEADER_MAX);
}

void lookback_done(struct lookback *lookback)
{
    buffer_done(&lookback->rest);
}

/* --- sections --- */

/* The events of the section from the first on that is not old, as a section of their own. */
static enum err cut_section(struct lookback *lookback, struct section_reader reader, uint64_t seen,
                            struct slice *ret_section, struct error *error)
{
    while (reader.left > 0 && reader.next_sequence <= seen) {
        struct event event;
        enum err err = section_next(&reader, &event, error);
        if (err)
            return err;
        event_done(&event);
    }
    struct section rest = {.count = (uint32_t)reader.left};
    char header[SECTION_HEADER_MAX];
    size_t size =
        section_header(&rest, reader.origin, reader.next_sequence, reader.time_ms, header);
    lookback->rest.size = 0;
    if (buffer_append(&lookback->rest, header, size) ||
        buffer_append(&lookback->rest, reader.at, (size_t)(reader.end - reader.at)))
        return error_set(error, ERR_TOO_LARGE, "a section of the log is too large");
    *ret_section = buffer_slice(&lookback->rest);
    return ERR_OK;
}

static enum err miss(unsigned lane, uint64_t seen, uint64_t first, struct error *error)
{
    return error_set(error, ERR_CORRUPT,
                     "lane %u of the log: events are missing between epoch %" PRIu64
                     ", number %" PRIu64 " and epoch %" PRIu64 ", number %" PRIu64,
                     lane, sequence_epoch(seen), sequence_n(seen), sequence_epoch(first),
                     sequence_n(first));
}

static enum err take(void *arg, unsigned lane, struct slice section, struct log_position next,
                     struct error *error)
{
    struct lookback *lookback = arg;
    struct section_reader reader;
    if (seat_must_stop(lookback->seat))
        return error_set(error, ERR_UNAVAILABLE, "the server is stopping");
    if (section_open(&reader, section, NULL) || reader.left == 0 || reader.origin != lane)
        return ERR_OK; /* a dead letter */
    uint64_t *seen = &lookback->seen[lane];
    uint64_t first = reader.first_sequence;
    uint64_t last = first + reader.left - 1;
    if (last <= *seen || (lookback->limit && first > lookback->limit->sequences[lane]))
        return ERR_OK;
    if (*seen > 0 && first > *seen && !sequence_follows(*seen, first))
        return miss(lane, *seen, first, error);
    enum err err = ERR_OK;
    if (first <= *seen)
        err = cut_section(lookback, reader, *seen, &section, error);
    if (!err)
        err = lookback->visit(lookback->arg, section, next, error);
    *seen = last;
    return err == ERR_CORRUPT ? ERR_OK : err; /* what comes behind it in the section was a letter */
}

/* --- the log --- */

/* A store that was behind another log has what this one never had. */
static enum err check_store(struct desk_seat *seat, struct error *error)
{
    struct store_reader *reader;
    struct number value = number_of(0);
    int64_t members;
    struct state_mark mark = {0};
    enum err err = seat_reader(seat, &reader, error);
    if (!err)
        err = store_inspect(reader, SLICE("-"), SLICE(""), &value, &members, &mark, error);
    number_done(&value);
    if (err && err != ERR_NOT_FOUND)
        return err;
    if (mark.position.segment != 0 || mark.position.offset != 0)
        return error_set(error, ERR_OUT_OF_RANGE, "the store was filled from another log before");
    return ERR_OK;
}

static enum err read_on(struct lookback *lookback, struct error *error)
{
    lookback->scan.visit = take;
    lookback->scan.arg = lookback;
    lookback->scan.must_be_whole = true;
    return log_scan(lookback->seat->desk->log, &lookback->scan, error);
}

static bool has_seen(const struct lookback *lookback, const uint64_t *until)
{
    for (unsigned lane = 0; until && lane < LIMIT_CELLS; lane++)
        if (until[lane] != UINT64_MAX && until[lane] > lookback->seen[lane])
            return false;
    return true;
}

enum err lookback_read(struct lookback *lookback, const uint64_t *until, struct error *error)
{
    assert(lookback);

    struct env *env = lookback->seat->desk->options.env;
    uint64_t until_ns = env_monotonic_ns(env) + WITHIN_NS;
    lookback->limit = NULL;
    enum err err = check_store(lookback->seat, error);
    if (!err)
        err = read_on(lookback, error);
    while (!err && !has_seen(lookback, until)) {
        if (env_monotonic_ns(env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE, "the last events do not get into the log");
        (void)bell_wait(&lookback->seat->bell, LOOK_AGAIN_MS);
        err = read_on(lookback, error);
    }
    return err;
}

enum err lookback_read_to(struct lookback *lookback, const struct state_mark *mark,
                          struct error *error)
{
    assert(lookback && mark);

    lookback->limit = mark;
    enum err err = check_store(lookback->seat, error);
    if (!err)
        err = read_on(lookback, error);
    if (err)
        return err;
    memcpy(lookback->scan.at, mark->lanes, sizeof(lookback->scan.at));
    memcpy(lookback->seen, mark->sequences, sizeof(lookback->seen));
    return ERR_OK;
}

enum err lookback_all(struct desk_seat *seat, const uint64_t *until, log_visit_fn *visit, void *arg,
                      struct error *error)
{
    struct lookback lookback;
    lookback_init(&lookback, seat, visit, arg);
    enum err err = lookback_read(&lookback, until, error);
    lookback_done(&lookback);
    return err;
}

/* --- how far back --- */

struct reach {
    int64_t first_ms[LIMIT_CELLS]; /* of the first section of each lane; 0 = none met */
    unsigned met;                  /* lanes */
    unsigned sections;
};

static enum err note_first(void *arg, unsigned lane, struct slice section, struct log_position next,
                           struct error *error)
{
    struct reach *reach = arg;
    struct section_reader reader;
    (void)next;
    if (reach->first_ms[lane] == 0 && !section_open(&reader, section, NULL)) {
        reach->first_ms[lane] = reader.time_ms;
        reach->met++;
    }
    if (reach->met == LIMIT_CELLS || ++reach->sections == REACH_SECTIONS)
        return error_set(error, ERR_BUSY, "that is enough");
    return ERR_OK;
}

enum err lookback_reach(struct desk_seat *seat, int64_t *ret_since_ms, struct error *error)
{
    struct reach reach = {.met = 0};
    struct log_scan scan = {.visit = note_first, .arg = &reach};
    struct error cause = {.text = ""};
    enum err err = log_scan(seat->desk->log, &scan, &cause);
    *ret_since_ms = 0;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        if ((scan.cut >> lane & 1) && reach.first_ms[lane] > *ret_since_ms)
            *ret_since_ms = reach.first_ms[lane];
    return err && err != ERR_BUSY ? error_set(error, err, "%s", cause.text) : ERR_OK;
}
