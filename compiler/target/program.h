/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedule IR -> host program: which kernel runs when on which memory. The plan is the same for
 * every target; only the grids differ.
 *
 * - Inputs, outputs and tensors are used where they lie. Every other value has a place in the
 *   entry's workspace, planned by the time it lives (schedule/memory_plan.h).
 * - A tensor's next value is written over the old one by the kernel that computes it if every
 *   reader of the old value comes before that kernel, or is that kernel and reads element for
 *   element what it writes; else it goes to the workspace and is copied when all kernels have run.
 * - No tensor is written before the last kernel that can report a bad index has run: a step that
 *   ends in a fault has changed nothing.
 */
#ifndef TSR_COMPILER_TARGET_PROGRAM_H
#define TSR_COMPILER_TARGET_PROGRAM_H

#include "compiler/mlir.h"
#include "manifests/program.h"

/* `config` describes the module's tensors and entries (compiler/package.h). Grids are 0. Everything
 * is in the arena. TSR_INTERNAL when the module is not what the schedule stage makes. */
TSR_RESULT tsr_program_plan(tsr_ctx *ctx, MlirModule schedule_module, const tsr_config *config,
                            tsr_arena *arena, tsr_program *out_program);

/* A copy of the plan with the grids of one target's tile.funcs. TSR_INTERNAL when one is missing.
 */
TSR_RESULT tsr_program_for_target(tsr_ctx *ctx, const tsr_program *plan, MlirModule tile_module,
                                  tsr_arena *arena, tsr_program *out_program);

/* "digits.mlir:12:8", the innermost place of an inlined op, or "". In the arena; NULL when out of
 * memory. */
const char *tsr_location_text(MlirLocation location, tsr_arena *arena);

#endif
