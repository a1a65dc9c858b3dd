/* ask.h - calls of other threads that wait for the answer, and what they find in replies.
 *
 * The relay, the loader and the desk block while Redis answers. A reply lives only as long as
 * `take` looks at it, on the layer's thread: it copies what is needed, and is quick about it. */
#ifndef HOT_REDIS_ASK_H
#define HOT_REDIS_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/outbox.h"
#include "hot/redis/layer.h"

#define ASK_MS 1500u

/* A cell that did not answer is not waited for again by everybody: the relay tries it once a
 * second, with its leases (ask_probing()), and all others are refused until it has answered. So a
 * primary that is down does not hold up what has to do with the others. Where nobody relays,
 * whoever comes after three seconds tries. */

/* On the layer's thread, with a reply that is no error. */
typedef void ask_take_fn(void *arg, const struct redisReply *reply);

/* Starts the call, waits. ERR_OK: `take` was called. ERR_UNAVAILABLE or ERR_TIMEOUT as call.h has
 * them, ERR_REFUSED when the script has failed: that is told in a message. */
enum err ask(struct call *call, ask_take_fn *take, void *arg);

/* The same for many at once; each one's code goes to codes[i]. */
void ask_all(struct call *calls, size_t count, enum err *codes, ask_take_fn *take, void **args);

void ask_probing(struct call *calls, size_t count, enum err *codes, ask_take_fn *take, void **args);

/* The layer that an outbox is in. */
struct layer *ask_layer(struct outbox *outbox);

/* What is at a place of an array, as text or number. Empty and 0 when it is something else. */
struct slice reply_text(const struct redisReply *reply);
struct slice reply_text_at(const struct redisReply *reply, size_t index);
uint64_t reply_number(const struct redisReply *reply);
uint64_t reply_number_at(const struct redisReply *reply, size_t index);
bool reply_is(const struct redisReply *reply, const char *text);

#endif
