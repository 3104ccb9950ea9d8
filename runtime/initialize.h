/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of parameters and optimizer state, by the rules of the config.
 */
#ifndef TSR_RUNTIME_INITIALIZE_H
#define TSR_RUNTIME_INITIALIZE_H

#include "manifests/config.h"
#include "runtime/threads.h"

/* Fills `data` (the tensor's shape and dtype) by the tensor's rule: a constant, or Philox with key
 * {seed, init_stream} and counter {0, element low, element high, 0}, so that an element's value
 * depends only on seed, name and logical index. Uniform: [a, b), see base/uniform.h, in f64.
 * Normal: a + b * quantile(u), at most the largest finite number. The rule must not be
 * TSR_INIT_DATA. Random rules need a float dtype (TSR_CORRUPT otherwise). `threads` (borrowed) do
 * the work; NULL: only the caller computes. */
TSR_RESULT tsr_initialize_tensor(tsr_ctx *ctx, const tsr_config_tensor *tensor, uint32_t seed,
                                 tsr_threads *threads, void *data);
/* The same for `count` elements from `first`; `data` has space for only these elements. */
TSR_RESULT tsr_initialize_elements(tsr_ctx *ctx, const tsr_config_tensor *tensor, uint32_t seed,
                                   uint64_t first, uint64_t count, tsr_threads *threads,
                                   void *data);

#endif
