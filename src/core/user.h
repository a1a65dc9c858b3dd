/* user.h - users whose names are numbers.
 *
 * A name that is a decimal below 2^32, written as one writes it ("7", not "07"
 * or "+7"), stands for itself: it needs no number of its own. Pure. */
#ifndef CORE_USER_H
#define CORE_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* Is the name a number? Then *ret_number is it. */
bool user_is_numeric(struct slice name, uint32_t *ret_number);

#endif
