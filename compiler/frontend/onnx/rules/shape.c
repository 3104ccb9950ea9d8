/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, and ops that only move elements.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* ---- shapes as values ------------------------------------------------------------------------ */

bool tsr_onnx_rule_shape(tsr_onnx_call *c) {
    tsr_shape shape = tsr_onnx_type_of(tsr_onnx_in(c, 0)).shape;
    int64_t rank = shape.rank, start = tsr_onnx_attr_i(c, "start", 0);
    int64_t end = tsr_onnx_attr_i(c, "end", rank), dims[TSR_RANK_MAX];
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    for (int64_t i = start; i < end; i++) dims[i - start] = (int64_t)shape.dims[i];
    return tsr_onnx_out(c, 0, tsr_onnx_int_list(c, (size_t)(end - start), dims));
}

bool tsr_onnx_rule_size(tsr_onnx_call *c) {
    int64_t count = (int64_t)tsr_onnx_count(tsr_onnx_in(c, 0));
    return tsr_onnx_out(c, 0, tsr_onnx_constant(c, &(tsr_type){.dtype = TSR_DTYPE_I64}, &count));
}

/* Reads a shape from integers. */
static bool make_shape(tsr_onnx_call *c, const char *what, size_t count, const int64_t *dims,
                       tsr_shape *out_shape) {
    uint64_t all = 0;
    *out_shape = (tsr_shape){.rank = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        if (dims[i] < 0)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "%s: dim %zu is %" PRId64, what, i,
                                 dims[i]);
        out_shape->dims[i] = (uint64_t)dims[i];
    }
    return tsr_shape_count(out_shape, &all) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "%s: more than 2^63 elements", what);
}

/* -1: the dim that the others leave; 0: the input's dim, unless `allowzero`. */
static bool reshape_to(tsr_onnx_call *c, MlirValue x, size_t count, int64_t *dims,
                       bool allow_zero) {
    tsr_shape shape;
    size_t open = SIZE_MAX;
    uint64_t product = 1, all = tsr_onnx_count(x);
    for (size_t i = 0; i < count; i++) {
        if (dims[i] == 0 && !allow_zero) dims[i] = (int64_t)tsr_onnx_dim_of(x, (uint32_t)i);
        if (dims[i] == -1 && open == SIZE_MAX)
            open = i;
        else if (__builtin_mul_overflow(product, (uint64_t)dims[i], &product))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the shape has more than 2^64 elements");
    }
    if (open != SIZE_MAX) dims[open] = product ? (int64_t)(all / product) : 0;
    if (!make_shape(c, "shape", count, dims, &shape)) return false;
    uint64_t made = 0;
    if (!tsr_shape_count(&shape, &made) || made != all)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "the shape has %" PRIu64 " elements; the input has %" PRIu64, made,
                             all);
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, x, &shape));
}

bool tsr_onnx_rule_reshape(tsr_onnx_call *c) {
    int64_t dims[TSR_RANK_MAX];
    size_t count = 0;
    MlirValue x = tsr_onnx_in(c, 0);
    bool allow_zero = tsr_onnx_attr_i(c, "allowzero", 0) != 0;
    return tsr_onnx_in_ints(c, 1, "shape", TSR_RANK_MAX, dims, &count) && !c->failed &&
           reshape_to(c, x, count, dims, allow_zero);
}

bool tsr_onnx_rule_flatten(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape = tsr_onnx_type_of(x).shape, flat = {.rank = 2, .dims = {1, 1}};
    int64_t axis = tsr_onnx_attr_i(c, "axis", 1);
    if (axis < 0) axis += shape.rank;
    if (axis < 0 || axis > (int64_t)shape.rank)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'axis' is out of range");
    for (uint32_t i = 0; i < shape.rank; i++) flat.dims[i >= (uint32_t)axis] *= shape.dims[i];
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, x, &flat));
}

bool tsr_onnx_rule_squeeze(tsr_onnx_call *c) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0, next = 0;
    bool given = false;
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape = tsr_onnx_type_of(x).shape, kept = {0};
    if (!tsr_onnx_ints_of(c, "axes", 1, TSR_RANK_MAX, axes, &count, &given) || c->failed ||
        !tsr_onnx_axes(c, "axes", shape.rank, count, axes))
        return false;
    for (uint32_t i = 0; i < shape.rank; i++) {
        bool named = given ? next < count && axes[next] == (int64_t)i : shape.dims[i] == 1;
        if (named && shape.dims[i] != 1)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "axis %u has size %" PRIu64 "; expected 1",
                                 i, shape.dims[i]);
        next += named;
        if (!named) kept.dims[kept.rank++] = shape.dims[i];
    }
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, x, &kept));
}

bool tsr_onnx_rule_unsqueeze(tsr_onnx_call *c) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0, next = 0;
    bool given = false;
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape = tsr_onnx_type_of(x).shape, full = {0};
    if (!tsr_onnx_ints_of(c, "axes", 1, TSR_RANK_MAX, axes, &count, &given) || c->failed)
        return false;
    if (shape.rank + count > TSR_RANK_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                             "the result has %zu dims; at most %d can be "
                             "imported",
                             shape.rank + count, TSR_RANK_MAX);
    if (!tsr_onnx_axes(c, "axes", shape.rank + (uint32_t)count, count, axes)) return false;
    for (uint32_t from = 0; full.rank < shape.rank + count;) {
        bool added = next < count && axes[next] == (int64_t)full.rank;
        next += added;
        full.dims[full.rank++] = added ? 1 : shape.dims[from++];
    }
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, x, &full));
}

bool tsr_onnx_rule_transpose(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    uint32_t rank = tsr_onnx_rank(x);
    int64_t permutation[TSR_RANK_MAX];
    if (!tsr_onnx_attr(c, "perm"))
        for (uint32_t i = 0; i < rank; i++) permutation[i] = (int64_t)(rank - 1 - i);
    else if (!tsr_onnx_attr_ints(c, "perm", rank, 0, permutation))
        return false;
    bool seen[TSR_RANK_MAX] = {false};
    for (uint32_t i = 0; i < rank; i++) {
        if (permutation[i] < 0) permutation[i] += rank;
        if (permutation[i] < 0 || permutation[i] >= (int64_t)rank || seen[permutation[i]])
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                 "attribute 'perm' names no axis, or one twice");
        seen[permutation[i]] = true;
    }
    return tsr_onnx_out(c, 0, tsr_onnx_transpose(c, x, permutation));
}

/* Broadcasting goes both ways: a dim of 1 in the shape keeps the input's. */
bool tsr_onnx_rule_expand(tsr_onnx_call *c) {
    int64_t dims[TSR_RANK_MAX];
    size_t count = 0;
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape, from = tsr_onnx_type_of(x).shape;
    if (!tsr_onnx_in_ints(c, 1, "shape", TSR_RANK_MAX, dims, &count) ||
        !make_shape(c, "shape", count, dims, &shape))
        return false;
    uint32_t rank = from.rank > shape.rank ? from.rank : shape.rank;
    tsr_shape full = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t a = i + from.rank >= rank ? from.dims[i + from.rank - rank] : 1;
        uint64_t b = i + shape.rank >= rank ? shape.dims[i + shape.rank - rank] : 1;
        if (a != b && a != 1 && b != 1)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "dims of %" PRIu64 " and %" PRIu64 " cannot be broadcast", a, b);
        full.dims[i] = a == 1 ? b : a;
    }
    return tsr_onnx_out(c, 0, tsr_onnx_broadcast(c, x, &full));
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool constant_list(tsr_onnx_call *c, const tsr_onnx_attribute *a) {
    tsr_type type = {.dtype = TSR_DTYPE_F32, .shape = {.rank = 1, .dims = {a->floats.count}}};
    if (a->type == TSR_ONNX_ATTRIBUTE_INTS)
        return tsr_onnx_out(c, 0, tsr_onnx_int_list(c, a->ints.count, a->ints.items));
    return tsr_onnx_out(c, 0, tsr_onnx_constant(c, &type, a->floats.items));
}

bool tsr_onnx_rule_constant(tsr_onnx_call *c) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, "value");
    if (a && a->t) {
        MlirValue y = tsr_onnx_emit_tensor(c->importer, a->t, TSR_ONNX_TEXT(c->node->outputs, 0),
                                           c->builder->location);
        c->failed = c->failed || mlirValueIsNull(y);
        return tsr_onnx_out(c, 0, y);
    }
    a = tsr_onnx_attr(c, "value_float");
    if (a)
        return tsr_onnx_out(c, 0, tsr_onnx_constant(c, &(tsr_type){.dtype = TSR_DTYPE_F32}, &a->f));
    a = tsr_onnx_attr(c, "value_int");
    if (a)
        return tsr_onnx_out(c, 0, tsr_onnx_constant(c, &(tsr_type){.dtype = TSR_DTYPE_I64}, &a->i));
    a = tsr_onnx_attr(c, "value_ints");
    if (!a) a = tsr_onnx_attr(c, "value_floats");
    if (a) return constant_list(c, a);
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_FORM,
                         "the constant is a string or a sparse tensor, or has no value");
}

bool tsr_onnx_rule_constant_of_shape(tsr_onnx_call *c) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, "value");
    int64_t dims[TSR_RANK_MAX];
    size_t count = 0;
    tsr_shape shape;
    if (!tsr_onnx_in_ints(c, 0, "shape", TSR_RANK_MAX, dims, &count) ||
        !make_shape(c, "shape", count, dims, &shape))
        return false;
    if (!a || !a->t) return tsr_onnx_out(c, 0, tsr_onnx_filled(c, TSR_DTYPE_F32, &shape, 0));
    MlirValue y = tsr_onnx_emit_tensor(c->importer, a->t, "", c->builder->location);
    c->failed = c->failed || mlirValueIsNull(y);
    if (c->failed || tsr_onnx_count(y) != 1)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'value' must have 1 element");
    y = tsr_onnx_reshape(c, y, &(tsr_shape){.rank = 0});
    return tsr_onnx_out(c, 0, tsr_onnx_broadcast(c, y, &shape));
}

bool tsr_onnx_rule_range(tsr_onnx_call *c) {
    double start = 0, limit = 0, delta = 0;
    MlirValue first = tsr_onnx_in(c, 0);
    if (!tsr_onnx_in_f64(c, 0, "start", &start) || !tsr_onnx_in_f64(c, 1, "limit", &limit) ||
        !tsr_onnx_in_f64(c, 2, "delta", &delta))
        return false;
    double count = delta == 0 ? 0 : (limit - start) / delta;
    if (delta == 0 || count > (double)INT32_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "the range from %g to %g by %g is too long",
                             start, limit, delta);
    uint64_t size = count > 0 ? (uint64_t)count : 0;
    size += count > 0 && (double)size < count;
    tsr_dtype dtype = tsr_onnx_dtype(first);
    MlirValue places = tsr_onnx_places(c, TSR_DTYPE_I64, 1, 0, size);
    MlirValue scaled = tsr_onnx_is_float(first) ? tsr_onnx_cast(c, places, dtype) : places;
    MlirValue step = tsr_onnx_cast(c, tsr_onnx_in(c, 2), tsr_onnx_dtype(scaled));
    MlirValue origin = tsr_onnx_cast(c, first, tsr_onnx_dtype(scaled));
    step = tsr_onnx_reshape(c, step, &(tsr_shape){.rank = 0});
    origin = tsr_onnx_reshape(c, origin, &(tsr_shape){.rank = 0});
    MlirValue y = EMIT(c, "add", EMIT(c, "mul", scaled, step), origin);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, dtype));
}

/* The places where row and column numbers differ by at most, or at least, k. */
static MlirValue diagonal(tsr_onnx_call *c, uint64_t rows, uint64_t columns, int64_t k,
                          tsr_predicate predicate) {
    MlirValue row = tsr_onnx_places(c, TSR_DTYPE_I64, 2, 0, rows);
    MlirValue column = tsr_onnx_places(c, TSR_DTYPE_I64, 2, 1, columns);
    MlirValue offset = EMIT(c, "sub", column, row);
    return tsr_onnx_compare(c, predicate, offset, tsr_onnx_number(c, offset, (double)k));
}

bool tsr_onnx_rule_trilu(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t k = 0;
    if (!tsr_onnx_need_rank(c, "the input", x, 2, TSR_RANK_MAX) ||
        (tsr_onnx_has(c, 1) && !tsr_onnx_in_int(c, 1, "k", &k)))
        return false;
    uint32_t rank = tsr_onnx_rank(x);
    bool upper = tsr_onnx_attr_i(c, "upper", 1) != 0;
    MlirValue kept = diagonal(c, tsr_onnx_dim_of(x, rank - 2), tsr_onnx_dim_of(x, rank - 1), k,
                              upper ? TSR_PREDICATE_GE : TSR_PREDICATE_LE);
    return tsr_onnx_out(c, 0, EMIT(c, "where", kept, x, ZERO(c, x)));
}

bool tsr_onnx_rule_eye_like(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t type = tsr_onnx_attr_i(c, "dtype", tsr_onnx_type_of_dtype(tsr_onnx_dtype(x)));
    if (!tsr_onnx_need_rank(c, "the input", x, 2, 2)) return false;
    if (tsr_onnx_type_dtype(type) == TSR_DTYPE_NONE)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE, "attribute 'dtype' is %s",
                             tsr_onnx_type_name(type));
    MlirValue eye = diagonal(c, tsr_onnx_dim_of(x, 0), tsr_onnx_dim_of(x, 1),
                             tsr_onnx_attr_i(c, "k", 0), TSR_PREDICATE_EQ);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, eye, tsr_onnx_type_dtype(type)));
}

/* ---- parts ----------------------------------------------------------------------------------- */

bool tsr_onnx_rule_concat(tsr_onnx_call *c) {
    uint32_t axis;
    for (size_t i = 0; i < c->input_count; i++) tsr_onnx_in(c, i);
    return tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), tsr_onnx_rank(tsr_onnx_in(c, 0)),
                         &axis) &&
           tsr_onnx_out(c, 0, tsr_onnx_concat(c, c->input_count, c->inputs, axis));
}

bool tsr_onnx_rule_split(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    size_t count = 0, parts = c->output_count;
    bool given = false;
    uint32_t axis;
    int64_t *sizes = TSR_NEW(c->arena, int64_t, parts + 1), at = 0;
    TSR_NEED(sizes);
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), tsr_onnx_rank(x), &axis) ||
        !tsr_onnx_ints_of(c, "split", 1, parts, sizes, &count, &given))
        return false;
    int64_t dim = (int64_t)tsr_onnx_dim_of(x, axis),
            each = (dim + (int64_t)parts - 1) / (int64_t)parts;
    for (size_t i = 0; i < parts && !given; i++) {
        sizes[i] = at + each <= dim ? each : dim - at;
        at += sizes[i];
    }
    at = 0;
    for (size_t i = 0; i < parts; i++) {
        if (sizes[i] < 0 || sizes[i] > dim - at || (given && count != parts))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the parts do not add up to the axis, which has %" PRId64, dim);
        tsr_onnx_out(c, i, tsr_onnx_slice_dim(c, x, axis, at, sizes[i], 1));
        at += sizes[i];
    }
    return !c->failed;
}

/* Places `first`, `first + step` … of one dim, which may go backwards. */
static MlirValue walk_dim(tsr_onnx_call *c, MlirValue x, uint32_t dim, int64_t first, int64_t size,
                          int64_t step) {
    if (step > 0) return tsr_onnx_slice_dim(c, x, dim, size ? first : 0, size, step);
    int64_t *places = TSR_NEW(c->arena, int64_t, (size_t)size + 1);
    TSR_NEED(places);
    for (int64_t i = 0; i < size; i++) places[i] = first + i * step;
    return tsr_onnx_gather(c, x, tsr_onnx_int_list(c, (size_t)size, places), dim);
}

/* One axis as NumPy's x[start:end:step]. */
static MlirValue slice_axis(tsr_onnx_call *c, MlirValue x, uint32_t axis, int64_t start,
                            int64_t end, int64_t step) {
    int64_t dim = (int64_t)tsr_onnx_dim_of(x, axis), low = step < 0 ? -1 : 0;
    int64_t high = step < 0 ? dim - 1 : dim;
    if (start < 0) start = start < -dim ? low : start + dim;
    if (end < 0) end = end < -dim ? low : end + dim;
    start = start > high ? high : start;
    end = end > high ? high : end;
    int64_t way = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    int64_t size = way > 0 ? (way - 1) / stride + 1 : 0;
    return walk_dim(c, x, axis, start, size, step);
}

bool tsr_onnx_rule_slice(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t starts[TSR_RANK_MAX], ends[TSR_RANK_MAX], axes[TSR_RANK_MAX], steps[TSR_RANK_MAX];
    size_t count = 0, end_count = 0, axis_count = 0, step_count = 0;
    bool given = false, has_axes = false, has_steps = false;
    for (int64_t i = 0; i < TSR_RANK_MAX; i++) axes[i] = i, steps[i] = 1;
    if (!tsr_onnx_ints_of(c, "starts", 1, TSR_RANK_MAX, starts, &count, &given) ||
        !tsr_onnx_ints_of(c, "ends", 2, TSR_RANK_MAX, ends, &end_count, &given) ||
        !tsr_onnx_ints_of(c, "axes", 3, TSR_RANK_MAX, axes, &axis_count, &has_axes) ||
        !tsr_onnx_ints_of(c, "steps", 4, TSR_RANK_MAX, steps, &step_count, &has_steps))
        return false;
    if (end_count != count || (has_axes && axis_count != count) ||
        (has_steps && step_count != count))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                             "starts, ends, axes and steps have different sizes");
    for (size_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!tsr_onnx_axis(c, "axes", axes[i], tsr_onnx_rank(x), &axis)) return false;
        if (steps[i] == 0 || steps[i] == INT64_MIN)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "a step is %" PRId64, steps[i]);
        x = slice_axis(c, x, axis, starts[i], ends[i], steps[i]);
    }
    return tsr_onnx_out(c, 0, x);
}

/* ---- repeating and padding ------------------------------------------------------------------- */

bool tsr_onnx_rule_tile(tsr_onnx_call *c) {
    int64_t repeats[TSR_RANK_MAX];
    size_t count = 0;
    MlirValue x = tsr_onnx_in(c, 0);
    if (!tsr_onnx_in_ints(c, 1, "repeats", TSR_RANK_MAX, repeats, &count)) return false;
    if (count != tsr_onnx_rank(x))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "%zu repeats for %u dims", count,
                             tsr_onnx_rank(x));
    for (uint32_t i = 0; i < count; i++) {
        tsr_shape shape = tsr_onnx_type_of(x).shape, split = shape, full;
        if (repeats[i] == 1) continue;
        if (repeats[i] < 0)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "a repeat is %" PRId64, repeats[i]);
        if (shape.rank == TSR_RANK_MAX)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the input has %u dims; at most %d can be "
                                 "imported",
                                 shape.rank, TSR_RANK_MAX - 1);
        for (uint32_t k = shape.rank++; k > i; k--) shape.dims[k] = shape.dims[k - 1];
        shape.dims[i] = 1;
        full = shape;
        full.dims[i] = (uint64_t)repeats[i];
        if (__builtin_mul_overflow(split.dims[i], (uint64_t)repeats[i], &split.dims[i]))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "more than 2^64 elements");
        x = tsr_onnx_broadcast(c, tsr_onnx_reshape(c, x, &shape), &full);
        x = tsr_onnx_reshape(c, x, &split);
    }
    return tsr_onnx_out(c, 0, x);
}

/* The place that a padded place shows: reflected, wrapped around, or the nearest. */
static int64_t pad_place(const char *mode, int64_t at, int64_t dim) {
    if (strcmp(mode, "edge") == 0) return at < 0 ? 0 : at >= dim ? dim - 1 : at;
    if (strcmp(mode, "wrap") == 0) return ((at % dim) + dim) % dim;
    int64_t period = dim > 1 ? 2 * (dim - 1) : 1;
    at = ((at % period) + period) % period;
    return at < dim ? at : period - at;
}

static MlirValue pad_dim(tsr_onnx_call *c, MlirValue x, uint32_t dim, const char *mode, int64_t low,
                         int64_t high) {
    int64_t size = (int64_t)tsr_onnx_dim_of(x, dim), count = size + low + high;
    if (low == 0 && high == 0) return x;
    if (size == 0 || count < 0)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "an empty dim cannot be padded so");
    int64_t *places = TSR_NEW(c->arena, int64_t, (size_t)count + 1);
    TSR_NEED(places);
    for (int64_t i = 0; i < count; i++) places[i] = pad_place(mode, i - low, size);
    return tsr_onnx_gather(c, x, tsr_onnx_int_list(c, (size_t)count, places), dim);
}

/* Negative padding cuts off. */
static MlirValue pad_constant(tsr_onnx_call *c, MlirValue x, const int64_t *low,
                              const int64_t *high, MlirValue value) {
    int64_t added_low[TSR_RANK_MAX], added_high[TSR_RANK_MAX];
    double number = 0;
    uint32_t rank = tsr_onnx_rank(x);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t cut_low = low[i] < 0 ? -low[i] : 0, cut_high = high[i] < 0 ? -high[i] : 0;
        int64_t left = (int64_t)tsr_onnx_dim_of(x, i) - cut_low - cut_high;
        added_low[i] = low[i] > 0 ? low[i] : 0;
        added_high[i] = high[i] > 0 ? high[i] : 0;
        if (left < 0)
            return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "dim %u is cut below 0", i);
        x = tsr_onnx_slice_dim(c, x, i, cut_low, left, 1);
    }
    const tsr_onnx_known *known =
        mlirValueIsNull(value) ? NULL : tsr_onnx_evaluate(c->importer, value);
    if (known && known->count == 1)
        number = known->is_float ? known->floats[0] : (double)known->ints[0];
    if (mlirValueIsNull(value) || known)
        return tsr_onnx_pad(c, x, added_low, added_high, NULL, number);
    MlirValue one = tsr_onnx_filled(c, TSR_DTYPE_I1, &(tsr_shape){.rank = 0}, 1);
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    MlirValue inside =
        tsr_onnx_pad(c, tsr_onnx_broadcast(c, one, &shape), added_low, added_high, NULL, 0);
    value = tsr_onnx_reshape(c, value, &(tsr_shape){.rank = 0});
    return EMIT(c, "where", inside, tsr_onnx_pad(c, x, added_low, added_high, NULL, 0), value);
}

bool tsr_onnx_rule_pad(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), value = tsr_onnx_in_or_null(c, 2);
    const char *mode = tsr_onnx_attr_s(c, "mode", "constant");
    int64_t pads[2 * TSR_RANK_MAX], axes[TSR_RANK_MAX];
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    size_t count = 0, axis_count = tsr_onnx_rank(x);
    bool given = false;
    for (int64_t i = 0; i < TSR_RANK_MAX; i++) axes[i] = i;
    if (!tsr_onnx_ints_of(c, "pads", 1, 2 * TSR_RANK_MAX, pads, &count, &given) || c->failed ||
        (tsr_onnx_has(c, 3) && !tsr_onnx_in_ints(c, 3, "axes", TSR_RANK_MAX, axes, &axis_count)))
        return false;
    if (count != 2 * axis_count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "%zu pads for %zu axes", count, axis_count);
    for (size_t i = 0; i < axis_count; i++) {
        uint32_t axis;
        if (!tsr_onnx_axis(c, "axes", axes[i], tsr_onnx_rank(x), &axis)) return false;
        low[axis] = pads[i];
        high[axis] = pads[i + axis_count];
    }
    if (c->opset < 11) value = tsr_onnx_number(c, x, tsr_onnx_attr_f(c, "value", 0));
    if (strcmp(mode, "constant") == 0)
        return tsr_onnx_out(c, 0, pad_constant(c, x, low, high, value));
    if (strcmp(mode, "reflect") != 0 && strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'mode' is '%s'", mode);
    for (uint32_t i = 0; i < tsr_onnx_rank(x); i++) x = pad_dim(c, x, i, mode, low[i], high[i]);
    return tsr_onnx_out(c, 0, x);
}

bool tsr_onnx_rule_center_crop_pad(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t sizes[TSR_RANK_MAX], axes[TSR_RANK_MAX];
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    size_t count = 0, axis_count = tsr_onnx_rank(x);
    for (int64_t i = 0; i < TSR_RANK_MAX; i++) axes[i] = i;
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, "axes");
    if (a) axis_count = a->ints.count < TSR_RANK_MAX ? a->ints.count : TSR_RANK_MAX;
    if (!tsr_onnx_in_ints(c, 1, "shape", TSR_RANK_MAX, sizes, &count) ||
        (a && !tsr_onnx_attr_ints(c, "axes", axis_count, 0, axes)))
        return false;
    if (count != axis_count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "%zu sizes for %zu axes", count, axis_count);
    for (size_t i = 0; i < count; i++) {
        uint32_t axis;
        if (!tsr_onnx_axis(c, "axes", axes[i], tsr_onnx_rank(x), &axis)) return false;
        int64_t more = sizes[i] - (int64_t)tsr_onnx_dim_of(x, axis);
        int64_t half = more >= 0 ? more / 2 : -((-more) / 2);
        low[axis] = half;
        high[axis] = more - half;
    }
    return tsr_onnx_out(c, 0, pad_constant(c, x, low, high, (MlirValue){NULL}));
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* [N, C, H, W] to six dims, permuted, to [N, C', H', W']. */
static MlirValue regroup(tsr_onnx_call *c, MlirValue x, const tsr_shape *six,
                         const int64_t *permutation, const tsr_shape *four) {
    return tsr_onnx_reshape(c, tsr_onnx_transpose(c, tsr_onnx_reshape(c, x, six), permutation),
                            four);
}

bool tsr_onnx_rule_depth_to_space(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t block = tsr_onnx_attr_i(c, "blocksize", 0);
    bool is_crd = strcmp(tsr_onnx_attr_s(c, "mode", "DCR"), "CRD") == 0;
    if (!tsr_onnx_need_rank(c, "the input", x, 4, 4)) return false;
    const tsr_shape s = tsr_onnx_type_of(x).shape;
    uint64_t b = (uint64_t)block, area = b * b;
    if (block < 1 || block > INT32_MAX || s.dims[1] % area)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "%" PRIu64 " channels are no multiple of blocks of %" PRId64,
                             s.dims[1], block);
    uint64_t d = s.dims[1] / area;
    const tsr_shape dcr = {.rank = 6, .dims = {s.dims[0], b, b, d, s.dims[2], s.dims[3]}};
    const tsr_shape crd = {.rank = 6, .dims = {s.dims[0], d, b, b, s.dims[2], s.dims[3]}};
    const tsr_shape four = {.rank = 4, .dims = {s.dims[0], d, s.dims[2] * b, s.dims[3] * b}};
    return tsr_onnx_out(
        c, 0,
        regroup(c, x, is_crd ? &crd : &dcr,
                is_crd ? (const int64_t[]){0, 1, 4, 2, 5, 3} : (const int64_t[]){0, 3, 4, 1, 5, 2},
                &four));
}

bool tsr_onnx_rule_space_to_depth(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t block = tsr_onnx_attr_i(c, "blocksize", 0);
    if (!tsr_onnx_need_rank(c, "the input", x, 4, 4)) return false;
    const tsr_shape s = tsr_onnx_type_of(x).shape;
    uint64_t b = (uint64_t)block;
    if (block < 1 || block > INT32_MAX || s.dims[2] % b || s.dims[3] % b)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "the image is no multiple of blocks of %" PRId64, block);
    const tsr_shape six = {.rank = 6,
                           .dims = {s.dims[0], s.dims[1], s.dims[2] / b, b, s.dims[3] / b, b}};
    const tsr_shape four = {.rank = 4,
                            .dims = {s.dims[0], s.dims[1] * b * b, s.dims[2] / b, s.dims[3] / b}};
    bool is_crd = strcmp(tsr_onnx_attr_s(c, "mode", "DCR"), "CRD") == 0;
    return tsr_onnx_out(
        c, 0,
        regroup(c, x, &six,
                is_crd ? (const int64_t[]){0, 1, 3, 5, 2, 4} : (const int64_t[]){0, 3, 5, 1, 2, 4},
                &four));
}
