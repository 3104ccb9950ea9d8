/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops that have one op of Graph IR, comparisons, conversions.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/frontend/stablehlo/rules/order.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

static MlirValue emit_named(tsr_hlo_call *c, const char *name, size_t length, const MlirValue *in,
                            size_t count) {
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, TSR_GRAPH_NAME("%.*s"), (int)length, name);
    return tsr_hlo_emit(c, full, in, count, NULL, NULL);
}

bool tsr_hlo_rule_unary(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, emit_named(c, c->row->with, strlen(c->row->with), c->in, 1));
}

bool tsr_hlo_rule_binary(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, emit_named(c, c->row->with, strlen(c->row->with), c->in, 2));
}

/* Integers without a sign are their absolute value; their sign is 0 or 1. */
bool tsr_hlo_rule_signed_unary(tsr_hlo_call *c) {
    MlirValue x = c->in[0];
    if (!tsr_dtype_is_unsigned(tsr_hlo_dtype(x))) return tsr_hlo_rule_unary(c);
    bool is_sign = strcmp(c->row->with, "sign") == 0;
    return tsr_hlo_out(c, 0, is_sign ? EMIT(c, "min", x, tsr_hlo_like(c, x, 1)) : x);
}

bool tsr_hlo_rule_negate(tsr_hlo_call *c) {
    MlirValue x = c->in[0];
    if (tsr_dtype_is_unsigned(tsr_hlo_dtype(x)))
        return tsr_hlo_out(c, 0, EMIT(c, "sub", tsr_hlo_like(c, x, 0), x));
    return tsr_hlo_out(c, 0, EMIT(c, "neg", x));
}

/* The first word of `with` for numbers, the second for truth values. */
bool tsr_hlo_rule_arithmetic(tsr_hlo_call *c) {
    const char *with = c->row->with, *space = strchr(with, ' ');
    bool truth = tsr_hlo_dtype(c->in[0]) == TSR_DTYPE_I1;
    const char *name = truth ? space + 1 : with;
    size_t length = truth ? strlen(name) : (size_t)(space - with);
    return tsr_hlo_out(c, 0, emit_named(c, name, length, c->in, 2));
}

/* ---- integers with and without a sign ---- */

static tsr_dtype other_sign(tsr_dtype dtype, bool is_unsigned) {
    return tsr_dtype_of_integer(tsr_dtype_bits(dtype), is_unsigned);
}

/* Copies of the sign, or zeros, come in from the left. */
bool tsr_hlo_rule_shift_right(tsr_hlo_call *c) {
    tsr_dtype dtype = tsr_hlo_dtype(c->in[0]);
    tsr_dtype by = other_sign(dtype, strcmp(c->row->with, "unsigned") == 0);
    if (by == TSR_DTYPE_NONE || dtype == TSR_DTYPE_I1 || tsr_dtype_is_float(dtype))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_TYPE, "its operands are %s; expected integers",
                            tsr_dtype_name(dtype));
    MlirValue shifted =
        EMIT(c, "shift_right", tsr_hlo_bitcast(c, c->in[0], by), tsr_hlo_bitcast(c, c->in[1], by));
    return tsr_hlo_out(c, 0, tsr_hlo_bitcast(c, shifted, dtype));
}

/* Of integers by repeated squaring: a negative exponent gives 0, or 1 and -1 for these bases. */
static MlirValue integer_power(tsr_hlo_call *c) {
    MlirValue base = c->in[0], exponent = c->in[1], one = tsr_hlo_like(c, base, 1);
    MlirValue zero = tsr_hlo_like(c, base, 0), result = one, square = base, bits = exponent;
    unsigned width = tsr_dtype_bits(tsr_hlo_dtype(base));
    bool is_signed = tsr_dtype_is_signed(tsr_hlo_dtype(base));
    for (unsigned i = 0; i + (is_signed ? 1 : 0) < width; i++) {
        MlirValue odd = tsr_hlo_compare(c, TSR_PREDICATE_NE, EMIT(c, "and", bits, one), zero);
        result = EMIT(c, "where", odd, EMIT(c, "mul", result, square), result);
        square = EMIT(c, "mul", square, square);
        bits = EMIT(c, "shift_right", bits, one);
    }
    if (!is_signed) return result;
    MlirValue below = tsr_hlo_compare(c, TSR_PREDICATE_LT, exponent, zero);
    MlirValue minus = tsr_hlo_like(c, base, -1);
    MlirValue odd = tsr_hlo_compare(c, TSR_PREDICATE_NE, EMIT(c, "and", exponent, one), zero);
    MlirValue of_minus = EMIT(c, "where", odd, minus, one);
    MlirValue inverse =
        EMIT(c, "where", tsr_hlo_compare(c, TSR_PREDICATE_EQ, base, one), one,
             EMIT(c, "where", tsr_hlo_compare(c, TSR_PREDICATE_EQ, base, minus), of_minus, zero));
    return EMIT(c, "where", below, inverse, result);
}

bool tsr_hlo_rule_power(tsr_hlo_call *c) {
    MlirValue power =
        tsr_hlo_is_float(c->in[0]) ? EMIT(c, "pow", c->in[0], c->in[1]) : integer_power(c);
    return tsr_hlo_out(c, 0, power);
}

/* The fraction is cut off. */
static MlirValue truncate(tsr_hlo_call *c, MlirValue x) {
    MlirValue below = tsr_hlo_compare(c, TSR_PREDICATE_LT, x, tsr_hlo_like(c, x, 0));
    return EMIT(c, "where", below, EMIT(c, "ceil", x), EMIT(c, "floor", x));
}

/* x - y trunc(x / y) in f64. If x / y was rounded up to an integer, the rest has the other sign,
 * and y is added once. */
static MlirValue float_remainder(tsr_hlo_call *c) {
    MlirValue x = tsr_hlo_cast(c, c->in[0], TSR_DTYPE_F64);
    MlirValue y = tsr_hlo_cast(c, c->in[1], TSR_DTYPE_F64);
    MlirValue zero = tsr_hlo_number(c, TSR_DTYPE_F64, 0), size = EMIT(c, "abs", y);
    MlirValue whole = truncate(c, EMIT(c, "div", EMIT(c, "abs", x), size));
    MlirValue rest = tsr_hlo_mul_add(c, EMIT(c, "neg", whole), size, EMIT(c, "abs", x));
    MlirValue below = tsr_hlo_compare(c, TSR_PREDICATE_LT, rest, zero);
    rest = EMIT(c, "where", below, EMIT(c, "add", rest, size), rest);
    MlirValue negative = tsr_hlo_compare(c, TSR_PREDICATE_LT, x, zero);
    rest = EMIT(c, "where", negative, EMIT(c, "neg", rest), rest);
    MlirValue infinite = tsr_hlo_number(c, TSR_DTYPE_F64, (double)INFINITY);
    MlirValue infinite_divisor =
        EMIT(c, "and", tsr_hlo_compare(c, TSR_PREDICATE_EQ, size, infinite),
             tsr_hlo_compare(c, TSR_PREDICATE_LT, EMIT(c, "abs", x), infinite));
    return tsr_hlo_cast(c, EMIT(c, "where", infinite_divisor, x, rest), tsr_hlo_dtype(c->in[0]));
}

bool tsr_hlo_rule_remainder(tsr_hlo_call *c) {
    MlirValue x = c->in[0], y = c->in[1];
    if (tsr_hlo_is_float(x)) return tsr_hlo_out(c, 0, float_remainder(c));
    return tsr_hlo_out(c, 0, EMIT(c, "sub", x, EMIT(c, "mul", EMIT(c, "div", x, y), y)));
}

/* ---- comparisons ---- */

/* Integers whose order is the total order of the floats: -NaN, -inf … -0, 0 … inf, NaN. */
MlirValue tsr_hlo_total_order(tsr_hlo_call *c, MlirValue x) {
    tsr_dtype dtype = tsr_dtype_of_integer(tsr_dtype_bits(tsr_hlo_dtype(x)), false);
    MlirValue bits = tsr_hlo_bitcast(c, x, dtype);
    unsigned width = tsr_dtype_bits(dtype);
    MlirValue sign = EMIT(c, "shift_right", bits, tsr_hlo_number(c, dtype, width - 1));
    MlirValue rest = tsr_hlo_bits(c, dtype, UINT64_MAX >> (65 - width));
    return EMIT(c, "xor", bits, EMIT(c, "and", sign, rest));
}

static bool read_predicate(tsr_hlo_call *c, const char *word, tsr_predicate *out_predicate) {
    static const char *const names[] = {
        [TSR_PREDICATE_EQ] = "EQ", [TSR_PREDICATE_NE] = "NE", [TSR_PREDICATE_LT] = "LT",
        [TSR_PREDICATE_LE] = "LE", [TSR_PREDICATE_GT] = "GT", [TSR_PREDICATE_GE] = "GE"};
    for (size_t i = 0; i < TSR_COUNT(names) && word; i++)
        if (strcmp(word, names[i]) == 0) {
            *out_predicate = (tsr_predicate)i;
            return true;
        }
    return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                        "comparison_direction is '%s'; expected EQ, NE, LT, LE, GT or GE",
                        word ? word : "");
}

bool tsr_hlo_rule_compare(tsr_hlo_call *c) {
    tsr_predicate predicate = TSR_PREDICATE_EQ;
    MlirValue a = c->in[0], b = c->in[1];
    const char *type = tsr_hlo_word(c, "compare_type", 1);
    if (!read_predicate(c, tsr_hlo_word(c, "comparison_direction", 0), &predicate)) return false;
    if (type && strcmp(type, "TOTALORDER") == 0 && tsr_hlo_is_float(a)) {
        a = tsr_hlo_total_order(c, a);
        b = tsr_hlo_total_order(c, b);
    }
    return tsr_hlo_out(c, 0, tsr_hlo_compare(c, predicate, a, b));
}

bool tsr_hlo_rule_select(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, EMIT(c, "where", c->in[0], c->in[1], c->in[2]));
}

bool tsr_hlo_rule_clamp(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, EMIT(c, "min", EMIT(c, "max", c->in[1], c->in[0]), c->in[2]));
}

static MlirValue below_infinity(tsr_hlo_call *c, tsr_predicate predicate) {
    MlirValue size = EMIT(c, "abs", c->in[0]);
    return tsr_hlo_compare(c, predicate, size, tsr_hlo_like(c, size, (double)INFINITY));
}

bool tsr_hlo_rule_is_finite(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, below_infinity(c, TSR_PREDICATE_LT));
}

bool tsr_hlo_rule_is_inf(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, below_infinity(c, TSR_PREDICATE_EQ));
}

/* ---- conversions ---- */

bool tsr_hlo_rule_convert(tsr_hlo_call *c) {
    return tsr_hlo_out(c, 0, tsr_hlo_cast(c, c->in[0], c->types[0].dtype));
}

/* The parts of each number along a last dim, the lowest bits first. */
static MlirValue split_bits(tsr_hlo_call *c, tsr_dtype wide, tsr_dtype narrow, size_t count) {
    tsr_shape column = tsr_hlo_type(c->in[0]).shape;
    unsigned width = tsr_dtype_bits(narrow);
    MlirValue parts[8], bits = tsr_hlo_bitcast(c, c->in[0], wide);
    if (column.rank == TSR_RANK_MAX)
        return tsr_hlo_fail_value(c, TSR_DIAG_HLO_TYPE, "its result has more than %d dims",
                                  TSR_RANK_MAX);
    column.dims[column.rank++] = 1;
    for (size_t i = 0; i < count; i++) {
        MlirValue distance = tsr_hlo_number(c, wide, (double)(i * width));
        MlirValue part = tsr_hlo_cast(c, EMIT(c, "shift_right", bits, distance), narrow);
        parts[i] = tsr_hlo_reshape(c, part, &column);
    }
    return tsr_hlo_concat(c, count, parts, column.rank - 1);
}

static MlirValue join_bits(tsr_hlo_call *c, tsr_dtype narrow, tsr_dtype wide, size_t count) {
    tsr_shape shape = tsr_hlo_type(c->in[0]).shape;
    MlirValue bits = tsr_hlo_bitcast(c, c->in[0], narrow), joined = {NULL};
    uint32_t last = --shape.rank;
    for (size_t i = 0; i < count; i++) {
        MlirValue part = tsr_hlo_slice_dim(c, bits, last, (int64_t)i, 1, 1);
        MlirValue distance = tsr_hlo_number(c, wide, (double)(i * tsr_dtype_bits(narrow)));
        part = tsr_hlo_cast(c, tsr_hlo_reshape(c, part, &shape), wide);
        part = EMIT(c, "shift_left", part, distance);
        joined = i ? EMIT(c, "or", joined, part) : part;
    }
    return joined;
}

bool tsr_hlo_rule_bitcast_convert(tsr_hlo_call *c) {
    tsr_type is = tsr_hlo_type(c->in[0]);
    tsr_dtype to = c->types[0].dtype;
    unsigned from_bits = tsr_dtype_bits(is.dtype), to_bits = tsr_dtype_bits(to);
    tsr_dtype from_integer = tsr_dtype_of_integer(from_bits, true);
    tsr_dtype to_integer = tsr_dtype_of_integer(to_bits, true);
    MlirValue bits;
    if (from_bits == to_bits) return tsr_hlo_out(c, 0, tsr_hlo_bitcast(c, c->in[0], to));
    if (from_bits < 8 || to_bits < 8)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_TYPE, "bits of %s cannot become %s",
                            tsr_dtype_name(is.dtype), tsr_dtype_name(to));
    if (from_bits > to_bits) {
        bits = split_bits(c, from_integer, to_integer, from_bits / to_bits);
    } else {
        uint64_t count = to_bits / from_bits;
        if (is.shape.rank == 0 || is.shape.dims[is.shape.rank - 1] != count)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_TYPE, "its operand has no last dim of %u",
                                (unsigned)count);
        bits = join_bits(c, from_integer, to_integer, (size_t)count);
    }
    return tsr_hlo_out(c, 0, tsr_hlo_bitcast(c, bits, to));
}

/* To a type with the same bits of exponent and fraction, and back. */
bool tsr_hlo_rule_reduce_precision(tsr_hlo_call *c) {
    static const struct {
        const char *format;
        int64_t exponent, fraction;
        tsr_dtype dtype;
    } known[] = {{"e5m10", 5, 10, TSR_DTYPE_F16},
                 {"e8m7", 8, 7, TSR_DTYPE_BF16},
                 {"e8m23", 8, 23, TSR_DTYPE_F32},
                 {"e11m52", 11, 52, TSR_DTYPE_F64}};
    const char *format = tsr_hlo_text(c, "format", NULL);
    int64_t exponent, fraction;
    tsr_dtype dtype = tsr_hlo_dtype(c->in[0]);
    if (!tsr_hlo_int(c, "exponent_bits", NULL, -1, &exponent) ||
        !tsr_hlo_int(c, "mantissa_bits", NULL, -1, &fraction))
        return false;
    for (size_t i = 0; i < TSR_COUNT(known); i++)
        if ((format && strcmp(format, known[i].format) == 0) ||
            (exponent == known[i].exponent && fraction == known[i].fraction)) {
            MlirValue reduced = tsr_hlo_cast(c, c->in[0], known[i].dtype);
            return tsr_hlo_out(c, 0, tsr_hlo_cast(c, reduced, dtype));
        }
    return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "the format is not e5m10, e8m7, e8m23 or e11m52");
}

bool tsr_hlo_rule_same(tsr_hlo_call *c) {
    if (c->in_count != c->out_count)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu operands and %zu results",
                            c->in_count, c->out_count);
    for (size_t i = 0; i < c->in_count; i++) tsr_hlo_out(c, i, c->in[i]);
    return true;
}
