#include "flow/pace.h"

#include <assert.h>
#include <stdbool.h>

#define REST_SHARE  3u                 /* three parts of rest for one of work */
#define REST_MOST   (1u << 20)         /* what was set is shorter by far */
#define SLOW        2u                 /* times the best of late */
#define PAUSE_LEAST (50u * 1000000ull) /* what is small enough to be done at once */

static uint64_t pause_of(uint64_t wall_ns, uint64_t rest, uint64_t every_ns)
{
    uint64_t rest_ns = wall_ns < UINT64_MAX / rest ? wall_ns * rest : UINT64_MAX;
    if (rest_ns < PAUSE_LEAST)
        rest_ns = PAUSE_LEAST;
    return rest_ns < every_ns ? rest_ns : every_ns;
}

struct pace pace_next(uint64_t wall_ns, uint64_t cpu_ns, uint64_t done, uint64_t every_ns,
                      uint64_t ids, uint64_t ids_max)
{
    struct pace set = {.pause_ns = every_ns, .ids = ids};
    if (done == 0 || cpu_ns < wall_ns - wall_ns / 4)
        return set;
    return (struct pace){.pause_ns = pause_of(wall_ns, REST_SHARE, every_ns),
                         .ids = ids_max > ids ? ids_max : ids};
}

/* Compared with those before it; then it is one of them. */
static bool is_slow(struct pace_outside *outside, uint64_t took_ns)
{
    uint64_t best_ns = UINT64_MAX;
    for (unsigned i = 0; i < PACE_PIECES; i++)
        if (outside->took_ns[i] != 0 && outside->took_ns[i] < best_ns)
            best_ns = outside->took_ns[i];
    outside->took_ns[outside->next++ % PACE_PIECES] = took_ns > 0 ? took_ns : 1;
    return best_ns < UINT64_MAX / SLOW && took_ns > best_ns * SLOW;
}

struct pace pace_next_outside(struct pace_outside *outside, uint64_t wall_ns, uint64_t done,
                              uint64_t every_ns, uint64_t ids, uint64_t ids_max)
{
    assert(outside);

    uint64_t rest = outside->rest < REST_SHARE ? REST_SHARE : outside->rest;
    if (done == 0)
        return (struct pace){.pause_ns = every_ns, .ids = ids};
    bool slow = is_slow(outside, wall_ns / done);
    if (slow)
        rest = rest < REST_MOST ? rest * 2 : REST_MOST;
    else
        rest = rest / 2 > REST_SHARE ? rest / 2 : REST_SHARE;
    outside->rest = rest;
    return (struct pace){.pause_ns = pause_of(wall_ns, rest, every_ns),
                         .ids = !slow && ids_max > ids ? ids_max : ids};
}
