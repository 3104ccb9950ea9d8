/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the values of one entry lie, and what is copied when all kernels have run:
 *
 * - Inputs, outputs and tensors are used where they lie. Every other value has a place in the
 *   entry's workspace, planned by the time it lives (schedule/memory_plan.h).
 * - A tensor's next value is written over the old one by the kernel that computes it if every
 *   reader of the old value comes before that kernel, or is that kernel and reads element for
 *   element what it writes; else it goes to the workspace and is copied when all kernels have run.
 * - No tensor is written before the last kernel that can report a bad index has run: a step that
 *   ends in a fault has changed nothing. The same holds for the last region of resilience.
 * - What a region reads lives until it ends, so that it can run again.
 * - What a kernel prepacks from a tensor lies in a buffer that all entries share.
 * - What a kernel writes with a pitch (tsr_buffer_make) is as much longer; kernels alone read it.
 */
#ifndef TSR_COMPILER_TARGET_HOST_PLAN_H
#define TSR_COMPILER_TARGET_HOST_PLAN_H

#include "compiler/mlir.h"
#include "manifests/config.h"

/* What buffers of tessera_target.prepacked hold, by their number: which kernel's, of which tensor
 * of the config. */
typedef struct tsr_prepacked_item {
    MlirOperation kernel;
    uint32_t tensor;
} tsr_prepacked_item;
typedef struct tsr_prepacked_list {
    tsr_prepacked_item *items;
    uint32_t count, capacity;
} tsr_prepacked_list;

/* Writes the tessera_target.func of an entry before its func.func, which stays as it is. The module
 * holds the tessera_target.kernels that it calls; `prepacked` grows from entry to entry and has
 * room for every call of the module. TSR_INTERNAL when the entry is not what the schedule stage
 * makes. */
TSR_RESULT tsr_host_plan(tsr_ctx *ctx, MlirModule module, MlirOperation func,
                         const tsr_config *config, const tsr_config_entry *entry,
                         tsr_prepacked_list *prepacked, tsr_arena *arena);

/* The memref of a buffer as the host sees it. */
MlirType tsr_target_buffer_type(MlirContext context, const tsr_type *type, int64_t pitch);

#endif
