/* image.h - a counter or an item, or one slice of an item, as the store has it: with what the store
 * knows and could not apply (state_target.pending) put on top.
 *
 * Users are known by their names here; those whose names are numbers come as numbers. An image has
 * its own copies of everything. Pure. */
#ifndef HOT_REDIS_IMAGE_H
#define HOT_REDIS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "core/kinds.h"
#include "core/state.h"

struct image_member {
    uint32_t at; /* in `names` */
    uint16_t size;
    uint8_t kind; /* KIND_NONE: not any more */
};

struct image {
    const struct kinds *kinds; /* borrowed */
    bool is_there;
    bool is_item;
    bool is_sliced; /* members come slice by slice */
    uint32_t incarnation;
    int64_t written_ms;
    struct op_create create;
    int64_t deadline_ms;
    struct number value;          /* owned */
    int64_t counts[LIMIT_KINDS];  /* [0] is kind 1 */
    struct image_member *members; /* owned */
    size_t member_count;
    size_t member_room;
    struct buffer names;
};

void image_init(struct image *image, const struct kinds *kinds);
void image_done(struct image *image);

/* ERR_NO_KIND: somebody holds a kind that is not configured. ERR_CORRUPT: named users without
 * their names. `target` NULL: there is none. */
enum err image_of_target(struct image *image, const struct state_target *target);

/* One slice: only members. */
enum err image_of_slice(struct image *image, struct slice item, uint32_t slice,
                        const struct state_members *members, size_t count,
                        const struct event *pending, size_t pending_count);

static inline struct slice image_user(const struct image *image, const struct image_member *member)
{
    return (struct slice){image->names.data + member->at, member->size};
}

/* From now on members are found by halving; none may be added. */
void image_sort(struct image *image);

/* What the user holds; after image_sort(). */
uint8_t image_held(const struct image *image, struct slice user);

#endif
