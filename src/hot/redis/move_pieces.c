/* move_pieces.c - cells that get a piece, and pieces whose counts go home. */
#include "core/sequence.h"
#include "hot/redis/move_own.h"

/* The step is done by all of its cells at once. */
static enum err do_by_all(struct move *move, many_make_fn *make)
{
    struct many *many = many_new(move, move->over.cells);
    enum err err = many_ask(many, make);
    err = err ? err : many_meaning(many);
    many_free(many);
    return err;
}

/* ---- a piece more ---- */

static void make_reserve(struct move *move, struct call *call)
{
    move_begin_call(move, call, "reserve");
    call_key(call, "pieces");
    call_arg_number(call, move->over.map.version);
    move_arg_member(move, call);
    call_arg_number(call, move->incarnation);
}

enum err move_reserve(struct move *move)
{
    return do_by_all(move, make_reserve);
}

static void make_prepare(struct move *move, struct call *call)
{
    const struct map *map = &move->over.map;
    move_begin_call(move, call, "prepare");
    call_arg_number(call, map->version);
    call_arg_text(call, map->change != MAP_JOIN ? "" : map->is_item ? "S" : "C");
}

/* "stale", and the version that the piece knows. */
static void learn_version(struct move *move, const struct words *words)
{
    if (words_begin_with(words, "stale") && words_number(words, 1) > move->over.last_version)
        move->over.last_version = words_number(words, 1);
}

enum err move_prepare(struct move *move)
{
    struct many *many = many_new(move, move->over.cells);
    enum err err = many_ask(many, make_prepare);
    err = err ? err : many_meaning(many);
    for (uint64_t left = many->cells; left != 0; left &= left - 1) {
        const struct words *words = &many->words[__builtin_ctzll(left)];
        learn_version(move, words);
        if (!words_begin_with(words, "ok"))
            continue;
        move->over.adopted = words_number(words, 1);
        move->target_epoch = words_number(words, 2);
    }
    many_free(many);
    return err;
}

/* ---- pieces less ---- */

static void make_stop(struct move *move, struct call *call)
{
    move_begin_call(move, call, "stop");
    call_key(call, "out");
    call_arg_number(call, move->over.map.version);
    move_arg_after(move, call, call->cell, 0);
}

enum err move_stop_pieces(struct move *move)
{
    many_free(move->noted);
    move->noted = many_new(move, move->over.cells);
    enum err err = many_ask(move->noted, make_stop);
    return err ? err : many_meaning(move->noted);
}

enum err move_wait_noted(struct move *move)
{
    const struct many *noted = move->noted;
    enum err err = ERR_OK;
    for (uint64_t left = noted->cells; left != 0 && !err; left &= left - 1) {
        unsigned cell = (unsigned)__builtin_ctzll(left);
        err = move_wait_for_log(move, cell, words_number(&noted->words[cell], 1),
                                words_number(&noted->words[cell], 2));
    }
    return err;
}

/* What they have counted goes home, in the same step as the map says that they are gone. Home
 * comes after all that they have written. */
enum err move_take(struct move *move)
{
    const struct many *stopped = move->noted;
    struct section section;
    section_init(&section);
    for (uint64_t left = stopped->cells; left != 0; left &= left - 1) {
        unsigned cell = (unsigned)__builtin_ctzll(left);
        const struct words *words = &stopped->words[cell];
        move_add_after(&section, move, cell,
                       sequence_of(words_number(words, 1), words_number(words, 2)));
    }
    move_begin_write(move, &section);
    section_done(&section);
    for (uint64_t left = stopped->cells; left != 0; left &= left - 1) {
        const struct words *words = &stopped->words[__builtin_ctzll(left)];
        for (size_t i = 3; i < words->count; i++)
            call_arg(&move->call, words_at(words, i));
    }
    return move_end_write(move);
}

static void make_erase(struct move *move, struct call *call)
{
    move_begin_call(move, call, "erase");
    call_key(call, "pieces");
    call_key(call, "out");
    call_arg_number(call, move->over.map.base);
    move_arg_member(move, call);
    move_arg_after(move, call, call->cell, 0);
}

enum err move_erase(struct move *move)
{
    many_free(move->noted);
    move->noted = many_new(move, move->over.cells);
    enum err err = many_ask(move->noted, make_erase);
    return err ? err : many_meaning(move->noted);
}
