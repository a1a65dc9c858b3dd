#include "log/file/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/message.h"

/* ---- going on behind what was read ---- */

static enum err write_again(struct disk_file *file, uint64_t offset, size_t size,
                            struct error *error)
{
    char *bytes = malloc(size);
    if (!bytes)
        abort();
    size_t got = 0;
    enum err err = disk_file_read(file, offset, bytes, size, &got, error);
    if (!err && got != size)
        err = error_set(error, ERR_IO, "the last segment shrank while it was read");
    if (!err)
        err = disk_file_write(file, offset, bytes, size, error);
    if (!err)
        err = disk_file_sync(file, error);
    free(bytes);
    return err;
}

/* The last group may be in the system's memory only: its process died before
 * the sync, or the sync failed and the system has forgotten that these bytes
 * never reached the disk. From now on it counts, so it is written once more,
 * the same bytes at the same place, and synced. */
static enum err settle_last_group(const struct folder *folder, const struct chain_end *end,
                                  struct error *error)
{
    if (end->last_offset == 0)
        return ERR_OK;
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    enum err err = disk_open(folder->disk, folder_segment_path(folder, end->position.segment, path),
                             DISK_WRITE, &file, error);
    if (err)
        return err;
    size_t size = (size_t)(end->position.offset - end->last_offset);
    err = write_again(file, end->last_offset, size, error);
    disk_file_close(file);
    return err;
}

enum err writer_resume(struct writer *writer, struct env *env, const struct folder *folder,
                       const struct chain *chain, const struct chain_end *end, struct error *error)
{
    *writer = (struct writer){.env = env, .folder = folder, .next_group = end->next_group};
    if (chain->count == 0) {
        writer->log_id = env_random(env);
        return synced_open(&writer->synced, folder, writer->log_id, error);
    }
    enum err err = settle_last_group(folder, end, error);
    if (!err)
        err = synced_open(&writer->synced, folder, chain_last(chain)->log_id, error);
    if (!err)
        err = synced_note(&writer->synced, end->position, error);
    if (err)
        return err;
    if (end->torn_bytes > 0)
        message_info("cut an unfinished write off the log segment=%" PRIu64 " offset=%" PRIu64
                     " bytes=%" PRIu64,
                     end->position.segment, end->position.offset, end->torn_bytes);

    /* A last segment without a group is replaced, not continued. */
    const struct segment_header *last = chain_last(chain);
    struct log_position behind = chain_end_of_groups(chain, end);
    writer->log_id = last->log_id;
    writer->segment = behind.segment;
    writer->at = behind.offset;
    return ERR_OK;
}

void writer_done(struct writer *writer)
{
    disk_file_close(writer->file);
    writer->file = NULL;
    synced_close(&writer->synced);
}

/* ---- segments ---- */

static enum err write_header(const struct segment_header *header, struct disk_file *file,
                             struct error *error)
{
    char bytes[SEGMENT_HEADER_BYTES];
    segment_header_put(header, bytes);
    enum err err = disk_file_write(file, 0, bytes, sizeof(bytes), error);
    return err ? err : disk_file_sync(file, error);
}

static enum err give_number(const struct folder *folder, const char *name, uint64_t number,
                            struct error *error)
{
    char from[FOLDER_PATH_BYTES];
    char to[FOLDER_PATH_BYTES];
    enum err err = disk_rename(folder->disk, folder_path_of(folder, name, from),
                               folder_segment_path(folder, number, to), error);
    return err ? err : folder_sync(folder, error);
}

/* Durably: so that a segment which is lost later is missed. */
static enum err note_segment(struct writer *writer, uint64_t number, struct error *error)
{
    struct log_position begin = {number, SEGMENT_HEADER_BYTES};
    enum err err = ERR_OK;
    if (!writer->synced.file) { /* there was no space for it */
        err = synced_open(&writer->synced, writer->folder, writer->log_id, error);
        if (!err && writer->synced.file)
            err = folder_sync(writer->folder, error);
    }
    if (!err)
        err = synced_note(&writer->synced, begin, error);
    return err ? err : synced_settle(&writer->synced, error);
}

enum err writer_begin(struct writer *writer, struct disk_file *file, const char *name,
                      uint64_t size_bytes, struct segment_header *ret_header, struct error *error)
{
    struct segment_header header = {
        .log_id = writer->log_id,
        .number = writer->segment + 1,
        .size_bytes = size_bytes,
        .created_ms = env_wall_ms(writer->env),
        .first_group = writer->next_group,
        .previous_end = writer->at,
    };
    enum err err = write_header(&header, file, error);
    if (!err)
        err = give_number(writer->folder, name, header.number, error);
    if (!err)
        err = note_segment(writer, header.number, error);
    if (err)
        return err;

    disk_file_close(writer->file);
    writer->file = file;
    writer->segment = header.number;
    writer->size_bytes = size_bytes;
    writer->at = SEGMENT_HEADER_BYTES;
    *ret_header = header;
    return ERR_OK;
}

/* ---- groups ---- */

struct log_position writer_position(const struct writer *writer)
{
    return (struct log_position){writer->segment, writer->at};
}

bool writer_fits(const struct writer *writer, uint32_t group_size)
{
    return writer->file && writer->size_bytes - writer->at >= group_size;
}

enum err writer_put(struct writer *writer, char *bytes, struct group group, struct error *error)
{
    uint32_t size = group_bytes(group.body_bytes);
    assert(writer_fits(writer, size));

    group.log_id = writer->log_id;
    group.segment = writer->segment;
    group.offset = writer->at;
    group.number = writer->next_group;
    group_seal(bytes, &group);
    writer->put_bytes = size;
    return disk_file_write(writer->file, writer->at, bytes, size, error);
}

enum err writer_sync(struct writer *writer, struct error *error)
{
    enum err err = disk_file_sync(writer->file, error);
    if (err)
        return err;
    writer->at += writer->put_bytes;
    writer->next_group++;
    return synced_note(&writer->synced, writer_position(writer), error);
}

enum err writer_settle(struct writer *writer, struct error *error)
{
    return synced_settle(&writer->synced, error);
}

static enum err put_closing(struct writer *writer, struct error *error)
{
    char bytes[GROUP_HEADER_BYTES]; /* of a group without a body */
    enum err err = writer_put(writer, bytes, (struct group){.kind = GROUP_CLOSING}, error);
    if (err == ERR_FULL)
        return ERR_OK;
    return err ? err : writer_sync(writer, error);
}

enum err writer_close(struct writer *writer, struct error *error)
{
    bool has_groups = writer->file && writer->at > SEGMENT_HEADER_BYTES;
    if (!has_groups)
        return ERR_OK;
    enum err err = ERR_OK;
    if (writer_fits(writer, group_bytes(0)))
        err = put_closing(writer, error);
    if (!err)
        err = writer_settle(writer, error);
    return err == ERR_FULL ? ERR_OK : err;
}
