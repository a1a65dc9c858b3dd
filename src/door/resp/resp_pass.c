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

enum err resp_pass_check(struct resp_pass *pass, size_t count, struct error *error)
{
    for (size_t i = pass->op_count - count; i < pass->op_count; i++) {
        enum err err = service_check(pass->service, &pass->ops[i], error);
        if (err) {
            resp_pass_undo(pass, count);
            return err;
        }
    }
    return ERR_OK;
}
