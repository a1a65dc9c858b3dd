#include "hot/redis/entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/varint.h"
#include "core/event.h"

struct reader {
    const char *at;
    const char *end;
};

/* --- the few words of msgpack that are written --- */

static bool take_bytes(struct reader *reader, unsigned count, uint32_t *ret_value)
{
    if ((size_t)(reader->end - reader->at) < count)
        return false;
    uint32_t value = 0;
    for (unsigned i = 0; i < count; i++)
        value = value << 8 | (unsigned char)*reader->at++;
    *ret_value = value;
    return true;
}

static bool take_array(struct reader *reader, uint32_t *ret_count)
{
    uint32_t head;
    if (!take_bytes(reader, 1, &head))
        return false;
    if ((head & 0xf0u) == 0x90u) {
        *ret_count = head & 0x0fu;
        return true;
    }
    if (head == 0x80u) { /* an empty table of Lua is an empty map */
        *ret_count = 0;
        return true;
    }
    return head == 0xdcu   ? take_bytes(reader, 2, ret_count)
           : head == 0xddu ? take_bytes(reader, 4, ret_count)
                           : false;
}

static bool take_string(struct reader *reader, struct slice *ret_string)
{
    uint32_t head;
    uint32_t size;
    if (!take_bytes(reader, 1, &head))
        return false;
    if ((head & 0xe0u) == 0xa0u)
        size = head & 0x1fu;
    else if (!(head == 0xd9u   ? take_bytes(reader, 1, &size)
               : head == 0xdau ? take_bytes(reader, 2, &size)
               : head == 0xdbu ? take_bytes(reader, 4, &size)
                               : false))
        return false;
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    *ret_string = (struct slice){reader->at, size};
    reader->at += size;
    return true;
}

static bool take_count(struct reader *reader, uint32_t *ret_count)
{
    uint32_t head;
    if (!take_bytes(reader, 1, &head))
        return false;
    *ret_count = head;
    return head < 0x80u    ? true
           : head == 0xccu ? take_bytes(reader, 1, ret_count)
           : head == 0xcdu ? take_bytes(reader, 2, ret_count)
           : head == 0xceu ? take_bytes(reader, 4, ret_count)
                           : false;
}

bool entry_users(struct slice packed, op_member_fn *visit, void *arg, uint32_t *ret_count)
{
    struct reader reader = {packed.data, packed.data + packed.size};
    if (!take_array(&reader, ret_count))
        return false;
    for (uint32_t i = 0; i < *ret_count; i++) {
        struct slice user;
        if (!take_string(&reader, &user) || user.size < 2)
            return false;
        visit(arg, (struct slice){user.data + 1, user.size - 1});
    }
    return reader.at == reader.end;
}

/* --- groups --- */

static bool to_u32(struct slice text, uint32_t *ret_value)
{
    uint64_t value;
    if (!decimal_parse_unsigned(text, &value) || value > UINT32_MAX)
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

/* What all groups begin with, behind their first word. */
struct head {
    struct slice id;
    uint32_t incarnation;
    struct slice region;
};

static bool take_head(struct reader *reader, struct head *head)
{
    struct slice incarnation;
    return take_string(reader, &head->id) && take_string(reader, &incarnation) &&
           take_string(reader, &head->region) && to_u32(incarnation, &head->incarnation) &&
           head->id.size > 0 && head->id.size <= LIMIT_ID_BYTES &&
           head->region.size <= LIMIT_REGION_BYTES;
}

static bool take_reactions(struct reader *reader, struct section *section)
{
    struct head head;
    struct slice before;
    struct slice after;
    uint32_t count;
    if (!take_head(reader, &head) || !take_string(reader, &before) ||
        !take_string(reader, &after) || before.size > LIMIT_KIND_BYTES ||
        after.size > LIMIT_KIND_BYTES || !take_count(reader, &count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct slice user;
        if (!take_string(reader, &user) || user.size < 2 || user.size > 1 + LIMIT_USER_BYTES ||
            section_is_full(section))
            return false;
        section_react(section, head.incarnation, head.id,
                      (struct slice){user.data + 1, user.size - 1}, EVENT_NO_NUMBER, before, after,
                      head.region);
    }
    return true;
}

static bool take_sums(struct reader *reader, struct section *section)
{
    struct head head;
    struct slice amounts;
    if (!take_head(reader, &head) || !take_string(reader, &amounts))
        return false;
    const char *at = amounts.data;
    const char *end = amounts.data + amounts.size;
    while (at < end) {
        uint64_t amount;
        at = varint_get(at, end, &amount);
        if (!at || section_is_full(section))
            return false;
        section_add(section, head.incarnation, head.id, varint_unzigzag(amount), head.region);
    }
    return true;
}

#define REST_MAX 5u

static bool read_rest(struct event *event, const struct slice rest[REST_MAX], uint32_t count)
{
    uint32_t policy;
    uint32_t place;
    int64_t has_floor;
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        return count == 1 && number_parse(rest[0], &event->amount) == ERR_OK;
    case EVENT_DELETE:
        return count == 1 && to_u32(rest[0], &event->next_incarnation);
    case EVENT_CREATE:
        if (count != 5 || !to_u32(rest[0], &event->create.shards) || !to_u32(rest[1], &policy) ||
            policy >= POLICY_COUNT || !to_u32(rest[2], &event->create.idle_s) ||
            !decimal_parse(rest[3], &has_floor) || !decimal_parse(rest[4], &event->create.floor))
            return false;
        event->create.policy = (enum policy)policy;
        event->create.has_floor = has_floor != 0;
        return true;
    case EVENT_EXPIRE:
        return count == 1 && decimal_parse(rest[0], &event->deadline_ms);
    case EVENT_REACT:
        event->user = rest[0];
        event->before = rest[1];
        event->after = rest[2];
        return count == 3 && event->user.size > 0 && event->user.size <= LIMIT_USER_BYTES &&
               event->before.size <= LIMIT_KIND_BYTES && event->after.size <= LIMIT_KIND_BYTES;
    case EVENT_NOTHING:
        return count == 0;
    case EVENT_AFTER:
        return count == 2 && to_u32(rest[0], &event->after_origin) &&
               decimal_parse_unsigned(rest[1], &event->after_sequence);
    case EVENT_REPAIR:
        event->kind = rest[0];
        if (count != 3 || number_parse(rest[1], &event->amount) != ERR_OK ||
            !to_u32(rest[2], &place) || place >= PLACE_COUNT)
            return false;
        event->place = (enum event_place)place;
        return event->kind.size <= LIMIT_KIND_BYTES;
    default:
        return false;
    }
}

static bool read_key(struct event *event, const struct slice words[5])
{
    if (words[0].size == 0)
        return true;
    char digits[17] = {0};
    if (words[0].size > LIMIT_KEY_BYTES || words[1].size != 16 || words[2].size != 1 ||
        words[3].size > LIMIT_KIND_BYTES)
        return false;
    memcpy(digits, words[1].data, 16);
    event->key = words[0];
    event->answer.fingerprint = strtoull(digits, NULL, 16);
    event->answer.changed = words[2].data[0] == '1';
    event->answer.held = words[3];
    return number_parse(words[4], &event->answer.value) == ERR_OK;
}

static bool take_any(struct reader *reader, struct section *section)
{
    uint32_t words;
    struct slice type_word;
    struct slice key[5];
    struct slice rest[REST_MAX] = {{NULL, 0}};
    struct head head;
    uint32_t type;
    if (!take_count(reader, &words) || words > REST_MAX || !take_string(reader, &type_word) ||
        !to_u32(type_word, &type) || !take_head(reader, &head) || section_is_full(section))
        return false;
    for (uint32_t i = 0; i < 5; i++)
        if (!take_string(reader, &key[i]))
            return false;
    for (uint32_t i = 0; i < words; i++)
        if (!take_string(reader, &rest[i]))
            return false;
    struct event event = {.type = (enum event_type)type,
                          .incarnation = head.incarnation,
                          .id = head.id,
                          .region = head.region,
                          .user_number = EVENT_NO_NUMBER};
    bool is_good =
        type <= EVENT_TYPE_LAST && read_rest(&event, rest, words) && read_key(&event, key);
    if (is_good)
        section_event(section, &event);
    event_done(&event);
    return is_good;
}

static bool take_group(struct reader *reader, struct section *section)
{
    struct slice what;
    if (!take_string(reader, &what) || what.size != 1)
        return false;
    switch (what.data[0]) {
    case 'l':
        return take_reactions(reader, section);
    case 'a':
        return take_sums(reader, section);
    case 'x':
        return take_any(reader, section);
    default:
        return false;
    }
}

static bool begins_array(const struct reader *reader)
{
    unsigned char head = (unsigned char)*reader->at;
    return (head & 0xf0u) == 0x90u || head == 0x80u || head == 0xdcu || head == 0xddu;
}

/* How many words an array has is not needed: what is in it says so, too. */
static bool take_groups(struct slice bytes, struct section *section)
{
    struct reader reader = {bytes.data, bytes.data + bytes.size};
    uint32_t words;
    if (!take_array(&reader, &words))
        return false;
    while (reader.at < reader.end)
        if (begins_array(&reader) ? !take_array(&reader, &words) : !take_group(&reader, section))
            return false;
    return true;
}

enum err entry_section(unsigned cell, uint64_t first_sequence, uint64_t last_sequence,
                       int64_t time_ms, struct slice bytes, bool is_raw, struct buffer *to,
                       struct error *error)
{
    char header[SECTION_HEADER_MAX];
    struct section section;
    section_init(&section);
    enum err err = ERR_OK;
    uint64_t count = last_sequence - first_sequence + 1;
    if (is_raw) {
        section.count = (uint32_t)count;
        err = buffer_append_slice(&section.body, bytes);
    } else if (!take_groups(bytes, &section)) {
        err = ERR_CORRUPT;
    }
    if (!err && (last_sequence < first_sequence || section.count != count || count == 0))
        err = ERR_CORRUPT;
    if (!err) {
        size_t size = section_header(&section, cell, first_sequence, time_ms, header);
        err = buffer_append(to, header, size);
        if (!err)
            err = buffer_append_slice(to, buffer_slice(&section.body));
    }
    section_done(&section);
    return err ? error_set(error, err, "an entry of the outbox of cell %u makes no sense", cell)
               : ERR_OK;
}
