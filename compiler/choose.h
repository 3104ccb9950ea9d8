/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles, and numbers of registers, that a GPU's assembler makes good code of.
 */
#ifndef TSR_COMPILER_CHOOSE_H
#define TSR_COMPILER_CHOOSE_H

#include "compiler/mlir.h"
#include "compiler/target/ptxas.h"

/* `inout_tile` is what tsr_tile_lower made of `schedule`. Where a kernel on matrix units spills
 * registers, or is refused (tsr_ptxas_assemble), it is made anew with the next best tile; where no
 * tile is good, by the portable family. One over rows gets other numbers of warps and registers.
 * What was left out is told to the log. */
TSR_RESULT tsr_choose_tiles(tsr_ctx *ctx, MlirModule schedule, const tsr_target *target,
                            const tsr_ptxas *ptxas, MlirModule *inout_tile);

/* `code` is what tsr_ptxas_assemble made of `device`. Kernels without `warps` that spill are told
 * how many registers they may take, the fewest with which they spill none, or least: *out_changed,
 * and the code is to be made anew. */
TSR_RESULT tsr_choose_registers(tsr_ctx *ctx, MlirModule device, const tsr_target *target,
                                const tsr_ptxas *ptxas, const void *code, size_t code_size_bytes,
                                bool *out_changed);

#endif
