/* erase.c - a user is forgotten, and the counts stay right.
 *
 *   1. all reactions are withdrawn, as events like any other: counts follow
 *   2. the store has these events, and has applied all that name the user
 *   3. the log ends its segment, and the store has all of that, too
 *   4. the store forgets name, history and index; a stub stands there instead. If the user
 *      has come back meanwhile: once more from 1
 *   5. every segment up to the end in 3 is written anew without the name
 *
 * An event is not touched before the store has it: without the name nobody could apply it. Each
 * step can be done twice: who is interrupted begins again. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/message.h"
#include "flow/desk_own.h"

#define PAGE         500u
#define ROUNDS_MAX   100u /* the user may go on reacting meanwhile, but not for ever */
#define SEGMENTS_MAX 65536u
#define UNITS_NS     UINT64_C(40000000000) /* longer than all retries of a unit take */

struct erasure {
    struct desk_seat *seat;
    struct desk_work *work;
    struct slice user;
    char stub[32];
    uint64_t withdrawn;
    uint64_t rows;
    uint64_t sections;
    uint64_t last; /* segment that the user's events may be in */
};

/* --- reactions --- */

struct page {
    struct buffer names;
    size_t sizes[PAGE];
    size_t count;
};

static struct page *page_new(void)
{
    struct page *page = memory_take_zeroed(sizeof(*page));
    buffer_init(&page->names, (size_t)PAGE * LIMIT_ID_BYTES);
    return page;
}

static void page_free(struct page *page)
{
    buffer_done(&page->names);
    free(page);
}

static enum err goes_on(struct error *error)
{
    return error_set(error, ERR_BUSY, "the user goes on reacting; keep him out first");
}

static void keep_item(void *arg, struct slice item, struct slice kind)
{
    struct page *page = arg;
    (void)kind;
    if (page->count < PAGE && !buffer_append_slice(&page->names, item))
        page->sizes[page->count++] = item.size;
}

static enum err withdraw_page(struct erasure *erasure, const struct page *page, struct error *error)
{
    struct op *ops = memory_take_zeroed((page->count + 1) * sizeof(*ops));
    const char *at = page->names.data;
    for (size_t i = 0; i < page->count; i++) {
        ops[i] = (struct op){.kind = OP_WITHDRAW,
                             .id = {at, page->sizes[i]},
                             .user = erasure->user,
                             .reaction = KIND_NONE};
        at += page->sizes[i];
    }
    enum err err = seat_run(erasure->seat, ops, page->count, error);
    for (size_t i = 0; !err && i < page->count; i++) {
        if (ops[i].code && ops[i].code != ERR_NOT_FOUND)
            err = error_set(error, ops[i].code, "a reaction cannot be withdrawn: %s",
                            err_meaning(ops[i].code));
        erasure->withdrawn += !ops[i].code && ops[i].changed;
    }
    free(ops);
    return err;
}

/* One walk over the user's items; says how many there were. */
static enum err withdraw_all(struct erasure *erasure, struct page *page, uint64_t *ret_found,
                             struct error *error)
{
    uint64_t cursor = 0;
    enum err err;
    *ret_found = 0;
    do {
        page->count = 0;
        page->names.size = 0;
        struct age age = {0};
        err = desk_items_of(erasure->seat, erasure->user, &cursor, PAGE, keep_item, page, &age,
                            error);
        if (!err && age_is_behind(&age))
            err = error_set(error, ERR_UNAVAILABLE, "%s", err_meaning(ERR_STALE));
        if (!err && page->count > 0)
            err = withdraw_page(erasure, page, error);
        *ret_found += page->count;
        if (!err && !work_progress(erasure->seat, erasure->work, erasure->withdrawn, 0, "items"))
            err = error_set(error, ERR_UNAVAILABLE, "the server is stopping");
    } while (!err && cursor != 0);
    return err;
}

static enum err withdraw(struct erasure *erasure, struct error *error)
{
    struct page *page = page_new();
    uint64_t found = 1;
    enum err err = ERR_OK;
    for (unsigned i = 0; !err && found > 0; i++)
        err = i == ROUNDS_MAX ? goes_on(error) : withdraw_all(erasure, page, &found, error);
    page_free(page);
    return err ? err : seat_catch_up(erasure->seat, error);
}

/* --- units that the store has refused ---
 *
 * Their raw events name the user. Without the name they could not be applied any more: the count
 * would follow, and the members would not. */

struct seeker {
    struct slice user;
    bool is_named;
};

static void seek_user(void *arg, const struct state_target *target)
{
    struct seeker *seeker = arg;
    for (size_t i = 0; i < target->pending_count; i++)
        seeker->is_named |= target->pending[i].type == EVENT_REACT &&
                            slice_equal(target->pending[i].user, seeker->user);
}

static void keep_unit(void *arg, const struct store_life *life)
{
    keep_item(arg, life->id, life->reason);
}

/* Is the user named by what waits for one of these items? */
static enum err seek_page(struct erasure *erasure, const struct page *page, bool *ret_is_named,
                          struct error *error)
{
    struct seeker seeker = {.user = erasure->user};
    struct store_reader *reader;
    const char *at = page->names.data;
    enum err err = seat_reader(erasure->seat, &reader, error);
    for (size_t i = 0; !err && i < page->count && !seeker.is_named; i++) {
        err = store_load(reader, (struct slice){at, page->sizes[i]}, seek_user, &seeker, error);
        err = err == ERR_NOT_FOUND ? ERR_OK : err;
        at += page->sizes[i];
    }
    *ret_is_named = seeker.is_named;
    return err;
}

static enum err seek_units(struct erasure *erasure, enum lifecycle_state state, struct page *page,
                           bool *ret_is_named, struct error *error)
{
    struct store_life_filter filter = {.has_state = true, .state = state};
    struct store_reader *reader;
    uint64_t cursor = 0;
    enum err err = seat_reader(erasure->seat, &reader, error);
    *ret_is_named = false;
    if (err)
        return err;
    do {
        page->count = 0;
        page->names.size = 0;
        err = store_lives(reader, &filter, &cursor, PAGE, keep_unit, page, error);
        if (!err)
            err = seek_page(erasure, page, ret_is_named, error);
    } while (!err && cursor != 0 && !*ret_is_named);
    return err;
}

/* Dead letters wait for a person, other units for their next attempt. */
static enum err seek_all_units(struct erasure *erasure, bool *ret_waits, struct error *error)
{
    struct page *page = page_new();
    bool is_dead = false;
    bool is_pending = false;
    bool is_retrying = false;
    enum err err = seek_units(erasure, LIFECYCLE_FAILED, page, &is_dead, error);
    if (!err && is_dead)
        err = error_set(error, ERR_BUSY,
                        "dead letters name the user: redrive or discard them, then erase again");
    if (!err)
        err = seek_units(erasure, LIFECYCLE_RETRYING, page, &is_retrying, error);
    if (!err && !is_retrying)
        err = seek_units(erasure, LIFECYCLE_PENDING, page, &is_pending, error);
    page_free(page);
    *ret_waits = is_retrying || is_pending;
    return err;
}

/* Until nothing that waits names the user, who holds nothing then. */
static enum err withdraw_and_settle(struct erasure *erasure, struct error *error)
{
    struct desk *desk = erasure->seat->desk;
    uint64_t until_ns = env_monotonic_ns(desk->options.env) + UNITS_NS;
    for (;;) {
        bool waits = false;
        enum err err = withdraw(erasure, error);
        if (!err)
            err = seek_all_units(erasure, &waits, error);
        if (err || !waits)
            return err;
        if (seat_must_stop(erasure->seat))
            return error_set(error, ERR_UNAVAILABLE, "the server is stopping");
        if (env_monotonic_ns(desk->options.env) > until_ns)
            return error_set(error, ERR_BUSY,
                             "the store refuses changes that name the user; try again later");
        (void)bell_wait(&erasure->seat->bell, 200);
    }
}

/* --- the store --- */

struct erase_ask {
    struct erasure *erasure;
    enum err err;
    struct error *error;
};

static void ask_erase(void *arg, struct store *store)
{
    struct erase_ask *ask = arg;
    struct erasure *erasure = ask->erasure;
    uint64_t rows = 0;
    ask->err = store_erase(store, erasure->user, slice_of(erasure->stub),
                           env_wall_ms(erasure->seat->desk->options.env), &rows, ask->error);
    erasure->rows += rows;
}

static enum err erase_from_store(struct erasure *erasure, struct error *error)
{
    struct erase_ask ask = {.erasure = erasure, .error = error};
    aggregator_ask(erasure->seat->desk->options.aggregator, ask_erase, &ask);
    return ask.err;
}

/* --- the log --- */

struct scrub {
    struct slice user;
    struct error error;
    enum err err;
};

static bool scrub_section(void *arg, char *section, size_t size)
{
    struct scrub *scrub = arg;
    uint64_t changed = 0;
    enum err err = section_erase(section, size, scrub->user, &changed, &scrub->error);
    scrub->err = scrub->err ? scrub->err : err;
    return changed > 0;
}

/* Ends the segment, and remembers the last one that is whole. */
static enum err end_segment(struct erasure *erasure, struct error *error)
{
    struct log *log = erasure->seat->desk->log;
    enum err err = log_rotate(log, error);
    if (err)
        return err;
    struct log_segment *segments = memory_take(SEGMENTS_MAX * sizeof(*segments));
    size_t count = log_segments(log, segments, SEGMENTS_MAX);
    for (size_t i = 0; i < count && i < SEGMENTS_MAX; i++)
        if (segments[i].sealed)
            erasure->last = segments[i].number;
    free(segments);
    return ERR_OK;
}

static enum err erase_from_log(struct erasure *erasure, struct error *error)
{
    struct log *log = erasure->seat->desk->log;
    enum err err = ERR_OK;
    struct log_segment *segments = memory_take(SEGMENTS_MAX * sizeof(*segments));
    size_t count = log_segments(log, segments, SEGMENTS_MAX);
    if (count > SEGMENTS_MAX)
        count = SEGMENTS_MAX;
    while (count > 0 && segments[count - 1].number > erasure->last)
        count--; /* what came since does not have the name */
    for (size_t i = 0; !err && i < count; i++) {
        struct scrub scrub = {.user = erasure->user};
        uint64_t changed = 0;
        err = log_scrub(log, segments[i].number, scrub_section, &scrub, &changed, error);
        if (err == ERR_NOT_FOUND)
            err = ERR_OK; /* trimmed in between */
        if (!err && scrub.err)
            err = error_set(error, scrub.err, "segment %" PRIu64 ": %.200s", segments[i].number,
                            scrub.error.text);
        erasure->sections += changed;
        if (!err && !work_progress(erasure->seat, erasure->work, i + 1, count, "segments"))
            err = error_set(error, ERR_UNAVAILABLE, "the server is stopping");
    }
    free(segments);
    return err;
}

/* --- the trail --- */

struct note_ask {
    struct store_audit audit;
    enum err err;
    struct error *error;
};

static void ask_note(void *arg, struct store *store)
{
    struct note_ask *ask = arg;
    ask->err = store_note(store, &ask->audit, ask->error);
}

static enum err write_down(struct erasure *erasure, struct error *error)
{
    struct desk *desk = erasure->seat->desk;
    char text[240];
    if (desk_has_lanes(desk))
        (void)snprintf(text, sizeof(text),
                       "%" PRIu64 " reactions withdrawn, %" PRIu64 " rows without the name now; "
                       "events in the log, which cannot be changed, name the user until its "
                       "retention ends",
                       erasure->withdrawn, erasure->rows);
    else
        (void)snprintf(text, sizeof(text),
                       "%" PRIu64 " reactions withdrawn, %" PRIu64 " rows and %" PRIu64
                       " sections of the log without the name now",
                       erasure->withdrawn, erasure->rows, erasure->sections);
    struct note_ask ask = {.audit = {.time_ms = env_wall_ms(desk->options.env),
                                     .what = SLICE("erase"),
                                     .id = slice_of(erasure->stub),
                                     .text = slice_of(text)},
                           .error = error};
    aggregator_ask(desk->options.aggregator, ask_note, &ask);
    if (!ask.err)
        work_says(erasure->seat, erasure->work, "%s: %s", erasure->stub, text);
    return ask.err;
}

/* Up to the end of a segment the store has everything, and then it forgets a user who holds
 * nothing. Who has come back by then (ERR_BUSY) holds something again. */
static enum err forget_reactions(struct erasure *erasure, struct error *error)
{
    enum err err = ERR_BUSY;
    for (unsigned i = 0; err == ERR_BUSY; i++) {
        if (i == ROUNDS_MAX)
            return goes_on(error);
        err = withdraw_and_settle(erasure, error);
        if (!err)
            err = end_segment(erasure, error);
        if (!err)
            err = seat_catch_up(erasure->seat, error);
        if (err)
            return err;
        err = erase_from_store(erasure, error);
    }
    return err;
}

/* The task remembers the name no longer than it needs it. */
static void forget_name(struct erasure *erasure)
{
    pthread_mutex_lock(&erasure->seat->desk->mutex);
    explicit_bzero(erasure->work->subject, sizeof(erasure->work->subject));
    erasure->work->subject_size = 0;
    pthread_mutex_unlock(&erasure->seat->desk->mutex);
}

enum err erase_user(struct desk_seat *seat, struct desk_work *work, struct error *error)
{
    struct erasure erasure = {
        .seat = seat, .work = work, .user = {work->subject, work->subject_size}};
    (void)snprintf(erasure.stub, sizeof(erasure.stub), "erased-%016" PRIx64,
                   env_random(seat->desk->options.env));
    if (erasure.user.size == 0)
        return error_set(error, ERR_INVALID, "a user is needed");
    if (atomic_load(&seat->desk->options.service->is_moving))
        return error_set(error, ERR_BUSY,
                         "everything is being moved to PostgreSQL, and the name would stay there: "
                         "erase the user when that is over");
    enum err err = forget_reactions(&erasure, error);
    if (!err)
        err = erase_from_log(&erasure, error);
    if (!err)
        err = write_down(&erasure, error);
    forget_name(&erasure);
    return err;
}
