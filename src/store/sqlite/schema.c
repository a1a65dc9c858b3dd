#include "store/sqlite/schema.h"

#include <stdio.h>

#include "store/sqlite/sums.h"

/* Steps are never changed once they were released: a new version is a new step. */
/* As the doors print it. */
#define UUID_TEXT                                                                       \
    "lower(substr(hex(event_id), 1, 8) || '-' || substr(hex(event_id), 9, 4) || '-' ||" \
    "    substr(hex(event_id), 13, 4) || '-' || substr(hex(event_id), 17, 4) || '-' ||" \
    "    substr(hex(event_id), 21))"

/* The states of core/lifecycle.h, and the moves between them that there are. A constraint can be
 * added to a table that is there with a column only; a trigger would cost each row that is added,
 * which are many, more than all else that is done to it. Rows change seldom. */
#define COUNT_EVENTS_ARE_CHECKED                                                     \
    "ALTER TABLE count_events ADD COLUMN checked INTEGER" /* always NULL */          \
    "  CHECK(state IN (0, 1, 2, 3, 4));"                                             \
    "CREATE TRIGGER count_events_move BEFORE UPDATE OF state ON count_events"        \
    "  WHEN NOT (typeof(NEW.state) = 'integer' AND CASE OLD.state"                   \
    "    WHEN 0 THEN NEW.state IN (1, 2) WHEN 1 THEN NEW.state IN (1, 2, 3)"         \
    "    WHEN 3 THEN NEW.state IN (1, 4) ELSE 0 END)"                                \
    "  BEGIN SELECT RAISE(ABORT, 'count_events: there is no such transition'); END;" \
    "CREATE TRIGGER count_events_done BEFORE UPDATE OF event_id, id, delta, events"  \
    "  ON count_events WHEN OLD.state IN (2, 4)"                                     \
    "  BEGIN SELECT RAISE(ABORT, 'count_events: what is done does not change'); END;"

static const char *const steps[] = {
    /* 1 */
    "CREATE TABLE entries(" /* counters and items */
    "  number INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL,"
    "  type INTEGER NOT NULL," /* 0 counter, 1 item, 2 an item that was deleted */
    "  incarnation INTEGER NOT NULL,"
    "  updated_ms INTEGER NOT NULL,"
    "  value,"          /* a counter's: INTEGER, or TEXT beyond 64 bits */
    "  counts TEXT,"    /* an item's: {\"like\":12,\"dislike\":3} */
    "  slices INTEGER," /* an item's: 1, or 64 in `members` */
    "  settings TEXT,"  /* as it was created: {\"shards\":8,...} */
    "  deadline_ms INTEGER,"
    "  first_row INTEGER," /* an item's that was deleted before: where its history begins anew */
    "  members BLOB);"     /* of an item in one slice */
    "CREATE UNIQUE INDEX entries_by_id ON entries(id);"
    "CREATE TABLE members("        /* of items in 64 slices */
    "  place INTEGER PRIMARY KEY," /* the item's number * 64 + slice */
    "  members BLOB NOT NULL);"
    "CREATE TABLE users(number INTEGER PRIMARY KEY, name TEXT NOT NULL);"
    "CREATE TABLE user_index(" /* hash of the name -> number */
    "  hash INTEGER, number INTEGER, PRIMARY KEY(hash, number)) WITHOUT ROWID;"
    "CREATE TABLE user_gaps(" /* numbers below next_user that nobody has yet */
    "  first INTEGER PRIMARY KEY, last INTEGER NOT NULL);"
    "CREATE TABLE kinds(number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE history("
    "  row INTEGER PRIMARY KEY,"
    "  item INTEGER NOT NULL," /* entries.number */
    "  user,"                  /* a number; -1 - users.number; a stub; NULL */
    "  kind INTEGER NOT NULL," /* kinds.number; 0 = withdrawn */
    "  time_ms INTEGER NOT NULL);"
    "CREATE TABLE count_events("
    "  row INTEGER PRIMARY KEY,"
    "  event_id BLOB NOT NULL,"
    "  id TEXT NOT NULL,"
    "  delta,"
    "  state INTEGER NOT NULL," /* 0 PENDING 1 RETRYING 2 SUCCESS 3 FAILED 4 DISCARDED */
    "  retry_count INTEGER NOT NULL,"
    "  events INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  processed_ms INTEGER,"
    "  next_ms INTEGER,"
    "  reason TEXT);"
    /* The few that are not done have a table of their own: even an index that no row of a table
     * is in makes appending to that table cost twice as much. */
    "CREATE TABLE waiting("
    "  row INTEGER PRIMARY KEY," /* count_events.row */
    "  event_id BLOB NOT NULL,"
    "  id TEXT NOT NULL,"
    "  state INTEGER NOT NULL," /* 0, 1 or 3 */
    "  next_ms INTEGER,"
    "  adds_only INTEGER NOT NULL,"
    "  raw BLOB);" /* NULL: the dead letter has it */
    "CREATE INDEX waiting_by_id ON waiting(id, row);"
    "CREATE INDEX waiting_by_event ON waiting(event_id);"
    "CREATE TABLE dead_letters("
    "  row INTEGER PRIMARY KEY,"
    "  event_id BLOB NOT NULL UNIQUE,"
    "  id TEXT," /* NULL: it could not be read */
    "  delta,"
    "  reason TEXT NOT NULL,"
    "  raw BLOB,"
    "  segment INTEGER, position INTEGER," /* in the log, of what could not be read */
    "  retry_count INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  failed_ms INTEGER NOT NULL);"
    "CREATE TABLE keys("
    "  row INTEGER PRIMARY KEY,"
    "  low INTEGER NOT NULL, high INTEGER NOT NULL,"
    "  fingerprint INTEGER NOT NULL,"
    "  changed INTEGER NOT NULL, held TEXT, value,"
    "  time_ms INTEGER NOT NULL);"
    "CREATE TABLE key_index(" /* generation: row / 2^20; hash: low */
    "  generation INTEGER, hash INTEGER, row INTEGER, PRIMARY KEY(generation, hash, row))"
    "  WITHOUT ROWID;"
    "CREATE TABLE bases(" /* what a recount begins with */
    "  id TEXT PRIMARY KEY, sum NOT NULL, discarded NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE audit_trail("
    "  row INTEGER PRIMARY KEY,"
    "  time_ms INTEGER NOT NULL, what TEXT NOT NULL, id TEXT, text TEXT);"
    "CREATE TABLE origins("
    "  origin INTEGER PRIMARY KEY,"
    "  sequence INTEGER NOT NULL, incarnation INTEGER NOT NULL);"
    "CREATE TABLE progress("
    "  only INTEGER PRIMARY KEY CHECK(only = 1),"
    "  segment INTEGER NOT NULL, position INTEGER NOT NULL,"
    "  counters INTEGER NOT NULL, items INTEGER NOT NULL, members INTEGER NOT NULL,"
    "  next_user INTEGER NOT NULL, indexed_users INTEGER NOT NULL,"
    "  indexed_keys INTEGER NOT NULL,"
    "  base_segment INTEGER NOT NULL, base_position INTEGER NOT NULL,"
    "  updated_ms INTEGER NOT NULL);"
    "INSERT INTO progress VALUES(1,0,0,0,0,0,0,0,0,0,0,0);"

    "CREATE VIEW counters(id, value, updated, incarnation, settings, expires) AS"
    "  SELECT id, value, strftime('%Y-%m-%dT%H:%M:%fZ', updated_ms / 1000.0, 'unixepoch'),"
    "    incarnation, settings,"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', nullif(deadline_ms, 0) / 1000.0, 'unixepoch')"
    "  FROM entries WHERE type = 0"
    "  UNION ALL"
    "  SELECT e.id || '/' || j.key, j.value,"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', e.updated_ms / 1000.0, 'unixepoch'), e.incarnation,"
    "    NULL, NULL"
    "  FROM entries e, json_each(e.counts) j WHERE e.type = 1;"
    "CREATE VIEW items(id, kind, count, updated) AS"
    "  SELECT e.id, j.key, j.value,"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', e.updated_ms / 1000.0, 'unixepoch')"
    "  FROM entries e, json_each(e.counts) j WHERE e.type = 1;"
    "CREATE VIEW reactions(row, item, user, kind, time, time_ms) AS"
    "  SELECT h.row, e.id,"
    "    CASE WHEN h.user IS NULL THEN '(erased)'"
    "         WHEN typeof(h.user) = 'text' THEN h.user"
    "         WHEN h.user >= 0 THEN CAST(h.user AS TEXT)"
    "         ELSE (SELECT name FROM users WHERE number = -1 - h.user) END,"
    "    k.name, strftime('%Y-%m-%dT%H:%M:%fZ', h.time_ms / 1000.0, 'unixepoch'), h.time_ms"
    "  FROM history h LEFT JOIN entries e ON e.number = h.item"
    "    LEFT JOIN kinds k ON k.number = h.kind;"
    "CREATE VIEW who_likes_what(user, item, kind, since) AS"
    "  SELECT r.user, r.item, r.kind, r.time FROM history h JOIN reactions r ON r.row = h.row"
    "    JOIN entries e ON e.number = h.item"
    "  WHERE h.kind <> 0 AND e.type = 1 AND h.row >= ifnull(e.first_row, 0) AND h.row IN"
    "    (SELECT max(row) FROM history GROUP BY item, user);"
    "CREATE VIEW lives(event_id, id, delta, status, retry_count, events, created, processed,"
    "    next_attempt, reason) AS"
    "  SELECT " UUID_TEXT ", id, delta,"
    "    CASE state WHEN 0 THEN 'PENDING' WHEN 1 THEN 'RETRYING' WHEN 2 THEN 'SUCCESS'"
    "      WHEN 3 THEN 'FAILED' ELSE 'DISCARDED' END, retry_count, events,"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', created_ms / 1000.0, 'unixepoch'),"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', processed_ms / 1000.0, 'unixepoch'),"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', next_ms / 1000.0, 'unixepoch'), reason"
    "  FROM count_events;"
    "CREATE VIEW post_count_events(event_id, post_id, kind, delta, status, retry_count,"
    "    created_at, processed_at) AS"
    "  SELECT l.event_id, l.id, j.key, j.value, l.status, l.retry_count, l.created, l.processed"
    "    FROM lives l, json_each(l.delta) j WHERE typeof(l.delta) = 'text' AND"
    "      substr(l.delta, 1, 1) = '{'"
    "  UNION ALL"
    "  SELECT event_id, id, NULL, delta, status, retry_count, created, processed FROM lives"
    "    WHERE typeof(delta) <> 'text' OR substr(delta, 1, 1) <> '{';"
    "CREATE VIEW letters(event_id, id, delta, reason, raw, retry_count, created, failed) AS"
    "  SELECT " UUID_TEXT ", id, delta, reason, lower(hex(raw)), retry_count,"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', created_ms / 1000.0, 'unixepoch'),"
    "    strftime('%Y-%m-%dT%H:%M:%fZ', failed_ms / 1000.0, 'unixepoch')"
    "  FROM dead_letters;"
    "CREATE VIEW positions(origin, sequence, incarnation) AS SELECT * FROM origins;",
    /* 2: a sum over what hot state is loaded from, and states that there are */
    "ALTER TABLE entries ADD COLUMN sum INTEGER;" COUNT_EVENTS_ARE_CHECKED,
    /* 3: a delta is written when its unit is added, and when it is applied; what is given up is
     * taken off the count by it, and the audit believes that */
    "DROP TRIGGER count_events_done;"
    "CREATE TRIGGER count_events_done BEFORE UPDATE OF event_id, id, delta, events"
    "  ON count_events WHEN OLD.state IN (2, 4) OR NEW.state <> 2 OR"
    "    (NEW.event_id, NEW.id, NEW.events) IS NOT (OLD.event_id, OLD.id, OLD.events)"
    "  BEGIN SELECT RAISE(ABORT, 'count_events: what a unit does, does not change'); END;"
    "CREATE TRIGGER dead_letters_stay BEFORE UPDATE OF event_id, id, delta ON dead_letters"
    "  BEGIN SELECT RAISE(ABORT, 'dead_letters: what a unit does, does not change'); END;",
    /* 4: a state moves together with its row in `waiting`, which goes first; the delta of a counter
     * is what was asked for, or nothing, and that of what is done or waits stays. What a recount
     * begins with has a sum, and so has every row of `entries`: sums_add_all() */
    "DROP TRIGGER count_events_move;"
    "CREATE TRIGGER count_events_move BEFORE UPDATE OF state ON count_events"
    "  WHEN NOT (typeof(NEW.state) = 'integer' AND CASE OLD.state"
    "    WHEN 0 THEN NEW.state IN (1, 2) WHEN 1 THEN NEW.state IN (1, 2, 3)"
    "    WHEN 3 THEN NEW.state IN (1, 4) ELSE 0 END"
    "    AND (SELECT state FROM waiting WHERE row = NEW.row) IS"
    "      CASE WHEN NEW.state IN (2, 4) THEN NULL ELSE NEW.state END)"
    "  BEGIN SELECT RAISE(ABORT, 'count_events: there is no such transition'); END;"
    "DROP TRIGGER count_events_done;"
    "CREATE TRIGGER count_events_done BEFORE UPDATE OF row, event_id, id, delta, events"
    "  ON count_events WHEN OLD.state IN (2, 4) OR NEW.state <> 2 OR"
    "    (NEW.row, NEW.event_id, NEW.id, NEW.events) IS NOT"
    "      (OLD.row, OLD.event_id, OLD.id, OLD.events) OR"
    "    (substr(OLD.delta, 1, 1) <> '{' AND NEW.delta IS NOT OLD.delta AND NEW.delta IS NOT 0)"
    "  BEGIN SELECT RAISE(ABORT, 'count_events: what a unit does, does not change'); END;"
    "CREATE TRIGGER count_events_stay BEFORE DELETE ON count_events WHEN OLD.state IN (0, 1, 3)"
    "  BEGIN SELECT RAISE(ABORT, 'count_events: what is not done stays'); END;"
    "CREATE TRIGGER waiting_stay BEFORE UPDATE OF row, event_id, id, adds_only ON waiting"
    "  BEGIN SELECT RAISE(ABORT, 'waiting: what a unit does, does not change'); END;"
    "ALTER TABLE bases ADD COLUMN checksum INTEGER;"
    "CREATE TRIGGER bases_stay BEFORE DELETE ON bases"
    "  BEGIN SELECT RAISE(ABORT, 'bases: what a recount begins with stays'); END;",
};
#define STEP_COUNT      ((int)(sizeof(steps) / sizeof(steps[0])))
#define VERSION_OF_SUMS 4 /* from here on every row has one */

int schema_version(void)
{
    return STEP_COUNT;
}

static enum err read_pragma(struct db *db, const char *sql, int64_t *ret_value, struct error *error)
{
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return db_fail(db, code, error);
    code = sqlite3_step(statement);
    *ret_value = code == SQLITE_ROW ? db_int(statement, 0) : 0;
    sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? ERR_OK : db_fail(db, code, error);
}

enum err schema_read_version(struct db *db, int64_t *ret_version, struct error *error)
{
    int64_t owner;
    int64_t tables;
    enum err err = read_pragma(db, "PRAGMA application_id", &owner, error);
    if (!err)
        err = read_pragma(db, "PRAGMA user_version", ret_version, error);
    if (!err)
        err = read_pragma(db, "SELECT count(*) FROM sqlite_schema", &tables, error);
    if (err)
        return err;
    if (owner != SCHEMA_APPLICATION_ID && (owner != 0 || tables != 0))
        return error_set(error, ERR_INVALID, "%s is a database, but not one of Tally", db->path);
    if (*ret_version > STEP_COUNT)
        return error_set(error, ERR_INVALID,
                         "%s has schema version %d, and this Tally knows up to %d: use a newer one",
                         db->path, (int)*ret_version, STEP_COUNT);
    return ERR_OK;
}

enum err schema_prepare(struct db *db, struct error *error)
{
    int64_t version;
    enum err err = schema_read_version(db, &version, error);
    if (err || version == STEP_COUNT)
        return err;

    err = db_execute(db, "BEGIN IMMEDIATE", error);
    for (int64_t step = version; !err && step < STEP_COUNT; step++)
        err = db_execute(db, steps[step], error);
    if (!err && version < VERSION_OF_SUMS)
        err = sums_add_all(db, error);
    char stamp[128];
    snprintf(stamp, sizeof(stamp), "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
             SCHEMA_APPLICATION_ID, STEP_COUNT);
    if (!err)
        err = db_execute(db, stamp, error);
    if (err && !sqlite3_get_autocommit(db->handle))
        (void)db_execute(db, "ROLLBACK", NULL);
    return err;
}
