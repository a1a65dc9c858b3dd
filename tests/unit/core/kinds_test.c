#include "core/kinds.h"

#include <stdio.h>

#include "unit/test.h"

static struct kinds parse(const char *list)
{
    struct kinds kinds;
    assert_int_equal(kinds_parse(&kinds, slice_of(list), NULL), ERR_OK);
    return kinds;
}

TEST(kinds_are_numbered_from_one_in_their_order)
{
    struct kinds kinds = parse("like,dislike,\xf0\x9f\x91\x8d,so-so_2");
    assert_int_equal(kinds.count, 4);
    assert_int_equal(kinds_find(&kinds, SLICE("like")), 1);
    assert_int_equal(kinds_find(&kinds, SLICE("dislike")), 2);
    assert_int_equal(kinds_find(&kinds, SLICE("\xf0\x9f\x91\x8d")), 3);
    assert_int_equal(kinds_find(&kinds, SLICE("so-so_2")), 4);
    for (uint8_t kind = 1; kind <= 4; kind++)
        assert_int_equal(kinds_find(&kinds, kinds_name(&kinds, kind)), kind);
}

TEST(an_unknown_name_is_no_kind)
{
    struct kinds kinds = parse("like,dislike");
    assert_int_equal(kinds_find(&kinds, SLICE("lik")), KIND_NONE);
    assert_int_equal(kinds_find(&kinds, SLICE("likes")), KIND_NONE);
    assert_int_equal(kinds_find(&kinds, SLICE("LIKE")), KIND_NONE);
    assert_int_equal(kinds_find(&kinds, (struct slice){0}), KIND_NONE);
    assert_int_equal(kinds_name(&kinds, KIND_NONE).size, 0);
}

TEST(a_bad_list_is_refused_and_leaves_the_kinds_alone)
{
    static const char *const lists[] = {"",
                                        ",",
                                        "like,",
                                        ",like",
                                        "like,,dislike",
                                        "like,like",
                                        "Like",
                                        "li ke",
                                        "a/b",
                                        "like\n",
                                        "012345678901234567890123456789012"};
    struct kinds kinds = parse("like");
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct error error = {.text = ""};
        assert_int_not_equal(kinds_parse(&kinds, slice_of(lists[i]), &error), ERR_OK);
        assert_true(error.text[0] != '\0');
        assert_int_equal(kinds.count, 1);
    }
    assert_int_equal(kinds_parse(&kinds, (struct slice){0}, NULL), ERR_INVALID);
}

TEST(there_are_no_more_kinds_than_the_limit)
{
    char list[LIMIT_KINDS * 4 + 8];
    size_t size = 0;
    for (unsigned i = 0; i < LIMIT_KINDS; i++)
        size += (size_t)snprintf(list + size, sizeof(list) - size, "%sk%u", i > 0 ? "," : "", i);
    struct kinds kinds;
    assert_int_equal(kinds_parse(&kinds, (struct slice){list, size}, NULL), ERR_OK);
    assert_int_equal(kinds.count, LIMIT_KINDS);

    memcpy(list + size, ",x", 3);
    assert_int_equal(kinds_parse(&kinds, slice_of(list), NULL), ERR_TOO_LARGE);
}

TEST(a_name_may_be_as_long_as_the_limit)
{
    struct kinds kinds = parse("01234567890123456789012345678901");
    assert_int_equal(kinds_name(&kinds, 1).size, LIMIT_KIND_BYTES);
}

TEST(the_counter_of_a_reaction_is_split_into_item_and_kind)
{
    struct kinds kinds = parse("like,dislike");
    struct slice item;
    uint8_t kind;
    assert_true(kinds_split(&kinds, SLICE("video1/like"), &item, &kind));
    assert_true(slice_equal(item, SLICE("video1")));
    assert_int_equal(kind, 1);
    assert_true(kinds_split(&kinds, SLICE("a/b/dislike"), &item, &kind));
    assert_true(slice_equal(item, SLICE("a/b")));
    assert_int_equal(kind, 2);
    assert_true(kinds_split(&kinds, SLICE("/like/like"), &item, &kind));
    assert_true(slice_equal(item, SLICE("/like")));
}

TEST(other_ids_are_not_split)
{
    static const char *const ids[] = {"",     "like",       "/like",        "video1",       "x/lik",
                                      "/",    "video1like", "video1/likes", "video1/like/", "x/",
                                      "x/ike"};
    struct kinds kinds = parse("like,dislike");
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct slice item;
        uint8_t kind;
        assert_false(kinds_split(&kinds, slice_of(ids[i]), &item, &kind));
    }
}

RUN(cmocka_unit_test(kinds_are_numbered_from_one_in_their_order),
    cmocka_unit_test(an_unknown_name_is_no_kind),
    cmocka_unit_test(a_bad_list_is_refused_and_leaves_the_kinds_alone),
    cmocka_unit_test(there_are_no_more_kinds_than_the_limit),
    cmocka_unit_test(a_name_may_be_as_long_as_the_limit),
    cmocka_unit_test(the_counter_of_a_reaction_is_split_into_item_and_kind),
    cmocka_unit_test(other_ids_are_not_split))
