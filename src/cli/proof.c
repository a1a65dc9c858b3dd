/* proof.c - commands that show where a number comes from, and that it is right. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/env.h"
#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/parse.h"
#include "cli/progress.h"
#include "cli/verbs.h"

#define LIST_LIMIT    100
#define POLL_FIRST_MS 20
#define POLL_LAST_MS  500

static int read_limit(const struct command_line *line, uint64_t *ret_limit)
{
    struct error error;
    int64_t limit;
    if (command_number(line, COMMAND_LIMIT, LIST_LIMIT, 0, INT64_MAX, &limit, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    *ret_limit = (uint64_t)limit;
    return EXIT_FINE;
}

/* --- events ----------------------------------------------------------------------- */

static int counter_events(struct session *session, const struct command_line *line)
{
    struct ask ask;
    ask_begin(&ask, "COUNTER.EVENTS");
    ask_add(&ask, line->words[0]);
    struct answer_list list = {
        .words = ask.words,
        .word_count = ask.count,
        .columns = "time_ms=time origin sequence type >delta user >before >after key region",
        .empty = "the log has no events of it"};
    int code = read_limit(line, &list.limit);
    return code == EXIT_FINE ? answer_print_list(session, &list) : code;
}

/* `word` and a time in milliseconds, written to `room`. */
static int add_time(struct ask *ask, const struct command_line *line, const char *word,
                    enum command_option option, char room[ANSWER_NUMBER_BYTES])
{
    const char *text = command_value(line, option);
    int64_t time_ms;
    struct error error;
    if (!text)
        return EXIT_FINE;
    if (parse_time(slice_of(text), env_wall_ms(env_system()), &time_ms, &error))
        return session_fail(EXIT_USAGE, "--%s: %s", command_options[option].name, error.text);
    (void)snprintf(room, ANSWER_NUMBER_BYTES, "%lld", (long long)time_ms);
    ask_add(ask, word);
    ask_add(ask, room);
    return EXIT_FINE;
}

static int pipeline_events(struct session *session, const struct command_line *line)
{
    struct ask ask;
    char since[ANSWER_NUMBER_BYTES];
    char until[ANSWER_NUMBER_BYTES];
    ask_begin(&ask, "EVENTS");
    ask_add_option(&ask, line, "STATE", COMMAND_STATE);
    ask_add_option(&ask, line, "COUNTER", COMMAND_COUNTER);
    int code = add_time(&ask, line, "SINCE", COMMAND_SINCE, since);
    if (code == EXIT_FINE)
        code = add_time(&ask, line, "UNTIL", COMMAND_UNTIL, until);
    struct answer_list list = {
        .words = ask.words,
        .word_count = ask.count,
        .columns = "event_id created_ms=created state >retry_count id >delta >events reason",
        .empty = "there are no such events"};
    if (code == EXIT_FINE)
        code = read_limit(line, &list.limit);
    return code == EXIT_FINE ? answer_print_list(session, &list) : code;
}

int verb_events(struct session *session, const struct command_line *line)
{
    if (line->word_count == 0)
        return pipeline_events(session, line);
    const enum command_option others[] = {COMMAND_STATE, COMMAND_COUNTER, COMMAND_SINCE,
                                          COMMAND_UNTIL};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (command_has(line, others[i]))
            return session_fail(EXIT_USAGE,
                                "--%s is for events in the pipeline; try: tally events --counter "
                                "%s --%s ...",
                                command_options[others[i]].name, line->words[0],
                                command_options[others[i]].name);
    return counter_events(session, line);
}

int verb_at(struct session *session, const struct command_line *line)
{
    int64_t time_ms;
    struct error error;
    if (parse_time(slice_of(line->words[1]), env_wall_ms(env_system()), &time_ms, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    char text[ANSWER_NUMBER_BYTES];
    (void)snprintf(text, sizeof(text), "%lld", (long long)time_ms);
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "COUNTER.AT", line->words[0], text, NULL);
    if (!reply)
        return code;
    char room[ANSWER_NUMBER_BYTES];
    bool is_there = !answer_is_nil(reply);
    if (session->json)
        print_json_line(
            json_pack("{s:o, s:I, s:o}", "id", print_json_bytes(slice_of(line->words[0])),
                      "time_ms", (json_int_t)time_ms, "value",
                      is_there ? print_json_bytes(answer_text(reply, room)) : json_null()));
    else if (is_there)
        answer_print_raw(reply);
    freeReplyObject(reply);
    return is_there ? EXIT_FINE
                    : session_fail(EXIT_NOT_FOUND, "%s was not there then", line->words[0]);
}

int verb_trail(struct session *session, const struct command_line *line)
{
    const struct slice words[] = {SLICE("AUDITS")};
    struct answer_list list = {.words = words,
                               .word_count = 1,
                               .columns = "time_ms=time what id text",
                               .empty = "nothing was audited, repaired or erased yet"};
    int code = read_limit(line, &list.limit);
    return code == EXIT_FINE ? answer_print_list(session, &list) : code;
}

/* --- tasks ------------------------------------------------------------------------ */

static volatile sig_atomic_t is_stopped;

static void stop(int number)
{
    (void)number;
    is_stopped = 1;
}

static void pause_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static bool state_is(const redisReply *task, const char *state)
{
    char room[ANSWER_NUMBER_BYTES];
    return slice_equal(answer_field_text(task, "state", room), slice_of(state));
}

static void print_found(const redisReply *task)
{
    const redisReply *found = answer_field(task, "found");
    if (!found || found->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i < found->elements; i++)
        answer_print_raw(found->element[i]);
}

/* What came out of a task that is over. */
static int report_task(struct session *session, const redisReply *task)
{
    const redisReply *found = answer_field(task, "found");
    bool has_drift =
        found && found->type == REDIS_REPLY_ARRAY ? found->elements > 0 : answer_number(found) > 0;
    has_drift = has_drift || answer_field_number(task, "found_count") > 0;
    if (session->json) {
        print_json_line(answer_json_map(task));
    } else {
        print_found(task);
        char room[ANSWER_NUMBER_BYTES];
        struct slice text = answer_field_text(task, "text", room);
        if (text.size > 0)
            answer_print_raw(answer_field(task, "text"));
    }
    if (state_is(task, "failed"))
        return session->json ? EXIT_REFUSED : session_fail(EXIT_REFUSED, "the task failed");
    return has_drift ? EXIT_DRIFT : EXIT_FINE;
}

/* Asks again and again, less and less often, until the task is over or Ctrl-C comes. */
static int poll_task(struct session *session, const char *id, struct progress *progress)
{
    int64_t wait_ms = POLL_FIRST_MS;
    int code = EXIT_FINE;
    while (!is_stopped) {
        redisReply *task = session_call(session, &code, "TASK", id, NULL);
        if (!task)
            return code;
        if (!state_is(task, "running")) {
            progress_end(progress);
            code = report_task(session, task);
            freeReplyObject(task);
            return code;
        }
        progress_set(progress, (uint64_t)answer_field_number(task, "done"),
                     (uint64_t)answer_field_number(task, "all"));
        freeReplyObject(task);
        pause_ms(wait_ms);
        wait_ms = wait_ms * 2 < POLL_LAST_MS ? wait_ms * 2 : POLL_LAST_MS;
    }
    progress_end(progress);
    return session_fail(EXIT_STOPPED, "the server goes on with it; look again with: tally task %s",
                        id);
}

static int follow_task(struct session *session, const char *id, const char *what)
{
    struct progress progress;
    struct sigaction before;
    struct sigaction action = {.sa_handler = stop};
    is_stopped = 0;
    (void)sigaction(SIGINT, &action, &before);
    progress_start(&progress, what, "done", session->quiet);
    int code = poll_task(session, id, &progress);
    progress_end(&progress);
    (void)sigaction(SIGINT, &before, NULL);
    return code;
}

/* Sends a command that starts a task, and follows it. */
static int run_task(struct session *session, const struct command_line *line, const struct ask *ask,
                    const char *what)
{
    int code = EXIT_FINE;
    redisReply *reply = ask_send(session, ask, &code);
    if (!reply)
        return code;
    char id[ANSWER_NUMBER_BYTES];
    (void)snprintf(id, sizeof(id), "%lld", (long long)answer_number(reply));
    freeReplyObject(reply);
    if (!command_has(line, COMMAND_NO_WAIT))
        return follow_task(session, id, what);
    if (session->json)
        print_json_line(json_pack("{s:s}", "task", id));
    else
        (void)puts(id);
    return EXIT_FINE;
}

static int print_tasks(struct session *session)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "TASKS", NULL);
    if (!reply)
        return code;
    struct print_table table;
    print_table_init(&table, ">id kind state >done >all text");
    char room[ANSWER_NUMBER_BYTES];
    static const char *const names[] = {"id", "kind", "state", "done", "all", "text"};
    for (size_t i = 0; i < reply->elements; i++) {
        if (session->json)
            print_json_line(answer_json_map(reply->element[i]));
        for (size_t j = 0; !session->json && j < sizeof(names) / sizeof(names[0]); j++)
            print_table_add(&table, answer_field_text(reply->element[i], names[j], room));
    }
    print_table_write(&table, session->colours);
    print_table_done(&table);
    if (reply->elements == 0)
        session_remark(session, "there are no tasks");
    freeReplyObject(reply);
    return EXIT_FINE;
}

int verb_task(struct session *session, const struct command_line *line)
{
    if (line->word_count == 0)
        return print_tasks(session);
    if (!command_has(line, COMMAND_NO_WAIT))
        return follow_task(session, line->words[0], "task");
    int code = EXIT_FINE;
    redisReply *task = session_call(session, &code, "TASK", line->words[0], NULL);
    if (!task)
        return code;
    if (!state_is(task, "running"))
        code = report_task(session, task);
    else if (session->json)
        print_json_line(answer_json_map(task));
    else
        answer_print_map(task, session->colours);
    freeReplyObject(task);
    return code;
}

/* --- recount, audit, erase ------------------------------------------------------------ */

static int recount_one(struct session *session, const char *id)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "COUNTER.RECOUNT", id, NULL);
    if (!reply)
        return code;
    char value[ANSWER_NUMBER_BYTES];
    char recount[ANSWER_NUMBER_BYTES];
    char drift[ANSWER_NUMBER_BYTES];
    struct slice is = answer_field_text(reply, "value", value);
    struct slice should = answer_field_text(reply, "recount", recount);
    struct slice apart = answer_field_text(reply, "drift", drift);
    bool agrees =
        answer_field(reply, "drift") ? slice_equal(apart, SLICE("0")) : slice_equal(is, should);
    /* With many nodes the row of the store may differ while the value is right. */
    bool is_row_right = !answer_field(reply, "agrees") || answer_field_number(reply, "agrees") != 0;
    char from[ANSWER_NUMBER_BYTES];
    bool is_by_store = answer_field(reply, "from") &&
                       slice_equal(answer_field_text(reply, "from", from), SLICE("store"));
    if (session->json)
        print_json_line(answer_json_map(reply));
    else if (agrees && !is_row_right)
        (void)printf("%.*s, but the store does not have the same\n", SLICE_ARGS(is));
    else if (agrees && is_by_store)
        (void)printf("%.*s, and the store has the same; the log does not go back so far\n",
                     SLICE_ARGS(is));
    else if (agrees)
        (void)printf("%.*s, and the sum of its %lld events is the same\n", SLICE_ARGS(is),
                     (long long)answer_field_number(reply, "events"));
    else
        (void)printf("%.*s, but the sum of its events is %.*s: they differ by %.*s\n",
                     SLICE_ARGS(is), SLICE_ARGS(should), SLICE_ARGS(apart));
    freeReplyObject(reply);
    return agrees && is_row_right ? EXIT_FINE : EXIT_DRIFT;
}

int verb_recount(struct session *session, const struct command_line *line)
{
    bool all = command_has(line, COMMAND_ALL);
    if (all == (line->word_count > 0))
        return session_fail(EXIT_USAGE, "recount takes an id, a pattern, or --all");
    const char *what = all ? "*" : line->words[0];
    if (!strpbrk(what, "*?["))
        return recount_one(session, what);
    struct ask ask;
    ask_begin(&ask, "RECOUNT");
    ask_add(&ask, what);
    return run_task(session, line, &ask, "recount");
}

int verb_audit(struct session *session, const struct command_line *line)
{
    struct ask ask;
    ask_begin(&ask, "AUDIT");
    ask_add(&ask, line->word_count > 0 ? line->words[0] : "*");
    ask_add(&ask, "REPAIR");
    ask_add(&ask, command_has(line, COMMAND_REPAIR) ? "yes" : "no");
    return run_task(session, line, &ask, "audit");
}

int verb_erase(struct session *session, const struct command_line *line)
{
    if (!ask_is_sure(line, "forget the user for good"))
        return EXIT_USAGE;
    struct ask ask;
    ask_begin(&ask, "USER.ERASE");
    ask_add(&ask, line->words[0]);
    return run_task(session, line, &ask, "erase");
}

/* --- the dead-letter queue -------------------------------------------------------------- */

static int dlq_list(struct session *session, const struct command_line *line)
{
    const struct slice words[] = {SLICE("DLQ"), SLICE("LIST")};
    struct answer_list list = {.words = words,
                               .word_count = 2,
                               .columns = "event_id failed_ms=failed id >delta >retry_count reason",
                               .empty = "the dead-letter queue is empty"};
    int code = read_limit(line, &list.limit);
    return code == EXIT_FINE ? answer_print_list(session, &list) : code;
}

static int dlq_show(struct session *session, const char *id)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "DLQ", "SHOW", id, NULL);
    if (!reply)
        return code;
    if (answer_is_nil(reply))
        code = session_fail(EXIT_NOT_FOUND, "there is no event %s in the dead-letter queue", id);
    else if (session->json)
        print_json_line(answer_json_map(reply));
    else
        answer_print_map(reply, session->colours);
    freeReplyObject(reply);
    return code;
}

/* Redrive or discard one, or all of them. */
static int dlq_change(struct session *session, const char *word, const char *id)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "DLQ", word, id, NULL);
    if (!reply)
        return code;
    int64_t count = answer_number(reply);
    if (session->json)
        print_json_line(json_pack("{s:I}", "events", (json_int_t)count));
    else
        (void)printf("%lld\n", (long long)count);
    bool is_missing = reply->type == REDIS_REPLY_INTEGER && count == 0 && strcmp(id, "ALL") != 0;
    freeReplyObject(reply);
    return is_missing
               ? session_fail(EXIT_NOT_FOUND, "there is no event %s in the dead-letter queue", id)
               : EXIT_FINE;
}

int verb_dlq(struct session *session, const struct command_line *line)
{
    const char *word = line->word_count > 0 ? line->words[0] : "list";
    const char *id = line->word_count > 1 ? line->words[1] : NULL;
    if (strcmp(word, "list") == 0)
        return dlq_list(session, line);
    bool discards = strcmp(word, "discard") == 0;
    if (strcmp(word, "show") != 0 && strcmp(word, "redrive") != 0 && !discards)
        return session_fail(EXIT_USAGE, "dlq can list, show, redrive and discard, not '%s'", word);
    if (!id && command_has(line, COMMAND_ALL) && strcmp(word, "show") != 0)
        id = "ALL";
    if (!id)
        return session_fail(EXIT_USAGE, "which event? try: tally dlq list");
    if (strcmp(word, "show") == 0)
        return dlq_show(session, id);
    if (discards && !ask_is_sure(line, "give up what the store refused"))
        return EXIT_USAGE;
    return dlq_change(session, discards ? "DISCARD" : "REDRIVE", id);
}
