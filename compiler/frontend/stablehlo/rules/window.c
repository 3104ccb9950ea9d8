/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over windows: one dim after the other, as a body of StableHLO is associative. Along a
 * dim, windows of 2, 4, 8 … positions are made of two of half the size, and any other window of
 * those, so that large windows need few ops.
 */
#include "compiler/frontend/stablehlo/rules/reduce.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct windows {
    uint32_t rank;
    int64_t size[TSR_RANK_MAX], stride[TSR_RANK_MAX], dilation[TSR_RANK_MAX], inside[TSR_RANK_MAX],
        low[TSR_RANK_MAX], high[TSR_RANK_MAX];
} windows;

static bool read_windows(tsr_hlo_call *c, windows *w) {
    int64_t padding[2 * TSR_RANK_MAX];
    w->rank = tsr_hlo_rank(c->in[0]);
    if (!tsr_hlo_ints_exact(c, "window_dimensions", NULL, w->rank, 1, w->size) ||
        !tsr_hlo_ints_exact(c, "window_strides", NULL, w->rank, 1, w->stride) ||
        !tsr_hlo_ints_exact(c, "window_dilations", NULL, w->rank, 1, w->dilation) ||
        !tsr_hlo_ints_exact(c, "base_dilations", NULL, w->rank, 1, w->inside))
        return false;
    MlirAttribute splat = tsr_hlo_attr(c, "padding", NULL);
    double value;
    if (!mlirAttributeIsNull(splat) && tsr_attr_splat(splat, &value))
        for (uint32_t i = 0; i < 2 * w->rank; i++) padding[i] = (int64_t)value;
    else if (!tsr_hlo_ints_exact(c, "padding", NULL, 2 * (size_t)w->rank, 0, padding))
        return false;
    for (uint32_t i = 0; i < w->rank; i++) {
        w->low[i] = padding[2 * i];
        w->high[i] = padding[2 * i + 1];
        w->inside[i]--;
        if (w->size[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 || w->inside[i] < 0)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "a size, stride or dilation of dim %u is below 1", i);
    }
    return true;
}

/* ---- one dim --------------------------------------------------------------------------------- */

/* Combines x at each position with y `offset` positions later. */
static bool combine_later(tsr_hlo_call *c, size_t count, const MlirValue *x, const MlirValue *y,
                          uint32_t dim, int64_t offset, int64_t size, MlirValue *out) {
    MlirValue a[TSR_HLO_REDUCED_MAX], b[TSR_HLO_REDUCED_MAX];
    for (size_t i = 0; i < count; i++) {
        a[i] = tsr_hlo_slice_dim(c, x[i], dim, 0, size, 1);
        b[i] = tsr_hlo_slice_dim(c, y[i], dim, offset, size, 1);
    }
    return tsr_hlo_combine(c, count, a, b, out);
}

/* Windows of w->size[dim] positions, at every position; x is padded. */
static bool slide(tsr_hlo_call *c, const windows *w, uint32_t dim, size_t count, MlirValue *x) {
    MlirValue power[TSR_HLO_REDUCED_MAX], made[TSR_HLO_REDUCED_MAX];
    int64_t length = (int64_t)tsr_hlo_dim(x[0], dim), step = w->dilation[dim], have = 0;
    memcpy(power, x, count * sizeof *x);
    for (int64_t bit = 1; bit <= w->size[dim] && !c->failed; bit *= 2) {
        if (w->size[dim] & bit) {
            int64_t size = length - (have + bit - 1) * step;
            if (have == 0)
                memcpy(made, power, count * sizeof *made);
            else if (!combine_later(c, count, made, power, dim, have * step, size, made))
                return false;
            have += bit;
        }
        int64_t size = length - (2 * bit - 1) * step;
        if (2 * bit <= w->size[dim] &&
            !combine_later(c, count, power, power, dim, bit * step, size, power))
            return false;
    }
    int64_t positions = length - (have - 1) * step, stride = w->stride[dim];
    int64_t size = (positions + stride - 1) / stride;
    for (size_t i = 0; i < count; i++)
        x[i] = tsr_hlo_slice_dim(c, made[i], dim, 0, size, size > 1 ? stride : 1);
    return !c->failed;
}

static bool pad_all(tsr_hlo_call *c, const windows *w, size_t count, MlirValue *x) {
    for (size_t i = 0; i < count; i++) {
        x[i] = tsr_hlo_pad(c, c->in[i], c->in[count + i], w->low, w->high, w->inside);
        for (uint32_t dim = 0; dim < w->rank && !c->failed; dim++) {
            int64_t covers = (w->size[dim] - 1) * w->dilation[dim] + 1;
            if (covers > (int64_t)tsr_hlo_dim(x[i], dim))
                return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                    "a window of %" PRId64
                                    " positions of dim %u, which has %" PRIu64 " with its padding",
                                    covers, dim, tsr_hlo_dim(x[i], dim));
        }
    }
    return !c->failed;
}

/* ---- ops of Graph IR ------------------------------------------------------------------------- */

/* A sum of everything before a position, or after it. */
static bool as_cumsum(tsr_hlo_call *c, const windows *w) {
    int64_t axis = -1;
    tsr_type x = tsr_hlo_type(c->in[0]);
    if (c->out_count != 1 || strcmp(tsr_hlo_body_op(c, 0), "add") != 0 ||
        !tsr_hlo_is_identity(c, c->in[1]) ||
        !(tsr_dtype_is_float(x.dtype) || tsr_dtype_bits(x.dtype) >= 32))
        return false;
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->size[i] == 1 && w->stride[i] == 1 && !w->low[i] && !w->high[i] && !w->inside[i])
            continue;
        int64_t size = (int64_t)x.shape.dims[i];
        if (axis >= 0 || w->size[i] != size || w->stride[i] != 1 || w->dilation[i] != 1 ||
            w->inside[i] || w->low[i] + w->high[i] != size - 1 || (w->low[i] && w->high[i]))
            return false;
        axis = i;
    }
    if (axis < 0) return false;
    tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "axis", axis),
                        {"reverse", tsr_attr_make_bool(c->builder->context, w->low[axis] == 0)},
                        {0}};
    return tsr_hlo_out(c, 0, EMIT_WITH(c, "cumsum", attrs, c->in[0]));
}

/* The two dims of an image along which windows lie, if no more are, and no dilation. */
static bool find_image(const windows *w, uint32_t out_dims[2]) {
    size_t count = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        bool plain = w->size[i] == 1 && w->stride[i] == 1 && !w->low[i] && !w->high[i];
        if (w->dilation[i] != 1 || w->inside[i] || w->low[i] < 0 || w->high[i] < 0 ||
            w->low[i] >= w->size[i] + plain || w->high[i] >= w->size[i] + plain ||
            (!plain && count == 2))
            return false;
        if (!plain) out_dims[count++] = i;
    }
    for (uint32_t i = w->rank; i-- > 0 && count < 2;)
        if (count == 0 || out_dims[0] != i) out_dims[count++] = i;
    if (count == 2 && out_dims[0] > out_dims[1]) {
        uint32_t first = out_dims[1];
        out_dims[1] = out_dims[0];
        out_dims[0] = first;
    }
    return count == 2;
}

/* [dims before, H, dims between, W, dims after] as [N, H, W, C]; `back` undoes it. */
static MlirValue to_image(tsr_hlo_call *c, MlirValue x, const uint32_t dims[2], int64_t *order) {
    tsr_shape s = tsr_hlo_type(x).shape, image = {.rank = 4, .dims = {1, 1, 1, 1}};
    uint32_t at = 0;
    for (uint32_t i = 0; i < dims[0]; i++) {
        order[at++] = i;
        image.dims[0] *= s.dims[i];
    }
    for (uint32_t i = dims[0] + 1; i < dims[1]; i++) {
        order[at++] = i;
        image.dims[0] *= s.dims[i];
    }
    order[at++] = dims[0];
    order[at++] = dims[1];
    image.dims[1] = s.dims[dims[0]];
    image.dims[2] = s.dims[dims[1]];
    for (uint32_t i = dims[1] + 1; i < s.rank; i++) {
        order[at++] = i;
        image.dims[3] *= s.dims[i];
    }
    return tsr_hlo_reshape(c, tsr_hlo_transpose(c, x, order), &image);
}

static MlirValue from_image(tsr_hlo_call *c, MlirValue image, const int64_t *order,
                            const tsr_shape *shape) {
    int64_t back[TSR_RANK_MAX];
    tsr_shape moved = {.rank = shape->rank};
    for (uint32_t i = 0; i < shape->rank; i++) {
        moved.dims[i] = shape->dims[order[i]];
        back[order[i]] = i;
    }
    return tsr_hlo_transpose(c, tsr_hlo_reshape(c, image, &moved), back);
}

static void image_attrs(const tsr_hlo_call *c, const windows *w, const uint32_t dims[2],
                        tsr_attr out_attrs[4]) {
    int64_t size[2], stride[2], padding[4];
    for (size_t i = 0; i < 2; i++) {
        size[i] = w->size[dims[i]];
        stride[i] = w->stride[dims[i]];
        padding[2 * i] = w->low[dims[i]];
        padding[2 * i + 1] = w->high[dims[i]];
    }
    out_attrs[0] = tsr_hlo_i64s_attr(c, "window", 2, size);
    out_attrs[1] = tsr_hlo_i64s_attr(c, "strides", 2, stride);
    out_attrs[2] = tsr_hlo_i64s_attr(c, "padding", 4, padding);
    out_attrs[3] = (tsr_attr){0};
}

static bool as_max_pool(tsr_hlo_call *c, const windows *w) {
    uint32_t dims[2];
    int64_t order[TSR_RANK_MAX];
    tsr_attr attrs[4];
    if (c->out_count != 1 || w->rank < 2 || !tsr_hlo_is_float(c->in[0]) ||
        strcmp(tsr_hlo_body_op(c, 0), "maximum") != 0 || !tsr_hlo_is_identity(c, c->in[1]) ||
        !find_image(w, dims))
        return false;
    MlirValue image = to_image(c, c->in[0], dims, order);
    image_attrs(c, w, dims, attrs);
    image = EMIT_WITH(c, "max_pool2d", attrs, image);
    return tsr_hlo_out(c, 0, from_image(c, image, order, &c->types[0].shape));
}

bool tsr_hlo_rule_reduce_window(tsr_hlo_call *c) {
    windows w;
    size_t count = c->out_count;
    MlirValue x[TSR_HLO_REDUCED_MAX];
    if (c->in_count != 2 * count || count == 0 || count > TSR_HLO_REDUCED_MAX)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu operands and %zu results",
                            c->in_count, count);
    if (!read_windows(c, &w)) return false;
    if (as_cumsum(c, &w) || as_max_pool(c, &w) || c->failed) return !c->failed;
    if (!pad_all(c, &w, count, x)) return false;
    for (uint32_t dim = 0; dim < w.rank; dim++)
        if (!slide(c, &w, dim, count, x)) return false;
    if (count == 1 && tsr_hlo_is_identity(c, c->in[1])) return tsr_hlo_out(c, 0, x[0]);
    MlirValue init[TSR_HLO_REDUCED_MAX];
    for (size_t i = 0; i < count; i++)
        init[i] = tsr_hlo_broadcast(c, c->in[count + i], &c->types[i].shape);
    return tsr_hlo_combine(c, count, init, x, c->out);
}

/* ---- the gradient of max pooling ------------------------------------------------------------- */

/* True if region 0 selects the first largest element, and region 1 adds. */
static bool selects_largest(tsr_hlo_call *c) {
    MlirBlock select = tsr_hlo_block(c, 0, 2);
    if (mlirBlockIsNull(select)) return false;
    MlirOperation op = mlirBlockGetFirstOperation(select);
    tsr_hlo_call inner = *c;
    inner.op = op;
    const char *word = tsr_hlo_word(&inner, "comparison_direction", 0);
    bool first = tsr_op_is_named(op, "stablehlo.compare") && word && strcmp(word, "GE") == 0 &&
                 mlirValueEqual(tsr_op_operand(op, 0), mlirBlockGetArgument(select, 0)) &&
                 mlirValueEqual(tsr_op_operand(op, 1), mlirBlockGetArgument(select, 1));
    return first && strcmp(tsr_hlo_body_op(c, 1), "add") == 0;
}

bool tsr_hlo_rule_select_and_scatter(tsr_hlo_call *c) {
    windows w;
    uint32_t dims[2];
    int64_t order[TSR_RANK_MAX];
    tsr_attr attrs[4];
    double zero = 1;
    if (!read_windows(c, &w)) return false;
    if (!selects_largest(c) || !tsr_hlo_splat(c->in[2], &zero) || zero != 0 || w.rank < 2 ||
        !find_image(&w, dims) || !tsr_hlo_is_float(c->in[0]))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                            "it is not the gradient of max pooling over two dims: a selection by "
                            "'compare GE', a sum from 0");
    MlirValue image = to_image(c, c->in[0], dims, order);
    MlirValue gradient = to_image(c, c->in[1], dims, order);
    image_attrs(c, &w, dims, attrs);
    image = EMIT_WITH(c, "max_pool2d_grad", attrs, image, gradient);
    return tsr_hlo_out(c, 0, from_image(c, image, order, &c->types[0].shape));
}
