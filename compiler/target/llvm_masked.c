/* SPDX-License-Identifier: Apache-2.0
 *
 * LLVM 22 stores 32 bits where the one lane of a masked store is an i8 or i16 truncated from i32
 * (x86 with AVX512BW, constant masks). After the passes, when masks are as constant as they get,
 * these become stores of the element.
 */
#include "compiler/target/llvm_emit.h"

#include <string.h>

static bool is_masked_store(LLVMValueRef value) {
    static const char name[] = "llvm.masked.store.";
    size_t size;
    if (!LLVMIsACallInst(value) || !LLVMIsAFunction(LLVMGetCalledValue(value))) return false;
    const char *callee = LLVMGetValueName2(LLVMGetCalledValue(value), &size);
    return size >= sizeof name - 1 && memcmp(callee, name, sizeof name - 1) == 0;
}

static bool is_small(LLVMTypeRef element) {
    return LLVMGetTypeKind(element) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(element) < 32;
}

/* The only lane of a constant mask. */
static bool find_lane(LLVMValueRef mask, unsigned lanes, unsigned *out_lane) {
    unsigned count = 0;
    if (!LLVMIsConstant(mask)) return false;
    for (unsigned i = 0; i < lanes; i++) {
        LLVMValueRef lane = LLVMGetAggregateElement(mask, i);
        if (!lane || !LLVMIsAConstantInt(lane)) return false;
        if (!LLVMConstIntGetZExtValue(lane)) continue;
        *out_lane = i;
        count++;
    }
    return count == 1;
}

static void replace(tsr_emit *emit, LLVMValueRef store) {
    LLVMValueRef value = LLVMGetOperand(store, 0), to = LLVMGetOperand(store, 1);
    LLVMTypeRef type = LLVMTypeOf(value), element = tsr_emit_element(type);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    unsigned lane = 0;
    if (!is_small(element) || !find_lane(LLVMGetOperand(store, 2), tsr_emit_lanes(type), &lane))
        return;
    LLVMPositionBuilderBefore(emit->builder, store);
    LLVMValueRef index = LLVMConstInt(i64, lane, false);
    LLVMValueRef one = LLVMBuildExtractElement(emit->builder, value, index, "");
    to = LLVMBuildGEP2(emit->builder, element, to, &index, 1, "");
    LLVMSetAlignment(LLVMBuildStore(emit->builder, one, to), LLVMGetIntTypeWidth(element) / 8);
    LLVMInstructionEraseFromParent(store);
}

void tsr_emit_store_single_lanes(tsr_emit *emit) {
    for (LLVMValueRef f = LLVMGetFirstFunction(emit->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                if (is_masked_store(i)) replace(emit, i);
            }
}
