/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores whose masks are constant, after the passes, when they are as constant as they get:
 *
 * - LLVM 22 stores 32 bits where the one lane of a masked store is an i8 or i16 truncated from i32
 *   (x86 with AVX512BW): it becomes a store of the element.
 * - A store with a mask takes AVX2 a dozen cycles: of the first n lanes it becomes stores of as
 *   many as n has bits.
 */
#include "compiler/target/llvm_emit.h"

#include <string.h>

enum { FAST_MASKS_BYTES = 64 };

static bool is_masked_store(LLVMValueRef value) {
    static const char name[] = "llvm.masked.store.";
    size_t size;
    if (!LLVMIsACallInst(value) || !LLVMIsAFunction(LLVMGetCalledValue(value))) return false;
    const char *callee = LLVMGetValueName2(LLVMGetCalledValue(value), &size);
    return size >= sizeof name - 1 && memcmp(callee, name, sizeof name - 1) == 0;
}

/* The lanes of a constant mask, if they are neighbours. */
static bool find_lanes(LLVMValueRef mask, unsigned lanes, unsigned *out_first,
                       unsigned *out_count) {
    unsigned first = 0, count = 0;
    if (!LLVMIsConstant(mask)) return false;
    for (unsigned i = 0; i < lanes; i++) {
        LLVMValueRef lane = LLVMGetAggregateElement(mask, i);
        if (!lane || !LLVMIsAConstantInt(lane)) return false;
        if (!LLVMConstIntGetZExtValue(lane)) continue;
        if (!count) first = i;
        if (i != first + count) return false;
        count++;
    }
    *out_first = first;
    *out_count = count;
    return true;
}

static LLVMValueRef take_lanes(tsr_emit *emit, LLVMValueRef value, unsigned first, unsigned count) {
    enum { LANES_MAX = 256 };
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMValueRef lanes[LANES_MAX];
    if (count == 1)
        return LLVMBuildExtractElement(emit->builder, value, tsr_emit_int(i32, first), "");
    TSR_ASSERT(count <= LANES_MAX);
    for (unsigned i = 0; i < count; i++) lanes[i] = tsr_emit_int(i32, first + i);
    return LLVMBuildShuffleVector(emit->builder, value, LLVMGetPoison(LLVMTypeOf(value)),
                                  LLVMConstVector(lanes, count), "");
}

static unsigned element_bytes(LLVMTypeRef element) {
    switch (LLVMGetTypeKind(element)) {
    case LLVMDoubleTypeKind:
        return 8;
    case LLVMFloatTypeKind:
        return 4;
    default:
        return LLVMGetIntTypeWidth(element) / 8;
    }
}

static bool is_wanted(const tsr_emit *emit, unsigned first, unsigned count, unsigned bytes) {
    bool slow =
        !emit->target->warp_lanes && emit->target->vector_bytes < FAST_MASKS_BYTES && first == 0;
    return slow || (count == 1 && bytes < 4);
}

static void replace(tsr_emit *emit, LLVMValueRef store) {
    LLVMValueRef value = LLVMGetOperand(store, 0), to = LLVMGetOperand(store, 1);
    LLVMTypeRef type = LLVMTypeOf(value), element = tsr_emit_element(type);
    unsigned first = 0, count = 0, bytes = element_bytes(element);
    if (!find_lanes(LLVMGetOperand(store, 2), tsr_emit_lanes(type), &first, &count) ||
        !is_wanted(emit, first, count, bytes))
        return;
    LLVMPositionBuilderBefore(emit->builder, store);
    for (unsigned part = 1U << 31; part; part /= 2) {
        if (!(count & part)) continue;
        LLVMValueRef index = tsr_emit_int(LLVMInt64TypeInContext(emit->llvm), first);
        LLVMValueRef at = LLVMBuildGEP2(emit->builder, element, to, &index, 1, "");
        LLVMSetAlignment(LLVMBuildStore(emit->builder, take_lanes(emit, value, first, part), at),
                         bytes);
        first += part;
    }
    LLVMInstructionEraseFromParent(store);
}

void tsr_emit_split_stores(tsr_emit *emit) {
    for (LLVMValueRef f = LLVMGetFirstFunction(emit->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                if (is_masked_store(i)) replace(emit, i);
            }
}
