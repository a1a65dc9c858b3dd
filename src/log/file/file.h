/* file.h - the embedded event log: segments of a fixed size in one folder. */
#ifndef LOG_FILE_FILE_H
#define LOG_FILE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/log.h"

struct file_log_options {
    const char *folder;          /* the data folder; created when missing */
    uint64_t segment_bytes;      /* size of a segment; a multiple of 4096; the first ones of a
                                    start are smaller */
    uint64_t pending_bytes_max;  /* appended and not yet written: ERR_BUSY past it */
    uint64_t verify_bytes_per_s; /* read to look sealed segments through; 0 = not at all */
    bool manual; /* no threads: the owner calls file_log_step(); for the simulator */
    /* Called when the log cannot go on: an I/O error on write or sync. Nothing
     * may be acknowledged any more; the process has to end. Must not return in
     * production; the simulator crashes. */
    void (*fatal)(void *arg, const struct error *error);
    void *fatal_arg;
};

/* Takes the folder's lock and looks at what is there; nothing is changed until
 * log_start(). ERR_BUSY when another process has the folder. */
enum err file_log_open(struct env *env, const struct file_log_options *options,
                       struct log **ret_log, struct error *error);

/* A number that the log was given when it was made, and that no other has; 0 before the start of a
 * new one. */
uint64_t file_log_id(const struct log *base);

/* manual only: does what the threads would do once: prepares a segment if one
 * is wanted, commits a group if something is pending. True if it did anything. */
bool file_log_step(struct log *log);

/* manual only: makes durable what was noted as synced, if it is time for that. `is_busy`: there is
 * always something to write. True if that was done. */
bool file_log_settle_step(struct log *log, bool is_busy);

/* manual only: does one step of looking the sealed segments through. True if
 * that was the last one of all. */
bool file_log_verify_step(struct log *log);

/* Verifies every byte of a data folder without changing it, and reports through
 * `say` a line at a time. ERR_CORRUPT when something is wrong. */
typedef void file_log_say_fn(void *arg, const char *line);
enum err file_log_check(struct env *env, const char *folder, file_log_say_fn *say, void *arg,
                        struct error *error);

/* The same, and cuts the log before the first damage, keeping what it cuts as
 * files beside (`.cut`), and says what is lost. */
enum err file_log_repair(struct env *env, const char *folder, file_log_say_fn *say, void *arg,
                         struct error *error);

#endif
