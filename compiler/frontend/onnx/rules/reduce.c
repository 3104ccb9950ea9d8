/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions, and functions along an axis.
 */
#include "compiler/frontend/onnx/rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The axes of a reduction: an attribute, or in later versions an input. *out_none: the input
 * itself is the result. */
static bool read_axes(tsr_onnx_call *c, MlirValue x, int64_t *axes, size_t *count, bool *out_none) {
    bool given = false;
    uint32_t rank = tsr_onnx_rank(x);
    if (!tsr_onnx_ints_of(c, "axes", 1, TSR_RANK_MAX, axes, count, &given) || c->failed ||
        !tsr_onnx_axes(c, "axes", rank, *count, axes))
        return false;
    *out_none = *count == 0 && tsr_onnx_attr_i(c, "noop_with_empty_axes", 0) != 0;
    if (*count == 0 && !*out_none)
        for (; *count < rank; (*count)++) axes[*count] = (int64_t)*count;
    return !c->failed;
}

/* What is applied to the elements, and to the result. */
static MlirValue before(tsr_onnx_call *c, const char *op, MlirValue x) {
    if (strcmp(op, "ReduceL1") == 0)
        return tsr_dtype_is_unsigned(tsr_onnx_dtype(x)) ? x : EMIT(c, "abs", x);
    if (strcmp(op, "ReduceL2") == 0 || strcmp(op, "ReduceSumSquare") == 0)
        return EMIT(c, "mul", x, x);
    return x;
}

static MlirValue after(tsr_onnx_call *c, const char *op, MlirValue y) {
    bool is_root = strcmp(op, "ReduceL2") == 0, is_log = strcmp(op, "ReduceLogSum") == 0;
    if (!is_root && !is_log) return y;
    tsr_dtype dtype = tsr_onnx_dtype(y);
    MlirValue f = tsr_onnx_is_float(y) ? y : tsr_onnx_cast(c, y, TSR_DTYPE_F64);
    return tsr_onnx_cast(c, is_root ? EMIT(c, "sqrt", f) : EMIT(c, "log", f), dtype);
}

/* The type in which a reduction is computed: small integers would wrap, truth values have no order.
 */
static tsr_dtype work_type(const char *op, tsr_dtype dtype) {
    bool is_extreme = strcmp(op, "ReduceMax") == 0 || strcmp(op, "ReduceMin") == 0;
    bool is_mean = strcmp(op, "ReduceMean") == 0, is_exp = strcmp(op, "ReduceLogSumExp") == 0;
    if (dtype == TSR_DTYPE_I1) return TSR_DTYPE_UI8;
    if (is_extreme) return dtype;
    if (dtype == TSR_DTYPE_F16 || dtype == TSR_DTYPE_BF16) return TSR_DTYPE_F32;
    if (tsr_dtype_is_float(dtype)) return dtype;
    if (is_mean || is_exp) return TSR_DTYPE_F64;
    return tsr_dtype_bits(dtype) < 32 ? TSR_DTYPE_I32 : dtype;
}

/* Integers: the sum divided toward zero. */
static MlirValue mean_of_integers(tsr_onnx_call *c, MlirValue x, size_t count, const int64_t *axes,
                                  bool keepdims) {
    uint64_t size = 1;
    for (size_t i = 0; i < count; i++)
        size = tsr_onnx_times(c, size, tsr_onnx_dim_of(x, (uint32_t)axes[i]));
    tsr_dtype dtype = tsr_onnx_dtype(x), by = tsr_dtype_bits(dtype) < 32 ? TSR_DTYPE_I32 : dtype;
    MlirValue sum =
        tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), tsr_onnx_cast(c, x, by), count, axes, keepdims);
    return EMIT(c, "div", sum, tsr_onnx_dim_number(c, sum, size));
}

bool tsr_onnx_rule_reduce(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    const char *op = c->row->op;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    bool none = false, keepdims = tsr_onnx_attr_i(c, "keepdims", 1) != 0;
    char name[64];
    if (!read_axes(c, x, axes, &count, &none)) return false;
    tsr_dtype dtype = tsr_onnx_dtype(x);
    snprintf(name, sizeof name, "tessera.%s", c->row->with);
    bool whole_mean = strcmp(op, "ReduceMean") == 0 && !tsr_dtype_is_float(dtype);
    MlirValue y = before(c, op, tsr_onnx_cast(c, x, work_type(op, dtype)));
    if (whole_mean && !none)
        y = mean_of_integers(c, x, count, axes, keepdims);
    else if (!none)
        y = tsr_onnx_reduce(c, name, y, count, axes, keepdims);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, after(c, op, y), dtype));
}

/* ---- along an axis --------------------------------------------------------------------------- */

/* Before version 13 the input is seen as a matrix whose columns begin at the axis. */
static MlirValue as_rows(tsr_onnx_call *c, MlirValue x, int64_t otherwise, uint32_t *out_axis) {
    tsr_shape shape = tsr_onnx_type_of(x).shape, flat = {.rank = 2, .dims = {1, 1}};
    int64_t axis = tsr_onnx_attr_i(c, "axis", otherwise);
    if (axis == 0 && shape.rank == 0) return tsr_onnx_reshape(c, x, &flat);
    if (!tsr_onnx_axis(c, "axis", axis, shape.rank, out_axis) || c->opset >= 13) return x;
    flat.dims[0] = tsr_onnx_volume(c, &shape, 0, *out_axis);
    flat.dims[1] = tsr_onnx_volume(c, &shape, *out_axis, shape.rank);
    *out_axis = 1;
    return tsr_onnx_reshape(c, x, &flat);
}

static MlirValue log_softmax(tsr_onnx_call *c, MlirValue x, uint32_t axis) {
    MlirValue sum =
        tsr_onnx_reduce(c, TSR_GRAPH_NAME("logsumexp_safe"), x, 1, (const int64_t[]){axis}, true);
    return EMIT(c, "sub", x, sum);
}

/* 1 at the first largest */
static MlirValue hardmax(tsr_onnx_call *c, MlirValue x, uint32_t axis) {
    tsr_shape shape = tsr_onnx_type_of(x).shape, reduced = shape;
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), {0}};
    reduced.dims[axis] = 1;
    MlirValue first = tsr_onnx_reshape(c, EMIT_WITH(c, "argmax", attrs, x), &reduced);
    MlirValue position = tsr_onnx_iota(c, TSR_DTYPE_I64, shape.rank, axis, shape.dims[axis]);
    return tsr_onnx_cast(c, tsr_onnx_compare(c, TSR_PREDICATE_EQ, first, position),
                         tsr_onnx_dtype(x));
}

bool tsr_onnx_rule_softmax(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    uint32_t axis = 0;
    MlirValue rows = as_rows(c, x, c->opset >= 13 ? -1 : 1, &axis), y;
    if (c->failed) return false;
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), {0}};
    if (c->row->with[0] == 's')
        y = EMIT_WITH(c, "softmax_safe", attrs, rows);
    else if (c->row->with[0] == 'l')
        y = tsr_onnx_cast(c, log_softmax(c, tsr_onnx_wide(c, rows), axis), tsr_onnx_dtype(x));
    else
        y = hardmax(c, rows, axis);
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, y, &shape));
}

/* x / norm, where a norm of 0 gives 0 */
bool tsr_onnx_rule_lp_normalization(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t p = tsr_onnx_attr_i(c, "p", 2);
    uint32_t axis;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", -1), tsr_onnx_rank(x), &axis))
        return false;
    if (p != 1 && p != 2)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'p' must be 1 or 2");
    MlirValue wide = tsr_onnx_wide(c, x);
    MlirValue each = p == 1 ? EMIT(c, "abs", wide) : EMIT(c, "mul", wide, wide);
    MlirValue norm =
        tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), each, 1, (const int64_t[]){axis}, true);
    if (p == 2) norm = EMIT(c, "sqrt", norm);
    MlirValue empty = tsr_onnx_compare(c, TSR_PREDICATE_EQ, norm, ZERO(c, norm));
    MlirValue y = EMIT(c, "where", empty, ZERO(c, norm),
                       EMIT(c, "div", wide, EMIT(c, "where", empty, ONE(c, norm), norm)));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* The label's entry of each row along dim 1, with the dims of the labels. */
static MlirValue pick(tsr_onnx_call *c, MlirValue x, MlirValue labels) {
    tsr_shape shape = tsr_onnx_type_of(x).shape, column = shape;
    column.dims[1] = 1;
    MlirValue position = tsr_onnx_iota(c, tsr_onnx_dtype(labels), shape.rank, 1, shape.dims[1]);
    MlirValue hot =
        tsr_onnx_compare(c, TSR_PREDICATE_EQ, tsr_onnx_reshape(c, labels, &column), position);
    return tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), EMIT(c, "where", hot, x, ZERO(c, x)), 1,
                           (const int64_t[]){1}, false);
}

/* The weighted losses of log probabilities [N, C, …] for labels [N, …], reduced. */
static MlirValue reduce_loss(tsr_onnx_call *c, MlirValue scores, MlirValue labels,
                             MlirValue weights) {
    const char *word = tsr_onnx_attr_s(c, "reduction", "mean");
    tsr_shape shape = tsr_onnx_type_of(scores).shape, column = {.rank = shape.rank};
    tsr_shape rows = tsr_onnx_type_of(labels).shape;
    int64_t axes[TSR_RANK_MAX];
    MlirValue each = EMIT(c, "neg", pick(c, scores, labels));
    MlirValue weight = tsr_onnx_filled(c, tsr_onnx_dtype(scores), &rows, 1);
    for (uint32_t i = 0; i < shape.rank; i++) {
        column.dims[i] = i == 1 ? shape.dims[1] : 1;
        axes[i] = i;
    }
    if (!mlirValueIsNull(weights)) {
        MlirValue all =
            tsr_onnx_cast(c, tsr_onnx_reshape(c, weights, &column), tsr_onnx_dtype(scores));
        weight = pick(c, tsr_onnx_broadcast(c, all, &shape), labels);
    }
    if (tsr_onnx_attr(c, "ignore_index")) {
        double ignored = (double)tsr_onnx_attr_i(c, "ignore_index", 0);
        MlirValue is =
            tsr_onnx_compare(c, TSR_PREDICATE_EQ, labels, tsr_onnx_number(c, labels, ignored));
        weight = EMIT(c, "where", is, ZERO(c, weight), weight);
    }
    each = EMIT(c, "mul", each, weight);
    if (strcmp(word, "none") == 0) return each;
    MlirValue sum = tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), each, rows.rank, axes, false);
    if (strcmp(word, "sum") == 0) return sum;
    MlirValue all = tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), weight, rows.rank, axes, false);
    return EMIT(c, "div", sum, all);
}

/* Fails unless the labels have the dims of the scores but dim 1. */
static bool check_labels(tsr_onnx_call *c, MlirValue scores, MlirValue labels) {
    if (!tsr_onnx_need_rank(c, "the input", scores, 2, TSR_RANK_MAX)) return false;
    tsr_shape shape = tsr_onnx_type_of(scores).shape, rows = {.rank = shape.rank - 1};
    tsr_shape is = tsr_onnx_type_of(labels).shape;
    for (uint32_t i = 0; i < rows.rank; i++) rows.dims[i] = shape.dims[i ? i + 1 : 0];
    return tsr_shape_equal(&rows, &is) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the labels do not fit to the scores");
}

bool tsr_onnx_rule_nll_loss(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), labels = tsr_onnx_in(c, 1);
    if (c->failed || !check_labels(c, x, labels)) return false;
    MlirValue y = reduce_loss(c, tsr_onnx_wide(c, x), labels, tsr_onnx_in_or_null(c, 2));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}

bool tsr_onnx_rule_softmax_loss(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), labels = tsr_onnx_in(c, 1);
    if (c->failed || !check_labels(c, x, labels)) return false;
    MlirValue logs = log_softmax(c, tsr_onnx_wide(c, x), 1);
    MlirValue y = reduce_loss(c, logs, labels, tsr_onnx_in_or_null(c, 2));
    tsr_onnx_out(c, 1, tsr_onnx_cast(c, logs, tsr_onnx_dtype(x)));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}
