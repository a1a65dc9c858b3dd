#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/sequence.h"
#include "log/kafka/event_json.h"
#include "log/kafka/event_json_event.h"
#include "log/kafka/json_parse.h"

/* ---- a message ---- */

enum part { PART_V, PART_ORIGIN, PART_EPOCH, PART_SEQ, PART_TIME, PART_MS, PART_EVENTS, PART_RAW };
#define PART_COUNT   8u
#define PARTS_EVENTS 0x7fu
#define PARTS_RAW    (1u << PART_V | 1u << PART_ORIGIN | 1u << PART_RAW)

struct message {
    unsigned parts; /* a bit each */
    uint64_t version;
    uint64_t origin;
    uint64_t epoch;
    uint64_t n;
    int64_t ms;
    struct slice raw;
};

static bool take_events(struct json_parse *parse, struct section *section)
{
    if (!json_take(parse, '['))
        return false;
    if (json_meet(parse, ']'))
        return true;
    do {
        if (!event_json_take_event(parse, section))
            return false;
    } while (json_meet(parse, ','));
    return json_take(parse, ']');
}

static bool take_time(struct json_parse *parse)
{
    struct slice text;
    return json_null(parse) || json_string(parse, &text);
}

static bool take_raw(struct json_parse *parse, struct slice *ret_raw)
{
    struct slice digits;
    return json_string(parse, &digits) && json_hex(parse, digits, ret_raw) &&
           ((ret_raw->size > 0 && ret_raw->size <= LOG_SECTION_BYTES_MAX) ||
            json_refuse(parse, "is empty, or more than a section can hold"));
}

static bool take_part(struct json_parse *parse, unsigned part, struct message *message,
                      struct section *section)
{
    switch ((enum part)part) {
    case PART_V:
        return json_unsigned(parse, UINT32_MAX, &message->version) &&
               (message->version == EVENT_JSON_VERSION ||
                json_refuse(parse, "is a version that is not known here"));
    case PART_ORIGIN:
        return json_unsigned(parse, UINT32_MAX, &message->origin);
    case PART_EPOCH:
        return json_unsigned(parse, EPOCH_MAX, &message->epoch);
    case PART_SEQ:
        return json_unsigned(parse, N_MAX, &message->n);
    case PART_TIME:
        return take_time(parse);
    case PART_MS:
        return json_signed(parse, &message->ms);
    case PART_EVENTS:
        return take_events(parse, section);
    case PART_RAW:
        return take_raw(parse, &message->raw);
    }
    return false;
}

static bool take_message(struct json_parse *parse, struct message *message, struct section *section)
{
    static const char *const names[PART_COUNT] = {"v",    "origin", "epoch",  "seq",
                                                  "time", "ms",     "events", "raw"};
    struct slice name;
    bool is_first = true;
    if (!json_take(parse, '{'))
        return false;
    while (json_field(parse, &is_first, &name)) {
        unsigned part = 0;
        while (part < PART_COUNT && !slice_equal(name, slice_of(names[part])))
            part++;
        if (part == PART_COUNT || (message->parts >> part & 1))
            return json_refuse(parse, "is not a field of a message, or is there twice");
        if (!take_part(parse, part, message, section))
            return false;
        message->parts |= 1u << part;
    }
    if (parse->fault)
        return false;
    if (message->parts != PARTS_EVENTS && message->parts != PARTS_RAW)
        return json_refuse(parse, "lacks a field");
    (void)json_meet(parse, '\n');
    return parse->at == parse->end || json_refuse(parse, "goes on behind its end");
}

void event_json_init(struct event_json *json)
{
    assert(json);

    buffer_init(&json->scratch, 2 * EVENT_JSON_BYTES_MAX);
    buffer_init(&json->out, LOG_SECTION_BYTES_MAX + SECTION_HEADER_MAX);
    section_init(&json->section);
}

void event_json_done(struct event_json *json)
{
    assert(json);

    buffer_done(&json->scratch);
    buffer_done(&json->out);
    section_done(&json->section);
}

static enum err make_section(struct event_json *json, const struct message *message,
                             struct slice *ret_section, struct error *error)
{
    if (message->parts == PARTS_RAW) {
        *ret_section = message->raw;
        return ERR_OK;
    }
    uint64_t first = sequence_of(message->epoch, message->n);
    if (first > UINT64_MAX - UINT32_MAX)
        return error_set(error, ERR_CORRUPT, "the sequence does not fit");
    char header[SECTION_HEADER_MAX];
    size_t size =
        section_header(&json->section, (uint32_t)message->origin, first, message->ms, header);
    json->out.size = 0;
    if (buffer_append(&json->out, header, size) ||
        buffer_append_slice(&json->out, buffer_slice(&json->section.body)))
        return error_set(error, ERR_NO_MEMORY, "no memory for a section");
    *ret_section = buffer_slice(&json->out);
    return ERR_OK;
}

enum err event_json_read(struct event_json *json, struct slice text, struct slice *ret_section,
                         struct error *error)
{
    assert(json && ret_section);

    if (text.size > EVENT_JSON_BYTES_MAX)
        return error_set(error, ERR_TOO_LARGE, "a message of %zu bytes: more than %u", text.size,
                         EVENT_JSON_BYTES_MAX);
    json->scratch.size = 0;
    if (buffer_reserve(&json->scratch, text.size + 1))
        return error_set(error, ERR_NO_MEMORY, "no memory for a message");
    section_clear(&json->section);
    const char *begin = text.size > 0 ? text.data : "";
    struct json_parse parse = {
        .at = begin, .end = begin + text.size, .scratch = json->scratch.data};
    struct message message = {0};
    if (!take_message(&parse, &message, &json->section))
        return error_set(error, ERR_CORRUPT, "byte %zu of a message: it %s",
                         (size_t)(parse.at - begin), parse.fault);
    return make_section(json, &message, ret_section, error);
}
