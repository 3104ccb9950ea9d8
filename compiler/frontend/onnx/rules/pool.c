/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling. Windows over images without dilation are ops of Graph IR; all others are taken apart:
 * one dim after the other, the positions that each step of the window meets are combined.
 */
#include "compiler/frontend/onnx/rules/windows.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The value that changes no largest one: -inf, or the lowest integer. */
static double lowest(tsr_dtype dtype) {
    return tsr_dtype_is_float(dtype) ? -(double)INFINITY : (double)tsr_dtype_lowest(dtype);
}

/* Combines the positions of each window along one dim by `op`. */
static MlirValue pool_dim(tsr_onnx_call *c, MlirValue x, const tsr_onnx_windows *w, uint32_t i,
                          const char *op, double fill) {
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    MlirValue y = {NULL};
    low[i + 2] = w->low[i];
    high[i + 2] = w->high[i] + w->over[i];
    x = tsr_onnx_pad(c, x, low, high, NULL, fill);
    for (int64_t k = 0; k < w->size[i] && !c->failed; k++) {
        MlirValue part = tsr_onnx_slice_open(c, x, i + 2, (uint64_t)(k * w->dilation[i]), w->out[i],
                                             w->stride[i]);
        y = k ? tsr_onnx_emit(c, op, (MlirValue[]){y, part}, 2, NULL, NULL) : part;
    }
    return y;
}

static MlirValue pool_all(tsr_onnx_call *c, MlirValue x, const tsr_onnx_windows *w, const char *op,
                          double fill) {
    for (uint32_t i = 0; i < w->count; i++) x = pool_dim(c, x, w, i, op, fill);
    return x;
}

/* True if an op of Graph IR pools these windows. */
static bool is_plain(const tsr_onnx_windows *w, MlirValue x) {
    bool plain = w->count == 2 && tsr_onnx_is_float(x);
    for (uint32_t i = 0; i < w->count; i++)
        plain = plain && w->dilation[i] == 1 && w->over[i] == 0 && w->low[i] < w->size[i] &&
                w->high[i] < w->size[i];
    return plain;
}

static MlirValue pool_image(tsr_onnx_call *c, MlirValue x, const tsr_onnx_windows *w,
                            const char *op, bool excludes) {
    const int64_t padding[] = {w->low[0], w->high[0], w->low[1], w->high[1]};
    tsr_attr attrs[5] = {tsr_onnx_i64s_attr(c, "window", 2, w->size),
                         tsr_onnx_i64s_attr(c, "strides", 2, w->stride),
                         tsr_onnx_i64s_attr(c, "padding", 4, padding)};
    if (excludes) attrs[3] = (tsr_attr){"exclude_padding", tsr_attr_make_unit(c->builder->context)};
    MlirValue last = tsr_onnx_channels_last(c, x);
    return tsr_onnx_channels_first(c, tsr_onnx_emit(c, op, &last, 1, attrs, NULL));
}

static bool read_kernel(tsr_onnx_call *c, MlirValue x, tsr_onnx_windows *w) {
    int64_t size[3];
    return tsr_onnx_need_rank(c, "the image", x, 3, 5) &&
           tsr_onnx_attr_ints(c, "kernel_shape", tsr_onnx_rank(x) - 2, 1, size) &&
           tsr_onnx_read_windows(c, x, size, w);
}

/* ---- largest --------------------------------------------------------------------------------- */

/* The offset of the largest position of each window: all steps of the window, in row-major order.
 */
static MlirValue max_positions(tsr_onnx_call *c, MlirValue x, const tsr_onnx_windows *w,
                               bool column_major) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0}, steps = 1;
    MlirValue offset = {NULL}, best = {NULL}, position = {NULL};
    uint64_t step = 1;
    for (uint32_t i = 0; i < w->count; i++) {
        low[i + 2] = w->low[i];
        high[i + 2] = w->high[i] + w->over[i];
        steps *= w->size[i];
    }
    for (uint32_t k = 0; k < shape.rank; k++) { /* innermost dim first */
        bool spatial = k < w->count;
        uint32_t i = spatial && column_major ? 2 + k : shape.rank - 1 - k;
        MlirValue at = tsr_onnx_iota(c, TSR_DTYPE_I64, shape.rank, i, shape.dims[i]);
        at = EMIT(c, "mul", at, tsr_onnx_dim_number(c, at, step));
        offset = k ? EMIT(c, "add", offset, at) : at;
        step = tsr_onnx_times(c, step, shape.dims[i]);
    }
    offset = tsr_onnx_pad(c, tsr_onnx_broadcast(c, offset, &shape), low, high, NULL, 0);
    x = tsr_onnx_pad(c, x, low, high, NULL, lowest(tsr_onnx_dtype(x)));
    for (int64_t k = 0; k < steps && !c->failed; k++) {
        MlirValue value = x, from = offset;
        int64_t rest = k;
        for (uint32_t i = w->count; i-- > 0; rest /= w->size[i]) {
            uint64_t start = (uint64_t)(rest % w->size[i] * w->dilation[i]);
            value = tsr_onnx_slice_open(c, value, i + 2, start, w->out[i], w->stride[i]);
            from = tsr_onnx_slice_open(c, from, i + 2, start, w->out[i], w->stride[i]);
        }
        MlirValue above = k ? tsr_onnx_compare(c, TSR_PREDICATE_GT, value, best) : best;
        position = k ? EMIT(c, "where", above, from, position) : from;
        best = k ? EMIT(c, "max", best, value) : value;
    }
    return position;
}

bool tsr_onnx_rule_max_pool(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_onnx_windows w;
    if (!read_kernel(c, x, &w)) return false;
    if (tsr_onnx_wants(c, 1)) {
        if (tsr_dtype_is_unsigned(tsr_onnx_dtype(x)))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_OUTPUT,
                                 "output 1 (Indices) of unsigned integers");
        tsr_onnx_out(c, 1, max_positions(c, x, &w, tsr_onnx_attr_i(c, "storage_order", 0) != 0));
    }
    MlirValue y = is_plain(&w, x)
                      ? pool_image(c, x, &w, TSR_GRAPH_NAME("max_pool2d"), false)
                      : pool_all(c, x, &w, TSR_GRAPH_NAME("max"), lowest(tsr_onnx_dtype(x)));
    return tsr_onnx_out(c, 0, y);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* How many positions each window has that count: all but padding, or all but what ceil_mode adds.
 */
static MlirValue window_counts(tsr_onnx_call *c, MlirValue x, const tsr_onnx_windows *w,
                               bool with_padding) {
    MlirValue counts = ONE(c, x);
    for (uint32_t i = 0; i < w->count; i++) {
        tsr_shape shape = {.rank = tsr_onnx_rank(x), .dims = {1, 1, 1, 1, 1, 1, 1, 1}};
        double numbers[4096];
        uint64_t size_of = 0;
        if (!tsr_onnx_known_dim(c, "the image", x, i + 2, &size_of)) return counts;
        int64_t dim = (int64_t)size_of, windows = (int64_t)w->out[i];
        if (windows > 4096)
            return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "more than 4096 windows");
        for (int64_t o = 0; o < windows; o++) {
            numbers[o] = 0;
            for (int64_t k = 0; k < w->size[i]; k++) {
                int64_t at = o * w->stride[i] + k * w->dilation[i] - w->low[i];
                bool inside = at >= 0 && at < dim;
                bool padded = at >= -w->low[i] && at < dim + w->high[i];
                numbers[o] += with_padding ? padded : inside;
            }
        }
        shape.dims[i + 2] = w->out[i];
        counts = EMIT(c, "mul", counts, tsr_onnx_numbers(c, tsr_onnx_dtype(x), &shape, numbers));
    }
    return counts;
}

bool tsr_onnx_rule_average_pool(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    bool with_padding = tsr_onnx_attr_i(c, "count_include_pad", 0) != 0;
    tsr_onnx_windows w;
    if (!read_kernel(c, x, &w)) return false;
    if (is_plain(&w, x))
        return tsr_onnx_out(c, 0,
                            pool_image(c, x, &w, TSR_GRAPH_NAME("avg_pool2d"), !with_padding));
    MlirValue wide = tsr_onnx_wide(c, x);
    MlirValue sums = pool_all(c, wide, &w, TSR_GRAPH_NAME("add"), 0);
    MlirValue y = EMIT(c, "div", sums, window_counts(c, wide, &w, with_padding));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}

/* (sum of |x|^p)^(1/p) */
static MlirValue root_of_powers(tsr_onnx_call *c, MlirValue sum, double p) {
    if (p == 1) return sum;
    if (p == 2) return EMIT(c, "sqrt", sum);
    return EMIT(c, "pow", sum, tsr_onnx_number(c, sum, 1 / p));
}

static MlirValue powers(tsr_onnx_call *c, MlirValue x, double p) {
    if (p == 1) return EMIT(c, "abs", x);
    if (p == 2) return EMIT(c, "mul", x, x);
    return EMIT(c, "pow", EMIT(c, "abs", x), tsr_onnx_number(c, x, p));
}

bool tsr_onnx_rule_lp_pool(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    double p = (double)tsr_onnx_attr_i(c, "p", 2);
    tsr_onnx_windows w;
    if (!read_kernel(c, x, &w)) return false;
    MlirValue sums = pool_all(c, powers(c, tsr_onnx_wide(c, x), p), &w, TSR_GRAPH_NAME("add"), 0);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, root_of_powers(c, sums, p), tsr_onnx_dtype(x)));
}

bool tsr_onnx_rule_global_pool(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), y;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_onnx_need_rank(c, "the image", x, 2, TSR_RANK_MAX)) return false;
    for (uint32_t i = 2; i < tsr_onnx_rank(x); i++) axes[count++] = i;
    if (c->row->with[0] == 'l') {
        double p = (double)tsr_onnx_attr_i(c, "p", 2);
        MlirValue each = powers(c, tsr_onnx_wide(c, x), p);
        y = tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), each, count, axes, true);
        y = tsr_onnx_cast(c, root_of_powers(c, y, p), tsr_onnx_dtype(x));
    } else {
        const char *op =
            c->row->with[0] == 'm' ? TSR_GRAPH_NAME("reduce_max") : TSR_GRAPH_NAME("mean");
        y = tsr_onnx_reduce(c, op, x, count, axes, true);
    }
    return tsr_onnx_out(c, 0, y);
}
