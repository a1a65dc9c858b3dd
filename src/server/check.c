#include "server/check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/state.h"
#include "flow/recovery.h"
#include "log/file/file.h"
#include "server/server_own.h"
#include "store/sqlite/sqlite.h"

#define SEGMENT_BYTES (1u << 20) /* of a log that is only read: any that is valid */

static const char store_advice[] =
    "--repair leaves the store as it is: move it away, with its -wal and -shm, and the next start "
    "makes it anew from the log";

struct check {
    struct env *env;
    const struct config *config;
    const char *folder;
    check_say_fn *say;
    void *arg;
    char store[VALUE_TEXT_MAX + sizeof("/tally.db")];
};

static struct check check_of(struct env *env, const struct config *config, const char *folder,
                             check_say_fn *say, void *arg)
{
    return (struct check){.env = env, .config = config, .folder = folder, .say = say, .arg = arg};
}

static enum err note_damage(const struct check *check, const struct error *found,
                            struct error *error)
{
    char line[sizeof(found->text) + 16];
    (void)snprintf(line, sizeof(line), "damage: %s", found->text);
    check->say(check->arg, line);
    return error_set(error, ERR_CORRUPT, "%s", found->text);
}

/* --- do they fit each other? --- */

static void never(void *arg, const struct error *error)
{
    (void)arg;
    (void)error;
    abort(); /* nothing is written */
}

/* `mark`: of the store; NULL: there is none, nor will there be. */
static enum err check_fit(const struct check *check, const struct state_mark *mark,
                          struct error *error)
{
    struct file_log_options options = {
        .folder = check->folder,
        .segment_bytes = SEGMENT_BYTES,
        .pending_bytes_max = SEGMENT_BYTES,
        .manual = true,
        .fatal = never,
    };
    struct log *log;
    enum err err = file_log_open(check->env, &options, &log, error);
    if (err)
        return err;
    struct error found = {.text = ""};
    err = recovery_check(log, mark, &found);
    log_close(log);
    return err ? note_damage(check, &found, error) : ERR_OK;
}

/* --- the store --- */

/* A store that is not there, or empty, begins with the log's first segment. */
static enum err check_new_store(const struct check *check, struct error *error)
{
    check->say(check->arg, "there is no store yet: the next start makes it from the log");
    struct state_mark none = {0};
    return check_fit(check, &none, error);
}

static enum err check_file(const struct check *check, bool is_log_sound, struct error *error)
{
    struct state_mark mark;
    enum err err =
        sqlite_store_check(check->env, check->store, check->say, check->arg, &mark, error);
    if (!is_log_sound)
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    if (err == ERR_NOT_FOUND)
        return check_new_store(check, error);
    return err ? err : check_fit(check, &mark, error);
}

static enum err check_store(struct check *check, bool is_log_sound, struct error *error)
{
    if (embedded_find_store(check->config, check->folder, check->store, sizeof(check->store)))
        return check_file(check, is_log_sound, error);
    if (strcmp(check->config->store.text, "none") != 0) {
        check->say(check->arg, "the store is in PostgreSQL, and is not looked at");
        return ERR_OK;
    }
    return is_log_sound ? check_fit(check, NULL, error) : ERR_OK;
}

/* --- both --- */

enum err check_data(struct env *env, const struct config *config, const char *folder,
                    check_say_fn *say, void *arg, struct error *error)
{
    assert(env && config && folder && say);

    struct check check = check_of(env, config, folder, say, arg);
    enum err err = file_log_check(env, folder, say, arg, error);
    if (err && err != ERR_CORRUPT)
        return err;
    struct error of_store = {.text = ""};
    enum err second = check_store(&check, !err, &of_store);
    if (err || !second)
        return err;
    return error_set(error, ERR_CORRUPT, "%s", of_store.text);
}

enum err check_repair(struct env *env, const struct config *config, const char *folder,
                      check_say_fn *say, void *arg, struct error *error)
{
    assert(env && config && folder && say);

    struct check check = check_of(env, config, folder, say, arg);
    enum err err = file_log_repair(env, folder, say, arg, error);
    if (err)
        return err;
    struct error of_store = {.text = ""};
    if (!check_store(&check, true, &of_store))
        return ERR_OK;
    say(arg, store_advice);
    return error_set(error, ERR_CORRUPT, "%s", of_store.text);
}
