/* fingerprint.h - what makes two writes the same: an idempotency key that comes again with
 * another one is refused. The same in every process and for ever, since log and store keep it. */
#ifndef CORE_FINGERPRINT_H
#define CORE_FINGERPRINT_H

#include <stdint.h>

#include "core/kinds.h"
#include "core/op.h"

/* Of a write: what is to be done, to whom, and how much. */
uint64_t fingerprint_of(const struct kinds *kinds, const struct op *op);

#endif
