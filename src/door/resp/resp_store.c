/* resp_store.c - what the store has to tell: the life of what was applied to it,
 * what it has refused, and the history of reactions. */
#include <string.h>

#include "base/decimal.h"
#include "base/uuid.h"
#include "door/resp/resp_answers.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_job.h"
#include "door/resp/resp_worker.h"

#define PAGE_COUNT_DEFAULT 100u

static void reply_event_id(struct resp_reply *reply, const unsigned char *event_id)
{
    char text[UUID_TEXT_BYTES];
    uuid_format(event_id, text);
    resp_reply_pair(reply, "event_id", (struct slice){text, sizeof(text)});
}

/* What jobs of this file are asked for. */
struct question {
    struct resp_job base;
    struct store_life_filter filter; /* EVENTS; its id is the subject */
    unsigned char event_id[UUID_BYTES];
    bool all; /* DLQ: every letter, not `event_id` */
};

static const struct slice nothing = {NULL, 0};

/* What stands in the request, and was not looked at yet. */
struct options {
    struct store_life_filter filter;
    struct slice user; /* data NULL = any */
    uint64_t cursor;
    uint32_t limit;
};

typedef bool read_option_fn(struct resp_args *args, struct options *options);

/* From word `from` on. False: there is something else, which was answered. */
static bool read_options(struct resp_client *client, unsigned argc, const struct slice *argv,
                         unsigned from, read_option_fn *read, struct options *options)
{
    struct resp_args args = resp_args_from(argc, argv, from);
    *options = (struct options){.limit = PAGE_COUNT_DEFAULT};
    while (args.left > 0) {
        if (!read(&args, options)) {
            resp_client_fail_syntax(client);
            return false;
        }
    }
    return true;
}

/* A question that is answered by a page. */
static void ask_page(struct resp_client *client, const struct options *options,
                     struct slice subject, struct slice other, pass_work_fn *work)
{
    struct question *question = resp_job_new(client, sizeof(*question), subject, other, work);
    if (!question)
        return;
    question->base.form = RESP_JOB_PAGE;
    question->base.cursor = options->cursor;
    question->base.limit = options->limit;
    question->filter = options->filter;
    resp_job_start(client, &question->base);
}

/* ---- EVENTS ---- */

static void visit_life(void *arg, const struct store_life *life)
{
    struct resp_job *job = arg;
    struct resp_reply *reply = &job->things;
    job->count++;
    resp_reply_map(reply, 10);
    reply_event_id(reply, life->event_id);
    resp_reply_pair(reply, "id", life->id);
    resp_reply_pair(reply, "delta", life->delta);
    resp_reply_pair(reply, "state", slice_of(lifecycle_name(life->state)));
    resp_reply_pair_integer(reply, "retry_count", life->retry_count);
    resp_reply_pair_integer(reply, "events", life->events);
    resp_reply_pair_integer(reply, "created_ms", life->created_ms);
    resp_reply_pair_integer(reply, "processed_ms", life->processed_ms);
    resp_reply_pair_integer(reply, "next_ms", life->next_ms);
    resp_reply_pair(reply, "reason", life->reason);
    resp_job_grown(job);
}

static void work_lives(struct pass_job *base, struct desk_seat *seat)
{
    struct question *question = (struct question *)base;
    struct resp_job *job = &question->base;
    question->filter.id = job->subject;
    enum err err = desk_lives(seat, &question->filter, &job->cursor, job->limit, visit_life, job,
                              &base->error);
    if (err)
        resp_job_fail(job, err, NULL);
}

static bool read_event_option(struct resp_args *args, struct options *options)
{
    struct store_life_filter *filter = &options->filter;
    struct slice value;
    if (resp_args_option(args, SLICE("state"), &value)) {
        filter->has_state = true;
        return lifecycle_parse(value, &filter->state);
    }
    if (resp_args_option(args, SLICE("counter"), &filter->id))
        return true;
    if (resp_args_option(args, SLICE("since"), &value))
        return decimal_parse(value, &filter->since_ms);
    if (resp_args_option(args, SLICE("until"), &value))
        return decimal_parse(value, &filter->until_ms);
    return resp_args_page_option(args, &options->cursor, &options->limit);
}

void resp_events(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct options options;
    if (!read_options(client, argc, argv, 1, read_event_option, &options))
        return;
    const struct store_life_filter *filter = &options.filter;
    if ((filter->id.data && !resp_args_counter(client, filter->id)) ||
        !resp_args_time(client, filter->since_ms) || !resp_args_time(client, filter->until_ms))
        return;
    ask_page(client, &options, filter->id, nothing, work_lives);
}

/* ---- HISTORY ---- */

static void visit_past(void *arg, const struct store_past *past)
{
    struct resp_job *job = arg;
    job->count++;
    resp_reply_map(&job->things, 4);
    resp_reply_pair_integer(&job->things, "time_ms", past->time_ms);
    resp_reply_pair(&job->things, "item", past->item);
    resp_reply_pair(&job->things, "user", past->user);
    resp_reply_pair(&job->things, "kind", past->kind);
    resp_job_grown(job);
}

static void work_past(struct pass_job *base, struct desk_seat *seat)
{
    struct resp_job *job = (struct resp_job *)base;
    enum err err = desk_past(seat, job->subject, job->other, &job->cursor, job->limit, visit_past,
                             job, &job->age, &base->error);
    if (err)
        resp_job_fail(job, err, NULL);
}

static bool read_history_option(struct resp_args *args, struct options *options)
{
    return resp_args_option(args, SLICE("user"), &options->user) ||
           resp_args_page_option(args, &options->cursor, &options->limit);
}

void resp_history(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct options options;
    if (read_options(client, argc, argv, 2, read_history_option, &options) &&
        resp_args_item(client, argv[1]) &&
        (!options.user.data || resp_args_user(client, options.user)))
        ask_page(client, &options, argv[1], options.user, work_past);
}

/* ---- DLQ ---- */

static void reply_letter(struct resp_reply *reply, const struct store_letter *letter, bool whole)
{
    resp_reply_map(reply, whole ? 11 : 8);
    reply_event_id(reply, letter->event_id);
    resp_reply_pair(reply, "id", letter->id);
    resp_reply_pair(reply, "delta", letter->delta);
    resp_reply_pair(reply, "reason", letter->reason);
    resp_reply_pair_integer(reply, "retry_count", letter->retry_count);
    resp_reply_pair_integer(reply, "created_ms", letter->created_ms);
    resp_reply_pair_integer(reply, "failed_ms", letter->failed_ms);
    resp_reply_pair_integer(reply, "bytes", (int64_t)letter->raw.size);
    if (!whole)
        return;
    resp_reply_pair_integer(reply, "segment", (int64_t)letter->position.segment);
    resp_reply_pair_integer(reply, "offset", (int64_t)letter->position.offset);
    resp_reply_text(reply, "raw");
    resp_reply_bulk(reply, letter->raw);
}

static void visit_listed(void *arg, const struct store_letter *letter)
{
    struct resp_job *job = arg;
    job->count++;
    reply_letter(&job->things, letter, false);
    resp_job_grown(job);
}

static void visit_shown(void *arg, const struct store_letter *letter)
{
    struct resp_job *job = arg;
    reply_letter(&job->things, letter, true);
}

static void work_letters(struct pass_job *base, struct desk_seat *seat)
{
    struct resp_job *job = (struct resp_job *)base;
    enum err err = desk_letters(seat, &job->cursor, job->limit, visit_listed, job, &base->error);
    if (err)
        resp_job_fail(job, err, NULL);
}

/* What comes of one letter, or of all. */
static void end_letters(struct resp_job *job, enum err err)
{
    if (err)
        resp_job_fail(job, err, err == ERR_NOT_FOUND ? "no such dead letter" : NULL);
}

static void work_letter(struct pass_job *base, struct desk_seat *seat)
{
    struct question *question = (struct question *)base;
    end_letters(&question->base,
                desk_letter(seat, question->event_id, visit_shown, &question->base, &base->error));
}

static void work_redrive(struct pass_job *base, struct desk_seat *seat)
{
    struct question *question = (struct question *)base;
    uint64_t count = 0;
    end_letters(&question->base, desk_redrive(seat, question->all ? NULL : question->event_id,
                                              &count, &base->error));
    resp_reply_integer(&question->base.things, (int64_t)count);
}

static void work_discard(struct pass_job *base, struct desk_seat *seat)
{
    struct question *question = (struct question *)base;
    uint64_t count = 0;
    end_letters(&question->base, desk_discard(seat, question->all ? NULL : question->event_id,
                                              &count, &base->error));
    resp_reply_integer(&question->base.things, (int64_t)count);
}

static bool read_letters_option(struct resp_args *args, struct options *options)
{
    return resp_args_page_option(args, &options->cursor, &options->limit);
}

static void dlq_list(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct options options;
    if (read_options(client, argc, argv, 2, read_letters_option, &options))
        ask_page(client, &options, nothing, nothing, work_letters);
}

/* About the letter that the third word names, or, for a write, about ALL. */
static void ask_letter(struct resp_client *client, struct slice which, bool is_write,
                       pass_work_fn *work)
{
    unsigned char event_id[UUID_BYTES] = {0};
    bool all = is_write && slice_equal_nocase(which, SLICE("all"));
    if (!all && !uuid_parse(which, event_id)) {
        resp_client_fail(client, "ERR an event's id is a UUID%s", is_write ? ", or ALL" : "");
        return;
    }
    struct question *question = resp_job_new(client, sizeof(*question), nothing, nothing, work);
    if (!question)
        return;
    question->all = all;
    memcpy(question->event_id, event_id, sizeof(event_id));
    question->base.base.is_write = is_write;
    resp_job_start(client, &question->base);
}

static void dlq_show(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    ask_letter(client, argv[2], false, work_letter);
}

static void dlq_redrive(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    ask_letter(client, argv[2], true, work_redrive);
}

static void dlq_discard(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    ask_letter(client, argv[2], true, work_discard);
}

static void dlq_help(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    static const char *const lines[] = {
        "DLQ DISCARD event_id|ALL",
        "DLQ LIST [CURSOR cursor] [COUNT count]",
        "DLQ REDRIVE event_id|ALL",
        "DLQ SHOW event_id",
    };
    resp_answer_help(client, lines, sizeof(lines) / sizeof(lines[0]));
}

void resp_dlq(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    static const struct resp_subcommand subcommands[] = {
        {"list", -2, dlq_list},      {"show", 3, dlq_show}, {"redrive", 3, dlq_redrive},
        {"discard", 3, dlq_discard}, {"help", 2, dlq_help},
    };
    resp_subcommand_run(client, subcommands, sizeof(subcommands) / sizeof(subcommands[0]), argc,
                        argv);
}
