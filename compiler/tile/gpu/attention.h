/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention on the matrix units of a GPU, for bundles whose numerics are "native". Supported: no
 * mask; query, key and value of bf16 or f16; heads of 64 or 128 numbers, all of the same size;
 * dropout of at most 0.96875.
 *
 * tile.attend (tile.td) states the numerics. The bits depend on the tile, which follows from the
 * shapes.
 */
#ifndef TSR_COMPILER_TILE_GPU_ATTENTION_H
#define TSR_COMPILER_TILE_GPU_ATTENTION_H

#include "compiler/tile/region.h"

/* *out_taken is false if this family cannot lower the group; nothing was written then. */
TSR_RESULT tsr_tile_lower_attend(tsr_tile_group *group, bool *out_taken);

/* Tells whether the group would be taken. Nothing is written. */
TSR_RESULT tsr_tile_can_attend(tsr_tile_group *group, bool *out_taken);

#endif
