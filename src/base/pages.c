#include "base/pages.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"

#define PAGE_BYTES ((size_t)2 << 20)
#define UNITS      (PAGE_BYTES / PAGES_BLOCK_MIN) /* of a page; one bit each */

_Static_assert(UNITS == 64, "a page's units are the bits of a word");

struct page {
    struct page *next;
    char *base;
    uint64_t free; /* bit i: unit i is free */
    uint64_t used; /* bit i: unit i was given out before, and may not be zero */
};

static struct lock lock; /* all zero: free */
static struct page *pages;
static _Atomic size_t out_bytes;

/* ---- the system ---- */

/* Zeros, aligned to a huge page. */
static void *map(size_t size)
{
    char *start = mmap(NULL, size + PAGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        message_error("out of memory bytes=%zu", size);
        abort();
    }
    size_t before = (PAGE_BYTES - (uintptr_t)start % PAGE_BYTES) % PAGE_BYTES;
    if (before > 0)
        munmap(start, before);
    munmap(start + before + size, PAGE_BYTES - before);
    madvise(start + before, size, MADV_HUGEPAGE); /* a wish */
    return start + before;
}

/* ---- parts of a page ---- */

static uint64_t bits_of(size_t units)
{
    return (UINT64_C(1) << units) - 1;
}

/* The first unit of a free run in the page; UNITS if there is none. Runs begin
 * at multiples of their size, so that small ones do not stand in their way. */
static unsigned find_run(const struct page *page, size_t units)
{
    for (unsigned unit = 0; unit + units <= UNITS; unit += (unsigned)units)
        if ((page->free >> unit & bits_of(units)) == bits_of(units))
            return unit;
    return UNITS;
}

static struct page *add_page(void)
{
    struct page *page = memory_take(sizeof(*page));
    *page = (struct page){.next = pages, .base = map(PAGE_BYTES), .free = UINT64_MAX};
    pages = page;
    return page;
}

static void *take_part(size_t units, bool *ret_used)
{
    struct page *page = pages;
    while (page && find_run(page, units) == UNITS)
        page = page->next;
    if (!page)
        page = add_page();
    unsigned unit = find_run(page, units);
    uint64_t bits = bits_of(units) << unit;
    *ret_used = (page->used & bits) != 0;
    page->free &= ~bits;
    page->used |= bits;
    return page->base + unit * PAGES_BLOCK_MIN;
}

static void give_part(const char *block, size_t units)
{
    struct page **link = &pages;
    while ((*link)->base > block || (*link)->base + PAGE_BYTES <= block)
        link = &(*link)->next;
    struct page *page = *link;
    page->free |= bits_of(units) << (size_t)(block - page->base) / PAGES_BLOCK_MIN;
    if (page->free != UINT64_MAX)
        return;
    *link = page->next;
    munmap(page->base, PAGE_BYTES);
    free(page);
}

/* ---- blocks ---- */

static void check_size(size_t size)
{
    assert(size > 0 && size % PAGES_BLOCK_MIN == 0);
    (void)size;
}

void *pages_take(size_t size)
{
    check_size(size);

    atomic_fetch_add(&out_bytes, size);
    if (size >= PAGE_BYTES)
        return map(size);
    lock_take(&lock);
    bool used;
    void *block = take_part(size / PAGES_BLOCK_MIN, &used);
    lock_release(&lock);
    return used ? memset(block, 0, size) : block;
}

void pages_give(void *block, size_t size)
{
    check_size(size);

    atomic_fetch_sub(&out_bytes, size);
    if (size >= PAGE_BYTES) {
        munmap(block, size);
        return;
    }
    lock_take(&lock);
    give_part(block, size / PAGES_BLOCK_MIN);
    lock_release(&lock);
}

size_t pages_bytes(void)
{
    return atomic_load(&out_bytes);
}
