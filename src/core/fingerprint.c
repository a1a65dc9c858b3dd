#include "core/fingerprint.h"

#include "base/buffer.h"
#include "base/hash.h"

uint64_t fingerprint_of(const struct kinds *kinds, const struct op *op)
{
    /* Each seed is a hash: small seeds and short texts can make up for one another. A reaction
     * counts by its name: its number depends on the order in the configuration. */
    char what = (char)op->kind;
    uint64_t hash = hash_stable((struct slice){&what, 1});
    hash = hash_stable_seeded(kinds_name(kinds, op->reaction), hash);
    hash = hash_stable_seeded(op->user, hash);
    if (op->kind == OP_ADD || op->kind == OP_SET) {
        struct buffer digits;
        buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
        number_format(&op->amount, &digits);
        hash = hash_stable_seeded(buffer_slice(&digits), hash);
        buffer_done(&digits);
    } else if (op->kind == OP_EXPIRE) {
        hash = hash_stable_seeded(
            (struct slice){(const char *)&op->deadline_ms, sizeof(op->deadline_ms)}, hash);
    } else if (op->kind == OP_CREATE) {
        uint64_t fields[] = {op->create->shards, op->create->policy, op->create->has_floor,
                             (uint64_t)op->create->floor, op->create->idle_s};
        hash = hash_stable_seeded((struct slice){(const char *)fields, sizeof(fields)}, hash);
    }
    return hash;
}
