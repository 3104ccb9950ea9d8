/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops. Functions of several ops compute bf16 and f16 in f32 and round once.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/frontend/onnx/tensor.h"
#include "compiler/frontend/onnx/train/train.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- one op each ----------------------------------------------------------------------------- */

static MlirValue emit_named(tsr_onnx_call *c, const char *op, const MlirValue *values,
                            size_t count) {
    char name[64];
    snprintf(name, sizeof name, "tessera.%s", op);
    return tsr_onnx_emit(c, name, values, count, NULL, NULL);
}

bool tsr_onnx_rule_unary(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    return tsr_onnx_out(c, 0, emit_named(c, c->row->with, &x, 1));
}

bool tsr_onnx_rule_binary(tsr_onnx_call *c) {
    MlirValue values[] = {tsr_onnx_in(c, 0), tsr_onnx_in(c, 1)};
    return tsr_onnx_out(c, 0, emit_named(c, c->row->with, values, 2));
}

bool tsr_onnx_rule_identity(tsr_onnx_call *c) { return tsr_onnx_out(c, 0, tsr_onnx_in(c, 0)); }

/* Max, Min, Sum, Mean: any number of inputs. */
bool tsr_onnx_rule_variadic(tsr_onnx_call *c) {
    bool is_mean = strcmp(c->row->op, "Mean") == 0;
    MlirValue y = tsr_onnx_in(c, 0);
    for (size_t i = 1; i < c->input_count; i++) {
        MlirValue values[] = {y, tsr_onnx_in(c, i)};
        y = emit_named(c, c->row->with, values, 2);
    }
    if (is_mean) y = EMIT(c, "div", y, tsr_onnx_number(c, y, (double)c->input_count));
    return tsr_onnx_out(c, 0, y);
}

bool tsr_onnx_rule_compare(tsr_onnx_call *c) {
    static const char *const words[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    tsr_predicate predicate = TSR_PREDICATE_EQ;
    for (size_t i = 0; i < TSR_COUNT(words); i++)
        if (strcmp(words[i], c->row->with) == 0) predicate = (tsr_predicate)i;
    return tsr_onnx_out(c, 0, tsr_onnx_compare(c, predicate, tsr_onnx_in(c, 0), tsr_onnx_in(c, 1)));
}

bool tsr_onnx_rule_where(tsr_onnx_call *c) {
    return tsr_onnx_out(c, 0,
                        EMIT(c, "where", tsr_onnx_in(c, 0), tsr_onnx_in(c, 1), tsr_onnx_in(c, 2)));
}

bool tsr_onnx_rule_abs(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    return tsr_onnx_out(c, 0, tsr_dtype_is_unsigned(tsr_onnx_dtype(x)) ? x : EMIT(c, "abs", x));
}

bool tsr_onnx_rule_sign(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    bool is_unsigned = tsr_dtype_is_unsigned(tsr_onnx_dtype(x));
    return tsr_onnx_out(c, 0, is_unsigned ? EMIT(c, "min", x, ONE(c, x)) : EMIT(c, "sign", x));
}

bool tsr_onnx_rule_bit_shift(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), distance = tsr_onnx_in(c, 1);
    const char *direction = tsr_onnx_attr_s(c, "direction", "");
    bool is_left = strcmp(direction, "LEFT") == 0;
    if (c->failed) return false;
    if (!is_left && strcmp(direction, "RIGHT") != 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute 'direction' is '%s'; expected LEFT or RIGHT", direction);
    return tsr_onnx_out(
        c, 0, is_left ? EMIT(c, "shift_left", x, distance) : EMIT(c, "shift_right", x, distance));
}

/* |a| modulo |b| of f64 that have the bits and the range of f32, which are exact: from a large
 * multiple of |b| down to |b| itself. A quotient has at most 29 bits, so that its product with |b|,
 * and what that leaves of |a|, are f64; it is one too large at most. */
static MlirValue rest_of_sizes(tsr_onnx_call *c, MlirValue a, MlirValue b) {
    enum { STEPS = 10, STEP_BITS = 29 }; /* 2^128 / 2^-149, rounded up */
    MlirValue rest = a;
    for (int k = STEPS; k-- > 0;) {
        MlirValue by = EMIT(c, "mul", b, tsr_onnx_number(c, b, ldexp(1, k * STEP_BITS)));
        MlirValue quotient = EMIT(c, "floor", EMIT(c, "div", rest, by));
        rest = EMIT(c, "sub", rest, EMIT(c, "mul", quotient, by));
        MlirValue below = tsr_onnx_compare(c, TSR_PREDICATE_LT, rest, ZERO(c, rest));
        rest = EMIT(c, "where", below, EMIT(c, "add", rest, by), rest);
    }
    /* An infinite b leaves a finite a as it is, and nothing of an infinite one. */
    MlirValue kept = EMIT(c, "add", EMIT(c, "sub", a, a), a);
    MlirValue beyond = tsr_onnx_compare(c, TSR_PREDICATE_EQ, b, tsr_onnx_number(c, b, INFINITY));
    return EMIT(c, "where", beyond, kept, rest);
}

static MlirValue is_negative(tsr_onnx_call *c, MlirValue x) {
    return tsr_onnx_compare(c, TSR_PREDICATE_LT, x, ZERO(c, x));
}

/* The remainder, with the sign of a, or of b: a quotient rounded toward zero, or down. */
static bool mod_of_floats(tsr_onnx_call *c, MlirValue a, MlirValue b, bool truncates) {
    tsr_dtype dtype = tsr_onnx_dtype(a);
    if (dtype == TSR_DTYPE_F64)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE,
                             "the remainder of float64 cannot be imported; that of smaller floats "
                             "can");
    a = tsr_onnx_cast(c, a, TSR_DTYPE_F64);
    b = tsr_onnx_cast(c, b, TSR_DTYPE_F64);
    MlirValue rest = rest_of_sizes(c, EMIT(c, "abs", a), EMIT(c, "abs", b));
    MlirValue below = is_negative(c, b);
    rest = EMIT(c, "where", is_negative(c, a), EMIT(c, "neg", rest), rest);
    if (!truncates) {
        MlirValue zero = ZERO(c, rest), is_zero = tsr_onnx_compare(c, TSR_PREDICATE_EQ, rest, zero);
        MlirValue unlike = EMIT(c, "xor", is_negative(c, rest), below);
        rest = EMIT(c, "where", unlike, EMIT(c, "add", rest, b), rest);
        rest = EMIT(c, "where", is_zero, EMIT(c, "where", below, EMIT(c, "neg", zero), zero), rest);
    }
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, rest, dtype));
}

bool tsr_onnx_rule_mod(tsr_onnx_call *c) {
    MlirValue a = tsr_onnx_in(c, 0), b = tsr_onnx_in(c, 1);
    bool truncates = tsr_onnx_attr_i(c, "fmod", 0) != 0;
    if (c->failed) return false;
    if (tsr_onnx_is_float(a)) return mod_of_floats(c, a, b, truncates);
    MlirValue rest = EMIT(c, "sub", a, EMIT(c, "mul", EMIT(c, "div", a, b), b));
    if (truncates || tsr_dtype_is_unsigned(tsr_onnx_dtype(a))) return tsr_onnx_out(c, 0, rest);
    MlirValue zero = ZERO(c, a);
    MlirValue unlike =
        tsr_onnx_compare(c, TSR_PREDICATE_NE, tsr_onnx_compare(c, TSR_PREDICATE_LT, rest, zero),
                         tsr_onnx_compare(c, TSR_PREDICATE_LT, b, zero));
    MlirValue moves = EMIT(c, "and", tsr_onnx_compare(c, TSR_PREDICATE_NE, rest, zero), unlike);
    return tsr_onnx_out(c, 0, EMIT(c, "where", moves, EMIT(c, "add", rest, b), rest));
}

/* Powers of floats by small numbers that are known are products. Null: none of those. */
static MlirValue known_power(tsr_onnx_call *c, MlirValue x, MlirValue y) {
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, y);
    MlirValue none = {NULL};
    if (!known || known->count != 1 || tsr_onnx_rank(y) > tsr_onnx_rank(x)) return none;
    double by = known->is_float ? known->floats[0] : (double)known->ints[0];
    if (by == 1) return x;
    if (by == 2) return EMIT(c, "mul", x, x);
    if (by == 3) return EMIT(c, "mul", EMIT(c, "mul", x, x), x);
    if (by == -1) return EMIT(c, "div", ONE(c, x), x);
    return none;
}

/* Powers of integers go by way of f64, as in ONNX Runtime. */
bool tsr_onnx_rule_pow(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), y = tsr_onnx_in(c, 1);
    if (c->failed) return false;
    tsr_dtype dtype = tsr_onnx_dtype(x), exponent = tsr_onnx_dtype(y);
    MlirValue power = tsr_onnx_is_float(x) ? known_power(c, x, y) : (MlirValue){NULL};
    if (!mlirValueIsNull(power)) return tsr_onnx_out(c, 0, power);
    bool same = dtype == exponent && tsr_onnx_is_float(x);
    tsr_dtype by = same ? dtype : TSR_DTYPE_F64;
    power = EMIT(c, "pow", tsr_onnx_cast(c, x, by), tsr_onnx_cast(c, y, by));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, power, dtype));
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool cast_to(tsr_onnx_call *c, tsr_dtype dtype) {
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, tsr_onnx_in(c, 0), dtype));
}

/* Reads the attribute `to`. */
static bool read_to(tsr_onnx_call *c, tsr_dtype *out_dtype) {
    int64_t to = tsr_onnx_attr_i(c, "to", 0);
    *out_dtype = tsr_onnx_type_dtype(to);
    if (c->failed) return false;
    return *out_dtype != TSR_DTYPE_NONE ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE,
                         "attribute 'to' is %s; the types of the language are %s",
                         tsr_onnx_type_name(to), tsr_dtype_names());
}

bool tsr_onnx_rule_cast(tsr_onnx_call *c) {
    tsr_dtype dtype;
    return read_to(c, &dtype) && cast_to(c, dtype);
}

/* A truth value has the byte 0 or 1. Other bytes are not truth values, so that none is made of an
 * integer. */
bool tsr_onnx_rule_bit_cast(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_dtype to;
    if (c->failed || !read_to(c, &to)) return false;
    tsr_type type = tsr_onnx_type_of(x);
    tsr_dtype from = type.dtype;
    if (from == to) return tsr_onnx_out(c, 0, x);
    if (to == TSR_DTYPE_I1 || tsr_dtype_size(from) != tsr_dtype_size(to))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE, "the bits of %s cannot become those of %s",
                             tsr_dtype_name(from), tsr_dtype_name(to));
    if (from == TSR_DTYPE_I1) return cast_to(c, to);
    type.dtype = to;
    return tsr_onnx_out(
        c, 0, tsr_onnx_emit(c, TSR_GRAPH_NAME("bitcast"), (MlirValue[]){x}, 1, NULL, &type));
}

bool tsr_onnx_rule_cast_like(tsr_onnx_call *c) {
    MlirValue like = tsr_onnx_in(c, 1);
    return !c->failed && cast_to(c, tsr_onnx_dtype(like));
}

/* ---- functions of several ops ---------------------------------------------------------------- */

/* Input 0, wide. */
static MlirValue wide_in(tsr_onnx_call *c) { return tsr_onnx_wide(c, tsr_onnx_in(c, 0)); }

static bool narrow_out(tsr_onnx_call *c, MlirValue y) {
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(c->inputs[0])));
}

/* Of integers rounding changes nothing. */
static bool is_whole(tsr_onnx_call *c) {
    return tsr_onnx_has(c, 0) && !tsr_onnx_is_float(c->inputs[0]);
}

bool tsr_onnx_rule_ceil(tsr_onnx_call *c) {
    if (is_whole(c)) return tsr_onnx_out(c, 0, c->inputs[0]);
    return tsr_onnx_out(c, 0, tsr_onnx_ceil(c, tsr_onnx_in(c, 0)));
}

bool tsr_onnx_rule_round(tsr_onnx_call *c) {
    if (is_whole(c)) return tsr_onnx_out(c, 0, c->inputs[0]);
    return tsr_onnx_out(c, 0, tsr_onnx_round(c, tsr_onnx_in(c, 0)));
}

bool tsr_onnx_rule_reciprocal(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    return tsr_onnx_out(c, 0, EMIT(c, "div", ONE(c, x), x));
}

bool tsr_onnx_rule_is_nan(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    return tsr_onnx_out(c, 0, tsr_onnx_compare(c, TSR_PREDICATE_NE, x, x));
}

bool tsr_onnx_rule_is_inf(tsr_onnx_call *c) {
    MlirValue x = wide_in(c);
    bool high = tsr_onnx_attr_i(c, "detect_positive", 1) != 0;
    bool low = tsr_onnx_attr_i(c, "detect_negative", 1) != 0;
    MlirValue above =
        tsr_onnx_compare(c, TSR_PREDICATE_EQ, x, tsr_onnx_number(c, x, (double)INFINITY));
    MlirValue below =
        tsr_onnx_compare(c, TSR_PREDICATE_EQ, x, tsr_onnx_number(c, x, -(double)INFINITY));
    if (high && low) return tsr_onnx_out(c, 0, EMIT(c, "or", above, below));
    if (high || low) return tsr_onnx_out(c, 0, high ? above : below);
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    return tsr_onnx_out(c, 0, tsr_onnx_filled(c, TSR_DTYPE_I1, &shape, 0));
}

/* Chooses by the sign of x, which broadcasts with the others. */
static MlirValue by_sign(tsr_onnx_call *c, MlirValue x, MlirValue positive, MlirValue otherwise) {
    return EMIT(c, "where", tsr_onnx_compare(c, TSR_PREDICATE_GT, x, ZERO(c, x)), positive,
                otherwise);
}

bool tsr_onnx_rule_leaky_relu(tsr_onnx_call *c) {
    MlirValue x = wide_in(c);
    double alpha = tsr_onnx_attr_f(c, "alpha", (double)0.01f);
    MlirValue slope = EMIT(c, "mul", x, tsr_onnx_number(c, x, alpha));
    return narrow_out(c, by_sign(c, x, x, slope));
}

bool tsr_onnx_rule_prelu(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), slope = tsr_onnx_in(c, 1);
    if (c->failed) return false;
    MlirValue below = tsr_onnx_compare(c, TSR_PREDICATE_LT, x, ZERO(c, x));
    return tsr_onnx_out(c, 0, EMIT(c, "where", below, EMIT(c, "mul", x, slope), x));
}

/* gamma * (alpha * (exp(x) - 1)) below 0, gamma * x above */
static MlirValue elu(tsr_onnx_call *c, MlirValue x, double alpha, double gamma) {
    MlirValue low = EMIT(c, "min", x, ZERO(c, x));
    MlirValue below = EMIT(c, "mul", EMIT(c, "expm1", low), tsr_onnx_number(c, x, alpha));
    MlirValue y = by_sign(c, x, x, below);
    return gamma == 1 ? y : EMIT(c, "mul", y, tsr_onnx_number(c, x, gamma));
}

bool tsr_onnx_rule_elu(tsr_onnx_call *c) {
    return narrow_out(c, elu(c, wide_in(c), tsr_onnx_attr_f(c, "alpha", 1), 1));
}

bool tsr_onnx_rule_selu(tsr_onnx_call *c) {
    return narrow_out(c, elu(c, wide_in(c),
                             tsr_onnx_attr_f(c, "alpha", (double)1.67326319217681884765625f),
                             tsr_onnx_attr_f(c, "gamma", (double)1.05070102214813232421875f)));
}

bool tsr_onnx_rule_celu(tsr_onnx_call *c) {
    tsr_attr attrs[] = {tsr_onnx_f64_attr(c, "alpha", tsr_onnx_attr_f(c, "alpha", 1)), {0}};
    return tsr_onnx_out(c, 0, EMIT_WITH(c, "celu", attrs, tsr_onnx_in(c, 0)));
}

bool tsr_onnx_rule_thresholded_relu(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    double alpha = tsr_onnx_attr_f(c, "alpha", 1);
    MlirValue above = tsr_onnx_compare(c, TSR_PREDICATE_GT, x, tsr_onnx_number(c, x, alpha));
    return tsr_onnx_out(c, 0, EMIT(c, "where", above, x, ZERO(c, x)));
}

/* max(0, min(1, alpha x + beta)) */
static MlirValue hard_sigmoid(tsr_onnx_call *c, MlirValue x, double alpha, double beta) {
    MlirValue line = EMIT(c, "add", EMIT(c, "mul", x, tsr_onnx_number(c, x, alpha)),
                          tsr_onnx_number(c, x, beta));
    return EMIT(c, "max", EMIT(c, "min", line, ONE(c, x)), ZERO(c, x));
}

bool tsr_onnx_rule_hard_sigmoid(tsr_onnx_call *c) {
    return narrow_out(c, hard_sigmoid(c, wide_in(c), tsr_onnx_attr_f(c, "alpha", (double)0.2f),
                                      tsr_onnx_attr_f(c, "beta", 0.5)));
}

bool tsr_onnx_rule_hard_swish(tsr_onnx_call *c) {
    MlirValue x = wide_in(c);
    return narrow_out(c, EMIT(c, "mul", x, hard_sigmoid(c, x, 1.0 / 6, 0.5)));
}

bool tsr_onnx_rule_mish(tsr_onnx_call *c) {
    MlirValue x = wide_in(c);
    return narrow_out(c, EMIT(c, "mul", x, EMIT(c, "tanh", EMIT(c, "softplus", x))));
}

bool tsr_onnx_rule_swish(tsr_onnx_call *c) {
    MlirValue x = wide_in(c);
    double alpha = tsr_onnx_attr_f(c, "alpha", 1);
    if (alpha == 1) return narrow_out(c, EMIT(c, "silu", x));
    MlirValue gate = EMIT(c, "sigmoid", EMIT(c, "mul", x, tsr_onnx_number(c, x, alpha)));
    return narrow_out(c, EMIT(c, "mul", x, gate));
}

bool tsr_onnx_rule_gelu(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    const char *word = tsr_onnx_attr_s(c, "approximate", "none");
    if (strcmp(word, "none") != 0 && strcmp(word, "tanh") != 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute 'approximate' is '%s'; expected none or tanh", word);
    tsr_attr attrs[] = {{"approximate", tsr_attr_make_string(c->builder->context, word)}, {0}};
    return tsr_onnx_out(c, 0, EMIT_WITH(c, "gelu", attrs, x));
}

bool tsr_onnx_rule_shrink(tsr_onnx_call *c) {
    MlirValue x = wide_in(c);
    double bias = tsr_onnx_attr_f(c, "bias", 0), lambd = tsr_onnx_attr_f(c, "lambd", 0.5);
    bool whole = tsr_onnx_has(c, 0) && !tsr_onnx_is_float(c->inputs[0]);
    MlirValue f = whole ? tsr_onnx_cast(c, x, TSR_DTYPE_F32) : x;
    MlirValue b = tsr_onnx_number(c, f, bias);
    MlirValue above = tsr_onnx_compare(c, TSR_PREDICATE_GT, f, tsr_onnx_number(c, f, lambd));
    MlirValue below = tsr_onnx_compare(c, TSR_PREDICATE_LT, f, tsr_onnx_number(c, f, -lambd));
    MlirValue inside = EMIT(c, "where", below, EMIT(c, "add", f, b), ZERO(c, f));
    return narrow_out(c, EMIT(c, "where", above, EMIT(c, "sub", f, b), inside));
}

/* Bounds are attributes before version 11, inputs since. Where low is above high, all is high. */
bool tsr_onnx_rule_clip(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), low = tsr_onnx_in_or_null(c, 1),
              high = tsr_onnx_in_or_null(c, 2);
    if (c->opset < 11) {
        low = tsr_onnx_number(c, x, tsr_onnx_attr_f(c, "min", -(double)INFINITY));
        high = tsr_onnx_number(c, x, tsr_onnx_attr_f(c, "max", (double)INFINITY));
    }
    if (!mlirValueIsNull(low)) x = EMIT(c, "max", x, low);
    if (!mlirValueIsNull(high)) x = EMIT(c, "min", x, high);
    return tsr_onnx_out(c, 0, x);
}

/* ---- hyperbolic functions -------------------------------------------------------------------- */

/* (t + t / (t + 1)) / 2 with t = exp(x) - 1, which keeps its relative error near 0 */
bool tsr_onnx_rule_sinh(tsr_onnx_call *c) {
    MlirValue x = wide_in(c), half = tsr_onnx_number(c, x, 0.5);
    MlirValue t = EMIT(c, "expm1", EMIT(c, "abs", x));
    MlirValue sum = EMIT(c, "add", t, EMIT(c, "div", t, EMIT(c, "add", t, ONE(c, x))));
    MlirValue y = EMIT(c, "mul", EMIT(c, "mul", sum, half), EMIT(c, "sign", x));
    return narrow_out(c, y);
}

bool tsr_onnx_rule_cosh(tsr_onnx_call *c) {
    MlirValue x = wide_in(c), half = tsr_onnx_number(c, x, 0.5);
    MlirValue sum = EMIT(c, "add", EMIT(c, "exp", x), EMIT(c, "exp", EMIT(c, "neg", x)));
    return narrow_out(c, EMIT(c, "mul", sum, half));
}

/* sign(x) log1p(a + a^2 / (1 + sqrt(a^2 + 1))), a = |x| */
bool tsr_onnx_rule_asinh(tsr_onnx_call *c) {
    MlirValue x = wide_in(c), a = EMIT(c, "abs", x), square = EMIT(c, "mul", a, a);
    MlirValue root = EMIT(c, "sqrt", EMIT(c, "add", square, ONE(c, x)));
    MlirValue inner = EMIT(c, "add", a, EMIT(c, "div", square, EMIT(c, "add", root, ONE(c, x))));
    return narrow_out(c, EMIT(c, "mul", EMIT(c, "sign", x), EMIT(c, "log1p", inner)));
}

/* log1p(d + sqrt(2 d + d^2)), d = x - 1 */
bool tsr_onnx_rule_acosh(tsr_onnx_call *c) {
    MlirValue x = wide_in(c), d = EMIT(c, "sub", x, ONE(c, x));
    MlirValue twice = EMIT(c, "add", d, d);
    MlirValue root = EMIT(c, "sqrt", EMIT(c, "add", twice, EMIT(c, "mul", d, d)));
    return narrow_out(c, EMIT(c, "log1p", EMIT(c, "add", d, root)));
}

/* (log1p(x) - log1p(-x)) / 2 */
bool tsr_onnx_rule_atanh(tsr_onnx_call *c) {
    MlirValue x = wide_in(c), half = tsr_onnx_number(c, x, 0.5);
    MlirValue difference = EMIT(c, "sub", EMIT(c, "log1p", x), EMIT(c, "log1p", EMIT(c, "neg", x)));
    return narrow_out(c, EMIT(c, "mul", difference, half));
}

/* ---- functions of angles --------------------------------------------------------------------- */

/* Sines and the like of known numbers are constants: tables of positions, for example. */
bool tsr_onnx_rule_angle(tsr_onnx_call *c) {
    static const struct {
        const char *op;
        double (*compute)(double x);
    } functions[] = {{"Sin", sin},   {"Cos", cos},   {"Tan", tan},
                     {"Asin", asin}, {"Acos", acos}, {"Atan", atan}};
    MlirValue x = tsr_onnx_in(c, 0);
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, x);
    if (c->failed) return false;
    if (!known || !known->is_float) return tsr_onnx_rule_unary(c);
    double *values = TSR_NEW(c->arena, double, (size_t)known->count + 1);
    TSR_NEED(values);
    for (size_t k = 0; k < TSR_COUNT(functions); k++)
        for (uint64_t i = 0; i < known->count && strcmp(c->row->op, functions[k].op) == 0; i++)
            values[i] = functions[k].compute(known->floats[i]);
    return tsr_onnx_out(c, 0, tsr_onnx_numbers(c, known->type.dtype, &known->type.shape, values));
}

/* ---- dropout --------------------------------------------------------------------------------- */

static bool dropout_ratio(tsr_onnx_call *c, double *out_ratio) {
    *out_ratio = c->opset < 12 ? tsr_onnx_attr_f(c, "ratio", 0.5) : 0.5;
    return c->opset < 12 || !tsr_onnx_has(c, 1) || tsr_onnx_in_f64(c, 1, "ratio", out_ratio);
}

/* The mask is known only from what ones become. */
static bool drop(tsr_onnx_call *c, MlirValue x) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    double ratio = 0;
    if (!dropout_ratio(c, &ratio)) return false;
    const tsr_attr attrs[] = {tsr_onnx_f64_attr(c, "rate", ratio), {0}};
    if (!tsr_onnx_wants(c, 1)) return tsr_onnx_out(c, 0, EMIT_WITH(c, "dropout", attrs, x));
    MlirValue factors =
        EMIT_WITH(c, "dropout", attrs, tsr_onnx_filled(c, tsr_onnx_dtype(x), &shape, 1));
    MlirValue mask = tsr_onnx_compare(c, TSR_PREDICATE_NE, factors, ZERO(c, x));
    tsr_onnx_out(c, 1, tsr_onnx_cast(c, mask, c->opset >= 10 ? TSR_DTYPE_I1 : tsr_onnx_dtype(x)));
    return tsr_onnx_out(c, 0, EMIT(c, "mul", x, factors));
}

bool tsr_onnx_rule_dropout(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t training = 0;
    double ratio = 0;
    if (tsr_onnx_trains(c)) return drop(c, x);
    if (c->opset >= 12 && tsr_onnx_has(c, 2) && !tsr_onnx_in_int(c, 2, "training_mode", &training))
        return false;
    training = training && !tsr_onnx_is_trained(c);
    if (training && !dropout_ratio(c, &ratio)) return false;
    if (training && ratio != 0) return tsr_onnx_drop(c, x, ratio);
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    tsr_dtype mask = c->opset >= 10 ? TSR_DTYPE_I1 : tsr_onnx_dtype(x);
    if (tsr_onnx_wants(c, 1)) tsr_onnx_out(c, 1, tsr_onnx_filled(c, mask, &shape, 1));
    return tsr_onnx_out(c, 0, x);
}
