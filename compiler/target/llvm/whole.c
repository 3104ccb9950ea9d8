/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of floats to i64, towards zero; too large numbers become the nearest i64, NaN becomes 0.
 * LLVM does saturating conversions to i64 lane by lane. AVX-512 has an instruction for conversions
 * that do not saturate; AVX2 has shifts with a count for each lane, which move a mantissa to its
 * position.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/target/llvm/emit.h"

enum { AVX2_BYTES = 32, AVX512_BYTES = 64, WORD_BITS = 64 };

typedef struct whole {
    tsr_emit *emit;
    LLVMBuilderRef b;
    LLVMTypeRef i64; /* type with the lanes of the value */
} whole;

static LLVMValueRef number(const whole *w, int64_t value) { return tsr_emit_int(w->i64, value); }

static LLVMValueRef clamp(const whole *w, LLVMValueRef x, int64_t low, int64_t high) {
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef bounds[] = {tsr_emit_int(type, low), tsr_emit_int(type, high)};
    LLVMValueRef above[] = {x, bounds[0]};
    x = tsr_emit_intrinsic(w->emit, "llvm.smax", &type, 1, above, 2);
    LLVMValueRef below[] = {x, bounds[1]};
    return tsr_emit_intrinsic(w->emit, "llvm.smin", &type, 1, below, 2);
}

/* Correct if |x| is below 2^63. */
static LLVMValueRef by_shifts(const whole *w, LLVMValueRef x) {
    LLVMBuilderRef b = w->b;
    bool wide = LLVMGetTypeKind(tsr_emit_element(LLVMTypeOf(x))) == LLVMDoubleTypeKind;
    int mantissa = wide ? 52 : 23, shift = (wide ? 1023 : 127) + mantissa;
    LLVMTypeRef scalar = LLVMIntTypeInContext(w->emit->llvm, wide ? 64 : 32);
    LLVMTypeRef type = tsr_emit_like(scalar, LLVMTypeOf(x));
    LLVMValueRef bits = LLVMBuildBitCast(b, x, type, "");
    LLVMValueRef one = tsr_emit_int(type, INT64_C(1) << mantissa);
    LLVMValueRef rest = tsr_emit_int(type, (INT64_C(1) << mantissa) - 1);
    LLVMValueRef size = LLVMBuildOr(b, LLVMBuildAnd(b, bits, rest, ""), one, "");
    LLVMValueRef power = LLVMBuildLShr(b, bits, tsr_emit_int(type, mantissa), "");
    power = LLVMBuildAnd(b, power, tsr_emit_int(type, wide ? 0x7ff : 0xff), "");
    LLVMValueRef left = LLVMBuildSub(b, power, tsr_emit_int(type, shift), "");
    LLVMValueRef right = LLVMBuildSub(b, tsr_emit_int(type, shift), power, "");
    LLVMValueRef sign = LLVMBuildAShr(b, bits, tsr_emit_int(type, wide ? 63 : 31), "");
    left = clamp(w, left, 0, WORD_BITS - 1);
    right = clamp(w, right, 0, WORD_BITS - 1);
    if (!wide) {
        size = LLVMBuildZExt(b, size, w->i64, "");
        left = LLVMBuildZExt(b, left, w->i64, "");
        right = LLVMBuildZExt(b, right, w->i64, "");
        sign = LLVMBuildSExt(b, sign, w->i64, "");
    }
    size = LLVMBuildLShr(b, LLVMBuildShl(b, size, left, ""), right, "");
    return LLVMBuildSub(b, LLVMBuildXor(b, size, sign, ""), sign, "");
}

static LLVMValueRef choose(const whole *w, LLVMRealPredicate how, LLVMValueRef x, double limit,
                           int64_t value, LLVMValueRef other) {
    LLVMValueRef condition = LLVMBuildFCmp(w->b, how, x, tsr_emit_float(LLVMTypeOf(x), limit), "");
    return LLVMBuildSelect(w->b, condition, number(w, value), other, "");
}

LLVMValueRef tsr_emit_whole(tsr_emit *emit, LLVMValueRef x, LLVMTypeRef type) {
    const tsr_target *target = emit->target;
    LLVMTypeRef types[] = {type, LLVMTypeOf(x)}, element = tsr_emit_element(type);
    bool words = LLVMGetIntTypeWidth(element) == WORD_BITS && tsr_emit_lanes(type);
    if (!words || target->warp_lanes || target->vector_bytes < AVX2_BYTES)
        return tsr_emit_intrinsic(emit, "llvm.fptosi.sat", types, 2, &x, 1);
    whole w = {emit, emit->builder, type};
    LLVMValueRef value =
        target->vector_bytes == AVX512_BYTES ? LLVMBuildFPToSI(w.b, x, type, "") : by_shifts(&w, x);
    value = choose(&w, LLVMRealOLT, x, -0x1p63, INT64_MIN, value);
    value = choose(&w, LLVMRealOGE, x, 0x1p63, INT64_MAX, value);
    return choose(&w, LLVMRealUNO, x, 0, 0, value);
}
