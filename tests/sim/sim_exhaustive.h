/* sim_exhaustive.h - every call of the disk goes wrong once.
 *
 * A few short scenarios are run to count their calls of the disk, then again
 * for each call and each thing that can happen there: the power is cut, the
 * process is killed, the call fails, the call finds the disk full. */
#ifndef SIM_EXHAUSTIVE_H
#define SIM_EXHAUSTIVE_H

int exhaustive_run(void); /* 0 if all went well */

#endif
