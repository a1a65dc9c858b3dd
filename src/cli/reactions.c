/* reactions.c - commands about who likes what. */
#include <stdio.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/verbs.h"

#define MEMBERS_LIMIT 1000
#define HISTORY_LIMIT 100

/* --- writing ---------------------------------------------------------------------- */

/* Commands that answer 1 when they changed something. */
static int change(struct session *session, const struct command_line *line, const char *command)
{
    struct ask ask;
    ask_begin(&ask, command);
    ask_add(&ask, line->words[0]);
    ask_add(&ask, line->words[1]);
    ask_add_write_options(&ask, line);
    int code = EXIT_FINE;
    redisReply *reply = ask_send(session, &ask, &code);
    if (!reply)
        return code;
    if (session->json)
        print_json_line(json_pack(
            "{s:o, s:o, s:b}", "item", print_json_bytes(slice_of(line->words[0])), "user",
            print_json_bytes(slice_of(line->words[1])), "changed", answer_number(reply) != 0));
    else
        (void)printf("%lld\n", (long long)answer_number(reply));
    freeReplyObject(reply);
    return EXIT_FINE;
}

int verb_like(struct session *session, const struct command_line *line)
{
    return change(session, line, "LIKE");
}

int verb_unlike(struct session *session, const struct command_line *line)
{
    return change(session, line, "UNLIKE");
}

int verb_dislike(struct session *session, const struct command_line *line)
{
    return change(session, line, "DISLIKE");
}

int verb_undislike(struct session *session, const struct command_line *line)
{
    return change(session, line, "UNDISLIKE");
}

/* Counts as an object of strings, as they are over HTTP. */
static json_t *json_counts(const redisReply *counts)
{
    json_t *object = json_object();
    char name[ANSWER_NUMBER_BYTES];
    char value[ANSWER_NUMBER_BYTES];
    for (size_t i = 0; counts && i + 1 < counts->elements; i += 2) {
        struct slice kind = answer_text(counts->element[i], name);
        (void)json_object_setn_new(object, kind.data, kind.size,
                                   print_json_bytes(answer_text(counts->element[i + 1], value)));
    }
    return object;
}

static void print_counts(const redisReply *counts)
{
    char name[ANSWER_NUMBER_BYTES];
    char value[ANSWER_NUMBER_BYTES];
    for (size_t i = 0; counts && i + 1 < counts->elements; i += 2) {
        struct slice kind = answer_text(counts->element[i], name);
        struct slice count = answer_text(counts->element[i + 1], value);
        (void)printf("  %.*s %.*s", SLICE_ARGS(kind), SLICE_ARGS(count));
    }
}

/* Sends a command that answers the reaction now held and the counts. */
static int hold(struct session *session, const struct command_line *line, struct ask *ask)
{
    ask_add_write_options(ask, line);
    int code = EXIT_FINE;
    redisReply *reply = ask_send(session, ask, &code);
    if (!reply)
        return code;
    const redisReply *held = answer_field(reply, "reaction");
    const redisReply *counts = answer_field(reply, "counts");
    char room[ANSWER_NUMBER_BYTES];
    if (session->json) {
        print_json_line(json_pack(
            "{s:o, s:o, s:o, s:b, s:o}", "item", print_json_bytes(slice_of(line->words[0])), "user",
            print_json_bytes(slice_of(line->words[1])), "reaction", answer_json(held), "changed",
            answer_field_number(reply, "changed") != 0, "counts", json_counts(counts)));
    } else {
        struct slice kind = answer_is_nil(held) ? SLICE("none") : answer_text(held, room);
        (void)printf("%.*s ", SLICE_ARGS(kind));
        print_counts(counts);
        (void)fputc('\n', stdout);
    }
    freeReplyObject(reply);
    return EXIT_FINE;
}

int verb_react(struct session *session, const struct command_line *line)
{
    struct ask ask;
    ask_begin(&ask, "REACT");
    for (int i = 0; i < 3; i++)
        ask_add(&ask, line->words[i]);
    return hold(session, line, &ask);
}

int verb_unreact(struct session *session, const struct command_line *line)
{
    struct ask ask;
    ask_begin(&ask, "UNREACT");
    ask_add(&ask, line->words[0]);
    ask_add(&ask, line->words[1]);
    return hold(session, line, &ask);
}

int verb_toggle(struct session *session, const struct command_line *line)
{
    struct ask ask;
    ask_begin(&ask, "TOGGLE");
    ask_add(&ask, line->words[0]);
    ask_add(&ask, line->words[1]);
    ask_add_option(&ask, line, "KIND", COMMAND_KIND);
    return hold(session, line, &ask);
}

/* --- reading ---------------------------------------------------------------------- */

int verb_reaction(struct session *session, const struct command_line *line)
{
    int code = EXIT_FINE;
    redisReply *reply =
        session_call(session, &code, "REACTION", line->words[0], line->words[1], NULL);
    if (!reply)
        return code;
    bool is_there = !answer_is_nil(reply);
    if (session->json)
        print_json_line(
            json_pack("{s:o, s:o, s:o}", "item", print_json_bytes(slice_of(line->words[0])), "user",
                      print_json_bytes(slice_of(line->words[1])), "reaction", answer_json(reply)));
    else if (is_there)
        answer_print_raw(reply);
    freeReplyObject(reply);
    return is_there ? EXIT_FINE
                    : session_fail(EXIT_NOT_FOUND, "%s holds no reaction on %s", line->words[1],
                                   line->words[0]);
}

/* The kinds are the server's, so that the columns are known with the first answer. */
static void add_counts(struct print_table *table, const char *item, const redisReply *counts)
{
    char room[ANSWER_NUMBER_BYTES];
    print_table_add(table, slice_of(item));
    for (size_t i = 0; i + 1 < counts->elements; i += 2)
        print_table_add(table, answer_text(counts->element[i + 1], room));
}

static void name_columns(char *to, size_t size, const redisReply *counts)
{
    size_t used = (size_t)snprintf(to, size, "item");
    for (size_t i = 0; i + 1 < counts->elements && i / 2 + 2 < PRINT_COLUMNS_MAX; i += 2)
        if (used < size)
            used += (size_t)snprintf(to + used, size - used, " >%s", counts->element[i]->str);
}

int verb_counts(struct session *session, const struct command_line *line)
{
    struct print_table table;
    char columns[1024];
    bool has_table = false;
    int code = EXIT_FINE;
    for (int i = 0; code == EXIT_FINE && i < line->word_count; i++) {
        redisReply *reply = session_call(session, &code, "COUNTS", line->words[i], NULL);
        if (!reply)
            break;
        if (session->json) {
            print_json_line(json_pack("{s:o, s:o}", "item",
                                      print_json_bytes(slice_of(line->words[i])), "counts",
                                      json_counts(reply)));
        } else {
            if (!has_table) {
                name_columns(columns, sizeof(columns), reply);
                print_table_init(&table, columns);
                has_table = true;
            }
            add_counts(&table, line->words[i], reply);
        }
        freeReplyObject(reply);
    }
    if (has_table) {
        print_table_write(&table, session->colours);
        print_table_done(&table);
    }
    return code;
}

struct member_list {
    uint64_t limit;
    uint64_t printed;
    bool json;
};

static bool print_members(void *arg, const redisReply *users)
{
    struct member_list *list = arg;
    for (size_t i = 0; i < users->elements; i++) {
        if (list->limit > 0 && list->printed == list->limit)
            return false;
        if (list->json)
            print_json_line(
                print_json_bytes((struct slice){users->element[i]->str, users->element[i]->len}));
        else
            answer_print_raw(users->element[i]);
        list->printed++;
    }
    return list->limit == 0 || list->printed < list->limit;
}

static int read_limit(const struct command_line *line, int64_t initial, uint64_t *ret_limit)
{
    struct error error;
    int64_t limit;
    if (command_number(line, COMMAND_LIMIT, initial, 0, INT64_MAX, &limit, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    *ret_limit = (uint64_t)limit;
    return EXIT_FINE;
}

int verb_members(struct session *session, const struct command_line *line)
{
    struct member_list list = {.json = session->json};
    int code = read_limit(line, MEMBERS_LIMIT, &list.limit);
    if (code != EXIT_FINE)
        return code;
    struct ask ask;
    ask_begin(&ask, "MEMBERS");
    ask_add(&ask, line->words[0]);
    ask_add(&ask, line->word_count > 1 ? line->words[1] : "like");
    return answer_pages(session, ask.words, ask.count, list.limit, print_members, &list);
}

int verb_history(struct session *session, const struct command_line *line)
{
    struct ask ask;
    ask_begin(&ask, "HISTORY");
    ask_add(&ask, line->words[0]);
    ask_add_option(&ask, line, "USER", COMMAND_USER);
    struct answer_list list = {.words = ask.words,
                               .word_count = ask.count,
                               .columns = "time_ms=time user kind",
                               .empty = "the store knows of no reactions to it"};
    int code = read_limit(line, HISTORY_LIMIT, &list.limit);
    return code == EXIT_FINE ? answer_print_list(session, &list) : code;
}

struct item_list {
    struct print_table table;
    uint64_t limit;
    uint64_t printed;
    bool json;
};

/* Pages of USER.REACTIONS have item and kind by turns. */
static bool add_items(void *arg, const redisReply *rows)
{
    struct item_list *list = arg;
    char room[ANSWER_NUMBER_BYTES];
    for (size_t i = 0; i + 1 < rows->elements; i += 2) {
        if (list->limit > 0 && list->printed == list->limit)
            return false;
        struct slice item = answer_text(rows->element[i], room);
        struct slice kind = {rows->element[i + 1]->str, rows->element[i + 1]->len};
        if (list->json) {
            print_json_line(json_pack("{s:o, s:o}", "item", print_json_bytes(item), "kind",
                                      print_json_bytes(kind)));
        } else {
            print_table_add(&list->table, item);
            print_table_add(&list->table, kind);
        }
        list->printed++;
    }
    return list->limit == 0 || list->printed < list->limit;
}

int verb_user(struct session *session, const struct command_line *line)
{
    struct item_list list = {.json = session->json};
    int code = read_limit(line, MEMBERS_LIMIT, &list.limit);
    if (code != EXIT_FINE)
        return code;
    struct ask ask;
    ask_begin(&ask, "USER.REACTIONS");
    ask_add(&ask, line->words[0]);
    print_table_init(&list.table, "item kind");
    code = answer_pages(session, ask.words, ask.count, list.limit, add_items, &list);
    print_table_write(&list.table, session->colours);
    print_table_done(&list.table);
    if (code == EXIT_FINE && list.printed == 0)
        session_remark(session, "%s holds no reactions", line->words[0]);
    return code;
}
