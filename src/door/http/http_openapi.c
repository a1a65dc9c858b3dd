#include "door/http/http_openapi.h"

#include <assert.h>
#include <llhttp.h>
#include <stdlib.h>
#include <string.h>

#include "door/http/http_problem.h"
#include "door/http/http_route.h"

#define TEXT_BYTES_MAX (1u << 20)

/* ---- schemas ---- */

struct schema {
    const char *name;
    const char *json;
};

#define STRING    "{\"type\":\"string\"}"
#define BOOLEAN   "{\"type\":\"boolean\"}"
#define WHOLE     "{\"type\":\"integer\",\"minimum\":0}"
#define DIGITS    "{\"$ref\":\"#/components/schemas/Digits\"}"
#define TIME      "{\"$ref\":\"#/components/schemas/Time\"}"
#define TIME_0    "{\"oneOf\":[{\"$ref\":\"#/components/schemas/Time\"},{\"type\":\"null\"}]}"
#define TEXT_0    "{\"type\":[\"string\",\"null\"]}"
#define FRESHNESS ",\"stale\":" BOOLEAN ",\"shards_missing\":" WHOLE
#define ACK       "{\"$ref\":\"#/components/schemas/Ack\"}"
#define AMOUNT    "{\"$ref\":\"#/components/schemas/Amount\"}"
#define COUNTS    "{\"$ref\":\"#/components/schemas/Counts\"}"
#define CURSOR    "{\"$ref\":\"#/components/schemas/Cursor\"}"

/* What clients send. */
#define NAME     "{\"$ref\":\"#/components/schemas/Name\"}"
#define USER     "{\"$ref\":\"#/components/schemas/User\"}"
#define NAME_ID  "{\"oneOf\":[" NAME ",{\"type\":\"integer\"}]}"
#define USER_ID  "{\"oneOf\":[" USER ",{\"type\":\"integer\"}]}"
#define KIND     "{\"$ref\":\"#/components/schemas/Kind\"}"
#define REGION   "{\"$ref\":\"#/components/schemas/Region\"}"
#define PATTERN  "{\"$ref\":\"#/components/schemas/Pattern\"}"
#define KEY      "{\"$ref\":\"#/components/schemas/Key\"}"
#define MOMENT   "{\"$ref\":\"#/components/schemas/Moment\"}"
#define EVENT_ID "{\"$ref\":\"#/components/schemas/EventId\"}"

#define TEXT_OF(min, max)                                          \
    "\"type\":\"string\",\"minLength\":" min ",\"maxLength\":" max \
    ",\"pattern\":\"^[^\\\\u0000]*$"                               \
    "\""

/* An object that has these members, and no others. */
#define CLOSED(required, members)                                                 \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[" required \
    "],\"properties\":{" members "}}"
#define LIST(of)  "{\"type\":\"array\",\"items\":" of "}"
#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define PAGE(things, of)                          \
    CLOSED("\"" things "\",\"cursor\",\"as_of\"", \
           "\"" things "\":" LIST(of) ",\"cursor\":" CURSOR FRESHNESS ",\"as_of\":" TIME)
#define PAGE_OF(owner, things, of)                                                             \
    CLOSED("\"" owner "\",\"" things "\",\"cursor\",\"as_of\"",                                \
           "\"" owner "\":" STRING ",\"" things "\":" LIST(of) ",\"cursor\":" CURSOR FRESHNESS \
                                                               ",\"as_of\":" TIME)

static const struct schema schemas[] = {
    {"Any", "{}"},
    {"Name",
     "{" TEXT_OF("1", "256") ",\"description\":\"Of a counter or an item; at most 256 bytes of "
                             "UTF-8\"}"},
    {"User", "{" TEXT_OF("1", "128") ",\"description\":\"At most 128 bytes of UTF-8\"}"},
    {"Region", "{" TEXT_OF("0", "64") ",\"description\":\"At most 64 bytes of UTF-8\"}"},
    {"Key", "{\"type\":\"string\",\"minLength\":1,\"maxLength\":128,\"pattern\":"
            "\"^[^\\\\u0000\\\\u0001][^\\\\u0000]*$\",\"description\":\"An idempotency key; at "
            "most 128 bytes "
            "of UTF-8\"}"},
    {"Pattern", "{" TEXT_OF("1", "578") ",\"description\":\"A glob pattern: * ? [a-z]; at most 578 "
                                        "bytes of UTF-8\"}"},
    {"EventId", "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-"
                "[0-9a-f]{12}$\"}"},
    {"Moment",
     "{\"type\":\"string\",\"pattern\":\"^((0|[1-9][0-9]{0,13}|1[0-9]{14}|2[0-4][0-9]{13})|"
     "(19[7-9][0-9]|[2-9][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])"
     "(:[0-5][0-9]){2}(\\\\.[0-9]{1,9})?Z)$\",\"description\":\"2026-01-31T12:00:00Z, or "
     "milliseconds since 1970\"}"},
    {"Digits", "{\"type\":\"string\",\"pattern\":\"^(0|-?[1-9][0-9]*)$\",\"description\":"
               "\"An integer of any size, as decimal digits\"}"},
    {"Amount",
     "{\"description\":\"An integer of up to 900 digits, as a number without an exponent or as "
     "a string of digits\",\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"pattern\":"
     "\"^(0|-?[1-9][0-9]{0,899})$\"}]}"},
    {"Time", "{\"type\":\"string\",\"format\":\"date-time\",\"pattern\":"
             "\"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\\\.[0-9]{3}Z$\"}"},
    {"Ack", "{\"enum\":[\"durable\",\"written\",\"memory\",\"log\",\"hot\"],\"description\":\"What "
            "the answer has waited for: the disk, the system, or nothing; with many nodes: the "
            "log, or the hot layer only\"}"},
    {"Cursor", "{\"type\":[\"string\",\"null\"],\"description\":\"For the next page; null: that "
               "was all\"}"},
    {"Counts", "{\"type\":\"object\",\"additionalProperties\":" DIGITS
               ",\"description\":\"By kind of reaction\"}"},
    {"Problem", "{\"type\":\"object\",\"required\":[\"type\",\"title\",\"status\",\"advice\"],"
                "\"additionalProperties\":false,\"properties\":{\"type\":{\"$ref\":"
                "\"#/components/schemas/ProblemType\"},\"title\":" STRING
                ",\"status\":{\"type\":\"integer\"},\"detail\":" STRING ",\"advice\":" STRING "}}"},

    {"Counter", CLOSED("\"id\",\"value\",\"as_of\"",
                       "\"id\":" STRING ",\"value\":" DIGITS FRESHNESS ",\"as_of\":" TIME)},
    {"CounterChange", CLOSED("\"id\",\"value\",\"changed\",\"repeated\",\"ack\",\"as_of\"",
                             "\"id\":" STRING ",\"value\":" DIGITS ",\"changed\":" BOOLEAN
                             ",\"repeated\":" BOOLEAN ",\"ack\":" ACK ",\"as_of\":" TIME)},
    {"Deletion", CLOSED("\"id\",\"deleted\",\"repeated\",\"ack\",\"as_of\"",
                        "\"id\":" STRING ",\"deleted\":" BOOLEAN ",\"repeated\":" BOOLEAN
                        ",\"ack\":" ACK ",\"as_of\":" TIME)},
    {"Add", CLOSED("", "\"delta\":" AMOUNT ",\"region\":" REGION)},
    {"Reset", CLOSED("", "\"value\":" AMOUNT ",\"region\":" REGION)},
    {"Create",
     CLOSED("",
            "\"shards\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":64},\"policy\":{"
            "\"enum\":[\"local\",\"random\",\"round-robin\",\"least-loaded\"]},\"floor\":{"
            "\"oneOf\":[{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":"
            "9223372036854775807},{\"type\":\"string\",\"pattern\":\"^(0|-?[1-9][0-9]{0,17})$\"}]},"
            "\"idle_s\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":4294967295},"
            "\"region\":" REGION)},
    {"Description",
     CLOSED("\"id\",\"kind\",\"shards\",\"policy\",\"as_of\"",
            "\"id\":" STRING ",\"kind\":{\"enum\":[\"counter\",\"item\"]},\"shards\":" WHOLE
            ",\"shards_asked\":" WHOLE ",\"policy\":" STRING ",\"floor\":{\"oneOf\":[" DIGITS
            ",{\"type\":\"null\"}]}" FRESHNESS ",\"idle_s\":" WHOLE ",\"incarnation\":" WHOLE
            ",\"home\":" WHOLE ",\"expires\":" TIME_0 ",\"written\":" TIME_0
            ",\"shards_changed\":" TIME_0 ",\"shards_reason\":" STRING
            ",\"shard_values\":{\"oneOf\":[" LIST(DIGITS) ",{"
                                                          "\"type\":\"null\"}]},\"as_of\":" TIME)},
    {"CounterEntry",
     CLOSED("\"id\"", "\"id\":" STRING ",\"value\":{\"oneOf\":[" DIGITS ",{\"type\":\"null\"}]}"
                      ",\"counts\":" COUNTS ",\"written\":" TIME_0 ",\"hot\":" BOOLEAN
                      ",\"problem\":" STRING FRESHNESS ",\"as_of\":" TIME)},
    {"CounterPage", PAGE("counters", REF("CounterEntry"))},
    {"CounterAt",
     CLOSED("\"id\",\"time\",\"value\",\"as_of\"",
            "\"id\":" STRING ",\"time\":" TIME_0 ",\"value\":" DIGITS ",\"as_of\":" TIME)},
    {"CounterValues", CLOSED("\"id\",\"values\",\"complete\",\"as_of\"",
                             "\"id\":" STRING ",\"values\":" LIST(
                                 REF("CounterValue")) ",\"complete\":" BOOLEAN ",\"as_of\":" TIME)},
    {"CounterValue", CLOSED("\"time\",\"value\"", "\"time\":" TIME_0 ",\"value\":" TEXT_0)},
    {"Recount",
     CLOSED("\"id\",\"value\",\"recount\",\"base\",\"discarded\",\"events\",\"agrees\",\"as_of\"",
            "\"id\":" STRING ",\"value\":" DIGITS ",\"recount\":" DIGITS ",\"base\":" DIGITS
            ",\"discarded\":" DIGITS ",\"events\":" WHOLE ",\"agrees\":" BOOLEAN
            ",\"from\":{\"enum\":[\"log\",\"store\"]},\"log_begins\":" TIME ",\"hot\":" BOOLEAN
            ",\"store\":" DIGITS ",\"members\":" DIGITS ",\"as_of\":" TIME)},
    {"Event",
     CLOSED("\"time\",\"origin\",\"sequence\",\"type\",\"id\"",
            "\"time\":" TIME_0 ",\"origin\":" WHOLE ",\"sequence\":" WHOLE
            ",\"type\":{\"enum\":[\"add\",\"reset\",\"delete\",\"create\",\"expire\",\"react\","
            "\"nothing\",\"repair\"]},\"id\":" STRING ",\"delta\":" DIGITS ",\"user\":" TEXT_0
            ",\"before\":" TEXT_0 ",\"after\":" TEXT_0 ",\"key\":" STRING ",\"region\":" STRING)},
    {"EventPage", PAGE_OF("id", "events", REF("Event"))},

    {"ReactionChoice", CLOSED("", "\"kind\":" KIND ",\"region\":" REGION)},
    {"Reaction", CLOSED("\"item\",\"user\",\"reaction\",\"as_of\"",
                        "\"item\":" STRING ",\"user\":" STRING ",\"reaction\":" TEXT_0 FRESHNESS
                        ",\"as_of\":" TIME)},
    {"ReactionChange",
     CLOSED("\"item\",\"user\",\"reaction\",\"changed\",\"repeated\",\"counts\",\"ack\",\"as_of\"",
            "\"item\":" STRING ",\"user\":" STRING ",\"reaction\":" TEXT_0 ",\"changed\":" BOOLEAN
            ",\"repeated\":" BOOLEAN ",\"counts\":" COUNTS ",\"ack\":" ACK ",\"as_of\":" TIME)},
    {"Item", CLOSED("\"item\",\"counts\",\"as_of\"",
                    "\"item\":" STRING ",\"counts\":" COUNTS FRESHNESS ",\"as_of\":" TIME)},
    {"MemberPage", CLOSED("\"item\",\"kind\",\"members\",\"cursor\",\"as_of\"",
                          "\"item\":" STRING ",\"kind\":" STRING
                          ",\"members\":" LIST(STRING) ",\"cursor\":" CURSOR ",\"as_of\":" TIME)},
    {"Mine", CLOSED("\"user\",\"items\"",
                    "\"user\":" USER_ID ",\"items\":{\"type\":\"array\",\"minItems\":1,"
                    "\"maxItems\":1000,\"items\":" NAME_ID "}")},
    {"ItemReaction",
     CLOSED("\"item\",\"reaction\"", "\"item\":" STRING ",\"reaction\":" TEXT_0
                                     ",\"problem\":" STRING FRESHNESS ",\"as_of\":" TIME)},
    {"MineAnswer", CLOSED("\"user\",\"reactions\",\"as_of\"",
                          "\"user\":" STRING ",\"reactions\":" LIST(REF("ItemReaction")) FRESHNESS
                          ",\"as_of\":" TIME)},
    {"UserPage", PAGE_OF("user", "reactions", REF("ItemReaction"))},
    {"Past",
     CLOSED("\"time\",\"item\",\"user\",\"kind\"",
            "\"time\":" TIME_0 ",\"item\":" STRING ",\"user\":" STRING ",\"kind\":" TEXT_0)},
    {"HistoryPage", PAGE_OF("item", "history", REF("Past"))},

    {"BatchLine",
     CLOSED("\"op\"",
            "\"op\":{\"enum\":[\"like\",\"unlike\",\"dislike\",\"undislike\",\"react\","
            "\"unreact\",\"toggle\",\"reaction\",\"add\",\"set\",\"reset\",\"delete\","
            "\"get\"]},\"item\":" NAME_ID ",\"id\":" NAME_ID ",\"user\":" USER_ID ",\"kind\":" KIND
            ",\"delta\":" AMOUNT ",\"value\":" AMOUNT ",\"key\":" KEY ",\"region\":" REGION)},
    {"BatchAnswer",
     CLOSED("\"line\",\"status\"",
            "\"line\":" WHOLE ",\"status\":{\"type\":\"integer\"},\"changed\":" BOOLEAN
            ",\"repeated\":" BOOLEAN ",\"reaction\":" TEXT_0 ",\"value\":" DIGITS
            ",\"ack\":" ACK FRESHNESS ",\"as_of\":" TIME
            ",\"type\":" REF("ProblemType") ",\"detail\":" STRING)},

    {"Life",
     CLOSED("\"event_id\",\"counter\",\"delta\",\"state\",\"retry_count\",\"events\",\"created\"",
            "\"event_id\":{\"type\":\"string\",\"format\":\"uuid\"},\"counter\":" STRING
            ",\"delta\":" STRING ",\"state\":{\"enum\":[\"PENDING\",\"RETRYING\",\"SUCCESS\","
            "\"FAILED\",\"DISCARDED\"]},\"retry_count\":" WHOLE ",\"events\":" WHOLE
            ",\"created\":" TIME_0 ",\"processed\":" TIME_0 ",\"next\":" TIME_0
            ",\"reason\":" TEXT_0)},
    {"LifePage", PAGE("events", REF("Life"))},
#define LETTER                                                                                  \
    "\"event_id\":{\"type\":\"string\",\"format\":\"uuid\"},\"counter\":" TEXT_0                \
    ",\"delta\":" TEXT_0 ",\"reason\":" STRING ",\"retry_count\":" WHOLE ",\"created\":" TIME_0 \
    ",\"failed\":" TIME_0 ",\"size_bytes\":" WHOLE
    {"LetterEntry", CLOSED("\"event_id\",\"reason\"", LETTER)},
    {"LetterPage", PAGE("letters", REF("LetterEntry"))},
    {"Letter", CLOSED("\"event_id\",\"reason\",\"raw\",\"as_of\"",
                      LETTER ",\"raw\":{\"type\":\"string\",\"pattern\":\"^([0-9a-f]{2})*$\"},"
                             "\"as_of\":" TIME)},
    {"LetterCount",
     CLOSED("\"count\",\"repeated\",\"ack\",\"as_of\"",
            "\"count\":" WHOLE ",\"repeated\":" BOOLEAN ",\"ack\":" ACK ",\"as_of\":" TIME)},

    {"RecountStart", CLOSED("", "\"match\":" PATTERN)},
    {"AuditStart", CLOSED("", "\"match\":" PATTERN ",\"repair\":" BOOLEAN)},
    {"TaskStart",
     CLOSED("\"task\",\"watch\",\"repeated\",\"as_of\"",
            "\"task\":" WHOLE ",\"watch\":" STRING ",\"repeated\":" BOOLEAN ",\"as_of\":" TIME)},
#define TASK                                                                             \
    "\"id\":" WHOLE ",\"kind\":{\"enum\":[\"recount\",\"audit\",\"erase\"]},\"state\":{" \
    "\"enum\":[\"running\",\"done\",\"failed\"]},\"done\":" WHOLE ",\"all\":" WHOLE      \
    ",\"unit\":" STRING ",\"started\":" TIME_0 ",\"ended\":" TIME_0 ",\"text\":" STRING  \
    ",\"found\":" WHOLE ",\"lines\":" LIST(STRING)
    {"TaskEntry", CLOSED("\"id\",\"kind\",\"state\"", TASK)},
    {"Task", CLOSED("\"id\",\"kind\",\"state\",\"as_of\"", TASK ",\"as_of\":" TIME)},
    {"TaskList",
     CLOSED("\"tasks\",\"as_of\"", "\"tasks\":" LIST(REF("TaskEntry")) ",\"as_of\":" TIME)},
    {"Audit", CLOSED("\"time\",\"what\",\"id\",\"text\"",
                     "\"time\":" TIME_0 ",\"what\":" STRING ",\"id\":" TEXT_0 ",\"text\":" STRING)},
    {"AuditPage", PAGE("audits", REF("Audit"))},

    {"Status",
     "{\"type\":\"object\",\"required\":[\"version\",\"started\",\"workers\",\"demo\",\"kinds\","
     "\"counters\",\"items\",\"members\",\"hot\",\"pipeline\",\"http\",\"forms\",\"disk\","
     "\"parts\",\"ack\","
     "\"as_of\"],"
     "\"properties\":{\"version\":" STRING ",\"started\":" TIME_0 ",\"workers\":" WHOLE
     ",\"demo\":" BOOLEAN ",\"kinds\":" LIST(
         STRING) ",\"counters\":" WHOLE ",\"items\":" WHOLE ",\"members\":" WHOLE
                 ",\"users\":" WHOLE ",\"keys\":" WHOLE
                 ",\"hot\":{\"type\":\"object\"},\"pipeline\":{"
                 "\"type\":[\"object\",\"null\"]},\"http\":{\"type\":\"object\"},\"forms\":{"
                 "\"type\":\"object\"},\"disk\":{\"type\":[\"object\",\"null\"]},"
                 "\"resident_bytes\":" WHOLE
                 ",\"parts\":" LIST(REF("Part")) ",\"ack\":" ACK ",\"as_of\":" TIME "}}"},

    {"Part",
     CLOSED("\"name\",\"ok\",\"needed\",\"reason\"",
            "\"name\":" STRING ",\"ok\":" BOOLEAN ",\"needed\":" BOOLEAN ",\"reason\":" STRING)},
    {"Figures",
     CLOSED("\"every_ms\",\"from\",\"lag_is_estimated\",\"columns\",\"as_of\"",
            "\"every_ms\":" WHOLE ",\"from\":" TIME_0 ",\"lag_is_estimated\":" BOOLEAN
            ",\"columns\":{\"type\":\"object\","
            "\"required\":[\"time\",\"writes\",\"reads\"],\"additionalProperties\":" LIST(
                "{\"type\":[\"integer\",\"null\"],\"minimum\":0}") "},\"as_of\":" TIME)},

    {"SeedLike", CLOSED("\"post_id\",\"user_id\"", "\"post_id\":" NAME_ID ",\"user_id\":" USER_ID)},
    {"SeedLikeAnswer",
     CLOSED("\"post_id\",\"user_id\",\"liked\",\"delta\",\"like_count\",\"ack\",\"as_of\"",
            "\"post_id\":" NAME_ID ",\"user_id\":" USER_ID ",\"liked\":" BOOLEAN
            ",\"delta\":{\"enum\":[-1,0,1]},\"like_count\":" WHOLE ",\"repeated\":" BOOLEAN
            ",\"ack\":" ACK ",\"as_of\":" TIME)},
    {"SeedCount",
     CLOSED("\"post_id\",\"like_count\",\"as_of\"",
            "\"post_id\":" NAME_ID ",\"like_count\":" WHOLE FRESHNESS ",\"as_of\":" TIME)},
    {"SeedVideo",
     CLOSED("\"videoId\",\"likeCount\",\"as_of\"",
            "\"videoId\":" STRING ",\"likeCount\":" WHOLE FRESHNESS ",\"as_of\":" TIME)},
};

static void write_kinds(struct http_text *to, const struct kinds *kinds)
{
    HTTP_TEXT(to, ",\"Kind\":{\"enum\":[");
    for (unsigned i = 0; i < kinds->count; i++) {
        if (i > 0)
            HTTP_TEXT(to, ",");
        http_text_string(to, kinds_name(kinds, (uint8_t)(i + 1)));
    }
    HTTP_TEXT(to, "],\"description\":\"A kind of reaction, of those that are configured\"}");
}

static void write_schemas(struct http_text *to, const struct kinds *kinds)
{
    HTTP_TEXT(to, "\"schemas\":{\"ProblemType\":{\"enum\":[");
    for (unsigned i = 0; i < HTTP_PROBLEMS; i++)
        http_text_printf(to, "%s\"/problems/%s\"", i > 0 ? "," : "", http_problems[i].slug);
    HTTP_TEXT(to, "]}");
    write_kinds(to, kinds);
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        http_text_printf(to, ",\"%s\":", schemas[i].name);
        http_text_add(to, slice_of(schemas[i].json));
    }
    HTTP_TEXT(to, "}");
}

/* ---- parameters ---- */

struct parameter {
    const char *name;
    const char *schema;
    const char *description;
};

static const struct parameter parameters[] = {
    {"consistency", "{\"enum\":[\"exact\",\"any\"]}", "exact: as exact=true"},
    {"exact", BOOLEAN, "Ask all shards, 503 if one cannot be asked; on one node every read does"},
    {"ids", "{\"type\":\"string\",\"pattern\":\"^[^,\\\\u0000]+(,[^,\\\\u0000]+)*$\"}",
     "Ids with commas between them, up to 1000; of counters: stands alone"},
    {"match", PATTERN, "A glob pattern: * ? [a-z]"},
    {"cursor", "{\"type\":\"string\",\"pattern\":\"^(0|[1-9][0-9]{0,18}|1[0-7][0-9]{18})$\"}",
     "That of the page before"},
    {"limit", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000}", "About so many"},
    {"kind", KIND, "A kind of reaction; like where it is not said"},
    {"user", USER, "Of this user only"},
    {"time", MOMENT, "2026-01-31T12:00:00Z, or milliseconds since 1970"},
    {"state", "{\"enum\":[\"PENDING\",\"RETRYING\",\"SUCCESS\",\"FAILED\",\"DISCARDED\"]}",
     "In this state only"},
    {"counter", NAME, "Of this counter or item only"},
    {"since", MOMENT, "Not before this time; of figures: after it"},
    {"until", MOMENT, "Not after this time"},
    {"points", "{\"type\":\"integer\",\"minimum\":2,\"maximum\":500}", "So many; 25"},
    {"verbose", STRING, "Says what was looked at"},
};

static const struct parameter *find_parameter(struct slice name)
{
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        if (slice_equal(slice_of(parameters[i].name), name))
            return &parameters[i];
    }
    abort(); /* a parameter that nobody described */
}

static const struct parameter path_parameters[] = {
    {"id", NAME, NULL},
    {"item", NAME, NULL},
    {"video", NAME, NULL},
    {"user", USER, NULL},
    {"event", EVENT_ID, NULL},
    {"task",
     "{\"type\":\"string\",\"pattern\":"
     "\"^(0|[1-9][0-9]{0,18})$\"}",
     NULL},
    {"file", "{" TEXT_OF("1", "256") "}", NULL},
};

static const char *schema_of_argument(struct slice name)
{
    for (size_t i = 0; i < sizeof(path_parameters) / sizeof(path_parameters[0]); i++) {
        if (slice_equal(slice_of(path_parameters[i].name), name))
            return path_parameters[i].schema;
    }
    abort(); /* an argument that nobody described */
}

static void write_path_parameters(struct http_text *to, const char *path, bool *has_one)
{
    for (const char *at = path; (at = strchr(at, '{')); at++) {
        struct slice name = {at + 1, strcspn(at, "}") - 1};
        http_text_printf(to,
                         "%s{\"name\":\"%.*s\",\"in\":\"path\",\"required\":true,\"schema\":%s}",
                         *has_one ? "," : "", SLICE_ARGS(name), schema_of_argument(name));
        *has_one = true;
    }
}

static void write_query_parameters(struct http_text *to, const char *query, bool *has_one)
{
    while (query && *query) {
        bool is_required = *query == '!';
        query += is_required;
        size_t size = strcspn(query, " ");
        const struct parameter *parameter = find_parameter((struct slice){query, size});
        http_text_printf(
            to,
            "%s{\"name\":\"%s\",\"in\":\"query\",\"required\":%s,\"description\":\"%s\","
            "\"schema\":%s}",
            *has_one ? "," : "", parameter->name, is_required ? "true" : "false",
            parameter->description, parameter->schema);
        *has_one = true;
        query += size + (query[size] == ' ');
    }
}

static void write_parameters(struct http_text *to, const struct http_route *route)
{
    bool has_one = false;
    HTTP_TEXT(to, ",\"parameters\":[");
    write_path_parameters(to, route->path, &has_one);
    write_query_parameters(to, route->query, &has_one);
    if (route->flags & HTTP_ROUTE_WRITE) {
        http_text_printf(to,
                         "%s{\"$ref\":\"#/components/parameters/Key\"},"
                         "{\"$ref\":\"#/components/parameters/Ack\"},"
                         "{\"$ref\":\"#/components/parameters/Region\"}",
                         has_one ? "," : "");
        has_one = true;
    }
    if (route->flags & HTTP_ROUTE_TAGGED)
        http_text_printf(to, "%s{\"$ref\":\"#/components/parameters/IfNoneMatch\"}",
                         has_one ? "," : "");
    HTTP_TEXT(to, "]");
}

/* ---- operations ---- */

/* A schema's name, or a media type of its own. */
static void write_content(struct http_text *to, const char *type, const char *answer)
{
    if (strchr(answer, '/'))
        http_text_printf(to, "\"content\":{\"%s\":{\"schema\":{\"type\":\"string\"}}}", answer);
    else
        http_text_printf(to,
                         "\"content\":{\"%s\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}}",
                         type, answer);
}

/* Of others no body at all means the same as an empty object. */
static bool has_required_members(const char *name)
{
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        if (strcmp(schemas[i].name, name) == 0)
            return strstr(schemas[i].json, "\"required\":[]") == NULL;
    }
    abort(); /* a schema that nobody wrote */
}

static void write_operation(struct http_text *to, const struct http_route *route)
{
    static const char *const names[] = {
        [HTTP_GET] = "get", [HTTP_PUT] = "put", [HTTP_POST] = "post", [HTTP_DELETE] = "delete"};
    const char *type =
        route->flags & HTTP_ROUTE_LINES ? "application/x-ndjson" : "application/json";
    http_text_printf(to, "\"%s\":{\"operationId\":\"%s\",\"tags\":[\"%s\"],\"summary\":\"%s\"",
                     names[route->method], route->name, route->tag, route->summary);
    if (route->flags & HTTP_ROUTE_OPEN)
        HTTP_TEXT(to, ",\"security\":[]");
    write_parameters(to, route);
    if (route->body) {
        HTTP_TEXT(to, ",\"requestBody\":{");
        if (!(route->flags & HTTP_ROUTE_LINES) && has_required_members(route->body))
            HTTP_TEXT(to, "\"required\":true,");
        write_content(to, type, route->body);
        HTTP_TEXT(to, "}");
    }
    http_text_printf(to, ",\"responses\":{\"%u\":{\"description\":\"It is done\",", route->status);
    write_content(to, type, route->answer);
    HTTP_TEXT(to, "}");
    if (route->flags & HTTP_ROUTE_TAGGED)
        HTTP_TEXT(to, ",\"304\":{\"description\":\"It is what the client has already\"}");
    HTTP_TEXT(to, ",\"default\":{\"$ref\":\"#/components/responses/Problem\"}}}");
}

/* All operations of the path of route number `first`, which is the first that has it. */
static void write_path(struct http_text *to, unsigned first)
{
    const char *path = http_route_table[first].path;
    http_text_printf(to, "\"%s\":{", path);
    bool has_one = false;
    for (unsigned i = first; i < http_route_count; i++) {
        const struct http_route *route = &http_route_table[i];
        if (strcmp(route->path, path) != 0)
            continue;
        if (has_one)
            HTTP_TEXT(to, ",");
        has_one = true;
        write_operation(to, route);
    }
    HTTP_TEXT(to, "}");
}

static bool is_first(unsigned index)
{
    for (unsigned i = 0; i < index; i++) {
        if (strcmp(http_route_table[i].path, http_route_table[index].path) == 0)
            return false;
    }
    return true;
}

static void write_paths(struct http_text *to)
{
    HTTP_TEXT(to, "\"paths\":{");
    bool has_one = false;
    for (unsigned i = 0; i < http_route_count; i++) {
        if (!is_first(i))
            continue;
        if (has_one)
            HTTP_TEXT(to, ",");
        has_one = true;
        write_path(to, i);
    }
    HTTP_TEXT(to, "}");
}

void http_openapi_write(struct http_text *text, const struct kinds *kinds, const char *version)
{
    http_text_init(text, TEXT_BYTES_MAX);
    http_text_printf(text,
                     "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Tally\",\"version\":\"%s\","
                     "\"description\":\"Counts things for applications. Counts are decimal "
                     "strings; a slash within an id is written as %%2F.\"},"
                     "\"security\":[{},{\"password\":[]}],",
                     version);
    write_paths(text);
    HTTP_TEXT(text,
              ",\"components\":{\"securitySchemes\":{\"password\":{\"type\":\"http\",\"scheme\":"
              "\"bearer\"}},\"parameters\":{"
              "\"Key\":{\"name\":\"Idempotency-Key\",\"in\":\"header\",\"description\":\"The write "
              "counts once, however often it is sent with this key\",\"schema\":" KEY "},"
              "\"Ack\":{\"name\":\"ack\",\"in\":\"query\",\"description\":\"Wait for the log, and "
              "refuse the write while that is down\",\"schema\":{\"enum\":[\"log\"]}},"
              "\"Region\":{\"name\":\"Tally-Region\",\"in\":\"header\",\"schema\":" REGION "},"
              "\"IfNoneMatch\":{\"name\":\"If-None-Match\",\"in\":\"header\",\"description\":\"The "
              "ETag of an answer that is there already\",\"schema\":{\"type\":\"string\"}}},"
              "\"responses\":{\"Problem\":{\"description\":\"It went wrong; the type says how\","
              "\"content\":{\"application/problem+json\":{\"schema\":{\"$ref\":"
              "\"#/components/schemas/Problem\"}}}}},");
    write_schemas(text, kinds);
    HTTP_TEXT(text, "}}");
    assert(!text->overflow);
}
