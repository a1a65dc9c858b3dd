#include "hot/redis/script.h"

#include <assert.h>

#include "hot/redis/script_table.h"

#define X(constant, file) +1
static_assert(SCRIPT_COUNT == 0 SCRIPT_LIST(X), "all of them are counted");
#undef X

struct slice script_source(enum script script)
{
    assert(script < SCRIPT_COUNT);
    return script_table[script].source;
}

const char *script_sha(enum script script)
{
    assert(script < SCRIPT_COUNT);
    return script_table[script].sha;
}
