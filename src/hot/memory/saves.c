#include "hot/memory/saves.h"

#include <assert.h>
#include <string.h>

static uint8_t behind(uint8_t generation)
{
    return (uint8_t)(generation % SAVES_GENERATIONS + 1);
}

void saves_init(struct saves *saves, const uint64_t sequences[LIMIT_CELLS])
{
    assert(saves && sequences);

    *saves = (struct saves){.oldest = 1, .now = 1};
    memcpy(saves->noted, sequences, sizeof(saves->noted));
}

bool saves_close(struct saves *saves, const uint64_t sequences[LIMIT_CELLS])
{
    assert(saves && sequences);

    bool is_full = behind(saves->now) == saves->oldest;
    if (is_full || memcmp(saves->noted, sequences, sizeof(saves->noted)) == 0)
        return false;
    memcpy(saves->ends[saves->now], sequences, sizeof(saves->noted));
    memcpy(saves->noted, sequences, sizeof(saves->noted));
    saves->now = behind(saves->now);
    return true;
}

static bool is_reached(const uint64_t ends[LIMIT_CELLS], const uint64_t sequences[LIMIT_CELLS])
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (ends[i] > sequences[i])
            return false;
    return true;
}

void saves_reach(struct saves *saves, const uint64_t sequences[LIMIT_CELLS])
{
    assert(saves && sequences);

    while (saves->oldest != saves->now && is_reached(saves->ends[saves->oldest], sequences))
        saves->oldest = behind(saves->oldest);
}
