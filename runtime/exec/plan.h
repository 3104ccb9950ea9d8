/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes in the memory of an executor, as tsr_executor_plan adds and executor.c places them. Private
 * to this folder.
 */
#ifndef TSR_RUNTIME_PLAN_H
#define TSR_RUNTIME_PLAN_H

#include "manifests/program.h"
#include "runtime/exec/leaves.h"
#include "runtime/exec/memory.h"

/* Adds a piece of memory, which takes one unit of the alignment at least; false beyond 2^63. */
bool tsr_plan_add(uint64_t *total, uint64_t size_bytes);
bool tsr_plan_has_leaves(const tsr_config *config, const tsr_config_entry *entry);
/* What one leaf gets of an input, or all there is; false beyond 2^63 bytes. */
bool tsr_plan_input_size(const tsr_config *config, const tsr_config_entry *entry, size_t input,
                         uint64_t *out_size);
/* What a rank holds of a tensor; false beyond 2^63 bytes. */
bool tsr_plan_tensor_size(const tsr_config *config, const tsr_leaves *leaves, tsr_holding holding,
                          size_t tensor, uint64_t *out_size);
/* Buffers of sums that a collective takes; out_deferred has a place for each buffer, false. */
void tsr_plan_find_deferred(const tsr_program_entry *entry, bool *out_deferred);
/* Those of this rank; transport: NULL for one rank alone. */
TSR_RESULT tsr_plan_leaves(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                           const tsr_transport *transport, tsr_leaves *out_leaves);

#endif
