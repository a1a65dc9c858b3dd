#include "sim/sim_flip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log/file/segment.h"
#include "log/file/synced.h"

#define LOG_FOLDER WORLD_FOLDER "/log"
#define SUFFIX     ".log"
#define NOTE       LOG_FOLDER "/" FOLDER_SYNCED
#define NOTE_BYTES 1024u
#define BLOCK      512u

struct last {
    uint64_t number;
};

static bool note_last(void *arg, const char *name)
{
    struct last *last = arg;
    char *end;
    uint64_t number = strtoull(name, &end, 10);
    if (strcmp(end, SUFFIX) == 0 && number > last->number)
        last->number = number;
    return true;
}

static void path_of(uint64_t number, char path[FLIP_PATH_BYTES])
{
    snprintf(path, FLIP_PATH_BYTES, LOG_FOLDER "/%012" PRIu64 SUFFIX, number);
}

/* The whole file; NULL if it cannot be read. */
static char *read_segment(struct disk *disk, uint64_t number, size_t *ret_size)
{
    char path[FLIP_PATH_BYTES];
    path_of(number, path);
    struct disk_file *file;
    if (disk_open(disk, path, DISK_READ, &file, NULL))
        return NULL;
    uint64_t size = 0;
    char *bytes = NULL;
    if (disk_file_size(file, &size, NULL) == ERR_OK) {
        bytes = calloc(1, (size_t)size + 1);
        if (!bytes)
            abort();
        if (disk_file_read(file, 0, bytes, (size_t)size, ret_size, NULL)) {
            free(bytes);
            bytes = NULL;
        }
    }
    disk_file_close(file);
    return bytes;
}

/* The last sound group of the last segment, [*ret_start, *ret_end); empty if there
 * is none. */
static void last_group(const char *bytes, size_t size, uint64_t *ret_start, uint64_t *ret_end)
{
    uint64_t start = SEGMENT_HEADER_BYTES;
    uint64_t at = start;
    struct group group;
    while (at + GROUP_HEADER_BYTES <= size && group_get(bytes + at, &group)) {
        uint64_t group_size = group_bytes(group.body_bytes);
        if (at + group_size > size || !group_is_intact(bytes + at, &group))
            break;
        start = at;
        at += group_size;
    }
    *ret_start = start;
    *ret_end = at;
}

static uint64_t closed_end(const char *bytes, size_t size)
{
    uint64_t start;
    uint64_t end;
    last_group(bytes, size, &start, &end);
    return start;
}

/* How much of a segment is closed; 0 if that cannot be said. */
static uint64_t closed_bytes(struct disk *disk, uint64_t number, uint64_t last)
{
    uint64_t closed = 0;
    size_t size = 0;
    char *bytes = read_segment(disk, number < last ? number + 1 : number, &size);
    struct segment_header header;
    if (bytes && size >= SEGMENT_HEADER_BYTES && segment_header_get(bytes, &header, NULL) == ERR_OK)
        closed = number < last ? header.previous_end : closed_end(bytes, size);
    free(bytes);
    return closed;
}

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        abort();
    return memory;
}

/* ---- a bit ---- */

static void pick_bit(struct sim_rng *rng, uint64_t closed, struct flip *flip)
{
    bool in_groups = closed > SEGMENT_HEADER_BYTES && sim_rng_chance(rng, 800);
    flip->offset = in_groups
                       ? SEGMENT_HEADER_BYTES + sim_rng_below(rng, closed - SEGMENT_HEADER_BYTES)
                       : sim_rng_below(rng, SEGMENT_HEADER_BYTES);
    flip->size = 1;
    flip->mask = allocate(1);
    flip->mask[0] = (char)(1 << sim_rng_below(rng, 8));
}

/* ---- a group in the wrong place ---- */

/* Where a group begins, any of those in front of `end`; 0 if there is none. */
static uint64_t pick_group(const char *bytes, uint64_t end, struct sim_rng *rng, size_t *ret_size)
{
    uint64_t chosen = 0;
    unsigned count = 0;
    uint64_t at = SEGMENT_HEADER_BYTES;
    struct group group;
    while (at + GROUP_HEADER_BYTES <= end && group_get(bytes + at, &group)) {
        size_t size = group_bytes(group.body_bytes);
        if (at + size > end)
            break;
        if (sim_rng_below(rng, ++count) == 0) {
            chosen = at;
            *ret_size = size;
        }
        at += size;
    }
    return chosen;
}

/* Puts a group of segment `from` where one of segment `to` is. */
static bool pick_misplaced(struct disk *disk, struct sim_rng *rng, uint64_t from, uint64_t to,
                           uint64_t closed, struct flip *flip)
{
    size_t from_size = 0;
    size_t to_size = 0;
    size_t size = 0;
    size_t replaced = 0;
    char *from_bytes = read_segment(disk, from, &from_size);
    char *to_bytes = read_segment(disk, to, &to_size);
    bool good = false;
    if (from_bytes && to_bytes && closed <= to_size) {
        uint64_t source = pick_group(from_bytes, from_size, rng, &size);
        uint64_t target = pick_group(to_bytes, closed, rng, &replaced);
        good = source != 0 && target != 0 && target + size <= closed &&
               memcmp(from_bytes + source, to_bytes + target, size) != 0;
        if (good) {
            flip->offset = target;
            flip->size = size;
            flip->mask = allocate(size);
            for (size_t i = 0; i < size; i++)
                flip->mask[i] = (char)(from_bytes[source + i] ^ to_bytes[target + i]);
        }
    }
    free(from_bytes);
    free(to_bytes);
    return good;
}

/* ---- the last group ---- */

/* Do the zeros at the front or the back of its sector grow when this byte is zero? Then
 * it looks like a sector that a power cut has torn there. */
static bool is_at_edge(const char *bytes, uint64_t start, uint64_t end, uint64_t at)
{
    uint64_t from = at / BLOCK * BLOCK;
    uint64_t until = from + BLOCK < end ? from + BLOCK : end;
    if (from < start + GROUP_HEADER_BYTES)
        from = start + GROUP_HEADER_BYTES;
    bool front = true;
    bool back = true;
    for (uint64_t i = from; i < at; i++)
        front = front && bytes[i] == 0;
    for (uint64_t i = at + 1; i < until; i++)
        back = back && bytes[i] == 0;
    return front || back;
}

/* Is what is left of the group what a torn write could have left? */
static bool is_like_torn(const char *bytes, uint64_t start, uint64_t end, const struct flip *flip)
{
    return flip->size > 1 || ((bytes[flip->offset] ^ flip->mask[0]) == 0 &&
                              flip->offset >= start + GROUP_HEADER_BYTES &&
                              is_at_edge(bytes, start, end, flip->offset));
}

/* Has the log noted that it was synced up to there? */
static bool is_noted(struct disk *disk, uint64_t number, uint64_t end)
{
    char log_path[] = LOG_FOLDER;
    struct folder folder = {.disk = disk, .log_path = log_path};
    struct log_position synced;
    return synced_read(&folder, 0, &synced, NULL) == ERR_OK && synced.segment == number &&
           synced.offset >= end;
}

/* A bit of it, or what one block has of it. */
static void pick_in_group(struct sim_rng *rng, const char *bytes, uint64_t start, uint64_t end,
                          struct flip *flip)
{
    flip->offset = start + sim_rng_below(rng, end - start);
    flip->size = 1;
    if (sim_rng_chance(rng, 300)) {
        uint64_t block = flip->offset / BLOCK * BLOCK;
        flip->offset = block > start ? block : start;
        flip->size = (block + BLOCK < end ? block + BLOCK : end) - flip->offset;
    }
    flip->mask = allocate(flip->size);
    if (flip->size > 1)
        memcpy(flip->mask, bytes + flip->offset, flip->size);
    else
        flip->mask[0] = (char)(1 << sim_rng_below(rng, 8));
}

static bool pick_last(struct disk *disk, struct sim_rng *rng, uint64_t number, struct flip *flip)
{
    size_t size = 0;
    char *bytes = read_segment(disk, number, &size);
    uint64_t start = 0;
    uint64_t end = 0;
    if (bytes)
        last_group(bytes, size, &start, &end);
    bool good = end > start;
    if (good) {
        pick_in_group(rng, bytes, start, end, flip);
        good = is_noted(disk, number, end) || !is_like_torn(bytes, start, end, flip);
        if (!good)
            free(flip->mask);
    }
    free(bytes);
    return good;
}

/* ---- what the log does not rest on ---- */

/* A bit behind the end of a segment, or of the note of what was synced. */
static bool pick_behind(struct disk *disk, struct sim_rng *rng, uint64_t number, uint64_t last,
                        struct flip *flip)
{
    uint64_t from = 0;
    size_t size = NOTE_BYTES;
    if (sim_rng_chance(rng, 300)) {
        snprintf(flip->path, sizeof(flip->path), NOTE);
    } else {
        char *bytes = read_segment(disk, number, &size);
        uint64_t start;
        from = closed_bytes(disk, number, last);
        if (bytes && from > 0 && number == last)
            last_group(bytes, size, &start, &from);
        bool clean = bytes && from > 0 && from < size;
        for (size_t i = from; clean && i < size; i++)
            clean = number < last || bytes[i] == 0;
        free(bytes);
        if (!clean)
            return false;
    }
    flip->offset = from + sim_rng_below(rng, size - from);
    flip->size = 1;
    flip->mask = allocate(1);
    flip->mask[0] = (char)(1 << sim_rng_below(rng, 8));
    return true;
}

bool flip_pick(struct world *world, enum fault fault, struct sim_rng *rng, struct flip *ret_flip)
{
    struct disk *disk = &world->disk->base;
    struct last last = {0};
    if (disk_list(disk, LOG_FOLDER, note_last, &last, NULL) || last.number == 0)
        return false;
    uint64_t number = 1 + sim_rng_below(rng, last.number);
    if (fault == FAULT_LAST || sim_rng_chance(rng, 300))
        number = last.number;
    uint64_t closed = closed_bytes(disk, number, last.number);
    if (closed == 0)
        return false;
    ret_flip->fault = fault;
    path_of(number, ret_flip->path);
    if (fault == FAULT_LAST)
        return pick_last(disk, rng, number, ret_flip);
    if (fault == FAULT_BEHIND)
        return pick_behind(disk, rng, number, last.number, ret_flip);
    if (fault == FAULT_MISPLACED) {
        uint64_t from = 1 + sim_rng_below(rng, last.number);
        return pick_misplaced(disk, rng, from, number, closed, ret_flip);
    }
    pick_bit(rng, closed, ret_flip);
    return true;
}

static void turn(struct world *world, const struct flip *flip)
{
    for (size_t i = 0; i < flip->size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            if (flip->mask[i] & (1 << bit))
                sim_disk_flip(world->disk, flip->path, flip->offset + i, bit);
        }
    }
}

void flip_try(struct world *world, struct flip *flip)
{
    world->report->hits[flip->fault]++;
    report_trace(world->report, "%s: %s offset %" PRIu64, fault_text(flip->fault), flip->path,
                 flip->offset);
    turn(world, flip);
    if (flip->fault == FAULT_BEHIND) {
        free(flip->mask);
        return;
    }
    struct error error = {.text = ""};
    enum err err = world_start(world, &error);
    if (err == ERR_OK)
        report_violation(world->report, "%s: %s offset %" PRIu64 ", but it started",
                         fault_text(flip->fault), flip->path, flip->offset);
    else if (err == ERR_UNAVAILABLE) /* a sync of the store failed before the log was looked at */
        report_trace(world->report, "  not looked at: %s", error.text);
    else if (err != ERR_CORRUPT && err != ERR_INVALID)
        report_violation(world->report, "damage is called something else: %s", error.text);
    else if (!strstr(error.text, SUFFIX) || (err == ERR_CORRUPT && !strstr(error.text, "offset")))
        report_violation(world->report, "damage without file and offset: %s", error.text);
    else
        report_trace(world->report, "  refused: %s", error.text);
    if (err != ERR_OK)
        turn(world, flip);
    free(flip->mask);
}
