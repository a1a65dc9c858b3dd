/* short_write.c - a pwrite() that writes less than it is asked to, for LD_PRELOAD.
 *
 * Disks rarely do so, and strace can only claim it. Here every other call writes
 * the first half only, or is interrupted before it begins. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

typedef ssize_t pwrite_fn(int fd, const void *data, size_t size, off_t offset);

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    static atomic_uint calls;
    pwrite_fn *original = (pwrite_fn *)dlsym(RTLD_NEXT, "pwrite");
    unsigned call = atomic_fetch_add(&calls, 1);
    if (call % 4 == 1 && size > 1)
        return original(fd, data, size / 2, offset);
    if (call % 4 == 3) {
        errno = EINTR;
        return -1;
    }
    return original(fd, data, size, offset);
}
