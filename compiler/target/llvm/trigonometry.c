/* SPDX-License-Identifier: Apache-2.0
 *
 * sin, cos, tan, asin, acos, atan as LLVM IR. f32 is computed in f64 and rounded once. f64 is
 * computed with pairs of numbers where a rounding error would be seen. As in math.c, the bits do
 * not depend on the target if it has FMA.
 *
 * An angle a >= 0 becomes n pi / 2 + r with |r| at most slightly above pi / 4:
 *
 *   a < 2^20  n times the parts of pi / 2, which are short enough for exact products (Cody and
 *             Waite, "Software Manual for the Elementary Functions", 1980)
 *   larger    the integer significand of a times the bits of 2 / pi that give a product modulo 4
 *             (Payne and Hanek, "Radian Reduction for Trigonometric Functions", 1983). Only vectors
 *             that have such an angle execute this code.
 */
#include "compiler/target/llvm/maths.h"

#include <math.h>

#define X(NAME, count, ...) static const double NAME[count] = {__VA_ARGS__};
#define WORDS(NAME, count, ...) static const uint64_t NAME[count] = {__VA_ARGS__};
#include "compiler/target/llvm/trigonometry_tables.def"
#undef WORDS
#undef X

static const double FAR = 0x1p20;

/* The functions are computed in f64, to the precision of a result of this type. */
typedef struct precision {
    polynomial sin, cos, asin, atan; /* tails: sin r = r + r^3 sin(r^2), cos r = 1 - r^2 / 2 + r^4
                                        cos(r^2); asin and atan as sin */
    bool pairs;
    unsigned words;  /* of 2 / pi that an angle of this type can need */
    unsigned window; /* words of them that one angle needs */
} precision;

static const precision precisions[2] = {{.sin = POLYNOMIAL(SIN_F32),
                                         .cos = POLYNOMIAL(COS_F32),
                                         .asin = POLYNOMIAL(ASIN_F32),
                                         .atan = POLYNOMIAL(ATAN_F32),
                                         .words = 5,
                                         .window = 2},
                                        {.sin = POLYNOMIAL(SIN_F64),
                                         .cos = POLYNOMIAL(COS_F64),
                                         .asin = POLYNOMIAL(ASIN_F64),
                                         .atan = POLYNOMIAL(ATAN_F64),
                                         .pairs = true,
                                         .words = TSR_COUNT(TWO_OVER_PI),
                                         .window = 3}};
enum { WINDOW_MAX = 3, LIMBS_MAX = 2 * WINDOW_MAX };

/* A function of x, which has been widened if it was f32. */
typedef struct call {
    maths m;
    const precision *p;
    LLVMValueRef x, a; /* x and |x|, f64 */
} call;

static call begin(tsr_emit *emit, LLVMValueRef x) {
    LLVMTypeRef type = tsr_emit_like(LLVMDoubleTypeInContext(emit->llvm), LLVMTypeOf(x));
    bool wide = LLVMTypeOf(x) == type;
    if (!wide) x = LLVMBuildFPExt(emit->builder, x, type, "");
    maths m = maths_of(emit, x);
    return (call){m, &precisions[wide], x, absolute(&m, x)};
}

/* y as a number of the type that x had */
static LLVMValueRef end(const call *c, LLVMValueRef y) {
    LLVMTypeRef f32 = LLVMFloatTypeInContext(c->m.emit->llvm);
    return c->p->pairs ? y : LLVMBuildFPTrunc(c->m.b, y, tsr_emit_like(f32, c->m.type), "");
}

static LLVMValueRef negate(const maths *m, LLVMValueRef x) { return LLVMBuildFNeg(m->b, x, ""); }
static LLVMValueRef either(const maths *m, LLVMValueRef condition, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSelect(m->b, condition, x, y, "");
}
static LLVMValueRef below(const maths *m, LLVMValueRef x, double limit) {
    return LLVMBuildFCmp(m->b, LLVMRealOLT, x, number(m, limit), "");
}

/* ---- integers ---- */

static LLVMValueRef and_(const maths *m, LLVMValueRef x, int64_t mask) {
    return LLVMBuildAnd(m->b, x, whole(m, mask), "");
}
static LLVMValueRef right(const maths *m, LLVMValueRef x, int64_t distance) {
    return LLVMBuildLShr(m->b, x, whole(m, distance), "");
}
static LLVMValueRef left(const maths *m, LLVMValueRef x, int64_t distance) {
    return LLVMBuildShl(m->b, x, whole(m, distance), "");
}
static LLVMValueRef plus(const maths *m, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildAdd(m->b, x, y, "");
}
static LLVMValueRef is_odd(const maths *m, LLVMValueRef x) {
    return LLVMBuildICmp(m->b, LLVMIntNE, and_(m, x, 1), whole(m, 0), "");
}

/* An integer below 2^32 as a number: it becomes the low bits of 2^52, which is subtracted. */
static LLVMValueRef from_u32(const maths *m, LLVMValueRef x) {
    LLVMValueRef shifted = LLVMBuildOr(m->b, x, whole(m, INT64_C(0x4330000000000000)), "");
    return sub(m, value(m, shifted), number(m, 0x1p52));
}

/* ---- angles ---- */

/* a = n pi / 2 + r; quadrant: n in its low two bits */
typedef struct angle {
    LLVMValueRef quadrant;
    pair r;
} angle;

/* The third part of pi / 2 is needed only for pairs. */
static angle reduce_near(const call *c) {
    const maths *m = &c->m;
    LLVMValueRef magic = number(m, 0x1.8p52);
    LLVMValueRef shifted = fma_(m, c->a, number(m, 2 / 3.14159265358979323846), magic);
    LLVMValueRef minus = sub(m, magic, shifted);
    LLVMValueRef r = fma_(m, minus, number(m, HALF_PI_SHORT[0]), c->a);
    angle of = {.quadrant = bits(m, shifted)};
    if (!c->p->pairs) {
        LLVMValueRef rest = number(m, HALF_PI_SHORT[1] + HALF_PI_SHORT[2]);
        of.r = (pair){fma_(m, minus, rest, r), number(m, 0)};
        return of;
    }
    pair second = any_sum_of(m, r, mul(m, minus, number(m, HALF_PI_SHORT[1])));
    pair third = any_sum_of(m, second.high, mul(m, minus, number(m, HALF_PI_SHORT[2])));
    LLVMValueRef low = add(m, second.low, third.low);
    low = fma_(m, minus, number(m, HALF_PI_SHORT[3]), low);
    of.r = sum_of(m, third.high, low);
    return of;
}

/* Words of 2 / pi from bit e + 62 on: their first two bits count in the product of 2^e and 2 / pi
 * as 2 and 1. Moves the words by the bits of their index, the highest first. */
static void take_window(const call *c, LLVMValueRef start, LLVMValueRef *out_words) {
    const maths *m = &c->m;
    LLVMValueRef words[TSR_COUNT(TWO_OVER_PI)], index = right(m, start, 6);
    unsigned wanted = c->p->window + 1, reach = c->p->words - wanted;
    for (unsigned i = 0; i < c->p->words; i++) words[i] = whole(m, (int64_t)TWO_OVER_PI[i]);
    for (unsigned bit = 5; bit-- > 0;) {
        unsigned step = 1u << bit;
        if (step > reach) continue;
        LLVMValueRef moves = is_odd(m, right(m, index, bit));
        for (unsigned i = 0; i < wanted + step - 1 && i + step < c->p->words; i++)
            words[i] = either(m, moves, words[i + step], words[i]);
    }
    LLVMValueRef shift = and_(m, start, 63);
    for (unsigned i = 0; i + 1 < wanted; i++) {
        LLVMValueRef args[] = {words[i], words[i + 1], shift};
        out_words[i] = tsr_emit_intrinsic(m->emit, "llvm.fshl", &m->integer, 1, args, 3);
    }
}

/* significand * words modulo 2^64 times the first word, in limbs of 32 bits, highest first */
static void multiply_window(const call *c, LLVMValueRef significand, const LLVMValueRef *words,
                            LLVMValueRef *limbs) {
    const maths *m = &c->m;
    const int64_t mask = UINT32_MAX;
    unsigned count = 2 * c->p->window;
    LLVMValueRef low = and_(m, significand, mask), high = right(m, significand, 32);
    LLVMValueRef factors[LIMBS_MAX], carry = whole(m, 0);
    for (unsigned i = 0; i < count; i++)
        factors[i] = i % 2 ? and_(m, words[i / 2], mask) : right(m, words[i / 2], 32);
    for (unsigned i = count; i-- > 0;) {
        LLVMValueRef sum = plus(m, LLVMBuildMul(m->b, low, factors[i], ""), carry);
        limbs[i] = and_(m, sum, mask);
        carry = right(m, sum, 32);
    }
    carry = whole(m, 0);
    for (unsigned i = count; i-- > 1;) {
        LLVMValueRef sum = plus(m, LLVMBuildMul(m->b, high, factors[i], ""), limbs[i - 1]);
        sum = plus(m, sum, carry);
        limbs[i - 1] = and_(m, sum, mask);
        carry = right(m, sum, 32);
    }
}

/* The product is a fraction of 62 bits of its first word and all of the second, at most one half in
 * magnitude; a multiple of 4 has been dropped. */
static angle reduce_far(const call *c) {
    const maths *m = &c->m;
    LLVMValueRef all = bits(m, c->a), words[WINDOW_MAX], limbs[LIMBS_MAX];
    LLVMValueRef significand = and_(m, all, (INT64_C(1) << 52) - 1);
    significand = LLVMBuildOr(m->b, significand, whole(m, INT64_C(1) << 52), "");
    /* The exponent e of the lowest bit is biased by 1075. */
    take_window(c, plus(m, right(m, all, 52), whole(m, 62 - 1075)), words);
    multiply_window(c, significand, words, limbs);
    LLVMValueRef first = LLVMBuildOr(m->b, left(m, limbs[0], 32), limbs[1], "");
    LLVMValueRef rounded = plus(m, first, whole(m, INT64_C(1) << 61));
    angle of = {.quadrant = right(m, rounded, 62)};
    LLVMValueRef part = LLVMBuildSub(m->b, first, left(m, of.quadrant, 62), "");
    /* The signed first word plus 2^63 is not negative. */
    LLVMValueRef biased = LLVMBuildXor(m->b, part, whole(m, INT64_MIN), "");
    LLVMValueRef high = sub(m, from_u32(m, right(m, biased, 32)), number(m, 0x1p31));
    LLVMValueRef low = from_u32(m, and_(m, part, UINT32_MAX));
    pair sum = any_sum_of(m, mul(m, high, number(m, 0x1p-30)), mul(m, low, number(m, 0x1p-62)));
    pair more = any_sum_of(m, sum.high, mul(m, from_u32(m, limbs[2]), number(m, 0x1p-94)));
    LLVMValueRef rest = mul(m, from_u32(m, limbs[3]), number(m, 0x1p-126));
    pair f = sum_of(m, more.high, add(m, add(m, sum.low, more.low), rest));
    pair r = product_of(m, f.high, number(m, HALF_PI[0]));
    r.low = fma_(m, f.high, number(m, HALF_PI[1]), r.low);
    of.r = sum_of(m, r.high, fma_(m, f.low, number(m, HALF_PI[0]), r.low));
    return of;
}

/* The value after the branch: `far` from its block, `near` from the block before it. */
static LLVMValueRef joined(const maths *m, LLVMValueRef near, LLVMBasicBlockRef before,
                           LLVMValueRef far, LLVMBasicBlockRef branch) {
    LLVMValueRef phi = LLVMBuildPhi(m->b, LLVMTypeOf(near), "");
    LLVMAddIncoming(phi, &near, &before, 1);
    LLVMAddIncoming(phi, &far, &branch, 1);
    return phi;
}

static angle reduce(const call *c) {
    const maths *m = &c->m;
    angle near = reduce_near(c);
    LLVMValueRef is_far = LLVMBuildFCmp(m->b, LLVMRealOGE, c->a, number(m, FAR), "");
    LLVMValueRef finite = below(m, c->a, INFINITY), any = LLVMBuildAnd(m->b, is_far, finite, "");
    is_far = any;
    LLVMTypeRef mask = LLVMTypeOf(any);
    if (mask != LLVMInt1TypeInContext(m->emit->llvm))
        any = tsr_emit_intrinsic(m->emit, "llvm.vector.reduce.or", &mask, 1, &any, 1);
    LLVMBasicBlockRef branch = tsr_emit_block(m->emit, "far"), done;
    done = tsr_emit_block(m->emit, "reduced");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(m->b);
    LLVMBuildCondBr(m->b, any, branch, done);
    LLVMPositionBuilderAtEnd(m->b, branch);
    angle far = reduce_far(c);
    far.quadrant = either(m, is_far, far.quadrant, near.quadrant);
    far.r.high = either(m, is_far, far.r.high, near.r.high);
    far.r.low = either(m, is_far, far.r.low, near.r.low);
    LLVMBuildBr(m->b, done);
    LLVMPositionBuilderAtEnd(m->b, done);
    return (angle){joined(m, near.quadrant, before, far.quadrant, branch),
                   {joined(m, near.r.high, before, far.r.high, branch),
                    joined(m, near.r.low, before, far.r.low, branch)}};
}

/* ---- sin, cos, tan ---- */

/* sin r and cos r, each as a number and its tail */
typedef struct waves {
    pair sin, cos;
} waves;

static waves waves_of(const call *c, pair r) {
    const maths *m = &c->m;
    LLVMValueRef z = mul(m, r.high, r.high), half = mul(m, z, number(m, 0.5));
    LLVMValueRef one = number(m, 1), head = sub(m, one, half);
    LLVMValueRef sin = mul(m, mul(m, r.high, z), horner(m, &c->p->sin, z));
    LLVMValueRef cos = mul(m, mul(m, z, z), horner(m, &c->p->cos, z));
    if (c->p->pairs) {
        sin = fma_(m, r.low, head, sin); /* the slope at r.high, cos r.high, is near 1 - z / 2 */
        LLVMValueRef lost = sub(m, sub(m, one, head), half);
        cos = add(m, cos, sub(m, lost, mul(m, r.high, r.low)));
    }
    return (waves){{r.high, sin}, {head, cos}};
}

static pair pick(const maths *m, LLVMValueRef condition, pair x, pair y) {
    return (pair){either(m, condition, x.high, y.high), either(m, condition, x.low, y.low)};
}

/* y with its sign changed where bit 63 of `sign` is set */
static LLVMValueRef flip(const maths *m, LLVMValueRef y, LLVMValueRef sign) {
    LLVMValueRef bit = and_(m, sign, INT64_MIN);
    return value(m, LLVMBuildXor(m->b, bits(m, y), bit, ""));
}

/* sin(a + ahead pi / 2) */
static LLVMValueRef wave(const call *c, unsigned ahead, LLVMValueRef *out_sign) {
    const maths *m = &c->m;
    angle of = reduce(c);
    LLVMValueRef quadrant = plus(m, of.quadrant, whole(m, ahead));
    waves w = waves_of(c, of.r);
    pair y = pick(m, is_odd(m, quadrant), w.cos, w.sin);
    *out_sign = left(m, quadrant, 62);
    return add(m, y.high, y.low);
}

LLVMValueRef tsr_emit_sin(tsr_emit *emit, LLVMValueRef x) {
    call c = begin(emit, x);
    LLVMValueRef sign, y = wave(&c, 0, &sign);
    sign = LLVMBuildXor(c.m.b, sign, bits(&c.m, c.x), "");
    return end(&c, flip(&c.m, y, sign));
}

LLVMValueRef tsr_emit_cos(tsr_emit *emit, LLVMValueRef x) {
    call c = begin(emit, x);
    LLVMValueRef sign, y = wave(&c, 1, &sign);
    return end(&c, flip(&c.m, y, sign));
}

/* x / y; the tail corrects the rounding of the quotient. */
static pair quotient_of(const maths *m, pair x, pair y) {
    LLVMValueRef q = divide(m, x.high, y.high);
    pair back = product_of(m, q, y.high);
    LLVMValueRef rest = sub(m, sub(m, x.high, back.high), back.low);
    rest = sub(m, add(m, rest, x.low), mul(m, q, y.low));
    return (pair){q, divide(m, rest, y.high)};
}

/* sin r / cos r, and -cos r / sin r in odd quadrants */
LLVMValueRef tsr_emit_tan(tsr_emit *emit, LLVMValueRef x) {
    call c = begin(emit, x);
    const maths *m = &c.m;
    angle of = reduce(&c);
    waves w = waves_of(&c, of.r);
    LLVMValueRef odd = is_odd(m, of.quadrant), y;
    pair sin = sum_of(m, w.sin.high, w.sin.low), cos = sum_of(m, w.cos.high, w.cos.low);
    pair above = pick(m, odd, cos, sin), under = pick(m, odd, sin, cos);
    if (c.p->pairs) {
        pair q = quotient_of(m, above, under);
        y = add(m, q.high, q.low);
    } else {
        y = divide(m, above.high, under.high);
    }
    LLVMValueRef sign = LLVMBuildXor(m->b, left(m, of.quadrant, 63), bits(m, c.x), "");
    return end(&c, flip(m, y, sign));
}

/* ---- asin, acos, atan ---- */

/* asin s = s + tail with s = a if a < 0.5, and else s = sqrt((1 - a) / 2), for which asin a is
 * pi / 2 - 2 asin s. The tail contains what the root's rounding lost. */
typedef struct arc {
    LLVMValueRef is_small, s, tail;
} arc;

static arc arc_of(const call *c) {
    const maths *m = &c->m;
    LLVMValueRef is_small = below(m, c->a, 0.5);
    LLVMValueRef z = mul(m, sub(m, number(m, 1), c->a), number(m, 0.5));
    z = either(m, is_small, mul(m, c->a, c->a), z);
    LLVMValueRef root = tsr_emit_intrinsic(m->emit, "llvm.sqrt", &m->type, 1, &z, 1);
    LLVMValueRef s = either(m, is_small, c->a, root);
    LLVMValueRef tail = mul(m, mul(m, s, z), horner(m, &c->p->asin, z));
    if (c->p->pairs) {
        pair back = product_of(m, root, root);
        LLVMValueRef rest = sub(m, sub(m, z, back.high), back.low);
        LLVMValueRef lost = divide(m, rest, add(m, root, root));
        LLVMValueRef is_0 = LLVMBuildFCmp(m->b, LLVMRealOEQ, root, number(m, 0), "");
        LLVMValueRef none = LLVMBuildOr(m->b, is_small, is_0, "");
        tail = add(m, tail, either(m, none, number(m, 0), lost));
    }
    return (arc){is_small, s, tail};
}

/* of - (high + low), where of is a multiple of HALF_PI */
static LLVMValueRef taken_from(const maths *m, pair of, LLVMValueRef high, LLVMValueRef low) {
    pair sum = sum_of(m, of.high, negate(m, high));
    return add(m, sum.high, add(m, sum.low, sub(m, of.low, low)));
}

LLVMValueRef tsr_emit_asin(tsr_emit *emit, LLVMValueRef x) {
    call c = begin(emit, x);
    const maths *m = &c.m;
    arc of = arc_of(&c);
    pair half_pi = {number(m, HALF_PI[0]), number(m, HALF_PI[1])};
    LLVMValueRef large = taken_from(m, half_pi, add(m, of.s, of.s), add(m, of.tail, of.tail));
    LLVMValueRef y = either(m, of.is_small, add(m, of.s, of.tail), large);
    return end(&c, with_sign(m, y, c.x));
}

/* pi / 2 - asin x, 2 asin s or pi - 2 asin s */
LLVMValueRef tsr_emit_acos(tsr_emit *emit, LLVMValueRef x) {
    call c = begin(emit, x);
    const maths *m = &c.m;
    arc of = arc_of(&c);
    LLVMValueRef two_s = add(m, of.s, of.s), two_tail = add(m, of.tail, of.tail);
    pair whole_arc;
    whole_arc.high = either(m, of.is_small, number(m, HALF_PI[0]), number(m, 2 * HALF_PI[0]));
    whole_arc.low = either(m, of.is_small, number(m, HALF_PI[1]), number(m, 2 * HALF_PI[1]));
    LLVMValueRef high = either(m, of.is_small, c.x, two_s);
    LLVMValueRef low = either(m, of.is_small, with_sign(m, of.tail, c.x), two_tail);
    LLVMValueRef y = taken_from(m, whole_arc, high, low);
    LLVMValueRef near_1 = LLVMBuildFCmp(m->b, LLVMRealOGE, c.x, number(m, 0.5), "");
    return end(&c, either(m, near_1, add(m, two_s, two_tail), y));
}

/* base + atan t with |t| at most tan(pi / 8): base 0, t = a; pi / 4, (a - 1) / (a + 1); or pi / 2,
 * -1 / a. */
LLVMValueRef tsr_emit_atan(tsr_emit *emit, LLVMValueRef x) {
    static const double low_end = 0x1.a827999fcef32p-2, high_end = 0x1.3504f333f9de6p1;
    call c = begin(emit, x);
    const maths *m = &c.m;
    LLVMValueRef zero = number(m, 0), one = number(m, 1);
    /* The arc of 2^60 and above is the same; infinity times 0 would be NaN. */
    LLVMValueRef a = choose(m, LLVMRealOGT, c.a, 0x1p60, number(m, 0x1p60), c.a);
    LLVMValueRef first = below(m, a, low_end), second = below(m, a, high_end);
    pair above = pick(m, second, any_sum_of(m, a, number(m, -1)), (pair){number(m, -1), zero});
    pair under = pick(m, second, any_sum_of(m, a, one), (pair){a, zero});
    above = pick(m, first, (pair){a, zero}, above);
    under = pick(m, first, (pair){one, zero}, under);
    pair t = {divide(m, above.high, under.high), zero};
    if (c.p->pairs) t = quotient_of(m, above, under);
    LLVMValueRef z = mul(m, t.high, t.high);
    LLVMValueRef tail = mul(m, mul(m, t.high, z), horner(m, &c.p->atan, z));
    pair base = {number(m, HALF_PI[0]), number(m, HALF_PI[1])};
    base = pick(m, second, (pair){number(m, HALF_PI[0] / 2), number(m, HALF_PI[1] / 2)}, base);
    base = pick(m, first, (pair){zero, zero}, base);
    pair sum = any_sum_of(m, base.high, t.high);
    tail = add(m, sum.low, add(m, add(m, base.low, t.low), tail));
    return end(&c, with_sign(m, add(m, sum.high, tail), c.x));
}
