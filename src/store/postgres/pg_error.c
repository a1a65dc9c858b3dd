/* pg_error.c - the one place where PostgreSQL's errors become ours: whose fault it is, whether to
 * try again at once, and what a person should do about it. */
#include <stdio.h>
#include <string.h>

#include "store/postgres/pg_own.h"

static bool is_class(const char *state, const char *class)
{
    return strncmp(state, class, 2) == 0;
}

static bool is_state(const char *state, const char *wanted)
{
    return strcmp(state, wanted) == 0;
}

/* An outage, and not the fault of what was asked: connection, resources, an operator, the system,
 * rights, transactions that cannot be, our own tables, damage. */
static bool is_outage(const char *state)
{
    static const char *const classes[] = {"08", "0A", "24", "25", "26", "28", "2D",
                                          "34", "3B", "3D", "3F", "42", "53", "55",
                                          "57", "58", "72", "F0", "HV", "XX"};
    if (state[0] == 0)
        return true;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (is_class(state, classes[i]))
            return true;
    }
    return false;
}

/* Two who make the row of the same id at once: the other was quicker, and the next attempt finds
 * it. */
static bool is_race(const PGresult *result)
{
    const char *constraint = result ? PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME) : NULL;
    return constraint && strcmp(constraint, "entries_id_key") == 0;
}

/* What a person should do about it. */
static const char *advice(const char *state)
{
    if (is_state(state, "42P01") || is_state(state, "42703") || is_class(state, "3F"))
        return "a table or column of ours is missing: ";
    if (is_class(state, "25"))
        return "it cannot be written: ";
    if (is_state(state, "53100"))
        return "no space left: ";
    if (is_class(state, "53"))
        return "the server is at a limit: ";
    if (is_state(state, "57014"))
        return "it took too long: ";
    if (is_class(state, "28") || is_state(state, "42501"))
        return "we are not allowed to: ";
    if (is_class(state, "XX"))
        return "DAMAGED: ";
    return "";
}

static int line_size(const char *text)
{
    return (int)strcspn(text, "\n");
}

enum err pg_fail(struct pg *pg, const PGresult *result, struct error *error)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (!text)
        text = pg->handle ? PQerrorMessage(pg->handle) : "not connected";
    snprintf(pg->state, sizeof(pg->state), "%s", state ? state : "");
    pg->is_conflict = is_class(pg->state, "40") || is_state(pg->state, "55P03") ||
                      (is_state(pg->state, "23505") && is_race(result));
    enum err err = ERR_REFUSED;
    if (pg->is_conflict || is_outage(pg->state))
        err = ERR_UNAVAILABLE;
    if (error && err == ERR_REFUSED)
        (void)error_set(error, err, "%.*s", line_size(text), text);
    else if (error)
        (void)error_set(error, err, "PostgreSQL: %s%.*s", advice(pg->state), line_size(text), text);
    if (!pg_is_open(pg) || is_state(pg->state, "26000") || strncmp(pg->state, "57P", 3) == 0)
        pg_close(pg);
    return err;
}

enum err pg_give_up(struct pg *pg, const char *why, struct error *error)
{
    pg->state[0] = 0;
    pg->is_conflict = false;
    pg_close(pg);
    return error_set(error, ERR_UNAVAILABLE, "PostgreSQL: %s", why);
}
