#include "cli/import_redis.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/answer.h"
#include "cli/folders.h"
#include "cli/import_state.h"
#include "cli/layout.h"
#include "cli/pipe.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/taking.h"

#define TEMPLATES_MAX 32u
#define WINDOW_KEYS   1000u /* asked for at a time */
#define DIFFERS_TOLD  20u
#define REDIS_PORT    6379

/* A key and the thing it belongs to. Things are named so that the reactions of an item stand
 * side by side: "R" ITEM 0x1f REACTION, or "C" NAME. */
struct key {
    char *thing; /* owned, as the others */
    char *text;
    size_t size;
    char *name; /* of the counter, if there are no members */
    enum layout_kind kind;
};

/* What is known of the thing whose answers come in. */
struct thing {
    const struct key *first; /* NULL: none yet */
    bool has_members;
    bool has_counters;
    bool is_bad;
    int64_t members;
    struct number sum;
};

struct more {
    size_t key;
    char cursor[32];
};

struct from {
    struct session *session;
    struct settings source; /* address of the Redis */
    long database;
    redisContext *context; /* owned */
    const char *pattern;
    struct layout_template templates[TEMPLATES_MAX];
    size_t template_count;
    bool only_templates;
    struct key *keys; /* owned */
    size_t key_count;
    size_t key_room;
    uint64_t scanned;
    uint64_t notes;
    uint64_t unknown;
    struct taking taking;
    enum err err; /* of what was sent, from inside of an answer */
    struct thing thing;
    struct more *more; /* owned: sets with more members than an answer holds */
    size_t more_count;
    size_t more_room;
    uint64_t differing;
    char state_path[PATH_MAX];
    char after[IMPORT_STATE_NAME_BYTES];
    uint64_t source_hash;
    struct progress progress;
};

/* --- the command line --------------------------------------------------------------- */

/* redis://host:port/db */
static int parse_url(struct from *from, const char *url)
{
    static const char scheme[] = "redis://";
    struct error error;
    from->source = (struct settings){.host = "127.0.0.1", .port = REDIS_PORT};
    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0)
        return session_fail(EXIT_USAGE, "--from looks like redis://127.0.0.1:6379/0");
    const char *rest = url + sizeof(scheme) - 1;
    if (strchr(rest, '@'))
        return session_fail(EXIT_USAGE, "a password on a command line can be read by every user of "
                                        "the machine; put it into REDISCLI_AUTH");
    const char *slash = strchr(rest, '/');
    struct slice address = {rest, slash ? (size_t)(slash - rest) : strlen(rest)};
    if (address.size > 0 && settings_parse_address(address, &from->source, &error))
        return session_fail(EXIT_USAGE, "--from: %s", error.text);
    char *end = NULL;
    from->database = slash && slash[1] ? strtol(slash + 1, &end, 10) : 0;
    if ((end && *end) || from->database < 0)
        return session_fail(EXIT_USAGE, "--from: '%s' is no number of a database", slash + 1);
    return EXIT_FINE;
}

static int parse_templates(struct from *from, const struct command_line *line)
{
    struct error error;
    for (size_t i = 0; i < line->value_count; i++) {
        enum command_option option = line->values[i].option;
        if (option != COMMAND_COUNTERS && option != COMMAND_SETS)
            continue;
        if (from->template_count == TEMPLATES_MAX)
            return session_fail(EXIT_USAGE, "more than %u of --counters and --sets", TEMPLATES_MAX);
        if (layout_parse_template(line->values[i].text, option == COMMAND_SETS,
                                  &from->templates[from->template_count++], &error))
            return session_fail(EXIT_USAGE, "--%s: %s", command_options[option].name, error.text);
    }
    const char *layout = command_value(line, COMMAND_LAYOUT);
    if (layout && strcmp(layout, "auto") != 0 && strcmp(layout, "none") != 0)
        return session_fail(EXIT_USAGE, "--layout is auto or none, not '%s'", layout);
    from->only_templates = layout && strcmp(layout, "none") == 0;
    if (from->only_templates && from->template_count == 0)
        return session_fail(EXIT_USAGE, "--layout none needs --counters or --sets");
    return EXIT_FINE;
}

static int parse(struct from *from, const struct command_line *line)
{
    const char *mode = command_value(line, COMMAND_MODE);
    const char *pattern = command_value(line, COMMAND_PATTERN);
    from->pattern = pattern ? pattern : "*";
    from->taking.is_dry = command_has(line, COMMAND_DRY_RUN);
    from->taking.adds = mode && strcmp(mode, "add") == 0;
    from->taking.keys_by_id = true;
    if (mode && strcmp(mode, "set") != 0 && strcmp(mode, "add") != 0)
        return session_fail(EXIT_USAGE, "--mode is set or add, not '%s'", mode);
    if (line->word_count > 0)
        return session_fail(EXIT_USAGE, "--from reads a Redis; take away '%s'", line->words[0]);
    int code = parse_url(from, command_value(line, COMMAND_FROM));
    return code == EXIT_FINE ? parse_templates(from, line) : code;
}

/* --- the Redis ---------------------------------------------------------------------- */

static int source_failed(struct from *from, const char *why)
{
    char address[SETTINGS_HOST_BYTES + 16];
    return session_fail(EXIT_UNREACHABLE, "the Redis at %s: %s",
                        settings_address(&from->source, address, sizeof(address)), why);
}

/* Sends a command to the Redis, in the format of hiredis, where %b is bytes and their number;
 * NULL, having said why, when it failed. */
static redisReply *ask_source(struct from *from, int *ret_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(from->context, format, args);
    va_end(args);
    if (!reply) {
        *ret_code = source_failed(from, from->context->errstr);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        *ret_code = source_failed(from, reply->str);
        freeReplyObject(reply);
        reply = NULL;
    }
    return reply;
}

static int open_source(struct from *from)
{
    struct timeval within = {.tv_sec = 5};
    int code = EXIT_FINE;
    from->context = redisConnectWithTimeout(from->source.host, from->source.port, within);
    if (!from->context || from->context->err)
        return source_failed(from, from->context ? from->context->errstr : "out of memory");
    struct timeval patience = {.tv_sec = 60};
    (void)redisSetTimeout(from->context, patience);
    const char *password = getenv("REDISCLI_AUTH");
    redisReply *reply = NULL;
    if (password && password[0]) {
        reply = ask_source(from, &code, "AUTH %s", password);
        freeReplyObject(reply);
    }
    if (code == EXIT_FINE) {
        reply = ask_source(from, &code, "SELECT %ld", from->database);
        freeReplyObject(reply);
    }
    return code;
}

/* --- looking at all keys -------------------------------------------------------------- */

static char *text_of(const char *format, const char *a, const char *b)
{
    char text[2 * LAYOUT_NAME_BYTES + 8];
    (void)snprintf(text, sizeof(text), format, a, b);
    size_t size = strlen(text) + 1;
    return memcpy(memory_take(size), text, size);
}

static void add_key(struct from *from, struct slice text, const struct layout_match *match)
{
    if (from->key_count == from->key_room) {
        from->key_room = from->key_room * 2 + 1024;
        from->keys = memory_resize(from->keys, from->key_room * sizeof(*from->keys));
    }
    struct key *key = &from->keys[from->key_count++];
    *key = (struct key){.kind = match->kind,
                        .text = memory_take(text.size + 1),
                        .size = text.size,
                        .name = text_of("%s%s", match->name, ""),
                        .thing = match->item[0] ? text_of("R%s\x1f%s", match->item, match->reaction)
                                                : text_of("C%s%s", match->name, "")};
    memcpy(key->text, text.data, text.size);
    key->text[text.size] = 0;
}

static void look_at(struct from *from, struct slice text)
{
    struct layout_match match;
    layout_match(text, from->templates, from->template_count, from->only_templates, &match);
    from->scanned++;
    if (match.kind == LAYOUT_NOTE)
        from->notes++;
    else if (match.kind == LAYOUT_UNKNOWN)
        from->unknown++;
    else
        add_key(from, text, &match);
}

/* By thing, its members first; then by key, so that what SCAN gave twice stands side by side. */
static int compare_keys(const void *one, const void *other)
{
    const struct key *a = one;
    const struct key *b = other;
    int order = strcmp(a->thing, b->thing);
    if (order == 0 && a->kind != b->kind)
        return a->kind == LAYOUT_MEMBERS ? -1 : 1;
    if (order == 0) {
        size_t size = a->size < b->size ? a->size : b->size;
        order = memcmp(a->text, b->text, size);
        if (order == 0)
            order = a->size < b->size ? -1 : a->size > b->size;
    }
    return order;
}

static void free_key(struct key *key)
{
    free(key->thing);
    free(key->text);
    free(key->name);
}

static void sort_keys(struct from *from)
{
    if (from->key_count == 0)
        return;
    qsort(from->keys, from->key_count, sizeof(*from->keys), compare_keys);
    size_t kept = 1;
    for (size_t i = 1; i < from->key_count; i++) {
        if (compare_keys(&from->keys[i], &from->keys[kept - 1]) == 0)
            free_key(&from->keys[i]);
        else
            from->keys[kept++] = from->keys[i];
    }
    from->key_count = kept;
}

static int scan_keys(struct from *from)
{
    char cursor[32] = "0";
    int code = EXIT_FINE;
    redisReply *size = ask_source(from, &code, "DBSIZE");
    uint64_t all = size ? (uint64_t)size->integer : 0;
    freeReplyObject(size);
    progress_start(&from->progress, "looking", "keys", from->session->quiet);
    while (code == EXIT_FINE) {
        redisReply *page =
            ask_source(from, &code, "SCAN %s MATCH %s COUNT 1000", cursor, from->pattern);
        if (!page)
            break;
        for (size_t i = 0; i < page->element[1]->elements; i++) {
            const redisReply *key = page->element[1]->element[i];
            look_at(from, (struct slice){key->str, key->len});
        }
        (void)snprintf(cursor, sizeof(cursor), "%s", page->element[0]->str);
        freeReplyObject(page);
        progress_set(&from->progress, from->scanned, all);
        if (strcmp(cursor, "0") == 0)
            break;
    }
    progress_end(&from->progress);
    sort_keys(from);
    return code;
}

/* --- taking them ---------------------------------------------------------------------- */

enum question { ASK_COUNTER, ASK_SIZE, ASK_MEMBERS, ASK_BOTH };
#define QUESTIONS 4u

static void place_of_key(void *arg, uint64_t number, char *to, size_t size)
{
    const struct from *from = arg;
    struct buffer text;
    buffer_init(&text, 4096);
    print_escaped(&text, (struct slice){from->keys[number].text, from->keys[number].size});
    (void)snprintf(to, size, "key %.*s", (int)text.size, text.size ? text.data : "");
    buffer_done(&text);
}

/* Item and reaction of a thing's name. */
static void split_thing(const struct key *key, struct slice *item, struct slice *reaction)
{
    const char *unit = strchr(key->thing, 0x1f);
    assert(unit);
    *item = (struct slice){key->thing + 1, (size_t)(unit - key->thing) - 1};
    *reaction = slice_of(unit + 1);
}

static void note_error(struct from *from, enum err err)
{
    if (err && !from->err)
        from->err = err;
}

static void tell_difference(struct from *from, const struct thing *thing)
{
    struct number members = number_of(thing->members);
    if (number_compare(&members, &thing->sum) == 0)
        return;
    from->differing++;
    if (from->differing > DIFFERS_TOLD)
        return;
    struct slice item;
    struct slice reaction;
    split_thing(thing->first, &item, &reaction);
    struct buffer sum;
    buffer_init(&sum, 4096);
    (void)number_format(&thing->sum, &sum);
    session_remark(from->session,
                   "%.*s has %lld members that %.*s it, but its counters say %.*s: the members win",
                   SLICE_ARGS(item), (long long)thing->members, SLICE_ARGS(reaction), (int)sum.size,
                   sum.data);
    buffer_done(&sum);
}

/* All answers about the thing are in. */
static void finish_thing(struct from *from)
{
    struct thing *thing = &from->thing;
    if (!thing->first)
        return;
    if (thing->has_members && thing->has_counters && !thing->is_bad) {
        tell_difference(from, thing);
    } else if (!thing->has_members && thing->has_counters && !thing->is_bad) {
        struct buffer value;
        buffer_init(&value, 4096);
        (void)number_format(&thing->sum, &value);
        note_error(from, taking_counter(&from->taking, (uint64_t)(thing->first - from->keys),
                                        slice_of(thing->first->name), buffer_slice(&value)));
        buffer_done(&value);
    }
    number_done(&thing->sum);
    *thing = (struct thing){.first = NULL};
}

static void take_count(struct from *from, size_t index, const redisReply *reply)
{
    struct number value;
    from->thing.has_counters = true;
    if (reply->type == REDIS_REPLY_NIL)
        return; /* gone in between: nothing to add */
    if (reply->type != REDIS_REPLY_STRING ||
        number_parse((struct slice){reply->str, reply->len}, &value)) {
        from->thing.is_bad = true;
        taking_refuse(&from->taking, index,
                      reply->type == REDIS_REPLY_ERROR ? reply->str : "no whole number");
        return;
    }
    number_add(&from->thing.sum, &value);
    number_done(&value);
}

static void take_members(struct from *from, size_t index, const redisReply *users)
{
    struct slice item;
    struct slice reaction;
    split_thing(&from->keys[index], &item, &reaction);
    for (size_t i = 0; i < users->elements; i++)
        note_error(from,
                   taking_reaction(&from->taking, index, item,
                                   (struct slice){users->element[i]->str, users->element[i]->len},
                                   reaction));
}

static void remember_more(struct from *from, size_t key, const char *cursor)
{
    if (from->more_count == from->more_room) {
        from->more_room = from->more_room * 2 + 16;
        from->more = memory_resize(from->more, from->more_room * sizeof(*from->more));
    }
    from->more[from->more_count].key = key;
    (void)snprintf(from->more[from->more_count].cursor, sizeof(from->more[0].cursor), "%s", cursor);
    from->more_count++;
}

static void take_page(struct from *from, size_t index, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
        from->thing.is_bad = true;
        taking_refuse(&from->taking, index,
                      reply->type == REDIS_REPLY_ERROR ? reply->str : "no set");
        return;
    }
    take_members(from, index, reply->element[1]);
    if (strcmp(reply->element[0]->str, "0") != 0)
        remember_more(from, index, reply->element[0]->str);
}

static void tell_both(struct from *from, size_t index, int64_t count)
{
    struct slice item;
    struct slice reaction;
    if (count == 0)
        return;
    split_thing(&from->keys[index], &item, &reaction);
    session_remark(from->session, "%lld users hold two reactions on %.*s: the %.*s counts",
                   (long long)count, SLICE_ARGS(item), SLICE_ARGS(reaction));
}

/* An answer of the Redis. They come in the order of the keys, thing by thing. */
static void source_answered(void *arg, uint64_t tag, const redisReply *reply)
{
    struct from *from = arg;
    size_t index = tag / QUESTIONS;
    const struct key *key = &from->keys[index];
    if (!from->thing.first || strcmp(from->thing.first->thing, key->thing) != 0) {
        finish_thing(from);
        from->thing.first = key;
    }
    switch ((enum question)(tag % QUESTIONS)) {
    case ASK_COUNTER:
        take_count(from, index, reply);
        break;
    case ASK_SIZE:
        from->thing.has_members = true;
        from->thing.members += reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
        break;
    case ASK_MEMBERS:
        take_page(from, index, reply);
        break;
    case ASK_BOTH:
        tell_both(from, index, reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0);
        break;
    }
}

/* Do both stand for members of one item, by different reactions? */
static bool is_same_item(const struct key *a, const struct key *b)
{
    const char *unit = strchr(a->thing, 0x1f);
    size_t size = unit ? (size_t)(unit - a->thing) + 1 : 0;
    return size > 0 && a->kind == LAYOUT_MEMBERS && b->kind == LAYOUT_MEMBERS &&
           strncmp(a->thing, b->thing, size) == 0 && strcmp(a->thing, b->thing) != 0;
}

/* The members of the thing before, if it is about the same item. */
static const struct key *sibling(const struct from *from, size_t index)
{
    for (size_t i = index; i-- > 0 && index - i < 100;)
        if (is_same_item(&from->keys[i], &from->keys[index]))
            return &from->keys[i];
    return NULL;
}

static enum err ask_key(struct from *from, struct pipe *pipe, size_t index)
{
    const struct key *key = &from->keys[index];
    struct slice text = {key->text, key->size};
    uint64_t tag = (uint64_t)index * QUESTIONS;
    if (key->kind == LAYOUT_COUNTER) {
        const struct slice words[] = {SLICE("GET"), text};
        return pipe_send(pipe, tag | ASK_COUNTER, words, 2);
    }
    const struct slice size[] = {SLICE("SCARD"), text};
    const struct slice page[] = {SLICE("SSCAN"), text, SLICE("0"), SLICE("COUNT"), SLICE("1000")};
    enum err err = pipe_send(pipe, tag | ASK_SIZE, size, 2);
    if (!err)
        err = pipe_send(pipe, tag | ASK_MEMBERS, page, 5);
    const struct key *other = sibling(from, index);
    if (!err && other) {
        const struct slice both[] = {
            SLICE("SINTERCARD"), SLICE("2"), text, {other->text, other->size}};
        err = pipe_send(pipe, tag | ASK_BOTH, both, 4);
    }
    return err;
}

/* The further pages of the sets that are large. */
static int take_more(struct from *from)
{
    int code = EXIT_FINE;
    for (size_t i = 0; code == EXIT_FINE && i < from->more_count; i++) {
        const struct key *key = &from->keys[from->more[i].key];
        char *cursor = from->more[i].cursor;
        while (code == EXIT_FINE && !from->err && strcmp(cursor, "0") != 0) {
            redisReply *page =
                ask_source(from, &code, "SSCAN %b %s COUNT 5000", key->text, key->size, cursor);
            if (!page)
                break;
            take_members(from, from->more[i].key, page->element[1]);
            (void)snprintf(cursor, sizeof(from->more[i].cursor), "%s", page->element[0]->str);
            freeReplyObject(page);
        }
    }
    from->more_count = 0;
    return code;
}

/* --- state ---------------------------------------------------------------------------- */

static enum err save(struct from *from, bool durable, struct error *error)
{
    const struct taking *taking = &from->taking;
    struct import_state state = {.source = from->source_hash,
                                 .counters = taking->counters,
                                 .reactions = taking->reactions,
                                 .bad = taking->bad};
    memcpy(state.run, taking->run, sizeof(state.run));
    memcpy(state.after, from->after, sizeof(state.after));
    (void)snprintf(state.mode, sizeof(state.mode), "%s", taking->adds ? "add" : "set");
    return import_state_write(from->state_path, &state, durable, error);
}

/* What is read, and by which rules, as one number. */
static uint64_t hash_source(const struct from *from, const struct command_line *line)
{
    char text[SETTINGS_HOST_BYTES + 64];
    (void)snprintf(text, sizeof(text), "%s:%u/%ld", from->source.host, from->source.port,
                   from->database);
    uint64_t hash = hash_stable_seeded(slice_of(from->pattern), hash_stable(slice_of(text)));
    for (size_t i = 0; i < line->value_count; i++)
        if (line->values[i].option == COMMAND_COUNTERS || line->values[i].option == COMMAND_SETS)
            hash = hash_stable_seeded(slice_of(line->values[i].text), hash);
    return hash >> 1; /* of 63 bits, so that JSON can hold it */
}

static int find_state(struct from *from, const struct command_line *line)
{
    char name[64];
    struct import_state state;
    struct error error;
    from->source_hash = hash_source(from, line);
    taking_new_run(&from->taking);
    (void)snprintf(name, sizeof(name), "import-%016llx.resume",
                   (unsigned long long)from->source_hash);
    if (from->taking.is_dry || !folders_state(name, from->state_path, sizeof(from->state_path))) {
        from->state_path[0] = 0;
        return EXIT_FINE;
    }
    enum err err = import_state_read(from->state_path, &state, &error);
    if (!err && !command_has(line, COMMAND_RESTART)) {
        if (!command_has(line, COMMAND_RESUME))
            return session_fail(EXIT_USAGE, "an earlier import of this Redis was stopped; go on "
                                            "with --resume, or begin anew with --restart");
        if ((strcmp(state.mode, "add") == 0) != from->taking.adds)
            return session_fail(EXIT_USAGE, "the earlier import was in mode %s", state.mode);
        memcpy(from->taking.run, state.run, sizeof(state.run));
        memcpy(from->after, state.after, sizeof(state.after));
        from->taking.counters = state.counters;
        from->taking.reactions = state.reactions;
        from->taking.bad = state.bad;
    }
    return save(from, true, &error) ? session_fail(EXIT_FILE, "%s", error.text) : EXIT_FINE;
}

/* --- all of it ---------------------------------------------------------------------- */

/* The end of the window that begins at `start`: whole things only. */
static size_t window_end(const struct from *from, size_t start)
{
    size_t end = start + WINDOW_KEYS < from->key_count ? start + WINDOW_KEYS : from->key_count;
    while (end < from->key_count && strcmp(from->keys[end].thing, from->keys[end - 1].thing) == 0)
        end++;
    return end;
}

static int take_window(struct from *from, struct pipe *pipe, size_t start, size_t end)
{
    enum err err = ERR_OK;
    for (size_t i = start; !err && i < end; i++)
        err = ask_key(from, pipe, i);
    if (!err)
        err = pipe_finish(pipe);
    if (err)
        return source_failed(from, from->context->errstr);
    finish_thing(from);
    int code = from->err ? EXIT_FINE : take_more(from);
    if (code == EXIT_FINE && !from->err && !from->taking.is_dry)
        note_error(from, pipe_finish(&from->taking.pipe));
    if (from->err)
        return taking_failed(&from->taking, from->err);
    (void)snprintf(from->after, sizeof(from->after), "%s", from->keys[end - 1].thing);
    if (code == EXIT_FINE && from->state_path[0])
        (void)save(from, false, NULL);
    return code;
}

static int take_all(struct from *from)
{
    struct pipe pipe;
    size_t at = 0;
    int code = EXIT_FINE;
    while (at < from->key_count && from->after[0] && strcmp(from->keys[at].thing, from->after) <= 0)
        at++;
    pipe_init(&pipe, from->context, 512, source_answered, from);
    progress_start(&from->progress, "import", "keys", from->session->quiet);
    while (code == EXIT_FINE && at < from->key_count) {
        size_t end = window_end(from, at);
        code = take_window(from, &pipe, at, end);
        at = end;
        progress_set(&from->progress, at, from->key_count);
    }
    progress_end(&from->progress);
    pipe_done(&pipe);
    return code;
}

static void report(const struct from *from)
{
    const struct taking *taking = &from->taking;
    if (taking->session->json) {
        print_json_line(
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "keys", (json_int_t)from->scanned,
                      "counters", (json_int_t)taking->counters, "reactions",
                      (json_int_t)taking->reactions, "changed", (json_int_t)taking->changed,
                      "differing", (json_int_t)from->differing, "notes", (json_int_t)from->notes,
                      "unknown", (json_int_t)from->unknown, "bad", (json_int_t)taking->bad));
        return;
    }
    (void)printf("%llu keys%s: %llu counters, %llu reactions of which %llu are new, %llu counts "
                 "that differ from their members, %llu bad; left out: %llu notes, %llu unknown\n",
                 (unsigned long long)from->scanned, taking->is_dry ? ", nothing was changed" : "",
                 (unsigned long long)taking->counters, (unsigned long long)taking->reactions,
                 (unsigned long long)taking->changed, (unsigned long long)from->differing,
                 (unsigned long long)taking->bad, (unsigned long long)from->notes,
                 (unsigned long long)from->unknown);
}

static int run(struct from *from, const struct command_line *line)
{
    int code = open_source(from);
    if (code == EXIT_FINE)
        code = taking_open(&from->taking, from->session, place_of_key, from);
    if (code != EXIT_FINE)
        return code;
    code = find_state(from, line);
    if (code == EXIT_FINE)
        code = scan_keys(from);
    if (code == EXIT_FINE)
        code = take_all(from);
    if (code == EXIT_FINE) {
        if (from->state_path[0])
            (void)unlink(from->state_path);
        report(from);
        if (from->taking.bad > 0)
            code = EXIT_PARTIAL;
    }
    taking_close(&from->taking);
    return code;
}

int import_redis(struct session *session, const struct command_line *line)
{
    struct from *from = memory_take_zeroed(sizeof(*from));
    from->session = session;
    int code = parse(from, line);
    if (code == EXIT_FINE)
        code = run(from, line);
    if (from->context)
        redisFree(from->context);
    for (size_t i = 0; i < from->key_count; i++)
        free_key(&from->keys[i]);
    free(from->keys);
    free(from->more);
    free(from);
    return code;
}
