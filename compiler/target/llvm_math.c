/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log, tanh and integer powers, as LLVM IR on scalars and vectors of f32 and f64. Only
 * IEEE 754 operations that every target rounds the same way, so the bits do not depend on the
 * target as long as it has FMA. Coefficients: math_tables.def.
 *
 * Methods: Cody and Waite, "Software Manual for the Elementary Functions", 1980 (reduction by two
 * parts of ln 2); log of f64 by s = f / (2 + f) as in Tang, "Table-Driven Implementation of the
 * Logarithm Function in IEEE Floating-Point Arithmetic", 1990, without the table.
 */
#include "compiler/target/llvm_emit.h"

#include <math.h>

#define X(NAME, count, ...) static const double NAME[count] = {__VA_ARGS__};
#include "compiler/target/math_tables.def"
#undef X

typedef struct polynomial {
    const double *coefficients; /* constant first */
    unsigned count;
} polynomial;
#define POLYNOMIAL(values)                                                                         \
    { values, sizeof values / sizeof values[0] }

/* One floating-point format. */
typedef struct format {
    unsigned mantissa_bits;
    int64_t bias;
    double magic;                       /* 1.5 * 2^mantissa_bits: adding it rounds to an integer */
    int64_t magic_bits, root_half_bits; /* representations of it and of sqrt(1/2) */
    double exp_lowest, exp_highest;     /* beyond them the result is 0 or infinite */
    double smallest_normal;
    int denormal_shift; /* a denormal is scaled up by 2^this */
    double tanh_one;    /* from here on tanh is 1 */
    const double *ln2;  /* two parts; the high one times any exponent is exact */
    polynomial exp, log, tanh;
} format;

static const format formats[2] = {
    {23, 127, 0x1.8p23, 0x4b400000, 0x3f3504f3, -104, 89, 0x1p-126, 23, 10, LN2_F32,
     POLYNOMIAL(EXP_F32), POLYNOMIAL(LOG_F32), POLYNOMIAL(TANH_F32)},
    {52, 1023, 0x1.8p52, 0x4338000000000000, 0x3fe6a09e667f3bcd, -746, 710, 0x1p-1022, 52, 20,
     LN2_F64, POLYNOMIAL(EXP_F64), POLYNOMIAL(LOG_F64), POLYNOMIAL(TANH_F64)},
};

typedef struct maths {
    tsr_emit *emit;
    LLVMBuilderRef b;
    LLVMTypeRef type, integer; /* of the operand; of its bits */
    const format *f;
} maths;

static maths begin(tsr_emit *emit, LLVMValueRef x) {
    LLVMTypeRef type = LLVMTypeOf(x);
    bool wide = LLVMGetTypeKind(tsr_emit_element(type)) == LLVMDoubleTypeKind;
    LLVMTypeRef integer = LLVMIntTypeInContext(emit->llvm, wide ? 64 : 32);
    return (maths){emit, emit->builder, type, tsr_emit_like(integer, type), &formats[wide]};
}

static LLVMValueRef number(const maths *m, double value) { return tsr_emit_float(m->type, value); }
static LLVMValueRef whole(const maths *m, int64_t value) { return tsr_emit_int(m->integer, value); }
static LLVMValueRef add(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFAdd(m->b, x, y, "");
}
static LLVMValueRef sub(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFSub(m->b, x, y, "");
}
static LLVMValueRef mul(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildFMul(m->b, x, y, "");
}
static LLVMValueRef fma_(const maths *m, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
    return tsr_emit_fma(m->emit, x, y, z);
}
static LLVMValueRef bits(const maths *m, LLVMValueRef x) {
    return LLVMBuildBitCast(m->b, x, m->integer, "");
}
static LLVMValueRef value(const maths *m, LLVMValueRef x) {
    return LLVMBuildBitCast(m->b, x, m->type, "");
}
/* x where the comparison of `a` with a number holds, else y */
static LLVMValueRef choose(const maths *m, LLVMRealPredicate how, LLVMValueRef a, double limit,
                           LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef condition = LLVMBuildFCmp(m->b, how, a, number(m, limit), "");
    return LLVMBuildSelect(m->b, condition, x, y, "");
}

static LLVMValueRef horner(const maths *m, const polynomial *p, LLVMValueRef x) {
    LLVMValueRef sum = number(m, p->coefficients[p->count - 1]);
    for (unsigned i = p->count - 1; i-- > 0;) sum = fma_(m, sum, x, number(m, p->coefficients[i]));
    return sum;
}

/* 2^k for an integer k in the range of normal exponents */
static LLVMValueRef power_of_two(const maths *m, LLVMValueRef k) {
    LLVMValueRef biased = LLVMBuildAdd(m->b, k, whole(m, m->f->bias), "");
    return value(m, LLVMBuildShl(m->b, biased, whole(m, m->f->mantissa_bits), ""));
}

/* x = n ln 2 + r; exp x = 2^n (1 + r + r^2 P(r)). 2^n in two factors, so that denormal results are
 * rounded once. NaN passes through the clamps. */
static LLVMValueRef exp_of(const maths *m, LLVMValueRef x) {
    const format *f = m->f;
    x = choose(m, LLVMRealOGT, x, f->exp_highest, number(m, f->exp_highest), x);
    x = choose(m, LLVMRealOLT, x, f->exp_lowest, number(m, f->exp_lowest), x);
    LLVMValueRef shifted = fma_(m, x, number(m, 0x1.71547652b82fep0), number(m, f->magic));
    LLVMValueRef n = sub(m, shifted, number(m, f->magic));
    LLVMValueRef r = fma_(m, n, number(m, -f->ln2[0]), x);
    r = fma_(m, n, number(m, -f->ln2[1]), r);
    LLVMValueRef tail = fma_(m, mul(m, r, r), horner(m, &f->exp, r), r);
    LLVMValueRef y = add(m, tail, number(m, 1));
    LLVMValueRef k = LLVMBuildSub(m->b, bits(m, shifted), whole(m, f->magic_bits), "");
    LLVMValueRef half = LLVMBuildAShr(m->b, k, whole(m, 1), "");
    LLVMValueRef rest = LLVMBuildSub(m->b, k, half, "");
    return mul(m, mul(m, y, power_of_two(m, half)), power_of_two(m, rest));
}

LLVMValueRef tsr_emit_exp(tsr_emit *emit, LLVMValueRef x) {
    maths m = begin(emit, x);
    return exp_of(&m, x);
}

/* log(1 + f) + e ln 2, f in [sqrt(1/2) - 1, sqrt(2) - 1] */
static LLVMValueRef log_narrow(const maths *m, LLVMValueRef f, LLVMValueRef e) {
    LLVMValueRef square = mul(m, f, f);
    LLVMValueRef y = mul(m, mul(m, square, f), horner(m, &m->f->log, f));
    y = fma_(m, e, number(m, m->f->ln2[1]), y);
    y = fma_(m, square, number(m, -0.5), y);
    return fma_(m, e, number(m, m->f->ln2[0]), add(m, f, y));
}

static LLVMValueRef log_wide(const maths *m, LLVMValueRef f, LLVMValueRef e) {
    LLVMValueRef s = LLVMBuildFDiv(m->b, f, add(m, f, number(m, 2)), "");
    LLVMValueRef z = mul(m, s, s);
    LLVMValueRef half_square = mul(m, mul(m, f, f), number(m, 0.5));
    LLVMValueRef r = mul(m, z, horner(m, &m->f->log, z));
    LLVMValueRef y = mul(m, s, add(m, half_square, r));
    y = fma_(m, e, number(m, m->f->ln2[1]), y);
    y = sub(m, half_square, y);
    y = sub(m, y, f);
    return sub(m, mul(m, e, number(m, m->f->ln2[0])), y);
}

/* x = 2^e (1 + f) */
LLVMValueRef tsr_emit_log(tsr_emit *emit, LLVMValueRef x) {
    maths m = begin(emit, x);
    const format *f = m.f;
    LLVMValueRef scaled = mul(&m, x, number(&m, ldexp(1, f->denormal_shift)));
    LLVMValueRef normal = choose(&m, LLVMRealOLT, x, f->smallest_normal, scaled, x);
    LLVMValueRef unscale = choose(&m, LLVMRealOLT, x, f->smallest_normal,
                                  number(&m, -f->denormal_shift), number(&m, 0));
    LLVMValueRef all = bits(&m, normal);
    LLVMValueRef over = LLVMBuildSub(m.b, all, whole(&m, f->root_half_bits), "");
    LLVMValueRef e = LLVMBuildAShr(m.b, over, whole(&m, f->mantissa_bits), "");
    LLVMValueRef exponent = LLVMBuildShl(m.b, e, whole(&m, f->mantissa_bits), "");
    LLVMValueRef mantissa = value(&m, LLVMBuildSub(m.b, all, exponent, ""));
    /* The conversion of a small integer, by adding it to the magic number's bits. */
    LLVMValueRef as_bits = LLVMBuildAdd(m.b, e, whole(&m, f->magic_bits), "");
    LLVMValueRef as_number = sub(&m, value(&m, as_bits), number(&m, f->magic));
    as_number = add(&m, as_number, unscale);
    LLVMValueRef fraction = sub(&m, mantissa, number(&m, 1));
    LLVMValueRef y = (f == &formats[1] ? log_wide : log_narrow)(&m, fraction, as_number);
    y = choose(&m, LLVMRealOEQ, x, INFINITY, x, y);
    y = choose(&m, LLVMRealOEQ, x, 0, number(&m, -INFINITY), y);
    y = choose(&m, LLVMRealOLT, x, 0, number(&m, NAN), y);
    return choose(&m, LLVMRealUNO, x, 0, x, y);
}

/* |x| < 0.625: x + x^3 P(x^2); else 1 - 2 / (exp(2 |x|) + 1) with the sign of x. */
LLVMValueRef tsr_emit_tanh(tsr_emit *emit, LLVMValueRef x) {
    maths m = begin(emit, x);
    const format *f = m.f;
    LLVMValueRef a = tsr_emit_intrinsic(emit, "llvm.fabs", &m.type, 1, &x, 1);
    LLVMValueRef z = mul(&m, a, a);
    LLVMValueRef small = fma_(&m, mul(&m, a, z), horner(&m, &f->tanh, z), a);
    LLVMValueRef capped = choose(&m, LLVMRealOGT, a, f->tanh_one, number(&m, f->tanh_one), a);
    LLVMValueRef e = exp_of(&m, add(&m, capped, capped));
    LLVMValueRef q = LLVMBuildFDiv(m.b, number(&m, 2), add(&m, e, number(&m, 1)), "");
    LLVMValueRef large = sub(&m, number(&m, 1), q);
    LLVMValueRef magnitude = choose(&m, LLVMRealOLT, a, 0.625, small, large);
    LLVMValueRef args[] = {magnitude, x};
    return tsr_emit_intrinsic(emit, "llvm.copysign", &m.type, 1, args, 2);
}

/* By squaring, from the lowest bit of |exponent| up; a negative exponent inverts the result. */
LLVMValueRef tsr_emit_power(tsr_emit *emit, LLVMValueRef x, LLVMValueRef exponent) {
    maths m = begin(emit, x);
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef itype = LLVMTypeOf(exponent), one_bit = LLVMInt1TypeInContext(emit->llvm);
    LLVMValueRef zero = tsr_emit_int(itype, 0), one = tsr_emit_int(itype, 1);
    LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, exponent, zero, "");
    LLVMValueRef size =
        LLVMBuildSelect(b, negative, LLVMBuildSub(b, zero, exponent, ""), exponent, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef loop = tsr_emit_block(emit, "power"), done = tsr_emit_block(emit, "powered");
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef left = LLVMBuildPhi(b, itype, ""), base = LLVMBuildPhi(b, m.type, "");
    LLVMValueRef product = LLVMBuildPhi(b, m.type, "");
    LLVMValueRef odd = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, left, one, ""), zero, "");
    LLVMValueRef next_product =
        LLVMBuildSelect(b, odd, LLVMBuildFMul(b, product, base, ""), product, "");
    LLVMValueRef next_base = LLVMBuildFMul(b, base, base, "");
    LLVMValueRef next_left = LLVMBuildLShr(b, left, one, "");
    LLVMValueRef more = LLVMBuildICmp(b, LLVMIntNE, next_left, zero, "");
    LLVMTypeRef mask = LLVMTypeOf(more);
    if (mask != one_bit)
        more = tsr_emit_intrinsic(emit, "llvm.vector.reduce.or", &mask, 1, &more, 1);
    LLVMBuildCondBr(b, more, loop, done);
    LLVMValueRef starts[] = {size, x, number(&m, 1)},
                 nexts[] = {next_left, next_base, next_product};
    LLVMValueRef phis[] = {left, base, product};
    LLVMBasicBlockRef from[] = {before, loop};
    for (int i = 0; i < 3; i++) {
        LLVMValueRef values[] = {starts[i], nexts[i]};
        LLVMAddIncoming(phis[i], values, from, 2);
    }
    LLVMPositionBuilderAtEnd(b, done);
    LLVMValueRef inverse = LLVMBuildFDiv(b, number(&m, 1), next_product, "");
    return LLVMBuildSelect(b, negative, inverse, next_product, "");
}
