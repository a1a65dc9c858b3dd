/* The contract of stores, asked of PostgreSQL with members in compact sets. */
/* servers: postgres */
/* threads */
#include "contract/store_lanes.h"
#include "contract/store_postgres.h"

static struct store *open_plain(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_SETS, false);
}

static struct store *open_named(struct env *env, const char *folder)
{
    return postgres_open(env, folder, POSTGRES_SETS, true);
}

int main(void)
{
    static const struct form postgres = {
        .name = "postgres with sets",
        .open = open_plain,
        .open_named = open_named,
        .refuse = postgres_refuse,
        .accept = postgres_accept,
        .holds = postgres_holds,
        .takes = postgres_takes,
        .falsify_count = POSTGRES_FALSIFY_COUNT,
        .forget_sum = POSTGRES_FORGET_SUM,
        .remove = postgres_remove,
    };
    postgres_or_skip();
    return store_suite(&postgres) + store_suite_of_lanes(&postgres);
}
