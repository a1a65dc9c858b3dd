/* prepare.h - a segment full of zeros, made before it is needed.
 *
 * The zeros are really written: a sync into blocks that have been written once
 * takes two thirds of the time of one into blocks that were only reserved, and
 * no full disk can be met there any more.
 *
 * The work is cut into steps, so that whoever does it can stop in between, and
 * goes on where it was when the disk had no space. */
#ifndef LOG_FILE_PREPARE_H
#define LOG_FILE_PREPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/disk.h"
#include "base/error.h"
#include "log/file/folder.h"

struct prepare {
    const struct folder *folder; /* borrowed */
    const char *name;            /* of the file in the folder; borrowed */
    uint64_t size_bytes;
    uint64_t done_bytes;
    struct disk_file *file; /* NULL before the first step */
};

void prepare_init(struct prepare *prepare, const struct folder *folder, const char *name,
                  uint64_t size_bytes);

/* Does a part of the work. When `ret_file` is filled the segment is whole and
 * synced, and the file the caller's; it is NULL while there is more to do.
 * ERR_FULL leaves everything as it is, to be tried again. */
enum err prepare_step(struct prepare *prepare, struct disk_file **ret_file, struct error *error);

/* All steps at once; on an error nothing is left behind. */
enum err prepare_all(const struct folder *folder, const char *name, uint64_t size_bytes,
                     struct disk_file **ret_file, struct error *error);

/* Closes an unfinished file. */
void prepare_done(struct prepare *prepare);

#endif
