#include "cli/taking.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/hash.h"

#define PIPE_COMMANDS 1024u
#define KEY_BYTES     64u

/* A tag is the place and what was sent. */
enum role { ROLE_COUNTER, ROLE_REACTION, ROLE_REACTION_OF_KIND, ROLE_CREATION, ROLE_LIFETIME };
#define ROLE_BITS 3u

static const char *place_of(const struct taking *taking, uint64_t number, char *to, size_t size)
{
    taking->place(taking->place_arg, number, to, size);
    return to;
}

void taking_refuse(struct taking *taking, uint64_t number, const char *why)
{
    char place[320];
    taking->bad++;
    if (taking->bad <= TAKING_TOLD_MAX)
        (void)session_fail(0, "%s: %s", place_of(taking, number, place, sizeof(place)), why);
    if (taking->bad == TAKING_TOLD_MAX + 1)
        (void)session_fail(0, "further bad ones are only counted");
}

/* --- answers ---------------------------------------------------------------------- */

static void refused(struct taking *taking, uint64_t number, enum role role, const char *why)
{
    if (role == ROLE_CREATION && strncmp(why, "BUSYKEY", 7) == 0)
        taking->kept++;
    else
        taking_refuse(taking, number, why);
    if (strncmp(why, "MISCONF", 7) == 0)
        taking->is_full = true;
}

/* REACT answers a map whose second value is "changed". */
static bool has_changed(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer != 0;
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= 4 &&
           reply->element[3]->integer != 0;
}

static void answered(void *arg, uint64_t tag, const redisReply *reply)
{
    struct taking *taking = arg;
    enum role role = (enum role)(tag & ((1u << ROLE_BITS) - 1));
    if (reply->type == REDIS_REPLY_ERROR) {
        refused(taking, tag >> ROLE_BITS, role, reply->str);
    } else if (role == ROLE_COUNTER) {
        taking->counters++;
    } else if (role == ROLE_REACTION || role == ROLE_REACTION_OF_KIND) {
        taking->reactions++;
        taking->changed += has_changed(reply);
    }
}

/* --- opening and closing ------------------------------------------------------------ */

int taking_open(struct taking *taking, struct session *session, taking_place_fn *place, void *arg)
{
    taking->session = session;
    taking->place = place;
    taking->place_arg = arg;
    int code = taking->is_dry ? EXIT_FINE : session_connect(session);
    if (code == EXIT_FINE)
        pipe_init(&taking->pipe, session->context, PIPE_COMMANDS, answered, taking);
    return code;
}

void taking_close(struct taking *taking)
{
    pipe_done(&taking->pipe);
}

void taking_new_run(struct taking *taking)
{
    (void)snprintf(taking->run, sizeof(taking->run), "%016llx",
                   (unsigned long long)env_random(env_system()));
}

int taking_failed(struct taking *taking, enum err err)
{
    if (taking->is_full)
        return session_fail(EXIT_REFUSED, "the server's disk is full: make room, then go on");
    if (err == ERR_BUSY)
        return session_fail(EXIT_REFUSED,
                            "the server stays busy, or is out of memory: go on later");
    return session_broke(taking->session, taking->session->context);
}

/* --- commands --------------------------------------------------------------------- */

static enum err send_words(struct taking *taking, uint64_t number, enum role role,
                           const struct slice *words, size_t count)
{
    if (!taking->is_dry) {
        enum err err = pipe_send(&taking->pipe, number << ROLE_BITS | role, words, count);
        return taking->is_full ? ERR_FULL : err;
    }
    taking->counters += role == ROLE_COUNTER;
    taking->reactions += role == ROLE_REACTION || role == ROLE_REACTION_OF_KIND;
    return ERR_OK;
}

/* The key of a place: the same in a run that is gone on with, another in a new one. */
static struct slice key_of(const struct taking *taking, uint64_t number, const char *what,
                           char to[KEY_BYTES])
{
    int size =
        snprintf(to, KEY_BYTES, "import:%s:%llu%s", taking->run, (unsigned long long)number, what);
    return (struct slice){to, (size_t)size};
}

enum err taking_counter(struct taking *taking, uint64_t number, struct slice id, struct slice value)
{
    char key[KEY_BYTES];
    if (taking->keys_by_id)
        (void)key_of(taking, hash_stable(id), "", key);
    else
        (void)key_of(taking, number, "", key);
    const struct slice words[] = {taking->adds ? SLICE("COUNTER.ADD") : SLICE("COUNTER.SET"), id,
                                  value, SLICE("ID"), slice_of(key)};
    return send_words(taking, number, ROLE_COUNTER, words, 5);
}

/* A user holds one reaction on an item, however often it is sent: no key is needed. */
enum err taking_reaction(struct taking *taking, uint64_t number, struct slice item,
                         struct slice user, struct slice kind)
{
    struct slice words[] = {SLICE("REACT"), item, user, kind};
    bool likes = slice_equal(kind, SLICE("like"));
    if (!likes && !slice_equal(kind, SLICE("dislike")))
        return send_words(taking, number, ROLE_REACTION_OF_KIND, words, 4);
    words[0] = likes ? SLICE("LIKE") : SLICE("DISLIKE");
    return send_words(taking, number, ROLE_REACTION, words, 3);
}

static void add_word(struct slice *words, size_t *count, const char *name, struct slice value)
{
    if (value.size == 0)
        return;
    words[(*count)++] = slice_of(name);
    words[(*count)++] = value;
}

static enum err create_counter(struct taking *taking, uint64_t number, const struct line *line)
{
    struct slice words[16] = {SLICE("COUNTER.CREATE"), line->id};
    size_t count = 2;
    add_word(words, &count, "SHARDS", line->shards);
    add_word(words, &count, "POLICY", line->policy);
    add_word(words, &count, "FLOOR", line->floor);
    add_word(words, &count, "IDLE", line->idle_s);
    if (count == 2)
        return ERR_OK;
    char key[KEY_BYTES];
    add_word(words, &count, "ID", key_of(taking, number, "c", key));
    return send_words(taking, number, ROLE_CREATION, words, count);
}

static enum err take_counter(struct taking *taking, uint64_t number, const struct line *line)
{
    enum err err = create_counter(taking, number, line);
    if (!err)
        err = taking_counter(taking, number, line->id, line->value);
    if (!err && line->deadline_ms.size > 0) {
        const struct slice words[] = {SLICE("PEXPIREAT"), line->id, line->deadline_ms};
        err = send_words(taking, number, ROLE_LIFETIME, words, 3);
    }
    return err;
}

/* Shards of an item are asked for by way of one of its reactions. */
static enum err take_item(struct taking *taking, uint64_t number, const struct line *line)
{
    static const char suffix[] = "/like";
    char id[LINE_ROOM_BYTES + sizeof(suffix)];
    if (line->id.size > LINE_ROOM_BYTES) {
        taking_refuse(taking, number, "the id is too long");
        return ERR_OK;
    }
    memcpy(mempcpy(id, line->id.data, line->id.size), suffix, sizeof(suffix));
    const struct slice words[] = {SLICE("COUNTER.CREATE"),
                                  {id, line->id.size + sizeof(suffix) - 1},
                                  SLICE("SHARDS"),
                                  line->shards};
    return send_words(taking, number, ROLE_CREATION, words, 4);
}

enum err taking_line(struct taking *taking, uint64_t number, const struct line *line)
{
    switch (line->kind) {
    case LINE_COUNTER:
        return take_counter(taking, number, line);
    case LINE_REACTION:
        return taking_reaction(taking, number, line->id, line->user, line->reaction);
    case LINE_ITEM:
        return take_item(taking, number, line);
    case LINE_NOTHING:
    case LINE_END:
        break;
    }
    return ERR_OK;
}
