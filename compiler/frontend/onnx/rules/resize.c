/* SPDX-License-Identifier: Apache-2.0
 *
 * Resize and Upsample, one axis after the other: each result is a weighted sum of a few positions
 * of the axis, whose numbers and weights are known when the model is imported.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { TAPS_MAX = 256 };

typedef struct resize {
    const char *mode, *nearest, *transform, *policy;
    double cubic, extrapolation;
    bool antialias, exclude_outside;
    bool by_sizes;
    double scales[TSR_RANK_MAX], roi[2 * TSR_RANK_MAX];
    int64_t sizes[TSR_RANK_MAX];
} resize;

/* The position along the axis that result `at` shows. */
static double origin(const resize *r, uint32_t axis, uint32_t rank, int64_t at, int64_t in,
                     int64_t out) {
    double scale = r->scales[axis], width = scale * (double)in, x = (double)at;
    double begin = r->roi[axis], end = r->roi[rank + axis];
    if (strcmp(r->transform, "align_corners") == 0)
        return width == 1 ? 0 : x * ((double)in - 1) / (width - 1);
    if (strcmp(r->transform, "asymmetric") == 0) return x / scale;
    if (strcmp(r->transform, "pytorch_half_pixel") == 0)
        return width == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
    if (strcmp(r->transform, "tf_half_pixel_for_nn") == 0) return (x + 0.5) / scale;
    if (strcmp(r->transform, "half_pixel_symmetric") == 0)
        return (double)in / 2 * (1 - (double)out / width) + (x + 0.5) / scale - 0.5;
    if (strcmp(r->transform, "tf_crop_and_resize") == 0)
        return begin * ((double)in - 1) +
               (width == 1 ? (end - begin) * ((double)in - 1) / 2
                           : x * (end - begin) * ((double)in - 1) / (width - 1));
    return (x + 0.5) / scale - 0.5;
}

static double cubic_weight(double a, double x) {
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Weights of the positions around an origin whose fraction is `ratio`, in (0, 1]; returns how many.
 */
static size_t weights_of(const resize *r, double scale, double ratio, double *out) {
    double shrink = r->antialias && scale < 1 ? scale : 1, sum = 0;
    if (strcmp(r->mode, "nearest") == 0) {
        bool up = ratio == 1 || (strcmp(r->nearest, "round_prefer_floor") == 0 ? ratio > 0.5
                                 : strcmp(r->nearest, "round_prefer_ceil") == 0
                                     ? ratio >= 0.5
                                     : strcmp(r->nearest, "ceil") == 0);
        out[0] = !up;
        out[1] = up;
        return 2;
    }
    bool is_cubic = strcmp(r->mode, "cubic") == 0;
    double radius = is_cubic ? 2 : 1;
    int64_t first = (int64_t)floor(-radius / shrink) + 1, last = 1 - first;
    size_t count = (size_t)(last - first + 1);
    if (count > TAPS_MAX) return 0;
    for (int64_t i = first; i <= last; i++) {
        double x = shrink * ((double)i - ratio), w = 1 - fabs(x);
        out[i - first] = is_cubic ? cubic_weight(r->cubic, x) : w < 0 ? 0 : w;
        sum += out[i - first];
    }
    for (size_t i = 0; i < count && shrink < 1; i++) out[i] /= sum;
    return count;
}

typedef struct taps {
    size_t count;       /* of each result */
    double *weights;    /* [count][out] */
    int64_t *positions; /* [count][out] */
    double *outside;    /* [out]: 1 where the result is the extrapolation value */
    bool any_outside;
} taps;

/* Positions and weights of all results of an axis. */
static bool make_taps(tsr_onnx_call *c, const resize *r, uint32_t axis, uint32_t rank, int64_t in,
                      int64_t out, taps *t) {
    double w[TAPS_MAX];
    t->count = weights_of(r, r->scales[axis], 0.5, w);
    if (!t->count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "axis %u shrinks by more than can be filtered",
                             axis);
    t->weights = TSR_NEW(c->arena, double, t->count *(size_t)out + 1);
    t->positions = TSR_NEW(c->arena, int64_t, t->count * (size_t)out + 1);
    t->outside = TSR_NEW(c->arena, double, (size_t)out + 1);
    TSR_NEED(t->weights && t->positions && t->outside ? c : NULL);
    for (int64_t at = 0; at < out; at++) {
        double x = origin(r, axis, rank, at, in, out), low = floor(x);
        double ratio = x == low ? 1 : x - low, sum = 0;
        int64_t first = (int64_t)(x == low ? low - 1 : low) - (int64_t)(t->count / 2 - 1);
        size_t count = weights_of(r, r->scales[axis], ratio, w);
        bool crops = strcmp(r->transform, "tf_crop_and_resize") == 0;
        t->outside[at] = crops && (x < 0 || x > (double)in - 1);
        t->any_outside = t->any_outside || t->outside[at] != 0;
        for (size_t k = 0; k < count; k++) {
            int64_t position = first + (int64_t)k;
            if (r->exclude_outside && (position < 0 || position >= in)) w[k] = 0;
            sum += w[k];
        }
        for (size_t k = 0; k < count; k++) {
            int64_t position = first + (int64_t)k;
            position = position < 0 ? 0 : position >= in ? in - 1 : position;
            t->positions[k * (size_t)out + (size_t)at] = position;
            t->weights[k * (size_t)out + (size_t)at] =
                r->exclude_outside && sum != 0 ? w[k] / sum : w[k];
        }
    }
    return true;
}

/* For the nearest position: the number of the one that counts. */
static void take_nearest(taps *t, int64_t out) {
    for (int64_t at = 0; at < out; at++)
        if (t->weights[at] == 0) t->positions[at] = t->positions[(size_t)out + (size_t)at];
    t->count = 1;
}

static MlirValue resize_axis(tsr_onnx_call *c, const resize *r, MlirValue x, uint32_t axis,
                             int64_t out) {
    uint32_t rank = tsr_onnx_rank(x);
    uint64_t size = 0;
    taps t = {0};
    MlirValue sum = {NULL};
    tsr_shape row = {.rank = rank, .dims = {1, 1, 1, 1, 1, 1, 1, 1}};
    row.dims[axis] = (uint64_t)out;
    if (!tsr_onnx_known_dim(c, "the input", x, axis, &size)) return (MlirValue){NULL};
    int64_t in = (int64_t)size;
    if (in == 0 || !make_taps(c, r, axis, rank, in, out, &t)) return (MlirValue){NULL};
    bool nearest = strcmp(r->mode, "nearest") == 0;
    if (nearest) take_nearest(&t, out);
    for (size_t k = 0; k < t.count && !c->failed; k++) {
        MlirValue positions = tsr_onnx_int_list(c, (size_t)out, t.positions + k * (size_t)out);
        MlirValue part = tsr_onnx_gather(c, x, positions, axis);
        if (!nearest)
            part = EMIT(c, "mul", part,
                        tsr_onnx_numbers(c, tsr_onnx_dtype(x), &row, t.weights + k * (size_t)out));
        sum = k ? EMIT(c, "add", sum, part) : part;
    }
    if (!t.any_outside) return sum;
    MlirValue outside =
        tsr_onnx_cast(c, tsr_onnx_numbers(c, TSR_DTYPE_F32, &row, t.outside), TSR_DTYPE_I1);
    return EMIT(c, "where", outside, tsr_onnx_number(c, sum, r->extrapolation), sum);
}

/* ---- reading the node ------------------------------------------------------------------------ */

static bool read_floats(tsr_onnx_call *c, size_t input, const char *what, size_t count,
                        double *out) {
    const tsr_onnx_known *known = tsr_onnx_in_known(c, input, what);
    if (!known) return false;
    if (known->count != count || !known->is_float)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                             "input %zu (%s) has %" PRIu64 " elements; expected %zu floats", input,
                             what, known->count, count);
    memcpy(out, known->floats, count * sizeof *out);
    return true;
}

static bool is_empty(const tsr_onnx_call *c, size_t input) {
    return !tsr_onnx_has(c, input) || tsr_onnx_count(c->inputs[input]) == 0;
}

/* Sizes keep the aspect ratio where the policy says so. */
static void fit_aspect(resize *r, size_t count, const uint32_t *axes, const tsr_shape *shape) {
    double scale = 0;
    for (size_t i = 0; i < count; i++) {
        double s = r->scales[axes[i]];
        bool takes = i == 0 || (strcmp(r->policy, "not_larger") == 0 ? s < scale : s > scale);
        if (takes) scale = s;
    }
    for (size_t i = 0; i < count && strcmp(r->policy, "stretch") != 0; i++) {
        r->scales[axes[i]] = scale;
        r->sizes[axes[i]] = (int64_t)(scale * (double)shape->dims[axes[i]] + 0.5);
    }
}

/* An open dim keeps its size. */
static bool pass_open(tsr_onnx_call *c, resize *r, uint32_t axis, uint64_t dim,
                      const tsr_dim_expression *size, double scale) {
    tsr_dim_expression is = tsr_dim_to_expression(c->arena, dim);
    int64_t number = 1;
    bool same = r->by_sizes ? tsr_dim_expression_subtract(&is, size, &is) &&
                                  tsr_dim_expression_is_number(&is, &number) && number == 0
                            : scale == 1;
    if (!same || strcmp(r->policy, "stretch") != 0)
        return tsr_onnx_fail_open(c, "a dim of the input", dim, "another size is computed from it");
    r->scales[axis] = 1;
    r->sizes[axis] = (int64_t)dim;
    return true;
}

static bool read_sizes(tsr_onnx_call *c, resize *r, size_t count, const uint32_t *axes,
                       const tsr_shape *shape) {
    bool old = c->opset < 11;
    size_t scales = old ? 1 : 2;
    tsr_dim_expression sizes[TSR_RANK_MAX];
    double numbers[2 * TSR_RANK_MAX] = {0};
    size_t given = 0;
    r->by_sizes = !old && is_empty(c, 2);
    if (r->by_sizes) {
        if (!tsr_onnx_in_sizes(c, 3, "sizes", TSR_RANK_MAX, sizes, &given)) return false;
        if (given != count)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "%zu sizes for %zu axes", given, count);
    } else if (!read_floats(c, scales, "scales", count, numbers)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        double dim = (double)shape->dims[axes[i]];
        int64_t size = 0;
        if (tsr_dim_is_open(shape->dims[axes[i]])) {
            if (pass_open(c, r, axes[i], shape->dims[axes[i]], &sizes[i], numbers[i])) continue;
            return false;
        }
        if (r->by_sizes && !tsr_dim_expression_is_number(&sizes[i], &size))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_OPEN,
                                 "the size of axis %u depends on open dims; give them sizes: --dim "
                                 "NAME=SIZE",
                                 axes[i]);
        r->scales[axes[i]] = r->by_sizes ? (double)size / dim : numbers[i];
        r->sizes[axes[i]] = r->by_sizes ? size : (int64_t)floor(numbers[i] * dim);
        bool fits = r->sizes[axes[i]] >= 1 && r->sizes[axes[i]] <= INT32_MAX;
        if (!fits)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "axis %u would have %" PRId64, axes[i],
                                 r->sizes[axes[i]]);
    }
    if (r->by_sizes) fit_aspect(r, count, axes, shape);
    if (strcmp(r->transform, "tf_crop_and_resize") != 0) return true;
    if (!read_floats(c, 1, "roi", 2 * count, numbers)) return false;
    for (size_t i = 0; i < count; i++) {
        r->roi[axes[i]] = numbers[i];
        r->roi[shape->rank + axes[i]] = numbers[count + i];
    }
    return true;
}

static bool check_words(tsr_onnx_call *c, const resize *r) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const transforms[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
        "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
    bool mode = false, transform = false;
    for (size_t i = 0; i < TSR_COUNT(modes); i++) mode = mode || strcmp(r->mode, modes[i]) == 0;
    for (size_t i = 0; i < TSR_COUNT(transforms); i++)
        transform = transform || strcmp(r->transform, transforms[i]) == 0;
    return (mode && transform) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                         "attributes 'mode' and 'coordinate_transformation_mode' are '%s' and '%s'",
                         r->mode, r->transform);
}

bool tsr_onnx_rule_resize(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    bool old = c->opset < 11;
    uint32_t axes[TSR_RANK_MAX];
    int64_t given[TSR_RANK_MAX];
    size_t count = shape.rank;
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, "axes");
    resize r = {.mode = tsr_onnx_attr_s(c, "mode", "nearest"),
                .nearest = tsr_onnx_attr_s(c, "nearest_mode", old ? "floor" : "round_prefer_floor"),
                .transform = tsr_onnx_attr_s(c, "coordinate_transformation_mode",
                                             old ? "asymmetric" : "half_pixel"),
                .policy = tsr_onnx_attr_s(c, "keep_aspect_ratio_policy", "stretch"),
                .cubic = tsr_onnx_attr_f(c, "cubic_coeff_a", -0.75),
                .extrapolation = tsr_onnx_attr_f(c, "extrapolation_value", 0),
                .antialias = tsr_onnx_attr_i(c, "antialias", 0) != 0,
                .exclude_outside = tsr_onnx_attr_i(c, "exclude_outside", 0) != 0};
    if (c->failed || !check_words(c, &r)) return false;
    for (uint32_t i = 0; i < shape.rank; i++) axes[i] = i;
    if (a) {
        count = a->ints.count < TSR_RANK_MAX ? a->ints.count : TSR_RANK_MAX;
        if (!tsr_onnx_attr_ints(c, "axes", count, 0, given)) return false;
        for (size_t i = 0; i < count; i++)
            if (!tsr_onnx_axis(c, "axes", given[i], shape.rank, &axes[i])) return false;
    }
    if (!read_sizes(c, &r, count, axes, &shape)) return false;
    bool nearest = strcmp(r.mode, "nearest") == 0;
    MlirValue y = nearest ? x : tsr_onnx_wide(c, x);
    if (!nearest && !tsr_onnx_is_float(y)) y = tsr_onnx_cast(c, y, TSR_DTYPE_F32);
    for (size_t i = 0; i < count; i++) {
        bool whole = fabs(r.scales[axes[i]] - 1) < 1e-9 &&
                     r.sizes[axes[i]] == (int64_t)shape.dims[axes[i]] &&
                     strcmp(r.transform, "tf_crop_and_resize") != 0;
        if (!whole) y = resize_axis(c, &r, y, axes[i], r.sizes[axes[i]]);
    }
    if (!nearest && !tsr_onnx_is_float(x)) y = tsr_onnx_round(c, y);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}
