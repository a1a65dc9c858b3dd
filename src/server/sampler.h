/* sampler.h - a thread that has a sample taken each second: flow/samples.h. */
#ifndef SERVER_SAMPLER_H
#define SERVER_SAMPLER_H

#include "base/error.h"
#include "flow/samples.h"

struct sampler;

/* `samples` is borrowed. NULL with an error when there is no thread to be had. */
struct sampler *sampler_start(struct samples *samples, struct error *error);

/* Before what the figures come from goes. NULL does nothing. */
void sampler_stop(struct sampler *sampler);

#endif
