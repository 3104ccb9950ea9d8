/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of which the functions of math.c and trigonometry.c are made: on scalars or vectors of
 * f32 or f64, and on pairs of numbers. Pairs as in Dekker, "A Floating-Point Technique for
 * Extending the Available Precision", 1971.
 */
#ifndef TSR_LLVM_MATHS_H
#define TSR_LLVM_MATHS_H

#include "compiler/target/llvm/emit.h"
#include "runtime/base/array.h"

typedef struct polynomial {
    const double *coefficients; /* constant first */
    unsigned count;
} polynomial;
#define POLYNOMIAL(values)                                                                         \
    { values, TSR_COUNT(values) }

/* The type in which a function is computed. */
typedef struct maths {
    tsr_emit *emit;
    LLVMBuilderRef b;
    LLVMTypeRef type, integer; /* type of the operand; type of its bits */
    bool wide;                 /* f64, else f32 */
} maths;

static inline maths maths_of(tsr_emit *emit, LLVMValueRef x) {
    LLVMTypeRef type = LLVMTypeOf(x);
    bool wide = LLVMGetTypeKind(tsr_emit_element(type)) == LLVMDoubleTypeKind;
    LLVMTypeRef integer = LLVMIntTypeInContext(emit->llvm, wide ? 64 : 32);
    return (maths){emit, emit->builder, type, tsr_emit_like(integer, type), wide};
}

static inline LLVMValueRef number(const maths *m, double value) {
    return tsr_emit_float(m->type, value);
}
static inline LLVMValueRef whole(const maths *m, int64_t value) {
    return tsr_emit_int(m->integer, value);
}
static inline LLVMValueRef add(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFAdd(m->b, x, y, "");
}
static inline LLVMValueRef sub(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFSub(m->b, x, y, "");
}
static inline LLVMValueRef mul(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFMul(m->b, x, y, "");
}
static inline LLVMValueRef fma_(const maths *m, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
    return tsr_emit_fma(m->emit, x, y, z);
}
static inline LLVMValueRef bits(const maths *m, LLVMValueRef x) {
    return LLVMBuildBitCast(m->b, x, m->integer, "");
}
static inline LLVMValueRef value(const maths *m, LLVMValueRef x) {
    return LLVMBuildBitCast(m->b, x, m->type, "");
}
/* x if the comparison of `a` with a number is true, else y */
static inline LLVMValueRef choose(const maths *m, LLVMRealPredicate how, LLVMValueRef a,
                                  double limit, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef condition = LLVMBuildFCmp(m->b, how, a, number(m, limit), "");
    return LLVMBuildSelect(m->b, condition, x, y, "");
}

static inline LLVMValueRef is_below_0(const maths *m, LLVMValueRef x) {
    return LLVMBuildICmp(m->b, LLVMIntSLT, bits(m, x), whole(m, 0), "");
}

static inline LLVMValueRef divide(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFDiv(m->b, x, y, "");
}
static inline LLVMValueRef absolute(const maths *m, LLVMValueRef x) {
    return tsr_emit_intrinsic(m->emit, "llvm.fabs", &m->type, 1, &x, 1);
}
static inline LLVMValueRef with_sign(const maths *m, LLVMValueRef x, LLVMValueRef sign) {
    LLVMValueRef args[] = {x, sign};
    return tsr_emit_intrinsic(m->emit, "llvm.copysign", &m->type, 1, args, 2);
}

/* As many leading bits of x as make their square exact; x minus them is exact. */
static inline LLVMValueRef leading(const maths *m, LLVMValueRef x) {
    return value(m, LLVMBuildAnd(m->b, bits(m, x),
                                 whole(m, m->wide ? ~INT64_C(0x7ffffff) : ~INT64_C(0xfff)), ""));
}

/* The number high + low, |low| at most half a unit in the last place of high. */
typedef struct pair {
    LLVMValueRef high, low;
} pair;

/* x + y, |x| >= |y| or x = 0 */
static inline pair sum_of(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef high = add(m, x, y);
    return (pair){high, sub(m, y, sub(m, high, x))};
}

static inline pair product_of(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef high = mul(m, x, y);
    if (m->emit->target->has_fma) return (pair){high, fma_(m, x, y, LLVMBuildFNeg(m->b, high, ""))};
    LLVMValueRef x1 = leading(m, x), y1 = leading(m, y);
    LLVMValueRef x2 = sub(m, x, x1), y2 = sub(m, y, y1);
    LLVMValueRef low = sub(m, mul(m, x1, y1), high);
    low = add(m, add(m, low, mul(m, x1, y2)), mul(m, x2, y1));
    return (pair){high, add(m, low, mul(m, x2, y2))};
}

/* x + y, whichever is larger (Knuth, "The Art of Computer Programming", volume 2, 4.2.2). */
static inline pair any_sum_of(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef high = add(m, x, y), of_y = sub(m, high, x);
    return (pair){high, add(m, sub(m, x, sub(m, high, of_y)), sub(m, y, of_y))};
}

static inline LLVMValueRef horner(const maths *m, const polynomial *p, LLVMValueRef x) {
    LLVMValueRef sum = number(m, p->coefficients[p->count - 1]);
    for (unsigned i = p->count - 1; i-- > 0;) sum = fma_(m, sum, x, number(m, p->coefficients[i]));
    return sum;
}

#endif
