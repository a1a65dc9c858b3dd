/* verify.h - looks the sealed segments through while the log runs.
 *
 * A start reads only what the store does not have yet: damage to what is older
 * would be found when somebody recounts from it, or never. So all of it is read
 * again and again, a little at a time, and damage is told with file and offset.
 * Nothing is changed. Belongs to one thread. */
#ifndef LOG_FILE_VERIFY_H
#define LOG_FILE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "log/file/folder.h"
#include "log/file/segments.h"
#include "log/file/view.h"

struct verify {
    const struct folder *folder; /* borrowed */
    struct segments *segments;   /* borrowed */
    struct view view;
    struct segments_entry here; /* the segment that is open; number 0 = none */
    uint64_t next;              /* number of the segment to open next */
    uint64_t at;                /* in the open one */
};

struct verify_step {
    uint64_t bytes;  /* that were read */
    bool is_damaged; /* a segment is, as `error` says; the next step goes on behind it */
    bool is_all;     /* all sealed segments were looked at: the next step begins anew */
};

void verify_init(struct verify *verify, const struct folder *folder, struct segments *segments);
void verify_done(struct verify *verify);

/* Looks at a piece of a segment. An error other than damage says nothing of the
 * segment: it is left out this time. */
enum err verify_some(struct verify *verify, struct verify_step *ret_step, struct error *error);

#endif
