/* json_parse.h - a small pull parser: the caller says what it expects next.
 *
 * Each take_…() moves behind one value, or says in `fault` what is wrong, stays where it is, and
 * returns false. Strings without escapes point into the text, others into the scratch memory,
 * which is as large as the text and so never moves. Pure. */
#ifndef LOG_KAFKA_JSON_PARSE_H
#define LOG_KAFKA_JSON_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct json_parse {
    const char *at;
    const char *end;
    char *scratch; /* where the next string without escapes goes */
    const char *fault;
};

bool json_refuse(struct json_parse *parse, const char *fault);

/* Moves behind `c` if it is what comes next. */
bool json_meet(struct json_parse *parse, char c);
bool json_take(struct json_parse *parse, char c);

/* "name": of an object's next field. `is_first` is the caller's, true at the beginning. False and
 * no fault: the object is at its end. */
bool json_field(struct json_parse *parse, bool *is_first, struct slice *ret_name);

bool json_string(struct json_parse *parse, struct slice *ret_text);
bool json_null(struct json_parse *parse);
bool json_bool(struct json_parse *parse, bool *ret_value);
bool json_signed(struct json_parse *parse, int64_t *ret_value);
bool json_unsigned(struct json_parse *parse, uint64_t max, uint64_t *ret_value);

/* Hexadecimal digits, two a byte, into the scratch memory. */
bool json_hex(struct json_parse *parse, struct slice digits, struct slice *ret_bytes);

#endif
