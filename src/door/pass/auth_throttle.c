#include "door/pass/auth_throttle.h"

#include <string.h>

#include "base/hash.h"

#define WAYS 4u

void auth_throttle_init(struct auth_throttle *throttle, uint64_t key)
{
    memset(throttle->sources, 0, sizeof(throttle->sources));
    throttle->key = key;
    lock_init(&throttle->lock);
}

void auth_throttle_done(struct auth_throttle *throttle)
{
    lock_done(&throttle->lock);
}

/* The source's place, or that of the one in its set that is the least to blame. */
static struct auth_source *find(struct auth_throttle *throttle, uint64_t network)
{
    struct slice bytes = {(const char *)&network, sizeof(network)};
    uint64_t set = hash_keyed(bytes, throttle->key) % (AUTH_SOURCES / WAYS);
    struct auth_source *sources = &throttle->sources[set * WAYS];
    struct auth_source *least = sources;
    for (unsigned i = 0; i < WAYS; i++) {
        if (sources[i].network == network)
            return &sources[i];
        if (sources[i].debt_ms < least->debt_ms)
            least = &sources[i];
    }
    *least = (struct auth_source){.network = network};
    return least;
}

/* Many that were let in at once must not make a debt that nobody can wait for. */
static void charge(struct auth_source *source, uint64_t now_ms)
{
    uint64_t most_ms = now_ms + AUTH_FREE * AUTH_EVERY_MS + AUTH_WAIT_MS;
    uint64_t debt_ms = (source->debt_ms > now_ms ? source->debt_ms : now_ms) + AUTH_EVERY_MS;
    source->debt_ms = debt_ms < most_ms ? debt_ms : most_ms;
}

uint64_t auth_throttle_wait(struct auth_throttle *throttle, uint64_t network, uint64_t now_ms,
                            struct auth_turn *turn)
{
    if (turn->is_granted)
        return 0;
    if (turn->at_ms > now_ms)
        return turn->at_ms - now_ms;
    if (turn->at_ms > 0) {
        turn->at_ms = 0;
        turn->is_granted = true;
        return 0;
    }
    uint64_t wait_ms = 0;
    lock_take(&throttle->lock);
    struct auth_source *source = find(throttle, network);
    uint64_t free_until_ms = now_ms + AUTH_FREE * AUTH_EVERY_MS;
    if (source->debt_ms >= free_until_ms)
        wait_ms = source->debt_ms - free_until_ms + AUTH_EVERY_MS;
    if (wait_ms > AUTH_WAIT_MS)
        wait_ms = AUTH_NEVER;
    else
        charge(source, now_ms);
    lock_release(&throttle->lock);
    turn->is_granted = wait_ms == 0;
    turn->at_ms = wait_ms > 0 && wait_ms != AUTH_NEVER ? now_ms + wait_ms : 0;
    return wait_ms;
}

void auth_throttle_used(struct auth_throttle *throttle, uint64_t network, bool was_right,
                        struct auth_turn *turn)
{
    if (was_right) {
        lock_take(&throttle->lock);
        struct auth_source *source = find(throttle, network);
        if (source->debt_ms >= AUTH_EVERY_MS)
            source->debt_ms -= AUTH_EVERY_MS;
        lock_release(&throttle->lock);
    }
    *turn = (struct auth_turn){.at_ms = 0};
}
