#include "cli/ask.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ask_begin(struct ask *ask, const char *command)
{
    *ask = (struct ask){.count = 0};
    ask_add(ask, command);
}

void ask_add(struct ask *ask, const char *word)
{
    assert(ask->count < ASK_WORDS_MAX);
    ask->words[ask->count++] = slice_of(word);
}

void ask_add_option(struct ask *ask, const struct command_line *line, const char *word,
                    enum command_option option)
{
    const char *value = command_value(line, option);
    if (!value)
        return;
    ask_add(ask, word);
    ask_add(ask, value);
}

void ask_add_write_options(struct ask *ask, const struct command_line *line)
{
    ask_add_option(ask, line, "ID", COMMAND_KEY);
    ask_add_option(ask, line, "REGION", COMMAND_REGION);
}

redisReply *ask_send(struct session *session, const struct ask *ask, int *ret_code)
{
    return session_send(session, ask->words, ask->count, ret_code);
}

bool ask_is_sure(const struct command_line *line, const char *what)
{
    if (command_has(line, COMMAND_YES))
        return true;
    if (!isatty(STDIN_FILENO)) {
        (void)session_fail(EXIT_USAGE, "to %s without being asked, add --yes", what);
        return false;
    }
    char answer[16] = "";
    (void)fprintf(stderr, "%s: are you sure? [y/N] ", what);
    if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return true;
    (void)session_fail(EXIT_USAGE, "nothing was done");
    return false;
}
