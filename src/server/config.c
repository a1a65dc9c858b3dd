#include "server/config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "core/kinds.h"
#include "flow/service.h"
#include "server/textfile.h"

#define NAME_BYTES_MAX 40u /* more than any name has */
#define WHERE_BYTES    160u

static const char prefix[] = "TALLY_";

/* --- the tables ------------------------------------------------------------- */

enum when { RESTART, RELOAD };

const struct config_setting config_settings[CONFIG_COUNT] = {
#define GROUP(heading)
#define SETTING(field, name_, kind_, initial_, limits_, when, help_) \
    {.name = name_,                                                  \
     .kind = VALUE_##kind_,                                          \
     .initial = initial_,                                            \
     .limits = limits_,                                              \
     .reloads = (when) == RELOAD,                                    \
     .help = help_,                                                  \
     .offset = offsetof(struct config, field)},
#include "server/settings.def"
#undef SETTING
#undef GROUP
};

const struct config_action_flag config_action_flags[CONFIG_ACTION_COUNT] = {
    {"help", CONFIG_HELP, false, "print this"},
    {"version", CONFIG_VERSION, false, "print the version"},
    {"test-config", CONFIG_TEST, false, "read all settings, say whether they are fine, and exit"},
    {"check", CONFIG_CHECK, true, "verify every byte of a data folder, changing nothing, and exit"},
    {"repair", CONFIG_REPAIR, true,
     "cut the log before its first damage, keep what is cut beside it, and exit; what stood "
     "behind the damage is lost: run --check first"},
};

static const struct config_setting *find_setting(struct slice name)
{
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        if (slice_equal(name, slice_of(config_settings[i].name)))
            return &config_settings[i];
    return NULL;
}

static const struct config_action_flag *find_action(struct slice name)
{
    for (size_t i = 0; i < CONFIG_ACTION_COUNT; i++)
        if (slice_equal(name, slice_of(config_action_flags[i].name)))
            return &config_action_flags[i];
    return NULL;
}

static const struct config_setting *setting_of(const struct config *config, const void *field)
{
    size_t offset = (size_t)((const char *)field - (const char *)config);
    const struct config_setting *setting = config_settings;
    while (setting->offset != offset)
        setting++;
    return setting;
}

static void *field_of(struct config *config, const struct config_setting *setting)
{
    return (char *)config + setting->offset;
}

static const void *const_field_of(const struct config *config, const struct config_setting *setting)
{
    return (const char *)config + setting->offset;
}

static size_t index_of(const struct config_setting *setting)
{
    return (size_t)(setting - config_settings);
}

/* --- near misses ------------------------------------------------------------ */

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters must be changed, added, left out or swapped with their
 * neighbour to make `b` of `a`. */
static unsigned distance(struct slice a, struct slice b)
{
    unsigned cost[NAME_BYTES_MAX + 1][NAME_BYTES_MAX + 1];
    assert(a.size <= NAME_BYTES_MAX && b.size <= NAME_BYTES_MAX);

    for (unsigned i = 0; i <= a.size; i++) {
        for (unsigned j = 0; j <= b.size; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            unsigned changed = cost[i - 1][j - 1] + (a.data[i - 1] != b.data[j - 1]);
            unsigned moved = smaller(cost[i - 1][j], cost[i][j - 1]) + 1;
            cost[i][j] = smaller(changed, moved);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1])
                cost[i][j] = smaller(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a.size][b.size];
}

static void keep_nearer(struct slice given, const char *name, unsigned *least, const char **nearest)
{
    unsigned d = distance(given, slice_of(name));
    if (d < *least) {
        *least = d;
        *nearest = name;
    }
}

/* The name that was probably meant, or NULL: a third of it may be wrong. */
static const char *near_miss(struct slice given, bool actions_too)
{
    if (given.size > NAME_BYTES_MAX)
        return NULL;
    unsigned least = (unsigned)given.size / 3 + 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        keep_nearer(given, config_settings[i].name, &least, &nearest);
    for (size_t i = 0; actions_too && i < CONFIG_ACTION_COUNT; i++)
        keep_nearer(given, config_action_flags[i].name, &least, &nearest);
    return nearest;
}

/* --- one value -------------------------------------------------------------- */

const char *config_variable(const struct config_setting *setting, char *to)
{
    int size = snprintf(to, CONFIG_VARIABLE_BYTES, "%s%s", prefix, setting->name);
    assert(size > 0 && (unsigned)size < CONFIG_VARIABLE_BYTES);
    for (char *c = to + sizeof(prefix) - 1; *c; c++)
        *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    return to;
}

static const char *format_where(struct config_origin origin, const char *file,
                                const struct config_setting *setting, char *to, size_t size)
{
    const char *name = setting->name;
    char variable[CONFIG_VARIABLE_BYTES];
    switch (origin.source) {
    case CONFIG_DEFAULT:
        (void)snprintf(to, size, "default of %s", name);
        break;
    case CONFIG_FILE:
        (void)snprintf(to, size, "%s:%u: %s", file, origin.line, name);
        break;
    case CONFIG_ENVIRONMENT:
        (void)snprintf(to, size, "%s", config_variable(setting, variable));
        break;
    case CONFIG_FLAG:
        (void)snprintf(to, size, "--%s", name);
        break;
    }
    return to;
}

const char *config_where(const struct config *config, const void *field, char *to, size_t size)
{
    assert(config);

    const struct config_setting *setting = setting_of(config, field);
    return format_where(config->origins[index_of(setting)], config->config.text, setting, to, size);
}

/* Takes a value from one place, unless a stronger place has spoken. */
static enum err take(struct config *config, const struct config_setting *setting,
                     struct config_origin origin, const char *file, struct slice text,
                     struct error *error)
{
    char where[WHERE_BYTES];
    format_where(origin, file, setting, where, sizeof(where));
    if (setting->kind == VALUE_SECRET && origin.source != CONFIG_ENVIRONMENT) {
        char variable[CONFIG_VARIABLE_BYTES];
        return error_set(error, ERR_INVALID,
                         "%s: others could read it here; use --%s-file FILE, or %s in the "
                         "environment",
                         where, setting->name, config_variable(setting, variable));
    }

    union value value;
    struct error reason;
    enum err err = value_parse(setting->kind, setting->limits, text, &value, &reason);
    if (err)
        return error_set(error, err, "%s: %s", where, reason.text);

    struct config_origin *known = &config->origins[index_of(setting)];
    if (origin.source >= known->source) {
        memcpy(field_of(config, setting), &value, value_size(setting->kind));
        *known = origin;
    }
    return ERR_OK;
}

void config_init(struct config *config)
{
    assert(config);

    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const struct config_setting *setting = &config_settings[i];
        union value value;
        enum err err =
            value_parse(setting->kind, setting->limits, slice_of(setting->initial), &value, NULL);
        assert(!err);
        memcpy(field_of(config, setting), &value, value_size(setting->kind));
    }
}

/* --- flags ------------------------------------------------------------------ */

static enum err unknown_flag(const char *flag, struct slice name, struct error *error)
{
    char quoted[64];
    message_quote(quoted, sizeof(quoted), slice_of(flag));
    const char *meant = near_miss(name, true);
    if (meant)
        return error_set(error, ERR_INVALID, "%s: no such flag; did you mean --%s?", quoted, meant);
    return error_set(error, ERR_INVALID, "%s: no such flag; tallyd --help lists them", quoted);
}

/* A flag as it stands on the command line. */
struct flag {
    struct slice name;
    struct slice value; /* data is NULL when there is none */
};

/* Cuts "--name=value", or takes the next argument as the value. */
static struct flag split_flag(const char *argument, const char *next)
{
    const char *name = argument + strspn(argument, "-");
    size_t size = strcspn(name, "=");
    struct flag flag = {.name = {name, size}};
    if (name[size] == '=')
        flag.value = slice_of(name + size + 1);
    else if (next && strncmp(next, "--", 2) != 0)
        flag.value = slice_of(next);
    return flag;
}

static enum err take_action(const struct config_action_flag *action, const struct flag *flag,
                            struct config_request *request, struct error *error)
{
    if (action->takes_folder && flag->value.size == 0)
        return error_set(error, ERR_INVALID, "--%s needs a folder: --%s DIR", action->name,
                         action->name);
    if (request->action != CONFIG_RUN && request->action != action->action)
        return error_set(error, ERR_INVALID, "--%s: one thing at a time", action->name);
    request->action = action->action;
    if (action->takes_folder)
        request->folder = flag->value.data;
    return ERR_OK;
}

enum err config_read_flags(struct config *config, int argc, const char *const *argv,
                           struct config_request *ret_request, struct error *error)
{
    assert(config);
    assert(ret_request);

    *ret_request = (struct config_request){.action = CONFIG_RUN};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0) {
            ret_request->action = CONFIG_HELP;
            return ERR_OK;
        }
        struct flag flag = split_flag(argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        if (strncmp(argv[i], "--", 2) != 0)
            return unknown_flag(argv[i], flag.name, error);

        const struct config_action_flag *action = find_action(flag.name);
        const struct config_setting *setting = find_setting(flag.name);
        enum err err;
        bool uses_value = true;
        if (action) {
            uses_value = action->takes_folder;
            err = take_action(action, &flag, ret_request, error);
            if (!err && (action->action == CONFIG_HELP || action->action == CONFIG_VERSION))
                return ERR_OK;
        } else if (setting) {
            if (setting->kind == VALUE_BOOLEAN && !flag.value.data) {
                flag.value = SLICE("yes");
                uses_value = false;
            }
            if (!flag.value.data)
                return error_set(error, ERR_INVALID, "--%s needs a value: --%s %s", setting->name,
                                 setting->name, value_noun(setting->kind, setting->limits));
            err = take(config, setting, (struct config_origin){.source = CONFIG_FLAG}, NULL,
                       flag.value, error);
        } else {
            err = unknown_flag(argv[i], flag.name, error);
        }
        if (err)
            return err;
        if (uses_value && flag.value.data == argv[i + 1])
            i++;
    }
    return ERR_OK;
}

/* --- environment ------------------------------------------------------------ */

static void warn_of_variable(const char *variable, size_t size)
{
    char name[NAME_BYTES_MAX + 1] = "";
    char quoted[80];
    message_quote(quoted, sizeof(quoted), (struct slice){variable, size});
    const char *rest = variable + sizeof(prefix) - 1;
    for (size_t i = 0; i < size - (sizeof(prefix) - 1) && i < NAME_BYTES_MAX; i++)
        name[i] = rest[i] == '_' ? '-' : (char)(rest[i] | 0x20);

    const char *meant = near_miss(slice_of(name), false);
    char right[CONFIG_VARIABLE_BYTES];
    if (meant)
        message_warning("variable ignored: no such setting name=%s did_you_mean=%s", quoted,
                        config_variable(find_setting(slice_of(meant)), right));
    else
        message_warning("variable ignored: no such setting name=%s", quoted);
}

static const struct config_setting *setting_of_variable(const char *variable, size_t size)
{
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        char name[CONFIG_VARIABLE_BYTES];
        config_variable(&config_settings[i], name);
        if (slice_equal(slice_of(name), (struct slice){variable, size}))
            return &config_settings[i];
    }
    return NULL;
}

enum err config_read_environment(struct config *config, const char *const *environment,
                                 struct error *error)
{
    assert(config);

    for (; *environment; environment++) {
        const char *variable = *environment;
        size_t size = strcspn(variable, "=");
        if (strncmp(variable, prefix, sizeof(prefix) - 1) != 0 || variable[size] != '=')
            continue;

        const struct config_setting *setting = setting_of_variable(variable, size);
        struct slice value = slice_of(variable + size + 1);
        if (!setting) {
            warn_of_variable(variable, size);
            continue;
        }
        if (value.size == 0)
            continue; /* set to nothing is how a variable is unset in many places */
        enum err err = take(config, setting, (struct config_origin){.source = CONFIG_ENVIRONMENT},
                            NULL, value, error);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* --- the file --------------------------------------------------------------- */

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

    const struct config_setting *setting = find_setting(name);
    if (!setting) {
        char quoted[64];
        const char *meant = near_miss(name, false);
        return error_set(error, ERR_INVALID, "%s:%u: %s: no such setting; %s%s%s", file, number,
                         message_quote(quoted, sizeof(quoted), name),
                         meant ? "did you mean " : "tallyd --help lists them", meant ? meant : "",
                         meant ? "?" : "");
    }
    if (setting_of(config, &config->config) == setting)
        return error_set(error, ERR_INVALID, "%s:%u: a file cannot name another file", file,
                         number);

    unsigned *seen = &seen_at[index_of(setting)];
    if (*seen > 0)
        return error_set(error, ERR_INVALID, "%s:%u: %s is on line %u already", file, number,
                         setting->name, *seen);
    *seen = number;
    return take(config, setting, (struct config_origin){.source = CONFIG_FILE, .line = number},
                file, (struct slice){value, size}, error);
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

static enum err read_file(struct config *config, struct error *error)
{
    const char *file = config->config.text;
    if (file[0] == '\0')
        return ERR_OK;

    struct buffer text;
    struct error reason;
    buffer_init(&text, CONFIG_FILE_BYTES_MAX);
    enum err err = textfile_read(file, TEXTFILE_OPEN, &text, &reason);
    if (err) {
        char where[WHERE_BYTES];
        config_where(config, &config->config, where, sizeof(where));
        (void)error_set(error, ERR_INVALID, "%s: %s", where, reason.text);
    } else {
        err = config_read_text(config, file, buffer_slice(&text), error);
    }
    buffer_done(&text);
    return err;
}

/* --- the whole -------------------------------------------------------------- */

/* An error about a setting that is fine by itself, but not with the others. */
static enum err refuse(const struct config *config, const void *field, const char *reason,
                       struct error *error)
{
    char where[WHERE_BYTES];
    return error_set(error, ERR_INVALID, "%s: %s",
                     config_where(config, field, where, sizeof(where)), reason);
}

/* From here on the password is in `password`, wherever it came from. */
static enum err read_password(struct config *config, struct error *error)
{
    if (config->password_file.text[0] == '\0')
        return ERR_OK;
    if (config->password.text[0])
        return refuse(config, &config->password_file,
                      "there is a password in TALLY_PASSWORD as well; give one of them", error);

    struct error reason;
    enum err err = textfile_read_secret(config->password_file.text, config->password.text,
                                        sizeof(config->password.text), &reason);
    return err ? refuse(config, &config->password_file, reason.text, error) : ERR_OK;
}

static bool begins(const struct value_text *value, const char *scheme)
{
    return strncmp(value->text, scheme, strlen(scheme)) == 0;
}

static bool is_postgres(const struct value_text *store)
{
    return begins(store, "postgres://") || begins(store, "postgresql://");
}

static bool is_stream(const struct value_text *log)
{
    return begins(log, "redis-stream://");
}

bool config_is_distributed(const struct config *config)
{
    assert(config);

    return begins(&config->hot, "redis://");
}

/* Nodes that share their counts have to share what comes behind them. */
static enum err check_distributed(const struct config *config, struct error *error)
{
    if (!begins(&config->log, "kafka://") && !is_stream(&config->log))
        return refuse(config, &config->log,
                      "with --hot redis://... nodes share the counts, and need a log that they "
                      "share: kafka://HOST:PORT/TOPIC or redis-stream://HOST:PORT",
                      error);
    if (!is_postgres(&config->store))
        return refuse(config, &config->store,
                      "with --hot redis://... nodes share the counts, and need a store that they "
                      "share: postgres://...",
                      error);
    if (config->ack == ACK_WRITTEN || config->ack == ACK_MEMORY)
        return refuse(config, &config->ack,
                      "with --hot redis://... an answer waits for the log, or for the hot layer "
                      "only: log or hot",
                      error);
    if (config->role == CONFIG_AGGREGATE && config->http.host[0] == '\0')
        return refuse(config, &config->http,
                      "a node that only aggregates has no other door: it tells how it is doing "
                      "there",
                      error);
    return ERR_OK;
}

static enum err check_embedded(const struct config *config, struct error *error)
{
    if (!begins(&config->hot, "memory:") || strlen(config->hot.text) > strlen("memory:"))
        return refuse(config, &config->hot, "neither memory: nor redis://HOST:PORT", error);
    if (!begins(&config->log, "file:"))
        return refuse(config, &config->log,
                      "counts in memory need a log on this machine, file:DIR: other logs go with "
                      "--hot redis://...",
                      error);
    if (config->role != CONFIG_ALL)
        return refuse(config, &config->role,
                      "counts in memory belong to one process, which does all: roles go with "
                      "--hot redis://...",
                      error);
    if (config->ack == ACK_LOG || config->ack == ACK_HOT)
        return refuse(config, &config->ack,
                      "counts in memory know durable, written and memory: log and hot go with "
                      "--hot redis://...",
                      error);
    return ERR_OK;
}

enum err config_check(const struct config *config, struct error *error)
{
    assert(config);

    enum err err = config_is_distributed(config) ? check_distributed(config, error)
                                                 : check_embedded(config, error);
    if (err)
        return err;
    struct kinds kinds;
    struct error reason;
    if (kinds_parse(&kinds, slice_of(config->kinds.text), &reason))
        return refuse(config, &config->kinds, reason.text, error);
    if (strlen(config->password.text) > CONFIG_PASSWORD_BYTES_MAX)
        return refuse(config, &config->password, "the password has more than 512 bytes", error);
    if (config->data.text[0] == '\0')
        return refuse(config, &config->data, "a folder is needed, such as ./data", error);
    if (config->segment_size % 4096 != 0)
        return refuse(config, &config->segment_size, "must be a multiple of 4KiB", error);
    if (!value_is_loopback(&config->resp) && !config->password.text[0] && !config->insecure)
        return refuse(config, &config->resp,
                      "other machines could connect without a password. Give one with "
                      "--password-file FILE, stay on 127.0.0.1, or say --insecure",
                      error);
    if (!value_is_loopback(&config->http) && !config->password.text[0] && !config->insecure)
        return refuse(config, &config->http,
                      "other machines could connect without a password. Give one with "
                      "--password-file FILE, stay on 127.0.0.1, or say --insecure",
                      error);
    return ERR_OK;
}

enum err config_load(struct config *config, int argc, const char *const *argv,
                     const char *const *environment, struct config_request *ret_request,
                     struct error *error)
{
    config_init(config);
    enum err err = config_read_flags(config, argc, argv, ret_request, error);
    if (err || ret_request->action == CONFIG_HELP || ret_request->action == CONFIG_VERSION)
        return err;
    err = config_read_environment(config, environment, error);
    if (!err)
        err = read_file(config, error);
    if (!err)
        err = read_password(config, error);
    if (!err)
        err = config_check(config, error);
    return err;
}

/* What `now` becomes without a restart. */
static void update(struct config *now, const struct config *next)
{
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const struct config_setting *setting = &config_settings[i];
        if (!setting->reloads)
            continue;
        memcpy(field_of(now, setting), const_field_of(next, setting), value_size(setting->kind));
        now->origins[i] = next->origins[i];
    }
}

static void tell_differences(const struct config *before, const struct config *after,
                             config_change_fn *tell, void *arg)
{
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const struct config_setting *setting = &config_settings[i];
        const void *was = const_field_of(before, setting);
        const void *is = const_field_of(after, setting);
        if (memcmp(was, is, value_size(setting->kind)) == 0)
            continue;

        char was_text[VALUE_TEXT_MAX + 1];
        char is_text[VALUE_TEXT_MAX + 1];
        tell(arg, setting,
             value_format(setting->kind, setting->limits, was, was_text, sizeof(was_text)),
             value_format(setting->kind, setting->limits, is, is_text, sizeof(is_text)));
    }
}

/* `next` was fine as a whole, but only a part of it is taken: the password may go
 * while the address that needs it stays. */
enum err config_update(struct config *now, const struct config *next, config_change_fn *tell,
                       void *arg, struct error *error)
{
    assert(now);
    assert(next);

    struct config updated = *now;
    update(&updated, next);
    enum err err = config_check(&updated, error);
    if (!err) {
        tell_differences(now, next, tell, arg);
        *now = updated;
    }
    explicit_bzero(&updated, sizeof(updated));
    return err;
}
