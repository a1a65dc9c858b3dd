/* sim_names.h - numbers and the names that go over the wire for them.
 *
 * Id 12 is "n12" and some padding, so that ids have many lengths. Every other
 * user is a decimal number, the others are words: the hot layer keeps the two
 * in different ways. */
#ifndef SIM_NAMES_H
#define SIM_NAMES_H

#include "base/slice.h"
#include "sim/sim_options.h"
#include "sim/sim_request.h"

#define SIM_NAME_BYTES (LIMIT_ID_BYTES + LIMIT_KIND_BYTES + 2)

/* The name of an id, or of the counter of a reaction of it; written to `to`. */
struct slice sim_id_name(const struct sim_options *options, unsigned id, uint8_t kind,
                         char to[SIM_NAME_BYTES]);
unsigned sim_id_of(struct slice name); /* UINT_MAX if it is none */

struct slice sim_user_name(unsigned user, char to[SIM_NAME_BYTES]);
unsigned sim_user_of(struct slice name);

struct slice sim_key_name(uint32_t key, char to[SIM_NAME_BYTES]);

/* Of decimal digits. */
sim_wide sim_wide_of(struct slice digits);

/* From the model's numbers to Tally's, and back. The caller frees what is big. */
struct number sim_wide_number(sim_wide wide);
sim_wide sim_number_wide(const struct number *number);

/* The reaction kinds, as the configuration has them. */
#define SIM_KIND_LIST "like,dislike,wow"

#endif
