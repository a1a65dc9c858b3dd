/* The contract of stores, asked of SQLite. */
/* threads */
#include "contract/store_cases.h"
#include "contract/store_sqlite.h"

/* In the bytes of the files, that is. */
static bool holds_sqlite(const char *folder, const char *text)
{
    char command[256];
    snprintf(command, sizeof(command), "grep -rqaF -- '%s' %s", text, folder);
    int status = system(command); /* NOLINT: our own words */
    return status == 0;
}

int main(void)
{
    static const struct form sqlite = {
        .name = "sqlite",
        .open = open_sqlite,
        .refuse = refuse_sqlite,
        .accept = accept_sqlite,
        .holds = holds_sqlite,
        .takes = takes_sqlite,
        .falsify_count = "UPDATE entries SET counts='{\"like\":555,\"dislike\":1}' WHERE id='item'",
        .forget_sum = "UPDATE entries SET sum=NULL WHERE id='c'",
    };
    return store_suite(&sqlite);
}
