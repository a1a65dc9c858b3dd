/* config_own.h - what the files that read the configuration share.
 *
 *   config.c              the table, a value and where it came from, the whole
 *   config_flags.c        the command line
 *   config_environment.c  TALLY_... variables
 *   config_file.c         the file
 *   config_check.c        do the settings make sense together? */
#ifndef SERVER_CONFIG_OWN_H
#define SERVER_CONFIG_OWN_H

#include "server/config.h"

#define CONFIG_PREFIX      "TALLY_"
#define CONFIG_WHERE_BYTES 160u

/* The setting of that name; NULL: there is none. */
const struct config_setting *config_find(struct slice name);
/* The setting of a field of `config`. */
const struct config_setting *config_setting_of(const struct config *config, const void *field);
size_t config_index(const struct config_setting *setting);

/* The name that was probably meant, or NULL: a third of it may be wrong. */
const char *config_near(struct slice given, bool actions_too);

/* Takes a value from one place, unless a stronger place has spoken. `file`: its name, if it is from
 * there. */
enum err config_take(struct config *config, const struct config_setting *setting,
                     struct config_origin origin, const char *file, struct slice text,
                     struct error *error);

/* Reads the file that flags or environment have named, if they have. */
enum err config_read_file(struct config *config, struct error *error);

/* An error about a setting that is fine by itself, but not with the others. */
enum err config_refuse(const struct config *config, const void *field, const char *reason,
                       struct error *error);

#endif
