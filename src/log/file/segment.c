#include "log/file/segment.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/hash.h"
#include "base/varint.h"

#define CHECKSUM_BYTES 8u

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
    put32(to + 8, SEGMENT_VERSION);
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
    if (version != SEGMENT_VERSION)
        return error_set(error, ERR_INVALID,
                         "it has format version %u, and this Tally knows version %u only: run the "
                         "Tally that wrote it, or begin with an empty folder",
                         version, SEGMENT_VERSION);

    struct segment_header header = {
        .log_id = get64(from + 16),
        .number = get64(from + 24),
        .size_bytes = get64(from + 32),
        .created_ms = (int64_t)get64(from + 40),
        .first_group = get64(from + 48),
        .previous_end = get64(from + 56),
    };
    if (header.number == 0 || header.first_group == 0 || header.size_bytes % SEGMENT_ALIGN != 0 ||
        header.size_bytes < SEGMENT_HEADER_BYTES || header.size_bytes > INT64_MAX)
        return error_set(error, ERR_CORRUPT, "offset 0: the header makes no sense");

    *ret_header = header;
    return ERR_OK;
}

/* ---- groups ---- */

uint32_t group_bytes(uint32_t body_bytes)
{
    return (GROUP_HEADER_BYTES + body_bytes + GROUP_ALIGN - 1) / GROUP_ALIGN * GROUP_ALIGN;
}

static uint64_t group_checksum(const char *bytes, const struct group *group)
{
    return hash_stable(
        (struct slice){bytes + CHECKSUM_BYTES, group_bytes(group->body_bytes) - CHECKSUM_BYTES});
}

void group_seal(char *bytes, const struct group *group)
{
    assert(group_bytes(group->body_bytes) <= GROUP_BYTES_MAX);
    assert(group->offset % GROUP_ALIGN == 0);

    memcpy(bytes + 8, group_magic, sizeof(group_magic));
    put32(bytes + 12, group->body_bytes);
    put64(bytes + 16, group->log_id);
    put64(bytes + 24, group->segment);
    put64(bytes + 32, group->offset);
    put64(bytes + 40, group->number);
    put32(bytes + 48, group->sections);
    put32(bytes + 52, group->kind);

    uint32_t used = GROUP_HEADER_BYTES + group->body_bytes;
    memset(bytes + used, 0, group_bytes(group->body_bytes) - used);
    put64(bytes, group_checksum(bytes, group));
}

bool group_get(const char *bytes, struct group *ret_group)
{
    if (memcmp(bytes + 8, group_magic, sizeof(group_magic)) != 0)
        return false;

    uint32_t body_bytes = get32(bytes + 12);
    uint32_t kind = get32(bytes + 52);
    if (body_bytes > GROUP_BYTES_MAX - GROUP_HEADER_BYTES - GROUP_ALIGN || kind > GROUP_CLOSING)
        return false;

    *ret_group = (struct group){
        .log_id = get64(bytes + 16),
        .segment = get64(bytes + 24),
        .offset = get64(bytes + 32),
        .number = get64(bytes + 40),
        .body_bytes = body_bytes,
        .sections = get32(bytes + 48),
        .kind = kind,
    };
    return true;
}

bool group_is_intact(const char *bytes, const struct group *group)
{
    return get64(bytes) == group_checksum(bytes, group);
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
