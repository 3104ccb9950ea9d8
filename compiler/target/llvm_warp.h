/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile IR on the lanes of a warp: one program of a kernel is run by one warp. A vector of N
 * elements lies in ceil(N / lanes) registers of each lane: element i in register i / lanes of lane
 * i % lanes, so that loads and stores are coalesced. Scalars are the same in all lanes. Elements
 * beyond the vector's end hold anything.
 *
 * Ops on elements are those of every target (llvm_ops.c), over vectors of registers. Here is what
 * moves elements between lanes or touches memory: loads, stores, masks, shuffles. Between accesses
 * of one program's lanes to memory that it also writes stands a barrier of the warp.
 */
#ifndef TSR_COMPILER_TARGET_LLVM_WARP_H
#define TSR_COMPILER_TARGET_LLVM_WARP_H

#include "compiler/target/llvm_emit.h"
#include "manifests/fatbin.h"

enum {
    TSR_WARP_PROGRAMS = 4,           /* of a block, where their local buffers fit */
    TSR_WARP_SHARED_MAX = 48 * 1024, /* bytes that a kernel may declare */
};

/* One kernel: NAME(buffers …, fault record, scratch memory, number of programs). Needs
 * emit->kernel. *out_launch: how it is launched. */
TSR_RESULT tsr_emit_warp_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch);
/* Of all threads of the block: a barrier; llvm_reduce.c */
void tsr_emit_block_barrier(tsr_emit *emit);
/* Of all lanes of the program: a barrier; llvm_reduce.c */
void tsr_emit_program_barrier(tsr_emit *emit);
bool tsr_emit_is_reduction(MlirOperation op);
void tsr_emit_reduction(tsr_emit *emit, MlirOperation op);
void tsr_emit_vote(tsr_emit *emit, MlirOperation op);
/* llvm_local.c: local buffers, and what lanes fetch to them. */
uint64_t tsr_emit_local_bytes(tsr_emit *emit, MlirOperation local);
/* Where this program's local buffers begin. */
void tsr_emit_find_locals(tsr_emit *emit, const tsr_fatbin_kernel *launch, LLVMValueRef warp,
                          LLVMValueRef block, LLVMValueRef scratch);
void tsr_emit_local(tsr_emit *emit, MlirOperation op);
bool tsr_emit_is_own(MlirValue buffer); /* TSR_OWN_NAME */
/* A vector, `type` of a lane's registers, at element `at` of such a buffer. */
LLVMValueRef tsr_emit_load_own(tsr_emit *emit, MlirValue buffer, LLVMTypeRef type, LLVMValueRef at);
void tsr_emit_fetch(tsr_emit *emit, MlirOperation op);
void tsr_emit_fetched(tsr_emit *emit, MlirOperation op);
void tsr_emit_add_beside(tsr_emit *emit, MlirOperation op);
/* llvm_warp.c: element number of this lane's register r where elements are blocked, as an i64. */
LLVMValueRef tsr_emit_blocked_number(tsr_emit *emit, unsigned r);
unsigned tsr_emit_element_bytes(MlirValue buffer);
/* After emit->sums is known. */
void tsr_emit_make_shared(tsr_emit *emit);
/* An op that means something else on a warp than on a CPU. */
TSR_RESULT tsr_emit_warp_op(tsr_emit *emit, MlirOperation op, bool *out_known);

#endif
