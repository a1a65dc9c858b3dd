/* proof.c - ids, and the check of them: look, read the log, compare, and look again at what
 * differs. */
#include "flow/proof_own.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/message.h"
#include "flow/compare.h"

#define MENDING_WITHIN_NS (60u * 1000000000ull)
#define MENDING_LOOK_MS   50u

#define IDS_BYTES ((size_t)PROOF_PASS_IDS * (LIMIT_ID_BYTES + 2) * 2)

/* --- ids --- */

void proof_ids_init(struct proof_ids *ids)
{
    buffer_init(&ids->bytes, IDS_BYTES);
    ids->count = 0;
}

void proof_ids_done(struct proof_ids *ids)
{
    buffer_done(&ids->bytes);
}

void proof_ids_clear(struct proof_ids *ids)
{
    ids->bytes.size = 0;
    ids->count = 0;
}

void proof_ids_add(struct proof_ids *ids, struct slice id)
{
    char size[2] = {(char)(id.size & 0xff), (char)(id.size >> 8)};
    if (buffer_reserve(&ids->bytes, id.size + sizeof(size)))
        return; /* the next round finds it */
    (void)buffer_append(&ids->bytes, size, sizeof(size));
    (void)buffer_append_slice(&ids->bytes, id);
    ids->count++;
}

struct slice proof_ids_next(const struct proof_ids *ids, size_t *at)
{
    const unsigned char *size = (const unsigned char *)ids->bytes.data + *at;
    struct slice id = {ids->bytes.data + *at + 2, size[0] | (size_t)size[1] << 8};
    *at += 2 + id.size;
    return id;
}

/* --- comparing --- */

/* True: it is right now. */
typedef bool sight_fn(struct proof *proof, const struct sight *sight, const struct number *by,
                      void *arg);

static bool is_of_store(const struct sight *sight)
{
    return sight->place == PLACE_STORE || sight->place == PLACE_STORE_MEMBERS;
}

enum err sight_judge(const struct proof *proof, const struct sight *sight, struct number *ret_by,
                     bool *ret_differs, struct error *error)
{
    bool is_explained = sight->waits;
    bool is_short = false;
    *ret_by = number_of(0);
    *ret_differs = false;
    enum err err = sight_difference(proof, sight, ret_by, &is_short, error);
    /* With a deletion that waits, too, nobody knows which discarded letters were before it. */
    bool may_lack = is_of_store(sight) || sight->sum->begins;
    if (is_short && may_lack && !is_explained)
        err = proof_has_waiting(proof, sight->id, &is_explained, error);
    if (!err)
        *ret_differs = is_short && !(may_lack && is_explained) && sight_is_still(proof, sight);
    return err;
}

/* A row that was changed may speak of another life than the log does: whoever loaded it would go on
 * in that one, and all before would count no more. Units that wait may be of a new one. */
static bool is_of_another_life(const struct sight *sight)
{
    return sight->is_wrong && !sight->is_missing && !sight->waits && sight->sum->events > 0 &&
           sight->sum->incarnation != sight->record.incarnation;
}

/* They get that of the log, if that is whole: of what was trimmed nobody knows whether it ended the
 * life that we see. */
static enum err settle_lives(struct proof *proof, struct sights *sights, struct error *error)
{
    struct log_position from = {0};
    enum err err = proof_log_begin(proof, &from, error);
    const struct sight *last = NULL; /* of the row that was settled last */
    for (size_t i = 0; !err && from.segment <= 1 && from.offset == 0 && i < sights->count; i++) {
        struct sight *sight = &sights->list[i];
        if (!is_of_another_life(sight))
            continue;
        bool is_same = last && last->id.data == sight->id.data &&
                       last->record.incarnation == sight->sum->incarnation;
        sight->has_new_life = is_same || sight_life_anew(proof, sight, sight->sum->incarnation);
        if (!sight->has_new_life)
            continue;
        sight->record.incarnation = sight->sum->incarnation;
        last = sight;
    }
    return err;
}

static enum err judge(struct proof *proof, struct sight *sight, sight_fn *differs, void *arg,
                      struct error *error)
{
    struct number by;
    bool is_wrong;
    struct error cause = {.text = ""};
    enum err err = sight_judge(proof, sight, &by, &is_wrong, &cause);
    /* Of one that cannot be proved that is told, and the others go on. */
    sight->is_of_another_life = !err && is_of_another_life(sight);
    sight->is_unproved = err == ERR_CORRUPT || sight->is_of_another_life;
    if (sight->is_unproved) {
        is_wrong = true;
        err = ERR_OK;
    } else if (err) {
        err = error_set(error, err, "%s", cause.text);
    }
    /* What units that wait will add is not mended: it would be in the row twice. */
    bool is_zero = !err && number_compare(&by, &(struct number){0}) == 0;
    if (!err && (is_wrong || (sight->is_wrong && is_zero && !sight->waits)))
        sight->is_right = differs(proof, sight, &by, arg);
    else
        sight->is_right = is_zero && !sight->waits;
    sight->is_mended = is_wrong && sight->is_right;
    number_done(&by);
    return err;
}

struct row_seen {
    bool is_right;
    bool is_mended;
    bool has_new_members;
    bool has_new_life;
};

/* What of a row is looked at stands together. */
static size_t end_of_row(const struct sights *sights, size_t from, struct row_seen *ret)
{
    size_t end = from;
    *ret = (struct row_seen){.is_right = true};
    for (; end < sights->count && is_of_store(&sights->list[end]) &&
           sights->list[end].id.data == sights->list[from].id.data;
         end++) {
        const struct sight *sight = &sights->list[end];
        ret->is_right = ret->is_right && sight->is_right;
        ret->is_mended = ret->is_mended || sight->is_mended;
        ret->has_new_life = ret->has_new_life || sight->has_new_life;
        ret->has_new_members |= sight->is_mended && sight->place == PLACE_STORE_MEMBERS;
    }
    return end;
}

/* Of an item nothing that was compared says who its members are: as many others would do. */
static bool settle_members(struct proof *proof, const struct sight *sight,
                           const struct row_seen *seen)
{
    bool is_item = sight->kind != KIND_NONE;
    return !is_item || seen->has_new_members || desk_has_lanes(proof->seat->desk) ||
           sight_members_anew(proof, sight);
}

/* The sum speaks for all of a row, and is written when all that was looked at is right. That of a
 * counter was written together with its value. */
static void sum_rows_anew(struct proof *proof, const struct sights *sights)
{
    for (size_t i = 0, end; i < sights->count; i = end) {
        const struct sight *sight = &sights->list[i];
        struct row_seen seen;
        end = end_of_row(sights, i, &seen);
        if (end == i)
            end++;
        else if (sight->is_wrong && seen.is_right &&
                 !(seen.is_mended && sight->kind == KIND_NONE) &&
                 settle_members(proof, sight, &seen))
            sight_sum_anew(proof, sight, !seen.is_mended && !seen.has_new_life);
    }
}

/* One whose rows make no sense keeps nobody else from being proved. */
static enum err look_at(struct proof *proof, struct sights *sights, struct slice id, bool is_last,
                        struct error *error)
{
    struct error cause = {.text = ""};
    enum err err = is_last ? sights_look_carefully(proof, sights, id, &cause)
                           : sights_look(proof, sights, id, &cause);
    if (err != ERR_CORRUPT)
        return err ? error_set(error, err, "%s", cause.text) : ERR_OK;
    char line[320];
    char name[128];
    (void)snprintf(line, sizeof(line), "id=%s reason=\"%s\"", message_quote(name, sizeof(name), id),
                   cause.text);
    proof_tell(proof, "what the store has of a count cannot be read", id, line);
    return ERR_OK;
}

/* Looks at all ids and tells of each sight that differs, which is believed at the last look; the
 * store's first, since memory may be put right from there. */
static enum err compare(struct proof *proof, const struct proof_ids *ids, bool is_last,
                        sight_fn *differs, void *arg, struct error *error)
{
    struct aggregator *aggregator = proof->seat->desk->options.aggregator;
    aggregator_hold_trim(aggregator);
    struct sights sights;
    sights_init(&sights, proof->seat);
    enum err err = ERR_OK;
    size_t at = 0;
    for (size_t i = 0; !err && i < ids->count; i++) {
        struct slice id = proof_ids_next(ids, &at);
        err = look_at(proof, &sights, id, is_last, error);
    }
    if (!err)
        err = sights_sum(proof, &sights, error);
    if (!err && is_last && proof->repair && !proof->values_only)
        err = settle_lives(proof, &sights, error);
    for (size_t i = 0; !err && i < sights.count; i++)
        if (is_of_store(&sights.list[i]))
            err = judge(proof, &sights.list[i], differs, arg, error);
    if (!err && is_last && proof->repair && !proof->values_only)
        sum_rows_anew(proof, &sights);
    for (size_t i = 0; !err && i < sights.count; i++)
        if (!is_of_store(&sights.list[i]))
            err = judge(proof, &sights.list[i], differs, arg, error);
    sights_done(&sights);
    aggregator_release_trim(aggregator);
    return err;
}

/* --- what is looked at again --- */

/* Which ids differed at the first look, by where they stand among all. */
struct suspects {
    const struct proof_ids *all;
    bool *flags; /* owned; one for each byte of them */
};

static void suspects_init(struct suspects *suspects, const struct proof_ids *all)
{
    *suspects = (struct suspects){.all = all, .flags = memory_take_zeroed(all->bytes.size + 1)};
}

static bool *flag_of(const struct suspects *suspects, struct slice id)
{
    return &suspects->flags[id.data - suspects->all->bytes.data];
}

static void suspect_id(void *arg, struct slice id)
{
    *flag_of(arg, id) = true;
}

static bool suspect(struct proof *proof, const struct sight *sight, const struct number *by,
                    void *arg)
{
    (void)proof;
    (void)by;
    suspect_id(arg, sight->id);
    return false;
}

static void list_suspects(const struct suspects *suspects, struct proof_ids *to)
{
    size_t at = 0;
    for (size_t i = 0; i < suspects->all->count; i++) {
        struct slice id = proof_ids_next(suspects->all, &at);
        if (*flag_of(suspects, id))
            proof_ids_add(to, id);
    }
}

/* `arg`: those that were dealt with. */
static bool deal_with_suspect(struct proof *proof, const struct sight *sight,
                              const struct number *by, void *arg)
{
    suspect_id(arg, sight->id);
    return sight_deal_with(proof, sight, by);
}

/* --- one at a time --- */

struct mending_ask {
    bool begin;
    bool is_ours;
    enum err err;
    struct error *error;
};

static void ask_mending(void *arg, struct store *store)
{
    struct mending_ask *ask = arg;
    ask->err = store_mending(store, ask->begin, &ask->is_ours, ask->error);
}

enum err proof_begin_mending(struct desk_seat *seat, struct error *error)
{
    struct desk *desk = seat->desk;
    uint64_t until_ns = env_monotonic_ns(desk->options.env) + MENDING_WITHIN_NS;
    pthread_mutex_lock(&desk->mending);
    for (;;) {
        struct mending_ask ask = {.begin = true, .error = error};
        aggregator_ask(desk->options.aggregator, ask_mending, &ask);
        if (!ask.err && ask.is_ours)
            return ERR_OK;
        if (!ask.err && (seat_must_stop(seat) || env_monotonic_ns(desk->options.env) > until_ns))
            ask.err = error_set(error, ERR_BUSY, "another node puts counts right; try again later");
        if (ask.err) {
            pthread_mutex_unlock(&desk->mending);
            return ask.err;
        }
        (void)bell_wait(&seat->bell, MENDING_LOOK_MS);
    }
}

void proof_end_mending(struct desk_seat *seat)
{
    struct error error;
    struct mending_ask ask = {.begin = false, .error = &error};
    aggregator_ask(seat->desk->options.aggregator, ask_mending, &ask);
    pthread_mutex_unlock(&seat->desk->mending);
}

/* --- many lanes --- */

/* Says whether the log has its beginning, without which it proves nothing. */
static enum err ask_log(struct proof *proof, const struct proof_ids *ids, bool is_last,
                        sight_fn *differs, void *arg, bool *ret_is_proved, struct error *error)
{
    struct error cause = {.text = ""};
    enum err err = compare(proof, ids, is_last, differs, arg, &cause);
    *ret_is_proved = !err;
    return err && err != ERR_OUT_OF_RANGE ? error_set(error, err, "%s", cause.text) : ERR_OK;
}

/* Reading all lanes takes a while: in the background only what does not agree with itself is worth
 * it. Whoever asks for a proof gets it from the log, as far as that goes back. */
static enum err find_in_lanes(struct proof *proof, const struct proof_ids *ids,
                              struct suspects *suspects, struct error *error)
{
    bool is_proved;
    enum err err = ERR_OK;
    if (!proof->in_background)
        err = ask_log(proof, ids, false, suspect, suspects, &is_proved, error);
    return err ? err : compare_find(proof, ids, suspect_id, suspects, error);
}

/* The log says what is right. What it leaves open (a count that is spread, a beginning that is
 * gone) the places decide among themselves. */
static enum err settle_lanes(struct proof *proof, const struct proof_ids *ids, struct error *error)
{
    struct suspects dealt_with;
    suspects_init(&dealt_with, ids);
    bool is_proved;
    enum err err = ask_log(proof, ids, true, deal_with_suspect, &dealt_with, &is_proved, error);
    size_t at = 0;
    for (size_t i = 0; !err && i < ids->count; i++) {
        struct slice id = proof_ids_next(ids, &at);
        if (!*flag_of(&dealt_with, id))
            err = compare_settle(proof, id, is_proved, error);
    }
    free(dealt_with.flags);
    return err;
}

/* --- both --- */

static enum err find(struct proof *proof, const struct proof_ids *ids, struct suspects *suspects,
                     struct error *error)
{
    return desk_has_lanes(proof->seat->desk) ? find_in_lanes(proof, ids, suspects, error)
                                             : compare(proof, ids, false, suspect, suspects, error);
}

static enum err settle(struct proof *proof, const struct proof_ids *ids, struct error *error)
{
    enum err err = proof->repair ? proof_begin_mending(proof->seat, error) : ERR_OK;
    if (err)
        return err;
    if (desk_has_lanes(proof->seat->desk)) {
        err = settle_lanes(proof, ids, error);
    } else {
        struct suspects dealt_with;
        suspects_init(&dealt_with, ids);
        err = compare(proof, ids, true, deal_with_suspect, &dealt_with, error);
        free(dealt_with.flags);
    }
    if (proof->repair)
        proof_end_mending(proof->seat);
    return err;
}

enum err proof_check(struct proof *proof, const struct proof_ids *ids, struct error *error)
{
    assert(proof && ids);

    struct suspects suspects;
    struct proof_ids again;
    suspects_init(&suspects, ids);
    proof_ids_init(&again);
    enum err err = find(proof, ids, &suspects, error);
    list_suspects(&suspects, &again);
    if (!err && again.count > 0)
        err = settle(proof, &again, error);
    proof_ids_done(&again);
    free(suspects.flags);
    if (err)
        return err;
    proof->looked_at += ids->count;
    struct desk *desk = proof->seat->desk;
    desk_count(desk, &desk->audited, ids->count);
    return ERR_OK;
}
