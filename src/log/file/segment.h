/* segment.h - the bytes of the log on disk; pure, no I/O.
 *
 * The log is a row of segments, files of a fixed size that are full of zeros
 * before they are used. A segment is a header and then groups, one behind the
 * other; a group is what one commit wrote: whole or not at all.
 *
 *   segment                                   group
 *      0 magic "TALLYLOG"     8                  0 checksum              8
 *      8 format version       4                  8 magic "GRUP"          4
 *     12 (zero)               4                 12 body bytes            4
 *     16 log id               8                 16 log id                8
 *     24 segment number       8                 24 segment number        8
 *     32 segment bytes        8                 32 offset in the segment 8
 *     40 created, wall ms     8                 40 group number          8
 *     48 first group number   8                 48 sections              4
 *     56 end of the previous  8                 52 kind                  4
 *     64 (zeros)                                56 body: size(varint) byte*,
 *   4088 checksum             8                    for each section
 *   4096 group, group, ... zeros                   zeros up to a multiple of 8
 *
 * Numbers are little-endian. Both checksums are XXH3 over everything else of
 * their header, body and padding. A group says where it belongs (log, segment,
 * offset), so that a block which a disk wrote to the wrong place, or which is
 * left from an older life of the file, is never taken for the one that is
 * missing. Magic, version and checksum of the segment header stand at the same
 * place in every format.
 *
 * A header is durable before the first group of its segment is written, and a
 * group before the next one is. Hence whatever has something valid behind it
 * had been synced, and damage to it is damage, not a crash. */
#ifndef LOG_FILE_SEGMENT_H
#define LOG_FILE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

#define SEGMENT_VERSION      2u
#define SEGMENT_HEADER_BYTES 4096u
#define SEGMENT_ALIGN        4096u /* a segment's size is a multiple of it */

#define GROUP_HEADER_BYTES 56u
#define GROUP_ALIGN        8u
#define GROUP_BYTES_MAX    (4u << 20) /* header, body and padding */

struct segment_header {
    uint64_t log_id;
    uint64_t number; /* 1, 2, 3, ... without a gap */
    uint64_t size_bytes;
    int64_t created_ms;
    uint64_t first_group;  /* the number that its first group has or would have */
    uint64_t previous_end; /* where segment `number` - 1 ends; 0 if this is the first */
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
};

/* What a group with such a body takes in the segment. */
uint32_t group_bytes(uint32_t body_bytes);

/* Makes a group of a body that stands at bytes + GROUP_HEADER_BYTES: writes
 * header, padding and checksum around it. */
void group_seal(char *bytes, const struct group *group);

/* Reads the header of a group, GROUP_HEADER_BYTES long; false if none begins
 * here. Says nothing about the checksum. */
bool group_get(const char *bytes, struct group *ret_group);

/* Does the checksum match? `bytes` is the whole group. */
bool group_is_intact(const char *bytes, const struct group *group);

/* Cuts the next section off the front of `body`. False when there is none left
 * or, with `body` not empty, when it is malformed. */
bool group_next_section(struct slice *body, struct slice *ret_section);

#endif
