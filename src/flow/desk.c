/* desk.c - no desk yet: nobody sits there, and every question is unavailable. */
#include "flow/desk.h"

bool desk_submit(struct desk *desk, struct desk_job *job)
{
    (void)desk;
    (void)job;
    return false;
}

enum err desk_recount(struct desk_seat *seat, struct slice id, struct desk_recount *ret,
                      struct error *error)
{
    (void)seat;
    (void)id;
    (void)ret;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_events(struct desk_seat *seat, struct slice id, uint64_t *cursor, uint32_t limit,
                     desk_event_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)id;
    (void)cursor;
    (void)limit;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_value_at(struct desk_seat *seat, struct slice id, int64_t time_ms,
                       struct number *ret_value, struct error *error)
{
    (void)seat;
    (void)id;
    (void)time_ms;
    (void)ret_value;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_scan(struct desk_seat *seat, struct slice pattern, uint64_t *cursor, uint32_t limit,
                   desk_entry_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)pattern;
    (void)cursor;
    (void)limit;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_items_of(struct desk_seat *seat, struct slice user, uint64_t *cursor, uint32_t limit,
                       desk_item_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)user;
    (void)cursor;
    (void)limit;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_lives(struct desk_seat *seat, const struct store_life_filter *filter,
                    uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                    struct error *error)
{
    (void)seat;
    (void)filter;
    (void)cursor;
    (void)limit;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_letters(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                      store_letter_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)cursor;
    (void)limit;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_letter(struct desk_seat *seat, const unsigned char *event_id, store_letter_fn *visit,
                     void *arg, struct error *error)
{
    (void)seat;
    (void)event_id;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_redrive(struct desk_seat *seat, const unsigned char *event_id, uint64_t *ret_count,
                      struct error *error)
{
    (void)seat;
    (void)event_id;
    (void)ret_count;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_discard(struct desk_seat *seat, const unsigned char *event_id, uint64_t *ret_count,
                      struct error *error)
{
    (void)seat;
    (void)event_id;
    (void)ret_count;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_past(struct desk_seat *seat, struct slice item, struct slice user, uint64_t *cursor,
                   uint32_t limit, store_past_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)item;
    (void)user;
    (void)cursor;
    (void)limit;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

enum err desk_audits(struct desk_seat *seat, uint64_t *cursor, uint32_t limit,
                     store_audit_fn *visit, void *arg, struct error *error)
{
    (void)seat;
    (void)cursor;
    (void)limit;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_UNAVAILABLE;
}

const char *desk_task_kind_name(enum desk_task_kind kind)
{
    (void)kind;
    return "";
}

const char *desk_task_state_name(enum desk_task_state state)
{
    (void)state;
    return "";
}

uint64_t desk_start_recount(struct desk *desk, struct slice pattern)
{
    (void)desk;
    (void)pattern;
    return 0;
}

uint64_t desk_start_audit(struct desk *desk, struct slice pattern, bool repair)
{
    (void)desk;
    (void)pattern;
    (void)repair;
    return 0;
}

uint64_t desk_start_erase(struct desk *desk, struct slice user)
{
    (void)desk;
    (void)user;
    return 0;
}

bool desk_task(struct desk *desk, uint64_t id, struct desk_task *ret_task)
{
    (void)desk;
    (void)id;
    (void)ret_task;
    return false;
}

size_t desk_tasks(struct desk *desk, struct desk_task *to, size_t room)
{
    (void)desk;
    (void)to;
    (void)room;
    return 0;
}
