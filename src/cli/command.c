#include "cli/command.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "base/near.h"
#include "cli/bench.h"
#include "cli/export.h"
#include "cli/import.h"
#include "cli/verbs.h"
#include "cli/watch.h"

#define GROUP(heading) {.name = NULL, .summary = heading},
#define COMMAND(word, function, few, many, opts, args, what, more, shown) \
    {.name = word,                                                        \
     .run = function,                                                     \
     .least = few,                                                        \
     .most = many,                                                        \
     .options = opts,                                                     \
     .arguments = args,                                                   \
     .summary = what,                                                     \
     .details = more,                                                     \
     .example = shown},
const struct command commands[] = {
#include "cli/commands.def"
};
const size_t command_count = sizeof(commands) / sizeof(commands[0]);

const struct command_option_row command_options[COMMAND_OPTION_COUNT] = {
#define OPTION(id, word, noun, text) {.name = word, .value = noun, .help = text},
#include "cli/commands.def"
};

/* --- names -------------------------------------------------------------------- */

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].name && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

const char *command_guess(const char *name)
{
    struct near near = {.given = slice_of(name), .limit = 3};
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].name)
            near_offer(&near, commands[i].name);
    return near.name;
}

/* --- reading a line ------------------------------------------------------------- */

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != 0 && !isdigit((unsigned char)word[1]);
}

/* Letters that everybody expects. */
static const char *long_name(const char *word)
{
    if (strcmp(word, "-h") == 0)
        return "--help";
    if (strcmp(word, "-V") == 0)
        return "--version";
    if (strcmp(word, "-q") == 0)
        return "--quiet";
    return word;
}

static enum err find_option(const char *word, size_t size, enum command_option *ret_option,
                            struct error *error)
{
    for (size_t i = 0; i < COMMAND_OPTION_COUNT; i++) {
        const char *name = command_options[i].name;
        if (strlen(name) == size && memcmp(name, word, size) == 0) {
            *ret_option = (enum command_option)i;
            return ERR_OK;
        }
    }
    return error_set(error, ERR_INVALID, "there is no option --%.*s; try: tally --help",
                     (int)(size > 60 ? 60 : size), word);
}

/* Takes the option at argv[*at] and its value, which may be the next word. */
static enum err take_option(int argc, const char *const *argv, int *at, struct command_line *line,
                            struct error *error)
{
    const char *word = long_name(argv[*at]);
    if (word[1] != '-')
        return error_set(error, ERR_INVALID, "there is no option %.60s; options have two dashes",
                         word);
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t size = equals ? (size_t)(equals - name) : strlen(name);

    struct command_value value = {.text = ""};
    enum err err = find_option(name, size, &value.option, error);
    if (err)
        return err;
    const struct command_option_row *row = &command_options[value.option];
    if (!row->value[0] && equals)
        return error_set(error, ERR_INVALID, "--%s takes no value", row->name);
    if (row->value[0]) {
        if (!equals && *at + 1 >= argc)
            return error_set(error, ERR_INVALID, "--%s needs a value: --%s %s", row->name,
                             row->name, row->value);
        value.text = equals ? equals + 1 : argv[++*at];
    }
    line->values[line->value_count++] = value;
    return ERR_OK;
}

static enum err check_words(const struct command_line *line, struct error *error)
{
    const struct command *command = line->command;
    if (line->word_count < command->least)
        return error_set(error, ERR_INVALID, "%s needs more: tally %s %s", command->name,
                         command->name, command->arguments);
    if (line->word_count > command->most)
        return error_set(error, ERR_INVALID, "%s takes no '%.60s': tally %s %s", command->name,
                         line->words[command->most], command->name, command->arguments);
    return ERR_OK;
}

static enum err check_options(const struct command_line *line, struct error *error)
{
    uint64_t allowed = COMMAND_COMMON | OPT(VERSION) | OPT(PRINT);
    if (line->command)
        allowed = COMMAND_COMMON | line->command->options;
    for (size_t i = 0; i < line->value_count; i++) {
        enum command_option option = line->values[i].option;
        if (!(allowed >> option & 1))
            return error_set(error, ERR_INVALID, "%s has no option --%s; try: tally %s --help",
                             line->command ? line->command->name : "tally",
                             command_options[option].name,
                             line->command ? line->command->name : "");
    }
    return ERR_OK;
}

static enum err take_command(const char *word, struct command_line *line, struct error *error)
{
    line->command = command_find(word);
    if (line->command)
        return ERR_OK;
    const char *guess = command_guess(word);
    if (guess)
        return error_set(error, ERR_INVALID, "there is no command '%.60s'; did you mean %s?", word,
                         guess);
    return error_set(error, ERR_INVALID, "there is no command '%.60s'; try: tally help", word);
}

static enum err read_words(int argc, const char *const *argv, struct command_line *line,
                           struct error *error)
{
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        enum err err = ERR_OK;
        /* What is sent as it is may look like anything. */
        bool is_raw = line->command && strcmp(line->command->name, "raw") == 0;
        if (!only_words && !(is_raw && line->word_count > 0) && strcmp(argv[i], "--") == 0)
            only_words = true;
        else if (!only_words && !(is_raw && line->word_count > 0) && is_option(argv[i]))
            err = take_option(argc, argv, &i, line, error);
        else if (!line->command)
            err = take_command(argv[i], line, error);
        else
            line->words[line->word_count++] = argv[i];
        if (err)
            return err;
    }
    return ERR_OK;
}

enum err command_parse(int argc, const char *const *argv, struct command_line *ret_line,
                       struct error *error)
{
    assert(argc >= 0);

    size_t room = (size_t)argc + 1;
    struct command_line line = {.words = memory_take(room * sizeof(*line.words)),
                                .values = memory_take(room * sizeof(*line.values))};
    enum err err = read_words(argc, argv, &line, error);
    if (!err)
        err = check_options(&line, error);
    if (!err && line.command && !command_has(&line, COMMAND_HELP))
        err = check_words(&line, error);
    if (err)
        command_line_done(&line);
    else
        *ret_line = line;
    return err;
}

void command_line_done(struct command_line *line)
{
    free(line->words);
    free(line->values);
    *line = (struct command_line){0};
}

/* --- values --------------------------------------------------------------------- */

const char *command_value(const struct command_line *line, enum command_option option)
{
    const char *text = NULL;
    for (size_t i = 0; i < line->value_count; i++)
        if (line->values[i].option == option)
            text = line->values[i].text;
    return text;
}

bool command_has(const struct command_line *line, enum command_option option)
{
    return command_value(line, option) != NULL;
}

enum err command_number(const struct command_line *line, enum command_option option,
                        int64_t initial, int64_t least, int64_t most, int64_t *ret_number,
                        struct error *error)
{
    const char *text = command_value(line, option);
    int64_t number = initial;
    if (text && (!decimal_parse(slice_of(text), &number) || number < least || number > most))
        return error_set(error, ERR_INVALID,
                         "--%s is a whole number from %lld to %lld, not '%.60s'",
                         command_options[option].name, (long long)least, (long long)most, text);
    *ret_number = number;
    return ERR_OK;
}
