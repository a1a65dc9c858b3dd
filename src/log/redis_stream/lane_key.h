/* lane_key.h - the names of a lane's keys.
 *
 * All keys of a lane carry the same tag in braces, so that a cluster keeps them in one slot. The
 * tags are chosen so that the slots of the 64 lanes lie evenly: lane l's is one of the 256 from
 * 256 l on. Pure. */
#ifndef LOG_REDIS_STREAM_LANE_KEY_H
#define LOG_REDIS_STREAM_LANE_KEY_H

#include <stdint.h>

#include "core/limits.h"

#define LANE_KEY_BYTES  96u
#define LANE_SLOTS      16384u
#define LANE_SLOT_RANGE (LANE_SLOTS / LIMIT_CELLS)

/* Writes "prefix:{tag}:name" at `to`, which has LANE_KEY_BYTES of room. */
void lane_key(char *to, const char *prefix, unsigned lane, const char *name);

/* The slot of a key, as Redis Cluster computes it. */
unsigned lane_key_slot(const char *key);

#endif
