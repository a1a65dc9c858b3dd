/* pg_connect.c - opening and closing a connection, with settings that our statements need. */
#include <stdio.h>
#include <string.h>

#include "store/postgres/pg_own.h"

#define CONNECT_TIMEOUT_S "2"
#define GRACE_MS          5000u /* the server ends a statement by itself: we wait a bit longer */

void pg_init(struct pg *pg)
{
    *pg = (struct pg){.handle = NULL};
    buffer_init(&pg->texts, PG_BYTES_MAX);
}

void pg_done(struct pg *pg)
{
    pg_close(pg);
    buffer_done(&pg->texts);
}

void pg_close(struct pg *pg)
{
    pg_forget_result(pg);
    if (pg->handle)
        PQfinish(pg->handle);
    pg->handle = NULL;
    memset(pg->prepared, 0, sizeof(pg->prepared));
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* What the URL does not say for itself. */
struct defaults {
    const char *keywords[32];
    const char *values[32];
    unsigned count;
};

static void add_default(struct defaults *defaults, const PQconninfoOption *given, const char *name,
                        const char *value)
{
    for (; given->keyword; given++) {
        if (strcmp(given->keyword, name) == 0 && given->val)
            return;
    }
    defaults->keywords[defaults->count] = name;
    defaults->values[defaults->count++] = value;
}

static enum err connect_to(struct pg *pg, const struct pg_options *options, struct error *error)
{
    char *why = NULL;
    PQconninfoOption *given = PQconninfoParse(options->url, &why);
    PQfreemem(why); /* it may repeat the URL, and so the password */
    if (!given)
        return error_set(error, ERR_INVALID,
                         "the URL of the store is none that libpq takes: "
                         "postgres://user:password@host:port/database");
    struct defaults defaults = {.count = 0};
    add_default(&defaults, given, "fallback_application_name", "tally");
    add_default(&defaults, given, "connect_timeout", CONNECT_TIMEOUT_S);
    add_default(&defaults, given, "keepalives_idle", "10");
    add_default(&defaults, given, "keepalives_interval", "5");
    add_default(&defaults, given, "keepalives_count", "3");
    add_default(&defaults, given, "tcp_user_timeout", "20000");
    add_default(&defaults, given, "target_session_attrs",
                options->read_only ? "primary" : "read-write");
    /* libpq spreads the URL out at its place, and what is later wins. */
    defaults.keywords[defaults.count] = "dbname";
    defaults.values[defaults.count++] = options->url;
    defaults.keywords[defaults.count] = "client_encoding";
    defaults.values[defaults.count] = "UTF8";
    PQconninfoFree(given);
    pg->handle = PQconnectdbParams(defaults.keywords, defaults.values, 1);
    if (PQstatus(pg->handle) != CONNECTION_OK)
        return pg_fail(pg, NULL, error);
    PQsetNoticeReceiver(pg->handle, ignore_notice, NULL);
    return PQsetnonblocking(pg->handle, 1) == 0 ? ERR_OK : pg_fail(pg, NULL, error);
}

enum err pg_connect(struct pg *pg, const struct pg_options *options, struct error *error)
{
    pg_close(pg);
    enum err err = connect_to(pg, options, error);
    if (err)
        return err;
    pg->wait_ms = options->statement_timeout_ms + GRACE_MS;
    /* Plans are made once: their arrays have thousands of elements, or two; and tables that are
     * empty now may have millions of rows before anybody makes a new plan. Readers go by the index
     * in all they do. */
    char sql[768];
    snprintf(sql, sizeof(sql),
             "SET statement_timeout=%u; SET lock_timeout=%u;"
             "SET idle_in_transaction_session_timeout='60s';"
             "SET plan_cache_mode=force_generic_plan; SET work_mem='64MB'; SET jit=off;"
             "SET enable_seqscan=off; SET max_parallel_workers_per_gather=0;"
             "SET default_transaction_isolation='%s'%s",
             options->statement_timeout_ms, options->lock_timeout_ms,
             options->read_only ? "repeatable read" : "read committed",
             options->read_only
                 ? "; SET default_transaction_read_only=on; SET enable_hashjoin=off; "
                   "SET enable_mergejoin=off"
                 : "");
    err = pg_execute(pg, sql, error);
    const char *encoding = err ? NULL : PQparameterStatus(pg->handle, "server_encoding");
    if (encoding && strcmp(encoding, "UTF8") != 0)
        err = error_set(error, ERR_INVALID, "the database is in %s: make one with ENCODING 'UTF8'",
                        encoding);
    if (err)
        pg_close(pg);
    return err;
}
