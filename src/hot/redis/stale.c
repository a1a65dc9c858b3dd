#include "hot/redis/stale.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "hot/redis/layer.h"

#define BUCKETS   1024u
#define SECOND_NS UINT64_C(1000000000)

struct answer {
    uint64_t hash;
    uint32_t slice;
    uint64_t read_ns;
    int64_t times_ms[LIMIT_CELLS]; /* how far the store was in each lane; 0 = not known */
    struct image image;
    struct answer *next;       /* of the same bucket */
    struct answer *next_older; /* from the oldest to the newest */
    uint16_t id_size;
    char id[];
};

struct stales {
    struct env *env;   /* borrowed */
    uint64_t hash_key; /* random: clients choose ids, and with this not where they land */
    uint32_t idle_s;
    struct lock lock; /* of all that follows */
    struct answer *buckets[BUCKETS];
    struct answer *oldest;
    struct answer **newest;
};

struct stales *stales_new(struct env *env, uint32_t idle_s)
{
    struct stales *stales = memory_take_zeroed(sizeof(*stales));
    stales->env = env;
    stales->hash_key = env_random(env);
    stales->idle_s = idle_s;
    stales->newest = &stales->oldest;
    lock_init(&stales->lock);
    return stales;
}

static void answer_free(struct answer *answer)
{
    image_done(&answer->image);
    free(answer);
}

void stales_free(struct stales *stales)
{
    if (!stales)
        return;
    while (stales->oldest) {
        struct answer *answer = stales->oldest;
        stales->oldest = answer->next_older;
        answer_free(answer);
    }
    lock_done(&stales->lock);
    free(stales);
}

/* ---- the table ---- */

static uint64_t hash_of(const struct stales *stales, struct slice id, uint32_t slice)
{
    return hash_keyed(id, stales->hash_key ^ slice);
}

static void forget_old(struct stales *stales, uint64_t now_ns)
{
    while (stales->oldest && now_ns - stales->oldest->read_ns >= SECOND_NS) {
        struct answer *answer = stales->oldest;
        struct answer **at = &stales->buckets[answer->hash % BUCKETS];
        while (*at != answer)
            at = &(*at)->next;
        *at = answer->next;
        stales->oldest = answer->next_older;
        if (!stales->oldest)
            stales->newest = &stales->oldest;
        answer_free(answer);
    }
}

/* The newest stands in front of others of the same name. */
static struct answer *find(struct stales *stales, struct slice id, uint32_t slice)
{
    uint64_t hash = hash_of(stales, id, slice);
    struct answer *answer = stales->buckets[hash % BUCKETS];
    while (answer && !(answer->hash == hash && answer->slice == slice &&
                       slice_equal((struct slice){answer->id, answer->id_size}, id)))
        answer = answer->next;
    return answer;
}

void stales_put(struct stales *stales, struct slice id, uint32_t slice, struct image *image,
                const int64_t *times_ms)
{
    assert(id.size <= UINT16_MAX);

    struct answer *answer = memory_take(sizeof(*answer) + id.size);
    *answer = (struct answer){.hash = hash_of(stales, id, slice),
                              .slice = slice,
                              .read_ns = env_monotonic_ns(stales->env),
                              .image = *image,
                              .id_size = (uint16_t)id.size};
    memcpy(answer->id, id.data, id.size);
    if (times_ms)
        memcpy(answer->times_ms, times_ms, sizeof(answer->times_ms));
    image_init(image, image->kinds);
    image_sort(&answer->image);
    lock_take(&stales->lock);
    forget_old(stales, answer->read_ns);
    struct answer **bucket = &stales->buckets[answer->hash % BUCKETS];
    answer->next = *bucket;
    *bucket = answer;
    *stales->newest = answer;
    stales->newest = &answer->next_older;
    lock_release(&stales->lock);
}

void stales_tidy(struct stales *stales)
{
    lock_take(&stales->lock);
    forget_old(stales, env_monotonic_ns(stales->env));
    lock_release(&stales->lock);
}

/* ---- answers ---- */

static bool is_over(const struct stales *stales, const struct image *image, int64_t now_ms)
{
    uint32_t idle_s = image->create.idle_s != 0 ? image->create.idle_s : stales->idle_s;
    return !image->is_item && ((image->deadline_ms != 0 && now_ms >= image->deadline_ms) ||
                               (idle_s != 0 && now_ms >= image->written_ms + idle_s * 1000LL));
}

/* The store knows of no shards: how many there are, and since when, is Redis's. */
static void describe(struct op *op, const struct image *image)
{
    *op->describe = (struct op_describe){.is_item = image->is_item,
                                         .shards = 1,
                                         .shards_asked = image->create.shards,
                                         .policy = image->create.policy,
                                         .has_floor = image->create.has_floor,
                                         .floor = image->create.floor,
                                         .idle_s = image->create.idle_s,
                                         .deadline_ms = image->deadline_ms,
                                         .incarnation = image->incarnation,
                                         .home = layer_home(hash_stable(op->target)),
                                         .written_ms = image->written_ms,
                                         .reason = "not known while Redis does not answer"};
}

/* What a counter, or something that is looked at as one, says. */
static void answer_plain(const struct stales *stales, struct op *op, const struct answer *answer)
{
    const struct image *image = &answer->image;
    bool is_there = image->is_there && !is_over(stales, image, env_wall_ms(stales->env)) &&
                    (image->is_item || op->target_kind == KIND_NONE);
    op->code = is_there || op->kind == OP_EXISTS ? ERR_OK : ERR_NOT_FOUND;
    if (op->kind == OP_EXISTS)
        op->changed = is_there;
    if (!is_there)
        return;
    switch (op->kind) {
    case OP_GET:
        if (image->is_item && op->target_kind == KIND_NONE)
            op->code = ERR_WRONG_TYPE;
        else
            op->value = image->is_item ? number_of(image->counts[op->target_kind - 1])
                                       : number_copy(&image->value);
        break;
    case OP_DEADLINE:
        op->deadline_ms = image->deadline_ms;
        break;
    case OP_DESCRIBE:
        describe(op, image);
        break;
    default:
        break;
    }
}

static void answer_counts(struct op *op, const struct image *image)
{
    op->code = image->is_there && !image->is_item ? ERR_WRONG_TYPE : ERR_OK;
    op->changed = image->is_there;
    memcpy(op->counts, image->counts, image->kinds->count * sizeof(*op->counts));
}

static void answer_held(struct op *op, const struct image *image)
{
    op->code = image->is_there && !image->is_item ? ERR_WRONG_TYPE : ERR_OK;
    op->held = image_held(image, op->user);
}

/* Which answer the op needs; of a large item's member that is the slice. */
static const struct answer *look_up(struct stales *stales, const struct op *op, uint32_t *ret_slice)
{
    *ret_slice = STALE_WHOLE;
    const struct answer *answer = find(stales, op->target, STALE_WHOLE);
    if (!answer || op->kind != OP_REACTION || !answer->image.is_sliced)
        return answer;
    *ret_slice = bucket_slice(bucket_of(op->target, op->user));
    return find(stales, op->target, *ret_slice);
}

/* Of several lanes it is the slowest that counts. One lane is ahead of what is known of it if the
 * target itself was written later. What nobody knows is as old as time. */
static int64_t true_until_ms(const struct answer *answer, uint64_t cells)
{
    bool is_spread = (cells & (cells - 1)) != 0;
    int64_t until_ms = INT64_MAX;
    if (!is_spread && answer->image.create.shards > 1) {
        is_spread = true;
        cells = UINT64_MAX; /* it was to be spread, and we do not know where */
    }
    for (uint64_t left = cells; left != 0; left &= left - 1) {
        int64_t time_ms = answer->times_ms[__builtin_ctzll(left)];
        until_ms = time_ms < until_ms ? time_ms : until_ms;
    }
    if (!is_spread && answer->image.written_ms > until_ms)
        until_ms = answer->image.written_ms;
    return until_ms > 0 ? until_ms : 1;
}

bool stales_answer(struct stales *stales, struct op *op, uint64_t cells, uint32_t *ret_slice)
{
    assert(cells != 0);

    lock_take(&stales->lock);
    forget_old(stales, env_monotonic_ns(stales->env));
    const struct answer *answer = look_up(stales, op, ret_slice);
    if (answer) {
        if (op->kind == OP_COUNTS)
            answer_counts(op, &answer->image);
        else if (op->kind == OP_REACTION)
            answer_held(op, &answer->image);
        else
            answer_plain(stales, op, answer);
        op->stale = true;
        op->as_of_ms = true_until_ms(answer, cells);
    }
    lock_release(&stales->lock);
    return answer != NULL;
}
