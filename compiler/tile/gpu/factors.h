/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of products of f32 that may be computed as tf32: wgmma reads 32-bit elements only along
 * K.
 */
#ifndef TSR_COMPILER_TILE_GPU_FACTORS_H
#define TSR_COMPILER_TILE_GPU_FACTORS_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/region.h"

/* Changes groups with such products so that the factors are contiguous along K, and adds calls
 * of a transpose before the calls of the groups; calls that need the same transpose share one call
 * of it. Products that are too small to profit are not changed. */
TSR_RESULT tsr_gpu_transpose_factors(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                     tsr_arena *arena);

#endif
