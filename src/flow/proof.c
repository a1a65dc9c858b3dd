/* proof.c - ids, and the check of them: look, read the log, compare, and look again at what
 * differs. */
#include "flow/proof_own.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "flow/compare.h"

#define IDS_BYTES ((size_t)PROOF_PASS_IDS * (LIMIT_ID_BYTES + 2) * 2)

/* --- ids --- */

void proof_ids_init(struct proof_ids *ids)
{
    buffer_init(&ids->bytes, IDS_BYTES);
    ids->count = 0;
}

void proof_ids_done(struct proof_ids *ids)
{
    buffer_done(&ids->bytes);
}

void proof_ids_clear(struct proof_ids *ids)
{
    ids->bytes.size = 0;
    ids->count = 0;
}

void proof_ids_add(struct proof_ids *ids, struct slice id)
{
    char size[2] = {(char)(id.size & 0xff), (char)(id.size >> 8)};
    if (buffer_reserve(&ids->bytes, id.size + sizeof(size)))
        return; /* the next round finds it */
    (void)buffer_append(&ids->bytes, size, sizeof(size));
    (void)buffer_append_slice(&ids->bytes, id);
    ids->count++;
}

struct slice proof_ids_next(const struct proof_ids *ids, size_t *at)
{
    const unsigned char *size = (const unsigned char *)ids->bytes.data + *at;
    struct slice id = {ids->bytes.data + *at + 2, size[0] | (size_t)size[1] << 8};
    *at += 2 + id.size;
    return id;
}

/* --- comparing --- */

typedef void sight_fn(struct proof *proof, const struct sight *sight, const struct number *by,
                      void *arg);

static bool is_of_store(const struct sight *sight)
{
    return sight->place == PLACE_STORE || sight->place == PLACE_STORE_MEMBERS;
}

static enum err judge(struct proof *proof, const struct sight *sight, sight_fn *differs, void *arg,
                      struct error *error)
{
    struct number by = number_of(0);
    bool is_explained = sight->waits;
    bool is_short = false;
    enum err err = sight_difference(proof, sight, &by, &is_short, error);
    /* With a deletion that waits, too, nobody knows which discarded letters were before it. */
    bool may_lack = is_of_store(sight) || sight->sum->begins;
    if (is_short && may_lack && !is_explained)
        err = proof_has_waiting(proof, sight->id, &is_explained, error);
    if (!err && is_short && !(may_lack && is_explained))
        differs(proof, sight, &by, arg);
    number_done(&by);
    return err;
}

/* Looks at all ids and tells of each sight that differs, which is believed at the last look; the
 * store's first, since memory may be put right from there. */
static enum err compare(struct proof *proof, const struct proof_ids *ids, bool is_last,
                        sight_fn *differs, void *arg, struct error *error)
{
    struct aggregator *aggregator = proof->seat->desk->options.aggregator;
    aggregator_hold_trim(aggregator);
    struct sights sights;
    sights_init(&sights, proof->seat);
    enum err err = ERR_OK;
    size_t at = 0;
    for (size_t i = 0; !err && i < ids->count; i++) {
        struct slice id = proof_ids_next(ids, &at);
        err = is_last ? sights_look_carefully(proof, &sights, id, error)
                      : sights_look(proof, &sights, id, error);
    }
    if (!err)
        err = sights_sum(proof, &sights, error);
    for (size_t i = 0; !err && i < sights.count; i++)
        if (is_of_store(&sights.list[i]))
            err = judge(proof, &sights.list[i], differs, arg, error);
    for (size_t i = 0; !err && i < sights.count; i++)
        if (!is_of_store(&sights.list[i]))
            err = judge(proof, &sights.list[i], differs, arg, error);
    sights_done(&sights);
    aggregator_release_trim(aggregator);
    return err;
}

/* --- what is looked at again --- */

/* Which ids differed at the first look, by where they stand among all. */
struct suspects {
    const struct proof_ids *all;
    bool *flags; /* owned; one for each byte of them */
};

static void suspect(struct proof *proof, const struct sight *sight, const struct number *by,
                    void *arg)
{
    struct suspects *suspects = arg;
    (void)proof;
    (void)by;
    suspects->flags[sight->id.data - suspects->all->bytes.data] = true;
}

static void list_suspects(const struct suspects *suspects, struct proof_ids *to)
{
    size_t at = 0;
    for (size_t i = 0; i < suspects->all->count; i++) {
        struct slice id = proof_ids_next(suspects->all, &at);
        if (suspects->flags[id.data - suspects->all->bytes.data])
            proof_ids_add(to, id);
    }
}

static void deal_with_suspect(struct proof *proof, const struct sight *sight,
                              const struct number *by, void *arg)
{
    (void)arg;
    sight_deal_with(proof, sight, by);
}

enum err proof_check(struct proof *proof, const struct proof_ids *ids, struct error *error)
{
    assert(proof && ids);

    if (desk_is_blind(proof->seat->desk))
        return compare_check(proof, ids, error);
    struct suspects suspects = {.all = ids, .flags = memory_take_zeroed(ids->bytes.size + 1)};
    struct proof_ids again;
    proof_ids_init(&again);
    enum err err = compare(proof, ids, false, suspect, &suspects, error);
    list_suspects(&suspects, &again);
    if (!err && again.count > 0)
        err = compare(proof, &again, true, deal_with_suspect, NULL, error);
    proof_ids_done(&again);
    free(suspects.flags);
    if (err)
        return err;
    proof->looked_at += ids->count;
    struct desk *desk = proof->seat->desk;
    desk_count(desk, &desk->audited, ids->count);
    return ERR_OK;
}
