/* config_environment.c - settings as variables: --keys-kept is TALLY_KEYS_KEPT. */
#include <assert.h>
#include <string.h>

#include "base/message.h"
#include "base/near.h"
#include "server/config_own.h"

static void warn_of_variable(const char *variable, size_t size)
{
    char name[NEAR_BYTES_MAX + 1] = "";
    char quoted[80];
    message_quote(quoted, sizeof(quoted), (struct slice){variable, size});
    const char *rest = variable + sizeof(CONFIG_PREFIX) - 1;
    for (size_t i = 0; i < size - (sizeof(CONFIG_PREFIX) - 1) && i < NEAR_BYTES_MAX; i++)
        name[i] = rest[i] == '_' ? '-' : (char)(rest[i] | 0x20);

    const char *meant = config_near(slice_of(name), false);
    char right[CONFIG_VARIABLE_BYTES];
    if (meant)
        message_warning("variable ignored: no such setting name=%s did_you_mean=%s", quoted,
                        config_variable(config_find(slice_of(meant)), right));
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
        if (strncmp(variable, CONFIG_PREFIX, sizeof(CONFIG_PREFIX) - 1) != 0 ||
            variable[size] != '=')
            continue;

        const struct config_setting *setting = setting_of_variable(variable, size);
        struct slice value = slice_of(variable + size + 1);
        if (!setting) {
            warn_of_variable(variable, size);
            continue;
        }
        if (value.size == 0)
            continue; /* set to nothing is how a variable is unset in many places */
        enum err err =
            config_take(config, setting, (struct config_origin){.source = CONFIG_ENVIRONMENT}, NULL,
                        value, error);
        if (err)
            return err;
    }
    return ERR_OK;
}
