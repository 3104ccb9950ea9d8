/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops: shape rules and gradients. In comments, g is the gradient of the result y.
 */
#include "compiler/graph/rules.h"

#include <float.h>
#include <string.h>

/* ---- shared by the gradients ----------------------------------------------------------------- */

static MlirValue operand(const tsr_gradient *of, size_t index) {
    return tsr_op_operand(of->op, index);
}

static MlirValue result(const tsr_gradient *of) { return tsr_op_result(of->op, 0); }

static MlirValue binary(const tsr_gradient *of, const char *name, MlirValue a, MlirValue b) {
    return tsr_emit_binary(of->builder, name, a, b);
}

static MlirValue mul(const tsr_gradient *of, MlirValue a, MlirValue b) {
    return binary(of, TSR_GRAPH_NAME("mul"), a, b);
}

static MlirValue add(const tsr_gradient *of, MlirValue a, MlirValue b) {
    return binary(of, TSR_GRAPH_NAME("add"), a, b);
}

static MlirValue divide(const tsr_gradient *of, MlirValue a, MlirValue b) {
    return binary(of, TSR_GRAPH_NAME("div"), a, b);
}

static MlirValue unary(const tsr_gradient *of, const char *name, MlirValue x) {
    return tsr_emit_unary(of->builder, name, x);
}

static MlirValue negate(const tsr_gradient *of, MlirValue x) {
    return unary(of, TSR_GRAPH_NAME("neg"), x);
}

static MlirValue number(const tsr_gradient *of, double value) {
    return tsr_emit_constant(of->builder, tsr_type_of(of->of_result).dtype, value);
}

/* if a <predicate> b: x, else y */
static MlirValue choose(const tsr_gradient *of, tsr_predicate predicate, MlirValue a, MlirValue b,
                        MlirValue x, MlirValue y) {
    MlirValue condition = tsr_emit_compare(of->builder, predicate, a, b);
    return tsr_emit_where(of->builder, condition, x, y);
}

/* The operand may have been broadcast to the result's shape. */
static void set_gradient(tsr_gradient *of, size_t index, MlirValue gradient) {
    tsr_shape shape = tsr_type_of(operand(of, index)).shape;
    of->of_operands[index] = tsr_emit_sum_to(of->builder, gradient, &shape);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static bool same_dtype(const tsr_rule *rule, size_t a, size_t b, const char *const *names) {
    return tsr_rule_same_dtype(rule, a, names[0], b, names[1]);
}

static const char *const sides[] = {"lhs", "rhs"};

bool tsr_check_arithmetic(tsr_rule *rule) {
    if (!tsr_rule_dtype(rule, 0, "lhs", TSR_DTYPES_NUMBER) || !same_dtype(rule, 0, 1, sides))
        return false;
    rule->results[0].dtype = rule->operands[0].dtype;
    return tsr_rule_broadcast(rule, 0, 1, sides, &rule->results[0].shape);
}

bool tsr_gradient_add(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, of->of_result);
    if (of->wanted[1]) set_gradient(of, 1, of->of_result);
    return true;
}

bool tsr_gradient_sub(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, of->of_result);
    if (of->wanted[1]) set_gradient(of, 1, negate(of, of->of_result));
    return true;
}

bool tsr_gradient_mul(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, mul(of, of->of_result, operand(of, 1)));
    if (of->wanted[1]) set_gradient(of, 1, mul(of, of->of_result, operand(of, 0)));
    return true;
}

/* d(a/b)/da = 1/b, d(a/b)/db = -(a/b)/b */
bool tsr_gradient_div(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, divide(of, of->of_result, operand(of, 1)));
    if (of->wanted[1])
        set_gradient(of, 1,
                     negate(of, divide(of, mul(of, of->of_result, result(of)), operand(of, 1))));
    return true;
}

/* If both are equal, the whole gradient goes to lhs. */
static bool pick(tsr_gradient *of, tsr_predicate lhs_wins) {
    MlirValue zero = number(of, 0.0), a = operand(of, 0), b = operand(of, 1);
    if (of->wanted[0]) set_gradient(of, 0, choose(of, lhs_wins, a, b, of->of_result, zero));
    if (of->wanted[1]) set_gradient(of, 1, choose(of, lhs_wins, a, b, zero, of->of_result));
    return true;
}

bool tsr_gradient_max(tsr_gradient *of) { return pick(of, TSR_PREDICATE_GE); }

bool tsr_gradient_min(tsr_gradient *of) { return pick(of, TSR_PREDICATE_LE); }

bool tsr_check_float_arithmetic(tsr_rule *rule) {
    return tsr_rule_dtype(rule, 0, "lhs", TSR_DTYPES_FLOAT) && tsr_check_arithmetic(rule);
}

/* b a^(b-1), and 0 for b = 0; y log a, and 0 for a = 0. */
/* 0^b is 0 or 1 for all b near one that is not negative: its slope there is 0, not 0 times log 0.
 */
bool tsr_gradient_pow(tsr_gradient *of) {
    MlirValue a = operand(of, 0), b = operand(of, 1), zero = number(of, 0.0);
    if (of->wanted[0]) {
        MlirValue less = binary(of, TSR_GRAPH_NAME("sub"), b, number(of, 1.0));
        MlirValue slope = mul(of, b, binary(of, TSR_GRAPH_NAME("pow"), a, less));
        MlirValue g = mul(of, of->of_result, slope);
        set_gradient(of, 0, choose(of, TSR_PREDICATE_EQ, b, zero, zero, g));
    }
    if (of->wanted[1]) {
        MlirValue slope = mul(of, result(of), unary(of, TSR_GRAPH_NAME("log"), a));
        MlirValue g = mul(of, of->of_result, slope);
        MlirValue still = choose(of, TSR_PREDICATE_GE, b, zero, zero, g);
        set_gradient(of, 1, choose(of, TSR_PREDICATE_EQ, a, zero, still, g));
    }
    return true;
}

bool tsr_check_ipow(tsr_rule *rule) {
    if (!tsr_rule_dtype(rule, 0, "base", TSR_DTYPES_FLOAT) ||
        !tsr_rule_dtype(rule, 1, "exponent", TSR_DTYPES_I64))
        return false;
    rule->results[0].dtype = rule->operands[0].dtype;
    return tsr_rule_broadcast(rule, 0, 1, (const char *const[]){"base", "exponent"},
                              &rule->results[0].shape);
}

/* n * x^(n-1), and 0 for n = 0, where x^(n-1) may be infinite. */
bool tsr_gradient_ipow(tsr_gradient *of) {
    MlirValue x = operand(of, 0), n = operand(of, 1);
    if (!of->wanted[0]) return true;
    MlirValue one = tsr_emit_constant(of->builder, TSR_DTYPE_I64, 1);
    MlirValue none = tsr_emit_constant(of->builder, TSR_DTYPE_I64, 0);
    MlirValue less = binary(of, TSR_GRAPH_NAME("sub"), n, one);
    MlirValue factor = tsr_emit_cast(of->builder, n, tsr_type_of(x).dtype);
    MlirValue slope = mul(of, factor, binary(of, TSR_GRAPH_NAME("ipow"), x, less));
    MlirValue g = mul(of, of->of_result, slope);
    set_gradient(of, 0, choose(of, TSR_PREDICATE_EQ, n, none, number(of, 0.0), g));
    return true;
}

/* ---- one operand ----------------------------------------------------------------------------- */

bool tsr_check_sign(tsr_rule *rule) {
    rule->results[0] = rule->operands[0];
    return tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_SIGNED);
}

bool tsr_check_float_unary(tsr_rule *rule) {
    rule->results[0] = rule->operands[0];
    return tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_FLOAT);
}

bool tsr_gradient_neg(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, negate(of, of->of_result));
    return true;
}

/* y > 0 if x > 0, so the operand need not be saved. */
bool tsr_gradient_relu(tsr_gradient *of) {
    MlirValue zero = number(of, 0.0);
    if (of->wanted[0])
        set_gradient(of, 0, choose(of, TSR_PREDICATE_GT, result(of), zero, of->of_result, zero));
    return true;
}

bool tsr_gradient_exp(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, mul(of, of->of_result, result(of)));
    return true;
}

bool tsr_gradient_log(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, divide(of, of->of_result, operand(of, 0)));
    return true;
}

/* 1 - y^2 */
bool tsr_gradient_tanh(tsr_gradient *of) {
    MlirValue square = mul(of, result(of), result(of));
    MlirValue slope = binary(of, TSR_GRAPH_NAME("sub"), number(of, 1.0), square);
    if (of->wanted[0]) set_gradient(of, 0, mul(of, of->of_result, slope));
    return true;
}

/* 1 / (2 y) */
bool tsr_gradient_sqrt(tsr_gradient *of) {
    MlirValue twice = mul(of, result(of), number(of, 2.0));
    if (of->wanted[0]) set_gradient(of, 0, divide(of, of->of_result, twice));
    return true;
}

/* The sign of x, and 0 at 0. */
bool tsr_gradient_abs(tsr_gradient *of) {
    MlirValue x = operand(of, 0), g = of->of_result, zero = number(of, 0.0);
    MlirValue negative = choose(of, TSR_PREDICATE_LT, x, zero, negate(of, g), zero);
    if (of->wanted[0]) set_gradient(of, 0, choose(of, TSR_PREDICATE_GT, x, zero, g, negative));
    return true;
}

/* y + 1 */
bool tsr_gradient_expm1(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    set_gradient(of, 0, mul(of, of->of_result, add(of, result(of), number(of, 1.0))));
    return true;
}

/* 1 / (1 + x) */
bool tsr_gradient_log1p(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    set_gradient(of, 0, divide(of, of->of_result, add(of, operand(of, 0), number(of, 1.0))));
    return true;
}

/* -y^3 / 2 */
bool tsr_gradient_rsqrt(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    MlirValue y = result(of), cube = mul(of, y, mul(of, y, y));
    set_gradient(of, 0, mul(of, of->of_result, mul(of, cube, number(of, -0.5))));
    return true;
}

/* 2 / sqrt(pi) exp(-x^2) */
bool tsr_gradient_erf(tsr_gradient *of) {
    static const double factor = 1.1283791670955126; /* 2 / sqrt(pi) */
    if (!of->wanted[0]) return true;
    MlirValue x = operand(of, 0), square = mul(of, mul(of, x, x), number(of, -1.0));
    MlirValue bell = unary(of, TSR_GRAPH_NAME("exp"), square);
    MlirValue slope = mul(of, bell, number(of, factor));
    set_gradient(of, 0, mul(of, of->of_result, slope));
    return true;
}

bool tsr_gradient_sin(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    set_gradient(of, 0, mul(of, of->of_result, unary(of, TSR_GRAPH_NAME("cos"), operand(of, 0))));
    return true;
}

bool tsr_gradient_cos(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    MlirValue slope = negate(of, unary(of, TSR_GRAPH_NAME("sin"), operand(of, 0)));
    set_gradient(of, 0, mul(of, of->of_result, slope));
    return true;
}

/* 1 + y^2 */
bool tsr_gradient_tan(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    MlirValue slope = add(of, mul(of, result(of), result(of)), number(of, 1.0));
    set_gradient(of, 0, mul(of, of->of_result, slope));
    return true;
}

/* 1 / sqrt((1 - x) (1 + x)), which loses no digits near 1 */
static MlirValue asin_slope(const tsr_gradient *of) {
    MlirValue x = operand(of, 0), one = number(of, 1.0);
    MlirValue square = mul(of, binary(of, TSR_GRAPH_NAME("sub"), one, x), add(of, one, x));
    return unary(of, TSR_GRAPH_NAME("rsqrt"), square);
}

bool tsr_gradient_asin(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, mul(of, of->of_result, asin_slope(of)));
    return true;
}

bool tsr_gradient_acos(tsr_gradient *of) {
    if (of->wanted[0]) set_gradient(of, 0, mul(of, of->of_result, negate(of, asin_slope(of))));
    return true;
}

/* 1 / (1 + x^2) */
bool tsr_gradient_atan(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    MlirValue x = operand(of, 0), divisor = add(of, mul(of, x, x), number(of, 1.0));
    set_gradient(of, 0, divide(of, of->of_result, divisor));
    return true;
}

/* A constant of x's type. */
static MlirValue number_like(const tsr_gradient *of, MlirValue x, double value) {
    return tsr_emit_constant(of->builder, tsr_type_of(x).dtype, value);
}

/* s (1 - s) */
static MlirValue sigmoid_slope(const tsr_gradient *of, MlirValue s) {
    return mul(of, s, binary(of, TSR_GRAPH_NAME("sub"), number_like(of, s, 1.0), s));
}

bool tsr_gradient_sigmoid(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    set_gradient(of, 0, mul(of, of->of_result, sigmoid_slope(of, result(of))));
    return true;
}

/* y = x s(w): s + x s (1 - s) dw/dx, where dw/dx null is 1. All are wide: the slope is rounded
 * once. */
static void give_weighted(tsr_gradient *of, MlirValue x, MlirValue w, MlirValue dw) {
    MlirValue s = unary(of, TSR_GRAPH_NAME("sigmoid"), w);
    MlirValue change = mul(of, x, sigmoid_slope(of, s));
    if (!mlirValueIsNull(dw)) change = mul(of, change, dw);
    tsr_dtype dtype = tsr_type_of(of->of_result).dtype;
    MlirValue slope = tsr_emit_cast(of->builder, add(of, s, change), dtype);
    set_gradient(of, 0, mul(of, of->of_result, slope));
}

bool tsr_gradient_silu(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    MlirValue x = tsr_emit_wide(of->builder, operand(of, 0));
    give_weighted(of, x, x, (MlirValue){NULL});
    return true;
}

bool tsr_gradient_softplus(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    MlirValue slope = unary(of, TSR_GRAPH_NAME("sigmoid"), operand(of, 0));
    set_gradient(of, 0, mul(of, of->of_result, slope));
    return true;
}

/* max(x, 0) + log1p(exp(-|x|)) */
bool tsr_lower_softplus(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue x = tsr_emit_wide(&b, tsr_op_operand(op, 0));
    MlirValue below = tsr_emit_unary(&b, TSR_GRAPH_NAME("abs"), x);
    below = tsr_emit_unary(&b, TSR_GRAPH_NAME("neg"), below);
    below = tsr_emit_unary(&b, TSR_GRAPH_NAME("exp"), below);
    MlirValue y = tsr_emit_add(&b, tsr_emit_unary(&b, TSR_GRAPH_NAME("relu"), x),
                               tsr_emit_unary(&b, TSR_GRAPH_NAME("log1p"), below));
    y = tsr_emit_cast(&b, y, tsr_type_of(tsr_op_result(op, 0)).dtype);
    tsr_emit_replace(op, 1, &y);
    return true;
}

/* 1 / (1 + |x|)^2; a square would overflow before the quotient is 0. */
bool tsr_gradient_softsign(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    MlirValue size = unary(of, TSR_GRAPH_NAME("abs"), operand(of, 0));
    MlirValue divisor = add(of, size, number(of, 1.0));
    set_gradient(of, 0, divide(of, divide(of, of->of_result, divisor), divisor));
    return true;
}

/* x / (1 + |x|) */
bool tsr_lower_softsign(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue x = tsr_emit_wide(&b, tsr_op_operand(op, 0));
    MlirValue size = tsr_emit_unary(&b, TSR_GRAPH_NAME("abs"), x);
    MlirValue y = tsr_emit_div(&b, x, tsr_emit_add(&b, size, tsr_emit_number(&b, x, 1.0)));
    y = tsr_emit_cast(&b, y, tsr_type_of(tsr_op_result(op, 0)).dtype);
    tsr_emit_replace(op, 1, &y);
    return true;
}

static const char *approximate(MlirOperation gelu) {
    const char *text = tsr_op_string(gelu, "approximate");
    return text ? text : "none";
}

bool tsr_check_gelu(tsr_rule *rule) {
    const char *how = approximate(rule->op);
    if (!tsr_check_float_unary(rule)) return false;
    if (strcmp(how, "none") == 0) return true;
    if (tsr_op_has(rule->op, "slope"))
        return tsr_rule_fail(rule, TSR_DIAG_WORD,
                             "approximate is \"%s\", needs \"none\" with slope", how);
    if (strcmp(how, "tanh") == 0) return true;
    return tsr_rule_fail(rule, TSR_DIAG_WORD, "approximate is \"%s\", needs \"none\" or \"tanh\"",
                         how);
}

/* "tanh": y = x s(w), w = c x + d x^3. */
static void give_gelu_tanh(tsr_gradient *of) {
    const double c = 1.5957691216057308, d = c * 0.044715; /* c: 2 sqrt(2 / pi) */
    MlirValue x = tsr_emit_wide(of->builder, operand(of, 0)), square = mul(of, x, x);
    MlirValue last = number_like(of, x, c);
    MlirValue factor = add(of, mul(of, square, number_like(of, x, d)), last);
    MlirValue slope = add(of, mul(of, square, number_like(of, x, 3 * d)), last);
    give_weighted(of, x, mul(of, x, factor), slope);
}

/* f(x) (2 - x^2): the derivative of the slope F(x) + x f(x), with F and f the normal
 * distribution's cumulative function and density. */
static MlirValue gelu_bend(const tsr_gradient *of, MlirValue x) {
    static const double top = 0.3989422804014327; /* f(0) */
    MlirValue square = mul(of, x, x), half = mul(of, square, number_like(of, x, -0.5));
    MlirValue density = mul(of, unary(of, TSR_GRAPH_NAME("exp"), half), number_like(of, x, top));
    MlirValue rest = binary(of, TSR_GRAPH_NAME("sub"), number_like(of, x, 2.0), square);
    return mul(of, density, rest);
}

/* The slope is of f32 where x is narrow, and rounded once. */
bool tsr_gradient_gelu(tsr_gradient *of) {
    if (!of->wanted[0]) return true;
    if (strcmp(approximate(of->op), "tanh") == 0) {
        give_gelu_tanh(of);
        return true;
    }
    MlirValue x = tsr_emit_wide(of->builder, operand(of, 0)), slope;
    tsr_attr attrs[] = {{"slope", tsr_attr_make_unit(of->builder->context)}, {0}};
    if (tsr_op_has(of->op, "slope"))
        slope = gelu_bend(of, x);
    else
        slope =
            tsr_build_value(of->builder, TSR_GRAPH_NAME("gelu"), &x, 1, mlirValueGetType(x), attrs);
    slope = tsr_emit_cast(of->builder, slope, tsr_type_of(of->of_result).dtype);
    set_gradient(of, 0, mul(of, of->of_result, slope));
    return true;
}

bool tsr_check_celu(tsr_rule *rule) {
    double alpha;
    if (!tsr_check_float_unary(rule) || !tsr_rule_f64(rule, "alpha", 1.0, &alpha)) return false;
    if (!(alpha > 0))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "alpha is %g, needs alpha > 0", alpha);
    if (rule->operands[0].dtype == TSR_DTYPE_F64 || (alpha >= FLT_MIN && alpha <= FLT_MAX))
        return true;
    return tsr_rule_fail(rule, TSR_DIAG_RATE, "alpha is %g, needs %g <= alpha <= %g in f32", alpha,
                         (double)FLT_MIN, (double)FLT_MAX);
}

/* The exponential is that of min(x, 0): it must not overflow where x > 0, as its slope times a
 * gradient of 0 would be NaN. */
bool tsr_lower_celu(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    double factor = 1.0;
    tsr_op_f64(op, "alpha", &factor);
    MlirValue x = tsr_emit_wide(&b, tsr_op_operand(op, 0)), zero = tsr_emit_number(&b, x, 0.0);
    MlirValue alpha = tsr_emit_number(&b, x, factor);
    MlirValue below = tsr_emit_binary(&b, TSR_GRAPH_NAME("min"), x, zero);
    below = tsr_emit_unary(&b, TSR_GRAPH_NAME("expm1"), tsr_emit_div(&b, below, alpha));
    MlirValue positive = tsr_emit_compare(&b, TSR_PREDICATE_GT, x, zero);
    MlirValue y = tsr_emit_where(&b, positive, x, tsr_emit_mul(&b, below, alpha));
    y = tsr_emit_cast(&b, y, tsr_type_of(tsr_op_result(op, 0)).dtype);
    tsr_emit_replace(op, 1, &y);
    return true;
}

bool tsr_check_clamp(tsr_rule *rule) {
    double low = 0, high = 0;
    rule->results[0] = rule->operands[0];
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_NUMBER)) return false;
    bool read = tsr_op_f64(rule->op, "low", &low) && tsr_op_f64(rule->op, "high", &high);
    if (read && low <= high)
        return tsr_rule_holds(rule, "low", low) && tsr_rule_holds(rule, "high", high);
    return tsr_rule_fail(rule, TSR_DIAG_RANGE, "low is %g, high is %g; low must not be above high",
                         low, high);
}

/* g from low to high, both included. */
bool tsr_gradient_clamp(tsr_gradient *of) {
    double low = 0, high = 0;
    bool read = tsr_op_f64(of->op, "low", &low) && tsr_op_f64(of->op, "high", &high);
    TSR_ASSERT(read);
    if (!of->wanted[0]) return true;
    MlirValue x = operand(of, 0), zero = number(of, 0.0);
    MlirValue g = choose(of, TSR_PREDICATE_GE, x, number(of, low), of->of_result, zero);
    set_gradient(of, 0, choose(of, TSR_PREDICATE_LE, x, number(of, high), g, zero));
    return true;
}

bool tsr_check_mul_add(tsr_rule *rule) {
    static const char *const names[] = {"x", "y", "z"};
    tsr_shape all;
    if (!tsr_rule_dtype(rule, 0, names[0], TSR_DTYPES_WIDE_FLOAT) ||
        !same_dtype(rule, 0, 1, names) || !tsr_rule_same_dtype(rule, 0, names[0], 2, names[2]) ||
        !tsr_rule_broadcast(rule, 0, 2, names, &all) || !tsr_rule_shape(rule, 0, names[0], &all))
        return false;
    rule->results[0] = rule->operands[0];
    return true;
}

bool tsr_gradient_mul_add(tsr_gradient *of) {
    if (of->wanted[2]) set_gradient(of, 2, of->of_result);
    return tsr_gradient_mul(of);
}

/* ---- logic ----------------------------------------------------------------------------------- */

static bool check_bits(tsr_rule *rule, unsigned allowed) {
    if (!tsr_rule_dtype(rule, 0, "lhs", allowed) || !same_dtype(rule, 0, 1, sides)) return false;
    rule->results[0].dtype = rule->operands[0].dtype;
    return tsr_rule_broadcast(rule, 0, 1, sides, &rule->results[0].shape);
}

bool tsr_check_logic(tsr_rule *rule) { return check_bits(rule, TSR_DTYPES_BITS); }

bool tsr_check_shift(tsr_rule *rule) { return check_bits(rule, TSR_DTYPES_INTEGER); }

bool tsr_check_logic_not(tsr_rule *rule) {
    rule->results[0] = rule->operands[0];
    return tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_BITS);
}

/* ---- comparison, selection, casts ------------------------------------------------------------ */

bool tsr_check_compare(tsr_rule *rule) {
    if (!tsr_rule_dtype(rule, 0, "lhs", TSR_DTYPES_ORDERED) || !same_dtype(rule, 0, 1, sides))
        return false;
    rule->results[0].dtype = TSR_DTYPE_I1;
    return tsr_rule_broadcast(rule, 0, 1, sides, &rule->results[0].shape);
}

bool tsr_graph_predicate(MlirOperation compare, tsr_predicate *out_predicate) {
    int64_t value;
    if (!tsr_op_is(compare, TSR_GRAPH_COMPARE) || !tsr_op_i64(compare, "predicate", &value) ||
        value < 0 || value >= TSR_PREDICATE_COUNT)
        return false;
    *out_predicate = (tsr_predicate)value;
    return true;
}

bool tsr_check_where(tsr_rule *rule) {
    static const char *const names[] = {"condition", "on_true", "on_false"};
    if (!tsr_rule_dtype(rule, 0, "condition", TSR_DTYPES_I1) || !same_dtype(rule, 1, 2, names + 1))
        return false;
    rule->results[0].dtype = rule->operands[1].dtype;
    return tsr_rule_broadcast(rule, 0, 2, names, &rule->results[0].shape);
}

bool tsr_gradient_where(tsr_gradient *of) {
    MlirValue condition = operand(of, 0), g = of->of_result, zero = number(of, 0.0);
    if (of->wanted[1]) set_gradient(of, 1, tsr_emit_where(of->builder, condition, g, zero));
    if (of->wanted[2]) set_gradient(of, 2, tsr_emit_where(of->builder, condition, zero, g));
    return true;
}

bool tsr_check_bitcast(tsr_rule *rule) {
    tsr_dtype from = rule->operands[0].dtype, to = rule->declared[0].dtype;
    rule->results[0].shape = rule->operands[0].shape;
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_WITH_BITS)) return false;
    if (TSR_DTYPES_WITH_BITS >> to & 1 && tsr_dtype_bits(from) == tsr_dtype_bits(to)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_RESULT_DTYPE,
                         "element type of the result is %s, must be a number of %u bits, as %s is",
                         tsr_dtype_name(to), tsr_dtype_bits(from), tsr_dtype_name(from));
}

bool tsr_gradient_cast(tsr_gradient *of) {
    tsr_dtype dtype = tsr_type_of(operand(of, 0)).dtype;
    if (of->wanted[0]) set_gradient(of, 0, tsr_emit_cast(of->builder, of->of_result, dtype));
    return true;
}
