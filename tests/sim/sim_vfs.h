/* sim_vfs.h - SQLite on a disk of base/disk.h: the simulator's.
 *
 * Just what a database needs that one process has for itself: files, their sizes and
 * syncs. There are no locks and there is no shared memory. Time and chance come from
 * the environment. A disk cannot make a file shorter; what is cut off is overwritten with zeros,
 * and the file is as long as before when it is opened the next time. */
#ifndef SIM_VFS_H
#define SIM_VFS_H

#include "base/env.h"

#define SIM_VFS "sim"

/* From now on files are those of this environment's disk, all of them in `folder`. Chance
 * begins anew, so that a seed is the same each time. */
void sim_vfs_use(struct env *env, const char *folder);

#endif
