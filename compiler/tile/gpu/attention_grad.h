/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of attention on the matrix units of a GPU, for bundles whose numerics are "native".
 * Supported: no mask; as many queries as keys, a multiple of 128; all of bf16 or f16; heads of 64
 * or 128 numbers, all of the same size; dropout of at most 0.96875. Three kernels with wgmma
 * (sm_90a):
 *
 *     rows   for each query the initial values of the scores: its logarithm over -scale, and minus
 *            the sum of its result's gradient times its result (times 1 - dropout); sets the
 *            counts of added parts to 0
 *     tiles  tile.attend "backward"
 *     cast   the sum of the query's gradient times the scale (over 1 - dropout)
 *
 * Three kernels with mma.sync:
 *
 *     rows     the same without counts
 *     keys     tile.attend "backward_keys"
 *     queries  tile.attend "backward_queries"
 *
 * tile.attend (tile.td) states the numerics. The first sum is over 8 numbers of a lane (32 numbers
 * apart, if heads are adjacent columns), then over lanes, as a tree. The bits do not depend on the
 * order in which programs run.
 */
#ifndef TSR_COMPILER_TILE_GPU_ATTENTION_GRAD_H
#define TSR_COMPILER_TILE_GPU_ATTENTION_GRAD_H

#include "compiler/tile/sequence.h"

/* *out_taken is false if this family cannot lower the group. Otherwise *out_sequence describes the
 * kernels of the group; the group's arena owns the data that the sequence refers to. */
TSR_RESULT tsr_tile_plan_attend_grad(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                     bool *out_taken);

/* Tells whether the group would be taken. Nothing is written. */
TSR_RESULT tsr_tile_can_attend_grad(tsr_tile_group *group, bool *out_taken);

#endif
