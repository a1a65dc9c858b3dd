/* settings.h - where the server is and how it is talked to.
 *
 * A flag is stronger than a variable of the environment, which is stronger than the
 * file ~/.config/tally/config ($XDG_CONFIG_HOME/tally/config), whose lines are
 * "name value". A secret never stands on a command line. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "cli/command.h"

#define SETTINGS_HOST_BYTES  256u
#define SETTINGS_TOKEN_BYTES 513u

struct settings {
    char host[SETTINGS_HOST_BYTES];
    uint16_t port;
    char token[SETTINGS_TOKEN_BYTES]; /* "": none */
    int64_t timeout_s;
    bool no_colour;
};

/* Reads "host:port", "[::1]:port", "host" or ":port"; what is left out stays as it was. */
enum err settings_parse_address(struct slice text, struct settings *settings, struct error *error);

/* The value of a variable of the environment, or NULL; getenv() but for tests. */
typedef const char *settings_variable_fn(const char *name);

/* ERR_INVALID with a text that names the place and says what would be right. */
enum err settings_load(const struct command_line *line, settings_variable_fn *variable,
                       struct settings *ret_settings, struct error *error);

/* "host:port" as a text, with brackets where they belong; returns `to`. */
const char *settings_address(const struct settings *settings, char *to, size_t size);

#endif
