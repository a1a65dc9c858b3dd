#include "log/file/prepare.h"

#include <assert.h>

#define STEP_BYTES  (1u << 20)
#define WRITE_BYTES (64u << 10)

static const char zeros[WRITE_BYTES];

void prepare_init(struct prepare *prepare, const struct folder *folder, const char *name,
                  uint64_t size_bytes)
{
    assert(size_bytes > 0);

    *prepare = (struct prepare){.folder = folder, .name = name, .size_bytes = size_bytes};
}

/* A file that is there already is what an earlier process did not finish. */
static enum err create(struct prepare *prepare, struct error *error)
{
    enum err err = folder_remove(prepare->folder, prepare->name, error);
    if (err)
        return err;
    char path[FOLDER_PATH_BYTES];
    return disk_open(prepare->folder->disk, folder_path_of(prepare->folder, prepare->name, path),
                     DISK_CREATE, &prepare->file, error);
}

static enum err write_zeros(struct prepare *prepare, uint64_t until, struct error *error)
{
    while (prepare->done_bytes < until) {
        uint64_t left = until - prepare->done_bytes;
        size_t size = left < WRITE_BYTES ? (size_t)left : WRITE_BYTES;
        enum err err = disk_file_write(prepare->file, prepare->done_bytes, zeros, size, error);
        if (err)
            return err;
        prepare->done_bytes += size;
    }
    return ERR_OK;
}

enum err prepare_step(struct prepare *prepare, struct disk_file **ret_file, struct error *error)
{
    *ret_file = NULL;
    if (!prepare->file) {
        enum err err = create(prepare, error);
        if (err)
            return err;
    }
    uint64_t until = prepare->done_bytes + STEP_BYTES;
    bool is_last = until >= prepare->size_bytes;
    enum err err = write_zeros(prepare, is_last ? prepare->size_bytes : until, error);
    if (err)
        return err;

    /* Synced step by step: one large sync at the end would hold up those of the log. */
    err = disk_file_sync(prepare->file, error);
    if (err)
        return err;
    if (is_last) {
        *ret_file = prepare->file;
        prepare->file = NULL;
    }
    return ERR_OK;
}

enum err prepare_all(const struct folder *folder, const char *name, uint64_t size_bytes,
                     struct disk_file **ret_file, struct error *error)
{
    struct prepare prepare;
    prepare_init(&prepare, folder, name, size_bytes);
    enum err err;
    do
        err = prepare_step(&prepare, ret_file, error);
    while (!err && !*ret_file);
    if (err) {
        prepare_done(&prepare);
        folder_remove(folder, name, NULL);
    }
    return err;
}

void prepare_done(struct prepare *prepare)
{
    disk_file_close(prepare->file);
    prepare->file = NULL;
}
