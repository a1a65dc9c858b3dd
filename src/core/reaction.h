/* reaction.h - what a user holds on an item after an op. Pure. */
#ifndef CORE_REACTION_H
#define CORE_REACTION_H

#include <stdint.h>
#include <stdlib.h>

#include "core/kinds.h"
#include "core/op.h"

/* A user holds one kind or none. `held` before, `wanted` in the op; returns
 * what is held afterwards. */
static inline uint8_t reaction_after(enum op_kind op, uint8_t held, uint8_t wanted)
{
    switch (op) {
    case OP_REACT:
        return wanted;
    case OP_WITHDRAW:
        return wanted == KIND_NONE || wanted == held ? KIND_NONE : held;
    case OP_TOGGLE:
        return held == wanted ? KIND_NONE : wanted;
    default:
        abort(); /* not a reaction op */
    }
}

#endif
