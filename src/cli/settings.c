#include "cli/settings.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/decimal.h"

#define LINE_BYTES 1024u

/* --- addresses ------------------------------------------------------------------ */

static enum err set_port(struct slice text, struct settings *settings, struct error *error)
{
    uint64_t port;
    if (!decimal_parse_unsigned(text, &port) || port == 0 || port > 65535)
        return error_set(error, ERR_INVALID, "'%.*s' is no port from 1 to 65535",
                         text.size > 60 ? 60 : (int)text.size, text.data);
    settings->port = (uint16_t)port;
    return ERR_OK;
}

static enum err set_host(struct slice text, struct settings *settings, struct error *error)
{
    if (text.size >= SETTINGS_HOST_BYTES || memchr(text.data, 0, text.size))
        return error_set(error, ERR_INVALID, "the name of the host is too long");
    if (text.size > 0)
        (void)snprintf(settings->host, sizeof(settings->host), "%.*s", SLICE_ARGS(text));
    return ERR_OK;
}

/* Where the host ends and ":port" begins, if there is one. A bare IPv6 address has
 * several colons and no port. */
static enum err split_address(struct slice text, struct slice *host, struct slice *port,
                              struct error *error)
{
    *host = text;
    *port = (struct slice){NULL, 0};
    if (text.size > 0 && text.data[0] == '[') {
        const char *close = memchr(text.data, ']', text.size);
        if (!close)
            return error_set(error, ERR_INVALID, "an address with '[' needs a ']': [::1]:6380");
        *host = (struct slice){text.data + 1, (size_t)(close - text.data) - 1};
        *port = (struct slice){close + 1, text.size - host->size - 2};
        if (port->size > 0 && port->data[0] != ':')
            return error_set(error, ERR_INVALID, "behind the ']' of an address comes :port");
    } else {
        const char *colon = text.size > 0 ? memchr(text.data, ':', text.size) : NULL;
        if (!colon || memrchr(text.data, ':', text.size) != colon)
            return ERR_OK;
        host->size = (size_t)(colon - text.data);
        *port = (struct slice){colon, text.size - host->size};
    }
    *port =
        port->size > 0 ? (struct slice){port->data + 1, port->size - 1} : (struct slice){NULL, 0};
    return ERR_OK;
}

enum err settings_parse_address(struct slice text, struct settings *settings, struct error *error)
{
    assert(settings);

    if (text.size == 0)
        return error_set(error, ERR_INVALID, "an address looks like 127.0.0.1:6380");
    struct slice host;
    struct slice port;
    enum err err = split_address(text, &host, &port, error);
    if (!err)
        err = set_host(host, settings, error);
    if (!err && port.data)
        err = set_port(port, settings, error);
    return err;
}

const char *settings_address(const struct settings *settings, char *to, size_t size)
{
    bool brackets = strchr(settings->host, ':') != NULL;
    (void)snprintf(to, size, "%s%s%s:%u", brackets ? "[" : "", settings->host, brackets ? "]" : "",
                   settings->port);
    return to;
}

/* --- secrets -------------------------------------------------------------------- */

static enum err set_token(const char *text, struct settings *settings, struct error *error)
{
    if (strlen(text) >= SETTINGS_TOKEN_BYTES)
        return error_set(error, ERR_INVALID, "the token is longer than %u bytes",
                         SETTINGS_TOKEN_BYTES - 1);
    (void)snprintf(settings->token, sizeof(settings->token), "%s", text);
    return ERR_OK;
}

static enum err check_secret(FILE *file, const char *path, struct error *error)
{
    struct stat status;
    if (fstat(fileno(file), &status) != 0)
        return error_set_errno(error, ERR_INVALID, errno, "%s", path);
    if (S_ISREG(status.st_mode) && status.st_mode & (S_IRWXO | S_IWGRP))
        return error_set(error, ERR_INVALID,
                         "%s has mode %04o, so that other users can get at the secret in it; "
                         "run: chmod 600 %s",
                         path, (unsigned)status.st_mode & 07777u, path);
    return ERR_OK;
}

static void cut_end(char *line)
{
    size_t size = strlen(line);
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r' || line[size - 1] == ' ' ||
                        line[size - 1] == '\t'))
        line[--size] = 0;
}

static enum err read_token_file(const char *path, struct settings *settings, struct error *error)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(error, ERR_INVALID, errno, "cannot open %s", path);
    char text[LINE_BYTES] = "";
    enum err err = check_secret(file, path, error);
    if (!err) {
        if (!fgets(text, sizeof(text), file))
            text[0] = 0;
        text[strcspn(text, "\r\n")] = 0;
        err = text[0] ? set_token(text, settings, error)
                      : error_set(error, ERR_INVALID, "%s: its first line is empty", path);
    }
    explicit_bzero(text, sizeof(text));
    (void)fclose(file);
    return err;
}

/* --- the file ------------------------------------------------------------------- */

static enum err set_timeout(const char *text, struct settings *settings, struct error *error)
{
    int64_t seconds;
    if (!decimal_parse(slice_of(text), &seconds) || seconds < 1 || seconds > 86400)
        return error_set(error, ERR_INVALID, "timeout is a number of seconds from 1 to 86400");
    settings->timeout_s = seconds;
    return ERR_OK;
}

static enum err set_colour(const char *text, struct settings *settings, struct error *error)
{
    if (strcmp(text, "auto") != 0 && strcmp(text, "never") != 0)
        return error_set(error, ERR_INVALID, "color is auto or never");
    settings->no_colour = strcmp(text, "never") == 0;
    return ERR_OK;
}

static enum err set_by_name(FILE *file, const char *path, const char *name, const char *value,
                            struct settings *settings, struct error *error)
{
    if (strcmp(name, "address") == 0)
        return settings_parse_address(slice_of(value), settings, error);
    if (strcmp(name, "token-file") == 0)
        return read_token_file(value, settings, error);
    if (strcmp(name, "timeout") == 0)
        return set_timeout(value, settings, error);
    if (strcmp(name, "color") == 0)
        return set_colour(value, settings, error);
    if (strcmp(name, "token") == 0) {
        enum err err = check_secret(file, path, error);
        return err ? err : set_token(value, settings, error);
    }
    return error_set(error, ERR_INVALID,
                     "there is no setting '%.40s'; there are address, token, token-file, timeout "
                     "and color",
                     name);
}

static enum err read_line(FILE *file, const char *path, char *line, struct settings *settings,
                          struct error *error)
{
    cut_end(line);
    char *name = line + strspn(line, " \t");
    if (name[0] == 0 || name[0] == '#')
        return ERR_OK;
    size_t size = strcspn(name, " \t");
    char *value = name + size + strspn(name + size, " \t");
    if (!*value)
        return error_set(error, ERR_INVALID, "'%.40s' needs a value behind it", name);
    name[size] = 0;
    return set_by_name(file, path, name, value, settings, error);
}

static enum err read_file(FILE *file, const char *path, struct settings *settings,
                          struct error *error)
{
    char line[LINE_BYTES];
    struct error inner;
    enum err err = ERR_OK;
    for (unsigned number = 1; !err && fgets(line, sizeof(line), file); number++)
        if (read_line(file, path, line, settings, &inner))
            err = error_set(error, ERR_INVALID, "%.80s:%u: %.150s", path, number, inner.text);
    explicit_bzero(line, sizeof(line));
    return err;
}

/* False: there is no place where it could be. */
static bool default_path(settings_variable_fn *variable, char *to, size_t size)
{
    const char *folder = variable("XDG_CONFIG_HOME");
    const char *home = variable("HOME");
    if (folder && folder[0] == '/')
        (void)snprintf(to, size, "%s/tally/config", folder);
    else if (home && home[0])
        (void)snprintf(to, size, "%s/.config/tally/config", home);
    else
        return false;
    return true;
}

static enum err load_file(const char *named, settings_variable_fn *variable,
                          struct settings *settings, struct error *error)
{
    char path[PATH_MAX];
    if (!named && !default_path(variable, path, sizeof(path)))
        return ERR_OK;
    const char *from = named ? named : path;
    FILE *file = fopen(from, "re");
    if (!file && !named && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return ERR_OK;
    if (!file)
        return error_set_errno(error, ERR_INVALID, errno, "cannot open %s", from);
    enum err err = read_file(file, from, settings, error);
    (void)fclose(file);
    return err;
}

/* --- all of them ---------------------------------------------------------------- */

static enum err load_variables(settings_variable_fn *variable, struct settings *settings,
                               struct error *error)
{
    struct error inner;
    const char *address = variable("TALLY_ADDRESS");
    const char *token = variable("TALLY_TOKEN");
    const char *no_colour = variable("NO_COLOR");
    if (address && address[0] && settings_parse_address(slice_of(address), settings, &inner))
        return error_set(error, ERR_INVALID, "TALLY_ADDRESS: %.200s", inner.text);
    if (token && token[0] && set_token(token, settings, &inner))
        return error_set(error, ERR_INVALID, "TALLY_TOKEN: %.200s", inner.text);
    if (no_colour && no_colour[0])
        settings->no_colour = true;
    return ERR_OK;
}

static enum err load_flags(const struct command_line *line, struct settings *settings,
                           struct error *error)
{
    struct error inner;
    const char *address = command_value(line, COMMAND_ADDRESS);
    const char *token_file = command_value(line, COMMAND_TOKEN_FILE);
    const char *timeout = command_value(line, COMMAND_TIMEOUT);
    if (address && settings_parse_address(slice_of(address), settings, &inner))
        return error_set(error, ERR_INVALID, "--address: %.200s", inner.text);
    if (timeout && set_timeout(timeout, settings, &inner))
        return error_set(error, ERR_INVALID, "--timeout: %.200s", inner.text);
    return token_file ? read_token_file(token_file, settings, error) : ERR_OK;
}

enum err settings_load(const struct command_line *line, settings_variable_fn *variable,
                       struct settings *ret_settings, struct error *error)
{
    assert(line && variable);

    struct settings settings = {.host = "127.0.0.1", .port = 6380, .timeout_s = 60};
    enum err err = load_file(command_value(line, COMMAND_CONFIG), variable, &settings, error);
    if (!err)
        err = load_variables(variable, &settings, error);
    if (!err)
        err = load_flags(line, &settings, error);
    if (!err)
        *ret_settings = settings;
    explicit_bzero(settings.token, sizeof(settings.token));
    return err;
}
