/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops of dialect `tessera` on scalars or vectors: they compute values, without shapes
 * and memory.
 */
#ifndef TSR_COMPILER_TILE_ELEMENTS_ELEMENT_H
#define TSR_COMPILER_TILE_ELEMENTS_ELEMENT_H

#include "compiler/tile/build.h"

enum { TSR_ELEMENT_OPERANDS_MAX = 3 };

bool tsr_element_is(MlirOperation op); /* true if it is elementwise (broadcast is) */
/* Builds the op for operands that all have `lanes` lanes (0: scalars). The op must be
 * elementwise. */
MlirValue tsr_element_build(tsr_tile_builder *b, MlirOperation op, const MlirValue *operands);

/* The parameters of tessera.philox (philox.c). operands: element, step, seed, as i64; `dtype` is
 * the result's: f64 or f32. */
typedef struct tsr_philox {
    int64_t stream, draw;
    bool normal;
    bool shared; /* eight elements share a counter: 15 bits each */
} tsr_philox;
MlirValue tsr_philox_build(tsr_tile_builder *b, const tsr_philox *how, const MlirValue *operands,
                           uint32_t lanes, tsr_dtype dtype);
/* Computes all four words, as i64, of each counter. */
void tsr_philox_words_build(tsr_tile_builder *b, int64_t stream, const MlirValue *operands,
                            uint32_t lanes, MlirValue out_words[static 4]);
/* Builds the numbers of a tessera.philox op. */
MlirValue tsr_element_philox(tsr_tile_builder *b, MlirOperation op, const MlirValue *operands,
                             uint32_t lanes, tsr_dtype dtype);

/* Functions that the reductions share: NaN wins, and ties go to y. */
MlirValue tsr_element_add(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
MlirValue tsr_element_max(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
/* x > y ? x : y */
MlirValue tsr_element_max_number(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
MlirValue tsr_element_min(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
MlirValue tsr_element_mul(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
/* The smallest and largest value of a type (infinities for floats), scalar or vector. */
MlirValue tsr_element_lowest(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
MlirValue tsr_element_highest(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
MlirValue tsr_element_one(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
MlirValue tsr_element_zero(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);

#endif
