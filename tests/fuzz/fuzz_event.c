/* fuzz_event.c - any bytes as a section of the log.
 *
 * They are read or they are corrupt, and what is read is written again as the
 * very same bytes. */
#include <stdlib.h>

#include "core/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static bool is_same(const struct buffer *written, const char *begin, const char *end)
{
    return slice_equal(buffer_slice(written), (struct slice){begin, (size_t)(end - begin)});
}

static void check_header(const struct section_reader *reader)
{
    struct section section = {.count = (uint32_t)reader->left};
    char header[SECTION_HEADER_MAX];
    size_t size =
        section_header(&section, reader->origin, reader->first_sequence, reader->time_ms, header);
    check(slice_equal((struct slice){header, size},
                      (struct slice){reader->begin, (size_t)(reader->at - reader->begin)}));
}

static enum err check_events(struct section_reader *reader, struct error *error)
{
    struct section section;
    section_init(&section);
    struct event event;
    const char *begin = reader->at;
    enum err err;
    while ((err = section_next(reader, &event, error)) == ERR_OK) {
        section_clear(&section);
        section_event(&section, &event);
        check(is_same(&section.body, begin, reader->at));
        check(event.sequence + 1 == reader->next_sequence);
        event_done(&event);
        begin = reader->at;
    }
    section_done(&section);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct section_reader reader;
    struct error error = {.text = ""};
    enum err err = section_open(&reader, (struct slice){(const char *)data, size}, &error);
    if (!err) {
        check_header(&reader);
        err = check_events(&reader, &error);
    }
    check(err == ERR_NOT_FOUND || err == ERR_CORRUPT);
    check((err == ERR_CORRUPT) == (error.text[0] != '\0'));
    return 0;
}
