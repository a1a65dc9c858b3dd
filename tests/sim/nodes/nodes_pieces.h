/* nodes_pieces.h - a model of lua/move.lua: what each step of a mover does in a cell, all or
 * nothing.
 *
 * A verb is done in whatever process the mover's node takes for the cell's. ERR_UNAVAILABLE: it
 * does not answer, is closed, or has no room; nothing was done. Else what move_meaning() makes of
 * the script's answer. */
#ifndef NODES_PIECES_H
#define NODES_PIECES_H

#include "base/error.h"
#include "hot/redis/hand_over.h"
#include "sim/nodes/nodes_redis.h"

/* Who asks, and about what. */
struct asker_of_piece {
    struct redis_model *model;
    unsigned node;
    unsigned thing;
};

/* What was frozen at the source of a move. */
struct frozen_slices {
    uint64_t sequence;
    char owned[SLICES];
    unsigned sizes[SLICES];
};

/* What a piece had counted when it was stopped. */
struct stopped_piece {
    uint64_t sequence;
    int64_t value;
    int32_t counts[HELD_COUNT];
};

enum err pieces_read(struct asker_of_piece asker, struct map *ret_map, uint64_t *ret_last_version);

/* `stopped`: by cell, the counts of those in `taken` are added. */
enum err pieces_write(struct asker_of_piece asker, const struct map *map, uint64_t before,
                      const struct stopped_piece *stopped, uint64_t taken);

enum err pieces_reserve(struct asker_of_piece asker, unsigned cell, uint64_t version);
enum err pieces_prepare(struct asker_of_piece asker, unsigned cell, const struct map *map,
                        uint64_t *ret_adopted, uint64_t *ret_epoch, uint64_t *last_version);
enum err pieces_freeze(struct asker_of_piece asker, const struct map *map,
                       struct frozen_slices *ret_frozen);
enum err pieces_copy(struct asker_of_piece asker, const struct map *map,
                     const struct frozen_slices *frozen, unsigned slice);
enum err pieces_adopt(struct asker_of_piece asker, const struct map *map,
                      const struct frozen_slices *frozen, uint64_t epoch);
enum err pieces_release(struct asker_of_piece asker, const struct map *map);
enum err pieces_thaw(struct asker_of_piece asker, struct map *map, uint64_t adopted);
enum err pieces_stop(struct asker_of_piece asker, unsigned cell, const struct map *map,
                     struct stopped_piece *ret_stopped);
enum err pieces_erase(struct asker_of_piece asker, unsigned cell, const struct map *map,
                      uint64_t *ret_sequence);
enum err pieces_wipe(struct asker_of_piece asker, unsigned cell, uint64_t version,
                     uint64_t *ret_sequence);
enum err pieces_unlist(struct asker_of_piece asker, unsigned cell);
enum err pieces_gone(struct asker_of_piece asker, uint64_t version,
                     const uint64_t sequences[LIMIT_CELLS]);

/* How far the cell is, and how far the log is known to be. */
enum err pieces_progress(struct asker_of_piece asker, unsigned cell, uint64_t *ret_sequence,
                         uint64_t *ret_relayed);

#endif
