#include "server/process.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"

#define GIVE_WAY_NICE 5

void process_harden(bool core_dumps)
{
    (void)umask(077);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        message_warning("cannot give up new privileges");
    if (!core_dumps && setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) != 0)
        message_warning("cannot switch core files off");
}

/* How many descriptors each part opens at most. */
enum {
    FILES_OF_PROCESS = 12,  /* standard streams, signals, /proc, small files, names of hosts */
    FILES_OF_WORKER = 5,    /* its loop */
    FILES_OF_LISTENER = 3,  /* of a worker: the port, a spare one, a waker */
    FILES_OF_FILE_LOG = 12, /* segments: written, prepared, followed, read once more, cleaned */
    FILES_OF_SQLITE = 20,   /* seven connections, each a file and a journal; index, sorting */
    FILES_OF_POSTGRES = 16, /* connections */
    FILES_OF_REDIS = 264,   /* a connection to each of 256 servers */
    FILES_OF_STREAMS = 272, /* the same, and some to read */
    FILES_OF_KAFKA = 320,   /* three clients, each with three for each of 32 brokers */
};

uint64_t process_own_files(const struct process_parts *parts)
{
    uint64_t files = FILES_OF_PROCESS;
    files += (uint64_t)parts->workers * (FILES_OF_WORKER + parts->listeners * FILES_OF_LISTENER);
    files += parts->has_file_log ? FILES_OF_FILE_LOG : 0;
    files += parts->has_sqlite ? FILES_OF_SQLITE : 0;
    files += parts->has_postgres ? FILES_OF_POSTGRES : 0;
    files += parts->has_redis ? FILES_OF_REDIS : 0;
    files += parts->has_streams ? FILES_OF_STREAMS : 0;
    files += parts->has_kafka ? FILES_OF_KAFKA : 0;
    return files;
}

static bool set_files(rlim_t soft, rlim_t hard)
{
    return setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = soft, .rlim_max = hard}) == 0;
}

/* As many files as may be opened, `wanted` if possible. */
static uint64_t raise_files(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return wanted;
    if (limit.rlim_max >= wanted ? set_files(wanted, limit.rlim_max) : set_files(wanted, wanted))
        return wanted;
    return set_files(limit.rlim_max, limit.rlim_max) ? limit.rlim_max : limit.rlim_cur;
}

enum err process_reserve_files(uint64_t own, uint64_t connections, uint64_t *ret_connections,
                               struct error *error)
{
    uint64_t wanted = own + connections;
    uint64_t files = raise_files(wanted);
    if (files <= own)
        return error_set(error, ERR_TOO_LARGE,
                         "the limit of open files is %llu, and log, store, engines and threads "
                         "need %llu: raise it (ulimit -n, LimitNOFILE=) to %llu for %llu clients",
                         (unsigned long long)files, (unsigned long long)own,
                         (unsigned long long)wanted, (unsigned long long)connections);
    *ret_connections = connections;
    if (files >= wanted)
        return ERR_OK;
    *ret_connections = files - own;
    message_warning("fewer connections than configured: raise the limit of open files (ulimit -n, "
                    "LimitNOFILE=) to %llu connections=%llu configured=%llu reserved=%llu",
                    (unsigned long long)wanted, (unsigned long long)*ret_connections,
                    (unsigned long long)connections, (unsigned long long)own);
    return ERR_OK;
}

pid_t process_thread(void)
{
    return gettid();
}

bool process_give_way(pid_t thread)
{
    struct sched_param none = {0};
    return sched_setscheduler(thread, SCHED_IDLE, &none) == 0 ||
           setpriority(PRIO_PROCESS, (id_t)thread, GIVE_WAY_NICE) == 0;
}

bool process_take_turn(pid_t thread)
{
    struct sched_param none = {0};
    return sched_setscheduler(thread, SCHED_OTHER, &none) == 0;
}

unsigned process_cores(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return cores > 0 ? (unsigned)cores : 1;
}
