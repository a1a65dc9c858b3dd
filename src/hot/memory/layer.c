#include "hot/memory/layer.h"

#include <assert.h>
#include <string.h>

#include "core/bucket.h"

void layer_take(struct memory_hot *hot, struct cell *cell)
{
    bool taken = !lock_try(&cell->lock);
    if (taken) {
        lock_take(&cell->lock);
        cell->waits++;
        atomic_fetch_add_explicit(&hot->lock_waits, 1, memory_order_relaxed);
    }
    cell->tries++;
}

void layer_take_all(struct memory_hot *hot)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        lock_take(&hot->cells[i].lock);
}

void layer_release_all(struct memory_hot *hot)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        lock_release(&hot->cells[i].lock);
}

void layer_append(struct memory_hot *hot, struct cell *cell, struct section *section,
                  int64_t now_ms)
{
    if (section->count == 0)
        return;
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(section, cell->number, cell->sequence + 1, now_ms, header);
    cell->ticket = log_append(hot->log, (struct slice){header, size}, buffer_slice(&section->body));
    cell->sequence += section->count;
    section_clear(section);
}

void layer_level_tickets(struct memory_hot *hot)
{
    uint64_t ticket = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        ticket = hot->cells[i].ticket > ticket ? hot->cells[i].ticket : ticket;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        hot->cells[i].ticket = ticket;
}

void layer_collect(struct memory_hot *hot, struct cell *cell)
{
    if (!cell->retired)
        return;
    for (const struct spread *spread = cell->retired; spread; spread = spread->next_retired)
        directory_remove(&hot->directory, spread);

    /* Only now: a batch of the next epoch must not find it any more. */
    lock_take(&hot->retired_lock);
    uint64_t epoch = atomic_fetch_add(&hot->epoch, 1);
    while (cell->retired) {
        struct spread *spread = cell->retired;
        cell->retired = spread->next_retired;
        spread->retired = epoch;
        spread->next_retired = hot->retired;
        hot->retired = spread;
    }
    lock_release(&hot->retired_lock);
}

void layer_free_retired(struct memory_hot *hot)
{
    uint64_t oldest = NO_EPOCH;
    for (unsigned i = 0; i <= hot->runners; i++) {
        uint64_t epoch = atomic_load(&hot->worker[i].epoch);
        oldest = epoch < oldest ? epoch : oldest;
    }
    struct spread *gone = NULL;
    lock_take(&hot->retired_lock);
    struct spread **at = &hot->retired;
    while (*at) {
        struct spread *spread = *at;
        if (spread->retired < oldest) {
            *at = spread->next_retired;
            spread->next_retired = gone;
            gone = spread;
        } else {
            at = &spread->next_retired;
        }
    }
    lock_release(&hot->retired_lock);
    spread_free_all(gone);
}

/* Pipelines often bring one id many times in a row: then its hashes are known. */
static bool has_same_target(const struct op *op, const struct op *previous)
{
    size_t size = op->target.size;
    return size == previous->target.size && size > 0 &&
           op->target.data[size - 1] == previous->target.data[size - 1] &&
           memcmp(op->target.data, previous->target.data, size) == 0;
}

static void hash_target(const struct memory_hot *hot, struct op *op, const struct op *previous)
{
    if (previous && has_same_target(op, previous)) {
        op->stable = previous->stable;
        op->hash = previous->hash;
    } else {
        op->stable = hash_stable(op->target);
        op->hash = hash_keyed(op->target, hot->hash_key);
    }
}

bool layer_aim(const struct memory_hot *hot, struct op *op, const struct op *previous)
{
    op->code = ERR_OK;
    op->changed = false;
    op->repeated = false;
    op->held = KIND_NONE;
    op->value = number_of(0);
    op->ticket = 0;
    op->target = op->id;
    op->target_kind = 0;
    op->route = NULL;
    if (op_has_counter(op->kind) &&
        kinds_split(hot->kinds, op->id, &op->target, &op->target_kind) &&
        !op_may_name_reaction(op->kind)) {
        op->code = ERR_WRONG_TYPE;
        return false;
    }
    hash_target(hot, op, previous);
    op->cell = layer_home(op->stable);
    if (op_has_user(op->kind))
        op->bucket = bucket_of_hashed(op->stable, op->user);
    return true;
}

enum err layer_aim_event(struct memory_hot *hot, const struct event *event, uint8_t generation,
                         struct cell_target *ret_target, uint64_t *ret_stable, struct error *error)
{
    *ret_target = (struct cell_target){.id = event->id, .user = {.class = USER_UNKNOWN}};
    if (event->type == EVENT_CREATE)
        kinds_split(hot->kinds, event->id, &ret_target->id, &ret_target->kind);
    *ret_stable = hash_stable(ret_target->id);
    ret_target->hash = hash_keyed(ret_target->id, hot->hash_key);
    if (event->type != EVENT_REACT || event->erased)
        return ERR_OK;

    ret_target->bucket = bucket_of_hashed(*ret_stable, event->user);
    uint64_t hash;
    if (users_begin(hot->users, event->user, &ret_target->user, &hash))
        return ERR_OK;
    if (event->user_number != EVENT_NO_NUMBER) {
        ret_target->user = (struct user){.class = USER_NAMED, .number = event->user_number};
        return users_put(hot->users, event->user, hash, event->user_number, generation)
                   ? ERR_OK
                   : error_set(error, ERR_CORRUPT, "user '%.*s' has another number than %u",
                               SLICE_ARGS(event->user), event->user_number);
    }
    if (users_find(hot->users, event->user, hash, &ret_target->user))
        return ERR_OK;
    enum err err = hot->cold ? cold_ask_user(hot->cold, hash, event->user) : ERR_OK;
    if (err)
        return error_set(error, err, "user '%.*s' is in the store", SLICE_ARGS(event->user));
    if (!users_take(hot->users, event->user, hash, &ret_target->user))
        return error_set(error, ERR_TOO_LARGE, "more users than 32 bits can number");
    return ERR_OK;
}

void layer_tell_wants(struct memory_hot *hot)
{
    if (hot->cold && cold_has_news(hot->cold) && hot->base.want)
        hot->base.want(hot->base.want_arg);
}

void layer_publish(struct memory_hot *hot, struct cell *home, uint64_t hash, struct slice target)
{
    struct entry *entry = cell_find(home, hash, target);
    struct spread *spread = entry ? layer_spread(home, entry) : NULL;
    if (spread)
        directory_add(&hot->directory, spread);
}

struct spread *layer_spread(const struct cell *home, const struct entry *entry)
{
    if (entry->kind == ENTRY_ITEM)
        return entry->flags & ENTRY_CROWD && entry->crowd->spread.shards > 1 ? &entry->crowd->spread
                                                                             : NULL;
    const struct rare *rare = cell_rare(home, entry);
    return rare && rare->parts ? &rare->parts->spread : NULL;
}

uint32_t layer_owed(const struct cell *home, const struct entry *entry)
{
    uint32_t asked = 1;
    if (entry->kind == ENTRY_ITEM) {
        asked = entry->flags & ENTRY_CROWD ? entry->crowd->spread.asked : 1;
    } else if (!(entry->flags & ENTRY_BIG)) {
        const struct rare *rare = cell_rare(home, entry);
        asked = rare ? rare->create.shards : 1;
    }
    const struct spread *spread = layer_spread(home, entry);
    return asked > (spread ? spread->shards : 1) ? asked : 1;
}
