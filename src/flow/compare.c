#include "flow/compare.h"

#include <assert.h>
#include <stdio.h>

#include "base/message.h"
#include "flow/aggregator.h"

#define STORE_WITHIN_NS 10000000000ull
#define STORE_LOOK_MS   20u

/* --- the hot layer --- */

/* Whoever cannot be asked has nothing. What is cold stays so. */
static bool look_at_hot(const struct desk *desk, struct slice id, struct hot_inspection *ret)
{
    *ret = (struct hot_inspection){.value = number_of(0)};
    return desk->options.has_hot && hot_inspect(desk->hot, id, ret) == ERR_OK;
}

static bool is_same(const struct hot_inspection *a, const struct hot_inspection *b)
{
    return a->record.incarnation == b->record.incarnation && a->record.stamp == b->record.stamp &&
           a->writes == b->writes;
}

/* Was nothing written to it since? */
static bool stood_still(const struct desk *desk, struct slice id, const struct places *places)
{
    struct hot_inspection now;
    bool is_hot = look_at_hot(desk, id, &now);
    number_done(&now.value);
    return is_hot == places->is_hot && (!is_hot || is_same(&now, &places->hot));
}

/* --- the store --- */

/* Of origins that have no part in it the hot layer says "all". */
static bool has_all(const struct state_mark *mark, const uint64_t *sequences)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (sequences[i] != UINT64_MAX && mark->sequences[i] < sequences[i])
            return false;
    return true;
}

/* One count, as soon as the store has what the hot layer had. */
static enum err look_at_count(struct desk_seat *seat, struct slice id, uint8_t kind,
                              const struct places *places, struct number *ret_value,
                              int64_t *ret_members, struct error *error)
{
    struct desk *desk = seat->desk;
    struct store_reader *reader;
    enum err err = seat_reader(seat, &reader, error);
    uint64_t until_ns = env_monotonic_ns(desk->options.env) + STORE_WITHIN_NS;
    while (!err) {
        struct state_mark mark = {0};
        struct number value = number_of(0);
        err = store_inspect(reader, id, kinds_name(desk->kinds, kind), &value, ret_members, &mark,
                            error);
        bool is_late = places->is_hot && !has_all(&mark, places->hot.sequences);
        if ((!err || err == ERR_NOT_FOUND) && !is_late) {
            *ret_value = value;
            return err;
        }
        number_done(&value);
        if (err && err != ERR_NOT_FOUND)
            return err;
        if (seat_must_stop(seat) || env_monotonic_ns(desk->options.env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE,
                             "the store is too far behind; try again later");
        aggregator_hurry_all(desk->options.aggregator);
        (void)bell_wait(&seat->bell, STORE_LOOK_MS);
        err = ERR_OK;
    }
    return err;
}

static void note_row(void *arg, const struct state_target *target)
{
    struct places *places = arg;
    places->has_row = !target->absent;
    places->is_wrong = target->is_wrong;
    places->incarnation = target->incarnation;
    if (!places->is_hot)
        places->is_item = target->is_item;
}

static enum err find_row(struct desk_seat *seat, struct slice id, struct places *places,
                         struct error *error)
{
    struct store_reader *reader;
    enum err err = seat_reader(seat, &reader, error);
    places->has_row = places->is_wrong = false;
    if (!err)
        err = store_load(reader, id, note_row, places, error);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err look_at_item(struct desk_seat *seat, struct slice id, struct places *places,
                             struct error *error)
{
    enum err err = ERR_OK;
    for (uint8_t kind = 1; !err && kind <= seat->desk->kinds->count; kind++) {
        struct number count;
        err = look_at_count(seat, id, kind, places, &count, &places->members[kind - 1], error);
        if (!err)
            places->counts[kind - 1] = count.small;
    }
    return err;
}

/* The incarnation is asked for behind the values: what the hot layer had is there by then. */
static enum err look_at_store(struct desk_seat *seat, struct slice id, struct places *places,
                              struct error *error)
{
    int64_t members;
    enum err err = places->is_item ? look_at_item(seat, id, places, error)
                                   : look_at_count(seat, id, KIND_NONE, places, &places->value,
                                                   &members, error);
    if (err == ERR_NOT_FOUND)
        err = ERR_OK;
    return err ? err : find_row(seat, id, places, error);
}

/* --- both --- */

void places_done(struct places *places)
{
    number_done(&places->hot.value);
    number_done(&places->value);
}

static enum err look_once(struct desk_seat *seat, struct slice id, struct places *places,
                          bool *ret_stood_still, struct error *error)
{
    *places = (struct places){.value = number_of(0)};
    places->is_hot = look_at_hot(seat->desk, id, &places->hot);
    places->is_item = places->hot.is_item;
    enum err err = places->is_hot ? ERR_OK : find_row(seat, id, places, error);
    if (!err && !places->is_hot && !places->has_row)
        return error_set(error, ERR_NOT_FOUND, "there is no such counter or item");
    if (!err)
        err = look_at_store(seat, id, places, error);
    *ret_stood_still = !err && stood_still(seat->desk, id, places);
    return err;
}

enum err places_look(struct desk_seat *seat, struct slice id, unsigned looks, struct places *ret,
                     struct error *error)
{
    assert(seat && ret);

    struct proof proof = {.seat = seat};
    for (unsigned i = 0; i < looks; i++) {
        bool is_still = false;
        bool waits = false;
        enum err err = look_once(seat, id, ret, &is_still, error);
        if (is_still)
            err = proof_has_waiting(&proof, id, &waits, error);
        if (!err && is_still && !waits)
            return ERR_OK;
        places_done(ret);
        if (err)
            return err;
        if (waits)
            return error_set(error, ERR_BUSY, "the store has refused changes of it, which wait");
    }
    return error_set(error, ERR_BUSY, "it is being written to all the time; try again");
}

/* --- many --- */

static bool agree(const struct desk *desk, const struct places *places)
{
    bool is_hot = places->is_hot;
    if (!places->has_row || places->is_wrong)
        return false;
    if (!places->is_item)
        return !is_hot || number_compare(&places->hot.value, &places->value) == 0;
    for (unsigned i = 0; i < desk->kinds->count; i++)
        if (places->counts[i] != places->members[i] ||
            (is_hot && places->hot.counts[i] != places->counts[i]) ||
            (is_hot && places->hot.complete && places->hot.members[i] != places->members[i]))
            return false;
    return true;
}

static bool is_left_for_later(enum err err)
{
    return err == ERR_NOT_FOUND || err == ERR_BUSY;
}

enum err compare_find(struct proof *proof, const struct proof_ids *ids, compare_fn *differs,
                      void *arg, struct error *error)
{
    assert(proof && ids && differs);

    size_t at = 0;
    for (size_t i = 0; i < ids->count; i++) {
        struct slice id = proof_ids_next(ids, &at);
        struct places places;
        struct error cause = {.text = ""};
        enum err err = places_look(proof->seat, id, LOOKS_FEW, &places, &cause);
        if (!err && !agree(proof->seat->desk, &places))
            differs(arg, id);
        if (!err)
            places_done(&places);
        if (seat_must_stop(proof->seat))
            return error_set(error, ERR_UNAVAILABLE, "the server is stopping");
        if (err && !is_left_for_later(err))
            return error_set(error, err, "%s", cause.text);
    }
    return ERR_OK;
}

/* --- what differs --- */

static void judge(struct proof *proof, struct sight sight, const struct number *right)
{
    struct number by = number_copy(right);
    number_subtract(&by, &sight.value);
    if (number_compare(&by, &(struct number){0}) != 0)
        (void)sight_deal_with(proof, &sight, &by);
    number_done(&by);
}

/* All of it is right but its sum, or that was said: it gets a sum that fits. */
static void sum_anew(struct proof *proof, struct slice id, const struct places *places)
{
    struct sight row = {.id = id, .place = PLACE_STORE, .record.incarnation = places->incarnation};
    if (proof->repair)
        sight_sum_anew(proof, &row, false);
}

/* What memory has was right when it was loaded, or made there, and goes on in its own life: units
 * of that would be late to a row that is right and says something else. */
static bool settle_life(struct proof *proof, struct slice id, struct places *places)
{
    struct sight row = {.id = id, .place = PLACE_STORE, .record.incarnation = places->incarnation};
    uint32_t life = places->hot.record.incarnation;
    if (!places->is_wrong || !places->is_hot || places->incarnation == life || !proof->repair)
        return true;
    if (!sight_life_anew(proof, &row, life))
        return false;
    places->incarnation = life;
    return true;
}

static void settle_wrong_counter(struct proof *proof, struct slice id, const struct places *places)
{
    struct sight row = {.id = id,
                        .place = PLACE_STORE,
                        .record.incarnation = places->incarnation,
                        .value = places->value};
    char line[256];
    char name[128];
    if (places->is_hot && number_compare(&places->value, &places->hot.value) == 0) {
        sum_anew(proof, id, places);
    } else if (places->is_hot) {
        judge(proof, row, &places->hot.value); /* and its sum with it */
    } else {
        (void)snprintf(line, sizeof(line), "id=%s place=\"store\" is=damaged ought=unknown",
                       message_quote(name, sizeof(name), id));
        proof_tell(proof,
                   "a row of the store is not what was written there, and the log does not go back "
                   "far enough to prove it",
                   id, line);
    }
}

static void settle_counter(struct proof *proof, struct slice id, const struct places *places,
                           bool store_is_right)
{
    if (places->is_wrong && !store_is_right)
        settle_wrong_counter(proof, id, places);
    else if (places->is_hot)
        judge(proof,
              (struct sight){.id = id,
                             .place = PLACE_HOT,
                             .record = places->hot.record,
                             .value = places->hot.value},
              &places->value);
}

static void settle_kind(struct proof *proof, struct slice id, uint8_t kind,
                        const struct places *places, bool store_is_right)
{
    unsigned i = kind - 1u;
    struct number right = number_of(store_is_right ? places->counts[i] : places->members[i]);
    struct sight sight = {.id = id,
                          .kind = kind,
                          .place = PLACE_STORE,
                          .record.incarnation = places->incarnation,
                          .value = number_of(places->counts[i])};
    judge(proof, sight, &right);
    if (!places->is_hot)
        return;
    sight.place = PLACE_HOT;
    sight.record = places->hot.record;
    sight.value = number_of(places->hot.counts[i]);
    judge(proof, sight, &right);
    sight.place = PLACE_HOT_MEMBERS;
    sight.value = number_of(places->hot.members[i]);
    if (places->hot.complete)
        judge(proof, sight, &right);
}

enum err compare_settle(struct proof *proof, struct slice id, bool store_is_right,
                        struct error *error)
{
    assert(proof);

    struct places places;
    struct error cause = {.text = ""};
    enum err err = places_look(proof->seat, id, LOOKS_MANY, &places, &cause);
    if (err)
        return is_left_for_later(err) ? ERR_OK : error_set(error, err, "%s", cause.text);
    if (places.has_row && !settle_life(proof, id, &places)) {
        places_done(&places);
        return ERR_OK;
    }
    /* A row that is missing is a matter for the log. */
    if (places.has_row && !places.is_item)
        settle_counter(proof, id, &places, store_is_right);
    for (uint8_t kind = 1;
         places.has_row && places.is_item && kind <= proof->seat->desk->kinds->count; kind++)
        settle_kind(proof, id, kind, &places, store_is_right);
    if (places.has_row && places.is_item && places.is_wrong && !store_is_right)
        sum_anew(proof, id, &places);
    places_done(&places);
    return ERR_OK;
}
