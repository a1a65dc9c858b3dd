/* cluster.h - which server has a cell now.
 *
 * The servers are those of the URL and whatever a cluster names. The map from cells to primaries is
 * asked for at the start, after a redirection, and when a connection was lost or made; not more
 * than a few times a second. A single server has all cells; of several that are no cluster, the
 * primary. */
#ifndef HOT_REDIS_CLUSTER_H
#define HOT_REDIS_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "hot/redis/link.h"

struct layer;
struct cluster;

/* Reads redis://... (net/redis_url.h); the prefix goes to layer->prefix. */
struct cluster *cluster_new(struct layer *layer, struct error *error);

/* Replies that are still expected are lost. */
void cluster_free(struct cluster *cluster);

/* Closes all connections and makes no new ones: the layer is being closed. */
void cluster_shut(struct cluster *cluster);

/* Has every cell a server that is ready? If not, `error` says why; ERR_INVALID or ERR_DENIED when
 * waiting will not help. */
enum err cluster_state(const struct cluster *cluster, struct error *error);

/* The same as it was a moment ago; any thread. */
enum err cluster_status(struct cluster *cluster, struct error *error);

/* The cell's server, if it is ready; else NULL. */
struct link *cluster_link(struct cluster *cluster, unsigned cell);

/* For how long the cell has had no server that answers; 0 while it has. */
uint64_t cluster_down_ns(const struct cluster *cluster, unsigned cell);

/* For so long that nobody waits for it. */
bool cluster_is_down(const struct cluster *cluster, unsigned cell);

/* Since when the cell has this server, and the connection to it: before that it may have been
 * another process, with other data. Any thread. */
uint64_t cluster_changed_ns(struct cluster *cluster, unsigned cell);

/* The server at "host:port" said by `by` (an empty host is its own), which may be new to us. NULL
 * while it is not ready. */
struct link *cluster_link_at(struct cluster *cluster, const struct link *by, struct slice address);

/* A server said that the cell is at this address now. */
void cluster_moved(struct cluster *cluster, unsigned cell, const struct link *by,
                   struct slice address);

/* The map may be wrong: asks for it soon. */
void cluster_doubt(struct cluster *cluster);

/* Sends what was put into the links. */
void cluster_flush(struct cluster *cluster);

#endif
