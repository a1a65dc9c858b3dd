#include "log/redis_stream/stream_url.h"

#include <assert.h>
#include <string.h>

#include "base/decimal.h"

#define WHAT "the log's URL"

static const char *behind_scheme(const char *text)
{
    static const char *const schemes[] = {"redis://", "redis-stream://"};
    for (unsigned i = 0; i < 2; i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return text + strlen(schemes[i]);
    return NULL;
}

static enum err take_settings(struct stream_url *url, struct slice text, struct error *error)
{
    struct slice name = SLICE("replicas=");
    uint64_t replicas;
    if (text.size < name.size || memcmp(text.data, name.data, name.size) != 0 ||
        !decimal_parse_unsigned((struct slice){text.data + name.size, text.size - name.size},
                                &replicas) ||
        replicas > 16)
        return error_set(error, ERR_INVALID, WHAT ": '?' is followed by replicas=n");
    url->replicas = (unsigned)replicas;
    return ERR_OK;
}

enum err stream_url_parse(const char *text, struct stream_url *ret_url, struct error *error)
{
    assert(text && ret_url);

    const char *begin = behind_scheme(text);
    if (!begin)
        return error_set(error, ERR_INVALID,
                         WHAT " does not begin with redis:// or redis-stream://");
    ret_url->replicas = 0;
    enum err err = redis_url_parse(WHAT, begin, &ret_url->redis, error);
    if (err)
        return err;
    if (ret_url->redis.count > STREAM_SERVERS_MAX)
        return error_set(error, ERR_INVALID, WHAT " names more than %u servers",
                         STREAM_SERVERS_MAX);
    return ret_url->redis.settings.data ? take_settings(ret_url, ret_url->redis.settings, error)
                                        : ERR_OK;
}
