/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/tile/functions.h"

#include "runtime/base/tensor.h"

#include <math.h>
#include <string.h>

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static long double sigmoidl(long double x) {
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static double silu(double x) { return x == -(double)INFINITY ? -0.0 : x * sigmoid(x); }
static long double silul(long double x) {
    return x == -(long double)INFINITY ? -0.0L : x * sigmoidl(x);
}

/* In the far tail the rounding of x / sqrt 2 would be visible: it is corrected to first order. */
static const long double root_half = 0.70710678118654752440084436210484903928L;
static long double gelul(long double x) {
    if (x < -50) return -0.0L;
    if (x > 50) return x;
    long double z = x * root_half, low = fmal(x, root_half, -z);
    return x / 2 * erfcl(-z) * (x < 0 ? expl(2 * z * -low) : 1);
}
static double gelu(double x) {
    if (x == -(double)INFINITY) return -0.0;
    return x / 2 * erfc(-x * (double)root_half);
}
static double gelu_tanh(double x) {
    if (x == -(double)INFINITY) return -0.0;
    return x * sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x));
}
static long double gelu_tanhl(long double x) {
    if (x == -(long double)INFINITY) return -0.0L;
    return x * sigmoidl(1.59576912160573071175978423973752747L * x * (1 + 0.044715L * x * x));
}
static double rsqrt(double x) { return 1 / sqrt(x); }
static long double rsqrtl(long double x) { return 1 / sqrtl(x); }

const math_function math_functions[MATH_FUNCTIONS] = {
    [MATH_EXP] = {"exp", "exp %x", exp, expl, 1.0, 1.0},
    [MATH_LOG] = {"log", "log %x", log, logl, 0.85, 0.85},
    [MATH_TANH] = {"tanh", "tanh %x", tanh, tanhl, 1.4, 1.4},
    [MATH_EXPM1] = {"expm1", "expm1 %x", expm1, expm1l, 1.5, 2.0},
    [MATH_LOG1P] = {"log1p", "log1p %x", log1p, log1pl, 0.9, 0.85},
    [MATH_ERF] = {"erf", "erf %x", erf, erfl, 1.5, 1.5},
    [MATH_SIGMOID] = {"sigmoid", "sigmoid %x", sigmoid, sigmoidl, 2.5, 2.5},
    [MATH_SILU] = {"silu", "silu %x", silu, silul, 4, 4},
    [MATH_GELU] = {"gelu", "gelu %x", gelu, gelul, 6.5, 6.5},
    [MATH_GELU_TANH] = {"gelu_tanh", "gelu %x {approximate = \"tanh\"}", gelu_tanh, gelu_tanhl, 8,
                        16},
    [MATH_RSQRT] = {"rsqrt", "rsqrt %x", rsqrt, rsqrtl, 1.5, 1.5},
    [MATH_SIN] = {"sin", "sin %x", sin, sinl, 0.502, 0.8},
    [MATH_COS] = {"cos", "cos %x", cos, cosl, 0.502, 0.8},
    [MATH_TAN] = {"tan", "tan %x", tan, tanl, 0.502, 1.1},
    [MATH_ASIN] = {"asin", "asin %x", asin, asinl, 0.502, 0.65},
    [MATH_ACOS] = {"acos", "acos %x", acos, acosl, 0.502, 0.65},
    [MATH_ATAN] = {"atan", "atan %x", atan, atanl, 0.502, 0.8},
};

/* The reciprocal of a unit in the last place of a float near `exact`: 2^-e for the unit 2^e. It
 * does not call frexp and ldexp, which took most of the time for 10^8 floats. */
static double per_unit_f32(double exact) {
    uint64_t bits;
    memcpy(&bits, &exact, sizeof bits);
    int unit = (int)(bits >> 52 & 0x7ff) - 1022 - 24; /* exact for doubles that are not denormal */
    bits = (uint64_t)((unit < -149 ? 149 : -unit) + 1023) << 52;
    double one;
    memcpy(&one, &bits, sizeof one);
    return one;
}

static inline double error_f32(float got, double exact) {
    float nearest = (float)exact;
    if (isnan(exact)) return isnan(got) ? 0 : (double)INFINITY;
    if (isinf(nearest) || isinf(got)) return nearest == got ? 0 : (double)INFINITY;
    return fabs((double)got - exact) * per_unit_f32(exact);
}

double math_error_f32(float got, double exact) { return error_f32(got, exact); }

double math_worst_f32(const float *got, const double *exact, size_t count, size_t *out_at) {
    double worst = 0;
    *out_at = 0;
    for (size_t i = 0; i < count; i++) {
        double error = error_f32(got[i], exact[i]);
        if (error <= worst) continue; /* false for a NaN */
        worst = error;
        *out_at = i;
    }
    return worst;
}

double math_error_f64(double got, long double exact) {
    double nearest = (double)exact;
    if (isnan(nearest)) return isnan(got) ? 0 : (double)INFINITY;
    if (isinf(nearest) || isinf(got)) return nearest == got ? 0 : (double)INFINITY;
    int exponent = 0;
    frexpl(exact, &exponent);
    long double unit = ldexpl(1, exponent - 53 < -1074 ? -1074 : exponent - 53);
    return (double)(fabsl((long double)got - exact) / unit);
}

/* Bits of the significand, the largest exponent, and that of the smallest step. */
typedef struct format {
    int digits, top, bottom;
} format;

static format format_of(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_BF16 ? (format){8, 128, -133} : (format){11, 16, -24};
}

/* Numbers beyond the largest finite one count as the power of two above it. */
static double bounded(double x, const format *f) {
    double end = ldexp(1, f->top);
    return x > end ? end : x < -end ? -end : x;
}

double math_error_small(tsr_dtype dtype, double got, double exact) {
    format f = format_of(dtype);
    if (isnan(exact) || isnan(got)) return isnan(got) == isnan(exact) ? 0 : (double)INFINITY;
    int exponent = 0;
    frexp(bounded(exact, &f), &exponent);
    if (exponent > f.top) exponent = f.top;
    double unit = ldexp(1, exponent - f.digits < f.bottom ? f.bottom : exponent - f.digits);
    return fabs(bounded(got, &f) - bounded(exact, &f)) / unit;
}

double math_bound_small(tsr_dtype dtype, double f32_bound) {
    return 0.5 + ldexp(f32_bound, format_of(dtype).digits - 24);
}
