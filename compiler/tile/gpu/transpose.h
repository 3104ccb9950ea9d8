/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposes of f32 through shared memory (sm_90a): no element changes.
 */
#ifndef TSR_COMPILER_TILE_GPU_TRANSPOSE_H
#define TSR_COMPILER_TILE_GPU_TRANSPOSE_H

#include "compiler/tile/region.h"

bool tsr_tile_takes_shared_transpose(tsr_tile_group *group);
/* *out_taken is false if this family cannot lower the group; nothing was written then. */
void tsr_tile_lower_shared_transpose(tsr_tile_group *group, bool *out_taken);

#endif
