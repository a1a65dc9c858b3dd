#include "server/figures.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/memory.h"
#include "base/pages.h"

static uint64_t time_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

static uint64_t cpu_ns(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
}

static uint64_t open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    uint64_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder))) /* NOLINT(concurrency-mt-unsafe): a folder of our own */
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* without the one that looks */
}

static uint64_t open_files_max(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (uint64_t)limit.rlim_cur : 0;
}

void figures_brief(void *folder, struct metrics_process *ret_process)
{
    *ret_process = (struct metrics_process){.resident_bytes = memory_resident_bytes()};
    struct statvfs space;
    if (folder && statvfs(folder, &space) == 0) {
        ret_process->disk_free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
        ret_process->disk_bytes = (uint64_t)space.f_blocks * space.f_frsize;
    }
}

void figures_process(void *folder, struct metrics_process *ret_process)
{
    struct mallinfo2 heap = mallinfo2();
    figures_brief(folder, ret_process);
    ret_process->heap_bytes = heap.uordblks + heap.hblkhd + pages_bytes();
    ret_process->cpu_ns = cpu_ns();
    ret_process->open_files = open_files();
    ret_process->open_files_max = open_files_max();
}
