/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions of many rows as two kernels: partial results, of which each is a warp's, or some are a
 * program's, and what they come to.
 */
#ifndef TSR_COMPILER_TILE_REDUCE_PARTS_H
#define TSR_COMPILER_TILE_REDUCE_PARTS_H

#include "compiler/tile/sequence.h"

/* *out_taken: false where one kernel will do, or must. */
TSR_RESULT tsr_tile_plan_reduce(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                bool *out_taken);

#endif
