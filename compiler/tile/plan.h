/* SPDX-License-Identifier: Apache-2.0
 *
 * How the families of kernels choose sizes.
 */
#ifndef TSR_COMPILER_TILE_PLAN_H
#define TSR_COMPILER_TILE_PLAN_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/region.h"

/* A family's choice. `group` has been read, its block is open, and `given` are the sizes that the
 * schedule gives. Sets the kind, the sizes and candidates of the tiling; leaves the kind as it is
 * if there is nothing to choose. If no kernel has the given sizes, the kind is set and the group
 * has a refusal. */
typedef TSR_RESULT (*tsr_tile_choose)(tsr_tile_group *group, tsr_tiling *tiling);

/* One function per family that has sizes to choose. */
TSR_RESULT tsr_matmul_choose(tsr_tile_group *group, tsr_tiling *tiling);
/* Products on matrix units; the kind stays as it is if they cannot compute the group. */
TSR_RESULT tsr_product_choose(tsr_tile_group *group, tsr_tiling *tiling);

#endif
