/* log_test.c - what core/log.h promises, asked of every log there is.
 *
 * To add a log, write an opener and put a line into `forms`. */
/* threads */
#include "unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "core/log.h"
#include "log/file/file.h"

struct form {
    const char *name;
    struct log *(*open)(const char *folder); /* the log that lives there, not yet started */
};

static void fatal(void *arg, const struct error *error)
{
    (void)arg;
    fprintf(stderr, "%s\n", error->text);
    abort();
}

static struct log *open_file_log(const char *folder)
{
    struct file_log_options options = {
        .folder = folder,
        .segment_bytes = 64 << 10, /* small, so that every test crosses segments */
        .pending_bytes_max = 16 << 20,
        .fatal = fatal,
    };
    struct log *log;
    struct error error;
    if (file_log_open(env_system(), &options, &log, &error))
        fail_msg("%s", error.text);
    return log;
}

static const struct form forms[] = {
    {"file", open_file_log},
};

/* ---- what the tests share ---- */

static const struct form *form;
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/tally-log-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command); /* NOLINT: our own name */
}

static enum err count_section(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    (void)section;
    (void)next;
    (void)error;
    ++*(unsigned *)arg;
    return ERR_OK;
}

/* Reads it all first, as a server does. */
static struct log *open_started(void)
{
    struct log *log = form->open(folder);
    unsigned count = 0;
    struct error error = {0};
    assert_int_equal(log_read(log, (struct log_position){0}, count_section, &count, NULL, &error),
                     ERR_OK);
    assert_int_equal(log_start(log, &error), ERR_OK);
    return log;
}

static uint64_t append_number(struct log *log, unsigned number)
{
    char body[32];
    int size = snprintf(body, sizeof(body), "%u", number);
    return log_append(log, SLICE("n="), (struct slice){body, (size_t)size});
}

static void wait_for(struct log *log, enum log_level level, uint64_t ticket)
{
    while (log_reached(log, 0, level) < ticket)
        usleep(50);
}

/* Sections are "n=0", "n=1", ...; remembers the place behind each. */
struct numbers {
    unsigned next;
    struct log_position positions[4096];
};

static enum err expect_number(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    (void)error;
    struct numbers *numbers = arg;
    char expected[32];
    int size = snprintf(expected, sizeof(expected), "n=%u", numbers->next);
    assert_true(slice_equal(section, (struct slice){expected, (size_t)size}));
    if (numbers->next < 4096)
        numbers->positions[numbers->next] = next;
    numbers->next++;
    return ERR_OK;
}

static void read_numbers(struct log_position from, struct numbers *numbers)
{
    struct log *log = form->open(folder);
    struct error error = {0};
    if (log_read(log, from, expect_number, numbers, NULL, &error))
        fail_msg("%s", error.text);
    log_close(log);
}

/* ---- the promises ---- */

TEST(a_new_log_is_empty_and_has_room)
{
    struct log *log = form->open(folder);
    unsigned count = 0;
    assert_int_equal(log_read(log, (struct log_position){0}, count_section, &count, NULL, NULL),
                     ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    assert_int_equal(log_room(log), ERR_OK);
    assert_int_equal(log_reached(log, 0, LOG_DURABLE), 0);
    log_close(log);
}

TEST(what_was_durable_is_read_in_the_order_of_appending)
{
    struct log *log = open_started();
    uint64_t ticket = 0;
    for (unsigned i = 0; i < 20000; i++)
        ticket = append_number(log, i);
    wait_for(log, LOG_DURABLE, ticket);
    log_close(log);

    struct numbers numbers = {0};
    read_numbers((struct log_position){0}, &numbers);
    assert_int_equal(numbers.next, 20000);
}

TEST(closing_makes_what_was_appended_durable)
{
    struct log *log = open_started();
    for (unsigned i = 0; i < 1000; i++)
        append_number(log, i);
    log_close(log);

    struct numbers numbers = {0};
    read_numbers((struct log_position){0}, &numbers);
    assert_int_equal(numbers.next, 1000);
}

TEST(many_starts_make_one_log)
{
    for (unsigned start = 0; start < 20; start++) {
        struct log *log = open_started();
        for (unsigned i = 0; i < start; i++)
            append_number(log, start * (start - 1) / 2 + i);
        log_close(log);
    }
    struct numbers numbers = {0};
    read_numbers((struct log_position){0}, &numbers);
    assert_int_equal(numbers.next, 190);
}

TEST(reading_goes_on_from_any_remembered_position)
{
    for (unsigned start = 0; start < 3; start++) {
        struct log *log = open_started();
        for (unsigned i = 0; i < 200; i++)
            wait_for(log, LOG_WRITTEN, append_number(log, start * 200 + i));
        log_close(log);
    }
    static struct numbers all;
    all = (struct numbers){0};
    read_numbers((struct log_position){0}, &all);
    assert_int_equal(all.next, 600);
    for (unsigned i = 0; i < 600; i += 7) {
        /* Behind the group that section i is in: the first section of the next one. */
        unsigned next = i;
        while (next < 600 &&
               memcmp(&all.positions[next], &all.positions[i], sizeof(all.positions[i])) == 0)
            next++;
        static struct numbers rest;
        rest = (struct numbers){.next = next};
        read_numbers(all.positions[i], &rest);
        assert_int_equal(rest.next, 600);
    }
}

TEST(positions_grow)
{
    struct log *log = open_started();
    for (unsigned i = 0; i < 4000; i++)
        append_number(log, i);
    log_close(log);

    static struct numbers numbers;
    numbers = (struct numbers){0};
    read_numbers((struct log_position){0}, &numbers);
    for (unsigned i = 1; i < 4000; i++) {
        struct log_position a = numbers.positions[i - 1];
        struct log_position b = numbers.positions[i];
        assert_true(a.segment < b.segment || (a.segment == b.segment && a.offset <= b.offset));
    }
}

TEST(tickets_grow_and_durable_is_not_ahead_of_written)
{
    struct log *log = open_started();
    uint64_t before = 0;
    for (unsigned i = 0; i < 5000; i++) {
        uint64_t ticket = append_number(log, i);
        assert_true(ticket > before);
        before = ticket;
        uint64_t durable = log_reached(log, 0, LOG_DURABLE);
        assert_true(durable <= log_reached(log, 0, LOG_WRITTEN));
        assert_true(durable <= ticket);
    }
    wait_for(log, LOG_DURABLE, before);
    assert_int_equal(log_reached(log, 0, LOG_WRITTEN), before);
    log_close(log);
}

static const size_t sizes[] = {1, 2, 126, 127, 128, 129, 4095, 16383, 16384, 65536, 300000};
static char bytes_of_all[LOG_SECTION_BYTES_MAX];

static void fill_bytes(void)
{
    for (size_t i = 0; i < sizeof(bytes_of_all); i++)
        bytes_of_all[i] = (char)(i * 131 >> 5);
}

static enum err expect_size(void *arg, struct slice section, struct log_position next,
                            struct error *error)
{
    (void)next;
    (void)error;
    size_t size = sizes[(*(unsigned *)arg)++];
    assert_true(slice_equal(section, (struct slice){bytes_of_all, size}));
    return ERR_OK;
}

TEST(sections_of_every_size_come_back_as_they_were)
{
    unsigned count = sizeof(sizes) / sizeof(sizes[0]);
    fill_bytes();
    struct log *log = open_started();
    for (unsigned i = 0; i < count; i++)
        log_append(log, (struct slice){bytes_of_all, sizes[i]}, (struct slice){0});
    log_close(log);

    log = form->open(folder);
    unsigned seen = 0;
    assert_int_equal(log_read(log, (struct log_position){0}, expect_size, &seen, NULL, NULL),
                     ERR_OK);
    assert_int_equal(seen, count);
    log_close(log);
}

static enum err expect_largest(void *arg, struct slice section, struct log_position next,
                               struct error *error)
{
    (void)next;
    (void)error;
    struct slice expected = *(struct slice *)arg;
    assert_true(slice_equal(section, expected));
    return ERR_OK;
}

TEST(header_and_body_are_one_section_up_to_the_largest)
{
    fill_bytes();
    struct slice whole = {bytes_of_all, sizeof(bytes_of_all)};

    struct log *log = open_started();
    for (size_t cut = 1; cut <= whole.size; cut *= 2)
        log_append(log, (struct slice){whole.data, cut},
                   (struct slice){whole.data + cut, whole.size - cut});
    log_close(log);

    log = form->open(folder);
    assert_int_equal(log_read(log, (struct log_position){0}, expect_largest, &whole, NULL, NULL),
                     ERR_OK);
    log_close(log);
}

static enum err refuse_third(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    (void)section;
    (void)next;
    return ++*(unsigned *)arg == 3 ? error_set(error, ERR_TIMEOUT, "enough") : ERR_OK;
}

TEST(an_error_of_the_visitor_ends_the_reading_and_comes_back)
{
    struct log *log = open_started();
    for (unsigned i = 0; i < 10; i++)
        append_number(log, i);
    log_close(log);

    log = form->open(folder);
    unsigned count = 0;
    struct error error = {0};
    assert_int_equal(log_read(log, (struct log_position){0}, refuse_third, &count, NULL, &error),
                     ERR_TIMEOUT);
    assert_string_equal(error.text, "enough");
    assert_int_equal(count, 3);
    log_close(log);
}

static void count_progress(void *arg)
{
    __atomic_add_fetch((unsigned *)arg, 1, __ATOMIC_RELAXED);
}

TEST(progress_is_told)
{
    struct log *log = form->open(folder);
    unsigned told = 0;
    callback_set(&log->progress, count_progress, &told);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    wait_for(log, LOG_DURABLE, append_number(log, 0));
    log_close(log);
    assert_true(__atomic_load_n(&told, __ATOMIC_RELAXED) > 0);
}

/* ---- many threads ---- */

#define WRITERS           4u
#define SECTIONS_A_WRITER 5000u

struct writer {
    struct log *log;
    unsigned number;
};

static void *write_sections(void *arg)
{
    struct writer *writer = arg;
    uint64_t before = 0;
    for (unsigned i = 0; i < SECTIONS_A_WRITER; i++) {
        while (log_room(writer->log) != ERR_OK)
            usleep(100);
        uint32_t body[2] = {writer->number, i};
        uint64_t ticket =
            log_append(writer->log, SLICE("w"), (struct slice){(const char *)body, sizeof(body)});
        if (ticket <= before)
            abort();
        before = ticket;
    }
    return NULL;
}

static enum err expect_writers(void *arg, struct slice section, struct log_position next,
                               struct error *error)
{
    (void)next;
    (void)error;
    unsigned *counts = arg;
    uint32_t body[2];
    assert_int_equal(section.size, 1 + sizeof(body));
    memcpy(body, section.data + 1, sizeof(body));
    assert_true(body[0] < WRITERS);
    assert_int_equal(body[1], counts[body[0]]);
    counts[body[0]]++;
    return ERR_OK;
}

TEST(sections_of_one_thread_keep_their_order_among_those_of_others)
{
    struct log *log = open_started();
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){log, i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_sections, &writers[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    log_close(log);

    unsigned counts[WRITERS] = {0};
    log = form->open(folder);
    assert_int_equal(log_read(log, (struct log_position){0}, expect_writers, counts, NULL, NULL),
                     ERR_OK);
    log_close(log);
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(counts[i], SECTIONS_A_WRITER);
}

TEST(stats_count_what_was_committed)
{
    struct log *log = open_started();
    uint64_t ticket = 0;
    for (unsigned i = 0; i < 100; i++)
        ticket = append_number(log, i);
    wait_for(log, LOG_DURABLE, ticket);
    struct log_stats stats;
    log_stats(log, &stats);
    assert_int_equal(stats.sections, 100);
    assert_int_equal(stats.pending_bytes, 0);
    assert_true(stats.groups >= 1 && stats.groups <= 100);
    assert_true(stats.bytes > 0 && stats.sync_ns >= stats.sync_ns_max);
    assert_int_equal(stats.full_since_ms, 0);
    log_close(log);
}

/* ---- following ---- */

static bool is_same(struct log_position a, struct log_position b)
{
    return a.segment == b.segment && a.offset == b.offset;
}

/* Follows until there is nothing new; in steps of `limit` bytes. */
static void follow_all(struct log *log, struct log_position *at, uint64_t limit,
                       log_visit_fn *visit, void *arg)
{
    struct log_position before;
    do {
        before = *at;
        struct error error = {0};
        if (log_follow(log, 0, at, limit, visit, arg, &error))
            fail_msg("%s", error.text);
        assert_false(log_position_is_before(*at, before));
    } while (!is_same(*at, before));
}

static void append_numbers(struct log *log, unsigned from, unsigned to)
{
    uint64_t ticket = 0;
    for (unsigned i = from; i < to; i++)
        ticket = append_number(log, i);
    wait_for(log, LOG_DURABLE, ticket);
}

TEST(what_is_durable_can_be_followed_and_ends_at_the_end)
{
    struct log *log = open_started();
    static struct numbers seen;
    seen = (struct numbers){0};
    struct log_position at = {0};
    follow_all(log, &at, 1, expect_number, &seen);
    assert_int_equal(seen.next, 0);
    for (unsigned i = 0; i < 3000; i += 300) {
        append_numbers(log, i, i + 300);
        follow_all(log, &at, i, expect_number, &seen);
        assert_int_equal(seen.next, i + 300);
        assert_true(is_same(at, log_end(log, 0)));
    }
    log_close(log);
}

static void assert_same_rest(struct log *log, const struct numbers *all, unsigned i)
{
    unsigned next = i;
    while (next < all->next && is_same(all->positions[next], all->positions[i]))
        next++;
    static struct numbers rest;
    rest = (struct numbers){.next = next};
    struct log_position at = all->positions[i];
    follow_all(log, &at, 1000, expect_number, &rest);
    assert_int_equal(rest.next, all->next);
}

TEST(following_goes_on_from_any_remembered_position_also_of_an_earlier_process)
{
    struct log *log = NULL;
    for (unsigned start = 0; start < 3; start++) {
        log = open_started();
        for (unsigned i = 0; i < 200; i++)
            wait_for(log, LOG_WRITTEN, append_number(log, start * 200 + i));
        if (start < 2)
            log_close(log);
    }
    wait_for(log, LOG_DURABLE, 200);
    static struct numbers followed;
    followed = (struct numbers){0};
    struct log_position at = {0};
    follow_all(log, &at, 5000, expect_number, &followed);
    assert_int_equal(followed.next, 600);
    for (unsigned i = 0; i < 600; i += 7)
        assert_same_rest(log, &followed, i);
    log_close(log);

    /* Reading gives out the same positions, and takes them. */
    static struct numbers read;
    read = (struct numbers){0};
    read_numbers((struct log_position){0}, &read);
    assert_memory_equal(read.positions, followed.positions, sizeof(read.positions));
    log = open_started();
    for (unsigned i = 0; i < 600; i += 13)
        assert_same_rest(log, &read, i);
    log_close(log);
}

TEST(segments_and_end_are_known_before_the_start)
{
    struct log *log = open_started();
    append_numbers(log, 0, 100);
    assert_int_equal(log_rotate(log, NULL), ERR_OK);
    append_numbers(log, 100, 200);
    struct log_segment segments[64];
    size_t count = log_segments(log, segments, 64);
    log_close(log);

    log = form->open(folder);
    assert_int_equal(log_segments(log, segments, 64), count);
    unsigned seen = 0;
    assert_int_equal(log_read(log, (struct log_position){0}, count_section, &seen, NULL, NULL),
                     ERR_OK);
    assert_int_equal(seen, 200);
    struct log_position end = log_end(log, 0);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    assert_true(is_same(end, log_end(log, 0)));
    log_close(log);

    log = form->open(folder); /* the segment of that start stayed empty */
    assert_int_equal(log_read(log, end, count_section, &seen, NULL, NULL), ERR_OK);
    assert_int_equal(seen, 200);
    assert_true(is_same(end, log_end(log, 0)));
    log_close(log);
}

TEST(the_beginning_of_every_segment_is_a_position)
{
    struct log *log = open_started();
    for (unsigned i = 0; i < 4; i++) {
        append_number(log, i);
        assert_int_equal(log_rotate(log, NULL), ERR_OK);
    }
    struct log_segment segments[64];
    size_t count = log_segments(log, segments, 64);
    assert_int_equal(count, 5);
    for (unsigned i = 0; i < count; i++) {
        static struct numbers rest;
        rest = (struct numbers){.next = i};
        struct log_position at = {.segment = segments[i].number};
        follow_all(log, &at, 1, expect_number, &rest);
        assert_int_equal(rest.next, 4);
    }
    log_close(log);
    for (unsigned i = 0; i < count; i++) {
        static struct numbers rest;
        rest = (struct numbers){.next = i};
        read_numbers((struct log_position){.segment = segments[i].number}, &rest);
        assert_int_equal(rest.next, 4);
    }
}

TEST(a_follower_comes_to_the_end_also_when_the_last_segment_is_empty)
{
    struct log *log = open_started();
    static struct numbers all;
    all = (struct numbers){0};
    struct log_position at = {0};
    append_numbers(log, 0, 3);
    follow_all(log, &at, 1 << 20, expect_number, &all);
    assert_true(is_same(at, log_end(log, 0)));
    assert_int_equal(log_rotate(log, NULL), ERR_OK);
    follow_all(log, &at, 1 << 20, expect_number, &all);
    assert_true(is_same(at, log_end(log, 0)));
    wait_for(log, LOG_DURABLE, append_number(log, 3));
    follow_all(log, &at, 1 << 20, expect_number, &all);
    assert_int_equal(all.next, 4);
    log_close(log);
}

TEST(a_visitor_that_refuses_is_asked_again_for_the_same_group)
{
    struct log *log = open_started();
    for (unsigned i = 0; i < 10; i++)
        wait_for(log, LOG_DURABLE, append_number(log, i));
    unsigned count = 0;
    struct error error = {0};
    struct log_position at = {0};
    assert_int_equal(log_follow(log, 0, &at, 1 << 20, refuse_third, &count, &error), ERR_TIMEOUT);
    assert_string_equal(error.text, "enough");
    static struct numbers rest;
    rest = (struct numbers){.next = 2};
    follow_all(log, &at, 1 << 20, expect_number, &rest);
    assert_int_equal(rest.next, 10);
    log_close(log);
}

TEST(a_position_behind_the_end_is_refused)
{
    struct log *log = open_started();
    append_numbers(log, 0, 3);
    struct log_position at = log_end(log, 0);
    at.segment += 7;
    unsigned count = 0;
    struct error error = {0};
    assert_int_equal(log_follow(log, 0, &at, 1, count_section, &count, &error), ERR_INVALID);
    assert_int_equal(count, 0);
    log_close(log);
}

/* ---- segments ---- */

static size_t segments_of(struct log *log, struct log_segment segments[64])
{
    size_t count = log_segments(log, segments, 64);
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(segments[i].number, segments[0].number + i);
        assert_int_equal(segments[i].sealed, i + 1 < count);
        assert_true(segments[i].bytes > 0 && segments[i].created_ms > 0);
    }
    struct log_stats stats;
    log_stats(log, &stats);
    assert_int_equal(stats.segments, count);
    return count;
}

TEST(rotating_seals_what_was_appended_before)
{
    struct log *log = open_started();
    struct log_segment segments[64];
    for (unsigned i = 0; i < 10; i++) {
        append_number(log, i);
        struct error error = {0};
        if (log_rotate(log, &error))
            fail_msg("%s", error.text);
        assert_int_equal(log_reached(log, 0, LOG_DURABLE), i + 1);
        assert_int_equal(segments_of(log, segments), i + 2);
        assert_true(log_end(log, 0).segment < segments[i + 1].number);
    }
    assert_int_equal(log_rotate(log, NULL), ERR_OK); /* there is nothing to seal */
    assert_int_equal(segments_of(log, segments), 11);
    log_close(log);

    struct numbers numbers = {0};
    read_numbers((struct log_position){0}, &numbers);
    assert_int_equal(numbers.next, 10);
}

static void append_segments(struct log *log, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        append_number(log, i);
        assert_int_equal(log_rotate(log, NULL), ERR_OK);
    }
}

TEST(trimming_removes_the_oldest_segments_and_no_others)
{
    struct log *log = open_started();
    append_segments(log, 0, 8);
    struct log_segment segments[64];
    assert_int_equal(segments_of(log, segments), 9);
    struct log_stats before;
    log_stats(log, &before);

    assert_int_equal(log_trim(log, segments[5].number, NULL), ERR_OK);
    assert_int_equal(log_trim(log, segments[3].number, NULL), ERR_OK);
    uint64_t first = segments[5].number;
    assert_int_equal(segments_of(log, segments), 4);
    assert_int_equal(segments[0].number, first);
    struct log_stats after;
    log_stats(log, &after);
    assert_true(after.disk_bytes < before.disk_bytes);

    static struct numbers rest;
    rest = (struct numbers){.next = 5};
    struct log_position at = {0};
    follow_all(log, &at, 1, expect_number, &rest);
    assert_int_equal(rest.next, 8);
    log_close(log);
    rest = (struct numbers){.next = 5};
    read_numbers((struct log_position){0}, &rest);
    assert_int_equal(rest.next, 8);
}

TEST(a_trimmed_position_is_not_found)
{
    struct log *log = open_started();
    append_segments(log, 0, 6);
    static struct numbers all;
    all = (struct numbers){0};
    struct log_position at = {0};
    follow_all(log, &at, 1 << 20, expect_number, &all);
    assert_int_equal(log_trim(log, all.positions[4].segment, NULL), ERR_OK);

    for (unsigned i = 0; i < 3; i++) {
        struct error error = {0};
        unsigned count = 0;
        at = all.positions[i];
        assert_int_equal(log_follow(log, 0, &at, 1, count_section, &count, &error), ERR_NOT_FOUND);
        assert_non_null(strstr(error.text, "trimmed"));
    }
    /* At the end of what was trimmed, nothing is missing. */
    for (unsigned i = 3; i < 6; i++)
        assert_same_rest(log, &all, i);
    log_close(log);

    log = form->open(folder);
    unsigned count = 0;
    struct error error = {0};
    assert_int_equal(log_read(log, all.positions[2], count_section, &count, NULL, &error),
                     ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "trimmed"));
    assert_int_equal(log_read(log, all.positions[3], count_section, &count, NULL, &error), ERR_OK);
    assert_int_equal(count, 2);
    log_close(log);
}

TEST(everything_but_the_segment_in_use_may_be_trimmed)
{
    struct log *log = open_started();
    append_segments(log, 0, 4);
    struct log_position end = log_end(log, 0);
    assert_int_equal(log_trim(log, UINT64_MAX, NULL), ERR_OK);
    struct log_segment segments[64];
    assert_int_equal(segments_of(log, segments), 1);
    for (unsigned start = 0; start < 3; start++) {
        log_close(log);
        log = open_started();
        assert_true(is_same(log_end(log, 0), end));
    }
    append_numbers(log, 4, 9);
    static struct numbers rest;
    rest = (struct numbers){.next = 4};
    follow_all(log, &end, 1, expect_number, &rest);
    assert_int_equal(rest.next, 9);
    log_close(log);
}

static bool blank_odd(void *arg, char *section, size_t size)
{
    unsigned *calls = arg;
    ++*calls;
    if ((section[size - 1] - '0') % 2 == 0)
        return false;
    memset(section + 2, '~', size - 2);
    return true;
}

static enum err expect_blanked(void *arg, struct slice section, struct log_position next,
                               struct error *error)
{
    (void)next;
    (void)error;
    char expected[32];
    unsigned number = (*(unsigned *)arg)++;
    int size = snprintf(expected, sizeof(expected), "n=%u", number);
    if (number % 2 == 1)
        memset(expected + 2, '~', (size_t)size - 2);
    assert_true(slice_equal(section, (struct slice){expected, (size_t)size}));
    return ERR_OK;
}

static bool folder_contains(const char *text)
{
    char command[160];
    snprintf(command, sizeof(command), "grep -rqa '%s' %s", text, folder);
    return system(command) == 0; /* NOLINT: our own name */
}

TEST(scrubbing_changes_bytes_and_nothing_else)
{
    struct log *log = open_started();
    append_numbers(log, 0, 2000);
    assert_int_equal(log_rotate(log, NULL), ERR_OK);
    struct log_position end = log_end(log, 0);
    struct log_segment segments[64];
    size_t count = segments_of(log, segments);
    assert_true(folder_contains("n=1999"));
    static struct numbers old; /* a follower that has seen the old bytes forgets them */
    old = (struct numbers){0};
    struct log_position at = {0};
    follow_all(log, &at, 1 << 20, expect_number, &old);

    uint64_t changed_all = 0;
    unsigned calls = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        uint64_t changed;
        struct error error = {0};
        if (log_scrub(log, segments[i].number, blank_odd, &calls, &changed, &error))
            fail_msg("%s", error.text);
        changed_all += changed;
    }
    assert_int_equal(calls, 2000);
    assert_int_equal(changed_all, 1000);
    assert_false(folder_contains("n=1999"));
    assert_true(folder_contains("n=1998"));
    assert_true(is_same(log_end(log, 0), end));

    unsigned seen = 0;
    at = (struct log_position){0};
    follow_all(log, &at, 100, expect_blanked, &seen);
    assert_int_equal(seen, 2000);
    log_close(log);
    log = form->open(folder);
    seen = 0;
    assert_int_equal(log_read(log, (struct log_position){0}, expect_blanked, &seen, NULL, NULL),
                     ERR_OK);
    assert_int_equal(seen, 2000);
    log_close(log);
}

TEST(only_sealed_segments_are_scrubbed)
{
    struct log *log = open_started();
    append_segments(log, 0, 3);
    struct log_segment segments[64];
    size_t count = segments_of(log, segments);
    unsigned calls = 0;
    uint64_t changed;
    assert_int_equal(log_scrub(log, segments[count - 1].number, blank_odd, &calls, &changed, NULL),
                     ERR_INVALID);
    assert_int_equal(log_trim(log, segments[2].number, NULL), ERR_OK);
    assert_int_equal(log_scrub(log, segments[1].number, blank_odd, &calls, &changed, NULL),
                     ERR_NOT_FOUND);
    assert_int_equal(calls, 0);
    log_close(log);
}

/* ---- following beside everything else ---- */

#define FOLLOWED 20000u

struct follower {
    struct log *log;
    struct log_position at;
    unsigned next;
};

static enum err follow_number(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    struct follower *follower = arg;
    char expected[32];
    int size = snprintf(expected, sizeof(expected), "n=%u", follower->next);
    if (section.size != (size_t)size || memcmp(section.data, expected, 2) != 0 ||
        (section.data[2] != '~' && memcmp(section.data, expected, section.size) != 0) ||
        next.segment < follower->at.segment)
        return error_set(error, ERR_CORRUPT, "not number %u", follower->next);
    follower->next++;
    return ERR_OK;
}

static void *run_follower(void *arg)
{
    struct follower *follower = arg;
    while (follower->next < FOLLOWED) {
        struct log_position before = follower->at;
        struct error error;
        if (log_follow(follower->log, 0, &follower->at, 10000, follow_number, follower, &error)) {
            fprintf(stderr, "%s\n", error.text);
            abort();
        }
        if (is_same(before, follower->at))
            usleep(200);
    }
    return NULL;
}

/* Two followers, while segments are sealed and written anew under their hands. */
TEST(followers_see_everything_beside_rotating_and_scrubbing)
{
    struct log *log = open_started();
    struct follower followers[2] = {{.log = log}, {.log = log}};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_follower, &followers[i]), 0);

    for (unsigned i = 0; i < FOLLOWED; i++) {
        append_number(log, i);
        if (i % 500 == 499)
            assert_int_equal(log_rotate(log, NULL), ERR_OK);
        if (i % 1000 == 999) {
            struct log_segment segments[64];
            size_t count = log_segments(log, segments, 64);
            unsigned calls = 0;
            uint64_t changed;
            uint64_t number = segments[count / 2 < 63 ? count / 2 : 63].number;
            enum err err = log_scrub(log, number, blank_odd, &calls, &changed, NULL);
            assert_true(err == ERR_OK || err == ERR_INVALID);
        }
    }
    wait_for(log, LOG_DURABLE, FOLLOWED);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(is_same(followers[0].at, followers[1].at));
    log_close(log);
}

/* As the aggregator does it: what it has seen may go. */
TEST(a_log_that_is_trimmed_behind_its_reader_stays_small)
{
    struct log *log = open_started();
    struct follower follower = {.log = log};
    for (unsigned i = 0; i < 2000; i++) {
        append_number(log, i);
        if (i % 100 != 99)
            continue;
        assert_int_equal(log_rotate(log, NULL), ERR_OK);
        follow_all(log, &follower.at, 100, follow_number, &follower);
        assert_int_equal(follower.next, i + 1);
        assert_int_equal(log_trim(log, follower.at.segment, NULL), ERR_OK);
        struct log_segment segments[64];
        assert_true(segments_of(log, segments) <= 2);
    }
    log_close(log);
    log = form->open(folder);
    unsigned count = 0;
    assert_int_equal(log_read(log, follower.at, count_section, &count, NULL, NULL), ERR_OK);
    assert_int_equal(count, 0);
    log_close(log);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROMISE(a_new_log_is_empty_and_has_room),
        PROMISE(what_was_durable_is_read_in_the_order_of_appending),
        PROMISE(closing_makes_what_was_appended_durable),
        PROMISE(many_starts_make_one_log),
        PROMISE(reading_goes_on_from_any_remembered_position),
        PROMISE(positions_grow),
        PROMISE(tickets_grow_and_durable_is_not_ahead_of_written),
        PROMISE(sections_of_every_size_come_back_as_they_were),
        PROMISE(header_and_body_are_one_section_up_to_the_largest),
        PROMISE(an_error_of_the_visitor_ends_the_reading_and_comes_back),
        PROMISE(progress_is_told),
        PROMISE(sections_of_one_thread_keep_their_order_among_those_of_others),
        PROMISE(stats_count_what_was_committed),
        PROMISE(what_is_durable_can_be_followed_and_ends_at_the_end),
        PROMISE(following_goes_on_from_any_remembered_position_also_of_an_earlier_process),
        PROMISE(segments_and_end_are_known_before_the_start),
        PROMISE(the_beginning_of_every_segment_is_a_position),
        PROMISE(a_follower_comes_to_the_end_also_when_the_last_segment_is_empty),
        PROMISE(a_visitor_that_refuses_is_asked_again_for_the_same_group),
        PROMISE(a_position_behind_the_end_is_refused),
        PROMISE(rotating_seals_what_was_appended_before),
        PROMISE(trimming_removes_the_oldest_segments_and_no_others),
        PROMISE(a_trimmed_position_is_not_found),
        PROMISE(everything_but_the_segment_in_use_may_be_trimmed),
        PROMISE(scrubbing_changes_bytes_and_nothing_else),
        PROMISE(only_sealed_segments_are_scrubbed),
        PROMISE(followers_see_everything_beside_rotating_and_scrubbing),
        PROMISE(a_log_that_is_trimmed_behind_its_reader_stays_small),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        form = &forms[i];
        failed += cmocka_run_group_tests_name(form->name, tests, NULL, NULL);
    }
    return failed;
}
