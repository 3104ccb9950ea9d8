/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA GPUs. Source: NVIDIA, "PTX ISA"; LLVM, "User Guide for NVPTX Back-end".
 */
#include "compiler/target/llvm/lanes.h"
#include "compiler/target/llvm/warp.h"

#include <inttypes.h>
#include <stdio.h>

enum { WARP = 32, PTX_KERNEL = 71 };

static LLVMValueRef number(tsr_emit *emit, int64_t value) {
    return tsr_emit_int(LLVMInt32TypeInContext(emit->llvm), value);
}

static LLVMValueRef special(tsr_emit *emit, const char *name) {
    return tsr_emit_intrinsic(emit, name, NULL, 0, NULL, 0);
}

static void set_launch(tsr_emit *emit, const tsr_fatbin_kernel *launch, int64_t registers_max) {
    char text[32];
    snprintf(text, sizeof text, "%u,1,1", launch->threads);
    tsr_emit_set_text(emit, "nvvm.maxntid", text);
    if (!registers_max) return;
    snprintf(text, sizeof text, "%" PRId64, registers_max);
    tsr_emit_set_text(emit, "nvvm.maxnreg", text);
}

static LLVMValueRef thread(tsr_emit *emit) {
    return special(emit, "llvm.nvvm.read.ptx.sreg.tid.x");
}

static LLVMValueRef block(tsr_emit *emit) {
    return special(emit, "llvm.nvvm.read.ptx.sreg.ctaid.x");
}

static LLVMValueRef blocks(tsr_emit *emit, const tsr_fatbin_kernel *launch) {
    (void)launch;
    return special(emit, "llvm.nvvm.read.ptx.sreg.nctaid.x");
}

static LLVMValueRef exchange(tsr_emit *emit, const char *name, LLVMValueRef word,
                             LLVMValueRef lane) {
    LLVMValueRef args[] = {number(emit, -1), word, lane, number(emit, WARP - 1)};
    return tsr_emit_intrinsic(emit, name, NULL, 0, args, 4);
}

static LLVMValueRef shuffle(tsr_emit *emit, LLVMValueRef word, LLVMValueRef lane) {
    return exchange(emit, "llvm.nvvm.shfl.sync.idx.i32", word, lane);
}

static LLVMValueRef butterfly(tsr_emit *emit, LLVMValueRef word, LLVMValueRef distance) {
    return exchange(emit, "llvm.nvvm.shfl.sync.bfly.i32", word, distance);
}

static LLVMValueRef first(tsr_emit *emit, LLVMValueRef word) {
    return shuffle(emit, word, number(emit, 0));
}

static LLVMValueRef vote(tsr_emit *emit, const char *how, LLVMValueRef mine) {
    char name[40];
    LLVMValueRef args[] = {number(emit, -1), mine};
    snprintf(name, sizeof name, "llvm.nvvm.vote.%s.sync", how);
    return tsr_emit_intrinsic(emit, name, NULL, 0, args, 2);
}

static void warp_barrier(tsr_emit *emit) {
    LLVMValueRef all = number(emit, -1);
    tsr_emit_intrinsic(emit, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
}

static void block_barrier(tsr_emit *emit) {
    LLVMValueRef all = number(emit, 0);
    tsr_emit_intrinsic(emit, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, 0, &all, 1);
}

/* Number 0 is the block's barrier. */
static void side_barrier(tsr_emit *emit) {
    LLVMValueRef args[] = {LLVMBuildAdd(emit->builder, emit->side, number(emit, 1), ""),
                           number(emit, emit->lanes)};
    tsr_emit_intrinsic(emit, "llvm.nvvm.barrier.cta.sync.aligned.count", NULL, 0, args, 2);
}

static void fetch(tsr_emit *emit, LLVMValueRef to, LLVMValueRef from, bool reused,
                  LLVMValueRef inside) {
    LLVMValueRef args[] = {to, from,
                           inside ? LLVMBuildSelect(emit->builder, inside,
                                                    number(emit, TSR_LANES_FETCH_BYTES),
                                                    number(emit, 0), "")
                                  : NULL};
    tsr_emit_intrinsic(emit,
                       reused   ? inside ? "llvm.nvvm.cp.async.ca.shared.global.16.s"
                                         : "llvm.nvvm.cp.async.ca.shared.global.16"
                       : inside ? "llvm.nvvm.cp.async.cg.shared.global.16.s"
                                : "llvm.nvvm.cp.async.cg.shared.global.16",
                       NULL, 0, args, inside ? 3 : 2);
}

static void wait_fetched(tsr_emit *emit, int64_t but) {
    LLVMValueRef last = number(emit, but);
    tsr_emit_intrinsic(emit, "llvm.nvvm.cp.async.commit.group", NULL, 0, NULL, 0);
    tsr_emit_intrinsic(emit, "llvm.nvvm.cp.async.wait.group", NULL, 0, &last, 1);
}

const tsr_lanes tsr_lanes_nvptx = {.convention = PTX_KERNEL,
                                   .set_launch = set_launch,
                                   .thread = thread,
                                   .block = block,
                                   .blocks = blocks,
                                   .first = first,
                                   .shuffle = shuffle,
                                   .butterfly = butterfly,
                                   .vote = vote,
                                   .warp_barrier = warp_barrier,
                                   .block_barrier = block_barrier,
                                   .side_barrier = side_barrier,
                                   .fetch = fetch,
                                   .wait_fetched = wait_fetched};

const tsr_lanes *tsr_lanes_of(const tsr_emit *emit) {
    return emit->target->family == TSR_FAMILY_HIP ? &tsr_lanes_amdgpu : &tsr_lanes_nvptx;
}
