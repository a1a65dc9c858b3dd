/* nodes_routes.h - what each node remembers of maps, and where it sends its ops by that.
 *
 * As hot/redis/spread_route.c: a map is read when a cell says that an op does not belong there, and
 * then remembered, however old it grows; sometimes it is forgotten. */
#ifndef NODES_ROUTES_H
#define NODES_ROUTES_H

#include "sim/nodes/nodes_redis.h"

struct route {
    bool has_map;
    struct map map;
    unsigned strange; /* so often an owner has said that it is none, or a piece was missing */
    uint64_t strange_version;
};

struct routes {
    struct redis_model *model; /* borrowed */
    struct route of[NODES][THINGS];
};

void routes_forget_node(struct routes *routes, unsigned node);

/* The cell for an op on the slice; of a counter, a turn. */
unsigned routes_cell(const struct routes *routes, unsigned node, unsigned thing, unsigned slice,
                     enum place_known *ret_known);

/* Reads the map from home, if that answers. */
void routes_refresh(struct routes *routes, unsigned node, unsigned thing);

/* A cell has said that the op does not belong there. True: again and again, though the map says so:
 * a piece was lost. */
bool routes_met_moved(struct routes *routes, unsigned node, unsigned thing, unsigned slice,
                      unsigned cell);

/* Reads home and all pieces. True: one is missing, again and again. */
bool routes_look(struct routes *routes, unsigned node, unsigned thing);

#endif
