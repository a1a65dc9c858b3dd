/* redis_info.h - what a server of Redis tells of itself: lines of "name:value". */
#ifndef NET_REDIS_INFO_H
#define NET_REDIS_INFO_H

#include "base/slice.h"

/* The value of the line that begins with `name`, which ends with a colon: "role:". Empty: there is
 * no such line. */
struct slice redis_info_value(struct slice info, const char *name);

#endif
