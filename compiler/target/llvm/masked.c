/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and stores with constant masks. This runs after the passes, when as many masks as possible
 * are constant:
 *
 * - LLVM 22 stores 32 bits if the only lane of a masked store is an i8 or i16 truncated from i32
 *   (x86 with AVX512BW): it becomes a store of the element.
 * - A masked store takes AVX2 a dozen cycles, and the mask of a load needs a register, which the
 *   loops of products do not have free. Accesses of the first n lanes become one access for each 1
 *   bit of n.
 */
#include "compiler/target/llvm/emit.h"

#include <string.h>

enum { FAST_MASKS_BYTES = 64, LANES_MAX = 256 };

static bool is_call_of(LLVMValueRef value, const char *name) {
    size_t size;
    if (!LLVMIsACallInst(value) || !LLVMIsAFunction(LLVMGetCalledValue(value))) return false;
    const char *callee = LLVMGetValueName2(LLVMGetCalledValue(value), &size);
    return size >= strlen(name) && memcmp(callee, name, strlen(name)) == 0;
}

/* Finds the lanes of a constant mask; false if they are not adjacent. */
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
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    LLVMValueRef lanes[LANES_MAX];
    if (count == 1)
        return LLVMBuildExtractElement(emit->builder, value, tsr_emit_int(i32, first), "");
    TSR_ASSERT(count <= LANES_MAX);
    for (unsigned i = 0; i < count; i++) lanes[i] = tsr_emit_int(i32, first + i);
    return LLVMBuildShuffleVector(emit->builder, value, LLVMGetPoison(LLVMTypeOf(value)),
                                  LLVMConstVector(lanes, count), "");
}

static bool has_slow_masks(const tsr_emit *emit) {
    return !emit->target->warp_lanes && emit->target->vector_bytes < FAST_MASKS_BYTES;
}

/* Replaces lanes of `value`, beginning at `first`, by `part`, a scalar or a vector. */
static LLVMValueRef put_lanes(tsr_emit *emit, LLVMValueRef value, LLVMValueRef part,
                              unsigned first) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(emit->llvm);
    unsigned lanes = tsr_emit_lanes(LLVMTypeOf(value)), count = tsr_emit_lanes(LLVMTypeOf(part));
    LLVMValueRef wide[LANES_MAX], order[LANES_MAX];
    if (!count)
        return LLVMBuildInsertElement(emit->builder, value, part, tsr_emit_int(i32, first), "");
    TSR_ASSERT(lanes <= LANES_MAX);
    for (unsigned i = 0; i < lanes; i++) {
        bool taken = i >= first && i < first + count;
        wide[i] = taken ? tsr_emit_int(i32, i - first) : LLVMGetPoison(i32);
        order[i] = tsr_emit_int(i32, taken ? lanes + i : i);
    }
    part = LLVMBuildShuffleVector(emit->builder, part, LLVMGetPoison(LLVMTypeOf(part)),
                                  LLVMConstVector(wide, lanes), "");
    return LLVMBuildShuffleVector(emit->builder, value, part, LLVMConstVector(order, lanes), "");
}

static void replace_load(tsr_emit *emit, LLVMValueRef load) {
    LLVMValueRef from = LLVMGetOperand(load, 0), value = LLVMGetOperand(load, 2);
    LLVMTypeRef type = LLVMTypeOf(load), element = tsr_emit_element(type);
    unsigned lanes = tsr_emit_lanes(type), first = 0, count = 0;
    if (!has_slow_masks(emit) || !find_lanes(LLVMGetOperand(load, 1), lanes, &first, &count) ||
        first)
        return;
    LLVMPositionBuilderBefore(emit->builder, load);
    for (unsigned part = LANES_MAX; part; part /= 2) {
        if (!(count & part)) continue;
        LLVMValueRef index = tsr_emit_int(LLVMInt64TypeInContext(emit->llvm), first);
        LLVMValueRef at = LLVMBuildGEP2(emit->builder, element, from, &index, 1, "");
        LLVMTypeRef loaded = part == 1 ? element : LLVMVectorType(element, part);
        LLVMValueRef some = LLVMBuildLoad2(emit->builder, loaded, at, "");
        LLVMSetAlignment(some, tsr_emit_align(element));
        value = part == lanes ? some : put_lanes(emit, value, some, first);
        first += part;
    }
    LLVMReplaceAllUsesWith(load, value);
    LLVMInstructionEraseFromParent(load);
}

static void replace_store(tsr_emit *emit, LLVMValueRef store) {
    LLVMValueRef value = LLVMGetOperand(store, 0), to = LLVMGetOperand(store, 1);
    LLVMTypeRef type = LLVMTypeOf(value), element = tsr_emit_element(type);
    unsigned first = 0, count = 0, bytes = tsr_emit_align(element);
    if (!find_lanes(LLVMGetOperand(store, 2), tsr_emit_lanes(type), &first, &count)) return;
    if (!(has_slow_masks(emit) && !first) && !(count == 1 && bytes < sizeof(float))) return;
    LLVMPositionBuilderBefore(emit->builder, store);
    for (unsigned part = LANES_MAX; part; part /= 2) {
        if (!(count & part)) continue;
        LLVMValueRef index = tsr_emit_int(LLVMInt64TypeInContext(emit->llvm), first);
        LLVMValueRef at = LLVMBuildGEP2(emit->builder, element, to, &index, 1, "");
        LLVMSetAlignment(LLVMBuildStore(emit->builder, take_lanes(emit, value, first, part), at),
                         bytes);
        first += part;
    }
    LLVMInstructionEraseFromParent(store);
}

void tsr_emit_split_masked(tsr_emit *emit) {
    for (LLVMValueRef f = LLVMGetFirstFunction(emit->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                if (is_call_of(i, "llvm.masked.store."))
                    replace_store(emit, i);
                else if (is_call_of(i, "llvm.masked.load."))
                    replace_load(emit, i);
            }
}
