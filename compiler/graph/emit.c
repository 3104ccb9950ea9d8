/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/graph/emit.h"

#include "compiler/graph/rule.h"

#include <string.h>

tsr_type tsr_type_of(MlirValue value) {
    tsr_type type;
    TSR_ASSERT(tsr_value_type(value, &type));
    return type;
}

static MlirValue emit(tsr_builder *builder, const char *name, size_t operand_count,
                      const MlirValue *operands, const tsr_type *result, const tsr_attr *attrs) {
    return tsr_build_value(builder, name, operands, operand_count,
                           tsr_type_make(builder->context, result), attrs);
}

MlirValue tsr_emit_constant(tsr_builder *builder, tsr_dtype dtype, double value) {
    tsr_type type = tsr_type_scalar(dtype);
    tsr_attr attrs[] = {{"value", tsr_attr_make_splat(builder->context, &type, value)}, {0}};
    return emit(builder, TSR_GRAPH_NAME("constant"), 0, NULL, &type, attrs);
}

MlirValue tsr_emit_unary(tsr_builder *builder, const char *name, MlirValue x) {
    tsr_type type = tsr_type_of(x);
    return emit(builder, name, 1, &x, &type, NULL);
}

static tsr_shape broadcast(MlirValue a, MlirValue b) {
    tsr_shape shape = tsr_type_of(a).shape, other = tsr_type_of(b).shape;
    uint32_t from_dim, dim;
    TSR_ASSERT(tsr_shape_broadcast(&other, &shape, &from_dim, &dim));
    return shape;
}

MlirValue tsr_emit_binary(tsr_builder *builder, const char *name, MlirValue a, MlirValue b) {
    tsr_type type = {.dtype = tsr_type_of(a).dtype, .shape = broadcast(a, b)};
    return emit(builder, name, 2, (MlirValue[]){a, b}, &type, NULL);
}

MlirValue tsr_emit_compare(tsr_builder *builder, tsr_predicate predicate, MlirValue a,
                           MlirValue b) {
    tsr_type type = {.dtype = TSR_DTYPE_I1, .shape = broadcast(a, b)};
    tsr_attr attrs[] = {{"predicate", tsr_attr_make_i32(builder->context, (int32_t)predicate)},
                        {0}};
    return emit(builder, TSR_GRAPH_NAME("compare"), 2, (MlirValue[]){a, b}, &type, attrs);
}

MlirValue tsr_emit_where(tsr_builder *builder, MlirValue condition, MlirValue a, MlirValue b) {
    tsr_type type = {.dtype = tsr_type_of(a).dtype, .shape = broadcast(a, b)};
    tsr_shape other = tsr_type_of(condition).shape;
    uint32_t from_dim, dim;
    TSR_ASSERT(tsr_shape_broadcast(&other, &type.shape, &from_dim, &dim));
    return emit(builder, TSR_GRAPH_NAME("where"), 3, (MlirValue[]){condition, a, b}, &type, NULL);
}

MlirValue tsr_emit_cast(tsr_builder *builder, MlirValue x, tsr_dtype dtype) {
    tsr_type type = tsr_type_of(x);
    if (type.dtype == dtype) return x;
    type.dtype = dtype;
    return emit(builder, TSR_GRAPH_NAME("cast"), 1, &x, &type, NULL);
}

MlirValue tsr_emit_matmul(tsr_builder *builder, MlirValue a, MlirValue b, bool transpose_a,
                          bool transpose_b) {
    tsr_type type = tsr_type_of(a), other = tsr_type_of(b);
    tsr_attr attrs[3] = {0};
    size_t count = 0;
    type.shape.dims[0] = type.shape.dims[transpose_a ? 1 : 0];
    type.shape.dims[1] = other.shape.dims[transpose_b ? 0 : 1];
    if (transpose_a)
        attrs[count++] = (tsr_attr){"transpose_a", tsr_attr_make_bool(builder->context, true)};
    if (transpose_b)
        attrs[count++] = (tsr_attr){"transpose_b", tsr_attr_make_bool(builder->context, true)};
    return emit(builder, TSR_GRAPH_NAME("matmul"), 2, (MlirValue[]){a, b}, &type, attrs);
}

static bool has_axis(size_t count, const int64_t *axes, uint32_t axis) {
    for (size_t i = 0; i < count; i++)
        if (axes[i] == (int64_t)axis) return true;
    return false;
}

MlirValue tsr_emit_reduce(tsr_builder *builder, const char *name, MlirValue x, size_t axis_count,
                          const int64_t *axes) {
    tsr_type from = tsr_type_of(x), type = {.dtype = from.dtype};
    tsr_attr attrs[] = {{"axes", tsr_attr_make_i64s(builder->context, axis_count, axes)}, {0}};
    for (uint32_t i = 0; i < from.shape.rank; i++)
        if (!has_axis(axis_count, axes, i)) type.shape.dims[type.shape.rank++] = from.shape.dims[i];
    return emit(builder, name, 1, &x, &type, attrs);
}

MlirValue tsr_emit_reshape(tsr_builder *builder, MlirValue x, const tsr_shape *shape) {
    tsr_type type = tsr_type_of(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return emit(builder, TSR_GRAPH_NAME("reshape"), 1, &x, &type, NULL);
}

MlirValue tsr_emit_broadcast(tsr_builder *builder, MlirValue x, const tsr_shape *shape) {
    tsr_type type = tsr_type_of(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return emit(builder, TSR_GRAPH_NAME("broadcast"), 1, &x, &type, NULL);
}

MlirValue tsr_emit_sum_to(tsr_builder *builder, MlirValue x, const tsr_shape *shape) {
    tsr_shape from = tsr_type_of(x).shape;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    TSR_ASSERT(from.rank >= shape->rank);
    uint32_t added = from.rank - shape->rank;
    for (uint32_t i = 0; i < from.rank; i++)
        if (i < added || (shape->dims[i - added] == 1 && from.dims[i] != 1)) axes[count++] = i;
    if (count) x = tsr_emit_reduce(builder, TSR_GRAPH_NAME("sum"), x, count, axes);
    return tsr_emit_reshape(builder, x, shape);
}

MlirValue tsr_emit_expand(tsr_builder *builder, MlirValue x, const tsr_shape *full,
                          size_t axis_count, const int64_t *axes) {
    tsr_shape kept = *full;
    bool leading = true; /* broadcasting aligns the last dims: no reshape needed */
    for (size_t i = 0; i < axis_count; i++) {
        leading = leading && axes[i] == (int64_t)i;
        kept.dims[axes[i]] = 1;
    }
    if (leading) return tsr_emit_broadcast(builder, x, full);
    return tsr_emit_broadcast(builder, tsr_emit_reshape(builder, x, &kept), full);
}
