/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of words: each holds four bytes that are neighbours along the contracted dim (see
 * graph/ops/integer.c). tile.dot_bytes multiplies the bytes of two words and adds the products, so
 * that words take the place of elements in every product. Sums are i32 and wrap: their order does
 * not matter.
 */
#ifndef TSR_COMPILER_TILE_PRODUCTS_WORDS_H
#define TSR_COMPILER_TILE_PRODUCTS_WORDS_H

#include "compiler/tile/products/gemm.h"

enum { TSR_WORD_BYTES = 4 };

/* The words of a matmul or conv2d: those of ui32 consist of ui8. `is` false: the product is one of
 * elements. */
tsr_gemm_words tsr_words_of(MlirOperation product);

/* sum + the products of the bytes of a and b. */
MlirValue tsr_words_dot(tsr_tile_builder *b, const tsr_gemm_words *words, MlirValue x, MlirValue y,
                        MlirValue sum);

/* Packs like tsr_gemm_pack_rows, to words from `rows` rows of bytes: `count` refers to words. */
void tsr_words_pack_rows(tsr_tile_builder *b, const tsr_gemm_pack *pack, int64_t rows);

#endif
