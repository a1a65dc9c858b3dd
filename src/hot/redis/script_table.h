/* script_table.h - what the build makes of lua/: see tools/embed-lua.cmake. */
#ifndef HOT_REDIS_SCRIPT_TABLE_H
#define HOT_REDIS_SCRIPT_TABLE_H

#include "base/slice.h"

struct script_text {
    struct slice source; /* size 0: there is no such file */
    const char *sha;
};

/* In the order of SCRIPT_LIST. */
extern const struct script_text script_table[];

#endif
