/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_add on a GPU, as a sequence of kernels: the list of indices is sorted, so that each row
 * of the result has its updates side by side, and rows are summed up by programs of their own.
 */
#ifndef TSR_COMPILER_TILE_KERNELS_SCATTER_H
#define TSR_COMPILER_TILE_KERNELS_SCATTER_H

#include "compiler/tile/kernels/gather.h"
#include "compiler/tile/sequence.h"

/* *out_taken: false where one kernel will do, or must. */
TSR_RESULT tsr_tile_plan_scatter_add(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                     bool *out_taken);

#endif
