/* What a handler reads of its request: fields of the query, members of the body. */
#include <stdio.h>
#include <string.h>

#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_worker.h"
#include "flow/check.h"

static struct pass *pass_of(const struct http_call *call)
{
    return &call->client->worker->pass;
}

/* ---- the query ---- */

bool http_call_query(struct http_call *call, const char *const *names, struct slice *ret_values)
{
    for (unsigned i = 0; names[i]; i++)
        ret_values[i] = (struct slice){NULL, 0};

    struct slice name;
    struct slice value;
    while (http_url_cut_field(&call->query, &name, &value)) {
        bool is_good = http_url_decode(&name, true);
        unsigned i = 0;
        while (is_good && names[i] && !slice_equal(slice_of(names[i] + (*names[i] == '=')), name))
            i++;
        if (is_good && names[i] && *names[i] != '=')
            is_good = http_url_decode(&value, true);
        if (!is_good) {
            http_call_fail(call, HTTP_PROBLEM_INVALID,
                           "the query is not percent-encoded UTF-8 without zero bytes");
            return false;
        }
        if (!names[i] || ret_values[i].data) {
            int size = (int)(name.size < 64 ? name.size : 64);
            http_call_fail(call, HTTP_PROBLEM_INVALID, "the parameter '%.*s' %s", size, name.data,
                           names[i] ? "stands twice" : "is not known here");
            return false;
        }
        ret_values[i] = value;
    }
    return true;
}

size_t http_call_read_ids(struct http_call *call, struct slice ids)
{
    struct pass *pass = pass_of(call);
    struct error error = {.code = ERR_INVALID, .text = "ids: there is none"};
    size_t count = 0;
    while (ids.size > 0) {
        const char *comma = memchr(ids.data, ',', ids.size);
        struct slice id = {ids.data, comma ? (size_t)(comma - ids.data) : ids.size};
        size_t skip = id.size + (comma != NULL);
        ids.data += skip;
        ids.size -= skip;
        bool is_good = count < HTTP_ROUTE_OPS_MAX && http_url_decode(&id, true);
        if (is_good) {
            http_call_op(call, OP_GET, id);
            count++;
            is_good = pass_check(pass, 1, &error);
        } else {
            error_set(&error, ERR_INVALID, "ids: more than %u, or not percent-encoded UTF-8",
                      HTTP_ROUTE_OPS_MAX);
        }
        if (!is_good) {
            pass_undo(pass, count);
            http_call_fail_with(call, &error);
            return 0;
        }
    }
    if (count == 0)
        http_call_fail_with(call, &error);
    return count;
}

bool http_call_time(struct http_call *call, const char *name, struct slice text, int64_t *ret_ms)
{
    *ret_ms = 0;
    if (!text.data || (http_clock_parse(text, ret_ms) && check_time(*ret_ms, NULL) == ERR_OK))
        return true;
    http_call_fail(call, HTTP_PROBLEM_INVALID,
                   "%s: not a time like 2026-01-31T12:00:00Z, nor milliseconds since 1970", name);
    return false;
}

#define PAGE_MAX 10000u

bool http_call_page(struct http_call *call, struct slice cursor, struct slice limit,
                    uint32_t limit_default, uint64_t *ret_cursor, uint32_t *ret_limit)
{
    uint64_t number = limit_default;
    *ret_cursor = 0;
    if (cursor.data && !decimal_parse_unsigned(cursor, ret_cursor)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "cursor: not one that an answer has given");
        return false;
    }
    if (limit.data &&
        (!decimal_parse_unsigned(limit, &number) || number == 0 || number > PAGE_MAX)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "limit: not a whole number from 1 to %u",
                       PAGE_MAX);
        return false;
    }
    *ret_limit = (uint32_t)number;
    return true;
}

/* ---- the body ---- */

static bool is_among(struct slice name, const char *const *names)
{
    for (; *names; names++) {
        if (slice_equal(slice_of(*names), name))
            return true;
    }
    return false;
}

static bool has_only(struct http_call *call, const struct http_json *object,
                     const char *const *names)
{
    const struct http_json *member = object + 1;
    for (uint32_t i = 0; i < object->count; i++) {
        if (!is_among(member->text, names)) {
            int size = (int)(member->text.size < 64 ? member->text.size : 64);
            http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "the member '%.*s' is not known here", size,
                           member->text.data);
            return false;
        }
        member += 1 + member[1].size;
    }
    return true;
}

const struct http_json *http_call_object(struct http_call *call, const char *const *names)
{
    static const struct http_json nothing = {.type = HTTP_JSON_OBJECT, .size = 1};
    if (call->body.size == 0)
        return &nothing;

    struct http_json *values = call->client->worker->values;
    struct http_json_error error;
    if (!http_json_read(call->body, values, HTTP_JSON_VALUES, &error)) {
        http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "byte %zu: %s", error.at, error.why);
        return NULL;
    }
    if (values[0].type != HTTP_JSON_OBJECT) {
        http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "the body is not an object");
        return NULL;
    }
    return has_only(call, values, names) ? values : NULL;
}

static bool fail_member(struct http_call *call, const char *name, const char *what)
{
    http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "%s: not %s", name, what);
    return false;
}

bool http_call_string(struct http_call *call, const struct http_json *object, const char *name,
                      struct slice *value)
{
    const struct http_json *member = http_json_member(object, slice_of(name));
    if (!member)
        return true;
    if (member->type != HTTP_JSON_STRING)
        return fail_member(call, name, "a string");
    *value = member->text;
    return true;
}

bool http_call_id(struct http_call *call, const struct http_json *object, const char *name,
                  struct slice *value)
{
    const struct http_json *member = http_json_member(object, slice_of(name));
    if (!member)
        return true;
    if (member->type != HTTP_JSON_STRING && member->type != HTTP_JSON_INTEGER)
        return fail_member(call, name, "a string or an integer");
    *value = member->text;
    return true;
}

bool http_call_number(struct http_call *call, const struct http_json *object, const char *name,
                      struct number *value)
{
    struct slice digits = {NULL, 0};
    if (!http_call_id(call, object, name, &digits))
        return false;
    if (digits.data && number_parse(digits, value) != ERR_OK)
        return fail_member(call, name, "an integer of at most 900 digits");
    return true;
}

bool http_call_int(struct http_call *call, const struct http_json *object, const char *name,
                   int64_t min, int64_t max, int64_t *value)
{
    struct slice digits = {NULL, 0};
    if (!http_call_id(call, object, name, &digits))
        return false;
    if (digits.data && (!decimal_parse(digits, value) || *value < min || *value > max)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "%s: not an integer from %lld to %lld", name,
                       (long long)min, (long long)max);
        return false;
    }
    return true;
}

bool http_call_bool(struct http_call *call, const struct http_json *object, const char *name,
                    bool *value)
{
    const struct http_json *member = http_json_member(object, slice_of(name));
    if (!member)
        return true;
    if (member->type != HTTP_JSON_TRUE && member->type != HTTP_JSON_FALSE)
        return fail_member(call, name, "true or false");
    *value = member->type == HTTP_JSON_TRUE;
    return true;
}

bool http_call_accept(struct http_call *call, enum err err, const struct error *error)
{
    if (err)
        http_call_fail_with(call, error);
    return err == ERR_OK;
}

bool http_call_check_match(struct http_call *call, struct slice match)
{
    struct error error;
    enum err err = match.size == 0 ? error_set(&error, ERR_INVALID, "match: the pattern is empty")
                                   : check_pattern(match, &error);
    return http_call_accept(call, err, &error);
}

bool http_call_kind(struct http_call *call, struct slice name, uint8_t *ret_kind)
{
    const struct kinds *kinds = pass_of(call)->service->kinds;
    *ret_kind = kinds_find(kinds, name);
    if (*ret_kind != KIND_NONE)
        return true;

    char list[LIMIT_KINDS * (LIMIT_KIND_BYTES + 2) + 1] = "";
    size_t used = 0;
    for (unsigned i = 0; i < kinds->count && used < 256; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                                 kinds->names[i]);
    int size = (int)(name.size < LIMIT_KIND_BYTES ? name.size : LIMIT_KIND_BYTES);
    http_call_fail(call, HTTP_PROBLEM_INVALID, "unknown reaction '%.*s', configured are: %s", size,
                   name.data, list);
    return false;
}
