/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions and changes of shape: shape rules and gradients.
 */
#include "compiler/graph/rules.h"

#include <inttypes.h>

/* ---- axes ------------------------------------------------------------------------------------ */

static bool check_axis(const tsr_rule *rule, const char *what, int64_t axis) {
    char text[TSR_TYPE_TEXT_MAX];
    uint32_t rank = rule->operands[0].shape.rank;
    if (axis >= 0 && axis < (int64_t)rank) return true;
    return tsr_rule_fail(rule, TSR_DIAG_AXIS,
                         "%s %" PRId64 " is outside [0, %" PRIu32 ") of the operand (%s)", what,
                         axis, rank, tsr_type_text(&rule->operands[0], text));
}

/* ---- reductions ------------------------------------------------------------------------------ */

static bool check_reduce(tsr_rule *rule, unsigned dtypes) {
    int64_t axes[TSR_RANK_MAX];
    size_t count;
    if (!tsr_rule_dtype(rule, 0, "the operand", dtypes) || !tsr_rule_axes(rule, axes, &count))
        return false;
    rule->results[0].dtype = rule->operands[0].dtype;
    rule->results[0].shape = tsr_shape_remove(&rule->operands[0].shape, count, axes);
    return true;
}

bool tsr_check_reduce(tsr_rule *rule) { return check_reduce(rule, TSR_DTYPES_SUMMABLE); }

bool tsr_check_extremum(tsr_rule *rule) { return check_reduce(rule, TSR_DTYPES_NUMBER); }

bool tsr_check_mean(tsr_rule *rule) { return check_reduce(rule, TSR_DTYPES_FLOAT); }

static MlirValue input(const tsr_gradient *of) { return tsr_op_operand(of->op, 0); }

typedef struct reduction {
    tsr_shape full; /* shape of the operand */
    int64_t axes[TSR_RANK_MAX];
    size_t axis_count;
} reduction;

static reduction reduction_of(const tsr_gradient *of) {
    reduction r = {.full = tsr_type_of(input(of)).shape};
    bool has_axes = tsr_op_i64s(of->op, "axes", TSR_RANK_MAX, r.axes, &r.axis_count);
    TSR_ASSERT(has_axes);
    return r;
}

static MlirValue expand(const tsr_gradient *of, const reduction *r, MlirValue x) {
    return tsr_emit_expand(of->builder, x, &r->full, r->axis_count, r->axes);
}

bool tsr_gradient_sum(tsr_gradient *of) {
    reduction r = reduction_of(of);
    if (of->wanted[0]) of->of_operands[0] = expand(of, &r, of->of_result);
    return true;
}

bool tsr_gradient_mean(tsr_gradient *of) {
    reduction r = reduction_of(of);
    double count = 1;
    if (!of->wanted[0]) return true;
    for (size_t i = 0; i < r.axis_count; i++) count *= (double)r.full.dims[r.axes[i]];
    MlirValue g =
        tsr_emit_wide(of->builder, of->of_result); /* a type in which 1 / n is not rounded twice */
    MlirValue each = tsr_emit_mul(of->builder, g, tsr_emit_number(of->builder, g, 1.0 / count));
    each = tsr_emit_cast(of->builder, each, tsr_type_of(of->of_result).dtype);
    of->of_operands[0] = expand(of, &r, each);
    return true;
}

bool tsr_lower_mean(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    int64_t axes[TSR_RANK_MAX];
    size_t count;
    bool has_axes = tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count);
    TSR_ASSERT(has_axes);
    MlirValue x = tsr_emit_wide(&b, tsr_op_operand(op, 0));
    MlirValue mean = tsr_emit_mean(&b, x, count, axes);
    /* No sum of f16 is too large for f32. */
    const tsr_repair repair = {.of = "average", .axis_count = count, .axes = axes};
    if (tsr_type_of(tsr_op_operand(op, 0)).dtype != TSR_DTYPE_F16)
        mean = tsr_emit_repair(&b, &repair, x, mean, (MlirValue){NULL});
    mean = tsr_emit_cast(&b, mean, tsr_type_of(tsr_op_result(op, 0)).dtype);
    tsr_emit_replace(op, 1, &mean);
    return true;
}

bool tsr_reduction_is_legal(MlirOperation op) {
    tsr_shape from = tsr_type_of(tsr_op_operand(op, 0)).shape;
    int64_t axes[TSR_RANK_MAX];
    size_t count;
    bool has_axes = tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count);
    TSR_ASSERT(has_axes);
    for (size_t i = 0; i < count; i++)
        if (from.dims[axes[i]] != 1) return true;
    return false;
}

/* The element itself is the sum, product, maximum or minimum; but a sum begins at 0, so that it is
 * not -0. */
bool tsr_lower_reduction(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type to = tsr_type_of(tsr_op_result(op, 0));
    MlirValue x = tsr_emit_reshape(&b, tsr_op_operand(op, 0), &to.shape);
    if (tsr_op_is(op, TSR_GRAPH_SUM) && tsr_dtype_is_float(to.dtype))
        x = tsr_emit_add(&b, x, tsr_emit_number(&b, x, 0.0));
    tsr_emit_replace(op, 1, &x);
    return true;
}

/* Elements that tie for the maximum or minimum share its gradient equally. */
bool tsr_gradient_reduce_extremum(tsr_gradient *of) {
    reduction r = reduction_of(of);
    tsr_dtype dtype = tsr_type_of(of->of_result).dtype;
    if (!of->wanted[0]) return true;
    MlirValue largest = expand(of, &r, tsr_op_result(of->op, 0));
    MlirValue is = tsr_emit_compare(of->builder, TSR_PREDICATE_EQ, input(of), largest);
    MlirValue ties = tsr_emit_reduce(of->builder, TSR_GRAPH_NAME("sum"),
                                     tsr_emit_cast(of->builder, is, dtype), r.axis_count, r.axes);
    MlirValue each = tsr_emit_binary(of->builder, TSR_GRAPH_NAME("div"), of->of_result, ties);
    MlirValue zero = tsr_emit_constant(of->builder, dtype, 0.0);
    of->of_operands[0] = tsr_emit_where(of->builder, is, expand(of, &r, each), zero);
    return true;
}

/* The product of the other elements. Without a zero that is y / x. With one zero, only the zero
 * gets a gradient, which is the product of all other elements; with more it is 0. */
bool tsr_gradient_reduce_prod(tsr_gradient *of) {
    reduction r = reduction_of(of);
    tsr_builder *b = of->builder;
    MlirValue x = input(of), g = of->of_result;
    tsr_dtype dtype = tsr_type_of(g).dtype;
    if (!of->wanted[0]) return true;
    MlirValue zero = tsr_emit_constant(b, dtype, 0.0), one = tsr_emit_constant(b, dtype, 1.0);
    MlirValue is_zero = tsr_emit_compare(b, TSR_PREDICATE_EQ, x, zero);
    MlirValue others = tsr_emit_where(b, is_zero, one, x);
    MlirValue product =
        tsr_emit_reduce(b, TSR_GRAPH_NAME("reduce_prod"), others, r.axis_count, r.axes);
    MlirValue zeros = tsr_emit_reduce(b, TSR_GRAPH_NAME("sum"), tsr_emit_cast(b, is_zero, dtype),
                                      r.axis_count, r.axes);
    product = tsr_emit_binary(b, TSR_GRAPH_NAME("mul"), g, product);
    MlirValue none = tsr_emit_compare(b, TSR_PREDICATE_EQ, zeros, zero);
    MlirValue single = tsr_emit_compare(b, TSR_PREDICATE_EQ, zeros, one);
    MlirValue to_zero = expand(of, &r, tsr_emit_where(b, single, product, zero));
    MlirValue to_rest = expand(of, &r, tsr_emit_where(b, none, product, zero));
    to_rest = tsr_emit_binary(b, TSR_GRAPH_NAME("div"), to_rest, others);
    of->of_operands[0] = tsr_emit_where(b, is_zero, to_zero, to_rest);
    return true;
}

bool tsr_check_argmax(tsr_rule *rule) {
    int64_t axis;
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_NUMBER)) return false;
    if (!tsr_op_i64(rule->op, "axis", &axis))
        return tsr_rule_fail(rule, TSR_DIAG_AXIS_MISSING, "has no axis");
    if (!check_axis(rule, "axis", axis)) return false;
    if (rule->operands[0].shape.dims[axis] == 0)
        return tsr_rule_fail(rule, TSR_DIAG_EMPTY,
                             "dim %" PRId64 " is 0, so there is no largest element", axis);
    rule->results[0].dtype = TSR_DTYPE_I64;
    rule->results[0].shape = tsr_shape_remove(&rule->operands[0].shape, 1, &axis);
    return true;
}

/* ---- changes of shape ------------------------------------------------------------------------ */

/* The dims whose product is the number of elements: the first few. */
static size_t name_dims(const tsr_rule *rule, tsr_rule_dim dims[static TSR_RULE_DIMS_MAX]) {
    size_t count = 0;
    for (uint32_t i = 0; i < rule->operands[0].shape.rank && count < TSR_RULE_DIMS_MAX; i++)
        if (rule->operands[0].shape.dims[i] != 1) dims[count++] = (tsr_rule_dim){"operand", 0, i};
    return count;
}

/* If several dims are open, all except the last are taken from the operand, as long as the dims
 * before them match it. */
static void copy_leading(const tsr_shape *from, tsr_shape *to) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < to->rank; i++) open += to->dims[i] == TSR_DIM_DYNAMIC;
    for (uint32_t i = 0; i < to->rank && i < from->rank && open > 1; i++) {
        if (to->dims[i] != TSR_DIM_DYNAMIC && to->dims[i] != from->dims[i]) return;
        open -= to->dims[i] == TSR_DIM_DYNAMIC;
        to->dims[i] = from->dims[i];
    }
}

/* The one dim a reshape leaves open follows from the number of elements. */
static bool complete_shape(tsr_rule *rule, uint64_t count) {
    tsr_shape *to = &rule->results[0].shape;
    uint64_t known = 1;
    uint32_t open = TSR_RANK_MAX, open_count = 0;
    char from_text[TSR_TYPE_TEXT_MAX], to_text[TSR_TYPE_TEXT_MAX];
    tsr_rule_dim dims[TSR_RULE_DIMS_MAX];
    copy_leading(&rule->operands[0].shape, to);
    for (uint32_t i = 0; i < to->rank; i++) {
        if (to->dims[i] != TSR_DIM_DYNAMIC) {
            if (__builtin_mul_overflow(known, to->dims[i], &known)) known = 0;
            continue;
        }
        open = i;
        open_count++;
    }
    if (open_count != 1 || (known == 0 && count == 0)) return true;
    if (known == 0 || count % known != 0)
        return tsr_rule_fail_dims(rule, TSR_DIAG_COUNT, name_dims(rule, dims), dims,
                                  "the operand has %" PRIu64 " elements (%s), which %s cannot hold",
                                  count, tsr_type_text(&rule->operands[0], from_text),
                                  tsr_type_text(&rule->declared[0], to_text));
    to->dims[open] = count / known;
    return true;
}

static bool has_open(const tsr_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++)
        if (tsr_dim_is_open(type->shape.dims[i])) return true;
    return false;
}

/* The product of the dims that are not dynamic. */
static bool multiply_dims(const tsr_shape *shape, uint64_t *out_product) {
    *out_product = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->dims[i] != TSR_DIM_DYNAMIC &&
            !tsr_dim_multiply(*out_product, shape->dims[i], out_product))
            return false;
    return true;
}

/* The numbers of elements are expressions: they must be equal, or give the one dim that is left. */
static bool reshape_open(tsr_rule *rule) {
    tsr_shape *to = &rule->results[0].shape;
    uint64_t from_count = 0, to_count = 0;
    uint32_t dynamic = 0, at = 0;
    char from_text[TSR_TYPE_TEXT_MAX], to_text[TSR_TYPE_TEXT_MAX];
    tsr_rule_dim dims[TSR_RULE_DIMS_MAX];
    copy_leading(&rule->operands[0].shape, to);
    for (uint32_t i = 0; i < to->rank; i++) {
        if (to->dims[i] != TSR_DIM_DYNAMIC) continue;
        dynamic++;
        at = i;
    }
    bool fits =
        multiply_dims(&rule->operands[0].shape, &from_count) && multiply_dims(to, &to_count);
    if (fits && (dynamic > 1 || (dynamic == 0 && from_count == to_count))) return true;
    if (fits && dynamic == 1 && tsr_dim_divide(from_count, to_count, &to->dims[at])) return true;
    return tsr_rule_fail_dims(rule, TSR_DIAG_COUNT, name_dims(rule, dims), dims,
                              "the elements of the operand (%s) are not known to fill %s",
                              tsr_type_text(&rule->operands[0], from_text),
                              tsr_type_text(&rule->declared[0], to_text));
}

bool tsr_check_reshape(tsr_rule *rule) {
    const tsr_type *from = &rule->operands[0], *to = &rule->declared[0];
    uint64_t from_count, to_count;
    char from_text[TSR_TYPE_TEXT_MAX], to_text[TSR_TYPE_TEXT_MAX];
    tsr_rule_dim dims[TSR_RULE_DIMS_MAX];
    rule->results[0].dtype = from->dtype;
    if (!tsr_type_is_inferred(from)) return true;
    if (!tsr_type_is_static(from) || has_open(to)) return reshape_open(rule);
    bool from_fits = tsr_shape_count(&from->shape, &from_count);
    TSR_ASSERT(from_fits);
    if (!tsr_type_is_static(to)) return complete_shape(rule, from_count);
    bool to_fits = tsr_shape_count(&to->shape, &to_count);
    TSR_ASSERT(to_fits);
    if (from_count == to_count) return true;
    return tsr_rule_fail_dims(
        rule, TSR_DIAG_COUNT, name_dims(rule, dims), dims,
        "the operand has %" PRIu64 " elements (%s), the result %" PRIu64 " (%s)", from_count,
        tsr_type_text(from, from_text), to_count, tsr_type_text(to, to_text));
}

bool tsr_gradient_reshape(tsr_gradient *of) {
    tsr_shape shape = tsr_type_of(input(of)).shape;
    if (of->wanted[0]) of->of_operands[0] = tsr_emit_reshape(of->builder, of->of_result, &shape);
    return true;
}

bool tsr_check_transpose(tsr_rule *rule) {
    const tsr_shape *from = &rule->operands[0].shape;
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    unsigned seen = 0;
    if (!tsr_op_i64s(rule->op, "permutation", TSR_RANK_MAX, permutation, &count) ||
        count != from->rank)
        return tsr_rule_fail(rule, TSR_DIAG_PERMUTATION,
                             "permutation has %zu entries, the operand %" PRIu32 " dims", count,
                             from->rank);
    rule->results[0] = rule->operands[0];
    for (uint32_t i = 0; i < from->rank; i++) {
        if (!check_axis(rule, "permutation entry", permutation[i])) return false;
        if (seen >> permutation[i] & 1)
            return tsr_rule_fail(rule, TSR_DIAG_PERMUTATION, "permutation has %" PRId64 " twice",
                                 permutation[i]);
        seen |= 1u << permutation[i];
        rule->results[0].shape.dims[i] = from->dims[permutation[i]];
    }
    return true;
}

bool tsr_gradient_transpose(tsr_gradient *of) {
    int64_t permutation[TSR_RANK_MAX], inverse[TSR_RANK_MAX] = {0};
    size_t count;
    tsr_type type = tsr_type_of(input(of));
    if (!of->wanted[0]) return true;
    bool has_permutation = tsr_op_i64s(of->op, "permutation", TSR_RANK_MAX, permutation, &count);
    TSR_ASSERT(has_permutation);
    for (size_t i = 0; i < count; i++) inverse[permutation[i]] = (int64_t)i;
    tsr_attr attrs[] = {{"permutation", tsr_attr_make_i64s(of->builder->context, count, inverse)},
                        {0}};
    of->of_operands[0] = tsr_build_value(of->builder, TSR_GRAPH_NAME("transpose"), &of->of_result,
                                         1, tsr_type_make(of->builder->context, &type), attrs);
    return true;
}

bool tsr_check_broadcast(tsr_rule *rule) {
    const tsr_type *from = &rule->operands[0], *to = &rule->declared[0];
    tsr_shape wide = to->shape;
    uint32_t from_dim = 0, to_dim = 0;
    char from_text[TSR_TYPE_TEXT_MAX], to_text[TSR_TYPE_TEXT_MAX];
    char is_dim[TSR_DIM_TEXT_MAX], to_dim_text[TSR_DIM_TEXT_MAX];
    rule->results[0].dtype = from->dtype;
    if (from->shape.rank > to->shape.rank)
        return tsr_rule_fail(rule, TSR_DIAG_RANK,
                             "the operand has %" PRIu32 " dims (%s), the result only %" PRIu32
                             " (%s)",
                             from->shape.rank, tsr_type_text(from, from_text), to->shape.rank,
                             tsr_type_text(to, to_text));
    for (uint32_t i = 0; i < from->shape.rank; i++) {
        to_dim = to->shape.rank - from->shape.rank + i;
        from_dim = i;
        if (from->shape.dims[i] != 1 && !tsr_dim_fits(from->shape.dims[i], wide.dims[to_dim]))
            return tsr_rule_fail_dims(
                rule, TSR_DIAG_STRETCH, 1, &(const tsr_rule_dim){"the operand's", 0, i},
                "dim %" PRIu32 " of the operand is %s (%s), dim %" PRIu32
                " of the result is %s (%s); only a dim of 1 broadcasts",
                from_dim, tsr_dim_text(from->shape.dims[i], is_dim), tsr_type_text(from, from_text),
                to_dim, tsr_dim_text(wide.dims[to_dim], to_dim_text), tsr_type_text(to, to_text));
    }
    return true;
}

bool tsr_gradient_broadcast(tsr_gradient *of) {
    tsr_shape shape = tsr_type_of(input(of)).shape;
    if (of->wanted[0]) of->of_operands[0] = tsr_emit_sum_to(of->builder, of->of_result, &shape);
    return true;
}
