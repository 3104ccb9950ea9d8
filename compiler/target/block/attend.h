/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.attend "forward": declarations shared by the code with wgmma (attend.c) and with mma.sync
 * (attend_sync.c). A thread's part of 16 rows of scores is in registers with the order of
 * tsr_layout, for one row block.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_ATTEND_H
#define TSR_COMPILER_TARGET_BLOCK_ATTEND_H

#include "compiler/target/block/block.h"
#include "compiler/target/block/drop.h"
#include "compiler/target/block/sizes.h"
#include "compiler/tile/attributes.h"

enum {
    TSR_ATTEND_REGISTERS_MAX = 128, /* scores or sums of the result, per row block */
    TSR_ATTEND_RESULT = 3,          /* number of its buffer */
};

typedef struct tsr_attend {
    tsr_emit *emit;
    MlirOperation op;
    const tsr_ring *query_ring, *key_ring, *result_ring; /* result_ring: with wgmma only */
    MlirType element;
    int64_t queries, keys, d;
    uint32_t buffers; /* including the buffers of dropout */
    tsr_drop drop;
    bool causal, masks; /* masks: some block may need a mask */
    bool masks_more;    /* blocks other than the first one may need a mask */
    double scale;
    LLVMTypeRef f32;
    LLVMValueRef head, group, row, blocks, whole; /* i32, same for the whole tile */
    LLVMValueRef column;                          /* i32: the thread's first column in a block */
} tsr_attend;

/* 16 queries of a warp. */
typedef struct tsr_attend_rows {
    LLVMValueRef first;   /* i32: the thread's first row */
    LLVMValueRef counter; /* i32: counter of its first weights, with dropout */
    LLVMValueRef highest[HALVES], total[HALVES]; /* memory: running maximum and sum */
} tsr_attend_rows;

/* Reads the attributes and types of the op. */
tsr_attend tsr_block_read_attend(tsr_emit *emit, MlirOperation op);
/* Finds the number of blocks of keys that the tile's queries see, and the number that its first
 * query sees completely. A tile that sees no key uses its first block. */
void tsr_block_find_keys(tsr_attend *attend);
/* The rows of the warp, beginning at query `row` (i32). Also sets the thread's column and the
 * dropout counter. */
tsr_attend_rows tsr_block_locate_rows(const tsr_attend *attend, LLVMValueRef row);
void tsr_block_locate_column(tsr_attend *attend);
/* Sets scores to -inf where a query does not see a key of block `block` (i32). */
void tsr_block_mask_scores(const tsr_attend *attend, const tsr_attend_rows *rows,
                           LLVMValueRef block, LLVMValueRef *scores);
/* Turns the scores of a row half into weights. Returns the factor for the previous sums, NULL in
 * the first block. */
LLVMValueRef tsr_block_soften(const tsr_attend *attend, const tsr_attend_rows *rows, unsigned half,
                              LLVMValueRef *scores, bool first);
/* Converts the weights of the block to pairs; dropped weights become 0. */
void tsr_block_store_weights(const tsr_attend *attend, const tsr_attend_rows *rows,
                             LLVMValueRef block, LLVMValueRef *scores, LLVMValueRef *out_pairs);
/* Called after the last block. Returns the factor for the sums of the result. Stores the logarithm
 * if the op has a buffer for it. */
LLVMValueRef tsr_block_end_rows(const tsr_attend *attend, const tsr_attend_rows *rows,
                                unsigned half);

/* attend_sync.c, attend_grad_sync.c: a whole program whose threads do their own copies. */
void tsr_block_emit_attend_sync(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_grad_sync(tsr_emit *emit, MlirOperation op);

#endif
