/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by gather and scatters: their shapes as seen from the axis.
 */
#ifndef TSR_COMPILER_TILE_KERNELS_GATHER_H
#define TSR_COMPILER_TILE_KERNELS_GATHER_H

#include "compiler/tile/kernels/runs.h"

/* x is [outer, size, inner], there are `count` indices, and the gathered or scattered elements are
 * [outer, count, inner]. */
typedef struct tsr_gather {
    tsr_tile_group *group;
    tsr_axis axis;
    int64_t count;
    tsr_dtype dtype, index_dtype;
    uint32_t input, indices; /* numbers of the arguments */
    MlirOperation fill;      /* not null: a scatter's input is this constant, of one value */
    MlirValue valid;
} tsr_gather;

TSR_RESULT tsr_gather_read(tsr_tile_group *group, tsr_gather *out_gather);
MlirValue tsr_gather_fill_value(tsr_tile_builder *b, const tsr_gather *g); /* a scalar */
/* True if an update replaces what it is scattered to. */
bool tsr_scatter_sets(const tsr_gather *g);
/* What the scatter makes of an element and one update of it, not yet rounded. */
MlirValue tsr_scatter_combine(tsr_tile_builder *b, const tsr_gather *g, MlirValue element,
                              MlirValue update);

#endif
