/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits ops of Graph IR for rules. The ops' own rules check them and say the types of their
 * results.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <string.h>

static const MlirValue null_value = {NULL};

/* ---- any op ---- */

static bool has_null(const tsr_onnx_call *c, size_t count, const MlirValue *values) {
    if (c->failed) return true;
    for (size_t i = 0; i < count; i++)
        if (mlirValueIsNull(values[i])) return true;
    return false;
}

/* Sets the results to the types that the op's rule says. */
static bool set_result_types(tsr_onnx_call *c, MlirOperation op, bool declared) {
    tsr_rule rule;
    bool fits = declared ? tsr_graph_verify_op(op) : tsr_graph_check(op, &rule);
    if (!fits) {
        c->failed = true; /* the rule has said why, at this node */
        mlirOperationDestroy(op);
        return false;
    }
    for (size_t i = 0; i < tsr_op_result_count(op) && !declared; i++)
        mlirValueSetType(tsr_op_result(op, i),
                         tsr_type_make(c->builder->context, &rule.results[i]));
    return true;
}

bool tsr_onnx_emit_many(tsr_onnx_call *c, const char *name, const MlirValue *operands,
                        size_t operand_count, const tsr_attr *attrs, size_t result_count,
                        const tsr_type *declared, MlirValue *out_results) {
    enum { RESULTS_MAX = TSR_RULE_RESULTS_MAX };
    MlirType types[RESULTS_MAX];
    size_t attr_count = 0;
    for (size_t i = 0; i < result_count; i++) out_results[i] = null_value;
    if (has_null(c, operand_count, operands)) return false;
    TSR_ASSERT(result_count <= RESULTS_MAX && operand_count <= TSR_RULE_OPERANDS_MAX);
    TSR_ASSERT(declared || operand_count);
    while (attrs && attrs[attr_count].name) attr_count++;
    for (size_t i = 0; i < result_count; i++)
        types[i] = declared ? tsr_type_make(c->builder->context, &declared[i])
                            : mlirValueGetType(operands[0]);
    MlirOperation op = tsr_build(c->builder, &(tsr_op_desc){.name = name,
                                                            .operands = operands,
                                                            .operand_count = operand_count,
                                                            .results = types,
                                                            .result_count = result_count,
                                                            .attrs = attrs,
                                                            .attr_count = attr_count});
    if (!set_result_types(c, op, declared != NULL)) return false;
    for (size_t i = 0; i < result_count; i++) out_results[i] = tsr_op_result(op, i);
    return true;
}

MlirValue tsr_onnx_emit(tsr_onnx_call *c, const char *name, const MlirValue *operands,
                        size_t operand_count, const tsr_attr *attrs, const tsr_type *declared) {
    MlirValue result;
    tsr_onnx_emit_many(c, name, operands, operand_count, attrs, 1, declared, &result);
    return result;
}

tsr_attr tsr_onnx_i64_attr(const tsr_onnx_call *c, const char *name, int64_t value) {
    return (tsr_attr){name, tsr_attr_make_i64(c->builder->context, value)};
}

tsr_attr tsr_onnx_i64s_attr(const tsr_onnx_call *c, const char *name, size_t count,
                            const int64_t *values) {
    return (tsr_attr){name, tsr_attr_make_i64s(c->builder->context, count, values)};
}

tsr_attr tsr_onnx_f64_attr(const tsr_onnx_call *c, const char *name, double value) {
    MlirContext context = c->builder->context;
    return (tsr_attr){name, mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), value)};
}

/* ---- constants ---- */

MlirValue tsr_onnx_constant(tsr_onnx_call *c, const tsr_type *type, const void *data) {
    if (c->failed) return null_value;
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(c->builder->context, type, data)}, {0}};
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, type);
}

MlirValue tsr_onnx_numbers(tsr_onnx_call *c, tsr_dtype dtype, const tsr_shape *shape,
                           const double *values) {
    uint64_t count = 0;
    if (c->failed || !tsr_shape_count(shape, &count)) return null_value;
    void *bytes = tsr_arena_alloc(c->arena, (size_t)count + 1, tsr_dtype_size(dtype), 16);
    TSR_NEED(bytes);
    for (uint64_t i = 0; i < count; i++) tsr_dtype_write(dtype, values[i], bytes, i);
    return tsr_onnx_constant(c, &(tsr_type){.dtype = dtype, .shape = *shape}, bytes);
}

MlirValue tsr_onnx_number(tsr_onnx_call *c, MlirValue like, double value) {
    if (has_null(c, 1, &like)) return null_value;
    return tsr_onnx_numbers(c, tsr_onnx_dtype(like), &(tsr_shape){.rank = 0}, &value);
}

MlirValue tsr_onnx_filled(tsr_onnx_call *c, tsr_dtype dtype, const tsr_shape *shape, double value) {
    if (c->failed) return null_value;
    tsr_type type = {.dtype = dtype, .shape = *shape};
    if (!tsr_type_is_static(&type)) {
        MlirValue one = tsr_onnx_filled(c, dtype, &(tsr_shape){.rank = 0}, value);
        return tsr_onnx_broadcast(c, one, shape);
    }
    tsr_attr attrs[] = {{"value", tsr_attr_make_splat(c->builder->context, &type, value)}, {0}};
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, &type);
}

MlirValue tsr_onnx_int_list(tsr_onnx_call *c, size_t count, const int64_t *values) {
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 1, .dims = {count}}};
    return tsr_onnx_constant(c, &type, values);
}

/* ---- elementwise ---- */

MlirValue tsr_onnx_cast(tsr_onnx_call *c, MlirValue x, tsr_dtype dtype) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_type type = tsr_onnx_type_of(x);
    if (type.dtype == dtype) return x;
    type.dtype = dtype;
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("cast"), &x, 1, NULL, &type);
}

MlirValue tsr_onnx_wide(tsr_onnx_call *c, MlirValue x) {
    tsr_dtype dtype = tsr_onnx_dtype(x);
    bool narrow = dtype == TSR_DTYPE_BF16 || dtype == TSR_DTYPE_F16;
    return narrow ? tsr_onnx_cast(c, x, TSR_DTYPE_F32) : x;
}

MlirValue tsr_onnx_compare(tsr_onnx_call *c, tsr_predicate predicate, MlirValue a, MlirValue b) {
    tsr_attr attrs[] = {{"predicate", tsr_attr_make_i32(c->builder->context, (int32_t)predicate)},
                        {0}};
    return EMIT_WITH(c, "compare", attrs, a, b);
}

MlirValue tsr_onnx_ceil(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "ceil", x); }

MlirValue tsr_onnx_truncate(tsr_onnx_call *c, MlirValue x) {
    return EMIT(c, "where", tsr_onnx_compare(c, TSR_PREDICATE_LT, x, ZERO(c, x)),
                tsr_onnx_ceil(c, x), EMIT(c, "floor", x));
}

MlirValue tsr_onnx_round(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "round", x); }

/* ---- moving elements ---- */

MlirValue tsr_onnx_reshape(tsr_onnx_call *c, MlirValue x, const tsr_shape *shape) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_type type = tsr_onnx_type_of(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("reshape"), &x, 1, NULL, &type);
}

MlirValue tsr_onnx_broadcast(tsr_onnx_call *c, MlirValue x, const tsr_shape *shape) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_type type = tsr_onnx_type_of(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("broadcast"), &x, 1, NULL, &type);
}

MlirValue tsr_onnx_transpose(tsr_onnx_call *c, MlirValue x, const int64_t *permutation) {
    uint32_t rank = tsr_onnx_rank(x);
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) same = same && permutation[i] == (int64_t)i;
    if (same) return x;
    tsr_attr attrs[] = {tsr_onnx_i64s_attr(c, "permutation", rank, permutation), {0}};
    return EMIT_WITH(c, "transpose", attrs, x);
}

MlirValue tsr_onnx_swap(tsr_onnx_call *c, MlirValue x, uint32_t a, uint32_t b) {
    int64_t permutation[TSR_RANK_MAX];
    for (uint32_t i = 0; i < TSR_RANK_MAX; i++) permutation[i] = i == a ? b : i == b ? a : i;
    return tsr_onnx_transpose(c, x, permutation);
}

/* An array of integers, some of which are open dims. */
static tsr_attr dims_attr(tsr_onnx_call *c, const char *name, uint32_t count,
                          const uint64_t *dims) {
    MlirAttribute list[TSR_RANK_MAX];
    int64_t numbers[TSR_RANK_MAX];
    bool known = true;
    for (uint32_t i = 0; i < count; i++) {
        known = known && tsr_dim_is_known(dims[i]);
        numbers[i] = (int64_t)dims[i];
    }
    if (known) return tsr_onnx_i64s_attr(c, name, count, numbers);
    for (uint32_t i = 0; i < count; i++) list[i] = tsr_dim_attr(c->builder->context, dims[i]);
    return (tsr_attr){name, mlirArrayAttrGet(c->builder->context, (intptr_t)count, list)};
}

MlirValue tsr_onnx_slice_open(tsr_onnx_call *c, MlirValue x, uint32_t dim, uint64_t start,
                              uint64_t size, int64_t stride) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    uint64_t starts[TSR_RANK_MAX] = {0};
    int64_t strides[TSR_RANK_MAX];
    if (start == 0 && size == shape.dims[dim] && stride == 1) return x;
    for (uint32_t i = 0; i < TSR_RANK_MAX; i++) strides[i] = 1;
    starts[dim] = start;
    shape.dims[dim] = size;
    strides[dim] = stride;
    tsr_attr attrs[] = {dims_attr(c, "start", shape.rank, starts),
                        dims_attr(c, "size", shape.rank, shape.dims),
                        {0},
                        {0}};
    if (stride != 1) attrs[2] = tsr_onnx_i64s_attr(c, "stride", shape.rank, strides);
    return EMIT_WITH(c, "slice", attrs, x);
}

MlirValue tsr_onnx_slice_dim(tsr_onnx_call *c, MlirValue x, uint32_t dim, int64_t start,
                             int64_t size, int64_t stride) {
    if (has_null(c, 1, &x)) return null_value;
    if (start < 0 || size < 0)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE,
                                   "a slice of %" PRId64 " positions from %" PRId64 " on", size,
                                   start);
    return tsr_onnx_slice_open(c, x, dim, (uint64_t)start, (uint64_t)size, stride);
}

MlirValue tsr_onnx_pad(tsr_onnx_call *c, MlirValue x, const int64_t *low, const int64_t *high,
                       const int64_t *interior, double value) {
    uint32_t rank = tsr_onnx_rank(x);
    bool none = true;
    for (uint32_t i = 0; i < rank; i++)
        none = none && low[i] == 0 && high[i] == 0 && (!interior || interior[i] == 0);
    if (none) return x;
    tsr_attr attrs[] = {tsr_onnx_i64s_attr(c, "low", rank, low),
                        tsr_onnx_i64s_attr(c, "high", rank, high),
                        tsr_onnx_f64_attr(c, "value", value),
                        {0},
                        {0}};
    if (interior) attrs[3] = tsr_onnx_i64s_attr(c, "interior", rank, interior);
    return EMIT_WITH(c, "pad", attrs, x);
}

/* In levels of TSR_CONCAT_PARTS_MAX parts. */
MlirValue tsr_onnx_concat(tsr_onnx_call *c, size_t count, const MlirValue *parts, uint32_t axis) {
    if (count == 0 || has_null(c, count, parts)) return null_value;
    MlirValue *level = tsr_arena_memdup(c->arena, parts, count * sizeof *parts);
    TSR_NEED(level);
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), {0}};
    while (count > 1) {
        size_t runs = 0;
        for (size_t i = 0; i < count; i += TSR_CONCAT_PARTS_MAX) {
            size_t run = count - i < TSR_CONCAT_PARTS_MAX ? count - i : TSR_CONCAT_PARTS_MAX;
            level[runs++] =
                run == 1 ? level[i]
                         : tsr_onnx_emit(c, TSR_GRAPH_NAME("concat"), level + i, run, attrs, NULL);
        }
        count = runs;
    }
    return level[0];
}

MlirValue tsr_onnx_reduce(tsr_onnx_call *c, const char *name, MlirValue x, size_t axis_count,
                          const int64_t *axes, bool keepdims) {
    tsr_shape reduced = tsr_onnx_type_of(x).shape;
    tsr_attr attrs[] = {tsr_onnx_i64s_attr(c, "axes", axis_count, axes), {0}};
    MlirValue y = tsr_onnx_emit(c, name, &x, 1, attrs, NULL);
    for (size_t i = 0; i < axis_count; i++) reduced.dims[axes[i]] = 1;
    return keepdims ? tsr_onnx_reshape(c, y, &reduced) : y;
}

MlirValue tsr_onnx_gather(tsr_onnx_call *c, MlirValue x, MlirValue indices, uint32_t axis) {
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), {0}};
    return EMIT_WITH(c, "gather", attrs, x, indices);
}

/* True for indices that are known, and none of which is negative. */
static bool count_from_start(const tsr_onnx_call *c, MlirValue indices) {
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, indices);
    bool all = known && !known->is_float;
    for (uint64_t i = 0; all && i < known->count; i++) all = known->ints[i] >= 0;
    return all;
}

MlirValue tsr_onnx_wrap_indices(tsr_onnx_call *c, MlirValue indices, uint64_t size) {
    if (!tsr_dim_is_known(size) && count_from_start(c, indices)) return indices;
    MlirValue wrapped = EMIT(c, "add", indices, tsr_onnx_dim_number(c, indices, size));
    MlirValue below = tsr_onnx_compare(c, TSR_PREDICATE_LT, indices, ZERO(c, indices));
    return EMIT(c, "where", below, wrapped, indices);
}

MlirValue tsr_onnx_iota(tsr_onnx_call *c, tsr_dtype dtype, uint32_t rank, uint32_t axis,
                        uint64_t size) {
    tsr_type type = {.dtype = dtype, .shape = {.rank = rank}};
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), {0}};
    for (uint32_t i = 0; i < rank; i++) type.shape.dims[i] = i == axis ? size : 1;
    if (c->failed) return null_value;
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("iota"), NULL, 0, attrs, &type);
}

MlirValue tsr_onnx_matmul(tsr_onnx_call *c, MlirValue a, MlirValue b, bool transpose_a,
                          bool transpose_b) {
    MlirAttribute yes = tsr_attr_make_bool(c->builder->context, true);
    tsr_attr attrs[3] = {0};
    size_t count = 0;
    if (transpose_a) attrs[count++] = (tsr_attr){"transpose_a", yes};
    if (transpose_b) attrs[count++] = (tsr_attr){"transpose_b", yes};
    return EMIT_WITH(c, "matmul", attrs, a, b);
}
