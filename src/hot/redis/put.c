#include "hot/redis/put.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/bucket.h"
#include "core/sequence.h"
#include "hot/redis/ask.h"
#include "hot/redis/spread.h"

#define CHUNK_MEMBERS  4000u  /* of a slice, in one call */
#define ABSENT_MS      10000u /* so long it is remembered that there is none */
#define KEY_ABSENT_MS  60000u
#define FIRST_OF_SLICE '0' /* a member's name has its slice in front */

static_assert(STATE_SLICES == BUCKET_SLICES, "the store's slices are ours");

/* ---- the token ---- */

/* The keys of a want: record, token, and the members of the slice. */
static void add_keys(struct call *call, const struct want_question *question)
{
    char name[8];
    call_key_of(call, "r", question->id);
    if (question->kind == HOT_WANT_TARGET) {
        call_key_of(call, "l", question->id);
        return;
    }
    (void)snprintf(name, sizeof(name), "l%02u", question->slice);
    call_key_of(call, name, question->id);
    (void)snprintf(name, sizeof(name), "m%02u", question->slice);
    call_key_of(call, name, question->id);
}

void put_take_outcome(void *arg, const struct redisReply *reply)
{
    enum put_outcome *outcome = arg;
    *outcome = reply_is(reply, "yes") || reply_is(reply, "ok") ? PUT_DONE
               : reply_is(reply, "no")                         ? PUT_NO
               : reply_is(reply, "behind")                     ? PUT_BEHIND
                                                               : PUT_NONE;
}

void put_init_claim(struct call *call, struct layer *layer, const struct want *wanted)
{
    const struct want_question *question = &wanted->question;
    call_init(call, layer, question->cell, SCRIPT_LOAD);
    add_keys(call, question);
    call_arg_text(call, "claim");
    call_arg_text(call, wanted->token);
    if (question->kind == HOT_WANT_SLICE)
        call_arg_number(call, question->slice);
    else
        call_arg_text(call, "");
}

/* ---- into Redis ---- */

/* How far the store was, of the want's cell. */
static void add_sequence(struct call *call, unsigned cell, const struct hot_found *found)
{
    if (!found->sequences) {
        call_arg_text(call, "");
        call_arg_text(call, "");
        return;
    }
    call_arg_number(call, sequence_epoch(found->sequences[cell]));
    call_arg_number(call, sequence_n(found->sequences[cell]));
}

static enum put_outcome send(struct call *call)
{
    enum put_outcome outcome = PUT_NONE;
    enum err err = ask(call, put_take_outcome, &outcome);
    return err ? PUT_NONE : outcome;
}

static void add_field(struct call *call, const char *name, const char *value)
{
    call_arg_text(call, name);
    call_arg_text(call, value);
}

static void add_written(struct call *call, int64_t written_ms)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%" PRId64 " 0 0", written_ms);
    add_field(call, ".w", text);
}

static void add_options(struct call *call, const struct image *image)
{
    const struct op_create *create = &image->create;
    char text[128];
    bool is_plain = create->shards == 1 && create->policy == POLICY_LOCAL && !create->has_floor &&
                    create->idle_s == 0 && image->deadline_ms == 0;
    if (is_plain)
        return;
    (void)snprintf(text, sizeof(text), "%u %u %d %" PRId64 " %u %" PRId64, create->shards,
                   (unsigned)create->policy, create->has_floor, create->floor, create->idle_s,
                   image->deadline_ms);
    add_field(call, ".o", text);
}

static void add_counts(struct call *call, const struct image *image)
{
    for (uint8_t kind = 1; kind <= image->kinds->count; kind++) {
        char name[LIMIT_KIND_BYTES + 4];
        char text[24];
        struct slice of = kinds_name(image->kinds, kind);
        if (image->counts[kind - 1] == 0)
            continue;
        (void)snprintf(name, sizeof(name), ".c:%.*s", SLICE_ARGS(of));
        (void)snprintf(text, sizeof(text), "%" PRId64, image->counts[kind - 1]);
        add_field(call, name, text);
    }
}

static void add_member(struct call *call, const struct image *image,
                       const struct image_member *member, uint32_t slice)
{
    char field[1 + LIMIT_USER_BYTES];
    struct slice user = image_user(image, member);
    assert(user.size <= LIMIT_USER_BYTES);
    field[0] = (char)(FIRST_OF_SLICE + slice);
    memcpy(field + 1, user.data, user.size);
    call_arg(call, (struct slice){field, 1 + user.size});
    call_arg(call, kinds_name(image->kinds, member->kind));
}

static void add_whole(struct call *call, struct slice id, const struct image *image)
{
    uint64_t item_hash = hash_stable(id);
    for (size_t i = 0; i < image->member_count; i++) {
        const struct image_member *member = &image->members[i];
        struct slice user = image_user(image, member);
        if (member->kind != KIND_NONE)
            add_member(call, image, member, bucket_slice(bucket_of_hashed(item_hash, user)));
    }
}

static void add_counter(struct call *call, const struct image *image)
{
    struct buffer text;
    buffer_init(&text, NUMBER_DIGITS_MAX + 2);
    (void)number_format(&image->value, &text);
    call_arg_text(call, ".v");
    call_arg(call, buffer_slice(&text));
    buffer_done(&text);
}

static void add_item(struct call *call, struct slice id, const struct image *image)
{
    char own[STATE_SLICES + 1];
    add_counts(call, image);
    if (!image->is_sliced) {
        add_whole(call, id, image);
        return;
    }
    memset(own, '0', STATE_SLICES);
    own[STATE_SLICES] = 0;
    add_field(call, ".own", own);
}

struct asked_shards {
    struct layer *layer;
    uint32_t shards;
    size_t size;
    char id[];
};

static void tell_loaded(void *arg)
{
    struct asked_shards *asked = arg;
    spreads_loaded(asked->layer, (struct slice){asked->id, asked->size}, asked->shards);
    free(asked);
}

void put_spread(struct layer *layer, struct slice id, uint32_t shards)
{
    struct asked_shards *asked = memory_take(sizeof(*asked) + id.size);
    *asked = (struct asked_shards){.layer = layer, .shards = shards, .size = id.size};
    memcpy(asked->id, id.data, id.size);
    if (!layer_post(layer, tell_loaded, asked))
        free(asked);
}

void put_init_target(struct call *call, struct layer *layer, const struct want *wanted,
                     const struct hot_found *found, const struct image *image)
{
    const struct want_question *question = &wanted->question;
    call_init(call, layer, question->cell, SCRIPT_LOAD);
    add_keys(call, question);
    call_arg_text(call, "target");
    call_arg_text(call, wanted->token);
    add_sequence(call, question->cell, found);
    call_arg_text(call, !image->is_there   ? "n"
                        : !image->is_item  ? "c"
                        : image->is_sliced ? "s"
                                           : "i");
    call_arg_number(call, image->is_there ? 0 : ABSENT_MS);
    call_arg_text(call, ".i");
    call_arg_number(call, image->incarnation);
    add_written(call, image->written_ms);
    if (image->is_there) {
        add_options(call, image);
        if (image->is_item)
            add_item(call, question->id, image);
        else
            add_counter(call, image);
    }
}

enum put_outcome put_members(struct layer *layer, const struct want *wanted,
                             const struct hot_found *found, const struct image *image)
{
    const struct want_question *question = &wanted->question;
    struct call call;
    enum put_outcome outcome = PUT_DONE;
    size_t at = 0;
    call_init(&call, layer, question->cell, SCRIPT_LOAD);
    do {
        size_t end =
            at + CHUNK_MEMBERS < image->member_count ? at + CHUNK_MEMBERS : image->member_count;
        call_clear(&call, question->cell, SCRIPT_LOAD);
        add_keys(&call, question);
        call_arg_text(&call, "slice");
        call_arg_text(&call, wanted->token);
        add_sequence(&call, question->cell, found);
        call_arg_number(&call, question->slice);
        call_arg_number(&call, at == 0);
        call_arg_number(&call, end == image->member_count);
        for (; at < end; at++)
            if (image->members[at].kind != KIND_NONE)
                add_member(&call, image, &image->members[at], question->slice);
        outcome = send(&call);
    } while (at < image->member_count && outcome == PUT_DONE);
    call_done(&call);
    return outcome;
}

/* "<fingerprint> <changed> <value> <held>", or "-" if there is none. */
void put_init_key(struct call *call, struct layer *layer, const struct want *wanted,
                  const struct hot_found *found)
{
    const struct want_question *question = &wanted->question;
    uint64_t ttl_ms = KEY_ABSENT_MS;
    char name[33];
    struct buffer text;
    buffer_init(&text, NUMBER_DIGITS_MAX + 128);
    (void)snprintf(name, sizeof(name), "%016" PRIx64 "%016" PRIx64, question->key_high,
                   question->key_low);
    if (found->code == ERR_OK) {
        const struct state_key *key = found->key;
        int64_t age_ms = env_wall_ms(layer->env) - key->time_ms;
        int64_t left_ms = (int64_t)layer->options.keys_kept_ms - (age_ms > 0 ? age_ms : 0);
        if (left_ms > 0) {
            (void)buffer_printf(&text, "%016" PRIx64 " %d ", key->fingerprint, key->changed);
            (void)number_format(&key->value, &text);
            (void)buffer_printf(&text, " %.*s", SLICE_ARGS(key->held));
            ttl_ms = (uint64_t)left_ms;
        }
    }
    if (text.size == 0)
        (void)buffer_append(&text, "-", 1);
    call_init(call, layer, question->cell, SCRIPT_LOAD);
    call_key_of(call, "k", slice_of(name));
    call_arg_text(call, "key");
    add_sequence(call, question->cell, found);
    call_arg(call, buffer_slice(&text));
    call_arg_number(call, ttl_ms);
    buffer_done(&text);
}
