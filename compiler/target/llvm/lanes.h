/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between families of GPUs for programs on the lanes of warps: numbers of threads,
 * exchange between lanes, barriers, copies, and how a kernel is declared. One table for each family
 * (lanes_nvptx.c, lanes_amdgpu.c); all code above is the same.
 *
 * A program has 32 lanes, or a multiple of that, on every GPU. An AMD GPU whose waves have 64 lanes
 * runs two programs of 32 lanes in a wave: so reductions have one order everywhere.
 */
#ifndef TSR_COMPILER_TARGET_LLVM_LANES_H
#define TSR_COMPILER_TARGET_LLVM_LANES_H

#include "compiler/target/llvm/emit.h"
#include "manifests/fatbin.h"

enum {
    TSR_LANES_FETCH_BYTES = 16, /* bytes that a lane copies with one fetch */
    TSR_LANES_GLOBAL = 1,       /* LLVM's numbers of address spaces, the same in both families */
    TSR_LANES_SHARED = 3,
};

typedef struct tsr_lanes {
    unsigned convention; /* LLVM's number of the calling convention of kernels */
    unsigned pointers;   /* address space of a kernel's pointers */
    void (*set_launch)(tsr_emit *emit, const tsr_fatbin_kernel *launch, int64_t registers_max);
    /* i32: the number of this thread in its block; of the block; of all blocks. */
    LLVMValueRef (*thread)(tsr_emit *emit);
    LLVMValueRef (*block)(tsr_emit *emit);
    LLVMValueRef (*blocks)(tsr_emit *emit, const tsr_fatbin_kernel *launch);
    /* An i32 that is equal in all lanes of a program, in a form that says so. */
    LLVMValueRef (*first)(tsr_emit *emit, LLVMValueRef word);
    /* The i32 of lane `lane` of 32, which may differ between lanes; of lane (own xor `distance`),
     * a constant. */
    LLVMValueRef (*shuffle)(tsr_emit *emit, LLVMValueRef word, LLVMValueRef lane);
    LLVMValueRef (*butterfly)(tsr_emit *emit, LLVMValueRef word, LLVMValueRef distance);
    /* tile.vote: i1, or i32 for "ballot" */
    LLVMValueRef (*vote)(tsr_emit *emit, const char *how, LLVMValueRef mine);
    void (*warp_barrier)(tsr_emit *emit);  /* of 32 lanes */
    bool barrier_is_free;                  /* no instruction: lanes run in lockstep */
    void (*block_barrier)(tsr_emit *emit); /* of all threads of the block */
    void (*side_barrier)(tsr_emit *emit);  /* of one of several programs of a block */
    /* Copies TSR_LANES_FETCH_BYTES to shared memory; with `inside` (i1) false: zeros. `reused`:
     * lines are read again soon. */
    void (*fetch)(tsr_emit *emit, LLVMValueRef to, LLVMValueRef from, bool reused,
                  LLVMValueRef inside);
    /* Ends a group of fetches and waits for all groups but the last `but`. */
    void (*wait_fetched)(tsr_emit *emit, int64_t but);
} tsr_lanes;

extern const tsr_lanes tsr_lanes_nvptx, tsr_lanes_amdgpu;
const tsr_lanes *tsr_lanes_of(const tsr_emit *emit);

#endif
