/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of products on matrix units whose rows begin at no multiples of 16 bytes: the copy engine
 * takes none of them, and threads copy them two, four or eight bytes at a time.
 *
 * Where such a factor is no tensor that could have a pitch (pitch.h), as an argument, a parameter
 * or what leaves the entry, a kernel copies it first, if the model of products says that this is
 * less work than what threads would do; what it writes then gets a pitch. What an entry only reads
 * is copied once (tsched-hoist).
 */
#ifndef TSR_COMPILER_TILE_GPU_RELAYOUT_H
#define TSR_COMPILER_TILE_GPU_RELAYOUT_H

#include "compiler/tile/region.h"

/* Before tsched-hoist and tsr_gpu_choose_pitches. For native numerics alone. */
TSR_RESULT tsr_gpu_relayout_factors(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                    tsr_arena *arena);

#endif
