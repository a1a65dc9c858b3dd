#include "hot/redis/dissolve.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/sequence.h"
#include "hot/redis/drop.h"
#include "hot/redis/load.h"
#include "hot/redis/move_own.h"
#include "hot/redis/spread.h"

#define DISSOLVE_MS 20000u
#define RELEASE_MS  0u /* asked once: who opens one cell has to begin the others meanwhile */

/* What a process has said that is none any more is waited for in vain: all are asked again. */
#define PATIENCE_NS UINT64_C(10000000000)

/* Gives up the piece of `move->id` in the cell, unless it was made after `version` of the map (0:
 * of any), and says how far the cell has come: whatever it has written of it is in there. */
static enum err wipe_in(struct move *move, unsigned cell, uint64_t version, uint64_t *ret_sequence)
{
    move_call(move, cell, cell == move->home ? "progress" : "wipe");
    if (cell != move->home) {
        call_key_of(&move->call, "x", move->id);
        move_slice_keys(move, "m", UINT64_MAX);
        if (version > 0)
            call_arg_number(&move->call, version);
        else
            call_arg_text(&move->call, "");
        call_key(&move->call, "out");
        move_arg_after(move, &move->call, cell, 0);
    }
    enum err err = move_ask(move);
    *ret_sequence = sequence_of(words_number(&move->words, 0), words_number(&move->words, 1));
    return err;
}

enum err dissolve_wipe(struct move *move)
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < LIMIT_CELLS && !err; cell++)
        err = wipe_in(move, cell, move->over.map.version, &move->wiped[cell]);
    return err;
}

/* ERR_COLD: the store has not come so far. ERR_BUSY: a cell was opened anew since, perhaps with the
 * piece that another process of it had given up: it is to be asked again. */
static enum err are_saved(struct layer *layer, const uint64_t sequences[LIMIT_CELLS])
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        uint64_t saved = saves_of(layer, cell);
        if (sequences[cell] > 0 && sequence_epoch(saved) > sequence_epoch(sequences[cell]))
            return ERR_BUSY;
        if (saved < sequences[cell])
            err = ERR_COLD;
    }
    return err;
}

enum err dissolve_wait(struct move *move)
{
    enum err err = are_saved(move->layer, move->wiped);
    while (err == ERR_COLD) {
        if (move_is_late(move) || spreads_are_closing(move->layer))
            return ERR_TIMEOUT;
        move_pause(10);
        err = are_saved(move->layer, move->wiped);
    }
    return err;
}

static enum err unlist_in(struct move *move, unsigned cell)
{
    char member[LIMIT_ID_BYTES + 8];
    int size = snprintf(member, sizeof(member), "%u:%.*s", move->home, SLICE_ARGS(move->id));
    move_call(move, cell, "unlist");
    call_key(&move->call, "pieces");
    call_arg(&move->call, (struct slice){member, (size_t)size});
    enum err err = move_ask(move);
    return err ? err : move_meaning(&move->words);
}

enum err dissolve_unlist(struct move *move)
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < LIMIT_CELLS && !err; cell++)
        err = unlist_in(move, cell);
    return err;
}

/* Home lets go of it, too: then it is as cold as anything else. But the store, which has all that
 * the pieces have written, may go back; so home comes after that, and nothing is loaded there from
 * a store that is not as far. */
enum err dissolve_end(struct move *move)
{
    const uint64_t *sequences = move->wiped;
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
    call_arg_number(&move->call, move->over.map.version);
    call_arg_number(&move->call, (uint64_t)env_wall_ms(move->layer->env));
    call_arg(&move->call, buffer_slice(&section.body));
    call_arg_number(&move->call, count);
    section_done(&section);
    enum err err = move_ask(move);
    if (err)
        return err;
    return words_begin_with(&move->words, "stale") ? ERR_BUSY : ERR_OK;
}

enum err dissolve(struct layer *layer, struct slice id)
{
    if (!atomic_load(&layer->has_store))
        return ERR_UNAVAILABLE; /* there is nothing to load it from */
    struct move move;
    move_init(&move, layer, id, DISSOLVE_MS);
    hand_over_init_dissolve(&move.over, move.home, true);
    enum err err = move_run(&move);
    move_done(&move);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* ---- a home that was lost ---- */

/* How far the cell has come, or will have (move.lua), and which things of `home` have a piece
 * there: words. */
static enum err list_pieces(struct move *list, unsigned home, unsigned cell, bool is_saved,
                            uint64_t *ret_sequence)
{
    move_call(list, cell, is_saved ? "progress" : "fence");
    if (!is_saved)
        move_arg_after(list, &list->call, cell, 0);
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
    move_init(&list, layer, slice_of(EVENT_EPOCH_ID), RELEASE_MS);
    enum err err = list_pieces(&list, home, cell, is_saved, ret_sequence);
    for (size_t i = 0; i < list.words.count && !err; i++) {
        struct slice id = words_at(&list.words, i);
        const char *colon = memchr(id.data, ':', id.size);
        assert(colon);
        struct move move;
        move_init(&move, layer, (struct slice){colon + 1, id.size - (size_t)(colon + 1 - id.data)},
                  RELEASE_MS);
        uint64_t sequence;
        err = is_saved ? unlist_in(&move, cell) : wipe_in(&move, cell, 0, &sequence);
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

/* A store that fails over may forget what it had. So home comes after all other cells: nothing is
 * loaded there from a store that does not have the events, as in dissolve_end(). */
static void add_after_events(struct layer *layer, const uint64_t sequences[LIMIT_CELLS],
                             struct section *events)
{
    struct move move;
    move_init(&move, layer, slice_of(EVENT_EPOCH_ID), RELEASE_MS);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (sequences[cell] > 0)
            move_add_after(events, &move, cell, sequences[cell]);
    move_done(&move);
}

enum err spreads_release(struct layer *layer, unsigned home, uint64_t opening_since,
                         struct section *events)
{
    assert(!layer_is_own_thread(layer) && home < LIMIT_CELLS && events);

    if (!atomic_load(&layer->has_store))
        return ERR_OK; /* what is lost is lost */
    struct release *release = &spreads_releases(layer)->homes[home];
    uint64_t now_ns = env_monotonic_ns(layer->env);
    if (release->opening_since != opening_since)
        *release = (struct release){.opening_since = opening_since, .patience_ns = PATIENCE_NS};
    if (release->is_waiting && now_ns - release->began_ns > release->patience_ns) {
        release->is_waiting = false;
        release->patience_ns *= 2;
    }
    if (!release->is_waiting) {
        memset(release->sequences, 0, sizeof(release->sequences));
        enum err err = release_all(layer, home, false, release->sequences);
        if (err)
            return err;
        release->is_waiting = true;
        release->began_ns = now_ns;
    }
    enum err err = are_saved(layer, release->sequences);
    if (err == ERR_COLD)
        return ERR_BUSY;
    uint64_t ignored[LIMIT_CELLS];
    err = err ? err : release_all(layer, home, true, ignored);
    release->is_waiting = err == ERR_UNAVAILABLE;
    if (!err)
        add_after_events(layer, release->sequences, events);
    return err;
}
