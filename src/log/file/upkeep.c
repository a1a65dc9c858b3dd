#include "log/file/upkeep.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log/file/view.h"

#define COPY_BYTES (1u << 20)

/* ---- trimming ---- */

static enum err remove_before(const struct folder *folder, uint64_t first, struct error *error)
{
    uint64_t *numbers;
    size_t count;
    enum err err = folder_segments(folder, &numbers, &count, error);
    if (err)
        return err;
    for (size_t i = 0; i < count && numbers[i] < first && !err; i++) {
        char path[FOLDER_PATH_BYTES];
        err = disk_remove(folder->disk, folder_segment_path(folder, numbers[i], path), error);
    }
    free(numbers);
    return err;
}

enum err upkeep_remove(const struct folder *folder, uint64_t first, struct error *error)
{
    enum err err = remove_before(folder, first, error);
    return err ? err : folder_sync(folder, error);
}

enum err upkeep_tidy(const struct folder *folder, uint64_t first, struct error *error)
{
    enum err err = folder_remove(folder, FOLDER_SCRUB_NEW, error);
    return err ? err : remove_before(folder, first, error);
}

/* ---- writing anew ---- */

struct scrubbing {
    const struct folder *folder;
    const struct segments_entry *entry;
    struct view view;
    struct disk_file *file; /* the new one; NULL until something is different */
    char *group;            /* room for one */
    uint64_t changed;       /* sections */
};

static enum err create(struct scrubbing *scrubbing, struct error *error)
{
    const struct folder *folder = scrubbing->folder;
    enum err err = folder_remove(folder, FOLDER_SCRUB_NEW, error);
    char path[FOLDER_PATH_BYTES];
    return err ? err
               : disk_open(folder->disk, folder_path_of(folder, FOLDER_SCRUB_NEW, path),
                           DISK_CREATE, &scrubbing->file, error);
}

/* Copies what is before `end`. */
static enum err copy_front(struct scrubbing *scrubbing, uint64_t end, struct error *error)
{
    for (uint64_t at = 0; at < end;) {
        size_t size = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
        const char *bytes;
        enum err err = view_get(&scrubbing->view, at, size, &bytes, error);
        if (!err)
            err = disk_file_write(scrubbing->file, at, bytes, size, error);
        if (err)
            return err;
        at += size;
    }
    return ERR_OK;
}

/* From here on the new file is different; up to here it is the same. */
static enum err begin_anew(struct scrubbing *scrubbing, uint64_t offset, struct error *error)
{
    if (scrubbing->file)
        return ERR_OK;
    enum err err = create(scrubbing, error);
    return err ? err : copy_front(scrubbing, offset, error);
}

/* Lets `scrub` change the sections of the group in hand. */
static uint64_t scrub_sections(char *bytes, const struct group *group, log_scrub_fn *scrub,
                               void *arg)
{
    uint64_t changed = 0;
    struct slice body = group_body(bytes, group);
    struct slice section;
    while (group_next_section(&body, &section))
        changed += scrub(arg, bytes + (section.data - bytes), section.size);
    return changed;
}

static enum err scrub_group(struct scrubbing *scrubbing, const struct group *group,
                            const char *bytes, log_scrub_fn *scrub, void *arg, struct error *error)
{
    uint32_t size = group_size(group);
    memcpy(scrubbing->group, bytes, size);
    uint64_t changed = scrub_sections(scrubbing->group, group, scrub, arg);
    enum err err = changed > 0 ? begin_anew(scrubbing, group->offset, error) : ERR_OK;
    if (err || !scrubbing->file)
        return err;
    group_seal(scrubbing->group, group);
    scrubbing->changed += changed;
    return disk_file_write(scrubbing->file, group->offset, scrubbing->group, size, error);
}

static enum err scrub_groups(struct scrubbing *scrubbing, log_scrub_fn *scrub, void *arg,
                             struct error *error)
{
    const struct segments_entry *entry = scrubbing->entry;
    for (uint64_t at = SEGMENT_HEADER_BYTES; at < entry->end;) {
        struct group group;
        const char *bytes;
        const char *fault;
        enum err err = view_group(&scrubbing->view, &entry->header, at, entry->end, &group, &bytes,
                                  &fault, error);
        if (!err && fault)
            err = error_set(error, ERR_CORRUPT, "%s: offset %" PRIu64 ": %s", scrubbing->view.path,
                            at, fault);
        if (!err)
            err = scrub_group(scrubbing, &group, bytes, scrub, arg, error);
        if (err)
            return err;
        at += group_size(&group);
    }
    return ERR_OK;
}

/* What a crash has torn off is not part of the log, but it is in the file. */
static enum err tail_is_zero(struct scrubbing *scrubbing, bool *ret_is_zero, struct error *error)
{
    *ret_is_zero = true;
    struct view *view = &scrubbing->view;
    for (uint64_t at = scrubbing->entry->end; at < view->limit && *ret_is_zero;) {
        size_t size = view->limit - at < COPY_BYTES ? (size_t)(view->limit - at) : COPY_BYTES;
        const char *bytes;
        enum err err = view_get(view, at, size, &bytes, error);
        if (err)
            return err;
        *ret_is_zero = bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
        at += size;
    }
    return ERR_OK;
}

/* Zeros up to the size that it had. Nothing will be written there any more, so a
 * hole will do. */
static enum err write_tail(struct scrubbing *scrubbing, struct error *error)
{
    uint64_t end = scrubbing->entry->header.size_bytes;
    uint64_t at = scrubbing->entry->end;
    if (end - at > SEGMENT_ALIGN)
        at = end - SEGMENT_ALIGN;
    memset(scrubbing->group, 0, SEGMENT_ALIGN);
    enum err err =
        disk_file_write(scrubbing->file, at, scrubbing->group, (size_t)(end - at), error);
    return err ? err : disk_file_sync(scrubbing->file, error);
}

static enum err write_anew(struct scrubbing *scrubbing, log_scrub_fn *scrub, void *arg,
                           struct error *error)
{
    enum err err = scrub_groups(scrubbing, scrub, arg, error);
    bool is_zero = true;
    if (!err && !scrubbing->file)
        err = tail_is_zero(scrubbing, &is_zero, error);
    if (!err && !is_zero)
        err = begin_anew(scrubbing, scrubbing->entry->end, error);
    if (!err && scrubbing->file)
        err = write_tail(scrubbing, error);
    return err;
}

static enum err take_place(const struct folder *folder, uint64_t number, bool *ret_renamed,
                           struct error *error)
{
    char from[FOLDER_PATH_BYTES];
    char to[FOLDER_PATH_BYTES];
    enum err err = disk_rename(folder->disk, folder_path_of(folder, FOLDER_SCRUB_NEW, from),
                               folder_segment_path(folder, number, to), error);
    if (err)
        return err;
    *ret_renamed = true;
    return folder_sync(folder, error);
}

enum err upkeep_scrub(const struct folder *folder, const struct segments_entry *entry,
                      log_scrub_fn *scrub, void *arg, uint64_t *ret_changed, bool *ret_renamed,
                      struct error *error)
{
    assert(entry->sealed);

    *ret_changed = 0;
    *ret_renamed = false;
    struct scrubbing scrubbing = {
        .folder = folder,
        .entry = entry,
        .group = malloc(GROUP_BYTES_MAX),
    };
    if (!scrubbing.group)
        abort();
    view_init(&scrubbing.view, GROUP_BYTES_MAX);
    enum err err = view_open(&scrubbing.view, folder, entry->header.number, error);
    if (!err && scrubbing.view.file_bytes < entry->end)
        err = error_set(error, ERR_CORRUPT, "%s: offset %" PRIu64 ": the file ends here",
                        scrubbing.view.path, scrubbing.view.file_bytes);
    if (!err)
        err = write_anew(&scrubbing, scrub, arg, error);
    view_close(&scrubbing.view);
    view_done(&scrubbing.view);
    free(scrubbing.group);

    bool is_anew = scrubbing.file != NULL;
    disk_file_close(scrubbing.file);
    if (!err && is_anew)
        err = take_place(folder, entry->header.number, ret_renamed, error);
    if (err && is_anew && !*ret_renamed)
        folder_remove(folder, FOLDER_SCRUB_NEW, NULL);
    if (!err)
        *ret_changed = scrubbing.changed;
    return err;
}
