#include "core/sets.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/varint.h"

#define CHECK_BYTES  4u
#define NUMBER_BYTES 5u /* of a gap, at most */
#define HEADER_BYTES (1u + 2u * NUMBER_BYTES)

/* A group as it stands in the bytes. */
struct stretch {
    uint8_t head;
    uint32_t count;
    const char *at; /* the gaps */
    const char *end;
};

static uint32_t check_of(const char *data, size_t size)
{
    return (uint32_t)XXH3_64bits(data, size);
}

/* Takes the checksum off the end. */
static enum err open_sets(struct slice sets, const char **ret_at, const char **ret_end)
{
    *ret_at = *ret_end = sets.data;
    if (sets.size == 0)
        return ERR_OK;
    if (sets.size <= CHECK_BYTES)
        return ERR_CORRUPT;
    size_t size = sets.size - CHECK_BYTES;
    uint32_t check;
    memcpy(&check, sets.data + size, CHECK_BYTES);
    if (check != check_of(sets.data, size))
        return ERR_CORRUPT;
    *ret_end = sets.data + size;
    return ERR_OK;
}

/* The next group, whose head must be above `last`. ERR_NOT_FOUND behind the last one. */
static enum err next_stretch(const char **at, const char *end, int last, struct stretch *ret)
{
    if (*at == end)
        return ERR_NOT_FOUND;
    uint8_t head = (uint8_t) * (*at)++;
    uint64_t count;
    uint64_t bytes;
    if (!(*at = varint_get(*at, end, &count)) || !(*at = varint_get(*at, end, &bytes)))
        return ERR_CORRUPT;
    if (head >= SETS_HEADS || head < 2 || head <= last || count == 0 || count > bytes ||
        bytes > (uint64_t)(end - *at))
        return ERR_CORRUPT;
    *ret = (struct stretch){head, (uint32_t)count, *at, *at + bytes};
    *at += bytes;
    return ERR_OK;
}

/* The number behind `last` (-1 at first). False at the end, and when the bytes make no sense:
 * then the stretch has a count left. */
static inline bool next_number(struct stretch *stretch, int64_t *last)
{
    if (stretch->count == 0)
        return false;
    uint64_t gap;
    if (stretch->at < stretch->end && (unsigned char)*stretch->at < 0x80) {
        gap = (unsigned char)*stretch->at++;
    } else {
        const char *at = varint_get(stretch->at, stretch->end, &gap);
        if (!at || gap > UINT32_MAX)
            return false;
        stretch->at = at;
    }
    *last += (int64_t)gap + 1;
    if (*last > UINT32_MAX)
        return false;
    stretch->count--;
    return true;
}

static bool is_read(const struct stretch *stretch)
{
    return stretch->count == 0 && stretch->at == stretch->end;
}

/* ---- sorting ---- */

static uint64_t order_of(const struct sets_touch *touch)
{
    return (uint64_t)touch->named << 32 | touch->number;
}

/* A stable merge sort: what was later stays behind what was earlier. Short runs by insertion. */
static void sort_touches(struct sets_touch *touches, size_t count, struct sets_touch *spare)
{
    if (count <= 16) {
        for (size_t i = 1; i < count; i++) {
            struct sets_touch touch = touches[i];
            size_t j = i;
            for (; j > 0 && order_of(&touches[j - 1]) > order_of(&touch); j--)
                touches[j] = touches[j - 1];
            touches[j] = touch;
        }
        return;
    }
    size_t half = count / 2;
    sort_touches(touches, half, spare);
    sort_touches(touches + half, count - half, spare);
    memcpy(spare, touches, half * sizeof(*touches));
    size_t a = 0;
    size_t b = half;
    size_t to = 0;
    while (a < half && b < count)
        touches[to++] = order_of(&spare[a]) <= order_of(&touches[b]) ? spare[a++] : touches[b++];
    while (a < half)
        touches[to++] = spare[a++];
}

size_t sets_sort(struct sets_touch *touches, size_t count, struct sets_touch *spare)
{
    sort_touches(touches, count, spare);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && order_of(&touches[i]) == order_of(&touches[i + 1]))
            continue;
        touches[kept++] = touches[i];
    }
    return kept;
}

/* ---- merging ---- */

/* Numbers being written as gaps. */
struct gaps {
    char *at;
    int64_t last;
    uint32_t count;
};

static inline void put_number(struct gaps *gaps, int64_t number)
{
    uint64_t gap = (uint64_t)(number - gaps->last - 1);
    if (gap < 0x80)
        *gaps->at++ = (char)gap;
    else
        gaps->at = varint_put(gaps->at, gap);
    gaps->last = number;
    gaps->count++;
}

/* Writes what `old` becomes. False: its bytes make no sense. */
static bool merge_numbers(struct stretch *old, const struct sets_touch *touches, size_t count,
                          uint8_t kind, struct gaps *gaps)
{
    int64_t number = -1;
    bool more = next_number(old, &number);
    for (size_t i = 0; i < count; i++) {
        int64_t touched = touches[i].number;
        while (more && number < touched) {
            put_number(gaps, number);
            more = next_number(old, &number);
        }
        if (more && number == touched)
            more = next_number(old, &number);
        if (touches[i].kind == kind)
            put_number(gaps, touched);
    }
    while (more) {
        put_number(gaps, number);
        more = next_number(old, &number);
    }
    return is_read(old);
}

static enum err merge_group(struct stretch *old, const struct sets_touch *touches, size_t count,
                            struct buffer *to, int64_t *delta)
{
    size_t old_bytes = (size_t)(old->end - old->at);
    enum err err = buffer_reserve(to, old_bytes + (count + 1) * NUMBER_BYTES + HEADER_BYTES);
    if (err)
        return err;
    char *start = to->data + to->size;
    char *body = start + HEADER_BYTES;
    struct gaps gaps = {.at = body, .last = -1};
    *delta -= old->count;
    if (!merge_numbers(old, touches, count, old->head / 2, &gaps))
        return ERR_CORRUPT;
    *delta += gaps.count;
    if (gaps.count == 0)
        return ERR_OK;
    size_t bytes = (size_t)(gaps.at - body);
    *start++ = (char)old->head;
    start = varint_put(start, gaps.count);
    start = varint_put(start, bytes);
    memmove(start, body, bytes);
    to->size = (size_t)(start + bytes - to->data);
    return ERR_OK;
}

/* The heads that the touches bring, as bits; and where the named ones begin. */
static size_t heads_of(const struct sets_touch *touches, size_t count, uint64_t heads[2])
{
    size_t named = count;
    for (size_t i = count; i > 0; i--) {
        const struct sets_touch *touch = &touches[i - 1];
        unsigned head = touch->kind * 2u + touch->named;
        heads[head / 64] |= UINT64_C(1) << head % 64;
        if (touch->named)
            named = i - 1;
    }
    return named;
}

static enum err merge_groups(struct slice old, const struct sets_touch *touches, size_t count,
                             struct buffer *to, int64_t deltas[SETS_KINDS])
{
    const char *at;
    const char *end;
    enum err err = open_sets(old, &at, &end);
    if (err)
        return err;
    uint64_t heads[2] = {0};
    size_t named = heads_of(touches, count, heads);
    heads[0] &= ~UINT64_C(3); /* "none" is no group */

    struct stretch next = {0};
    err = next_stretch(&at, end, -1, &next);
    while (err != ERR_CORRUPT && (err == ERR_OK || heads[0] || heads[1])) {
        unsigned head = heads[0]   ? (unsigned)__builtin_ctzll(heads[0])
                        : heads[1] ? 64u + (unsigned)__builtin_ctzll(heads[1])
                                   : SETS_HEADS;
        struct stretch group = {.head = (uint8_t)head};
        if (err == ERR_OK && next.head <= head) {
            head = next.head;
            group = next;
            err = next_stretch(&at, end, (int)head, &next);
        }
        heads[head / 64] &= ~(UINT64_C(1) << head % 64);
        bool is_named = head % 2;
        enum err merged = merge_group(&group, touches + (is_named ? named : 0),
                                      is_named ? count - named : named, to, &deltas[head / 2]);
        if (merged)
            return merged;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err sets_merge(struct slice old, const struct sets_touch *touches, size_t count,
                    struct buffer *to, int64_t deltas[SETS_KINDS])
{
    assert(to && deltas);

    size_t start = to->size;
    enum err err = merge_groups(old, touches, count, to, deltas);
    if (!err && to->size > start) {
        uint32_t check = check_of(to->data + start, to->size - start);
        err = buffer_append(to, &check, CHECK_BYTES);
    }
    if (err)
        to->size = start;
    return err;
}

/* ---- reading ---- */

static void make_room(struct sets_list *list, size_t count)
{
    if (list->capacity >= list->number_count + count)
        return;
    list->capacity = (list->number_count + count) * 2;
    list->numbers = memory_resize(list->numbers, list->capacity * sizeof(*list->numbers));
}

enum err sets_read(struct slice sets, struct sets_list *list)
{
    assert(list);

    list->group_count = 0;
    list->number_count = 0;
    const char *at;
    const char *end;
    enum err err = open_sets(sets, &at, &end);
    int last_head = -1;
    struct stretch group;
    while (!err && !(err = next_stretch(&at, end, last_head, &group))) {
        last_head = group.head;
        make_room(list, group.count);
        list->groups[list->group_count++] =
            (struct sets_group){group.head / 2, group.head % 2, group.count, list->number_count};
        int64_t number = -1;
        while (next_number(&group, &number))
            list->numbers[list->number_count++] = (uint32_t)number;
        if (!is_read(&group))
            return ERR_CORRUPT;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

void sets_list_done(struct sets_list *list)
{
    free(list->numbers);
    list->numbers = NULL;
    list->number_count = list->capacity = list->group_count = 0;
}

enum err sets_count(struct slice sets, int64_t counts[SETS_KINDS], int64_t *ret_all)
{
    const char *at;
    const char *end;
    enum err err = open_sets(sets, &at, &end);
    int last_head = -1;
    struct stretch group;
    while (!err && !(err = next_stretch(&at, end, last_head, &group))) {
        last_head = group.head;
        int64_t number = -1;
        int64_t count = 0;
        while (next_number(&group, &number))
            count++;
        if (!is_read(&group))
            return ERR_CORRUPT;
        counts[group.head / 2] += count;
        *ret_all += count;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err sets_find(struct slice sets, bool named, uint32_t wanted, uint8_t *ret_kind)
{
    *ret_kind = 0;
    const char *at;
    const char *end;
    enum err err = open_sets(sets, &at, &end);
    int last_head = -1;
    struct stretch group;
    while (!err && !(err = next_stretch(&at, end, last_head, &group))) {
        last_head = group.head;
        if (group.head % 2 != named)
            continue;
        int64_t number = -1;
        while (number < wanted && next_number(&group, &number))
            ;
        if (number == wanted) {
            *ret_kind = group.head / 2;
            return ERR_OK;
        }
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}
