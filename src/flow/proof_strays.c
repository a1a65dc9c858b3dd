/* proof_strays.c - what only the log speaks of: a row that somebody removed is met by no scan,
 * unless it is in memory. */
#include "flow/proof_own.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"

#define STRAYS_SEEN  (1u << 16) /* ids that are remembered while reading, by hash */
#define STRAYS_TAKEN (2u * 65536u)

static_assert(STRAYS_TAKEN >= 2 * PROOF_PASS_IDS, "half of it stays empty");

struct strays {
    const struct proof *proof;
    struct slice pattern; /* size 0 = all */
    struct proof_ids *ids;
    struct log_position at; /* behind the last section that was looked at */
    uint64_t hash_key;      /* random: clients choose ids, and with this not where they land */
    uint64_t *seen;         /* owned; hashes of ids that were looked at, the last of each place */
    uint64_t *taken;        /* owned; hashes of those in `ids`; 0 = empty */
};

/* False: it was there already. */
static bool take_hash(struct strays *strays, uint64_t hash)
{
    size_t place = (size_t)hash_slot(hash, strays->hash_key) % STRAYS_TAKEN;
    while (strays->taken[place] != 0 && strays->taken[place] != hash)
        place = (place + 1) % STRAYS_TAKEN;
    bool is_new = strays->taken[place] == 0;
    strays->taken[place] = hash;
    return is_new;
}

static void note_made_here(void *arg, const struct hot_entry *entry)
{
    *(bool *)arg = !entry->was_loaded;
}

/* Not in the store, nor among those of memory that a scan has met. Most of them were deleted,
 * which the sums will tell. */
static enum err look_for_row(struct strays *strays, struct slice id, struct error *error)
{
    const struct desk *desk = strays->proof->seat->desk;
    bool has_row;
    bool is_made_here = false;
    uint64_t hash = hash_stable(id) | 1;
    enum err err = proof_has_row(strays->proof, id, &has_row, error);
    if (err || has_row || strays->ids->count >= PROOF_PASS_IDS)
        return err; /* too many for one group: the next round finds the rest */
    (void)hot_peek(desk->hot, id, note_made_here, &is_made_here);
    if (!is_made_here && take_hash(strays, hash))
        proof_ids_add(strays->ids, id);
    return ERR_OK;
}

static enum err look_at_event(struct strays *strays, const struct event *event, struct error *error)
{
    struct slice id = event->id;
    uint8_t kind;
    if (!event_changes(event->type) || event->type == EVENT_DELETE)
        return ERR_OK;
    if (event->type == EVENT_CREATE)
        kinds_split(strays->proof->seat->desk->kinds, event->id, &id, &kind);
    uint64_t hash = hash_stable(id);
    uint64_t *seen = &strays->seen[hash_slot(hash, strays->hash_key) % STRAYS_SEEN];
    if (*seen == hash)
        return ERR_OK;
    *seen = hash;
    if (strays->pattern.size > 0 && !match_glob(strays->pattern, id))
        return ERR_OK;
    return look_for_row(strays, id, error);
}

static enum err look_at_section(void *arg, struct slice section, struct log_position next,
                                struct error *error)
{
    struct strays *strays = arg;
    struct section_reader reader;
    struct event event;
    if (strays->ids->count >= PROOF_PASS_IDS / 2 &&
        !(strays->at.segment == next.segment && strays->at.offset == next.offset))
        return ERR_BUSY; /* enough for now; a group is looked at as a whole */
    enum err err = section_open(&reader, section, error);
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        err = look_at_event(strays, &event, error);
        event_done(&event);
    }
    strays->at = next;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* What was taken so far is checked and forgotten. */
static enum err check_taken(struct proof *proof, struct strays *strays, struct error *error)
{
    uint64_t looked_at = proof->looked_at;
    enum err err = strays->ids->count > 0 ? proof_check(proof, strays->ids, error) : ERR_OK;
    proof->looked_at = looked_at; /* most of them are no more */
    proof_ids_clear(strays->ids);
    memset(strays->taken, 0, STRAYS_TAKEN * sizeof(*strays->taken));
    return err;
}

enum err proof_check_strays(struct proof *proof, struct slice pattern, struct error *error)
{
    if (desk_has_lanes(proof->seat->desk))
        return ERR_OK; /* what is in no place is looked for in a log of one lane only */
    struct proof_ids ids;
    struct strays strays = {.proof = proof, .pattern = pattern, .ids = &ids};
    strays.hash_key = env_random(proof->seat->desk->options.env);
    strays.seen = memory_take_zeroed(STRAYS_SEEN * sizeof(*strays.seen));
    strays.taken = memory_take_zeroed(STRAYS_TAKEN * sizeof(*strays.taken));
    proof_ids_init(&ids);
    struct aggregator *aggregator = proof->seat->desk->options.aggregator;
    aggregator_hold_trim(aggregator);
    enum err err = proof_log_begin(proof, &strays.at, error);
    bool is_over = false;
    while (!err && !is_over) {
        err = seat_read_log(proof->seat, strays.at, NULL, look_at_section, &strays, proof->reading,
                            proof->reading_arg, error);
        is_over = err != ERR_BUSY;
        if (!err || err == ERR_BUSY)
            err = check_taken(proof, &strays, error);
    }
    aggregator_release_trim(aggregator);
    proof_ids_done(&ids);
    free(strays.seen);
    free(strays.taken);
    return err;
}
