/* hot_rig.h - a hot layer for the tests of core/hot.h: short words for ops, and
 * the whole state as a text, so that what is there before and after a restart
 * can be compared.
 *
 * The layer itself, its struct rig, its life and rig_run(), is of another
 * header: the memory layer's, or that of Redis where RIG_REDIS is defined. */
#ifndef HOT_RIG_H
#define HOT_RIG_H

#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hot.h"
#include "core/kinds.h"
#ifdef RIG_REDIS
#include "contract/hot_redis_rig.h"
#else
#include "contract/hot_memory_rig.h"
#endif

#define LIKE    1u
#define DISLIKE 2u

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

#ifndef RIG_REDIS /* where these are estimates */
    struct hot_stats stats;
    hot_stats(rig->hot, &stats);
    char line[256];
    int size =
        snprintf(line, sizeof(line), "counters %llu items %llu members %llu big %llu keys %llu",
                 (unsigned long long)stats.counters, (unsigned long long)stats.items,
                 (unsigned long long)stats.members, (unsigned long long)stats.big,
                 rig->keys_forgotten ? 0 : (unsigned long long)stats.keys);
    rig_line(&state, (struct slice){line, (size_t)size});
#endif
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
