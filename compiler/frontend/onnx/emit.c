/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits ops of Graph IR for rules, beside those of ../emitter.c.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/process/guard.h"

#include <inttypes.h>

static const MlirValue null_value = {NULL};

/* ---- constants ---- */

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
    if (tsr_emitter_has_null(&c->emitter, 1, &like)) return null_value;
    return tsr_onnx_numbers(c, tsr_onnx_dtype(like), &(tsr_shape){.rank = 0}, &value);
}

/* ---- elementwise ---- */

MlirValue tsr_onnx_wide(tsr_onnx_call *c, MlirValue x) {
    tsr_dtype dtype = tsr_onnx_dtype(x);
    bool narrow = dtype == TSR_DTYPE_BF16 || dtype == TSR_DTYPE_F16;
    return narrow ? tsr_onnx_cast(c, x, TSR_DTYPE_F32) : x;
}

MlirValue tsr_onnx_ceil(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "ceil", x); }

MlirValue tsr_onnx_truncate(tsr_onnx_call *c, MlirValue x) {
    return EMIT(c, "where", tsr_onnx_compare(c, TSR_PREDICATE_LT, x, ZERO(c, x)),
                tsr_onnx_ceil(c, x), EMIT(c, "floor", x));
}

MlirValue tsr_onnx_round(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "round", x); }

/* ---- moving elements ---- */

MlirValue tsr_onnx_swap(tsr_onnx_call *c, MlirValue x, uint32_t a, uint32_t b) {
    int64_t permutation[TSR_RANK_MAX];
    for (uint32_t i = 0; i < TSR_RANK_MAX; i++) permutation[i] = i == a ? b : i == b ? a : i;
    return tsr_onnx_transpose(c, x, permutation);
}

MlirValue tsr_onnx_slice_dim(tsr_onnx_call *c, MlirValue x, uint32_t dim, int64_t start,
                             int64_t size, int64_t stride) {
    if (tsr_emitter_has_null(&c->emitter, 1, &x)) return null_value;
    if (start < 0 || size < 0)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE,
                                   "a slice of %" PRId64 " positions from %" PRId64 " on", size,
                                   start);
    return tsr_onnx_slice_open(c, x, dim, (uint64_t)start, (uint64_t)size, stride);
}

MlirValue tsr_onnx_reduce(tsr_onnx_call *c, const char *name, MlirValue x, size_t axis_count,
                          const int64_t *axes, bool keepdims) {
    tsr_shape reduced = tsr_onnx_type_of(x).shape;
    MlirValue y = tsr_emitter_reduce(&c->emitter, name, x, axis_count, axes);
    for (size_t i = 0; i < axis_count; i++) reduced.dims[axes[i]] = 1;
    return keepdims ? tsr_onnx_reshape(c, y, &reduced) : y;
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

MlirValue tsr_onnx_matmul(tsr_onnx_call *c, MlirValue a, MlirValue b, bool transpose_a,
                          bool transpose_b) {
    MlirAttribute yes = tsr_attr_make_bool(c->builder->context, true);
    tsr_attr attrs[3] = {0};
    size_t count = 0;
    if (transpose_a) attrs[count++] = (tsr_attr){"transpose_a", yes};
    if (transpose_b) attrs[count++] = (tsr_attr){"transpose_b", yes};
    return EMIT_WITH(c, "matmul", attrs, a, b);
}
