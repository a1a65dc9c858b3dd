/* resp_args.h - what several commands read from their arguments. */
#ifndef DOOR_RESP_RESP_ARGS_H
#define DOOR_RESP_RESP_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"
#include "base/slice.h"

struct op;
struct resp_client;

/* No command has more options. */
#define RESP_OPTIONS_MAX 8u

/* The arguments of a command that are still to be read. */
struct resp_args {
    const struct slice *next;
    unsigned left;
    unsigned option_count;
    const char *options[RESP_OPTIONS_MAX]; /* that were read */
};

static inline struct resp_args resp_args_from(unsigned argc, const struct slice *argv,
                                              unsigned from)
{
    return (struct resp_args){.next = argv + from, .left = argc - from};
}

/* Is the next argument this word, with a value behind it, for the first time? Then moves behind
 * both. */
bool resp_args_option(struct resp_args *args, struct slice word, struct slice *ret_value);

/* Is it this word? Then moves behind it. */
bool resp_args_word(struct resp_args *args, struct slice word);

/* [ID key] [REGION region], in any order, as all that is left. False when it is
 * something else. */
bool resp_args_write_options(struct resp_args *args, struct op *op);

/* One of CURSOR n and COUNT n. */
bool resp_args_page_option(struct resp_args *args, uint64_t *ret_cursor, uint32_t *ret_count);

/* [CURSOR n] [COUNT n], in any order, as all that is left. */
bool resp_args_page(struct resp_args *args, uint64_t *ret_cursor, uint32_t *ret_count);

/* Is it what flow/check.h says? If not, that is answered: before anything is kept of it. A time
 * that is not given is 0. */
bool resp_args_counter(struct resp_client *client, struct slice id);
bool resp_args_item(struct resp_client *client, struct slice id);
bool resp_args_user(struct resp_client *client, struct slice user);
bool resp_args_pattern(struct resp_client *client, struct slice pattern);
bool resp_args_time(struct resp_client *client, int64_t time_ms);

/* A number of any size; what is none is answered with an error. */
bool resp_args_number(struct resp_client *client, struct slice text, struct number *ret_number);
bool resp_args_int(struct resp_client *client, struct slice text, int64_t *ret_number);

#endif
