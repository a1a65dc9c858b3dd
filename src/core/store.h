/* store.h - the contract that Tally asks of a relational store.
 *
 * The store holds every counter, every member, the history of reactions, the life
 * of each applied unit, and how far it is. A batch and its mark are applied in one
 * transaction, or not at all. Calls block: they are made from threads that may wait.
 *
 * One thread writes (apply, retry, thin, ...): the aggregator's. Others read through
 * readers of their own. What a reader sees within one call is of one moment.
 *
 * What comes back:
 *   ERR_UNAVAILABLE  an outage: locked, full, read-only, damaged, gone. Nothing was
 *                    done. Try again later, for ever; it is nobody's fault.
 *   ERR_REFUSED      the store has answered, and does not want this.
 *   ERR_CORRUPT      its data makes no sense: the text names the row. */
#ifndef CORE_STORE_H
#define CORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/lifecycle.h"
#include "core/state.h"

#define STORE_EVENT_ID_BYTES 16u /* a UUIDv7 */
#define STORE_REASON_BYTES   200u

struct store;
struct store_reader;

/* --- what is applied --- */

struct store_reaction {
    struct slice user;
    bool named;      /* else `number` is the name itself */
    uint32_t number; /* EVENT_NO_NUMBER: the store gives it one (or erased) */
    bool erased;
    uint16_t bucket;
    struct slice before; /* kinds' names, size 0 = none; the store believes its own sets */
    struct slice after;
    struct slice region;
    int64_t time_ms;
    uint32_t origin;
    uint64_t sequence;
};

/* Everything that a batch does to one counter or item: the unit of the lifecycle. */
struct store_unit {
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    struct slice id;
    bool is_item;
    uint32_t events; /* so many */
    int64_t first_ms;
    int64_t last_ms; /* becomes the time of the last change; 0 = that stays as it was */
    bool is_gone;    /* ends deleted: nothing below counts */
    bool is_new;     /* whatever there was before is deleted first (or there was nothing) */
    bool may_create; /* false: without a row it is late, does nothing and is SUCCESS */
    /* Below the row's: the unit is late, does nothing and is SUCCESS. Above it: the row is
     * deleted first, as with is_new. */
    uint32_t incarnation;
    struct number delta; /* a counter: to be added */
    bool has_create;
    struct op_create create;
    bool has_deadline;
    int64_t deadline_ms;
    const struct store_reaction *reactions; /* an item: in order */
    size_t reaction_count;
    struct slice raw; /* its events, as core/raw.h frames them; apply() asks batch->raw instead */

    /* the answer */
    enum err code; /* ERR_REFUSED, ERR_BUSY: not applied, now waiting */
    char reason[STORE_REASON_BYTES];
};

/* Bytes of the log that make no sense: they go to the dead letters as they are. */
struct store_poison {
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    struct log_position position;
    struct slice raw;
    const char *reason;
    int64_t time_ms;
};

/* Appends the events of a unit, as core/raw.h frames them: asked for units that must
 * wait only. */
typedef void store_raw_fn(void *arg, size_t unit, struct buffer *to);

struct store_batch {
    struct store_unit *units;
    size_t unit_count;
    store_raw_fn *raw; /* NULL: the units' own `raw` */
    void *raw_arg;
    const struct state_key *keys;
    size_t key_count;
    const struct store_poison *poison;
    size_t poison_count;
    const struct event *repairs; /* EVENT_REPAIR of memory, to be written to the audit trail */
    size_t repair_count;
    struct log_position
        before; /* where the store must be now, else ERR_INVALID: another has been here */
    /* A log of many lanes: the lanes that this batch moves, a bit each, and the sequences at which
     * the store must be in them now, else ERR_INVALID. Of the mark only what is of these lanes
     * changes. 0: a log of one lane, which moves all. */
    uint64_t lanes;
    uint64_t before_sequences[LIMIT_CELLS];
    /* And of lanes that it does not move: where the store must be at least, 0 = anywhere, else
     * ERR_INVALID. What the batch must come after was there when it was gathered, but a store may
     * go back. */
    uint64_t needed_sequences[LIMIT_CELLS];
    /* counters, items and members are filled in by the store; next_user never goes back */
    struct state_mark after;
    int64_t now_ms;
};

/* --- what is read --- */

/* A unit's life, as `count_events` has it. */
struct store_life {
    uint64_t row; /* grows with time: the cursor */
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    struct slice id;
    struct slice delta; /* decimal digits; an item's by kind: {"like":3,"dislike":-1} */
    enum lifecycle_state state;
    uint32_t retry_count;
    uint32_t events;
    int64_t created_ms;
    int64_t processed_ms; /* 0 = not yet */
    int64_t next_ms;      /* RETRYING: the next attempt */
    struct slice reason;
};
typedef void store_life_fn(void *arg, const struct store_life *life);

struct store_life_filter {
    bool has_state;
    enum lifecycle_state state;
    struct slice id;  /* size 0 = any */
    int64_t since_ms; /* 0 = any */
    int64_t until_ms; /* 0 = any */
};

struct store_letter {
    uint64_t row;
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    struct slice id; /* size 0: it could not be read */
    struct slice delta;
    struct slice reason;
    struct slice raw;
    struct log_position position; /* of poison; zero otherwise */
    uint32_t retry_count;
    int64_t created_ms;
    int64_t failed_ms;
};
typedef void store_letter_fn(void *arg, const struct store_letter *letter);

/* A unit that waits, for the audit. */
struct store_waiting {
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    struct slice id;
    struct slice delta; /* as in its life */
    struct slice raw;   /* the events that it is made of, as core/raw.h frames them */
    bool agrees;        /* all tables that speak of it say the same of its id, state and delta */
};
typedef void store_waiting_fn(void *arg, const struct store_waiting *waiting);

/* One line of the history of reactions. */
struct store_past {
    uint64_t row;
    struct slice item;
    struct slice user;
    struct slice kind; /* size 0: withdrawn */
    int64_t time_ms;
};
typedef void store_past_fn(void *arg, const struct store_past *past);

/* A line of the audit trail. */
struct store_audit {
    uint64_t row;
    int64_t time_ms;
    struct slice what; /* "drift", "repair", "erase", "discard", "redrive", "trim" */
    struct slice id;
    struct slice text;
};
typedef void store_audit_fn(void *arg, const struct store_audit *audit);

typedef void store_target_fn(void *arg, const struct state_target *target);
/* What was found of the id at a place; NULL: there is none. */
typedef void store_targets_fn(void *arg, size_t place, const struct state_target *target);
/* A slice's members, and of the same moment the item's events that wait (state_target.pending). */
typedef void store_members_fn(void *arg, const struct state_members *members, size_t count,
                              const struct event *pending, size_t pending_count);
typedef void store_hash_fn(void *arg, uint64_t stable_hash);
typedef void store_key_fn(void *arg, const struct state_key *key);
typedef void store_item_fn(void *arg, struct slice item, struct slice kind);
typedef void store_kind_fn(void *arg, struct slice kind);
typedef void store_name_fn(void *arg, uint32_t number, struct slice name);

struct store_stats {
    uint64_t bytes; /* on disk */
    uint64_t pending;
    uint64_t retrying;
    uint64_t succeeded; /* rows that are kept */
    uint64_t failed;    /* dead letters that nobody has dealt with */
    uint64_t history_rows;
    int64_t down_since_ms; /* 0 = it answers */
};

struct store_ops {
    const char *name; /* "sqlite" */

    /* --- the writer's thread --- */

    /* How far it is. */
    enum err (*mark)(struct store *store, struct state_mark *ret_mark, struct error *error);

    /* A number for a new epoch of an origin (core/sequence.h): above `above`, and above all that it
     * has ever given. It is kept for good before this returns, also when the store fails over, as
     * far as the store can see to that. NULL: a store of one process. */
    enum err (*epoch)(struct store *store, unsigned origin, uint64_t above, uint64_t *ret_epoch,
                      struct error *error);

    /* The kinds of reactions that it has ever seen. */
    enum err (*kinds)(struct store *store, store_kind_fn *visit, void *arg, struct error *error);

    /* Applies all or nothing. Units that the store refuses do not keep the others
     * back: they are written down as RETRYING, with the time of their next attempt
     * (lifecycle.h), and say so in `code`. A unit whose id has an earlier one that still waits
     * is written down as PENDING behind it (ERR_BUSY). A dead letter holds the later ones of
     * its id back, too, unless both only add: then their order makes no difference.
     * On success batch->after is the mark, and batch->after.counters etc. are filled in. */
    enum err (*apply)(struct store *store, struct store_batch *batch, struct error *error);

    /* The oldest unit whose next attempt is due: calls back once with its raw events,
     * ERR_NOT_FOUND if none is. Those PENDING behind it are due when it is done. */
    enum err (*due)(struct store *store, int64_t now_ms, store_letter_fn *visit, void *arg,
                    struct error *error);

    /* Tries a waiting unit once more: SUCCESS, RETRYING again, or FAILED and a dead letter.
     * `unit` has the event_id of its letter; `code` says what came of it: ERR_OK,
     * ERR_REFUSED (it waits again) or ERR_DENIED (it is a dead letter now). ERR_NOT_FOUND: it
     * does not wait; ERR_BUSY: an earlier one of its id does. */
    enum err (*retry)(struct store *store, struct store_unit *unit, int64_t now_ms,
                      struct error *error);

    /* A dead letter becomes due again, or is given up. ERR_NOT_FOUND. NULL id: all. */
    enum err (*redrive)(struct store *store, const unsigned char *event_id, int64_t now_ms,
                        uint64_t *ret_count, struct error *error);
    enum err (*discard)(struct store *store, const unsigned char *event_id, int64_t now_ms,
                        uint64_t *ret_count, struct error *error);

    /* Removes up to `limit` rows each of finished lives, history and keys from before
     * these times (0 = keep for ever). Says how many: 0 = nothing is left to do. */
    enum err (*thin)(struct store *store, int64_t lives_before_ms, int64_t history_before_ms,
                     int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                     struct error *error);

    /* The audit: puts a count right by `by`, or the members of an item from scratch (the
     * counts stay as they are), and writes down why, unless `text` is empty. A counter is no more
     * wrong then; an item's row is wrong until it is mended by 0 and without a kind, as the last
     * of it. ERR_NOT_FOUND; ERR_BUSY: the row is of another incarnation by now. */
    enum err (*mend)(struct store *store, struct slice id, uint32_t incarnation, struct slice kind,
                     const struct number *by, struct slice text, int64_t now_ms,
                     struct error *error);
    /* A row whose sum does not fit says that it is of `incarnation`, and is of `life`: that is
     * written there, and nothing else; the sum stays what it is. ERR_NOT_FOUND; ERR_BUSY: the row
     * is right, or of a third one by now. */
    enum err (*mend_life)(struct store *store, struct slice id, uint32_t incarnation, uint32_t life,
                          struct slice text, int64_t now_ms, struct error *error);
    /* `at`: the sequences that `members` are of, by origin; ERR_BUSY if the store is elsewhere by
     * now. NULL: nobody else writes. */
    enum err (*mend_members)(struct store *store, struct slice item,
                             const struct store_reaction *members, size_t count, const uint64_t *at,
                             struct slice text, int64_t now_ms, struct error *error);
    /* A row that has gone without a deletion: made anew as `target` says, without members and
     * without what is pending. ERR_EXISTS. */
    enum err (*make)(struct store *store, const struct state_target *target, struct slice text,
                     int64_t now_ms, struct error *error);
    enum err (*note)(struct store *store, const struct store_audit *audit, struct error *error);

    /* Of all processes that share the store one may put counts right at a time: true if that is
     * ours from now on, until it is given back or the connection to the store ends. Does not wait.
     * NULL: nobody shares it. */
    enum err (*mending)(struct store *store, bool begin, bool *ret_is_ours, struct error *error);

    /* Adds to the recorded sums of what the log no longer holds, and moves the base
     * to `position`, in one transaction. */
    enum err (*rebase)(struct store *store, const struct slice *ids, const struct number *sums,
                       size_t count, struct log_position position, struct error *error);

    /* Forgets a user who holds nothing any more, else ERR_BUSY: name, history, index; nothing of
     * the name is left in its files when this returns. `stub` stands in the history instead. */
    enum err (*erase)(struct store *store, struct slice user, struct slice stub, int64_t now_ms,
                      uint64_t *ret_rows, struct error *error);

    /* A quiet moment: tidy up (merge what was put off, checkpoint). */
    enum err (*rest)(struct store *store, struct error *error);

    /* --- readers: each belongs to one thread --- */

    enum err (*reader_open)(struct store *store, struct store_reader **ret, struct error *error);
    void (*reader_close)(struct store_reader *reader);

    /* ERR_NOT_FOUND; what is expired is given as it is. */
    enum err (*load)(struct store_reader *reader, struct slice id, store_target_fn *visit,
                     void *arg, struct error *error);
    /* ERR_CORRUPT: it is not what was written there. */
    enum err (*load_slice)(struct store_reader *reader, struct slice item, uint32_t slice,
                           store_members_fn *visit, void *arg, struct error *error);
    enum err (*find_user)(struct store_reader *reader, struct slice name, uint32_t *ret_number,
                          struct error *error);
    enum err (*names)(struct store_reader *reader, const uint32_t *numbers, size_t count,
                      store_name_fn *visit, void *arg, struct error *error);
    enum err (*find_key)(struct store_reader *reader, uint64_t low, uint64_t high,
                         store_key_fn *visit, void *arg, struct error *error);

    /* load() of many at once, for a store that is far away: calls back once for each, in any order;
     * after an error some were not. seen() is of the moment of whatever is being given. NULL: to
     * ask for one after the other is as good. */
    enum err (*load_many)(struct store_reader *reader, const struct slice *ids, size_t count,
                          store_targets_fn *visit, void *arg, struct error *error);

    /* How far the store was, by origin, in the moment that the reader's last load, load_slice or
     * find_key is of. A store that can go back (a standby that lags behind takes over) says so
     * here, and the hot layer waits until it has caught up. NULL: it never goes back. */
    void (*seen)(struct store_reader *reader, uint64_t ret_sequences[LIMIT_CELLS]);

    /* The same as times: when the last event of each origin was written that it had then; 0 = not
     * known. What it gives is true as of then at least. NULL: nobody asks. */
    void (*seen_ms)(struct store_reader *reader, int64_t ret_times_ms[LIMIT_CELLS]);

    /* Everything there is: hash_stable() of ids; of named users; keys younger than. In
     * steps: `cursor` 0 at first, 0 afterwards when that was all. */
    enum err (*hashes)(struct store_reader *reader, bool users, uint64_t *cursor, uint32_t limit,
                       store_hash_fn *visit, void *arg, struct error *error);
    enum err (*keys)(struct store_reader *reader, int64_t since_ms, uint64_t *cursor,
                     uint32_t limit, store_key_fn *visit, void *arg, struct error *error);

    /* Counters and items in a stable order, without members, `limit` rows a step. */
    enum err (*scan)(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                     store_target_fn *visit, void *arg, struct error *error);
    /* The items on which a user holds something; looks at `limit` rows a step. */
    enum err (*items_of)(struct store_reader *reader, struct slice user, uint64_t *cursor,
                         uint32_t limit, store_item_fn *visit, void *arg, struct error *error);

    /* Newest first, rows before `*cursor` (0 = the newest); moves it, 0 = no more. */
    enum err (*lives)(struct store_reader *reader, const struct store_life_filter *filter,
                      uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                      struct error *error);
    enum err (*letters)(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                        store_letter_fn *visit, void *arg, struct error *error);
    enum err (*letter)(struct store_reader *reader, const unsigned char *event_id,
                       store_letter_fn *visit, void *arg, struct error *error);
    enum err (*past)(struct store_reader *reader, struct slice item, struct slice user,
                     uint64_t *cursor, uint32_t limit, store_past_fn *visit, void *arg,
                     struct error *error);
    enum err (*audits)(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                       store_audit_fn *visit, void *arg, struct error *error);

    /* Units that wait, dead letters among them, oldest first: rows behind `*cursor` (0 = all);
     * moves it, 0 = no more. NULL: nothing ever waits. */
    enum err (*waiting)(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                        store_waiting_fn *visit, void *arg, struct error *error);

    /* What a counter's recount starts from: the sum of what was trimmed from the log, and
     * the position where the rest begins. `discarded`: the sum of its discarded letters.
     * ERR_CORRUPT: it is not what was written there. */
    enum err (*base)(struct store_reader *reader, struct slice id, struct number *ret_sum,
                     struct number *ret_discarded, struct log_position *ret_position,
                     struct error *error);

    /* For the audit, of one moment: the value (or the count of `kind`), the members of
     * the sets counted one by one, below 0 if they are not what was written there, and the mark.
     * ERR_NOT_FOUND: the mark is there all the same. */
    enum err (*inspect)(struct store_reader *reader, struct slice id, struct slice kind,
                        struct number *ret_value, int64_t *ret_members, struct state_mark *ret_mark,
                        struct error *error);

    /* --- any thread --- */
    void (*stats)(struct store *store, struct store_stats *ret_stats);

    void (*close)(struct store *store); /* after its readers */
};

/* The first member of every store's own struct. */
struct store {
    const struct store_ops *ops;
};

/* The first member of every reader's own struct. */
struct store_reader {
    struct store *store;
};

/* Callers use these, not the table: what is true of every store is checked here. */
enum err store_mark(struct store *store, struct state_mark *ret_mark, struct error *error);
enum err store_epoch(struct store *store, unsigned origin, uint64_t above, uint64_t *ret_epoch,
                     struct error *error);
enum err store_kinds(struct store *store, store_kind_fn *visit, void *arg, struct error *error);
enum err store_apply(struct store *store, struct store_batch *batch, struct error *error);
enum err store_due(struct store *store, int64_t now_ms, store_letter_fn *visit, void *arg,
                   struct error *error);
enum err store_retry(struct store *store, struct store_unit *unit, int64_t now_ms,
                     struct error *error);
enum err store_redrive(struct store *store, const unsigned char *event_id, int64_t now_ms,
                       uint64_t *ret_count, struct error *error);
enum err store_discard(struct store *store, const unsigned char *event_id, int64_t now_ms,
                       uint64_t *ret_count, struct error *error);
enum err store_thin(struct store *store, int64_t lives_before_ms, int64_t history_before_ms,
                    int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                    struct error *error);
/* Adds to one count; a row whose sum was wrong stays wrong. No kind and nothing to add: all of the
 * row was looked at and is right, and it gets the sum of what stands there. */
enum err store_mend(struct store *store, struct slice id, uint32_t incarnation, struct slice kind,
                    const struct number *by, struct slice text, int64_t now_ms,
                    struct error *error);
enum err store_mend_life(struct store *store, struct slice id, uint32_t incarnation, uint32_t life,
                         struct slice text, int64_t now_ms, struct error *error);
enum err store_mend_members(struct store *store, struct slice item,
                            const struct store_reaction *members, size_t count, const uint64_t *at,
                            struct slice text, int64_t now_ms, struct error *error);
enum err store_make(struct store *store, const struct state_target *target, struct slice text,
                    int64_t now_ms, struct error *error);
enum err store_note(struct store *store, const struct store_audit *audit, struct error *error);
enum err store_mending(struct store *store, bool begin, bool *ret_is_ours, struct error *error);
enum err store_rebase(struct store *store, const struct slice *ids, const struct number *sums,
                      size_t count, struct log_position position, struct error *error);
enum err store_erase(struct store *store, struct slice user, struct slice stub, int64_t now_ms,
                     uint64_t *ret_rows, struct error *error);
enum err store_rest(struct store *store, struct error *error);

enum err store_reader_open(struct store *store, struct store_reader **ret, struct error *error);
void store_reader_close(struct store_reader *reader); /* NULL does nothing */
enum err store_load(struct store_reader *reader, struct slice id, store_target_fn *visit, void *arg,
                    struct error *error);
bool store_loads_many(const struct store *store);
enum err store_load_many(struct store_reader *reader, const struct slice *ids, size_t count,
                         store_targets_fn *visit, void *arg, struct error *error);
enum err store_load_slice(struct store_reader *reader, struct slice item, uint32_t slice,
                          store_members_fn *visit, void *arg, struct error *error);
enum err store_find_user(struct store_reader *reader, struct slice name, uint32_t *ret_number,
                         struct error *error);
enum err store_names(struct store_reader *reader, const uint32_t *numbers, size_t count,
                     store_name_fn *visit, void *arg, struct error *error);
enum err store_find_key(struct store_reader *reader, uint64_t low, uint64_t high,
                        store_key_fn *visit, void *arg, struct error *error);
/* False: it never goes back. */
bool store_seen(struct store_reader *reader, uint64_t ret_sequences[LIMIT_CELLS]);
bool store_seen_ms(struct store_reader *reader, int64_t ret_times_ms[LIMIT_CELLS]);
enum err store_hashes(struct store_reader *reader, bool users, uint64_t *cursor, uint32_t limit,
                      store_hash_fn *visit, void *arg, struct error *error);
enum err store_keys(struct store_reader *reader, int64_t since_ms, uint64_t *cursor, uint32_t limit,
                    store_key_fn *visit, void *arg, struct error *error);
enum err store_scan(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                    store_target_fn *visit, void *arg, struct error *error);
enum err store_items_of(struct store_reader *reader, struct slice user, uint64_t *cursor,
                        uint32_t limit, store_item_fn *visit, void *arg, struct error *error);
enum err store_lives(struct store_reader *reader, const struct store_life_filter *filter,
                     uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                     struct error *error);
enum err store_letters(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                       store_letter_fn *visit, void *arg, struct error *error);
enum err store_letter(struct store_reader *reader, const unsigned char *event_id,
                      store_letter_fn *visit, void *arg, struct error *error);
enum err store_past(struct store_reader *reader, struct slice item, struct slice user,
                    uint64_t *cursor, uint32_t limit, store_past_fn *visit, void *arg,
                    struct error *error);
enum err store_audits(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                      store_audit_fn *visit, void *arg, struct error *error);
enum err store_waiting(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                       store_waiting_fn *visit, void *arg, struct error *error);
enum err store_base(struct store_reader *reader, struct slice id, struct number *ret_sum,
                    struct number *ret_discarded, struct log_position *ret_position,
                    struct error *error);
enum err store_inspect(struct store_reader *reader, struct slice id, struct slice kind,
                       struct number *ret_value, int64_t *ret_members, struct state_mark *ret_mark,
                       struct error *error);

void store_stats(struct store *store, struct store_stats *ret_stats);
void store_close(struct store *store); /* NULL does nothing */

/* "sqlite" */
static inline const char *store_name(const struct store *store)
{
    return store->ops->name;
}

#endif
