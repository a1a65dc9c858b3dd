/* sim_proof.h - the store against the log.
 *
 * What the store holds must be what the events of the log up to its mark make, but for
 * those that wait in it because it has refused them; and the recorded base of what
 * was trimmed, with what the log still has, must be the same sum. */
#ifndef SIM_PROOF_H
#define SIM_PROOF_H

#include "sim/sim_world.h"

/* Only while the store answers. */
void proof_of_store(struct world *world);

#endif
