#include "cli/import.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "cli/import_redis.h"
#include "cli/import_state.h"
#include "cli/line.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/taking.h"

#define LINE_BYTES_MAX ((size_t)1 << 20)
#define READ_BYTES     ((size_t)1 << 20)
#define SAVE_EVERY_NS  500000000u
#define IDENTITY_BYTES 4096u /* of the beginning of a file tell it from another */

struct import {
    struct taking taking;
    int fd;
    const char *path;          /* NULL: standard input */
    char state_path[PATH_MAX]; /* "": none is kept */
    struct buffer input;       /* what was read and not taken yet */
    uint64_t offset;           /* of the next line */
    uint64_t line;             /* number of the last line taken */
    uint64_t source;           /* hash of the beginning */
    uint64_t size;             /* of the file; 0: not known */
    uint64_t saved_ns;
    bool has_end; /* the export's last line was there */
    struct progress progress;
    struct line parsed; /* large, so that it lives here */
};

/* --- state ------------------------------------------------------------------------ */

static enum err save(struct import *import, bool durable, struct error *error)
{
    const struct taking *taking = &import->taking;
    struct import_state state = {.source = import->source,
                                 .line = import->line,
                                 .offset = import->offset,
                                 .counters = taking->counters,
                                 .reactions = taking->reactions,
                                 .bad = taking->bad};
    memcpy(state.run, taking->run, sizeof(state.run));
    (void)snprintf(state.mode, sizeof(state.mode), "%s", taking->adds ? "add" : "set");
    return import_state_write(import->state_path, &state, durable, error);
}

/* Every now and then all that was sent is waited for, and the place written down. */
static enum err save_sometimes(struct import *import)
{
    uint64_t now = env_monotonic_ns(env_system());
    if (!import->state_path[0] || now - import->saved_ns < SAVE_EVERY_NS)
        return ERR_OK;
    enum err err = pipe_finish(&import->taking.pipe);
    if (!err)
        (void)save(import, false, NULL);
    import->saved_ns = now;
    return err;
}

static void go_on_from(struct import *import, const struct import_state *state)
{
    struct taking *taking = &import->taking;
    memcpy(taking->run, state->run, sizeof(taking->run));
    taking->counters = state->counters;
    taking->reactions = state->reactions;
    taking->bad = state->bad;
    import->line = state->line;
    import->offset = state->offset;
}

/* Is there an earlier run, and may it be gone on with? Returns an exit code. */
static int find_state(struct import *import, const struct command_line *line)
{
    struct import_state state;
    struct error error;
    taking_new_run(&import->taking);
    enum err err = import_state_read(import->state_path, &state, &error);
    if (err == ERR_NOT_FOUND || command_has(line, COMMAND_RESTART))
        return EXIT_FINE;
    if (err)
        return session_fail(EXIT_FILE, "%s", error.text);
    if (!command_has(line, COMMAND_RESUME))
        return session_fail(EXIT_USAGE,
                            "an earlier import of this stopped behind line %llu; go on with "
                            "--resume, or begin anew with --restart",
                            (unsigned long long)state.line);
    if (state.source != import->source || (strcmp(state.mode, "add") == 0) != import->taking.adds)
        return session_fail(EXIT_USAGE,
                            "the earlier import was of another file or in another mode; begin "
                            "anew with --restart");
    go_on_from(import, &state);
    if (lseek(import->fd, (off_t)state.offset, SEEK_SET) < 0)
        return session_fail(EXIT_FILE, "%s: %s", import->path, strerror(errno));
    session_remark(import->taking.session, "going on behind line %llu",
                   (unsigned long long)state.line);
    return EXIT_FINE;
}

/* --- reading ---------------------------------------------------------------------- */

static void place_of_line(void *arg, uint64_t number, char *to, size_t size)
{
    (void)arg;
    (void)snprintf(to, size, "line %llu", (unsigned long long)number);
}

static enum err take_line(struct import *import, struct slice text)
{
    struct error error;
    import->line++;
    if (text.size > 0 && text.data[text.size - 1] == '\r')
        text.size--;
    if (text.size == 0)
        return ERR_OK;
    if (line_parse(text, &import->parsed, &error)) {
        taking_refuse(&import->taking, import->line, error.text);
        return ERR_OK;
    }
    if (import->parsed.kind == LINE_END)
        import->has_end = true;
    enum err err = taking_line(&import->taking, import->line, &import->parsed);
    line_done(&import->parsed);
    return err;
}

/* Takes the whole lines of what was read. */
static enum err take_lines(struct import *import)
{
    struct buffer *input = &import->input;
    size_t taken = 0;
    enum err err = ERR_OK;
    while (!err) {
        const char *start = input->data + taken;
        const char *end = memchr(start, '\n', input->size - taken);
        if (!end)
            break;
        size_t size = (size_t)(end - start);
        err = take_line(import, (struct slice){start, size});
        taken += size + 1;
        import->offset += size + 1;
    }
    buffer_consume(input, taken);
    return err;
}

/* False at the end of the input, or when it cannot be read. */
static bool read_more(struct import *import, int *ret_code)
{
    struct buffer *input = &import->input;
    if (input->size >= LINE_BYTES_MAX || buffer_reserve(input, READ_BYTES)) {
        *ret_code = session_fail(EXIT_FILE, "line %llu is longer than %zu bytes: is this NDJSON?",
                                 (unsigned long long)import->line + 1, LINE_BYTES_MAX);
        return false;
    }
    ssize_t size;
    do
        size = read(import->fd, input->data + input->size, READ_BYTES);
    while (size < 0 && errno == EINTR);
    if (size < 0)
        *ret_code = session_fail(EXIT_FILE, "cannot read: %s", strerror(errno));
    if (size <= 0)
        return false;
    input->size += (size_t)size;
    return true;
}

static int take_all(struct import *import)
{
    int code = EXIT_FINE;
    enum err err = ERR_OK;
    while (!err && read_more(import, &code)) {
        err = take_lines(import);
        if (!err)
            err = save_sometimes(import);
        progress_set(&import->progress, import->offset, import->size);
    }
    /* The last line may lack its end. */
    if (!err && code == EXIT_FINE && import->input.size > 0) {
        import->offset += import->input.size;
        err = take_line(import, buffer_slice(&import->input));
    }
    if (!err && !import->taking.is_dry)
        err = pipe_finish(&import->taking.pipe);
    if (!err && import->taking.is_full)
        err = ERR_FULL;
    progress_end(&import->progress);
    return err ? taking_failed(&import->taking, err) : code;
}

/* --- opening ---------------------------------------------------------------------- */

static int open_file(struct import *import, const struct command_line *line)
{
    struct stat status;
    char start[IDENTITY_BYTES];
    import->fd = open(import->path, O_RDONLY | O_CLOEXEC);
    if (import->fd < 0)
        return session_fail(EXIT_FILE, "cannot read %s: %s", import->path, strerror(errno));
    if (fstat(import->fd, &status) != 0 || !S_ISREG(status.st_mode))
        return EXIT_FINE; /* a pipe with a name: there is no going back in it */
    import->size = (uint64_t)status.st_size;
    ssize_t size = pread(import->fd, start, sizeof(start), 0);
    /* Of 63 bits, so that JSON can hold it. */
    import->source = hash_stable((struct slice){start, size > 0 ? (size_t)size : 0}) >> 1;
    if (import->taking.is_dry)
        return EXIT_FINE;
    (void)snprintf(import->state_path, sizeof(import->state_path), "%s.resume", import->path);
    return find_state(import, line);
}

static int open_input(struct import *import, const struct command_line *line)
{
    bool resumes = command_has(line, COMMAND_RESUME) || command_has(line, COMMAND_RESTART);
    taking_new_run(&import->taking);
    if (import->path)
        return open_file(import, line);
    if (resumes)
        return session_fail(EXIT_USAGE, "only an import of a file can be gone on with");
    if (isatty(STDIN_FILENO))
        return session_fail(EXIT_USAGE, "import needs a FILE, something in a pipe, or --from");
    import->fd = STDIN_FILENO;
    return EXIT_FINE;
}

/* --- all of it -------------------------------------------------------------------- */

static void report(const struct import *import, double seconds)
{
    const struct taking *taking = &import->taking;
    double rate = seconds > 0 ? (double)(taking->counters + taking->reactions) / seconds : 0;
    if (taking->session->json) {
        print_json_line(json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "lines", (json_int_t)import->line, "counters",
            (json_int_t)taking->counters, "reactions", (json_int_t)taking->reactions, "changed",
            (json_int_t)taking->changed, "settings_kept", (json_int_t)taking->kept, "bad",
            (json_int_t)taking->bad, "complete", import->has_end));
        return;
    }
    (void)printf("%llu lines%s: %llu counters, %llu reactions of which %llu are new, %llu bad "
                 "(%.0f a second)\n",
                 (unsigned long long)import->line, taking->is_dry ? ", nothing was changed" : "",
                 (unsigned long long)taking->counters, (unsigned long long)taking->reactions,
                 (unsigned long long)taking->changed, (unsigned long long)taking->bad, rate);
    if (taking->kept > 0)
        session_remark(taking->session, "%llu were there already and kept their settings",
                       (unsigned long long)taking->kept);
    if (!import->has_end)
        session_remark(taking->session, "the line that ends an export is missing: was it cut off?");
}

static int run(struct import *import, const struct command_line *line)
{
    struct session *session = import->taking.session;
    struct error error;
    int code = open_input(import, line);
    if (code == EXIT_FINE && import->state_path[0] && save(import, true, &error))
        code = session_fail(EXIT_FILE, "%s", error.text);
    if (code != EXIT_FINE)
        return code;

    uint64_t started = env_monotonic_ns(env_system());
    progress_start(&import->progress, "import", "bytes", session->quiet);
    code = take_all(import);
    if (code != EXIT_FINE) {
        if (import->state_path[0])
            session_remark(session, "go on later with: tally import %s --resume", import->path);
        return code;
    }
    if (import->state_path[0])
        (void)unlink(import->state_path);
    report(import, (double)(env_monotonic_ns(env_system()) - started) / 1e9);
    return import->taking.bad > 0 ? EXIT_PARTIAL : EXIT_FINE;
}

static int read_mode(struct taking *taking, const struct command_line *line)
{
    const char *mode = command_value(line, COMMAND_MODE);
    taking->is_dry = command_has(line, COMMAND_DRY_RUN);
    if (mode && strcmp(mode, "set") != 0 && strcmp(mode, "add") != 0)
        return session_fail(EXIT_USAGE, "--mode is set or add, not '%s'", mode);
    taking->adds = mode && strcmp(mode, "add") == 0;
    return EXIT_FINE;
}

int import_run(struct session *session, const struct command_line *line)
{
    if (command_has(line, COMMAND_FROM))
        return import_redis(session, line);
    const enum command_option others[] = {COMMAND_PATTERN, COMMAND_LAYOUT, COMMAND_COUNTERS,
                                          COMMAND_SETS};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (command_has(line, others[i]))
            return session_fail(EXIT_USAGE, "--%s goes with --from",
                                command_options[others[i]].name);

    struct import *import = memory_take_zeroed(sizeof(*import));
    import->fd = -1;
    import->path = line->word_count > 0 && strcmp(line->words[0], "-") != 0 ? line->words[0] : NULL;
    buffer_init(&import->input, LINE_BYTES_MAX + 2 * READ_BYTES);
    int code = read_mode(&import->taking, line);
    if (code == EXIT_FINE)
        code = taking_open(&import->taking, session, place_of_line, NULL);
    if (code == EXIT_FINE) {
        code = run(import, line);
        taking_close(&import->taking);
    }
    if (import->path && import->fd >= 0)
        (void)close(import->fd);
    buffer_done(&import->input);
    free(import);
    return code;
}
