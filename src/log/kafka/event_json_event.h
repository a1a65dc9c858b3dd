/* event_json_event.h - one event of a message, read. Pure. */
#ifndef LOG_KAFKA_EVENT_JSON_EVENT_H
#define LOG_KAFKA_EVENT_JSON_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/event.h"
#include "core/sequence.h"
#include "log/kafka/json_parse.h"

#define EPOCH_MAX ((UINT64_C(1) << (64 - SEQUENCE_N_BITS)) - 1)
#define N_MAX     ((UINT64_C(1) << SEQUENCE_N_BITS) - 1)

/* Reads an event and puts it into the section; false with a fault when it is none. */
bool event_json_take_event(struct json_parse *parse, struct section *section);

#endif
