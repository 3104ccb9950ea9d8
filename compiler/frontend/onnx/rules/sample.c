/* SPDX-License-Identifier: Apache-2.0
 *
 * Images sampled at computed positions, and sums of patches.
 */
#include "compiler/frontend/onnx/rules/windows.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <string.h>

/* ---- grids ----------------------------------------------------------------------------------- */

enum { DIMS_MAX = 3, TAPS_MAX = 4 };

typedef struct sampler {
    uint32_t dims;
    uint64_t sizes[DIMS_MAX];
    bool zeros, reflects, align;
    char mode; /* n, l or c: nearest, linear or cubic */
} sampler;

/* Reflects positions at the borders of a dim, as often as it takes. */
static MlirValue reflect(tsr_onnx_call *c, MlirValue x, double low, double high) {
    double range = high - low;
    MlirValue a = tsr_onnx_number(c, x, low), b = tsr_onnx_number(c, x, high);
    MlirValue below = tsr_onnx_compare(c, TSR_PREDICATE_LT, x, a);
    MlirValue above = tsr_onnx_compare(c, TSR_PREDICATE_GT, x, b);
    if (range <= 0) return EMIT(c, "min", EMIT(c, "max", x, a), b);
    MlirValue beyond = EMIT(c, "where", below, EMIT(c, "sub", a, x), EMIT(c, "sub", x, b));
    MlirValue size = tsr_onnx_number(c, x, range);
    MlirValue times = EMIT(c, "floor", EMIT(c, "div", beyond, size));
    MlirValue rest = EMIT(c, "sub", beyond, EMIT(c, "mul", times, size));
    MlirValue half = EMIT(c, "mul", times, tsr_onnx_number(c, x, 0.5));
    MlirValue even = tsr_onnx_compare(c, TSR_PREDICATE_EQ, EMIT(c, "floor", half), half);
    MlirValue from_low = EMIT(c, "add", a, rest), from_high = EMIT(c, "sub", b, rest);
    MlirValue low_side = tsr_onnx_compare(c, TSR_PREDICATE_EQ, even, below);
    MlirValue inside = EMIT(c, "where", low_side, from_low, from_high);
    return EMIT(c, "where", EMIT(c, "or", below, above), inside, x);
}

/* The coordinate of dim `d` in positions of the image, [N, P]; the grid has the last dim first. */
static MlirValue coordinate(tsr_onnx_call *c, const sampler *s, MlirValue grid, uint32_t d) {
    double size = (double)s->sizes[d];
    tsr_shape shape = tsr_onnx_type_of(grid).shape;
    MlirValue n = tsr_onnx_slice_dim(c, grid, 2, (int64_t)(s->dims - 1 - d), 1, 1);
    n = tsr_onnx_reshape(c, n, &(tsr_shape){.rank = 2, .dims = {shape.dims[0], shape.dims[1]}});
    n = EMIT(c, "add", n, ONE(c, n));
    MlirValue half = tsr_onnx_number(c, n, 0.5), x;
    if (s->align) {
        x = EMIT(c, "mul", EMIT(c, "mul", n, half), tsr_onnx_number(c, n, size - 1));
    } else {
        x = EMIT(c, "sub", EMIT(c, "mul", n, tsr_onnx_number(c, n, size)), ONE(c, n));
        x = EMIT(c, "mul", x, half);
    }
    if (s->mode == 'n') x = tsr_onnx_round(c, x);
    double low = s->align ? 0 : -0.5, high = s->align ? size - 1 : size - 0.5;
    if (s->reflects) return reflect(c, x, low, high);
    if (s->zeros) return x;
    MlirValue inner = EMIT(c, "max", x, ZERO(c, x));
    return EMIT(c, "min", inner, tsr_onnx_number(c, x, size - 1));
}

/* ((a d - b) d + e) d + f */
static MlirValue polynomial(tsr_onnx_call *c, MlirValue d, double a, double b, double e, double f) {
    MlirValue y = EMIT(c, "mul", d, tsr_onnx_number(c, d, a));
    y = EMIT(c, "mul", EMIT(c, "add", y, tsr_onnx_number(c, d, b)), d);
    y = EMIT(c, "mul", EMIT(c, "add", y, tsr_onnx_number(c, d, e)), d);
    return EMIT(c, "add", y, tsr_onnx_number(c, d, f));
}

/* Positions and weights of the taps of one dim; returns how many. */
static size_t make_taps(tsr_onnx_call *c, const sampler *s, MlirValue x, MlirValue *positions,
                        MlirValue *weights) {
    const double a = -0.75;
    MlirValue low = EMIT(c, "floor", x), t = EMIT(c, "sub", x, low), one = ONE(c, x);
    if (s->mode == 'n') {
        positions[0] = x;
        return 1;
    }
    size_t count = s->mode == 'l' ? 2 : 4;
    for (size_t k = 0; k < count; k++)
        positions[k] = EMIT(c, "add", low, tsr_onnx_number(c, x, (double)k - (count == 4 ? 1 : 0)));
    if (count == 2) {
        weights[0] = EMIT(c, "sub", one, t);
        weights[1] = t;
        return 2;
    }
    MlirValue u = EMIT(c, "sub", one, t);
    weights[0] = polynomial(c, EMIT(c, "add", t, one), a, -5 * a, 8 * a, -4 * a);
    weights[1] = polynomial(c, t, a + 2, -(a + 3), 0, 1);
    weights[2] = polynomial(c, u, a + 2, -(a + 3), 0, 1);
    weights[3] = polynomial(c, EMIT(c, "add", u, one), a, -5 * a, 8 * a, -4 * a);
    return 4;
}

/* A tap's position inside of the dim; *inside becomes null where padding is not zeros. */
static MlirValue clamp_tap(tsr_onnx_call *c, const sampler *s, uint32_t d, MlirValue position,
                           MlirValue *inside) {
    double size = (double)s->sizes[d];
    MlirValue last = tsr_onnx_number(c, position, size - 1), zero = ZERO(c, position);
    *inside = (MlirValue){NULL};
    if (s->zeros)
        *inside = EMIT(c, "and", tsr_onnx_compare(c, TSR_PREDICATE_GE, position, zero),
                       tsr_onnx_compare(c, TSR_PREDICATE_LE, position, last));
    if (s->reflects)
        position = tsr_onnx_truncate(
            c, reflect(c, position, s->align ? 0 : -0.5, s->align ? size - 1 : size - 0.5));
    return EMIT(c, "min", EMIT(c, "max", position, zero), last);
}

typedef struct tap_set {
    size_t count[DIMS_MAX];
    MlirValue positions[DIMS_MAX][TAPS_MAX], inside[DIMS_MAX][TAPS_MAX],
        weights[DIMS_MAX][TAPS_MAX];
} tap_set;

/* The elements [N, P, C] that one choice of taps meets, weighted. */
static MlirValue meet(tsr_onnx_call *c, const sampler *s, const tap_set *taps, size_t choice,
                      MlirValue image, uint64_t batch, uint64_t points) {
    MlirValue weight = {NULL}, inside = {NULL};
    MlirValue index = tsr_onnx_iota(c, TSR_DTYPE_I64, 2, 0, batch);
    const tsr_shape column = {.rank = 3, .dims = {batch, points, 1}};
    for (uint32_t d = 0; d < s->dims; d++) {
        size_t k = choice % taps->count[d];
        choice /= taps->count[d];
        MlirValue position = tsr_onnx_cast(c, taps->positions[d][k], TSR_DTYPE_I64);
        index = EMIT(c, "mul", index, tsr_onnx_number(c, index, (double)s->sizes[d]));
        index = EMIT(c, "add", index, position);
        MlirValue w = taps->weights[d][k], in = taps->inside[d][k];
        if (!mlirValueIsNull(w)) weight = mlirValueIsNull(weight) ? w : EMIT(c, "mul", weight, w);
        if (!mlirValueIsNull(in))
            inside = mlirValueIsNull(inside) ? in : EMIT(c, "and", inside, in);
    }
    MlirValue y = tsr_onnx_gather(c, image, index, 0);
    if (!mlirValueIsNull(weight))
        y = EMIT(c, "mul", y,
                 tsr_onnx_cast(c, tsr_onnx_reshape(c, weight, &column), tsr_onnx_dtype(y)));
    if (!mlirValueIsNull(inside))
        y = EMIT(c, "where", tsr_onnx_reshape(c, inside, &column), y, ZERO(c, y));
    return y;
}

static bool read_sampler(tsr_onnx_call *c, MlirValue x, MlirValue grid, sampler *s) {
    const char *mode = tsr_onnx_attr_s(c, "mode", "linear");
    const char *padding = tsr_onnx_attr_s(c, "padding_mode", "zeros");
    if (!tsr_onnx_need_rank(c, "the image", x, 3, 5) ||
        !tsr_onnx_need_rank(c, "the grid", grid, tsr_onnx_rank(x), tsr_onnx_rank(x)))
        return false;
    s->dims = tsr_onnx_rank(x) - 2;
    s->mode = mode[0] == 'b' ? (strcmp(mode, "bicubic") == 0 ? 'c' : 'l') : mode[0];
    s->zeros = padding[0] == 'z';
    s->reflects = padding[0] == 'r';
    s->align = tsr_onnx_attr_i(c, "align_corners", 0) != 0;
    for (uint32_t d = 0; d < s->dims; d++)
        if (!tsr_onnx_known_dim(c, "the image", x, d + 2, &s->sizes[d])) return false;
    if (!strchr("nlc", s->mode) || tsr_onnx_dim_of(grid, s->dims + 1) != s->dims ||
        tsr_onnx_dim_of(grid, 0) != tsr_onnx_dim_of(x, 0))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "the grid does not fit the image, or the mode "
                             "'%s' is unknown",
                             mode);
    return !c->failed;
}

bool tsr_onnx_rule_grid_sample(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), grid = tsr_onnx_in(c, 1), sum = {NULL};
    sampler s = {0};
    tap_set taps = {0};
    size_t choices = 1;
    if (!read_sampler(c, x, grid, &s)) return false;
    tsr_shape image = tsr_onnx_type_of(x).shape, out = tsr_onnx_type_of(grid).shape;
    uint64_t batch = image.dims[0], channels = image.dims[1];
    uint64_t points = tsr_onnx_volume(c, &out, 1, 1 + s.dims);
    uint64_t area = tsr_onnx_volume(c, &image, 2, 2 + s.dims);
    const tsr_shape rows = {.rank = 2, .dims = {tsr_onnx_times(c, batch, area), channels}};
    const tsr_shape list = {.rank = 3, .dims = {batch, points, s.dims}};
    MlirValue flat = tsr_onnx_reshape(c, tsr_onnx_channels_last(c, x), &rows);
    grid = tsr_onnx_reshape(c, tsr_onnx_wide(c, grid), &list);
    for (uint32_t d = 0; d < s.dims; d++) {
        taps.count[d] =
            make_taps(c, &s, coordinate(c, &s, grid, d), taps.positions[d], taps.weights[d]);
        for (size_t k = 0; k < taps.count[d]; k++)
            taps.positions[d][k] = clamp_tap(c, &s, d, taps.positions[d][k], &taps.inside[d][k]);
        choices *= taps.count[d];
    }
    for (size_t i = 0; i < choices && !c->failed; i++) {
        MlirValue part = meet(c, &s, &taps, i, flat, batch, points);
        sum = i ? EMIT(c, "add", sum, part) : part;
    }
    for (uint32_t d = 0; d < s.dims; d++) image.dims[d + 2] = out.dims[d + 1];
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, tsr_onnx_swap(c, sum, 1, 2), &image));
}

/* Theta [N, d, d + 1] times the positions of a grid from -1 to 1. */
bool tsr_onnx_rule_affine_grid(tsr_onnx_call *c) {
    MlirValue theta = tsr_onnx_in(c, 0);
    int64_t size[5];
    size_t count = 0;
    bool align = tsr_onnx_attr_i(c, "align_corners", 0) != 0;
    if (!tsr_onnx_need_rank(c, "theta", theta, 3, 3) ||
        !tsr_onnx_in_ints(c, 1, "size", 5, size, &count))
        return false;
    size_t dims = count - 2;
    if (count < 4 || tsr_onnx_dim_of(theta, 1) != dims || tsr_onnx_dim_of(theta, 2) != dims + 1)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "theta does not fit a size of %zu dims",
                             count);
    tsr_shape grid = {.rank = (uint32_t)dims + 2}, flat = {.rank = 2, .dims = {dims + 1, 1}};
    grid.dims[0] = tsr_onnx_dim_of(theta, 0);
    for (size_t d = 0; d < dims; d++) {
        if (size[d + 2] < 1 || size[d + 2] > 4096)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "a size of %" PRId64, size[d + 2]);
        grid.dims[d + 1] = (uint64_t)size[d + 2];
        flat.dims[1] *= grid.dims[d + 1];
    }
    grid.dims[dims + 1] = dims;
    double *positions = TSR_NEW(c->arena, double, (size_t)(flat.dims[0] * flat.dims[1]));
    TSR_NEED(positions);
    for (uint64_t p = 0; p < flat.dims[1]; p++) {
        uint64_t rest = p;
        for (size_t d = dims; d-- > 0; rest /= grid.dims[d + 1]) { /* the last dim comes first */
            double n = (double)grid.dims[d + 1], at = (double)(rest % grid.dims[d + 1]);
            double position = align ? -1 + 2 * at / (n - 1) : (2 * at + 1) / n - 1;
            positions[(dims - 1 - d) * flat.dims[1] + p] = align && n == 1 ? -1 : position;
        }
        positions[dims * flat.dims[1] + p] = 1;
    }
    MlirValue y =
        tsr_onnx_product(c, theta, tsr_onnx_numbers(c, tsr_onnx_dtype(theta), &flat, positions));
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, tsr_onnx_swap(c, y, 1, 2), &grid));
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Sums slices [count, …] into [size, …] by known positions; those that are negative are left out.
 */
static MlirValue scatter_known(tsr_onnx_call *c, MlirValue slices, size_t count, int64_t *positions,
                               uint64_t size) {
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", 0), {0}};
    tsr_shape shape = tsr_onnx_type_of(slices).shape;
    for (size_t i = 0; i < count; i++)
        if (positions[i] < 0) positions[i] = (int64_t)size; /* a position that is cut off */
    shape.dims[0] = size + 1;
    MlirValue sum =
        EMIT_WITH(c, "scatter_add", attrs, tsr_onnx_filled(c, tsr_onnx_dtype(slices), &shape, 0),
                  tsr_onnx_int_list(c, count, positions), slices);
    return tsr_onnx_slice_dim(c, sum, 0, 0, (int64_t)size, 1);
}

typedef struct patches {
    size_t dims;
    int64_t image[5], block[5], stride[5], dilation[5], low[5], count[5];
    uint64_t area, window, blocks;
} patches;

static bool read_patches(tsr_onnx_call *c, patches *p) {
    int64_t pads[10];
    size_t blocks = 0;
    if (!tsr_onnx_in_ints(c, 1, "image_shape", 5, p->image, &p->dims) ||
        !tsr_onnx_in_ints(c, 2, "block_shape", 5, p->block, &blocks) ||
        !tsr_onnx_attr_ints(c, "strides", p->dims, 1, p->stride) ||
        !tsr_onnx_attr_ints(c, "dilations", p->dims, 1, p->dilation) ||
        !tsr_onnx_attr_ints(c, "pads", 2 * p->dims, 0, pads))
        return false;
    p->area = p->window = p->blocks = 1;
    for (size_t d = 0; d < p->dims; d++) {
        int64_t extent = (p->block[d] - 1) * p->dilation[d] + 1;
        p->low[d] = pads[d];
        int64_t left = p->image[d] + pads[d] + pads[d + p->dims] - extent;
        bool fits = blocks == p->dims && p->block[d] > 0 && p->stride[d] > 0 && left >= 0 &&
                    p->image[d] > 0 && p->image[d] <= INT32_MAX;
        if (!fits) return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the blocks do not fit the image");
        p->count[d] = left / p->stride[d] + 1;
        p->area *= (uint64_t)p->image[d];
        p->window *= (uint64_t)p->block[d];
        p->blocks *= (uint64_t)p->count[d];
    }
    return true;
}

/* The position in the image of position `w` of block `b`; -1 in the padding. */
static int64_t patch_position(const patches *p, uint64_t w, uint64_t b) {
    int64_t position = 0, step = 1;
    for (size_t d = p->dims; d-- > 0;) {
        int64_t at = (int64_t)(b % (uint64_t)p->count[d]) * p->stride[d] +
                     (int64_t)(w % (uint64_t)p->block[d]) * p->dilation[d] - p->low[d];
        b /= (uint64_t)p->count[d];
        w /= (uint64_t)p->block[d];
        if (at < 0 || at >= p->image[d]) return -1;
        position += at * step;
        step *= p->image[d];
    }
    return position;
}

bool tsr_onnx_rule_col2im(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    patches p = {0};
    if (!tsr_onnx_need_rank(c, "the input", x, 3, 3) || !read_patches(c, &p)) return false;
    tsr_shape s = tsr_onnx_type_of(x).shape;
    uint64_t channels = s.dims[1] / p.window, total = p.window * p.blocks;
    if (s.dims[1] % p.window || s.dims[2] != p.blocks || p.dims + 2 > TSR_RANK_MAX ||
        total > TSR_ONNX_KNOWN_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "%" PRIu64 " by %" PRIu64 " columns do not fit the blocks", s.dims[1],
                             s.dims[2]);
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)total + 1);
    TSR_NEED(positions);
    for (uint64_t i = 0; i < total; i++)
        positions[i] = patch_position(&p, i / p.blocks, i % p.blocks);
    const tsr_shape split = {.rank = 3, .dims = {s.dims[0], channels, total}};
    const tsr_shape rows = {.rank = 2, .dims = {total, s.dims[0] * channels}};
    MlirValue slices =
        tsr_onnx_transpose(c, tsr_onnx_reshape(c, x, &split), (const int64_t[]){2, 0, 1});
    MlirValue sum =
        scatter_known(c, tsr_onnx_reshape(c, slices, &rows), (size_t)total, positions, p.area);
    tsr_shape out = {.rank = (uint32_t)p.dims + 2, .dims = {s.dims[0], channels}};
    for (size_t d = 0; d < p.dims; d++) out.dims[d + 2] = (uint64_t)p.image[d];
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, tsr_onnx_swap(c, sum, 0, 1), &out));
}

/* Values go back to the offsets that MaxPool gave. */
bool tsr_onnx_rule_max_unpool(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1);
    int64_t size[3], strides[3], pads[6], given[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_onnx_need_rank(c, "the image", x, 3, 5)) return false;
    uint32_t dims = tsr_onnx_rank(x) - 2;
    tsr_shape full = tsr_onnx_type_of(x).shape;
    if (!tsr_onnx_attr_ints(c, "kernel_shape", dims, 1, size) ||
        !tsr_onnx_attr_ints(c, "strides", dims, 1, strides) ||
        !tsr_onnx_attr_ints(c, "pads", 2 * (size_t)dims, 0, pads) ||
        (tsr_onnx_has(c, 2) &&
         !tsr_onnx_in_ints(c, 2, "output_shape", TSR_RANK_MAX, given, &count)))
        return false;
    tsr_shape inferred = full;
    for (uint32_t i = 0; i < dims; i++)
        inferred.dims[i + 2] = (uint64_t)((int64_t)(full.dims[i + 2] - 1) * strides[i] - pads[i] -
                                          pads[i + dims] + size[i]);
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", 0), {0}};
    uint64_t all = 0;
    if (!tsr_shape_count(&inferred, &all)) return false;
    const tsr_shape from = {.rank = 1, .dims = {tsr_onnx_count(x)}},
                    to = {.rank = 1, .dims = {all}};
    MlirValue y = EMIT_WITH(c, "scatter_add", attrs, tsr_onnx_filled(c, tsr_onnx_dtype(x), &to, 0),
                            tsr_onnx_reshape(c, indices, &from), tsr_onnx_reshape(c, x, &from));
    y = tsr_onnx_reshape(c, y, &inferred);
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    for (uint32_t i = 0; count == inferred.rank && i < count; i++) {
        high[i] = given[i] - (int64_t)inferred.dims[i];
        if (high[i] < 0)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "output_shape is smaller than the image");
    }
    return tsr_onnx_out(c, 0, tsr_onnx_pad(c, y, low, high, NULL, 0));
}
