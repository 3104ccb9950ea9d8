/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of several ops as one group for each op: kernels with extents fuse less.
 */
#ifndef TSR_COMPILER_TILE_OPEN_SPLIT_H
#define TSR_COMPILER_TILE_OPEN_SPLIT_H

#include "compiler/ir/mlir.h"

typedef struct tsr_open_parts {
    MlirOperation *calls; /* in the arena, in the order of the ops */
    size_t count;
} tsr_open_parts;

/* Replaces the call by calls of groups of one op each, and destroys it. The groups are clones of
 * its group (tsr_clone_add). */
TSR_RESULT tsr_open_split(tsr_ctx *ctx, tsr_arena *arena, MlirModule module, MlirOperation call,
                          tsr_open_parts *out_parts);

#endif
