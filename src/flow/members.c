#include "flow/members.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "core/user.h"
#include "flow/lookback.h"

#define TABLE_FIRST 1024u
#define BYTES_MAX   ((size_t)8 << 30)
#define LANES_TRIES 20u

/* A user, and how often each kind was taken up more than it was given up: 1 for the kind that is
 * held. Lanes of a log are read one beside the other, and a user may have moved from one to
 * another: a sum does not ask which of them was first. Names lie in `bytes`. */
struct member {
    uint64_t hash;
    size_t user_at;
    size_t user_size;
    int32_t held[LIMIT_KINDS]; /* by kind, [0] being kind 1 */
    uint32_t number;
    uint16_t bucket;
    int64_t time_ms;
};

struct members {
    struct slice item;
    uint64_t item_hash;
    uint64_t hash_key; /* of the table: clients choose the names in it */
    const struct kinds *kinds;
    const uint64_t *until;
    uint32_t incarnation;
    struct buffer bytes;
    struct member *list;
    size_t count;
    size_t room;
    uint32_t *table; /* member + 1 */
    size_t table_size;
};

static void clear(struct members *members)
{
    members->count = 0;
    members->bytes.size = 0;
    memset(members->table, 0, members->table_size * sizeof(*members->table));
}

static void widen(struct members *members)
{
    free(members->table);
    members->table_size *= 2;
    members->table = memory_take_zeroed(members->table_size * sizeof(*members->table));
    for (size_t i = 0; i < members->count; i++) {
        size_t slot = (size_t)members->list[i].hash & (members->table_size - 1);
        while (members->table[slot] != 0)
            slot = (slot + 1) & (members->table_size - 1);
        members->table[slot] = (uint32_t)i + 1;
    }
}

static size_t keep(struct members *members, struct slice bytes)
{
    size_t at = members->bytes.size;
    if (buffer_append_slice(&members->bytes, bytes))
        abort();
    return at;
}

static struct slice user_of(const struct members *members, const struct member *member)
{
    return (struct slice){members->bytes.data + member->user_at, member->user_size};
}

static struct member *member_of(struct members *members, struct slice user)
{
    uint64_t hash = hash_keyed(user, members->hash_key);
    size_t slot = (size_t)hash & (members->table_size - 1);
    while (members->table[slot] != 0) {
        struct member *member = &members->list[members->table[slot] - 1];
        if (member->hash == hash && slice_equal(user_of(members, member), user))
            return member;
        slot = (slot + 1) & (members->table_size - 1);
    }
    if (members->count == members->room) {
        members->room = members->room ? members->room * 2 : TABLE_FIRST;
        members->list = memory_resize(members->list, members->room * sizeof(*members->list));
    }
    struct member *member = &members->list[members->count++];
    *member = (struct member){.hash = hash,
                              .user_at = keep(members, user),
                              .user_size = user.size,
                              .bucket = bucket_of_hashed(members->item_hash, user)};
    members->table[slot] = (uint32_t)members->count;
    if (members->count * 2 > members->table_size) {
        widen(members);
        member = &members->list[members->count - 1];
    }
    return member;
}

static void add_kind(const struct members *members, struct member *member, struct slice kind,
                     int32_t by)
{
    uint8_t number = kinds_find(members->kinds, kind);
    if (number != KIND_NONE)
        member->held[number - 1] += by;
}

static struct slice kind_of(const struct members *members, const struct member *member)
{
    for (uint8_t kind = 1; kind <= members->kinds->count; kind++)
        if (member->held[kind - 1] > 0)
            return kinds_name(members->kinds, kind);
    return (struct slice){0};
}

static void take_event(struct members *members, const struct event *event)
{
    if (event->sequence > members->until[event->origin] ||
        event->incarnation < members->incarnation)
        return;
    if (event->type == EVENT_DELETE || event->incarnation > members->incarnation) {
        clear(members);
        members->incarnation =
            event->type == EVENT_DELETE ? event->next_incarnation : event->incarnation;
    }
    if (event->type != EVENT_REACT || event->erased)
        return; /* who was erased holds nothing any more */
    struct member *member = member_of(members, event->user);
    add_kind(members, member, event->before, -1);
    add_kind(members, member, event->after, 1);
    if (event->time_ms < member->time_ms)
        return;
    member->number = event->user_number;
    member->time_ms = event->time_ms;
}

static enum err take_section(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    struct members *members = arg;
    struct section_reader reader;
    struct event event;
    (void)next;
    enum err err = section_open(&reader, section, error);
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        if (slice_equal(event.id, members->item) && event.origin < LIMIT_CELLS)
            take_event(members, &event);
        event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err write_members(const struct members *members, struct store *store,
                              const uint64_t *at, struct slice text, int64_t now_ms,
                              struct error *error)
{
    struct store_reaction *list = memory_take((members->count + 1) * sizeof(*list));
    size_t count = 0;
    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->list[i];
        struct slice kind = kind_of(members, member);
        if (kind.size == 0)
            continue;
        struct slice user = user_of(members, member);
        uint32_t numeric;
        bool is_numeric = user_is_numeric(user, &numeric);
        list[count++] = (struct store_reaction){
            .user = user,
            .named = !is_numeric,
            .number = is_numeric ? numeric : member->number,
            .bucket = member->bucket,
            .after = kind,
            .time_ms = member->time_ms,
        };
    }
    enum err err = store_mend_members(store, members->item, list, count, at, text, now_ms, error);
    free(list);
    return err;
}

enum err members_reach(struct desk_seat *seat, struct error *error)
{
    struct log_segment first;
    if (log_segments(seat->desk->log, &first, 1) > 0 && first.number > 1)
        return error_set(error, ERR_UNAVAILABLE,
                         "the log does not reach back to the item's beginning");
    return ERR_OK;
}

static enum err mend_in_one(struct desk_seat *seat, struct store *store, struct members *members,
                            struct slice text, struct error *error)
{
    struct state_mark mark;
    enum err err = members_reach(seat, error);
    if (!err)
        err = store_mark(store, &mark, error);
    if (err)
        return err;
    members->until = mark.sequences;
    err = seat_read_log(seat, (struct log_position){0}, NULL, take_section, members, NULL, NULL,
                        error);
    return err ? err
               : write_members(members, store, NULL, text, env_wall_ms(seat->desk->options.env),
                               error);
}

/* Other processes apply other lanes meanwhile. What they have added since is read on, until the
 * store is where we are. */
static enum err mend_in_lanes(struct desk_seat *seat, struct store *store, struct members *members,
                              struct slice text, struct error *error)
{
    struct lookback lookback;
    struct state_mark mark;
    enum err err = ERR_BUSY;
    lookback_init(&lookback, seat, take_section, members);
    for (unsigned i = 0; err == ERR_BUSY && i < LANES_TRIES; i++) {
        err = store_mark(store, &mark, error);
        members->until = mark.sequences;
        if (!err)
            err = lookback_read_to(&lookback, &mark, error);
        if (!err)
            err = write_members(members, store, mark.sequences, text,
                                env_wall_ms(seat->desk->options.env), error);
    }
    lookback_done(&lookback);
    return err;
}

enum err members_mend(struct desk_seat *seat, struct store *store, struct slice item,
                      struct slice text, struct error *error)
{
    struct members members = {.item = item,
                              .item_hash = hash_stable(item),
                              .hash_key = env_random(seat->desk->options.env),
                              .kinds = seat->desk->kinds,
                              .table_size = TABLE_FIRST};
    members.table = memory_take_zeroed(TABLE_FIRST * sizeof(*members.table));
    buffer_init(&members.bytes, BYTES_MAX);
    enum err err = desk_has_lanes(seat->desk) ? mend_in_lanes(seat, store, &members, text, error)
                                              : mend_in_one(seat, store, &members, text, error);
    buffer_done(&members.bytes);
    free(members.table);
    free(members.list);
    return err;
}
