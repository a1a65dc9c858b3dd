#include "log/file/chain.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log/file/synced.h"
#include "log/file/view.h"

#define READING_BYTES (16u << 20) /* between two calls of log_reading_fn */

/* ---- headers ---- */

static enum err read_header(const struct folder *folder, uint64_t number,
                            struct segment_header *ret_header, struct error *error)
{
    char path[FOLDER_PATH_BYTES];
    folder_segment_path(folder, number, path);
    struct disk_file *file;
    enum err err = disk_open(folder->disk, path, DISK_READ, &file, error);
    if (err)
        return err;

    char bytes[SEGMENT_HEADER_BYTES];
    size_t size = 0;
    err = disk_file_read(file, 0, bytes, sizeof(bytes), &size, error);
    disk_file_close(file);
    if (err)
        return err;
    if (size < sizeof(bytes))
        return error_set(error, ERR_CORRUPT, "%s: offset %zu: the file ends within its header",
                         path, size);

    struct error why;
    err = segment_header_get(bytes, ret_header, &why);
    if (err)
        return error_set(error, err, "%s: %s", path, why.text);
    if (ret_header->number != number)
        return error_set(error, ERR_CORRUPT, "%s: offset 24: this is segment %" PRIu64 " renamed",
                         path, ret_header->number);
    return ERR_OK;
}

static uint32_t align_of(const struct segment_header *header)
{
    return header->is_old ? GROUP_ALIGN_OLD : GROUP_ALIGN;
}

/* Does the segment continue the one before it, `previous`, or begin the log? */
static enum err check_link(const struct folder *folder, const struct segment_header *previous,
                           const struct segment_header *header, struct error *error)
{
    char path[FOLDER_PATH_BYTES];
    folder_segment_path(folder, header->number, path);
    if (!previous) {
        bool is_beginning = header->previous_end == 0 && header->first_group == 1;
        if (header->number == 1 && !is_beginning)
            return error_set(error, ERR_CORRUPT, "%s: offset 48: the log does not begin here",
                             path);
        return ERR_OK;
    }
    if (header->log_id != previous->log_id)
        return error_set(error, ERR_CORRUPT,
                         "%s: offset 16: it belongs to another log (%016" PRIx64 ", not %016" PRIx64
                         ")",
                         path, header->log_id, previous->log_id);
    if (header->previous_end < SEGMENT_HEADER_BYTES ||
        header->previous_end > previous->size_bytes ||
        header->previous_end % align_of(previous) != 0 ||
        header->first_group < previous->first_group)
        return error_set(error, ERR_CORRUPT, "%s: offset 48: it does not continue segment %" PRIu64,
                         path, previous->number);
    return ERR_OK;
}

static enum err missing(const struct chain *chain, struct error *error)
{
    char path[FOLDER_PATH_BYTES];
    return error_set(error, ERR_CORRUPT, "%s: the segment is missing",
                     folder_segment_path(chain->folder, chain->first + chain->count, path));
}

static enum err add_segment(struct chain *chain, uint64_t number, struct error *error)
{
    if (number != chain->first + chain->count)
        return missing(chain, error);
    struct segment_header *header = &chain->segments[chain->count];
    enum err err = read_header(chain->folder, number, header, error);
    if (err)
        return err;
    err = check_link(chain->folder, chain->count > 0 ? header - 1 : NULL, header, error);
    if (err)
        return err;
    chain->count++;
    chain->disk_bytes += header->size_bytes;
    return ERR_OK;
}

/* Were there segments behind those that are there? */
static enum err check_synced(struct chain *chain, struct error *error)
{
    uint64_t log_id = chain->count > 0 ? chain->segments[0].log_id : 0;
    enum err err = synced_read(chain->folder, log_id, &chain->synced, error);
    if (err || chain->synced.segment < chain->first + chain->count)
        return err;
    char path[FOLDER_PATH_BYTES];
    return error_set(error, ERR_CORRUPT,
                     "%s: the segment is missing, and the log was synced up to offset %" PRIu64
                     " of segment %" PRIu64,
                     folder_segment_path(chain->folder, chain->first + chain->count, path),
                     chain->synced.offset, chain->synced.segment);
}

enum err chain_open(const struct folder *folder, struct chain *ret_chain, struct error *error)
{
    *ret_chain = (struct chain){.folder = folder};
    struct error first_error;
    enum err err = folder_first(folder, &ret_chain->first, &first_error);
    if (err && err != ERR_CORRUPT)
        return error_set(error, err, "%s", first_error.text);
    ret_chain->first_unknown = err == ERR_CORRUPT;
    uint64_t *numbers;
    size_t count;
    err = folder_segments(folder, &numbers, &count, error);
    if (err)
        return err;
    if (ret_chain->first_unknown)
        ret_chain->first = count > 0 ? numbers[0] : 1;
    ret_chain->has_leftovers = count > 0 && numbers[0] < ret_chain->first;

    if (count > 0) {
        ret_chain->segments = calloc(count, sizeof(*ret_chain->segments));
        if (!ret_chain->segments)
            abort();
    }
    for (size_t i = 0; i < count && !err; i++) {
        if (numbers[i] >= ret_chain->first)
            err = add_segment(ret_chain, numbers[i], error);
    }
    free(numbers);
    if (!err && ret_chain->count == 0 && ret_chain->first > 1)
        err = missing(ret_chain, error);
    if (!err)
        err = check_synced(ret_chain, error);
    if (!err && ret_chain->first_unknown)
        err = error_set(error, ERR_CORRUPT, "%s", first_error.text);
    return err;
}

void chain_done(struct chain *chain)
{
    free(chain->segments);
    *chain = (struct chain){0};
}

const struct segment_header *chain_last(const struct chain *chain)
{
    return chain->count > 0 ? &chain->segments[chain->count - 1] : NULL;
}

bool chain_continues(const struct segment_header *first, struct log_position from)
{
    return from.segment + 1 == first->number && from.offset >= first->previous_end;
}

enum err chain_trimmed(const struct folder *folder, struct log_position from, struct error *error)
{
    char path[FOLDER_PATH_BYTES];
    return error_set(error, ERR_NOT_FOUND,
                     "%s: offset %" PRIu64 ": this part of the log was trimmed",
                     folder_segment_path(folder, from.segment, path), from.offset);
}

/* ---- groups ---- */

struct walk {
    const struct chain *chain;
    struct log_position from;
    chain_group_fn *visit;
    void *arg;
    log_reading_fn *reading; /* may be NULL */
    uint64_t bytes_done;     /* in the segments that are done with */
    uint64_t bytes_told;
    uint64_t bytes_all;
    struct view view;
    struct chain_end end;
};

static void tell_reading(struct walk *walk, uint64_t bytes_done)
{
    if (walk->reading && bytes_done - walk->bytes_told >= READING_BYTES) {
        walk->bytes_told = bytes_done;
        walk->reading(walk->arg, bytes_done, walk->bytes_all);
    }
}

static enum err damage(const struct walk *walk, uint64_t offset, const char *fault,
                       struct error *error)
{
    return error_set(error, ERR_CORRUPT, "%s: offset %" PRIu64 ": %s", walk->view.path, offset,
                     fault);
}

/* Is there a sound group anywhere behind `offset`? Its place is in
 * `ret_found`, 0 if there is none. Says how much other than zeros there is. */
static enum err search(struct walk *walk, const struct segment_header *header, uint64_t offset,
                       uint64_t limit, uint64_t *ret_found, uint64_t *ret_torn_bytes,
                       struct error *error)
{
    *ret_found = 0;
    *ret_torn_bytes = 0;
    uint64_t word;
    for (uint64_t at = offset; at + sizeof(word) <= limit; at += sizeof(word)) {
        const char *bytes;
        enum err err = view_get(&walk->view, at, sizeof(word), &bytes, error);
        if (err)
            return err;
        memcpy(&word, bytes, sizeof(word));
        if (word == 0)
            continue; /* a checksum is never zero in practice */

        *ret_torn_bytes = at + sizeof(word) - offset;
        if (at % align_of(header) != 0)
            continue;
        struct group group;
        const char *fault;
        err = view_group(&walk->view, header, at, limit, &group, &bytes, &fault, error);
        if (err)
            return err;
        if (!fault) {
            *ret_found = at;
            return ERR_OK;
        }
    }
    return ERR_OK;
}

/* Something is at `offset`, and nothing sound from there on. */
static enum err judge_rest(struct walk *walk, const struct segment_header *header, uint64_t offset,
                           const char *fault, struct error *error)
{
    uint64_t size = header->size_bytes - offset;
    if (size > GROUP_BYTES_MAX)
        size = GROUP_BYTES_MAX;
    const char *bytes;
    enum err err = view_get(&walk->view, offset, (size_t)size, &bytes, error);
    if (err)
        return err;
    struct group place = {.log_id = header->log_id, .segment = header->number, .offset = offset};
    if (group_is_torn(bytes, (size_t)size, walk->end.torn_bytes, &place))
        return ERR_OK;
    return error_set(error, ERR_CORRUPT,
                     "%s: offset %" PRIu64 ": %s, and no sector of it is missing: it was not torn "
                     "by a crash",
                     walk->view.path, offset, fault);
}

/* Is what the log was synced up to there? */
static enum err judge_synced(const struct walk *walk, const char *fault, struct error *error)
{
    const struct log_position *end = &walk->end.position;
    const struct log_position *synced = &walk->chain->synced;
    if (synced->segment != end->segment || synced->offset <= end->offset)
        return ERR_OK;
    return error_set(error, ERR_CORRUPT,
                     "%s: offset %" PRIu64 ": %s, and the log was synced up to offset %" PRIu64,
                     walk->view.path, end->offset, fault, synced->offset);
}

/* No sound group begins at `offset` of the last segment: is it the end of the
 * log, or damage? */
static enum err judge_end(struct walk *walk, const struct segment_header *header, uint64_t offset,
                          const char *fault, struct error *error)
{
    if (walk->view.file_bytes < header->size_bytes)
        return error_set(error, ERR_CORRUPT,
                         "%s: offset %" PRIu64 ": the file ends here and should have %" PRIu64
                         " bytes",
                         walk->view.path, walk->view.file_bytes, header->size_bytes);
    if (walk->end.closed)
        return judge_synced(walk, fault, error);

    uint64_t found;
    enum err err =
        search(walk, header, offset, header->size_bytes, &found, &walk->end.torn_bytes, error);
    if (err)
        return err;
    if (found != 0)
        return error_set(error, ERR_CORRUPT,
                         "%s: offset %" PRIu64 ": %s, but a sound group follows at offset %" PRIu64,
                         walk->view.path, offset, fault, found);
    err = judge_synced(walk, fault, error);
    if (err || walk->end.torn_bytes == 0 || header->is_old)
        return err;
    return judge_rest(walk, header, offset, fault, error);
}

static enum err visit_group(struct walk *walk, const struct group *group, const char *bytes,
                            struct error *error)
{
    uint64_t next = group->offset + group_size(group);
    bool wanted = group->segment > walk->from.segment || group->offset >= walk->from.offset;
    if (!wanted && next > walk->from.offset)
        return error_set(error, ERR_INVALID, "%s: offset %" PRIu64 ": no group begins here",
                         walk->view.path, walk->from.offset);
    if (!wanted || group->kind != GROUP_SECTIONS)
        return ERR_OK;

    struct slice body = group_body(bytes, group);
    struct log_position position = {group->segment, next};
    return walk->visit(walk->arg, group, body, position, error);
}

/* Walks the groups of a segment as long as they are sound. */
static enum err walk_groups(struct walk *walk, const struct segment_header *header, uint64_t limit,
                            const char **ret_fault, struct error *error)
{
    struct chain_end *end = &walk->end;
    for (;;) {
        struct group group;
        const char *bytes;
        enum err err = view_group(&walk->view, header, end->position.offset, limit, &group, &bytes,
                                  ret_fault, error);
        if (err || *ret_fault)
            return err;
        if (group.number != end->next_group)
            return error_set(error, ERR_CORRUPT,
                             "%s: offset %" PRIu64 ": group %" PRIu64 " where %" PRIu64
                             " should be",
                             walk->view.path, group.offset, group.number, end->next_group);

        err = visit_group(walk, &group, bytes, error);
        if (err)
            return err;
        end->last_offset = group.offset;
        end->position.offset += group_size(&group);
        end->next_group = group.number + 1;
        end->closed = group.kind == GROUP_CLOSING;
        tell_reading(walk, walk->bytes_done + end->position.offset);
    }
}

/* The next segment says where this one ends: exactly there the groups must. */
static enum err judge_link(const struct walk *walk, const struct segment_header *next,
                           const char *fault, struct error *error)
{
    if (walk->end.position.offset < next->previous_end)
        return damage(walk, walk->end.position.offset, fault, error);
    if (walk->end.next_group != next->first_group)
        return error_set(error, ERR_CORRUPT,
                         "%s: offset %" PRIu64 ": the segment ends before group %" PRIu64
                         ", the next one begins with group %" PRIu64,
                         walk->view.path, walk->end.position.offset, walk->end.next_group,
                         next->first_group);
    return ERR_OK;
}

static enum err walk_segment(struct walk *walk, size_t index, struct error *error)
{
    const struct segment_header *header = &walk->chain->segments[index];
    const struct segment_header *next = index + 1 < walk->chain->count ? header + 1 : NULL;
    walk->end = (struct chain_end){
        .position = {header->number, SEGMENT_HEADER_BYTES},
        .next_group = header->first_group,
    };
    enum err err = view_open(&walk->view, walk->chain->folder, header->number, error);
    if (err)
        return err;

    uint64_t limit = next ? next->previous_end : header->size_bytes;
    if (limit > walk->view.file_bytes)
        limit = walk->view.file_bytes;
    const char *fault;
    err = walk_groups(walk, header, limit, &fault, error);
    if (!err)
        err = next ? judge_link(walk, next, fault, error)
                   : judge_end(walk, header, walk->end.position.offset, fault, error);
    if (!err && header->number == walk->from.segment &&
        walk->from.offset > walk->end.position.offset)
        err = error_set(error, ERR_INVALID,
                        "%s: offset %" PRIu64 ": the segment ends at %" PRIu64 " already",
                        walk->view.path, walk->from.offset, walk->end.position.offset);
    view_close(&walk->view);
    walk->bytes_done += header->size_bytes;
    return err;
}

enum err chain_walk(const struct chain *chain, struct log_position from, chain_group_fn *visit,
                    void *arg, log_reading_fn *reading, struct chain_end *ret_end,
                    struct error *error)
{
    assert(chain && visit && ret_end);

    const struct segment_header *last = chain_last(chain);
    if (from.segment > (last ? last->number : 0))
        return error_set(error, ERR_INVALID, "the log has no segment %" PRIu64, from.segment);
    bool is_trimmed = from.segment > 0 && from.segment < chain->first;
    if (is_trimmed && !chain_continues(&chain->segments[0], from))
        return chain_trimmed(chain->folder, from, error);

    struct walk walk = {
        .chain = chain,
        .from = from,
        .visit = visit,
        .arg = arg,
        .reading = reading,
        .end.next_group = 1,
    };
    /* The segment that `from` is in is read from its beginning, so that a
     * position between two groups or past the end does not go unnoticed. */
    size_t first = from.segment > chain->first ? (size_t)(from.segment - chain->first) : 0;
    uint64_t largest_bytes = 0;
    for (size_t i = first; i < chain->count; i++) {
        uint64_t size_bytes = chain->segments[i].size_bytes;
        walk.bytes_all += size_bytes;
        if (size_bytes > largest_bytes)
            largest_bytes = size_bytes;
    }
    view_init(&walk.view, largest_bytes);

    enum err err = ERR_OK;
    for (size_t i = first; i < chain->count && !err; i++)
        err = walk_segment(&walk, i, error);
    if (!err || err == ERR_CORRUPT)
        *ret_end = walk.end;
    view_done(&walk.view);
    return err;
}

enum err chain_visit_sections(const struct folder *folder, const struct group *group,
                              struct slice body, struct log_position next, log_visit_fn *visit,
                              void *arg, struct error *error)
{
    uint32_t count = 0;
    struct slice section;
    while (group_next_section(&body, &section)) {
        enum err err = visit(arg, section, next, error);
        if (err)
            return err;
        count++;
    }
    if (body.size == 0 && count == group->sections)
        return ERR_OK;
    char path[FOLDER_PATH_BYTES];
    return error_set(error, ERR_CORRUPT,
                     "%s: offset %" PRIu64 ": the group's sections are malformed",
                     folder_segment_path(folder, group->segment, path), group->offset);
}

struct log_position chain_end_of_groups(const struct chain *chain, const struct chain_end *end)
{
    const struct segment_header *last = chain_last(chain);
    if (!last || end->last_offset > 0)
        return end->position;
    return (struct log_position){last->number - 1, last->previous_end};
}

/* Visits the first sound group from `*offset` on and moves `*offset` behind it;
 * ERR_NOT_FOUND when there is none. */
static enum err scan_one(struct walk *walk, const struct segment_header *header, uint64_t *offset,
                         struct error *error)
{
    uint64_t limit = walk->view.file_bytes;
    uint64_t found;
    uint64_t torn_bytes;
    enum err err = search(walk, header, *offset, limit, &found, &torn_bytes, error);
    if (err)
        return err;
    if (found == 0)
        return error_set(error, ERR_NOT_FOUND, "no sound group follows");

    struct group group = {0};
    const char *bytes = NULL;
    const char *fault;
    err = view_group(&walk->view, header, found, limit, &group, &bytes, &fault, error);
    if (err)
        return err;
    *offset = found + group_size(&group);
    return visit_group(walk, &group, bytes, error);
}

enum err chain_scan(const struct folder *folder, uint64_t log_id, uint64_t number, uint64_t offset,
                    chain_group_fn *visit, void *arg, struct error *error)
{
    struct walk walk = {.visit = visit, .arg = arg};
    struct segment_header header = {0};
    if (read_header(folder, number, &header, NULL)) /* then by the current version */
        header = (struct segment_header){0};
    header.log_id = log_id;
    header.number = number;
    view_init(&walk.view, GROUP_BYTES_MAX);
    enum err err = view_open(&walk.view, folder, number, error);
    while (!err)
        err = scan_one(&walk, &header, &offset, error);
    view_close(&walk.view);
    view_done(&walk.view);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}
