#include "log/redis_stream/stream_url.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/decimal.h"
#include "base/slice.h"

#define PREFIX_DEFAULT "tally"

static bool take_word(char *to, size_t room, const char *begin, const char *end)
{
    size_t size = (size_t)(end - begin);
    if (size >= room)
        return false;
    memcpy(to, begin, size);
    to[size] = '\0';
    return true;
}

static const char *behind_scheme(const char *text)
{
    static const char *const schemes[] = {"redis://", "redis-stream://"};
    for (unsigned i = 0; i < 2; i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return text + strlen(schemes[i]);
    return NULL;
}

static int hex_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char low = (char)(digit | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* %41 in a name or password is an A. */
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

static bool take_login(struct stream_url *url, const char *begin, const char *end)
{
    const char *colon = memchr(begin, ':', (size_t)(end - begin));
    if (!colon)
        return false;
    return take_word(url->user, sizeof(url->user), begin, colon) &&
           take_word(url->password, sizeof(url->password), colon + 1, end) &&
           decode_percent(url->user) && decode_percent(url->password);
}

static bool take_server(struct stream_server *server, const char *begin, const char *end)
{
    const char *colon = memrchr(begin, ':', (size_t)(end - begin));
    uint64_t port = STREAM_PORT;
    if (colon &&
        (!decimal_parse_unsigned((struct slice){colon + 1, (size_t)(end - colon - 1)}, &port) ||
         port == 0 || port > UINT16_MAX))
        return false;
    server->port = (uint16_t)port;
    return take_word(server->host, sizeof(server->host), begin, colon ? colon : end) &&
           server->host[0];
}

static enum err take_servers(struct stream_url *url, const char *begin, const char *end,
                             struct error *error)
{
    for (const char *at = begin; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if (url->count == STREAM_SERVERS_MAX)
            return error_set(error, ERR_INVALID, "the log's URL names more than %u servers",
                             STREAM_SERVERS_MAX);
        if (!take_server(&url->servers[url->count], at, stop))
            return error_set(error, ERR_INVALID, "the log's URL: '%.*s' is not host:port",
                             (int)(stop - at), at);
        url->count++;
        at = stop + 1;
    }
    return ERR_OK;
}

/* Braces would make another hash tag of it. */
static bool is_good_prefix(const char *prefix)
{
    for (; *prefix; prefix++)
        if (!isgraph((unsigned char)*prefix) || strchr("{}/?#", *prefix))
            return false;
    return true;
}

static enum err take_settings(struct stream_url *url, const char *text, struct error *error)
{
    uint64_t replicas;
    static const char name[] = "replicas=";
    if (strncmp(text, name, strlen(name)) != 0 ||
        !decimal_parse_unsigned(slice_of(text + strlen(name)), &replicas) || replicas > 16)
        return error_set(error, ERR_INVALID, "the log's URL: '?' is followed by replicas=n");
    url->replicas = (unsigned)replicas;
    return ERR_OK;
}

enum err stream_url_parse(const char *text, struct stream_url *ret_url, struct error *error)
{
    assert(text && ret_url);

    *ret_url = (struct stream_url){.prefix = PREFIX_DEFAULT};
    const char *begin = behind_scheme(text);
    if (!begin)
        return error_set(error, ERR_INVALID,
                         "the log's URL does not begin with redis:// or redis-stream://");
    const char *login = strrchr(begin, '@');
    if (login && !take_login(ret_url, begin, login))
        return error_set(error, ERR_INVALID, "the log's URL: not user:password before the @");
    const char *hosts = login ? login + 1 : begin;
    const char *question = strchrnul(hosts, '?');
    const char *slash = memchr(hosts, '/', (size_t)(question - hosts));
    slash = slash ? slash : question;
    enum err err = take_servers(ret_url, hosts, slash, error);
    if (err)
        return err;
    if (*question)
        err = take_settings(ret_url, question + 1, error);
    if (err || question - slash <= 1)
        return err;
    if (!take_word(ret_url->prefix, sizeof(ret_url->prefix), slash + 1, question) ||
        !is_good_prefix(ret_url->prefix))
        return error_set(error, ERR_INVALID,
                         "the log's URL: the prefix is too long, or has a blank or brace in it");
    return ERR_OK;
}
