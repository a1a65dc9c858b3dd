#include "log/kafka/kafka_url.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define SCHEME "kafka://"

static bool take_word(char *to, size_t room, const char *begin, const char *end)
{
    size_t size = (size_t)(end - begin);
    if (size == 0 || size >= room)
        return false;
    memcpy(to, begin, size);
    to[size] = '\0';
    return true;
}

/* What Kafka allows in a topic's name, with room for ".dlq". */
static bool is_good_topic(const char *topic)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return strspn(topic, allowed) == strlen(topic) && strcmp(topic, ".") != 0 &&
           strcmp(topic, "..") != 0;
}

/* Ours, since the promises rest on them. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"bootstrap.servers",
                                       "metadata.broker.list",
                                       "enable.idempotence",
                                       "acks",
                                       "request.required.acks",
                                       "enable.auto.commit",
                                       "auto.commit.enable",
                                       "enable.auto.offset.store",
                                       "auto.offset.reset",
                                       "group.id",
                                       "partition.assignment.strategy",
                                       "message.timeout.ms",
                                       "delivery.timeout.ms",
                                       "enable.gapless.guarantee",
                                       "retries",
                                       "message.send.max.retries",
                                       "isolation.level"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return false;
}

static enum err take_setting(struct kafka_url *url, const char *begin, const char *end,
                             struct error *error)
{
    const char *equals = memchr(begin, '=', (size_t)(end - begin));
    unsigned count = url->setting_count;
    if (count == KAFKA_URL_SETTINGS_MAX)
        return error_set(error, ERR_INVALID, "the log's URL has more than %u settings",
                         KAFKA_URL_SETTINGS_MAX);
    if (!equals ||
        !take_word(url->settings[count].name, sizeof(url->settings[0].name), begin, equals) ||
        !take_word(url->settings[count].value, sizeof(url->settings[0].value), equals + 1, end))
        return error_set(error, ERR_INVALID, "the log's URL: '?' is followed by name=value&...");
    if (is_ours(url->settings[count].name))
        return error_set(error, ERR_INVALID, "the log's URL: %s is not to be set",
                         url->settings[count].name);
    url->setting_count++;
    return ERR_OK;
}

enum err kafka_url_parse(const char *text, struct kafka_url *ret_url, struct error *error)
{
    assert(text && ret_url);

    *ret_url = (struct kafka_url){0};
    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
        return error_set(error, ERR_INVALID, "the log's URL does not begin with " SCHEME);
    const char *brokers = text + strlen(SCHEME);
    const char *slash = strchrnul(brokers, '/');
    const char *question = strchrnul(slash, '?');
    if (!take_word(ret_url->brokers, sizeof(ret_url->brokers), brokers, slash) ||
        strchr(ret_url->brokers, '?'))
        return error_set(error, ERR_INVALID, "the log's URL names no brokers, or too many");
    if (!*slash || !take_word(ret_url->topic, sizeof(ret_url->topic), slash + 1, question) ||
        !is_good_topic(ret_url->topic))
        return error_set(error, ERR_INVALID,
                         "the log's URL: no topic behind the brokers, or not a name for one");
    for (const char *at = question; *at;) {
        const char *end = strchrnul(at + 1, '&');
        enum err err = take_setting(ret_url, at + 1, end, error);
        if (err)
            return err;
        at = end;
    }
    return ERR_OK;
}
