#include "core/kind_names.h"

#include <string.h>

#include "unit/test.h"

static void add(struct kind_names *kinds, const char *name)
{
    kinds->count++;
    kinds->sizes[kinds->count] = (uint8_t)strlen(name);
    memcpy(kinds->names[kinds->count], name, strlen(name));
}

TEST(names_have_the_numbers_that_they_were_given)
{
    struct kind_names kinds = {0};
    add(&kinds, "like");
    add(&kinds, "wow");
    assert_int_equal(kind_names_find(&kinds, SLICE("like")), 1);
    assert_int_equal(kind_names_find(&kinds, SLICE("wow")), 2);
    assert_true(slice_equal(kind_names_at(&kinds, 2), SLICE("wow")));
}

TEST(nothing_is_no_kind_and_one_that_was_never_met_has_no_number)
{
    struct kind_names kinds = {0};
    add(&kinds, "like");
    assert_int_equal(kind_names_find(&kinds, SLICE("")), 0);
    assert_int_equal(kind_names_find(&kinds, SLICE("lik")), SETS_KINDS);
    assert_int_equal(kind_names_at(&kinds, 0).size, 0);
    assert_int_equal(kind_names_at(&kinds, 2).size, 0);
}

TEST(what_could_not_stand_in_json_gets_no_number)
{
    struct kind_names kinds = {0};
    char longest[LIMIT_KIND_BYTES + 1];
    memset(longest, 'k', sizeof(longest));
    assert_true(kind_names_may_add(&kinds, (struct slice){longest, LIMIT_KIND_BYTES}));
    assert_false(kind_names_may_add(&kinds, (struct slice){longest, LIMIT_KIND_BYTES + 1}));
    assert_false(kind_names_may_add(&kinds, SLICE("a\"b")));
    assert_false(kind_names_may_add(&kinds, SLICE("a\\b")));
    assert_false(kind_names_may_add(&kinds, SLICE("a\nb")));
}

TEST(there_are_as_many_numbers_as_sets_have_kinds)
{
    struct kind_names kinds = {0};
    while (kind_names_may_add(&kinds, SLICE("kind")))
        add(&kinds, "kind");
    assert_int_equal(kinds.count, SETS_KINDS - 1);
}

RUN(cmocka_unit_test(names_have_the_numbers_that_they_were_given),
    cmocka_unit_test(nothing_is_no_kind_and_one_that_was_never_met_has_no_number),
    cmocka_unit_test(what_could_not_stand_in_json_gets_no_number),
    cmocka_unit_test(there_are_as_many_numbers_as_sets_have_kinds))
