/* SPDX-License-Identifier: Apache-2.0
 *
 * Random valid configs, and programs that are valid for them. A seed determines both.
 */
#ifndef TSR_TESTS_MANIFESTS_RANDOM_MANIFESTS_H
#define TSR_TESTS_MANIFESTS_RANDOM_MANIFESTS_H

#include "manifests/config.h"
#include "manifests/deployment.h"
#include "manifests/program.h"

/* All memory belongs to the arena. `size` is the approximate number of tensors, ports of entries,
 * and commands. */
tsr_config random_config(uint64_t seed, uint32_t size, tsr_arena *arena);
tsr_program random_program(uint64_t seed, uint32_t size, const tsr_config *config,
                           tsr_arena *arena);
/* Results that passes might produce for that program: some tensors are sharded along an axis, also
 * unevenly and with empty shards. */
tsr_deployment random_deployment(uint64_t seed, const tsr_config *config, tsr_arena *arena);

#endif
