#include "door/resp/resp_pass.h"

#include <stdlib.h>

#include "base/memory.h"

void resp_pass_init(struct resp_pass *pass, struct service *service, unsigned worker)
{
    *pass = (struct resp_pass){
        .service = service,
        .ops = memory_take_zeroed(LIMIT_BATCH * sizeof(*pass->ops)),
        .op_limit = LIMIT_BATCH,
        .requests = memory_take_zeroed(LIMIT_BATCH * sizeof(*pass->requests)),
        .batch.worker = worker,
    };
    resp_room_init(&pass->room);
}

void resp_pass_done(struct resp_pass *pass)
{
    resp_room_done(&pass->room);
    free(pass->ops);
    free(pass->requests);
}

void resp_pass_undo(struct resp_pass *pass, size_t count)
{
    while (count-- > 0)
        number_done(&pass->ops[--pass->op_count].amount);
}

bool resp_pass_check(const struct resp_pass *pass, size_t count, struct error *error)
{
    for (const struct op *op = pass->ops + pass->op_count - count; count > 0; op++, count--) {
        if (service_check(pass->service, op, error) != ERR_OK)
            return false;
    }
    return true;
}
