/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/graph/emit.h"

#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"

#include <stdio.h>
#include <string.h>

tsr_type tsr_type_of(MlirValue value) {
    tsr_type type;
    bool has_type = tsr_value_type(value, &type);
    TSR_ASSERT(has_type);
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
    bool fits = tsr_shape_broadcast(&other, &shape, &from_dim, &dim);
    TSR_ASSERT(fits);
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
    bool fits = tsr_shape_broadcast(&other, &type.shape, &from_dim, &dim);
    TSR_ASSERT(fits);
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
    uint64_t rows = type.shape.dims[type.shape.rank - (transpose_a ? 1 : 2)];
    uint64_t columns = other.shape.dims[other.shape.rank - (transpose_b ? 2 : 1)];
    uint32_t from_dim, dim;
    type.shape.rank -= 2;
    other.shape.rank -= 2;
    bool fits = tsr_shape_broadcast(&other.shape, &type.shape, &from_dim, &dim);
    TSR_ASSERT(fits);
    type.shape.dims[type.shape.rank++] = rows;
    type.shape.dims[type.shape.rank++] = columns;
    if (!tsr_dtype_is_float(type.dtype)) type.dtype = TSR_DTYPE_I32;
    if (transpose_a)
        attrs[count++] = (tsr_attr){"transpose_a", tsr_attr_make_bool(builder->context, true)};
    if (transpose_b)
        attrs[count++] = (tsr_attr){"transpose_b", tsr_attr_make_bool(builder->context, true)};
    return emit(builder, TSR_GRAPH_NAME("matmul"), 2, (MlirValue[]){a, b}, &type, attrs);
}

MlirValue tsr_emit_reduce(tsr_builder *builder, const char *name, MlirValue x, size_t axis_count,
                          const int64_t *axes) {
    tsr_type type = tsr_type_of(x);
    tsr_attr attrs[] = {{"axes", tsr_attr_make_i64s(builder->context, axis_count, axes)}, {0}};
    type.shape = tsr_shape_remove(&type.shape, axis_count, axes);
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
    tsr_shape reduced = *full;
    bool leading = true; /* broadcasting aligns the last dims: no reshape needed */
    for (size_t i = 0; i < axis_count; i++) {
        leading = leading && axes[i] == (int64_t)i;
        reduced.dims[axes[i]] = 1;
    }
    if (leading) return tsr_emit_broadcast(builder, x, full);
    return tsr_emit_broadcast(builder, tsr_emit_reshape(builder, x, &reduced), full);
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

MlirValue tsr_emit_add(tsr_builder *builder, MlirValue a, MlirValue b) {
    return tsr_emit_binary(builder, TSR_GRAPH_NAME("add"), a, b);
}

MlirValue tsr_emit_sub(tsr_builder *builder, MlirValue a, MlirValue b) {
    return tsr_emit_binary(builder, TSR_GRAPH_NAME("sub"), a, b);
}

MlirValue tsr_emit_mul(tsr_builder *builder, MlirValue a, MlirValue b) {
    return tsr_emit_binary(builder, TSR_GRAPH_NAME("mul"), a, b);
}

MlirValue tsr_emit_div(tsr_builder *builder, MlirValue a, MlirValue b) {
    return tsr_emit_binary(builder, TSR_GRAPH_NAME("div"), a, b);
}

MlirValue tsr_emit_number(tsr_builder *builder, MlirValue x, double value) {
    return tsr_emit_constant(builder, tsr_type_of(x).dtype, value);
}

MlirValue tsr_emit_wide(tsr_builder *builder, MlirValue x) {
    tsr_dtype dtype = tsr_type_of(x).dtype;
    bool narrow = dtype == TSR_DTYPE_BF16 || dtype == TSR_DTYPE_F16;
    return narrow ? tsr_emit_cast(builder, x, TSR_DTYPE_F32) : x;
}

MlirValue tsr_emit_mean(tsr_builder *builder, MlirValue x, size_t axis_count, const int64_t *axes) {
    tsr_shape shape = tsr_type_of(x).shape;
    double elements = 1;
    for (size_t i = 0; i < axis_count; i++) elements *= (double)shape.dims[axes[i]];
    MlirValue sum = tsr_emit_reduce(builder, TSR_GRAPH_NAME("sum"), x, axis_count, axes);
    return tsr_emit_mul(builder, sum, tsr_emit_number(builder, x, 1.0 / elements));
}

MlirValue tsr_emit_repair(tsr_builder *builder, const tsr_repair *repair, MlirValue x,
                          MlirValue plain, MlirValue centre) {
    MlirValue operands[] = {x, plain, centre};
    size_t operand_count = mlirValueIsNull(centre) ? 2 : 3;
    tsr_type type = tsr_type_of(plain);
    if (repair->axis_count == 0) /* rows of one element: no sum can overflow */
        return operand_count == 2 ? plain : tsr_emit_filled(builder, &type, -0.0);
    return tsr_emit_repair_of(builder, repair, operands, operand_count);
}

MlirValue tsr_emit_repair_of(tsr_builder *builder, const tsr_repair *repair,
                             const MlirValue *operands, size_t operand_count) {
    MlirContext context = builder->context;
    tsr_attr attrs[] = {
        {"axes", tsr_attr_make_i64s(context, repair->axis_count, repair->axes)},
        {"of", tsr_attr_make_string(context, repair->of)},
        {"eps", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), repair->eps)},
        {0}};
    return tsr_build_value(builder, TSR_GRAPH_NAME("repair"), operands, operand_count,
                           mlirValueGetType(operands[operand_count - 1]), attrs);
}

/* ---- moving elements ------------------------------------------------------------------------- */

MlirValue tsr_emit_filled(tsr_builder *builder, const tsr_type *type, double value) {
    tsr_attr attrs[] = {{"value", tsr_attr_make_splat(builder->context, type, value)}, {0}};
    return emit(builder, TSR_GRAPH_NAME("constant"), 0, NULL, type, attrs);
}

static bool all_are(size_t count, const int64_t *values, int64_t value) {
    for (size_t i = 0; i < count; i++)
        if (values[i] != value) return false;
    return true;
}

MlirValue tsr_emit_slice(tsr_builder *builder, MlirValue x, const int64_t *start,
                         const int64_t *size, const int64_t *stride) {
    tsr_type type = tsr_type_of(x);
    MlirContext context = builder->context;
    uint32_t rank = type.shape.rank;
    tsr_attr attrs[4] = {{"start", tsr_attr_make_i64s(context, rank, start)},
                         {"size", tsr_attr_make_i64s(context, rank, size)}};
    bool whole = all_are(rank, start, 0);
    if (stride && !all_are(rank, stride, 1))
        attrs[2] = (tsr_attr){"stride", tsr_attr_make_i64s(context, rank, stride)};
    for (uint32_t i = 0; i < rank; i++) {
        whole = whole && type.shape.dims[i] == (uint64_t)size[i];
        type.shape.dims[i] = (uint64_t)size[i];
    }
    return whole ? x : emit(builder, TSR_GRAPH_NAME("slice"), 1, &x, &type, attrs);
}

MlirValue tsr_emit_pad(tsr_builder *builder, MlirValue x, const int64_t *low, const int64_t *high,
                       const int64_t *interior, double value) {
    tsr_type type = tsr_type_of(x);
    MlirContext context = builder->context;
    uint32_t rank = type.shape.rank, count = 2;
    tsr_attr attrs[5] = {{"low", tsr_attr_make_i64s(context, rank, low)},
                         {"high", tsr_attr_make_i64s(context, rank, high)}};
    bool dilated = interior && !all_are(rank, interior, 0);
    if (!dilated && all_are(rank, low, 0) && all_are(rank, high, 0)) return x;
    if (dilated)
        attrs[count++] = (tsr_attr){"interior", tsr_attr_make_i64s(context, rank, interior)};
    attrs[count] =
        (tsr_attr){"value", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), value)};
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t dim = type.shape.dims[i];
        if (dim && dilated) dim += (dim - 1) * (uint64_t)interior[i];
        type.shape.dims[i] = dim + (uint64_t)low[i] + (uint64_t)high[i];
    }
    return emit(builder, TSR_GRAPH_NAME("pad"), 1, &x, &type, attrs);
}

static MlirValue concat(tsr_builder *builder, size_t count, const MlirValue *parts, uint32_t axis) {
    tsr_type type = tsr_type_of(parts[0]);
    tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(builder->context, axis)}, {0}};
    for (size_t i = 1; i < count; i++)
        type.shape.dims[axis] += tsr_type_of(parts[i]).shape.dims[axis];
    return count == 1 ? parts[0]
                      : emit(builder, TSR_GRAPH_NAME("concat"), count, parts, &type, attrs);
}

/* Concatenates many parts in levels: runs of 16 are combined, then the results. */
MlirValue tsr_emit_concat(tsr_builder *builder, size_t count, const MlirValue *parts,
                          uint32_t axis) {
    tsr_arena arena = {0};
    MlirValue *level = tsr_arena_memdup(&arena, parts, count * sizeof *parts);
    TSR_ASSERT(count > 0);
    TSR_NEED(level);
    while (count > 1) {
        size_t runs = 0;
        for (size_t i = 0; i < count; i += TSR_CONCAT_PARTS_MAX) {
            size_t run = count - i < TSR_CONCAT_PARTS_MAX ? count - i : TSR_CONCAT_PARTS_MAX;
            level[runs++] = concat(builder, run, level + i, axis);
        }
        count = runs;
    }
    MlirValue whole = level[0];
    tsr_arena_finish(&arena);
    return whole;
}

MlirValue tsr_emit_transpose(tsr_builder *builder, MlirValue x, const int64_t *permutation) {
    tsr_type from = tsr_type_of(x), type = from;
    tsr_attr attrs[] = {
        {"permutation", tsr_attr_make_i64s(builder->context, from.shape.rank, permutation)}, {0}};
    for (uint32_t i = 0; i < from.shape.rank; i++)
        type.shape.dims[i] = from.shape.dims[permutation[i]];
    return emit(builder, TSR_GRAPH_NAME("transpose"), 1, &x, &type, attrs);
}

MlirValue tsr_emit_iota(tsr_builder *builder, const tsr_shape *shape, uint32_t axis,
                        tsr_dtype dtype) {
    tsr_type type = {.dtype = dtype, .shape = {.rank = shape->rank - axis}};
    tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(builder->context, 0)}, {0}};
    type.shape.dims[0] = shape->dims[axis];
    for (uint32_t i = 1; i < type.shape.rank; i++) type.shape.dims[i] = 1;
    return emit(builder, TSR_GRAPH_NAME("iota"), 0, NULL, &type, attrs);
}

MlirValue tsr_emit_flat_indices(tsr_builder *builder, MlirValue indices, uint32_t axis,
                                const tsr_shape *full) {
    tsr_shape shape = tsr_type_of(indices).shape;
    MlirValue sum = {NULL};
    uint64_t step = 1;
    for (uint32_t i = full->rank; i-- > 0; step *= full->dims[i]) {
        bool named = i == axis;
        if (!named && shape.dims[i] <= 1) continue;
        MlirValue position = named ? tsr_emit_cast(builder, indices, TSR_DTYPE_I64)
                                   : tsr_emit_iota(builder, &shape, i, TSR_DTYPE_I64);
        MlirValue factor = tsr_emit_constant(builder, TSR_DTYPE_I64, (double)step);
        position = tsr_emit_mul(builder, position, factor);
        sum = mlirValueIsNull(sum) ? position : tsr_emit_add(builder, sum, position);
    }
    return sum;
}

MlirValue tsr_emit_state(tsr_builder *builder, const tsr_type *type, const char *name,
                         const char *of, const char *kind) {
    MlirContext context = builder->context;
    char text[TSR_TYPE_TEXT_MAX + 64], type_text[TSR_TYPE_TEXT_MAX];
    snprintf(text, sizeof text, "#tessera.constant<0.0> : tensor<%s>",
             tsr_type_text(type, type_text));
    MlirAttribute init = mlirAttributeParseGet(context, tsr_ref(text));
    TSR_ASSERT(!mlirAttributeIsNull(init));
    tsr_attr attrs[] = {{"name", tsr_attr_make_string(context, name)},
                        {"of", tsr_attr_make_string(context, of)},
                        {"kind", tsr_attr_make_string(context, kind)},
                        {"init", init},
                        {0}};
    return emit(builder, TSR_GRAPH_NAME("opt.state"), 0, NULL, type, attrs);
}

void tsr_emit_replace(MlirOperation op, size_t count, const MlirValue *values) {
    TSR_ASSERT(count == tsr_op_result_count(op));
    for (size_t i = 0; i < count; i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i), values[i]);
    mlirOperationDestroy(op);
}
