#include "core/event.h"

#include <assert.h>
#include <stdlib.h>

#include "base/varint.h"
#include "core/user.h"

#define TYPE_MASK  0x0fu
#define FLAGS_MASK 0xf0u

/* What a number of 32 bits, and the size of any of our names, take as a varint:
 * two bytes hold a size below 2^14. */
#define VARINT32_SIZE_MAX 5u
#define NAME_SIZE_MAX     2u

#define NAME_ANYWHERE 3u /* bytes: such a name is in no text by chance */

#define DIGITS_MAX (1u + NUMBER_DIGITS_MAX) /* with a sign */

/* What stands where something was erased; the most of them, with a zero byte behind,
 * are as long as the longest user with a number. */
#define ERASED_BYTE '~'
#define ERASED_MAX  (NAME_SIZE_MAX + LIMIT_USER_BYTES + VARINT32_SIZE_MAX - 1u)
static_assert(ERASED_MAX == EVENT_ERASED_MAX, "what the header says");

static_assert(LIMIT_EVENT_BYTES < 1u << 14, "NAME_SIZE_MAX holds the size of every name");
static_assert(1u + 2u * VARINT32_SIZE_MAX + 9u * NAME_SIZE_MAX + LIMIT_ID_BYTES + LIMIT_USER_BYTES +
                      3u * LIMIT_KIND_BYTES + LIMIT_KEY_BYTES + 9u /* fingerprint, flags */ +
                      2u * DIGITS_MAX + LIMIT_REGION_BYTES <=
                  LIMIT_EVENT_BYTES,
              "the largest event fits LIMIT_EVENT_BYTES");
static_assert(LIMIT_KIND_BYTES < 1u << 7, "erase_event() counts on a kind's size in one byte");
static_assert(3 * VARINT_SIZE_MAX + VARINT32_SIZE_MAX <= SECTION_HEADER_MAX,
              "the largest header fits SECTION_HEADER_MAX");

/* ---- writing ---- */

void section_init(struct section *section)
{
    assert(section);

    buffer_init(&section->body, LOG_SECTION_BYTES_MAX);
    section->count = 0;
}

void section_done(struct section *section)
{
    assert(section);

    buffer_done(&section->body);
}

void section_clear(struct section *section)
{
    assert(section);

    section->body.size = 0;
    section->count = 0;
}

/* Where the next event goes, with room for `size` bytes. */
static char *section_room(struct section *section, size_t size)
{
    enum err err = buffer_reserve(&section->body, size);
    assert(!err); /* section_is_full() was not asked */
    return section->body.data + section->body.size;
}

static void section_end_event(struct section *section, const char *end)
{
    section->body.size = (size_t)(end - section->body.data);
    section->count++;
}

static char *put_bytes(char *to, struct slice bytes)
{
    to = varint_put(to, bytes.size);
    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    return to + bytes.size;
}

static char *put_user(char *to, struct slice user, uint32_t user_number)
{
    assert(user.size > 0 && user.size <= LIMIT_USER_BYTES);

    uint32_t own;
    to = put_bytes(to, user);
    if (user_is_numeric(user, &own))
        return to;
    return varint_put(to, user_number == EVENT_NO_NUMBER ? 0 : (uint64_t)user_number + 1);
}

static char *put_erased(char *to, size_t size)
{
    assert(size > 0 && size <= ERASED_MAX);

    memset(to, ERASED_BYTE, size);
    to[size] = '\0';
    return to + size + 1;
}

static char *put_head(char *to, enum event_type type, unsigned flags, uint32_t incarnation,
                      struct slice id)
{
    *to++ = (char)(type | flags);
    to = varint_put(to, incarnation);
    return put_bytes(to, id);
}

void section_add(struct section *section, uint32_t incarnation, struct slice id, int64_t amount,
                 struct slice region)
{
    assert(id.size > 0 && id.size <= LIMIT_ID_BYTES);
    assert(region.size <= LIMIT_REGION_BYTES);

    char *to = section_room(section, 1 + VARINT32_SIZE_MAX + VARINT_SIZE_MAX + 2 * NAME_SIZE_MAX +
                                         id.size + region.size);
    to = put_head(to, EVENT_ADD, region.size > 0 ? EVENT_REGIONAL : 0, incarnation, id);
    to = varint_put(to, varint_zigzag(amount));
    if (region.size > 0)
        to = put_bytes(to, region);
    section_end_event(section, to);
}

void section_react(struct section *section, uint32_t incarnation, struct slice item,
                   struct slice user, uint32_t user_number, struct slice before, struct slice after,
                   struct slice region)
{
    assert(item.size > 0 && item.size <= LIMIT_ID_BYTES);
    assert(before.size <= LIMIT_KIND_BYTES && after.size <= LIMIT_KIND_BYTES);
    assert(region.size <= LIMIT_REGION_BYTES);

    char *to = section_room(section, 1 + 2 * VARINT32_SIZE_MAX + 5 * NAME_SIZE_MAX + item.size +
                                         user.size + before.size + after.size + region.size);
    to = put_head(to, EVENT_REACT, region.size > 0 ? EVENT_REGIONAL : 0, incarnation, item);
    to = put_user(to, user, user_number);
    to = put_bytes(to, before);
    to = put_bytes(to, after);
    if (region.size > 0)
        to = put_bytes(to, region);
    section_end_event(section, to);
}

static char *put_amount(char *to, const struct number *amount)
{
    if (!amount->big)
        return varint_put(to, varint_zigzag(amount->small));

    struct buffer digits;
    buffer_init(&digits, DIGITS_MAX + 8); /* formatting asks for a little more */
    enum err err = number_format(amount, &digits);
    assert(!err && digits.size <= DIGITS_MAX); /* else nobody could read it again */
    to = put_bytes(to, buffer_slice(&digits));
    buffer_done(&digits);
    return to;
}

static char *put_create(char *to, const struct op_create *create)
{
    assert(create->shards > 0 && create->shards <= LIMIT_CELLS);
    assert((unsigned)create->policy < POLICY_COUNT);

    to = varint_put(to, create->shards);
    to = varint_put(to, create->policy);
    to = varint_put(to, create->idle_s);
    to = varint_put(to, create->has_floor);
    return varint_put(to, create->has_floor ? varint_zigzag(create->floor) : 0);
}

static char *put_body(char *to, const struct event *event)
{
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        return put_amount(to, &event->amount);
    case EVENT_DELETE:
        return varint_put(to, event->next_incarnation);
    case EVENT_CREATE:
        return put_create(to, &event->create);
    case EVENT_EXPIRE:
        return varint_put(to, (uint64_t)event->deadline_ms);
    case EVENT_REACT:
        assert(event->before.size <= LIMIT_KIND_BYTES && event->after.size <= LIMIT_KIND_BYTES);
        to = event->erased ? put_erased(to, event->erased_bytes)
                           : put_user(to, event->user, event->user_number);
        to = put_bytes(to, event->before);
        return put_bytes(to, event->after);
    case EVENT_NOTHING:
        assert(event->key.size > 0);
        return to;
    case EVENT_REPAIR:
        assert(event->kind.size <= LIMIT_KIND_BYTES && (unsigned)event->place < PLACE_COUNT);
        to = put_bytes(to, event->kind);
        to = put_amount(to, &event->amount);
        *to++ = (char)event->place;
        return to;
    case EVENT_EPOCH:
        return to;
    case EVENT_AFTER:
        return varint_put(varint_put(to, event->after_origin), event->after_sequence);
    }
    abort(); /* not an event type */
}

static char *put_key(char *to, struct slice key, const struct event_answer *answer)
{
    assert(answer->held.size <= LIMIT_KIND_BYTES);

    to = put_bytes(to, key);
    for (unsigned shift = 0; shift < 64; shift += 8)
        *to++ = (char)(answer->fingerprint >> shift);
    *to++ = (char)((answer->value.big ? ANSWER_BIG : 0) | (answer->changed ? ANSWER_CHANGED : 0));
    to = put_bytes(to, answer->held);
    return put_amount(to, &answer->value);
}

static bool has_amount(enum event_type type)
{
    return type == EVENT_ADD || type == EVENT_RESET || type == EVENT_REPAIR;
}

void section_event(struct section *section, const struct event *event)
{
    assert(event);
    assert(event->id.size > 0 && event->id.size <= LIMIT_ID_BYTES);
    assert(event->key.size <= LIMIT_KEY_BYTES && event->region.size <= LIMIT_REGION_BYTES);
    assert(!event->erased || event->type == EVENT_REACT || event->key.size > 0);

    unsigned flags = 0;
    if (has_amount(event->type) && event->amount.big)
        flags |= EVENT_BIG;
    if (event->key.size > 0)
        flags |= EVENT_KEYED;
    if (event->region.size > 0)
        flags |= EVENT_REGIONAL;
    if (event->erased)
        flags |= EVENT_ERASED;

    char *to = section_room(section, LIMIT_EVENT_BYTES);
    to = put_head(to, event->type, flags, event->incarnation, event->id);
    to = put_body(to, event);
    if (event->key.size > 0)
        to = put_key(to, event->key, &event->answer);
    if (event->region.size > 0)
        to = put_bytes(to, event->region);
    section_end_event(section, to);
}

size_t section_header(const struct section *section, uint32_t origin, uint64_t first_sequence,
                      int64_t time_ms, char *to)
{
    assert(section && to);
    assert(first_sequence <= UINT64_MAX - UINT32_MAX);

    char *end = varint_put(to, origin);
    end = varint_put(end, first_sequence);
    end = varint_put(end, (uint64_t)time_ms);
    end = varint_put(end, section->count);
    return (size_t)(end - to);
}

/* ---- reading ----
 *
 * A cursor walks over the section. Each take_…() moves it behind one field, or
 * says in `fault` what is wrong with the field, leaves the cursor where the
 * field begins, and returns false. */

struct cursor {
    const char *at;
    const char *end;
    const char *field;
    const char *fault;
};

static bool refuse(struct cursor *cursor, const char *field, const char *fault)
{
    cursor->field = field;
    cursor->fault = fault;
    return false;
}

static bool take_number(struct cursor *cursor, const char *field, uint64_t max, uint64_t *ret_value)
{
    const char *behind = varint_get(cursor->at, cursor->end, ret_value);
    if (!behind)
        return refuse(cursor, field, "is cut short or does not fit");
    if (behind - cursor->at > 1 && behind[-1] == 0)
        return refuse(cursor, field, "is longer than it needs to be");
    if (*ret_value > max)
        return refuse(cursor, field, "is out of range");
    cursor->at = behind;
    return true;
}

/* A field that read well, but is wrong: the cursor goes back to where it begins. */
static bool refuse_at(struct cursor *cursor, const char *begin, const char *field,
                      const char *fault)
{
    cursor->at = begin;
    return refuse(cursor, field, fault);
}

static bool take_number32(struct cursor *cursor, const char *field, uint32_t *ret_value)
{
    uint64_t value;
    if (!take_number(cursor, field, UINT32_MAX, &value))
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

static bool take_signed(struct cursor *cursor, const char *field, int64_t *ret_value)
{
    uint64_t value;
    if (!take_number(cursor, field, UINT64_MAX, &value))
        return false;
    *ret_value = varint_unzigzag(value);
    return true;
}

static bool take_byte(struct cursor *cursor, const char *field, unsigned *ret_byte)
{
    if (cursor->at == cursor->end)
        return refuse(cursor, field, "is cut short");
    *ret_byte = (unsigned char)*cursor->at++;
    return true;
}

static bool take_bytes(struct cursor *cursor, const char *field, size_t min, size_t max,
                       struct slice *ret_bytes)
{
    const char *begin = cursor->at;
    uint64_t size;
    if (!take_number(cursor, field, max, &size))
        return false;
    if (size < min)
        return refuse_at(cursor, begin, field, "is empty");
    if (size > (size_t)(cursor->end - cursor->at))
        return refuse_at(cursor, begin, field, "is cut short");
    *ret_bytes = (struct slice){cursor->at, (size_t)size};
    cursor->at += size;
    return true;
}

static bool take_amount(struct cursor *cursor, const char *field, bool is_big,
                        struct number *ret_amount)
{
    if (!is_big) {
        int64_t small;
        if (!take_signed(cursor, field, &small))
            return false;
        *ret_amount = number_of(small);
        return true;
    }

    const char *begin = cursor->at;
    struct slice digits;
    if (!take_bytes(cursor, field, 1, DIGITS_MAX, &digits))
        return false;
    struct number amount;
    if (number_parse(digits, &amount) != ERR_OK || !amount.big)
        return refuse_at(cursor, begin, field, "is not a big number");
    *ret_amount = amount;
    return true;
}

static bool take_floor(struct cursor *cursor, bool *ret_has_floor, int64_t *ret_floor)
{
    uint64_t has_floor;
    if (!take_number(cursor, "the floor's flag", 1, &has_floor))
        return false;
    const char *begin = cursor->at;
    if (!take_signed(cursor, "the floor", ret_floor))
        return false;
    if (!has_floor && *ret_floor != 0)
        return refuse_at(cursor, begin, "the floor", "is there without its flag");
    *ret_has_floor = has_floor;
    return true;
}

static bool take_create(struct cursor *cursor, struct op_create *create)
{
    const char *begin = cursor->at;
    uint64_t shards;
    if (!take_number(cursor, "the number of shards", LIMIT_CELLS, &shards))
        return false;
    if (shards == 0)
        return refuse_at(cursor, begin, "the number of shards", "is zero");
    uint64_t policy;
    if (!take_number(cursor, "the policy", POLICY_COUNT - 1, &policy))
        return false;
    create->shards = (uint32_t)shards;
    create->policy = (enum policy)policy;
    return take_number32(cursor, "the idle time", &create->idle_s) &&
           take_floor(cursor, &create->has_floor, &create->floor);
}

static bool take_deadline(struct cursor *cursor, int64_t *ret_deadline_ms)
{
    uint64_t value;
    if (!take_number(cursor, "the deadline", UINT64_MAX, &value))
        return false;
    *ret_deadline_ms = (int64_t)value;
    return true;
}

static bool take_user(struct cursor *cursor, struct event *event)
{
    uint32_t number;
    if (!take_bytes(cursor, "the user", 1, LIMIT_USER_BYTES, &event->user))
        return false;
    if (user_is_numeric(event->user, &number))
        return true;
    if (!take_number32(cursor, "the user's number", &number))
        return false;
    event->user_number = number == 0 ? EVENT_NO_NUMBER : number - 1;
    return true;
}

static size_t erased_run(const char *begin, const char *end)
{
    const char *at = begin;
    while (at < end && *at == ERASED_BYTE)
        at++;
    return (size_t)(at - begin);
}

static bool take_erased(struct cursor *cursor, struct event *event)
{
    size_t size = erased_run(cursor->at, cursor->end);
    if (size == 0 || size > ERASED_MAX || cursor->at + size == cursor->end ||
        cursor->at[size] != '\0')
        return refuse(cursor, "the erased user", "is not erased as it should be");
    event->erased_bytes = (uint32_t)size;
    cursor->at += size + 1;
    return true;
}

static bool take_reaction(struct cursor *cursor, unsigned flags, struct event *event)
{
    return (flags & EVENT_ERASED ? take_erased(cursor, event) : take_user(cursor, event)) &&
           take_bytes(cursor, "the kind before", 0, LIMIT_KIND_BYTES, &event->before) &&
           take_bytes(cursor, "the kind after", 0, LIMIT_KIND_BYTES, &event->after);
}

static bool take_place(struct cursor *cursor, enum event_place *ret_place)
{
    unsigned place;
    if (!take_byte(cursor, "the place", &place))
        return false;
    if (place >= PLACE_COUNT)
        return refuse_at(cursor, cursor->at - 1, "the place", "is not known");
    *ret_place = (enum event_place)place;
    return true;
}

static bool take_body(struct cursor *cursor, unsigned flags, struct event *event)
{
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        return take_amount(cursor, "the amount", flags & EVENT_BIG, &event->amount);
    case EVENT_DELETE:
        return take_number32(cursor, "the next incarnation", &event->next_incarnation);
    case EVENT_CREATE:
        return take_create(cursor, &event->create);
    case EVENT_EXPIRE:
        return take_deadline(cursor, &event->deadline_ms);
    case EVENT_REACT:
        return take_reaction(cursor, flags, event);
    case EVENT_NOTHING:
        return true;
    case EVENT_REPAIR:
        return take_bytes(cursor, "the kind", 0, LIMIT_KIND_BYTES, &event->kind) &&
               take_amount(cursor, "the amount", flags & EVENT_BIG, &event->amount) &&
               take_place(cursor, &event->place);
    case EVENT_EPOCH:
        return true;
    case EVENT_AFTER:
        return take_number32(cursor, "the other origin", &event->after_origin) &&
               take_number(cursor, "the other origin's sequence", UINT64_MAX,
                           &event->after_sequence);
    }
    return false;
}

static bool take_fingerprint(struct cursor *cursor, uint64_t *ret_fingerprint)
{
    if (cursor->end - cursor->at < (ptrdiff_t)sizeof(*ret_fingerprint))
        return refuse(cursor, "the fingerprint", "is cut short");
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 8)
        value |= (uint64_t)(unsigned char)*cursor->at++ << shift;
    *ret_fingerprint = value;
    return true;
}

static bool is_erased_key(const struct event *event)
{
    const char *key = event->key.data;
    return erased_run(key, key + event->key.size) == event->key.size &&
           event->answer.fingerprint == 0;
}

static bool take_key(struct cursor *cursor, struct event *event)
{
    struct event_answer *answer = &event->answer;
    unsigned flags;
    const char *begin = cursor->at;
    if (!take_bytes(cursor, "the key", 1, LIMIT_KEY_BYTES, &event->key) ||
        !take_fingerprint(cursor, &answer->fingerprint))
        return false;
    if (event->erased && !is_erased_key(event))
        return refuse_at(cursor, begin, "the key", "is there although the user was erased");
    if (!take_byte(cursor, "the answer's flags", &flags))
        return false;
    if (flags & ~(ANSWER_BIG | ANSWER_CHANGED))
        return refuse_at(cursor, cursor->at - 1, "the answer's flags", "are not all known");
    answer->changed = flags & ANSWER_CHANGED;
    return take_bytes(cursor, "the kind held", 0, LIMIT_KIND_BYTES, &answer->held) &&
           take_amount(cursor, "the answer's value", flags & ANSWER_BIG, &answer->value);
}

static bool take_head(struct cursor *cursor, enum event_type *ret_type, unsigned *ret_flags)
{
    unsigned head;
    if (!take_byte(cursor, "the event", &head))
        return false;

    unsigned type = head & TYPE_MASK;
    unsigned flags = head & FLAGS_MASK;
    const char *fault = NULL;
    if (type < EVENT_ADD || type > EVENT_TYPE_LAST)
        fault = "is of an unknown type";
    else if ((flags & EVENT_ERASED) && type != EVENT_REACT && !(flags & EVENT_KEYED))
        fault = "is erased, but has no user and no key";
    else if ((flags & EVENT_BIG) && !has_amount((enum event_type)type))
        fault = "has a big amount, but no amount";
    else if (type == EVENT_NOTHING && !(flags & EVENT_KEYED))
        fault = "changes nothing and has no key";
    if (fault)
        return refuse_at(cursor, cursor->at - 1, "the event", fault);

    *ret_type = (enum event_type)type;
    *ret_flags = flags;
    return true;
}

static bool take_event(struct cursor *cursor, struct event *event)
{
    unsigned flags;
    if (!take_head(cursor, &event->type, &flags))
        return false;
    event->erased = flags & EVENT_ERASED;
    return take_number32(cursor, "the incarnation", &event->incarnation) &&
           take_bytes(cursor, "the id", 1, LIMIT_ID_BYTES, &event->id) &&
           take_body(cursor, flags, event) && (!(flags & EVENT_KEYED) || take_key(cursor, event)) &&
           (!(flags & EVENT_REGIONAL) ||
            take_bytes(cursor, "the region", 1, LIMIT_REGION_BYTES, &event->region));
}

static bool take_header(struct cursor *cursor, struct section_reader *reader)
{
    /* The sequences of all its events, and the one behind, have to fit. */
    uint64_t time_ms;
    if (!take_number32(cursor, "the origin", &reader->origin) ||
        !take_number(cursor, "the sequence", UINT64_MAX - UINT32_MAX, &reader->first_sequence) ||
        !take_number(cursor, "the time", UINT64_MAX, &time_ms) ||
        !take_number(cursor, "the number of events", UINT32_MAX, &reader->left))
        return false;
    reader->time_ms = (int64_t)time_ms;
    reader->next_sequence = reader->first_sequence;
    return true;
}

static enum err corrupt(struct error *error, const char *begin, const struct cursor *cursor)
{
    return error_set(error, ERR_CORRUPT, "byte %zu of a section: %s %s",
                     (size_t)(cursor->at - begin), cursor->field, cursor->fault);
}

enum err section_open(struct section_reader *reader, struct slice section, struct error *error)
{
    assert(reader);

    const char *begin = section.size > 0 ? section.data : "";
    struct cursor cursor = {.at = begin, .end = begin + section.size};
    struct section_reader opened = {.begin = begin, .end = cursor.end};
    if (!take_header(&cursor, &opened))
        return corrupt(error, begin, &cursor);
    opened.at = cursor.at;
    *reader = opened;
    return ERR_OK;
}

enum err section_next(struct section_reader *reader, struct event *ret_event, struct error *error)
{
    assert(reader && ret_event);

    struct cursor cursor = {.at = reader->at, .end = reader->end};
    if (reader->left == 0) {
        if (cursor.at == cursor.end)
            return ERR_NOT_FOUND;
        refuse(&cursor, "the section", "goes on behind its last event");
        return corrupt(error, reader->begin, &cursor);
    }

    *ret_event = (struct event){
        .origin = reader->origin,
        .sequence = reader->next_sequence,
        .time_ms = reader->time_ms,
        .user_number = EVENT_NO_NUMBER,
    };
    if (!take_event(&cursor, ret_event)) {
        event_done(ret_event);
        return corrupt(error, reader->begin, &cursor);
    }
    reader->at = cursor.at;
    reader->next_sequence++;
    reader->left--;
    return ERR_OK;
}

void event_done(struct event *event)
{
    assert(event);

    if (event->amount.big)
        number_done(&event->amount);
    if (event->answer.value.big)
        number_done(&event->answer.value);
}

/* ---- erasing ---- */

/* In both, `head` is the event's first byte; the event's slices lie behind it. */

static void erase_user(char *head, const struct event *event)
{
    char *user = head + (event->user.data - head);
    char size[NAME_SIZE_MAX];
    user -= varint_put(size, event->user.size) - size;
    char *before = head + (event->before.data - head) - 1; /* its size is one byte */
    put_erased(user, (size_t)(before - user) - 1);
}

static void erase_event(char *head, const struct event *event)
{
    *head = (char)((unsigned char)*head | EVENT_ERASED);
    if (event->type == EVENT_REACT)
        erase_user(head, event);
    if (event->key.size > 0) {
        char *key = head + (event->key.data - head);
        memset(key, ERASED_BYTE, event->key.size);
        memset(key + event->key.size, 0, sizeof(event->answer.fingerprint));
    }
}

static bool is_letter(unsigned char byte)
{
    return byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* Two letters, or two digits: "like7" is a word and a number. */
static bool is_one_word(char one, char next)
{
    unsigned char a = (unsigned char)one;
    unsigned char b = (unsigned char)next;
    bool is_digit = a >= '0' && a <= '9' && b >= '0' && b <= '9';
    return is_digit || (is_letter(a) && is_letter(b));
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte at `at`, where %2F and + may stand for others as in the query of a URL; returns how many
 * bytes of the text it takes. */
static size_t byte_at(struct slice text, size_t at, bool is_encoded, char *ret_byte)
{
    const char *from = text.data + at;
    *ret_byte = is_encoded && *from == '+' ? ' ' : *from;
    if (!is_encoded || *from != '%' || text.size - at < 3 || hex_digit(from[1]) < 0 ||
        hex_digit(from[2]) < 0)
        return 1;
    *ret_byte = (char)(hex_digit(from[1]) << 4 | hex_digit(from[2]));
    return 3;
}

static char lower_case(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Where the name ends that begins at `at`; 0: it does not. */
static size_t end_of_name(struct slice text, size_t at, struct slice user, bool is_encoded)
{
    for (size_t i = 0; i < user.size; i++) {
        char byte;
        if (at == text.size)
            return 0;
        at += byte_at(text, at, is_encoded, &byte);
        if (lower_case(byte) != lower_case(user.data[i]))
            return 0;
    }
    return at;
}

static bool names_as(struct slice text, struct slice user, bool is_encoded)
{
    uint32_t number;
    bool is_anywhere = user.size >= NAME_ANYWHERE && !user_is_numeric(user, &number);
    char before = 0;
    for (size_t at = 0; at < text.size;) {
        char first;
        size_t size = byte_at(text, at, is_encoded, &first);
        size_t end = end_of_name(text, at, user, is_encoded);
        char behind = 0;
        if (end > 0 && end < text.size)
            (void)byte_at(text, end, is_encoded, &behind);
        if (end > 0 && (is_anywhere || (!is_one_word(before, first) &&
                                        !is_one_word(user.data[user.size - 1], behind))))
            return true;
        before = first;
        at += size;
    }
    return false;
}

/* Is the name in the text, in either case, as it is or encoded as in a URL? Whoever makes keys may
 * glue it to anything ("likebob2"), and a key that goes in vain costs nothing, since the store has
 * its hash. But a number, or a name of a letter or two, is in nearly all keys by chance: those
 * count as whole words or numbers only, "v-7-1" and "like7x2", and not "v-17-1". */
static bool names(struct slice text, struct slice user)
{
    if (text.size == 0)
        return false;
    return names_as(text, user, false) ||
           ((memchr(text.data, '%', text.size) || memchr(text.data, '+', text.size)) &&
            names_as(text, user, true));
}

static bool is_of(const struct event *event, struct slice user)
{
    if (event->erased)
        return false;
    if (event->type == EVENT_REACT)
        return slice_equal(event->user, user);
    return names(event->key, user);
}

/* A text of the event that names the user says nothing from now on. */
static bool blank_if_named(char *head, struct slice text, struct slice user)
{
    if (!names(text, user))
        return false;
    memset(head + (text.data - head), ERASED_BYTE, text.size);
    return true;
}

/* Also what somebody else did may name the user: in its key, or by its region. */
static bool erase_from_event(char *head, const struct event *event, struct slice user)
{
    bool is_whole = is_of(event, user);
    if (is_whole)
        erase_event(head, event);
    bool in_key = !is_whole && blank_if_named(head, event->key, user);
    bool in_region = blank_if_named(head, event->region, user);
    return is_whole || in_key || in_region;
}

enum err section_erase(char *section, size_t size, struct slice user, uint64_t *ret_changed,
                       struct error *error)
{
    assert(section && ret_changed && user.size > 0);

    uint64_t changed = 0;
    struct section_reader reader;
    enum err err = section_open(&reader, (struct slice){section, size}, error);
    while (!err) {
        char *head = section + (reader.at - reader.begin);
        struct event event;
        err = section_next(&reader, &event, error);
        if (err)
            break;
        changed += erase_from_event(head, &event, user);
        event_done(&event);
    }
    *ret_changed = changed;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}
