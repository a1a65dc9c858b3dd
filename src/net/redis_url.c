#include "net/redis_url.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/decimal.h"

#define PREFIX_DEFAULT "tally"

/* Where `byte` is first, or the end. */
static const char *find(struct slice text, char byte)
{
    const char *found = text.size > 0 ? memchr(text.data, byte, text.size) : NULL;
    return found ? found : text.data + text.size;
}

static struct slice between(const char *begin, const char *end)
{
    return (struct slice){begin, (size_t)(end - begin)};
}

static bool take_word(char *to, size_t room, struct slice word)
{
    if (word.size >= room)
        return false;
    if (word.size > 0)
        memcpy(to, word.data, word.size);
    to[word.size] = '\0';
    return true;
}

/* ---- user and password ---- */

static int hex_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char low = (char)(digit | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

static bool decode_percent(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at != '%') {
            *to++ = *at;
            continue;
        }
        int high = hex_of(at[1]);
        int low = high < 0 ? -1 : hex_of(at[2]);
        if (low < 0)
            return false;
        *to++ = (char)(high << 4 | low);
        at += 2;
    }
    *to = '\0';
    return true;
}

static bool take_login(struct redis_url *url, struct slice login)
{
    const char *end = login.data + login.size;
    const char *colon = find(login, ':');
    if (colon == end)
        return false;
    return take_word(url->user, sizeof(url->user), between(login.data, colon)) &&
           take_word(url->password, sizeof(url->password), between(colon + 1, end)) &&
           decode_percent(url->user) && decode_percent(url->password);
}

/* ---- servers ---- */

static bool take_port(struct redis_url_server *server, struct slice text)
{
    uint64_t port;
    if (!decimal_parse_unsigned(text, &port) || port == 0 || port > UINT16_MAX)
        return false;
    server->port = (uint16_t)port;
    return true;
}

static bool take_server(struct redis_url_server *server, struct slice text)
{
    const char *end = text.data + text.size;
    bool is_bracketed = text.size > 0 && text.data[0] == '[';
    struct slice host = between(text.data + is_bracketed, find(text, is_bracketed ? ']' : ':'));
    const char *behind = host.data + host.size + is_bracketed;
    server->port = REDIS_URL_PORT;
    if (behind > end || host.size == 0 || !take_word(server->host, sizeof(server->host), host))
        return false;
    return behind == end || (*behind == ':' && take_port(server, between(behind + 1, end)));
}

static enum err take_servers(const char *what, struct redis_url *url, struct slice text,
                             struct error *error)
{
    const char *end = text.data + text.size;
    for (const char *at = text.data; at <= end;) {
        struct slice server = between(at, find(between(at, end), ','));
        if (url->count == REDIS_URL_SERVERS_MAX)
            return error_set(error, ERR_INVALID, "%s names more than %u servers", what,
                             REDIS_URL_SERVERS_MAX);
        if (!take_server(&url->servers[url->count], server))
            return error_set(error, ERR_INVALID, "%s: '%.*s' is not host:port", what,
                             SLICE_ARGS(server));
        url->count++;
        at = server.data + server.size + 1;
    }
    return ERR_OK;
}

/* ---- the rest ---- */

/* Braces would make another hash tag of it. */
static bool is_good_prefix(const char *prefix)
{
    for (; *prefix; prefix++)
        if (!isgraph((unsigned char)*prefix) || strchr("{}/?#", *prefix))
            return false;
    return true;
}

enum err redis_url_parse(const char *what, const char *text, struct redis_url *ret_url,
                         struct error *error)
{
    assert(what && text && ret_url);

    *ret_url = (struct redis_url){.prefix = PREFIX_DEFAULT};
    const char *at = strrchr(text, '@');
    if (at && !take_login(ret_url, between(text, at)))
        return error_set(error, ERR_INVALID, "%s: not user:password before the @", what);
    struct slice rest = slice_of(at ? at + 1 : text);
    const char *question = find(rest, '?');
    const char *slash = find(between(rest.data, question), '/');
    enum err err = take_servers(what, ret_url, between(rest.data, slash), error);
    if (err)
        return err;
    if (*question)
        ret_url->settings = slice_of(question + 1);
    if (question - slash <= 1)
        return ERR_OK;
    if (!take_word(ret_url->prefix, sizeof(ret_url->prefix), between(slash + 1, question)) ||
        !is_good_prefix(ret_url->prefix))
        return error_set(error, ERR_INVALID,
                         "%s: the prefix is too long, or has a blank, brace or slash in it", what);
    return ERR_OK;
}
