/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that move elements: shape rules and gradients.
 */
#include "compiler/graph/rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static MlirValue operand(const tsr_gradient *of, size_t index) {
    return tsr_op_operand(of->op, index);
}

/* ---- slice and pad, which undo each other ---------------------------------------------------- */

/* False if the elements are outside of the dim for all sizes of the symbols; where some sizes fit,
 * the sizes are checked when they are bound. */
static bool slice_fits(uint64_t dim, uint64_t start, uint64_t size, int64_t stride) {
    const tsr_dim_affine span = {stride, 1 - stride, 1};
    uint64_t end;
    if (size == 0) return !tsr_dim_exceeds(start, dim);
    return tsr_dim_map(size, &span, &end) && tsr_dim_add(start, end, &end) &&
           !tsr_dim_exceeds(end, dim);
}

bool tsr_check_slice(tsr_rule *rule) {
    const tsr_shape *from = &rule->operands[0].shape;
    uint64_t start[TSR_RANK_MAX], size[TSR_RANK_MAX];
    int64_t stride[TSR_RANK_MAX];
    char texts[3][TSR_DIM_TEXT_MAX];
    if (!tsr_rule_dims(rule, "start", from->rank, start) ||
        !tsr_rule_dims(rule, "size", from->rank, size) ||
        !tsr_rule_i64s(rule, "stride", from->rank, 1, 1, stride))
        return false;
    rule->results[0] = rule->operands[0];
    for (uint32_t i = 0; i < from->rank; i++) {
        rule->results[0].shape.dims[i] = size[i];
        if (slice_fits(from->dims[i], start[i], size[i], stride[i])) continue;
        return tsr_rule_fail(rule, TSR_DIAG_SLICE,
                             "%s elements from %s by %" PRId64 " do not fit into dim %" PRIu32
                             " of %s",
                             tsr_dim_text(size[i], texts[0]), tsr_dim_text(start[i], texts[1]),
                             stride[i], i, tsr_dim_text(from->dims[i], texts[2]));
    }
    return true;
}

/* The gradient with zeros where no element was taken. */
bool tsr_gradient_slice(tsr_gradient *of) {
    tsr_shape from = tsr_type_of(operand(of, 0)).shape, to = tsr_type_of(of->of_result).shape;
    int64_t start[TSR_RANK_MAX], stride[TSR_RANK_MAX], high[TSR_RANK_MAX], inner[TSR_RANK_MAX];
    size_t count;
    if (!of->wanted[0]) return true;
    bool has_start = tsr_op_i64s(of->op, "start", TSR_RANK_MAX, start, &count);
    TSR_ASSERT(has_start);
    if (!tsr_op_i64s(of->op, "stride", TSR_RANK_MAX, stride, &count))
        for (uint32_t i = 0; i < from.rank; i++) stride[i] = 1;
    for (uint32_t i = 0; i < from.rank; i++) {
        int64_t extent = to.dims[i] ? ((int64_t)to.dims[i] - 1) * stride[i] + 1 : 0;
        inner[i] = stride[i] - 1;
        high[i] = (int64_t)from.dims[i] - start[i] - extent;
    }
    of->of_operands[0] = tsr_emit_pad(of->builder, of->of_result, start, high, inner, 0.0);
    return true;
}

bool tsr_rule_holds(const tsr_rule *rule, const char *name, double value) {
    tsr_dtype dtype = rule->operands[0].dtype;
    if (tsr_dtype_is_float(dtype) || tsr_dtype_holds(dtype, value)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_HOLDS, "%s is %g, which %s cannot hold", name, value,
                         tsr_dtype_name(dtype));
}

static bool check_fill(const tsr_rule *rule) {
    double value = 0;
    if (tsr_op_has(rule->op, "value") && !tsr_op_f64(rule->op, "value", &value))
        return tsr_rule_fail(rule, TSR_DIAG_NUMBER, "value is not a number");
    return tsr_rule_holds(rule, "value", value);
}

bool tsr_check_pad(tsr_rule *rule) {
    const tsr_shape *from = &rule->operands[0].shape;
    int64_t low[TSR_RANK_MAX], high[TSR_RANK_MAX], interior[TSR_RANK_MAX];
    if (!tsr_rule_i64s(rule, "low", from->rank, 0, -1, low) ||
        !tsr_rule_i64s(rule, "high", from->rank, 0, -1, high) ||
        !tsr_rule_i64s(rule, "interior", from->rank, 0, 0, interior) || !check_fill(rule))
        return false;
    rule->results[0] = rule->operands[0];
    for (uint32_t i = 0; i < from->rank; i++) {
        uint64_t dim = from->dims[i], between = 0, added = (uint64_t)low[i] + (uint64_t)high[i];
        if (dim == TSR_DIM_DYNAMIC) continue;
        if (tsr_dim_is_open(dim)) {
            const tsr_dim_affine map = {interior[i] + 1, (int64_t)added - interior[i], 1};
            if (tsr_dim_map(dim, &map, &rule->results[0].shape.dims[i])) continue;
            return tsr_rule_fail_open(rule, "the operand's", i, dim,
                                      "the padded size cannot be expressed");
        }
        bool fits = !dim || !__builtin_mul_overflow(dim - 1, (uint64_t)interior[i], &between);
        fits = fits && !__builtin_add_overflow(added, between, &added) &&
               !__builtin_add_overflow(dim, added, &dim) && dim <= INT64_MAX;
        if (!fits)
            return tsr_rule_fail(rule, TSR_DIAG_SIZE, "dim %" PRIu32 " grows beyond 2^63", i);
        rule->results[0].shape.dims[i] = dim;
    }
    return true;
}

bool tsr_gradient_pad(tsr_gradient *of) {
    tsr_shape from = tsr_type_of(operand(of, 0)).shape;
    int64_t low[TSR_RANK_MAX], size[TSR_RANK_MAX], stride[TSR_RANK_MAX];
    size_t count;
    if (!of->wanted[0]) return true;
    bool has_low = tsr_op_i64s(of->op, "low", TSR_RANK_MAX, low, &count);
    TSR_ASSERT(has_low);
    if (!tsr_op_i64s(of->op, "interior", TSR_RANK_MAX, stride, &count))
        for (uint32_t i = 0; i < from.rank; i++) stride[i] = 0;
    for (uint32_t i = 0; i < from.rank; i++) {
        size[i] = (int64_t)from.dims[i];
        stride[i]++;
    }
    of->of_operands[0] = tsr_emit_slice(of->builder, of->of_result, low, size, stride);
    return true;
}

/* ---- concat and split ------------------------------------------------------------------------ */

bool tsr_check_concat(tsr_rule *rule) {
    int64_t axis;
    char one[TSR_TYPE_TEXT_MAX], other[TSR_TYPE_TEXT_MAX];
    if (!tsr_rule_operand_count(rule, 1, TSR_RULE_OPERANDS_MAX) ||
        !tsr_rule_axis(rule, rule->operands[0].shape.rank, &axis))
        return false;
    tsr_type all = rule->operands[0];
    for (size_t i = 1; i < rule->operand_count; i++) {
        const tsr_type *next = &rule->operands[i];
        bool same = next->dtype == all.dtype && next->shape.rank == all.shape.rank;
        bool alike = same; /* same in type and rank */
        uint32_t d = 0;
        for (; same && d < all.shape.rank; d += same) {
            uint64_t *dim = &all.shape.dims[d], added = next->shape.dims[d];
            if (d != axis) {
                same = tsr_dim_fits(*dim, added);
                if (*dim == TSR_DIM_DYNAMIC) *dim = added;
            } else {
                same = tsr_dim_add(*dim, added, dim);
            }
        }
        if (same) continue;
        char name[32];
        snprintf(name, sizeof name, "operand %zu", i);
        const tsr_rule_dim dims[] = {{name, i, d}, {"operand 0", 0, d}};
        return tsr_rule_fail_dims(
            rule, TSR_DIAG_CONCAT, alike && d != axis ? 2 : 0, dims,
            "operand %zu is %s, operand 0 is %s; only dim %" PRId64 " may differ", i,
            tsr_type_text(next, one), tsr_type_text(rule->operands, other), axis);
    }
    rule->results[0] = all;
    return true;
}

/* Each operand's gradient is its part of the result's. */
bool tsr_gradient_concat(tsr_gradient *of) {
    int64_t axis, start[TSR_RANK_MAX] = {0}, size[TSR_RANK_MAX];
    bool has_axis = tsr_op_i64(of->op, "axis", &axis);
    TSR_ASSERT(has_axis);
    for (size_t i = 0; i < tsr_op_operand_count(of->op); i++) {
        tsr_shape shape = tsr_type_of(operand(of, i)).shape;
        for (uint32_t d = 0; d < shape.rank; d++) size[d] = (int64_t)shape.dims[d];
        if (of->wanted[i])
            of->of_operands[i] = tsr_emit_slice(of->builder, of->of_result, start, size, NULL);
        start[axis] += size[axis];
    }
    return true;
}

bool tsr_check_split(tsr_rule *rule) {
    int64_t axis;
    uint64_t sum = 0;
    bool known = true;
    char text[TSR_TYPE_TEXT_MAX], sum_text[TSR_DIM_TEXT_MAX];
    if (!tsr_rule_axis(rule, rule->operands[0].shape.rank, &axis)) return false;
    uint64_t whole = rule->operands[0].shape.dims[axis];
    for (size_t i = 0; i < rule->result_count; i++) {
        uint64_t part = rule->declared[i].shape.dims[axis];
        bool fits = rule->declared[i].shape.rank == rule->operands[0].shape.rank;
        rule->results[i] = rule->operands[0];
        if (!fits) return true; /* the result is refused */
        rule->results[i].shape.dims[axis] = part;
        known = known && tsr_dim_add(sum, part, &sum);
    }
    if (rule->result_count && (!known || tsr_dim_fits(sum, whole))) return true;
    return tsr_rule_fail(rule, TSR_DIAG_SPLIT,
                         "the parts have %s elements along axis %" PRId64 ", the operand is %s",
                         tsr_dim_text(sum, sum_text), axis,
                         tsr_type_text(&rule->operands[0], text));
}

/* The gradients of the parts side by side; zeros for those that have none. */
bool tsr_gradient_split(tsr_gradient *of) {
    size_t count = tsr_op_result_count(of->op);
    MlirValue parts[TSR_RULE_RESULTS_MAX];
    int64_t axis;
    if (!of->wanted[0]) return true;
    bool has_axis = tsr_op_i64(of->op, "axis", &axis);
    TSR_ASSERT(has_axis);
    for (size_t i = 0; i < count; i++) {
        tsr_type type = tsr_type_of(tsr_op_result(of->op, i));
        parts[i] = of->of_results[i];
        if (mlirValueIsNull(parts[i])) parts[i] = tsr_emit_filled(of->builder, &type, 0.0);
    }
    of->of_operands[0] = tsr_emit_concat(of->builder, count, parts, (uint32_t)axis);
    return true;
}

bool tsr_lower_concat(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    size_t count = tsr_op_operand_count(op);
    MlirValue parts[TSR_RULE_OPERANDS_MAX];
    int64_t axis = 0;
    for (size_t i = 0; i < count; i++) parts[i] = tsr_op_operand(op, i);
    bool read = tsr_op_i64(op, "axis", &axis);
    TSR_ASSERT(read);
    MlirValue whole = tsr_emit_concat(&b, count, parts, (uint32_t)axis);
    tsr_emit_replace(op, 1, &whole);
    return true;
}

bool tsr_lower_split(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue parts[TSR_RULE_RESULTS_MAX];
    int64_t axis = 0, start[TSR_RANK_MAX] = {0}, size[TSR_RANK_MAX];
    bool read = tsr_op_i64(op, "axis", &axis);
    TSR_ASSERT(read);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        tsr_shape shape = tsr_type_of(tsr_op_result(op, i)).shape;
        for (uint32_t d = 0; d < shape.rank; d++) size[d] = (int64_t)shape.dims[d];
        parts[i] = tsr_emit_slice(&b, tsr_op_operand(op, 0), start, size, NULL);
        start[axis] += size[axis];
    }
    tsr_emit_replace(op, tsr_op_result_count(op), parts);
    return true;
}

bool tsr_check_one_hot(tsr_rule *rule) {
    const tsr_shape *from = &rule->operands[0].shape;
    tsr_shape *to = &rule->results[0].shape;
    int64_t axis;
    if (!tsr_rule_dtype(rule, 0, "indices", TSR_DTYPES_INDEX) ||
        !tsr_rule_axis(rule, from->rank + 1, &axis))
        return false;
    if (from->rank == TSR_RANK_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_LIMIT, "the result has more than %d dims",
                             TSR_RANK_MAX);
    uint64_t classes = to->rank == from->rank + 1 ? to->dims[axis] : 1;
    *to = *from;
    for (uint32_t i = to->rank++; i > axis; i--) to->dims[i] = to->dims[i - 1];
    to->dims[axis] = classes;
    return true;
}

bool tsr_lower_one_hot(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    MlirValue indices = tsr_op_operand(op, 0);
    int64_t axis = 0;
    bool read = tsr_op_i64(op, "axis", &axis);
    TSR_ASSERT(read);
    tsr_shape with_axis = type.shape;
    with_axis.dims[axis] = 1;
    indices = tsr_emit_cast(&b, tsr_emit_reshape(&b, indices, &with_axis), TSR_DTYPE_I64);
    MlirValue positions = tsr_emit_iota(&b, &type.shape, (uint32_t)axis, TSR_DTYPE_I64);
    MlirValue here = tsr_emit_compare(&b, TSR_PREDICATE_EQ, indices, positions);
    MlirValue hot = tsr_emit_cast(&b, here, type.dtype);
    tsr_emit_replace(op, 1, &hot);
    return true;
}

/* ---- along an axis --------------------------------------------------------------------------- */

/* True if the type can represent 0 ... count - 1. */
static bool holds(tsr_dtype dtype, uint64_t count) {
    switch (dtype) {
    case TSR_DTYPE_F64:
        return count <= (UINT64_C(1) << 53) + 1;
    case TSR_DTYPE_F32:
        return count <= (UINT64_C(1) << 24) + 1;
    case TSR_DTYPE_BF16:
        return count <= (1 << 8) + 1;
    case TSR_DTYPE_F16:
        return count <= (1 << 11) + 1;
    default:
        return count == 0 || count - 1 <= tsr_dtype_highest(dtype);
    }
}

bool tsr_check_iota(tsr_rule *rule) {
    const tsr_type *type = &rule->declared[0];
    int64_t axis = 0;
    if (!(TSR_DTYPES_NUMBER >> type->dtype & 1))
        return tsr_rule_fail(rule, TSR_DIAG_RESULT_DTYPE,
                             "element type of the result is %s, must be a "
                             "number",
                             tsr_dtype_name(type->dtype));
    if (!tsr_rule_axis(rule, type->shape.rank, &axis)) return false;
    uint64_t count = type->shape.dims[axis];
    if (!tsr_dim_is_known(count) || holds(type->dtype, count)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_HOLDS,
                         "%" PRIu64 " positions along axis %" PRId64 " do not fit into %s", count,
                         axis, tsr_dtype_name(type->dtype));
}

/* ---- sizes of dims --------------------------------------------------------------------------- */

enum { SIZES_MAX = 4096 };

bool tsr_check_sizes(tsr_rule *rule) {
    MlirAttribute list = tsr_op_attr(rule->op, "values");
    bool is_list = !mlirAttributeIsNull(list) && mlirAttributeIsAArray(list);
    intptr_t count = is_list ? mlirArrayAttrGetNumElements(list) : 0;
    if (!is_list || count > SIZES_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_INTEGERS,
                             "values needs at most %d integers and expressions", SIZES_MAX);
    for (intptr_t i = 0; i < count; i++) {
        MlirAttribute entry = mlirArrayAttrGetElement(list, i);
        uint64_t dim;
        int64_t number;
        if (tsr_attr_i64(entry, &number) || tsr_dim_read(entry, &dim)) continue;
        const char *text = tsr_attr_string(entry);
        return tsr_rule_fail(rule, TSR_DIAG_DIM_EXPRESSION,
                             "values entry %zd is '%.100s', which is not an expression, or below 0 "
                             "for all sizes",
                             (ssize_t)i, text ? text : "");
    }
    rule->results[0] =
        (tsr_type){.dtype = TSR_DTYPE_I64, .shape = {.rank = 1, .dims = {(uint64_t)count}}};
    return true;
}

bool tsr_lower_sizes(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    int64_t values[SIZES_MAX];
    size_t count = 0;
    bool read = tsr_op_i64s(op, "values", SIZES_MAX, values, &count);
    TSR_ASSERT(read); /* tessera-bind-dims has given each symbol its size */
    const tsr_attr attrs[] = {{"value", tsr_attr_make_elements(b.context, &type, values)}, {0}};
    MlirValue constant = tsr_build_value(&b, TSR_GRAPH_NAME("constant"), NULL, 0,
                                         tsr_type_make(b.context, &type), attrs);
    tsr_emit_replace(op, 1, &constant);
    return true;
}

bool tsr_check_cumsum(tsr_rule *rule) {
    int64_t axis;
    rule->results[0] = rule->operands[0];
    return tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_SUMMABLE) &&
           tsr_rule_axis(rule, rule->operands[0].shape.rank, &axis);
}

/* Each element went into the sums from it on: the other way round. */
bool tsr_gradient_cumsum(tsr_gradient *of) {
    bool reverse = tsr_op_flag(of->op, "reverse");
    tsr_attr attrs[] = {
        {"axis", tsr_op_attr(of->op, "axis")},
        {"reverse", tsr_attr_make_bool(of->builder->context, !reverse)},
        {"exclusive", tsr_attr_make_bool(of->builder->context, tsr_op_flag(of->op, "exclusive"))},
        {0}};
    if (of->wanted[0])
        of->of_operands[0] = tsr_build_value(of->builder, TSR_GRAPH_NAME("cumsum"), &of->of_result,
                                             1, mlirValueGetType(of->of_result), attrs);
    return true;
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool check_sorting(tsr_rule *rule, int64_t *out_axis) {
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_NUMBER) ||
        !tsr_rule_axis(rule, rule->operands[0].shape.rank, out_axis))
        return false;
    rule->results[0] = rule->results[1] = rule->operands[0];
    rule->results[1].dtype = TSR_DTYPE_I64;
    return true;
}

bool tsr_check_sort(tsr_rule *rule) {
    int64_t axis;
    return check_sorting(rule, &axis);
}

bool tsr_check_top_k(tsr_rule *rule) {
    int64_t axis, k = -1;
    if (!check_sorting(rule, &axis)) return false;
    uint64_t dim = rule->operands[0].shape.dims[axis];
    char text[TSR_DIM_TEXT_MAX];
    if (!tsr_op_i64(rule->op, "k", &k) || k < 0 || tsr_dim_exceeds((uint64_t)k, dim))
        return tsr_rule_fail(rule, TSR_DIAG_TOP_K,
                             "k is %" PRId64 ", needs 0 to %s, the dim it picks from", k,
                             tsr_dim_text(dim, text));
    for (size_t i = 0; i < 2; i++) rule->results[i].shape.dims[axis] = (uint64_t)k;
    return true;
}

/* The gradient of the values goes back to their former positions. Along the axis that is a scatter
 * of the flattened operand, at index * stride + the position in the other dims. */
bool tsr_gradient_sort(tsr_gradient *of) {
    tsr_builder *b = of->builder;
    tsr_type type = tsr_type_of(operand(of, 0));
    int64_t axis;
    if (!of->wanted[0] || mlirValueIsNull(of->of_results[0])) return true;
    bool has_axis = tsr_op_i64(of->op, "axis", &axis);
    TSR_ASSERT(has_axis);
    MlirValue position =
        tsr_emit_flat_indices(b, tsr_op_result(of->op, 1), (uint32_t)axis, &type.shape);
    tsr_shape flat = {.rank = 1, .dims = {1}}, flat_updates = flat;
    for (uint32_t i = 0; i < type.shape.rank; i++) flat.dims[0] *= type.shape.dims[i];
    tsr_shape updates = tsr_type_of(of->of_result).shape;
    for (uint32_t i = 0; i < updates.rank; i++) flat_updates.dims[0] *= updates.dims[i];
    tsr_type whole = {.dtype = type.dtype, .shape = flat};
    MlirValue operands[] = {tsr_emit_filled(b, &whole, 0.0),
                            tsr_emit_reshape(b, position, &flat_updates),
                            tsr_emit_reshape(b, of->of_result, &flat_updates)};
    tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(b->context, 0)}, {0}};
    MlirValue sum = tsr_build_value(b, TSR_GRAPH_NAME("scatter_add"), operands, 3,
                                    mlirValueGetType(operands[0]), attrs);
    of->of_operands[0] = tsr_emit_reshape(b, sum, &type.shape);
    return true;
}

/* True for a number of elements that the kernel of top_k holds of each line. */
static bool is_few(MlirOperation op, int64_t *out_axis) {
    enum { K_MAX = 128 }; /* each inserted element is compared with all in the list */
    int64_t k = 0;
    bool known = tsr_op_i64(op, "axis", out_axis) && tsr_op_i64(op, "k", &k);
    TSR_ASSERT(known);
    return k <= K_MAX;
}

bool tsr_top_k_is_legal(MlirOperation op) {
    int64_t axis = 0;
    return is_few(op, &axis) && axis + 1 == (int64_t)tsr_type_of(tsr_op_operand(op, 0)).shape.rank;
}

/* An op that returns values in order, and their positions. */
static MlirOperation build_ordered(tsr_builder *b, const char *name, MlirValue operand,
                                   const MlirType types[2], const tsr_attr attrs[2]) {
    return tsr_build(b, &(tsr_op_desc){.name = name,
                                       .operand_count = 1,
                                       .operands = &operand,
                                       .result_count = 2,
                                       .results = types,
                                       .attr_count = 2,
                                       .attrs = attrs});
}

/* The kernel of top_k reads lines: the axis becomes the last dim, and that of the results goes
 * back. */
static void lower_by_lines(MlirOperation op, uint32_t axis) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type type = tsr_type_of(tsr_op_result(op, 0)), positions;
    int64_t permutation[TSR_RANK_MAX];
    uint32_t last = type.shape.rank - 1;
    for (uint32_t i = 0; i <= last; i++)
        permutation[i] = (int64_t)(i == axis ? last : i == last ? axis : i);
    MlirValue operand = tsr_emit_transpose(&b, tsr_op_operand(op, 0), permutation), values[2];
    uint64_t dim = type.shape.dims[axis];
    type.shape.dims[axis] = type.shape.dims[last];
    type.shape.dims[last] = dim;
    positions = type;
    positions.dtype = TSR_DTYPE_I64;
    MlirType types[] = {tsr_type_make(b.context, &type), tsr_type_make(b.context, &positions)};
    tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(b.context, last)}, {"k", tsr_op_attr(op, "k")}};
    MlirOperation lines = build_ordered(&b, TSR_GRAPH_NAME("top_k"), operand, types, attrs);
    for (size_t i = 0; i < 2; i++)
        values[i] = tsr_emit_transpose(&b, tsr_op_result(lines, i), permutation);
    tsr_emit_replace(op, 2, values);
}

/* The first k of the operand sorted downward, or the kernel of top_k along the last dim. */
bool tsr_lower_top_k(MlirOperation op) {
    int64_t axis = 0;
    if (is_few(op, &axis)) {
        lower_by_lines(op, (uint32_t)axis);
        return true;
    }
    tsr_builder b = tsr_builder_before(op);
    MlirValue operand = tsr_op_operand(op, 0), values[2];
    tsr_type positions = tsr_type_of(operand);
    tsr_shape shape = tsr_type_of(tsr_op_result(op, 0)).shape;
    int64_t start[TSR_RANK_MAX] = {0}, size[TSR_RANK_MAX];
    for (uint32_t d = 0; d < shape.rank; d++) size[d] = (int64_t)shape.dims[d];
    positions.dtype = TSR_DTYPE_I64;
    MlirType types[] = {mlirValueGetType(operand), tsr_type_make(b.context, &positions)};
    tsr_attr attrs[] = {{"axis", tsr_op_attr(op, "axis")},
                        {"descending", tsr_attr_make_bool(b.context, true)}};
    MlirOperation sort = build_ordered(&b, TSR_GRAPH_NAME("sort"), operand, types, attrs);
    for (size_t i = 0; i < 2; i++)
        values[i] = tsr_emit_slice(&b, tsr_op_result(sort, i), start, size, NULL);
    tsr_emit_replace(op, 2, values);
    return true;
}
