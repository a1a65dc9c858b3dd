/* figures.h - the process as the system sees it, in figures for metrics. */
#ifndef SERVER_FIGURES_H
#define SERVER_FIGURES_H

#include "flow/metrics.h"

/* A metrics_process_fn; `folder` is the path of the data, or NULL. What the system
 * does not tell stays 0. Any thread. */
void figures_process(void *folder, struct metrics_process *ret_process);

/* Likewise, without what takes longer the more there is: the heap and open files. */
void figures_brief(void *folder, struct metrics_process *ret_process);

#endif
