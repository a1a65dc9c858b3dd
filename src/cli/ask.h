/* ask.h - a command to the server, word by word. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "cli/command.h"
#include "cli/session.h"

#define ASK_WORDS_MAX 24u

struct ask {
    struct slice words[ASK_WORDS_MAX]; /* borrowed */
    size_t count;
};

void ask_begin(struct ask *ask, const char *command);
void ask_add(struct ask *ask, const char *word);

/* `word` and the option's value, if it was given. */
void ask_add_option(struct ask *ask, const struct command_line *line, const char *word,
                    enum command_option option);

/* ID and REGION, which stand behind all else. */
void ask_add_write_options(struct ask *ask, const struct command_line *line);

/* As session_send(). */
redisReply *ask_send(struct session *session, const struct ask *ask, int *ret_code);

/* Asks the person in front of the terminal whether to `what`; without a terminal --yes has to
 * stand there. Says why when the answer is no. */
bool ask_is_sure(const struct command_line *line, const char *what);

#endif
