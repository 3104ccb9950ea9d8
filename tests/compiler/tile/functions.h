/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of one operand, their values by libm, and the largest allowed errors.
 */
#ifndef TSR_TESTS_TILE_FUNCTIONS_H
#define TSR_TESTS_TILE_FUNCTIONS_H

#include "runtime/base/tensor.h"

typedef struct math_function {
    const char *name, *op; /* op: with attributes, after the operand */
    double (*of_double)(double);
    long double (*of_long)(long double);
    double f32, f64; /* bounds, units in the last place, with and without FMA */
} math_function;

enum {
    MATH_EXP,
    MATH_LOG,
    MATH_TANH,
    MATH_EXPM1,
    MATH_LOG1P,
    MATH_ERF,
    MATH_SIGMOID,
    MATH_SILU,
    MATH_GELU,
    MATH_GELU_TANH,
    MATH_RSQRT,
    MATH_SIN,
    MATH_COS,
    MATH_TAN,
    MATH_ASIN,
    MATH_ACOS,
    MATH_ATAN,
    MATH_FUNCTIONS
};
extern const math_function math_functions[MATH_FUNCTIONS];

/* |got - exact| in units in the last place of the float nearest to exact. */
double math_error_f32(float got, double exact);
/* The largest such error of `count` floats, and its index. */
double math_worst_f32(const float *got, const double *exact, size_t count, size_t *out_at);
double math_error_f64(double got, long double exact);
/* The same for bf16 or f16. */
double math_error_small(tsr_dtype dtype, double got, double exact);
/* An error bound of f32 after one rounding to bf16 or f16, in units of that type. */
double math_bound_small(tsr_dtype dtype, double f32_bound);

static const double pow_bound_f32 = 0.51, pow_bound_f64 = 1.3;

#endif
