#include "log/file/segment.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/hash.h"
#include "base/varint.h"

#define CHECKSUM_BYTES 8u
#define HEADER_SUM_AT  (GROUP_HEADER_BYTES - CHECKSUM_BYTES)
#define PADDING        0xa5
#define SECTOR_BYTES   512u /* what a disk writes whole or not at all */

/* Two bits, so that no single one that turns makes a zero of the byte. */
#define FIRST_BYTE_MARK UINT64_C(0x81)
#define LAST_BYTE_MARK  (UINT64_C(0x81) << 56)

static const char segment_magic[8] = {'T', 'A', 'L', 'L', 'Y', 'L', 'O', 'G'};
static const char group_magic[4] = {'G', 'R', 'U', 'P'};

/* ---- numbers ---- */

static void put32(char *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof(value));
}

static void put64(char *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof(value));
}

static uint32_t get32(const char *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof(value));
    return le32toh(value);
}

static uint64_t get64(const char *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return le64toh(value);
}

/* ---- segments ---- */

static uint64_t header_checksum(const char *header)
{
    return hash_stable((struct slice){header, SEGMENT_HEADER_BYTES - CHECKSUM_BYTES});
}

void segment_header_put(const struct segment_header *header, char to[SEGMENT_HEADER_BYTES])
{
    assert(header->number > 0 && header->size_bytes % SEGMENT_ALIGN == 0);

    memset(to, 0, SEGMENT_HEADER_BYTES);
    memcpy(to, segment_magic, sizeof(segment_magic));
    put32(to + 8, header->is_old ? SEGMENT_VERSION_OLD : SEGMENT_VERSION);
    put64(to + 16, header->log_id);
    put64(to + 24, header->number);
    put64(to + 32, header->size_bytes);
    put64(to + 40, (uint64_t)header->created_ms);
    put64(to + 48, header->first_group);
    put64(to + 56, header->previous_end);
    put64(to + SEGMENT_HEADER_BYTES - CHECKSUM_BYTES, header_checksum(to));
}

enum err segment_header_get(const char from[SEGMENT_HEADER_BYTES],
                            struct segment_header *ret_header, struct error *error)
{
    if (memcmp(from, segment_magic, sizeof(segment_magic)) != 0)
        return error_set(error, ERR_CORRUPT, "offset 0: this is not a segment of Tally's log");
    if (get64(from + SEGMENT_HEADER_BYTES - CHECKSUM_BYTES) != header_checksum(from))
        return error_set(error, ERR_CORRUPT, "offset 0: the header's checksum does not match");

    uint32_t version = get32(from + 8);
    if (version != SEGMENT_VERSION && version != SEGMENT_VERSION_OLD)
        return error_set(error, ERR_INVALID,
                         "it has format version %u, and this Tally knows versions %u and %u only: "
                         "run the Tally that wrote it, or begin with an empty folder",
                         version, SEGMENT_VERSION_OLD, SEGMENT_VERSION);

    struct segment_header header = {
        .log_id = get64(from + 16),
        .number = get64(from + 24),
        .size_bytes = get64(from + 32),
        .created_ms = (int64_t)get64(from + 40),
        .first_group = get64(from + 48),
        .previous_end = get64(from + 56),
        .is_old = version == SEGMENT_VERSION_OLD,
    };
    if (header.number == 0 || header.first_group == 0 || header.size_bytes % SEGMENT_ALIGN != 0 ||
        header.size_bytes < SEGMENT_HEADER_BYTES || header.size_bytes > INT64_MAX)
        return error_set(error, ERR_CORRUPT, "offset 0: the header makes no sense");

    *ret_header = header;
    return ERR_OK;
}

/* ---- groups: their size ---- */

uint32_t group_header_bytes(bool is_old)
{
    return is_old ? GROUP_HEADER_BYTES_OLD : GROUP_HEADER_BYTES;
}

uint32_t group_bytes(uint32_t body_bytes)
{
    return (GROUP_HEADER_BYTES + body_bytes + GROUP_ALIGN - 1) / GROUP_ALIGN * GROUP_ALIGN;
}

uint32_t group_size(const struct group *group)
{
    if (!group->is_old)
        return group_bytes(group->body_bytes);
    uint32_t used = GROUP_HEADER_BYTES_OLD + group->body_bytes;
    return (used + GROUP_ALIGN_OLD - 1) / GROUP_ALIGN_OLD * GROUP_ALIGN_OLD;
}

struct slice group_body(const char *bytes, const struct group *group)
{
    return (struct slice){bytes + group_header_bytes(group->is_old), group->body_bytes};
}

/* ---- groups: zeros at the edges of sectors ---- */

static uint32_t zeros_at_edges_of(const char *bytes, size_t size)
{
    size_t front = 0;
    while (front < size && bytes[front] == 0)
        front++;
    size_t back = 0;
    while (back < size && bytes[size - 1 - back] == 0)
        back++;
    return (uint32_t)(front + back);
}

/* How many zeros the sectors begin and end with, as far as they lie in the body.
 * A sector that is missing, in its front, its back or altogether, has more. */
static uint32_t zeros_at_edges(const char *bytes, const struct group *group)
{
    uint32_t zeros = 0;
    uint64_t end = group->offset + group_size(group);
    for (uint64_t at = group->offset + GROUP_HEADER_BYTES; at < end;) {
        uint64_t next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        if (next > end)
            next = end;
        zeros += zeros_at_edges_of(bytes + (at - group->offset), (size_t)(next - at));
        at = next;
    }
    return zeros;
}

/* ---- groups: their checksums ---- */

static uint64_t old_checksum(const char *bytes, const struct group *group)
{
    return hash_stable((struct slice){bytes + CHECKSUM_BYTES, group_size(group) - CHECKSUM_BYTES});
}

static uint64_t body_checksum(const char *bytes, const struct group *group)
{
    size_t size = group_size(group) - GROUP_HEADER_BYTES;
    return hash_stable((struct slice){bytes + GROUP_HEADER_BYTES, size}) | FIRST_BYTE_MARK;
}

static uint64_t head_checksum(const char *bytes)
{
    return hash_stable((struct slice){bytes, HEADER_SUM_AT}) | LAST_BYTE_MARK;
}

bool group_header_is_intact(const char *bytes)
{
    return get64(bytes + HEADER_SUM_AT) == head_checksum(bytes);
}

bool group_is_intact(const char *bytes, const struct group *group)
{
    if (group->is_old)
        return get64(bytes) == old_checksum(bytes, group);
    return group_header_is_intact(bytes) && get64(bytes) == body_checksum(bytes, group);
}

/* ---- groups ---- */

static void put_fields(char *bytes, const struct group *group)
{
    memcpy(bytes + 8, group_magic, sizeof(group_magic));
    put32(bytes + 12, group->body_bytes);
    put64(bytes + 16, group->log_id);
    put64(bytes + 24, group->segment);
    put64(bytes + 32, group->offset);
    put64(bytes + 40, group->number);
    put32(bytes + 48, group->sections);
}

void group_seal(char *bytes, const struct group *group)
{
    uint32_t size = group_size(group);
    assert(size <= GROUP_BYTES_MAX);

    put_fields(bytes, group);
    uint32_t used = group_header_bytes(group->is_old) + group->body_bytes;
    memset(bytes + used, group->is_old ? 0 : PADDING, size - used);
    if (group->is_old) {
        put32(bytes + 52, group->kind);
        put64(bytes, old_checksum(bytes, group));
        return;
    }
    assert(group->offset % GROUP_ALIGN == 0);
    put32(bytes + 52, (uint32_t)group->kind | zeros_at_edges(bytes, group) << 8);
    put64(bytes, body_checksum(bytes, group));
    put64(bytes + HEADER_SUM_AT, head_checksum(bytes));
}

static bool get_fields(const char *bytes, uint32_t kind, bool is_old, struct group *ret_group)
{
    if (memcmp(bytes + 8, group_magic, sizeof(group_magic)) != 0)
        return false;
    uint32_t body_bytes = get32(bytes + 12);
    uint32_t align = is_old ? GROUP_ALIGN_OLD : GROUP_ALIGN;
    if (body_bytes > GROUP_BYTES_MAX - group_header_bytes(is_old) - align || kind > GROUP_CLOSING)
        return false;

    *ret_group = (struct group){
        .log_id = get64(bytes + 16),
        .segment = get64(bytes + 24),
        .offset = get64(bytes + 32),
        .number = get64(bytes + 40),
        .body_bytes = body_bytes,
        .sections = get32(bytes + 48),
        .kind = kind,
        .is_old = is_old,
    };
    return true;
}

bool group_get(const char *bytes, struct group *ret_group)
{
    return get_fields(bytes, get32(bytes + 52) & 0xff, false, ret_group);
}

bool group_get_old(const char *bytes, struct group *ret_group)
{
    return get_fields(bytes, get32(bytes + 52), true, ret_group);
}

bool group_is_torn(const char *bytes, size_t size, uint64_t used, const struct group *place)
{
    assert(size >= GROUP_HEADER_BYTES);

    if (!group_header_is_intact(bytes))
        return bytes[0] == 0 || bytes[GROUP_HEADER_BYTES - 1] == 0;

    struct group group;
    bool belongs_here = group_get(bytes, &group) && group.log_id == place->log_id &&
                        group.segment == place->segment && group.offset == place->offset;
    if (!belongs_here || group_size(&group) > size)
        return false;
    if (used > group_size(&group))
        return false; /* what is behind it was written after it had been synced */
    return zeros_at_edges(bytes, &group) > get32(bytes + 52) >> 8;
}

bool group_next_section(struct slice *body, struct slice *ret_section)
{
    const char *end = body->data + body->size;
    uint64_t size;
    const char *at = body->size > 0 ? varint_get(body->data, end, &size) : NULL;
    if (!at || size > (uint64_t)(end - at))
        return false;

    *ret_section = (struct slice){at, (size_t)size};
    *body = (struct slice){at + size, (size_t)(end - at) - (size_t)size};
    return true;
}
