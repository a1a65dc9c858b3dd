/* load_own.h - what load.c and load_many.c share: a row, and the members of a whole item. */
#ifndef STORE_POSTGRES_LOAD_OWN_H
#define STORE_POSTGRES_LOAD_OWN_H

#include "store/postgres/own.h"
#include "store/postgres/reader.h"

/* The columns of SQL_READ_TARGET and SQL_READ_TARGETS. */
enum {
    TARGET_SEQUENCES,
    TARGET_WAITS,
    TARGET_NUMBER,
    TARGET_TYPE,
    TARGET_INCARNATION,
    TARGET_UPDATED,
    TARGET_VALUE,
    TARGET_SLICES,
    TARGET_SETTINGS,
    TARGET_DEADLINE,
    TARGET_KINDS,
    TARGET_COUNTS,
    TARGET_FITS,
    TARGET_MEMBERS,
};

/* A row as it was read, without pointing to the result. */
struct load_row {
    int64_t number; /* 0: there is none */
    bool waits;     /* something of its id does */
    struct state_target target;
    unsigned kinds[SETS_KINDS];
    struct slice kind_names[SETS_KINDS];
    int64_t counts[SETS_KINDS];
};

static inline bool load_keeps_sets(const struct postgres_reader *reader)
{
    return postgres_of(reader->base.store)->options.members == POSTGRES_SETS;
}

static inline bool load_wants_names(const struct postgres_reader *reader)
{
    return postgres_of(reader->base.store)->options.names;
}

/* Reads row number `at` of the result, without members. Its number is 0 if there is none. Unless
 * it fails, row->target.value is the caller's to free. */
enum err load_read_row(struct postgres_reader *reader, int at, struct slice id,
                       struct load_row *row, struct error *error);

/* The names of an item's kinds. They may have to be asked for, which ends the result. */
enum err load_name_kinds(struct postgres_reader *reader, struct load_row *row, struct error *error);

/* Lists rows of `reactions`, sorted by kind, class and number, from `first` up to `end`; their
 * kinds, users and names are the first columns. */
enum err load_list_rows(struct postgres_reader *reader, int first, int end, struct error *error);

/* The list as reader->groups. The kinds' names must be known. */
void load_fill_groups(struct postgres_reader *reader);

#endif
