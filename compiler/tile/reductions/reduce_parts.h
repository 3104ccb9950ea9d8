/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions of many rows as two kernels: the first kernel computes partial results (one for each
 * warp, or several for each program), and the second kernel combines them.
 */
#ifndef TSR_COMPILER_TILE_REDUCTIONS_REDUCE_PARTS_H
#define TSR_COMPILER_TILE_REDUCTIONS_REDUCE_PARTS_H

#include "compiler/tile/sequence.h"

/* *out_taken is false if one kernel is enough or necessary. */
TSR_RESULT tsr_tile_plan_reduce(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                bool *out_taken);

#endif
