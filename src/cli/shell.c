#include "cli/shell.h"

#include <assert.h>
#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/folders.h"
#include "cli/help.h"
#include "cli/parse.h"

#define HISTORY_LINES 1000

/* What the command line of the program said; holds for each command that is typed. */
static const struct command_line *outer;

/* --- one line --------------------------------------------------------------------- */

int shell_run_line(struct session *session, int argc, const char *const *argv)
{
    struct command_line line;
    struct error error;
    if (command_parse(argc, argv, &line, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    int code = session_configure(session, &line);
    if (code != EXIT_FINE) {
        command_line_done(&line);
        return code;
    }
    if (command_has(&line, COMMAND_HELP) && line.command)
        help_print_command(line.command, session->colours);
    else if (command_has(&line, COMMAND_HELP))
        help_print(session->colours);
    else if (line.command)
        code = line.command->run(session, &line);
    command_line_done(&line);
    if (fflush(stdout) != 0 || ferror(stdout))
        code = session_cannot_write("the output");
    return code;
}

/* The options of the outer line go in front: a later one is stronger. */
static int run_words(struct session *session, const struct parse_words *words)
{
    size_t room = outer->value_count + (size_t)words->count;
    const char **argv = memory_take((room + 1) * sizeof(*argv));
    char **owned = memory_take_zeroed((outer->value_count + 1) * sizeof(*owned));
    int argc = 0;
    for (size_t i = 0; i < outer->value_count; i++) {
        const struct command_option_row *row = &command_options[outer->values[i].option];
        bool has_value = row->value[0] != 0;
        size_t size = strlen(row->name) + strlen(outer->values[i].text) + 4;
        owned[i] = memory_take(size);
        (void)snprintf(owned[i], size, "--%s%s%s", row->name, has_value ? "=" : "",
                       outer->values[i].text);
        argv[argc++] = owned[i];
    }
    for (int i = 0; i < words->count; i++)
        argv[argc++] = words->words[i];
    int code = shell_run_line(session, argc, argv);
    for (size_t i = 0; i < outer->value_count; i++)
        free(owned[i]);
    free(owned);
    free(argv);
    return code;
}

/* False: the person wants to leave. */
static bool run_text(struct session *session, const char *text, int *ret_code)
{
    struct parse_words words;
    struct error error;
    *ret_code = EXIT_FINE;
    if (text[strspn(text, " \t")] == '#')
        return true;
    if (parse_words(text, &words, &error)) {
        *ret_code = session_fail(EXIT_USAGE, "%s", error.text);
        return true;
    }
    bool goes_on = true;
    /* Out of habit some people begin with the program's name. */
    if (words.count > 1 && strcmp(words.words[0], "tally") == 0) {
        free(words.words[0]);
        memmove(words.words, words.words + 1, (size_t)words.count * sizeof(*words.words));
        words.count--;
    }
    if (words.count == 1 &&
        (strcmp(words.words[0], "exit") == 0 || strcmp(words.words[0], "quit") == 0))
        goes_on = false;
    else if (words.count > 0)
        *ret_code = run_words(session, &words);
    parse_words_done(&words);
    return goes_on;
}

/* --- from a pipe ------------------------------------------------------------------ */

static int run_script(struct session *session)
{
    char *line = NULL;
    size_t room = 0;
    int first = EXIT_FINE;
    while (getline(&line, &room, stdin) > 0) {
        int code;
        line[strcspn(line, "\r\n")] = 0;
        bool goes_on = run_text(session, line, &code);
        if (first == EXIT_FINE)
            first = code;
        if (!goes_on || code == EXIT_UNREACHABLE)
            break;
    }
    free(line);
    return first;
}

/* --- in a terminal ---------------------------------------------------------------- */

static char *prompt(EditLine *edit)
{
    (void)edit;
    static char text[] = "tally> ";
    return text;
}

struct completion {
    struct slice word;
    const char *found[128];
    size_t count;
    bool of_options;
};

/* Keeps `name` if it begins as the word does. */
static void consider(struct completion *completion, const char *name)
{
    struct slice word = completion->word;
    if (completion->of_options) {
        if (word.size < 2)
            word.size = 2;
        word = (struct slice){word.data + 2, word.size - 2};
    }
    if (completion->count < sizeof(completion->found) / sizeof(completion->found[0]) &&
        strlen(name) >= word.size && memcmp(name, word.data, word.size) == 0)
        completion->found[completion->count++] = name;
}

static void find_completions(struct completion *completion, const struct command *command,
                             bool behind_help)
{
    if (completion->of_options) {
        uint64_t options = COMMAND_COMMON | (command ? command->options : 0);
        for (unsigned i = 0; i < COMMAND_OPTION_COUNT; i++)
            if (options >> i & 1)
                consider(completion, command_options[i].name);
    } else if (!command || behind_help) {
        for (size_t i = 0; i < command_count; i++)
            if (commands[i].name)
                consider(completion, commands[i].name);
        if (!command)
            consider(completion, "exit");
    }
}

/* How much of the names is the same. */
static size_t common_size(const struct completion *completion)
{
    size_t size = strlen(completion->found[0]);
    for (size_t i = 1; i < completion->count; i++)
        for (size_t j = 0; j < size; j++)
            if (completion->found[0][j] != completion->found[i][j])
                size = j;
    return size;
}

static void show_completions(const struct completion *completion)
{
    (void)fputc('\n', stdout);
    for (size_t i = 0; i < completion->count; i++)
        (void)printf("%s%s%s", i > 0 ? "  " : "", completion->of_options ? "--" : "",
                     completion->found[i]);
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
}

static const struct command *command_before(const char *line, const char *word)
{
    char name[32];
    size_t start = strspn(line, " \t");
    size_t size = strcspn(line + start, " \t");
    if (line + start + size >= word || size >= sizeof(name))
        return NULL;
    (void)snprintf(name, sizeof(name), "%.*s", (int)size, line + start);
    return command_find(name);
}

/* Tab. */
static unsigned char complete(EditLine *edit, int key)
{
    (void)key;
    const LineInfo *info = el_line(edit);
    char line[1024];
    size_t size = (size_t)(info->cursor - info->buffer);
    if (size >= sizeof(line))
        return CC_ERROR;
    memcpy(line, info->buffer, size);
    line[size] = 0;
    const char *blank = memrchr(line, ' ', size);
    const char *word = blank ? blank + 1 : line;

    struct completion completion = {.word = slice_of(word), .of_options = word[0] == '-'};
    if (completion.of_options && (word[1] == 0)) {
        if (el_insertstr(edit, "-") != 0)
            return CC_ERROR;
        return CC_REFRESH;
    }
    const struct command *command = command_before(line, word);
    find_completions(&completion, command, command && strcmp(command->name, "help") == 0);
    if (completion.count == 0)
        return CC_ERROR;

    char added[64];
    size_t typed = completion.word.size - (completion.of_options ? 2 : 0);
    size_t common = common_size(&completion);
    (void)snprintf(added, sizeof(added), "%.*s%s", (int)(common - typed),
                   completion.found[0] + typed, completion.count == 1 ? " " : "");
    if (added[0] == 0) {
        show_completions(&completion);
        return CC_REDISPLAY;
    }
    return el_insertstr(edit, added) == 0 ? CC_REFRESH : CC_ERROR;
}

static EditLine *edit_new(History *past)
{
    EditLine *edit = el_init("tally", stdin, stdout, stderr);
    if (!edit)
        return NULL;
    (void)el_set(edit, EL_PROMPT, prompt);
    (void)el_set(edit, EL_EDITOR, "emacs");
    (void)el_set(edit, EL_SIGNAL, 1);
    (void)el_set(edit, EL_HIST, history, past);
    (void)el_set(edit, EL_ADDFN, "tally-complete", "complete commands and options", complete);
    (void)el_set(edit, EL_BIND, "^I", "tally-complete", NULL);
    (void)el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    return edit;
}

/* Ctrl-C gives up the line and not the program. */
static void interrupted(int number)
{
    (void)number;
}

static void read_lines(struct session *session, EditLine *edit, History *past)
{
    HistEvent event;
    bool goes_on = true;
    while (goes_on) {
        int size = 0;
        errno = 0;
        const char *typed = el_gets(edit, &size);
        if (!typed && errno == EINTR) {
            (void)fputc('\n', stdout);
            el_reset(edit);
            continue;
        }
        if (!typed || size <= 0) {
            (void)fputc('\n', stdout); /* behind the ^D */
            break;
        }
        char *text = memory_take((size_t)size + 1);
        memcpy(text, typed, (size_t)size);
        text[size] = 0;
        text[strcspn(text, "\r\n")] = 0;
        if (text[strspn(text, " \t")]) {
            int code;
            (void)history(past, &event, H_ENTER, text);
            goes_on = run_text(session, text, &code);
        }
        free(text);
    }
}

static int run_terminal(struct session *session)
{
    History *past = history_init();
    EditLine *edit = past ? edit_new(past) : NULL;
    if (!edit)
        return session_fail(EXIT_FILE, "this terminal cannot be used to edit lines");
    HistEvent event;
    char path[PATH_MAX];
    bool is_kept = folders_state("history", path, sizeof(path));
    (void)history(past, &event, H_SETSIZE, HISTORY_LINES);
    (void)history(past, &event, H_SETUNIQUE, 1);
    if (is_kept)
        (void)history(past, &event, H_LOAD, path);

    struct sigaction action = {.sa_handler = interrupted};
    (void)sigaction(SIGINT, &action, NULL);
    (void)puts("tally " TALLY_VERSION ": help explains, Tab completes, exit or Ctrl-D leaves");
    read_lines(session, edit, past);

    if (is_kept) {
        mode_t before = umask(077);
        (void)history(past, &event, H_SAVE, path);
        (void)umask(before);
    }
    el_end(edit);
    history_end(past);
    return EXIT_FINE;
}

int shell_run(struct session *session, const struct command_line *line)
{
    assert(session && line);

    outer = line;
    session->is_interactive = isatty(STDIN_FILENO);
    return session->is_interactive ? run_terminal(session) : run_script(session);
}
