/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses tiles and register counts for which a GPU's assembler generates good code.
 */
#ifndef TSR_COMPILER_CHOOSE_H
#define TSR_COMPILER_CHOOSE_H

#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/choices.h"
#include "compiler/target/ptxas.h"

/* `inout_planned` and `inout_tile` are the results of tsr_tile_plan and tsr_tile_lower_planned on
 * `schedule`. Where a kernel on matrix units
 * spills registers, or the assembler refuses it (tsr_ptxas_assemble), its group is lowered again
 * with the next best tile; where no tile is good, the portable family is used. A kernel over rows
 * gets other numbers of warps and registers. The rejected tiles are written to the log. */
TSR_RESULT tsr_choose_tiles(tsr_ctx *ctx, MlirModule schedule, const tsr_target *target,
                            const tsr_ptxas *ptxas, const tsr_choices *choices,
                            MlirModule *inout_planned, MlirModule *inout_tile);

/* `code` is the result of tsr_ptxas_assemble on `device`. Each kernel without `warps` that spills
 * gets a register limit: the smallest one with which it does not spill, or spills least. Sets
 * *out_changed if any limit was set; the code must then be generated again. */
TSR_RESULT tsr_choose_registers(tsr_ctx *ctx, MlirModule device, const tsr_target *target,
                                const tsr_ptxas *ptxas, const void *code, size_t code_size_bytes,
                                bool *out_changed);

#endif
