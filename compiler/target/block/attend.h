/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.attend "forward": what code with wgmma (attend.c) and with mma.sync (attend_sync.c) share.
 * What a thread has of 16 rows of scores are registers as tsr_layout says, of one row block.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_ATTEND_H
#define TSR_COMPILER_TARGET_BLOCK_ATTEND_H

#include "compiler/target/block/block.h"
#include "compiler/target/block/drop.h"
#include "compiler/target/block/sizes.h"

enum {
    TSR_ATTEND_REGISTERS_MAX = 128, /* of scores or sums of the result, of one row block */
    TSR_ATTEND_RESULT = 3,          /* buffer */
};

typedef struct tsr_attend {
    tsr_emit *emit;
    MlirOperation op;
    const tsr_ring *query_ring, *key_ring, *result_ring; /* the last one with wgmma alone */
    MlirType element;
    int64_t queries, keys, d;
    uint32_t buffers; /* with those that weights are dropped by */
    tsr_drop drop;
    bool causal, masks; /* some block may need a mask */
    bool masks_more;    /* than the first one */
    double scale;
    LLVMTypeRef f32;
    LLVMValueRef head, group, row, blocks, whole; /* i32, of the tile */
    LLVMValueRef column;                          /* i32: the thread's first one, of a block */
} tsr_attend;

/* 16 queries of a warp. */
typedef struct tsr_attend_rows {
    LLVMValueRef first;                          /* i32: the thread's first one */
    LLVMValueRef counter;                        /* i32: of its first weights, if any fall */
    LLVMValueRef highest[HALVES], total[HALVES]; /* memory: scores and weights so far */
} tsr_attend_rows;

/* What the op says. */
tsr_attend tsr_block_read_attend(tsr_emit *emit, MlirOperation op);
/* How many blocks of keys the tile's queries see, and how many of them its first one sees wholly.
 * Of a tile that sees nothing the first block is taken. */
void tsr_block_find_keys(tsr_attend *attend);
/* Rows of the warp, whose first one is query `row` (i32); of the tile: the thread's column, and
 * what weights are dropped by. */
tsr_attend_rows tsr_block_locate_rows(const tsr_attend *attend, LLVMValueRef row);
void tsr_block_locate_column(tsr_attend *attend);
/* -inf where a query does not see a key of block `block` (i32). */
void tsr_block_mask_scores(const tsr_attend *attend, const tsr_attend_rows *rows,
                           LLVMValueRef block, LLVMValueRef *scores);
/* Scores of a row half become weights; what was summed up before is to be multiplied by the result,
 * NULL in the first block. */
LLVMValueRef tsr_block_soften(const tsr_attend *attend, const tsr_attend_rows *rows, unsigned half,
                              LLVMValueRef *scores, bool first);
/* Weights of the block as pairs, those that fall 0. */
void tsr_block_keep_weights(const tsr_attend *attend, const tsr_attend_rows *rows,
                            LLVMValueRef block, LLVMValueRef *scores, LLVMValueRef *out_pairs);
/* Behind the last block: what sums of the result are to be multiplied by. Stores the logarithm,
 * where there is a buffer for it. */
LLVMValueRef tsr_block_end_rows(const tsr_attend *attend, const tsr_attend_rows *rows,
                                unsigned half);

/* attend_sync.c, attend_grad_sync.c: all of a program, where threads copy for themselves. */
void tsr_block_emit_attend_sync(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_grad_sync(tsr_emit *emit, MlirOperation op);

#endif
