#include "cli/layout.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- slices ----------------------------------------------------------------------- */

static bool begins(struct slice text, const char *start)
{
    size_t size = strlen(start);
    return text.size >= size && memcmp(text.data, start, size) == 0;
}

static struct slice behind(struct slice text, size_t size)
{
    return (struct slice){text.data + size, text.size - size};
}

static bool is_digits(struct slice text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!isdigit((unsigned char)text.data[i]))
            return false;
    return text.size > 0;
}

/* "{x}" is x. */
static struct slice without_braces(struct slice text)
{
    if (text.size > 2 && text.data[0] == '{' && text.data[text.size - 1] == '}')
        return (struct slice){text.data + 1, text.size - 2};
    return text;
}

/* Cuts ":N" off the end. */
static bool cut_shard(struct slice *text)
{
    const char *colon = text->size > 0 ? memrchr(text->data, ':', text->size) : NULL;
    if (!colon)
        return false;
    size_t size = (size_t)(colon - text->data);
    struct slice shard = without_braces(behind(*text, size + 1));
    if (size == 0 || !is_digits(shard))
        return false;
    text->size = size;
    return true;
}

static bool copy(char to[LAYOUT_NAME_BYTES], struct slice text)
{
    if (text.size == 0 || text.size >= LAYOUT_NAME_BYTES || memchr(text.data, 0, text.size))
        return false;
    (void)snprintf(to, LAYOUT_NAME_BYTES, "%.*s", SLICE_ARGS(text));
    return true;
}

/* --- reactions -------------------------------------------------------------------- */

/* Takes "{likes}:" or "likes:" from the front. */
static const char *cut_reaction(struct slice *text)
{
    static const struct {
        const char *start;
        const char *reaction;
    } starts[] = {
        {"{likes}:", "like"},
        {"likes:", "like"},
        {"{dislikes}:", "dislike"},
        {"dislikes:", "dislike"},
    };
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (begins(*text, starts[i].start) && text->size > strlen(starts[i].start)) {
            *text = behind(*text, strlen(starts[i].start));
            return starts[i].reaction;
        }
    return NULL;
}

static bool set_members(struct layout_match *match, struct slice item, const char *reaction)
{
    match->kind = LAYOUT_MEMBERS;
    return copy(match->item, without_braces(item)) && copy(match->reaction, slice_of(reaction));
}

/* Shards of a reaction's count; alone they become the counter ITEM:likes. */
static bool set_shard(struct layout_match *match, struct slice item, const char *reaction,
                      bool is_shard)
{
    match->kind = LAYOUT_COUNTER;
    match->is_shard = is_shard;
    if (!copy(match->item, without_braces(item)) || !copy(match->reaction, slice_of(reaction)))
        return false;
    int size =
        snprintf(match->name, sizeof(match->name), "%.400s:%.20ss", match->item, match->reaction);
    return size > 0 && strlen(match->item) <= 400;
}

/* What stands behind "vc:". */
static bool match_shard(struct slice rest, struct layout_match *match)
{
    struct slice item = rest;
    bool is_shard = cut_shard(&item);
    struct slice inner = item;
    const char *reaction = is_shard ? cut_reaction(&inner) : NULL;
    return reaction ? set_shard(match, inner, reaction, true)
                    : set_shard(match, item, "like", is_shard);
}

/* What stands behind "vlu:", "vlv:" or "vld:". */
static bool match_set(struct slice rest, const char *usual, struct layout_match *match)
{
    const char *reaction = cut_reaction(&rest);
    return set_members(match, rest, reaction ? reaction : usual);
}

/* What stands behind "video:". */
static bool match_video(struct slice rest, struct layout_match *match)
{
    const char *reaction = cut_reaction(&rest);
    if (!reaction)
        return false;
    struct slice item = behind(rest, begins(rest, "count:") ? 6 : 0);
    if (item.size < rest.size && cut_shard(&item))
        return set_shard(match, item, reaction, true);
    return set_members(match, rest, reaction);
}

/* --- plain counters ----------------------------------------------------------------- */

static bool set_counter(struct layout_match *match, struct slice name)
{
    match->kind = LAYOUT_COUNTER;
    return copy(match->name, name);
}

/* item_13 counts; item_13_saved, item_13expired, item_13:_saved and
 * item_synchronization_cursor do not. */
static bool match_item(struct slice key, struct layout_match *match)
{
    if (is_digits(without_braces(behind(key, 5))))
        return set_counter(match, key);
    struct slice rest = behind(key, 5);
    bool is_note = begins(rest, "synchronization_cursor");
    size_t digits = 0;
    while (digits < rest.size && isdigit((unsigned char)rest.data[digits]))
        digits++;
    struct slice word = behind(rest, digits);
    while (word.size > 0 && (word.data[0] == '_' || word.data[0] == ':'))
        word = behind(word, 1);
    if (digits > 0 && (slice_equal(word, SLICE("saved")) || slice_equal(word, SLICE("expired"))))
        is_note = true;
    match->kind = LAYOUT_NOTE;
    return is_note;
}

static bool match_post(struct slice key, struct layout_match *match)
{
    static const char end[] = ":like_count";
    size_t size = sizeof(end) - 1;
    if (key.size <= 5 + size || memcmp(key.data + key.size - size, end, size) != 0)
        return false;
    struct slice id = {key.data + 5, key.size - 5 - size};
    char name[LAYOUT_NAME_BYTES];
    if (id.size > 400)
        return false;
    struct slice bare = without_braces(id);
    (void)snprintf(name, sizeof(name), "post:%.*s:like_count", SLICE_ARGS(bare));
    return set_counter(match, slice_of(name));
}

static bool match_known(struct slice key, struct layout_match *match)
{
    if (begins(key, "vc:"))
        return match_shard(behind(key, 3), match);
    if (begins(key, "vlu:") || begins(key, "vlv:"))
        return match_set(behind(key, 4), "like", match);
    if (begins(key, "vld:"))
        return match_set(behind(key, 4), "dislike", match);
    if (begins(key, "video:"))
        return match_video(behind(key, 6), match);
    if (begins(key, "item_") || begins(key, "item:"))
        return match_item(key, match);
    if (begins(key, "post:"))
        return match_post(key, match);
    return false;
}

/* --- templates -------------------------------------------------------------------- */

/* Where "{...}" begins and ends in a text. */
static bool find_braces(struct slice text, size_t *ret_start, size_t *ret_end)
{
    const char *open = text.size > 0 ? memchr(text.data, '{', text.size) : NULL;
    const char *close = open ? memchr(open, '}', text.size - (size_t)(open - text.data)) : NULL;
    if (!close)
        return false;
    *ret_start = (size_t)(open - text.data);
    *ret_end = (size_t)(close - text.data) + 1;
    return true;
}

enum err layout_parse_template(const char *text, bool of_members,
                               struct layout_template *ret_template, struct error *error)
{
    assert(text && ret_template);

    const char *equals = strrchr(text, '=');
    struct slice key = {text, equals ? (size_t)(equals - text) : strlen(text)};
    struct slice target = equals ? slice_of(equals + 1) : key;
    size_t start;
    size_t end;
    if (!find_braces(key, &start, &end) || target.size == 0 || (of_members && !equals))
        return error_set(error, ERR_INVALID, "'%.80s': write it as %s", text,
                         of_members ? "'fans:{item}=like'" : "'hits:{id}=views:{id}'");
    *ret_template = (struct layout_template){.before = {key.data, start},
                                             .after = behind(key, end),
                                             .target = target,
                                             .of_members = of_members};
    return ERR_OK;
}

static bool fill_target(struct slice target, struct slice found, char to[LAYOUT_NAME_BYTES])
{
    size_t start = target.size;
    size_t end = target.size;
    (void)find_braces(target, &start, &end);
    if (start == end)
        found.size = 0;
    if (target.size + found.size >= LAYOUT_NAME_BYTES)
        return false;
    (void)snprintf(to, LAYOUT_NAME_BYTES, "%.*s%.*s%.*s", (int)start, target.data, (int)found.size,
                   found.data, (int)(target.size - end), target.data + end);
    return true;
}

static bool match_template(struct slice key, const struct layout_template *template,
                           struct layout_match *match)
{
    size_t fixed = template->before.size + template->after.size;
    if (key.size <= fixed || memcmp(key.data, template->before.data, template->before.size) != 0 ||
        memcmp(key.data + key.size - template->after.size, template->after.data,
               template->after.size) != 0)
        return false;
    struct slice found = {key.data + template->before.size, key.size - fixed};
    if (memchr(found.data, 0, found.size))
        return false;
    if (!template->of_members) {
        match->kind = LAYOUT_COUNTER;
        return fill_target(template->target, found, match->name);
    }
    match->kind = LAYOUT_MEMBERS;
    return copy(match->item, without_braces(found)) && copy(match->reaction, template->target);
}

void layout_match(struct slice key, const struct layout_template *templates, size_t count,
                  bool only_templates, struct layout_match *ret_match)
{
    assert(ret_match);

    struct layout_match *match = ret_match;
    *match = (struct layout_match){.kind = LAYOUT_UNKNOWN};
    for (size_t i = 0; i < count; i++) {
        if (match_template(key, &templates[i], match))
            return;
        *match = (struct layout_match){.kind = LAYOUT_UNKNOWN};
    }
    if (!only_templates && match_known(key, match))
        return;
    *match = (struct layout_match){.kind = LAYOUT_UNKNOWN};
}
