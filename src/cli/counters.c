/* counters.c - commands that read and write counters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/verbs.h"

#define LIST_LIMIT  1000
#define IDS_AT_ONCE 500u

/* --- reading ---------------------------------------------------------------------- */

static void print_value(struct session *session, struct slice id, const redisReply *value)
{
    char room[ANSWER_NUMBER_BYTES];
    if (session->json)
        print_json_line(json_pack(
            "{s:o, s:o}", "id", print_json_bytes(id), "value",
            answer_is_nil(value) ? json_null() : print_json_bytes(answer_text(value, room))));
    else
        answer_print_raw(value);
}

static int get_one(struct session *session, const char *id)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "GET", id, NULL);
    if (!reply)
        return code;
    bool is_there = !answer_is_nil(reply);
    if (is_there || session->json)
        print_value(session, slice_of(id), reply);
    freeReplyObject(reply);
    return is_there ? EXIT_FINE
                    : session_fail(EXIT_NOT_FOUND, "there is no counter %s; try: tally list", id);
}

/* An id in each row, with its value; those that are not there get a dash. */
static size_t print_values(struct session *session, const struct slice *ids,
                           const redisReply *values, struct print_table *table)
{
    size_t missing = 0;
    char room[ANSWER_NUMBER_BYTES];
    for (size_t i = 0; i < values->elements; i++) {
        const redisReply *value = values->element[i];
        missing += answer_is_nil(value);
        if (session->json) {
            print_value(session, ids[i], value);
            continue;
        }
        print_table_add(table, ids[i]);
        print_table_add(table, answer_is_nil(value) ? SLICE("-") : answer_text(value, room));
    }
    return missing;
}

/* The values of some ids, as many at a time as a command can name. */
static int read_values(struct session *session, const struct slice *ids, size_t count,
                       struct print_table *table, size_t *ret_missing)
{
    struct slice words[IDS_AT_ONCE + 1] = {SLICE("MGET")};
    int code = EXIT_FINE;
    for (size_t start = 0; start < count; start += IDS_AT_ONCE) {
        size_t some = count - start < IDS_AT_ONCE ? count - start : IDS_AT_ONCE;
        memcpy(words + 1, ids + start, some * sizeof(*ids));
        redisReply *reply = session_send(session, words, some + 1, &code);
        if (!reply)
            return code;
        *ret_missing += print_values(session, ids + start, reply, table);
        freeReplyObject(reply);
    }
    return EXIT_FINE;
}

int verb_get(struct session *session, const struct command_line *line)
{
    if (line->word_count == 1)
        return get_one(session, line->words[0]);

    size_t count = (size_t)line->word_count;
    struct slice *ids = memory_take(count * sizeof(*ids));
    for (size_t i = 0; i < count; i++)
        ids[i] = slice_of(line->words[i]);
    struct print_table table;
    size_t missing = 0;
    print_table_init(&table, "id >value");
    int code = read_values(session, ids, count, &table, &missing);
    print_table_write(&table, session->colours);
    print_table_done(&table);
    free(ids);
    return code == EXIT_FINE && missing > 0 ? EXIT_NOT_FOUND : code;
}

int verb_info(struct session *session, const struct command_line *line)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "COUNTER.INFO", line->words[0], NULL);
    if (!reply)
        return code;
    if (session->json)
        print_json_line(answer_json_map(reply));
    else
        answer_print_map(reply, session->colours);
    freeReplyObject(reply);
    return EXIT_FINE;
}

/* Values of a page of SCAN. */
static int list_ids(struct session *session, const redisReply *found, size_t count,
                    struct print_table *table)
{
    struct slice *ids = memory_take((count + 1) * sizeof(*ids));
    size_t missing = 0;
    for (size_t i = 0; i < count; i++)
        ids[i] = (struct slice){found->element[i]->str, found->element[i]->len};
    int code = read_values(session, ids, count, table, &missing);
    free(ids);
    return code;
}

static int list_all(struct session *session, const char *pattern, uint64_t limit,
                    struct print_table *table)
{
    char cursor[64] = "0";
    uint64_t printed = 0;
    int code = EXIT_FINE;
    do {
        redisReply *page =
            session_call(session, &code, "SCAN", cursor, "MATCH", pattern, "COUNT", "1000", NULL);
        if (!page)
            return code;
        const redisReply *ids = page->element[1];
        uint64_t count = ids->elements;
        if (limit > 0 && count > limit - printed)
            count = limit - printed;
        if (count > 0)
            code = list_ids(session, ids, count, table);
        printed += count;
        (void)snprintf(cursor, sizeof(cursor), "%s", page->element[0]->str);
        freeReplyObject(page);
    } while (code == EXIT_FINE && strcmp(cursor, "0") != 0 && !ferror(stdout) &&
             (limit == 0 || printed < limit));
    if (code == EXIT_FINE && limit > 0 && printed == limit && strcmp(cursor, "0") != 0)
        session_remark(session, "there may be more; try: --limit 0");
    return code;
}

int verb_list(struct session *session, const struct command_line *line)
{
    int64_t limit;
    struct error error;
    if (command_number(line, COMMAND_LIMIT, LIST_LIMIT, 0, INT64_MAX, &limit, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    struct print_table table;
    print_table_init(&table, "id >value");
    int code =
        list_all(session, line->word_count > 0 ? line->words[0] : "*", (uint64_t)limit, &table);
    print_table_write(&table, session->colours);
    print_table_done(&table);
    return code;
}

/* --- writing ---------------------------------------------------------------------- */

/* A write whose answer is the new value. */
static int write_value(struct session *session, const struct command_line *line,
                       const char *command, const char *amount)
{
    struct ask ask;
    ask_begin(&ask, command);
    ask_add(&ask, line->words[0]);
    if (amount)
        ask_add(&ask, amount);
    ask_add_write_options(&ask, line);
    int code = EXIT_FINE;
    redisReply *reply = ask_send(session, &ask, &code);
    if (!reply)
        return code;
    print_value(session, slice_of(line->words[0]), reply);
    freeReplyObject(reply);
    return EXIT_FINE;
}

int verb_add(struct session *session, const struct command_line *line)
{
    return write_value(session, line, "COUNTER.ADD", line->word_count > 1 ? line->words[1] : "1");
}

int verb_set(struct session *session, const struct command_line *line)
{
    return write_value(session, line, "COUNTER.SET", line->words[1]);
}

int verb_reset(struct session *session, const struct command_line *line)
{
    return write_value(session, line, "COUNTER.RESET",
                       line->word_count > 1 ? line->words[1] : NULL);
}

int verb_create(struct session *session, const struct command_line *line)
{
    struct ask ask;
    ask_begin(&ask, "COUNTER.CREATE");
    ask_add(&ask, line->words[0]);
    ask_add_option(&ask, line, "SHARDS", COMMAND_SHARDS);
    ask_add_option(&ask, line, "POLICY", COMMAND_POLICY);
    ask_add_option(&ask, line, "FLOOR", COMMAND_FLOOR);
    ask_add_option(&ask, line, "IDLE", COMMAND_IDLE);
    ask_add_write_options(&ask, line);
    int code = EXIT_FINE;
    redisReply *reply = ask_send(session, &ask, &code);
    if (!reply)
        return code;
    if (session->json)
        print_json_line(json_pack("{s:o, s:b}", "id", print_json_bytes(slice_of(line->words[0])),
                                  "created", 1));
    freeReplyObject(reply);
    return EXIT_FINE;
}

int verb_delete(struct session *session, const struct command_line *line)
{
    if (!ask_is_sure(line, "delete for good"))
        return EXIT_USAGE;
    struct ask ask;
    int64_t deleted = 0;
    for (int i = 0; i < line->word_count; i++) {
        int code = EXIT_FINE;
        ask_begin(&ask, "DEL");
        ask_add(&ask, line->words[i]);
        redisReply *reply = ask_send(session, &ask, &code);
        if (!reply)
            return code;
        deleted += answer_number(reply);
        freeReplyObject(reply);
    }
    if (session->json)
        print_json_line(json_pack("{s:I}", "deleted", (json_int_t)deleted));
    else
        (void)printf("%lld\n", (long long)deleted);
    return deleted == line->word_count ? EXIT_FINE : EXIT_NOT_FOUND;
}
