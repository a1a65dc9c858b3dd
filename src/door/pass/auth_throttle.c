#include "door/pass/auth_throttle.h"

#include <string.h>

#include "base/hash.h"
#include "net/conn.h"

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

/* The /48 that an IPv6 network is in, as a number that no network has; 0 = it is an IPv4 address.
 */
static uint64_t site_of(uint64_t network)
{
    return network < CONN_NETWORK_IPV4 ? UINT64_C(0xfffe) << 48 | network >> 16 : 0;
}

/* Each guess costs its source AUTH_EVERY_MS, and its site less. How long does one wait? */
static uint64_t wait_of(const struct auth_source *source, uint64_t every_ms, uint64_t now_ms)
{
    uint64_t free_until_ms = now_ms + AUTH_FREE * AUTH_EVERY_MS;
    return source->debt_ms >= free_until_ms ? source->debt_ms - free_until_ms + every_ms : 0;
}

/* Many that were let in at once must not make a debt that nobody can wait for. */
static void charge(struct auth_source *source, uint64_t every_ms, uint64_t now_ms)
{
    uint64_t most_ms = now_ms + AUTH_FREE * AUTH_EVERY_MS + AUTH_WAIT_MS;
    uint64_t debt_ms = (source->debt_ms > now_ms ? source->debt_ms : now_ms) + every_ms;
    source->debt_ms = debt_ms < most_ms ? debt_ms : most_ms;
}

static void pay_back(struct auth_source *source, uint64_t every_ms)
{
    if (source->debt_ms >= every_ms)
        source->debt_ms -= every_ms;
}

/* A guess that may wait so long is charged. The two sources may be found in the same place, where
 * the second takes that of the first: so each is used before the next one is looked for. */
static uint64_t take_turn(struct auth_throttle *throttle, uint64_t network, uint64_t now_ms)
{
    uint64_t site = site_of(network);
    uint64_t site_wait_ms = site ? wait_of(find(throttle, site), AUTH_SITE_EVERY_MS, now_ms) : 0;
    uint64_t wait_ms = wait_of(find(throttle, network), AUTH_EVERY_MS, now_ms);
    if (site_wait_ms > wait_ms)
        wait_ms = site_wait_ms;
    if (wait_ms > AUTH_WAIT_MS)
        return AUTH_NEVER;
    charge(find(throttle, network), AUTH_EVERY_MS, now_ms);
    if (site)
        charge(find(throttle, site), AUTH_SITE_EVERY_MS, now_ms);
    return wait_ms;
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
    lock_take(&throttle->lock);
    uint64_t wait_ms = take_turn(throttle, network, now_ms);
    lock_release(&throttle->lock);
    turn->is_granted = wait_ms == 0;
    turn->at_ms = wait_ms > 0 && wait_ms != AUTH_NEVER ? now_ms + wait_ms : 0;
    return wait_ms;
}

void auth_throttle_used(struct auth_throttle *throttle, uint64_t network, bool was_right,
                        struct auth_turn *turn)
{
    if (was_right) {
        uint64_t site = site_of(network);
        lock_take(&throttle->lock);
        pay_back(find(throttle, network), AUTH_EVERY_MS);
        if (site)
            pay_back(find(throttle, site), AUTH_SITE_EVERY_MS);
        lock_release(&throttle->lock);
    }
    *turn = (struct auth_turn){.at_ms = 0};
}
