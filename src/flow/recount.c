#include "flow/recount.h"

#include <assert.h>
#include <string.h>

#include "flow/compare.h"
#include "flow/lookback.h"
#include "flow/proof_own.h"

#define CATCH_UP_NS   (10u * 1000000000ull)
#define LOOK_AGAIN_MS 50u

static void found_done(struct desk_recount *found)
{
    number_done(&found->value);
    number_done(&found->recount);
    number_done(&found->base);
    number_done(&found->discarded);
    number_done(&found->store);
}

static enum err check_type(const struct desk_subject *subject, bool is_item, struct error *error)
{
    if (is_item == (subject->kind != KIND_NONE))
        return ERR_OK;
    return is_item
               ? error_set(error, ERR_WRONG_TYPE, "an item: ask for one of its counts, item/kind")
               : error_set(error, ERR_NOT_FOUND, "there is no such item");
}

/* What the store has to have before it can be said that something is not there. */
struct needed {
    bool has_hot;                /* what the hot layer has seen of it; else all that the log has */
    uint64_t until[LIMIT_CELLS]; /* sequences by cell; 0 = nothing in this cell */
};

static void note_cells(const struct hot_inspection *seen, struct needed *needed)
{
    needed->has_hot = true;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        needed->until[cell] = seen->sequences[cell] == UINT64_MAX ? 0 : seen->sequences[cell];
}

/* Into the hot layer with it, as any question would bring it there. A hot layer that cannot be
 * asked is left out. */
static enum err bring_in(struct desk_seat *seat, const struct desk_subject *subject,
                         struct needed *needed, struct error *error)
{
    if (!seat->desk->options.has_hot)
        return ERR_OK;
    struct hot_inspection seen = {.value = number_of(0)};
    struct error cause = {.text = ""};
    enum err err = desk_inspect(seat, subject->target, &seen, &cause);
    if (!err)
        note_cells(&seen, needed);
    if (!err)
        number_done(&seen.value);
    if (err == ERR_NOT_FOUND || err == ERR_WRONG_TYPE)
        return error_set(error, err, "%s", cause.text);
    return err ? ERR_OK : check_type(subject, seen.is_item, error);
}

/* --- from the log --- */

static void replace(struct number *to, const struct number *by)
{
    number_done(to);
    *to = number_copy(by);
}

static void note_sight(struct desk_recount *found, const struct sight *sight,
                       const struct number *by)
{
    if (sight->place == PLACE_STORE_MEMBERS) {
        found->has_members = true;
        found->members = sight->value.small;
    }
    if (sight->place == PLACE_STORE)
        replace(&found->store, &sight->value);
    if (sight->place == PLACE_HOT)
        found->has_hot = true;
    bool is_shown = sight->place == PLACE_HOT || (sight->place == PLACE_STORE && !found->has_hot);
    if (!is_shown)
        return;
    replace(&found->value, &sight->value);
    replace(&found->recount, &sight->value);
    number_add(&found->recount, by);
    found->events = sight->sum->events;
}

/* The hot layer's are the first among them. */
static enum err judge_sights(const struct proof *proof, const struct sights *sights,
                             const struct desk_subject *subject, struct desk_recount *found,
                             struct error *error)
{
    bool has_any = false;
    for (size_t i = 0; i < sights->count; i++) {
        const struct sight *sight = &sights->list[i];
        struct number by;
        bool differs;
        if (sight->kind != subject->kind && !sight->is_missing)
            continue;
        enum err err = sight_judge(proof, sight, &by, &differs, error);
        if (!err && (!sight->is_missing || differs)) {
            has_any = true;
            note_sight(found, sight, &by);
            found->agrees = found->agrees && !differs;
        }
        number_done(&by);
        if (err)
            return err;
    }
    if (has_any)
        return ERR_OK;
    return sights->count > 0 && !sights->list[0].is_missing
               ? check_type(subject, sights->list[0].kind != KIND_NONE, error)
               : error_set(error, ERR_NOT_FOUND, "there is no such counter or item");
}

/* What is spread is compared with the store, whose row the log has proved, while nobody writes to
 * it. If that does not happen, the row is what was proved. */
static void add_spread(struct desk_seat *seat, const struct desk_subject *subject,
                       struct desk_recount *found)
{
    struct places places;
    struct error error;
    if (found->has_hot || places_look(seat, subject->target, LOOKS_MANY, &places, &error))
        return;
    if (places.is_hot && places.is_item == (subject->kind != KIND_NONE)) {
        unsigned i = subject->kind - 1u;
        struct number by = places.is_item ? number_of(places.hot.counts[i] - places.counts[i])
                                          : number_copy(&places.hot.value);
        if (!places.is_item)
            number_subtract(&by, &places.value);
        found->has_hot = true;
        found->agrees = found->agrees && number_compare(&by, &(struct number){0}) == 0;
        number_add(&found->value, &by);
        number_done(&by);
    }
    places_done(&places);
}

static enum err note_discarded(struct desk_seat *seat, struct slice id, struct desk_recount *found,
                               struct error *error)
{
    struct store_reader *reader;
    struct log_position from;
    enum err err = seat_reader(seat, &reader, error);
    if (!err)
        err = store_base(reader, id, &found->base, &found->discarded, &from, error);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err recount_by_log(struct desk_seat *seat, struct slice id,
                               const struct desk_subject *subject, struct desk_recount *ret,
                               struct error *error)
{
    struct proof proof = {.seat = seat};
    struct desk_recount found = {.has_lanes = true, .agrees = true};
    struct sights sights;
    sights_init(&sights, seat);
    enum err err = sights_look_carefully(&proof, &sights, subject->target, error);
    if (!err)
        err = sights_sum(&proof, &sights, error);
    if (!err)
        err = judge_sights(&proof, &sights, subject, &found, error);
    if (!err)
        err = note_discarded(seat, id, &found, error);
    sights_done(&sights);
    if (err) {
        found_done(&found);
        return err;
    }
    add_spread(seat, subject, &found);
    *ret = found;
    return ERR_OK;
}

/* --- without its beginning --- */

static enum err recount_by_store(struct desk_seat *seat, const struct desk_subject *subject,
                                 struct desk_recount *ret, struct error *error)
{
    struct places places;
    struct desk_recount found = {
        .has_lanes = true, .by_store = true, .has_members = subject->kind != KIND_NONE};
    enum err err = lookback_reach(seat, &found.log_begins_ms, error);
    if (!err)
        err = places_look(seat, subject->target, LOOKS_MANY, &places, error);
    if (err)
        return err;
    err = check_type(subject, places.is_item, error);
    if (!err) {
        unsigned i = subject->kind - 1u;
        found.has_hot = places.is_hot;
        found.members = places.is_item ? places.members[i] : 0;
        found.store = places.is_item ? number_of(places.counts[i]) : number_copy(&places.value);
        found.recount = places.is_item ? number_of(found.members) : number_copy(&places.value);
        if (!places.is_hot)
            found.value = number_copy(&found.store);
        else
            found.value =
                places.is_item ? number_of(places.hot.counts[i]) : number_copy(&places.hot.value);
        found.agrees = places.has_row && number_compare(&found.value, &found.recount) == 0 &&
                       number_compare(&found.store, &found.recount) == 0;
        *ret = found;
    }
    places_done(&places);
    return err;
}

/* --- when the store has what there is --- */

static enum err pass_over(void *arg, unsigned lane, struct slice section, struct log_position next,
                          struct error *error)
{
    const struct desk_seat *seat = arg;
    (void)lane, (void)section, (void)next;
    return seat_must_stop(seat) ? error_set(error, ERR_UNAVAILABLE, "the server is stopping")
                                : ERR_OK;
}

/* The server of the log is asked where it ends: what we know of it may be a moment old, and who
 * has just been answered knows better. */
static enum err catch_up_with_log(struct desk_seat *seat, struct error *error)
{
    const struct desk_options *options = &seat->desk->options;
    struct log_scan scan = {.visit = pass_over, .arg = seat};
    struct error cause = {.text = ""};
    struct state_mark mark;
    aggregator_mark(options->aggregator, &mark);
    memcpy(scan.at, mark.lanes, sizeof(scan.at));
    if (log_scan(seat->desk->log, &scan, &cause))
        return error_set(error, ERR_UNAVAILABLE, "where the log ends is not known: %s", cause.text);
    uint64_t until_ns = env_monotonic_ns(options->env) + CATCH_UP_NS;
    for (;;) {
        unsigned lane = 0;
        while (lane < LIMIT_CELLS && !log_position_is_before(mark.lanes[lane], scan.at[lane]))
            lane++;
        if (lane == LIMIT_CELLS)
            return ERR_OK;
        if (seat_must_stop(seat) || env_monotonic_ns(options->env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE,
                             "the store is too far behind the log; try again later");
        aggregator_hurry_all(options->aggregator);
        (void)bell_wait(&seat->bell, LOOK_AGAIN_MS);
        aggregator_mark(options->aggregator, &mark);
    }
}

static enum err catch_up_with_hot(struct desk_seat *seat, const uint64_t until[LIMIT_CELLS],
                                  struct error *error)
{
    uint64_t own[LIMIT_CELLS];
    memcpy(own, seat->sequences, sizeof(own));
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (until[cell] > seat->sequences[cell])
            seat->sequences[cell] = until[cell];
    enum err err = seat_catch_up(seat, error);
    memcpy(seat->sequences, own, sizeof(own));
    return err;
}

static enum err recount_now(struct desk_seat *seat, struct slice id,
                            const struct desk_subject *subject, struct desk_recount *ret,
                            struct error *error)
{
    enum err err = recount_by_log(seat, id, subject, ret, error);
    return err == ERR_OUT_OF_RANGE ? recount_by_store(seat, subject, ret, error) : err;
}

/* What is spread, or cannot be looked at in the hot layer, is proved by the store's row. Of
 * something new there is one when the store has what the log has now. */
static enum err recount_when_stored(struct desk_seat *seat, struct slice id,
                                    const struct desk_subject *subject, const struct needed *needed,
                                    struct desk_recount *ret, struct error *error)
{
    enum err err = recount_now(seat, id, subject, ret, error);
    if (err != ERR_NOT_FOUND)
        return err;
    err = needed->has_hot ? catch_up_with_hot(seat, needed->until, error)
                          : catch_up_with_log(seat, error);
    return err ? err : recount_now(seat, id, subject, ret, error);
}

/* A difference is looked at once more before it is believed. */
enum err recount_lanes(struct desk_seat *seat, struct slice id, struct desk_recount *ret,
                       struct error *error)
{
    assert(seat && ret);

    struct desk_subject subject = seat_subject(seat, id);
    struct desk_recount found;
    struct error cause = {.text = ""};
    struct needed needed = {.has_hot = false};
    enum err err = bring_in(seat, &subject, &needed, &cause);
    if (!err)
        err = recount_when_stored(seat, id, &subject, &needed, &found, &cause);
    if (!err && !found.agrees && !found.by_store) {
        found_done(&found);
        err = recount_now(seat, id, &subject, &found, &cause);
    }
    if (err)
        return error_set(error, err, "%s", cause.text);
    *ret = found;
    return ERR_OK;
}
