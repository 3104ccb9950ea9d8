/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans where the values of one entry are stored, and the copies after all kernels have run:
 *
 * - Inputs, outputs and tensors are used in place. Every other value has a slot in the entry's
 *   workspace, planned by its live range (schedule/memory_plan.h).
 * - A tensor's next value is written over the old one by the kernel that computes it if every
 *   reader of the old value comes before that kernel, or is that kernel and reads each element
 *   before it writes the same element. Otherwise the next value goes to the workspace and is copied
 *   when all kernels have run.
 * - No tensor is written before the last kernel that can report a bad index has run: a step that
 *   ends in a fault has changed nothing. The same is true for the last region of resilience.
 * - The inputs of a region live until it ends, so that it can run again.
 * - The buffer that a kernel prepacks from a tensor is shared by all entries.
 * - A buffer that a kernel writes with a pitch (tsr_buffer_make) is longer by the padding; only
 *   kernels read it.
 */
#ifndef TSR_COMPILER_TARGET_HOST_PLAN_H
#define TSR_COMPILER_TARGET_HOST_PLAN_H

#include "compiler/ir/mlir.h"
#include "manifests/config.h"

/* The contents of a tessera_target.prepacked buffer, by its number: the kernel and the tensor of
 * the config. */
typedef struct tsr_prepacked_item {
    MlirOperation kernel;
    uint32_t tensor;
} tsr_prepacked_item;
typedef struct tsr_prepacked_list {
    tsr_prepacked_item *items;
    uint32_t count, capacity;
} tsr_prepacked_list;

/* Writes the tessera_target.func of an entry before its func.func, which does not change. The
 * module has the tessera_target.kernels that the entry calls. `prepacked` grows from entry to entry
 * and has space for every call of the module. TSR_INTERNAL when the schedule stage cannot have made
 * the entry. */
TSR_RESULT tsr_host_plan(tsr_ctx *ctx, MlirModule module, MlirOperation func,
                         const tsr_config *config, const tsr_config_entry *entry,
                         tsr_prepacked_list *prepacked, tsr_arena *arena);

/* The memref of a buffer as the host sees it. */
MlirType tsr_target_buffer_type(MlirContext context, const tsr_type *type, int64_t pitch);

#endif
