#include "base/near.h"

#include <assert.h>

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned distance(struct slice a, struct slice b)
{
    unsigned cost[NEAR_BYTES_MAX + 1][NEAR_BYTES_MAX + 1];

    for (unsigned i = 0; i <= a.size; i++) {
        for (unsigned j = 0; j <= b.size; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            unsigned changed = cost[i - 1][j - 1] + (a.data[i - 1] != b.data[j - 1]);
            unsigned moved = smaller(cost[i - 1][j], cost[i][j - 1]) + 1;
            cost[i][j] = smaller(changed, moved);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1])
                cost[i][j] = smaller(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a.size][b.size];
}

void near_offer(struct near *near, const char *name)
{
    assert(near && name);

    struct slice offered = slice_of(name);
    if (near->given.size > NEAR_BYTES_MAX || offered.size > NEAR_BYTES_MAX)
        return;
    unsigned far = distance(near->given, offered);
    if (far >= near->limit || far >= offered.size)
        return; /* not a letter of "at" need be right to be two letters away */
    near->limit = far;
    near->name = name;
}
