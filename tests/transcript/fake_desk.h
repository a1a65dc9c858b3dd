/* fake_desk.h - a desk that knows a few things by heart, so that transcripts can show
 * how answers look. Jobs run on a thread of their own, one after the other. */
#ifndef TRANSCRIPT_FAKE_DESK_H
#define TRANSCRIPT_FAKE_DESK_H

#include "flow/desk.h"

struct desk *fake_desk_open(void);

/* No job runs any more when this returns. */
void fake_desk_close(struct desk *desk);

#endif
