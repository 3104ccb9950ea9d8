/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bf16 by dot products, for bundles whose numerics are "native" on CPUs that have them
 * (has_dot of targets.def). These products work like gemm.h, with pairs of k instead of single k. A
 * step has two rows of B and two columns of A; elements k and k + 1 of one column are adjacent, as
 * tile.dot expects them,
 *
 *     for step: for each row i, vector v:
 *         c[i][v] = dot(a[i][2 step, 2 step + 1], b[step][v], c[i][v])
 *
 * If K is odd, the last pair ends in a zero, in A and in B, so the elements after A are not
 * multiplied.
 *
 * Numerics: an element is c = fma(a[k], b[k], fma(a[k + 1], b[k + 1], c)) for k = 0, 2, 4 ... from
 * c = 0, for every tile, grid and number of threads. Denormal numbers of A, of B and of either sum
 * count as zero. The result is rounded to bf16 once. If the epilogue of such a kernel rounds other
 * values to bf16, denormal results become zero.
 */
#ifndef TSR_COMPILER_TILE_PRODUCTS_DOT_H
#define TSR_COMPILER_TILE_PRODUCTS_DOT_H

#include "compiler/tile/products/gemm.h"

enum { TSR_DOT_PAIR = 2 }; /* elements of K in a step */

/* True if this product is computed by dot products. */
bool tsr_dot_takes(const tsr_tile_group *group, const tsr_gemm_operand *a,
                   const tsr_gemm_operand *b);

/* Multiplies like tsr_gemm_multiply, with pairs: a_step, b_step and b_vectors refer to steps and
 * pairs, in elements. There are `count` steps, at least one if the tile is `odd`. */
void tsr_dot_multiply(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue count,
                      MlirValue *accumulators);

/* Rounds sums of tsr_dot_multiply to bf16. */
MlirValue tsr_dot_round(tsr_tile_builder *b, MlirValue sums);
/* Marks all roundings to bf16 in a kernel with dot products, so that the CPU's instruction does
 * them. */
void tsr_dot_round_all(tsr_tile_builder *b, MlirBlock block);

/* Rounds two vectors of sums and stores them interleaved, as a pair of K for each lane. */
void tsr_dot_store_pairs(tsr_tile_builder *b, const MlirValue *sums, uint32_t lanes, MlirValue to,
                         MlirValue at);

/* Pack like the functions of gemm.h, from bf16 to pairs: `count` and `to_step` refer to steps,
 * to_step and to_tile are in elements, from_step refers to single rows or columns. `odd`: the last
 * step has one row. */
void tsr_dot_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *pack, bool odd);
void tsr_dot_pack_columns(tsr_tile_builder *b, const tsr_gemm_pack *pack, bool odd);
void tsr_dot_pack_a(tsr_tile_builder *b, const tsr_gemm_pack_tiles *pack, bool odd);

#endif
