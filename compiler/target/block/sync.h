/* SPDX-License-Identifier: Apache-2.0
 *
 * For attention with mma.sync: rows of a head to shared memory and back, 16 bytes a thread at a
 * time, by all threads of the block.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_SYNC_H
#define TSR_COMPILER_TARGET_BLOCK_SYNC_H

#include "compiler/target/block/block.h"

/* Copies of a head's rows to matrices of a ring. */
typedef struct tsr_sync_copy {
    const tsr_ring *ring;
    LLVMValueRef buffer;
    LLVMValueRef from;       /* i32: of the head's row 0, the thread's chunk in the buffer */
    LLVMValueRef row, chunk; /* i32: of the matrix, the thread's first row, and chunk of it */
    int64_t rows;            /* of the head */
    int64_t pitch;           /* chunks from row to row */
} tsr_sync_copy;

tsr_sync_copy tsr_sync_locate_copy(tsr_emit *emit, MlirOperation attend, size_t buffer,
                                   LLVMValueRef head, const tsr_ring *ring);
/* Begins to copy rows from `row` (i32) on to the matrix at `to`; those that are not there are 0. */
void tsr_sync_copy_rows(tsr_emit *emit, const tsr_sync_copy *copy, LLVMValueRef to,
                        LLVMValueRef row);
/* What was begun since the last time is a group. */
void tsr_sync_commit(tsr_emit *emit);
/* Until at most `left` groups of each thread are on their way; then all threads have come here, and
 * see what is there. */
void tsr_sync_wait(tsr_emit *emit, uint32_t left);
/* The same where warps come to it at different points of the code, each as often. */
void tsr_sync_wait_apart(tsr_emit *emit, uint32_t left);

/* How a lane reads a matrix by ldmatrix: four of 8 x 8, of which the second and third lie below or
 * beside the first. */
typedef enum tsr_sync_order { TSR_SYNC_BELOW, TSR_SYNC_BESIDE } tsr_sync_order;

/* Where the lane's 16 bytes lie in a matrix, behind row `row` (i32; NULL: 0), a multiple of 8. */
LLVMValueRef tsr_sync_lane(tsr_emit *emit, tsr_sync_order order, LLVMValueRef row);
/* 16 rows x 16 columns of a matrix from there on; `at`: where it begins, and tsr_sync_lane.
 * Each of 8 x 8 transposed. */
void tsr_sync_load(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at, uint32_t row,
                   uint32_t column, bool transposed, LLVMValueRef out[4]);

/* What the warp's lanes have read or written comes before what they read and write for each other
 * from here on. */
void tsr_sync_meet(tsr_emit *emit);
/* 16 rows of a warp from `row` on to the matrix at `to`: `count` pairs, as a fragment's. */
void tsr_sync_put_rows(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef to, LLVMValueRef row,
                       LLVMValueRef *pairs, uint32_t count);
/* A warp's rows, `count` from `row` on, from the matrix at `from` to the head's, whose row number
 * `first` is the matrix's first one. */
void tsr_sync_store_rows(tsr_emit *emit, MlirOperation attend, size_t buffer, LLVMValueRef head,
                         const tsr_ring *ring, LLVMValueRef from, LLVMValueRef row, uint32_t count,
                         LLVMValueRef first);

#endif
