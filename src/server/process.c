#include "server/process.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"

#define GIVE_WAY_NICE 5

#define OWN_FILES 256u /* log segments, loops of 64 workers, listeners, standard streams */

void process_harden(bool core_dumps)
{
    (void)umask(077);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        message_warning("cannot give up new privileges");
    if (!core_dumps && setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) != 0)
        message_warning("cannot switch core files off");
}

static bool set_files(rlim_t soft, rlim_t hard)
{
    return setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = soft, .rlim_max = hard}) == 0;
}

uint64_t process_reserve_files(uint64_t connections)
{
    struct rlimit limit;
    rlim_t wanted = connections + OWN_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return connections;
    if (limit.rlim_max >= wanted ? set_files(wanted, limit.rlim_max) : set_files(wanted, wanted))
        return connections;

    if (set_files(limit.rlim_max, limit.rlim_max))
        limit.rlim_cur = limit.rlim_max;
    uint64_t room = limit.rlim_cur > OWN_FILES ? limit.rlim_cur - OWN_FILES : 1;
    message_warning("fewer connections than configured: raise the limit of open files (ulimit -n, "
                    "LimitNOFILE=) to %llu connections=%llu configured=%llu",
                    (unsigned long long)wanted, (unsigned long long)room,
                    (unsigned long long)connections);
    return room;
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
