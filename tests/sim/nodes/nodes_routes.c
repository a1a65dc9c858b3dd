#include "sim/nodes/nodes_routes.h"

#include <string.h>

#define STRANGE_TIMES 3u

void routes_forget_node(struct routes *routes, unsigned node)
{
    memset(routes->of[node], 0, sizeof(routes->of[node]));
}

unsigned routes_cell(const struct routes *routes, unsigned node, unsigned thing, unsigned slice,
                     enum place_known *ret_known)
{
    const struct route *route = &routes->of[node][thing];
    unsigned home = home_of(thing);
    *ret_known = KNOWN_NOT_SPREAD;
    if (!route->has_map)
        return home;
    unsigned cell = route->map.owner[slice];
    *ret_known = cell == home ? KNOWN_HOME : KNOWN_PIECE;
    return cell;
}

void routes_refresh(struct routes *routes, unsigned node, unsigned thing)
{
    struct route *route = &routes->of[node][thing];
    struct place place = redis_place(routes->model, node, home_of(thing));
    if (place.down)
        return;
    if (!redis_is_open(routes->model, place)) {
        redis_note_closed(routes->model, node, home_of(thing));
        return;
    }
    const struct record *record = &place.data->records[thing];
    route->has_map = record->has_map;
    route->map = record->map;
}

static bool note_strange(struct route *route)
{
    if (route->strange_version != route->map.version)
        route->strange = 0;
    route->strange_version = route->map.version;
    return ++route->strange % STRANGE_TIMES == 0;
}

bool routes_met_moved(struct routes *routes, unsigned node, unsigned thing, unsigned slice,
                      unsigned cell)
{
    struct route *route = &routes->of[node][thing];
    uint64_t before = route->has_map ? route->map.version : 0;
    routes_refresh(routes, node, thing);
    bool knew = route->has_map && route->map.version == before && route->map.owner[slice] == cell;
    return knew && route->map.change == MAP_STEADY && note_strange(route);
}

bool routes_look(struct routes *routes, unsigned node, unsigned thing)
{
    struct route *route = &routes->of[node][thing];
    routes_refresh(routes, node, thing);
    if (!route->has_map || route->map.change != MAP_STEADY)
        return false;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        struct place place = redis_place(routes->model, node, cell);
        if (!(route->map.cells & map_bit(cell)) || place.down)
            continue;
        if (!redis_is_open(routes->model, place)) {
            redis_note_closed(routes->model, node, cell);
            continue;
        }
        const struct record *record = &place.data->records[thing];
        bool is_reserved = record->rv > 0 && !record->is_piece;
        if (record->type == 0 || is_reserved)
            return note_strange(route);
    }
    return false;
}
