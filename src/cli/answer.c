#include "cli/answer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

#define WORDS_MAX  24u
#define PAGE_ROWS  1000u
#define ROWS_SHOWN 1000u /* a table is written after so many: widths fit, memory is bounded */

struct slice answer_text(const redisReply *reply, char room[ANSWER_NUMBER_BYTES])
{
    if (!reply)
        return SLICE("");
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        return (struct slice){room, (size_t)(decimal_format(room, reply->integer) - room)};
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        return (struct slice){reply->str, reply->len};
    default:
        return SLICE("");
    }
}

int64_t answer_number(const redisReply *reply)
{
    int64_t number = 0;
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    if (reply && reply->type == REDIS_REPLY_STRING)
        (void)decimal_parse((struct slice){reply->str, reply->len}, &number);
    return number;
}

bool answer_is_nil(const redisReply *reply)
{
    return !reply || reply->type == REDIS_REPLY_NIL;
}

const redisReply *answer_field(const redisReply *map, const char *name)
{
    if (!map || map->type != REDIS_REPLY_ARRAY)
        return NULL;
    for (size_t i = 0; i + 1 < map->elements; i += 2) {
        const redisReply *key = map->element[i];
        if (key->str && strcmp(key->str, name) == 0)
            return map->element[i + 1];
    }
    return NULL;
}

struct slice answer_field_text(const redisReply *map, const char *name,
                               char room[ANSWER_NUMBER_BYTES])
{
    return answer_text(answer_field(map, name), room);
}

int64_t answer_field_number(const redisReply *map, const char *name)
{
    return answer_number(answer_field(map, name));
}

/* --- JSON ------------------------------------------------------------------------- */

/* Amounts may be of any size, so that they are strings, as they are over HTTP. */
static bool is_amount(const char *name)
{
    static const char *const names[] = {"value", "recount", "recounted", "base",  "discarded",
                                        "delta", "before",  "after",     "floor", "drift"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

json_t *answer_json(const redisReply *reply)
{
    if (answer_is_nil(reply))
        return json_null();
    if (reply->type == REDIS_REPLY_INTEGER)
        return json_integer(reply->integer);
    if (reply->type != REDIS_REPLY_ARRAY)
        return print_json_bytes((struct slice){reply->str, reply->len});
    json_t *array = json_array();
    for (size_t i = 0; i < reply->elements; i++)
        (void)json_array_append_new(array, answer_json(reply->element[i]));
    return array;
}

json_t *answer_json_map(const redisReply *map)
{
    json_t *object = json_object();
    if (!map || map->type != REDIS_REPLY_ARRAY)
        return object;
    for (size_t i = 0; i + 1 < map->elements; i += 2) {
        const char *name = map->element[i]->str ? map->element[i]->str : "";
        const redisReply *value = map->element[i + 1];
        char room[ANSWER_NUMBER_BYTES];
        json_t *json = is_amount(name) && value->type == REDIS_REPLY_INTEGER
                           ? print_json_bytes(answer_text(value, room))
                           : answer_json(value);
        (void)json_object_set_new(object, name, json);
    }
    return object;
}

/* --- for people -------------------------------------------------------------------- */

static bool is_time(struct slice name)
{
    return name.size > 3 && memcmp(name.data + name.size - 3, "_ms", 3) == 0;
}

/* What stands in a cell for a value of this name. */
static struct slice shown(struct slice name, const redisReply *value, char *room)
{
    if (answer_is_nil(value))
        return SLICE("-");
    if (is_time(name))
        return slice_of(print_time(answer_number(value), room));
    return answer_text(value, room);
}

void answer_print_map(const redisReply *map, bool colours)
{
    struct print_table table;
    print_table_init(&table, "name value");
    char room[PRINT_TIME_BYTES];
    for (size_t i = 0; i + 1 < map->elements; i += 2) {
        struct slice name = answer_text(map->element[i], room);
        print_table_add(&table, name);
        print_table_add(&table, shown(name, map->element[i + 1], room));
    }
    print_table_write(&table, colours);
    print_table_done(&table);
}

void answer_print_raw(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++)
            answer_print_raw(reply->element[i]);
        return;
    }
    char room[ANSWER_NUMBER_BYTES];
    struct slice text = answer_text(reply, room);
    /* An INFO keeps its lines; the rest of what could hurt a terminal is escaped. */
    struct buffer line;
    buffer_init(&line, 4 * text.size + 1);
    for (size_t i = 0; i < text.size;) {
        const char *end = memchr(text.data + i, '\n', text.size - i);
        size_t size = end ? (size_t)(end - text.data) - i : text.size - i;
        size_t kept = size > 0 && text.data[i + size - 1] == '\r' ? size - 1 : size;
        print_escaped(&line, (struct slice){text.data + i, kept});
        (void)fwrite(line.data, 1, line.size, stdout);
        if (end)
            (void)fputc('\n', stdout);
        line.size = 0;
        i += size + 1;
    }
    (void)fputc('\n', stdout);
    buffer_done(&line);
}

/* --- pages ------------------------------------------------------------------------- */

/* One page; its next cursor is copied to `cursor`. */
static redisReply *next_page(struct session *session, const struct slice *words, size_t word_count,
                             char *cursor, size_t cursor_bytes, uint64_t rows, int *ret_code)
{
    struct slice all[WORDS_MAX];
    char count[ANSWER_NUMBER_BYTES] = "";
    assert(word_count + 4 <= WORDS_MAX);
    memcpy(all, words, word_count * sizeof(*words));
    *decimal_format_unsigned(count, rows) = 0;
    all[word_count++] = SLICE("CURSOR");
    all[word_count++] = slice_of(cursor);
    all[word_count++] = SLICE("COUNT");
    all[word_count++] = slice_of(count);
    redisReply *reply = session_send(session, all, word_count, ret_code);
    if (!reply)
        return NULL;
    char room[ANSWER_NUMBER_BYTES];
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[1]->type != REDIS_REPLY_ARRAY) {
        *ret_code = session_fail(EXIT_REFUSED, "the server's answer is not a page");
        freeReplyObject(reply);
        return NULL;
    }
    struct slice next = answer_text(reply->element[0], room);
    (void)snprintf(cursor, cursor_bytes, "%.*s", SLICE_ARGS(next));
    return reply;
}

int answer_pages(struct session *session, const struct slice *words, size_t word_count,
                 uint64_t limit, answer_page_fn *visit, void *arg)
{
    char cursor[64] = "0";
    int code = EXIT_FINE;
    bool wants_more = true;
    uint64_t rows = limit > 0 && limit < PAGE_ROWS ? limit : PAGE_ROWS;
    do {
        redisReply *page =
            next_page(session, words, word_count, cursor, sizeof(cursor), rows, &code);
        if (!page)
            return code;
        wants_more = visit(arg, page->element[1]);
        freeReplyObject(page);
    } while (wants_more && strcmp(cursor, "0") != 0 && !ferror(stdout));
    return EXIT_FINE;
}

struct listing {
    const struct answer_list *list;
    struct print_table table;
    bool json;
    bool colours;
    uint64_t printed;
};

static void add_row(struct listing *listing, const redisReply *row)
{
    struct print_table *table = &listing->table;
    for (size_t i = 0; i < table->columns; i++) {
        const char *name = table->names[i];
        name += *name == '>';
        char field[64];
        char room[PRINT_TIME_BYTES];
        (void)snprintf(field, sizeof(field), "%.*s", (int)strcspn(name, " ="), name);
        print_table_add(table, shown(slice_of(field), answer_field(row, field), room));
    }
}

static bool list_page(void *arg, const redisReply *rows)
{
    struct listing *listing = arg;
    uint64_t limit = listing->list->limit;
    for (size_t i = 0; i < rows->elements; i++) {
        if (limit > 0 && listing->printed == limit)
            return false;
        if (listing->json)
            print_json_line(answer_json_map(rows->element[i]));
        else
            add_row(listing, rows->element[i]);
        listing->printed++;
        if (listing->printed % ROWS_SHOWN == 0)
            print_table_write(&listing->table, listing->colours);
    }
    return limit == 0 || listing->printed < limit;
}

int answer_print_list(struct session *session, const struct answer_list *list)
{
    struct listing listing = {.list = list, .json = session->json, .colours = session->colours};
    print_table_init(&listing.table, list->columns);
    int code =
        answer_pages(session, list->words, list->word_count, list->limit, list_page, &listing);
    print_table_write(&listing.table, session->colours);
    print_table_done(&listing.table);
    if (code == EXIT_FINE && listing.printed == 0 && list->empty)
        session_remark(session, "%s", list->empty);
    return code;
}
