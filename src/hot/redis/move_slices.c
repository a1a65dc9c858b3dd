/* move_slices.c - slices from one cell to another, with the idempotency keys of their users. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "core/sequence.h"
#include "hot/redis/move_own.h"

#define SCAN_COUNT 1000u

struct frozen {
    uint64_t epoch;
    uint64_t n;
    char owned[BUCKET_SLICES]; /* '1' members are there, '0' in the store only, '-' not of this move
                                */
    uint64_t sizes[BUCKET_SLICES];
    uint64_t lost_ms; /* when the cell last threw data away; idempotency keys, too */
};

enum err move_freeze(struct move *move)
{
    const struct map *map = &move->over.map;
    if (!move->frozen)
        move->frozen = memory_take(sizeof(*move->frozen));
    struct frozen *frozen = move->frozen;
    *frozen = (struct frozen){.epoch = 0};
    move_call(move, map->from, "freeze");
    call_key(&move->call, "out");
    move_slice_keys(move, "m", map->slices);
    call_arg_number(&move->call, map->version);
    move_arg_slices(move, map->slices);
    move_arg_after(move, &move->call, map->from, 0);
    enum err err = move_ask(move);
    err = err ? err : move_meaning(&move->words);
    if (err)
        return err;
    frozen->epoch = words_number(&move->words, 1);
    frozen->n = words_number(&move->words, 2);
    struct slice owned = words_at(&move->words, 3);
    if (owned.size != BUCKET_SLICES)
        return ERR_CORRUPT;
    memcpy(frozen->owned, owned.data, BUCKET_SLICES);
    frozen->lost_ms = words_number(&move->words, 4);
    size_t next = 5;
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        if (map->slices & map_bit(s))
            frozen->sizes[s] = words_number(&move->words, next++);
    return ERR_OK;
}

enum err move_wait_source(struct move *move)
{
    return move_wait_for_log(move, move->over.map.from, move->frozen->epoch, move->frozen->n);
}

static void temporary_name(const struct move *move, char name[32])
{
    snprintf(name, 32, "t%" PRIx64, move->over.map.version);
}

static void name_slice(char *name, size_t size, const char *letter, unsigned slice)
{
    snprintf(name, size, "%s%02u", letter, slice);
}

/* What is frozen does not change: a chunk that was put twice does no harm. */
static enum err copy_slice(struct move *move, unsigned slice)
{
    char temporary[32];
    char name[48];
    char cursor[32] = "0";
    temporary_name(move, temporary);
    do {
        call_clear(&move->call, move->over.map.from, SCRIPT_MOVE);
        name_slice(name, sizeof(name), "m", slice);
        call_key_of(&move->call, name, move->id);
        call_arg_text(&move->call, "scan");
        call_arg_text(&move->call, cursor);
        call_arg_number(&move->call, SCAN_COUNT);
        enum err err = move_ask(move);
        if (err)
            return err;
        snprintf(cursor, sizeof(cursor), "%.*s", SLICE_ARGS(words_at(&move->words, 0)));
        if (move->words.count <= 1)
            continue;
        call_clear(&move->call, move->over.map.to, SCRIPT_MOVE);
        name_slice(name, sizeof(name), temporary, slice);
        call_key_of(&move->call, name, move->id);
        call_arg_text(&move->call, "put");
        for (size_t i = 1; i < move->words.count; i++)
            call_arg(&move->call, words_at(&move->words, i));
        err = move_ask(move);
        if (err)
            return err;
    } while (strcmp(cursor, "0") != 0);
    return ERR_OK;
}

/* Idempotency keys of the users who move. `found` has keys and slices in turn, after a cursor. */
static enum err copy_keys_found(struct move *move, const struct words *found)
{
    call_clear(&move->call, move->over.map.from, SCRIPT_MOVE);
    call_arg_text(&move->call, "fetch");
    for (size_t i = 1; i + 1 < found->count; i += 2)
        call_key_of(&move->call, "k", words_at(found, i));
    enum err err = move_ask(move);
    if (err)
        return err;
    call_clear(&move->call, move->over.map.to, SCRIPT_MOVE);
    call_key_of(&move->call, "x", move->id);
    call_arg_text(&move->call, "keep");
    for (size_t i = 1; i + 1 < found->count; i += 2) {
        call_key_of(&move->call, "k", words_at(found, i));
        call_arg(&move->call, words_at(found, i));
        call_arg(&move->call, words_at(found, i + 1));
        call_arg(&move->call, words_at(&move->words, i - 1));
        call_arg(&move->call, words_at(&move->words, i));
    }
    return move_ask(move);
}

static enum err copy_keys(struct move *move)
{
    char cursor[32] = "0";
    enum err err;
    do {
        call_clear(&move->call, move->over.map.from, SCRIPT_MOVE);
        call_key_of(&move->call, "x", move->id);
        call_arg_text(&move->call, "keys");
        call_arg_text(&move->call, cursor);
        move_arg_slices(move, move->over.map.slices);
        err = move_ask(move);
        if (err)
            return err;
        snprintf(cursor, sizeof(cursor), "%.*s", SLICE_ARGS(words_at(&move->words, 0)));
        struct words found = move->words;
        move->words = (struct words){0};
        if (found.count > 1)
            err = copy_keys_found(move, &found);
        words_done(&found);
    } while (!err && strcmp(cursor, "0") != 0);
    return err;
}

enum err move_adopt(struct move *move)
{
    const struct frozen *frozen = move->frozen;
    const struct map *map = &move->over.map;
    char temporary[32];
    temporary_name(move, temporary);
    move_call(move, map->to, "adopt");
    call_key(&move->call, "out");
    call_arg_number(&move->call, map->version);
    call_arg(&move->call, (struct slice){frozen->owned, BUCKET_SLICES});
    move_arg_after(move, &move->call, map->from, sequence_of(frozen->epoch, frozen->n));
    for (unsigned s = 0; s < BUCKET_SLICES; s++) {
        if (!(map->slices & map_bit(s)))
            continue;
        move_slice_key(move, temporary, s);
        move_slice_key(move, "m", s);
        call_arg_number(&move->call, frozen->sizes[s]);
    }
    call_arg_number(&move->call, frozen->lost_ms);
    call_arg_number(&move->call, move->target_epoch);
    enum err err = move_ask(move);
    return err ? err : move_meaning(&move->words);
}

enum err move_copy(struct move *move)
{
    const struct frozen *frozen = move->frozen;
    enum err err = copy_keys(move);
    for (unsigned s = 0; s < BUCKET_SLICES && !err; s++)
        if (frozen->owned[s] == '1' && frozen->sizes[s] > 0)
            err = copy_slice(move, s);
    return err;
}

enum err move_release(struct move *move)
{
    move_call(move, move->over.map.from, "release");
    move_slice_keys(move, "m", move->over.map.slices);
    call_arg_number(&move->call, move->over.map.version);
    move_arg_slices(move, move->over.map.slices);
    enum err err = move_ask(move);
    return err ? err : move_meaning(&move->words);
}

/* Whoever still works on the move can not adopt any more; if it was adopted already it is done. */
enum err move_thaw(struct move *move)
{
    const struct map *map = &move->over.map;
    move_call(move, map->from, "thaw");
    move_slice_keys(move, "m", map->slices);
    call_arg_number(&move->call, map->version);
    call_arg_number(&move->call, map->base);
    move_arg_slices(move, map->slices);
    call_arg_number(&move->call, move->over.adopted);
    enum err err = move_ask(move);
    if (err)
        return err;
    if (words_begin_with(&move->words, "moved"))
        move->over.map.change = MAP_MOVE;
    else if (!words_begin_with(&move->words, "thawed"))
        return move_meaning(&move->words);
    return ERR_OK;
}
