/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions of bf16 and f16, which are 16-bit integers everywhere else. These conversions use
 * integer arithmetic if the machine has no instruction for them, and always for bf16, because the
 * instruction for bf16 flushes denormals.
 */
#include "compiler/target/llvm/emit.h"

enum {
    F32_INFINITY = 0x7f800000,
    F32_QUIET = 0x00400000,
    F16_REBIAS = (127 - 15) << 23,
    F16_LEAST_NORMAL = (127 - 14) << 23,
    F16_BEYOND = (127 + 16) << 23, /* 2^16: smaller numbers round to infinity by themselves */
};

typedef struct narrow {
    tsr_emit *emit;
    LLVMBuilderRef b;
    LLVMTypeRef i16, i32, f32; /* types with the lanes of the value */
} narrow;

static narrow make(tsr_emit *emit, LLVMValueRef like) {
    LLVMTypeRef type = LLVMTypeOf(like);
    return (narrow){emit, emit->builder, tsr_emit_like(LLVMInt16TypeInContext(emit->llvm), type),
                    tsr_emit_like(LLVMInt32TypeInContext(emit->llvm), type),
                    tsr_emit_like(LLVMFloatTypeInContext(emit->llvm), type)};
}

static LLVMValueRef op(const narrow *n, LLVMOpcode opcode, LLVMValueRef x, int64_t y) {
    return LLVMBuildBinOp(n->b, opcode, x, tsr_emit_int(n->i32, y), "");
}

static LLVMValueRef is(const narrow *n, LLVMIntPredicate how, LLVMValueRef x, int64_t y) {
    return LLVMBuildICmp(n->b, how, x, tsr_emit_int(n->i32, y), "");
}

static LLVMValueRef as(const narrow *n, LLVMValueRef x, LLVMTypeRef type) {
    return LLVMBuildBitCast(n->b, x, type, "");
}

/* Drops `shift` bits, rounding to nearest, ties to even. */
static LLVMValueRef drop_bits(const narrow *n, LLVMValueRef bits, int64_t shift) {
    LLVMValueRef odd = op(n, LLVMAnd, op(n, LLVMLShr, bits, shift), 1);
    LLVMValueRef sum = op(n, LLVMAdd, bits, (INT64_C(1) << (shift - 1)) - 1);
    return op(n, LLVMLShr, LLVMBuildAdd(n->b, sum, odd, ""), shift);
}

/* ---- to f32 ---------------------------------------------------------------------------------- */

static LLVMValueRef widen_f16(const narrow *n, LLVMValueRef bits) {
    LLVMValueRef magnitude = op(n, LLVMAnd, bits, 0x7fff);
    LLVMValueRef shifted = op(n, LLVMShl, magnitude, 13);
    LLVMValueRef normal = op(n, LLVMAdd, shifted, F16_REBIAS);
    LLVMValueRef special = op(n, LLVMAdd, shifted, 2 * (int64_t)F16_REBIAS);
    LLVMValueRef quiet = op(n, LLVMOr, special, F32_QUIET);
    special = LLVMBuildSelect(n->b, is(n, LLVMIntUGT, magnitude, 0x7c00), quiet, special, "");
    LLVMValueRef number = LLVMBuildUIToFP(n->b, magnitude, n->f32, "");
    LLVMValueRef denormal = LLVMBuildFMul(n->b, number, tsr_emit_float(n->f32, 0x1p-24), "");
    LLVMValueRef value =
        LLVMBuildSelect(n->b, is(n, LLVMIntUGE, magnitude, 0x7c00), special, normal, "");
    value = LLVMBuildSelect(n->b, is(n, LLVMIntULT, magnitude, 0x400), as(n, denormal, n->i32),
                            value, "");
    LLVMValueRef sign = op(n, LLVMShl, op(n, LLVMAnd, bits, 0x8000), 16);
    return as(n, LLVMBuildOr(n->b, value, sign, ""), n->f32);
}

/* Makes the two words of each pair of neighbours, with one instruction each. */
static LLVMValueRef widen_pairs(const narrow *n, LLVMValueRef bits) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(n->emit->llvm);
    unsigned count = LLVMGetVectorSize(n->i16);
    LLVMTypeRef pair = LLVMVectorType(LLVMInt16TypeInContext(n->emit->llvm), 2);
    LLVMValueRef result = LLVMGetPoison(n->i32);
    for (unsigned i = 0; i < count; i += 2) {
        LLVMValueRef two = LLVMGetPoison(pair), word;
        for (unsigned k = 0; k < 2; k++)
            two = LLVMBuildInsertElement(
                n->b, two, LLVMBuildExtractElement(n->b, bits, tsr_emit_int(i32, i + k), ""),
                tsr_emit_int(i32, k), "");
        word = LLVMBuildBitCast(n->b, two, i32, "");
        LLVMValueRef low = LLVMBuildShl(n->b, word, tsr_emit_int(i32, 16), "");
        LLVMValueRef high = LLVMBuildAnd(n->b, word, tsr_emit_int(i32, INT64_C(0xffff0000)), "");
        result = LLVMBuildInsertElement(n->b, result, low, tsr_emit_int(i32, i), "");
        result = LLVMBuildInsertElement(n->b, result, high, tsr_emit_int(i32, i + 1), "");
    }
    return as(n, result, n->f32);
}

LLVMValueRef tsr_emit_widen(tsr_emit *emit, LLVMValueRef bits, bool bf16) {
    narrow n = make(emit, bits);
    if (bf16 && emit->target->arch && tsr_emit_lanes(n.i16) && tsr_emit_lanes(n.i16) % 2 == 0)
        return widen_pairs(&n, bits);
    if (!bf16 && emit->target->has_f16c) {
        LLVMTypeRef half = tsr_emit_like(LLVMHalfTypeInContext(emit->llvm), n.i16);
        return LLVMBuildFPExt(n.b, as(&n, bits, half), n.f32, "");
    }
    LLVMValueRef wide = LLVMBuildZExt(n.b, bits, n.i32, "");
    if (!bf16) return widen_f16(&n, wide);
    return as(&n, op(&n, LLVMShl, wide, 16), n.f32);
}

/* ---- from f32 -------------------------------------------------------------------------------- */

static LLVMValueRef narrow_bf16(const narrow *n, LLVMValueRef bits) {
    LLVMValueRef magnitude = op(n, LLVMAnd, bits, 0x7fffffff);
    LLVMValueRef nan = op(n, LLVMLShr, op(n, LLVMOr, bits, F32_QUIET), 16);
    return LLVMBuildSelect(n->b, is(n, LLVMIntUGT, magnitude, F32_INFINITY), nan,
                           drop_bits(n, bits, 16), "");
}

static LLVMValueRef narrow_f16(const narrow *n, LLVMValueRef bits) {
    LLVMValueRef magnitude = op(n, LLVMAnd, bits, 0x7fffffff);
    LLVMValueRef normal = drop_bits(n, op(n, LLVMSub, magnitude, F16_REBIAS), 13);
    /* Adding 1/2 leaves multiples of 2^-24 in the last place. */
    LLVMValueRef half = tsr_emit_float(n->f32, 0.5);
    LLVMValueRef sum = LLVMBuildFAdd(n->b, as(n, magnitude, n->f32), half, "");
    LLVMValueRef denormal = LLVMBuildSub(n->b, as(n, sum, n->i32), as(n, half, n->i32), "");
    LLVMValueRef payload = op(n, LLVMAnd, op(n, LLVMLShr, magnitude, 13), 0x3ff);
    LLVMValueRef special =
        LLVMBuildSelect(n->b, is(n, LLVMIntUGT, magnitude, F32_INFINITY),
                        op(n, LLVMOr, payload, 0x7e00), tsr_emit_int(n->i32, 0x7c00), "");
    LLVMValueRef value =
        LLVMBuildSelect(n->b, is(n, LLVMIntUGE, magnitude, F16_BEYOND), special, normal, "");
    value =
        LLVMBuildSelect(n->b, is(n, LLVMIntULT, magnitude, F16_LEAST_NORMAL), denormal, value, "");
    LLVMValueRef sign = op(n, LLVMLShr, op(n, LLVMAnd, bits, INT64_C(0x80000000)), 16);
    return LLVMBuildOr(n->b, value, sign, "");
}

LLVMValueRef tsr_emit_narrow(tsr_emit *emit, LLVMValueRef value, bool bf16) {
    narrow n = make(emit, value);
    if (!bf16 && emit->target->has_f16c) {
        LLVMTypeRef half = tsr_emit_like(LLVMHalfTypeInContext(emit->llvm), n.i16);
        return as(&n, LLVMBuildFPTrunc(n.b, value, half, ""), n.i16);
    }
    if (bf16 && emit->target->family == TSR_FAMILY_CUDA) { /* one instruction for two; a NaN would
                                                               differ */
        LLVMTypeRef half = tsr_emit_like(LLVMBFloatTypeInContext(emit->llvm), n.i16);
        return as(&n, LLVMBuildFPTrunc(n.b, value, half, ""), n.i16);
    }
    LLVMValueRef bits = as(&n, value, n.i32);
    return LLVMBuildTrunc(n.b, (bf16 ? narrow_bf16 : narrow_f16)(&n, bits), n.i16, "");
}
