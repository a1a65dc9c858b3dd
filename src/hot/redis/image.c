#include "hot/redis/image.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "core/bucket.h"

#define NAMES_BYTES_MAX ((size_t)1 << 31)

void image_init(struct image *image, const struct kinds *kinds)
{
    *image = (struct image){.kinds = kinds, .create = {.shards = 1}};
    buffer_init(&image->names, NAMES_BYTES_MAX);
}

void image_done(struct image *image)
{
    number_done(&image->value);
    free(image->members);
    buffer_done(&image->names);
}

/* ---- members ---- */

static enum err add_member(struct image *image, struct slice user, uint8_t kind)
{
    if (image->member_count == image->member_room) {
        image->member_room = image->member_room ? image->member_room * 2 : 16;
        image->members =
            memory_resize(image->members, image->member_room * sizeof(*image->members));
    }
    image->members[image->member_count++] = (struct image_member){
        .at = (uint32_t)image->names.size, .size = (uint16_t)user.size, .kind = kind};
    return buffer_append_slice(&image->names, user);
}

static enum err add_numbers(struct image *image, const struct state_members *members, uint8_t kind)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < members->count && !err; i++) {
        char text[DECIMAL_SIZE_MAX];
        char *end = decimal_format_unsigned(text, members->numbers[i]);
        err = add_member(image, (struct slice){text, (size_t)(end - text)}, kind);
    }
    return err;
}

static enum err add_members(struct image *image, const struct state_members *members, size_t count)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && !err; i++) {
        const struct state_members *some = &members[i];
        uint8_t kind = kinds_find(image->kinds, some->kind);
        if (some->count == 0)
            continue;
        if (kind == KIND_NONE)
            return ERR_NO_KIND;
        if (some->named && !some->names)
            return ERR_CORRUPT;
        if (!some->named) {
            err = add_numbers(image, some, kind);
            continue;
        }
        for (size_t j = 0; j < some->count && !err; j++)
            err = add_member(image, some->names[j], kind);
    }
    return err;
}

/* The store's own rule: what it holds for the user decides, not what the event says. */
static struct image_member *find_member(struct image *image, struct slice user)
{
    for (size_t i = 0; i < image->member_count; i++)
        if (slice_equal(image_user(image, &image->members[i]), user))
            return &image->members[i];
    return NULL;
}

static enum err change_member(struct image *image, struct slice user, uint8_t after,
                              uint8_t *ret_before)
{
    struct image_member *member = find_member(image, user);
    *ret_before = member ? member->kind : KIND_NONE;
    if (member)
        member->kind = after;
    else if (after != KIND_NONE)
        return add_member(image, user, after);
    return ERR_OK;
}

/* ---- what is pending ---- */

static void count(struct image *image, uint8_t kind, int64_t by)
{
    if (kind != KIND_NONE)
        image->counts[kind - 1] += by;
}

static enum err replay_react(struct image *image, const struct event *event)
{
    uint8_t before = kinds_find(image->kinds, event->before);
    uint8_t after = kinds_find(image->kinds, event->after);
    enum err err = ERR_OK;
    if ((event->before.size > 0 && before == KIND_NONE) ||
        (event->after.size > 0 && after == KIND_NONE))
        return ERR_NO_KIND;
    image->is_item = true;
    if (!image->is_sliced && !event->erased)
        err = change_member(image, event->user, after, &before);
    count(image, before, -1);
    count(image, after, 1);
    return err;
}

static void begin_anew(struct image *image, uint32_t incarnation)
{
    number_done(&image->value);
    memset(image->counts, 0, sizeof(image->counts));
    image->member_count = 0;
    image->names.size = 0;
    image->is_item = image->is_sliced = false;
    image->create = (struct op_create){.shards = 1};
    image->deadline_ms = 0;
    image->incarnation = incarnation;
}

static enum err replay(struct image *image, const struct event *event)
{
    if (!event_changes(event->type) || event->incarnation < image->incarnation)
        return ERR_OK;
    if (event->type == EVENT_DELETE) {
        begin_anew(image, event->next_incarnation);
        image->is_there = false;
        return ERR_OK;
    }
    if (!image->is_there || event->incarnation > image->incarnation)
        begin_anew(image, event->incarnation);
    image->is_there = true;
    image->written_ms = event->time_ms;
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        number_add(&image->value, &event->amount);
        return ERR_OK;
    case EVENT_CREATE:
        image->create = event->create;
        return ERR_OK;
    case EVENT_EXPIRE:
        image->deadline_ms = event->deadline_ms;
        return ERR_OK;
    case EVENT_REACT:
        return replay_react(image, event);
    default:
        return ERR_OK;
    }
}

/* ---- a target ---- */

static enum err take_counts(struct image *image, const struct state_target *target)
{
    for (size_t i = 0; i < target->kind_count; i++) {
        uint8_t kind = kinds_find(image->kinds, target->kinds[i]);
        if (target->counts[i] == 0)
            continue;
        if (kind == KIND_NONE)
            return ERR_NO_KIND;
        image->counts[kind - 1] = target->counts[i];
    }
    return ERR_OK;
}

static void count_members(struct image *image)
{
    memset(image->counts, 0, sizeof(image->counts));
    for (size_t i = 0; i < image->member_count; i++)
        count(image, image->members[i].kind, 1);
}

static enum err take_row(struct image *image, const struct state_target *target)
{
    image->is_there = true;
    image->is_item = target->is_item;
    image->is_sliced = target->is_item && target->slices != 1;
    image->incarnation = target->incarnation;
    image->written_ms = target->written_ms;
    image->create = target->create;
    image->create.shards = target->create.shards == 0 ? 1 : target->create.shards;
    image->deadline_ms = target->deadline_ms;
    if (!target->is_item) {
        image->value = number_copy(&target->value);
        return ERR_OK;
    }
    if (image->is_sliced)
        return take_counts(image, target);
    enum err err = add_members(image, target->members, target->member_count);
    count_members(image);
    return err;
}

enum err image_of_target(struct image *image, const struct state_target *target)
{
    enum err err = ERR_OK;
    if (!target)
        return ERR_OK;
    if (!target->absent)
        err = take_row(image, target);
    for (size_t i = 0; i < target->pending_count && !err; i++)
        err = replay(image, &target->pending[i]);
    return err;
}

/* ---- a slice ---- */

enum err image_of_slice(struct image *image, struct slice item, uint32_t slice,
                        const struct state_members *members, size_t count,
                        const struct event *pending, size_t pending_count)
{
    image->is_there = image->is_item = true;
    enum err err = add_members(image, members, count);
    for (size_t i = 0; i < pending_count && !err; i++) {
        const struct event *event = &pending[i];
        uint8_t before;
        if (event->type == EVENT_REACT && !event->erased &&
            bucket_slice(bucket_of(item, event->user)) == slice)
            err =
                change_member(image, event->user, kinds_find(image->kinds, event->after), &before);
    }
    return err;
}

/* ---- finding ---- */

static int by_user(const void *a, const void *b, void *arg)
{
    const struct image *image = arg;
    struct slice x = image_user(image, a);
    struct slice y = image_user(image, b);
    int order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order != 0 ? order : (x.size > y.size) - (x.size < y.size);
}

void image_sort(struct image *image)
{
    if (image->member_count > 0)
        qsort_r(image->members, image->member_count, sizeof(*image->members), by_user, image);
}

uint8_t image_held(const struct image *image, struct slice user)
{
    size_t low = 0;
    size_t high = image->member_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct slice name = image_user(image, &image->members[middle]);
        int order = memcmp(name.data, user.data, name.size < user.size ? name.size : user.size);
        if (order == 0)
            order = (name.size > user.size) - (name.size < user.size);
        if (order == 0)
            return image->members[middle].kind;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return KIND_NONE;
}
