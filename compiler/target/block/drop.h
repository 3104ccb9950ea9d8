/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout of the weights of tile.attend, with the numbering of compiler/ir/samples.h: words of
 * Philox in the registers of a fragment, each drawn once.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_DROP_H
#define TSR_COMPILER_TARGET_BLOCK_DROP_H

#include "compiler/target/block/block.h"

enum { TSR_DROP_WORDS = 4, TSR_DROP_ROUNDS = 10 };

typedef struct tsr_drop {
    bool some;         /* the op has dropout; otherwise no field below is set */
    double left;       /* 1 - rate: the divisor of weights that are not dropped */
    int64_t threshold; /* weights with lower numbers are dropped */
    uint32_t tile_row; /* number of counters of a row of tiles */
    int64_t stream;
    uint64_t head_counters;
    /* i32: the values of the rounds that a head shares */
    LLVMValueRef keys[TSR_DROP_ROUNDS], first, second, third, fourth, fifth;
} tsr_drop;

/* Reads the attributes of the op. */
tsr_drop tsr_block_read_drop(MlirOperation attend);
/* Loads the random state of `head` (i32) before its queries are computed. `reload`: load exactly
 * here, because an earlier load would occupy registers. */
void tsr_block_begin_drop(tsr_emit *emit, MlirOperation attend, tsr_drop *drop, LLVMValueRef head,
                          bool reload);
/* Draws the words of a counter (i32) of the head. */
void tsr_block_draw(tsr_emit *emit, const tsr_drop *drop, LLVMValueRef counter,
                    LLVMValueRef out_words[static TSR_DROP_WORDS]);
/* Forward: the mask of a pair of 16-bit weights: all bits of weights that are not dropped are 1.
 * `word` has their numbers. */
LLVMValueRef tsr_block_drop_mask(tsr_emit *emit, const tsr_drop *drop, LLVMValueRef word);
/* Transposed: a lane has queries 2 (lane % 4) and the next one, and key lane / 4 of eight. Draw the
 * words of counter tsr_block_transposed_counter (of the tile). After tsr_block_transpose_words a
 * lane has the numbers of its own weights: word w has the numbers of both queries. */
LLVMValueRef tsr_block_transposed_counter(tsr_emit *emit);
void tsr_block_transpose_words(tsr_emit *emit, LLVMValueRef words[static TSR_DROP_WORDS]);

#endif
