/* config.h - the configuration: what every setting is, and where it came from.
 *
 * A setting is a row of settings.def. It is given, from strong to weak, as a
 * flag `--name value`, as TALLY_NAME in the environment (dashes become
 * underscores), as a line `name value` of the file, or not at all. A value is
 * checked even when a stronger one hides it. */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/slice.h"
#include "server/value.h"

#define CONFIG_FILE_BYTES_MAX     (1u << 20)
#define CONFIG_PASSWORD_BYTES_MAX 512u
#define CONFIG_VARIABLE_BYTES     48u /* room for the name of any variable */

enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };

/* The words of --demo, in their order. */
enum config_demo { CONFIG_DEMO_AUTO, CONFIG_DEMO_ON, CONFIG_DEMO_OFF };

/* The words of --role, in their order. */
enum config_role { CONFIG_ALL, CONFIG_SERVE, CONFIG_AGGREGATE };

/* The words of --stale-reads, in their order. */
enum config_stale { CONFIG_REFUSE_STALE, CONFIG_SERVE_STALE };

struct config_origin {
    enum config_source source;
    unsigned line; /* of the file */
};

enum {
    CONFIG_COUNT = 0
#define GROUP(heading)
#define SETTING(...) +1
#include "server/settings.def"
#undef SETTING
#undef GROUP
};

struct config {
#define GROUP(heading)
#define SETTING(field, name, kind, ...) VALUE_TYPE_##kind field;
#include "server/settings.def"
#undef SETTING
#undef GROUP
    struct config_origin origins[CONFIG_COUNT];
};

/* A row of the table. */
struct config_setting {
    const char *name;
    enum value_kind kind;
    const char *initial; /* as text */
    const char *limits;
    bool reloads; /* may change on SIGHUP */
    const char *help;
    size_t offset; /* of the field in struct config */
};

extern const struct config_setting config_settings[CONFIG_COUNT];

/* The variable of a setting, TALLY_KEYS_KEPT; `to` has CONFIG_VARIABLE_BYTES of
 * room and is returned. */
const char *config_variable(const struct config_setting *setting, char *to);

/* What the command line asks for beside the settings. */
enum config_action {
    CONFIG_RUN,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_TEST,   /* --test-config */
    CONFIG_CHECK,  /* --check DIR */
    CONFIG_REPAIR, /* --repair DIR */
};

struct config_request {
    enum config_action action;
    const char *folder; /* of CHECK and REPAIR; borrowed from argv */
};

/* Their flags, for the help and for near misses. */
struct config_action_flag {
    const char *name;
    enum config_action action;
    bool takes_folder;
    const char *help;
};

#define CONFIG_ACTION_COUNT 5u
extern const struct config_action_flag config_action_flags[CONFIG_ACTION_COUNT];

/* All settings at their defaults. */
void config_init(struct config *config);

/* Reads flags, environment and the file they name, and checks that the whole
 * makes sense. Errors are ERR_INVALID, with a text that says where. HELP and
 * VERSION are answered whatever else is wrong. A variable that nobody knows is
 * only warned of: others may use the prefix. */
enum err config_load(struct config *config, int argc, const char *const *argv,
                     const char *const *environment, struct config_request *ret_request,
                     struct error *error);

/* Its parts, for those who have a part only. The file's is pure; `file` is its
 * name in errors. */
enum err config_read_flags(struct config *config, int argc, const char *const *argv,
                           struct config_request *ret_request, struct error *error);
enum err config_read_environment(struct config *config, const char *const *environment,
                                 struct error *error);
enum err config_read_text(struct config *config, const char *file, struct slice text,
                          struct error *error);
enum err config_check(const struct config *config, struct error *error);

/* Are counts outside of the process, in Redis? */
bool config_is_distributed(const struct config *config);

/* Whether the web page offers its demo. Unless the setting says so: on one node that only this
 * machine reaches, without a password. */
bool config_has_demo(const struct config *config);

/* Where the setting whose field this is was given: "--data", "TALLY_DATA",
 * "tally.conf:3" or "default of data". Returns `to`. */
const char *config_where(const struct config *config, const void *field, char *to, size_t size);

/* Brings `now` to `next` as far as that is possible without a restart, and
 * tells of each setting that differs. ERR_INVALID, and nothing is done, when the
 * settings that may change make no sense with those that have to stay. */
typedef void config_change_fn(void *arg, const struct config_setting *setting, const char *before,
                              const char *after);
enum err config_update(struct config *now, const struct config *next, config_change_fn *tell,
                       void *arg, struct error *error);

#endif
