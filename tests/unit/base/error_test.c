#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "unit/test.h"

TEST(setting_an_error_returns_its_code_and_keeps_its_text)
{
    struct error error;
    assert_int_equal(error_set(&error, ERR_INVALID, "%d is odd", 3), ERR_INVALID);
    assert_int_equal(error.code, ERR_INVALID);
    assert_string_equal(error.text, "3 is odd");
}

TEST(a_caller_who_wants_no_text_passes_null)
{
    assert_int_equal(error_set(NULL, ERR_IO, "nobody reads this"), ERR_IO);
    assert_int_equal(error_set_errno(NULL, ERR_IO, EIO, "nor this"), ERR_IO);
}

TEST(the_reason_of_the_system_follows_the_text)
{
    struct error error;
    assert_int_equal(error_set_errno(&error, ERR_NOT_FOUND, ENOENT, "cannot open %s", "x"),
                     ERR_NOT_FOUND);
    assert_string_equal(error.text, "cannot open x: No such file or directory");
}

TEST(a_text_too_long_is_cut_and_closed)
{
    char word[2 * sizeof(((struct error *)NULL)->text)];
    memset(word, 'a', sizeof(word));
    word[sizeof(word) - 1] = '\0';

    struct error error;
    error_set_errno(&error, ERR_IO, EIO, "%s", word);
    assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
}

TEST(every_code_has_a_meaning)
{
#define X(code, meaning) assert_string_equal(err_meaning(code), meaning);
    ERR_LIST(X)
#undef X
}

RUN(cmocka_unit_test(setting_an_error_returns_its_code_and_keeps_its_text),
    cmocka_unit_test(a_caller_who_wants_no_text_passes_null),
    cmocka_unit_test(the_reason_of_the_system_follows_the_text),
    cmocka_unit_test(a_text_too_long_is_cut_and_closed), cmocka_unit_test(every_code_has_a_meaning))
