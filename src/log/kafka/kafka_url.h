/* kafka_url.h - where the log's brokers are:
 * kafka://host:port[,host:port...]/topic[?name=value&...].
 *
 * What stands behind the question mark are settings of librdkafka, for those who need TLS or a
 * login (security.protocol=SASL_SSL); those that our promises rest on cannot be set. */
#ifndef LOG_KAFKA_KAFKA_URL_H
#define LOG_KAFKA_KAFKA_URL_H

#include "base/error.h"

#define KAFKA_URL_SETTINGS_MAX 16u

struct kafka_url {
    char brokers[512];
    char topic[200];
    struct {
        char name[64];
        char value[256];
    } settings[KAFKA_URL_SETTINGS_MAX];
    unsigned setting_count;
};

enum err kafka_url_parse(const char *text, struct kafka_url *ret_url, struct error *error);

#endif
