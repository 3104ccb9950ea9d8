/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that take or change the slices that indices select: shape rules, gradients, lowerings. In
 * comments, g is the gradient of the result.
 */
#include "compiler/graph/rules.h"
#include "runtime/base/array.h"

#include <string.h>

static MlirValue operand(const tsr_gradient *of, size_t index) {
    return tsr_op_operand(of->op, index);
}

static bool gather_type(tsr_rule *rule, tsr_type *out_type) {
    const tsr_shape *from = &rule->operands[0].shape, *indices = &rule->operands[1].shape;
    int64_t axis;
    if (!tsr_rule_dtype(rule, 1, "indices", TSR_DTYPES_INDEX) ||
        !tsr_rule_axis(rule, from->rank, &axis))
        return false;
    if (from->rank - 1 + indices->rank > TSR_RANK_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_LIMIT, "the result has more than %d dims",
                             TSR_RANK_MAX);
    tsr_type type = {.dtype = rule->operands[0].dtype};
    for (uint32_t i = 0; i < from->rank; i++)
        if (i != axis)
            type.shape.dims[type.shape.rank++] = from->dims[i];
        else
            for (uint32_t k = 0; k < indices->rank; k++)
                type.shape.dims[type.shape.rank++] = indices->dims[k];
    *out_type = type;
    return true;
}

bool tsr_check_gather(tsr_rule *rule) { return gather_type(rule, &rule->results[0]); }

/* True if the indices are all of 0, 1, … in order. */
bool tsr_takes_first(MlirOperation gather) {
    MlirOperation positions = tsr_value_owner(tsr_op_operand(gather, 1));
    tsr_type from = tsr_type_of(tsr_op_operand(gather, 0));
    tsr_type indices = tsr_type_of(tsr_op_operand(gather, 1));
    int64_t axis = 0;
    return tsr_op_is(positions, TSR_GRAPH_IOTA) && tsr_type_is_static(&from) &&
           tsr_type_is_static(&indices) && indices.shape.rank == 1 &&
           tsr_op_i64(gather, "axis", &axis) && indices.shape.dims[0] <= from.shape.dims[axis];
}

bool tsr_lower_gather(MlirOperation op) {
    int64_t start[TSR_RANK_MAX] = {0}, size[TSR_RANK_MAX];
    tsr_shape shape = tsr_type_of(tsr_op_result(op, 0)).shape;
    tsr_builder b = tsr_builder_before(op);
    for (uint32_t d = 0; d < shape.rank; d++) size[d] = (int64_t)shape.dims[d];
    MlirValue taken = tsr_emit_slice(&b, tsr_op_operand(op, 0), start, size, NULL);
    tsr_emit_replace(op, 1, &taken);
    return true;
}

bool tsr_gradient_gather(tsr_gradient *of) {
    tsr_type type = tsr_type_of(operand(of, 0));
    MlirValue operands[] = {tsr_emit_filled(of->builder, &type, 0.0), operand(of, 1),
                            of->of_result};
    tsr_attr attrs[] = {{"axis", tsr_op_attr(of->op, "axis")}, {0}};
    if (of->wanted[0])
        of->of_operands[0] = tsr_build_value(of->builder, TSR_GRAPH_NAME("scatter_add"), operands,
                                             3, mlirValueGetType(operands[0]), attrs);
    return true;
}

bool tsr_check_scatter_add(tsr_rule *rule) {
    tsr_type updates;
    rule->results[0] = rule->operands[0];
    return tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_SUMMABLE) &&
           tsr_rule_same_dtype(rule, 0, "the operand", 2, "updates") &&
           gather_type(rule, &updates) && tsr_rule_shape(rule, 2, "updates", &updates.shape);
}

bool tsr_gradient_scatter_add(tsr_gradient *of) {
    MlirValue operands[] = {of->of_result, operand(of, 1)};
    tsr_attr attrs[] = {{"axis", tsr_op_attr(of->op, "axis")}, {0}};
    if (of->wanted[0]) of->of_operands[0] = of->of_result;
    if (of->wanted[2])
        of->of_operands[2] = tsr_build_value(of->builder, TSR_GRAPH_NAME("gather"), operands, 2,
                                             mlirValueGetType(operand(of, 2)), attrs);
    return true;
}

/* ---- scatter --------------------------------------------------------------------------------- */

typedef enum how { SET, MAX, MIN, MUL } how;
static const char *const words[] = {"set", "max", "min", "mul"};

static bool read_how(MlirOperation scatter, how *out_how) {
    const char *word = tsr_op_string(scatter, "how");
    for (size_t i = 0; i < TSR_COUNT(words); i++)
        if (strcmp(word ? word : "set", words[i]) == 0) {
            *out_how = (how)i;
            return true;
        }
    return false;
}

bool tsr_check_scatter(tsr_rule *rule) {
    static const uint32_t dtypes[] = {[SET] = UINT32_MAX,
                                      [MAX] = TSR_DTYPES_NUMBER,
                                      [MIN] = TSR_DTYPES_NUMBER,
                                      [MUL] = TSR_DTYPES_SUMMABLE};
    tsr_type updates;
    how by;
    rule->results[0] = rule->operands[0];
    if (!read_how(rule->op, &by))
        return tsr_rule_fail(rule, TSR_DIAG_WORD,
                             "how is \"%s\", needs \"set\", \"max\", \"min\" or \"mul\"",
                             tsr_op_string(rule->op, "how"));
    return tsr_rule_dtype(rule, 0, "the operand", dtypes[by]) &&
           tsr_rule_same_dtype(rule, 0, "the operand", 2, "updates") &&
           gather_type(rule, &updates) && tsr_rule_shape(rule, 2, "updates", &updates.shape);
}

/* Builds gathers and scatters along the axis of the op. */
typedef struct slices {
    tsr_builder *b;
    MlirValue indices;
    MlirAttribute axis;
} slices;

static slices slices_of(const tsr_gradient *of) {
    return (slices){of->builder, operand(of, 1), tsr_op_attr(of->op, "axis")};
}

static MlirValue take(const slices *s, MlirValue from, MlirType type) {
    MlirValue operands[] = {from, s->indices};
    tsr_attr attrs[] = {{"axis", s->axis}, {0}};
    return tsr_build_value(s->b, TSR_GRAPH_NAME("gather"), operands, 2, type, attrs);
}

static MlirValue put(const slices *s, how by, MlirValue into, MlirValue updates) {
    MlirValue operands[] = {into, s->indices, updates};
    tsr_attr attrs[] = {
        {"axis", s->axis}, {"how", tsr_attr_make_string(s->b->context, words[by])}, {0}};
    return tsr_build_value(s->b, TSR_GRAPH_NAME("scatter"), operands, 3, mlirValueGetType(into),
                           attrs);
}

static MlirValue add_up(const slices *s, MlirValue into, MlirValue updates) {
    MlirValue operands[] = {into, s->indices, updates};
    tsr_attr attrs[] = {{"axis", s->axis}, {0}};
    return tsr_build_value(s->b, TSR_GRAPH_NAME("scatter_add"), operands, 3, mlirValueGetType(into),
                           attrs);
}

/* True for the updates that no later update of the same slice replaces; broadcasts to them. */
static MlirValue remains(const tsr_gradient *of, int64_t axis) {
    tsr_builder *b = of->builder;
    tsr_shape from = tsr_type_of(operand(of, 0)).shape;
    tsr_shape shape = tsr_type_of(operand(of, 1)).shape, list = {.rank = 1, .dims = {1}};
    tsr_shape wide = {.rank = shape.rank + from.rank - 1 - (uint32_t)axis};
    for (uint32_t i = 0; i < shape.rank; i++) list.dims[0] *= shape.dims[i];
    for (uint32_t i = 0; i < wide.rank; i++) wide.dims[i] = i < shape.rank ? shape.dims[i] : 1;
    tsr_type slots = {TSR_DTYPE_I64, {.rank = 1, .dims = {from.dims[axis]}}};
    slices s = {b, operand(of, 1), tsr_attr_make_i64(b->context, 0)};
    MlirValue number = tsr_emit_iota(b, &list, 0, TSR_DTYPE_I64);
    number = tsr_emit_reshape(b, number, &shape);
    MlirValue last = put(&s, SET, tsr_emit_filled(b, &slots, 0), number);
    last = take(&s, last, mlirValueGetType(number));
    return tsr_emit_reshape(b, tsr_emit_compare(b, TSR_PREDICATE_EQ, last, number), &wide);
}

static void gradient_of_set(tsr_gradient *of) {
    slices s = slices_of(of);
    tsr_type updates = tsr_type_of(operand(of, 2));
    MlirValue zero = tsr_emit_constant(of->builder, updates.dtype, 0.0);
    int64_t axis = 0;
    bool read = tsr_op_i64(of->op, "axis", &axis);
    TSR_ASSERT(read);
    if (of->wanted[0])
        of->of_operands[0] =
            put(&s, SET, of->of_result, tsr_emit_filled(of->builder, &updates, 0.0));
    if (of->wanted[2])
        of->of_operands[2] =
            tsr_emit_where(of->builder, remains(of, axis),
                           take(&s, of->of_result, mlirValueGetType(operand(of, 2))), zero);
}

/* The old element and updates that tie for the result share its gradient equally. */
static void gradient_of_extremum(tsr_gradient *of) {
    tsr_builder *b = of->builder;
    slices s = slices_of(of);
    MlirValue x = operand(of, 0), updates = operand(of, 2), y = tsr_op_result(of->op, 0);
    MlirValue g = tsr_emit_wide(b, of->of_result);
    tsr_dtype dtype = tsr_type_of(x).dtype, wide = tsr_type_of(g).dtype;
    MlirValue zero = tsr_emit_constant(b, dtype, 0.0);
    MlirType type = mlirValueGetType(updates);
    MlirValue keeps = tsr_emit_compare(b, TSR_PREDICATE_EQ, x, y);
    MlirValue wins = tsr_emit_compare(b, TSR_PREDICATE_EQ, updates, take(&s, y, type));
    MlirValue ties = add_up(&s, tsr_emit_cast(b, keeps, wide), tsr_emit_cast(b, wins, wide));
    MlirValue each = tsr_emit_cast(b, tsr_emit_div(b, g, ties), dtype);
    if (of->wanted[0]) of->of_operands[0] = tsr_emit_where(b, keeps, each, zero);
    if (of->wanted[2]) of->of_operands[2] = tsr_emit_where(b, wins, take(&s, each, type), zero);
}

/* A factor and where it is 0. */
typedef struct factor {
    MlirValue or_one, is_zero;
} factor;

static factor factor_of(tsr_builder *b, MlirValue x) {
    MlirValue is_zero = tsr_emit_compare(b, TSR_PREDICATE_EQ, x, tsr_emit_number(b, x, 0.0));
    return (factor){tsr_emit_where(b, is_zero, tsr_emit_number(b, x, 1.0), x), is_zero};
}

/* g times the product of the other factors, which is 0 if one of them is 0. `zeros`: of all
 * factors. */
static MlirValue times_others(tsr_builder *b, factor f, MlirValue g, MlirValue product,
                              MlirValue zeros, tsr_dtype dtype) {
    MlirValue mine = tsr_emit_cast(b, f.is_zero, tsr_type_of(zeros).dtype);
    MlirValue none = tsr_emit_compare(b, TSR_PREDICATE_EQ, zeros, mine);
    MlirValue others = tsr_emit_mul(b, g, tsr_emit_div(b, product, f.or_one));
    others = tsr_emit_where(b, none, others, tsr_emit_number(b, others, 0.0));
    return tsr_emit_cast(b, others, dtype);
}

static void gradient_of_product(tsr_gradient *of) {
    tsr_builder *b = of->builder;
    slices s = slices_of(of);
    tsr_dtype dtype = tsr_type_of(of->of_result).dtype;
    MlirValue g = tsr_emit_wide(b, of->of_result), updates = tsr_emit_wide(b, operand(of, 2));
    factor x = factor_of(b, tsr_emit_wide(b, operand(of, 0))), u = factor_of(b, updates);
    MlirValue product = put(&s, MUL, x.or_one, u.or_one);
    MlirValue zeros = add_up(&s, tsr_emit_cast(b, x.is_zero, TSR_DTYPE_I64),
                             tsr_emit_cast(b, u.is_zero, TSR_DTYPE_I64));
    if (of->wanted[0]) of->of_operands[0] = times_others(b, x, g, product, zeros, dtype);
    if (!of->wanted[2]) return;
    MlirType type = mlirValueGetType(updates);
    tsr_type counts = tsr_type_of(updates);
    counts.dtype = TSR_DTYPE_I64;
    of->of_operands[2] = times_others(b, u, take(&s, g, type), take(&s, product, type),
                                      take(&s, zeros, tsr_type_make(b->context, &counts)), dtype);
}

bool tsr_gradient_scatter(tsr_gradient *of) {
    static void (*const gradients[])(tsr_gradient * of) = {[SET] = gradient_of_set,
                                                           [MAX] = gradient_of_extremum,
                                                           [MIN] = gradient_of_extremum,
                                                           [MUL] = gradient_of_product};
    how by = SET;
    bool read = read_how(of->op, &by);
    TSR_ASSERT(read);
    gradients[by](of);
    return true;
}
