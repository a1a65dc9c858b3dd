/* layout.h - what a key of a Redis stands for.
 *
 * Layouts that are known, with what is taken of them:
 *
 *   vc:ID:N  vc:{likes}:ID:N  vc:{dislikes}:ID:N      shards of the likes (dislikes) of ID
 *   video:likes:count:ID:N  video:dislikes:count:ID:N the same
 *   vlu:ID  vlv:ID  vlu:{likes}:ID  video:likes:ID    set of the users who like ID
 *   vld:ID  vlu:{dislikes}:ID  video:dislikes:ID      set of the users who dislike it
 *   item_N  item:N                                    counter; item_N_saved and the like are
 *                                                     notes of the program and left out
 *   post:ID:like_count                                counter
 *
 * An id in braces, as a hash tag of Redis Cluster, is meant without them. Templates of
 * the user's own come first. Pure: no input or output. */
#ifndef CLI_LAYOUT_H
#define CLI_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/slice.h"

#define LAYOUT_NAME_BYTES 512u

enum layout_kind {
    LAYOUT_UNKNOWN, /* no layout has such a key */
    LAYOUT_NOTE,    /* known, and of no use */
    LAYOUT_COUNTER, /* an integer: the whole counter, or a shard of it */
    LAYOUT_MEMBERS, /* a set of users */
};

struct layout_match {
    enum layout_kind kind;
    /* Of the counter that is made of it. Shards of reactions are named as the counter that they
     * become when there are no members, and have an item as well. */
    char name[LAYOUT_NAME_BYTES];
    char item[LAYOUT_NAME_BYTES];     /* "": not of an item */
    char reaction[LAYOUT_NAME_BYTES]; /* "like" */
    bool is_shard;                    /* one of several that are added up */
};

/* A template of the user's: 'hits:{id}=views:{id}', 'fans:{item}=like'. */
struct layout_template {
    struct slice before; /* of the key, in front of the braces */
    struct slice after;  /* and behind them */
    struct slice target; /* behind the '='; for counters '{id}' in it stands for what was found */
    bool of_members;
};

/* `text` has to live as long as the template. ERR_INVALID with a text that shows how. */
enum err layout_parse_template(const char *text, bool of_members,
                               struct layout_template *ret_template, struct error *error);

/* What `key` stands for, by the templates and then, unless `only_templates`, by what is known.
 * A name that would be too long is unknown. */
void layout_match(struct slice key, const struct layout_template *templates, size_t count,
                  bool only_templates, struct layout_match *ret_match);

#endif
