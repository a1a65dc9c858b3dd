/* letters.c - dead letters for others to see: a topic beside the log's own.
 *
 * The store has them, and who works them off does it there. Here they are told, with headers that
 * name where they stood and why they failed. */
#include <inttypes.h>
#include <stdio.h>

#include "base/message.h"
#include "log/kafka/own.h"

#define ID_BYTES_MAX 32u

static void hex_of(char *to, struct slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t size = bytes.size < ID_BYTES_MAX ? bytes.size : ID_BYTES_MAX;
    for (size_t i = 0; i < size; i++) {
        *to++ = digits[(unsigned char)bytes.data[i] >> 4];
        *to++ = digits[(unsigned char)bytes.data[i] & 15];
    }
    *to = '\0';
}

void letters_tell(struct kafka_log *log, const struct log_letter *letter)
{
    char topic[sizeof(log->url.topic) + 8];
    char key[16];
    char offset[24];
    char event_id[2 * ID_BYTES_MAX + 1];
    if (!log->look.kafka)
        return;
    (void)snprintf(topic, sizeof(topic), "%s.dlq", log->url.topic);
    (void)snprintf(key, sizeof(key), "%u", letter->lane);
    uint64_t own = letter->position.offset > 0 ? letter->position.offset - 1 : 0;
    (void)snprintf(offset, sizeof(offset), "%" PRIu64, own);
    hex_of(event_id, letter->event_id);
    rd_kafka_resp_err_t code = rd_kafka_producev(
        log->look.kafka, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(key, strlen(key)),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)letter->raw.data, letter->raw.size),
        RD_KAFKA_V_HEADER("topic", log->url.topic, -1), RD_KAFKA_V_HEADER("partition", key, -1),
        RD_KAFKA_V_HEADER("offset", offset, -1),
        RD_KAFKA_V_HEADER("reason", letter->reason.data, (ssize_t)letter->reason.size),
        RD_KAFKA_V_HEADER("event_id", event_id, -1), RD_KAFKA_V_END);
    if (code)
        message_warning(
            "a dead letter is in the store, but could not be told topic=%s reason=\"%s\"", topic,
            rd_kafka_err2str(code));
}
