/* op.h - one thing that a client wants done, and its answer.
 *
 * A door fills in the upper part, hands a batch of ops to flow/service.h, and
 * finds the answers in the lower part. The slices point into memory of the
 * door and stay put until the batch is done. */
#ifndef CORE_OP_H
#define CORE_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/number.h"
#include "base/slice.h"
#include "core/limits.h"

/* The log holds these numbers, in the fingerprints of writes with a key: new ones
 * go to the end. */
enum op_kind {
    /* counters */
    OP_GET,      /* value; ERR_NOT_FOUND */
    OP_EXISTS,   /* changed = is there */
    OP_ADD,      /* value += amount */
    OP_SET,      /* value = amount, as an event that carries the difference */
    OP_DELETE,   /* changed = was there */
    OP_CREATE,   /* with `create`; ERR_EXISTS */
    OP_EXPIRE,   /* deadline_ms, 0 = never; changed = is there */
    OP_DEADLINE, /* deadline_ms of the answer; ERR_NOT_FOUND */
    OP_DESCRIBE, /* fills `describe`; ERR_NOT_FOUND */
    /* reactions: id is the item */
    OP_REACT,    /* hold `reaction` */
    OP_WITHDRAW, /* hold nothing, if `reaction` is what is held (KIND_NONE: whatever is held) */
    OP_TOGGLE,   /* withdraw `reaction` if held, else hold it */
    OP_REACTION, /* reaction = what the user holds */
    OP_COUNTS,   /* counts; all zero for an unknown item */
    OP_MEMBERS,  /* users who hold `reaction`, a page of them, through `page` */
};

static inline bool op_is_write(enum op_kind kind)
{
    return kind == OP_ADD || kind == OP_SET || kind == OP_DELETE || kind == OP_CREATE ||
           kind == OP_EXPIRE || kind == OP_REACT || kind == OP_WITHDRAW || kind == OP_TOGGLE;
}

static inline bool op_has_user(enum op_kind kind)
{
    return kind == OP_REACT || kind == OP_WITHDRAW || kind == OP_TOGGLE || kind == OP_REACTION;
}

/* Is its id that of a counter? */
static inline bool op_has_counter(enum op_kind kind)
{
    return kind <= OP_DESCRIBE;
}

/* "item/kind" counters follow their members: only reading them, and saying how
 * many shards they shall have, makes sense. */
static inline bool op_may_name_reaction(enum op_kind kind)
{
    return kind == OP_GET || kind == OP_EXISTS || kind == OP_CREATE || kind == OP_DEADLINE ||
           kind == OP_DESCRIBE;
}

/* How the writes of a counter without users choose a shard. */
enum policy { POLICY_LOCAL, POLICY_RANDOM, POLICY_ROUND_ROBIN, POLICY_LEAST_LOADED };
#define POLICY_COUNT 4u

/* The policy's name in commands and answers: "local", "random", "round-robin",
 * "least-loaded". */
const char *policy_name(enum policy policy);
bool policy_parse(struct slice name, enum policy *ret_policy);

struct op_create {
    uint32_t shards; /* 1 to LIMIT_CELLS */
    enum policy policy;
    bool has_floor;
    int64_t floor;
    uint32_t idle_s; /* expires when not written for so long; 0 = never */
};

/* What OP_DESCRIBE tells. */
struct op_describe {
    bool is_item;
    uint32_t shards;       /* now */
    uint32_t shards_asked; /* by OP_CREATE; 1 otherwise */
    enum policy policy;
    bool has_floor;
    int64_t floor;
    uint32_t idle_s;
    int64_t deadline_ms; /* 0 = none */
    uint32_t incarnation;
    uint32_t home;        /* cell */
    int64_t written_ms;   /* last write, to the second; 0 = not known */
    const char *reason;   /* why the shards last changed; a constant text */
    int64_t changed_ms;   /* and when; 0 = never */
    uint32_t total_count; /* of `totals`: one for each shard, if the op is `exact`; 0 = not known:
                           * beyond 64 bits, or not all of it is here */
    int64_t totals[LIMIT_CELLS]; /* what each holds: of an item members, of "item/kind" those of
                                  * the kind */
};

typedef void op_member_fn(void *arg, struct slice user);

struct op_page {
    uint64_t cursor;     /* in: 0 or the last answer's; out: 0 = that was all */
    uint32_t limit;      /* about so many */
    op_member_fn *visit; /* called for each member, with a lock held: copy and return */
    void *arg;
};

struct op {
    /* the question */
    enum op_kind kind;
    uint8_t reaction; /* a kind's number */
    bool silent;      /* the caller will not look at value: it need not be filled in */
    bool exact;       /* a read: ask all shards, whatever is known of them, and ERR_UNAVAILABLE if
                       * one cannot be asked; DESCRIBE: say what each of them holds, if known */
    bool must_log;    /* refuse this write while the log does not answer: ERR_UNAVAILABLE */
    struct slice id;
    struct slice user;
    struct slice key;     /* idempotency key; data NULL = none, never of size 0 otherwise */
    struct slice region;  /* size 0 = none */
    struct number amount; /* ADD, SET; owned by the door */
    int64_t deadline_ms;  /* EXPIRE; answer of DEADLINE */
    union {
        struct op_create *create;
        struct op_describe *describe;
        struct op_page *page;
    };
    int64_t *counts; /* borrowed, NULL or `kinds.count` of them, [0] being kind 1 */

    /* the answer */
    enum err code;
    bool changed;           /* did this write change anything */
    bool repeated;          /* the first answer of this idempotency key, once more */
    uint8_t held;           /* reaction held afterwards (REACT, WITHDRAW, TOGGLE, REACTION) */
    struct number value;    /* of the counter afterwards, or read; owned by whoever owns the op */
    uint64_t ticket;        /* the answer may leave when the log has reached this; 0 = at once */
    bool weak;              /* a write that is in the hot layer, and not in the log: it is down */
    bool stale;             /* a read of the store, since the hot layer cannot be asked */
    uint8_t shards_missing; /* a read: so many shards could not be asked */
    int64_t as_of_ms;       /* a read: of this moment; 0 = of now */
    uint64_t sequence;      /* a hot layer outside of the process: of the last event that the answer
                             * rests on, in the outbox of `cell`; 0 = none */

    /* the hot layer's own */
    struct slice target; /* whose record: the id, or the item of an "item/kind" */
    uint8_t target_kind; /* the kind of an "item/kind" */
    uint8_t cell;
    uint8_t user_class;
    uint16_t bucket;
    uint32_t user_number;
    uint64_t user_hash;
    uint64_t stable; /* hash_stable() of the target */
    uint64_t hash;   /* hash_keyed() of it */
    void *route;
    struct op *next;
};

/* Is it a read that is refused unless all that counts can be asked? */
static inline bool op_wants_all(const struct op *op)
{
    return op->exact && op->kind != OP_DESCRIBE;
}

/* A read whose answer may lack what was acknowledged before it. */
static inline bool op_is_behind(const struct op *op)
{
    return (op->stale || op->shards_missing > 0) && !op_is_write(op->kind);
}

#endif
