/* proof_look.c - what stands where, and of what events it is the sum. */
#include "flow/proof_own.h"

#include <stdlib.h>

#include "base/memory.h"

void sights_init(struct sights *sights, struct desk_seat *seat)
{
    *sights =
        (struct sights){.sums = sums_new(seat->desk->kinds, env_random(seat->desk->options.env))};
}

void sights_done(struct sights *sights)
{
    for (size_t i = 0; i < sights->count; i++)
        number_done(&sights->list[i].value);
    for (size_t i = 0; i < sights->vector_count; i++)
        free(sights->vectors[i]);
    free(sights->list);
    free(sights->vectors);
    sums_free(sights->sums);
}

/* A copy of the sequences; marks of the store are often the same as the last. */
static const uint64_t *keep_vector(struct sights *sights, const uint64_t *sequences)
{
    if (sights->vector_count > 0) {
        uint64_t(*last)[LIMIT_CELLS] = sights->vectors[sights->vector_count - 1];
        if (memcmp(*last, sequences, sizeof(*last)) == 0)
            return *last;
    }
    if (sights->vector_count == sights->vector_room) {
        sights->vector_room = sights->vector_room ? sights->vector_room * 2 : 64;
        sights->vectors =
            memory_resize(sights->vectors, sights->vector_room * sizeof(*sights->vectors));
    }
    uint64_t(*vector)[LIMIT_CELLS] = memory_take(sizeof(*vector));
    memcpy(*vector, sequences, sizeof(*vector));
    sights->vectors[sights->vector_count++] = vector;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (sequences[i] > sights->until[i] && sequences[i] != UINT64_MAX)
            sights->until[i] = sequences[i];
    return *vector;
}

static struct sums_entry *watch(struct sights *sights, struct slice id, const uint64_t *sequences)
{
    return sums_watch(sights->sums, id, keep_vector(sights, sequences), NULL);
}

/* Takes the value over. */
static void add_sight(struct sights *sights, const struct sight *sight)
{
    if (sights->count == sights->room) {
        sights->room = sights->room ? sights->room * 2 : 256;
        sights->list = memory_resize(sights->list, sights->room * sizeof(*sights->list));
    }
    sights->list[sights->count++] = *sight;
}

/* What is spread over cells of a layer outside was not looked at in one moment. */
static bool is_of_one_moment(const struct hot_inspection *seen)
{
    unsigned cells = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        cells += seen->sequences[i] != UINT64_MAX;
    return cells == 1;
}

bool sight_is_still(const struct proof *proof, const struct sight *sight)
{
    const struct desk *desk = proof->seat->desk;
    bool is_hot = sight->place == PLACE_HOT || sight->place == PLACE_HOT_MEMBERS;
    if (!is_hot || !desk_has_lanes(desk))
        return true;
    struct hot_inspection seen = {.value = number_of(0)};
    if (hot_inspect(desk->hot, sight->id, &seen))
        return false;
    number_done(&seen.value);
    return is_of_one_moment(&seen) && seen.record.incarnation == sight->record.incarnation &&
           seen.record.stamp == sight->record.stamp;
}

/* True if it is in memory. */
static bool look_at_hot(const struct proof *proof, struct sights *sights, struct slice id,
                        struct hot_record *ret_record)
{
    struct desk *desk = proof->seat->desk;
    struct hot_inspection seen = {.value = number_of(0)};
    if (hot_inspect(desk->hot, id, &seen))
        return false;
    *ret_record = seen.record;
    if (desk_has_lanes(desk) && !is_of_one_moment(&seen)) {
        number_done(&seen.value);
        return true; /* compare_settle() has it */
    }
    struct sums_entry *sum = watch(sights, id, seen.sequences);
    struct sight sight = {
        .id = id, .place = PLACE_HOT, .value = seen.value, .record = seen.record, .sum = sum};
    if (!seen.is_item) {
        add_sight(sights, &sight);
        return true;
    }
    for (sight.kind = 1; sight.kind <= desk->kinds->count; sight.kind++) {
        sight.place = PLACE_HOT;
        sight.value = number_of(seen.counts[sight.kind - 1]);
        add_sight(sights, &sight);
        sight.place = PLACE_HOT_MEMBERS;
        sight.value = number_of(seen.members[sight.kind - 1]);
        if (seen.complete && !proof->values_only)
            add_sight(sights, &sight);
    }
    return true;
}

struct row {
    bool is_there;
    bool is_item;
    bool is_wrong;
    uint32_t incarnation;
};

static enum err look_at_row(const struct proof *proof, struct sights *sights, struct slice id,
                            uint8_t kind, const struct row *row, struct error *error)
{
    struct store_reader *reader;
    enum err err = seat_reader(proof->seat, &reader, error);
    if (err)
        return err;
    struct number value = number_of(0);
    int64_t members = 0;
    struct state_mark mark;
    err = store_inspect(reader, id, kinds_name(proof->seat->desk->kinds, kind), &value, &members,
                        &mark, error);
    if (err)
        return err;
    struct sums_entry *sum = watch(sights, id, mark.sequences);
    struct sight sight = {.id = id,
                          .kind = kind,
                          .place = PLACE_STORE,
                          .value = value,
                          .record.incarnation = row->incarnation,
                          .is_wrong = row->is_wrong,
                          .sum = sum};
    add_sight(sights, &sight);
    sight.place = PLACE_STORE_MEMBERS;
    sight.is_wrong = false;
    sight.value = number_of(members);
    if (kind != KIND_NONE && !proof->values_only)
        add_sight(sights, &sight);
    return ERR_OK;
}

static void note_row(void *arg, const struct state_target *target)
{
    *(struct row *)arg =
        (struct row){!target->absent, target->is_item, target->is_wrong, target->incarnation};
}

static enum err find_row(const struct proof *proof, struct slice id, struct row *ret_row,
                         struct error *error)
{
    struct store_reader *reader;
    *ret_row = (struct row){.is_there = false};
    enum err err = seat_reader(proof->seat, &reader, error);
    if (!err)
        err = store_load(reader, id, note_row, ret_row, error);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err proof_is_wrong(const struct proof *proof, struct slice id, bool *ret_is_wrong,
                        struct error *error)
{
    struct row row;
    enum err err = find_row(proof, id, &row, error);
    *ret_is_wrong = row.is_wrong;
    return err;
}

enum err proof_has_row(const struct proof *proof, struct slice id, bool *ret_has,
                       struct error *error)
{
    struct row row;
    struct error cause = {.text = ""};
    enum err err = find_row(proof, id, &row, &cause);
    *ret_has = row.is_there || err == ERR_CORRUPT; /* what makes no sense is there */
    return err && err != ERR_CORRUPT ? error_set(error, err, "%s", cause.text) : ERR_OK;
}

/* There is no row; the log knows whether there ought to be one. */
static enum err look_at_gap(const struct proof *proof, struct sights *sights, struct slice id,
                            struct hot_record record, struct error *error)
{
    struct store_reader *reader;
    struct number value = number_of(0);
    int64_t members;
    struct state_mark mark;
    enum err err = seat_reader(proof->seat, &reader, error);
    if (!err)
        err = store_inspect(reader, id, SLICE(""), &value, &members, &mark, error);
    number_done(&value);
    if (err != ERR_NOT_FOUND)
        return err; /* it has come since */
    struct sums_entry *sum = watch(sights, id, mark.sequences);
    struct sight sight = {
        .id = id, .place = PLACE_STORE, .record = record, .sum = sum, .is_missing = true};
    add_sight(sights, &sight);
    return ERR_OK;
}

/* The incarnation was read before the values: if it is still the same when they are mended,
 * they are of this one. `record` is that in memory, if there is one. */
static enum err look_at_store(const struct proof *proof, struct sights *sights, struct slice id,
                              struct hot_record record, struct error *error)
{
    struct row row;
    enum err err = find_row(proof, id, &row, error);
    if (err)
        return err;
    if (!row.is_there)
        return proof->values_only ? ERR_OK : look_at_gap(proof, sights, id, record, error);
    if (!row.is_item)
        err = look_at_row(proof, sights, id, KIND_NONE, &row, error);
    for (uint8_t kind = 1; !err && row.is_item && kind <= proof->seat->desk->kinds->count; kind++)
        err = look_at_row(proof, sights, id, kind, &row, error);
    return err;
}

/* --- units that wait in the store explain what it lacks --- */

static void note_life(void *arg, const struct store_life *life)
{
    (void)life;
    *(bool *)arg = true;
}

enum err proof_has_waiting(const struct proof *proof, struct slice id, bool *ret_has,
                           struct error *error)
{
    static const enum lifecycle_state states[] = {LIFECYCLE_PENDING, LIFECYCLE_RETRYING,
                                                  LIFECYCLE_FAILED};
    struct store_reader *reader;
    enum err err = seat_reader(proof->seat, &reader, error);
    *ret_has = false;
    for (unsigned i = 0; !err && !*ret_has && i < 3; i++) {
        struct store_life_filter filter = {.has_state = true, .state = states[i], .id = id};
        uint64_t cursor = 0;
        err = store_lives(reader, &filter, &cursor, 1, note_life, ret_has, error);
    }
    return err;
}

enum err sights_look(const struct proof *proof, struct sights *sights, struct slice id,
                     struct error *error)
{
    struct hot_record record = {0};
    bool is_hot = look_at_hot(proof, sights, id, &record);
    if (is_hot && proof->values_only)
        return ERR_OK;
    enum err err = look_at_store(proof, sights, id, record, error);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* A unit may be applied before the log is read, and its absence is a drift to whoever asks only
 * then. One that is refused between the two questions waits for a second at least. */
enum err sights_look_carefully(const struct proof *proof, struct sights *sights, struct slice id,
                               struct error *error)
{
    bool before = false;
    bool after = false;
    size_t first = sights->count;
    enum err err = proof_has_waiting(proof, id, &before, error);
    if (!err)
        err = sights_look(proof, sights, id, error);
    if (!err)
        err = proof_has_waiting(proof, id, &after, error);
    for (size_t i = first; i < sights->count; i++)
        sights->list[i].waits = before || after;
    return err;
}
