/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies for attention with mma.sync: all threads of the block copy rows of a head to shared memory
 * and back, 16 bytes per thread at a time.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_SYNC_H
#define TSR_COMPILER_TARGET_BLOCK_SYNC_H

#include "compiler/target/block/block.h"

/* Copies of a head's rows to matrices of a ring. */
typedef struct tsr_sync_copy {
    const tsr_ring *ring;
    LLVMValueRef buffer;
    LLVMValueRef from; /* i32: position of the thread's chunk of the head's row 0 in the buffer */
    LLVMValueRef row, chunk; /* i32: the thread's first row and chunk in the matrix */
    int64_t rows;            /* rows of the head */
    int64_t pitch;           /* chunks from row to row */
} tsr_sync_copy;

tsr_sync_copy tsr_sync_locate_copy(tsr_emit *emit, MlirOperation attend, size_t buffer,
                                   LLVMValueRef head, const tsr_ring *ring);
/* Begins to copy rows from `row` (i32) on to the matrix at `to`; rows outside the head are 0. */
void tsr_sync_copy_rows(tsr_emit *emit, const tsr_sync_copy *copy, LLVMValueRef to,
                        LLVMValueRef row);
/* Puts the copies that began since the last call into a group. */
void tsr_sync_commit(tsr_emit *emit);
/* Waits until at most `left` groups of each thread are in flight; then synchronizes all threads,
 * which see the copied data. */
void tsr_sync_wait(tsr_emit *emit, uint32_t left);
/* The same if warps call it from different points of the code; all warps must call it equally
 * often. */
void tsr_sync_wait_apart(tsr_emit *emit, uint32_t left);

/* How a lane reads a matrix by ldmatrix: four of 8 x 8. The second and third one are below or to
 * the right of the first. */
typedef enum tsr_sync_order { TSR_SYNC_BELOW, TSR_SYNC_BESIDE } tsr_sync_order;

/* The position of the lane's 16 bytes in a matrix, from row `row` on (i32; NULL: 0), a multiple of
 * 8. */
LLVMValueRef tsr_sync_lane(tsr_emit *emit, tsr_sync_order order, LLVMValueRef row);
/* Loads 16 rows x 16 columns of a matrix; `at`: address of the matrix plus tsr_sync_lane.
 * `transposed`: each 8 x 8 matrix is transposed. */
void tsr_sync_load(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at, uint32_t row,
                   uint32_t column, bool transposed, LLVMValueRef out[4]);

/* Orders the reads and writes of the warp's lanes before this point and those after it. */
void tsr_sync_meet(tsr_emit *emit);
/* Stores 16 rows of a warp from `row` on to the matrix at `to`: `count` pairs in a fragment's
 * order. */
void tsr_sync_put_rows(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef to, LLVMValueRef row,
                       LLVMValueRef *pairs, uint32_t count);
/* Copies a warp's rows, `count` from `row` on, from the matrix at `from` to the head, whose row
 * `first` is the matrix's first one. */
void tsr_sync_store_rows(tsr_emit *emit, MlirOperation attend, size_t buffer, LLVMValueRef head,
                         const tsr_ring *ring, LLVMValueRef from, LLVMValueRef row, uint32_t count,
                         LLVMValueRef first);

#endif
