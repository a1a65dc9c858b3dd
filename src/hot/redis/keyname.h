/* keyname.h - what a key that a scan has met is the key of.
 *
 *   prefix:{17.5}:r:video1        record of video1 in cell 17
 *   prefix:{17.5}:m05:video1      members of its slice 5
 *
 * Pure. */
#ifndef HOT_REDIS_KEYNAME_H
#define HOT_REDIS_KEYNAME_H

#include <stdbool.h>

#include "base/slice.h"
#include "hot/redis/layer.h"

#define KEYNAME_PATTERN_MAX 160u

struct keyname {
    unsigned cell;
    bool is_record;  /* else members of a slice */
    struct slice id; /* points into the key */
};

/* False: it is none of these two, or not of this layer. */
bool keyname_parse(const struct layer *layer, struct slice key, struct keyname *ret);

/* A pattern for SCAN that fits records, and members of slices as well if `all`; others may fit. */
void keyname_pattern(const struct layer *layer, bool all, char pattern[KEYNAME_PATTERN_MAX]);

#endif
