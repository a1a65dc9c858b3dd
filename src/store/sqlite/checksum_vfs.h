/* checksum_vfs.h - a SQLite VFS with a checksum in each page of the database file.
 *
 * The last 8 bytes of a page are reserved (SQLite leaves them alone) and hold the XXH3 of the bytes
 * before them. A page is summed when it is written to the file, and checked whenever it is read
 * from it: a page that does not match is SQLITE_IOERR_DATA, in a table, in an index or anywhere
 * else, and never a wrong row or a row that seems to be missing.
 *
 *   file   page: content ...................................... sum (8 bytes, low byte first)
 *   WAL    frames as SQLite writes them, with checksums of its own; their pages have no valid sum
 *
 * Whoever has no such VFS (the sqlite3 shell) reads the file as any other, and writes pages without
 * a valid sum. So the writer keeps the lock for checkpoints: what other programs write while it is
 * there goes through the WAL, and through us into the file. A file whose pages have no reserved
 * bytes is read unchecked. There is no memory mapping. */
#ifndef STORE_SQLITE_CHECKSUM_VFS_H
#define STORE_SQLITE_CHECKSUM_VFS_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#define CHECKSUM_BYTES 8

/* The name of the VFS that does this on top of another; NULL: SQLite's default. Any thread. */
const char *checksum_vfs(const char *under);

/* Are pages of the open file checked? */
bool checksum_is_on(sqlite3 *handle);

/* Nobody else may carry the WAL over from now on, until the connection is closed. */
void checksum_keep_checkpoints(sqlite3 *handle);

/* The page that did not match when it was last read; 0 = none. */
int64_t checksum_damaged_page(sqlite3 *handle);

/* Checks up to `count` pages from `*page` on (1 is the first) and moves it behind them, 0 = behind
 * the last. SQLITE_IOERR_DATA: *page does not match. By the connection that carries the WAL over.
 */
int checksum_check(sqlite3 *handle, int64_t *page, int count);

/* The sum of a page of `size` bytes. */
void checksum_of_page(const unsigned char *page, int size, unsigned char sum[CHECKSUM_BYTES]);

/* Is it the one page of a large file that SQLite never writes, and that has no sum? */
bool checksum_is_lock_page(int size, int64_t offset);

#endif
