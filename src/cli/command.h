/* command.h - the table of commands and options, and a command line read by it.
 *
 * The rows stand in commands.def. Nothing here talks to a server. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum command_option {
#define OPTION(id, name, value, help) COMMAND_##id,
#include "cli/commands.def"
    COMMAND_OPTION_COUNT
};

#define COMMAND_MANY 1000000 /* arguments, as far as the table is concerned */
#define OPT(id)      ((uint64_t)1 << COMMAND_##id)
#define COMMAND_COMMON                                                                      \
    (OPT(ADDRESS) | OPT(TOKEN_FILE) | OPT(CONFIG) | OPT(JSON) | OPT(TIMEOUT) | OPT(QUIET) | \
     OPT(HELP))

struct session;
struct command_line;

/* Returns an exit code, see session.h. */
typedef int command_fn(struct session *session, const struct command_line *line);

struct command {
    const char *name; /* NULL: a heading, which `summary` is, for those that follow */
    command_fn *run;
    int least;
    int most;
    uint64_t options; /* without the common ones */
    const char *arguments;
    const char *summary;
    const char *details;
    const char *example;
};

struct command_option_row {
    const char *name;
    const char *value; /* what it takes; "" for a switch */
    const char *help;
};

extern const struct command commands[]; /* headings among them */
extern const size_t command_count;
extern const struct command_option_row command_options[COMMAND_OPTION_COUNT];

/* NULL: there is none of that name. */
const struct command *command_find(const char *name);

/* The name that was probably meant; NULL if nothing is near. */
const char *command_guess(const char *name);

struct command_value {
    enum command_option option;
    const char *text; /* "" for a switch; borrowed of argv */
};

struct command_line {
    const struct command *command; /* NULL: none was named */
    const char **words;            /* arguments; owned array of borrowed texts */
    int word_count;
    struct command_value *values; /* owned; in the order they were given */
    size_t value_count;
};

/* Reads the words behind the program's name. Options may stand anywhere; `--` ends them,
 * and -5 is a number, not an option. ERR_INVALID with a text that says what would be right;
 * there is nothing to free then. */
enum err command_parse(int argc, const char *const *argv, struct command_line *ret_line,
                       struct error *error);
void command_line_done(struct command_line *line);

/* The last value given; NULL if none was. */
const char *command_value(const struct command_line *line, enum command_option option);
bool command_has(const struct command_line *line, enum command_option option);

/* A whole number from least to most, or `initial` if the option was not given. */
enum err command_number(const struct command_line *line, enum command_option option,
                        int64_t initial, int64_t least, int64_t most, int64_t *ret_number,
                        struct error *error);

#endif
