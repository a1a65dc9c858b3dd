#include "log/file/view.h"

#include <assert.h>
#include <stdlib.h>

/* At a time: large enough for the disk, small enough for the cache. */
#define READ_BYTES (1u << 20)

void view_init(struct view *view, uint64_t segment_bytes)
{
    size_t capacity = segment_bytes < GROUP_BYTES_MAX ? (size_t)segment_bytes : GROUP_BYTES_MAX;
    view->window_capacity = capacity > SEGMENT_HEADER_BYTES ? capacity : SEGMENT_HEADER_BYTES;
    view->window = malloc(view->window_capacity);
    if (!view->window)
        abort();
}

void view_done(struct view *view)
{
    free(view->window);
    view->window = NULL;
}

enum err view_open(struct view *view, const struct folder *folder, uint64_t number,
                   struct error *error)
{
    folder_segment_path(folder, number, view->path);
    view->window_bytes = 0;
    enum err err = disk_open(folder->disk, view->path, DISK_READ, &view->file, error);
    if (err)
        return err;
    err = disk_file_size(view->file, &view->file_bytes, error);
    if (err)
        view_close(view);
    view->limit = view->file_bytes;
    return err;
}

void view_close(struct view *view)
{
    disk_file_close(view->file);
    view->file = NULL;
}

static enum err view_move(struct view *view, uint64_t offset, size_t size, struct error *error)
{
    size_t wanted = size > READ_BYTES ? size : READ_BYTES;
    if (wanted > view->window_capacity)
        wanted = view->window_capacity;
    if (wanted > view->limit - offset)
        wanted = (size_t)(view->limit - offset);
    view->window_at = offset;
    view->window_bytes = 0;
    enum err err =
        disk_file_read(view->file, offset, view->window, wanted, &view->window_bytes, error);
    if (err)
        return err;
    if (view->window_bytes < size)
        return error_set(error, ERR_IO, "%s: it shrank while it was read", view->path);
    return ERR_OK;
}

enum err view_get(struct view *view, uint64_t offset, size_t size, const char **ret_bytes,
                  struct error *error)
{
    assert(size <= view->window_capacity && offset + size <= view->limit);

    bool inside =
        offset >= view->window_at && offset + size <= view->window_at + view->window_bytes;
    if (!inside) {
        enum err err = view_move(view, offset, size, error);
        if (err)
            return err;
    }
    *ret_bytes = view->window + (offset - view->window_at);
    return ERR_OK;
}

enum err view_group(struct view *view, const struct segment_header *header, uint64_t offset,
                    uint64_t end, struct group *ret_group, const char **ret_bytes,
                    const char **ret_fault, struct error *error)
{
    *ret_fault = "no group begins here";
    uint32_t header_bytes = group_header_bytes(header->is_old);
    if (offset > end || end - offset < header_bytes)
        return ERR_OK;
    enum err err = view_get(view, offset, header_bytes, ret_bytes, error);
    if (err || !(header->is_old ? group_get_old : group_get)(*ret_bytes, ret_group))
        return err;

    *ret_fault = "a group that belongs elsewhere is here";
    if (ret_group->log_id != header->log_id || ret_group->segment != header->number ||
        ret_group->offset != offset)
        return ERR_OK;

    *ret_fault = "the group does not end where it should";
    uint32_t size = group_size(ret_group);
    if (size > end - offset)
        return ERR_OK;
    err = view_get(view, offset, size, ret_bytes, error);
    if (err)
        return err;

    *ret_fault =
        group_is_intact(*ret_bytes, ret_group) ? NULL : "the group's checksum does not match";
    return ERR_OK;
}
