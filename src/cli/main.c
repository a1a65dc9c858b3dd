/* main.c - tally: one command, or many typed one after the other. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>

#include "cli/help.h"
#include "cli/shell.h"

static int generate(const char *what)
{
    if (help_generate(what, stdin, stdout))
        return EXIT_FINE;
    return session_fail(EXIT_USAGE, "--print makes man, man-tallyd, bash and zsh, not '%s'", what);
}

/* Without a command: what the options ask for, or the interactive mode. */
static int run_bare(struct session *session, const struct command_line *line)
{
    if (command_has(line, COMMAND_PRINT))
        return generate(command_value(line, COMMAND_PRINT));
    if (command_has(line, COMMAND_VERSION)) {
        (void)puts("tally " TALLY_VERSION);
        return EXIT_FINE;
    }
    int code = session_configure(session, line);
    if (code != EXIT_FINE)
        return code;
    if (command_has(line, COMMAND_HELP)) {
        help_print(session->colours);
        return EXIT_FINE;
    }
    return shell_run(session, line);
}

int main(int argc, char **argv)
{
    const char *const *words = (const char *const *)argv + 1;
    (void)setlocale(LC_CTYPE, "");
    /* A server that goes away while we write to it is an error like any other. */
    (void)signal(SIGPIPE, SIG_IGN);

    struct command_line line;
    struct error error;
    if (command_parse(argc - 1, words, &line, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    struct session session;
    session_init(&session);
    int code = line.command ? shell_run_line(&session, argc - 1, words) : run_bare(&session, &line);
    session_done(&session);
    command_line_done(&line);
    return code;
}
