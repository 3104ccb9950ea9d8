/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of several segments: many calls of one elementwise expression, each on its own buffers,
 * become one launch. See compiler/schedule/passes/batch.c, which makes the groups, and
 * tile.segment.
 */
#ifndef TSR_COMPILER_TILE_SEGMENTS_SEGMENTS_H
#define TSR_COMPILER_TILE_SEGMENTS_SEGMENTS_H

#include "compiler/tile/region.h"

/* Family `batch`: the largest segment is the group's first. */
TSR_RESULT tsr_tile_lower_batch(tsr_tile_group *group);

#endif
