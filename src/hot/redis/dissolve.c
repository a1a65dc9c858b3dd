#include "hot/redis/dissolve.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "core/sequence.h"
#include "hot/redis/drop.h"
#include "hot/redis/load.h"
#include "hot/redis/move_own.h"
#include "hot/redis/spread.h"

#define DISSOLVE_MS 20000u
#define RELEASE_MS  0u /* asked once: who opens one cell has to begin the others meanwhile */

/* Gives up the piece of `move->id` in the cell, and says how far the cell has come: whatever it has
 * written of it is in there. */
static enum err wipe_in(struct move *move, unsigned cell, uint64_t *ret_sequence)
{
    move_call(move, cell, cell == move->home ? "progress" : "wipe");
    if (cell != move->home) {
        call_key_of(&move->call, "x", move->id);
        move_slice_keys(move, "m", UINT64_MAX);
    }
    enum err err = move_ask(move);
    *ret_sequence = sequence_of(words_number(&move->words, 0), words_number(&move->words, 1));
    return err;
}

static enum err wipe(struct move *move, uint64_t sequences[LIMIT_CELLS])
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < LIMIT_CELLS && !err; cell++)
        err = wipe_in(move, cell, &sequences[cell]);
    return err;
}

static bool are_saved(struct layer *layer, const uint64_t sequences[LIMIT_CELLS])
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (saves_of(layer, cell) < sequences[cell])
            return false;
    return true;
}

static enum err unlist_in(struct move *move, unsigned cell)
{
    char member[LIMIT_ID_BYTES + 8];
    int size = snprintf(member, sizeof(member), "%u:%.*s", move->home, SLICE_ARGS(move->id));
    call_clear(&move->call, cell, SCRIPT_MOVE);
    call_key(&move->call, "pieces");
    call_arg_text(&move->call, "unlist");
    call_arg(&move->call, (struct slice){member, (size_t)size});
    return move_ask(move);
}

static enum err unlist(struct move *move)
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < LIMIT_CELLS && !err; cell++)
        err = unlist_in(move, cell);
    return err;
}

/* Home lets go of it, too: then it is as cold as anything else. But the store, which has all that
 * the pieces have written, may go back; so home comes after that, and nothing is loaded there from
 * a store that is not as far. */
static enum err let_go(struct move *move, const uint64_t sequences[LIMIT_CELLS])
{
    struct section section;
    uint64_t count = 0;
    section_init(&section);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        if (cell == move->home || sequences[cell] == 0)
            continue;
        move_add_after(&section, move, cell, sequences[cell]);
        count++;
    }
    move_call(move, move->home, "gone");
    call_key_of(&move->call, "x", move->id);
    move_slice_keys(move, "m", UINT64_MAX);
    call_key(&move->call, "out");
    call_arg_number(&move->call, move->map.version);
    call_arg_number(&move->call, (uint64_t)env_wall_ms(move->layer->env));
    call_arg(&move->call, buffer_slice(&section.body));
    call_arg_number(&move->call, count);
    section_done(&section);
    enum err err = move_ask(move);
    if (err)
        return err;
    return words_begin_with(&move->words, "stale") ? ERR_BUSY : ERR_OK;
}

static enum err dissolve_move(struct move *move)
{
    enum err err = move_read(move);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    if (move->map.version == 0)
        return ERR_OK; /* it is in one piece */
    if (move->map.change != MAP_DISSOLVE) {
        char quoted[LIMIT_ID_BYTES];
        message_warning("a piece was lost, its item is loaded anew from the store id=%s",
                        message_quote(quoted, sizeof(quoted), move->id));
        move->map.change = MAP_DISSOLVE;
        err = move_write(move, 'F');
    }
    uint64_t sequences[LIMIT_CELLS];
    err = err ? err : wipe(move, sequences);
    while (!err && !are_saved(move->layer, sequences)) {
        if (move_is_late(move) || spreads_are_closing(move->layer))
            return ERR_TIMEOUT;
        move_pause(10);
    }
    err = err ? err : unlist(move);
    return err ? err : let_go(move, sequences);
}

enum err dissolve(struct layer *layer, struct slice id)
{
    if (!atomic_load(&layer->has_store))
        return ERR_UNAVAILABLE; /* there is nothing to load it from */
    struct move move;
    move_init(&move, layer, id, DISSOLVE_MS);
    enum err err = dissolve_move(&move);
    move_done(&move);
    loads_ring(layer);
    return err;
}

/* ---- a home that was lost ---- */

/* How far the cell has come, and which things of `home` have a piece there: words. */
static enum err list_pieces(struct move *list, unsigned home, unsigned cell, uint64_t *ret_sequence)
{
    move_call(list, cell, "progress");
    enum err err = move_ask(list);
    *ret_sequence = sequence_of(words_number(&list->words, 0), words_number(&list->words, 1));
    char prefix[8];
    snprintf(prefix, sizeof(prefix), "%u:", home);
    call_clear(&list->call, cell, SCRIPT_MOVE);
    call_key(&list->call, "pieces");
    call_arg_text(&list->call, "pieces");
    call_arg_text(&list->call, prefix);
    return err ? err : move_ask(list);
}

/* Gives up all pieces of that home in the cell, or (the store has them) forgets that there were
 * any. */
static enum err release_in(struct layer *layer, unsigned home, unsigned cell, bool is_saved,
                           uint64_t *ret_sequence)
{
    struct move list;
    move_init(&list, layer, slice_of("pieces"), RELEASE_MS);
    enum err err = list_pieces(&list, home, cell, ret_sequence);
    for (size_t i = 0; i < list.words.count && !err; i++) {
        struct slice id = words_at(&list.words, i);
        const char *colon = memchr(id.data, ':', id.size);
        assert(colon);
        struct move move;
        move_init(&move, layer, (struct slice){colon + 1, id.size - (size_t)(colon + 1 - id.data)},
                  RELEASE_MS);
        uint64_t sequence;
        err = is_saved ? unlist_in(&move, cell) : wipe_in(&move, cell, &sequence);
        if (!err && !is_saved && sequence > *ret_sequence)
            *ret_sequence = sequence;
        move_done(&move);
    }
    move_done(&list);
    return err;
}

static enum err release_all(struct layer *layer, unsigned home, bool is_saved,
                            uint64_t sequences[LIMIT_CELLS])
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < LIMIT_CELLS && !err; cell++)
        if (cell != home)
            err = release_in(layer, home, cell, is_saved, &sequences[cell]);
    return err;
}

enum err spreads_release(struct layer *layer, unsigned home)
{
    assert(!layer_is_own_thread(layer) && home < LIMIT_CELLS);

    if (!atomic_load(&layer->has_store))
        return ERR_OK; /* what is lost is lost */
    struct releases *releases = spreads_releases(layer);
    uint64_t *sequences = releases->homes[home].sequences;
    if (!releases->homes[home].is_waiting) {
        memset(sequences, 0, LIMIT_CELLS * sizeof(*sequences));
        enum err err = release_all(layer, home, false, sequences);
        if (err)
            return err;
        releases->homes[home].is_waiting = true;
    }
    if (!are_saved(layer, sequences))
        return ERR_BUSY;
    uint64_t ignored[LIMIT_CELLS];
    enum err err = release_all(layer, home, true, ignored);
    releases->homes[home].is_waiting = err != ERR_OK;
    return err;
}
