#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/sequence.h"
#include "core/user.h"
#include "log/kafka/event_json_event.h"
#include "log/kafka/event_names.h"
#include "log/kafka/json_parse.h"

/* The fields of an event, in the order in which they are written. */
#define FIELDS(X)                        \
    X(TYPE, type, "type")                \
    X(COUNTER, counter, "counter")       \
    X(ITEM, item, "item")                \
    X(ID, id, "id")                      \
    X(INC, inc, "inc")                   \
    X(DELTA, delta, "delta")             \
    X(NEXT_INC, next_inc, "next_inc")    \
    X(SHARDS, shards, "shards")          \
    X(POLICY, policy, "policy")          \
    X(IDLE, idle, "idle_s")              \
    X(FLOOR, floor, "floor")             \
    X(DEADLINE, deadline, "deadline_ms") \
    X(USER, user, "user")                \
    X(NUMBER, number, "number")          \
    X(ERASED, erased, "erased")          \
    X(BEFORE, before, "before")          \
    X(AFTER, after, "after")             \
    X(KIND, repaired, "kind")            \
    X(MISSING, missing, "missing")       \
    X(PLACE, place, "place")             \
    X(ORIGIN, origin, "origin")          \
    X(EPOCH, epoch, "epoch")             \
    X(SEQ, seq, "seq")                   \
    X(KEY, key, "key")                   \
    X(REGION, region, "region")

enum field {
#define X(name, take, text) FIELD_##name,
    FIELDS(X)
#undef X
        FIELD_COUNT
};

#define BIT(name) (1u << FIELD_##name)

/* An event being read. */
struct draft {
    struct event event;
    uint32_t fields; /* those that were there, a bit each */
    uint64_t epoch;
    uint64_t n;
};

typedef bool take_fn(struct json_parse *parse, struct draft *draft);

/* ---- values ---- */

/* A string, or {"hex":"..."}, of up to `max` bytes. */
static bool take_bytes(struct json_parse *parse, size_t min, size_t max, struct slice *ret_bytes)
{
    struct slice name;
    bool is_first = true;
    if (!json_meet(parse, '{')) {
        if (!json_string(parse, ret_bytes))
            return false;
    } else if (!json_field(parse, &is_first, &name) || !slice_equal(name, SLICE("hex")) ||
               !json_string(parse, &name) || !json_hex(parse, name, ret_bytes) ||
               !json_take(parse, '}')) {
        return json_refuse(parse, "is not hexadecimal");
    }
    if (ret_bytes->size < min)
        return json_refuse(parse, "is empty");
    return ret_bytes->size <= max || json_refuse(parse, "is too long");
}

static bool take_kind(struct json_parse *parse, struct slice *ret_kind)
{
    *ret_kind = (struct slice){0};
    return json_null(parse) || take_bytes(parse, 1, LIMIT_KIND_BYTES, ret_kind);
}

static bool take_amount(struct json_parse *parse, struct number *ret_amount)
{
    struct slice digits;
    if (!json_string(parse, &digits))
        return false;
    number_done(ret_amount); /* of another field that is there as well: it will be refused */
    return number_parse(digits, ret_amount) == ERR_OK || json_refuse(parse, "is not a number");
}

static bool take_32(struct json_parse *parse, uint64_t max, uint32_t *ret_value)
{
    uint64_t value;
    if (!json_unsigned(parse, max, &value))
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

/* ---- fields ---- */

static bool take_type(struct json_parse *parse, struct draft *draft)
{
    struct slice word;
    if (!json_string(parse, &word))
        return false;
#define X(number, name, field)            \
    if (slice_equal(word, SLICE(name))) { \
        draft->event.type = number;       \
        return true;                      \
    }
    EVENT_NAMES(X)
#undef X
    return json_refuse(parse, "is of an unknown type");
}

static bool take_id(struct json_parse *parse, struct draft *draft)
{
    return take_bytes(parse, 1, LIMIT_ID_BYTES, &draft->event.id);
}

static bool take_counter(struct json_parse *parse, struct draft *draft)
{
    return take_id(parse, draft);
}

static bool take_item(struct json_parse *parse, struct draft *draft)
{
    return take_id(parse, draft);
}

static bool take_inc(struct json_parse *parse, struct draft *draft)
{
    return take_32(parse, UINT32_MAX, &draft->event.incarnation);
}

static bool take_delta(struct json_parse *parse, struct draft *draft)
{
    return take_amount(parse, &draft->event.amount);
}

static bool take_next_inc(struct json_parse *parse, struct draft *draft)
{
    return take_32(parse, UINT32_MAX, &draft->event.next_incarnation);
}

static bool take_shards(struct json_parse *parse, struct draft *draft)
{
    return take_32(parse, LIMIT_CELLS, &draft->event.create.shards) &&
           (draft->event.create.shards > 0 || json_refuse(parse, "is zero"));
}

static bool take_policy(struct json_parse *parse, struct draft *draft)
{
    struct slice word;
    return json_string(parse, &word) && (policy_parse(word, &draft->event.create.policy) ||
                                         json_refuse(parse, "is not a policy"));
}

static bool take_idle(struct json_parse *parse, struct draft *draft)
{
    return take_32(parse, UINT32_MAX, &draft->event.create.idle_s);
}

static bool take_floor(struct json_parse *parse, struct draft *draft)
{
    struct number floor = number_of(0);
    if (json_null(parse))
        return true;
    if (!take_amount(parse, &floor))
        return false;
    if (floor.big) {
        number_done(&floor);
        return json_refuse(parse, "does not fit");
    }
    draft->event.create.has_floor = true;
    draft->event.create.floor = floor.small;
    return true;
}

static bool take_deadline(struct json_parse *parse, struct draft *draft)
{
    return json_signed(parse, &draft->event.deadline_ms);
}

static bool take_user(struct json_parse *parse, struct draft *draft)
{
    return take_bytes(parse, 1, LIMIT_USER_BYTES, &draft->event.user);
}

static bool take_number(struct json_parse *parse, struct draft *draft)
{
    return take_32(parse, EVENT_NO_NUMBER - 1, &draft->event.user_number);
}

static bool take_erased(struct json_parse *parse, struct draft *draft)
{
    draft->event.erased = true;
    return take_32(parse, EVENT_ERASED_MAX, &draft->event.erased_bytes);
}

static bool take_before(struct json_parse *parse, struct draft *draft)
{
    return take_kind(parse, &draft->event.before);
}

static bool take_after(struct json_parse *parse, struct draft *draft)
{
    return take_kind(parse, &draft->event.after);
}

/* The kind of a repair is that of an item, or none for a counter. */
static bool take_repaired(struct json_parse *parse, struct draft *draft)
{
    return take_kind(parse, &draft->event.kind);
}

static bool take_missing(struct json_parse *parse, struct draft *draft)
{
    return take_amount(parse, &draft->event.amount);
}

static bool take_place(struct json_parse *parse, struct draft *draft)
{
    struct slice word;
    if (!json_string(parse, &word))
        return false;
#define X(number, name)                   \
    if (slice_equal(word, SLICE(name))) { \
        draft->event.place = number;      \
        return true;                      \
    }
    PLACE_NAMES(X)
#undef X
    return json_refuse(parse, "is not a place");
}

static bool take_origin(struct json_parse *parse, struct draft *draft)
{
    return take_32(parse, UINT32_MAX, &draft->event.after_origin);
}

static bool take_epoch(struct json_parse *parse, struct draft *draft)
{
    return json_unsigned(parse, EPOCH_MAX, &draft->epoch);
}

static bool take_seq(struct json_parse *parse, struct draft *draft)
{
    return json_unsigned(parse, N_MAX, &draft->n);
}

static bool take_fingerprint(struct json_parse *parse, uint64_t *ret_fingerprint)
{
    struct slice digits;
    struct slice bytes;
    if (!json_string(parse, &digits) || !json_hex(parse, digits, &bytes))
        return false;
    if (bytes.size != 8)
        return json_refuse(parse, "is not a fingerprint");
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value = value << 8 | (unsigned char)bytes.data[i];
    *ret_fingerprint = value;
    return true;
}

static bool take_key_field(struct json_parse *parse, struct slice name, struct event *event,
                           unsigned *seen)
{
    static const char *const names[] = {"key", "fingerprint", "changed", "held", "value"};
    unsigned which = 0;
    while (which < 5 && !slice_equal(name, slice_of(names[which])))
        which++;
    if (which == 5 || (*seen >> which & 1))
        return json_refuse(parse, "is not a field of a key, or is there twice");
    *seen |= 1u << which;
    switch (which) {
    case 0:
        return take_bytes(parse, 1, LIMIT_KEY_BYTES, &event->key);
    case 1:
        return take_fingerprint(parse, &event->answer.fingerprint);
    case 2:
        return json_bool(parse, &event->answer.changed);
    case 3:
        return take_kind(parse, &event->answer.held);
    default:
        return take_amount(parse, &event->answer.value);
    }
}

static bool take_key(struct json_parse *parse, struct draft *draft)
{
    struct slice name;
    bool is_first = true;
    unsigned seen = 0;
    if (!json_take(parse, '{'))
        return false;
    while (json_field(parse, &is_first, &name))
        if (!take_key_field(parse, name, &draft->event, &seen))
            return false;
    return !parse->fault && (seen == 0x1f || json_refuse(parse, "lacks a field of the key"));
}

static bool take_region(struct json_parse *parse, struct draft *draft)
{
    return take_bytes(parse, 1, LIMIT_REGION_BYTES, &draft->event.region);
}

static const struct {
    struct slice name;
    take_fn *take;
} fields[] = {
#define X(name, take, text) {{text, sizeof(text) - 1}, take_##take},
    FIELDS(X)
#undef X
};

/* ---- an event ---- */

/* Fields come in the order of the table, so the next one is looked for behind the last. */
static bool find_field(struct slice name, unsigned *field)
{
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        unsigned which = (*field + i) % FIELD_COUNT;
        if (slice_equal(fields[which].name, name)) {
            *field = which;
            return true;
        }
    }
    return false;
}

static uint32_t needed(const struct draft *draft)
{
    switch (draft->event.type) {
    case EVENT_ADD:
    case EVENT_RESET:
        return BIT(COUNTER) | BIT(DELTA);
    case EVENT_DELETE:
        return BIT(ID) | BIT(NEXT_INC);
    case EVENT_CREATE:
        return BIT(COUNTER) | BIT(SHARDS) | BIT(POLICY) | BIT(IDLE) | BIT(FLOOR);
    case EVENT_EXPIRE:
        return BIT(ID) | BIT(DEADLINE);
    case EVENT_REACT:
        return BIT(ITEM) | BIT(BEFORE) | BIT(AFTER) |
               (draft->event.erased ? BIT(ERASED) : BIT(USER));
    case EVENT_NOTHING:
        return BIT(ID) | BIT(KEY);
    case EVENT_REPAIR:
        return BIT(ID) | BIT(KIND) | BIT(MISSING) | BIT(PLACE);
    case EVENT_EPOCH:
        return BIT(ID);
    case EVENT_AFTER:
        return BIT(ITEM) | BIT(ORIGIN) | BIT(EPOCH) | BIT(SEQ);
    }
    return 0;
}

static bool check_erased(struct json_parse *parse, const struct event *event)
{
    if (!event->erased)
        return true;
    if (event->type == EVENT_REACT)
        return event->erased_bytes > 0 || json_refuse(parse, "erases nothing");
    return (event->key.size > 0 && event->erased_bytes == 0) ||
           json_refuse(parse, "is erased, but has no user and no key");
}

static bool check_event(struct json_parse *parse, const struct draft *draft)
{
    uint32_t own;
    uint32_t must = BIT(TYPE) | needed(draft);
    uint32_t may = must | BIT(INC) | BIT(KEY) | BIT(REGION) | BIT(ERASED);
    if (draft->event.type == EVENT_REACT && !draft->event.erased)
        may |= BIT(NUMBER);
    if (!(draft->fields & BIT(TYPE)))
        return json_refuse(parse, "has no type");
    if ((draft->fields & must) != must)
        return json_refuse(parse, "lacks a field of its type");
    if (draft->fields & ~may)
        return json_refuse(parse, "has a field that is not of its type");
    if ((draft->fields & BIT(NUMBER)) && user_is_numeric(draft->event.user, &own))
        return json_refuse(parse, "gives a number to a user who is one");
    return check_erased(parse, &draft->event);
}

static bool take_fields(struct json_parse *parse, struct draft *draft)
{
    struct slice name;
    bool is_first = true;
    unsigned field = 0;
    if (!json_take(parse, '{'))
        return false;
    while (json_field(parse, &is_first, &name)) {
        if (!find_field(name, &field) || (draft->fields >> field & 1))
            return json_refuse(parse, "is not a field of an event, or is there twice");
        if (!fields[field].take(parse, draft))
            return false;
        draft->fields |= 1u << field;
    }
    draft->event.after_sequence = sequence_of(draft->epoch, draft->n);
    return !parse->fault && check_event(parse, draft);
}

bool event_json_take_event(struct json_parse *parse, struct section *section)
{
    struct draft draft = {.event.user_number = EVENT_NO_NUMBER};
    if (section_is_full(section))
        return json_refuse(parse, "is more than a section can hold");
    bool is_good = take_fields(parse, &draft);
    if (is_good)
        section_event(section, &draft.event);
    event_done(&draft.event);
    return is_good;
}
