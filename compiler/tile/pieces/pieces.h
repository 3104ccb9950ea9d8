/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of several pieces: many calls of one elementwise expression, each on buffers of its own,
 * are one launch. See compiler/schedule/batch.c, which makes the groups, and tile.piece.
 */
#ifndef TSR_COMPILER_TILE_PIECES_PIECES_H
#define TSR_COMPILER_TILE_PIECES_PIECES_H

#include "compiler/tile/region.h"

/* Family `batch`: the largest piece is the group's first. */
TSR_RESULT tsr_tile_lower_batch(tsr_tile_group *group);

#endif
