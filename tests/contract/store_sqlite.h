/* store_sqlite.h - stores in a SQLite file each, and triggers that make them refuse. */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include "contract/store_rig.h"

#include <sqlite3.h>

#include "store/sqlite/sqlite.h"

static inline struct store *open_sqlite(struct env *env, const char *folder)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tally.db", folder);
    struct sqlite_store_options options = {.path = path};
    struct store *store;
    struct error error;
    if (sqlite_store_open(env, &options, &store, &error))
        fail_msg("%s", error.text);
    return store;
}

static inline void run_sqlite(const char *folder, const char *sql)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tally.db", folder);
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    char *why = NULL;
    if (sqlite3_exec(handle, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(handle);
}

static inline bool takes_sqlite(const char *folder, const char *sql)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tally.db", folder);
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    int code = sqlite3_exec(handle, sql, NULL, NULL, NULL);
    sqlite3_close(handle);
    return code == SQLITE_OK;
}

static inline void refuse_sqlite(const char *folder, const char *pattern, const char *how)
{
    char sql[512];
    snprintf(sql, sizeof(sql),
             "CREATE TRIGGER no_add BEFORE INSERT ON entries WHEN NEW.id LIKE '%s' "
             "BEGIN SELECT RAISE(%s, 'not this one'); END;"
             "CREATE TRIGGER no_set BEFORE UPDATE ON entries WHEN NEW.id LIKE '%s' "
             "BEGIN SELECT RAISE(%s, 'not this one'); END;",
             pattern, how, pattern, how);
    run_sqlite(folder, sql);
}

static inline void accept_sqlite(const char *folder)
{
    run_sqlite(folder, "DROP TRIGGER no_add; DROP TRIGGER no_set");
}

#endif
