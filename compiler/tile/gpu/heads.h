/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts of attention's heads. In a group that reads heads through slice, reshape and
 * transpose, and returns them through transpose, reshape and concat, the heads are adjacent columns
 * of the group's arguments, and no element is moved.
 */
#ifndef TSR_COMPILER_TILE_GPU_HEADS_H
#define TSR_COMPILER_TILE_GPU_HEADS_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/region.h"

enum { TSR_GPU_HEADS_DIM = 1 }; /* [B, H, S, D] and [B, S, H, D] swap it and the next */

typedef struct tsr_gpu_heads {
    uint32_t argument;          /* index in the group's arguments: the inputs, then the outputs */
    tsr_heads sides;            /* see target.h */
    int64_t batch, rows, width; /* sizes of the argument, if heads are its columns */
} tsr_gpu_heads;

/* True if the op only moves elements, so that heads may be read or returned through it. */
bool tsr_gpu_is_move(MlirOperation op);
/* Swaps rows and heads. */
bool tsr_gpu_is_heads_transpose(MlirOperation op);
/* Finds the columns of a tensor [B, S, W] that a slice takes. False if the slice cuts other dims,
 * or begins at a column where copies cannot begin. */
bool tsr_gpu_slice_columns(MlirOperation slice, int64_t *out_first);

/* Describe operand and result `index` of the group's root. Both functions assert that the value is
 * an argument or result of the group, directly or through the moves that tsr_gpu_fuse_heads adds.
 * An unused result has argument UINT32_MAX. */
tsr_gpu_heads tsr_gpu_heads_read(const tsr_tile_group *group, size_t index);
tsr_gpu_heads tsr_gpu_heads_given(const tsr_tile_group *group, size_t index);
/* Views the buffer as [heads, rows, numbers], or as [batch, rows, width] if heads are adjacent
 * columns. `head_count`, `rows` and `d` are the sizes of the first form. */
MlirValue tsr_gpu_heads_view(tsr_tile_builder *b, MlirValue buffer, const tsr_gpu_heads *heads,
                             int64_t head_count, int64_t rows, int64_t d);
/* Writes the attributes of a tile.attend if some of its buffers have heads in adjacent columns;
 * `firsts` has the first column of each buffer, or -1. Returns the number of attributes. */
size_t tsr_gpu_heads_attributes(MlirContext context, const int64_t *firsts, size_t count,
                                const int64_t heads[3], tsr_attr *out_attrs);

/* True if the number of 16-byte chunks fits 32 bits in each of the group's arguments. tile.attend
 * with mma.sync counts them in 32 bits. */
bool tsr_gpu_counts_chunks(const tsr_tile_group *group);

/* True if the root's operands after the first `operands` are exactly the samples of the dropout (no
 * operands without dropout), and tile.attend supports this dropout. */
bool tsr_gpu_can_drop(const tsr_attention *of, size_t operands);
/* Writes the dropout attributes of a tile.attend and returns their number; 0 without dropout. */
size_t tsr_gpu_drop_attributes(MlirContext context, const tsr_attention *of, tsr_attr *out_attrs);

/* fuse_heads.c: moves the ops that slice, transpose and concatenate heads into the groups of
 * attention and of its gradient, so that their calls take and return heads in their stored layout.
 * Calls and groups that become unused are removed. */
TSR_RESULT tsr_gpu_fuse_heads(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                              tsr_arena *arena);

#endif
