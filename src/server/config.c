#include "server/config.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "server/config_own.h"
#include "server/textfile.h"

/* --- the table -------------------------------------------------------------- */

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

const struct config_setting *config_find(struct slice name)
{
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        if (slice_equal(name, slice_of(config_settings[i].name)))
            return &config_settings[i];
    return NULL;
}

const struct config_setting *config_setting_of(const struct config *config, const void *field)
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

size_t config_index(const struct config_setting *setting)
{
    return (size_t)(setting - config_settings);
}

const char *config_near(struct slice given, bool actions_too)
{
    struct near near = {.given = given, .limit = (unsigned)given.size / 3 + 1};
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        near_offer(&near, config_settings[i].name);
    for (size_t i = 0; actions_too && i < CONFIG_ACTION_COUNT; i++)
        near_offer(&near, config_action_flags[i].name);
    return near.name;
}

/* --- one value -------------------------------------------------------------- */

const char *config_variable(const struct config_setting *setting, char *to)
{
    int size = snprintf(to, CONFIG_VARIABLE_BYTES, "%s%s", CONFIG_PREFIX, setting->name);
    assert(size > 0 && (unsigned)size < CONFIG_VARIABLE_BYTES);
    for (char *c = to + sizeof(CONFIG_PREFIX) - 1; *c; c++)
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

    const struct config_setting *setting = config_setting_of(config, field);
    return format_where(config->origins[config_index(setting)], config->config.text, setting, to,
                        size);
}

enum err config_take(struct config *config, const struct config_setting *setting,
                     struct config_origin origin, const char *file, struct slice text,
                     struct error *error)
{
    char where[CONFIG_WHERE_BYTES];
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

    struct config_origin *known = &config->origins[config_index(setting)];
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

/* --- the whole -------------------------------------------------------------- */

enum err config_refuse(const struct config *config, const void *field, const char *reason,
                       struct error *error)
{
    char where[CONFIG_WHERE_BYTES];
    return error_set(error, ERR_INVALID, "%s: %s",
                     config_where(config, field, where, sizeof(where)), reason);
}

/* From here on the password is in `password`, wherever it came from. */
static enum err read_password(struct config *config, struct error *error)
{
    if (config->password_file.text[0] == '\0')
        return ERR_OK;
    if (config->password.text[0])
        return config_refuse(config, &config->password_file,
                             "there is a password in TALLY_PASSWORD as well; give one of them",
                             error);

    struct error reason;
    enum err err = textfile_read_secret(config->password_file.text, config->password.text,
                                        sizeof(config->password.text), &reason);
    return err ? config_refuse(config, &config->password_file, reason.text, error) : ERR_OK;
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
        err = config_read_file(config, error);
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
        update(now, next); /* and not all of it: other threads read what never changes */
    }
    explicit_bzero(&updated, sizeof(updated));
    return err;
}
