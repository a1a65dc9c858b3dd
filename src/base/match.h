/* match.h - the glob patterns of Redis: * ? [a-z] [^a] \x, over bytes. */
#ifndef BASE_MATCH_H
#define BASE_MATCH_H

#include <stdbool.h>

#include "base/slice.h"

/* Does the whole of `text` match? Takes time in proportion to pattern times
 * text at worst, never exponential. */
bool match_glob(struct slice pattern, struct slice text);

#endif
