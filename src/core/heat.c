#include "core/heat.h"

#include <assert.h>
#include <string.h>

static const char *const reason_texts[] = {
    [HEAT_UNCHANGED] = "not changed since it was created or loaded",
    [HEAT_CREATED] = "asked for at creation",
    [HEAT_BUSY] = "more writes than spread-rate",
    [HEAT_CONTENDED] = "its cell's lock was found taken",
    [HEAT_QUIET] = "quiet for 10 s",
    [HEAT_BY_HAND] = "asked for by hand",
};
static_assert(sizeof(reason_texts) / sizeof(reason_texts[0]) == HEAT_REASON_COUNT, "one each");
static_assert(HEAT_QUIET_WINDOWS * HEAT_WINDOW_MS == 10000, "HEAT_QUIET says 10 s");

const char *heat_reason_text(enum heat_reason reason)
{
    assert((unsigned)reason < HEAT_REASON_COUNT);

    return reason_texts[reason];
}

/* ---- how many ---- */

uint32_t heat_shards_max(unsigned workers)
{
    assert(workers > 0 && workers <= LIMIT_WORKERS);

    if (workers == 1)
        return 1;
    uint32_t shards = 4;
    while (shards < 4 * workers && shards < LIMIT_CELLS)
        shards *= 2;
    return shards;
}

/* Writes a second of each shard. */
static uint64_t shard_rate(const struct heat_window *window, uint32_t shards)
{
    return window->writes * 1000 / ((uint64_t)window->duration_ms * shards);
}

static enum heat_reason reason_to_double(const struct heat_rule *rule,
                                         const struct heat_window *window, uint64_t rate)
{
    if (rate > rule->spread_rate)
        return HEAT_BUSY;
    /* From a quarter on: half of it, after doubling, is not quiet yet. */
    if (window->taken_per_mille >= HEAT_TAKEN_PER_MILLE && 4 * rate >= rule->spread_rate)
        return HEAT_CONTENDED;
    return HEAT_UNCHANGED;
}

static uint32_t at_most(uint32_t value, uint32_t max)
{
    return value < max ? value : max;
}

static uint32_t at_least(uint32_t value, uint32_t min)
{
    return value > min ? value : min;
}

struct heat_verdict heat_judge(const struct heat_rule *rule, const struct heat_window *window,
                               uint32_t shards, uint32_t asked, uint8_t quiet_windows)
{
    assert(rule && window);
    assert(window->duration_ms > 0);
    assert(shards > 0 && shards <= LIMIT_CELLS && asked > 0 && asked <= LIMIT_CELLS);

    if (shards < asked)
        return (struct heat_verdict){asked, HEAT_CREATED, 0};
    struct heat_verdict stay = {.shards = shards, .reason = HEAT_UNCHANGED};
    if (rule->spread_rate == 0)
        return stay;

    uint64_t rate = shard_rate(window, shards);
    enum heat_reason reason = reason_to_double(rule, window, rate);
    if (reason != HEAT_UNCHANGED && shards < rule->shards_max)
        return (struct heat_verdict){at_most(2 * shards, rule->shards_max), reason, 0};

    if (8 * rate >= rule->spread_rate || shards == asked)
        return stay;
    stay.quiet_windows = (uint8_t)(quiet_windows + 1);
    if (stay.quiet_windows < HEAT_QUIET_WINDOWS)
        return stay;
    return (struct heat_verdict){at_least(shards / 2, asked), HEAT_QUIET, 0};
}

/* ---- which ---- */

void heat_clear(struct heat_sample *sample)
{
    assert(sample);

    sample->noted = 0;
    for (unsigned i = 0; i < HEAT_CANDIDATES; i++)
        sample->candidates[i].count = 0;
}

/* The candidate with this hash, or else a free place, or else NULL. */
static struct heat_candidate *find_place(struct heat_sample *sample, uint64_t hash)
{
    struct heat_candidate *place = NULL;
    for (unsigned i = 0; i < HEAT_CANDIDATES; i++) {
        struct heat_candidate *candidate = &sample->candidates[i];
        if (candidate->count == 0)
            place = candidate;
        else if (candidate->hash == hash)
            return candidate;
    }
    return place;
}

void heat_note(struct heat_sample *sample, uint64_t hash, struct slice id)
{
    assert(sample);
    assert(id.size <= LIMIT_ID_BYTES);

    sample->noted++;
    struct heat_candidate *place = find_place(sample, hash);
    if (!place) {
        for (unsigned i = 0; i < HEAT_CANDIDATES; i++)
            sample->candidates[i].count--;
        return;
    }
    if (place->count == 0) {
        place->hash = hash;
        place->id_size = (uint16_t)id.size;
        if (id.size > 0)
            memcpy(place->id, id.data, id.size);
    }
    place->count++;
}

const struct heat_candidate *heat_top(const struct heat_sample *sample)
{
    assert(sample);

    const struct heat_candidate *top = &sample->candidates[0];
    for (unsigned i = 1; i < HEAT_CANDIDATES; i++) {
        if (sample->candidates[i].count > top->count)
            top = &sample->candidates[i];
    }
    return top->count > 0 ? top : NULL;
}
