#include "log/file/synced.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/message.h"

#define SLOTS        2u
#define SLOT_BYTES   512u /* a sector each: no write touches both */
#define RECORD_BYTES 40u
#define SUM_AT       32u

static const char magic[8] = {'T', 'A', 'L', 'L', 'Y', 'S', 'Y', 'N'};

static void put64(char *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof(value));
}

static uint64_t get64(const char *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return le64toh(value);
}

static uint64_t checksum(const char *record)
{
    return hash_stable((struct slice){record, SUM_AT});
}

/* ---- reading ---- */

static bool is_before(struct log_position a, struct log_position b)
{
    return a.segment < b.segment || (a.segment == b.segment && a.offset < b.offset);
}

static void take_later(const char *record, uint64_t log_id, struct log_position *position)
{
    if (memcmp(record, magic, sizeof(magic)) != 0 || get64(record + SUM_AT) != checksum(record))
        return;
    struct log_position noted = {get64(record + 16), get64(record + 24)};
    bool is_ours = log_id == 0 || get64(record + 8) == log_id;
    if (is_ours && is_before(*position, noted))
        *position = noted;
}

enum err synced_read(const struct folder *folder, uint64_t log_id, struct log_position *ret_synced,
                     struct error *error)
{
    *ret_synced = (struct log_position){0};
    char path[FOLDER_PATH_BYTES];
    struct disk_file *file;
    struct error why;
    enum err err = disk_open(folder->disk, folder_path_of(folder, FOLDER_SYNCED, path), DISK_READ,
                             &file, &why);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : error_set(error, err, "%s", why.text);

    char bytes[SLOTS * SLOT_BYTES] = {0};
    size_t size = 0;
    err = disk_file_read(file, 0, bytes, sizeof(bytes), &size, error);
    disk_file_close(file);
    for (unsigned slot = 0; slot < SLOTS && !err; slot++)
        take_later(bytes + (size_t)slot * SLOT_BYTES, log_id, ret_synced);
    return err;
}

/* ---- writing ---- */

/* The file has its size from the beginning, so that what is noted changes nothing
 * else of it. */
static enum err create(struct synced *synced, const struct folder *folder, const char *path,
                       struct error *error)
{
    static const char zeros[SLOTS * SLOT_BYTES];
    enum err err = disk_open(folder->disk, path, DISK_CREATE, &synced->file, error);
    if (!err)
        err = disk_file_write(synced->file, 0, zeros, sizeof(zeros), error);
    if (err)
        synced_close(synced);
    return err;
}

static void tell_full(struct synced *synced, const char *reason)
{
    if (!synced->has_told_full)
        message_warning("no space to note how far the log was synced: until there is, damage to "
                        "its last group can look like an unfinished write reason=\"%s\"",
                        reason);
    synced->has_told_full = true;
}

enum err synced_open(struct synced *synced, const struct folder *folder, uint64_t log_id,
                     struct error *error)
{
    *synced = (struct synced){.log_id = log_id, .has_told_full = synced->has_told_full};
    char path[FOLDER_PATH_BYTES];
    folder_path_of(folder, FOLDER_SYNCED, path);
    struct error why;
    enum err err = disk_open(folder->disk, path, DISK_WRITE, &synced->file, &why);
    if (err == ERR_NOT_FOUND)
        err = create(synced, folder, path, &why);
    if (err == ERR_FULL) { /* what is not noted is not known: nothing worse */
        tell_full(synced, why.text);
        return ERR_OK;
    }
    return err ? error_set(error, err, "%s", why.text) : ERR_OK;
}

void synced_close(struct synced *synced)
{
    disk_file_close(synced->file);
    synced->file = NULL;
}

enum err synced_note(struct synced *synced, struct log_position position, struct error *error)
{
    if (!synced->file)
        return ERR_OK;
    char record[RECORD_BYTES];
    memcpy(record, magic, sizeof(magic));
    put64(record + 8, synced->log_id);
    put64(record + 16, position.segment);
    put64(record + 24, position.offset);
    put64(record + SUM_AT, checksum(record));

    struct error why;
    enum err err = disk_file_write(synced->file, (uint64_t)synced->slot * SLOT_BYTES, record,
                                   sizeof(record), &why);
    synced->slot = (synced->slot + 1) % SLOTS;
    if (err == ERR_FULL)
        tell_full(synced, why.text);
    else
        synced->has_told_full = false;
    return err && err != ERR_FULL ? error_set(error, err, "%s", why.text) : ERR_OK;
}

enum err synced_settle(const struct synced *synced, struct error *error)
{
    return synced->file ? disk_file_sync(synced->file, error) : ERR_OK;
}

enum err synced_forget(const struct folder *folder, struct error *error)
{
    enum err err = folder_remove(folder, FOLDER_SYNCED, error);
    return err ? err : folder_sync(folder, error);
}
