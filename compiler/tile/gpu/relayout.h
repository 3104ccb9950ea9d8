/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of products on matrix units whose rows do not begin at multiples of 16 bytes. The copy
 * engine cannot read them, so threads copy them two, four or eight bytes at a time.
 *
 * If such a factor cannot have a pitch (pitch.h), because it is an argument, a parameter or a
 * result of the entry, a kernel copies it first, if the model of products predicts that this costs
 * less than the copies by threads. The copy then gets a pitch. A tensor that the entry only reads
 * is copied once (tsched-hoist).
 */
#ifndef TSR_COMPILER_TILE_GPU_RELAYOUT_H
#define TSR_COMPILER_TILE_GPU_RELAYOUT_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/region.h"

/* Runs before tsched-hoist and tsr_gpu_choose_pitches. Only for native numerics. */
TSR_RESULT tsr_gpu_relayout_factors(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                    tsr_arena *arena);

#endif
