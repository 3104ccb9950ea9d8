/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of attention on the matrix units of a GPU, for bundles whose numerics are "native": no
 * mask, as many queries as keys, a multiple of 128, all of bf16 or f16, heads of 64 or
 * 128 numbers, all of one size, dropout of at most 0.96875. Three kernels with wgmma (sm_90a):
 *
 *     rows   of each query what scores begin with: its logarithm over -scale, and less the sum of
 *            its result's gradient times its result (times 1 - dropout); counts of what has been
 *            added are 0
 *     tiles  tile.attend "backward"
 *     cast   the sum of the query's gradient times the scale (over 1 - dropout)
 *
 * And with mma.sync:
 *
 *     rows     the same without counts
 *     keys     tile.attend "backward_keys"
 *     queries  tile.attend "backward_queries"
 *
 * Numerics: those of tile.attend; the first sum is over 8 numbers of a lane (numbers 32 apart,
 * where heads lie side by side), then over lanes, as a tree. The bits do not depend on when
 * programs run.
 */
#ifndef TSR_COMPILER_TILE_GPU_ATTENTION_GRAD_H
#define TSR_COMPILER_TILE_GPU_ATTENTION_GRAD_H

#include "compiler/tile/sequence.h"

/* *out_taken false: the group is none that this family takes. Else the kernels that it becomes;
 * what the sequence refers to lies in the group's arena. */
TSR_RESULT tsr_tile_plan_attend_grad(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                     bool *out_taken);

/* Would it be taken? Nothing is written. */
TSR_RESULT tsr_tile_can_attend_grad(tsr_tile_group *group, bool *out_taken);

#endif
