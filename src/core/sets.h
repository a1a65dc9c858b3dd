/* sets.h - who holds what on an item, or on a slice of one, in a few bytes a member.
 *
 *   sets  = group* check(4 bytes, low byte first: XXH3 of what stands before)
 *   group = head(1 byte: kind * 2 + 1 for named users) count(varint) bytes(varint) gap(varint)*
 *
 * Groups are sorted by their heads and never empty. Numbers are sorted; the first gap
 * is the first number, each other one is the distance to the number before, less one.
 * Nobody at all is no bytes at all.
 *
 * A user is in one group at most. Whatever is read is checked, and ERR_CORRUPT
 * says that it was not written by us. Pure. */
#ifndef CORE_SETS_H
#define CORE_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#define SETS_KINDS 64u /* numbers of kinds are below; 0 is "none" */
#define SETS_HEADS (SETS_KINDS * 2)

/* What a user holds from now on. */
struct sets_touch {
    uint32_t number;
    uint8_t named;
    uint8_t kind; /* 0: nothing */
};

/* Sorts by class and number; of several touches of one user the last one stays. Returns how many
 * are left. `spare` has room for `count`. */
size_t sets_sort(struct sets_touch *touches, size_t count, struct sets_touch *spare);

/* Appends to `to` what `old` becomes by the sorted touches, and adds to `deltas`, by kind,
 * how many members more there are. On an error `to` is as it was. */
enum err sets_merge(struct slice old, const struct sets_touch *touches, size_t count,
                    struct buffer *to, int64_t deltas[SETS_KINDS]);

struct sets_group {
    uint8_t kind;
    bool named;
    uint32_t count;
    size_t first; /* index of its first number */
};

/* Members as numbers. Born zeroed; what it holds is freed by sets_list_done(). */
struct sets_list {
    struct sets_group groups[SETS_HEADS];
    size_t group_count;
    uint32_t *numbers; /* owned */
    size_t number_count;
    size_t capacity;
};

enum err sets_read(struct slice sets, struct sets_list *list);
void sets_list_done(struct sets_list *list);

/* How many members there are, by kind, and all together; counted one by one. */
enum err sets_count(struct slice sets, int64_t counts[SETS_KINDS], int64_t *ret_all);

/* The kind that a user holds; 0 = none. */
enum err sets_find(struct slice sets, bool named, uint32_t wanted, uint8_t *ret_kind);

#endif
