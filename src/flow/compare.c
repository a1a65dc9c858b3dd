#include "flow/compare.h"

#include <assert.h>

#include "flow/aggregator.h"
#include "flow/proof_own.h"

#define LOOKS_MAX       20u
#define STORE_WITHIN_NS 10000000000ull
#define STORE_LOOK_MS   20u

/* --- one look at each place --- */

static enum err look_at_hot(struct desk_seat *seat, struct slice target, uint8_t kind,
                            struct hot_inspection *ret, struct error *error)
{
    *ret = (struct hot_inspection){.value = number_of(0)};
    enum err err = desk_inspect(seat, target, ret, error);
    if (err)
        return err;
    if (ret->is_item == (kind != KIND_NONE))
        return ERR_OK;
    number_done(&ret->value);
    return ret->is_item
               ? error_set(error, ERR_WRONG_TYPE, "an item: ask for one of its counts, item/kind")
               : error_set(error, ERR_NOT_FOUND, "there is no such item");
}

/* Of origins that have no part in it the hot layer says "all". */
static bool has_all(const struct state_mark *mark, const uint64_t *sequences)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (sequences[i] != UINT64_MAX && mark->sequences[i] < sequences[i])
            return false;
    return true;
}

/* As soon as the store has these events. No row is a value of zero. */
static enum err look_at_store(struct desk_seat *seat, struct slice target, uint8_t kind,
                              const uint64_t *sequences, struct comparison *to, struct error *error)
{
    struct desk *desk = seat->desk;
    struct store_reader *reader;
    enum err err = seat_reader(seat, &reader, error);
    uint64_t until_ns = env_monotonic_ns(desk->options.env) + STORE_WITHIN_NS;
    while (!err) {
        struct state_mark mark = {0};
        number_done(&to->store);
        to->store = number_of(0);
        to->members = 0;
        err = store_inspect(reader, target, kinds_name(desk->kinds, kind), &to->store, &to->members,
                            &mark, error);
        if (err == ERR_NOT_FOUND)
            err = ERR_OK;
        if (err || has_all(&mark, sequences))
            return err;
        if (seat_must_stop(seat) || env_monotonic_ns(desk->options.env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE,
                             "the store is too far behind; try again later");
        aggregator_hurry_all(desk->options.aggregator);
        (void)bell_wait(&seat->bell, STORE_LOOK_MS);
    }
    return err;
}

/* --- both --- */

static struct number count_of(struct hot_inspection *seen, uint8_t kind)
{
    return kind == KIND_NONE ? seen->value : number_of(seen->counts[kind - 1]);
}

void comparison_done(struct comparison *comparison)
{
    number_done(&comparison->hot);
    number_done(&comparison->store);
}

/* True if nothing has come in between: what the store said is of the same events. */
static enum err look_once(struct desk_seat *seat, struct slice target, uint8_t kind,
                          struct comparison *ret, bool *ret_stood_still, struct error *error)
{
    struct hot_inspection before;
    struct hot_inspection after;
    *ret_stood_still = false;
    enum err err = look_at_hot(seat, target, kind, &before, error);
    if (err)
        return err;
    *ret = (struct comparison){.record = before.record, .hot = count_of(&before, kind)};
    err = look_at_store(seat, target, kind, before.sequences, ret, error);
    if (!err)
        err = look_at_hot(seat, target, kind, &after, error);
    if (err)
        return err;
    struct number now = count_of(&after, kind);
    *ret_stood_still = number_compare(&now, &ret->hot) == 0;
    number_done(&now);
    return ERR_OK;
}

enum err compare_count(struct desk_seat *seat, struct slice target, uint8_t kind,
                       struct comparison *ret, struct error *error)
{
    assert(seat && ret);

    struct proof proof = {.seat = seat};
    bool waits = false;
    for (unsigned i = 0; i < LOOKS_MAX; i++) {
        bool stood_still;
        struct comparison found = {0};
        enum err err = look_once(seat, target, kind, &found, &stood_still, error);
        if (!err && stood_still)
            err = proof_has_waiting(&proof, target, &waits, error);
        if (!err && stood_still && !waits) {
            *ret = found;
            return ERR_OK;
        }
        comparison_done(&found);
        if (err)
            return err;
        if (waits)
            return error_set(error, ERR_BUSY, "the store has refused changes of it, which wait");
    }
    return error_set(error, ERR_BUSY, "it is being written to all the time; try again");
}

/* --- many --- */

static void differ(struct proof *proof, const struct sight *sight, struct number by)
{
    if (number_compare(&by, &(struct number){0}) != 0)
        sight_deal_with(proof, sight, &by);
    number_done(&by);
}

/* The members are what counts; where there are none, the store is, which has every event once. */
static void judge(struct proof *proof, struct slice id, uint8_t kind,
                  const struct comparison *found)
{
    struct sight sight = {.id = id, .kind = kind, .record = found->record};
    struct number right =
        kind == KIND_NONE ? number_copy(&found->store) : number_of(found->members);
    struct number by = number_copy(&right);
    number_subtract(&by, &found->store);
    sight.place = PLACE_STORE;
    sight.value = found->store;
    differ(proof, &sight, by);
    by = number_copy(&right);
    number_subtract(&by, &found->hot);
    sight.place = PLACE_HOT;
    sight.value = found->hot;
    differ(proof, &sight, by);
    number_done(&right);
}

/* What has gone meanwhile, or never stands still, is left for another time. */
static enum err check_count(struct proof *proof, struct slice id, uint8_t kind, struct error *error)
{
    struct comparison found = {0};
    struct error cause = {.text = ""};
    enum err err = compare_count(proof->seat, id, kind, &found, &cause);
    if (err == ERR_NOT_FOUND || err == ERR_BUSY || err == ERR_WRONG_TYPE)
        return ERR_OK;
    if (err)
        return error_set(error, err, "%s", cause.text);
    judge(proof, id, kind, &found);
    comparison_done(&found);
    return ERR_OK;
}

static enum err check_id(struct proof *proof, struct slice id, struct error *error)
{
    struct hot_inspection seen = {.value = number_of(0)};
    enum err err = desk_inspect(proof->seat, id, &seen, error);
    number_done(&seen.value);
    if (err)
        return err == ERR_NOT_FOUND || err == ERR_BUSY ? ERR_OK : err;
    if (!seen.is_item)
        return check_count(proof, id, KIND_NONE, error);
    for (uint8_t kind = 1; !err && kind <= proof->seat->desk->kinds->count; kind++)
        err = check_count(proof, id, kind, error);
    return err;
}

enum err compare_check(struct proof *proof, const struct proof_ids *ids, struct error *error)
{
    assert(proof && ids);

    size_t at = 0;
    for (size_t i = 0; i < ids->count; i++) {
        enum err err = check_id(proof, proof_ids_next(ids, &at), error);
        if (!err && seat_must_stop(proof->seat))
            err = error_set(error, ERR_UNAVAILABLE, "the server is stopping");
        if (err)
            return err;
    }
    proof->looked_at += ids->count;
    struct desk *desk = proof->seat->desk;
    desk_count(desk, &desk->audited, ids->count);
    return ERR_OK;
}
