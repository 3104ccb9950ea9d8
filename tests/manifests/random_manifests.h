/* SPDX-License-Identifier: Apache-2.0
 *
 * Random valid configs, and programs that are valid against them. A seed fixes both.
 */
#ifndef TSR_TESTS_MANIFESTS_RANDOM_MANIFESTS_H
#define TSR_TESTS_MANIFESTS_RANDOM_MANIFESTS_H

#include "manifests/config.h"
#include "manifests/deployment.h"
#include "manifests/program.h"

/* All memory is the arena's. `size` is about the number of tensors, entries' ports and commands. */
tsr_config random_config(uint64_t seed, uint32_t size, tsr_arena *arena);
tsr_program random_program(uint64_t seed, uint32_t size, const tsr_config *config,
                           tsr_arena *arena);
/* What passes might have done to that program: some tensors spread over an axis, uneven and empty
 * shards included. */
tsr_deployment random_deployment(uint64_t seed, const tsr_config *config, tsr_arena *arena);

#endif
