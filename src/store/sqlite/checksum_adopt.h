/* checksum_adopt.h - sums for pages that another program has written.
 *
 * The sqlite3 shell writes pages without a valid sum. Two marks say that it was at work while
 * nobody watched, and then all pages are summed anew, as they are:
 *
 *   - the first page has zeros in the place of its sum: VACUUM of a plain SQLite leaves them
 *     in all pages, and a page with another sum that does not match is damaged
 *   - FILE-open stands beside the file, and no WAL: the process that had it open was killed, and
 *     another program has carried the WAL over since. FILE-adopting stands there meanwhile, so
 *     that a process that is killed while it does this leaves the rest to the next one */
#ifndef STORE_SQLITE_CHECKSUM_ADOPT_H
#define STORE_SQLITE_CHECKSUM_ADOPT_H

#include <stdbool.h>

#include "base/error.h"

/* Before the file is opened. A file that is missing or has no sums is left as it is. */
enum err checksum_adopt(const char *path, struct error *error);

/* Would checksum_adopt() do that? Changes nothing, and fails as it would. `vfs` opens the file. */
enum err checksum_adopts(const char *path, const char *vfs, bool *ret_adopts, struct error *error);

/* FILE-open. It is made when the file is opened, and removed once all of the WAL was carried over
 * into the file by us. */
void checksum_mark_open(const char *path, bool is_open);

/* The file was closed by us: if the WAL is gone, it was we who carried it over. */
void checksum_mark_closed(const char *path);

#endif
