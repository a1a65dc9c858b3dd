#include "base/match.h"

#include <string.h>
#include <time.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

/* ---- the oracle: the definition, by recursion ---- */

static bool oracle(struct slice pattern, struct slice text);

static struct slice behind(struct slice slice, size_t size)
{
    return (struct slice){slice.data + size, slice.size - size};
}

static bool oracle_class(struct slice members, struct slice rest_of_text, char byte, bool negated,
                         bool found)
{
    if (members.size == 0 || members.data[0] == ']') {
        struct slice rest = members.size == 0 ? members : behind(members, 1);
        return found != negated && oracle(rest, rest_of_text);
    }
    if (members.data[0] == '\\' && members.size >= 2)
        return oracle_class(behind(members, 2), rest_of_text, byte, negated,
                            found || members.data[1] == byte);
    if (members.size >= 3 && members.data[1] == '-') {
        unsigned char a = (unsigned char)members.data[0];
        unsigned char b = (unsigned char)members.data[2];
        unsigned char c = (unsigned char)byte;
        bool inside = (a <= c && c <= b) || (b <= c && c <= a);
        return oracle_class(behind(members, 3), rest_of_text, byte, negated, found || inside);
    }
    return oracle_class(behind(members, 1), rest_of_text, byte, negated,
                        found || members.data[0] == byte);
}

static bool oracle(struct slice pattern, struct slice text)
{
    if (pattern.size == 0)
        return text.size == 0;
    if (pattern.data[0] == '*')
        return oracle(behind(pattern, 1), text) ||
               (text.size > 0 && oracle(pattern, behind(text, 1)));
    if (text.size == 0)
        return false;
    if (pattern.data[0] == '?')
        return oracle(behind(pattern, 1), behind(text, 1));
    if (pattern.data[0] == '[') {
        bool negated = pattern.size > 1 && pattern.data[1] == '^';
        return oracle_class(behind(pattern, negated ? 2 : 1), behind(text, 1), text.data[0],
                            negated, false);
    }
    size_t escaped = pattern.data[0] == '\\' && pattern.size >= 2;
    return pattern.data[escaped] == text.data[0] &&
           oracle(behind(pattern, 1 + escaped), behind(text, 1));
}

/* ---- tests ---- */

static void assert_match(const char *pattern, const char *text, bool expected)
{
    if (match_glob(slice_of(pattern), slice_of(text)) != expected)
        fail_msg("%s %s %s", pattern, expected ? "does not match" : "matches", text);
}

TEST(a_pattern_without_signs_matches_itself_alone)
{
    assert_match("", "", true);
    assert_match("a", "", false);
    assert_match("", "a", false);
    assert_match("video1", "video1", true);
    assert_match("video1", "video12", false);
    assert_match("video1", "Video1", false);
}

TEST(a_star_takes_any_bytes_or_none)
{
    assert_match("*", "", true);
    assert_match("***", "", true);
    assert_match("*", "anything", true);
    assert_match("app1:*", "app1:", true);
    assert_match("app1:*", "app1:video", true);
    assert_match("*/like", "video1/like", true);
    assert_match("*/like", "video1/likes", false);
    assert_match("a*b*c", "a--b--b--c", true);
    assert_match("a*b*c", "a--c--b", false);
    assert_match("*ab", "aab", true);
    assert_match("*aab*", "aaab", true);
}

TEST(a_question_mark_takes_one_byte)
{
    assert_match("?", "x", true);
    assert_match("?", "", false);
    assert_match("h?llo", "hello", true);
    assert_match("h?llo", "hllo", false);
    assert_match("??", "\xc3\xa4", true);
}

TEST(a_class_takes_one_of_its_members)
{
    assert_match("h[ae]llo", "hello", true);
    assert_match("h[ae]llo", "hillo", false);
    assert_match("h[^e]llo", "hallo", true);
    assert_match("h[^e]llo", "hello", false);
    assert_match("h[a-c]llo", "hbllo", true);
    assert_match("h[c-a]llo", "hbllo", true);
    assert_match("h[a-c]llo", "hdllo", false);
    assert_match("[a-cx-z]", "y", true);
    assert_match("[\\]]", "]", true);
    assert_match("[\\^a]", "^", true);
    assert_match("[a-]", "-", false);
    assert_match("[-a]", "-", true);
    assert_match("[\x80-\xff]", "\xc3", true);
    assert_match("[a]", "", false);
}

TEST(an_empty_class_takes_nothing_and_its_opposite_anything)
{
    assert_match("[]", "a", false);
    assert_match("[]a]", "a", false);
    assert_match("[^]", "a", true);
}

TEST(a_class_that_nobody_closed_ends_with_the_pattern)
{
    assert_match("[abc", "b", true);
    assert_match("[abc", "d", false);
    assert_match("[", "a", false);
    assert_match("[^", "a", true);
    assert_match("[\\", "\\", true);
}

TEST(a_backslash_makes_the_next_byte_ordinary)
{
    assert_match("\\*", "*", true);
    assert_match("\\*", "x", false);
    assert_match("\\?\\[", "?[", true);
    assert_match("\\\\", "\\", true);
    assert_match("a\\", "a\\", true);
}

TEST(zero_bytes_are_bytes)
{
    assert_true(match_glob(SLICE("a?c"), SLICE("a\0c")));
    assert_true(match_glob(SLICE("a\0*"), SLICE("a\0\0")));
    assert_false(match_glob(SLICE("a\0b"), SLICE("a\0c")));
    assert_true(match_glob((struct slice){NULL, 0}, (struct slice){NULL, 0}));
}

TEST(random_patterns_agree_with_the_definition)
{
    static const char signs[] = "ab*?[]^-\\ab*c";
    static const char letters[] = "abc-]\\";
    struct sim_rng rng = {1};
    unsigned matches = 0;
    for (int i = 0; i < 300000; i++) {
        char pattern[10];
        char text[10];
        size_t pattern_size = sim_rng_below(&rng, sizeof(pattern) + 1);
        size_t text_size = sim_rng_below(&rng, sizeof(text) + 1);
        for (size_t at = 0; at < pattern_size; at++)
            pattern[at] = signs[sim_rng_below(&rng, sizeof(signs) - 1)];
        for (size_t at = 0; at < text_size; at++)
            text[at] = letters[sim_rng_below(&rng, sizeof(letters) - 1)];

        struct slice p = {pattern, pattern_size};
        struct slice t = {text, text_size};
        bool expected = oracle(p, t);
        if (match_glob(p, t) != expected)
            fail_msg("%.*s and %.*s", SLICE_ARGS(p), SLICE_ARGS(t));
        matches += expected;
    }
    assert_true(matches > 1000);
}

TEST(many_stars_do_not_take_for_ever)
{
    char text[20000];
    memset(text, 'a', sizeof(text));
    char pattern[201];
    for (size_t i = 0; i < 200; i += 2)
        memcpy(pattern + i, "*a", 2);
    pattern[200] = 'b';

    clock_t start = clock();
    assert_false(match_glob((struct slice){pattern, 201}, (struct slice){text, sizeof(text)}));
    assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
}

RUN(cmocka_unit_test(a_pattern_without_signs_matches_itself_alone),
    cmocka_unit_test(a_star_takes_any_bytes_or_none),
    cmocka_unit_test(a_question_mark_takes_one_byte),
    cmocka_unit_test(a_class_takes_one_of_its_members),
    cmocka_unit_test(an_empty_class_takes_nothing_and_its_opposite_anything),
    cmocka_unit_test(a_class_that_nobody_closed_ends_with_the_pattern),
    cmocka_unit_test(a_backslash_makes_the_next_byte_ordinary),
    cmocka_unit_test(zero_bytes_are_bytes),
    cmocka_unit_test(random_patterns_agree_with_the_definition),
    cmocka_unit_test(many_stars_do_not_take_for_ever))
