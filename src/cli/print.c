#include "cli/print.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#define TABLE_BYTES_MAX ((size_t)1 << 30)
#define BOLD            "\033[1m"
#define PLAIN           "\033[0m"

/* --- bytes ------------------------------------------------------------------------ */

/* Bytes of the well-formed UTF-8 character at `text`, 0 if there is none. */
static size_t character_size(struct slice text)
{
    const unsigned char *bytes = (const unsigned char *)text.data;
    if (bytes[0] < 0x80)
        return 1;
    size_t size = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4 || size > text.size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, beyond the last character. */
    if ((bytes[0] == 0xe0 && bytes[1] < 0xa0) || (bytes[0] == 0xed && bytes[1] > 0x9f) ||
        (bytes[0] == 0xf0 && bytes[1] < 0x90) || (bytes[0] == 0xf4 && bytes[1] > 0x8f))
        return 0;
    return size;
}

static bool is_utf8(struct slice text)
{
    for (size_t i = 0; i < text.size;) {
        size_t size = character_size((struct slice){text.data + i, text.size - i});
        if (size == 0)
            return false;
        i += size;
    }
    return true;
}

/* Control bytes of ASCII, and those that follow it in Unicode (U+0080 to U+009F). */
static bool is_control(const char *bytes, size_t size)
{
    unsigned char first = (unsigned char)bytes[0];
    return size == 0 || (size == 1 && (first < 0x20 || first == 0x7f)) ||
           (size == 2 && first == 0xc2 && (unsigned char)bytes[1] < 0xa0);
}

void print_escaped(struct buffer *to, struct slice text)
{
    for (size_t i = 0; i < text.size;) {
        size_t size = character_size((struct slice){text.data + i, text.size - i});
        if (is_control(text.data + i, size)) {
            (void)buffer_printf(to, "\\x%02x", (unsigned char)text.data[i]);
            i++;
        } else {
            (void)buffer_append(to, text.data + i, size);
            i += size;
        }
    }
}

/* Columns of an escaped text. */
static size_t width_of(const char *text, size_t size)
{
    mbstate_t state = {0};
    size_t width = 0;
    for (size_t i = 0; i < size;) {
        wchar_t character;
        size_t bytes = mbrtowc(&character, text + i, size - i, &state);
        if (bytes == 0 || bytes > size - i)
            return width + size - i; /* not this locale's: a column for each byte */
        int columns = wcwidth(character);
        width += columns > 0 ? (size_t)columns : 0;
        i += bytes;
    }
    return width;
}

size_t print_width(struct slice text)
{
    return width_of(text.data, text.size);
}

/* --- tables ----------------------------------------------------------------------- */

void print_table_init(struct print_table *table, const char *names)
{
    *table = (struct print_table){0};
    buffer_init(&table->cells, TABLE_BYTES_MAX);
    for (const char *name = names; *name; name += strspn(name, " ")) {
        assert(table->columns < PRINT_COLUMNS_MAX);
        table->names[table->columns++] = name;
        name += strcspn(name, " ");
    }
}

void print_table_done(struct print_table *table)
{
    buffer_done(&table->cells);
}

void print_table_add(struct print_table *table, struct slice text)
{
    print_escaped(&table->cells, text);
    (void)buffer_append(&table->cells, "", 1);
    table->cell_count++;
}

static struct slice heading(const struct print_table *table, size_t column)
{
    const char *name = table->names[column];
    name += *name == '>';
    struct slice text = {name, strcspn(name, " ")};
    const char *alias = memchr(text.data, '=', text.size);
    return alias ? (struct slice){alias + 1, text.size - (size_t)(alias + 1 - name)} : text;
}

static void write_cell(const struct print_table *table, size_t column, struct slice text,
                       const size_t *widths)
{
    bool is_last = column + 1 == table->columns;
    bool to_right = table->names[column][0] == '>';
    size_t width = print_width(text);
    int pad = widths[column] > width ? (int)(widths[column] - width) : 0;
    if (column > 0)
        (void)fputs("  ", stdout);
    if (to_right)
        (void)printf("%*s", pad, "");
    (void)fwrite(text.data, 1, text.size, stdout);
    if (!to_right && !is_last)
        (void)printf("%*s", pad, "");
}

static void measure(const struct print_table *table, size_t *widths)
{
    assert(table->columns > 0);
    for (size_t i = 0; i < table->columns; i++)
        widths[i] = print_width(heading(table, i));
    const char *cell = table->cells.data;
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t width = print_width(slice_of(cell));
        size_t column = i % table->columns;
        if (width > widths[column])
            widths[column] = width;
        cell += strlen(cell) + 1;
    }
}

void print_table_write(struct print_table *table, bool colours)
{
    if (table->cell_count == 0)
        return;
    assert(table->columns > 0);
    size_t widths[PRINT_COLUMNS_MAX] = {0};
    measure(table, widths);
    (void)fputs(colours ? BOLD : "", stdout);
    for (size_t i = 0; i < table->columns; i++)
        write_cell(table, i, heading(table, i), widths);
    (void)fputs(colours ? PLAIN "\n" : "\n", stdout);

    const char *cell = table->cells.data;
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t column = i % table->columns;
        write_cell(table, column, slice_of(cell), widths);
        if (column + 1 == table->columns)
            (void)fputc('\n', stdout);
        cell += strlen(cell) + 1;
    }
    table->cells.size = 0;
    table->cell_count = 0;
}

/* --- JSON ------------------------------------------------------------------------- */

static void append_hex(struct buffer *to, struct slice text)
{
    for (size_t i = 0; i < text.size; i++)
        (void)buffer_printf(to, "%02x", (unsigned char)text.data[i]);
}

json_t *print_json_bytes(struct slice text)
{
    if (is_utf8(text))
        return json_stringn(text.size ? text.data : "", text.size);
    struct buffer hex;
    buffer_init(&hex, 2 * text.size + 1);
    append_hex(&hex, text);
    json_t *value = json_pack("{s:s#}", "hex", hex.data, (int)hex.size);
    buffer_done(&hex);
    return value;
}

void print_json_line(json_t *value)
{
    assert(value);
    (void)json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    (void)fputc('\n', stdout);
    json_decref(value);
}

void print_json_append(struct buffer *to, struct slice text)
{
    if (!is_utf8(text)) {
        (void)buffer_append_slice(to, SLICE("{\"hex\":\""));
        append_hex(to, text);
        (void)buffer_append_slice(to, SLICE("\"}"));
        return;
    }
    (void)buffer_append(to, "\"", 1);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte < 0x20)
            (void)buffer_printf(to, "\\u%04x", byte);
        else if (byte == '"' || byte == '\\')
            (void)buffer_append(to, (char[]){'\\', (char)byte}, 2);
        else
            (void)buffer_append(to, &text.data[i], 1);
    }
    (void)buffer_append(to, "\"", 1);
}

/* --- times ------------------------------------------------------------------------ */

const char *print_time(int64_t time_ms, char to[PRINT_TIME_BYTES])
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    char text[PRINT_TIME_BYTES];
    if (time_ms <= 0 || !gmtime_r(&seconds, &parts) ||
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        (void)snprintf(to, PRINT_TIME_BYTES, "-");
    else
        (void)snprintf(to, PRINT_TIME_BYTES, "%.20s.%03dZ", text, (int)(time_ms % 1000));
    return to;
}
