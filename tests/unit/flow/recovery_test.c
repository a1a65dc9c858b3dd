#include "flow/recovery.h"

#include <unistd.h>

#include "core/event.h"
#include "unit/flow/rig.h"

static void add(struct rig *rig, const char *id, int64_t amount)
{
    struct op op = {.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
    rig_run(rig, &op);
    assert_int_equal(op.code, ERR_OK);
    rig_commit(rig);
}

static void react(struct rig *rig, const char *item, const char *user, uint8_t kind)
{
    struct op op = {
        .kind = OP_REACT, .id = slice_of(item), .user = slice_of(user), .reaction = kind};
    rig_run(rig, &op);
    assert_int_equal(op.code, ERR_OK);
    rig_commit(rig);
}

static int64_t value_of(struct rig *rig, const char *id)
{
    struct op op = {.kind = OP_GET, .id = slice_of(id)};
    rig_run(rig, &op);
    assert_int_equal(op.code, ERR_OK);
    assert_null(op.value.big);
    return op.value.small;
}

/* Puts a section of any bytes into the log. */
static void append(struct rig *rig, struct slice bytes)
{
    log_append(rig->log, (struct slice){bytes.data, 1},
               (struct slice){bytes.data + 1, bytes.size - 1});
    rig_commit(rig);
}

TEST(an_empty_log_brings_nothing_back)
{
    struct rig *rig = rig_new();
    struct recovery recovery = rig_recover(rig);
    assert_int_equal(recovery.events, 0);
    assert_int_equal(recovery.sections, 0);
    assert_int_equal(recovery.bytes, 0);
    rig_free(rig);
}

TEST(what_was_counted_is_there_after_a_restart)
{
    struct rig *rig = rig_new();
    rig_recover(rig);
    add(rig, "views", 5);
    add(rig, "views", -2);
    react(rig, "video1", "ann", 1);
    react(rig, "video1", "bob", 1);
    react(rig, "video1", "ann", 2);

    for (unsigned restart = 0; restart < 3; restart++) {
        rig_close(rig);
        rig_open(rig);
        struct recovery recovery = rig_recover(rig);
        assert_int_equal(recovery.events, 5);
        assert_int_equal(recovery.sections, 5);
        assert_true(recovery.bytes > 0);
        assert_int_equal(value_of(rig, "views"), 3);
        assert_int_equal(value_of(rig, "video1/like"), 1);
        assert_int_equal(value_of(rig, "video1/dislike"), 1);
    }
    rig_free(rig);
}

TEST(a_section_that_cannot_be_read_stops_it_and_names_the_place)
{
    struct rig *rig = rig_new();
    rig_recover(rig);
    add(rig, "views", 5);
    append(rig, SLICE("\x01\x02\x01\x01\x0f"));
    rig_close(rig);
    rig_open(rig);

    struct recovery recovery = {.events = 77};
    struct error error = {.text = ""};
    assert_int_equal(
        recovery_run(&rig->env, rig->log, rig->hot, (struct log_position){0}, &recovery, &error),
        ERR_CORRUPT);
    assert_non_null(strstr(error.text, "segment 1, offset "));
    assert_non_null(strstr(error.text, "byte 4 of a section: the event is of an unknown type"));
    assert_int_equal(recovery.events, 77);
    rig_free(rig);
}

/* What `recovery_run` says on stderr. */
static void recover_and_listen(struct rig *rig, char *to, size_t size)
{
    FILE *heard = tmpfile();
    assert_non_null(heard);
    fflush(stderr);
    int stderr_fd = dup(STDERR_FILENO);
    assert_true(stderr_fd >= 0 && dup2(fileno(heard), STDERR_FILENO) >= 0);
    rig_recover(rig);
    fflush(stderr);
    assert_true(dup2(stderr_fd, STDERR_FILENO) >= 0);
    close(stderr_fd);

    rewind(heard);
    size_t read = fread(to, 1, size - 1, heard);
    to[read] = '\0';
    fclose(heard);
}

/* Enough that the log tells of its reading on the way. */
static void fill_log(struct rig *rig, size_t bytes)
{
    char id[LIMIT_ID_BYTES];
    memset(id, 'x', sizeof(id));
    struct section section;
    section_init(&section);
    uint64_t sequence = 1;
    for (size_t written = 0; written < bytes;) {
        while (!section_is_full(&section))
            section_add(&section, 0, (struct slice){id, sizeof(id)}, 1, (struct slice){0});
        char header[SECTION_HEADER_MAX];
        size_t size = section_header(&section, 0, sequence, rig->now_ms, header);
        log_append(rig->log, (struct slice){header, size}, buffer_slice(&section.body));
        rig_commit(rig);
        written += size + section.body.size;
        sequence += section.count;
        section_clear(&section);
    }
    section_done(&section);
}

TEST(a_long_recovery_tells_how_far_it_is_and_a_short_one_keeps_quiet)
{
    struct rig *rig = rig_new();
    rig_recover(rig);
    fill_log(rig, 20 << 20);

    char heard[4096];
    rig_close(rig);
    rig_open(rig);
    rig->monotonic_step_ns = 100000000;
    recover_and_listen(rig, heard, sizeof(heard));
    assert_null(strstr(heard, "replaying the log"));

    rig_close(rig);
    rig_open(rig);
    rig->monotonic_step_ns = 2000000000;
    recover_and_listen(rig, heard, sizeof(heard));
    char *line = strstr(heard, "replaying the log percent=");
    assert_non_null(line);
    assert_non_null(strstr(line, " events="));
    assert_non_null(strstr(line, " left_s="));
    rig_free(rig);
}

/* --- does it fit? --- */

static struct log_position after_closing(struct rig *rig)
{
    struct log_position end = log_end(rig->log, 0);
    rig_close(rig);
    rig_open(rig);
    return end;
}

static void assert_fits_not(struct rig *rig, uint64_t segment, uint64_t offset, const char *why)
{
    struct state_mark mark = {.position = {segment, offset}};
    struct error error = {.text = ""};
    assert_int_equal(recovery_check(rig->log, &mark, &error), ERR_INVALID);
    if (!strstr(error.text, why) || !strstr(error.text, "bring back"))
        fail_msg("\"%s\" is not in \"%s\"", why, error.text);
}

TEST(a_store_that_does_not_fit_the_log_is_told_without_replaying)
{
    struct rig *rig = rig_new();
    rig_recover(rig);
    add(rig, "views", 1);
    add(rig, "views", 2);
    struct log_position end = after_closing(rig);
    struct state_mark mark = {.position = end};
    struct state_mark none = {0};
    assert_int_equal(recovery_check(rig->log, &mark, NULL), ERR_OK);
    assert_int_equal(recovery_check(rig->log, &none, NULL), ERR_OK);
    assert_int_equal(recovery_check(rig->log, NULL, NULL), ERR_OK);
    assert_fits_not(rig, end.segment, end.offset + 640, "move the store away");
    assert_fits_not(rig, end.segment, end.offset - 8, "the store does not fit the log");
    assert_fits_not(rig, end.segment + 1, 4096, "the store is at segment");
    rig_free(rig);
}

TEST(a_log_whose_beginning_is_gone_needs_the_store_that_has_it)
{
    struct rig *rig = rig_new();
    struct error error = {.text = ""};
    rig_recover(rig);
    add(rig, "views", 1);
    assert_int_equal(log_rotate(rig->log, &error), ERR_OK);
    add(rig, "views", 2);
    struct log_position end = log_end(rig->log, 0);
    assert_int_equal(log_trim(rig->log, 2, &error), ERR_OK);
    after_closing(rig);
    struct state_mark mark = {.position = end};
    struct state_mark none = {0};
    assert_int_equal(recovery_check(rig->log, &mark, NULL), ERR_OK);
    assert_int_equal(recovery_check(rig->log, &none, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "the log begins with segment 2"));
    assert_int_equal(recovery_check(rig->log, NULL, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "cannot be left out"));
    rig_free(rig);
}

RUN(cmocka_unit_test(an_empty_log_brings_nothing_back),
    cmocka_unit_test(what_was_counted_is_there_after_a_restart),
    cmocka_unit_test(a_section_that_cannot_be_read_stops_it_and_names_the_place),
    cmocka_unit_test(a_long_recovery_tells_how_far_it_is_and_a_short_one_keeps_quiet),
    cmocka_unit_test(a_store_that_does_not_fit_the_log_is_told_without_replaying),
    cmocka_unit_test(a_log_whose_beginning_is_gone_needs_the_store_that_has_it))
