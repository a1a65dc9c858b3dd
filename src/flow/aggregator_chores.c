/* aggregator_chores.c - what waits in the store is tried again; rows that are old are removed, the
 * log is trimmed. */
#include <string.h>

#include "base/message.h"
#include "core/raw.h"
#include "flow/aggregator_own.h"

#define DUE_EVERY_MS  250u /* a look for units to try again */
#define THIN_EVERY_MS 10000u
#define THIN_ROWS     5000u
#define TRIM_EVERY_MS 5000u
#define REST_AFTER_MS 2000u /* nothing to do for so long: a quiet moment */
#define REST_EVERY_MS 1000u /* and then again and again: the store looks after its pages */

/* --- what waits in the store --- */

struct waiting {
    struct aggregator *a;
    unsigned char event_id[STORE_EVENT_ID_BYTES];
};

static void keep_letter(void *arg, const struct store_letter *letter)
{
    struct waiting *waiting = arg;
    memcpy(waiting->event_id, letter->event_id, sizeof(waiting->event_id));
    waiting->a->raw.size = 0;
    (void)buffer_append_slice(&waiting->a->raw, letter->raw);
}

/* To those who read the log beside us. The unit's first event names its lane. */
static void tell_of_letter(struct aggregator *a, const unsigned char *event_id,
                           const struct store_unit *unit)
{
    struct slice left = buffer_slice(&a->raw);
    struct slice section;
    struct section_reader reader;
    if (!raw_next(&left, &section) || section_open(&reader, section, NULL) ||
        reader.origin >= LIMIT_CELLS)
        return;
    log_dead(a->options.log, &(struct log_letter){
                                 .lane = a->by_lane ? reader.origin : 0,
                                 .event_id = {(const char *)event_id, STORE_EVENT_ID_BYTES},
                                 .reason = slice_of(unit->reason),
                                 .raw = section,
                             });
}

/* Tries the unit that is due, if one is. */
static enum err retry_one(struct aggregator *a, bool *ret_did, struct error *error)
{
    struct waiting waiting = {.a = a};
    *ret_did = false;
    enum err err = store_due(a->options.store, now_ms_of(a), keep_letter, &waiting, error);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;

    struct store_unit *unit;
    struct error cause = {.text = ""};
    err = coalesce_raw_unit(a->again, buffer_slice(&a->raw), waiting.event_id, &unit, &cause);
    if (err)
        return error_set(error, err, "a unit that waits cannot be read: %.180s", cause.text);
    err = store_retry(a->options.store, unit, now_ms_of(a), error);
    if (err == ERR_NOT_FOUND || err == ERR_BUSY)
        return ERR_OK; /* somebody has dealt with it; we'll look again */
    if (err)
        return err;
    *ret_did = true;

    char id[128];
    message_quote(id, sizeof(id), unit->id);
    if (unit->code == ERR_OK)
        message_info("a unit that was refused is applied now id=%s", id);
    if (unit->code == ERR_DENIED) {
        message_error("the store has refused a unit for the last time: it is a dead letter now "
                      "id=%s reason=\"%s\"",
                      id, unit->reason);
        tell_of_letter(a, waiting.event_id, unit);
        lock_take(&a->lock);
        a->stats.failed++;
        lock_release(&a->lock);
    }
    return ERR_OK;
}

/* --- in the background --- */

static int64_t before(int64_t now_ms, uint64_t keep_ms)
{
    return keep_ms == 0 ? 0 : now_ms - (int64_t)keep_ms;
}

static enum err thin(struct aggregator *a, bool *ret_did, struct error *error)
{
    const struct aggregator_options *options = &a->options;
    int64_t now_ms = now_ms_of(a);
    uint64_t removed = 0;
    enum err err = store_thin(options->store, before(now_ms, options->keep_events_ms),
                              before(now_ms, options->keep_history_ms),
                              before(now_ms, options->keep_keys_ms), THIN_ROWS, &removed, error);
    *ret_did = removed > 0;
    return err;
}

static enum err trim(struct aggregator *a, bool *ret_did, struct error *error)
{
    uint64_t bytes = 0;
    *ret_did = false;
    if (atomic_load(&a->trim_holds) > 0)
        return ERR_OK;
    enum err err = trim_step(a->trim, a->mark.position, &bytes, error);
    *ret_did = bytes > 0;
    lock_take(&a->lock);
    a->stats.trimmed_bytes += bytes;
    lock_release(&a->lock);
    return err;
}

typedef enum err chore_fn(struct aggregator *a, bool *ret_did, struct error *error);

/* A chore whose time has come; it comes again at once as long as it finds something to do. */
static enum err run_chore(struct aggregator *a, chore_fn *chore, uint64_t *next_ns,
                          uint64_t every_ms, bool *did, struct error *error)
{
    uint64_t now_ns = now_ns_of(a);
    if (now_ns < *next_ns)
        return ERR_OK;
    bool found = false;
    enum err err = chore(a, &found, error);
    if (!found)
        *next_ns = now_ns + every_ms * MS_NS;
    *did = *did || found;
    return err;
}

enum err aggregator_rest(struct aggregator *a, uint64_t now_ns, struct error *error)
{
    if (now_ns - a->busy_ns < (uint64_t)REST_AFTER_MS * MS_NS ||
        (a->has_rested && now_ns - a->rest_ns < (uint64_t)REST_EVERY_MS * MS_NS))
        return ERR_OK;
    a->has_rested = true;
    a->rest_ns = now_ns;
    return store_rest(a->options.store, error);
}

enum err aggregator_do_chores(struct aggregator *a, bool *did, struct error *error)
{
    enum err err = run_chore(a, retry_one, &a->due_ns, DUE_EVERY_MS, did, error);
    if (!err && !a->is_stopping)
        err = run_chore(a, thin, &a->thin_ns, THIN_EVERY_MS, did, error);
    if (!err && !a->is_stopping && !a->by_lane)
        err = run_chore(a, trim, &a->trim_ns, TRIM_EVERY_MS, did, error);
    return err;
}
