#include "cli/manual.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"

#define LINE_BYTES     1024u
#define LINE_WIDTH     70u
#define EACH_OPTION(i) for (unsigned i = 0; i < COMMAND_OPTION_COUNT; i++)

/* --- man(7) ------------------------------------------------------------------------- */

/* Text in which nothing is a command of roff. */
static void write_roff(FILE *to, const char *text)
{
    if (*text == '.' || *text == '\'')
        (void)fputs("\\&", to);
    for (; *text; text++) {
        if (*text == '\\')
            (void)fputs("\\e", to);
        else if (*text == '-')
            (void)fputs("\\-", to);
        else
            (void)fputc(*text, to);
    }
}

/* Lines that are broken between words, as roff wants its input. */
static void write_line(FILE *to, const char *text)
{
    char line[LINE_WIDTH + 1];
    while (*text) {
        size_t size = strlen(text);
        if (size > LINE_WIDTH) {
            size = LINE_WIDTH;
            while (size > 0 && text[size] != ' ')
                size--;
        }
        (void)snprintf(line, sizeof(line), "%.*s", (int)size, text);
        write_roff(to, line);
        (void)fputc('\n', to);
        text += size;
        text += strspn(text, " ");
    }
}

static void write_option(FILE *to, unsigned option)
{
    const struct command_option_row *row = &command_options[option];
    (void)fputs(".TP\n.B ", to);
    (void)fputs("\\-\\-", to);
    write_roff(to, row->name);
    if (row->value[0]) {
        (void)fputs(" \\fI", to);
        write_roff(to, row->value);
        (void)fputs("\\fR", to);
    }
    (void)fputc('\n', to);
    write_line(to, row->help);
}

static void write_command(FILE *to, const struct command *command)
{
    (void)fprintf(to, ".SS \"%s ", command->name);
    write_roff(to, command->arguments);
    (void)fputs("\"\n", to);
    char summary[LINE_BYTES];
    (void)snprintf(summary, sizeof(summary), "%c%s.", toupper((unsigned char)command->summary[0]),
                   command->summary + 1);
    write_line(to, summary);
    if (command->details[0])
        write_line(to, command->details);
    EACH_OPTION(i)
    if (command->options >> i & 1)
        write_option(to, i);
    (void)fputs(".PP\nExample:\n.B ", to);
    write_line(to, command->example);
}

static void write_files(FILE *to)
{
    (void)fputs(".SH ENVIRONMENT\n"
                ".TP\n.B TALLY_ADDRESS\nWhere the server is, as \\-\\-address.\n"
                ".TP\n.B TALLY_TOKEN\nThe password of the server.\n"
                ".TP\n.B REDISCLI_AUTH\nThe password of the Redis that import \\-\\-from reads.\n"
                ".TP\n.B NO_COLOR\nNo colours, if it is not empty.\n"
                ".SH FILES\n"
                ".TP\n.I ~/.config/tally/config\n"
                "Lines \"name value\": address, token, token\\-file, timeout, color. Below\n"
                ".B XDG_CONFIG_HOME\n"
                "if that is set. A flag is stronger than a variable, and a variable is stronger\n"
                "than the file. A file with a token has to be for its owner only.\n"
                ".TP\n.I ~/.local/state/tally/history\n"
                "What was typed in the interactive mode. Below\n"
                ".B XDG_STATE_HOME\n"
                "if that is set.\n",
                to);
}

void manual_write(FILE *to)
{
    (void)fputs(".TH TALLY 1 2026-01-01 \"tally " TALLY_VERSION "\" \"User Commands\"\n"
                ".SH NAME\ntally \\- talk to tallyd, the counter server\n"
                ".SH SYNOPSIS\n.B tally\n.I command arguments\n"
                "[\\fB\\-\\-option\\fR \\fIvalue\\fR]...\n.br\n.B tally\n"
                ".SH DESCRIPTION\n"
                "Counts things, likes things, and shows and proves what was counted.\n"
                "Without a command it asks for commands, with history and completion, or reads\n"
                "one from each line of its input.\n",
                to);
    for (size_t i = 0; i < command_count; i++) {
        if (commands[i].name) {
            write_command(to, &commands[i]);
            continue;
        }
        (void)fputs(".SH ", to);
        for (const char *at = commands[i].summary; *at; at++)
            (void)fputc(toupper((unsigned char)*at), to);
        (void)fputc('\n', to);
    }
    (void)fputs(".SH OPTIONS\n", to);
    EACH_OPTION(i)
    if ((COMMAND_COMMON | OPT(VERSION) | OPT(PRINT)) >> i & 1)
        write_option(to, i);
    write_files(to);
    (void)fputs(".SH EXIT STATUS\n", to);
#define X(name, code, meaning) (void)fprintf(to, ".TP\n.B %d\n%s\n", code, meaning);
    SESSION_EXITS(X)
#undef X
    (void)fputs(".SH SEE ALSO\n.BR tallyd (8),\n.BR redis\\-cli (1)\n", to);
}

/* The help of tallyd has headings at the margin, settings moved in by two blanks, and what
 * they mean by six; examples and the like are moved in and aligned. */
static void convert_line(FILE *to, const char *line)
{
    size_t indent = strspn(line, " ");
    const char *text = line + indent;
    if (!*text)
        return;
    if (indent == 2 && (strncmp(text, "--", 2) == 0 || strncmp(text, "TALLY_", 6) == 0)) {
        (void)fputs(".TP\n.B ", to);
        write_line(to, text);
    } else if (indent == 2) {
        const char *gap = strstr(text, "  ");
        if (!gap) {
            (void)fputs(".PP\n", to);
            write_line(to, text);
            return;
        }
        (void)fprintf(to, ".TP\n.B %.*s\n", (int)(gap - text), text);
        write_line(to, gap + strspn(gap, " "));
    } else {
        write_line(to, text);
    }
}

static void write_heading(FILE *to, const char *line)
{
    (void)fputs(".SH ", to);
    for (const char *at = line; *at; at++)
        (void)fputc(toupper((unsigned char)*at), to);
    (void)fputc('\n', to);
}

void manual_write_tallyd(FILE *from, FILE *to)
{
    (void)fputs(".TH TALLYD 8 2026-01-01 \"tally " TALLY_VERSION "\" \"System Administration\"\n"
                ".SH NAME\ntallyd \\- count likes, votes and views\n.SH SYNOPSIS\n.B tallyd\n"
                "[\\fB\\-\\-name\\fR \\fIvalue\\fR]...\n.SH DESCRIPTION\n",
                to);
    char line[LINE_BYTES];
    bool behind_blank = false;
    bool in_opening = true;
    while (fgets(line, sizeof(line), from)) {
        line[strcspn(line, "\r\n")] = 0;
        /* A short line at the margin behind an empty one is a heading. */
        bool is_heading =
            behind_blank && line[0] && line[0] != ' ' && strlen(line) < 60 && !strpbrk(line, ".\"");
        if (is_heading)
            write_heading(to, line);
        else if (!(in_opening && strncmp(line, "  tallyd ", 9) == 0))
            convert_line(to, line);
        in_opening = in_opening && !is_heading;
        behind_blank = line[0] == 0;
    }
    (void)fputs(".SH SEE ALSO\n.BR tally (1)\n", to);
}

/* --- bash --------------------------------------------------------------------------- */

static void write_option_names(FILE *to, uint64_t options)
{
    const char *between = "";
    EACH_OPTION(i)
    if (options >> i & 1) {
        (void)fprintf(to, "%s--%s", between, command_options[i].name);
        between = " ";
    }
}

/* Values of an option that are a choice of words: set|add. */
static void write_choices(FILE *to, const char *value)
{
    for (; *value; value++)
        (void)fputc(*value == '|' ? ' ' : *value, to);
}

static void write_bash_values(FILE *to)
{
    (void)fputs("    case $prev in\n", to);
    EACH_OPTION(i)
    {
        const struct command_option_row *row = &command_options[i];
        if (strcmp(row->value, "FILE") == 0) {
            (void)fprintf(to, "    --%s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
                          row->name);
        } else if (strchr(row->value, '|')) {
            (void)fprintf(to, "    --%s) COMPREPLY=($(compgen -W '", row->name);
            write_choices(to, row->value);
            (void)fputs("' -- \"$cur\")); return ;;\n", to);
        } else if (row->value[0]) {
            (void)fprintf(to, "    --%s) return ;;\n", row->name);
        }
    }
    (void)fputs("    esac\n", to);
}

void manual_write_bash(FILE *to)
{
    (void)fputs("# Completion of tally for bash; made by: tally --print bash\n"
                "_tally() {\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                "    local command= word\n"
                "    COMPREPLY=()\n",
                to);
    write_bash_values(to);
    (void)fputs("    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
                "        case $word in\n"
                "        -*) ;;\n"
                "        ",
                to);
    const char *between = "";
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].name) {
            (void)fprintf(to, "%s%s", between, commands[i].name);
            between = "|";
        }
    (void)fputs(") command=$word; break ;;\n"
                "        esac\n"
                "    done\n"
                "    case $command in\n",
                to);
    for (size_t i = 0; i < command_count; i++) {
        if (!commands[i].name)
            continue;
        (void)fprintf(to, "    %s) word='", commands[i].name);
        write_option_names(to, COMMAND_COMMON | commands[i].options);
        (void)fputs("' ;;\n", to);
    }
    (void)fputs("    *) word='", to);
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].name)
            (void)fprintf(to, "%s ", commands[i].name);
    write_option_names(to, COMMAND_COMMON | OPT(VERSION) | OPT(PRINT));
    (void)fputs("' ;;\n"
                "    esac\n"
                "    COMPREPLY=($(compgen -W \"$word\" -- \"$cur\"))\n"
                "    case $command in\n"
                "    import|export) [[ $cur == -* ]] || COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
                "    esac\n"
                "}\n"
                "complete -o default -F _tally tally\n",
                to);
}

/* --- zsh ---------------------------------------------------------------------------- */

/* Inside of '...', with what _arguments takes for its own escaped. */
static void write_zsh(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", to);
        else if (strchr("[]:\\", *text))
            (void)fprintf(to, "\\%c", *text);
        else
            (void)fputc(*text, to);
    }
}

static void write_zsh_option(FILE *to, unsigned option)
{
    const struct command_option_row *row = &command_options[option];
    (void)fprintf(to, " \\\n            '--%s[", row->name);
    write_zsh(to, row->help);
    (void)fputc(']', to);
    if (strchr(row->value, '|')) {
        (void)fputs(":value:(", to);
        write_choices(to, row->value);
        (void)fputc(')', to);
    } else if (row->value[0]) {
        (void)fputc(':', to);
        write_zsh(to, row->value);
        (void)fputs(strcmp(row->value, "FILE") == 0 ? ":_files" : ": ", to);
    }
    (void)fputc('\'', to);
}

void manual_write_zsh(FILE *to)
{
    (void)fputs("#compdef tally\n"
                "# Completion of tally for zsh; made by: tally --print zsh\n"
                "_tally() {\n"
                "    local -a commands\n"
                "    commands=(\n",
                to);
    for (size_t i = 0; i < command_count; i++) {
        if (!commands[i].name)
            continue;
        (void)fprintf(to, "        '%s:", commands[i].name);
        write_zsh(to, commands[i].summary);
        (void)fputs("'\n", to);
    }
    (void)fputs("    )\n"
                "    if (( CURRENT == 2 )); then\n"
                "        _describe command commands\n"
                "        return\n"
                "    fi\n"
                "    case $words[2] in\n",
                to);
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        if (!command->name)
            continue;
        (void)fprintf(to, "    %s)\n        _arguments", command->name);
        EACH_OPTION(j)
        if ((COMMAND_COMMON | command->options) >> j & 1)
            write_zsh_option(to, j);
        (void)fputs(strstr(command->arguments, "FILE") ? " \\\n            '*:file:_files' ;;\n"
                                                       : " \\\n            '*: : ' ;;\n",
                    to);
    }
    (void)fputs("    esac\n"
                "}\n"
                "_tally \"$@\"\n",
                to);
}
