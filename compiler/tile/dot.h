/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bf16 by dot products, for bundles whose numerics are "native" on CPUs that have them
 * (has_dot of targets.def): gemm.h with pairs of k in the place of k. A step is two rows of B and
 * two columns of A; element k and k + 1 of one column lie side by side, as tile.dot takes them,
 *
 *     for step: for each row i, vector v: c[i][v] = dot(a[i][2 step, 2 step + 1], b[step][v],
 * c[i][v])
 *
 * Where K is odd the last pair ends in a zero, in A and in B: what lies behind A is not multiplied.
 *
 * Numerics: an element is c = fma(a[k], b[k], fma(a[k + 1], b[k + 1], c)) for k = 0, 2, 4 ... from
 * c = 0, whatever the tile, the grid and the number of threads; denormal numbers of A, B and of
 * either sum are taken for zero. The result is rounded to bf16 once. What else such a kernel rounds
 * to bf16, in its epilogue, becomes zero where it is a denormal number.
 */
#ifndef TSR_COMPILER_TILE_DOT_H
#define TSR_COMPILER_TILE_DOT_H

#include "compiler/tile/gemm.h"

enum { TSR_DOT_PAIR = 2 }; /* elements of K in a step */

/* Are dot products to compute this product? */
bool tsr_dot_takes(const tsr_tile_group *group, const tsr_gemm_operand *a,
                   const tsr_gemm_operand *b);

/* As tsr_gemm_multiply, of a tile with `pairs`: a_step, b_step and b_vectors are of steps and of
 * pairs, in elements. `count` steps, at least one where the tile is `odd`. */
void tsr_dot_multiply(tsr_tile_builder *b, const tsr_gemm_tile *tile, MlirValue count,
                      MlirValue *accumulators);

/* Sums as tsr_dot_multiply leaves them, rounded to bf16. */
MlirValue tsr_dot_round(tsr_tile_builder *b, MlirValue sums);
/* All that a kernel with dot products rounds to bf16 is rounded by the CPU's instruction. */
void tsr_dot_round_all(tsr_tile_builder *b, MlirBlock block);

/* Rounds two vectors of sums and stores them side by side, as a pair of K for each lane. */
void tsr_dot_store_pairs(tsr_tile_builder *b, const MlirValue *sums, uint32_t lanes, MlirValue to,
                         MlirValue at);

/* As the functions of gemm.h, of bf16 to pairs of it: `count` and `to_step` are of steps, to_step
 * and to_tile in elements, from_step of single rows, or columns. `odd`: the last step has one row.
 */
void tsr_dot_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *pack, bool odd);
void tsr_dot_pack_columns(tsr_tile_builder *b, const tsr_gemm_pack *pack, bool odd);
void tsr_dot_pack_a(tsr_tile_builder *b, const tsr_gemm_pack_tiles *pack, bool odd);

#endif
