/* hot_rig.h - a hot layer over a log in a folder of its own, for the tests of
 * core/hot.h: short words for ops, and the whole state as a text, so that what
 * is there before and after a restart can be compared.
 *
 * To run the suites against another hot layer, open it in rig_open_hot(). */
#ifndef HOT_RIG_H
#define HOT_RIG_H

#include "unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hot.h"
#include "core/kinds.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"

#define RIG_BEGAN_MS INT64_C(1700000000000)

#define LIKE    1u
#define DISLIKE 2u

/* ---- a log that says what we want about its room ---- */

struct rig_log {
    struct log base;
    struct log *inner; /* owned */
    enum err room;     /* unless ERR_OK: what to say instead of the log */
    _Atomic unsigned appended;
    void (*before_append)(void); /* NULL or called with the cell's lock held */
};

static inline enum err rig_log_read(struct log *log, struct log_position from, log_visit_fn *visit,
                                    void *arg, log_reading_fn *reading, struct error *error)
{
    return log_read(((struct rig_log *)log)->inner, from, visit, arg, reading, error);
}

static inline enum err rig_log_start(struct log *log, struct error *error)
{
    return log_start(((struct rig_log *)log)->inner, error);
}

static inline uint64_t rig_log_append(struct log *log, struct slice header, struct slice body)
{
    struct rig_log *rig_log = (struct rig_log *)log;
    assert_int_equal(rig_log->room, ERR_OK); /* nobody asked */
    if (rig_log->before_append)
        rig_log->before_append();
    uint64_t ticket = log_append(rig_log->inner, header, body);
    atomic_fetch_add(&rig_log->appended, 1);
    return ticket;
}

static inline enum err rig_log_room(struct log *log)
{
    struct rig_log *rig_log = (struct rig_log *)log;
    return rig_log->room ? rig_log->room : log_room(rig_log->inner);
}

static inline uint64_t rig_log_reached(struct log *log, enum log_level level)
{
    return log_reached(((struct rig_log *)log)->inner, level);
}

static inline void rig_log_stats(struct log *log, struct log_stats *ret_stats)
{
    log_stats(((struct rig_log *)log)->inner, ret_stats);
}

static inline void rig_log_close(struct log *log)
{
    log_close(((struct rig_log *)log)->inner);
    free(log);
}

static const struct log_ops rig_log_ops = {
    .name = "rig",
    .read = rig_log_read,
    .start = rig_log_start,
    .append = rig_log_append,
    .room = rig_log_room,
    .reached = rig_log_reached,
    .stats = rig_log_stats,
    .close = rig_log_close,
};

/* ---- the rig ---- */

struct rig {
    /* set before rig_open() */
    const char *kind_list; /* NULL = like,dislike */
    unsigned workers;      /* 0 = 4 */
    uint64_t keys_kept_ms; /* 0 = 24 h */
    uint32_t idle_s;
    uint64_t spread_rate; /* 0 = never by itself */

    int64_t now_ms;      /* what the next batch takes for the time */
    bool keys_forgotten; /* some were: their number is not the same after a restart */
    char folder[64];
    struct kinds kinds;
    struct rig_log *log;
    struct hot *hot;
};

static inline void rig_fatal(void *arg, const struct error *error)
{
    (void)arg;
    fprintf(stderr, "%s\n", error->text);
    abort();
}

static inline void rig_open_log(struct rig *rig)
{
    struct file_log_options options = {.folder = rig->folder,
                                       .segment_bytes = 4 << 20,
                                       .pending_bytes_max = 256 << 20,
                                       .fatal = rig_fatal};
    rig->log = calloc(1, sizeof(*rig->log));
    assert_non_null(rig->log);
    rig->log->base.ops = &rig_log_ops;
    struct error error;
    if (file_log_open(env_system(), &options, &rig->log->inner, &error))
        fail_msg("%s", error.text);
}

static inline void rig_open_hot(struct rig *rig)
{
    struct memory_hot_options options = {.kinds = &rig->kinds,
                                         .log = &rig->log->base,
                                         .workers = rig->workers,
                                         .keys_kept_ms = rig->keys_kept_ms,
                                         .idle_s = rig->idle_s,
                                         .spread_rate = rig->spread_rate};
    rig->hot = memory_hot_open(env_system(), &options);
}

static inline enum err rig_replay(void *arg, struct slice section, struct log_position next,
                                  struct error *error)
{
    (void)next;
    struct hot *hot = arg;
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    struct event event;
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        err = hot_replay(hot, &event, error);
        event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static inline void rig_start(struct rig *rig)
{
    rig_open_log(rig);
    rig_open_hot(rig);
    struct error error = {0};
    if (log_read(&rig->log->base, (struct log_position){0}, rig_replay, rig->hot, NULL, &error))
        fail_msg("%s", error.text);
    if (log_start(&rig->log->base, &error))
        fail_msg("%s", error.text);
}

static inline void rig_stop(struct rig *rig)
{
    hot_close(rig->hot);
    log_close(&rig->log->base);
    rig->hot = NULL;
    rig->log = NULL;
}

static inline void rig_open(struct rig *rig)
{
    rig->kind_list = rig->kind_list ? rig->kind_list : "like,dislike";
    rig->workers = rig->workers ? rig->workers : 4;
    rig->keys_kept_ms = rig->keys_kept_ms ? rig->keys_kept_ms : 24 * 3600 * 1000;
    rig->now_ms = RIG_BEGAN_MS;
    assert_int_equal(kinds_parse(&rig->kinds, slice_of(rig->kind_list), NULL), ERR_OK);
    snprintf(rig->folder, sizeof(rig->folder), "/tmp/tally-hot-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    rig_start(rig);
}

static inline void rig_close(struct rig *rig)
{
    rig_stop(rig);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", rig->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own name */
}

/* ---- ops in short ---- */

static inline struct op get(const char *id)
{
    return (struct op){.kind = OP_GET, .id = slice_of(id)};
}

static inline struct op add(const char *id, int64_t amount)
{
    return (struct op){.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
}

static inline struct op set(const char *id, int64_t amount)
{
    return (struct op){.kind = OP_SET, .id = slice_of(id), .amount = number_of(amount)};
}

static inline struct op on(enum op_kind kind, const char *id)
{
    return (struct op){.kind = kind, .id = slice_of(id)};
}

static inline struct op expire(const char *id, int64_t deadline_ms)
{
    return (struct op){.kind = OP_EXPIRE, .id = slice_of(id), .deadline_ms = deadline_ms};
}

static inline struct op create(const char *id, struct op_create *as)
{
    return (struct op){.kind = OP_CREATE, .id = slice_of(id), .create = as};
}

static inline struct op react(const char *item, const char *user, unsigned kind)
{
    return (struct op){
        .kind = OP_REACT, .id = slice_of(item), .user = slice_of(user), .reaction = (uint8_t)kind};
}

static inline struct op withdraw(const char *item, const char *user, unsigned kind)
{
    struct op op = react(item, user, kind);
    op.kind = OP_WITHDRAW;
    return op;
}

static inline struct op toggle(const char *item, const char *user, unsigned kind)
{
    struct op op = react(item, user, kind);
    op.kind = OP_TOGGLE;
    return op;
}

static inline struct op keyed(struct op op, const char *key)
{
    op.key = slice_of(key);
    return op;
}

/* ---- running them ---- */

static inline void rig_batch_done(struct batch *batch)
{
    ++*(unsigned *)batch->arg;
}

static inline void rig_run(struct rig *rig, unsigned worker, struct op *ops, size_t count)
{
    unsigned done = 0;
    struct batch batch = {.ops = ops,
                          .count = count,
                          .worker = worker,
                          .now_ms = rig->now_ms,
                          .done = rig_batch_done,
                          .arg = &done};
    hot_run(rig->hot, &batch);
    assert_int_equal(done, 1);
}

static inline struct op rig_ask(struct rig *rig, struct op op)
{
    rig_run(rig, 0, &op, 1);
    return op;
}

/* A number as text, in memory that lasts for the next few calls. */
static inline const char *rig_text(const struct number *number)
{
    static _Thread_local char texts[4][1200];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4];
    struct buffer buffer;
    buffer_init(&buffer, sizeof(texts[0]) - 1);
    assert_int_equal(number_format(number, &buffer), ERR_OK);
    memcpy(text, buffer.data, buffer.size);
    text[buffer.size] = 0;
    buffer_done(&buffer);
    return text;
}

/* ---- the whole state as a text ---- */

struct rig_lines {
    char **lines;
    size_t count;
    size_t capacity;
};

static inline void rig_line(struct rig_lines *lines, struct slice text)
{
    if (lines->count == lines->capacity) {
        lines->capacity = lines->capacity ? 2 * lines->capacity : 64;
        lines->lines = realloc(lines->lines, lines->capacity * sizeof(*lines->lines));
        assert_non_null(lines->lines);
    }
    char *copy = malloc(text.size + 1);
    assert_non_null(copy);
    memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    lines->lines[lines->count++] = copy;
}

static inline void rig_lines_done(struct rig_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        free(lines->lines[i]);
    free(lines->lines);
    *lines = (struct rig_lines){0};
}

static inline int rig_compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void rig_sort(struct rig_lines *lines)
{
    if (lines->count > 0)
        qsort(lines->lines, lines->count, sizeof(*lines->lines), rig_compare_lines);
}

static inline void rig_see_member(void *arg, struct slice user)
{
    rig_line(arg, user);
}

/* All members of a kind, sorted, read in pages of about `limit`. */
static inline struct rig_lines rig_members(struct rig *rig, struct slice item, uint8_t kind,
                                           uint32_t limit)
{
    struct rig_lines members = {0};
    struct op_page page = {.limit = limit, .visit = rig_see_member, .arg = &members};
    do {
        struct op op = rig_ask(
            rig, (struct op){.kind = OP_MEMBERS, .id = item, .reaction = kind, .page = &page});
        assert_int_equal(op.code, ERR_OK);
    } while (page.cursor != 0);
    rig_sort(&members);
    return members;
}

static inline void rig_see_entry(void *arg, const struct hot_entry *entry)
{
    assert_true(entry->is_item == (entry->value == NULL));
    assert_true(entry->is_item == (entry->counts != NULL));
    rig_line(arg, entry->id);
}

/* The ids of everything that is there, sorted. */
static inline struct rig_lines rig_scan(struct rig *rig, uint32_t limit)
{
    struct rig_lines ids = {0};
    uint64_t cursor = 0;
    do {
        hot_scan(rig->hot, &cursor, limit, rig_see_entry, &ids);
    } while (cursor != 0);
    rig_sort(&ids);
    return ids;
}

static inline void rig_describe_members(struct rig *rig, struct slice item, struct rig_lines *to)
{
    int64_t counts[LIMIT_KINDS] = {0};
    struct op op = rig_ask(rig, (struct op){.kind = OP_COUNTS, .id = item, .counts = counts});
    assert_int_equal(op.code, ERR_OK);
    for (unsigned kind = 1; kind <= rig->kinds.count; kind++) {
        struct rig_lines members = rig_members(rig, item, (uint8_t)kind, 997);
        assert_int_equal(members.count, counts[kind - 1]);

        char id[LIMIT_ID_BYTES + LIMIT_KIND_BYTES + 2];
        int size =
            snprintf(id, sizeof(id), "%.*s/%s", SLICE_ARGS(item), rig->kinds.names[kind - 1]);
        struct number recounted;
        assert_int_equal(hot_recount(rig->hot, (struct slice){id, (size_t)size}, &recounted),
                         ERR_OK);
        assert_int_equal(recounted.small, counts[kind - 1]);
        for (size_t i = 0; i < members.count; i++) {
            assert_true(i == 0 || strcmp(members.lines[i - 1], members.lines[i]) != 0);
            char line[1024];
            size = snprintf(line, sizeof(line), "member %s of %s", members.lines[i], id);
            rig_line(to, (struct slice){line, (size_t)size});
        }
        rig_lines_done(&members);
    }
}

static inline void rig_describe_id(struct rig *rig, struct slice id, struct rig_lines *to)
{
    struct op_describe is;
    struct op op = rig_ask(rig, (struct op){.kind = OP_DESCRIBE, .id = id, .describe = &is});
    if (op.code == ERR_NOT_FOUND)
        return; /* its time is over, and nobody has swept it up yet */
    assert_int_equal(op.code, ERR_OK);
    const char *value = "";
    if (is.is_item) {
        rig_describe_members(rig, id, to);
    } else {
        op = rig_ask(rig, (struct op){.kind = OP_GET, .id = id});
        assert_int_equal(op.code, ERR_OK);
        value = rig_text(&op.value);
        struct number recounted;
        assert_int_equal(hot_recount(rig->hot, id, &recounted), ERR_OK);
        assert_int_equal(number_compare(&recounted, &op.value), 0);
        number_done(&recounted);
        number_done(&op.value);
    }
    char line[2048];
    int size =
        snprintf(line, sizeof(line),
                 "%s %.*s = %s asked %u policy %s floor %d %lld idle %u deadline %lld "
                 "incarnation %u home %u written %lld",
                 is.is_item ? "item" : "counter", SLICE_ARGS(id), value, is.shards_asked,
                 policy_name(is.policy), is.has_floor, (long long)is.floor, is.idle_s,
                 (long long)is.deadline_ms, is.incarnation, is.home, (long long)is.written_ms);
    rig_line(to, (struct slice){line, (size_t)size});
}

static inline struct rig_lines rig_state(struct rig *rig)
{
    struct rig_lines ids = rig_scan(rig, 100);
    struct rig_lines state = {0};
    for (size_t i = 0; i < ids.count; i++)
        rig_describe_id(rig, slice_of(ids.lines[i]), &state);
    rig_lines_done(&ids);

    struct hot_stats stats;
    hot_stats(rig->hot, &stats);
    char line[256];
    int size =
        snprintf(line, sizeof(line), "counters %llu items %llu members %llu big %llu keys %llu",
                 (unsigned long long)stats.counters, (unsigned long long)stats.items,
                 (unsigned long long)stats.members, (unsigned long long)stats.big,
                 rig->keys_forgotten ? 0 : (unsigned long long)stats.keys);
    rig_line(&state, (struct slice){line, (size_t)size});
    rig_sort(&state);
    return state;
}

/* Closes everything, opens it again, and finds it as it was. */
static inline void rig_restart(struct rig *rig)
{
    struct rig_lines before = rig_state(rig);
    rig_stop(rig);
    rig_start(rig);
    struct rig_lines after = rig_state(rig);
    for (size_t i = 0; i < before.count && i < after.count; i++)
        assert_string_equal(before.lines[i], after.lines[i]);
    assert_int_equal(before.count, after.count);
    rig_lines_done(&before);
    rig_lines_done(&after);
}

#endif
