/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of attributes by which Tile IR tells code generation how to compile a kernel, and the
 * layout of the heads of tile.attend.
 */
#ifndef TSR_COMPILER_TILE_ATTRIBUTES_H
#define TSR_COMPILER_TILE_ATTRIBUTES_H

#include "compiler/ir/mlir.h"

/* math.exp: its operand is below 40 or NaN. Changes no bit of the result. */
#define TSR_BELOW_40_NAME "tile.below_40"
/* math.exp: its operand is x - m, or NaN; m is at most slightly smaller than x, so the operand is
 * always below 40. In f32 the error is at most 2.3 units in the last place plus 0.05 |x| units, and
 * the result is 0 where it would be below 2^-126. */
#define TSR_SHIFTED_NAME "tile.shifted"

/* Ops of dialect math: the device's own approximation is sufficient. */
#define TSR_APPROXIMATE_NAME "tile.approximate"

/* tile.func on a GPU: a product and the sum that uses it may be one FMA. */
#define TSR_CONTRACT_NAME "tile.contract"

/* arith.truncf from f32: its operand is not a denormal number. Changes no bit of the result. */
#define TSR_NORMAL_NAME "tile.normal"

/* arith.extf, with any number: the conversion is executed at this point, possibly again, so that
 * lanes keep the operand and not the result. */
#define TSR_AGAIN_NAME "tile.again"

/* scf.for: only a few programs enter the loop. The code may be slow but must use few registers.
 * Changes no bit of a result. */
#define TSR_RARE_NAME "tile.rare"

/* tile.load or tile.store on a warp, of a vector of whole multiples of 256 elements, at an address
 * that is a multiple of 8 elements or of 16 bytes: the elements have a blocked arrangement, 8
 * consecutive ones in each lane, so that each lane moves 16 bytes at a time (8 elements of one
 * byte). This order permutes the vector's elements: element i is number i / 32 of lane i % 32. This
 * is correct if all vectors that are combined have the same permutation. A mask has it, too, and
 * then ends at a multiple of 8 elements: an access with another mask is not permuted. */
#define TSR_BLOCKED_NAME "tile.blocked"
enum { TSR_BLOCKED_ELEMENTS = 256, TSR_BLOCKED_RUN = 8 };

/* tile.local of a GPU: each lane has its own part. tile.fetch fills it, and a blocked tile.load of
 * a vector reads it; the vector begins at a multiple of its size. */
#define TSR_OWN_NAME "tile.own"

/* tile.func without warps on a GPU: W = 2 to 32 warps run one program together. Statements about a
 * warp's 32 lanes then apply to 32 W lanes: a blocked vector has whole multiples of 256 W elements.
 * Elements keep their lanes except in vector.reduction, and local buffers belong to lanes. */
#define TSR_COOPERATIVE_NAME "tile.cooperative"
enum { TSR_COOPERATIVE_MAX = 32 };

/* tile.func without warps on a GPU: n = 2 to 15, a divisor of its grid. Programs n i to n i + n - 1
 * share a block, and may exchange values by tile.add_programs. */
#define TSR_BLOCK_PROGRAMS_NAME "tile.block_programs"
enum { TSR_BLOCK_PROGRAMS_MAX = 15 };

/* tile.gather in tile.map: a lane gathers elements 2 i and 2 i + 1 of the buffer; if the result is
 * not stored, any two such elements near the first. */
#define TSR_PAIRS_NAME "tile.pairs"

/* tile.func with warps: 2 if a block runs two programs concurrently, which take turns at their one
 * loop of products. No result depends on it. */
#define TSR_TEAMS_NAME "tile.teams"

/* tile.func: the sizes of its tiles, if there was a choice. */
#define TSR_TILE_NAME "tile"

/* tile.func without warps, while tiles are chosen: smaller tiles exist, for fewer registers. */
#define TSR_CHOICES_NAME "tile.choices"

/* tile.func with warps: n of 2 to 8; programs n i to n i + n - 1 run at the same time on
 * neighbours. The grid is a multiple of n. tile.async_copy, [count, stride]: `count` of these
 * programs, with numbers `stride` apart, copy the same part. */
#define TSR_TOGETHER_NAME "tile.together"
enum { TSR_TOGETHER_MAX = 8 };
#define TSR_SHARED_NAME "tile.shared"

/* Loop of a tile.func with warps: in this number of the loop's last iterations, warp groups
 * multiply one after the other, so that each group but the last one may continue while the later
 * groups multiply. Needs more stages than that, and at least twice as many iterations as stages. No
 * result depends on it. */
#define TSR_TAIL_NAME "tile.tail"

/* tile.attend: for each of its buffers the first column of adjacent heads: head h of batch b is in
 * rows b of a buffer [B, S, columns], from column `first` + h D on; -1: heads are a separate
 * dimension, [B H, S, D]. Followed by [H, G, D]: the heads of a batch's queries, of its keys, and
 * the head dimension. */
#define TSR_SIDES_NAME "tile.sides"
#define TSR_HEADS_NAME "tile.heads"

/* tsched.call: its single result is stored in operand number n; the kernel writes a part of that
 * buffer. */
#define TSR_OVER_NAME "tile.over"

/* The layout of the heads in a tile.attend's buffer. */
typedef struct tsr_heads {
    int64_t first; /* column; -1: heads are a dimension */
    int64_t count; /* heads of a batch */
    int64_t d;     /* head dimension */
} tsr_heads;
/* The layout of this buffer of a tile.attend. */
tsr_heads tsr_attend_heads(MlirOperation attend, size_t buffer);
/* Dimension `d` of the buffer as [heads, rows, numbers]. */
int64_t tsr_attend_dim(MlirOperation attend, size_t buffer, intptr_t d);
/* Checks the rules of both attributes; reports errors at the op. */
bool tsr_attend_check_heads(MlirOperation attend);
/* The number of its buffers without the buffers of dropout. With `dropout`, three such buffers
 * follow the others. */
size_t tsr_attend_buffers(MlirOperation attend);
/* Does dropout support this number of queries and keys? */
bool tsr_attend_can_drop(double rate, int64_t queries, int64_t keys);
bool tsr_attend_check_samples(MlirOperation attend); /* checks their rules */
enum { TSR_HEADS_UNIT = 8 }; /* elements: unit of the first column and of the row length */

#endif
