#include "sim/sim_request.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *sim_digits(sim_wide number, char to[SIM_DIGITS])
{
    char *at = to + SIM_DIGITS - 1;
    *at = '\0';
    unsigned __int128 left = number < 0 ? -(unsigned __int128)number : (unsigned __int128)number;
    do {
        *--at = (char)('0' + (int)(left % 10));
        left /= 10;
    } while (left > 0);
    if (number < 0)
        *--at = '-';
    return memmove(to, at, (size_t)(to + SIM_DIGITS - at));
}

bool request_same(const struct request *a, const struct request *b)
{
    return a->kind == b->kind && a->id == b->id && a->id_kind == b->id_kind && a->user == b->user &&
           a->reaction == b->reaction && a->amount == b->amount &&
           a->deadline_ms == b->deadline_ms && a->create.shards == b->create.shards &&
           a->create.policy == b->create.policy && a->create.has_floor == b->create.has_floor &&
           a->create.floor == b->create.floor && a->create.idle_s == b->create.idle_s;
}

static const char *kind_name(enum op_kind kind)
{
    static const char *const names[] = {
        [OP_GET] = "get",           [OP_EXISTS] = "exists",     [OP_ADD] = "add",
        [OP_SET] = "set",           [OP_DELETE] = "delete",     [OP_CREATE] = "create",
        [OP_EXPIRE] = "expire",     [OP_DEADLINE] = "deadline", [OP_DESCRIBE] = "describe",
        [OP_REACT] = "react",       [OP_WITHDRAW] = "withdraw", [OP_TOGGLE] = "toggle",
        [OP_REACTION] = "reaction", [OP_COUNTS] = "counts",     [OP_MEMBERS] = "members",
    };
    return names[kind];
}

const char *request_text(const struct request *request, char to[REQUEST_TEXT])
{
    char amount[SIM_DIGITS];
    int size = snprintf(to, REQUEST_TEXT, "%s id=%u", kind_name(request->kind), request->id);
    assert(size > 0);
    char *at = to + size;
    size_t left = REQUEST_TEXT - (size_t)size;
    if (request->id_kind)
        size = snprintf(at, left, "/%u", request->id_kind);
    else if (op_has_user(request->kind))
        size = snprintf(at, left, " user=%u reaction=%u", request->user, request->reaction);
    else if (request->kind == OP_ADD || request->kind == OP_SET)
        size = snprintf(at, left, " amount=%s", sim_digits(request->amount, amount));
    else if (request->kind == OP_CREATE)
        size = snprintf(at, left, " shards=%u floor=%s%" PRId64 " idle_s=%u",
                        request->create.shards, request->create.has_floor ? "" : "no ",
                        request->create.floor, request->create.idle_s);
    else if (request->kind == OP_EXPIRE)
        size = snprintf(at, left, " deadline=%" PRId64, request->deadline_ms);
    else
        size = 0;
    if (request->key != SIM_NO_KEY)
        snprintf(at + size, left - (size_t)size, " key=%u", request->key);
    return to;
}

const char *answer_text(const struct answer *answer, char to[REQUEST_TEXT])
{
    char value[SIM_DIGITS];
    snprintf(
        to, REQUEST_TEXT,
        "code=%d changed=%d repeated=%d held=%u value=%s counts=%" PRId64 ",%" PRId64 ",%" PRId64,
        (int)answer->code, answer->changed, answer->repeated, answer->held,
        sim_digits(answer->value, value), answer->counts[0], answer->counts[1], answer->counts[2]);
    return to;
}
