#include "door/pass/client_limits.h"

#include <assert.h>

#include "door/pass/pass.h"

void client_limits_init(struct client_limits *limits, uint64_t connections_max, uint64_t memory_max,
                        uint64_t key)
{
    *limits = (struct client_limits){.share_count = 0};
    auth_throttle_init(&limits->auth, key);
    gauge_set(&limits->connections_max, connections_max);
    gauge_set(&limits->memory_max, memory_max);
    lock_init(&limits->lock);
}

void client_limits_done(struct client_limits *limits)
{
    assert(limits->share_count == 0);

    auth_throttle_done(&limits->auth);
    lock_done(&limits->lock);
}

/* ---- connections ---- */

bool client_limits_admit(struct client_limits *limits)
{
    uint64_t before = atomic_fetch_add_explicit(&limits->connections, 1, memory_order_relaxed);
    if (before < gauge_read(&limits->connections_max))
        return true;
    client_limits_leave(limits);
    return false;
}

void client_limits_leave(void *arg)
{
    struct client_limits *limits = arg;
    uint64_t before = atomic_fetch_sub_explicit(&limits->connections, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
}

/* ---- shares ---- */

void client_share_init(struct client_share *share, struct client_limits *limits, struct pass *pass)
{
    *share = (struct client_share){.limits = limits, .pass = pass};
    lock_take(&limits->lock);
    assert(limits->share_count < CLIENT_SHARES_MAX);
    limits->shares[limits->share_count++] = share;
    lock_release(&limits->lock);
}

void client_share_done(struct client_share *share)
{
    struct client_limits *limits = share->limits;
    if (!limits)
        return; /* it never began */
    assert(gauge_read(&share->bytes) == 0);

    lock_take(&limits->lock);
    unsigned i = 0;
    while (limits->shares[i] != share)
        i++;
    limits->shares[i] = limits->shares[--limits->share_count];
    lock_release(&limits->lock);
    share->limits = NULL;
}

void client_share_add(struct client_share *share, int64_t bytes)
{
    gauge_add(&share->bytes, (uint64_t)bytes);
    atomic_fetch_add_explicit(&share->limits->memory, (uint64_t)bytes, memory_order_relaxed);
}

/* ---- the usage of a client ---- */

static unsigned class_of(size_t bytes)
{
    unsigned class = 0;
    for (; bytes > 1; bytes >>= 1)
        class ++;
    if (class < CLIENT_CLASS_LEAST)
        return 0;
    return class < CLIENT_CLASSES ? class : CLIENT_CLASSES - 1;
}

static void leave_class(struct client_share *share, struct client_usage *usage)
{
    if (usage->class == 0)
        return;
    if (usage->previous)
        usage->previous->next = usage->next;
    else
        share->classes[usage->class] = usage->next;
    if (usage->next)
        usage->next->previous = usage->previous;
    usage->next = usage->previous = NULL;
}

static void enter_class(struct client_share *share, struct client_usage *usage, unsigned class)
{
    usage->class = class;
    if (class == 0)
        return;
    usage->next = share->classes[class];
    if (usage->next)
        usage->next->previous = usage;
    share->classes[class] = usage;
}

static void find_worst(struct client_share *share, unsigned changed)
{
    unsigned worst = (unsigned)gauge_read(&share->worst);
    if (changed > worst)
        worst = changed;
    while (worst > 0 && !share->classes[worst])
        worst--;
    gauge_set(&share->worst, worst);
}

void client_usage_change(struct client_share *share, struct client_usage *usage,
                         struct client_memory now)
{
    size_t before = client_usage_bytes(usage);
    size_t bytes = now.input + now.output;
    gauge_set(&usage->input, now.input);
    gauge_set(&usage->output, now.output);
    usage->lag = now.lag;
    usage->is_stranger = now.is_stranger;
    if (bytes != before)
        client_share_add(share, (int64_t)bytes - (int64_t)before);

    size_t size = bytes + now.lag;
    unsigned class = class_of(now.is_stranger ? size * CLIENT_STRANGER_FACTOR : size);
    if (class == usage->class)
        return;
    leave_class(share, usage);
    enter_class(share, usage, class);
    find_worst(share, class);
}

/* ---- eviction ---- */

/* The worker that has worse clients than this one; NULL if none has. */
static struct pass *find_worse(const struct client_share *share)
{
    struct client_limits *limits = share->limits;
    struct pass *pass = NULL;
    uint64_t worst = gauge_read(&share->worst);
    lock_take(&limits->lock);
    for (unsigned i = 0; i < limits->share_count; i++) {
        uint64_t other = gauge_read(&limits->shares[i]->worst);
        if (other > worst) {
            worst = other;
            pass = limits->shares[i]->pass;
        }
    }
    if (pass)
        pass_finished(pass); /* wakes it */
    lock_release(&limits->lock);
    return pass;
}

void client_share_evict(struct client_share *share, client_evict_fn *evict)
{
    while (client_limits_is_over(share->limits)) {
        unsigned worst = (unsigned)gauge_read(&share->worst);
        if (find_worse(share) || worst == 0)
            return;
        struct client_usage *usage = share->classes[worst];
        gauge_add(&share->evicted, 1);
        evict(usage->client);
        assert(usage->class == 0);
    }
}
