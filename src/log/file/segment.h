/* segment.h - the bytes of the log on disk; pure, no I/O.
 *
 * The log is a row of segments, files of a fixed size that are full of zeros
 * before they are used. A segment is a header and then groups, one behind the
 * other; a group is what one commit wrote: whole or not at all.
 *
 *   segment                                   group
 *      0 magic "TALLYLOG"     8                  0 checksum of what is behind 64  8
 *      8 format version       4                  8 magic "GRUP"                   4
 *     12 (zero)               4                 12 body bytes                     4
 *     16 log id               8                 16 log id                         8
 *     24 segment number       8                 24 segment number                 8
 *     32 segment bytes        8                 32 offset in the segment          8
 *     40 created, wall ms     8                 40 group number                   8
 *     48 first group number   8                 48 sections                       4
 *     56 end of the previous  8                 52 kind                           1
 *     64 (zeros)                                53 zeros at edges of sectors      3
 *   4088 checksum             8                 56 checksum of what is before     8
 *   4096 group, group, ... zeros                64 body: size(varint) byte*,
 *                                                  for each section
 *                                                  0xa5 up to a multiple of 64
 *
 * Numbers are little-endian, checksums are XXH3. A group says where it belongs
 * (log, segment, offset), so that a block which a disk wrote to the wrong place,
 * or which is left from an older life of the file, is never taken for the one
 * that is missing. Magic, version and checksum of the segment header stand at the
 * same place in every format.
 *
 * A header is durable before the first group of its segment is written, and a
 * group before the next one is. Hence whatever has something valid behind it
 * had been synced, and damage to it is damage, not a crash.
 *
 * The last group has nothing behind it. What a power cut leaves of its write are
 * sectors that arrived and sectors that are still zero, and one may have arrived
 * in part: so each torn sector begins or ends with more zeros than were written.
 * The header counts those that were, and has a checksum of its own; it lies in
 * one sector, and its first and its last byte are never zero. So a write that was
 * torn is told from bytes that changed later: see group_is_torn().
 *
 * Version 2 had one checksum at 0 over all of the group, a header of 56 bytes, no
 * count of zeros, and zeros up to a multiple of 8. It is read and scrubbed. */
#ifndef LOG_FILE_SEGMENT_H
#define LOG_FILE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

#define SEGMENT_VERSION      3u
#define SEGMENT_VERSION_OLD  2u /* which can be read */
#define SEGMENT_HEADER_BYTES 4096u
#define SEGMENT_ALIGN        4096u /* a segment's size is a multiple of it */

#define GROUP_HEADER_BYTES     64u
#define GROUP_HEADER_BYTES_OLD 56u
#define GROUP_ALIGN            64u
#define GROUP_ALIGN_OLD        8u
#define GROUP_BYTES_MAX        (4u << 20) /* header, body and padding */

struct segment_header {
    uint64_t log_id;
    uint64_t number; /* 1, 2, 3, ... without a gap */
    uint64_t size_bytes;
    int64_t created_ms;
    uint64_t first_group;  /* the number that its first group has or would have */
    uint64_t previous_end; /* where segment `number` - 1 ends; 0 if this is the first */
    bool is_old;           /* of format version 2, and so are its groups */
};

void segment_header_put(const struct segment_header *header, char to[SEGMENT_HEADER_BYTES]);

/* ERR_CORRUPT if the bytes are no such header, ERR_INVALID if they are one of
 * another format; the text begins in mid-sentence, behind the name of the file. */
enum err segment_header_get(const char from[SEGMENT_HEADER_BYTES],
                            struct segment_header *ret_header, struct error *error);

enum group_kind {
    GROUP_SECTIONS,
    GROUP_CLOSING, /* the log was closed here: nothing follows in this segment */
};

struct group {
    uint64_t log_id;
    uint64_t segment;
    uint64_t offset;
    uint64_t number; /* 1, 2, 3, ... through the whole log */
    uint32_t body_bytes;
    uint32_t sections;
    enum group_kind kind;
    bool is_old; /* of a segment of format version 2 */
};

/* What a group with such a body takes in a segment of the current version. */
uint32_t group_bytes(uint32_t body_bytes);

/* What this one takes, and where its body begins. */
uint32_t group_size(const struct group *group);
uint32_t group_header_bytes(bool is_old);
struct slice group_body(const char *bytes, const struct group *group);

/* Makes a group of a body that stands behind the room for its header: writes
 * header, padding and checksums around it. */
void group_seal(char *bytes, const struct group *group);

/* Reads the header of a group, GROUP_HEADER_BYTES long; false if none begins
 * here. Says nothing about the checksums. */
bool group_get(const char *bytes, struct group *ret_group);
bool group_get_old(const char *bytes, struct group *ret_group);

/* Do the checksums match? `bytes` is the whole group. */
bool group_is_intact(const char *bytes, const struct group *group);

/* The same for its header alone, GROUP_HEADER_BYTES long; there is none in
 * version 2. */
bool group_header_is_intact(const char *bytes);

/* Where the next group of a log should begin, at `place` (log id, segment, offset),
 * no sound one of the current version does. Are sectors of one missing, as after a
 * write that a power cut tore? If not, all of it arrived once and has changed since,
 * or is not what was written here. There are `size` bytes up to the segment's end,
 * and all behind the first `used` are zero. */
bool group_is_torn(const char *bytes, size_t size, uint64_t used, const struct group *place);

/* Cuts the next section off the front of `body`. False when there is none left
 * or, with `body` not empty, when it is malformed. */
bool group_next_section(struct slice *body, struct slice *ret_section);

#endif
