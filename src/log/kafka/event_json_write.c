#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "core/sequence.h"
#include "core/user.h"
#include "log/kafka/event_json.h"
#include "log/kafka/event_names.h"

/* The largest event: every byte of its names escaped as six, all fields there. */
#define EVENT_ROOM                                                                    \
    (6u * (LIMIT_ID_BYTES + LIMIT_USER_BYTES + LIMIT_KEY_BYTES + LIMIT_REGION_BYTES + \
           4u * LIMIT_KIND_BYTES) +                                                   \
     2u * NUMBER_DIGITS_MAX + 1024u)
#define HEAD_ROOM   256u
#define TIME_MS_MAX INT64_C(253402300800000) /* the year 10000 */

#define PUT(to, literal) put_text(to, "" literal, sizeof(literal) - 1)

static char *put_text(char *to, const char *text, size_t size)
{
    memcpy(to, text, size);
    return to + size;
}

static char *put_word(char *to, const char *word)
{
    *to++ = '"';
    to = put_text(to, word, strlen(word));
    *to++ = '"';
    return to;
}

/* ---- strings ---- */

static bool is_tail(const char *at, const char *end)
{
    return at < end && ((unsigned char)*at & 0xc0) == 0x80;
}

/* The bytes of the UTF-8 character at `at`; 0: it is none. */
static size_t utf8_size(const char *at, const char *end)
{
    unsigned char lead = (unsigned char)*at;
    unsigned char next = at + 1 < end ? (unsigned char)at[1] : 0;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return is_tail(at + 1, end) ? 2 : 0;
    if (lead >= 0xe0 && lead <= 0xef) {
        bool is_good = !(lead == 0xe0 && next < 0xa0) && !(lead == 0xed && next > 0x9f);
        return is_good && is_tail(at + 1, end) && is_tail(at + 2, end) ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        bool is_good = !(lead == 0xf0 && next < 0x90) && !(lead == 0xf4 && next > 0x8f);
        return is_good && is_tail(at + 1, end) && is_tail(at + 2, end) && is_tail(at + 3, end) ? 4
                                                                                               : 0;
    }
    return 0;
}

static const char HEX[] = "0123456789abcdef";

static char *put_hex_digits(char *to, struct slice bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char byte = (unsigned char)bytes.data[i];
        *to++ = HEX[byte >> 4];
        *to++ = HEX[byte & 15];
    }
    return to;
}

static char *put_hex(char *to, struct slice bytes)
{
    to = PUT(to, "{\"hex\":\"");
    to = put_hex_digits(to, bytes);
    return PUT(to, "\"}");
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte != '"' && byte != '\\' && byte < 0x7f;
}

static char *put_escape(char *to, char byte)
{
    *to++ = '\\';
    if (byte == '"' || byte == '\\') {
        *to++ = byte;
        return to;
    }
    to = PUT(to, "u00");
    return put_hex_digits(to, (struct slice){&byte, 1});
}

/* A string; as hexadecimal digits if it is not UTF-8. */
static char *put_bytes(char *to, struct slice bytes)
{
    char *begin = to;
    *to++ = '"';
    const char *end = bytes.data + bytes.size;
    for (const char *at = bytes.data; at < end;) {
        if (is_plain((unsigned char)*at)) {
            *to++ = *at++;
            continue;
        }
        size_t size = utf8_size(at, end);
        if (size == 0)
            return put_hex(begin, bytes);
        if (size == 1)
            to = put_escape(to, *at);
        else
            to = put_text(to, at, size);
        at += size;
    }
    *to++ = '"';
    return to;
}

/* A kind: null when there is none. */
static char *put_kind(char *to, struct slice kind)
{
    return kind.size > 0 ? put_bytes(to, kind) : PUT(to, "null");
}

/* ---- numbers: as strings, since many readers know doubles only ---- */

static char *put_number(char *to, const struct number *number)
{
    *to++ = '"';
    if (!number->big) {
        to = decimal_format(to, number->small);
    } else {
        struct buffer digits;
        buffer_init(&digits, NUMBER_DIGITS_MAX + 16);
        if (number_format(number, &digits))
            abort(); /* no memory */
        to = put_text(to, digits.data, digits.size);
        buffer_done(&digits);
    }
    *to++ = '"';
    return to;
}

/* ---- events ---- */

static char *put_name(char *to, const struct event *event)
{
    switch (event->type) {
#define X(number, word, field)                                 \
    case number:                                               \
        to = PUT(to, "{\"type\":\"" word "\",\"" field "\":"); \
        break;
        EVENT_NAMES(X)
#undef X
    }
    to = put_bytes(to, event->id);
    if (event->incarnation > 0) {
        to = PUT(to, ",\"inc\":");
        to = decimal_format_unsigned(to, event->incarnation);
    }
    return to;
}

static const char *place_word(enum event_place place)
{
    static const char *const words[] = {
#define X(number, word) [number] = word,
        PLACE_NAMES(X)
#undef X
    };
    return words[place];
}

static char *put_create(char *to, const struct op_create *create)
{
    to = PUT(to, ",\"shards\":");
    to = decimal_format_unsigned(to, create->shards);
    to = PUT(to, ",\"policy\":");
    to = put_word(to, policy_name(create->policy));
    to = PUT(to, ",\"idle_s\":");
    to = decimal_format_unsigned(to, create->idle_s);
    to = PUT(to, ",\"floor\":");
    if (!create->has_floor)
        return PUT(to, "null");
    struct number floor = number_of(create->floor);
    return put_number(to, &floor);
}

static char *put_erased(char *to, uint32_t bytes)
{
    to = PUT(to, ",\"erased\":");
    return decimal_format_unsigned(to, bytes);
}

static char *put_reaction(char *to, const struct event *event)
{
    uint32_t own;
    if (event->erased) {
        to = put_erased(to, event->erased_bytes);
    } else {
        to = PUT(to, ",\"user\":");
        to = put_bytes(to, event->user);
        if (event->user_number != EVENT_NO_NUMBER && !user_is_numeric(event->user, &own)) {
            to = PUT(to, ",\"number\":");
            to = decimal_format_unsigned(to, event->user_number);
        }
    }
    to = PUT(to, ",\"before\":");
    to = put_kind(to, event->before);
    to = PUT(to, ",\"after\":");
    return put_kind(to, event->after);
}

static char *put_repair(char *to, const struct event *event)
{
    to = PUT(to, ",\"kind\":");
    to = put_kind(to, event->kind);
    to = PUT(to, ",\"missing\":");
    to = put_number(to, &event->amount);
    to = PUT(to, ",\"place\":");
    return put_word(to, place_word(event->place));
}

static char *put_sequence(char *to, uint64_t sequence)
{
    to = PUT(to, ",\"epoch\":");
    to = decimal_format_unsigned(to, sequence_epoch(sequence));
    to = PUT(to, ",\"seq\":");
    return decimal_format_unsigned(to, sequence_n(sequence));
}

static char *put_body(char *to, const struct event *event)
{
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        to = PUT(to, ",\"delta\":");
        return put_number(to, &event->amount);
    case EVENT_DELETE:
        to = PUT(to, ",\"next_inc\":");
        return decimal_format_unsigned(to, event->next_incarnation);
    case EVENT_CREATE:
        return put_create(to, &event->create);
    case EVENT_EXPIRE:
        to = PUT(to, ",\"deadline_ms\":");
        return decimal_format(to, event->deadline_ms);
    case EVENT_REACT:
        return put_reaction(to, event);
    case EVENT_REPAIR:
        return put_repair(to, event);
    case EVENT_AFTER:
        to = PUT(to, ",\"origin\":");
        to = decimal_format_unsigned(to, event->after_origin);
        return put_sequence(to, event->after_sequence);
    case EVENT_NOTHING:
    case EVENT_EPOCH:
        return to;
    }
    abort(); /* not an event type */
}

static char *put_key(char *to, const struct event *event)
{
    const struct event_answer *answer = &event->answer;
    char fingerprint[8];
    for (unsigned i = 0; i < 8; i++)
        fingerprint[i] = (char)(answer->fingerprint >> (56 - 8 * i));
    to = PUT(to, ",\"key\":{\"key\":");
    to = put_bytes(to, event->key);
    to = PUT(to, ",\"fingerprint\":\"");
    to = put_hex_digits(to, (struct slice){fingerprint, 8});
    to = answer->changed ? PUT(to, "\",\"changed\":true,\"held\":")
                         : PUT(to, "\",\"changed\":false,\"held\":");
    to = put_kind(to, answer->held);
    to = PUT(to, ",\"value\":");
    to = put_number(to, &answer->value);
    *to++ = '}';
    return to;
}

static char *put_event(char *to, const struct event *event)
{
    to = put_name(to, event);
    to = put_body(to, event);
    if (event->erased && event->type != EVENT_REACT)
        to = put_erased(to, 0);
    if (event->key.size > 0)
        to = put_key(to, event);
    if (event->region.size > 0) {
        to = PUT(to, ",\"region\":");
        to = put_bytes(to, event->region);
    }
    *to++ = '}';
    return to;
}

/* ---- messages ---- */

static char *put_time(char *to, int64_t time_ms)
{
    to = PUT(to, ",\"time\":");
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm when;
    if (time_ms < 0 || time_ms >= TIME_MS_MAX || !gmtime_r(&seconds, &when)) {
        to = PUT(to, "null");
    } else {
        size_t size = strftime(to, 32, "\"%Y-%m-%dT%H:%M:%S.", &when);
        to += size;
        unsigned ms = (unsigned)(time_ms % 1000);
        *to++ = (char)('0' + ms / 100);
        *to++ = (char)('0' + ms / 10 % 10);
        *to++ = (char)('0' + ms % 10);
        to = PUT(to, "Z\"");
    }
    to = PUT(to, ",\"ms\":");
    return decimal_format(to, time_ms);
}

static char *put_head(char *to, const struct section_reader *reader)
{
    to = PUT(to, "{\"v\":1,\"origin\":");
    to = decimal_format_unsigned(to, reader->origin);
    to = put_sequence(to, reader->next_sequence);
    to = put_time(to, reader->time_ms);
    return PUT(to, ",\"events\":[");
}

static char *room(struct buffer *to, size_t size)
{
    if (buffer_reserve(to, size))
        abort(); /* no memory: the maximum is above what the limit allows */
    return to->data + to->size;
}

static void set_end(struct buffer *to, const char *end)
{
    to->size = (size_t)(end - to->data);
}

enum err event_json_write(struct section_reader *reader, size_t limit, struct buffer *to,
                          struct error *error)
{
    assert(reader && to);

    struct section_reader begin = *reader;
    to->size = 0;
    set_end(to, put_head(room(to, HEAD_ROOM), reader));
    do {
        struct event event;
        enum err err = section_next(reader, &event, error);
        if (err == ERR_NOT_FOUND)
            break;
        if (err) {
            *reader = begin;
            to->size = 0;
            return err;
        }
        char *at = room(to, EVENT_ROOM);
        if (event.sequence > begin.next_sequence)
            *at++ = ',';
        set_end(to, put_event(at, &event));
        event_done(&event);
    } while (to->size < limit);
    /* What goes on behind its last event is no section. */
    struct event none;
    if (reader->left == 0 && section_next(reader, &none, error) != ERR_NOT_FOUND) {
        *reader = begin;
        to->size = 0;
        return ERR_CORRUPT;
    }
    set_end(to, PUT(room(to, 2), "]}"));
    return ERR_OK;
}

void event_json_write_raw(unsigned origin, struct slice section, struct buffer *to)
{
    assert(to);

    to->size = 0;
    char *at = room(to, HEAD_ROOM + 2 * section.size);
    at = PUT(at, "{\"v\":1,\"origin\":");
    at = decimal_format_unsigned(at, origin);
    at = PUT(at, ",\"raw\":\"");
    at = put_hex_digits(at, section);
    set_end(to, PUT(at, "\"}"));
}
