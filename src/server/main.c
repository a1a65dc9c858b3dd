/* main.c - tallyd: reads what is wanted, and does it. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/message.h"
#include "server/check.h"
#include "server/config.h"
#include "server/help.h"
#include "server/notify.h"
#include "server/process.h"
#include "server/server.h"
#include "server/signals.h"

#define HELP_BYTES_MAX (64u << 10)
#define LARGE_BYTES \
    (1 << 20) /* blocks of malloc from here on are mapped, and unmapped when freed */

static const char *const *environment(void)
{
    return (const char *const *)environ;
}

static int print_help(void)
{
    struct buffer text;
    buffer_init(&text, HELP_BYTES_MAX);
    help_write(&text);
    (void)fwrite(text.data, 1, text.size, stdout);
    buffer_done(&text);
    return PROCESS_FINE;
}

static void print_line(void *arg, const char *line)
{
    (void)arg;
    (void)puts(line);
}

static int finish(enum err err, const struct error *error)
{
    if (!err)
        return PROCESS_FINE;
    (void)fflush(stdout);
    (void)fprintf(stderr, "tallyd: %s\n", error->text);
    return err == ERR_INVALID ? PROCESS_MISTAKEN : PROCESS_FAILED;
}

static int check_folder(const struct config *config, const char *folder)
{
    struct error error;
    return finish(check_data(env_system(), config, folder, print_line, NULL, &error), &error);
}

static int repair_folder(const struct config *config, const char *folder)
{
    struct error error;
    return finish(check_repair(env_system(), config, folder, print_line, NULL, &error), &error);
}

static int test_config(void)
{
    (void)puts("the configuration is fine");
    return PROCESS_FINE;
}

static void reload(struct server *server, int argc, const char *const *argv)
{
    struct config next;
    struct config_request request;
    struct error error;
    notify_reloading();
    if (config_load(&next, argc, argv, environment(), &request, &error) ||
        server_reload(server, &next, &error))
        message_error("configuration not read again, all stays as it was reason=\"%s\"",
                      error.text);
    explicit_bzero(&next, sizeof(next));
    notify_ready();
}

/* Runs until told to stop. */
static void serve(struct server *server, int argc, const char *const *argv)
{
    uint64_t alive_every_ms = notify_alive_every_ms();
    for (;;) {
        switch (signals_wait(alive_every_ms)) {
        case SIGNALS_NONE:
            if (server_moves(server))
                notify_alive();
            break;
        case SIGNALS_RELOAD:
            reload(server, argc, argv);
            break;
        case SIGNALS_HAND_OVER:
            server_hand_over(server);
            break;
        case SIGNALS_STOP:
            return;
        }
    }
}

static int run(const struct config *config, int argc, const char *const *argv)
{
    message_set_level((enum message_level)config->verbosity);
    process_harden(config->core_dumps);
    /* malloc would map fewer with each that is freed, and keep what clients have given back. */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);

    struct server *server;
    struct error error;
    enum err err = signals_start(&error);
    if (!err)
        err = server_start(config, &server, &error);
    if (err) {
        message_error("cannot start: %s", error.text);
        return PROCESS_FAILED;
    }
    signals_ready();
    notify_ready();

    serve(server, argc, argv);

    message_info("stopping");
    notify_stopping();
    server_stop(server);
    message_info("stopped");
    return PROCESS_FINE;
}

int main(int argc, char **argv)
{
    const char *const *arguments = (const char *const *)argv;
    struct config config;
    struct config_request request;
    struct error error;
    if (config_load(&config, argc, arguments, environment(), &request, &error)) {
        (void)fprintf(stderr, "tallyd: %s\n", error.text);
        return PROCESS_MISTAKEN;
    }

    switch (request.action) {
    case CONFIG_HELP:
        return print_help();
    case CONFIG_VERSION:
        (void)puts("tallyd " TALLY_VERSION);
        return PROCESS_FINE;
    case CONFIG_TEST:
        return test_config();
    case CONFIG_CHECK:
        return check_folder(&config, request.folder);
    case CONFIG_REPAIR:
        return repair_folder(&config, request.folder);
    case CONFIG_RUN:
        break;
    }
    return run(&config, argc, arguments);
}
