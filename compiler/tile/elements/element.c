/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/elements/element.h"

#include "compiler/graph/graph.h"
#include "compiler/tile/elements/format.h"

#include <math.h>
#include <string.h>

typedef enum kind {
    ADD,
    SUB,
    MUL,
    MAX,
    MIN,
    EXPM1,
    LOG,
    LOG1P,
    TANH,
    ERF,
    SQRT,
    FLOOR,
    CEIL,
    ROUND,
    SIN,
    COS,
    TAN,
    ASIN,
    ACOS,
    ATAN,
    AND,
    OR,
    XOR,
    LEFT,
    RIGHT,
} kind;

enum { EXACT = false, ROUNDS = true };

typedef struct element {
    tsr_tile_builder *b;
    MlirOperation op;
    const MlirValue *x;
    tsr_dtype from, to; /* types of operand 0 and of the result */
    uint32_t lanes;
    kind kind;
} element;

static MlirType type_of(const element *e, tsr_dtype dtype) {
    return tsr_tile_value_type(e->b, dtype, e->lanes);
}

/* The bits of an integer of the type, as a signed number of as many bits. */
static int64_t signed_bits(tsr_dtype dtype, uint64_t bits) {
    unsigned unused = 64 - 8 * (unsigned)tsr_dtype_size(dtype);
    return (int64_t)(bits << unused) >> unused;
}

MlirValue tsr_element_zero(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes) {
    MlirType type = tsr_tile_value_type(b, dtype, lanes);
    return tsr_dtype_is_float(dtype) ? tsr_tile_float(b, type, 0) : tsr_tile_int(b, type, 0);
}

MlirValue tsr_element_lowest(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes) {
    MlirType type = tsr_tile_value_type(b, dtype, lanes);
    if (tsr_dtype_is_float(dtype)) return tsr_tile_float(b, type, -(double)INFINITY);
    return tsr_tile_int(b, type, tsr_dtype_lowest(dtype));
}

MlirValue tsr_element_highest(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes) {
    MlirType type = tsr_tile_value_type(b, dtype, lanes);
    if (tsr_dtype_is_float(dtype)) return tsr_tile_float(b, type, (double)INFINITY);
    return tsr_tile_int(b, type, signed_bits(dtype, tsr_dtype_highest(dtype)));
}

MlirValue tsr_element_one(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes) {
    MlirType type = tsr_tile_value_type(b, dtype, lanes);
    return tsr_dtype_is_float(dtype) ? tsr_tile_float(b, type, 1) : tsr_tile_int(b, type, 1);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static MlirValue arithmetic(const element *e) {
    static const char *const floats[] = {
        [ADD] = "arith.addf", [SUB] = "arith.subf", [MUL] = "arith.mulf"};
    static const char *const ints[] = {
        [ADD] = "arith.addi", [SUB] = "arith.subi", [MUL] = "arith.muli"};
    const char *name = (tsr_dtype_is_float(e->from) ? floats : ints)[e->kind];
    return tsr_tile_2(e->b, name, e->x[0], e->x[1]);
}

MlirValue tsr_element_add(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y) {
    return tsr_tile_2(b, tsr_dtype_is_float(dtype) ? "arith.addf" : "arith.addi", x, y);
}

MlirValue tsr_element_mul(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y) {
    return tsr_tile_2(b, tsr_dtype_is_float(dtype) ? "arith.mulf" : "arith.muli", x, y);
}

/* Integers: the machine traps on x / 0 and on lowest / -1, so both get divisor 1 first. */
static MlirValue divide(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirType type = type_of(e, e->from);
    if (tsr_dtype_is_float(e->from)) return tsr_tile_2(b, "arith.divf", e->x[0], e->x[1]);
    MlirValue zero = tsr_tile_int(b, type, 0), one = tsr_tile_int(b, type, 1);
    MlirValue by_zero = tsr_tile_icompare(b, TSR_ICMP_EQ, e->x[1], zero);
    MlirValue divisor = tsr_tile_select(b, by_zero, one, e->x[1]);
    MlirValue quotient = tsr_tile_null;
    if (tsr_dtype_is_signed(e->from)) {
        MlirValue minus = tsr_tile_int(b, type, -1);
        MlirValue by_minus = tsr_tile_icompare(b, TSR_ICMP_EQ, e->x[1], minus);
        divisor = tsr_tile_select(b, by_minus, one, divisor);
        quotient = tsr_tile_2(b, "arith.divsi", e->x[0], divisor);
        MlirValue negated = tsr_tile_2(b, "arith.subi", zero, e->x[0]);
        quotient = tsr_tile_select(b, by_minus, negated, quotient);
    } else {
        quotient = tsr_tile_2(b, "arith.divui", e->x[0], divisor);
    }
    return tsr_tile_select(b, by_zero, zero, quotient);
}

static MlirValue extremum_of(tsr_tile_builder *b, tsr_dtype dtype, bool max, MlirValue x,
                             MlirValue y) {
    if (!tsr_dtype_is_float(dtype)) {
        const char *name = tsr_dtype_is_signed(dtype) ? (max ? "arith.maxsi" : "arith.minsi")
                                                      : (max ? "arith.maxui" : "arith.minui");
        return tsr_tile_2(b, name, x, y);
    }
    MlirValue better = tsr_tile_fcompare(b, max ? TSR_FCMP_OGT : TSR_FCMP_OLT, x, y);
    MlirValue nan = tsr_tile_fcompare(b, TSR_FCMP_UNO, x, x);
    return tsr_tile_select(b, tsr_tile_2(b, "arith.ori", better, nan), x, y);
}

MlirValue tsr_element_max(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y) {
    return extremum_of(b, dtype, true, x, y);
}

MlirValue tsr_element_max_number(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y) {
    TSR_ASSERT(tsr_dtype_is_float(dtype));
    return tsr_tile_select(b, tsr_tile_fcompare(b, TSR_FCMP_OGT, x, y), x, y);
}

MlirValue tsr_element_min(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y) {
    return extremum_of(b, dtype, false, x, y);
}

static MlirValue extremum(const element *e) {
    return extremum_of(e->b, e->from, e->kind == MAX, e->x[0], e->x[1]);
}

static MlirValue negate(const element *e) {
    if (tsr_dtype_is_float(e->from)) return tsr_tile_1(e->b, "arith.negf", e->x[0]);
    MlirValue zero = tsr_element_zero(e->b, e->from, e->lanes);
    return tsr_tile_2(e->b, "arith.subi", zero, e->x[0]);
}

static MlirValue relu(const element *e) {
    MlirValue zero = tsr_element_zero(e->b, e->from, e->lanes);
    if (!tsr_dtype_is_float(e->from))
        return tsr_dtype_is_signed(e->from) ? tsr_tile_2(e->b, "arith.maxsi", e->x[0], zero)
                                            : e->x[0];
    MlirValue below = tsr_tile_fcompare(e->b, TSR_FCMP_OLE, e->x[0], zero);
    return tsr_tile_select(e->b, below, zero, e->x[0]);
}

static MlirValue absolute(const element *e) {
    if (tsr_dtype_is_float(e->from)) return tsr_tile_1(e->b, "math.absf", e->x[0]);
    if (!tsr_dtype_is_signed(e->from)) return e->x[0];
    MlirValue zero = tsr_element_zero(e->b, e->from, e->lanes);
    MlirValue negated = tsr_tile_2(e->b, "arith.subi", zero, e->x[0]);
    MlirValue below = tsr_tile_icompare(e->b, TSR_ICMP_SLT, e->x[0], zero);
    return tsr_tile_select(e->b, below, negated, e->x[0]);
}

static MlirValue power(const element *e) {
    return tsr_tile_2(e->b, "math.fpowi", e->x[0], e->x[1]);
}

static MlirValue real_power(const element *e) {
    return tsr_tile_2(e->b, "math.powf", e->x[0], e->x[1]);
}

/* ---- functions ------------------------------------------------------------------------------- */

static MlirOperation owner_if(MlirValue value, tsr_op id) {
    MlirOperation owner = tsr_value_owner(value);
    return tsr_op_is(owner, id) ? owner : (MlirOperation){NULL};
}

static bool is_lowest(MlirValue value) {
    MlirOperation constant = owner_if(value, TSR_GRAPH_CONSTANT);
    if (mlirOperationIsNull(constant)) return false;
    MlirAttribute all = tsr_op_attr(constant, "value");
    if (!mlirAttributeIsADenseElements(all) || !mlirDenseElementsAttrIsSplat(all)) return false;
    MlirAttribute one = mlirDenseElementsAttrGetSplatValue(all);
    return mlirAttributeIsAFloat(one) && mlirFloatAttrGetValueDouble(one) == -(double)INFINITY;
}

/* Returns m for where(m == -inf, c, m), which softmax uses for rows of only -inf. */
static MlirValue unless_equal(MlirValue value) {
    MlirOperation where = owner_if(value, TSR_GRAPH_WHERE);
    if (mlirOperationIsNull(where)) return value;
    MlirOperation compare = owner_if(tsr_op_operand(where, 0), TSR_GRAPH_COMPARE);
    MlirValue other = tsr_op_operand(where, 2);
    int64_t how = -1;
    bool is = !mlirOperationIsNull(compare) && tsr_op_i64(compare, "predicate", &how) && how == 0 &&
              mlirValueEqual(tsr_op_operand(compare, 0), other) &&
              is_lowest(tsr_op_operand(compare, 1));
    return is ? other : value;
}

/* True for x - m if m is the largest element of a row of x. If m is the lowest number, every x of
 * the row is the lowest number, too. */
static bool is_below_0(MlirValue value) {
    MlirOperation sub = owner_if(value, TSR_GRAPH_SUB);
    if (mlirOperationIsNull(sub)) return false;
    MlirValue from = tsr_op_operand(sub, 1);
    while (!mlirOperationIsNull(owner_if(from, TSR_GRAPH_RESHAPE)) ||
           !mlirOperationIsNull(owner_if(from, TSR_GRAPH_BROADCAST)))
        from = tsr_op_operand(tsr_value_owner(from), 0);
    MlirOperation max = owner_if(unless_equal(from), TSR_GRAPH_REDUCE_MAX);
    return !mlirOperationIsNull(max) &&
           mlirValueEqual(tsr_op_operand(max, 0), tsr_op_operand(sub, 0));
}

static MlirValue exponential(const element *e) {
    if (tsr_op_has(e->op, TSR_EXP_SHIFTED)) return tsr_tile_exp_shifted(e->b, e->x[0]);
    return is_below_0(tsr_op_operand(e->op, 0)) ? tsr_tile_exp_below_40(e->b, e->x[0])
                                                : tsr_tile_1(e->b, "math.exp", e->x[0]);
}

static MlirValue function(const element *e) {
    static const char *const names[] = {
        [EXPM1] = "math.expm1", [LOG] = "math.log",   [LOG1P] = "math.log1p",
        [TANH] = "math.tanh",   [ERF] = "math.erf",   [SQRT] = "math.sqrt",
        [FLOOR] = "math.floor", [CEIL] = "math.ceil", [ROUND] = "math.roundeven",
        [SIN] = "math.sin",     [COS] = "math.cos",   [TAN] = "math.tan",
        [ASIN] = "math.asin",   [ACOS] = "math.acos", [ATAN] = "math.atan"};
    return tsr_tile_1(e->b, names[e->kind], e->x[0]);
}

static MlirValue number(const element *e, double value) {
    return tsr_tile_float(e->b, type_of(e, e->from), value);
}

static MlirValue reciprocal_root(const element *e) {
    MlirValue root = tsr_tile_1(e->b, "math.sqrt", e->x[0]);
    return tsr_tile_2(e->b, "arith.divf", number(e, 1), root);
}

/* Computes sigmoid with tanh(x / 2), which devices have. */
static MlirValue approximate_sigmoid_of(const element *e, MlirValue x) {
    tsr_tile_builder *b = e->b;
    MlirValue half = number(e, 0.5), inner = tsr_tile_2(b, "arith.mulf", x, half);
    return tsr_tile_3(b, "math.fma", tsr_tile_1(b, "math.tanh", inner), half, half);
}

static MlirValue approximate_sigmoid(const element *e) {
    return approximate_sigmoid_of(e, e->x[0]);
}

/* Computes sigmoid with exp(-|x|), which preserves the whole tail. */
static MlirValue sigmoid(const element *e) {
    tsr_tile_builder *b = e->b;
    if (b->approximate) return approximate_sigmoid(e);
    MlirValue one = number(e, 1), size = tsr_tile_1(b, "math.absf", e->x[0]);
    MlirValue power = tsr_tile_exp_below_40(b, tsr_tile_1(b, "arith.negf", size));
    MlirValue below = tsr_tile_fcompare(b, TSR_FCMP_OLT, e->x[0], number(e, 0));
    MlirValue above = tsr_tile_select(b, below, power, one);
    return tsr_tile_2(b, "arith.divf", above, tsr_tile_2(b, "arith.addf", power, one));
}

/* The operand with a finite lower bound, below which silu is -0. */
static MlirValue finite_below(const element *e) {
    MlirValue lowest = number(e, e->from == TSR_DTYPE_F64 ? -1600 : -200);
    MlirValue below = tsr_tile_fcompare(e->b, TSR_FCMP_OLT, e->x[0], lowest);
    return tsr_tile_select(e->b, below, lowest, e->x[0]);
}

/* x / (1 + exp(-x)). For large negative x, exp x would be denormal, so x is multiplied twice by
 * exp(x / 2). */
static MlirValue silu(const element *e) {
    tsr_tile_builder *b = e->b;
    if (b->approximate) return tsr_tile_2(b, "arith.mulf", finite_below(e), approximate_sigmoid(e));
    MlirValue x = finite_below(e), one = number(e, 1), size = tsr_tile_1(b, "math.absf", x);
    MlirValue limit = number(e, e->from == TSR_DTYPE_F64 ? 700 : 80);
    MlirValue far = tsr_tile_fcompare(b, TSR_FCMP_OGT, size, limit);
    MlirValue half = tsr_tile_2(b, "arith.mulf", size, number(e, 0.5));
    MlirValue exponent = tsr_tile_1(b, "arith.negf", tsr_tile_select(b, far, half, size));
    MlirValue power = tsr_tile_exp_below_40(b, exponent);
    MlirValue product = tsr_tile_2(b, "arith.mulf", x, power);
    product = tsr_tile_2(b, "arith.mulf", product, tsr_tile_select(b, far, power, one));
    MlirValue below = tsr_tile_fcompare(b, TSR_FCMP_OLT, x, number(e, 0));
    MlirValue above = tsr_tile_select(b, below, product, x);
    return tsr_tile_2(b, "arith.divf", above, tsr_tile_2(b, "arith.addf", power, one));
}

/* x s(c x + d x^3), in the same form as its gradient: if both are computed, they share one s. */
static MlirValue approximate_gelu(const element *e) {
    const double c = 1.5957691216057308, d = c * 0.044715; /* c: 2 sqrt(2 / pi) */
    tsr_tile_builder *b = e->b;
    MlirValue x = e->x[0], square = tsr_tile_2(b, "arith.mulf", x, x);
    MlirValue factor = tsr_tile_2(b, "arith.mulf", square, number(e, d));
    factor = tsr_tile_2(b, "arith.addf", factor, number(e, c));
    MlirValue weight = approximate_sigmoid_of(e, tsr_tile_2(b, "arith.mulf", x, factor));
    return tsr_tile_2(b, "arith.mulf", x, weight);
}

static MlirValue gelu(const element *e) {
    const char *approximate = tsr_op_string(e->op, "approximate");
    bool by_tanh = approximate && strcmp(approximate, "tanh") == 0;
    if (by_tanh && e->b->approximate) return approximate_gelu(e);
    const char *form = tsr_op_has(e->op, "slope") ? "slope" : by_tanh ? "tanh" : NULL;
    return tsr_tile_gelu(e->b, e->x[0], form);
}

static MlirValue sign(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirValue zero = tsr_element_zero(b, e->from, e->lanes), x = e->x[0];
    MlirType type = type_of(e, e->from);
    if (tsr_dtype_is_float(e->from)) {
        MlirValue below = tsr_tile_fcompare(b, TSR_FCMP_OLT, x, zero);
        MlirValue above = tsr_tile_fcompare(b, TSR_FCMP_OGT, x, zero);
        return tsr_tile_select(b, above, number(e, 1), tsr_tile_select(b, below, number(e, -1), x));
    }
    MlirValue below = tsr_tile_icompare(b, TSR_ICMP_SLT, x, zero);
    MlirValue above = tsr_tile_icompare(b, TSR_ICMP_SGT, x, zero);
    MlirValue minus = tsr_tile_int(b, type, -1);
    return tsr_tile_select(b, above, tsr_tile_int(b, type, 1), tsr_tile_select(b, below, minus, x));
}

static MlirValue bound(const element *e, double value) {
    uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    return tsr_tile_int(e->b, type_of(e, e->from), signed_bits(e->from, bits));
}

/* NaN stays NaN. */
static MlirValue clamp(const element *e) {
    double low = 0, high = 0;
    bool known = tsr_op_f64(e->op, "low", &low) && tsr_op_f64(e->op, "high", &high);
    TSR_ASSERT(known);
    MlirValue x = e->x[0];
    if (!tsr_dtype_is_float(e->from)) {
        x = extremum_of(e->b, e->from, true, x, bound(e, low));
        return extremum_of(e->b, e->from, false, x, bound(e, high));
    }
    MlirValue least = number(e, low), most = number(e, high);
    MlirValue below = tsr_tile_fcompare(e->b, TSR_FCMP_OLT, x, least);
    MlirValue above = tsr_tile_fcompare(e->b, TSR_FCMP_OGT, x, most);
    return tsr_tile_select(e->b, above, most, tsr_tile_select(e->b, below, least, x));
}

static MlirValue mul_add(const element *e) {
    return tsr_tile_3(e->b, "math.fma", e->x[0], e->x[1], e->x[2]);
}

static MlirValue logic(const element *e) {
    static const char *const names[] = {
        [AND] = "arith.andi", [OR] = "arith.ori", [XOR] = "arith.xori"};
    return tsr_tile_2(e->b, names[e->kind], e->x[0], e->x[1]);
}

static MlirValue not_(const element *e) {
    bool is_truth = e->from == TSR_DTYPE_I1;
    MlirValue ones = tsr_tile_int(e->b, type_of(e, e->from), is_truth ? 1 : -1);
    return tsr_tile_2(e->b, "arith.xori", e->x[0], ones);
}

/* Beyond the width, also by a negative number of places, only copies of the sign, or zeros, are
 * left; the machine has no such shifts. */
static MlirValue shift(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirType type = type_of(e, e->from);
    int64_t width = tsr_dtype_bits(e->from);
    bool copies_sign = e->kind == RIGHT && tsr_dtype_is_signed(e->from);
    MlirValue zero = tsr_tile_int(b, type, 0), places = e->x[1];
    MlirValue beyond = tsr_tile_icompare(b, TSR_ICMP_UGE, places, tsr_tile_int(b, type, width));
    MlirValue last = copies_sign ? tsr_tile_int(b, type, width - 1) : zero;
    places = tsr_tile_select(b, beyond, last, places);
    if (copies_sign) return tsr_tile_2(b, "arith.shrsi", e->x[0], places);
    const char *name = e->kind == LEFT ? "arith.shli" : "arith.shrui";
    return tsr_tile_select(b, beyond, zero, tsr_tile_2(b, name, e->x[0], places));
}

/* ---- comparison, choice, conversion ---------------------------------------------------------- */

static MlirValue compare(const element *e) {
    static const tsr_tile_fcmp floats[] = {TSR_FCMP_OEQ, TSR_FCMP_UNE, TSR_FCMP_OLT,
                                           TSR_FCMP_OLE, TSR_FCMP_OGT, TSR_FCMP_OGE};
    static const tsr_tile_icmp ints[] = {TSR_ICMP_EQ,  TSR_ICMP_NE,  TSR_ICMP_SLT,
                                         TSR_ICMP_SLE, TSR_ICMP_SGT, TSR_ICMP_SGE};
    static const tsr_tile_icmp unsigneds[] = {TSR_ICMP_EQ,  TSR_ICMP_NE,  TSR_ICMP_ULT,
                                              TSR_ICMP_ULE, TSR_ICMP_UGT, TSR_ICMP_UGE};
    int64_t how = 0;
    bool known = tsr_op_i64(e->op, "predicate", &how);
    TSR_ASSERT(known && how >= 0 && how < 6);
    if (tsr_dtype_is_float(e->from)) return tsr_tile_fcompare(e->b, floats[how], e->x[0], e->x[1]);
    return tsr_tile_icompare(e->b, (tsr_dtype_is_signed(e->from) ? ints : unsigneds)[how], e->x[0],
                             e->x[1]);
}

static MlirValue where(const element *e) {
    return tsr_tile_select(e->b, e->x[0], e->x[1], e->x[2]);
}

static MlirValue same(const element *e) { return e->x[0]; }

/* f64 to f32, rounded to odd: rounding this result to fewer bits gives the same number as rounding
 * once (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008, theorem 3). */
static MlirValue to_odd_f32(const element *e, MlirValue x) {
    tsr_tile_builder *b = e->b;
    MlirType bits_type = type_of(e, TSR_DTYPE_I32);
    MlirValue near = tsr_tile_to(b, "arith.truncf", x, type_of(e, TSR_DTYPE_F32));
    MlirValue back = tsr_tile_to(b, "arith.extf", near, mlirValueGetType(x));
    MlirValue beyond = tsr_tile_fcompare(b, TSR_FCMP_OGT, tsr_tile_1(b, "math.absf", back),
                                         tsr_tile_1(b, "math.absf", x));
    MlirValue inexact = tsr_tile_fcompare(b, TSR_FCMP_UNE, back, x);
    MlirValue bits = tsr_tile_to(b, "arith.bitcast", near, bits_type);
    bits = tsr_tile_2(b, "arith.subi", bits, tsr_tile_to(b, "arith.extui", beyond, bits_type));
    bits = tsr_tile_2(b, "arith.ori", bits, tsr_tile_to(b, "arith.extui", inexact, bits_type));
    return tsr_tile_to(b, "arith.bitcast", bits, mlirValueGetType(near));
}

/* An integer of 64 bits that f64 represents exactly: rounded to odd at 2^10 (ui64: 2^11) if its
 * absolute value is 2^53 or more, so that rounding the result to fewer bits gives the same number
 * as rounding x itself. */
static MlirValue to_odd_53_bits(const element *e, MlirValue x) {
    tsr_tile_builder *b = e->b;
    MlirType type = mlirValueGetType(x);
    bool is_signed = tsr_dtype_is_signed(e->from);
    int64_t unit = is_signed ? 1 << 10 : 1 << 11, exact = INT64_C(1) << 53;
    MlirValue low = tsr_tile_2(b, "arith.andi", x, tsr_tile_int(b, type, unit - 1));
    MlirValue inexact = tsr_tile_icompare(b, TSR_ICMP_NE, low, tsr_tile_int(b, type, 0));
    MlirValue odd =
        tsr_tile_select(b, inexact, tsr_tile_int(b, type, unit), tsr_tile_int(b, type, 0));
    MlirValue high = tsr_tile_2(b, "arith.andi", x, tsr_tile_int(b, type, -unit));
    MlirValue size = x, most = tsr_tile_int(b, type, is_signed ? 2 * exact : exact);
    if (is_signed) size = tsr_tile_2(b, "arith.addi", x, tsr_tile_int(b, type, exact));
    MlirValue large = tsr_tile_icompare(b, TSR_ICMP_UGT, size, most);
    return tsr_tile_select(b, large, tsr_tile_2(b, "arith.ori", high, odd), x);
}

/* An f32 that, rounded to 16 bits or fewer, is the operand rounded once. Integers of 32 and 64 bits
 * are converted through f64, which represents the converted value exactly. */
static MlirValue to_f32(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirValue x = e->x[0];
    bool is_integer = !tsr_dtype_is_float(e->from);
    bool wide = is_integer && tsr_dtype_bits(e->from) > 16;
    if (is_integer && tsr_dtype_bits(e->from) == 64) x = to_odd_53_bits(e, x);
    if (is_integer)
        x = tsr_tile_to(b, tsr_dtype_is_signed(e->from) ? "arith.sitofp" : "arith.uitofp", x,
                        type_of(e, wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32));
    return wide || e->from == TSR_DTYPE_F64 ? to_odd_f32(e, x) : x;
}

/* Codes of a format, i32, as values of the result's type. */
static MlirValue from_codes(const element *e, MlirValue codes) {
    tsr_tile_builder *b = e->b;
    bool is_wide = tsr_dtype_size(e->to) == 2;
    codes =
        tsr_tile_to(b, "arith.trunci", codes, type_of(e, is_wide ? TSR_DTYPE_I16 : TSR_DTYPE_I8));
    if (!tsr_dtype_is_narrow(e->to)) return codes;
    MlirType stored = tsr_tile_vector_type(tsr_tile_storage_type(b, e->to), e->lanes);
    return tsr_tile_to(b, "arith.extf", tsr_tile_to(b, "arith.bitcast", codes, stored),
                       type_of(e, e->to));
}

static tsr_conversion read_conversion(const element *e) {
    const char *rounding = tsr_op_string(e->op, "rounding");
    tsr_conversion how = {.saturates = tsr_op_flag(e->op, "saturate")};
    bool known = !rounding || tsr_rounding_from_name(rounding, &how.rounding);
    TSR_ASSERT(known);
    return how;
}

/* To a format of at most 16 bits. */
static MlirValue cast_format(const element *e) {
    tsr_conversion how = read_conversion(e);
    bool is_plain = how.rounding == TSR_ROUND_NEAREST_EVEN && !how.saturates;
    if (tsr_dtype_is_narrow(e->to) && is_plain) return tsr_tile_round(e->b, e->to, to_f32(e));
    how.format = tsr_format_of(e->to);
    return from_codes(e, tsr_format_encode(e->b, &how, to_f32(e), e->lanes));
}

static MlirValue encode(const element *e) {
    tsr_conversion how = read_conversion(e);
    how.format = tsr_format_from_name(tsr_op_string(e->op, "format"));
    if (how.rounding == TSR_ROUND_STOCHASTIC) how.random = e->x[1];
    return from_codes(e, tsr_format_encode(e->b, &how, to_f32(e), e->lanes));
}

static MlirValue decode_as(const element *e, const tsr_format *format) {
    MlirValue codes = tsr_tile_to(e->b, "arith.extui", e->x[0], type_of(e, TSR_DTYPE_I32));
    return tsr_format_decode(e->b, format, codes, e->lanes);
}

static MlirValue decode(const element *e) {
    return decode_as(e, tsr_format_from_name(tsr_op_string(e->op, "format")));
}

/* A float to ui64: one of 2^63 or more is converted without its highest bit. */
static MlirValue float_to_ui64(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirValue x = e->x[0], half = number(e, 0x1p63);
    MlirType type = type_of(e, e->to);
    MlirValue large = tsr_tile_fcompare(b, TSR_FCMP_OGE, x, half);
    MlirValue rest = tsr_tile_select(b, large, tsr_tile_2(b, "arith.subf", x, half), x);
    MlirValue value = tsr_tile_to(b, "arith.fptosi", rest, type);
    value = tsr_tile_2(b, "arith.maxsi", value, tsr_tile_int(b, type, 0));
    MlirValue high = tsr_tile_2(b, "arith.xori", value, tsr_tile_int(b, type, INT64_MIN));
    return tsr_tile_select(b, large, high, value);
}

/* The operand, rounded to a whole number as the op says; toward zero is left to the conversion. */
static MlirValue to_whole(const element *e) {
    static const char *const names[TSR_ROUNDING_COUNT] = {[TSR_ROUND_NEAREST_EVEN] =
                                                              "math.roundeven",
                                                          [TSR_ROUND_UP] = "math.ceil",
                                                          [TSR_ROUND_DOWN] = "math.floor"};
    if (!tsr_op_has(e->op, "rounding")) return e->x[0];
    const char *name = names[read_conversion(e).rounding];
    return name ? tsr_tile_1(e->b, name, e->x[0]) : e->x[0];
}

/* A float to an integer: towards zero, and saturating, as arith.fptosi does; so smaller types are
 * the ends of their ranges in a wider type. */
static MlirValue float_to_integer(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirType type = type_of(e, e->to);
    unsigned bits = tsr_dtype_bits(e->to);
    bool fits = tsr_dtype_is_signed(e->to) && bits >= 32;
    if (fits) return tsr_tile_to(b, "arith.fptosi", e->x[0], type);
    if (bits == 64) return float_to_ui64(e);
    MlirType wide = type_of(e, bits < 32 ? TSR_DTYPE_I32 : TSR_DTYPE_I64);
    MlirValue value = tsr_tile_to(b, "arith.fptosi", e->x[0], wide);
    value = tsr_tile_2(b, "arith.maxsi", value, tsr_tile_int(b, wide, tsr_dtype_lowest(e->to)));
    value = tsr_tile_2(b, "arith.minsi", value,
                       tsr_tile_int(b, wide, (int64_t)tsr_dtype_highest(e->to)));
    return tsr_tile_to(b, "arith.trunci", value, type);
}

static MlirValue round_to_integer(const element *e) {
    element whole = *e;
    MlirValue x = to_whole(e);
    whole.x = &x;
    return float_to_integer(&whole);
}

/* The operand, limited to the range of a smaller type. */
static MlirValue limit_integer(const element *e) {
    MlirValue x = e->x[0];
    double low = (double)tsr_dtype_lowest(e->to), high = (double)tsr_dtype_highest(e->to);
    int64_t least = tsr_dtype_lowest(e->to), most = (int64_t)tsr_dtype_highest(e->to);
    if (!tsr_op_flag(e->op, "saturate")) return x;
    MlirType type = type_of(e, e->from);
    if (low > (double)tsr_dtype_lowest(e->from))
        x = extremum_of(e->b, e->from, true, x, tsr_tile_int(e->b, type, least));
    if (high < (double)tsr_dtype_highest(e->from))
        x = extremum_of(e->b, e->from, false, x, tsr_tile_int(e->b, type, most));
    return x;
}

static MlirValue cast_float(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirType type = type_of(e, e->to);
    if (tsr_dtype_is_float(e->to)) {
        if (mlirTypeEqual(mlirValueGetType(e->x[0]), type)) return e->x[0];
        const char *name = e->to == TSR_DTYPE_F64 ? "arith.extf" : "arith.truncf";
        return tsr_tile_to(b, name, e->x[0], type);
    }
    if (e->to == TSR_DTYPE_I1) {
        MlirValue zero = tsr_element_zero(b, e->from, e->lanes);
        return tsr_tile_fcompare(b, TSR_FCMP_UNE, e->x[0], zero);
    }
    return round_to_integer(e);
}

static MlirValue cast(const element *e);

/* From a float of 8 bits; every such float is also an f32. */
static MlirValue cast_small(const element *e) {
    element wide = *e;
    MlirValue x = decode_as(e, tsr_format_of(e->from));
    wide.from = TSR_DTYPE_F32;
    wide.x = &x;
    return cast(&wide);
}

static MlirValue cast(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirType type = type_of(e, e->to);
    if (e->from == e->to) return e->x[0];
    if (tsr_dtype_is_small(e->from)) return cast_small(e);
    if (tsr_format_of(e->to)) return cast_format(e);
    if (tsr_dtype_is_float(e->from)) return cast_float(e);
    if (tsr_dtype_is_float(e->to))
        return tsr_tile_to(b, tsr_dtype_is_signed(e->from) ? "arith.sitofp" : "arith.uitofp",
                           e->x[0], type);
    if (e->to == TSR_DTYPE_I1)
        return tsr_tile_icompare(b, TSR_ICMP_NE, e->x[0], tsr_element_zero(b, e->from, e->lanes));
    size_t from = e->from == TSR_DTYPE_I1 ? 0 : tsr_dtype_size(e->from);
    MlirValue x = limit_integer(e);
    if (from > tsr_dtype_size(e->to)) return tsr_tile_to(b, "arith.trunci", x, type);
    if (from == tsr_dtype_size(e->to)) return x; /* the same bits */
    return tsr_tile_to(b, tsr_dtype_is_signed(e->from) ? "arith.extsi" : "arith.extui", x, type);
}

/* bf16 and f16 have their own bits only before they are widened. */
static MlirValue bitcast(const element *e) {
    tsr_tile_builder *b = e->b;
    MlirType from = tsr_tile_vector_type(tsr_tile_storage_type(b, e->from), e->lanes);
    MlirType to = tsr_tile_vector_type(tsr_tile_storage_type(b, e->to), e->lanes);
    MlirValue bits = e->x[0];
    MlirOperation owner = tsr_value_owner(bits);
    bool is_wide = tsr_dtype_is_narrow(e->from);
    bool was_narrow = is_wide && tsr_op_is(owner, TSR_ARITH_EXTF) &&
                      mlirTypeEqual(mlirValueGetType(tsr_op_operand(owner, 0)), from);
    if (was_narrow)
        bits = tsr_op_operand(owner, 0);
    else if (is_wide)
        bits = tsr_tile_to(b, "arith.truncf", bits, from);
    if (!mlirTypeEqual(from, to)) bits = tsr_tile_to(b, "arith.bitcast", bits, to);
    if (!tsr_dtype_is_narrow(e->to)) return bits;
    return tsr_tile_to(b, "arith.extf", bits, type_of(e, e->to));
}

static MlirValue philox(const element *e) {
    return tsr_element_philox(e->b, e->op, e->x, e->lanes, e->to);
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct row {
    MlirValue (*build)(const element *e);
    kind kind;
    bool rounds; /* the result may not be a number of bf16 or f16 yet */
} row;

static const row rows[TSR_OP_COUNT] = {
#define X(ID, function_name, which, rounding) [TSR_##ID] = {function_name, which, rounding},
#include "compiler/tile/elements/elements.def"
#undef X
};

static const row *find(MlirOperation op) {
    const row *found = &rows[tsr_op_of(op)];
    return found->build ? found : NULL;
}

bool tsr_element_is(MlirOperation op) { return find(op) != NULL; }

MlirValue tsr_element_build(tsr_tile_builder *b, MlirOperation op, const MlirValue *operands) {
    const row *found = find(op);
    tsr_type from, to;
    bool known = found && tsr_value_type(tsr_op_operand(op, 0), &from) &&
                 tsr_value_type(tsr_op_result(op, 0), &to);
    TSR_ASSERT(known);
    MlirType type = mlirValueGetType(operands[0]);
    element e = {.b = b,
                 .op = op,
                 .x = operands,
                 .from = from.dtype,
                 .to = to.dtype,
                 .kind = found->kind,
                 .lanes =
                     mlirTypeIsAVector(type) ? (uint32_t)mlirShapedTypeGetDimSize(type, 0) : 0};
    MlirValue value = found->build(&e);
    return found->rounds ? tsr_tile_round(b, to.dtype, value) : value;
}
