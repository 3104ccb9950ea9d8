/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes in the memory of an executor, shared by tsr_executor_plan, which adds them, and executor.c,
 * which assigns addresses. Private to this folder.
 */
#ifndef TSR_RUNTIME_PLAN_H
#define TSR_RUNTIME_PLAN_H

#include "manifests/program.h"
#include "runtime/exec/memory.h"
#include "runtime/exec/vranks.h"

/* Adds the size of a block of memory, which takes at least one unit of the alignment; returns false
 * beyond 2^63. */
bool tsr_plan_add(uint64_t *total, uint64_t size_bytes);
bool tsr_plan_has_vranks(const tsr_config *config, const tsr_config_entry *entry);
/* Size of an input for one virtual rank, or the full input; returns false beyond 2^63 bytes. */
bool tsr_plan_input_size(const tsr_config *config, const tsr_config_entry *entry, size_t input,
                         uint64_t *out_size);
/* Size of a rank's part of a tensor; returns false beyond 2^63 bytes. */
bool tsr_plan_tensor_size(const tsr_config *config, const tsr_vranks *vranks, tsr_holding holding,
                          size_t tensor, uint64_t *out_size);
/* Finds buffers of sums that a collective consumes; out_deferred has one element per buffer,
 * initially false. */
void tsr_plan_find_deferred(const tsr_program_entry *entry, bool *out_deferred);
/* Computes the virtual ranks of this rank; transport: NULL for a single rank. */
TSR_RESULT tsr_plan_vranks(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                           const tsr_transport *transport, tsr_vranks *out_vranks);

#endif
