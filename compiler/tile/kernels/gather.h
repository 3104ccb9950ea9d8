/* SPDX-License-Identifier: Apache-2.0
 *
 * What gather and scatter_add share: the shapes of both seen from the axis.
 */
#ifndef TSR_COMPILER_TILE_KERNELS_GATHER_H
#define TSR_COMPILER_TILE_KERNELS_GATHER_H

#include "compiler/tile/kernels/runs.h"

/* x is [outer, size, inner], there are `count` indices, and what is gathered or scattered is
 * [outer, count, inner]. */
typedef struct tsr_gather {
    tsr_tile_group *group;
    tsr_axis axis;
    int64_t count;
    tsr_dtype dtype, index_dtype;
    uint32_t input, indices; /* numbers of the arguments */
    MlirOperation fill;      /* not null: scatter_add's input is this constant, of one value */
    MlirValue valid;
} tsr_gather;

TSR_RESULT tsr_gather_read(tsr_tile_group *group, tsr_gather *out_gather);
MlirValue tsr_gather_fill_value(tsr_tile_builder *b, const tsr_gather *g); /* a scalar */

#endif
