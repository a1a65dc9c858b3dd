#include "cli/import_state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

enum err import_state_read(const char *path, struct import_state *ret_state, struct error *error)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(error, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
                               "cannot open %s", path);
    json_error_t reason;
    json_t *root = json_loadf(file, 0, &reason);
    (void)fclose(file);
    const char *run;
    const char *mode;
    const char *after;
    json_int_t source;
    json_int_t line;
    json_int_t offset;
    json_int_t counters;
    json_int_t reactions;
    json_int_t bad;
    enum err err = ERR_OK;
    if (!root ||
        json_unpack(root, "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "run", &run, "mode",
                    &mode, "source", &source, "line", &line, "offset", &offset, "counters",
                    &counters, "reactions", &reactions, "bad", &bad, "after", &after) != 0) {
        err = error_set(error, ERR_INVALID, "%s is no state of an import", path);
    } else {
        *ret_state = (struct import_state){.source = (uint64_t)source,
                                           .line = (uint64_t)line,
                                           .offset = (uint64_t)offset,
                                           .counters = (uint64_t)counters,
                                           .reactions = (uint64_t)reactions,
                                           .bad = (uint64_t)bad};
        (void)snprintf(ret_state->run, sizeof(ret_state->run), "%s", run);
        (void)snprintf(ret_state->mode, sizeof(ret_state->mode), "%s", mode);
        (void)snprintf(ret_state->after, sizeof(ret_state->after), "%s", after);
    }
    json_decref(root);
    return err;
}

static void write_text(FILE *file, const struct import_state *state)
{
    json_t *after = json_string(state->after);
    char *text = after ? json_dumps(after, JSON_ENCODE_ANY) : NULL;
    (void)fprintf(file,
                  "{\"run\":\"%s\",\"mode\":\"%s\",\"source\":%lld,\"line\":%llu,\"offset\":%llu,"
                  "\"counters\":%llu,\"reactions\":%llu,\"bad\":%llu,\"after\":%s}\n",
                  state->run, state->mode, (long long)state->source,
                  (unsigned long long)state->line, (unsigned long long)state->offset,
                  (unsigned long long)state->counters, (unsigned long long)state->reactions,
                  (unsigned long long)state->bad, text ? text : "\"\"");
    free(text);
    json_decref(after);
}

enum err import_state_write(const char *path, const struct import_state *state, bool durable,
                            struct error *error)
{
    char next[PATH_MAX];
    (void)snprintf(next, sizeof(next), "%s.new", path);
    FILE *file = fopen(next, "we");
    if (!file)
        return error_set_errno(error, ERR_IO, errno, "cannot write %s", next);
    write_text(file, state);
    bool is_fine = fflush(file) == 0 && (!durable || fdatasync(fileno(file)) == 0);
    is_fine = fclose(file) == 0 && is_fine;
    if (!is_fine || rename(next, path) != 0)
        return error_set_errno(error, ERR_IO, errno, "cannot write %s", path);
    return ERR_OK;
}
