#include "flow/pace.h"

#define REST_SHARE  3u                 /* three parts of rest for one of work */
#define PAUSE_LEAST (50u * 1000000ull) /* what is small enough to be done at once */

struct pace pace_next(uint64_t wall_ns, uint64_t cpu_ns, uint64_t every_ns, uint64_t ids,
                      uint64_t ids_max)
{
    struct pace set = {.pause_ns = every_ns, .ids = ids};
    if (cpu_ns < wall_ns - wall_ns / 4)
        return set;
    uint64_t rest_ns = wall_ns < UINT64_MAX / REST_SHARE ? wall_ns * REST_SHARE : UINT64_MAX;
    if (rest_ns < PAUSE_LEAST)
        rest_ns = PAUSE_LEAST;
    return (struct pace){.pause_ns = rest_ns < every_ns ? rest_ns : every_ns,
                         .ids = ids_max > ids ? ids_max : ids};
}
