/* message.h - lines for the operator, on stderr.
 *
 * One line each: time, level, what happened, then name=value pairs. Whatever
 * came from outside is escaped, so that no client can forge a line:
 *
 *   2026-01-31T12:00:00.123Z info  listening door=resp address=127.0.0.1:6380
 *
 * Callable from any thread. */
#ifndef BASE_MESSAGE_H
#define BASE_MESSAGE_H

#include "base/slice.h"

enum message_level { MESSAGE_DEBUG, MESSAGE_INFO, MESSAGE_WARNING, MESSAGE_ERROR };

/* Lines below this level are dropped; MESSAGE_INFO at first. */
void message_set_level(enum message_level level);

/* Writes a line; newlines, control bytes and invalid UTF-8 in the result are escaped. */
void message_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `text` as a double-quoted word with all that could confuse escaped, written
 * to `to` (always closed by a zero, cut if too long); returns `to`. */
const char *message_quote(char *to, size_t size, struct slice text);

#endif
