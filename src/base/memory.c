#include "base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"

static void *checked(void *block, size_t size)
{
    if (!block) {
        message_error("out of memory bytes=%zu", size);
        abort();
    }
    return block;
}

void *memory_take(size_t size)
{
    assert(size > 0);

    return checked(malloc(size), size);
}

void *memory_take_zeroed(size_t size)
{
    assert(size > 0);

    return checked(calloc(1, size), size);
}

void *memory_resize(void *block, size_t size)
{
    assert(size > 0);

    return checked(realloc(block, size), size);
}

void *memory_take_aligned(size_t size)
{
    assert(size > 0);

    size_t whole = (size + 63) / 64 * 64;
    void *block = checked(aligned_alloc(64, whole), whole);
    memset(block, 0, whole);
    return block;
}

uint64_t memory_resident_bytes(void)
{
    unsigned long long all = 0;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &all, &resident) != 2) /* NOLINT(cert-err34-c) */
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
