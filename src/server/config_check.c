/* config_check.c - settings that are fine by themselves, and make no sense together. */
#include <assert.h>
#include <string.h>

#include "core/kinds.h"
#include "flow/service.h"
#include "server/config_own.h"

static bool begins(const struct value_text *value, const char *scheme)
{
    return strncmp(value->text, scheme, strlen(scheme)) == 0;
}

static bool is_postgres(const struct value_text *store)
{
    return begins(store, "postgres://") || begins(store, "postgresql://");
}

static bool is_stream(const struct value_text *log)
{
    return begins(log, "redis-stream://");
}

bool config_is_distributed(const struct config *config)
{
    assert(config);

    return begins(&config->hot, "redis://");
}

bool config_has_demo(const struct config *config)
{
    assert(config);

    if (config->demo != CONFIG_DEMO_AUTO)
        return config->demo == CONFIG_DEMO_ON;
    return !config_is_distributed(config) && value_is_loopback(&config->http) &&
           config->password.text[0] == '\0';
}

/* Nodes that share their counts have to share what comes behind them. */
static enum err check_distributed(const struct config *config, struct error *error)
{
    if (config->move_to.text[0])
        return config_refuse(config, &config->move_to,
                             "nodes have nothing on this machine to be moved", error);
    if (!begins(&config->log, "kafka://") && !is_stream(&config->log))
        return config_refuse(
            config, &config->log,
            "with --hot redis://... nodes share the counts, and need a log that they "
            "share: kafka://HOST:PORT/TOPIC or redis-stream://HOST:PORT",
            error);
    if (!is_postgres(&config->store))
        return config_refuse(
            config, &config->store,
            "with --hot redis://... nodes share the counts, and need a store that they "
            "share: postgres://...",
            error);
    if (config->ack == ACK_WRITTEN || config->ack == ACK_MEMORY)
        return config_refuse(
            config, &config->ack,
            "with --hot redis://... an answer waits for the log, or for the hot layer "
            "only: log or hot",
            error);
    if (config->role == CONFIG_AGGREGATE && config->http.host[0] == '\0')
        return config_refuse(
            config, &config->http,
            "a node that only aggregates has no other door: it tells how it is doing "
            "there",
            error);
    return ERR_OK;
}

static enum err check_embedded(const struct config *config, struct error *error)
{
    if (!begins(&config->hot, "memory:") || strlen(config->hot.text) > strlen("memory:"))
        return config_refuse(config, &config->hot, "neither memory: nor redis://HOST:PORT", error);
    if (!begins(&config->log, "file:"))
        return config_refuse(
            config, &config->log,
            "counts in memory need a log on this machine, file:DIR: other logs go with "
            "--hot redis://...",
            error);
    if (config->role != CONFIG_ALL)
        return config_refuse(
            config, &config->role,
            "counts in memory belong to one process, which does all: roles go with "
            "--hot redis://...",
            error);
    if (config->move_to.text[0] && !is_postgres(&config->move_to))
        return config_refuse(config, &config->move_to, "neither postgres://... nor empty", error);
    if (config->move_to.text[0] &&
        (is_postgres(&config->store) || strcmp(config->store.text, "none") == 0))
        return config_refuse(
            config, &config->move_to,
            "only a store of SQLite can be copied: with --store postgres://... nodes "
            "take over when this server has stopped",
            error);
    if (config->ack == ACK_LOG || config->ack == ACK_HOT)
        return config_refuse(
            config, &config->ack,
            "counts in memory know durable, written and memory: log and hot go with "
            "--hot redis://...",
            error);
    return ERR_OK;
}

static enum err check_door(const struct config *config, const struct value_address *door,
                           struct error *error)
{
    if (value_is_loopback(door) || config->password.text[0] || config->insecure)
        return ERR_OK;
    return config_refuse(config, door,
                         "other machines could connect without a password. Give one with "
                         "--password-file FILE, stay on 127.0.0.1, or say --insecure",
                         error);
}

enum err config_check(const struct config *config, struct error *error)
{
    assert(config);

    enum err err = config_is_distributed(config) ? check_distributed(config, error)
                                                 : check_embedded(config, error);
    if (err)
        return err;
    struct kinds kinds;
    struct error reason;
    if (kinds_parse(&kinds, slice_of(config->kinds.text), &reason))
        return config_refuse(config, &config->kinds, reason.text, error);
    if (strlen(config->password.text) > CONFIG_PASSWORD_BYTES_MAX)
        return config_refuse(config, &config->password, "the password has more than 512 bytes",
                             error);
    if (config->data.text[0] == '\0')
        return config_refuse(config, &config->data, "a folder is needed, such as ./data", error);
    if (config->segment_size % 4096 != 0)
        return config_refuse(config, &config->segment_size, "must be a multiple of 4KiB", error);
    err = check_door(config, &config->resp, error);
    return err ? err : check_door(config, &config->http, error);
}
