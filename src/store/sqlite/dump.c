/* dump.c - everything that the file holds, as another store can take it (core/copy.h).
 *
 * All of it is of one moment, on a reader's own connection: the writer goes on, and the WAL keeps
 * what is new until we are done. */
#include <assert.h>

#include "store/sqlite/own.h"

static const struct {
    enum statement which;
    unsigned columns;
} tables[COPY_TABLES] = {
#define X(name, types) [COPY_##name] = {SQL_DUMP_##name, sizeof(types) - 1},
    COPY_LIST(X)
#undef X
};

static struct copy_value value_of(sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        return (struct copy_value){.type = COPY_NULL};
    case SQLITE_INTEGER:
        return (struct copy_value){.type = COPY_INT, .number = db_int(statement, column)};
    default:
        return (struct copy_value){.type = COPY_BYTES, .bytes = db_slice(statement, column)};
    }
}

static enum err dump_table(struct sqlite_reader *reader, enum copy_table table, copy_row_fn *row,
                           void *arg, struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, tables[table].which, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    struct copy_value values[COPY_COLUMNS_MAX];
    enum err err;
    while (!(err = db_step(reader->db, statement, error))) {
        for (unsigned i = 0; i < tables[table].columns; i++)
            values[i] = value_of(statement, (int)i);
        err = row(arg, table, values, error);
        if (err) {
            sqlite3_reset(statement);
            return err;
        }
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

#define ENTRY_ADVICE "let an audit put it right first"
/* No audit can: what it is made of is in the log no more, if it was trimmed. */
#define BASE_ADVICE                                                                              \
    "bring it back from a copy, or, with a log that was never trimmed, move the store away and " \
    "start once"

/* The advice comes before the id, which may be long. */
static enum err row_is_wrong(const struct sqlite_reader *reader, const char *table, struct slice id,
                             const char *advice, struct error *error)
{
    return error_set(error, ERR_CORRUPT,
                     "%s: %s: a row is not what was written there, and is not copied: %s; it is "
                     "that of %.*s",
                     reader->db->path, table, advice, SLICE_ARGS(id));
}

static enum err check_entry(struct sqlite_reader *reader, const struct entry *entry, void *arg,
                            struct error *error)
{
    (void)arg;
    bool is_wrong = entry->is_wrong && entry->type != ENTRY_GONE;
    enum err err = ERR_OK;
    if (!is_wrong && entry->type == ENTRY_ITEM && entry->slices == STATE_SLICES)
        err = entry_check_slices(reader, entry, &is_wrong, error);
    return !err && is_wrong ? row_is_wrong(reader, "entries", entry->id, ENTRY_ADVICE, error) : err;
}

static enum err check_bases(struct sqlite_reader *reader, struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, SQL_BASES, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(reader->db, statement, error))) {
        struct slice id = db_slice(statement, 3);
        if (!base_is_wrong(statement, id))
            continue;
        err = row_is_wrong(reader, "bases", id, BASE_ADVICE, error);
        sqlite3_reset(statement);
        return err;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* The other store gives its rows sums of its own: what is wrong here would be right there. */
static enum err check_sums(struct sqlite_reader *reader, struct error *error)
{
    enum err err = entries_each(reader, check_entry, NULL, error);
    return err ? err : check_bases(reader, error);
}

enum err sqlite_dump(void *from, copy_row_fn *row, void *arg, struct state_mark *ret_mark,
                     struct log_position *ret_base, struct error *error)
{
    struct sqlite_reader *reader = from;
    assert(reader && row);

    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    uint32_t indexed;
    err = store_read_mark(reader->db, ret_mark, &indexed, ret_base, error);
    if (!err)
        err = check_sums(reader, error);
    for (enum copy_table table = 0; table < COPY_TABLES && !err; table++)
        err = dump_table(reader, table, row, arg, error);
    return reader_end(reader, err);
}
