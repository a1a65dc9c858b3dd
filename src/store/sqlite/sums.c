#include "store/sqlite/sums.h"

#include "base/decimal.h"
#include "base/hash.h"
#include "store/sqlite/own.h"

int64_t sums_of_entry(const struct entry *entry, struct slice value)
{
    const int64_t rest[] = {entry->type, entry->incarnation, entry->slices, entry->deadline_ms};
    uint64_t sum = hash_stable((struct slice){(const char *)rest, sizeof(rest)});
    sum = hash_stable_seeded(entry->id, sum);
    sum = hash_stable_seeded(value, sum);
    sum = hash_stable_seeded(entry->counts, sum);
    sum = hash_stable_seeded(entry->settings, sum);
    return (int64_t)hash_stable_seeded(entry->members, sum);
}

int64_t sums_of_base(struct slice id, struct slice sum, struct slice discarded)
{
    return (int64_t)hash_stable_seeded(discarded, hash_stable_seeded(sum, hash_stable(id)));
}

struct slice sums_digits(sqlite3_stmt *statement, int column, char *digits)
{
    if (sqlite3_column_type(statement, column) != SQLITE_INTEGER)
        return db_slice(statement, column);
    char *end = decimal_format(digits, db_int(statement, column));
    return (struct slice){digits, (size_t)(end - digits)};
}

/* ---- slices ---- */

uint32_t sums_of_slice(int64_t place, struct slice sets)
{
    if (sets.size == 0)
        return 0;
    uint32_t sum = (uint32_t)hash_stable_seeded(sets, (uint64_t)place);
    return sum != 0 ? sum : 1;
}

bool slice_sums_read(struct slice bytes, struct slice_sums *ret_sums)
{
    *ret_sums = (struct slice_sums){.of = {0}};
    if (bytes.size != SLICE_SUMS_BYTES)
        return false;
    const unsigned char *at = (const unsigned char *)bytes.data;
    for (unsigned i = 0; i < STATE_SLICES; i++, at += 4)
        ret_sums->of[i] =
            at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return true;
}

struct slice slice_sums_write(const struct slice_sums *sums, unsigned char to[SLICE_SUMS_BYTES])
{
    unsigned char *at = to;
    for (unsigned i = 0; i < STATE_SLICES; i++) {
        for (unsigned shift = 0; shift < 32; shift += 8)
            *at++ = (unsigned char)(sums->of[i] >> shift);
    }
    return (struct slice){(const char *)to, SLICE_SUMS_BYTES};
}

/* ---- older files ---- */

static enum err sum_slices(struct db *db, int64_t number, struct slice_sums *ret_sums,
                           struct error *error)
{
    *ret_sums = (struct slice_sums){.of = {0}};
    sqlite3_stmt *statement = db_take(db, SQL_MEMBERS_ALL, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    int64_t first = number * (int64_t)STATE_SLICES;
    db_bind_int(statement, 1, first);
    db_bind_int(statement, 2, first + (int64_t)STATE_SLICES - 1);
    enum err err;
    while (!(err = db_step(db, statement, error))) {
        int64_t place = db_int(statement, 0);
        ret_sums->of[place - first] = sums_of_slice(place, db_slice(statement, 1));
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* `statement` stands on the row. */
static enum err sum_row(struct db *db, sqlite3_stmt *statement, struct error *error)
{
    char digits[DECIMAL_SIZE_MAX];
    unsigned char bytes[SLICE_SUMS_BYTES];
    struct entry entry;
    entry_read(statement, &entry);
    bool has_sum = sqlite3_column_type(statement, 11) != SQLITE_NULL;
    bool is_large = entry.type == ENTRY_ITEM && entry.slices == STATE_SLICES;
    if (has_sum && (!is_large || entry.members.size == SLICE_SUMS_BYTES))
        return ERR_OK;
    enum err err = ERR_OK;
    if (is_large) {
        struct slice_sums sums;
        err = sum_slices(db, entry.number, &sums, error);
        entry.members = slice_sums_write(&sums, bytes);
    }
    sqlite3_stmt *set = err ? NULL : db_take(db, SQL_ENTRY_SUM_SET, error);
    if (!set)
        return err ? err : ERR_UNAVAILABLE;
    int64_t sum = sums_of_entry(&entry, sums_digits(statement, 5, digits));
    db_bind_int(set, 1, entry.number);
    db_bind_blob(set, 2, entry.members);
    db_bind_int(set, 3, has_sum && entry.is_wrong ? ~sum : sum);
    return db_run(db, set, error);
}

static enum err sum_entries(struct db *db, struct error *error)
{
    int64_t number = 0;
    for (;;) {
        sqlite3_stmt *statement = db_take(db, SQL_ENTRY_SCAN, error);
        if (!statement)
            return ERR_UNAVAILABLE;
        db_bind_int(statement, 1, number);
        db_bind_int(statement, 2, 1);
        enum err err = db_step(db, statement, error);
        if (err)
            return err == ERR_NOT_FOUND ? ERR_OK : err;
        number = db_int(statement, 0);
        err = sum_row(db, statement, error);
        sqlite3_reset(statement);
        if (err)
            return err;
    }
}

static enum err sum_bases(struct db *db, struct error *error)
{
    for (;;) {
        char sum[DECIMAL_SIZE_MAX];
        char discarded[DECIMAL_SIZE_MAX];
        sqlite3_stmt *statement = db_take(db, SQL_BASE_WITHOUT_SUM, error);
        sqlite3_stmt *set = statement ? db_take(db, SQL_BASE_CHECKSUM_SET, error) : NULL;
        if (!set)
            return ERR_UNAVAILABLE;
        enum err err = db_step(db, statement, error);
        if (err)
            return err == ERR_NOT_FOUND ? ERR_OK : err;
        struct slice id = db_slice(statement, 0);
        db_bind_text(set, 1, id);
        db_bind_int(
            set, 2,
            sums_of_base(id, sums_digits(statement, 1, sum), sums_digits(statement, 2, discarded)));
        err = db_run(db, set, error);
        sqlite3_reset(statement);
        if (err)
            return err;
    }
}

enum err sums_add_all(struct db *db, struct error *error)
{
    enum err err = sum_entries(db, error);
    return err ? err : sum_bases(db, error);
}
