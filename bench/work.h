/* work.h - what the load generator asks for: requests from a template.
 *
 * A template is a command with fields, "LIKE video1 {user}". It is rendered to
 * RESP once; every field has a fixed width, so all requests have one size and a
 * batch is brought up to date by writing digits over digits.
 *
 *   *3\r\n$4\r\nLIKE\r\n$6\r\nvideo1\r\n$10\r\n1000000042\r\n
 *                                              ^ slot
 *
 *   {key}   12 digits, random below `keys`
 *   {seq}   12 digits, grows by one with each request
 *   {user}  10 digits, a new user with each request: 1000000000 + {seq},
 *           scattered over `spread` ids if that is not 0
 *   {item}   8 digits, {seq} modulo `items`
 *   {zipf}   8 digits, random below `items`, small ones more often (1 / n)
 *   {sha}   the name of the script that was loaded */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#include <stddef.h>
#include <stdint.h>

#define WORK_SLOTS_MAX  8
#define WORK_SPREAD_MAX 1000000000u

enum work_field { WORK_KEY, WORK_SEQ, WORK_USER, WORK_ITEM, WORK_ZIPF };

struct work_slot {
    size_t offset; /* of the digits, from the beginning of the request */
    enum work_field field;
};

struct work {
    char *request; /* owned */
    size_t size;
    size_t slot_count;
    struct work_slot slots[WORK_SLOTS_MAX];
};

/* Where the numbers come from. */
struct work_numbers {
    uint64_t seq;
    uint64_t random; /* state, not 0 */
    uint64_t keys;
    uint64_t items;
    uint64_t spread;
};

/* The template of a workload that has a name, or NULL. */
const char *work_template(const char *name);

/* The names, one by one; NULL behind the last. */
const char *work_name(size_t index);

/* Renders `template`. `sha` may be NULL when the template has no {sha}. Returns
 * NULL, or what is wrong with the template, `work` being untouched then. */
const char *work_init(struct work *work, const char *template, const char *sha);
void work_done(struct work *work);

/* Writes `count` copies of the request to `batch`, which has room for them. */
void work_lay_out(const struct work *work, char *batch, size_t count);

/* Gives the first `count` requests of a laid-out batch their next numbers. */
void work_renew(const struct work *work, struct work_numbers *numbers, char *batch, size_t count);

#endif
