/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions. Graph IR has those of images [N, H, W, C]: a dim is added to rows of samples, and
 * volumes are sums over the depth of the filter. Transposes around them are moved together later.
 */
#include "compiler/frontend/onnx/rules/quantized.h"

#include <inttypes.h>
#include <string.h>

/* ---- windows --------------------------------------------------------------------------------- */

/* SAME: as many windows as strides fit; what is missing is padded on both sides. */
static void pad_same(tsr_onnx_windows *w, uint32_t i, int64_t dim, bool upper) {
    int64_t count = (dim + w->stride[i] - 1) / w->stride[i];
    int64_t extent = (w->size[i] - 1) * w->dilation[i] + 1;
    int64_t missing = (count - 1) * w->stride[i] + extent - dim;
    missing = missing < 0 ? 0 : missing;
    w->low[i] = upper ? missing / 2 : missing - missing / 2;
    w->high[i] = missing - w->low[i];
}

static bool count_windows(tsr_onnx_call *c, tsr_onnx_windows *w, uint32_t i, int64_t dim,
                          bool ceils) {
    int64_t extent = (w->size[i] - 1) * w->dilation[i] + 1;
    int64_t padded = dim + w->low[i] + w->high[i], stride = w->stride[i];
    if (w->size[i] < 1 || extent > padded)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "a window of %" PRId64 " by %" PRId64
                             " does not fit into a dim of %" PRId64 " with %" PRId64
                             " before and %" PRId64 " after it",
                             w->size[i], w->dilation[i], dim, w->low[i], w->high[i]);
    int64_t count = (padded - extent) / stride + 1;
    if (ceils && (padded - extent) % stride) {
        /* a last window, unless it would begin in the padding at the end */
        if (count * stride < dim + w->low[i]) count++;
    }
    int64_t covered = (count - 1) * stride + extent;
    w->over[i] = covered > padded ? covered - padded : 0;
    w->out[i] = (uint64_t)count;
    return true;
}

/* The same for an open dim. With a stride of 1, SAME pads any dim alike, and all windows fit. */
static bool count_open(tsr_onnx_call *c, tsr_onnx_windows *w, uint32_t i, uint64_t dim,
                       const char *auto_pad, bool ceils) {
    int64_t extent = (w->size[i] - 1) * w->dilation[i] + 1, stride = w->stride[i];
    if (stride > 1 && (ceils || strncmp(auto_pad, "SAME", 4) == 0))
        return tsr_onnx_fail_open(c, "a dim of the image", dim,
                                  "the number of windows with auto_pad or ceil_mode needs its "
                                  "size");
    if (strncmp(auto_pad, "SAME", 4) == 0)
        pad_same(w, i, extent, strcmp(auto_pad, "SAME_UPPER") == 0);
    if (strcmp(auto_pad, "VALID") == 0) w->low[i] = w->high[i] = 0;
    const tsr_dim_affine map = {1, w->low[i] + w->high[i] - extent + stride, stride};
    return w->size[i] >= 1 && tsr_dim_map(dim, &map, &w->out[i]);
}

static bool read_lists(tsr_onnx_call *c, tsr_onnx_windows *w) {
    int64_t pads[6];
    if (!tsr_onnx_attr_ints(c, "strides", w->count, 1, w->stride) ||
        !tsr_onnx_attr_ints(c, "dilations", w->count, 1, w->dilation) ||
        !tsr_onnx_attr_ints(c, "pads", 2 * (size_t)w->count, 0, pads))
        return false;
    for (uint32_t i = 0; i < w->count; i++) {
        w->low[i] = pads[i];
        w->high[i] = pads[i + w->count];
        bool fits = w->stride[i] > 0 && w->dilation[i] > 0 && w->low[i] >= 0 && w->high[i] >= 0 &&
                    w->stride[i] <= INT32_MAX && w->dilation[i] <= INT32_MAX &&
                    w->low[i] <= INT32_MAX && w->high[i] <= INT32_MAX && w->size[i] <= INT32_MAX;
        if (!fits)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                 "strides and dilations must be positive, pads not negative");
    }
    return true;
}

bool tsr_onnx_read_windows(tsr_onnx_call *c, MlirValue x, const int64_t *size,
                           tsr_onnx_windows *out_windows) {
    tsr_onnx_windows w = {0};
    if (!tsr_onnx_need_rank(c, "the image", x, 3, 5)) return false;
    w.count = tsr_onnx_rank(x) - 2;
    memcpy(w.size, size, w.count * sizeof *size);
    const char *word = tsr_onnx_attr_s(c, "auto_pad", "NOTSET");
    bool ceils = tsr_onnx_attr_i(c, "ceil_mode", 0) != 0, is_same = strncmp(word, "SAME", 4) == 0;
    if (!read_lists(c, &w)) return false;
    for (uint32_t i = 0; i < w.count; i++) {
        uint64_t size_of = tsr_onnx_dim_of(x, i + 2);
        if (tsr_dim_is_open(size_of)) {
            if (count_open(c, &w, i, size_of, word, ceils)) continue;
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "windows do not fit into the image");
        }
        int64_t dim = (int64_t)size_of;
        if (is_same) pad_same(&w, i, dim, strcmp(word, "SAME_UPPER") == 0);
        if (strcmp(word, "VALID") == 0) w.low[i] = w.high[i] = 0;
        if (!count_windows(c, &w, i, dim, ceils)) return false;
    }
    *out_windows = w;
    return !c->failed;
}

/* ---- order of dims --------------------------------------------------------------------------- */

MlirValue tsr_onnx_channels_last(tsr_onnx_call *c, MlirValue x) {
    int64_t permutation[TSR_RANK_MAX] = {0};
    uint32_t rank = tsr_onnx_rank(x);
    for (uint32_t i = 1; i < rank; i++) permutation[i] = i + 1 < rank ? i + 1 : 1;
    return tsr_onnx_transpose(c, x, permutation);
}

MlirValue tsr_onnx_channels_first(tsr_onnx_call *c, MlirValue x) {
    int64_t permutation[TSR_RANK_MAX] = {0};
    uint32_t rank = tsr_onnx_rank(x);
    for (uint32_t i = 1; i < rank; i++) permutation[i] = i > 1 ? i - 1 : rank - 1;
    return tsr_onnx_transpose(c, x, permutation);
}

MlirValue tsr_onnx_per_channel(tsr_onnx_call *c, MlirValue x, uint32_t rank) {
    tsr_shape is = tsr_onnx_type_of(x).shape;
    tsr_shape shape = {.rank = rank > 1 ? rank - 1 : 1,
                       .dims = {tsr_onnx_volume(c, &is, 0, is.rank), 1, 1, 1, 1, 1, 1, 1}};
    return tsr_onnx_reshape(c, x, &shape);
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* Attributes for dims `from` and the one after it; a dim that is absent has size 1. */
static void conv_attrs(tsr_onnx_call *c, const tsr_onnx_windows *w, uint32_t from, int64_t groups,
                       tsr_attr out[static 5]) {
    int64_t strides[2] = {1, 1}, dilation[2] = {1, 1}, padding[4] = {0};
    for (uint32_t i = from; i < w->count; i++) {
        uint32_t at = w->count == 1 ? 1 : i - from;
        strides[at] = w->stride[i];
        dilation[at] = w->dilation[i];
        padding[2 * at] = w->low[i];
        padding[2 * at + 1] = w->high[i];
    }
    out[0] = tsr_onnx_i64s_attr(c, "strides", 2, strides);
    out[1] = tsr_onnx_i64s_attr(c, "padding", 4, padding);
    out[2] = tsr_onnx_i64s_attr(c, "dilation", 2, dilation);
    out[3] = tsr_onnx_i64_attr(c, "groups", groups);
    out[4] = (tsr_attr){0};
}

/* [A, B, L] to [A, B, 1, L] */
static MlirValue add_height(tsr_onnx_call *c, MlirValue x) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    return tsr_onnx_reshape(c, x,
                            &(tsr_shape){.rank = 4, .dims = {s.dims[0], s.dims[1], 1, s.dims[2]}});
}

static MlirValue drop_height(tsr_onnx_call *c, MlirValue x) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    return tsr_onnx_reshape(c, x,
                            &(tsr_shape){.rank = 3, .dims = {s.dims[0], s.dims[1], s.dims[3]}});
}

/* [F, C, KH, KW] to [KH, KW, C, F] */
static MlirValue relayout_filter(tsr_onnx_call *c, MlirValue filter) {
    return tsr_onnx_transpose(c, filter, (const int64_t[]){2, 3, 1, 0});
}

/* The positions that depth `k` of the filter meets, as images: [N OD, C, H, W]. */
static MlirValue slice_depth(tsr_onnx_call *c, MlirValue x, const tsr_onnx_windows *w, int64_t k) {
    tsr_shape s = tsr_onnx_type_of(x).shape;
    x = tsr_onnx_slice_open(c, x, 2, (uint64_t)(k * w->dilation[0]), w->out[0], w->stride[0]);
    x = tsr_onnx_transpose(c, x, (const int64_t[]){0, 2, 1, 3, 4});
    const tsr_shape images = {
        .rank = 4,
        .dims = {tsr_onnx_times(c, s.dims[0], w->out[0]), s.dims[1], s.dims[3], s.dims[4]}};
    return tsr_onnx_reshape(c, x, &images);
}

static MlirValue conv_volume(tsr_onnx_call *c, MlirValue x, MlirValue filter,
                             const tsr_onnx_windows *w, int64_t groups) {
    int64_t low[TSR_RANK_MAX] = {0, 0, w->low[0]}, high[TSR_RANK_MAX] = {0, 0, w->high[0]};
    tsr_attr attrs[5];
    MlirValue sum = {NULL};
    uint64_t batch = tsr_onnx_dim_of(x, 0);
    conv_attrs(c, w, 1, groups, attrs);
    x = tsr_onnx_pad(c, x, low, high, NULL, 0);
    for (int64_t k = 0; k < w->size[0] && !c->failed; k++) {
        tsr_shape s = tsr_onnx_type_of(filter).shape;
        const tsr_shape flat = {.rank = 4, .dims = {s.dims[0], s.dims[1], s.dims[3], s.dims[4]}};
        MlirValue part = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, filter, 2, k, 1, 1), &flat);
        MlirValue image = tsr_onnx_channels_last(c, slice_depth(c, x, w, k));
        MlirValue y = EMIT_WITH(c, "conv2d", attrs, image, relayout_filter(c, part));
        sum = k ? EMIT(c, "add", sum, y) : y;
    }
    tsr_shape s = tsr_onnx_type_of(sum).shape;
    const tsr_shape full = {.rank = 5, .dims = {batch, w->out[0], s.dims[1], s.dims[2], s.dims[3]}};
    return tsr_onnx_channels_first(c, tsr_onnx_reshape(c, sum, &full));
}

MlirValue tsr_onnx_conv(tsr_onnx_call *c, MlirValue x, MlirValue filter,
                        const tsr_onnx_windows *windows, int64_t groups) {
    tsr_attr attrs[5];
    if (c->failed) return (MlirValue){NULL};
    if (windows->count == 3) return conv_volume(c, x, filter, windows, groups);
    bool is_row = windows->count == 1;
    conv_attrs(c, windows, 0, groups, attrs);
    if (is_row) {
        x = add_height(c, x);
        filter = add_height(c, filter);
    }
    MlirValue y =
        EMIT_WITH(c, "conv2d", attrs, tsr_onnx_channels_last(c, x), relayout_filter(c, filter));
    y = tsr_onnx_channels_first(c, y);
    return is_row ? drop_height(c, y) : y;
}

bool tsr_onnx_filter_sizes(tsr_onnx_call *c, MlirValue filter, int64_t out_sizes[static 3]) {
    for (uint32_t i = 0; i < tsr_onnx_rank(filter); i++) {
        uint64_t size = 0;
        if (!tsr_onnx_known_dim(c, "the filter", filter, i, &size)) return false;
        if (i >= 2) out_sizes[i - 2] = (int64_t)size;
    }
    return true;
}

/* Reads the windows of a filter [.., .., K1 … Kn]. */
static bool read_filter(tsr_onnx_call *c, MlirValue x, MlirValue filter, tsr_onnx_windows *w) {
    int64_t size[3] = {0};
    if (!tsr_onnx_need_rank(c, "the image", x, 3, 5) ||
        !tsr_onnx_need_rank(c, "the filter", filter, tsr_onnx_rank(x), tsr_onnx_rank(x)))
        return false;
    return tsr_onnx_filter_sizes(c, filter, size) && tsr_onnx_read_windows(c, x, size, w);
}

static MlirValue add_bias(tsr_onnx_call *c, MlirValue y, MlirValue bias) {
    if (mlirValueIsNull(bias)) return y;
    return EMIT(c, "add", y, tsr_onnx_per_channel(c, bias, tsr_onnx_rank(y)));
}

bool tsr_onnx_rule_conv(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), filter = tsr_onnx_in(c, 1);
    tsr_onnx_windows w;
    if (!read_filter(c, x, filter, &w)) return false;
    MlirValue y = tsr_onnx_quantized_conv(c, x, filter, &w);
    if (mlirValueIsNull(y)) y = tsr_onnx_conv(c, x, filter, &w, tsr_onnx_attr_i(c, "group", 1));
    return tsr_onnx_out(c, 0, add_bias(c, y, tsr_onnx_in_or_null(c, 2)));
}

/* ---- transposed convolution ------------------------------------------------------------------ */

/* Sizes of the result, and the padding of the convolution whose gradient it is. */
static bool read_transposed(tsr_onnx_call *c, MlirValue x, tsr_onnx_windows *w) {
    int64_t extra[3], given[3] = {0};
    const char *word = tsr_onnx_attr_s(c, "auto_pad", "NOTSET");
    const tsr_onnx_attribute *shape = tsr_onnx_attr(c, "output_shape");
    if (!read_lists(c, w) || !tsr_onnx_attr_ints(c, "output_padding", w->count, 0, extra))
        return false;
    size_t count = shape ? shape->ints.count : 0; /* with N and C, or without */
    for (size_t i = 0; i < w->count && count >= w->count; i++)
        given[i] = TSR_ONNX_INT(shape->ints, count - w->count + i);
    for (uint32_t i = 0; i < w->count; i++) {
        uint64_t size_of = 0;
        if (!tsr_onnx_known_dim(c, "the image", x, i + 2, &size_of)) return false;
        int64_t dim = (int64_t)size_of, stride = w->stride[i];
        int64_t extent = (w->size[i] - 1) * w->dilation[i] + 1;
        int64_t whole = stride * (dim - 1) + extra[i] + extent;
        if (strcmp(word, "VALID") == 0) w->low[i] = w->high[i] = 0;
        bool is_same = strncmp(word, "SAME", 4) == 0;
        int64_t size = shape ? given[i] : dim * stride;
        if (shape || is_same) {
            int64_t total = whole - size;
            total = total < 0 ? 0 : total; /* zeros follow what is missing */
            w->low[i] = strcmp(word, "SAME_UPPER") == 0 ? total / 2 : total - total / 2;
            if (shape && !is_same) w->low[i] = total / 2;
            w->high[i] = total - w->low[i];
        }
        size = shape || is_same ? size : whole - w->low[i] - w->high[i];
        w->out[i] = (uint64_t)size;
        if (size < 1 || extra[i] < 0 || dim < 1)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the result has a dim of %" PRId64, size);
    }
    return true;
}

/* The gradient of a convolution by its image has the size that the convolution would give x: with
 * more padding at the end than a stride the image is made larger, and cut or filled. */
static MlirValue conv_transposed(tsr_onnx_call *c, MlirValue x, MlirValue filter,
                                 const tsr_onnx_windows *w, int64_t groups) {
    tsr_attr attrs[5];
    tsr_type type = tsr_onnx_type_of(x);
    uint64_t channels = tsr_onnx_dim_of(filter, 1) * (uint64_t)groups;
    tsr_onnx_windows plain = *w;
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    type.shape = (tsr_shape){.rank = 4, .dims = {tsr_onnx_dim_of(x, 0), 1, 1, channels}};
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t at = w->count == 1 ? 2 : i + 1;
        int64_t extent = (w->size[i] - 1) * w->dilation[i] + 1;
        int64_t dim = (int64_t)tsr_onnx_dim_of(x, w->count == 1 ? 3 : i + 2);
        plain.low[i] = plain.high[i] = 0;
        type.shape.dims[at] = (uint64_t)(w->stride[i] * (dim - 1) + extent);
        low[at] = w->low[i];
        high[at] = (int64_t)w->out[i];
    }
    conv_attrs(c, &plain, 0, groups, attrs);
    MlirValue operands[] = {relayout_filter(c, filter), tsr_onnx_channels_last(c, x)};
    MlirValue y = tsr_onnx_emit(c, TSR_GRAPH_NAME("conv2d_grad_input"), operands, 2, attrs, &type);
    for (uint32_t i = 1; i < 3 && !c->failed; i++) {
        int64_t size = (int64_t)tsr_onnx_dim_of(y, i), zero[TSR_RANK_MAX] = {0};
        int64_t wanted = high[i] ? high[i] : size, missing = low[i] + wanted - size;
        int64_t more[TSR_RANK_MAX] = {0};
        more[i] = missing > 0 ? missing : 0;
        y = tsr_onnx_pad(c, y, zero, more, NULL, 0);
        y = tsr_onnx_slice_dim(c, y, i, low[i], wanted, 1);
    }
    return tsr_onnx_channels_first(c, y);
}

/* [N, C, D, H, W] as images: each depth of the filter makes a part of the result, whose slices are
 * a stride apart and begin at its distance. */
static MlirValue conv_transposed_volume(tsr_onnx_call *c, MlirValue x, MlirValue filter,
                                        const tsr_onnx_windows *w, int64_t groups) {
    tsr_onnx_windows flat = {.count = 2};
    tsr_shape s = tsr_onnx_type_of(x).shape, f = tsr_onnx_type_of(filter).shape;
    const tsr_shape images = {
        .rank = 4,
        .dims = {tsr_onnx_times(c, s.dims[0], s.dims[2]), s.dims[1], s.dims[3], s.dims[4]}};
    const tsr_shape part = {.rank = 4, .dims = {f.dims[0], f.dims[1], f.dims[3], f.dims[4]}};
    int64_t depth = (int64_t)s.dims[2], reach = (w->size[0] - 1) * w->dilation[0];
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    const int64_t apart[TSR_RANK_MAX] = {0, w->stride[0] - 1};
    MlirValue sum = {NULL};
    for (uint32_t i = 0; i < 2; i++) {
        flat.size[i] = w->size[i + 1];
        flat.stride[i] = w->stride[i + 1];
        flat.dilation[i] = w->dilation[i + 1];
        flat.low[i] = w->low[i + 1];
        flat.high[i] = w->high[i + 1];
        flat.out[i] = w->out[i + 1];
    }
    x = tsr_onnx_reshape(c, tsr_onnx_transpose(c, x, (const int64_t[]){0, 2, 1, 3, 4}), &images);
    for (int64_t k = 0; k < w->size[0] && !c->failed; k++) {
        MlirValue of_depth = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, filter, 2, k, 1, 1), &part);
        MlirValue y = conv_transposed(c, x, of_depth, &flat, groups);
        tsr_shape made = tsr_onnx_type_of(y).shape;
        y = tsr_onnx_reshape(
            c, y,
            &(tsr_shape){.rank = 5,
                         .dims = {s.dims[0], s.dims[2], made.dims[1], made.dims[2], made.dims[3]}});
        low[1] = k * w->dilation[0];
        high[1] = reach - low[1];
        y = tsr_onnx_pad(c, y, low, high, apart, 0);
        sum = k ? EMIT(c, "add", sum, y) : y;
    }
    int64_t missing = w->low[0] + (int64_t)w->out[0] - ((depth - 1) * w->stride[0] + reach + 1);
    low[1] = 0;
    high[1] = missing > 0 ? missing : 0;
    sum = tsr_onnx_pad(c, sum, low, high, NULL, 0);
    sum = tsr_onnx_slice_dim(c, sum, 1, w->low[0], (int64_t)w->out[0], 1);
    return tsr_onnx_transpose(c, sum, (const int64_t[]){0, 2, 1, 3, 4});
}

bool tsr_onnx_rule_conv_transpose(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), filter = tsr_onnx_in(c, 1);
    int64_t groups = tsr_onnx_attr_i(c, "group", 1);
    tsr_onnx_windows w = {0};
    if (!tsr_onnx_need_rank(c, "the image", x, 3, 5) ||
        !tsr_onnx_need_rank(c, "the filter", filter, tsr_onnx_rank(x), tsr_onnx_rank(x)))
        return false;
    w.count = tsr_onnx_rank(x) - 2;
    uint64_t channels = 0;
    if (!tsr_onnx_filter_sizes(c, filter, w.size) ||
        !tsr_onnx_known_dim(c, "the image", x, 1, &channels))
        return false;
    if (groups < 1 || channels != tsr_onnx_dim_of(filter, 0) || channels % (uint64_t)groups)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "the filter does not fit to %" PRIu64 " channels in %" PRId64
                             " groups",
                             channels, groups);
    if (!read_transposed(c, x, &w)) return false;
    MlirValue y = w.count == 1
                      ? conv_transposed(c, add_height(c, x), add_height(c, filter), &w, groups)
                  : w.count == 3 ? conv_transposed_volume(c, x, filter, &w, groups)
                                 : conv_transposed(c, x, filter, &w, groups);
    if (w.count == 1) y = drop_height(c, y);
    return tsr_onnx_out(c, 0, add_bias(c, y, tsr_onnx_in_or_null(c, 2)));
}
