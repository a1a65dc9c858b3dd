/* cold.h - makes a hot layer answer ERR_COLD for every id that it is asked for the
 * first time, and "loads" it a moment later: whatever a transcript says must come
 * out the same. */
#ifndef TRANSCRIPT_COLD_H
#define TRANSCRIPT_COLD_H

#include "core/hot.h"

/* One at a time. `hot` runs its batches at once. */
void cold_begin(struct hot *hot);

/* Before the hot layer is closed. Says how many ids were cold at first. */
size_t cold_end(struct hot *hot);

#endif
