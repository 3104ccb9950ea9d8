/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of tile.attend that fall, as compiler/samples.h numbers them: words of Philox in the
 * registers of a fragment, each once.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_DROP_H
#define TSR_COMPILER_TARGET_BLOCK_DROP_H

#include "compiler/target/block/block.h"

enum { TSR_DROP_WORDS = 4, TSR_DROP_ROUNDS = 10 };

typedef struct tsr_drop {
    bool some;         /* else nothing below is set */
    double left;       /* 1 - rate: what weights that stay are divided by */
    int64_t threshold; /* weights of lower numbers fall */
    uint32_t tile_row; /* counters of the tiles that lie side by side */
    int64_t stream;
    uint64_t head_counters;
    /* i32: what rounds begin with, of a head */
    LLVMValueRef keys[TSR_DROP_ROUNDS], first, second, third, fourth, fifth;
} tsr_drop;

/* What the op says. */
tsr_drop tsr_block_read_drop(MlirOperation attend);
/* Where computing of the queries of `head` (i32) begins: reads what is drawn by. `anew`: here and
 * not before, where it would take registers. */
void tsr_block_begin_drop(tsr_emit *emit, MlirOperation attend, tsr_drop *drop, LLVMValueRef head,
                          bool anew);
/* The words of a counter of the head (i32). */
void tsr_block_draw(tsr_emit *emit, const tsr_drop *drop, LLVMValueRef counter,
                    LLVMValueRef out_words[static TSR_DROP_WORDS]);
/* Forward: bits of a pair of 16-bit weights that stay are 1, others 0. `word` has their numbers. */
LLVMValueRef tsr_block_drop_mask(tsr_emit *emit, const tsr_drop *drop, LLVMValueRef word);
/* Transposed: a lane has queries 2 (lane % 4) and the next one, and key lane / 4 of eight. It takes
 * the words of counter tsr_block_transposed_counter (of the tile), and gets the numbers of its own
 * weights: word w, those of both queries. */
LLVMValueRef tsr_block_transposed_counter(tsr_emit *emit);
void tsr_block_transpose_words(tsr_emit *emit, LLVMValueRef words[static TSR_DROP_WORDS]);

#endif
