/* pg_text.h - ids and names as PostgreSQL's text.
 *
 * They may hold any byte, and a text of PostgreSQL may not. What is valid UTF-8 stands as it is,
 * but for the backslash, which is doubled; a zero byte, and one that belongs to no character,
 * stands as \x and two hexadecimal digits. Two ids are never written the same way. */
#ifndef STORE_POSTGRES_PG_TEXT_H
#define STORE_POSTGRES_PG_TEXT_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"

/* Does it stand as it is, being ASCII as nearly every id? False: perhaps. */
bool pg_text_is_plain(struct slice text);

void pg_text_escape(struct slice text, struct buffer *to);

/* Back again; `to` has room for text.size. What makes no sense, because somebody else has written
 * it, stays as it is. */
size_t pg_text_unescape(struct slice text, char *to);

#endif
