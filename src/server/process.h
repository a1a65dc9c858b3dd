/* process.h - the process as the operating system sees it: who may read its
 * files, what it may open, what it leaves behind, how it ends. */
#ifndef SERVER_PROCESS_H
#define SERVER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Exit codes; --help tells of them. */
enum process_exit {
    PROCESS_FINE = 0,     /* stopped as asked; the check found nothing */
    PROCESS_FAILED = 1,   /* could not start or go on; the check found damage */
    PROCESS_MISTAKEN = 2, /* the command line or the configuration makes no sense */
};

/* Files for the owner only, no new privileges, no core file unless wanted. */
void process_harden(bool core_dumps);

/* What a process consists of. */
struct process_parts {
    unsigned workers;
    unsigned listeners; /* of each worker */
    bool has_file_log;
    bool has_sqlite;
    bool has_postgres;
    bool has_redis;
    bool has_streams;
    bool has_kafka;
};

/* The file descriptors that the parts need at most, without those of clients. */
uint64_t process_own_files(const struct process_parts *parts);

/* Raises the limit of open files to `own` and one for each connection, as far as that is allowed.
 * Says for how many connections there is room beside `own`, with a warning when these are fewer.
 * ERR_TOO_LARGE: for none. */
enum err process_reserve_files(uint64_t own, uint64_t connections, uint64_t *ret_connections,
                               struct error *error);

/* The calling thread's number. */
pid_t process_thread(void);

/* A thread of ours runs when no other wants the core, or like all others again. False: the system
 * does not let us. */
bool process_give_way(pid_t thread);
bool process_take_turn(pid_t thread);

/* Cores that this process may run on; at least 1. */
unsigned process_cores(void);

#endif
