#include "log/file/follow.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "log/file/chain.h"
#include "log/file/view.h"

struct follow_reader {
    struct view view;
    uint64_t number;     /* of the segment it has open; 0 = none */
    uint64_t generation; /* in which it was opened */
};

/* ---- readers ---- */

void follow_init(struct follow *follow, const struct folder *folder, struct segments *segments)
{
    *follow = (struct follow){.folder = folder, .segments = segments};
    pthread_mutex_init(&follow->mutex, NULL);
}

static void close_file(struct follow_reader *reader)
{
    view_close(&reader->view);
    reader->number = 0;
}

static void free_reader(struct follow_reader *reader)
{
    close_file(reader);
    view_done(&reader->view);
    free(reader);
}

void follow_done(struct follow *follow)
{
    while (follow->idle_count > 0)
        free_reader(follow->idle[--follow->idle_count]);
    pthread_mutex_destroy(&follow->mutex);
}

void follow_forget(struct follow *follow)
{
    pthread_mutex_lock(&follow->mutex);
    follow->generation++;
    for (unsigned i = 0; i < follow->idle_count; i++)
        close_file(follow->idle[i]);
    pthread_mutex_unlock(&follow->mutex);
}

static struct follow_reader *new_reader(void)
{
    struct follow_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        abort();
    view_init(&reader->view, GROUP_BYTES_MAX);
    return reader;
}

/* One that has the segment open, if there is such a one. */
static struct follow_reader *take_reader(struct follow *follow, uint64_t number)
{
    pthread_mutex_lock(&follow->mutex);
    struct follow_reader *reader = NULL;
    if (follow->idle_count > 0) {
        unsigned last = follow->idle_count - 1;
        unsigned best = last;
        for (unsigned i = 0; i < last; i++)
            best = follow->idle[i]->number == number ? i : best;
        reader = follow->idle[best];
        follow->idle[best] = follow->idle[last];
        follow->idle_count--;
    }
    uint64_t generation = follow->generation;
    pthread_mutex_unlock(&follow->mutex);

    if (!reader)
        reader = new_reader();
    reader->generation = generation;
    return reader;
}

static void give_back(struct follow *follow, struct follow_reader *reader)
{
    pthread_mutex_lock(&follow->mutex);
    if (reader->generation != follow->generation)
        close_file(reader);
    bool keep = follow->idle_count < FOLLOW_IDLE_MAX;
    if (keep)
        follow->idle[follow->idle_count++] = reader;
    pthread_mutex_unlock(&follow->mutex);
    if (!keep)
        free_reader(reader);
}

/* ---- reading ---- */

struct reading {
    struct follow *follow;
    struct follow_reader *reader;
    log_visit_fn *visit;
    void *arg;
    uint64_t limit;
    uint64_t visited_bytes;
};

/* The file is not there: it was trimmed a moment ago, or somebody took it away. */
static enum err gone(const struct follow *follow, uint64_t number, struct error *error)
{
    struct log_position position = {number, SEGMENT_HEADER_BYTES};
    if (segments_find(follow->segments, position).here.header.number == 0)
        return chain_trimmed(follow->folder, position, error);
    char path[FOLDER_PATH_BYTES];
    return error_set(error, ERR_CORRUPT, "%s: the segment is missing",
                     folder_segment_path(follow->folder, number, path));
}

static enum err open_segment(struct reading *reading, const struct segments_entry *entry,
                             struct error *error)
{
    struct follow_reader *reader = reading->reader;
    uint64_t number = entry->header.number;
    if (reader->number != number) {
        close_file(reader);
        enum err err = view_open(&reader->view, reading->follow->folder, number, error);
        if (err)
            return err == ERR_NOT_FOUND ? gone(reading->follow, number, error) : err;
        reader->number = number;
    }
    uint64_t file_bytes = reader->view.file_bytes;
    if (file_bytes < entry->end)
        return error_set(error, ERR_CORRUPT, "%s: offset %" PRIu64 ": the file ends here",
                         reader->view.path, file_bytes);
    reader->view.limit = entry->end; /* what is behind it may still change */
    return ERR_OK;
}

/* Groups from *at on, up to the segment's end or the limit. */
static enum err read_segment(struct reading *reading, const struct segments_entry *entry,
                             struct log_position *at, struct error *error)
{
    enum err err = open_segment(reading, entry, error);
    while (!err && at->offset < entry->end && reading->visited_bytes < reading->limit) {
        struct group group;
        const char *bytes;
        const char *fault;
        struct view *view = &reading->reader->view;
        err =
            view_group(view, &entry->header, at->offset, entry->end, &group, &bytes, &fault, error);
        if (err)
            break;
        if (fault)
            return error_set(error, ERR_CORRUPT, "%s: offset %" PRIu64 ": %s", view->path,
                             at->offset, fault);
        struct log_position next = {group.segment, at->offset + group_size(&group)};
        struct slice body = group_body(bytes, &group);
        if (group.kind == GROUP_SECTIONS)
            err = chain_visit_sections(reading->follow->folder, &group, body, next, reading->visit,
                                       reading->arg, error);
        if (!err) {
            *at = next;
            reading->visited_bytes += group.body_bytes;
        }
    }
    return err;
}

static int compare(struct log_position a, struct log_position b)
{
    if (a.segment != b.segment)
        return a.segment < b.segment ? -1 : 1;
    return (a.offset > b.offset) - (a.offset < b.offset);
}

/* Where reading goes on from `at`, which is before the end of the log: in the
 * segment `ret_entry`, before its end. */
static enum err find_place(struct follow *follow, struct log_position *at,
                           struct segments_entry *ret_entry, struct error *error)
{
    struct segments_place place = segments_find(follow->segments, *at);
    bool is_beginning = at->segment == 0;
    if (at->segment < place.first.number) {
        if (!is_beginning && !chain_continues(&place.first, *at))
            return chain_trimmed(follow->folder, *at, error);
        *at = (struct log_position){place.first.number, SEGMENT_HEADER_BYTES};
    }
    for (;;) {
        place = segments_find(follow->segments, *at);
        if (place.here.header.number == 0)
            return chain_trimmed(follow->folder, *at, error); /* in this very moment */
        if (at->offset < SEGMENT_HEADER_BYTES)
            at->offset = SEGMENT_HEADER_BYTES;
        if (at->offset < place.here.end || !place.here.sealed)
            break;
        *at = (struct log_position){at->segment + 1, SEGMENT_HEADER_BYTES};
    }
    *ret_entry = place.here;
    return ERR_OK;
}

static enum err read_on(struct reading *reading, struct log_position *at, struct error *error)
{
    struct follow *follow = reading->follow;
    enum err err = ERR_OK;
    while (!err && reading->visited_bytes < reading->limit &&
           compare(*at, segments_end(follow->segments)) < 0) {
        struct log_position from = *at;
        struct segments_entry entry;
        err = find_place(follow, &from, &entry, error);
        if (err)
            break;
        struct log_position next = from;
        err = read_segment(reading, &entry, &next, error);
        if (compare(next, from) > 0)
            *at = next;
        else if (!err) { /* there is nothing but a segment that is empty yet */
            *at = from;
            break;
        }
    }
    return err;
}

enum err follow_read(struct follow *follow, struct log_position *at, uint64_t limit,
                     log_visit_fn *visit, void *arg, struct error *error)
{
    struct segments_place place = segments_find(follow->segments, *at);
    int order = compare(*at, place.durable);
    bool is_empty_segment = place.here.header.number > 0 && at->offset <= SEGMENT_HEADER_BYTES;
    if (order == 0 || (order > 0 && is_empty_segment))
        return ERR_OK;
    if (order > 0)
        return error_set(error, ERR_INVALID,
                         "the log ends before offset %" PRIu64 " of segment %" PRIu64, at->offset,
                         at->segment);

    struct reading reading = {
        .follow = follow,
        .reader = take_reader(follow, at->segment),
        .visit = visit,
        .arg = arg,
        .limit = limit > 0 ? limit : 1,
    };
    enum err err = read_on(&reading, at, error);
    give_back(follow, reading.reader);
    return err;
}
