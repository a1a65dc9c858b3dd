/* What keeps the file small, right and discreet: thinning, mending, bases, erasing. */
#include <string.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "core/raw.h"
#include "core/user.h"
#include "store/sqlite/own.h"

/* ---- small writes that others use, too ---- */

enum err audit_add(struct sqlite_store *store, int64_t time_ms, struct slice what, struct slice id,
                   struct slice text, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_AUDIT_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, time_ms);
    db_bind_text(statement, 2, what);
    if (id.size > 0)
        db_bind_text(statement, 3, id);
    else
        db_bind_null(statement, 3);
    db_bind_text(statement, 4, text);
    return db_run(&store->db, statement, error);
}

bool base_is_wrong(sqlite3_stmt *statement, struct slice id)
{
    char sum[DECIMAL_SIZE_MAX];
    char discarded[DECIMAL_SIZE_MAX];
    return sqlite3_column_type(statement, 2) == SQLITE_NULL ||
           db_int(statement, 2) != sums_of_base(id, sums_digits(statement, 0, sum),
                                                sums_digits(statement, 1, discarded));
}

static enum err read_base(struct db *db, struct slice id, struct number *ret_sum,
                          struct number *ret_discarded, bool *ret_is_wrong, struct error *error)
{
    *ret_sum = *ret_discarded = number_of(0);
    *ret_is_wrong = false;
    sqlite3_stmt *statement = db_take(db, SQL_BASE_OF, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_text(statement, 1, id);
    enum err err = db_step(db, statement, error);
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err)
        return err;
    *ret_is_wrong = base_is_wrong(statement, id);
    err = db_number(statement, 0, ret_sum);
    if (!err)
        err = db_number(statement, 1, ret_discarded);
    sqlite3_reset(statement);
    if (!err || *ret_is_wrong) /* nobody counts on what is wrong */
        return ERR_OK;
    return error_set(error, ERR_CORRUPT, "bases: the row of %.*s holds no numbers", SLICE_ARGS(id));
}

/* One that was wrong stays wrong, whatever is added to it. */
static enum err write_base(struct sqlite_store *store, struct slice id, const struct number *sum,
                           const struct number *discarded, bool is_wrong, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_BASE_PUT, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    struct buffer *digits = &store->digits;
    digits->size = 0;
    (void)number_format(sum, digits);
    size_t size = digits->size;
    (void)number_format(discarded, digits);
    int64_t checksum = sums_of_base(id, (struct slice){digits->data, size},
                                    (struct slice){digits->data + size, digits->size - size});
    db_bind_int(statement, 4, is_wrong ? ~checksum : checksum);
    db_bind_text(statement, 1, id);
    db_bind_number(statement, 2, sum, digits);
    db_bind_number(statement, 3, discarded, &store->text);
    return db_run(&store->db, statement, error);
}

enum err base_add(struct sqlite_store *store, struct slice id, const struct number *sum,
                  const struct number *discarded, struct error *error)
{
    struct number sum_now;
    struct number discarded_now;
    bool is_wrong;
    enum err err = read_base(&store->db, id, &sum_now, &discarded_now, &is_wrong, error);
    if (!err) {
        number_add(&sum_now, sum);
        number_add(&discarded_now, discarded);
        err = write_base(store, id, &sum_now, &discarded_now, is_wrong, error);
    }
    number_done(&sum_now);
    number_done(&discarded_now);
    return err;
}

static enum err forget_discarded(struct sqlite_store *store, struct slice id, struct error *error)
{
    struct number sum;
    struct number discarded;
    struct number zero = number_of(0);
    bool is_wrong;
    enum err err = read_base(&store->db, id, &sum, &discarded, &is_wrong, error);
    if (!err && number_compare(&discarded, &zero) != 0)
        err = write_base(store, id, &sum, &zero, is_wrong, error);
    number_done(&sum);
    number_done(&discarded);
    return err;
}

enum err base_forget_discarded(struct sqlite_store *store, struct slice id, struct error *error)
{
    char name[STORES_COUNT_ID_BYTES];
    enum err err = forget_discarded(store, id, error);
    for (unsigned kind = 1; kind <= store->kinds.count && !err; kind++)
        err = forget_discarded(store, stores_count_id(id, kind_names_at(&store->kinds, kind), name),
                               error);
    return err;
}

enum err sqlite_note(struct store *base, const struct store_audit *audit, struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_begin(store, error);
    if (err)
        return err;
    err = audit_add(store, audit->time_ms, audit->what, audit->id, audit->text, error);
    return err ? store_abandon(store, err) : store_commit(store, error);
}

/* ---- thinning ---- */

static enum err thin_table(struct sqlite_store *store, enum statement which, int64_t before_ms,
                           uint32_t limit, uint64_t *removed, struct error *error)
{
    if (before_ms == 0)
        return ERR_OK;
    sqlite3_stmt *statement = db_take(&store->db, which, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, before_ms);
    if (limit > 0)
        db_bind_int(statement, 2, limit);
    enum err err = db_run(&store->db, statement, error);
    if (!err)
        *removed += (uint64_t)sqlite3_changes64(store->db.handle);
    return err;
}

enum err sqlite_thin(struct store *base, int64_t lives_before_ms, int64_t history_before_ms,
                     int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                     struct error *error)
{
    struct sqlite_store *store = store_of(base);
    *ret_removed = 0;
    enum err err = store_begin(store, error);
    if (err)
        return err;
    uint64_t history = 0;
    err = thin_table(store, SQL_LIVES_THIN, lives_before_ms, limit, ret_removed, error);
    if (!err)
        err = thin_table(store, SQL_HISTORY_THIN, history_before_ms, limit, &history, error);
    if (!err)
        err = thin_table(store, SQL_KEYS_THIN, keys_before_ms, limit, ret_removed, error);
    if (!err && keys_before_ms != 0)
        err = keys_thinned(store, error);
    *ret_removed += history;
    /* Once no history is left to go, nothing speaks of items that were deleted before. */
    if (!err && history == 0) {
        uint64_t gone = 0;
        err = thin_table(store, SQL_GONE_THIN, history_before_ms, 0, &gone, error);
    }
    if (!err)
        err = store_read_ends(store, error);
    if (err)
        return store_abandon(store, err);
    return store_commit(store, error);
}

/* ---- mending ---- */

/* Settings that nobody can read are those that every loader took in their place. */
static void mend_settings(struct entry *entry)
{
    struct op_create ignored;
    if (entry->is_wrong && settings_parse(entry->settings, &ignored))
        entry->settings = (struct slice){NULL, 0};
}

/* All of the row is right: it gets the sum of what stands there. */
static enum err sum_anew(struct sqlite_store *store, struct entry *entry, sqlite3_stmt *statement,
                         struct error *error)
{
    if (entry->type == ENTRY_COUNTER && db_number(statement, 5, &entry->value))
        entry->value = number_of(0);
    struct kind_counts counts;
    if (entry->type == ENTRY_ITEM && counts_parse(entry->counts, &store->kinds, &counts))
        entry->counts = SLICE("{}");
    mend_settings(entry);
    entry->is_wrong = false;
    enum err err = entry_write(store, entry, error);
    number_done(&entry->value);
    return err;
}

/* Its value is all that a counter has: with that its row is right, for whoever loads it next. */
static enum err mend_counter(struct sqlite_store *store, struct entry *entry,
                             sqlite3_stmt *statement, const struct number *by, struct error *error)
{
    if (entry->type != ENTRY_COUNTER)
        return ERR_NOT_FOUND;
    if (db_number(statement, 5, &entry->value))
        entry->value = number_of(0);
    number_add(&entry->value, by);
    mend_settings(entry);
    entry->is_wrong = false;
    enum err err = entry_write(store, entry, error);
    number_done(&entry->value);
    return err;
}

static enum err mend_count(struct sqlite_store *store, struct entry *entry, struct slice kind_text,
                           const struct number *by, struct error *error)
{
    unsigned kind = kind_names_find(&store->kinds, kind_text);
    struct kind_counts counts = {.known = 0};
    if (entry->type != ENTRY_ITEM || kind == SETS_KINDS || by->big)
        return ERR_NOT_FOUND;
    if (counts_parse(entry->counts, &store->kinds, &counts)) {
        counts.known = 0;
        if (!entry->is_wrong)
            return error_set(error, ERR_CORRUPT, "entries.number %lld: its counts make no sense",
                             (long long)entry->number);
    }
    if (!(counts.known >> kind & 1))
        counts.counts[kind] = 0;
    counts.known |= UINT64_C(1) << kind;
    counts.counts[kind] += by->small;
    store->mark.members += (uint64_t)by->small;
    counts_format(&counts, &store->kinds, &store->text);
    entry->counts = buffer_slice(&store->text);
    return entry_write(store, entry, error);
}

static enum err find_live(struct sqlite_store *store, struct slice id, struct entry *entry,
                          sqlite3_stmt **ret_statement, struct error *error)
{
    *ret_statement = NULL;
    enum err err = entry_find(store, id, entry, ret_statement, error);
    if (!err && (entry->number == 0 || entry->type == ENTRY_GONE))
        err = ERR_NOT_FOUND;
    return err;
}

static enum err end_mend(struct sqlite_store *store, const struct state_mark *before,
                         struct slice id, struct slice text, int64_t now_ms, enum err err,
                         struct error *error)
{
    if (!err && text.size > 0)
        err = audit_add(store, now_ms, SLICE("repair"), id, text, error);
    if (!err)
        err = store_write_mark(store, before, now_ms, error);
    return err ? store_abandon(store, err) : store_commit(store, error);
}

enum err sqlite_mend(struct store *base, struct slice id, uint32_t incarnation, struct slice kind,
                     const struct number *by, struct slice text, int64_t now_ms,
                     struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_begin(store, error);
    if (err)
        return err;
    struct state_mark before = store->mark;
    struct entry entry;
    sqlite3_stmt *statement;
    err = find_live(store, id, &entry, &statement, error);
    if (!err && entry.incarnation != incarnation)
        err = ERR_BUSY;
    bool is_nothing = kind.size == 0 && !by->big && by->small == 0;
    if (!err && is_nothing)
        err = sum_anew(store, &entry, statement, error);
    else if (!err)
        err = kind.size > 0 ? mend_count(store, &entry, kind, by, error)
                            : mend_counter(store, &entry, statement, by, error);
    if (statement)
        sqlite3_reset(statement);
    return end_mend(store, &before, id, text, now_ms, err, error);
}

static enum err write_life(struct sqlite_store *store, const struct entry *entry, uint32_t life,
                           struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_ENTRY_LIFE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, entry->number);
    db_bind_int(statement, 2, life);
    return db_run(&store->db, statement, error);
}

enum err sqlite_mend_life(struct store *base, struct slice id, uint32_t incarnation, uint32_t life,
                          struct slice text, int64_t now_ms, struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_begin(store, error);
    if (err)
        return err;
    struct state_mark before = store->mark;
    struct entry entry;
    sqlite3_stmt *statement;
    err = find_live(store, id, &entry, &statement, error);
    if (statement)
        sqlite3_reset(statement);
    if (err || entry.incarnation == life)
        return end_mend(store, &before, id, SLICE(""), now_ms, err, error);
    if (!entry.is_wrong || entry.incarnation != incarnation)
        err = ERR_BUSY;
    if (!err)
        err = write_life(store, &entry, life, error);
    return end_mend(store, &before, id, text, now_ms, err, error);
}

enum err sqlite_mend_members(struct store *base, struct slice item,
                             const struct store_reaction *members, size_t count, const uint64_t *at,
                             struct slice text, int64_t now_ms, struct error *error)
{
    (void)at; /* nobody else writes */
    struct sqlite_store *store = store_of(base);
    enum err err = store_begin(store, error);
    if (err)
        return err;
    struct state_mark before = store->mark;
    struct store_unit unit = {.reactions = members, .reaction_count = count};
    struct store_batch batch = {.units = &unit, .unit_count = 1};
    struct entry entry;
    sqlite3_stmt *statement = NULL;
    err = users_add(store, &batch, error);
    if (!err)
        err = find_live(store, item, &entry, &statement, error);
    if (!err && entry.type != ENTRY_ITEM)
        err = ERR_NOT_FOUND;
    if (!err)
        err = members_replace(store, &entry, members, count, error);
    if (!err)
        err = entry_write(store, &entry, error);
    if (statement)
        sqlite3_reset(statement);
    return end_mend(store, &before, item, text, now_ms, err, error);
}

static enum err make_row(struct sqlite_store *store, const struct state_target *target,
                         struct error *error)
{
    const struct op_create *create = &target->create;
    struct store_unit unit = {
        .id = target->id,
        .is_item = target->is_item,
        .may_create = true,
        .last_ms = target->written_ms,
        .incarnation = target->incarnation,
        .delta = target->value,
        .has_create = create->shards > 1 || create->policy != POLICY_LOCAL || create->has_floor ||
                      create->idle_s != 0,
        .create = *create,
        .has_deadline = target->deadline_ms != 0,
        .deadline_ms = target->deadline_ms,
    };
    return unit_apply(store, &unit, error);
}

static enum err make_counts(struct sqlite_store *store, const struct state_target *target,
                            struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < target->kind_count && !err; i++) {
        struct number by = number_of(target->counts[i]);
        struct entry entry;
        sqlite3_stmt *statement;
        if (target->counts[i] == 0)
            continue;
        err = find_live(store, target->id, &entry, &statement, error);
        if (!err)
            err = mend_count(store, &entry, target->kinds[i], &by, error);
        if (statement)
            sqlite3_reset(statement);
    }
    return err;
}

enum err sqlite_make(struct store *base, const struct state_target *target, struct slice text,
                     int64_t now_ms, struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_begin(store, error);
    if (err)
        return err;
    struct state_mark before = store->mark;
    struct entry entry;
    sqlite3_stmt *statement;
    err = find_live(store, target->id, &entry, &statement, error);
    if (statement)
        sqlite3_reset(statement);
    err = err == ERR_OK ? ERR_EXISTS : err == ERR_NOT_FOUND ? ERR_OK : err;
    if (!err)
        err = make_row(store, target, error);
    if (!err)
        err = make_counts(store, target, error);
    store->mark = before; /* whoever removed the row did not take it off the totals */
    return end_mend(store, &before, target->id, text, now_ms, err, error);
}

/* ---- bases ---- */

enum err sqlite_rebase(struct store *base, const struct slice *ids, const struct number *sums,
                       size_t count, struct log_position position, struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_begin(store, error);
    if (err)
        return err;
    struct number zero = number_of(0);
    for (size_t i = 0; i < count && !err; i++)
        err = base_add(store, ids[i], &sums[i], &zero, error);
    sqlite3_stmt *statement = err ? NULL : db_take(&store->db, SQL_BASE_SET, error);
    if (statement) {
        db_bind_int(statement, 1, (int64_t)position.segment);
        db_bind_int(statement, 2, (int64_t)position.offset);
        err = db_run(&store->db, statement, error);
    } else if (!err) {
        err = ERR_UNAVAILABLE;
    }
    if (err)
        return store_abandon(store, err);
    store->base_position = position;
    return store_commit(store, error);
}

enum err sqlite_base(struct store_reader *base, struct slice id, struct number *ret_sum,
                     struct number *ret_discarded, struct log_position *ret_position,
                     struct error *error)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    struct state_mark mark;
    uint32_t indexed;
    bool is_wrong = false;
    err = store_read_mark(reader->db, &mark, &indexed, ret_position, error);
    if (!err)
        err = read_base(reader->db, id, ret_sum, ret_discarded, &is_wrong, error);
    if (!err && is_wrong) {
        number_done(ret_sum);
        number_done(ret_discarded);
        *ret_sum = *ret_discarded = number_of(0);
        err = error_set(error, ERR_CORRUPT, "bases: the row of %.*s is not what was written there",
                        SLICE_ARGS(id));
    }
    return reader_end(reader, err);
}

/* ---- erasing ---- */

/* Does the user hold anything, as the history has it and the sets confirm? */
static enum err check_holds_nothing(struct sqlite_store *store, struct slice name, int64_t user,
                                    struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_HISTORY_HELD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, user);
    enum err err;
    while (!(err = db_step(&store->db, statement, error))) {
        struct entry entry;
        uint8_t kind = 0;
        entry_read(statement, &entry);
        err = entry_held(&store->db, &entry, name, user < 0,
                         (uint32_t)(user < 0 ? -1 - user : user), &kind, error);
        if (!err && kind != 0)
            err = error_set(error, ERR_BUSY, "the user holds reactions again");
        if (err)
            break;
    }
    sqlite3_reset(statement);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* `user` as the history has it. */
static enum err erase_history(struct sqlite_store *store, struct slice name, int64_t user,
                              struct slice stub, uint64_t *ret_rows, struct error *error)
{
    enum err err = check_holds_nothing(store, name, user, error);
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(&store->db, SQL_HISTORY_STUB, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, user);
    db_bind_text(statement, 2, stub);
    err = db_run(&store->db, statement, error);
    *ret_rows = err ? 0 : (uint64_t)sqlite3_changes64(store->db.handle);
    return err;
}

static enum err unindex(struct sqlite_store *store, struct slice name, uint32_t number,
                        struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_USER_HASH_REMOVE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)hash_stable(name));
    db_bind_int(statement, 2, number);
    return db_run(&store->db, statement, error);
}

/* The number stays with the name as long as memory knows it: whoever comes back brings it along.
 * It is as free as before for this name, and what the history tells is not of this user any more.
 */
static enum err erase_name(struct sqlite_store *store, struct slice user, struct slice stub,
                           uint64_t *ret_rows, struct error *error)
{
    uint32_t number;
    enum err err = users_of_name(store, &store->db, user, &number, error);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    err = erase_history(store, user, -1 - (int64_t)number, stub, ret_rows, error);
    if (!err)
        err = unindex(store, user, number, error);
    if (!err)
        err = users_remove(store, number, error);
    ++*ret_rows;
    return err;
}

static enum err scrub_raws(struct sqlite_store *store, struct slice user, enum statement read,
                           enum statement write, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, read, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(&store->db, statement, error))) {
        store->raw.size = 0;
        (void)buffer_append_slice(&store->raw, db_slice(statement, 1));
        if (!raw_erase(&store->raw, user))
            continue;
        sqlite3_stmt *update = db_take(&store->db, write, error);
        if (!update) {
            sqlite3_reset(statement);
            return ERR_UNAVAILABLE;
        }
        db_bind_int(update, 1, db_int(statement, 0));
        db_bind_blob(update, 2, buffer_slice(&store->raw));
        enum err written = db_run(&store->db, update, error);
        if (written) {
            sqlite3_reset(statement);
            return written;
        }
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err erase_rows(struct sqlite_store *store, struct slice user, struct slice stub,
                           uint64_t *ret_rows, struct error *error)
{
    uint32_t number;
    enum err err = store_begin(store, error);
    if (err)
        return err;
    if (user_is_numeric(user, &number))
        err = erase_history(store, user, number, stub, ret_rows, error);
    else
        err = erase_name(store, user, stub, ret_rows, error);
    if (!err)
        err = scrub_raws(store, user, SQL_RAWS, SQL_RAW_SET, error);
    if (!err)
        err = scrub_raws(store, user, SQL_LETTER_RAWS, SQL_LETTER_RAW_SET, error);
    return err ? store_abandon(store, err) : store_commit(store, error);
}

/* The WAL holds pages as they were: it goes, too. */
enum err sqlite_erase(struct store *base, struct slice user, struct slice stub, int64_t now_ms,
                      uint64_t *ret_rows, struct error *error)
{
    (void)now_ms;
    struct sqlite_store *store = store_of(base);
    *ret_rows = 0;
    enum err err = erase_rows(store, user, stub, ret_rows, error);
    return err ? err : store_checkpoint(store, true, error);
}

enum err sqlite_rest(struct store *base, struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_ready(store, error);
    if (!err && !store->is_carried)
        err = store_checkpoint(store, false, error);
    return err || !store->is_carried ? err : store_check_some(store, error);
}
