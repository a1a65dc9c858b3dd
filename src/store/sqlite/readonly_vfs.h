/* readonly_vfs.h - a SQLite VFS that changes no file: to check a database as it lies there.
 *
 * SQLite has to write where it only reads: it makes a WAL that is missing, and a file of shared
 * memory beside it. This VFS opens the WAL read-only, or shows an empty one, refuses every write,
 * and has no shared memory, so that the connection must be exclusive. Locks are real ones, unless
 * the file itself may not be written. */
#ifndef STORE_SQLITE_READONLY_VFS_H
#define STORE_SQLITE_READONLY_VFS_H

/* The name of the VFS, on top of SQLite's default. Any thread. */
const char *readonly_vfs(void);

/* One that shows the file alone, as if there were no WAL, and locks nothing: for a look beside a
 * connection that keeps others from writing. */
const char *readonly_file_vfs(void);

#endif
