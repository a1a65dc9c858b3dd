#include "sim/sim_flip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log/file/segment.h"

#define LOG_FOLDER WORLD_FOLDER "/log"
#define SUFFIX     ".log"

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

/* Where the closed part of the last segment ends: its last sound group may be
 * taken for an unfinished write if it is damaged. */
static uint64_t closed_end(const char *bytes, size_t size)
{
    uint64_t end = SEGMENT_HEADER_BYTES;
    uint64_t at = end;
    struct group group;
    while (at + GROUP_HEADER_BYTES <= size && group_get(bytes + at, &group)) {
        uint64_t group_size = group_bytes(group.body_bytes);
        if (at + group_size > size || !group_is_intact(bytes + at, &group))
            break;
        end = at;
        at += group_size;
    }
    return end;
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

bool flip_pick(struct world *world, struct sim_rng *rng, struct flip *ret_flip)
{
    struct disk *disk = &world->disk->base;
    struct last last = {0};
    if (disk_list(disk, LOG_FOLDER, note_last, &last, NULL) || last.number == 0)
        return false;
    uint64_t number = 1 + sim_rng_below(rng, last.number);
    if (sim_rng_chance(rng, 300))
        number = last.number;
    uint64_t closed = closed_bytes(disk, number, last.number);
    if (closed == 0)
        return false;
    path_of(number, ret_flip->path);
    bool in_groups = closed > SEGMENT_HEADER_BYTES && sim_rng_chance(rng, 800);
    ret_flip->byte = in_groups
                         ? SEGMENT_HEADER_BYTES + sim_rng_below(rng, closed - SEGMENT_HEADER_BYTES)
                         : sim_rng_below(rng, SEGMENT_HEADER_BYTES);
    ret_flip->bit = (unsigned)sim_rng_below(rng, 8);
    return true;
}

void flip_try(struct world *world, const struct flip *flip)
{
    report_trace(world->report, "flip %s byte %" PRIu64 " bit %u", flip->path, flip->byte,
                 flip->bit);
    world->report->hits[FAULT_FLIP]++;
    sim_disk_flip(world->disk, flip->path, flip->byte, flip->bit);
    struct error error = {.text = ""};
    enum err err = world_start(world, &error);
    if (err == ERR_OK)
        report_violation(world->report, "bit %u of byte %" PRIu64 " of %s was wrong: started",
                         flip->bit, flip->byte, flip->path);
    else if (err != ERR_CORRUPT && err != ERR_INVALID)
        report_violation(world->report, "a turned bit is called something else: %s", error.text);
    else if (!strstr(error.text, SUFFIX) || (err == ERR_CORRUPT && !strstr(error.text, "offset")))
        report_violation(world->report, "damage without file and offset: %s", error.text);
    else
        report_trace(world->report, "  refused: %s", error.text);
    if (err == ERR_OK)
        return;
    sim_disk_flip(world->disk, flip->path, flip->byte, flip->bit);
}
