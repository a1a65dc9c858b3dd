/* line.h - one line of an export, read.
 *
 *   {"counter":"views","value":"42","shards":4,"policy":"random","floor":"0","idle_s":60,
 *    "deadline_ms":1900000000000}                     value and id; the rest may be left out
 *   {"item":"video1","user":"ann","kind":"like"}
 *   {"item":"video1","shards":8}
 *   {"tally":...} {"cursor":...} {"end":...}          of no use to an import
 *
 * Numbers may be JSON numbers or strings of digits; ids and users that are no UTF-8 are
 * {"hex":"ff00"}. Pure: no input or output. */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "base/slice.h"

enum line_kind { LINE_NOTHING, LINE_COUNTER, LINE_REACTION, LINE_ITEM, LINE_END };

#define LINE_ROOM_BYTES   1024u
#define LINE_NUMBER_BYTES 24u

struct line {
    enum line_kind kind;
    struct slice id;    /* of the counter or item; all slices lie in `root` or in the rooms */
    struct slice value; /* of a counter */
    struct slice user;
    struct slice reaction;
    struct slice shards; /* size 0: not given; so are the others */
    struct slice policy;
    struct slice floor;
    struct slice idle_s;
    struct slice deadline_ms;
    json_t *root; /* owned */
    char id_room[LINE_ROOM_BYTES];
    char user_room[LINE_ROOM_BYTES];
    char number_rooms[5][LINE_NUMBER_BYTES];
};

/* ERR_INVALID with a text that says what is wrong; there is nothing to free then. */
enum err line_parse(struct slice text, struct line *ret_line, struct error *error);
void line_done(struct line *line);

#endif
