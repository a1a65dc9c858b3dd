#include "cli/line.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return -1;
}

/* Bytes of {"hex": "..."}, written to `room`. */
static bool read_hex(const json_t *value, char room[LINE_ROOM_BYTES], struct slice *ret_bytes)
{
    const json_t *hex = json_object_get(value, "hex");
    size_t size = hex ? json_string_length(hex) : 0;
    const char *text = hex ? json_string_value(hex) : NULL;
    if (!text || size % 2 != 0 || size / 2 > LINE_ROOM_BYTES || size == 0)
        return false;
    for (size_t i = 0; i < size; i += 2) {
        int high = hex_digit(text[i]);
        int low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0)
            return false;
        room[i / 2] = (char)(high << 4 | low);
    }
    *ret_bytes = (struct slice){room, size / 2};
    return true;
}

/* Bytes that a person chose: a string, a whole number, or {"hex": ...}. */
static enum err read_bytes(const struct line *line, const char *name, char room[LINE_ROOM_BYTES],
                           struct slice *ret_bytes, struct error *error)
{
    const json_t *value = json_object_get(line->root, name);
    if (json_is_string(value) && json_string_length(value) > 0) {
        *ret_bytes = (struct slice){json_string_value(value), json_string_length(value)};
        return ERR_OK;
    }
    if (json_is_integer(value)) {
        char *end = decimal_format(room, json_integer_value(value));
        *ret_bytes = (struct slice){room, (size_t)(end - room)};
        return ERR_OK;
    }
    if (json_is_object(value) && read_hex(value, room, ret_bytes))
        return ERR_OK;
    return error_set(error, ERR_INVALID, "\"%s\" has to be a text that is not empty", name);
}

static bool is_number(struct slice text)
{
    size_t i = text.size > 0 && text.data[0] == '-';
    if (i == text.size || (text.data[i] == '0' && text.size > 1))
        return false;
    for (; i < text.size; i++)
        if (!isdigit((unsigned char)text.data[i]))
            return false;
    return true;
}

/* A whole number, of any size if it is a string. */
static enum err read_number(struct line *line, const char *name, size_t room,
                            struct slice *ret_number, struct error *error)
{
    const json_t *value = json_object_get(line->root, name);
    if (!value || json_is_null(value))
        return ERR_OK;
    struct slice number = {NULL, 0};
    if (json_is_string(value)) {
        number = (struct slice){json_string_value(value), json_string_length(value)};
    } else if (json_is_integer(value)) {
        char *to = line->number_rooms[room];
        number = (struct slice){to, (size_t)(decimal_format(to, json_integer_value(value)) - to)};
    }
    if (!is_number(number))
        return error_set(error, ERR_INVALID, "\"%s\" has to be a whole number", name);
    *ret_number = number;
    return ERR_OK;
}

static enum err read_policy(struct line *line, struct error *error)
{
    const json_t *policy = json_object_get(line->root, "policy");
    if (!policy || json_is_null(policy))
        return ERR_OK;
    if (!json_is_string(policy))
        return error_set(error, ERR_INVALID, "\"policy\" has to be a text");
    line->policy = (struct slice){json_string_value(policy), json_string_length(policy)};
    return ERR_OK;
}

static enum err read_counter(struct line *line, struct error *error)
{
    line->kind = LINE_COUNTER;
    enum err err = read_bytes(line, "counter", line->id_room, &line->id, error);
    if (!err)
        err = read_number(line, "value", 0, &line->value, error);
    if (!err && line->value.size == 0)
        err = error_set(error, ERR_INVALID, "a counter needs a \"value\"");
    if (!err)
        err = read_number(line, "shards", 1, &line->shards, error);
    if (!err)
        err = read_number(line, "floor", 2, &line->floor, error);
    if (!err)
        err = read_number(line, "idle_s", 3, &line->idle_s, error);
    if (!err)
        err = read_number(line, "deadline_ms", 4, &line->deadline_ms, error);
    return err ? err : read_policy(line, error);
}

static enum err read_item(struct line *line, struct error *error)
{
    enum err err = read_bytes(line, "item", line->id_room, &line->id, error);
    if (err)
        return err;
    if (!json_object_get(line->root, "user") && json_object_get(line->root, "shards")) {
        line->kind = LINE_ITEM;
        return read_number(line, "shards", 1, &line->shards, error);
    }
    line->kind = LINE_REACTION;
    err = read_bytes(line, "user", line->user_room, &line->user, error);
    const json_t *kind = json_object_get(line->root, "kind");
    if (!err && (!json_is_string(kind) || json_string_length(kind) == 0))
        err = error_set(error, ERR_INVALID, "\"kind\" has to be a reaction such as \"like\"");
    if (!err)
        line->reaction = (struct slice){json_string_value(kind), json_string_length(kind)};
    return err;
}

static enum err read_root(struct line *line, struct error *error)
{
    if (json_object_get(line->root, "counter"))
        return read_counter(line, error);
    if (json_object_get(line->root, "item"))
        return read_item(line, error);
    if (json_object_get(line->root, "end")) {
        line->kind = LINE_END;
        return ERR_OK;
    }
    if (json_object_get(line->root, "cursor"))
        return ERR_OK;
    const json_t *version = json_object_get(line->root, "version");
    if (json_object_get(line->root, "tally") && json_integer_value(version) == 1)
        return ERR_OK;
    if (json_object_get(line->root, "tally"))
        return error_set(error, ERR_INVALID, "this export is of a version that is not known");
    return error_set(error, ERR_INVALID, "neither a \"counter\" nor an \"item\"");
}

enum err line_parse(struct slice text, struct line *ret_line, struct error *error)
{
    assert(ret_line);

    json_error_t reason;
    struct line *line = ret_line;
    line->kind = LINE_NOTHING;
    line->id = line->value = line->user = line->reaction = (struct slice){NULL, 0};
    line->shards = line->policy = line->floor = (struct slice){NULL, 0};
    line->idle_s = line->deadline_ms = (struct slice){NULL, 0};
    line->root = json_loadb(text.data ? text.data : "", text.size,
                            JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (!line->root)
        return error_set(error, ERR_INVALID, "no JSON: %.160s", reason.text);
    enum err err = json_is_object(line->root) ? read_root(line, error)
                                              : error_set(error, ERR_INVALID, "no JSON object");
    if (err)
        line_done(line);
    return err;
}

void line_done(struct line *line)
{
    json_decref(line->root);
    line->root = NULL;
}
