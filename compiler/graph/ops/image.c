/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution and pooling of images [N, H, W, C]: shape rules, gradients, and convolutions that are
 * products.
 */
#include "compiler/graph/rules.h"
#include "compiler/ir/attributes.h"

#include <inttypes.h>

/* The windows over H and W (index 0 and 1). */
typedef struct windows {
    int64_t size[2], strides[2], dilation[2];
    int64_t low[2], high[2];
    size_t given; /* how many of image and filter are the op's operands 0 and 1 */
} windows;

static bool read_windows(const tsr_rule *rule, windows *out_windows) {
    windows w = {.dilation = {1, 1}};
    int64_t padding[4];
    if (!tsr_rule_i64s(rule, "strides", 2, 1, -1, w.strides) ||
        !tsr_rule_i64s(rule, "padding", 4, 0, -1, padding))
        return false;
    for (size_t i = 0; i < 2; i++) {
        w.low[i] = padding[2 * i];
        w.high[i] = padding[2 * i + 1];
    }
    *out_windows = w;
    return true;
}

/* An open dim may be too small for a window; that is checked when it is bound. */
static bool count_open(const tsr_rule *rule, const windows *w, size_t i, uint64_t dim,
                       uint64_t *out_count) {
    int64_t extent = 0, padded;
    tsr_dim_affine map = {.factor = 1, .divisor = w->strides[i]};
    bool fits = w->size[i] >= 1 &&
                !__builtin_mul_overflow(w->size[i] - 1, w->dilation[i], &extent) &&
                !__builtin_add_overflow(w->low[i], w->high[i], &padded) &&
                !__builtin_sub_overflow(padded, extent + 1, &map.offset) &&
                !__builtin_add_overflow(map.offset, map.divisor, &map.offset) &&
                tsr_dim_map(dim, &map, out_count);
    return fits || tsr_rule_fail_open(rule, "image", (uint32_t)i + 1, dim,
                                      "the number of windows cannot be expressed");
}

/* Counts the windows along H or W. */
static bool count_windows(const tsr_rule *rule, const windows *w, size_t i, uint64_t dim,
                          uint64_t *out_count) {
    uint64_t extent, padded;
    if (dim == TSR_DIM_DYNAMIC || w->size[i] < 0) {
        *out_count = TSR_DIM_DYNAMIC;
        return true;
    }
    if (tsr_dim_is_open(dim)) return count_open(rule, w, i, dim, out_count);
    bool fits =
        w->size[i] >= 1 &&
        !__builtin_mul_overflow((uint64_t)w->size[i] - 1, (uint64_t)w->dilation[i], &extent) &&
        !__builtin_add_overflow(dim, (uint64_t)w->low[i] + (uint64_t)w->high[i], &padded) &&
        extent < padded;
    if (!fits)
        return tsr_rule_fail_dims(
            rule, TSR_DIAG_WINDOW, w->given,
            (const tsr_rule_dim[]){{"image", 0, (uint32_t)i + 1}, {"filter", 1, (uint32_t)i}},
            "a window of %" PRId64 " by %" PRId64 " does not fit into dim %zu of %" PRIu64
            " with %" PRId64 " before and %" PRId64 " after it",
            w->size[i], w->dilation[i], i + 1, dim, w->low[i], w->high[i]);
    *out_count = (padded - extent - 1) / (uint64_t)w->strides[i] + 1;
    return true;
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* The type of image * filter. */
static bool conv_type(const tsr_rule *rule, const tsr_type *image, const tsr_type *filter,
                      tsr_type *out_type) {
    windows w;
    int64_t groups = 1;
    const uint64_t *f = filter->shape.dims, *x = image->shape.dims;
    tsr_type type = *image;
    char text[TSR_DIM_TEXT_MAX];
    if (!read_windows(rule, &w) || !tsr_rule_i64s(rule, "dilation", 2, 1, -1, w.dilation))
        return false;
    tsr_op_i64(rule->op, "groups", &groups);
    if (groups < 1)
        return tsr_rule_fail(rule, TSR_DIAG_INTEGER_LOW, "groups is %" PRId64 ", needs at least 1",
                             groups);
    bool given = image == &rule->operands[0] && filter == &rule->operands[1];
    w.given = given ? 2 : 0;
    for (size_t i = 0; i < 2; i++) {
        if (tsr_dim_is_open(f[i]))
            return tsr_rule_fail_open(rule, "filter", (uint32_t)i, f[i],
                                      "the size of a window must be known");
        w.size[i] = f[i] == TSR_DIM_DYNAMIC ? -1 : (int64_t)f[i];
        if (!count_windows(rule, &w, i, x[i + 1], &type.shape.dims[i + 1])) return false;
    }
    for (uint32_t i = 2; i < 4; i++)
        if (tsr_dim_is_open(f[i]))
            return tsr_rule_fail_open(rule, "filter", i, f[i],
                                      "the number of channels must be known");
    if (f[2] != TSR_DIM_DYNAMIC && !tsr_dim_fits(x[3], f[2] * (uint64_t)groups))
        return tsr_rule_fail_dims(rule, TSR_DIAG_CHANNELS, w.given,
                                  (const tsr_rule_dim[]){{"image", 0, 3}, {"filter", 1, 2}},
                                  "channels of the image, and of the filter times groups: %s and "
                                  "%" PRIu64 "; they must be equal",
                                  tsr_dim_text(x[3], text), f[2] * (uint64_t)groups);
    if (f[3] != TSR_DIM_DYNAMIC && f[3] % (uint64_t)groups)
        return tsr_rule_fail_dims(rule, TSR_DIAG_MULTIPLE, given, &(tsr_rule_dim){"filter", 1, 3},
                                  "%" PRIu64 " filters are not a multiple of %" PRId64 " groups",
                                  f[3], groups);
    type.shape.dims[3] = f[3];
    *out_type = type;
    return true;
}

static bool check_conv(const tsr_rule *rule, const char *a, const char *b) {
    return tsr_rule_dtype(rule, 0, a, TSR_DTYPES_FLOAT) && tsr_rule_same_dtype(rule, 0, a, 1, b) &&
           tsr_rule_rank(rule, 0, a, 4) && tsr_rule_rank(rule, 1, b, 4);
}

bool tsr_check_conv2d(tsr_rule *rule) {
    tsr_dtype dtype;
    if (!tsr_rule_factors(rule, "image", "filter", &dtype) || !tsr_rule_rank(rule, 0, "image", 4) ||
        !tsr_rule_rank(rule, 1, "filter", 4) ||
        !conv_type(rule, &rule->operands[0], &rule->operands[1], &rule->results[0]))
        return false;
    rule->results[0].dtype = dtype;
    return true;
}

/* The declared result is the image or the filter: with it, the convolution has the gradient's type.
 */
static bool check_conv_grad(tsr_rule *rule, const char *a, bool of_image) {
    tsr_type gradient;
    rule->results[0] = rule->declared[0];
    rule->results[0].dtype = rule->operands[0].dtype;
    if (!check_conv(rule, a, "the result's gradient")) return false;
    if (rule->declared[0].shape.rank != 4)
        return tsr_rule_fail(rule, TSR_DIAG_RESULT_RANK, "result has %" PRIu32 " dims, must have 4",
                             rule->declared[0].shape.rank);
    const tsr_type *image = of_image ? &rule->declared[0] : &rule->operands[0];
    const tsr_type *filter = of_image ? &rule->operands[0] : &rule->declared[0];
    return conv_type(rule, image, filter, &gradient) &&
           tsr_rule_shape(rule, 1, "the result's gradient", &gradient.shape);
}

bool tsr_check_conv2d_grad_input(tsr_rule *rule) { return check_conv_grad(rule, "filter", true); }

bool tsr_check_conv2d_grad_filter(tsr_rule *rule) { return check_conv_grad(rule, "image", false); }

/* All three are linear in each operand, and one another's gradients. */
static MlirValue conv(tsr_gradient *of, const char *name, MlirValue a, MlirValue b,
                      MlirValue like) {
    static const char *const names[] = {"strides", "padding", "dilation", "groups"};
    tsr_attr attrs[5] = {0};
    size_t count = 0;
    for (size_t i = 0; i < 4; i++)
        if (tsr_op_has(of->op, names[i]))
            attrs[count++] = (tsr_attr){names[i], tsr_op_attr(of->op, names[i])};
    return tsr_build_value(of->builder, name, (MlirValue[]){a, b}, 2, mlirValueGetType(like),
                           attrs);
}

#define CONV TSR_GRAPH_NAME("conv2d")
#define GRAD_INPUT TSR_GRAPH_NAME("conv2d_grad_input")
#define GRAD_FILTER TSR_GRAPH_NAME("conv2d_grad_filter")

bool tsr_gradient_conv2d(tsr_gradient *of) {
    MlirValue image = tsr_op_operand(of->op, 0), filter = tsr_op_operand(of->op, 1);
    if (of->wanted[0]) of->of_operands[0] = conv(of, GRAD_INPUT, filter, of->of_result, image);
    if (of->wanted[1]) of->of_operands[1] = conv(of, GRAD_FILTER, image, of->of_result, filter);
    return true;
}

bool tsr_gradient_conv2d_grad_input(tsr_gradient *of) {
    MlirValue filter = tsr_op_operand(of->op, 0), g = tsr_op_operand(of->op, 1);
    if (of->wanted[0]) of->of_operands[0] = conv(of, GRAD_FILTER, of->of_result, g, filter);
    if (of->wanted[1]) of->of_operands[1] = conv(of, CONV, of->of_result, filter, g);
    return true;
}

bool tsr_gradient_conv2d_grad_filter(tsr_gradient *of) {
    MlirValue image = tsr_op_operand(of->op, 0), g = tsr_op_operand(of->op, 1);
    if (of->wanted[0]) of->of_operands[0] = conv(of, GRAD_INPUT, of->of_result, g, image);
    if (of->wanted[1]) of->of_operands[1] = conv(of, CONV, image, of->of_result, g);
    return true;
}

/* One tap, no stride, no padding: a product of positions by channels with the filter. */
static bool is_pointwise(MlirOperation op, const tsr_type *filter) {
    int64_t strides[2] = {1, 1}, padding[4] = {0}, groups = 1;
    size_t counts[2] = {0};
    tsr_op_i64s(op, "strides", 2, strides, &counts[0]);
    tsr_op_i64s(op, "padding", 4, padding, &counts[1]);
    tsr_op_i64(op, "groups", &groups);
    return filter->shape.dims[0] == 1 && filter->shape.dims[1] == 1 && strides[0] == 1 &&
           strides[1] == 1 && !padding[0] && !padding[1] && !padding[2] && !padding[3] &&
           groups == 1;
}

bool tsr_conv_is_legal(MlirOperation op, bool is_native) {
    bool forward = tsr_op_is(op, TSR_GRAPH_CONV2D);
    tsr_type filter = tsr_type_of(tsr_op_operand(op, forward ? 1 : 0));
    if (forward && tsr_is_product_of_bytes(op)) return false;
    if (tsr_op_has(op, TSR_WORDS_NAME)) return true;
    if (!is_native && tsr_dtype_size(filter.dtype) < sizeof(float)) return true;
    return !is_pointwise(op, &filter);
}

bool tsr_lower_conv2d(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue image = tsr_op_operand(op, 0), filter = tsr_op_operand(op, 1);
    tsr_type type = tsr_type_of(filter);
    if (tsr_is_product_of_bytes(op) && !is_pointwise(op, &type)) {
        tsr_lower_conv2d_of_bytes(op);
        return true;
    }
    MlirValue y = tsr_emit_matmul(&b, image, filter, false, false);
    tsr_emit_replace(op, 1, &y);
    return true;
}

bool tsr_lower_conv2d_grad_input(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue filter = tsr_op_operand(op, 0), g = tsr_op_operand(op, 1);
    MlirValue dx = tsr_emit_matmul(&b, g, filter, false, true);
    tsr_emit_replace(op, 1, &dx);
    return true;
}

/* ---- pooling --------------------------------------------------------------------------------- */

/* The pooled type of an image. Padding is narrower than the window, so each window contains an
 * element. */
static bool pool_type(const tsr_rule *rule, const tsr_type *image, tsr_type *out_type) {
    windows w;
    tsr_type type = *image;
    if (!read_windows(rule, &w) || !tsr_rule_i64s(rule, "window", 2, 1, -1, w.size)) return false;
    w.dilation[0] = w.dilation[1] = 1;
    w.given = image == &rule->operands[0];
    for (size_t i = 0; i < 2; i++) {
        if (w.low[i] >= w.size[i] || w.high[i] >= w.size[i])
            return tsr_rule_fail(rule, TSR_DIAG_PADDING,
                                 "padding of %" PRId64 " and %" PRId64 " is not below the window "
                                 "of %" PRId64,
                                 w.low[i], w.high[i], w.size[i]);
        if (!count_windows(rule, &w, i, image->shape.dims[i + 1], &type.shape.dims[i + 1]))
            return false;
    }
    *out_type = type;
    return true;
}

bool tsr_check_pool(tsr_rule *rule) {
    return tsr_rule_dtype(rule, 0, "image", TSR_DTYPES_FLOAT) &&
           tsr_rule_rank(rule, 0, "image", 4) &&
           pool_type(rule, &rule->operands[0], &rule->results[0]);
}

bool tsr_check_max_pool2d_grad(tsr_rule *rule) {
    tsr_type pooled;
    rule->results[0] = rule->operands[0];
    return tsr_rule_dtype(rule, 0, "image", TSR_DTYPES_FLOAT) &&
           tsr_rule_rank(rule, 0, "image", 4) &&
           tsr_rule_same_dtype(rule, 0, "image", 1, "the result's gradient") &&
           pool_type(rule, &rule->operands[0], &pooled) &&
           tsr_rule_shape(rule, 1, "the result's gradient", &pooled.shape);
}

bool tsr_check_avg_pool2d_grad(tsr_rule *rule) {
    tsr_type pooled;
    rule->results[0] = rule->declared[0];
    rule->results[0].dtype = rule->operands[0].dtype;
    if (!tsr_rule_dtype(rule, 0, "the result's gradient", TSR_DTYPES_FLOAT)) return false;
    if (rule->declared[0].shape.rank != 4)
        return tsr_rule_fail(rule, TSR_DIAG_RESULT_RANK, "result has %" PRIu32 " dims, must have 4",
                             rule->declared[0].shape.rank);
    return pool_type(rule, &rule->declared[0], &pooled) &&
           tsr_rule_shape(rule, 0, "the result's gradient", &pooled.shape);
}

static size_t pool_attrs(MlirOperation op, tsr_attr attrs[static 5]) {
    static const char *const names[] = {"window", "strides", "padding", "exclude_padding"};
    size_t count = 0;
    for (size_t i = 0; i < 4; i++)
        if (tsr_op_has(op, names[i]))
            attrs[count++] = (tsr_attr){names[i], tsr_op_attr(op, names[i])};
    attrs[count] = (tsr_attr){0};
    return count;
}

bool tsr_gradient_max_pool2d(tsr_gradient *of) {
    MlirValue operands[] = {tsr_op_operand(of->op, 0), of->of_result};
    tsr_attr attrs[5];
    pool_attrs(of->op, attrs);
    if (of->wanted[0])
        of->of_operands[0] = tsr_build_value(of->builder, TSR_GRAPH_NAME("max_pool2d_grad"),
                                             operands, 2, mlirValueGetType(operands[0]), attrs);
    return true;
}

bool tsr_gradient_avg_pool2d(tsr_gradient *of) {
    tsr_attr attrs[5];
    pool_attrs(of->op, attrs);
    if (of->wanted[0])
        of->of_operands[0] =
            tsr_build_value(of->builder, TSR_GRAPH_NAME("avg_pool2d_grad"), &of->of_result, 1,
                            mlirValueGetType(tsr_op_operand(of->op, 0)), attrs);
    return true;
}

/* The gradient of a gradient is again a mean over windows. */
bool tsr_gradient_avg_pool2d_grad(tsr_gradient *of) {
    tsr_attr attrs[5];
    pool_attrs(of->op, attrs);
    if (of->wanted[0])
        of->of_operands[0] =
            tsr_build_value(of->builder, TSR_GRAPH_NAME("avg_pool2d"), &of->of_result, 1,
                            mlirValueGetType(tsr_op_operand(of->op, 0)), attrs);
    return true;
}

/* One position in each window, of an image with or without its padding. */
typedef struct window_taps {
    tsr_builder *b;
    int64_t window[2], strides[2], padding[4];
    tsr_shape pooled;
} window_taps;

static MlirValue padded(const window_taps *p, MlirValue image, double value) {
    const int64_t low[] = {0, p->padding[0], p->padding[2], 0};
    const int64_t high[] = {0, p->padding[1], p->padding[3], 0};
    return tsr_emit_pad(p->b, image, low, high, NULL, value);
}

/* One element of each window; all windows are inside the padded image. */
static MlirValue taken(const window_taps *p, MlirValue image, int64_t row, int64_t column) {
    const tsr_shape shape = tsr_type_of(image).shape;
    const int64_t start[] = {0, row, column, 0}, stride[] = {1, p->strides[0], p->strides[1], 1};
    const int64_t size[] = {(int64_t)shape.dims[0], (int64_t)p->pooled.dims[1],
                            (int64_t)p->pooled.dims[2], (int64_t)shape.dims[3]};
    return tsr_emit_slice(p->b, image, start, size, stride);
}

static MlirValue logic(tsr_builder *b, const char *name, MlirValue x, MlirValue y) {
    return tsr_emit_binary(b, name, x, y);
}

/* True if x is larger than the largest so far, or is the first NaN. */
static MlirValue is_larger(tsr_builder *b, MlirValue x, MlirValue largest) {
    MlirValue above = tsr_emit_compare(b, TSR_PREDICATE_GT, x, largest);
    MlirValue first = logic(b, TSR_GRAPH_NAME("and"), tsr_emit_compare(b, TSR_PREDICATE_NE, x, x),
                            tsr_emit_compare(b, TSR_PREDICATE_EQ, largest, largest));
    return logic(b, TSR_GRAPH_NAME("or"), above, first);
}

/* Picks from each window the element of `from` at the position of the image's first largest
 * element. Padding is never chosen: `inside` is true outside the padding. */
static MlirValue pick_largest(window_taps *p, MlirValue image, MlirValue from) {
    tsr_builder *b = p->b;
    tsr_type mask = tsr_type_of(image);
    mask.dtype = TSR_DTYPE_I1;
    mask.shape.dims[0] = mask.shape.dims[3] = 1;
    bool pads = p->padding[0] || p->padding[1] || p->padding[2] || p->padding[3];
    MlirValue whole = padded(p, image, 0.0), chosen = padded(p, from, 0.0), inside = {NULL};
    MlirValue largest = {NULL}, value = {NULL}, found = {NULL};
    if (pads) inside = padded(p, tsr_emit_filled(b, &mask, 1.0), 0.0);
    for (int64_t at = 0; at < p->window[0] * p->window[1]; at++) {
        int64_t row = at / p->window[1], column = at % p->window[1];
        MlirValue x = taken(p, whole, row, column), v = taken(p, chosen, row, column);
        MlirValue is = pads ? taken(p, inside, row, column) : inside;
        if (at == 0) {
            largest = x;
            value = v;
            found = is;
            continue;
        }
        MlirValue larger = is_larger(b, x, largest);
        if (pads) {
            MlirValue first = tsr_emit_unary(b, TSR_GRAPH_NAME("not"), found);
            larger =
                logic(b, TSR_GRAPH_NAME("and"), is, logic(b, TSR_GRAPH_NAME("or"), larger, first));
            found = logic(b, TSR_GRAPH_NAME("or"), found, is);
        }
        largest = tsr_emit_where(b, larger, x, largest);
        value = tsr_emit_where(b, larger, v, value);
    }
    return value;
}

bool tsr_gradient_max_pool2d_grad(tsr_gradient *of) {
    window_taps p = {.b = of->builder, .pooled = tsr_type_of(tsr_op_operand(of->op, 1)).shape};
    size_t counts[3];
    bool read = tsr_op_i64s(of->op, "window", 2, p.window, &counts[0]) &&
                tsr_op_i64s(of->op, "strides", 2, p.strides, &counts[1]) &&
                tsr_op_i64s(of->op, "padding", 4, p.padding, &counts[2]);
    TSR_ASSERT(read);
    if (of->wanted[1])
        of->of_operands[1] = pick_largest(&p, tsr_op_operand(of->op, 0), of->of_result);
    return true;
}

/* Linear in the gradient; where the largest ones are does not change. */
bool tsr_forward_max_pool2d_grad(tsr_tangent *of) {
    MlirValue operands[] = {tsr_op_operand(of->op, 0), of->of_operands[1]};
    tsr_attr attrs[5];
    pool_attrs(of->op, attrs);
    if (!mlirValueIsNull(operands[1]))
        of->of_results[0] = tsr_build_value(of->builder, tsr_op_name(of->op), operands, 2,
                                            mlirValueGetType(operands[0]), attrs);
    return true;
}
