/* embedded.c - all parts in this process: memory, a log of files, SQLite (or PostgreSQL, or no
 * store). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "flow/recovery.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"
#include "server/notify.h"
#include "server/process.h"
#include "server/server_own.h"
#include "store/postgres/postgres.h"
#include "store/sqlite/sqlite.h"

/* Of the store's pages, when memory has a limit: a quarter of it, within these bounds. */
#define STORE_CACHE_LEAST (UINT64_C(16) << 20)
#define STORE_CACHE_MOST  (UINT64_C(128) << 20)

/* Nothing may be acknowledged any more, and what was is as safe as it was said to
 * be: to leave at once is the safest thing to do. */
static void leave_at_once(void *arg, const struct error *error)
{
    const struct server *server = arg;
    bool is_safe = server->config.ack == ACK_DURABLE;
    message_error("the log cannot go on: leaving at once; %s reason=\"%s\"",
                  is_safe ? "what was acknowledged is safe"
                          : "the last acknowledged writes may be lost",
                  error->text);
    _exit(PROCESS_FAILED);
}

static const char *folder_of(const struct config *config)
{
    const char *folder = config->log.text + strlen("file:");
    return folder[0] ? folder : config->data.text;
}

static enum err open_log(struct server *server, struct error *error)
{
    struct file_log_options options = {
        .folder = folder_of(&server->config),
        .segment_bytes = server->config.segment_size,
        .pending_bytes_max = server->config.log_pending_max,
        .verify_bytes_per_s = server->config.log_verify,
        .fatal = leave_at_once,
        .fatal_arg = server,
    };
    return file_log_open(server->env, &options, &server->log, error);
}

static struct move_options options_of_move(struct server *server, const struct config *config)
{
    return (struct move_options){
        .env = server->env,
        .folder = folder_of(config),
        .url = config->move_to.text,
        .members = config->members == 0 ? POSTGRES_ROWS : POSTGRES_SETS,
        .log = server->log,
        .store = server->store,
        .hot = server->hot,
        .pipeline = server->pipeline,
        .service = &server->service,
        .kinds = &server->kinds,
        .flush_interval_ms = config->flush_interval,
        .flush_events = config->flush_events,
        .keep_events_ms = config->keep_events,
        .keep_history_ms = config->keep_history,
        .keep_keys_ms = config->keys_kept,
        .begin_thread = server_give_way,
    };
}

/* What was handed over is counted elsewhere. */
static enum err check_folder(struct server *server, struct error *error)
{
    struct move_options options = options_of_move(server, &server->config);
    return move_check_folder(&options, error);
}

static bool is_postgres(const struct config *config)
{
    return strncmp(config->store.text, "postgres", strlen("postgres")) == 0;
}

bool embedded_find_store(const struct config *config, const char *folder, char *path, size_t size)
{
    const char *given = config->store.text;
    if (strcmp(given, "none") == 0 || is_postgres(config))
        return false;
    if (strncmp(given, "sqlite:", 7) == 0)
        given += 7;
    if (given[0])
        (void)snprintf(path, size, "%s", given);
    else
        (void)snprintf(path, size, "%s/tally.db", folder);
    return true;
}

/* Who gives little memory to counters has little for the store's pages, too. 0: a good default. */
static uint64_t store_cache_bytes(const struct config *config)
{
    uint64_t share = config->max_memory / 4;
    if (share == 0 || share > STORE_CACHE_MOST)
        return 0;
    return share < STORE_CACHE_LEAST ? STORE_CACHE_LEAST : share;
}

static enum err open_postgres(struct server *server, struct error *error)
{
    struct postgres_store_options options = {
        .url = server->config.store.text,
        .members = server->config.members == 0 ? POSTGRES_ROWS : POSTGRES_SETS,
    };
    enum err err = postgres_store_open(server->env, &options, &server->store, error);
    if (!err)
        message_info("store kind=postgres");
    return err;
}

static enum err open_store(struct server *server, struct error *error)
{
    if (is_postgres(&server->config))
        return open_postgres(server, error);
    char path[VALUE_TEXT_MAX + sizeof("/tally.db")];
    if (!embedded_find_store(&server->config, server->config.data.text, path, sizeof(path)))
        return ERR_OK;
    struct sqlite_store_options options = {.path = path,
                                           .cache_bytes = store_cache_bytes(&server->config)};
    struct error cause = {.text = ""};
    enum err err = sqlite_store_open(server->env, &options, &server->store, &cause);
    if (err)
        return error_set(error, err,
                         "the store %.60s: %.120s. Moved away, it is made anew from the log", path,
                         cause.text);
    message_info("store kind=sqlite file=%s", path);
    return ERR_OK;
}

static enum err open_hot(struct server *server, struct error *error)
{
    (void)error;
    struct memory_hot_options options = {
        .kinds = &server->kinds,
        .log = server->log,
        .workers = server->worker_count,
        .guests = PIPELINE_GUESTS,
        .keys_kept_ms = server->config.keys_kept,
        .idle_s = (uint32_t)(server->config.expire_idle / 1000),
        .spread_rate = server->config.spread_rate,
        .retention_ms = server->config.retention,
        .memory_max = server->config.max_memory,
    };
    server->hot = memory_hot_open(server->env, &options);
    return ERR_OK;
}

static enum err open_pipeline(struct server *server, struct error *error)
{
    (void)error;
    if (!server->store)
        return ERR_OK;
    struct pipeline_options options = server_pipeline_options(server);
    server->pipeline = pipeline_new(&options);
    return ERR_OK;
}

static enum err recover(struct server *server, struct error *error)
{
    notify_status("recovering from the log");
    struct recovery recovery;
    enum err err = server->pipeline ? pipeline_recover(server->pipeline, &recovery, error)
                                    : recovery_run(server->env, server->log, server->hot,
                                                   (struct log_position){0, 0}, &recovery, error);
    if (err)
        return err;

    double seconds = (double)recovery.duration_ns / 1e9;
    message_info("recovered events=%llu bytes=%llu seconds=%.3f events_per_s=%.0f",
                 (unsigned long long)recovery.events, (unsigned long long)recovery.bytes, seconds,
                 seconds > 0 ? (double)recovery.events / seconds : 0.0);
    return ERR_OK;
}

/* Nodes must not write there at the same time. */
static enum err claim_store(struct server *server, struct error *error)
{
    bool has_name = file_log_id(server->log) != 0; /* a new log has none before its start */
    if (!is_postgres(&server->config) || !has_name)
        return ERR_OK;
    struct move_options options = options_of_move(server, &server->config);
    struct move_name name = move_name(&options);
    return postgres_store_claim(server->store, name.machine, name.who, true, error);
}

static void release_store(struct server *server)
{
    struct error error = {.text = ""};
    if (is_postgres(&server->config) && postgres_store_release(server->store, &error))
        message_warning("the store is still this server's: nodes cannot take over reason=\"%s\"",
                        error.text);
}

/* --- together --- */

enum err embedded_open(struct server *server, struct error *error)
{
    static server_step_fn *const steps[] = {open_log, check_folder,  open_store, claim_store,
                                            open_hot, open_pipeline, recover};
    enum err err = ERR_OK;
    for (size_t i = 0; !err && i < sizeof(steps) / sizeof(steps[0]); i++)
        err = steps[i](server, error);
    return err;
}

enum err embedded_move(struct server *server, const struct config *config, struct error *error)
{
    const char *url = config->move_to.text;
    if (server->move && strcmp(url, move_url(server->move)) != 0)
        message_warning("where everything is moved to needs a restart to be changed");
    if (server->move || url[0] == '\0')
        return ERR_OK;
    struct move_options options = options_of_move(server, config);
    return move_start(&options, &server->move, error);
}

enum err embedded_start(struct server *server, struct error *error)
{
    callback_set(&server->log->progress, server_wake_doors, server);
    enum err err = log_start(server->log, error);
    if (err || !server->pipeline)
        return err;
    err = claim_store(server, error);
    /* Before anything could be trimmed that is still to be moved. */
    if (!err)
        err = embedded_move(server, &server->config, error);
    return err ? err : pipeline_start(server->pipeline, &server->service, error);
}

void embedded_stop(struct server *server)
{
    move_stop(server->move);
    server->move = NULL;
    if (server->pipeline && pipeline_stop(server->pipeline, FLUSH_WITHIN_MS))
        release_store(server);
}
