/* reply.h - counts the replies in a stream of RESP2 bytes.
 *
 * A load generator need not know what a reply says, only where it ends and
 * whether it is an error. So nothing is built: bulk strings are skipped, and an
 * array, however deep, is a number of values that are still to come.
 *
 *   *2\r\n  *1\r\n  :7\r\n  $2\r\nok\r\n
 *   open 2  open 2  open 1  open 0: one reply
 *
 * A scanner belongs to one connection. */
#ifndef BENCH_REPLY_H
#define BENCH_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What went wrong, over all connections of a run. */
struct reply_errors {
    uint64_t count;
    char first[160]; /* the text of the first one, without its '-' */
};

struct reply_scanner {
    struct reply_errors *errors; /* borrowed */
    uint64_t replies;            /* complete ones, since the caller last set it to 0 */
    uint64_t open;               /* values that the current reply still lacks */
    size_t skip;                 /* bytes of a bulk string, with its line end, still to come */
    bool broken;                 /* the stream is not RESP2; nothing more is scanned */
};

/* Scans `data` and returns how many bytes are done with. The rest is the
 * beginning of a line: pass it again, in front of what comes after it. */
size_t reply_scan(struct reply_scanner *scanner, const char *data, size_t size);

#endif
