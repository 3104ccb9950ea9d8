/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile IR on the lanes of a warp: one warp runs one program of a kernel. A vector of N elements is
 * stored in ceil(N / lanes) registers of each lane: element i in register i / lanes of lane i %
 * lanes, so that loads and stores are coalesced. Scalars are the same in all lanes. Elements beyond
 * the vector's end are undefined.
 *
 * Ops on elements are the same as on every target (llvm_ops.c), over vectors of registers. These
 * files contain the ops that move elements between lanes or access memory: loads, stores, masks,
 * shuffles. A barrier of the warp separates accesses of one program's lanes to memory that it also
 * writes.
 */
#ifndef TSR_COMPILER_TARGET_LLVM_WARP_H
#define TSR_COMPILER_TARGET_LLVM_WARP_H

#include "compiler/target/llvm/emit.h"
#include "manifests/fatbin.h"

enum {
    TSR_WARP_PROGRAMS = 4,           /* programs of a block, if their local buffers fit */
    TSR_WARP_SHARED_MAX = 48 * 1024, /* bytes that a kernel may declare */
};

/* Emits one kernel: NAME(buffers …, fault record, scratch memory, number of programs). Needs
 * emit->kernel. *out_launch: how to launch it. */
TSR_RESULT tsr_emit_warp_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch);
/* Adds the function of a kernel; binds the arguments of its body, and returns the scratch memory.
 */
TSR_RESULT tsr_emit_warp_declare(tsr_emit *emit, MlirOperation func,
                                 const tsr_fatbin_kernel *launch);
LLVMValueRef tsr_emit_warp_bind(tsr_emit *emit, MlirBlock body);
/* Sets an attribute of the kernel; llvm_warp.c */
void tsr_emit_set_text(tsr_emit *emit, const char *name, const char *value);
/* A barrier of all threads of the block; llvm_reduce.c */
void tsr_emit_block_barrier(tsr_emit *emit);
/* A barrier of all lanes of the program; llvm_reduce.c */
void tsr_emit_program_barrier(tsr_emit *emit);
bool tsr_emit_is_reduction(MlirOperation op);
void tsr_emit_reduction(tsr_emit *emit, MlirOperation op);
void tsr_emit_vote(tsr_emit *emit, MlirOperation op);
/* llvm_local.c: local buffers, and fetches to them. */
uint64_t tsr_emit_local_bytes(tsr_emit *emit, MlirOperation local);
/* Finds the start of this program's local buffers. */
void tsr_emit_find_locals(tsr_emit *emit, const tsr_fatbin_kernel *launch, LLVMValueRef warp,
                          LLVMValueRef block, LLVMValueRef scratch);
void tsr_emit_local(tsr_emit *emit, MlirOperation op);
bool tsr_emit_is_own(MlirValue buffer); /* TSR_OWN_NAME */
/* Loads a vector at element `at` of a buffer with TSR_OWN_NAME; `type`: a lane's registers. */
LLVMValueRef tsr_emit_load_own(tsr_emit *emit, MlirValue buffer, LLVMTypeRef type, LLVMValueRef at);
void tsr_emit_fetch(tsr_emit *emit, MlirOperation op);
void tsr_emit_fetched(tsr_emit *emit, MlirOperation op);
void tsr_emit_add_programs(tsr_emit *emit, MlirOperation op);
/* llvm_warp.c: element number of this lane's register r for blocked elements, as an i64. */
LLVMValueRef tsr_emit_blocked_number(tsr_emit *emit, unsigned r);
unsigned tsr_emit_element_bytes(MlirValue buffer);
/* Called after emit->sums is known. */
void tsr_emit_make_shared(tsr_emit *emit);
/* Emits an op whose code on a warp differs from a CPU's. */
TSR_RESULT tsr_emit_warp_op(tsr_emit *emit, MlirOperation op, bool *out_known);

#endif
