/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_add and scatter on a GPU, as a sequence of kernels: the list of indices is sorted so that
 * the updates of each row of the result are adjacent, and each row has its own programs.
 */
#ifndef TSR_COMPILER_TILE_KERNELS_SCATTER_H
#define TSR_COMPILER_TILE_KERNELS_SCATTER_H

#include "compiler/tile/kernels/gather.h"
#include "compiler/tile/sequence.h"

/* *out_taken: false if a single kernel suffices or is required. */
TSR_RESULT tsr_tile_plan_scatter(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                 bool *out_taken);

#endif
