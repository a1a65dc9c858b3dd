/* plan.h - what is to be done about a set of units, decided before anything is written.
 *
 * A unit meets the row of its id as it is now: it may be late, begin something anew, end it, or be
 * refused. Whatever it is goes into a list of its own, so that each kind of change is one statement
 * for all of them. Pure, but for the totals of the store and what it knows of counters. */
#ifndef STORE_POSTGRES_PLAN_H
#define STORE_POSTGRES_PLAN_H

#include "store/postgres/own.h"

/* Works by what is to be done, each with room for all. */
struct plan {
    struct work **room;   /* owned; of all lists */
    struct work **remove; /* counters whose row goes */
    size_t remove_count;
    struct work **bury; /* items that are no more, but that the history speaks of */
    size_t bury_count;
    struct work **wipe; /* items whose members go, because they are buried or begin anew */
    size_t wipe_count;
    struct work **make; /* counters without a row */
    size_t make_count;
    struct work **set; /* counters with one */
    size_t set_count;
    struct work **add; /* items without a row */
    size_t add_count;
    struct work **alter; /* items whose row changes */
    size_t alter_count;
    struct work **live; /* items whose members change */
    size_t live_count;
};

void plan_init(struct plan *plan, size_t count);
void plan_done(struct plan *plan);

/* Decides about a unit whose row, if there is one, was read. One that we refuse has its `code`. */
void plan_decide(struct postgres_store *store, struct plan *plan, struct work *work);

/* plan_write.c: does it, but for the members. */
enum err plan_write(struct postgres_store *store, const struct plan *plan, struct error *error);
/* plan_members.c: the members of items that live, and their counts. */
enum err plan_write_members(struct postgres_store *store, const struct plan *plan,
                            struct error *error);

#endif
