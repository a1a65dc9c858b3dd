#include "cli/layout.h"

#include <string.h>

#include "unit/test.h"

static struct layout_match match;
static struct error error;

static void look(const char *key)
{
    layout_match(slice_of(key), NULL, 0, false, &match);
}

static void assert_shard(const char *key, const char *item, const char *reaction, bool is_shard)
{
    look(key);
    assert_int_equal(match.kind, LAYOUT_COUNTER);
    assert_string_equal(match.item, item);
    assert_string_equal(match.reaction, reaction);
    assert_int_equal(match.is_shard, is_shard);
}

static void assert_members(const char *key, const char *item, const char *reaction)
{
    look(key);
    assert_int_equal(match.kind, LAYOUT_MEMBERS);
    assert_string_equal(match.item, item);
    assert_string_equal(match.reaction, reaction);
}

static void assert_kind(const char *key, enum layout_kind kind)
{
    look(key);
    if (match.kind != kind)
        fail_msg("%s: %d, not %d", key, match.kind, kind);
}

TEST(shards_of_counters_belong_to_their_item)
{
    assert_shard("vc:video123:37", "video123", "like", true);
    assert_string_equal(match.name, "video123:likes");
    assert_shard("vc:{video123}:0", "video123", "like", true);
    assert_shard("vc:{likes}:video123:37", "video123", "like", true);
    assert_shard("vc:{dislikes}:video123:5", "video123", "dislike", true);
    assert_string_equal(match.name, "video123:dislikes");
    assert_shard("vc:{likes}:{video123}:{37}", "video123", "like", true);
    assert_shard("vc:a:b:c:3", "a:b:c", "like", true);
    assert_shard("vc:video1", "video1", "like", false);
    assert_shard("vc:likes:3", "likes", "like", true);
    assert_shard("video:likes:count:v9:12", "v9", "like", true);
    assert_shard("video:dislikes:count:v9:12", "v9", "dislike", true);
}

TEST(sets_of_users_are_members)
{
    assert_members("vlu:video123", "video123", "like");
    assert_members("vlv:{likes}:video123", "video123", "like");
    assert_members("vlv:video123", "video123", "like");
    assert_members("vld:{dislikes}:video123", "video123", "dislike");
    assert_members("vld:video123", "video123", "dislike");
    assert_members("vlu:{dislikes}:video123", "video123", "dislike");
    assert_members("vlu:{likes}:video123", "video123", "like");
    assert_members("vlu:{video123}", "video123", "like");
    assert_members("video:likes:v9", "v9", "like");
    assert_members("video:dislikes:v9", "v9", "dislike");
}

TEST(counters_of_items_count_and_their_notes_do_not)
{
    look("item_13");
    assert_int_equal(match.kind, LAYOUT_COUNTER);
    assert_string_equal(match.name, "item_13");
    assert_string_equal(match.item, "");
    assert_kind("item:13", LAYOUT_COUNTER);
    const char *notes[] = {"item_13_saved",
                           "item_13_expired",
                           "item_13saved",
                           "item_13expired",
                           "item_13:_saved",
                           "item_13:_expired",
                           "item_synchronization_cursor"};
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        assert_kind(notes[i], LAYOUT_NOTE);
    assert_kind("item_x", LAYOUT_UNKNOWN);
    assert_kind("item_13_other", LAYOUT_UNKNOWN);
}

TEST(cached_counts_of_posts_are_counters)
{
    look("post:77:like_count");
    assert_int_equal(match.kind, LAYOUT_COUNTER);
    assert_string_equal(match.name, "post:77:like_count");
    look("post:{77}:like_count");
    assert_string_equal(match.name, "post:77:like_count");
    assert_kind("post::like_count", LAYOUT_UNKNOWN);
    assert_kind("post:77", LAYOUT_UNKNOWN);
}

TEST(other_keys_are_unknown)
{
    const char *others[] = {"", "x", "vc:", "vlu:", "vc", "session:1", "video:x", "video:likes:"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_kind(others[i], LAYOUT_UNKNOWN);
    char longest[2 * LAYOUT_NAME_BYTES];
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "vlu:", 4);
    longest[sizeof(longest) - 1] = 0;
    assert_kind(longest, LAYOUT_UNKNOWN);
    memcpy(longest, "vc:a", 4);
    assert_kind(longest, LAYOUT_UNKNOWN);
}

TEST(templates_come_first)
{
    struct layout_template templates[3];
    assert_int_equal(layout_parse_template("hits:{id}:n=views:{id}", false, &templates[0], &error),
                     ERR_OK);
    assert_int_equal(layout_parse_template("fans:{item}=like", true, &templates[1], &error),
                     ERR_OK);
    assert_int_equal(layout_parse_template("{id}", false, &templates[2], &error), ERR_OK);

    layout_match(SLICE("hits:7:n"), templates, 3, false, &match);
    assert_int_equal(match.kind, LAYOUT_COUNTER);
    assert_string_equal(match.name, "views:7");
    layout_match(SLICE("fans:{v1}"), templates, 3, false, &match);
    assert_int_equal(match.kind, LAYOUT_MEMBERS);
    assert_string_equal(match.item, "v1");
    assert_string_equal(match.reaction, "like");
    layout_match(SLICE("item_13_saved"), templates, 3, false, &match);
    assert_string_equal(match.name, "item_13_saved");
    layout_match(SLICE("vlu:x"), templates, 2, true, &match);
    assert_int_equal(match.kind, LAYOUT_UNKNOWN);
    layout_match(SLICE("vlu:x"), templates, 2, false, &match);
    assert_int_equal(match.kind, LAYOUT_MEMBERS);
}

TEST(a_template_that_makes_no_sense_is_refused)
{
    struct layout_template template;
    const char *wrong[] = {"", "fans", "fans:{item}", "fans:{item}=", "fans:item=like", "{x=like"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(layout_parse_template(wrong[i], true, &template, &error), ERR_INVALID);
    assert_int_equal(layout_parse_template("hits", false, &template, &error), ERR_INVALID);
}

RUN(cmocka_unit_test(shards_of_counters_belong_to_their_item),
    cmocka_unit_test(sets_of_users_are_members),
    cmocka_unit_test(counters_of_items_count_and_their_notes_do_not),
    cmocka_unit_test(cached_counts_of_posts_are_counters), cmocka_unit_test(other_keys_are_unknown),
    cmocka_unit_test(templates_come_first),
    cmocka_unit_test(a_template_that_makes_no_sense_is_refused))
