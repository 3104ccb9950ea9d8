/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that Graph IR lacks, made of its ops. Where the steps would lose digits, they are
 * computed in f64.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <math.h>
#include <string.h>

static MlirValue wide(tsr_hlo_call *c, size_t operand) {
    return tsr_hlo_cast(c, c->in[operand], TSR_DTYPE_F64);
}

static MlirValue f64(tsr_hlo_call *c, double value) {
    return tsr_hlo_number(c, TSR_DTYPE_F64, value);
}

static bool finish(tsr_hlo_call *c, MlirValue value) {
    return tsr_hlo_out(c, 0, tsr_hlo_cast(c, value, c->types[0].dtype));
}

static MlirValue less(tsr_hlo_call *c, MlirValue a, MlirValue b) {
    return tsr_hlo_compare(c, TSR_PREDICATE_LT, a, b);
}

/* The value where x is below 0, minus the value. */
static MlirValue with_sign(tsr_hlo_call *c, MlirValue value, MlirValue x) {
    return EMIT(c, "where", less(c, x, f64(c, 0)), EMIT(c, "neg", value), value);
}

/* The polynomial with these coefficients, the highest first. */
static MlirValue polynomial(tsr_hlo_call *c, MlirValue x, size_t count,
                            const double *coefficients) {
    MlirValue sum = f64(c, coefficients[0]);
    for (size_t i = 1; i < count; i++) sum = tsr_hlo_mul_add(c, sum, x, f64(c, coefficients[i]));
    return sum;
}
#define POLYNOMIAL(c, x, ...)                                                                      \
    polynomial((c), (x), sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

bool tsr_hlo_rule_square(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, EMIT(c, "mul", c->in[0], c->in[0]));
}

/* A power, and one step of Newton's method. */
bool tsr_hlo_rule_cbrt(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0), size = EMIT(c, "abs", x);
    MlirValue root = EMIT(c, "pow", size, f64(c, 1.0 / 3));
    MlirValue square = EMIT(c, "mul", root, root);
    MlirValue excess = EMIT(c, "sub", EMIT(c, "mul", square, root), size);
    MlirValue better =
        EMIT(c, "sub", root, EMIT(c, "div", excess, EMIT(c, "mul", square, f64(c, 3))));
    MlirValue inner = EMIT(c, "and", less(c, f64(c, 0), size), less(c, size, f64(c, INFINITY)));
    root = EMIT(c, "where", inner, better, root);
    MlirValue zero = tsr_hlo_compare(c, TSR_PREDICATE_EQ, x, f64(c, 0));
    return finish(c, EMIT(c, "where", zero, x, with_sign(c, root, x)));
}

/* True where x has its sign bit: below 0, or -0. */
static MlirValue is_negative(tsr_hlo_call *c, MlirValue x) {
    return less(c, tsr_hlo_bitcast(c, x, TSR_DTYPE_I64), tsr_hlo_number(c, TSR_DTYPE_I64, 0));
}

bool tsr_hlo_rule_atan2(tsr_hlo_call *c) {
    const double pi = 3.14159265358979323846;
    MlirValue y = wide(c, 0), x = wide(c, 1), zero = f64(c, 0), infinite = f64(c, INFINITY);
    MlirValue dy = EMIT(c, "abs", y), dx = EMIT(c, "abs", x);
    MlirValue angle = EMIT(c, "atan", EMIT(c, "div", dy, dx));
    MlirValue origin = EMIT(c, "and", tsr_hlo_compare(c, TSR_PREDICATE_EQ, dy, zero),
                            tsr_hlo_compare(c, TSR_PREDICATE_EQ, dx, zero));
    MlirValue far = EMIT(c, "and", tsr_hlo_compare(c, TSR_PREDICATE_EQ, dy, infinite),
                         tsr_hlo_compare(c, TSR_PREDICATE_EQ, dx, infinite));
    angle = EMIT(c, "where", origin, zero, EMIT(c, "where", far, f64(c, pi / 4), angle));
    angle = EMIT(c, "where", is_negative(c, x), EMIT(c, "sub", f64(c, pi), angle), angle);
    return finish(c, EMIT(c, "where", is_negative(c, y), EMIT(c, "neg", angle), angle));
}

/* To the nearest integer, halves away from 0. */
bool tsr_hlo_rule_round_half(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0), size = EMIT(c, "abs", x), whole = EMIT(c, "floor", size);
    MlirValue half = tsr_hlo_compare(c, TSR_PREDICATE_GE, EMIT(c, "sub", size, whole), f64(c, 0.5));
    whole = EMIT(c, "where", half, EMIT(c, "add", whole, f64(c, 1)), whole);
    return finish(c, EMIT(c, "where", is_negative(c, x), EMIT(c, "neg", whole), whole));
}

/* ---- bits ---- */

/* Adds neighbouring groups of bits, which double in width. */
static MlirValue count_bits(tsr_hlo_call *c, MlirValue x, tsr_dtype dtype) {
    unsigned width = tsr_dtype_bits(dtype);
    for (unsigned step = 1; step < width; step *= 2) {
        uint64_t all = UINT64_MAX >> (64 - width);
        MlirValue mask = tsr_hlo_bits(c, dtype, all / (((uint64_t)1 << step) + 1));
        MlirValue high = EMIT(c, "shift_right", x, tsr_hlo_number(c, dtype, step));
        x = EMIT(c, "add", EMIT(c, "and", x, mask), EMIT(c, "and", high, mask));
    }
    return x;
}

static tsr_dtype unsigned_of(tsr_hlo_call *c) {
    tsr_dtype dtype = tsr_hlo_dtype(c->in[0]);
    if (!tsr_dtype_is_float(dtype) && dtype != TSR_DTYPE_I1)
        return tsr_dtype_of_integer(tsr_dtype_bits(dtype), true);
    tsr_hlo_fail(c, TSR_DIAG_HLO_TYPE, "its operand is %s; expected integers",
                 tsr_dtype_name(dtype));
    return dtype;
}

bool tsr_hlo_rule_popcnt(tsr_hlo_call *c) {
    tsr_dtype dtype = unsigned_of(c);
    MlirValue bits = tsr_hlo_bitcast(c, c->in[0], dtype);
    return tsr_hlo_out(c, 0, tsr_hlo_bitcast(c, count_bits(c, bits, dtype), c->types[0].dtype));
}

/* The highest bit is copied to all below it, which are counted. */
bool tsr_hlo_rule_leading_zeros(tsr_hlo_call *c) {
    tsr_dtype dtype = unsigned_of(c);
    unsigned width = tsr_dtype_bits(dtype);
    MlirValue bits = tsr_hlo_bitcast(c, c->in[0], dtype);
    for (unsigned step = 1; step < width; step *= 2)
        bits = EMIT(c, "or", bits, EMIT(c, "shift_right", bits, tsr_hlo_number(c, dtype, step)));
    MlirValue zeros = EMIT(c, "sub", tsr_hlo_number(c, dtype, width), count_bits(c, bits, dtype));
    return tsr_hlo_out(c, 0, tsr_hlo_bitcast(c, zeros, c->types[0].dtype));
}

/* ---- hyperbolic functions ---- */

/* Half of the power of |x|, taken twice so that it does not overflow before the result does. */
bool tsr_hlo_rule_hyperbolic(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0), size = EMIT(c, "abs", x);
    MlirValue root = EMIT(c, "exp", EMIT(c, "mul", size, f64(c, 0.5)));
    MlirValue half = EMIT(c, "mul", EMIT(c, "mul", root, f64(c, 0.5)), root);
    MlirValue down = EMIT(c, "mul", EMIT(c, "exp", EMIT(c, "neg", size)), f64(c, 0.5));
    if (strcmp(c->row->with, "cosh") == 0) return finish(c, EMIT(c, "add", half, down));
    MlirValue less_one = EMIT(c, "expm1", size);
    MlirValue near =
        EMIT(c, "add", less_one, EMIT(c, "div", less_one, EMIT(c, "add", less_one, f64(c, 1))));
    near = EMIT(c, "mul", near, f64(c, 0.5));
    MlirValue sinh = EMIT(c, "where", less(c, size, f64(c, 20)), near, half);
    return finish(c, with_sign(c, sinh, x));
}

/* log(2 x): what both inverse functions are where x * x could overflow. */
static MlirValue log_twice(tsr_hlo_call *c, MlirValue x) {
    return EMIT(c, "add", EMIT(c, "log", x), f64(c, 0.69314718055994530942));
}
static const double squares_max = 1e150;

bool tsr_hlo_rule_asinh(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0), size = EMIT(c, "abs", x), one = f64(c, 1);
    MlirValue square = EMIT(c, "mul", size, size);
    MlirValue root = EMIT(c, "add", one, EMIT(c, "sqrt", EMIT(c, "add", square, one)));
    MlirValue near = EMIT(c, "log1p", EMIT(c, "add", size, EMIT(c, "div", square, root)));
    MlirValue value =
        EMIT(c, "where", less(c, size, f64(c, squares_max)), near, log_twice(c, size));
    return finish(c, with_sign(c, value, x));
}

bool tsr_hlo_rule_acosh(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0), above = EMIT(c, "sub", x, f64(c, 1));
    MlirValue root = EMIT(c, "sqrt", EMIT(c, "mul", above, EMIT(c, "add", x, f64(c, 1))));
    MlirValue near = EMIT(c, "log1p", EMIT(c, "add", above, root));
    return finish(c, EMIT(c, "where", less(c, x, f64(c, squares_max)), near, log_twice(c, x)));
}

bool tsr_hlo_rule_atanh(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0);
    MlirValue both = EMIT(c, "sub", EMIT(c, "log1p", x), EMIT(c, "log1p", EMIT(c, "neg", x)));
    return finish(c, EMIT(c, "mul", both, f64(c, 0.5)));
}

/* ---- error functions ---- */

/* M. Giles, Approximating the erfinv function (GPU Computing Gems 2, 2011), in single precision. */
static MlirValue first_erf_inv(tsr_hlo_call *c, MlirValue x) {
    MlirValue square = EMIT(c, "mul", x, x);
    MlirValue w = EMIT(c, "neg", EMIT(c, "log1p", EMIT(c, "neg", square)));
    MlirValue near = EMIT(c, "sub", w, f64(c, 2.5));
    MlirValue far = EMIT(c, "sub", EMIT(c, "sqrt", w), f64(c, 3));
    near = POLYNOMIAL(c, near, 2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
                      0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941);
    far = POLYNOMIAL(c, far, -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844,
                     0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682);
    return EMIT(c, "mul", EMIT(c, "where", less(c, w, f64(c, 5)), near, far), x);
}

/* Steps of Halley's method for erf(y) = x; 2 / sqrt(pi) is the slope at 0. */
static MlirValue improve_erf_inv(tsr_hlo_call *c, MlirValue x, MlirValue y) {
    for (int i = 0; i < 2; i++) {
        MlirValue slope = EMIT(c, "mul", EMIT(c, "exp", EMIT(c, "neg", EMIT(c, "mul", y, y))),
                               f64(c, 1.12837916709551257390));
        MlirValue ratio = EMIT(c, "div", EMIT(c, "sub", EMIT(c, "erf", y), x), slope);
        y = EMIT(c, "sub", y, EMIT(c, "div", ratio, tsr_hlo_mul_add(c, y, ratio, f64(c, 1))));
    }
    return y;
}

bool tsr_hlo_rule_erf_inv(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0), y = first_erf_inv(c, x);
    if (tsr_hlo_dtype(c->in[0]) == TSR_DTYPE_F64) y = improve_erf_inv(c, x, y);
    MlirValue edge = tsr_hlo_compare(c, TSR_PREDICATE_EQ, EMIT(c, "abs", x), f64(c, 1));
    return finish(c, EMIT(c, "where", edge, EMIT(c, "mul", x, f64(c, INFINITY)), y));
}

/* exp(-x x) times a ratio of polynomials in 1 / x: S. L. Moshier, Methods and Programs for
 * Mathematical Functions (1989), section 5.3. */
bool tsr_hlo_rule_erfc(tsr_hlo_call *c) {
    MlirValue x = wide(c, 0), size = EMIT(c, "abs", x);
    MlirValue p = POLYNOMIAL(
        c, size, 2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
        4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
        9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2);
    MlirValue q =
        POLYNOMIAL(c, size, 1, 1.32281951154744992508e1, 8.67072140885989742329e1,
                   3.54937778887819891062e2, 9.75708501743205489753e2, 1.82390916687909736289e3,
                   2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2);
    MlirValue r = POLYNOMIAL(c, size, 5.64189583547755073984e-1, 1.27536670759978104416,
                             5.01905042251180477414, 6.16021097993053585195, 7.40974269950448939160,
                             2.97886665372100240670);
    MlirValue s = POLYNOMIAL(c, size, 1, 2.26052863220117276590, 9.39603524938001434673,
                             1.20489539808096656605e1, 1.70814450747565897222e1,
                             9.60896809063285878198, 3.36907645100081516050);
    MlirValue ratio =
        EMIT(c, "where", less(c, size, f64(c, 8)), EMIT(c, "div", p, q), EMIT(c, "div", r, s));
    MlirValue tail = EMIT(c, "mul", EMIT(c, "exp", EMIT(c, "neg", EMIT(c, "mul", x, x))), ratio);
    tail = EMIT(c, "where", less(c, size, f64(c, 1e3)), tail, f64(c, 0)); /* inf / inf */
    MlirValue far = EMIT(c, "where", less(c, x, f64(c, 0)), EMIT(c, "sub", f64(c, 2), tail), tail);
    MlirValue near = EMIT(c, "sub", f64(c, 1), EMIT(c, "erf", x));
    MlirValue inside = less(c, size, f64(c, 1));
    MlirValue nan = tsr_hlo_compare(c, TSR_PREDICATE_NE, x, x);
    return finish(c, EMIT(c, "where", EMIT(c, "or", inside, nan), near, far));
}
