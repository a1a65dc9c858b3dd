/* move_own.h - what the files of move.h share.
 *
 *   move.c          what to do next, until it is done
 *   move_steps.c    calls of lua/move.lua; the map at home; waiting for the log
 *   move_pieces.c   cells that get a piece, and pieces that go home
 *   move_slices.c   slices from one cell to another
 *   dissolve.c      what has lost a piece */
#ifndef HOT_REDIS_MOVE_OWN_H
#define HOT_REDIS_MOVE_OWN_H

#include "core/event.h"
#include "hot/redis/move.h"

/* --- move_steps.c --- */

uint64_t move_now_ns(const struct move *move);
bool move_is_killed(void);

/* What the word says that a step was answered with. ERR_BUSY: somebody else was quicker; ERR_COLD:
 * once more; ERR_CORRUPT: a piece was lost. */
enum err move_meaning(const struct words *words);

/* Parts of calls. */
void move_begin_call(const struct move *move, struct call *call, const char *verb);
void move_slice_key(struct move *move, const char *letter, unsigned slice);
void move_arg_slices(struct move *move, uint64_t slices);
void move_arg_member(const struct move *move, struct call *call);
void move_arg_after(const struct move *move, struct call *call, unsigned origin, uint64_t sequence);

/* An event that changes nothing, but waits until `origin` has come to `sequence` in the store. */
void move_add_after(struct section *section, const struct move *move, unsigned origin,
                    uint64_t sequence);

/* The map is written down in place of that of version over.before, in the same step as these
 * events; more arguments may be added between. ERR_BUSY: there is another by now. */
void move_begin_write(struct move *move, const struct section *events);
enum err move_end_write(struct move *move);
enum err move_write(struct move *move);

/* Waits until the log has what home has written so far. */
enum err move_wait_home(struct move *move);

/* Waits until the log has the event `n` of the cell. ERR_BUSY: the cell has begun anew meanwhile,
 * with it or without. */
enum err move_wait_for_log(struct move *move, unsigned cell, uint64_t epoch, uint64_t n);

/* Calls are made by `make`; the answers are in words, by cell. */
struct many {
    struct move *move;
    uint64_t cells;
    struct call calls[LIMIT_CELLS];
    struct words words[LIMIT_CELLS];
};

typedef void many_make_fn(struct move *move, struct call *call);

struct many *many_new(struct move *move, uint64_t cells);
void many_free(struct many *many);

/* Asks all of them, again and again as move_ask() does. */
enum err many_ask(struct many *many, many_make_fn *make);
enum err many_meaning(const struct many *many);

/* --- move_pieces.c --- */

/* What the steps of hand_over.h do. */
enum err move_reserve(struct move *move);
enum err move_prepare(struct move *move);
enum err move_stop_pieces(struct move *move);
enum err move_wait_noted(struct move *move);
enum err move_take(struct move *move);
enum err move_erase(struct move *move);

/* --- move_slices.c --- */

enum err move_freeze(struct move *move);
enum err move_wait_source(struct move *move);
enum err move_copy(struct move *move);
enum err move_adopt(struct move *move);
enum err move_release(struct move *move);
enum err move_thaw(struct move *move);

/* --- dissolve.c --- */

enum err dissolve_wipe(struct move *move);
enum err dissolve_wait(struct move *move);
enum err dissolve_unlist(struct move *move);
enum err dissolve_end(struct move *move);

#endif
