/* sim_disk.h - a disk in memory that can lose power, fail and fill up.
 *
 * It fulfils base/disk.h and is as unkind as a real disk may be, and one seed
 * decides how. Every file has two contents: what the program sees, and what
 * would be left after a power cut. A sync carries the first over to the second,
 * by sectors of 512 bytes; creations, renames and removals are carried over by
 * a sync of their folder, and syncing a file does not save its name.
 *
 * At a crash each folder keeps its first few unsynced changes, and each file
 * some of its unsynced sectors: all, none or any of them, some torn in the
 * middle. A file may keep its new length without the bytes, and then has zeros,
 * noise, or bytes of another file in their place. A sector that was written
 * twice may come back as it was in between.
 *
 *   struct sim_disk *disk = sim_disk_new(seed);
 *   disk->faults.crash_at_call = 100;
 *   ... run the system on &disk->base until a call fails or `crash` is called ...
 *   sim_disk_crash(disk, &rng);
 *   ... run recovery on it ...
 *
 * Renames stay within a folder, and folders themselves are durable at once.
 * A disk belongs to one thread. */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/disk.h"
#include "sim/sim_rng.h"

#define SIM_DISK_SECTOR 512u

/* Set and changed by the owner at any time; zero means never. Calls are counted
 * from 1 for the life of the disk: every function of base/disk.h but close. */
struct sim_disk_faults {
    /* This call fails. A failed write has written a random part; a failed sync
     * has saved a random part of the sectors, lost the others, and marked all
     * of them clean, so that the next sync succeeds over the loss. */
    uint64_t fail_at_call;
    enum err fail_with; /* ERR_IO or ERR_FULL; ERR_IO where space is not needed */

    /* Any sync of a file or folder fails with this chance. */
    unsigned sync_failure_permille;

    /* Room for the bytes of all files: a write that grows a file past it writes
     * what fits and gives ERR_FULL. */
    uint64_t space_bytes;

    /* The power goes off just before or just after this call takes effect, then
     * `crash` is called if there is one. It may longjmp away; if it comes back,
     * this and every later call fails with ERR_IO until sim_disk_crash(). */
    uint64_t crash_at_call;
    void (*crash)(void *arg);
    void *crash_arg;
};

struct sim_disk_counts {
    uint64_t calls;
    uint64_t faults; /* calls that were made to fail, full disks included */
    uint64_t crashes;
    uint64_t sectors_lost; /* at crashes and failed syncs */
    uint64_t sectors_torn;
    uint64_t bits_flipped;
};

struct sim_disk {
    struct disk base;
    struct sim_disk_faults faults;
    struct sim_disk_counts counts;
    struct sim_disk_state *state; /* private */
};

struct sim_disk *sim_disk_new(uint64_t seed);
void sim_disk_free(struct sim_disk *disk);

/* The power was cut and is back. Open files are freed and may not be used any
 * more. `crash_at_call` and `fail_at_call` are cleared, other faults stay. */
void sim_disk_crash(struct sim_disk *disk, struct sim_rng *rng);

/* The power goes off between two calls: every call fails with ERR_IO until
 * sim_disk_crash() or sim_disk_kill(). */
void sim_disk_power_off(struct sim_disk *disk);

/* The process was killed, not the machine: open files are freed, locks are
 * released, and nothing is lost. */
void sim_disk_kill(struct sim_disk *disk);

/* Turns one bit of what is stored, as a bad sector would. ERR_NOT_FOUND without
 * such a file, ERR_OUT_OF_RANGE past its end. */
enum err sim_disk_flip(struct sim_disk *disk, const char *path, uint64_t byte, unsigned bit);

/* The bytes of all files, as `space_bytes` counts them. */
uint64_t sim_disk_used_bytes(const struct sim_disk *disk);

/* A hash over all that the disk holds, to compare two runs of one seed. */
uint64_t sim_disk_hash(const struct sim_disk *disk);

#endif
