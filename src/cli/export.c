#include "cli/export.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "cli/answer.h"
#include "cli/pipe.h"
#include "cli/progress.h"
#include "cli/server_run.h"
#include "cli/session.h"

#define OUTPUT_BYTES  ((size_t)1 << 20) /* written when so much has gathered */
#define OUTPUT_MAX    ((size_t)256 << 20)
#define TAIL_BYTES    ((size_t)1 << 20) /* looked through at a time for the last cursor */
#define KINDS_MAX     16u
#define PIPE_COMMANDS 1024u

enum phase { PHASE_COUNTERS, PHASE_ITEMS, PHASE_END };
static const char *const phase_names[] = {"counters", "items", "end"};

struct export
{
    struct session *session;
    const char *pattern;
    int fd;
    struct buffer output;
    bool has_failed; /* to write */
    int failure;     /* errno of that */
    char kinds[KINDS_MAX][64];
    size_t kind_count;
    struct server_run run;
    enum phase phase;
    char scan[64]; /* cursor of the next page */
    uint64_t counters;
    uint64_t items;
    uint64_t reactions;
    struct progress progress;
    uint64_t all;
    const redisReply *ids; /* the page under way */
    struct {
        size_t id;
        size_t kind;
        char cursor[64];
    } * more; /* items of the page with more members than an answer holds; owned */
    size_t more_count;
    size_t more_room;
    uint64_t *seen; /* owned: hashes of the ids of this run; 0 is an empty place */
    size_t seen_count;
    size_t seen_room; /* a power of two */
};

/* --- output ----------------------------------------------------------------------- */

static void write_out(struct export *export)
{
    size_t written = 0;
    while (!export->has_failed && written < export->output.size) {
        ssize_t size =
            write(export->fd, export->output.data + written, export->output.size - written);
        if (size < 0 && errno != EINTR) {
            export->has_failed = true;
            export->failure = errno;
        } else if (size > 0)
            written += (size_t)size;
    }
    export->output.size = 0;
}

static void end_line(struct export *export)
{
    (void)buffer_append(&export->output, "\n", 1);
    if (export->output.size >= OUTPUT_BYTES)
        write_out(export);
}

static void put(struct export *export, const char *text)
{
    (void)buffer_append(&export->output, text, strlen(text));
}

static void write_head(struct export *export)
{
    put(export, "{\"tally\":\"export\",\"version\":1,\"kinds\":[");
    for (size_t i = 0; i < export->kind_count; i++) {
        put(export, i > 0 ? "," : "");
        print_json_append(&export->output, slice_of(export->kinds[i]));
    }
    put(export, "]}");
    end_line(export);
}

static void write_cursor(struct export *export)
{
    (void)buffer_printf(&export->output,
                        "{\"cursor\":{\"phase\":\"%s\",\"scan\":\"%s\",\"process\":%lld,"
                        "\"started\":%lld,\"counters\":%llu,\"items\":%llu,\"reactions\":%llu}}",
                        phase_names[export->phase], export->scan, (long long)export->run.process_id,
                        (long long)export->run.started_s, (unsigned long long)export->counters,
                        (unsigned long long)export->items, (unsigned long long)export->reactions);
    end_line(export);
    write_out(export);
    progress_set(&export->progress, export->counters + export->items, export->all);
}

static void write_end(struct export *export)
{
    (void)buffer_printf(&export->output, "{\"end\":{\"counters\":%llu,\"reactions\":%llu}}",
                        (unsigned long long)export->counters,
                        (unsigned long long)export->reactions);
    end_line(export);
    write_out(export);
}

/* --- ids once -------------------------------------------------------------------------- */

static bool put_hash(uint64_t *table, size_t room, uint64_t hash)
{
    for (size_t place = hash & (room - 1);; place = (place + 1) & (room - 1)) {
        if (table[place] == hash)
            return false;
        if (table[place] == 0) {
            table[place] = hash;
            return true;
        }
    }
}

/* SCAN may show an id twice, when it is dropped or loaded meanwhile. */
static bool is_new(struct export *export, struct slice id)
{
    if (2 * export->seen_count >= export->seen_room) {
        size_t room = export->seen_room > 0 ? 2 * export->seen_room : 4096;
        uint64_t *table = memory_take_zeroed(room * sizeof(*table));
        for (size_t i = 0; i < export->seen_room; i++)
            if (export->seen[i] != 0)
                (void)put_hash(table, room, export->seen[i]);
        free(export->seen);
        export->seen = table;
        export->seen_room = room;
    }
    bool added = put_hash(export->seen, export->seen_room, hash_stable(id) | 1);
    export->seen_count += added;
    return added;
}

/* --- counters --------------------------------------------------------------------- */

static void put_number(struct export *export, const redisReply *map, const char *field,
                       const char *name, int64_t usual)
{
    const redisReply *value = answer_field(map, field);
    if (!answer_is_nil(value) && answer_number(value) != usual)
        (void)buffer_printf(&export->output, ",\"%s\":%lld", name, (long long)answer_number(value));
}

static void put_text(struct export *export, const redisReply *map, const char *name,
                     const char *usual)
{
    char room[ANSWER_NUMBER_BYTES];
    struct slice text = answer_field_text(map, name, room);
    if (answer_is_nil(answer_field(map, name)) || slice_equal(text, slice_of(usual)))
        return;
    (void)buffer_printf(&export->output, ",\"%s\":", name);
    print_json_append(&export->output, text);
}

static void write_counter(struct export *export, struct slice id, const redisReply *info)
{
    char room[ANSWER_NUMBER_BYTES];
    put(export, "{\"counter\":");
    print_json_append(&export->output, id);
    put(export, ",\"value\":");
    print_json_append(&export->output, answer_field_text(info, "value", room));
    put_number(export, info, "shards_asked", "shards", 1);
    put_text(export, info, "policy", "local");
    put_text(export, info, "floor", "");
    put_number(export, info, "idle_s", "idle_s", 0);
    put_number(export, info, "deadline_ms", "deadline_ms", 0);
    put(export, "}");
    end_line(export);
    export->counters++;
}

static bool is_type(const redisReply *info, const char *type)
{
    char room[ANSWER_NUMBER_BYTES];
    return slice_equal(answer_field_text(info, "type", room), slice_of(type));
}

static struct slice id_of(const struct export *export, size_t index)
{
    const redisReply *id = export->ids->element[index];
    return (struct slice){id->str, id->len};
}

/* The answer to COUNTER.INFO. What was deleted in between is an error, and is left out;
 * reactions are listed as counters, but are written member by member. */
static void counter_answered(void *arg, uint64_t tag, const redisReply *reply)
{
    struct export *export = arg;
    if (reply->type == REDIS_REPLY_ARRAY && is_type(reply, "counter") &&
        is_new(export, id_of(export, tag)))
        write_counter(export, id_of(export, tag), reply);
}

/* item/kind: no counter can have such a name. */
static bool is_reaction(const struct export *export, struct slice id)
{
    const char *slash = id.size > 0 ? memrchr(id.data, '/', id.size) : NULL;
    for (size_t i = 0; slash && i < export->kind_count; i++) {
        struct slice last = {slash + 1, id.size - (size_t)(slash + 1 - id.data)};
        if (slice_equal(last, slice_of(export->kinds[i])))
            return true;
    }
    return false;
}

static enum err ask_counters(struct export *export, struct pipe *pipe)
{
    enum err err = ERR_OK;
    for (size_t i = 0; !err && i < export->ids->elements; i++) {
        if (is_reaction(export, id_of(export, i)))
            continue;
        const struct slice words[] = {SLICE("COUNTER.INFO"), id_of(export, i)};
        err = pipe_send(pipe, i, words, 2);
    }
    return err;
}

/* --- items ------------------------------------------------------------------------ */

/* Answers about an item are told apart by their tags: 0 is COUNTER.INFO, then the kinds. */
#define ANSWERS_OF_ITEM (KINDS_MAX + 1)

static void write_members(struct export *export, size_t id, size_t kind, const redisReply *users)
{
    for (size_t i = 0; i < users->elements; i++) {
        put(export, "{\"item\":");
        print_json_append(&export->output, id_of(export, id));
        put(export, ",\"user\":");
        print_json_append(&export->output,
                          (struct slice){users->element[i]->str, users->element[i]->len});
        put(export, ",\"kind\":");
        print_json_append(&export->output, slice_of(export->kinds[kind]));
        put(export, "}");
        end_line(export);
    }
    export->reactions += users->elements;
}

static void write_item(struct export *export, size_t id, const redisReply *info)
{
    export->items++;
    if (info->type != REDIS_REPLY_ARRAY || answer_field_number(info, "shards_asked") <= 1)
        return;
    put(export, "{\"item\":");
    print_json_append(&export->output, id_of(export, id));
    put_number(export, info, "shards_asked", "shards", 1);
    put(export, "}");
    end_line(export);
}

static void remember_more(struct export *export, size_t id, size_t kind, const char *cursor)
{
    if (export->more_count == export->more_room) {
        export->more_room = export->more_room * 2 + 16;
        export->more = memory_resize(export->more, export->more_room * sizeof(*export->more));
    }
    export->more[export->more_count].id = id;
    export->more[export->more_count].kind = kind;
    (void)snprintf(export->more[export->more_count].cursor, sizeof(export->more[0].cursor), "%s",
                   cursor);
    export->more_count++;
}

static void item_answered(void *arg, uint64_t tag, const redisReply *reply)
{
    struct export *export = arg;
    size_t id = tag / ANSWERS_OF_ITEM;
    size_t part = tag % ANSWERS_OF_ITEM;
    if (part == 0) {
        write_item(export, id, reply);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        write_members(export, id, part - 1, reply->element[1]);
        if (strcmp(reply->element[0]->str, "0") != 0)
            remember_more(export, id, part - 1, reply->element[0]->str);
    }
}

static enum err ask_items(struct export *export, struct pipe *pipe)
{
    enum err err = ERR_OK;
    for (size_t i = 0; !err && i < export->ids->elements; i++) {
        if (!is_new(export, id_of(export, i)))
            continue;
        const struct slice info[] = {SLICE("COUNTER.INFO"), id_of(export, i)};
        err = pipe_send(pipe, i * ANSWERS_OF_ITEM, info, 2);
        for (size_t kind = 0; !err && kind < export->kind_count; kind++) {
            const struct slice words[] = {SLICE("MEMBERS"), id_of(export, i),
                                          slice_of(export->kinds[kind]), SLICE("COUNT"),
                                          SLICE("1000")};
            err = pipe_send(pipe, i * ANSWERS_OF_ITEM + kind + 1, words, 5);
        }
    }
    return err;
}

/* The further pages of the items that are large. */
static int write_more(struct export *export)
{
    int code = EXIT_FINE;
    for (size_t i = 0; i < export->more_count; i++) {
        char *cursor = export->more[i].cursor;
        while (strcmp(cursor, "0") != 0) {
            const struct slice words[] = {SLICE("MEMBERS"),
                                          id_of(export, export->more[i].id),
                                          slice_of(export->kinds[export->more[i].kind]),
                                          SLICE("CURSOR"),
                                          slice_of(cursor),
                                          SLICE("COUNT"),
                                          SLICE("10000")};
            redisReply *page = session_send(export->session, words, 7, &code);
            if (!page)
                return code;
            write_members(export, export->more[i].id, export->more[i].kind, page->element[1]);
            (void)snprintf(cursor, sizeof(export->more[i].cursor), "%s", page->element[0]->str);
            freeReplyObject(page);
        }
    }
    export->more_count = 0;
    return EXIT_FINE;
}

/* --- pages ------------------------------------------------------------------------ */

static int export_page(struct export *export)
{
    struct pipe pipe;
    bool of_items = export->phase == PHASE_ITEMS;
    pipe_init(&pipe, export->session->context, PIPE_COMMANDS,
              of_items ? item_answered : counter_answered, export);
    enum err err = of_items ? ask_items(export, &pipe) : ask_counters(export, &pipe);
    if (!err)
        err = pipe_finish(&pipe);
    pipe_done(&pipe);
    if (err)
        return session_broke(export->session, export->session->context);
    return write_more(export);
}

/* One page of SCAN, wholly, and the cursor behind it. */
static int export_step(struct export *export)
{
    int code = EXIT_FINE;
    redisReply *page = session_call(export->session, &code, "SCAN", export->scan, "MATCH",
                                    export->pattern, "COUNT", "5000", "TYPE",
                                    export->phase == PHASE_ITEMS ? "item" : "string", NULL);
    if (!page)
        return code;
    export->ids = page->element[1];
    code = export_page(export);
    (void)snprintf(export->scan, sizeof(export->scan), "%s", page->element[0]->str);
    freeReplyObject(page);
    if (code != EXIT_FINE)
        return code;
    if (strcmp(export->scan, "0") == 0)
        export->phase++;
    write_cursor(export);
    return EXIT_FINE;
}

/* --- going on --------------------------------------------------------------------- */

/* Where the last whole line that begins with `start` ends, and its text, in `bytes`. */
static bool find_last(struct slice bytes, const char *start, struct slice *ret_line)
{
    const char *end = bytes.data + bytes.size;
    while (end > bytes.data) {
        const char *last = memrchr(bytes.data, '\n', (size_t)(end - bytes.data));
        if (!last)
            return false;
        const char *before = memrchr(bytes.data, '\n', (size_t)(last - bytes.data));
        const char *line = before ? before + 1 : bytes.data;
        if ((size_t)(last - line) > strlen(start) && memcmp(line, start, strlen(start)) == 0) {
            *ret_line = (struct slice){line, (size_t)(last - line)};
            return true;
        }
        end = line;
    }
    return false;
}

static bool read_cursor(struct export *export, struct slice line)
{
    json_error_t error;
    const char *phase;
    const char *scan;
    json_int_t process;
    json_int_t started;
    json_int_t counters;
    json_int_t items;
    json_int_t reactions;
    json_t *root = json_loadb(line.data, line.size, 0, &error);
    bool is_fine =
        root && json_unpack(root, "{s:{s:s, s:s, s:I, s:I, s:I, s:I, s:I}}", "cursor", "phase",
                            &phase, "scan", &scan, "process", &process, "started", &started,
                            "counters", &counters, "items", &items, "reactions", &reactions) == 0;
    if (is_fine) {
        export->phase = strcmp(phase, "items") == 0 ? PHASE_ITEMS
                        : strcmp(phase, "end") == 0 ? PHASE_END
                                                    : PHASE_COUNTERS;
        (void)snprintf(export->scan, sizeof(export->scan), "%s", scan);
        export->run.process_id = process;
        export->run.started_s = started;
        export->counters = (uint64_t)counters;
        export->items = (uint64_t)items;
        export->reactions = (uint64_t)reactions;
    }
    json_decref(root);
    return is_fine;
}

enum found { FOUND_NOTHING, FOUND_CURSOR, FOUND_END };

/* Looks from the end of the file for a cursor; *ret_size is where it ends. */
static enum found find_cursor(struct export *export, off_t file_size, off_t *ret_size)
{
    char *bytes = memory_take(2 * TAIL_BYTES);
    enum found found = FOUND_NOTHING;
    struct slice line;
    for (off_t end = file_size; found == FOUND_NOTHING && end > 0;) {
        off_t start = end > (off_t)(2 * TAIL_BYTES) ? end - (off_t)(2 * TAIL_BYTES) : 0;
        ssize_t size = pread(export->fd, bytes, (size_t)(end - start), start);
        struct slice read = {bytes, size > 0 ? (size_t)size : 0};
        if (find_last(read, "{\"end\":", &line) && end == file_size)
            found = FOUND_END;
        else if (find_last(read, "{\"cursor\":", &line) && read_cursor(export, line)) {
            found = FOUND_CURSOR;
            *ret_size = start + (line.data - bytes) + (off_t)line.size + 1;
        }
        /* Pieces overlap, so that no line is cut in all of them. */
        end = start > 0 ? start + (off_t)TAIL_BYTES : 0;
    }
    free(bytes);
    return found;
}

static void begin(struct export *export)
{
    export->phase = PHASE_COUNTERS;
    (void)snprintf(export->scan, sizeof(export->scan), "0");
    export->counters = export->items = export->reactions = 0;
}

/* Finds the place to go on from; *ret_done when there is nothing left to do. */
static int resume(struct export *export, const char *path, bool *ret_done)
{
    struct server_run now = export->run;
    struct stat status;
    off_t size = 0;
    if (fstat(export->fd, &status) != 0)
        return session_fail(EXIT_FILE, "%s: %s", path, strerror(errno));
    enum found found = find_cursor(export, status.st_size, &size);
    *ret_done = found == FOUND_END;
    if (found == FOUND_END) {
        session_remark(export->session, "%s is complete already", path);
        return EXIT_FINE;
    }
    bool is_same = found == FOUND_CURSOR && server_run_same(&now, &export->run);
    export->run = now;
    if (!is_same) {
        session_remark(export->session, found == FOUND_CURSOR
                                            ? "the server was restarted since: beginning anew"
                                            : "no place to go on from: beginning anew");
        begin(export);
        size = 0;
    }
    if (ftruncate(export->fd, size) != 0 || lseek(export->fd, size, SEEK_SET) < 0)
        return session_fail(EXIT_FILE, "%s: %s", path, strerror(errno));
    if (size == 0)
        write_head(export);
    return EXIT_FINE;
}

static int open_file(struct export *export, const char *path, const struct command_line *line,
                     bool *ret_done)
{
    bool resumes = command_has(line, COMMAND_RESUME);
    bool restarts = command_has(line, COMMAND_RESTART);
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | (restarts ? O_TRUNC : resumes ? 0 : O_EXCL);
    export->fd = open(path, flags, 0600);
    if (export->fd < 0 && errno == EEXIST)
        return session_fail(EXIT_USAGE,
                            "%s is there already; go on with --resume, or begin anew with "
                            "--restart",
                            path);
    if (export->fd < 0)
        return session_fail(EXIT_FILE, "cannot write %s: %s", path, strerror(errno));
    if (resumes)
        return resume(export, path, ret_done);
    write_head(export);
    return EXIT_FINE;
}

/* --- all of it -------------------------------------------------------------------- */

static int read_kinds(struct export *export)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(export->session, &code, "CONFIG", "GET", "kinds", NULL);
    if (!reply)
        return code;
    const redisReply *kinds = answer_field(reply, "kinds");
    const char *at = kinds && kinds->str ? kinds->str : "like,dislike";
    while (*at && export->kind_count < KINDS_MAX) {
        size_t size = strcspn(at, ",");
        (void)snprintf(export->kinds[export->kind_count++], sizeof(export->kinds[0]), "%.*s",
                       (int)size, at);
        at += size + (at[size] == ',');
    }
    freeReplyObject(reply);
    return EXIT_FINE;
}

static int prepare(struct export *export)
{
    int code = read_kinds(export);
    if (code == EXIT_FINE)
        code = server_run_read(export->session, &export->run);
    if (code != EXIT_FINE)
        return code;
    redisReply *size = session_call(export->session, &code, "DBSIZE", NULL);
    if (!size)
        return code;
    export->all = strcmp(export->pattern, "*") == 0 ? (uint64_t)answer_number(size) : 0;
    freeReplyObject(size);
    return EXIT_FINE;
}

static int write_all(struct export *export, const char *path)
{
    int code = EXIT_FINE;
    progress_start(&export->progress, "export", "counters and items", export->session->quiet);
    while (code == EXIT_FINE && export->phase != PHASE_END && !export->has_failed)
        code = export_step(export);
    if (code == EXIT_FINE)
        write_end(export);
    progress_end(&export->progress);
    if (code == EXIT_FINE && !export->has_failed && path && fsync(export->fd) != 0) {
        export->has_failed = true;
        export->failure = errno;
    }
    errno = export->failure;
    if (code == EXIT_FINE && export->has_failed)
        code = session_cannot_write(path ? path : "the output");
    else if (code != EXIT_FINE && path)
        session_remark(export->session, "go on later with: tally export %s --resume", path);
    return code;
}

static void report(const struct export *export)
{
    if (export->session->json)
        (void)fprintf(stderr, "{\"counters\":%llu,\"items\":%llu,\"reactions\":%llu}\n",
                      (unsigned long long)export->counters, (unsigned long long)export->items,
                      (unsigned long long)export->reactions);
    else
        session_remark(export->session, "%llu counters, %llu items, %llu reactions",
                       (unsigned long long)export->counters, (unsigned long long)export->items,
                       (unsigned long long)export->reactions);
}

int export_run(struct session *session, const struct command_line *line)
{
    const char *path = line->word_count > 0 ? line->words[0] : NULL;
    const char *pattern = command_value(line, COMMAND_PATTERN);
    if (!path && (command_has(line, COMMAND_RESUME) || command_has(line, COMMAND_RESTART)))
        return session_fail(EXIT_USAGE, "only an export into a file can be gone on with");

    struct export export = {
        .session = session, .pattern = pattern ? pattern : "*", .fd = STDOUT_FILENO};
    buffer_init(&export.output, OUTPUT_MAX);
    begin(&export);
    bool is_done = false;
    int code = prepare(&export);
    if (code == EXIT_FINE && path)
        code = open_file(&export, path, line, &is_done);
    else if (code == EXIT_FINE)
        write_head(&export);
    if (code == EXIT_FINE && !is_done)
        code = write_all(&export, path);
    if (code == EXIT_FINE && !is_done)
        report(&export);
    if (path && export.fd >= 0)
        (void)close(export.fd);
    buffer_done(&export.output);
    free(export.more);
    free(export.seen);
    return code;
}
