/* near.h - the name that was probably meant.
 *
 * A name is as far from another as letters must be changed, added, left out or swapped with their
 * neighbour to make one of the other. Offer all that there are; the nearest is kept:
 *
 *   struct near near = {.given = word, .limit = 3};
 *   for (...)
 *       near_offer(&near, names[i]);
 *   if (near.name)
 *       ... did you mean ... */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include "base/slice.h"

#define NEAR_BYTES_MAX 40u /* what is longer is near to nothing */

struct near {
    struct slice given;
    unsigned limit;   /* so far away, and it is another word */
    const char *name; /* borrowed; NULL: none of them */
};

void near_offer(struct near *near, const char *name);

#endif
