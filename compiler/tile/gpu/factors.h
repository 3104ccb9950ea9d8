/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of products of f32 that may be computed as tf32: wgmma reads 32 bits along K alone.
 */
#ifndef TSR_COMPILER_TILE_GPU_FACTORS_H
#define TSR_COMPILER_TILE_GPU_FACTORS_H

#include "compiler/tile/region.h"

/* Groups of such products get factors that lie along K, and their calls those of a transpose before
 * them, one for all calls that need it. A product too small to be worth it stays as it is. */
TSR_RESULT tsr_gpu_transpose_factors(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                     tsr_arena *arena);

#endif
