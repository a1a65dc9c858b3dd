#include "log/file/pending.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "unit/test.h"

static uint32_t append(struct pending *pending, size_t size, uint64_t ticket)
{
    static char bytes[LOG_SECTION_BYTES_MAX];
    memset(bytes, (char)ticket, size);
    return pending_append(pending, (struct slice){bytes, size / 3},
                          (struct slice){bytes + size / 3, size - size / 3}, ticket);
}

TEST(nothing_is_pending_at_first)
{
    struct pending pending;
    pending_init(&pending);
    assert_null(pending_take(&pending));
    pending_done(&pending);
}

TEST(what_is_taken_is_what_was_appended_since)
{
    struct pending pending;
    pending_init(&pending);
    append(&pending, 10, 1);
    append(&pending, 20, 2);
    struct chunk *first = pending_take(&pending);
    append(&pending, 30, 3);
    struct chunk *second = pending_take(&pending);
    assert_int_equal(first->sections, 2);
    assert_int_equal(first->body_bytes, 32);
    assert_int_equal(first->last_ticket, 2);
    assert_int_equal(second->sections, 1);
    assert_int_equal(second->last_ticket, 3);
    assert_null(pending_take(&pending));
    pending_give_back(&pending, first);
    pending_give_back(&pending, second);
    pending_done(&pending);
}

/* Sections of all sizes, taken at odd moments: none is lost, moved or changed. */
TEST(sections_keep_their_order_through_any_number_of_chunks)
{
    struct pending pending;
    pending_init(&pending);
    uint64_t appended = 0;
    uint64_t appended_bytes = 0;
    uint64_t taken = 0;
    uint64_t taken_bytes = 0;
    unsigned random = 1;
    while (taken < 300) {
        random = random * 1103515245 + 12345;
        size_t size = (random >> 8) % LOG_SECTION_BYTES_MAX;
        if (appended < 300)
            appended_bytes += append(&pending, size, ++appended);
        if (random >> 30 != 0 && appended < 300)
            continue;
        struct chunk *chunk = pending_take(&pending);
        assert_non_null(chunk);
        struct slice body = {chunk->bytes + GROUP_HEADER_BYTES, chunk->body_bytes};
        struct slice section;
        unsigned sections = 0;
        while (group_next_section(&body, &section)) {
            taken++;
            sections++;
            for (size_t i = 0; i < section.size; i += 1000)
                assert_int_equal(section.data[i], (char)taken);
        }
        assert_int_equal(body.size, 0);
        assert_int_equal(sections, chunk->sections);
        assert_int_equal(chunk->last_ticket, taken);
        taken_bytes += chunk->body_bytes;
        pending_give_back(&pending, chunk);
    }
    assert_int_equal(taken_bytes, appended_bytes);
    pending_done(&pending);
}

RUN(cmocka_unit_test(nothing_is_pending_at_first),
    cmocka_unit_test(what_is_taken_is_what_was_appended_since),
    cmocka_unit_test(sections_keep_their_order_through_any_number_of_chunks))
