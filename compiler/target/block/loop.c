/* SPDX-License-Identifier: Apache-2.0
 *
 * Building blocks of long programs: loops that are not in the body of the kernel, values that live
 * from one iteration to the next, the registers of products; and the last iterations of loops of
 * products.
 */
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"
#include "compiler/tile/attributes.h"

enum { ROUNDS_MAX = 1 << 24 /* iterations of a loop of products */ };

LLVMValueRef tsr_block_memory(tsr_emit *emit, LLVMTypeRef type) {
    LLVMBuilderRef b = emit->builder;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(emit->entry));
    LLVMValueRef memory = LLVMBuildAlloca(b, type, "");
    LLVMPositionBuilderAtEnd(b, here);
    return memory;
}

LLVMValueRef tsr_block_get(tsr_emit *emit, LLVMValueRef memory) {
    return LLVMBuildLoad2(emit->builder, LLVMGetAllocatedType(memory), memory, "");
}

void tsr_block_set(tsr_emit *emit, LLVMValueRef memory, LLVMValueRef value) {
    LLVMBuildStore(emit->builder, value, memory);
}

tsr_block_loop tsr_block_loop_begin(tsr_emit *emit, LLVMValueRef first, LLVMValueRef limit,
                                    int64_t step, const char *name) {
    LLVMBuilderRef b = emit->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    tsr_block_loop l = {.body = tsr_emit_block(emit, name),
                        .end = tsr_emit_block(emit, ""),
                        .limit = limit,
                        .step = step};
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, first, limit, ""), l.body, l.end);
    LLVMPositionBuilderAtEnd(b, l.body);
    l.index = LLVMBuildPhi(b, tsr_block_i32(emit), "");
    LLVMAddIncoming(l.index, &first, &before, 1);
    return l;
}

void tsr_block_loop_end(tsr_emit *emit, const tsr_block_loop *loop) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef next = tsr_block_add(emit, loop->index, loop->step);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
    LLVMAddIncoming(loop->index, &next, &from, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, loop->limit, ""), loop->body, loop->end);
    LLVMPositionBuilderAtEnd(b, loop->end);
}

LLVMBasicBlockRef tsr_block_if(tsr_emit *emit, LLVMValueRef condition, const char *name) {
    LLVMBasicBlockRef then = tsr_emit_block(emit, name), rest = tsr_emit_block(emit, "");
    LLVMBuildCondBr(emit->builder, condition, then, rest);
    LLVMPositionBuilderAtEnd(emit->builder, then);
    return rest;
}

void tsr_block_end_if(tsr_emit *emit, LLVMBasicBlockRef rest) {
    LLVMBuildBr(emit->builder, rest);
    LLVMPositionBuilderAtEnd(emit->builder, rest);
}

LLVMValueRef tsr_block_slot_address(tsr_emit *emit, const tsr_ring *ring, const tsr_slot *at) {
    int64_t bytes = (int64_t)ring->rows * ring->columns * ring->element_bytes;
    return LLVMBuildAdd(emit->builder, tsr_block_ring_address(emit, ring),
                        tsr_block_mul(emit, at->slot, bytes), "");
}

LLVMValueRef tsr_block_power_of_2(tsr_emit *emit, LLVMValueRef x) {
    return tsr_block_asm(emit, LLVMTypeOf(x), "ex2.approx.ftz.f32 $0, $1;", "=f,f", &x, 1);
}

void tsr_block_unpack(tsr_emit *emit, LLVMValueRef whole, LLVMValueRef *out_values,
                      unsigned count) {
    for (unsigned i = 0; i < count; i++)
        out_values[i] = LLVMBuildExtractValue(emit->builder, whole, i, "");
}

void tsr_block_wait_some(tsr_emit *emit, unsigned left, LLVMValueRef *sums, unsigned count) {
    tsr_block_unpack(emit, tsr_block_wait_wgmma(emit, left, sums, count), sums, count);
}

/* ---- loops of products ----------------------------------------------------------------------- */

uint32_t tsr_block_rounds(MlirOperation loop) {
    int64_t bounds[3], length = 0;
    for (size_t i = 0; i < 3; i++) {
        MlirOperation owner = tsr_value_owner(tsr_op_operand(loop, i));
        if (!tsr_op_is(owner, TSR_ARITH_CONSTANT) || !tsr_op_i64(owner, "value", &bounds[i]))
            return 0;
    }
    if (__builtin_sub_overflow(bounds[1], bounds[0], &length) || length < 1 || bounds[2] < 1)
        return 0;
    int64_t rounds = (length - 1) / bounds[2] + 1;
    return rounds > ROUNDS_MAX ? 0 : (uint32_t)rounds;
}

/* A waiting group has released its stages before the tail except the last one, which it releases
 * with its next product: the group before it finds all stages free if the tail is shorter than the
 * number of stages. The group before it reaches the tail of a second program only after this group
 * has finished its wait in the first program: with at least twice as many iterations as stages, its
 * last stages use slots that this group releases after that wait. */
uint32_t tsr_block_tail(tsr_emit *emit, MlirOperation loop) {
    const tsr_block *block = emit->block;
    int64_t tail = 0;
    if (block->copies || !block->has_wgmma || block->teams > 1 || block->groups == 1 ||
        !tsr_op_i64(loop, TSR_TAIL_NAME, &tail))
        return 0;
    bool fits = tail > 0 && tail < block->stages && tsr_block_rounds(loop) >= 2 * block->stages;
    return fits ? (uint32_t)tail : 0;
}

void tsr_block_follow(tsr_emit *emit, bool waits) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    LLVMValueRef group = LLVMBuildUDiv(b, block->warp, tsr_block_int(emit, GROUP_WARPS), "");
    LLVMValueRef edge = tsr_block_int(emit, waits ? 0 : (int64_t)block->groups - 1);
    LLVMBasicBlockRef rest =
        tsr_block_if(emit, LLVMBuildICmp(b, LLVMIntNE, group, edge, ""), "follow");
    tsr_block_named_barrier(emit, waits ? "bar.sync $0, $1;" : "bar.arrive $0, $1;",
                            waits ? group : tsr_block_add(emit, group, 1), 2 * TSR_BLOCK_GROUP);
    tsr_block_end_if(emit, rest);
}
