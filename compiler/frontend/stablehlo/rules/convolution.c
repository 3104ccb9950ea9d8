/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions over one or two dims: both operands get the order of dims of conv2d.
 */
#include "compiler/frontend/stablehlo/rules.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <string.h>

enum { SPATIAL_MAX = 2 };

/* Which dim is the first named one, the second, and which are spatial. */
typedef struct layout {
    int64_t first, second, spatial[SPATIAL_MAX];
} layout;

typedef struct convolution {
    uint32_t spatial;
    layout image, filter, result;
    int64_t stride[SPATIAL_MAX], low[SPATIAL_MAX], high[SPATIAL_MAX], image_dilation[SPATIAL_MAX],
        filter_dilation[SPATIAL_MAX], reversed[SPATIAL_MAX], groups, batch_groups;
} convolution;

/* One list of "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]". */
static bool read_layout(tsr_hlo_call *c, MlirAttribute lists, intptr_t index, const char *marks,
                        uint32_t spatial, layout *out) {
    MlirAttribute list = mlirArrayAttrGetElement(lists, index);
    intptr_t count = mlirAttributeIsAArray(list) ? mlirArrayAttrGetNumElements(list) : 0;
    size_t found = 0;
    for (intptr_t i = 0; i < count; i++) {
        MlirAttribute item = mlirArrayAttrGetElement(list, i);
        const char *word = tsr_attr_string(item);
        int64_t dim = -1;
        if (word && strlen(word) == 1 && word[0] == marks[0])
            out->first = i;
        else if (word && strlen(word) == 1 && word[0] == marks[1])
            out->second = i;
        else if (tsr_attr_i64(item, &dim) && dim >= 0 && dim < (int64_t)spatial)
            out->spatial[dim] = i;
        else
            continue;
        found++;
    }
    return (found == (size_t)count && count == (intptr_t)spatial + 2) ||
           tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "list %d of its dim_numbers does not name %u dims",
                        (int)index, spatial + 2);
}

static bool read_layouts(tsr_hlo_call *c, convolution *v) {
    MlirAttribute lists = tsr_hlo_attr(c, "dimension_numbers", "dim_numbers");
    if (mlirAttributeIsNull(lists) || !mlirAttributeIsAArray(lists) ||
        mlirArrayAttrGetNumElements(lists) != 3)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "its dim_numbers are not three lists");
    return read_layout(c, lists, 0, "bf", v->spatial, &v->image) &&
           read_layout(c, lists, 1, "oi", v->spatial, &v->filter) &&
           read_layout(c, lists, 2, "bf", v->spatial, &v->result);
}

static bool read_windows(tsr_hlo_call *c, convolution *v) {
    int64_t padding[2 * SPATIAL_MAX];
    uint32_t n = v->spatial;
    if (!tsr_hlo_ints_exact(c, "window_strides", "window.stride", n, 1, v->stride) ||
        !tsr_hlo_ints_exact(c, "padding", "window.pad", 2 * (size_t)n, 0, padding) ||
        !tsr_hlo_ints_exact(c, "lhs_dilation", "window.lhs_dilate", n, 1, v->image_dilation) ||
        !tsr_hlo_ints_exact(c, "rhs_dilation", "window.rhs_dilate", n, 1, v->filter_dilation) ||
        !tsr_hlo_ints_exact(c, "window_reversal", "window.reverse", n, 0, v->reversed) ||
        !tsr_hlo_int(c, "feature_group_count", NULL, 1, &v->groups) ||
        !tsr_hlo_int(c, "batch_group_count", NULL, 1, &v->batch_groups))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        v->low[i] = padding[2 * i];
        v->high[i] = padding[2 * i + 1];
        if (v->image_dilation[i] < 1 || v->filter_dilation[i] < 1 || v->stride[i] < 1)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                                "a stride or dilation of spatial dim %u is "
                                "below 1",
                                i);
    }
    return (v->groups >= 1 && v->batch_groups >= 1 && (v->groups == 1 || v->batch_groups == 1)) ||
           tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                        "it has %" PRId64 " groups of features and %" PRId64 " of the batch",
                        v->groups, v->batch_groups);
}

/* [first, spatial, second] or, for a filter, [spatial, second, first]; one spatial dim gets another
 * one of size 1 before it. */
static MlirValue arrange(tsr_hlo_call *c, MlirValue x, const convolution *v, const layout *l,
                         bool is_filter) {
    int64_t order[SPATIAL_MAX + 2];
    uint32_t at = 0;
    if (!is_filter) order[at++] = l->first;
    for (uint32_t i = 0; i < v->spatial; i++) order[at++] = l->spatial[i];
    order[at++] = l->second;
    if (is_filter) order[at++] = l->first;
    x = tsr_hlo_transpose(c, x, order);
    if (v->spatial == SPATIAL_MAX || mlirValueIsNull(x)) return x;
    tsr_shape shape = tsr_hlo_type(x).shape;
    uint32_t at_dim = is_filter ? 0 : 1;
    memmove(shape.dims + at_dim + 1, shape.dims + at_dim,
            (shape.rank - at_dim) * sizeof *shape.dims);
    shape.dims[at_dim] = 1;
    shape.rank++;
    return tsr_hlo_reshape(c, x, &shape);
}

/* Padding inside, and padding below 0, are made beforehand. */
static MlirValue prepare_image(tsr_hlo_call *c, MlirValue x, convolution *v) {
    int64_t low[4] = {0}, high[4] = {0}, interior[4] = {0};
    for (uint32_t i = 0; i < v->spatial; i++) {
        uint32_t dim = 3 - v->spatial + i;
        interior[dim] = v->image_dilation[i] - 1;
        if (interior[dim] == 0 && v->low[i] >= 0 && v->high[i] >= 0) continue;
        low[dim] = v->low[i];
        high[dim] = v->high[i];
        v->low[i] = v->high[i] = 0;
    }
    return tsr_hlo_pad(c, x, tsr_hlo_like(c, x, 0), low, high, interior);
}

/* Groups of the batch become groups of features. */
static MlirValue group_batch(tsr_hlo_call *c, MlirValue x, const convolution *v) {
    static const int64_t order[] = {1, 2, 3, 0, 4};
    tsr_shape s = tsr_hlo_type(x).shape;
    uint64_t groups = (uint64_t)v->batch_groups;
    if (groups == 1 || c->failed) return x;
    if (s.dims[0] % groups)
        return tsr_hlo_fail_value(c, TSR_DIAG_HLO_FORM,
                                  "a batch of %" PRIu64 " is no multiple of "
                                  "%" PRIu64 " groups",
                                  s.dims[0], groups);
    tsr_shape split = {.rank = 5,
                       .dims = {groups, s.dims[0] / groups, s.dims[1], s.dims[2], s.dims[3]}};
    tsr_shape joined = {.rank = 4,
                        .dims = {s.dims[0] / groups, s.dims[1], s.dims[2], groups * s.dims[3]}};
    x = tsr_hlo_transpose(c, tsr_hlo_reshape(c, x, &split), order);
    return tsr_hlo_reshape(c, x, &joined);
}

static MlirValue convolve(tsr_hlo_call *c, MlirValue image, MlirValue filter,
                          const convolution *v) {
    int64_t strides[2] = {1, 1}, dilation[2] = {1, 1}, padding[4] = {0};
    for (uint32_t i = 0; i < v->spatial; i++) {
        uint32_t at = SPATIAL_MAX - v->spatial + i;
        strides[at] = v->stride[i];
        dilation[at] = v->filter_dilation[i];
        padding[2 * at] = v->low[i];
        padding[2 * at + 1] = v->high[i];
    }
    tsr_attr attrs[] = {tsr_hlo_i64s_attr(c, "strides", 2, strides),
                        tsr_hlo_i64s_attr(c, "padding", 4, padding),
                        tsr_hlo_i64s_attr(c, "dilation", 2, dilation),
                        tsr_hlo_i64_attr(c, "groups", v->groups * v->batch_groups),
                        {0}};
    return EMIT_WITH(c, "conv2d", attrs, image, filter);
}

/* [N, H, W, F] in the order of dims of the result. */
static MlirValue restore(tsr_hlo_call *c, MlirValue x, const convolution *v) {
    int64_t order[SPATIAL_MAX + 2];
    tsr_shape s = tsr_hlo_type(x).shape;
    if (v->spatial < SPATIAL_MAX) {
        tsr_shape shape = {.rank = 3, .dims = {s.dims[0], s.dims[2], s.dims[3]}};
        x = tsr_hlo_reshape(c, x, &shape);
    }
    order[v->result.first] = 0;
    order[v->result.second] = v->spatial + 1;
    for (uint32_t i = 0; i < v->spatial; i++) order[v->result.spatial[i]] = i + 1;
    return tsr_hlo_transpose(c, x, order);
}

bool tsr_hlo_rule_convolution(tsr_hlo_call *c) {
    uint32_t rank = tsr_hlo_rank(c->in[0]);
    convolution v = {.spatial = rank - 2};
    tsr_dtype dtype = c->types[0].dtype;
    if (rank < 3 || rank > SPATIAL_MAX + 2 || tsr_hlo_rank(c->in[1]) != rank)
        return tsr_hlo_fail(
            c, TSR_DIAG_HLO_FORM,
            "its operands have %u and %u dims; expected 3 or 4, with 1 or 2 that are "
            "spatial",
            rank, tsr_hlo_rank(c->in[1]));
    if (!tsr_dtype_is_float(dtype))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_TYPE, "its result is %s; expected floats",
                            tsr_dtype_name(dtype));
    if (!read_layouts(c, &v) || !read_windows(c, &v)) return false;
    MlirValue image = arrange(c, tsr_hlo_cast(c, c->in[0], dtype), &v, &v.image, false);
    MlirValue filter = arrange(c, tsr_hlo_cast(c, c->in[1], dtype), &v, &v.filter, true);
    for (uint32_t i = 0; i < v.spatial; i++)
        if (v.reversed[i]) filter = tsr_hlo_reverse(c, filter, SPATIAL_MAX - v.spatial + i);
    image = group_batch(c, prepare_image(c, image, &v), &v);
    return tsr_hlo_out(c, 0, restore(c, convolve(c, image, filter, &v), &v));
}
