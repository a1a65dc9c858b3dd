/* own.h - what the files of the PostgreSQL store share with one another, and with nobody else.
 *
 *   postgres.c  opening, transactions, how far it is
 *   claim.c     who may write: a single machine, or nodes
 *   fill.c      everything of another store, once
 *   schema.c    the tables; views.c the views
 *   apply.c     a batch: what waits, the units, keys, poison, mark
 *   unit.c      what a set of units does to `entries`
 *   plan.h      what becomes of each; plan_write.c, plan_members.c do it
 *   delta.c     what a unit does, as text
 *   rows.c      members as rows of `reactions`
 *   sets.c      members as sets: `entries.members` and `members`
 *   users.c     numbers of named users
 *   lives.c     units that wait: retries, dead letters
 *   load.c, query.c, tend.c  readers, and what keeps the tables in order
 *
 * A user is one number in the tables (`user_id`): the number that is the name, or -1 - users.number
 * of a user with a name. Ids and names are written as pg_text.h says. Times are timestamptz, but
 * for deadlines, which may be anything. */
#ifndef STORE_POSTGRES_OWN_H
#define STORE_POSTGRES_OWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/lock.h"
#include "core/event_list.h"
#include "core/kind_names.h"
#include "core/sets.h"
#include "core/settings.h"
#include "core/store.h"
#include "core/stores.h"
#include "store/postgres/known.h"
#include "store/postgres/met.h"
#include "store/postgres/pg.h"
#include "store/postgres/postgres.h"

enum entry_type { ENTRY_COUNTER, ENTRY_ITEM, ENTRY_GONE };

/* A row of `entries` as a unit needs it. */
struct entry {
    int64_t number; /* 0: there is none */
    enum entry_type type;
    uint32_t incarnation;
    uint32_t slices;
    int64_t held;  /* an item in one piece: how many members it has */
    bool is_wrong; /* its sum is not that of what stands there, counts and members aside */
};

/* What is added to the totals of the mark. */
struct totals {
    int64_t counters;
    int64_t items;
    int64_t members;
};

/* A unit on its way into the tables. */
struct work {
    struct store_unit *unit;
    size_t index;       /* in the batch */
    size_t at;          /* among the works of the batch: its deltas are there */
    size_t first;       /* its first reaction among all of the batch */
    struct entry entry; /* as it was found; then the row that members belong to */
    bool is_anew;       /* nothing of what there was counts */
    bool is_split;      /* an item in one piece becomes one in slices */
    uint64_t hash;      /* of the id */
    bool is_done;       /* it has changed what it says; else it was late or took all away */
};

/* What the writer's thread works with; grows as batches do. */
struct scratch {
    struct work *works; /* in the order of their ids */
    size_t work_count;
    size_t work_capacity;
    int64_t *user_ids; /* of all reactions of the batch, by work->first */
    size_t user_capacity;
    int64_t *deltas; /* of all works, `stride` for each: by kind */
    size_t stride;
    size_t delta_capacity;
    struct pg_columns columns;
};

struct postgres_store {
    struct store base;
    struct env *env;
    struct postgres_store_options options; /* url is owned */
    struct pg pg;                          /* the writer's */
    bool is_ready; /* connected, and what follows is as the database has it */
    bool is_open;  /* postgres_store_open() is done */
    char machine[POSTGRES_MACHINE_BYTES]; /* that has claimed it here; "": none */
    uint64_t failed_ns;                   /* when connecting failed; 0: it has not */
    struct error failure;                 /* and why */
    _Atomic uint64_t generation;          /* grows whenever the writer connects anew */

    struct kind_names kinds;
    bool is_shared; /* others write at the same time: rows are locked before they are read */
    uint32_t homes[LIMIT_CELLS]; /* with is_shared: deletions so far, in this transaction */
    struct totals totals;        /* of the transaction under way: written with the mark */
    int64_t first_new; /* no user has a number from here on, when the transaction begins */
    int64_t next_user; /* numbers below are given out; 0: it has not moved */
    uint64_t *known;   /* owned; a bit for each user number whose row is known to be there */
    size_t known_words;
    struct met met;        /* of users, where the store gives out the numbers */
    int64_t erased;        /* users, when what is known of them was last known to be true */
    struct known counters; /* whose rows have been met */

    /* figures for stats(), as of the last commit */
    struct lock stats_lock;
    struct store_stats stats;
    uint64_t stats_ns; /* when they were last asked for */

    /* scratch of the writer's thread: see the files that use it */
    struct scratch scratch;
    struct buffer text;
    struct buffer raw;
    struct buffer delta;
};

struct postgres_reader {
    struct store_reader base;
    struct pg pg;
    struct kind_names kinds;
    uint64_t seen[LIMIT_CELLS];
    int64_t seen_ms[LIMIT_CELLS];
    struct sets_list list;
    struct buffer text;
    struct buffer raw;
    struct state_members groups[SETS_HEADS];
    struct slice *names; /* owned; of members, in the result */
    size_t name_capacity;
    bool has_answered;        /* in this call: then it is not asked a second time */
    struct event_list events; /* pending ones of a load */
};

static inline struct postgres_store *postgres_of(struct store *store)
{
    return (struct postgres_store *)store;
}

static inline struct postgres_reader *postgres_reader_of(struct store_reader *reader)
{
    return (struct postgres_reader *)reader;
}

/* --- postgres.c --- */

/* Connected, with our tables? Else connects anew. Every call of the writer begins with this. */
enum err postgres_ready(struct postgres_store *store, struct error *error);

/* A transaction of the writer. Whatever fails in between ends with postgres_abandon(), which
 * gives `err` back and forgets what memory knew. */
enum err postgres_begin(struct postgres_store *store, struct error *error);
enum err postgres_commit(struct postgres_store *store, struct error *error);
enum err postgres_abandon(struct postgres_store *store, enum err err);

/* Runs `attempt` in a transaction of its own; once more, some times, when it has met with a
 * deadlock or the like. `attempt` neither begins nor commits. */
typedef enum err postgres_attempt_fn(struct postgres_store *store, void *arg, struct error *error);
enum err postgres_transact(struct postgres_store *store, postgres_attempt_fn *attempt, void *arg,
                           struct error *error);

/* The mark as the connection's snapshot has it. */
enum err postgres_read_mark(struct pg *pg, struct state_mark *ret_mark, struct error *error);
/* Reads store->homes. */
enum err postgres_read_homes(struct postgres_store *store, struct error *error);
/* Adds store->totals to those of `progress`: for whoever is in no lane. */
enum err postgres_write_totals(struct postgres_store *store, struct error *error);

/* Kinds: 0 for no name. kind_names_find() answers SETS_KINDS when there is none of that name. */
enum err postgres_kinds_load(struct pg *pg, struct kind_names *kinds, struct error *error);
enum err postgres_kind_add(struct postgres_store *store, struct slice name, struct error *error);

/* --- claim.c --- */

/* May this machine, if the store was claimed for one, or may nodes go on writing? Of a result whose
 * columns from `column` on are owner, who and released. ERR_UNAVAILABLE */
enum err postgres_claim_check_machine(struct postgres_store *store, int column,
                                      struct error *error);
enum err postgres_claim_check_nodes(struct pg *pg, int column, struct error *error);

/* Within a transaction: from now on it is the nodes'. ERR_BUSY: it is a machine's. */
enum err postgres_claim_for_nodes(struct postgres_store *store, struct error *error);

/* --- schema.c, views.c --- */

/* Makes or checks the tables. Several may do so at once. */
enum err postgres_schema_prepare(struct pg *pg, enum postgres_members members, struct error *error);
extern const char *const postgres_held[]; /* by how members are kept; comes before the others */
extern const char postgres_views[];

/* --- unit.c --- */

/* Takes one row of `entries` for this transaction (FOR UPDATE). ERR_NOT_FOUND. */
enum err postgres_entry_lock(struct postgres_store *store, struct slice id, struct entry *ret_entry,
                             struct error *error);

/* Does to the tables what the units say, all or nothing: ERR_REFUSED when the database refuses
 * one, and then the transaction has failed. Those that we refuse ourselves have their `code`. The
 * works are sorted by id, and have their user_ids. */
enum err postgres_units_apply(struct postgres_store *store, struct work *works, size_t count,
                              struct error *error);

static inline int64_t *postgres_deltas(struct postgres_store *store, const struct work *work)
{
    return store->scratch.deltas + work->at * store->scratch.stride;
}

/* --- delta.c --- */

/* The unit's delta as text, to store->delta: what it did; or what it ought to do. */
void postgres_delta_done(struct postgres_store *store, const struct work *work);
void postgres_delta_expected(struct postgres_store *store, const struct store_unit *unit);

/* --- rows.c, sets.c: the members of items, works whose unit is a living item --- */

enum err postgres_rows_react(struct postgres_store *store, struct work *const *works, size_t count,
                             struct error *error);
enum err postgres_sets_react(struct postgres_store *store, struct work *const *works, size_t count,
                             struct error *error);

/* Either of them (plan_members.c): makes the members of an item anew; the counts stay as they are.
 * A transaction is open. */
enum err postgres_members_replace(struct postgres_store *store, const struct entry *entry,
                                  const struct store_reaction *reactions, size_t count,
                                  struct error *error);
enum err postgres_rows_replace(struct postgres_store *store, const struct entry *entry,
                               const struct store_reaction *reactions, const int64_t *user_ids,
                               size_t count, struct error *error);
enum err postgres_sets_replace(struct postgres_store *store, const struct entry *entry,
                               const struct store_reaction *reactions, const int64_t *user_ids,
                               size_t count, struct error *error);

/* --- users.c --- */

/* Appends to scratch.user_ids, from `first` on, those of the reactions; erased ones have 0. Users
 * without a row get one, and a number if they have none. */
enum err postgres_users_resolve(struct postgres_store *store,
                                const struct store_reaction *const *reactions, size_t count,
                                int64_t *ret_user_ids, struct error *error);
/* A user's row has gone: memory must not believe in it any more. */
void postgres_users_forget(struct postgres_store *store, uint32_t number);
void postgres_users_forget_all(struct postgres_store *store);
/* So many users are erased by now: if there are more than we knew, all is forgotten. */
void postgres_users_check(struct postgres_store *store, int64_t erased);

/* --- lives.c --- */

enum err postgres_due(struct store *base, int64_t now_ms, store_letter_fn *visit, void *arg,
                      struct error *error);
enum err postgres_retry(struct store *base, struct store_unit *unit, int64_t now_ms,
                        struct error *error);
enum err postgres_redrive(struct store *base, const unsigned char *event_id, int64_t now_ms,
                          uint64_t *ret_count, struct error *error);
enum err postgres_discard(struct store *base, const unsigned char *event_id, int64_t now_ms,
                          uint64_t *ret_count, struct error *error);

/* --- apply.c --- */

/* Makes works of the units, sorted by id, and finds out their users. */
enum err postgres_works_prepare(struct postgres_store *store, struct store_unit *units,
                                size_t count, struct error *error);
enum err postgres_apply(struct store *base, struct store_batch *batch, struct error *error);

/* --- tend.c --- */

/* Within a transaction. */
enum err postgres_audit_add(struct postgres_store *store, int64_t time_ms, struct slice what,
                            struct slice id, struct slice text, struct error *error);
enum err postgres_base_add(struct postgres_store *store, struct slice id, const struct number *sum,
                           const struct number *discarded, struct error *error);
/* Figures for stats(), after a commit. At once, or when they have become old. */
void postgres_stats_refresh(struct postgres_store *store, bool at_once);
void postgres_stats_down(struct postgres_store *store); /* an outage */

enum err postgres_thin(struct store *base, int64_t lives_before_ms, int64_t history_before_ms,
                       int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                       struct error *error);
enum err postgres_mend(struct store *base, struct slice id, uint32_t incarnation, struct slice kind,
                       const struct number *by, struct slice text, int64_t now_ms,
                       struct error *error);
enum err postgres_mending(struct store *base, bool begin, bool *ret_is_ours, struct error *error);
enum err postgres_mend_life(struct store *base, struct slice id, uint32_t incarnation,
                            uint32_t life, struct slice text, int64_t now_ms, struct error *error);
enum err postgres_mend_members(struct store *base, struct slice item,
                               const struct store_reaction *members, size_t count,
                               const uint64_t *at, struct slice text, int64_t now_ms,
                               struct error *error);
enum err postgres_make(struct store *base, const struct state_target *target, struct slice text,
                       int64_t now_ms, struct error *error);
enum err postgres_note(struct store *base, const struct store_audit *audit, struct error *error);
enum err postgres_rebase(struct store *base, const struct slice *ids, const struct number *sums,
                         size_t count, struct log_position position, struct error *error);
enum err postgres_erase(struct store *base, struct slice user, struct slice stub, int64_t now_ms,
                        uint64_t *ret_rows, struct error *error);
enum err postgres_rest(struct store *base, struct error *error);
void postgres_stats(struct store *base, struct store_stats *ret_stats);

/* --- load.c, query.c --- */

enum err postgres_reader_open(struct store *base, struct store_reader **ret, struct error *error);
void postgres_reader_close(struct store_reader *base);
enum err postgres_load(struct store_reader *base, struct slice id, store_target_fn *visit,
                       void *arg, struct error *error);
enum err postgres_load_many(struct store_reader *base, const struct slice *ids, size_t count,
                            store_targets_fn *visit, void *arg, struct error *error);
enum err postgres_load_slice(struct store_reader *base, struct slice item, uint32_t slice,
                             store_members_fn *visit, void *arg, struct error *error);
enum err postgres_find_user(struct store_reader *base, struct slice name, uint32_t *ret_number,
                            struct error *error);
enum err postgres_names(struct store_reader *base, const uint32_t *numbers, size_t count,
                        store_name_fn *visit, void *arg, struct error *error);
enum err postgres_find_key(struct store_reader *base, uint64_t low, uint64_t high,
                           store_key_fn *visit, void *arg, struct error *error);
void postgres_seen(struct store_reader *base, uint64_t ret_sequences[LIMIT_CELLS]);
void postgres_seen_ms(struct store_reader *base, int64_t ret_times_ms[LIMIT_CELLS]);
enum err postgres_hashes(struct store_reader *base, bool users, uint64_t *cursor, uint32_t limit,
                         store_hash_fn *visit, void *arg, struct error *error);
enum err postgres_keys(struct store_reader *base, int64_t since_ms, uint64_t *cursor,
                       uint32_t limit, store_key_fn *visit, void *arg, struct error *error);
enum err postgres_scan(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                       store_target_fn *visit, void *arg, struct error *error);
enum err postgres_items_of(struct store_reader *base, struct slice user, uint64_t *cursor,
                           uint32_t limit, store_item_fn *visit, void *arg, struct error *error);
enum err postgres_inspect(struct store_reader *base, struct slice id, struct slice kind,
                          struct number *ret_value, int64_t *ret_members,
                          struct state_mark *ret_mark, struct error *error);
enum err postgres_lives(struct store_reader *base, const struct store_life_filter *filter,
                        uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                        struct error *error);
enum err postgres_letters(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                          store_letter_fn *visit, void *arg, struct error *error);
enum err postgres_letter(struct store_reader *base, const unsigned char *event_id,
                         store_letter_fn *visit, void *arg, struct error *error);
enum err postgres_past(struct store_reader *base, struct slice item, struct slice user,
                       uint64_t *cursor, uint32_t limit, store_past_fn *visit, void *arg,
                       struct error *error);
enum err postgres_audits(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                         store_audit_fn *visit, void *arg, struct error *error);
enum err postgres_waiting(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                          store_waiting_fn *visit, void *arg, struct error *error);
enum err postgres_base(struct store_reader *base, struct slice id, struct number *ret_sum,
                       struct number *ret_discarded, struct log_position *ret_position,
                       struct error *error);

#endif
