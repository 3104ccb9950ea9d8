/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions as LLVM IR on scalars and vectors of f32 and f64. These functions only use IEEE 754
 * operations that every target rounds the same way, so the bits do not depend on the target if it
 * has FMA. Coefficients: math_tables.def.
 *
 * Methods: Cody and Waite, "Software Manual for the Elementary Functions", 1980 (reduction by two
 * parts of ln 2); log of f64 by s = f / (2 + f) as in Tang, "Table-Driven Implementation of the
 * Logarithm Function in IEEE Floating-Point Arithmetic", 1990, without the table; erfc scaled to (1
 * + 2 z) exp(z^2) erfc(z) as in Shepherd and Laframboise, "Chebyshev Approximation of (1 + 2x)
 * exp(x^2) erfc x in 0 <= x < infinity", 1981; pairs of numbers as in Dekker, "A Floating-Point
 * Technique for Extending the Available Precision", 1971.
 */
#include "compiler/target/llvm/maths.h"

#include <math.h>

#define X(NAME, count, ...) static const double NAME[count] = {__VA_ARGS__};
#include "compiler/target/llvm/math_tables.def"
#undef X

static const double LOG2_E = 0x1.71547652b82fep0, LN2 = 0x1.62e42fefa39efp-1;

/* One floating-point format. */
typedef struct format {
    unsigned mantissa_bits;
    double magic; /* 1.5 * 2^mantissa_bits + bias: adding it rounds to an integer, which is the low
                     bits, as an exponent has them */
    int64_t magic_bits, root_half_bits; /* representations of magic and of sqrt(1/2) */
    double exp_lowest, exp_highest;     /* beyond these the result is 0 or infinite */
    int exp_shift; /* 2^n is applied as 2^(n + exp_shift) and 2^-exp_shift, for the lowest n */
    double smallest_normal;
    int denormal_shift;      /* a denormal is scaled up by 2^this */
    double tanh_one;         /* tanh is 1 from this number on; at most 20 */
    const double *ln2;       /* two parts; the high one times any exponent is exact */
    double erfc_zero;        /* erfc is 0 from this number on */
    polynomial exp, exp_fma; /* exp_fma: for targets that do not round products */
    polynomial exp_shifted;  /* optional; else like exp */
    double exp_shifted_zero; /* at this number and below, n equals the n of 0 */
    polynomial log, tanh, erf, erfc, gelu;
    double gelu_middle, gelu_zero; /* for the table's variable; below -gelu_zero gelu is 0 */
    const double *gelu_tanh;       /* 2 sqrt(2 / pi), 0.044715 times that; two parts each */
    double gelu_tanh_zero;         /* gelu by tanh is 0 below minus this number */
} format;

static const format formats[2] = {{.mantissa_bits = 23,
                                   .magic = 0x1.8p23 + 127,
                                   .magic_bits = 0x4b400000 + 127,
                                   .root_half_bits = 0x3f3504f3,
                                   .exp_lowest = -104,
                                   .exp_highest = 89,
                                   .exp_shift = 64,
                                   .smallest_normal = 0x1p-126,
                                   .denormal_shift = 23,
                                   .tanh_one = 10,
                                   .ln2 = LN2_F32,
                                   .erfc_zero = 10.2,
                                   .exp_fma = POLYNOMIAL(EXP_FMA_F32),
                                   .exp_shifted = POLYNOMIAL(EXP_SHIFTED_F32),
                                   .exp_shifted_zero = -88.3,
                                   .gelu_middle = 3,
                                   .gelu_zero = 14.5,
                                   .gelu_tanh_zero = 11,
                                   .exp = POLYNOMIAL(EXP_F32),
                                   .log = POLYNOMIAL(LOG_F32),
                                   .tanh = POLYNOMIAL(TANH_F32),
                                   .erf = POLYNOMIAL(ERF_F32),
                                   .erfc = POLYNOMIAL(ERFC_F32),
                                   .gelu = POLYNOMIAL(GELU_F32),
                                   .gelu_tanh = GELU_TANH_F32},
                                  {.mantissa_bits = 52,
                                   .magic = 0x1.8p52 + 1023,
                                   .magic_bits = 0x4338000000000000 + 1023,
                                   .root_half_bits = 0x3fe6a09e667f3bcd,
                                   .exp_lowest = -746,
                                   .exp_highest = 710,
                                   .exp_shift = 512,
                                   .smallest_normal = 0x1p-1022,
                                   .denormal_shift = 52,
                                   .tanh_one = 20,
                                   .ln2 = LN2_F64,
                                   .erfc_zero = 27.4,
                                   .exp_fma = POLYNOMIAL(EXP_F64),
                                   .gelu_middle = 5,
                                   .gelu_zero = 38.8,
                                   .gelu_tanh_zero = 22,
                                   .exp = POLYNOMIAL(EXP_F64),
                                   .log = POLYNOMIAL(LOG_F64),
                                   .tanh = POLYNOMIAL(TANH_F64),
                                   .erf = POLYNOMIAL(ERF_F64),
                                   .erfc = POLYNOMIAL(ERFC_F64),
                                   .gelu = POLYNOMIAL(GELU_F64),
                                   .gelu_tanh = GELU_TANH_F64}};

static const format *format_of(const maths *m) { return &formats[m->wide]; }

/* x + low = n ln 2 + r; shifted is n + magic. */
typedef struct exp_parts {
    LLVMValueRef shifted, r;
} exp_parts;

/* `low` (NULL: 0) is below 2^-20 |x|. */
static exp_parts exp_reduce(const maths *m, LLVMValueRef x, LLVMValueRef low, LLVMValueRef magic) {
    const format *f = format_of(m);
    LLVMValueRef shifted = fma_(m, x, number(m, LOG2_E), magic);
    LLVMValueRef n = sub(m, shifted, magic);
    LLVMValueRef r = fma_(m, n, number(m, -f->ln2[0]), x);
    if (low) r = add(m, r, low);
    return (exp_parts){shifted, fma_(m, n, number(m, -f->ln2[1]), r)};
}

static LLVMValueRef clamp(const maths *m, LLVMValueRef x, double low, double high) {
    x = choose(m, LLVMRealOGT, x, high, number(m, high), x);
    return choose(m, LLVMRealOLT, x, low, number(m, low), x);
}

/* exp r - 1, |r| < 0.35 */
static LLVMValueRef exp_tail(const maths *m, LLVMValueRef r) {
    return fma_(m, mul(m, r, r), horner(m, &format_of(m)->exp, r), r);
}

/* scale * exp r, scale a power of two */
static LLVMValueRef exp_near_0(const maths *m, LLVMValueRef r, double scale) {
    const polynomial *p = &format_of(m)->exp_fma;
    LLVMValueRef one = number(m, scale), y = number(m, scale * p->coefficients[p->count - 1]);
    if (!m->emit->target->has_fma)
        return mul(m, add(m, exp_tail(m, r), number(m, 1)), number(m, scale));
    for (unsigned i = p->count - 1; i-- > 0;)
        y = fma_(m, y, r, number(m, scale * p->coefficients[i]));
    return fma_(m, fma_(m, y, r, one), r, one);
}

/* 2^n for shifted = n + magic */
static LLVMValueRef power_of_shifted(const maths *m, LLVMValueRef shifted) {
    return value(m,
                 LLVMBuildShl(m->b, bits(m, shifted), whole(m, format_of(m)->mantissa_bits), ""));
}

/* exp(x + low), x < 40 or NaN, which passes through the clamp. The polynomial contains one factor
 * of 2^n, so that denormal results are rounded once. */
static LLVMValueRef exp_below_40(const maths *m, LLVMValueRef x, LLVMValueRef low) {
    const format *f = format_of(m);
    x = choose(m, LLVMRealOLT, x, f->exp_lowest, number(m, f->exp_lowest), x);
    exp_parts e = exp_reduce(m, x, low, number(m, f->magic + f->exp_shift));
    return mul(m, exp_near_0(m, e.r, ldexp(1, -f->exp_shift)), power_of_shifted(m, e.shifted));
}

/* factor * exp(x + low) as near * factor * power, x < 40 or NaN: rounded once if the result is
 * denormal */
typedef struct exp_factors {
    LLVMValueRef near, power;
} exp_factors;

static exp_factors exp_below_40_factors(const maths *m, LLVMValueRef x, LLVMValueRef low) {
    const format *f = format_of(m);
    x = choose(m, LLVMRealOLT, x, f->exp_lowest, number(m, f->exp_lowest), x);
    exp_parts e = exp_reduce(m, x, low, number(m, f->magic + f->exp_shift));
    LLVMValueRef power = mul(m, power_of_shifted(m, e.shifted), number(m, ldexp(1, -f->exp_shift)));
    return (exp_factors){exp_near_0(m, e.r, 1), power};
}

/* exp(x + low), the same bits; the other factor of 2^n is on the same side of 1 as 2^n. */
static LLVMValueRef exp_of(const maths *m, LLVMValueRef x, LLVMValueRef low) {
    const format *f = format_of(m);
    x = clamp(m, x, f->exp_lowest, f->exp_highest);
    LLVMValueRef below = is_below_0(m, x);
    LLVMValueRef magic = LLVMBuildSelect(m->b, below, number(m, f->magic + f->exp_shift),
                                         number(m, f->magic - f->exp_shift), "");
    LLVMValueRef rest = LLVMBuildSelect(m->b, below, number(m, ldexp(1, -f->exp_shift)),
                                        number(m, ldexp(1, f->exp_shift)), "");
    exp_parts e = exp_reduce(m, x, low, magic);
    return mul(m, mul(m, exp_near_0(m, e.r, 1), power_of_shifted(m, e.shifted)), rest);
}

LLVMValueRef tsr_emit_exp(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    return exp_of(&m, x, NULL);
}

LLVMValueRef tsr_emit_exp_below_40(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    return exp_below_40(&m, x, NULL);
}

/* As above, to a few units in the last place: the low part of ln 2 would change a tenth of the
 * rounding error that x, a difference, already has. 0 if 2^n is a denormal. */
LLVMValueRef tsr_emit_exp_shifted(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    const format *f = format_of(&m);
    if (!f->exp_shifted.count || !emit->target->has_fma) return exp_below_40(&m, x, NULL);
    LLVMValueRef magic = number(&m, f->magic), one = number(&m, 1);
    x = choose(&m, LLVMRealOLT, x, f->exp_shifted_zero, number(&m, f->exp_shifted_zero), x);
    LLVMValueRef shifted = fma_(&m, x, number(&m, LOG2_E), magic);
    LLVMValueRef r = fma_(&m, sub(&m, shifted, magic), number(&m, -LN2), x);
    LLVMValueRef y = fma_(&m, horner(&m, &f->exp_shifted, r), r, one);
    return mul(&m, fma_(&m, y, r, one), power_of_shifted(&m, shifted));
}

/* exp r = 1 + tail: 2 (2^(n-1) tail + (2^(n-1) - 1/2)); the halves keep 2^n in range. The result is
 * x if x is so small that its half would be denormal. */
LLVMValueRef tsr_emit_expm1(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    double lowest = -2.0 * (format_of(&m)->mantissa_bits + 1);
    exp_parts e = exp_reduce(&m, clamp(&m, x, lowest, format_of(&m)->exp_highest), NULL,
                             number(&m, format_of(&m)->magic - 1));
    LLVMValueRef scale = power_of_shifted(&m, e.shifted);
    LLVMValueRef y = fma_(&m, scale, exp_tail(&m, e.r), sub(&m, scale, number(&m, 0.5)));
    y = add(&m, y, y);
    return choose(&m, LLVMRealOLT, absolute(&m, x), 4 * format_of(&m)->smallest_normal, x, y);
}

/* x = 2^e (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1] */
typedef struct log_parts {
    LLVMValueRef e, f;
} log_parts;

static log_parts log_reduce(const maths *m, LLVMValueRef x) {
    const format *f = format_of(m);
    LLVMValueRef scaled = mul(m, x, number(m, ldexp(1, f->denormal_shift)));
    LLVMValueRef normal = choose(m, LLVMRealOLT, x, f->smallest_normal, scaled, x);
    LLVMValueRef unscale =
        choose(m, LLVMRealOLT, x, f->smallest_normal, number(m, -f->denormal_shift), number(m, 0));
    LLVMValueRef all = bits(m, normal);
    LLVMValueRef over = LLVMBuildSub(m->b, all, whole(m, f->root_half_bits), "");
    LLVMValueRef e = LLVMBuildAShr(m->b, over, whole(m, f->mantissa_bits), "");
    LLVMValueRef exponent = LLVMBuildShl(m->b, e, whole(m, f->mantissa_bits), "");
    LLVMValueRef mantissa = value(m, LLVMBuildSub(m->b, all, exponent, ""));
    /* Converts a small integer by adding it to the magic number's bits. */
    LLVMValueRef as_bits = LLVMBuildAdd(m->b, e, whole(m, f->magic_bits), "");
    LLVMValueRef as_number = sub(m, value(m, as_bits), number(m, f->magic));
    return (log_parts){add(m, as_number, unscale), sub(m, mantissa, number(m, 1))};
}

static LLVMValueRef log_narrow(const maths *m, log_parts x, LLVMValueRef low) {
    LLVMValueRef square = mul(m, x.f, x.f);
    LLVMValueRef y = mul(m, mul(m, square, x.f), horner(m, &format_of(m)->log, x.f));
    y = fma_(m, x.e, number(m, format_of(m)->ln2[1]), y);
    if (low) y = add(m, y, low);
    y = fma_(m, square, number(m, -0.5), y);
    return fma_(m, x.e, number(m, format_of(m)->ln2[0]), add(m, x.f, y));
}

static LLVMValueRef log_wide(const maths *m, log_parts x, LLVMValueRef low) {
    LLVMValueRef s = divide(m, x.f, add(m, x.f, number(m, 2)));
    LLVMValueRef z = mul(m, s, s);
    LLVMValueRef half_square = mul(m, mul(m, x.f, x.f), number(m, 0.5));
    LLVMValueRef r = mul(m, z, horner(m, &format_of(m)->log, z));
    LLVMValueRef y = mul(m, s, add(m, half_square, r));
    y = fma_(m, x.e, number(m, format_of(m)->ln2[1]), y);
    if (low) y = add(m, y, low);
    y = sub(m, half_square, y);
    y = sub(m, y, x.f);
    return sub(m, mul(m, x.e, number(m, format_of(m)->ln2[0])), y);
}

/* log(1 + f) + e ln 2 + low; `low` may be NULL. */
static LLVMValueRef log_sum(const maths *m, log_parts x, LLVMValueRef low) {
    return (m->wide ? log_wide : log_narrow)(m, x, low);
}

/* y, except for arguments from `pole` down, infinity and NaN */
static LLVMValueRef log_specials(const maths *m, LLVMValueRef x, double pole, LLVMValueRef y) {
    y = choose(m, LLVMRealOEQ, x, INFINITY, x, y);
    y = choose(m, LLVMRealOEQ, x, pole, number(m, -INFINITY), y);
    y = choose(m, LLVMRealOLT, x, pole, number(m, NAN), y);
    return choose(m, LLVMRealUNO, x, 0, x, y);
}

LLVMValueRef tsr_emit_log(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    return log_specials(&m, x, 0, log_sum(&m, log_reduce(&m, x), NULL));
}

/* 1 + x is u + rest without error; log(u + rest) = log u + rest / u. */
LLVMValueRef tsr_emit_log1p(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    LLVMValueRef one = number(&m, 1), u = add(&m, x, one);
    LLVMValueRef of_small = sub(&m, x, sub(&m, u, one)), of_large = sub(&m, one, sub(&m, u, x));
    LLVMValueRef rest = choose(&m, LLVMRealOLT, absolute(&m, x), 1, of_small, of_large);
    LLVMValueRef y = log_sum(&m, log_reduce(&m, u), divide(&m, rest, u));
    y = choose(&m, LLVMRealOEQ, x, 0, x, y);
    return log_specials(&m, x, -1, y);
}

/* |x| < 0.625: x + x^3 P(x^2); else 1 - 2 / (exp(2 |x|) + 1) with the sign of x. */
LLVMValueRef tsr_emit_tanh(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    const format *f = format_of(&m);
    LLVMValueRef a = absolute(&m, x), z = mul(&m, a, a);
    LLVMValueRef small = fma_(&m, mul(&m, a, z), horner(&m, &f->tanh, z), a);
    LLVMValueRef capped = choose(&m, LLVMRealOGT, a, f->tanh_one, number(&m, f->tanh_one), a);
    LLVMValueRef e = exp_below_40(&m, add(&m, capped, capped), NULL);
    LLVMValueRef q = divide(&m, number(&m, 2), add(&m, e, number(&m, 1)));
    LLVMValueRef large = sub(&m, number(&m, 1), q);
    LLVMValueRef magnitude = choose(&m, LLVMRealOLT, a, 0.625, small, large);
    return with_sign(&m, magnitude, x);
}

/* exp(-a^2): the square in two parts, so that its rounding does not grow. */
static LLVMValueRef exp_of_square(const maths *m, LLVMValueRef a) {
    pair square = product_of(m, a, LLVMBuildFNeg(m->b, a, ""));
    return exp_below_40(m, square.high, square.low);
}

/* exp(z^2) erfc(z), z >= 0 */
static LLVMValueRef erfc_scaled(const maths *m, LLVMValueRef z) {
    LLVMValueRef middle = number(m, 3.75);
    LLVMValueRef u = divide(m, sub(m, z, middle), add(m, z, middle));
    LLVMValueRef below = add(m, add(m, z, z), number(m, 1));
    return divide(m, horner(m, &format_of(m)->erfc, u), below);
}

/* erf z = z + z P(z^2), |z| < 0.84375 */
static LLVMValueRef erf_small(const maths *m, LLVMValueRef z) {
    return fma_(m, z, horner(m, &format_of(m)->erf, mul(m, z, z)), z);
}

/* |x| < 0.84375: as above; else 1 - erfc |x| with the sign of x. */
LLVMValueRef tsr_emit_erf(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    LLVMValueRef a = absolute(&m, x);
    double zero = format_of(&m)->erfc_zero;
    LLVMValueRef z = choose(&m, LLVMRealOGT, a, zero, number(&m, zero), a);
    LLVMValueRef erfc = mul(&m, exp_of_square(&m, z), erfc_scaled(&m, z));
    LLVMValueRef large = sub(&m, number(&m, 1), erfc);
    large = choose(&m, LLVMRealOLT, a, 0.84375, erf_small(&m, a), large);
    return choose(&m, LLVMRealUNO, x, 0, x, with_sign(&m, large, x));
}

/* q = erfc(|x| / sqrt 2) / 2 = exp(-x^2 / 2) (1 - u) P(u), u = (|x| - c) / (|x| + c). */
typedef struct tail {
    LLVMValueRef finite, a, scaled; /* x within the table; |x|; (1 - u) P(u) */
    exp_factors e;                  /* exp(-x^2 / 2) */
} tail;

static tail tail_of(const maths *m, LLVMValueRef x) {
    LLVMValueRef middle = number(m, format_of(m)->gelu_middle);
    LLVMValueRef finite = clamp(m, x, -format_of(m)->gelu_zero, format_of(m)->gelu_zero),
                 a = absolute(m, finite);
    pair square = product_of(m, finite, mul(m, finite, number(m, -0.5)));
    exp_factors e = exp_below_40_factors(m, square.high, square.low);
    LLVMValueRef u = divide(m, sub(m, a, middle), add(m, a, middle));
    LLVMValueRef scaled = mul(m, sub(m, number(m, 1), u), horner(m, &format_of(m)->gelu, u));
    return (tail){finite, a, scaled, e};
}

/* x - x q, and x q where x < 0, which is good to the end of the tail. */
LLVMValueRef tsr_emit_gelu(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    tail t = tail_of(&m, x);
    LLVMValueRef part = mul(&m, t.finite, t.scaled);
    LLVMValueRef below = mul(&m, mul(&m, part, t.e.near), t.e.power);
    LLVMValueRef above = fma_(&m, LLVMBuildFNeg(m.b, part, ""), mul(&m, t.e.near, t.e.power), x);
    return LLVMBuildSelect(m.b, is_below_0(&m, x), below, above, "");
}

/* q - |x| f(x) if x < 0, else 1 minus that; f(x) = exp(-x^2 / 2) / sqrt(2 pi). The derivative adds
 * a few instructions to a gelu of the same x. */
LLVMValueRef tsr_emit_gelu_slope(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    tail t = tail_of(&m, x);
    LLVMValueRef part = fma_(&m, t.a, number(&m, -0.3989422804014327), t.scaled);
    LLVMValueRef below = mul(&m, mul(&m, part, t.e.near), t.e.power);
    LLVMValueRef above =
        fma_(&m, LLVMBuildFNeg(m.b, part, ""), mul(&m, t.e.near, t.e.power), number(&m, 1));
    LLVMValueRef slope = LLVMBuildSelect(m.b, is_below_0(&m, x), below, above, "");
    return choose(&m, LLVMRealUNO, x, 0, x, slope);
}

/* x / (1 + exp(-w)), w = x (c + d x^2) as a pair: (1 + tanh(w / 2)) / 2 is 1 / (1 + exp(-w)). */
LLVMValueRef tsr_emit_gelu_tanh(tsr_emit *emit, LLVMValueRef x) {
    maths m = maths_of(emit, x);
    const double *c = format_of(&m)->gelu_tanh, *d = c + 2;
    LLVMValueRef a = absolute(&m, x);
    a = choose(&m, LLVMRealOGT, a, format_of(&m)->gelu_tanh_zero,
               number(&m, format_of(&m)->gelu_tanh_zero), a);
    LLVMValueRef minus = LLVMBuildFNeg(m.b, a, "");
    pair square = product_of(&m, a, a), cube = product_of(&m, square.high, number(&m, d[0]));
    cube.low = fma_(&m, square.low, number(&m, d[0]), cube.low);
    cube.low = fma_(&m, square.high, number(&m, d[1]), cube.low);
    pair slope = any_sum_of(&m, number(&m, c[0]), cube.high);
    slope.low = add(&m, slope.low, add(&m, cube.low, number(&m, c[1])));
    pair w = product_of(&m, minus, slope.high);
    exp_factors e = exp_below_40_factors(&m, w.high, fma_(&m, minus, slope.low, w.low));
    LLVMValueRef below = mul(&m, mul(&m, minus, e.near), e.power);
    LLVMValueRef above = LLVMBuildSelect(m.b, is_below_0(&m, x), below, x, "");
    return divide(&m, above, add(&m, mul(&m, e.near, e.power), number(&m, 1)));
}

/* ---- powers ---------------------------------------------------------------------------------- */

static pair product_of_pairs(const maths *m, pair x, pair y) {
    pair p = product_of(m, x.high, y.high);
    LLVMValueRef cross = fma_(m, x.high, y.low, mul(m, x.low, y.high));
    return (pair){p.high, add(m, p.low, cross)};
}

/* log x in f64 to about 2^-64 of itself, for positive finite x: the series of log_wide with its two
 * leading terms as pairs. */
static pair log_pair(const maths *m, LLVMValueRef x) {
    log_parts parts = log_reduce(m, x);
    static const polynomial rest = POLYNOMIAL(POW_F64);
    pair below = sum_of(m, number(m, 2), parts.f), s;
    s.high = divide(m, parts.f, below.high);
    pair back = product_of(m, s.high, below.high);
    LLVMValueRef left = sub(m, sub(m, parts.f, back.high), back.low);
    s.low = divide(m, sub(m, left, mul(m, s.high, below.low)), below.high);
    pair z = product_of_pairs(m, s, s);
    pair c = sum_of(m, number(m, 0x1.5555555555555p-1), mul(m, z.high, horner(m, &rest, z.high)));
    c.low = add(m, c.low, number(m, 0x1.5555555555555p-55)); /* 2/3 is the sum of both */
    pair cube = product_of_pairs(m, s, product_of_pairs(m, z, c));
    LLVMValueRef twice = add(m, s.high, s.high);
    pair first = sum_of(m, mul(m, parts.e, number(m, format_of(m)->ln2[0])), twice);
    pair second = sum_of(m, first.high, cube.high);
    LLVMValueRef low = fma_(m, parts.e, number(m, format_of(m)->ln2[1]), add(m, s.low, s.low));
    low = add(m, add(m, low, cube.low), add(m, first.low, second.low));
    return sum_of(m, second.high, low);
}

/* a^y in f64, 0 < a < infinity. The magnitude of y makes no difference beyond 2^65. */
static LLVMValueRef power_wide(const maths *m, LLVMValueRef a, LLVMValueRef y) {
    pair log = log_pair(m, a);
    y = clamp(m, y, -0x1p65, 0x1p65);
    pair p = product_of(m, y, log.high);
    LLVMValueRef low = fma_(m, y, log.low, p.low);
    low = choose(m, LLVMRealOLT, absolute(m, p.high), 800, low, number(m, 0));
    return exp_of(m, p.high, low);
}

/* a^y in f32, by log and exp in f64. */
static LLVMValueRef power_narrow(const maths *m, LLVMValueRef a, LLVMValueRef y) {
    LLVMTypeRef type = tsr_emit_like(LLVMDoubleTypeInContext(m->emit->llvm), m->type);
    a = LLVMBuildFPExt(m->b, a, type, "");
    y = LLVMBuildFPExt(m->b, y, type, "");
    maths wide = maths_of(m->emit, a);
    LLVMValueRef log = log_sum(&wide, log_reduce(&wide, a), NULL);
    LLVMValueRef power = exp_of(&wide, mul(&wide, y, log), NULL);
    return LLVMBuildFPTrunc(m->b, power, m->type, "");
}

static LLVMValueRef is_whole(const maths *m, LLVMValueRef x) {
    LLVMValueRef floor = tsr_emit_intrinsic(m->emit, "llvm.floor", &m->type, 1, &x, 1);
    return LLVMBuildFCmp(m->b, LLVMRealOEQ, floor, x, "");
}

/* The cases of IEEE 754's pow: zeros, infinities, negative bases, NaN, 1. */
LLVMValueRef tsr_emit_pow(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y) {
    maths m = maths_of(emit, x);
    LLVMValueRef a = absolute(&m, x), zero = number(&m, 0), infinite = number(&m, INFINITY);
    LLVMValueRef size = (m.wide ? power_wide : power_narrow)(&m, a, y);
    size = choose(&m, LLVMRealOEQ, a, 0, choose(&m, LLVMRealOLT, y, 0, infinite, zero), size);
    size =
        choose(&m, LLVMRealOEQ, a, INFINITY, choose(&m, LLVMRealOLT, y, 0, zero, infinite), size);
    size = choose(&m, LLVMRealOEQ, a, 1, number(&m, 1), size);
    LLVMValueRef whole_y = is_whole(&m, y), even = is_whole(&m, mul(&m, y, number(&m, 0.5)));
    LLVMValueRef odd = LLVMBuildAnd(m.b, whole_y, LLVMBuildNot(m.b, even, ""), "");
    LLVMValueRef signed_size = LLVMBuildSelect(m.b, odd, with_sign(&m, size, x), size, "");
    LLVMValueRef below = LLVMBuildSelect(m.b, whole_y, signed_size, number(&m, NAN), "");
    below = choose(&m, LLVMRealOEQ, x, -INFINITY, signed_size, below);
    LLVMValueRef result = choose(&m, LLVMRealOLT, x, 0, below, signed_size);
    LLVMValueRef unordered = LLVMBuildFCmp(m.b, LLVMRealUNO, x, y, "");
    result = LLVMBuildSelect(m.b, unordered, add(&m, x, y), result, "");
    result = choose(&m, LLVMRealOEQ, y, 0, number(&m, 1), result);
    return choose(&m, LLVMRealOEQ, x, 1, number(&m, 1), result);
}

/* x^-n from p = x^(n / 2): if x^n is beyond the largest number, its inverse may still not be 0.
 * Only the last division rounds a denormal result. */
static LLVMValueRef inverse_of_halves(const maths *m, LLVMValueRef x, LLVMValueRef p,
                                      LLVMValueRef odd) {
    LLVMValueRef first = divide(m, number(m, 1), p);
    return divide(m, LLVMBuildSelect(m->b, odd, divide(m, first, x), first, ""), p);
}

/* Squares repeatedly, from the lowest bit of |exponent| up; uses half of the exponent if it is
 * negative. */
LLVMValueRef tsr_emit_power(tsr_emit *emit, LLVMValueRef x, LLVMValueRef exponent) {
    maths m = maths_of(emit, x);
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef itype = LLVMTypeOf(exponent), one_bit = LLVMInt1TypeInContext(emit->llvm);
    LLVMValueRef zero = tsr_emit_int(itype, 0), one = tsr_emit_int(itype, 1);
    LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, exponent, zero, "");
    LLVMValueRef half = LLVMBuildLShr(b, LLVMBuildSub(b, zero, exponent, ""), one, "");
    LLVMValueRef size = LLVMBuildSelect(b, negative, half, exponent, "");
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
    odd = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, exponent, one, ""), zero, "");
    LLVMValueRef inverse = inverse_of_halves(&m, x, next_product, odd);
    return LLVMBuildSelect(b, negative, inverse, next_product, "");
}
