/* about.c - commands about the server and about this program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "cli/answer.h"
#include "cli/help.h"
#include "cli/verbs.h"

/* --- status ----------------------------------------------------------------------- */

/* Lines of INFO that say how the server is, in our words. Those that a server does not
 * have are left out. */
static const struct {
    const char *field;
    const char *name;
    const char *unit; /* "bytes", "s": shown as people read them; "text": only if there is one;
                         "about": an estimate */
} status_lines[] = {
    {"tally_version", "version", ""},
    {"uptime_in_seconds", "up for", "s"},
    {"ack", "an answer waits for", ""},
    {"counters", "counters", ""},
    {"items", "items", ""},
    {"reactions_held", "reactions", ""},
    {"users", "users", ""},
    {"instantaneous_ops_per_sec", "requests a second", ""},
    {"connected_clients", "clients", ""},
    {"used_memory_rss", "memory", "bytes"},
    {"maxmemory", "memory limit", "limit"},
    {"log_disk_bytes", "log on disk", "bytes"},
    {"log_sync_usec_mean", "sync of the log takes", "us"},
    {"pipeline", "pipeline into the store", ""},
    {"pipeline_paused_reason", "paused because", "text"},
    {"pipeline_lag_events", "events not in the store yet", ""},
    {"pipeline_lag_ms", "the oldest of them is", "ms"},
    {"store_bytes", "store on disk", "bytes"},
    {"store_retrying", "events being retried", ""},
    {"store_dead_letters", "dead letters", ""},
    {"cold_loads", "loaded from the store", ""},
    {"audit_drifts", "drifts found", ""},
    {"audit_repairs", "drifts repaired", ""},
    {"memory_refused_writes", "writes refused for memory", ""},
    {"refused_writes", "writes refused", ""},
};

/* The value of "name:" at the beginning of a line of INFO. */
static struct slice info_field(struct slice info, const char *name)
{
    size_t size = strlen(name);
    const char *end = info.data + info.size;
    for (const char *at = info.data; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            stop = end;
        size_t length = (size_t)(stop - at);
        if (length > size && memcmp(at, name, size) == 0 && at[size] == ':') {
            size_t kept = length - size - 1;
            if (kept > 0 && at[length - 1] == '\r')
                kept--;
            return (struct slice){at + size + 1, kept};
        }
        at = stop + 1;
    }
    return (struct slice){NULL, 0};
}

static void format_bytes(char *to, size_t size, uint64_t bytes)
{
    if (bytes >= (uint64_t)1 << 30)
        (void)snprintf(to, size, "%.1f GiB", (double)bytes / (1 << 30));
    else if (bytes >= 1 << 20)
        (void)snprintf(to, size, "%.1f MiB", (double)bytes / (1 << 20));
    else
        (void)snprintf(to, size, "%.1f KiB", (double)bytes / (1 << 10));
}

static void format_seconds(char *to, size_t size, uint64_t seconds)
{
    if (seconds >= 86400)
        (void)snprintf(to, size, "%llu d %llu h", (unsigned long long)seconds / 86400,
                       (unsigned long long)seconds % 86400 / 3600);
    else if (seconds >= 3600)
        (void)snprintf(to, size, "%llu h %llu min", (unsigned long long)seconds / 3600,
                       (unsigned long long)seconds % 3600 / 60);
    else if (seconds >= 60)
        (void)snprintf(to, size, "%llu min %llu s", (unsigned long long)seconds / 60,
                       (unsigned long long)seconds % 60);
    else
        (void)snprintf(to, size, "%llu s", (unsigned long long)seconds);
}

static struct slice readable(struct slice value, const char *unit, char *room, size_t size)
{
    uint64_t number;
    if (!unit[0] || !decimal_parse_unsigned(value, &number))
        return value;
    if (strcmp(unit, "s") == 0)
        format_seconds(room, size, number);
    else if (strcmp(unit, "us") == 0)
        (void)snprintf(room, size, "%.2f ms", (double)number / 1000);
    else if (strcmp(unit, "ms") == 0)
        (void)snprintf(room, size, "%llu ms", (unsigned long long)number);
    else if (strcmp(unit, "limit") == 0 && number == 0)
        (void)snprintf(room, size, "none");
    else if (strcmp(unit, "about") == 0)
        (void)snprintf(room, size, "%s%llu", number > 0 ? "about " : "",
                       (unsigned long long)number);
    else
        format_bytes(room, size, number);
    return slice_of(room);
}

/* What INFO says elsewhere of the number: many nodes can only estimate what waits. */
static const char *unit_of(struct slice info, const char *field, const char *unit)
{
    if (strcmp(field, "pipeline_lag_events") != 0)
        return unit;
    return slice_equal(info_field(info, "pipeline_lag_estimated"), SLICE("1")) ? "about" : unit;
}

static void print_status(struct session *session, struct slice info)
{
    struct print_table table;
    char address[SETTINGS_HOST_BYTES + 16];
    print_table_init(&table, "tallyd >is");
    print_table_add(&table, SLICE("address"));
    print_table_add(&table,
                    slice_of(settings_address(&session->settings, address, sizeof(address))));
    for (size_t i = 0; i < sizeof(status_lines) / sizeof(status_lines[0]); i++) {
        struct slice value = info_field(info, status_lines[i].field);
        char room[64];
        if (!value.data || (strcmp(status_lines[i].unit, "text") == 0 && value.size == 0))
            continue;
        const char *unit = unit_of(info, status_lines[i].field, status_lines[i].unit);
        print_table_add(&table, slice_of(status_lines[i].name));
        print_table_add(&table, readable(value, unit, room, sizeof(room)));
    }
    print_table_write(&table, session->colours);
    print_table_done(&table);
}

/* All of INFO, numbers as numbers. */
static json_t *json_of_info(struct slice info)
{
    json_t *object = json_object();
    const char *end = info.data + info.size;
    for (const char *at = info.data; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            stop = end;
        const char *colon = memchr(at, ':', (size_t)(stop - at));
        if (colon && *at != '#') {
            char name[128];
            (void)snprintf(name, sizeof(name), "%.*s", (int)(colon - at), at);
            struct slice value = info_field((struct slice){at, (size_t)(stop - at)}, name);
            int64_t number;
            (void)json_object_set_new(object, name,
                                      decimal_parse(value, &number) ? json_integer(number)
                                                                    : print_json_bytes(value));
        }
        at = stop + 1;
    }
    return object;
}

int verb_status(struct session *session, const struct command_line *line)
{
    (void)line;
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "INFO", NULL);
    if (!reply)
        return code;
    struct slice info = {reply->str, reply->len};
    if (session->json)
        print_json_line(json_of_info(info));
    else
        print_status(session, info);
    freeReplyObject(reply);
    return EXIT_FINE;
}

/* --- the rest --------------------------------------------------------------------- */

int verb_raw(struct session *session, const struct command_line *line)
{
    size_t count = (size_t)line->word_count;
    struct slice *words = memory_take(count * sizeof(*words));
    for (size_t i = 0; i < count; i++)
        words[i] = slice_of(line->words[i]);
    int code = EXIT_FINE;
    redisReply *reply = session_send(session, words, count, &code);
    free(words);
    if (!reply)
        return code;
    if (session->json)
        print_json_line(answer_json(reply));
    else
        answer_print_raw(reply);
    freeReplyObject(reply);
    return EXIT_FINE;
}

int verb_help(struct session *session, const struct command_line *line)
{
    if (line->word_count == 0) {
        help_print(session->colours);
        return EXIT_FINE;
    }
    const struct command *command = command_find(line->words[0]);
    const char *guess = command ? NULL : command_guess(line->words[0]);
    if (!command)
        return session_fail(EXIT_USAGE, "there is no command '%s'; %s%s", line->words[0],
                            guess ? "did you mean " : "try: tally help", guess ? guess : "");
    help_print_command(command, session->colours);
    return EXIT_FINE;
}

int verb_version(struct session *session, const struct command_line *line)
{
    (void)line;
    int code = EXIT_FINE;
    (void)puts("tally " TALLY_VERSION);
    redisReply *reply = session_call(session, &code, "INFO", "server", NULL);
    if (!reply)
        return code;
    struct slice version = info_field((struct slice){reply->str, reply->len}, "tally_version");
    if (version.data)
        (void)printf("tallyd %.*s\n", SLICE_ARGS(version));
    else
        code = session_fail(EXIT_REFUSED, "what listens there is not tallyd");
    freeReplyObject(reply);
    return code;
}
