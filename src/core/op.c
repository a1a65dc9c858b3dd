#include "core/op.h"

#include <assert.h>

static const char *const policy_names[] = {
    [POLICY_LOCAL] = "local",
    [POLICY_RANDOM] = "random",
    [POLICY_ROUND_ROBIN] = "round-robin",
    [POLICY_LEAST_LOADED] = "least-loaded",
};
static_assert(sizeof(policy_names) / sizeof(policy_names[0]) == POLICY_COUNT, "one name each");

const char *policy_name(enum policy policy)
{
    assert((unsigned)policy < POLICY_COUNT);

    return policy_names[policy];
}

bool policy_parse(struct slice name, enum policy *ret_policy)
{
    assert(ret_policy);

    for (unsigned i = 0; i < POLICY_COUNT; i++) {
        if (slice_equal_nocase(name, slice_of(policy_names[i]))) {
            *ret_policy = (enum policy)i;
            return true;
        }
    }
    return false;
}
