/* fuzz_event_json.c - any bytes as a message of the topic, and as a section that becomes one.
 *
 * A message is read or refused with a reason; the section of one that was read is written and read
 * again as the very same bytes. A section that can be read comes back from JSON to the byte. */
#include <stdlib.h>

#include "log/kafka/event_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Is it a section from its first to its last byte? Then JSON keeps it as it is. */
static void check_section(struct event_json *json, struct slice section)
{
    struct section_reader reader;
    struct buffer text;
    struct slice again;
    if (section_open(&reader, section, NULL))
        return;
    buffer_init(&text, 64 << 20);
    if (event_json_write(&reader, SIZE_MAX, &text, NULL) == ERR_OK) {
        check(reader.left == 0);
        check(text.size > EVENT_JSON_BYTES_MAX ||
              event_json_read(json, buffer_slice(&text), &again, NULL) == ERR_OK);
        check(text.size > EVENT_JSON_BYTES_MAX || slice_equal(section, again));
    }
    buffer_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice input = {(const char *)data, size};
    struct event_json json;
    struct event_json second;
    event_json_init(&json);
    event_json_init(&second);
    struct error error = {.text = ""};
    struct slice section;
    enum err err = event_json_read(&json, input, &section, &error);
    check((err == ERR_OK) == (error.text[0] == '\0'));
    if (!err)
        check_section(&second, section);
    check_section(&second, input);
    event_json_done(&second);
    event_json_done(&json);
    return 0;
}
