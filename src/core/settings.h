/* settings.h - what a counter or an item was created with, as the text that stores keep.
 *
 *   {"shards":8,"policy":"random","floor":-3,"idle_s":60}
 *
 * floor and idle_s are left out when there are none. Pure. */
#ifndef CORE_SETTINGS_H
#define CORE_SETTINGS_H

#include "base/buffer.h"
#include "base/slice.h"
#include "core/op.h"

/* Appends the text. */
void settings_format(const struct op_create *create, struct buffer *to);

/* No text at all is one shard and nothing else. ERR_CORRUPT. */
enum err settings_parse(struct slice text, struct op_create *ret_create);

#endif
