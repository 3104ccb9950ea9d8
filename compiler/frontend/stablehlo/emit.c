/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits ops of Graph IR for rules. The ops' own rules check them and say the types of their
 * results.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const MlirValue null_value = {NULL};

static bool has_null(const tsr_hlo_call *c, size_t count, const MlirValue *values) {
    if (c->failed) return true;
    for (size_t i = 0; i < count; i++)
        if (mlirValueIsNull(values[i])) return true;
    return false;
}

/* ---- any op ---- */

/* Sets the results to the types that the op's rule says. */
static bool set_result_types(tsr_hlo_call *c, MlirOperation op, bool declared) {
    tsr_rule rule;
    bool fits = declared ? tsr_graph_verify_op(op) : tsr_graph_check(op, &rule);
    if (!fits) {
        c->failed = true; /* the rule has said why, at this op */
        mlirOperationDestroy(op);
        return false;
    }
    for (size_t i = 0; i < tsr_op_result_count(op) && !declared; i++)
        mlirValueSetType(tsr_op_result(op, i),
                         tsr_type_make(c->builder->context, &rule.results[i]));
    return true;
}

bool tsr_hlo_emit_many(tsr_hlo_call *c, const char *name, const MlirValue *operands,
                       size_t operand_count, const tsr_attr *attrs, size_t result_count,
                       const tsr_type *declared, MlirValue *out_results) {
    MlirType types[TSR_RULE_RESULTS_MAX];
    size_t attr_count = 0;
    for (size_t i = 0; i < result_count; i++) out_results[i] = null_value;
    if (has_null(c, operand_count, operands)) return false;
    TSR_ASSERT(result_count <= TSR_RULE_RESULTS_MAX && operand_count <= TSR_RULE_OPERANDS_MAX);
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

MlirValue tsr_hlo_emit(tsr_hlo_call *c, const char *name, const MlirValue *operands,
                       size_t operand_count, const tsr_attr *attrs, const tsr_type *declared) {
    MlirValue result;
    tsr_hlo_emit_many(c, name, operands, operand_count, attrs, 1, declared, &result);
    return result;
}

tsr_attr tsr_hlo_i64_attr(const tsr_hlo_call *c, const char *name, int64_t value) {
    return (tsr_attr){name, tsr_attr_make_i64(c->builder->context, value)};
}

tsr_attr tsr_hlo_i64s_attr(const tsr_hlo_call *c, const char *name, size_t count,
                           const int64_t *values) {
    return (tsr_attr){name, tsr_attr_make_i64s(c->builder->context, count, values)};
}

/* ---- types ---- */

tsr_type tsr_hlo_type(MlirValue value) {
    tsr_type type = tsr_type_scalar(TSR_DTYPE_F32);
    if (!mlirValueIsNull(value)) tsr_value_type(value, &type);
    return type;
}

uint32_t tsr_hlo_rank(MlirValue value) { return tsr_hlo_type(value).shape.rank; }
tsr_dtype tsr_hlo_dtype(MlirValue value) { return tsr_hlo_type(value).dtype; }
bool tsr_hlo_is_float(MlirValue value) { return tsr_dtype_is_float(tsr_hlo_dtype(value)); }
uint64_t tsr_hlo_dim(MlirValue value, uint32_t dim) {
    tsr_shape shape = tsr_hlo_type(value).shape;
    return dim < shape.rank ? shape.dims[dim] : 1;
}

/* ---- constants ---- */

MlirValue tsr_hlo_filled(tsr_hlo_call *c, tsr_dtype dtype, const tsr_shape *shape, double value) {
    if (c->failed) return null_value;
    tsr_type type = {.dtype = dtype, .shape = *shape};
    tsr_attr attrs[] = {{"value", tsr_attr_make_splat(c->builder->context, &type, value)}, {0}};
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, &type);
}

MlirValue tsr_hlo_number(tsr_hlo_call *c, tsr_dtype dtype, double value) {
    return tsr_hlo_filled(c, dtype, &(tsr_shape){.rank = 0}, value);
}

MlirValue tsr_hlo_like(tsr_hlo_call *c, MlirValue like, double value) {
    if (has_null(c, 1, &like)) return null_value;
    return tsr_hlo_number(c, tsr_hlo_dtype(like), value);
}

static MlirValue constant(tsr_hlo_call *c, const tsr_type *type, const void *data) {
    if (c->failed) return null_value;
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(c->builder->context, type, data)}, {0}};
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("constant"), NULL, 0, attrs, type);
}

MlirValue tsr_hlo_bits(tsr_hlo_call *c, tsr_dtype dtype, uint64_t bits) {
    tsr_type type = tsr_type_scalar(dtype);
    return constant(c, &type, &bits); /* little-endian */
}

MlirValue tsr_hlo_int_list(tsr_hlo_call *c, size_t count, const int64_t *values) {
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 1, .dims = {count}}};
    return constant(c, &type, values);
}

bool tsr_hlo_splat(MlirValue value, double *out_value) {
    while (!mlirValueIsNull(value) && mlirValueIsAOpResult(value)) {
        MlirOperation op = mlirOpResultGetOwner(value);
        tsr_op id = tsr_op_of(op);
        if (id == TSR_GRAPH_CONSTANT) return tsr_attr_splat(tsr_op_attr(op, "value"), out_value);
        if (id != TSR_GRAPH_BROADCAST && id != TSR_GRAPH_RESHAPE) return false;
        value = tsr_op_operand(op, 0);
    }
    return false;
}

/* ---- elementwise ---- */

MlirValue tsr_hlo_cast(tsr_hlo_call *c, MlirValue x, tsr_dtype dtype) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_type type = tsr_hlo_type(x);
    if (type.dtype == dtype) return x;
    type.dtype = dtype;
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("cast"), &x, 1, NULL, &type);
}

MlirValue tsr_hlo_bitcast(tsr_hlo_call *c, MlirValue x, tsr_dtype dtype) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_type type = tsr_hlo_type(x);
    if (type.dtype == dtype) return x;
    type.dtype = dtype;
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("bitcast"), &x, 1, NULL, &type);
}

MlirValue tsr_hlo_compare(tsr_hlo_call *c, tsr_predicate predicate, MlirValue a, MlirValue b) {
    tsr_attr attrs[] = {{"predicate", tsr_attr_make_i32(c->builder->context, (int32_t)predicate)},
                        {0}};
    return EMIT_WITH(c, "compare", attrs, a, b);
}

/* The op takes operands of one shape. */
MlirValue tsr_hlo_mul_add(tsr_hlo_call *c, MlirValue x, MlirValue y, MlirValue z) {
    MlirValue operands[] = {x, y, z};
    tsr_shape all = {.rank = 0};
    if (has_null(c, 3, operands)) return null_value;
    for (size_t i = 0; i < 3; i++) {
        tsr_shape shape = tsr_hlo_type(operands[i]).shape;
        if (shape.rank > all.rank) all = shape;
    }
    for (size_t i = 0; i < 3; i++) {
        tsr_shape shape = tsr_hlo_type(operands[i]).shape;
        for (uint32_t k = 0; k < shape.rank; k++) {
            uint64_t *dim = &all.dims[all.rank - shape.rank + k];
            if (*dim == 1) *dim = shape.dims[k];
        }
    }
    for (size_t i = 0; i < 3; i++) operands[i] = tsr_hlo_broadcast(c, operands[i], &all);
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("mul_add"), operands, 3, NULL, NULL);
}

/* ---- moving elements ---- */

MlirValue tsr_hlo_reshape(tsr_hlo_call *c, MlirValue x, const tsr_shape *shape) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_type type = tsr_hlo_type(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("reshape"), &x, 1, NULL, &type);
}

MlirValue tsr_hlo_broadcast(tsr_hlo_call *c, MlirValue x, const tsr_shape *shape) {
    if (has_null(c, 1, &x)) return null_value;
    tsr_type type = tsr_hlo_type(x);
    if (tsr_shape_equal(&type.shape, shape)) return x;
    type.shape = *shape;
    return tsr_hlo_emit(c, TSR_GRAPH_NAME("broadcast"), &x, 1, NULL, &type);
}

MlirValue tsr_hlo_transpose(tsr_hlo_call *c, MlirValue x, const int64_t *permutation) {
    uint32_t rank = tsr_hlo_rank(x);
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) same = same && permutation[i] == (int64_t)i;
    if (same) return x;
    tsr_attr attrs[] = {tsr_hlo_i64s_attr(c, "permutation", rank, permutation), {0}};
    return EMIT_WITH(c, "transpose", attrs, x);
}

MlirValue tsr_hlo_slice_dim(tsr_hlo_call *c, MlirValue x, uint32_t dim, int64_t start, int64_t size,
                            int64_t stride) {
    int64_t starts[TSR_RANK_MAX] = {0}, sizes[TSR_RANK_MAX], strides[TSR_RANK_MAX];
    if (has_null(c, 1, &x)) return null_value;
    tsr_shape shape = tsr_hlo_type(x).shape;
    if (start == 0 && (uint64_t)size == shape.dims[dim] && stride == 1) return x;
    for (uint32_t i = 0; i < shape.rank; i++) {
        sizes[i] = (int64_t)shape.dims[i];
        strides[i] = 1;
    }
    starts[dim] = start;
    sizes[dim] = size;
    strides[dim] = stride;
    tsr_attr attrs[] = {tsr_hlo_i64s_attr(c, "start", shape.rank, starts),
                        tsr_hlo_i64s_attr(c, "size", shape.rank, sizes),
                        tsr_hlo_i64s_attr(c, "stride", shape.rank, strides),
                        {0}};
    return EMIT_WITH(c, "slice", attrs, x);
}

/* In levels of TSR_CONCAT_PARTS_MAX parts. */
MlirValue tsr_hlo_concat(tsr_hlo_call *c, size_t count, const MlirValue *parts, uint32_t axis) {
    if (count == 0 || has_null(c, count, parts)) return null_value;
    MlirValue *level = tsr_arena_memdup(c->arena, parts, count * sizeof *parts);
    TSR_NEED(level);
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", axis), {0}};
    while (count > 1) {
        size_t runs = 0;
        for (size_t i = 0; i < count; i += TSR_CONCAT_PARTS_MAX) {
            size_t run = count - i < TSR_CONCAT_PARTS_MAX ? count - i : TSR_CONCAT_PARTS_MAX;
            level[runs++] =
                run == 1 ? level[i]
                         : tsr_hlo_emit(c, TSR_GRAPH_NAME("concat"), level + i, run, attrs, NULL);
        }
        count = runs;
    }
    return level[0];
}

MlirValue tsr_hlo_reduce(tsr_hlo_call *c, const char *name, MlirValue x, size_t axis_count,
                         const int64_t *axes) {
    tsr_attr attrs[] = {tsr_hlo_i64s_attr(c, "axes", axis_count, axes), {0}};
    return tsr_hlo_emit(c, name, &x, 1, attrs, NULL);
}

MlirValue tsr_hlo_gather(tsr_hlo_call *c, MlirValue x, MlirValue indices, uint32_t axis) {
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", axis), {0}};
    return EMIT_WITH(c, "gather", attrs, x, indices);
}

MlirValue tsr_hlo_positions(tsr_hlo_call *c, uint32_t rank, uint32_t axis, uint64_t size,
                            int64_t scale) {
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = rank}};
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", axis), {0}};
    for (uint32_t i = 0; i < rank; i++) type.shape.dims[i] = i == axis ? size : 1;
    if (c->failed) return null_value;
    MlirValue positions = tsr_hlo_emit(c, TSR_GRAPH_NAME("iota"), NULL, 0, attrs, &type);
    if (scale == 1) return positions;
    return EMIT(c, "mul", positions, tsr_hlo_number(c, TSR_DTYPE_I64, (double)scale));
}

MlirValue tsr_hlo_reverse(tsr_hlo_call *c, MlirValue x, uint32_t dim) {
    uint64_t size = tsr_hlo_dim(x, dim);
    if (size < 2) return x;
    MlirValue last = tsr_hlo_number(c, TSR_DTYPE_I64, (double)(size - 1));
    MlirValue back = EMIT(c, "sub", last, tsr_hlo_positions(c, 1, 0, size, 1));
    return tsr_hlo_gather(c, x, back, dim);
}

/* ---- padding ---- */

/* `count` copies of the scalar before or after the elements of one dim. */
static MlirValue fill_beside(tsr_hlo_call *c, MlirValue x, MlirValue value, uint32_t dim,
                             int64_t count, bool before) {
    if (count <= 0 || has_null(c, 1, &x)) return x;
    tsr_shape shape = tsr_hlo_type(x).shape;
    shape.dims[dim] = (uint64_t)count;
    MlirValue fill = tsr_hlo_broadcast(c, value, &shape);
    MlirValue parts[] = {before ? fill : x, before ? x : fill};
    return tsr_hlo_concat(c, 2, parts, dim);
}

/* Copies of the scalar between neighbours: each element and its copies become a row. */
static MlirValue fill_between(tsr_hlo_call *c, MlirValue x, MlirValue value, uint32_t dim,
                              int64_t count) {
    if (count <= 0 || has_null(c, 1, &x) || tsr_hlo_dim(x, dim) < 2) return x;
    tsr_shape flat = tsr_hlo_type(x).shape, split = {.rank = 3, .dims = {1, 1, 1}};
    for (uint32_t i = 0; i < flat.rank; i++) split.dims[i > dim ? 2 : 0] *= flat.dims[i];
    split.dims[0] = 1;
    for (uint32_t i = 0; i <= dim; i++) split.dims[0] *= flat.dims[i];
    MlirValue rows = fill_beside(c, tsr_hlo_reshape(c, x, &split), value, 1, count, false);
    flat.dims[dim] *= (uint64_t)count + 1;
    return tsr_hlo_slice_dim(c, tsr_hlo_reshape(c, rows, &flat), dim, 0,
                             (int64_t)flat.dims[dim] - count, 1);
}

/* The op that pads floats with a number that is known. */
static MlirValue pad_known(tsr_hlo_call *c, MlirValue x, double value, const int64_t *low,
                           const int64_t *high, const int64_t *interior) {
    int64_t lists[3][TSR_RANK_MAX];
    uint32_t rank = tsr_hlo_rank(x);
    bool none = true;
    for (uint32_t i = 0; i < rank; i++) {
        lists[0][i] = low[i] > 0 ? low[i] : 0;
        lists[1][i] = high[i] > 0 ? high[i] : 0;
        lists[2][i] = interior[i];
        none = none && !lists[0][i] && !lists[1][i] && !lists[2][i];
    }
    if (none) return x;
    MlirContext context = c->builder->context;
    tsr_attr attrs[] = {tsr_hlo_i64s_attr(c, "low", rank, lists[0]),
                        tsr_hlo_i64s_attr(c, "high", rank, lists[1]),
                        tsr_hlo_i64s_attr(c, "interior", rank, lists[2]),
                        {"value", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), value)},
                        {0}};
    return EMIT_WITH(c, "pad", attrs, x);
}

MlirValue tsr_hlo_pad(tsr_hlo_call *c, MlirValue x, MlirValue value, const int64_t *low,
                      const int64_t *high, const int64_t *interior) {
    double number;
    if (has_null(c, 1, &x) || has_null(c, 1, &value)) return null_value;
    uint32_t rank = tsr_hlo_rank(x);
    bool known = tsr_hlo_is_float(x) && tsr_hlo_splat(value, &number);
    if (known) x = pad_known(c, x, number, low, high, interior);
    for (uint32_t i = 0; i < rank && !known; i++) {
        x = fill_between(c, x, value, i, interior[i]);
        x = fill_beside(c, fill_beside(c, x, value, i, low[i], true), value, i, high[i], false);
    }
    for (uint32_t i = 0; i < rank && !c->failed; i++) {
        int64_t before = low[i] < 0 ? -low[i] : 0, after = high[i] < 0 ? -high[i] : 0;
        int64_t size = (int64_t)tsr_hlo_dim(x, i) - before - after;
        if (size < 0)
            return tsr_hlo_fail_value(c, TSR_DIAG_HLO_FORM,
                                      "dim %u has %" PRIu64 " elements; %" PRId64 " are cut off", i,
                                      tsr_hlo_dim(x, i), before + after);
        x = tsr_hlo_slice_dim(c, x, i, before, size, 1);
    }
    return x;
}
