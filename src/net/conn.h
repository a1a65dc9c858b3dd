/* conn.h - one connection: a socket that tells when it is ready.
 *
 * The owner reads and writes when it likes, and says what it wants to be told;
 * there are no buffers and no queues in here. The life of a connection:
 *
 *  1. conn_new() takes the descriptor; nothing is told until conn_want().
 *  2. A connection belongs to its loop's thread.
 *  3. `ready` comes while something that is wanted is possible, again in each
 *     pass until it is done or no longer wanted. A broken connection is ready
 *     for everything: the next read or write says so.
 *  4. conn_read() and conn_write() never wait.
 *  5. conn_close() may be called at any time, also from `ready`. The descriptor
 *     is closed before it returns, nothing is told any more, and the struct is
 *     gone for its owner. */
#ifndef NET_CONN_H
#define NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/slice.h"
#include "net/loop.h"

struct conn;

enum { CONN_READ = 1, CONN_WRITE = 2 };

/* `what` is CONN_READ, CONN_WRITE or both. */
typedef void conn_ready_fn(void *arg, int what);

/* What conn_read() and conn_write() return instead of a size. */
#define CONN_LATER  (-1) /* nothing can be done now */
#define CONN_BROKEN (-2) /* nothing can be done any more */

/* NULL with an error; the descriptor is closed then. Small writes are sent at
 * once (TCP_NODELAY), dead peers are noticed in minutes (keepalive). */
struct conn *conn_new(struct loop *loop, int descriptor, conn_ready_fn *ready, void *arg,
                      struct error *error);
void conn_close(struct conn *conn);

/* A lingering close: tells the other side that nothing follows, and reads and discards what it
 * still sends, until it closes, too. A close with bytes unread, or before the other side has sent
 * its last ones, would reset the connection, and its system would drop our last answers. The
 * connection is gone for its owner, who is not told of it any more; it is closed by force when the
 * other side is silent for CONN_LINGER_SILENT_MS, or after CONN_LINGER_MS. Until then it has its
 * descriptor: `closed` (may be NULL) is called when that is closed, maybe before this returns. */
#define CONN_LINGER_SILENT_MS 5000u
#define CONN_LINGER_MS        30000u
typedef void conn_closed_fn(void *arg);
void conn_finish(struct conn *conn, conn_closed_fn *closed, void *arg);

/* Closes all connections of a loop that linger; before loop_free(), and before what `closed` is
 * called with is gone. */
void conn_close_lingering(struct loop *loop);

/* What the owner wants to be told of: a sum of CONN_READ and CONN_WRITE, or 0. */
void conn_want(struct conn *conn, int what);

/* Bytes read, 0 at the end, CONN_LATER or CONN_BROKEN. */
ssize_t conn_read(struct conn *conn, char *to, size_t size);

/* Bytes written, perhaps fewer than asked, CONN_LATER or CONN_BROKEN. */
ssize_t conn_write(struct conn *conn, struct slice bytes);

/* Bytes that were written and that the other side has not acknowledged yet. It goes down as long as
 * somebody reads there. */
size_t conn_in_flight(const struct conn *conn);

/* The network of the other side: its IPv4 address, or the first 64 bits of its IPv6 address, which
 * is the least that a network is given. The two differ: IPv4 addresses are from CONN_NETWORK_IPV4
 * on, where IPv6 has only multicast groups. An IPv4 address that is written as an IPv6 one
 * (::ffff:192.0.2.1) is the IPv4 address. */
#define CONN_NETWORK_IPV4 UINT64_C(0xffffffff00000000)
uint64_t conn_network(const struct conn *conn);
struct sockaddr;
uint64_t conn_network_of(const struct sockaddr *address);

/* "127.0.0.1:54321", of the other side or of ours; always closed by a zero. */
#define CONN_ADDRESS_SIZE 64u
void conn_peer(const struct conn *conn, char to[CONN_ADDRESS_SIZE]);
void conn_local(const struct conn *conn, char to[CONN_ADDRESS_SIZE]);

#endif
