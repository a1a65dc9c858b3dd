/* writer.h - the end of the log: the segment that groups are written to.
 *
 * A segment begins its life zeroed and synced under another name; then its
 * header is written and synced, then it gets its number as name, then the folder
 * is synced, and only then comes its first group. So a file that bears the name
 * of a segment has always been whole.
 *
 * Belongs to one thread. */
#ifndef LOG_FILE_WRITER_H
#define LOG_FILE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "log/file/chain.h"
#include "log/file/folder.h"
#include "log/file/segment.h"
#include "log/file/synced.h"

struct writer {
    struct env *env;             /* borrowed */
    const struct folder *folder; /* borrowed */
    uint64_t log_id;
    struct disk_file *file; /* of the segment; NULL before the first writer_begin() */
    uint64_t segment;       /* its number, or that of the segment before the first one */
    uint64_t size_bytes;
    uint64_t at;         /* where the next group goes, or where the segment before ends */
    uint64_t next_group; /* number of the next group */
    struct synced synced;
    uint32_t put_bytes; /* of the group that was put and not synced yet */
};

/* Prepares to go on behind a log that was read, and makes what was read durable. */
enum err writer_resume(struct writer *writer, struct env *env, const struct folder *folder,
                       const struct chain *chain, const struct chain_end *end, struct error *error);
void writer_done(struct writer *writer);

/* Makes the zeroed file `name` of the folder the next segment, with the header
 * that it gives back; from then on the writer owns it. ERR_FULL leaves everything
 * as it was, to be tried again. */
enum err writer_begin(struct writer *writer, struct disk_file *file, const char *name,
                      uint64_t size_bytes, struct segment_header *ret_header, struct error *error);

/* Where the groups end. */
struct log_position writer_position(const struct writer *writer);

/* Is there a segment with room for a group of this size? */
bool writer_fits(const struct writer *writer, uint32_t group_size);

/* Seals a group (its kind, body and sections are the caller's, its place ours)
 * and writes it. ERR_FULL leaves it to be tried again. */
enum err writer_put(struct writer *writer, char *bytes, struct group group, struct error *error);

/* Makes the group that was put durable, and part of the log, and notes that. After an error
 * nobody knows what is on the disk: it must not be tried again. */
enum err writer_sync(struct writer *writer, struct error *error);

/* Makes what was noted durable, too. ERR_FULL leaves it to be tried again. */
enum err writer_settle(struct writer *writer, struct error *error);

/* Says that the log ends here, so that later damage to its last group is
 * noticed as such. Left out where it has no place, or closes nothing. What was noted is durable
 * then. */
enum err writer_close(struct writer *writer, struct error *error);

#endif
