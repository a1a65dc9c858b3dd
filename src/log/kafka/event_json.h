/* event_json.h - sections of events as JSON, for all who read the topic, and back.
 *
 * A message is one section (docs/events.md):
 *
 *   {"v":1,"origin":17,"epoch":3,"seq":1001,"time":"2026-11-16T06:00:00.123Z","ms":1763272800123,
 *    "events":[{"type":"react","item":"video1","user":"ann","number":7,"before":null,"after":"like"},
 *              {"type":"add","counter":"views","delta":"5"}]}
 *
 * Nothing is lost: a section that was written and read again is the same to the byte. A name that
 * is not UTF-8 is {"hex":"ff00"} instead of a string. A section that cannot be read goes as
 * {"v":1,"origin":17,"raw":"<hex>"}. Pure: no I/O, no clock. */
#ifndef LOG_KAFKA_EVENT_JSON_H
#define LOG_KAFKA_EVENT_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/event.h"

#define EVENT_JSON_VERSION 1

/* What is larger is not even looked at. */
#define EVENT_JSON_BYTES_MAX (4u << 20)

/* Replaces `to` by a message of the reader's next events, as many as go into about `limit` bytes,
 * and moves the reader behind them; there is more while reader->left > 0. ERR_CORRUPT: the rest
 * of the section cannot be read, nothing was written. */
enum err event_json_write(struct section_reader *reader, size_t limit, struct buffer *to,
                          struct error *error);

/* The same of a section that cannot be read. */
void event_json_write_raw(unsigned origin, struct slice section, struct buffer *to);

/* Memory for reading, kept from message to message. */
struct event_json {
    struct buffer scratch; /* strings without their escapes */
    struct section section;
    struct buffer out;
};

void event_json_init(struct event_json *json);
void event_json_done(struct event_json *json);

/* The section of a message; lives until the next call. ERR_TOO_LARGE, ERR_CORRUPT with a text that
 * names the byte. */
enum err event_json_read(struct event_json *json, struct slice text, struct slice *ret_section,
                         struct error *error);

#endif
