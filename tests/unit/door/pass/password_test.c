#include "door/pass/password.h"

#include "unit/test.h"

TEST(only_the_whole_password_is_the_password)
{
    struct password password = {.size = 0};
    password_init(&password, "sesame");
    assert_true(password_is_set(&password));
    assert_true(password_is(&password, SLICE("sesame")));
    assert_false(password_is(&password, SLICE("sesam")));
    assert_false(password_is(&password, SLICE("sesame\0")));
    assert_false(password_is(&password, SLICE("")));
    password_done(&password);
}

TEST(what_is_longer_than_any_password_is_none)
{
    char longest[PASSWORD_BYTES_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    longest[PASSWORD_BYTES_MAX] = '\0';
    struct password password = {.size = 0};
    password_init(&password, longest);
    assert_true(password_is(&password, (struct slice){longest, PASSWORD_BYTES_MAX}));
    assert_false(password_is(&password, (struct slice){longest, sizeof(longest)}));
    password_done(&password);
}

TEST(it_can_be_changed_and_taken_away)
{
    struct password password = {.size = 0};
    password_init(&password, NULL);
    assert_false(password_is_set(&password));
    password_set(&password, "long sesame");
    password_set(&password, "short");
    assert_true(password_is(&password, SLICE("short")));
    assert_false(password_is(&password, SLICE("long sesame")));
    password_set(&password, NULL);
    assert_false(password_is_set(&password));
    password_done(&password);
}

RUN(cmocka_unit_test(only_the_whole_password_is_the_password),
    cmocka_unit_test(what_is_longer_than_any_password_is_none),
    cmocka_unit_test(it_can_be_changed_and_taken_away))
