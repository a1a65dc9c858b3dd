/* config_file.c - settings as lines: name value # comment. A value with blanks is quoted. */
#include <assert.h>
#include <string.h>

#include "base/message.h"
#include "server/config_own.h"
#include "server/textfile.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct slice skip_blanks(struct slice text)
{
    while (text.size > 0 && is_blank(text.data[0]))
        text = (struct slice){text.data + 1, text.size - 1};
    return text;
}

static struct slice cut_front(struct slice text, size_t size)
{
    return (struct slice){text.data + size, text.size - size};
}

/* Takes a word from the front of `line`: bare, 'as it is', or "with \" and \\".
 * Writes it to `to`. Says NULL, or what is wrong. */
static const char *take_word(struct slice *line, char *to, size_t room, size_t *ret_size)
{
    char quote = line->data[0] == '"' || line->data[0] == '\'' ? line->data[0] : '\0';
    size_t at = quote ? 1 : 0;
    size_t size = 0;
    for (; at < line->size; at++, size++) {
        char c = line->data[at];
        if (quote ? c == quote : is_blank(c))
            break;
        if (quote == '"' && c == '\\') {
            at++;
            if (at == line->size || (line->data[at] != '"' && line->data[at] != '\\'))
                return "a \\ between quotes goes before \" or \\ only";
            c = line->data[at];
        }
        if (size == room)
            return "the value is too long";
        to[size] = c;
    }
    if (quote && at == line->size)
        return "the closing quote is missing";
    *line = cut_front(*line, at + (quote ? 1 : 0));
    *ret_size = size;
    return NULL;
}

/* Reads `name value # comment`. Leaves the name empty when there is none. */
static const char *split_line(struct slice line, struct slice *ret_name, char *value, size_t room,
                              size_t *ret_size)
{
    *ret_name = (struct slice){NULL, 0};
    line = skip_blanks(line);
    if (line.size == 0 || line.data[0] == '#')
        return NULL;

    size_t size = 0;
    while (size < line.size && !is_blank(line.data[size]))
        size++;
    struct slice name = {line.data, size};
    if (memchr(name.data, '=', name.size))
        return "write the name, a blank and the value, without =";

    line = skip_blanks(cut_front(line, size));
    if (line.size == 0 || line.data[0] == '#')
        return "a value is missing: write the name, a blank and the value";
    const char *wrong = take_word(&line, value, room, ret_size);
    if (wrong)
        return wrong;
    if (line.size > 0 && !is_blank(line.data[0]))
        return "something stands right behind the closing quote";
    line = skip_blanks(line);
    if (line.size > 0 && line.data[0] != '#')
        return "one value is enough: put quotes around a value with blanks";
    *ret_name = name;
    return NULL;
}

static enum err take_line(struct config *config, const char *file, unsigned number,
                          struct slice line, unsigned *seen_at, struct error *error)
{
    char value[VALUE_TEXT_MAX];
    size_t size = 0;
    struct slice name;
    const char *wrong = split_line(line, &name, value, sizeof(value), &size);
    if (wrong)
        return error_set(error, ERR_INVALID, "%s:%u: %s", file, number, wrong);
    if (name.size == 0)
        return ERR_OK;

    const struct config_setting *setting = config_find(name);
    if (!setting) {
        char quoted[64];
        const char *meant = config_near(name, false);
        return error_set(error, ERR_INVALID, "%s:%u: %s: no such setting; %s%s%s", file, number,
                         message_quote(quoted, sizeof(quoted), name),
                         meant ? "did you mean " : "tallyd --help lists them", meant ? meant : "",
                         meant ? "?" : "");
    }
    if (config_setting_of(config, &config->config) == setting)
        return error_set(error, ERR_INVALID, "%s:%u: a file cannot name another file", file,
                         number);

    unsigned *seen = &seen_at[config_index(setting)];
    if (*seen > 0)
        return error_set(error, ERR_INVALID, "%s:%u: %s is on line %u already", file, number,
                         setting->name, *seen);
    *seen = number;
    return config_take(config, setting,
                       (struct config_origin){.source = CONFIG_FILE, .line = number}, file,
                       (struct slice){value, size}, error);
}

enum err config_read_text(struct config *config, const char *file, struct slice text,
                          struct error *error)
{
    assert(config);
    assert(file);

    unsigned seen_at[CONFIG_COUNT] = {0}; /* line numbers; 0 = not yet */
    for (unsigned number = 1; text.size > 0; number++) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end ? (size_t)(end - text.data) : text.size;
        enum err err =
            take_line(config, file, number, (struct slice){text.data, size}, seen_at, error);
        if (err)
            return err;
        text = cut_front(text, size + (end ? 1 : 0));
    }
    return ERR_OK;
}

enum err config_read_file(struct config *config, struct error *error)
{
    const char *file = config->config.text;
    if (file[0] == '\0')
        return ERR_OK;

    struct buffer text;
    struct error reason;
    buffer_init(&text, CONFIG_FILE_BYTES_MAX);
    enum err err = textfile_read(file, TEXTFILE_OPEN, &text, &reason);
    if (err) {
        char where[CONFIG_WHERE_BYTES];
        config_where(config, &config->config, where, sizeof(where));
        (void)error_set(error, ERR_INVALID, "%s: %s", where, reason.text);
    } else {
        err = config_read_text(config, file, buffer_slice(&text), error);
    }
    buffer_done(&text);
    return err;
}
