#include "cli/help.h"

#include <stdint.h>
#include <string.h>

#include "cli/manual.h"
#include "cli/session.h"

#define LINE_WIDTH 80u
#define BOLD       "\033[1m"
#define PLAIN      "\033[0m"

static const char opening[] =
    "tally " TALLY_VERSION " talks to tallyd, the counter server.\n"
    "\n"
    "  tally COMMAND ARGUMENTS [--OPTION VALUE]...   do one thing\n"
    "  tally                                         ask for commands: history, completion\n"
    "  tally < FILE                                  a command in each line\n";

static const char places[] =
    "The address comes from --address, TALLY_ADDRESS, or a line \"address HOST:PORT\" of\n"
    "~/.config/tally/config; the first of them that is there wins. A password comes from\n"
    "--token-file, TALLY_TOKEN, or a line \"token-file FILE\" or \"token SECRET\" of that\n"
    "file, never from the command line, which every user of the machine can read.\n"
    "Colours are for terminals, and not with NO_COLOR.\n";

static void print_heading(const char *text, bool colours)
{
    (void)printf("\n%s%s%s\n", colours ? BOLD : "", text, colours ? PLAIN : "");
}

/* The text, broken between words, each line moved in. */
static void print_wrapped(const char *text, unsigned indent)
{
    while (*text) {
        size_t room = LINE_WIDTH - indent;
        size_t size = strlen(text);
        if (size > room) {
            size = room;
            while (size > 0 && text[size] != ' ')
                size--;
        }
        (void)printf("%*s%.*s\n", (int)indent, "", (int)size, text);
        text += size;
        text += strspn(text, " ");
    }
}

static void print_option(enum command_option option)
{
    const struct command_option_row *row = &command_options[option];
    (void)printf("  --%s%s%s\n", row->name, row->value[0] ? " " : "", row->value);
    print_wrapped(row->help, 6);
}

void help_print(bool colours)
{
    (void)fputs(opening, stdout);
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        if (!command->name) {
            print_heading(command->summary, colours);
            continue;
        }
        char usage[96];
        (void)snprintf(usage, sizeof(usage), "%s %s", command->name, command->arguments);
        if (strlen(usage) < 28)
            (void)printf("  %-28s%s\n", usage, command->summary);
        else
            (void)printf("  %s\n  %-28s%s\n", usage, "", command->summary);
    }
    print_heading("Options of all commands", colours);
    for (unsigned i = 0; i < COMMAND_OPTION_COUNT; i++)
        if ((COMMAND_COMMON | OPT(VERSION)) >> i & 1)
            print_option((enum command_option)i);
    print_heading("Where the server is", colours);
    (void)fputs(places, stdout);
    print_heading("Exit codes", colours);
#define X(name, code, meaning) (void)printf("  %-5d%s\n", code, meaning);
    SESSION_EXITS(X)
#undef X
    (void)fputs("\ntally help COMMAND explains one of them, with an example.\n", stdout);
}

void help_print_command(const struct command *command, bool colours)
{
    (void)printf("tally %s %s%s\n\n", command->name, command->arguments,
                 command->options ? " [--OPTION VALUE]..." : "");
    print_wrapped(command->summary, 2);
    if (command->details[0]) {
        (void)fputc('\n', stdout);
        print_wrapped(command->details, 2);
    }
    if (command->options)
        print_heading("Options", colours);
    for (unsigned i = 0; i < COMMAND_OPTION_COUNT; i++)
        if (command->options >> i & 1)
            print_option((enum command_option)i);
    print_heading("Options of all commands", colours);
    for (unsigned i = 0; i < COMMAND_OPTION_COUNT; i++)
        if ((uint64_t)COMMAND_COMMON >> i & 1)
            (void)printf("  --%s%s%s", command_options[i].name,
                         command_options[i].value[0] ? " " : "", command_options[i].value);
    (void)fputc('\n', stdout);
    print_heading("Example", colours);
    (void)printf("  %s\n", command->example);
}

bool help_generate(const char *what, FILE *from, FILE *to)
{
    if (strcmp(what, "man") == 0)
        manual_write(to);
    else if (strcmp(what, "man-tallyd") == 0)
        manual_write_tallyd(from, to);
    else if (strcmp(what, "bash") == 0)
        manual_write_bash(to);
    else if (strcmp(what, "zsh") == 0)
        manual_write_zsh(to);
    else
        return false;
    return true;
}
