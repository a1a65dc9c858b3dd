/* check.c - looks a data folder through, and cuts damage off it on demand.
 *
 * A repair never destroys anything: what does not stay in the log is kept beside
 * it under names that end in `.cut`. It works from the end of the log to its
 * front, so that a crash at any point leaves a log that is damaged still, or
 * repaired. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "core/event.h"
#include "log/file/chain.h"
#include "log/file/file.h"
#include "log/file/folder.h"
#include "log/file/segment.h"
#include "log/file/synced.h"

#define LINE_BYTES  1024u
#define COPY_BYTES  (1u << 20)
#define REPAIR_FILE "repair.new"

struct found {
    uint64_t groups;
    uint64_t sections;
    uint64_t events;
};

struct inspection {
    file_log_say_fn *say;
    void *arg;
    struct folder folder;
    struct chain chain;
    struct chain_end end; /* of what is good */
    struct error damage;  /* the first; ERR_OK if there is none */
    bool damage_inside;   /* in the segment where the good part ends, not behind it */
    struct found found;
    struct found segment_found; /* in the segment that is being walked */
    uint64_t segment;
};

static void say(const struct inspection *inspection, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct inspection *inspection, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    inspection->say(inspection->arg, line);
}

/* ---- looking ---- */

static enum err count_events(struct slice section, struct found *found, struct error *error)
{
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    while (!err) {
        struct event event;
        err = section_next(&reader, &event, error);
        if (!err) {
            event_done(&event);
            found->events++;
        }
    }
    if (err != ERR_NOT_FOUND)
        return err;
    found->sections++;
    return ERR_OK;
}

static void add_found(struct found *to, const struct found *more)
{
    to->groups += more->groups;
    to->sections += more->sections;
    to->events += more->events;
}

/* A group that is being looked at: its sections are cut as a start cuts them, so that a group
 * which is found sound is also read. */
struct counting {
    const struct folder *folder;
    const struct group *group;
    struct found *found;
};

static enum err count_section(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    (void)next;
    const struct counting *counting = arg;
    struct error why;
    if (!count_events(section, counting->found, &why))
        return ERR_OK;
    char path[FOLDER_PATH_BYTES];
    const struct group *group = counting->group;
    return error_set(error, ERR_CORRUPT, "%s: offset %" PRIu64 ": group %" PRIu64 ": %s",
                     folder_segment_path(counting->folder, group->segment, path), group->offset,
                     group->number, why.text);
}

static enum err count_group(const struct folder *folder, const struct group *group,
                            struct slice body, struct found *found, struct error *error)
{
    struct found here = {.groups = 1};
    struct counting counting = {folder, group, &here};
    struct log_position next = {group->segment, group->offset + group_size(group)};
    enum err err = chain_visit_sections(folder, group, body, next, count_section, &counting, error);
    if (!err)
        add_found(found, &here);
    return err;
}

static void end_segment(struct inspection *inspection)
{
    const struct found *found = &inspection->segment_found;
    if (inspection->segment > 0)
        say(inspection,
            "segment %" PRIu64 ": %" PRIu64 " groups, %" PRIu64 " sections, %" PRIu64 " events",
            inspection->segment, found->groups, found->sections, found->events);
    add_found(&inspection->found, found);
    inspection->segment_found = (struct found){0};
}

static enum err inspect_group(void *arg, const struct group *group, struct slice body,
                              struct log_position next, struct error *error)
{
    (void)next;
    struct inspection *inspection = arg;
    if (group->segment != inspection->segment) {
        end_segment(inspection);
        inspection->segment = group->segment;
    }
    return count_group(&inspection->folder, group, body, &inspection->segment_found, error);
}

/* Finds the first damage, if any. Fails only where nothing can be said. */
static enum err inspect(struct inspection *inspection, struct error *error)
{
    struct error behind = {.code = ERR_OK};
    enum err err = chain_open(&inspection->folder, &inspection->chain, &behind);
    if (err && err != ERR_CORRUPT)
        return error_set(error, err, "%s", behind.text);

    struct error inside = {.code = ERR_OK};
    err = chain_walk(&inspection->chain, (struct log_position){0}, inspect_group, inspection, NULL,
                     &inspection->end, &inside);
    if (err && err != ERR_CORRUPT)
        return error_set(error, err, "%s", inside.text);

    end_segment(inspection);
    inspection->damage_inside = inside.code != ERR_OK;
    inspection->damage = inspection->damage_inside ? inside : behind;
    return ERR_OK;
}

static void say_summary(const struct inspection *inspection)
{
    const struct chain_end *end = &inspection->end;
    const struct found *found = &inspection->found;
    if (inspection->chain.first > 1)
        say(inspection, "the log was trimmed and begins with segment %" PRIu64,
            inspection->chain.first);
    say(inspection,
        "%zu segments, %" PRIu64 " groups, %" PRIu64 " sections, %" PRIu64 " events are sound",
        inspection->chain.count, found->groups, found->sections, found->events);
    if (inspection->damage.code) {
        say(inspection, "damage: %s", inspection->damage.text);
        return;
    }
    if (end->torn_bytes > 0)
        say(inspection,
            "segment %" PRIu64 ": %" PRIu64 " bytes at offset %" PRIu64
            " are an unfinished write of a crash: %s",
            end->position.segment, end->torn_bytes, end->position.offset,
            chain_last(&inspection->chain)->is_old
                ? "nothing sound follows, which is all that this format can tell"
                : "sectors of it are missing, and it was not noted as synced");
    say(inspection, end->closed ? "the log was closed in order"
                                : "the log was not closed in order, or not used since its start");
}

static enum err begin(struct inspection *inspection, struct env *env, const char *folder,
                      struct error *error)
{
    enum err err = folder_open(env->disk, folder, false, &inspection->folder, error);
    if (err)
        return err;
    err = inspect(inspection, error);
    if (!err)
        say_summary(inspection);
    return err;
}

static void done(struct inspection *inspection)
{
    chain_done(&inspection->chain);
    if (inspection->folder.path)
        folder_close(&inspection->folder);
}

enum err file_log_check(struct env *env, const char *folder, file_log_say_fn *say_line, void *arg,
                        struct error *error)
{
    assert(env && folder && say_line);

    struct inspection inspection = {.say = say_line, .arg = arg};
    enum err err = begin(&inspection, env, folder, error);
    if (!err && inspection.damage.code)
        err = error_set(error, ERR_CORRUPT, "%s", inspection.damage.text);
    done(&inspection);
    return err;
}

/* ---- cutting ---- */

/* A name for what is cut off the segment that no other repair has used. */
static enum err cut_path(const struct folder *folder, uint64_t number, char to[FOLDER_PATH_BYTES],
                         struct error *error)
{
    char segment[FOLDER_PATH_BYTES];
    folder_segment_path(folder, number, segment);
    const char *name = strrchr(segment, '/') + 1;
    bool taken = true;
    for (unsigned i = 1; taken; i++) {
        char cut[64];
        if (i == 1)
            snprintf(cut, sizeof(cut), "%.32s.cut", name);
        else
            snprintf(cut, sizeof(cut), "%.32s.%u.cut", name, i);
        enum err err = folder_has(folder, cut, &taken, error);
        if (err)
            return err;
        folder_path_of(folder, cut, to);
    }
    return ERR_OK;
}

struct lost {
    const struct folder *folder;
    struct found found;
};

static enum err count_lost(void *arg, const struct group *group, struct slice body,
                           struct log_position next, struct error *error)
{
    (void)next;
    (void)error;
    struct lost *lost = arg;
    count_group(lost->folder, group, body, &lost->found, NULL);
    return ERR_OK;
}

static void say_lost(const struct inspection *inspection, uint64_t number, uint64_t offset,
                     const char *kept)
{
    const struct chain *chain = &inspection->chain;
    struct lost lost = {.folder = &inspection->folder};
    if (chain->count > 0)
        chain_scan(&inspection->folder, chain->segments[0].log_id, number, offset, count_lost,
                   &lost, NULL);
    say(inspection,
        "segment %" PRIu64 ": cut from offset %" PRIu64 " on, with %" PRIu64
        " sound groups of %" PRIu64 " sections and %" PRIu64 " events; kept in %s",
        number, offset, lost.found.groups, lost.found.sections, lost.found.events, kept);
}

/* Takes a whole segment out of the log. */
static enum err cut_segment(const struct inspection *inspection, uint64_t number,
                            struct error *error)
{
    const struct folder *folder = &inspection->folder;
    char path[FOLDER_PATH_BYTES];
    char kept[FOLDER_PATH_BYTES];
    folder_segment_path(folder, number, path);
    enum err err = cut_path(folder, number, kept, error);
    if (err)
        return err;
    say_lost(inspection, number, 0, kept);
    err = disk_rename(folder->disk, path, kept, error);
    return err ? err : folder_sync(folder, error);
}

/* Copies the first `good_bytes` of a file, then zeros up to `size_bytes`. */
static enum err copy_bytes(struct disk_file *from, struct disk_file *to, uint64_t good_bytes,
                           uint64_t size_bytes, char *buffer, struct error *error)
{
    enum err err = ERR_OK;
    for (uint64_t at = 0; at < size_bytes && !err;) {
        bool is_good = at < good_bytes;
        uint64_t left = is_good ? good_bytes - at : size_bytes - at;
        size_t size = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
        if (is_good) {
            size_t got = 0;
            err = disk_file_read(from, at, buffer, size, &got, error);
            if (!err && got < size)
                err = error_set(error, ERR_IO, "the file shrank while it was copied");
        } else {
            memset(buffer, 0, size);
        }
        if (!err)
            err = disk_file_write(to, at, buffer, size, error);
        at += size;
    }
    return err ? err : disk_file_sync(to, error);
}

static enum err copy_file(const struct folder *folder, struct disk_file *from, const char *path,
                          uint64_t good_bytes, uint64_t size_bytes, struct error *error)
{
    struct disk_file *to;
    enum err err = disk_open(folder->disk, path, DISK_CREATE, &to, error);
    if (err)
        return err;
    char *buffer = malloc(COPY_BYTES);
    if (!buffer)
        abort();
    err = copy_bytes(from, to, good_bytes, size_bytes, buffer, error);
    free(buffer);
    disk_file_close(to);
    return err;
}

/* Puts a copy that ends before the damage in the place of the segment where the
 * good part ends. */
static enum err cut_inside(const struct inspection *inspection, struct error *error)
{
    const struct folder *folder = &inspection->folder;
    uint64_t number = inspection->end.position.segment;
    uint64_t offset = inspection->end.position.offset;
    char path[FOLDER_PATH_BYTES];
    char kept[FOLDER_PATH_BYTES];
    char repaired[FOLDER_PATH_BYTES];
    folder_segment_path(folder, number, path);
    folder_path_of(folder, REPAIR_FILE, repaired);
    enum err err = cut_path(folder, number, kept, error);
    if (!err)
        err = folder_remove(folder, REPAIR_FILE, error);
    if (err)
        return err;
    say_lost(inspection, number, offset, kept);

    struct disk_file *file;
    err = disk_open(folder->disk, path, DISK_READ, &file, error);
    if (err)
        return err;
    uint64_t file_bytes = 0;
    err = disk_file_size(file, &file_bytes, error);
    if (!err)
        err = copy_file(folder, file, kept, file_bytes, file_bytes, error);
    if (!err)
        err = copy_file(folder, file, repaired, offset,
                        inspection->chain.segments[number - inspection->chain.first].size_bytes,
                        error);
    disk_file_close(file);
    if (!err)
        err = folder_sync(folder, error);
    if (!err)
        err = disk_rename(folder->disk, repaired, path, error);
    return err ? err : folder_sync(folder, error);
}

static enum err cut(const struct inspection *inspection, struct error *error)
{
    uint64_t *numbers;
    size_t count;
    enum err err = folder_segments(&inspection->folder, &numbers, &count, error);
    if (err)
        return err;
    while (count > 0 && numbers[count - 1] > inspection->end.position.segment && !err)
        err = cut_segment(inspection, numbers[--count], error);
    free(numbers);
    if (!err && inspection->end.position.segment == 0) /* nothing stays: a new log begins */
        err = folder_forget_first(&inspection->folder, error);
    else if (!err && inspection->chain.first_unknown)
        err = folder_set_first(&inspection->folder, inspection->chain.first, error);
    if (!err && inspection->damage_inside)
        err = cut_inside(inspection, error);
    return err ? err : synced_forget(&inspection->folder, error);
}

enum err file_log_repair(struct env *env, const char *folder, file_log_say_fn *say_line, void *arg,
                         struct error *error)
{
    assert(env && folder && say_line);

    struct inspection inspection = {.say = say_line, .arg = arg};
    enum err err = begin(&inspection, env, folder, error);
    if (!err && inspection.damage.code)
        err = cut(&inspection, error);
    if (!err)
        say(&inspection, inspection.damage.code ? "the log ends before the damage now"
                                                : "there is nothing to repair");
    done(&inspection);
    return err;
}
