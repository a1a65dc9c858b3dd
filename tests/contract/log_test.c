/* log_test.c - what core/log.h promises, asked of every log there is.
 *
 * To add a log, write an opener and put a line into `forms`. */
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
    while (log_reached(log, level) < ticket)
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
    assert_int_equal(log_reached(log, LOG_DURABLE), 0);
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
        uint64_t durable = log_reached(log, LOG_DURABLE);
        assert_true(durable <= log_reached(log, LOG_WRITTEN));
        assert_true(durable <= ticket);
    }
    wait_for(log, LOG_DURABLE, before);
    assert_int_equal(log_reached(log, LOG_WRITTEN), before);
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
    log->progress = count_progress;
    log->progress_arg = &told;
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
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        form = &forms[i];
        failed += cmocka_run_group_tests_name(form->name, tests, NULL, NULL);
    }
    return failed;
}
