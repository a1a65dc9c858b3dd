#include "server/textfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"

static struct error error;
static char path[64];

static void write_file(const void *bytes, size_t size, mode_t mode)
{
    memcpy(path, "/tmp/tally-textfile-XXXXXX", sizeof("/tmp/tally-textfile-XXXXXX"));
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

TEST(a_file_is_read_whole)
{
    char bytes[10000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    write_file(bytes, sizeof(bytes), 0644);

    struct buffer text;
    buffer_init(&text, sizeof(bytes));
    assert_int_equal(textfile_read(path, TEXTFILE_OPEN, &text, &error), ERR_OK);
    assert_int_equal(text.size, sizeof(bytes));
    assert_memory_equal(text.data, bytes, sizeof(bytes));
    buffer_done(&text);
    unlink(path);
}

TEST(a_file_that_is_too_large_is_refused)
{
    write_file("12345", 5, 0644);
    struct buffer text;
    buffer_init(&text, 4);
    assert_int_equal(textfile_read(path, TEXTFILE_OPEN, &text, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "larger than 4 bytes"));
    buffer_done(&text);
    unlink(path);
}

TEST(a_folder_is_no_file)
{
    struct buffer text;
    buffer_init(&text, 100);
    assert_int_equal(textfile_read("/tmp", TEXTFILE_OPEN, &text, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "/tmp"));
    buffer_done(&text);
}

TEST(a_secret_is_the_first_line)
{
    char secret[16];
    write_file("open sesame", 11, 0600);
    assert_int_equal(textfile_read_secret(path, secret, sizeof(secret), &error), ERR_OK);
    assert_string_equal(secret, "open sesame");
    unlink(path);

    write_file("open\r\nsesame\n", 13, 0600);
    assert_int_equal(textfile_read_secret(path, secret, sizeof(secret), &error), ERR_OK);
    assert_string_equal(secret, "open");
    unlink(path);
}

TEST(a_secret_that_does_not_fit_or_is_no_text_is_refused)
{
    char secret[5];
    write_file("12345\n", 6, 0600);
    assert_int_equal(textfile_read_secret(path, secret, sizeof(secret), &error), ERR_INVALID);
    assert_null(strstr(error.text, "12345"));
    unlink(path);

    write_file("1\0002\n", 4, 0600);
    assert_int_equal(textfile_read_secret(path, secret, sizeof(secret), &error), ERR_INVALID);
    unlink(path);

    write_file("", 0, 0600);
    assert_int_equal(textfile_read_secret(path, secret, sizeof(secret), &error), ERR_INVALID);
    unlink(path);
}

RUN(cmocka_unit_test(a_file_is_read_whole), cmocka_unit_test(a_file_that_is_too_large_is_refused),
    cmocka_unit_test(a_folder_is_no_file), cmocka_unit_test(a_secret_is_the_first_line),
    cmocka_unit_test(a_secret_that_does_not_fit_or_is_no_text_is_refused))
