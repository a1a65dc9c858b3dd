/* own.h - what the files of the SQLite store share with one another, and with nobody else.
 *
 *   sqlite.c   opening, transactions, how far it is, figures
 *   apply.c    a batch: users, units, keys, poison, mark
 *   unit.c     what one unit does to its row, its members and the history
 *   sums.c     checksums of rows
 *   keys.c     idempotency keys, and the index by their hashes
 *   users.c    numbers of named users, and the index from name to number
 *   lives.c    units that wait: retries, dead letters
 *   tend.c     thinning, mending, bases, erasing
 *   load.c     readers: what hot state is loaded from, and the audit
 *   query.c    readers: lists for people
 *   check.c    a look at the whole file as it lies there
 *   dump.c     a reader of everything, for another store */
#ifndef STORE_SQLITE_OWN_H
#define STORE_SQLITE_OWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/lock.h"
#include "core/event_list.h"
#include "core/kind_names.h"
#include "core/sets.h"
#include "core/settings.h"
#include "core/store.h"
#include "core/stores.h"
#include "store/sqlite/db.h"
#include "store/sqlite/ids.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/sums.h"

enum entry_type { ENTRY_COUNTER, ENTRY_ITEM, ENTRY_GONE };

/* Counts of an item by kind, and which of them are written down. */
struct kind_counts {
    int64_t counts[SETS_KINDS];
    uint64_t known; /* bit k: kind k stands in the row */
};

/* A row of `entries`. The slices are the statement's, and go with its next step. */
struct entry {
    int64_t number; /* 0: there is none */
    struct slice id;
    enum entry_type type;
    uint32_t incarnation;
    int64_t updated_ms;
    struct number value; /* owned */
    struct slice counts;
    uint32_t slices;
    struct slice settings;
    int64_t deadline_ms;
    struct slice members; /* of an item in one slice; of a large one, the sums of its slices */
    bool
        is_wrong; /* its sum is not that of what stands there, and will not be until it is mended */
};

/* Numbers below next_user that no user has yet. */
struct user_gap {
    uint32_t first;
    uint32_t last;
};

/* A unit of the batch, and the row it is about. */
struct unit_place {
    uint64_t number;
    size_t unit;
};

struct sqlite_store {
    struct store base;
    struct env *env;
    struct sqlite_store_options options; /* path and vfs are owned */
    struct db db;                        /* the writer's */
    bool is_ready;                       /* connected, and what follows is as the file has it */
    _Atomic bool is_settled;             /* what the WAL has is on the disk: db_settle() */
    dev_t device;                        /* of the file that is open */
    ino_t inode;
    _Atomic int64_t damaged_page; /* whoever has met it; 0 = none */
    bool is_carried;              /* all of the WAL is in the file */
    int64_t checked_page;         /* up to here the file was read and checked: rest() */
    _Atomic uint64_t generation;  /* grows whenever the file is opened anew: readers follow */

    struct state_mark mark;
    struct log_position base_position;
    uint32_t indexed_users; /* numbers below are in user_index */
    struct kind_names kinds;
    struct user_gap *gaps; /* owned; sorted */
    size_t gap_count;
    size_t gap_capacity;
    uint64_t history_first; /* rows; 0 = none */
    uint64_t history_last;
    uint64_t lives_first;
    uint64_t lives_last;
    uint64_t waiting[LIFECYCLE_STATES]; /* PENDING, RETRYING, FAILED */
    uint64_t letters;
    struct ids ids; /* stable hash of an id -> entries.number: where it probably is */

    struct lock tail_lock;
    struct ids key_tail;  /* low half of a key's hash -> keys.row: those that key_index lacks */
    int64_t indexed_keys; /* rows up to here are in key_index */
    struct ids tail;      /* stable hash of a name -> number + 1: those that user_index lacks */
    _Atomic int64_t wal_pages;

    /* figures for stats(), as of the last commit */
    struct lock stats_lock;
    struct store_stats stats;
    struct log_position reached; /* with stats_lock: the furthest mark that ever was here */

    /* scratch of the writer's thread */
    struct sets_touch *touches;
    struct sets_touch *spare;
    size_t touch_capacity;
    struct unit_place *places;
    size_t place_capacity;
    struct sets_list list;
    struct slice_sums slice_sums; /* of the large item at hand */
    unsigned char slice_sum_bytes[SLICE_SUMS_BYTES];
    struct buffer sets;
    struct buffer text;
    struct buffer digits;
    struct buffer delta;
    struct buffer raw;
};

struct sqlite_reader {
    struct store_reader base;
    struct db own; /* closed in exclusive mode */
    struct db *db; /* own, or the writer's */
    uint64_t generation;
    struct kind_names kinds;
    struct sets_list list;
    struct buffer text;
    struct buffer raw;
    struct state_members groups[SETS_HEADS];
    struct event_list events; /* pending ones of a load */
};

static inline struct sqlite_store *store_of(struct store *store)
{
    return (struct sqlite_store *)store;
}

/* --- sqlite.c --- */

/* Connected, and in step with the file? Else opens it anew. Every call of the writer begins
 * with this. */
enum err store_ready(struct sqlite_store *store, struct error *error);

/* `code` may say that `db` has met a damaged page: then the store is out of order. Any thread. */
void store_note_damage(struct sqlite_store *store, struct db *db, int code);

/* Checks the next pages of the file. */
enum err store_check_some(struct sqlite_store *store, struct error *error);

/* The furthest mark of the file, or of those that stood there before it. Any thread. */
struct log_position store_reached(struct sqlite_store *store);

/* A transaction of the writer. Whatever fails in between ends with store_abandon(), which
 * gives `err` back and forgets what memory knew. Commit looks whether the file is still the one
 * that the path names. */
enum err store_begin(struct sqlite_store *store, struct error *error);
enum err store_commit(struct sqlite_store *store, struct error *error);
enum err store_abandon(struct sqlite_store *store, enum err err);

enum err store_write_mark(struct sqlite_store *store, const struct state_mark *before,
                          int64_t now_ms, struct error *error);
enum err store_read_mark(struct db *db, struct state_mark *ret_mark, uint32_t *ret_indexed,
                         struct log_position *ret_base, struct error *error);
enum err store_read_ends(struct sqlite_store *store, struct error *error);
enum err store_checkpoint(struct sqlite_store *store, bool truncate, struct error *error);

/* Kinds: 0 for no name. kind_names_find() answers SETS_KINDS when there is none of that name. */
enum err kinds_load(struct db *db, struct kind_names *kinds, struct error *error);
enum err kind_add(struct sqlite_store *store, struct slice name, struct error *error);

/* --- unit.c --- */

void entry_read(sqlite3_stmt *statement, struct entry *entry);
enum err counts_parse(struct slice text, const struct kind_names *kinds,
                      struct kind_counts *ret_counts);
void counts_format(const struct kind_counts *counts, const struct kind_names *kinds,
                   struct buffer *to);

/* Does to the tables what the unit says, and leaves the delta's text in store->delta. */
enum err unit_apply(struct sqlite_store *store, const struct store_unit *unit, struct error *error);
/* The delta that it ought to have, when it was not applied. */
void unit_expect(struct sqlite_store *store, const struct store_unit *unit);

enum entry_type entry_type_of(sqlite3_stmt *statement);
enum err entry_find(struct sqlite_store *store, struct slice id, struct entry *ret_entry,
                    sqlite3_stmt **ret_statement, struct error *error);
enum err entry_write(struct sqlite_store *store, const struct entry *entry, struct error *error);
enum err members_replace(struct sqlite_store *store, struct entry *entry,
                         const struct store_reaction *reactions, size_t count, struct error *error);

/* --- users.c --- */

enum err users_load(struct sqlite_store *store, struct error *error);
enum err users_add(struct sqlite_store *store, const struct store_batch *batch,
                   struct error *error);
enum err users_reserve(struct sqlite_store *store, uint32_t next, struct error *error);
enum err entry_held(struct db *db, const struct entry *entry, struct slice name, bool named,
                    uint32_t number, uint8_t *ret_kind, struct error *error);
enum err users_remove(struct sqlite_store *store, uint32_t number, struct error *error);
enum err users_number(struct sqlite_store *store, const struct store_reaction *reaction,
                      uint32_t *ret_number, struct error *error);
enum err users_of_name(struct sqlite_store *store, struct db *db, struct slice name,
                       uint32_t *ret_number, struct error *error);
/* Moves users from the tail to the index: when there are enough of them, or at once. */
enum err users_merge(struct sqlite_store *store, bool at_once, bool *ret_merged,
                     struct error *error);
void users_merged(struct sqlite_store *store); /* and it is committed */

/* --- keys.c --- */

enum err keys_read(struct sqlite_store *store, struct error *error);
enum err keys_add(struct sqlite_store *store, const struct state_key *key, struct error *error);
/* Moves keys from the tail to the index when there are enough of them. */
enum err keys_merge(struct sqlite_store *store, bool *ret_merged, struct error *error);
void keys_merged(struct sqlite_store *store); /* and it is committed */
enum err keys_thinned(struct sqlite_store *store, struct error *error);
/* The row of a key; ERR_NOT_FOUND. */
enum err keys_find(struct sqlite_store *store, struct db *db, uint64_t low, uint64_t high,
                   int64_t *ret_row, struct error *error);

/* --- lives.c --- */

void delta_bind(sqlite3_stmt *statement, int index, struct slice delta);
enum err lives_load(struct sqlite_store *store, struct error *error);
enum err lives_add(struct sqlite_store *store, const struct store_unit *unit,
                   enum lifecycle_state state, int64_t now_ms, struct slice raw,
                   struct error *error);
/* Must a unit wait behind others of its id? */
enum err lives_blocked(struct sqlite_store *store, const struct store_unit *unit,
                       uint64_t before_row, bool *ret_blocked, struct error *error);
enum err sqlite_due(struct store *base, int64_t now_ms, store_letter_fn *visit, void *arg,
                    struct error *error);
enum err sqlite_retry(struct store *base, struct store_unit *unit, int64_t now_ms,
                      struct error *error);
enum err sqlite_redrive(struct store *base, const unsigned char *event_id, int64_t now_ms,
                        uint64_t *ret_count, struct error *error);
enum err sqlite_discard(struct store *base, const unsigned char *event_id, int64_t now_ms,
                        uint64_t *ret_count, struct error *error);

/* --- apply.c --- */

enum err sqlite_apply(struct store *base, struct store_batch *batch, struct error *error);

/* --- tend.c --- */

enum err audit_add(struct sqlite_store *store, int64_t time_ms, struct slice what, struct slice id,
                   struct slice text, struct error *error);

/* What was deleted takes its discarded letters along. */
enum err base_forget_discarded(struct sqlite_store *store, struct slice id, struct error *error);
enum err base_add(struct sqlite_store *store, struct slice id, const struct number *sum,
                  const struct number *discarded, struct error *error);
/* `statement`: sum, discarded, checksum of the base of `id`. */
bool base_is_wrong(sqlite3_stmt *statement, struct slice id);
enum err sqlite_thin(struct store *base, int64_t lives_before_ms, int64_t history_before_ms,
                     int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                     struct error *error);
enum err sqlite_mend(struct store *base, struct slice id, uint32_t incarnation, struct slice kind,
                     const struct number *by, struct slice text, int64_t now_ms,
                     struct error *error);
enum err sqlite_mend_life(struct store *base, struct slice id, uint32_t incarnation, uint32_t life,
                          struct slice text, int64_t now_ms, struct error *error);
enum err sqlite_mend_members(struct store *base, struct slice item,
                             const struct store_reaction *members, size_t count, const uint64_t *at,
                             struct slice text, int64_t now_ms, struct error *error);
enum err sqlite_make(struct store *base, const struct state_target *target, struct slice text,
                     int64_t now_ms, struct error *error);
enum err sqlite_note(struct store *base, const struct store_audit *audit, struct error *error);
enum err sqlite_rebase(struct store *base, const struct slice *ids, const struct number *sums,
                       size_t count, struct log_position position, struct error *error);
enum err sqlite_erase(struct store *base, struct slice user, struct slice stub, int64_t now_ms,
                      uint64_t *ret_rows, struct error *error);
enum err sqlite_rest(struct store *base, struct error *error);

/* --- load.c --- */

/* Every call of a reader stands between these two: what it sees is of one moment. */
enum err reader_begin(struct sqlite_reader *reader, struct error *error);

/* The same for whoever believes that what is not here is nowhere: ERR_UNAVAILABLE while a file
 * that was put in the place of another does not have all yet that the other had. */
enum err reader_begin_whole(struct sqlite_reader *reader, struct error *error);
enum err reader_end(struct sqlite_reader *reader, enum err err);
/* Kinds that the reader does not know yet are looked up. */
enum err reader_kinds(struct sqlite_reader *reader, struct error *error);

/* Reads all rows, until one is refused. */
typedef enum err entry_fn(struct sqlite_reader *reader, const struct entry *entry, void *arg,
                          struct error *error);
enum err entries_each(struct sqlite_reader *reader, entry_fn *each, void *arg, struct error *error);
/* Are the slices of a large item what was written there? */
enum err entry_check_slices(struct sqlite_reader *reader, const struct entry *entry,
                            bool *ret_is_wrong, struct error *error);

enum err sqlite_reader_open(struct store *base, struct store_reader **ret, struct error *error);
void sqlite_reader_close(struct store_reader *base);
enum err sqlite_load(struct store_reader *base, struct slice id, store_target_fn *visit, void *arg,
                     struct error *error);
enum err sqlite_load_slice(struct store_reader *base, struct slice item, uint32_t slice,
                           store_members_fn *visit, void *arg, struct error *error);
enum err sqlite_find_user(struct store_reader *base, struct slice name, uint32_t *ret_number,
                          struct error *error);
enum err sqlite_names(struct store_reader *base, const uint32_t *numbers, size_t count,
                      store_name_fn *visit, void *arg, struct error *error);
enum err sqlite_find_key(struct store_reader *base, uint64_t low, uint64_t high,
                         store_key_fn *visit, void *arg, struct error *error);
enum err sqlite_hashes(struct store_reader *base, bool users, uint64_t *cursor, uint32_t limit,
                       store_hash_fn *visit, void *arg, struct error *error);
enum err sqlite_keys(struct store_reader *base, int64_t since_ms, uint64_t *cursor, uint32_t limit,
                     store_key_fn *visit, void *arg, struct error *error);
enum err sqlite_scan(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                     store_target_fn *visit, void *arg, struct error *error);
enum err sqlite_items_of(struct store_reader *base, struct slice user, uint64_t *cursor,
                         uint32_t limit, store_item_fn *visit, void *arg, struct error *error);
enum err sqlite_inspect(struct store_reader *base, struct slice id, struct slice kind,
                        struct number *ret_value, int64_t *ret_members, struct state_mark *ret_mark,
                        struct error *error);

/* --- query.c --- */

enum err sqlite_lives(struct store_reader *base, const struct store_life_filter *filter,
                      uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                      struct error *error);
enum err sqlite_letters(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                        store_letter_fn *visit, void *arg, struct error *error);
enum err sqlite_letter(struct store_reader *base, const unsigned char *event_id,
                       store_letter_fn *visit, void *arg, struct error *error);
enum err sqlite_past(struct store_reader *base, struct slice item, struct slice user,
                     uint64_t *cursor, uint32_t limit, store_past_fn *visit, void *arg,
                     struct error *error);
enum err sqlite_audits(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                       store_audit_fn *visit, void *arg, struct error *error);
enum err sqlite_waiting(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                        store_waiting_fn *visit, void *arg, struct error *error);
enum err sqlite_base(struct store_reader *base, struct slice id, struct number *ret_sum,
                     struct number *ret_discarded, struct log_position *ret_position,
                     struct error *error);

#endif
