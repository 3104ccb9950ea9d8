/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits ops of Graph IR for the rules of front ends.
 */
#include "compiler/frontend/emitter.h"

#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"

#include <string.h>

static const MlirValue null_value = {NULL};

bool tsr_emitter_has_null(const tsr_emitter *e, size_t count, const MlirValue *values) {
    if (e->failed) return true;
    for (size_t i = 0; i < count; i++)
        if (mlirValueIsNull(values[i])) return true;
    return false;
}

/* ---- types ---- */

tsr_type tsr_emitter_type(MlirValue value) {
    tsr_type type = tsr_type_scalar(TSR_DTYPE_F32);
    bool has_type = mlirValueIsNull(value) || tsr_value_type(value, &type);
    TSR_ASSERT(has_type);
    return type;
}

uint32_t tsr_emitter_rank(MlirValue value) { return tsr_emitter_type(value).shape.rank; }

/* ---- any op ---- */

/* Sets the results to the types that the op's rule says. */
static bool set_result_types(tsr_emitter *e, MlirOperation op, bool declared) {
    tsr_rule rule;
    bool fits = declared ? tsr_graph_verify_op(op) : tsr_graph_check(op, &rule);
    if (!fits) {
        e->failed = true; /* the rule has said why, at this node */
        mlirOperationDestroy(op);
        return false;
    }
    for (size_t i = 0; i < tsr_op_result_count(op) && !declared; i++)
        mlirValueSetType(tsr_op_result(op, i),
                         tsr_type_make(e->builder->context, &rule.results[i]));
    return true;
}

bool tsr_emitter_emit_many(tsr_emitter *e, const char *name, const MlirValue *operands,
                           size_t operand_count, const tsr_attr *attrs, size_t result_count,
                           const tsr_type *declared, MlirValue *out_results) {
    enum { RESULTS_MAX = TSR_RULE_RESULTS_MAX };
    MlirType types[RESULTS_MAX];
    size_t attr_count = 0;
    for (size_t i = 0; i < result_count; i++) out_results[i] = null_value;
    if (tsr_emitter_has_null(e, operand_count, operands)) return false;
    TSR_ASSERT(result_count <= RESULTS_MAX && operand_count <= TSR_RULE_OPERANDS_MAX);
    TSR_ASSERT(declared || operand_count);
    while (attrs && attrs[attr_count].name) attr_count++;
    for (size_t i = 0; i < result_count; i++)
        types[i] = declared ? tsr_type_make(e->builder->context, &declared[i])
                            : mlirValueGetType(operands[0]);
    MlirOperation op = tsr_build(e->builder, &(tsr_op_desc){.name = name,
                                                            .operands = operands,
                                                            .operand_count = operand_count,
                                                            .results = types,
                                                            .result_count = result_count,
                                                            .attrs = attrs,
                                                            .attr_count = attr_count});
    if (!set_result_types(e, op, declared != NULL)) return false;
    for (size_t i = 0; i < result_count; i++) out_results[i] = tsr_op_result(op, i);
    return true;
}

MlirValue tsr_emitter_emit(tsr_emitter *e, const char *name, const MlirValue *operands,
                           size_t operand_count, const tsr_attr *attrs, const tsr_type *declared) {
    MlirValue result;
    tsr_emitter_emit_many(e, name, operands, operand_count, attrs, 1, declared, &result);
    return result;
}

tsr_attr tsr_emitter_i64_attr(const tsr_emitter *e, const char *name, int64_t value) {
    return (tsr_attr){name, tsr_attr_make_i64(e->builder->context, value)};
}

tsr_attr tsr_emitter_i64s_attr(const tsr_emitter *e, const char *name, size_t count,
                               const int64_t *values) {
    return (tsr_attr){name, tsr_attr_make_i64s(e->builder->context, count, values)};
}

tsr_attr tsr_emitter_f64_attr(const tsr_emitter *e, const char *name, double value) {
    MlirContext context = e->builder->context;
    return (tsr_attr){name, mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), value)};
}

/* ---- constants ---- */

MlirValue tsr_emitter_constant(tsr_emitter *e, const tsr_type *type, const void *data) {
    if (e->failed) return null_value;
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(e->builder->context, type, data)}, {0}};
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, type);
}

MlirValue tsr_emitter_filled(tsr_emitter *e, tsr_dtype dtype, const tsr_shape *shape,
                             double value) {
    if (e->failed) return null_value;
    tsr_type type = {.dtype = dtype, .shape = *shape};
    if (!tsr_type_is_static(&type)) {
        MlirValue one = tsr_emitter_filled(e, dtype, &(tsr_shape){.rank = 0}, value);
        return tsr_emitter_broadcast(e, one, shape);
    }
    tsr_attr attrs[] = {{"value", tsr_attr_make_splat(e->builder->context, &type, value)}, {0}};
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, &type);
}

MlirValue tsr_emitter_int_list(tsr_emitter *e, size_t count, const int64_t *values) {
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 1, .dims = {count}}};
    return tsr_emitter_constant(e, &type, values);
}

/* ---- elementwise ---- */

MlirValue tsr_emitter_cast(tsr_emitter *e, MlirValue x, tsr_dtype dtype) {
    if (tsr_emitter_has_null(e, 1, &x)) return null_value;
    tsr_type type = tsr_emitter_type(x);
    if (type.dtype == dtype) return x;
    type.dtype = dtype;
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("cast"), &x, 1, NULL, &type);
}

MlirValue tsr_emitter_compare(tsr_emitter *e, tsr_predicate predicate, MlirValue a, MlirValue b) {
    tsr_attr attrs[] = {{"predicate", tsr_attr_make_i32(e->builder->context, (int32_t)predicate)},
                        {0}};
    MlirValue operands[] = {a, b};
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("compare"), operands, 2, attrs, NULL);
}

/* ---- moving elements ---- */

MlirValue tsr_emitter_reshape(tsr_emitter *e, MlirValue x, const tsr_shape *shape) {
    if (tsr_emitter_has_null(e, 1, &x)) return null_value;
    tsr_type type = tsr_emitter_type(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("reshape"), &x, 1, NULL, &type);
}

MlirValue tsr_emitter_broadcast(tsr_emitter *e, MlirValue x, const tsr_shape *shape) {
    if (tsr_emitter_has_null(e, 1, &x)) return null_value;
    tsr_type type = tsr_emitter_type(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("broadcast"), &x, 1, NULL, &type);
}

MlirValue tsr_emitter_transpose(tsr_emitter *e, MlirValue x, const int64_t *permutation) {
    uint32_t rank = tsr_emitter_rank(x);
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) same = same && permutation[i] == (int64_t)i;
    if (same) return x;
    tsr_attr attrs[] = {tsr_emitter_i64s_attr(e, "permutation", rank, permutation), {0}};
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("transpose"), &x, 1, attrs, NULL);
}

/* An array of integers, some of which are open dims. */
static tsr_attr dims_attr(tsr_emitter *e, const char *name, uint32_t count, const uint64_t *dims) {
    MlirAttribute list[TSR_RANK_MAX];
    int64_t numbers[TSR_RANK_MAX];
    bool known = true;
    for (uint32_t i = 0; i < count; i++) {
        known = known && tsr_dim_is_known(dims[i]);
        numbers[i] = (int64_t)dims[i];
    }
    if (known) return tsr_emitter_i64s_attr(e, name, count, numbers);
    for (uint32_t i = 0; i < count; i++) list[i] = tsr_dim_attr(e->builder->context, dims[i]);
    return (tsr_attr){name, mlirArrayAttrGet(e->builder->context, (intptr_t)count, list)};
}

MlirValue tsr_emitter_slice(tsr_emitter *e, MlirValue x, uint32_t dim, uint64_t start,
                            uint64_t size, int64_t stride) {
    if (tsr_emitter_has_null(e, 1, &x)) return null_value;
    tsr_shape shape = tsr_emitter_type(x).shape;
    uint64_t starts[TSR_RANK_MAX] = {0};
    int64_t strides[TSR_RANK_MAX];
    if (start == 0 && size == shape.dims[dim] && stride == 1) return x;
    for (uint32_t i = 0; i < TSR_RANK_MAX; i++) strides[i] = 1;
    starts[dim] = start;
    shape.dims[dim] = size;
    strides[dim] = stride;
    tsr_attr attrs[] = {dims_attr(e, "start", shape.rank, starts),
                        dims_attr(e, "size", shape.rank, shape.dims),
                        {0},
                        {0}};
    if (stride != 1) attrs[2] = tsr_emitter_i64s_attr(e, "stride", shape.rank, strides);
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("slice"), &x, 1, attrs, NULL);
}

MlirValue tsr_emitter_pad(tsr_emitter *e, MlirValue x, const int64_t *low, const int64_t *high,
                          const int64_t *interior, double value) {
    uint32_t rank = tsr_emitter_rank(x);
    bool none = true;
    for (uint32_t i = 0; i < rank; i++)
        none = none && low[i] == 0 && high[i] == 0 && (!interior || interior[i] == 0);
    if (none) return x;
    tsr_attr attrs[] = {tsr_emitter_i64s_attr(e, "low", rank, low),
                        tsr_emitter_i64s_attr(e, "high", rank, high),
                        tsr_emitter_f64_attr(e, "value", value),
                        {0},
                        {0}};
    if (interior) attrs[3] = tsr_emitter_i64s_attr(e, "interior", rank, interior);
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("pad"), &x, 1, attrs, NULL);
}

/* In levels of TSR_CONCAT_PARTS_MAX parts. */
MlirValue tsr_emitter_concat(tsr_emitter *e, size_t count, const MlirValue *parts, uint32_t axis) {
    if (count == 0 || tsr_emitter_has_null(e, count, parts)) return null_value;
    MlirValue *level = tsr_arena_memdup(e->arena, parts, count * sizeof *parts);
    TSR_NEED(level);
    tsr_attr attrs[] = {tsr_emitter_i64_attr(e, "axis", axis), {0}};
    while (count > 1) {
        size_t runs = 0;
        for (size_t i = 0; i < count; i += TSR_CONCAT_PARTS_MAX) {
            size_t run = count - i < TSR_CONCAT_PARTS_MAX ? count - i : TSR_CONCAT_PARTS_MAX;
            level[runs++] = run == 1 ? level[i]
                                     : tsr_emitter_emit(e, TSR_GRAPH_NAME("concat"), level + i, run,
                                                        attrs, NULL);
        }
        count = runs;
    }
    return level[0];
}

MlirValue tsr_emitter_gather(tsr_emitter *e, MlirValue x, MlirValue indices, uint32_t axis) {
    tsr_attr attrs[] = {tsr_emitter_i64_attr(e, "axis", axis), {0}};
    MlirValue operands[] = {x, indices};
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("gather"), operands, 2, attrs, NULL);
}

MlirValue tsr_emitter_iota(tsr_emitter *e, tsr_dtype dtype, uint32_t rank, uint32_t axis,
                           uint64_t size) {
    tsr_type type = {.dtype = dtype, .shape = {.rank = rank}};
    tsr_attr attrs[] = {tsr_emitter_i64_attr(e, "axis", axis), {0}};
    for (uint32_t i = 0; i < rank; i++) type.shape.dims[i] = i == axis ? size : 1;
    if (e->failed) return null_value;
    return tsr_emitter_emit(e, TSR_GRAPH_NAME("iota"), NULL, 0, attrs, &type);
}

MlirValue tsr_emitter_reduce(tsr_emitter *e, const char *name, MlirValue x, size_t axis_count,
                             const int64_t *axes) {
    tsr_attr attrs[] = {tsr_emitter_i64s_attr(e, "axes", axis_count, axes), {0}};
    return tsr_emitter_emit(e, name, &x, 1, attrs, NULL);
}
