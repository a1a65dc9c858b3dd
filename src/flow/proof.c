#include "flow/proof.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"
#include "base/message.h"
#include "flow/members.h"
#include "flow/rows.h"

#define PASS_IDS        50000u /* that share one reading of the log */
#define SCAN_IDS        1000u  /* that are collected at once */
#define IDS_BYTES       ((size_t)PASS_IDS * (LIMIT_ID_BYTES + 2) * 2)
#define STRAYS_EVERY_NS (3600u * 1000000000ull) /* in the background */
#define NUMBER_TEXT     (NUMBER_DIGITS_MAX + 2)

static const char *const place_names[PLACE_COUNT] = {"hot", "hot members", "store",
                                                     "store members"};

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

static struct slice next_id(const struct proof_ids *ids, size_t *at)
{
    const unsigned char *size = (const unsigned char *)ids->bytes.data + *at;
    struct slice id = {ids->bytes.data + *at + 2, size[0] | (size_t)size[1] << 8};
    *at += 2 + id.size;
    return id;
}

/* --- what stands where --- */

/* One count in one place, and the events that it is the sum of. */
struct sight {
    struct slice id; /* counter or item; of the ids */
    uint8_t kind;    /* of an item */
    enum event_place place;
    struct number value;
    struct hot_record record; /* which one it was; in the store: its incarnation */
    struct sums_entry *sum;
    bool is_missing; /* there is no row for the whole id */
    bool waits;      /* the store lacked units of the id then, which it had refused */
};

struct sights {
    struct sight *list; /* owned */
    size_t count;
    size_t room;
    uint64_t (**vectors)[LIMIT_CELLS]; /* owned: sequences that sights are sums of */
    size_t vector_count;
    size_t vector_room;
    struct sums *sums;           /* owned */
    uint64_t until[LIMIT_CELLS]; /* the largest of all */
};

static void sights_init(struct sights *sights, struct desk_seat *seat)
{
    *sights =
        (struct sights){.sums = sums_new(seat->desk->kinds, env_random(seat->desk->options.env))};
}

static void sights_done(struct sights *sights)
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
        if (sequences[i] > sights->until[i])
            sights->until[i] = sequences[i];
    return *vector;
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

/* True if it is in memory. */
static bool look_at_hot(const struct proof *proof, struct sights *sights, struct slice id,
                        struct hot_record *ret_record)
{
    struct desk *desk = proof->seat->desk;
    struct hot_inspection seen = {.value = number_of(0)};
    if (hot_inspect(desk->hot, id, &seen))
        return false;
    struct sums_entry *sum =
        sums_watch(sights->sums, id, keep_vector(sights, seen.sequences), NULL);
    struct sight sight = {
        .id = id, .place = PLACE_HOT, .value = seen.value, .record = seen.record, .sum = sum};
    *ret_record = seen.record;
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

static enum err look_at_row(const struct proof *proof, struct sights *sights, struct slice id,
                            uint8_t kind, uint32_t incarnation, struct error *error)
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
    struct sums_entry *sum =
        sums_watch(sights->sums, id, keep_vector(sights, mark.sequences), NULL);
    struct sight sight = {.id = id,
                          .kind = kind,
                          .place = PLACE_STORE,
                          .value = value,
                          .record.incarnation = incarnation,
                          .sum = sum};
    add_sight(sights, &sight);
    sight.place = PLACE_STORE_MEMBERS;
    sight.value = number_of(members);
    if (kind != KIND_NONE && !proof->values_only)
        add_sight(sights, &sight);
    return ERR_OK;
}

struct row {
    bool is_there;
    bool is_item;
    uint32_t incarnation;
};

static void note_row(void *arg, const struct state_target *target)
{
    *(struct row *)arg = (struct row){!target->absent, target->is_item, target->incarnation};
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
    struct sums_entry *sum =
        sums_watch(sights->sums, id, keep_vector(sights, mark.sequences), NULL);
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
        err = look_at_row(proof, sights, id, KIND_NONE, row.incarnation, error);
    for (uint8_t kind = 1; !err && row.is_item && kind <= proof->seat->desk->kinds->count; kind++)
        err = look_at_row(proof, sights, id, kind, row.incarnation, error);
    return err;
}

/* --- units that wait in the store explain what it lacks --- */

static void note_life(void *arg, const struct store_life *life)
{
    (void)life;
    *(bool *)arg = true;
}

static enum err has_waiting(const struct proof *proof, struct slice id, bool *ret_has,
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

/* Nothing is there any more, or not yet: nothing to look at. */
static enum err look(const struct proof *proof, struct sights *sights, struct slice id,
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
static enum err look_carefully(const struct proof *proof, struct sights *sights, struct slice id,
                               struct error *error)
{
    bool before = false;
    bool after = false;
    size_t first = sights->count;
    enum err err = has_waiting(proof, id, &before, error);
    if (!err)
        err = look(proof, sights, id, error);
    if (!err)
        err = has_waiting(proof, id, &after, error);
    for (size_t i = first; i < sights->count; i++)
        sights->list[i].waits = before || after;
    return err;
}

/* --- what the log says --- */

static enum err sum_section(void *arg, struct slice section, struct log_position next,
                            struct error *error)
{
    (void)next;
    return sums_take_section(arg, section, error);
}

static struct slice count_id(const struct desk *desk, const struct sight *sight, char *to)
{
    if (sight->kind == KIND_NONE)
        return sight->id;
    struct slice kind = kinds_name(desk->kinds, sight->kind);
    memcpy(to, sight->id.data, sight->id.size);
    to[sight->id.size] = '/';
    memcpy(to + sight->id.size + 1, kind.data, kind.size);
    return (struct slice){to, sight->id.size + 1 + kind.size};
}

/* What stands in the log no more, or was given up. The position is the same for all. */
static enum err base_of(const struct proof *proof, struct slice id, struct number *ret_base,
                        struct number *ret_discarded, struct log_position *ret_from,
                        struct error *error)
{
    struct store_reader *reader;
    *ret_base = number_of(0);
    *ret_discarded = number_of(0);
    enum err err = seat_reader(proof->seat, &reader, error);
    if (!err)
        err = store_base(reader, id, ret_base, ret_discarded, ret_from, error);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err read_log(const struct proof *proof, struct sights *sights, struct error *error)
{
    struct number base;
    struct number discarded;
    struct log_position from = {0};
    enum err err = base_of(proof, SLICE("-"), &base, &discarded, &from, error);
    number_done(&base);
    number_done(&discarded);
    if (err)
        return err;
    return seat_read_log(proof->seat, from, sights->until, sum_section, sights->sums,
                         proof->reading, proof->reading_arg, error);
}

/* Ought there to be a row? Of a log that was trimmed, the deletion may be gone while something
 * that came late is left: only a base, or the record in memory, shows that it lives. */
static bool is_gap(const struct sight *sight, const struct number *base, struct log_position from)
{
    bool has_base = !sight->sum->begins && number_compare(base, &(struct number){0}) != 0;
    bool is_whole = from.segment <= 1 && from.offset == 0;
    bool is_hot = sight->record.stamp != 0 && sight->record.incarnation == sight->sum->incarnation;
    return has_base || (sight->sum->events > 0 && (is_whole || is_hot));
}

/* By how much the sight is short of what it ought to be. */
static enum err difference(const struct proof *proof, const struct sight *sight,
                           struct number *ret_by, bool *ret_is_short, struct error *error)
{
    char name[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
    struct number base;
    struct number discarded;
    struct log_position from;
    struct state_mark mark; /* asked first: a deletion takes the discarded letters along */
    aggregator_mark(proof->seat->desk->options.aggregator, &mark);
    enum err err =
        base_of(proof, count_id(proof->seat->desk, sight, name), &base, &discarded, &from, error);
    if (!err) {
        struct number by = sight->kind == KIND_NONE
                               ? number_copy(&sight->sum->value)
                               : number_of(sight->sum->counts[sight->kind - 1]);
        if (!sight->sum->begins)
            number_add(&by, &base);
        if (!sums_begins_behind(sight->sum, mark.sequences))
            number_subtract(&by, &discarded);
        number_subtract(&by, &sight->value);
        *ret_by = by;
        *ret_is_short = sight->is_missing ? is_gap(sight, &base, from)
                                          : number_compare(&by, &(struct number){0}) != 0;
    }
    number_done(&base);
    number_done(&discarded);
    return err;
}

/* --- repair --- */

struct mend_ask {
    const struct proof *proof;
    const struct sight *sight;
    const struct number *by; /* NULL: members */
    struct slice text;
    enum err err;
    struct error *error;
};

/* Both are made of all that the log has up to the mark. Units that wait would be in it twice. */
static enum err make_anew(const struct mend_ask *ask, struct store *store)
{
    const struct sight *sight = ask->sight;
    struct desk_seat *seat = ask->proof->seat;
    bool waits = false;
    enum err err = has_waiting(ask->proof, sight->id, &waits, ask->error);
    if (err || waits)
        return err ? err : ERR_BUSY;
    bool has_members = sight->place == PLACE_STORE_MEMBERS;
    if (sight->is_missing)
        err = rows_make(seat, store, sight->id, sight->record.incarnation, ask->text, &has_members,
                        ask->error);
    if (!err && has_members)
        err = members_mend(seat, store, sight->id, ask->text, ask->error);
    return err == ERR_EXISTS ? ERR_BUSY : err;
}

static void ask_mend(void *arg, struct store *store)
{
    struct mend_ask *ask = arg;
    struct desk *desk = ask->proof->seat->desk;
    int64_t now_ms = env_wall_ms(desk->options.env);
    struct slice kind = kinds_name(desk->kinds, ask->sight->kind);
    if (ask->sight->place == PLACE_STORE && !ask->sight->is_missing)
        ask->err = store_mend(store, ask->sight->id, ask->sight->record.incarnation, kind, ask->by,
                              ask->text, now_ms, ask->error);
    else
        ask->err = make_anew(ask, store);
}

static void ignore_entry(void *arg, const struct hot_entry *entry)
{
    (void)arg;
    (void)entry;
}

/* Memory may have asked for the row while there was none, and remember that. */
static void ask_again(const struct proof *proof, struct slice id)
{
    struct hot *hot = proof->seat->desk->hot;
    if (hot_peek(hot, id, ignore_entry, NULL) == ERR_NOT_FOUND)
        (void)hot_drop(hot, id);
}

static enum err mend_store(const struct proof *proof, const struct sight *sight,
                           const struct number *by, struct slice text, struct error *error)
{
    struct mend_ask ask = {.proof = proof, .sight = sight, .by = by, .text = text, .error = error};
    aggregator_ask(proof->seat->desk->options.aggregator, ask_mend, &ask);
    if (!ask.err && sight->is_missing)
        ask_again(proof, sight->id);
    return ask.err;
}

/* Out of memory with it: the store has it right. Only what is saved can go. */
static enum err drop_hot(const struct proof *proof, struct slice id, struct error *error)
{
    enum err err = ERR_BUSY;
    for (unsigned i = 0; err == ERR_BUSY && i < 5; i++) {
        err = seat_catch_up(proof->seat, error);
        if (!err)
            err = hot_drop(proof->seat->desk->hot, id);
    }
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    return err ? error_set(error, err, "it is being written to and stays in memory") : ERR_OK;
}

static enum err mend(const struct proof *proof, const struct sight *sight, const struct number *by,
                     struct slice text, struct error *error)
{
    struct desk *desk = proof->seat->desk;
    enum err err;
    switch (sight->place) {
    case PLACE_HOT:
        err = hot_mend(desk->hot, sight->id, &sight->record, sight->kind, by);
        return err == ERR_INVALID ? drop_hot(proof, sight->id, error) : err;
    case PLACE_HOT_MEMBERS:
        return drop_hot(proof, sight->id, error);
    case PLACE_STORE:
    case PLACE_STORE_MEMBERS:
        return mend_store(proof, sight, by, text, error);
    }
    return ERR_INVALID;
}

/* The repair is an event: whoever reads the log can see that it was done, and why. */
static void write_repair(const struct proof *proof, const struct sight *sight,
                         const struct number *by)
{
    struct desk *desk = proof->seat->desk;
    struct event event = {.type = EVENT_REPAIR,
                          .id = sight->id,
                          .kind = kinds_name(desk->kinds, sight->kind),
                          .amount = *by,
                          .place = sight->place};
    enum err err = hot_note(desk->hot, &event, env_wall_ms(desk->options.env));
    if (err)
        message_warning("a repair could not be written to the log reason=\"%s\"", err_meaning(err));
}

/* --- telling --- */

struct note_ask {
    struct store_audit audit;
};

static void ask_note(void *arg, struct store *store)
{
    struct note_ask *ask = arg;
    struct error error;
    (void)store_note(store, &ask->audit, &error); /* a store that is down has told of it */
}

static void note(const struct proof *proof, struct slice id, struct slice text)
{
    struct desk *desk = proof->seat->desk;
    struct note_ask ask = {.audit = {.time_ms = env_wall_ms(desk->options.env),
                                     .what = SLICE("drift"),
                                     .id = id,
                                     .text = text}};
    aggregator_ask(desk->options.aggregator, ask_note, &ask);
}

static void describe(const struct proof *proof, const struct sight *sight, const struct number *by,
                     char *to, size_t size)
{
    struct buffer is;
    struct buffer ought;
    buffer_init(&is, NUMBER_TEXT);
    buffer_init(&ought, NUMBER_TEXT);
    struct number right = number_copy(&sight->value);
    number_add(&right, by);
    (void)number_format(&sight->value, &is);
    (void)number_format(&right, &ought);
    char name[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
    char id[160];
    message_quote(id, sizeof(id), count_id(proof->seat->desk, sight, name));
    struct slice is_text = sight->is_missing ? SLICE("missing") : buffer_slice(&is);
    bool is_item = sight->is_missing && sight->sum->is_item;
    struct slice ought_text = is_item ? SLICE("there") : buffer_slice(&ought);
    (void)snprintf(to, size, "id=%s place=\"%s\" is=%.*s ought=%.*s", id, place_names[sight->place],
                   SLICE_ARGS(is_text), SLICE_ARGS(ought_text));
    number_done(&right);
    buffer_done(&is);
    buffer_done(&ought);
}

static void tell(struct proof *proof, const struct sight *sight, const char *line)
{
    struct desk *desk = proof->seat->desk;
    message_error("a count differs from its events %s", line);
    proof->drifts++;
    lock_take(&desk->lock);
    desk->drifts++;
    lock_release(&desk->lock);
    char name[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
    note(proof, count_id(desk, sight, name), slice_of(line));
    if (proof->work)
        work_found(proof->seat, proof->work, line);
}

static void deal_with(struct proof *proof, const struct sight *sight, const struct number *by)
{
    struct desk *desk = proof->seat->desk;
    char line[320];
    describe(proof, sight, by, line, sizeof(line));
    if (!proof->is_expected)
        tell(proof, sight, line);
    if (!proof->repair)
        return;

    struct error error = {.text = ""};
    enum err err = mend(proof, sight, by, slice_of(line), &error);
    if (err == ERR_BUSY || err == ERR_NOT_FOUND) {
        message_info("the count has gone or come anew since it was looked at %s", line);
        return;
    }
    if (err) {
        message_error("the count could not be put right %s reason=\"%s\"", line,
                      error.text[0] ? error.text : err_meaning(err));
        return;
    }
    write_repair(proof, sight, by);
    if (proof->is_expected)
        return;
    proof->repairs++;
    lock_take(&desk->lock);
    desk->repairs++;
    lock_release(&desk->lock);
    message_info("the count was put right %s", line);
}

/* --- the whole --- */

typedef void sight_fn(struct proof *proof, const struct sight *sight, const struct number *by,
                      void *arg);

static bool is_of_store(const struct sight *sight)
{
    return sight->place == PLACE_STORE || sight->place == PLACE_STORE_MEMBERS;
}

static enum err judge(struct proof *proof, const struct sight *sight, sight_fn *differs, void *arg,
                      struct error *error)
{
    struct number by = number_of(0);
    bool is_explained = sight->waits;
    bool is_short = false;
    enum err err = difference(proof, sight, &by, &is_short, error);
    /* With a deletion that waits, too, nobody knows which discarded letters were before it. */
    bool may_lack = is_of_store(sight) || sight->sum->begins;
    if (is_short && may_lack && !is_explained)
        err = has_waiting(proof, sight->id, &is_explained, error);
    if (!err && is_short && !(may_lack && is_explained))
        differs(proof, sight, &by, arg);
    number_done(&by);
    return err;
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
        struct slice id = next_id(ids, &at);
        err = is_last ? look_carefully(proof, &sights, id, error) : look(proof, &sights, id, error);
    }
    if (!err)
        err = read_log(proof, &sights, error);
    for (size_t i = 0; !err && i < sights.count; i++)
        if (is_of_store(&sights.list[i]))
            err = judge(proof, &sights.list[i], differs, arg, error);
    for (size_t i = 0; !err && i < sights.count; i++)
        if (!is_of_store(&sights.list[i]))
            err = judge(proof, &sights.list[i], differs, arg, error);
    sights_done(&sights);
    aggregator_release_trim(aggregator);
    return err;
}

/* Which ids differed at the first look, by where they stand among all. */
struct suspects {
    const struct proof_ids *all;
    bool *flags; /* owned; one for each byte of them */
    size_t count;
};

static void suspect(struct proof *proof, const struct sight *sight, const struct number *by,
                    void *arg)
{
    struct suspects *suspects = arg;
    (void)proof;
    (void)by;
    bool *flag = &suspects->flags[sight->id.data - suspects->all->bytes.data];
    suspects->count += !*flag;
    *flag = true;
}

static void list_suspects(const struct suspects *suspects, struct proof_ids *to)
{
    size_t at = 0;
    for (size_t i = 0; suspects->count > 0 && i < suspects->all->count; i++) {
        struct slice id = next_id(suspects->all, &at);
        if (suspects->flags[id.data - suspects->all->bytes.data])
            proof_ids_add(to, id);
    }
}

static void deal_with_suspect(struct proof *proof, const struct sight *sight,
                              const struct number *by, void *arg)
{
    (void)arg;
    deal_with(proof, sight, by);
}

enum err proof_check(struct proof *proof, const struct proof_ids *ids, struct error *error)
{
    assert(proof && ids);

    struct suspects suspects = {.all = ids, .flags = memory_take_zeroed(ids->bytes.size + 1)};
    struct proof_ids again;
    proof_ids_init(&again);
    enum err err = compare(proof, ids, false, suspect, &suspects, error);
    list_suspects(&suspects, &again);
    if (!err && again.count > 0)
        err = compare(proof, &again, true, deal_with_suspect, NULL, error);
    proof_ids_done(&again);
    free(suspects.flags);
    if (err)
        return err;
    proof->looked_at += ids->count;
    struct desk *desk = proof->seat->desk;
    lock_take(&desk->lock);
    desk->audited += ids->count;
    lock_release(&desk->lock);
    return ERR_OK;
}

/* --- tasks --- */

static void collect(void *arg, const struct desk_entry *entry)
{
    proof_ids_add(arg, entry->id);
}

/* Ids from *cursor on, up to `count` or a little more. */
static enum err collect_ids(struct desk_seat *seat, struct slice pattern, uint64_t *cursor,
                            size_t count, struct proof_ids *ids, struct error *error)
{
    proof_ids_clear(ids);
    do {
        enum err err = desk_scan(seat, pattern, cursor, SCAN_IDS, collect, ids, error);
        if (err)
            return err;
        if (seat_must_stop(seat))
            return error_set(error, ERR_UNAVAILABLE, "the server is stopping");
    } while (*cursor != 0 && ids->count < count);
    return ERR_OK;
}

/* --- what only the log speaks of --- */

#define STRAYS_SEEN  (1u << 16) /* ids that are remembered while reading, by hash */
#define STRAYS_TAKEN (2u * 65536u)

static_assert(STRAYS_TAKEN >= 2 * PASS_IDS, "half of it stays empty");

struct strays {
    const struct proof *proof;
    struct slice pattern; /* size 0 = all */
    struct proof_ids *ids;
    struct log_position at; /* behind the last section that was looked at */
    uint64_t *seen;         /* owned; hashes of ids that were looked at, the last of each place */
    uint64_t *taken;        /* owned; hashes of those in `ids`; 0 = empty */
};

static bool is_taken(struct strays *strays, uint64_t hash)
{
    size_t place = (size_t)hash % STRAYS_TAKEN;
    while (strays->taken[place] != 0 && strays->taken[place] != hash)
        place = (place + 1) % STRAYS_TAKEN;
    bool is_there = strays->taken[place] == hash;
    strays->taken[place] = hash;
    return is_there;
}

static void note_made_here(void *arg, const struct hot_entry *entry)
{
    *(bool *)arg = !entry->was_loaded;
}

/* Not in the store, nor among those of memory that a scan has met. Most of them were deleted,
 * which the sums will tell. */
static enum err look_for_row(struct strays *strays, struct slice id, struct error *error)
{
    const struct desk *desk = strays->proof->seat->desk;
    struct row row;
    bool is_made_here = false;
    uint64_t hash = hash_stable(id) | 1;
    enum err err = find_row(strays->proof, id, &row, error);
    if (err || row.is_there || strays->ids->count >= PASS_IDS)
        return err; /* too many for one group: the next round finds the rest */
    (void)hot_peek(desk->hot, id, note_made_here, &is_made_here);
    if (!is_made_here && !is_taken(strays, hash))
        proof_ids_add(strays->ids, id);
    return ERR_OK;
}

static enum err look_at_event(struct strays *strays, const struct event *event, struct error *error)
{
    struct slice id = event->id;
    uint8_t kind;
    if (event->type == EVENT_NOTHING || event->type == EVENT_REPAIR || event->type == EVENT_DELETE)
        return ERR_OK;
    if (event->type == EVENT_CREATE)
        kinds_split(strays->proof->seat->desk->kinds, event->id, &id, &kind);
    uint64_t hash = hash_stable(id);
    uint64_t *seen = &strays->seen[hash % STRAYS_SEEN];
    if (*seen == hash)
        return ERR_OK;
    *seen = hash;
    if (strays->pattern.size > 0 && !match_glob(strays->pattern, id))
        return ERR_OK;
    return look_for_row(strays, id, error);
}

static enum err look_at_section(void *arg, struct slice section, struct log_position next,
                                struct error *error)
{
    struct strays *strays = arg;
    struct section_reader reader;
    struct event event;
    if (strays->ids->count >= PASS_IDS / 2 &&
        !(strays->at.segment == next.segment && strays->at.offset == next.offset))
        return ERR_BUSY; /* enough for now; a group is looked at as a whole */
    enum err err = section_open(&reader, section, error);
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        err = look_at_event(strays, &event, error);
        event_done(&event);
    }
    strays->at = next;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* A row that somebody removed is met by no scan, unless it is in memory. */
static enum err check_strays(struct proof *proof, struct slice pattern, struct error *error)
{
    struct proof_ids ids;
    struct number base;
    struct number discarded;
    struct strays strays = {.proof = proof, .pattern = pattern, .ids = &ids};
    strays.seen = memory_take_zeroed(STRAYS_SEEN * sizeof(*strays.seen));
    strays.taken = memory_take_zeroed(STRAYS_TAKEN * sizeof(*strays.taken));
    proof_ids_init(&ids);
    struct aggregator *aggregator = proof->seat->desk->options.aggregator;
    aggregator_hold_trim(aggregator);
    enum err err = base_of(proof, SLICE("-"), &base, &discarded, &strays.at, error);
    number_done(&base);
    number_done(&discarded);
    bool is_over = false;
    while (!err && !is_over) {
        err = seat_read_log(proof->seat, strays.at, NULL, look_at_section, &strays, proof->reading,
                            proof->reading_arg, error);
        is_over = err != ERR_BUSY;
        uint64_t looked_at = proof->looked_at;
        if ((!err || err == ERR_BUSY) && ids.count > 0)
            err = proof_check(proof, &ids, error);
        else if (err == ERR_BUSY)
            err = ERR_OK;
        proof->looked_at = looked_at; /* most of them are no more */
        proof_ids_clear(&ids);
        memset(strays.taken, 0, STRAYS_TAKEN * sizeof(*strays.taken));
    }
    aggregator_release_trim(aggregator);
    proof_ids_done(&ids);
    free(strays.seen);
    free(strays.taken);
    return err;
}

static uint64_t count_all(const struct desk *desk)
{
    struct hot_stats stats;
    hot_stats(desk->hot, &stats);
    return stats.counters + stats.items;
}

static enum err check_all(struct desk_seat *seat, struct desk_work *work, struct proof *proof,
                          struct error *error)
{
    struct slice pattern = {work->subject, work->subject_size};
    bool is_all = pattern.size == 0 || slice_equal(pattern, SLICE("*"));
    struct proof_ids ids;
    proof_ids_init(&ids);
    uint64_t cursor = 0;
    enum err err;
    do {
        err =
            collect_ids(seat, is_all ? (struct slice){0} : pattern, &cursor, PASS_IDS, &ids, error);
        if (!err && ids.count > 0)
            err = proof_check(proof, &ids, error);
        uint64_t all = is_all ? count_all(seat->desk) : 0;
        (void)work_progress(seat, work, proof->looked_at,
                            all > proof->looked_at ? all : proof->looked_at, "counters");
    } while (!err && cursor != 0);
    proof_ids_done(&ids);
    if (!err && !proof->values_only)
        err = check_strays(proof, is_all ? (struct slice){0} : pattern, error);
    return err;
}

enum err proof_recount_all(struct desk_seat *seat, struct desk_work *work, struct error *error)
{
    struct proof proof = {.seat = seat, .work = work, .values_only = true};
    enum err err = check_all(seat, work, &proof, error);
    if (!err)
        work_says(seat, work, "%" PRIu64 " counted anew, %" PRIu64 " differ", proof.looked_at,
                  proof.drifts);
    return err;
}

enum err proof_audit_all(struct desk_seat *seat, struct desk_work *work, struct error *error)
{
    struct proof proof = {.seat = seat, .work = work, .repair = work->repair};
    enum err err = check_all(seat, work, &proof, error);
    if (!err)
        work_says(seat, work, "%" PRIu64 " looked at, %" PRIu64 " differ, %" PRIu64 " put right",
                  proof.looked_at, proof.drifts, proof.repairs);
    return err;
}

/* Goes round through all ids, a batch at a time. */
void proof_audit_some(struct desk_seat *seat)
{
    struct desk *desk = seat->desk;
    struct proof proof = {.seat = seat, .repair = true};
    struct proof_ids ids;
    struct error error = {.text = ""};
    proof_ids_init(&ids);
    enum err err = collect_ids(seat, (struct slice){0}, &desk->audit_cursor,
                               desk->options.audit_batch, &ids, &error);
    if (!err && ids.count > 0)
        err = proof_check(&proof, &ids, &error);
    proof_ids_done(&ids);
    if (!err && desk->audit_cursor == 0 && env_monotonic_ns(desk->options.env) >= desk->strays_ns) {
        err = check_strays(&proof, (struct slice){0}, &error);
        desk->strays_ns = env_monotonic_ns(desk->options.env) + STRAYS_EVERY_NS;
    }
    if (err && !seat_must_stop(seat))
        message_warning("the audit could not be done reason=\"%s\"", error.text);
    if (!err && desk->audit_cursor == 0) {
        lock_take(&desk->lock);
        desk->audit_ended_ms = env_wall_ms(desk->options.env);
        lock_release(&desk->lock);
    }
    desk->audit_ns = env_monotonic_ns(desk->options.env) + desk->options.audit_every_ms * 1000000u;
}
