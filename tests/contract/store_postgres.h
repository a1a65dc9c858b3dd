/* store_postgres.h - stores on the PostgreSQL server that $TALLY_TEST_POSTGRES names, each in a
 * schema of its own, which is called as the folder of its rig is.
 *
 * Without the variable there is nothing to test: postgres_or_skip() says so. */
#ifndef STORE_POSTGRES_H
#define STORE_POSTGRES_H

#include "contract/store_rig.h"

#include <libpq-fe.h>

#include "store/postgres/postgres.h"

#define SKIPPED 77

/* Ends the program when there is no server: as skipped, or where all has to run as failed. */
static inline void postgres_or_skip(void)
{
    const char *url = getenv("TALLY_TEST_POSTGRES");
    const char *ci = getenv("CI");
    if (url && *url)
        return;
    printf("skipped: TALLY_TEST_POSTGRES names no server\n");
    exit(ci && strcmp(ci, "true") == 0 ? EXIT_FAILURE : SKIPPED);
}

static inline const char *postgres_schema(const char *folder)
{
    return strrchr(folder, '/') + 1;
}

/* The URL of the server with the schema to work in, and more of what libpq takes. */
static inline void postgres_url(const char *folder, const char *more, char *to, size_t size)
{
    const char *url = getenv("TALLY_TEST_POSTGRES");
    snprintf(to, size, "%s%cconnect_timeout=60&options=-csearch_path%%3D%%22%s%%22%s", url,
             strchr(url, '?') ? '&' : '?', postgres_schema(folder), more);
}

static inline PGconn *postgres_connect(void)
{
    PGconn *connection = PQconnectdb(getenv("TALLY_TEST_POSTGRES"));
    if (PQstatus(connection) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(connection));
    return connection;
}

/* Runs `sql` in the schema of the folder. */
static inline void postgres_run_in(PGconn *connection, const char *folder, const char *sql)
{
    char path[128];
    snprintf(path, sizeof(path), "SET client_min_messages=error; SET search_path=\"%s\"",
             postgres_schema(folder));
    PQclear(PQexec(connection, path));
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s", PQresultErrorMessage(result));
    PQclear(result);
}

static inline void postgres_run(const char *folder, const char *sql)
{
    PGconn *connection = postgres_connect();
    postgres_run_in(connection, folder, sql);
    PQfinish(connection);
}

static inline bool postgres_takes(const char *folder, const char *sql)
{
    PGconn *connection = postgres_connect();
    postgres_run_in(connection, folder, "SELECT 1");
    PGresult *result = PQexec(connection, sql);
    bool takes = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    PQfinish(connection);
    return takes;
}

/* The first value of the first row; "" without one. */
static inline const char *postgres_ask(const char *folder, const char *sql)
{
    static char answer[256];
    PGconn *connection = postgres_connect();
    postgres_run_in(connection, folder, "SELECT 1");
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s", PQresultErrorMessage(result));
    snprintf(answer, sizeof(answer), "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(connection);
    return answer;
}

#define POSTGRES_FALSIFY_COUNT                                 \
    "UPDATE counts SET count = 555 WHERE kind = 1 AND item = " \
    "(SELECT number FROM entries WHERE id = 'item')"
#define POSTGRES_FORGET_SUM "UPDATE entries SET checksum = NULL WHERE id = 'c'"

static inline void postgres_create_schema(const char *folder)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "CREATE SCHEMA IF NOT EXISTS \"%s\"", postgres_schema(folder));
    postgres_run(folder, sql);
}

static inline void postgres_remove(const char *folder)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "DROP SCHEMA IF EXISTS \"%s\" CASCADE", postgres_schema(folder));
    postgres_run(folder, sql);
}

static inline struct store *postgres_open(struct env *env, const char *folder,
                                          enum postgres_members members, bool names)
{
    char url[512];
    struct store *store;
    struct error error;
    postgres_create_schema(folder);
    postgres_url(folder, "", url, sizeof(url));
    struct postgres_store_options options = {.url = url, .members = members, .names = names};
    if (postgres_store_open(env, &options, &store, &error))
        fail_msg("%s", error.text);
    return store;
}

/* Triggers that say no: at once, or not before COMMIT, which ends the whole transaction. A like of
 * an item that is there does not touch its row, but the history tells of it. */
static inline void postgres_refuse(const char *folder, const char *pattern, const char *how)
{
    bool late = strcmp(how, "ROLLBACK") == 0;
    const char *constraint = late ? "CONSTRAINT" : "";
    const char *when = late ? "AFTER" : "BEFORE";
    const char *deferred = late ? "DEFERRABLE INITIALLY DEFERRED" : "";
    char sql[1400];
    snprintf(sql, sizeof(sql),
             "CREATE FUNCTION say_no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
             "IF NEW.id LIKE '%s' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;"
             "CREATE FUNCTION say_no_to_item() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
             "IF EXISTS(SELECT 1 FROM entries WHERE number = NEW.item AND id LIKE '%s') THEN RAISE "
             "EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;"
             "CREATE %s TRIGGER no %s INSERT OR UPDATE ON entries %s FOR EACH ROW EXECUTE FUNCTION "
             "say_no(); CREATE %s TRIGGER no %s INSERT ON history %s FOR EACH ROW EXECUTE FUNCTION "
             "say_no_to_item()",
             pattern, pattern, constraint, when, deferred, constraint, when, deferred);
    postgres_run(folder, sql);
}

static inline void postgres_accept(const char *folder)
{
    postgres_run(folder, "DROP FUNCTION say_no() CASCADE; DROP FUNCTION say_no_to_item() CASCADE");
}

static inline bool postgres_table_holds(PGconn *connection, const char *table, const char *text)
{
    char sql[512];
    char hex[256];
    for (size_t i = 0; text[i] && i < 100; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)text[i]);
    snprintf(sql, sizeof(sql),
             "SELECT 1 FROM \"%s\" t WHERE strpos(t::text, '%s') > 0 OR strpos(t::text, '%s') > 0 "
             "LIMIT 1",
             table, text, hex);
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s", PQresultErrorMessage(result));
    bool holds = PQntuples(result) > 0;
    PQclear(result);
    return holds;
}

/* In any row of any table, as text or as bytes. Those of rows that were removed are the
 * server's to clean up. */
static inline bool postgres_holds(const char *folder, const char *text)
{
    PGconn *connection = postgres_connect();
    postgres_run_in(connection, folder, "SELECT 1");
    PGresult *tables =
        PQexec(connection, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()");
    bool holds = false;
    for (int i = 0; i < PQntuples(tables) && !holds; i++)
        holds = postgres_table_holds(connection, PQgetvalue(tables, i, 0), text);
    PQclear(tables);
    PQfinish(connection);
    return holds;
}

#endif
