/* SPDX-License-Identifier: Apache-2.0
 *
 * Images sampled between their elements for detection: RoiAlign, DeformConv.
 */
#include "compiler/frontend/onnx/rules/windows.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- taps ------------------------------------------------------------------------------------ */

/* One of the two elements between which a position of a dim is, and its weight. */
typedef struct tap {
    MlirValue index; /* i64, inside of the dim */
    MlirValue weight;
} tap;

static MlirValue is_between(tsr_onnx_call *c, MlirValue x, double low, double high) {
    return EMIT(c, "and", tsr_onnx_compare(c, TSR_PREDICATE_GE, x, tsr_onnx_number(c, x, low)),
                tsr_onnx_compare(c, TSR_PREDICATE_LE, x, tsr_onnx_number(c, x, high)));
}

static MlirValue limited(tsr_onnx_call *c, MlirValue x, double low, double high) {
    return EMIT(c, "min", EMIT(c, "max", x, tsr_onnx_number(c, x, low)),
                tsr_onnx_number(c, x, high));
}

/* The taps of position `x`. An element outside of the dim counts as 0. */
static void make_taps(tsr_onnx_call *c, MlirValue x, uint64_t size, tap taps[static 2]) {
    MlirValue low = EMIT(c, "floor", x), t = EMIT(c, "sub", x, low);
    double last = (double)size - 1;
    for (size_t k = 0; k < 2; k++) {
        MlirValue at = k ? EMIT(c, "add", low, ONE(c, low)) : low;
        MlirValue weight = k ? t : EMIT(c, "sub", ONE(c, t), t);
        weight = EMIT(c, "where", is_between(c, at, 0, last), weight, ZERO(c, weight));
        taps[k] = (tap){tsr_onnx_cast(c, limited(c, at, 0, last), TSR_DTYPE_I64), weight};
    }
}

/* a * number + b, of indices */
static MlirValue index_of(tsr_onnx_call *c, MlirValue a, uint64_t number, MlirValue b) {
    return EMIT(c, "add", EMIT(c, "mul", a, tsr_onnx_number(c, a, (double)number)), b);
}

static MlirValue add_dim(tsr_onnx_call *c, MlirValue x) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    shape.dims[shape.rank++] = 1;
    return tsr_onnx_reshape(c, x, &shape);
}

/* What `combine` makes of the four weighted elements around each position: "add" or "max". `rows`
 * is [images * height * width, channels]; `image` numbers the image of each position. */
static MlirValue sample(tsr_onnx_call *c, MlirValue rows, MlirValue image, uint64_t height,
                        uint64_t width, const tap *y, const tap *x, bool takes_max) {
    MlirValue all = {NULL};
    for (size_t i = 0; i < 4 && !c->failed; i++) {
        const tap *of_y = &y[i / 2], *of_x = &x[i % 2];
        MlirValue index = index_of(c, index_of(c, image, height, of_y->index), width, of_x->index);
        MlirValue weight = add_dim(c, EMIT(c, "mul", of_y->weight, of_x->weight));
        MlirValue part = EMIT(c, "mul", tsr_onnx_gather(c, rows, index, 0), weight);
        if (i == 0)
            all = part;
        else
            all = takes_max ? EMIT(c, "max", all, part) : EMIT(c, "add", all, part);
    }
    return all;
}

/* ---- RoiAlign -------------------------------------------------------------------------------- */

typedef struct regions {
    uint64_t count, size[2]; /* size: of the image, and so on: y first */
    int64_t bins[2], samples[2];
    double scale, offset;
    bool takes_max, at_least_1;
} regions;

/* A number of samples for each bin of all regions: the attribute, or one that known regions agree
 * on. */
static bool read_samples(tsr_onnx_call *c, regions *r) {
    int64_t given = tsr_onnx_attr_i(c, "sampling_ratio", 0);
    r->samples[0] = r->samples[1] = given;
    if (given > 0)
        return given <= 64 ||
               tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "sampling_ratio is %" PRId64 "; at most 64 can be imported", given);
    const tsr_onnx_known *boxes = tsr_onnx_in_known(c, 1, "rois, where sampling_ratio is 0,");
    if (boxes && !boxes->is_float)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE, "the regions are %s; expected floats",
                             tsr_dtype_name(boxes->type.dtype));
    for (uint64_t i = 0; boxes && i < r->count; i++)
        for (size_t d = 0; d < 2; d++) {
            double size = (boxes->floats[4 * i + 3 - d] - boxes->floats[4 * i + 1 - d]) * r->scale;
            if (r->at_least_1 && size < 1) size = 1;
            double samples = ceil(size / (double)r->bins[d]);
            int64_t wanted = samples >= 1 && samples <= 64 ? (int64_t)samples : 0;
            if (wanted < 1 || wanted > 64 || (i && wanted != r->samples[d]))
                return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                     "sampling_ratio is 0, and regions differ in the number of "
                                     "samples: %" PRId64 " and %" PRId64,
                                     r->samples[d], wanted);
            r->samples[d] = wanted;
        }
    return boxes;
}

static bool read_regions(tsr_onnx_call *c, MlirValue x, MlirValue boxes, regions *r) {
    const char *mode = tsr_onnx_attr_s(c, "mode", "avg");
    const char *by = tsr_onnx_attr_s(c, "coordinate_transformation_mode",
                                     c->opset < 16 ? "output_half_pixel" : "half_pixel");
    if (!tsr_onnx_need_rank(c, "the image", x, 4, 4) ||
        !tsr_onnx_need_rank(c, "the regions", boxes, 2, 2))
        return false;
    if (tsr_onnx_dim_of(boxes, 1) != 4)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "a region has %" PRIu64 " numbers; expected 4",
                             tsr_onnx_dim_of(boxes, 1));
    r->count = tsr_onnx_dim_of(boxes, 0);
    r->at_least_1 = strcmp(by, "output_half_pixel") == 0;
    r->offset = r->at_least_1 ? 0 : 0.5;
    r->takes_max = strcmp(mode, "max") == 0;
    r->scale = tsr_onnx_attr_f(c, "spatial_scale", 1);
    r->bins[0] = tsr_onnx_attr_i(c, "output_height", 1);
    r->bins[1] = tsr_onnx_attr_i(c, "output_width", 1);
    for (size_t d = 0; d < 2; d++) {
        r->size[d] = tsr_onnx_dim_of(x, (uint32_t)d + 2);
        if (r->bins[d] < 1 || r->bins[d] > 4096 || !r->size[d])
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "%" PRId64 " bins of a dim of %" PRIu64 " elements", r->bins[d],
                                 r->size[d]);
    }
    return !c->failed && read_samples(c, r);
}

/* Column `at` of the regions, [R, 1]: in elements of the image. */
static MlirValue edge(tsr_onnx_call *c, const regions *r, MlirValue boxes, int64_t at) {
    MlirValue x = tsr_onnx_slice_dim(c, boxes, 1, at, 1, 1);
    x = EMIT(c, "mul", x, tsr_onnx_number(c, x, r->scale));
    return EMIT(c, "sub", x, tsr_onnx_number(c, x, r->offset));
}

/* The taps of the samples along a dim, [R, bins * samples]. Beyond one element outside of the image
 * the samples are 0; nearer ones are taken at its border. */
static void region_taps(tsr_onnx_call *c, const regions *r, MlirValue boxes, size_t d,
                        tap taps[static 2]) {
    uint64_t count = (uint64_t)(r->bins[d] * r->samples[d]);
    double last = (double)r->size[d] - 1, samples = (double)r->samples[d];
    double *parts = TSR_NEW(c->arena, double, (size_t)count);
    TSR_NEED(parts);
    for (uint64_t i = 0; i < count; i++) /* in bins */
        parts[i] = (double)(i / (uint64_t)r->samples[d]) +
                   ((double)(i % (uint64_t)r->samples[d]) + 0.5) / samples;
    const tsr_shape list = {.rank = 2, .dims = {1, count}};
    MlirValue from = edge(c, r, boxes, 1 - (int64_t)d), to = edge(c, r, boxes, 3 - (int64_t)d);
    MlirValue size = EMIT(c, "sub", to, from);
    if (r->at_least_1) size = EMIT(c, "max", size, ONE(c, size));
    MlirValue bin = EMIT(c, "div", size, tsr_onnx_number(c, size, (double)r->bins[d]));
    MlirValue part = tsr_onnx_numbers(c, tsr_onnx_dtype(from), &list, parts);
    MlirValue x = EMIT(c, "add", from, EMIT(c, "mul", bin, part));
    MlirValue inside = is_between(c, x, -1, last + 1);
    make_taps(c, limited(c, x, 0, last), r->size[d], taps);
    for (size_t k = 0; k < 2; k++)
        taps[k].weight = EMIT(c, "where", inside, taps[k].weight, ZERO(c, x));
}

/* Reshapes taps [R, n] to [R, n, 1] or [R, 1, n]. */
static void spread_taps(tsr_onnx_call *c, bool first, tap taps[static 2]) {
    for (size_t k = 0; k < 2; k++) {
        tsr_shape s = tsr_onnx_type_of(taps[k].weight).shape;
        uint64_t n = s.dims[1];
        s = (tsr_shape){.rank = 3, .dims = {s.dims[0], first ? n : 1, first ? 1 : n}};
        taps[k].weight = tsr_onnx_reshape(c, taps[k].weight, &s);
        taps[k].index = tsr_onnx_reshape(c, taps[k].index, &s);
    }
}

/* The mean or the maximum of the samples of each bin. In max mode the weighted elements around each
 * sample count one by one, as in ONNX Runtime. */
bool tsr_onnx_rule_roi_align(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), boxes = tsr_onnx_in(c, 1), image = tsr_onnx_in(c, 2);
    regions r = {0};
    tap taps[2][2];
    if (c->failed || !read_regions(c, x, boxes, &r)) return false;
    tsr_shape s = tsr_onnx_type_of(x).shape;
    const tsr_shape rows = {.rank = 2, .dims = {s.dims[0] * r.size[0] * r.size[1], s.dims[1]}};
    const tsr_shape column = {.rank = 3, .dims = {r.count, 1, 1}};
    tsr_dtype dtype = tsr_onnx_dtype(x);
    x = tsr_onnx_wide(c, x);
    boxes = tsr_onnx_cast(c, boxes, tsr_onnx_dtype(x));
    for (size_t d = 0; d < 2; d++) {
        region_taps(c, &r, boxes, d, taps[d]);
        spread_taps(c, d == 0, taps[d]);
    }
    image = tsr_onnx_cast(c, tsr_onnx_wrap_indices(c, image, s.dims[0]), TSR_DTYPE_I64);
    image = tsr_onnx_reshape(c, image, &column);
    MlirValue flat = tsr_onnx_reshape(c, tsr_onnx_channels_last(c, x), &rows);
    MlirValue y = sample(c, flat, image, r.size[0], r.size[1], taps[0], taps[1], r.takes_max);
    const tsr_shape split = {.rank = 6,
                             .dims = {r.count, (uint64_t)r.bins[0], (uint64_t)r.samples[0],
                                      (uint64_t)r.bins[1], (uint64_t)r.samples[1], s.dims[1]}};
    y = tsr_onnx_reduce(c, r.takes_max ? TSR_GRAPH_NAME("reduce_max") : TSR_GRAPH_NAME("mean"),
                        tsr_onnx_reshape(c, y, &split), 2, (const int64_t[]){2, 4}, false);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, tsr_onnx_channels_first(c, y), dtype));
}

/* ---- DeformConv ------------------------------------------------------------------------------ */

typedef struct deformed {
    tsr_onnx_windows w;
    uint64_t batch, channels, filters, groups, offset_groups;
    uint64_t window, area;  /* positions of the window, and of the result */
    uint64_t height, width; /* of the image */
} deformed;

static bool read_deformed(tsr_onnx_call *c, MlirValue x, MlirValue filter, MlirValue offsets,
                          deformed *d) {
    if (!tsr_onnx_need_rank(c, "the image", x, 4, 4) ||
        !tsr_onnx_need_rank(c, "the filter", filter, 4, 4) ||
        !tsr_onnx_need_rank(c, "the offsets", offsets, 4, 4))
        return false;
    int64_t size[3] = {(int64_t)tsr_onnx_dim_of(filter, 2), (int64_t)tsr_onnx_dim_of(filter, 3)};
    int64_t groups = tsr_onnx_attr_i(c, "group", 1);
    int64_t offset_groups = tsr_onnx_attr_i(c, "offset_group", 1);
    if (!tsr_onnx_read_windows(c, x, size, &d->w)) return false;
    d->batch = tsr_onnx_dim_of(x, 0);
    d->channels = tsr_onnx_dim_of(x, 1);
    d->height = tsr_onnx_dim_of(x, 2);
    d->width = tsr_onnx_dim_of(x, 3);
    d->filters = tsr_onnx_dim_of(filter, 0);
    d->window = (uint64_t)(size[0] * size[1]);
    d->area = d->w.out[0] * d->w.out[1];
    d->groups = (uint64_t)groups;
    d->offset_groups = (uint64_t)offset_groups;
    if (groups < 1 || offset_groups < 1 || d->channels % d->groups || d->filters % d->groups ||
        d->channels % d->offset_groups || tsr_onnx_dim_of(filter, 1) * d->groups != d->channels ||
        tsr_onnx_dim_of(offsets, 1) != 2 * d->offset_groups * d->window ||
        tsr_onnx_dim_of(offsets, 2) * tsr_onnx_dim_of(offsets, 3) != d->area)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "filter and offsets do not fit to %" PRIu64 " channels in %" PRId64
                             " groups, %" PRId64 " of offsets",
                             d->channels, groups, offset_groups);
    return !c->failed;
}

/* The taps of dim `i` for all positions of the window and of the result: [N, offset groups, window
 * * area]. */
static void deformed_taps(tsr_onnx_call *c, const deformed *d, MlirValue offsets, uint32_t i,
                          tap taps[static 2]) {
    const tsr_shape parts = {.rank = 5,
                             .dims = {d->batch, d->offset_groups, d->window, 2, d->area}};
    const tsr_shape list = {.rank = 3, .dims = {1, 1, d->window * d->area}};
    const tsr_shape full = {.rank = 3, .dims = {d->batch, d->offset_groups, list.dims[2]}};
    double *positions = TSR_NEW(c->arena, double, (size_t)list.dims[2] + 1);
    TSR_NEED(positions);
    for (uint64_t k = 0; k < list.dims[2]; k++) {
        uint64_t of_window = k / d->area, of_result = k % d->area;
        uint64_t wide = (uint64_t)d->w.size[1], out = d->w.out[1];
        uint64_t at = i ? of_window % wide : of_window / wide;
        uint64_t to = i ? of_result % out : of_result / out;
        positions[k] =
            (double)((int64_t)to * d->w.stride[i] - d->w.low[i] + (int64_t)at * d->w.dilation[i]);
    }
    offsets = tsr_onnx_slice_dim(c, tsr_onnx_reshape(c, offsets, &parts), 3, i, 1, 1);
    offsets = tsr_onnx_reshape(c, offsets, &full);
    MlirValue base = tsr_onnx_numbers(c, tsr_onnx_dtype(offsets), &list, positions);
    make_taps(c, EMIT(c, "add", offsets, base), i ? d->width : d->height, taps);
}

/* The sampled elements as [N, groups, channels of a group * window, area]. */
static MlirValue deformed_columns(tsr_onnx_call *c, const deformed *d, MlirValue x,
                                  MlirValue offsets, MlirValue mask) {
    uint64_t share = d->channels / d->offset_groups, size = d->height * d->width;
    const tsr_shape split = {.rank = 4, .dims = {d->batch, d->offset_groups, share, size}};
    const tsr_shape rows = {.rank = 2, .dims = {d->batch * d->offset_groups * size, share}};
    const tsr_shape images = {.rank = 3, .dims = {d->batch, d->offset_groups, 1}};
    tap taps[2][2];
    for (uint32_t i = 0; i < 2; i++) deformed_taps(c, d, offsets, i, taps[i]);
    x = tsr_onnx_swap(c, tsr_onnx_reshape(c, x, &split), 2, 3);
    MlirValue image = tsr_onnx_iota(c, TSR_DTYPE_I64, 1, 0, d->batch * d->offset_groups);
    image = tsr_onnx_reshape(c, image, &images);
    MlirValue y = sample(c, tsr_onnx_reshape(c, x, &rows), image, d->height, d->width, taps[0],
                         taps[1], false);
    if (!mlirValueIsNull(mask)) {
        const tsr_shape weights = {.rank = 4,
                                   .dims = {d->batch, d->offset_groups, d->window * d->area, 1}};
        y = EMIT(c, "mul", y, tsr_onnx_reshape(c, mask, &weights));
    }
    const tsr_shape grouped = {
        .rank = 4, .dims = {d->batch, d->groups, d->channels / d->groups * d->window, d->area}};
    return tsr_onnx_reshape(c, tsr_onnx_swap(c, y, 2, 3), &grouped);
}

bool tsr_onnx_rule_deform_conv(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), filter = tsr_onnx_in(c, 1), offsets = tsr_onnx_in(c, 2);
    MlirValue bias = tsr_onnx_in_or_null(c, 3), mask = tsr_onnx_in_or_null(c, 4);
    deformed d = {0};
    if (c->failed || !read_deformed(c, x, filter, offsets, &d)) return false;
    if (!mlirValueIsNull(mask) &&
        tsr_onnx_count(mask) != d.batch * d.offset_groups * d.window * d.area)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the mask does not fit to the offsets");
    tsr_dtype dtype = tsr_onnx_dtype(x);
    if (!mlirValueIsNull(mask)) mask = tsr_onnx_wide(c, mask);
    MlirValue columns =
        deformed_columns(c, &d, tsr_onnx_wide(c, x), tsr_onnx_wide(c, offsets), mask);
    const tsr_shape factors = {
        .rank = 4, .dims = {1, d.groups, d.filters / d.groups, d.channels / d.groups * d.window}};
    const tsr_shape result = {.rank = 4, .dims = {d.batch, d.filters, d.w.out[0], d.w.out[1]}};
    filter = tsr_onnx_reshape(c, tsr_onnx_wide(c, filter), &factors);
    MlirValue y = tsr_onnx_reshape(c, tsr_onnx_product(c, filter, columns), &result);
    if (!mlirValueIsNull(bias))
        y = EMIT(c, "add", y, tsr_onnx_per_channel(c, tsr_onnx_wide(c, bias), 4));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, dtype));
}
