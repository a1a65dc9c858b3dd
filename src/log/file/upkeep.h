/* upkeep.h - what is done to sealed segments while the log runs: removing the
 * oldest, and writing one anew without some of its bytes.
 *
 * A crash at any point leaves a log that can be read: trimming says first, and
 * durably, where the log begins from now on, and a segment that is written anew
 * takes the place of the old one by its name, whole and synced. One thread at a
 * time. */
#ifndef LOG_FILE_UPKEEP_H
#define LOG_FILE_UPKEEP_H

#include <stdint.h>

#include "base/error.h"
#include "core/log.h"
#include "log/file/folder.h"
#include "log/file/segments.h"

/* Removes the files of segments before `first`, oldest first, after
 * folder_set_first(). */
enum err upkeep_remove(const struct folder *folder, uint64_t first, struct error *error);

/* Removes what a crash has left: segments before `first`, files half written. */
enum err upkeep_tidy(const struct folder *folder, uint64_t first, struct error *error);

/* Writes the segment anew if `scrub` changes anything, or if something stands
 * behind its end. *ret_renamed says whether the new file took the old one's name,
 * also when the sync of that failed. */
enum err upkeep_scrub(const struct folder *folder, const struct segments_entry *entry,
                      log_scrub_fn *scrub, void *arg, uint64_t *ret_changed, bool *ret_renamed,
                      struct error *error);

#endif
