/* decimal.h - 64-bit integers as people write them: strict to read, quick to
 * write. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define DECIMAL_SIZE_MAX 20u /* of INT64_MIN and UINT64_MAX, no closing zero */

/* Reads `-?[1-9][0-9]*|0`, the grammar of Redis: no blanks, no plus, no
 * leading zeros. False when it is anything else or does not fit. */
bool decimal_parse(struct slice text, int64_t *ret_value);
bool decimal_parse_unsigned(struct slice text, uint64_t *ret_value);

/* Writes at `to`, which has DECIMAL_SIZE_MAX bytes of room; returns the byte
 * behind the last digit. */
char *decimal_format(char *to, int64_t value);
char *decimal_format_unsigned(char *to, uint64_t value);

#endif
