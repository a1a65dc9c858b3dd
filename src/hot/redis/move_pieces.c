/* move_pieces.c - cells that get a piece, and pieces whose counts go home. */
#include "core/sequence.h"
#include "hot/redis/move_own.h"

/* ---- a piece more ---- */

static void make_prepare(struct move *move, struct call *call)
{
    move_begin_call(move, call, "prepare");
    call_key(call, "pieces");
    call_arg_number(call, move->map.version);
    move_arg_member(move, call);
    call_arg_text(call, move->map.is_item ? "S" : "C");
    call_arg_number(call, move->incarnation);
}

enum err move_prepare(struct move *move, unsigned cell, uint64_t *ret_adopted)
{
    call_clear(&move->call, cell, SCRIPT_MOVE);
    make_prepare(move, &move->call);
    enum err err = move_ask(move);
    if (err)
        return err;
    *ret_adopted = words_number(&move->words, 1);
    return move_meaning(&move->words);
}

enum err move_join(struct move *move)
{
    /* Home must not forget of whom it takes counts. */
    move_call(move, move->home, "progress");
    enum err err = move_ask(move);
    if (!err)
        err = move_wait_for_log(move, move->home, words_number(&move->words, 0),
                                words_number(&move->words, 1));
    if (err)
        return err;
    struct many *many = many_new(move, move->map.slices);
    err = many_ask(many, make_prepare);
    err = err ? err : many_meaning(many);
    many_free(many);
    return err;
}

/* ---- pieces less ---- */

static void make_stop(struct move *move, struct call *call)
{
    move_begin_call(move, call, "stop");
    call_key(call, "out");
    call_arg_number(call, move->map.version);
    move_arg_after(move, call, call->cell, 0);
}

static enum err wait_for_logs(struct move *move, const struct many *stopped)
{
    enum err err = ERR_OK;
    for (uint64_t left = stopped->cells; left != 0 && !err; left &= left - 1) {
        unsigned cell = (unsigned)__builtin_ctzll(left);
        err = move_wait_for_log(move, cell, words_number(&stopped->words[cell], 1),
                                words_number(&stopped->words[cell], 2));
    }
    return err;
}

/* What they have counted goes home, in the same step as the map says that they are gone. Home
 * comes after all that they have written. */
static enum err take_counts(struct move *move, const struct many *stopped)
{
    struct section section;
    section_init(&section);
    for (uint64_t left = stopped->cells; left != 0; left &= left - 1) {
        unsigned cell = (unsigned)__builtin_ctzll(left);
        const struct words *words = &stopped->words[cell];
        move_add_after(&section, move, cell,
                       sequence_of(words_number(words, 1), words_number(words, 2)));
    }
    map_finish(&move->map); /* there is still their end to come */
    move_begin_write(move, move_type(move), &section);
    section_done(&section);
    for (uint64_t left = stopped->cells; left != 0; left &= left - 1) {
        const struct words *words = &stopped->words[__builtin_ctzll(left)];
        for (size_t i = 3; i < words->count; i++)
            call_arg(&move->call, words_at(words, i));
    }
    return move_end_write(move);
}

enum err move_drain(struct move *move)
{
    struct many *many = many_new(move, move->map.slices);
    enum err err = many_ask(many, make_stop);
    err = err ? err : many_meaning(many);
    err = err ? err : wait_for_logs(move, many);
    err = err ? err : take_counts(move, many);
    many_free(many);
    return err;
}

static void make_erase(struct move *move, struct call *call)
{
    move_begin_call(move, call, "erase");
    call_key(call, "pieces");
    call_arg_number(call, move->map.base);
    move_arg_member(move, call);
}

enum err move_erase(struct move *move)
{
    struct many *many = many_new(move, move->map.slices);
    enum err err = many_ask(many, make_erase);
    err = err ? err : many_meaning(many);
    many_free(many);
    return err;
}
