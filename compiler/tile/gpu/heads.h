/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of attention where they lie: in a group that reads them through slice, reshape and
 * transpose, and gives them through transpose, reshape and concat, they are columns side by side of
 * its arguments, and nothing is moved.
 */
#ifndef TSR_COMPILER_TILE_GPU_HEADS_H
#define TSR_COMPILER_TILE_GPU_HEADS_H

#include "compiler/tile/attention/attention.h"
#include "compiler/tile/region.h"

enum { TSR_GPU_HEADS_DIM = 1 }; /* heads [B, H, S, D] and rows [B, S, H, D] swap from it on */

typedef struct tsr_gpu_heads {
    uint32_t argument;          /* of the group: an input, or behind the inputs an output */
    tsr_heads sides;            /* see target.h */
    int64_t batch, rows, width; /* side by side: the argument is [batch, rows, width] */
} tsr_gpu_heads;

/* Does the op only move elements: one that heads are read or given through? */
bool tsr_gpu_is_move(MlirOperation op);
/* Swaps rows and heads. */
bool tsr_gpu_is_heads_transpose(MlirOperation op);
/* The columns of a tensor [B, S, W] that a slice takes; false: other dims are cut, or what copies
 * cannot begin at. */
bool tsr_gpu_slice_columns(MlirOperation slice, int64_t *out_first);

/* Operand and result `index` of the group's root. Asserts that it is one that tsr_gpu_join_heads
 * makes, or an argument or result of the group itself. What nothing uses is given to argument
 * UINT32_MAX. */
tsr_gpu_heads tsr_gpu_heads_read(const tsr_tile_group *group, size_t index);
tsr_gpu_heads tsr_gpu_heads_given(const tsr_tile_group *group, size_t index);
/* The buffer as [heads, rows, numbers], or as [batch, rows, width]. `like`: dense, of so many heads
 * and rows. */
MlirValue tsr_gpu_heads_view(tsr_tile_builder *b, MlirValue buffer, const tsr_gpu_heads *heads,
                             int64_t head_count, int64_t rows, int64_t d);
/* Attributes of the tile.attend whose buffers lie so (`first` of each), where some are side by
 * side; how many. */
size_t tsr_gpu_heads_attributes(MlirContext context, const int64_t *firsts, size_t count,
                                const int64_t heads[3], tsr_attr *out_attrs);

/* May chunks of 16 bytes be counted in 32 bits, in each of the group's arguments? tile.attend with
 * mma.sync does. */
bool tsr_gpu_counts_chunks(const tsr_tile_group *group);

/* Is what follows `operands` operands of the group's root nothing but what weights are dropped by,
 * if they are, and can tile.attend drop such? */
bool tsr_gpu_can_drop(const tsr_attention *of, size_t operands);
/* Attributes of a tile.attend whose weights fall; how many. */
size_t tsr_gpu_drop_attributes(MlirContext context, const tsr_attention *of, tsr_attr *out_attrs);

/* join.c: calls of attention and its gradient take and give heads where they lie, where what moves
 * them is moved into their groups; calls and groups that nothing needs any more go. */
TSR_RESULT tsr_gpu_join_heads(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                              tsr_arena *arena);

#endif
