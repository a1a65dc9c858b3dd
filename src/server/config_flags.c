/* config_flags.c - the command line: --name value, --name=value, and what asks for something else
 * than to run. */
#include <assert.h>
#include <string.h>

#include "base/message.h"
#include "server/config_own.h"

const struct config_action_flag config_action_flags[CONFIG_ACTION_COUNT] = {
    {"help", CONFIG_HELP, false, "print this"},
    {"version", CONFIG_VERSION, false, "print the version"},
    {"test-config", CONFIG_TEST, false, "read all settings, say whether they are fine, and exit"},
    {"check", CONFIG_CHECK, true,
     "verify every byte of a data folder, its log and its store, changing nothing, and exit"},
    {"repair", CONFIG_REPAIR, true,
     "cut the log before its first damage, keep what is cut beside it, and exit; what stood "
     "behind the damage is lost: run --check first"},
};

static const struct config_action_flag *find_action(struct slice name)
{
    for (size_t i = 0; i < CONFIG_ACTION_COUNT; i++)
        if (slice_equal(name, slice_of(config_action_flags[i].name)))
            return &config_action_flags[i];
    return NULL;
}

static enum err unknown_flag(const char *flag, struct slice name, struct error *error)
{
    char quoted[64];
    message_quote(quoted, sizeof(quoted), slice_of(flag));
    const char *meant = config_near(name, true);
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
        const struct config_setting *setting = config_find(flag.name);
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
            err = config_take(config, setting, (struct config_origin){.source = CONFIG_FLAG}, NULL,
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
