/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, and ops that only move elements.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- shapes as values ------------------------------------------------------------------------ */

bool tsr_onnx_rule_shape(tsr_onnx_call *c) {
    tsr_shape shape = tsr_onnx_type_of(tsr_onnx_in(c, 0)).shape;
    int64_t rank = shape.rank, start = tsr_onnx_attr_i(c, "start", 0);
    int64_t end = tsr_onnx_attr_i(c, "end", rank), dims[TSR_RANK_MAX];
    tsr_dim_expression sizes[TSR_RANK_MAX];
    bool known = true;
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    for (int64_t i = start; i < end; i++) {
        dims[i - start] = (int64_t)shape.dims[i];
        known = known && tsr_dim_is_known(shape.dims[i]);
    }
    if (known) return tsr_onnx_out(c, 0, tsr_onnx_int_list(c, (size_t)(end - start), dims));
    for (int64_t i = start; i < end; i++)
        sizes[i - start] = tsr_dim_to_expression(c->arena, shape.dims[i]);
    return tsr_onnx_out(c, 0, tsr_onnx_size_list(c, (uint64_t)(end - start), sizes));
}

bool tsr_onnx_rule_size(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_type type = tsr_onnx_type_of(x);
    int64_t count = (int64_t)tsr_onnx_count(x), number = 0;
    if (!tsr_type_is_static(&type)) {
        MlirValue like = tsr_onnx_constant(c, &(tsr_type){.dtype = TSR_DTYPE_I64}, &number);
        uint64_t all = tsr_onnx_volume(c, &type.shape, 0, type.shape.rank);
        return tsr_onnx_out(c, 0, tsr_onnx_dim_number(c, like, all));
    }
    return tsr_onnx_out(c, 0, tsr_onnx_constant(c, &(tsr_type){.dtype = TSR_DTYPE_I64}, &count));
}

/* Reads a shape from sizes. */
static bool make_shape(tsr_onnx_call *c, const char *what, size_t count,
                       const tsr_dim_expression *sizes, tsr_shape *out_shape) {
    tsr_shape known = {.rank = 0};
    uint64_t all = 0;
    *out_shape = (tsr_shape){.rank = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s: dim %zu", what, i);
        if (!tsr_onnx_make_dim(c, words, &sizes[i], &out_shape->dims[i])) return false;
        if (tsr_dim_is_known(out_shape->dims[i])) known.dims[known.rank++] = out_shape->dims[i];
    }
    return tsr_shape_count(&known, &all) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "%s: more than 2^63 elements", what);
}

static bool is_number(const tsr_dim_expression *size) {
    int64_t number;
    return tsr_dim_expression_is_number(size, &number);
}

static bool is_minus_one(const tsr_dim_expression *size) {
    int64_t number;
    return tsr_dim_expression_is_number(size, &number) && number == -1;
}

/* The number of elements. */
static bool count_elements(tsr_onnx_call *c, size_t count, const tsr_dim_expression *sizes,
                           size_t without, tsr_dim_expression *out) {
    *out = tsr_dim_expression_number(1);
    for (size_t i = 0; i < count; i++)
        if (i != without && !tsr_dim_expression_multiply(out, &sizes[i], out))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the shape has more than 2^63 elements, or too long a text");
    return true;
}

static bool same_size(const tsr_dim_expression *a, const tsr_dim_expression *b) {
    tsr_dim_expression difference;
    int64_t number;
    return tsr_dim_expression_subtract(a, b, &difference) &&
           tsr_dim_expression_is_number(&difference, &number) && number == 0;
}

/* "64*N" */
static const char *size_text(const tsr_dim_expression *size, char out_text[TSR_DIM_TEXT_MAX]) {
    if (!tsr_dim_expression_print(size, out_text)) snprintf(out_text, TSR_DIM_TEXT_MAX, "…");
    return out_text;
}

/* The dim that the others leave of `all` elements. */
static bool fill_dim(tsr_onnx_call *c, const tsr_dim_expression *all,
                     const tsr_dim_expression *others, tsr_dim_expression *out) {
    char text[TSR_DIM_TEXT_MAX], of[TSR_DIM_TEXT_MAX];
    int64_t number = 0, whole = 0;
    bool known = tsr_dim_expression_is_number(others, &number);
    if (known && number == 0) {
        *out = tsr_dim_expression_number(0);
        return true;
    }
    if (known && tsr_dim_expression_is_number(all, &whole)) {
        *out = tsr_dim_expression_number(whole / number); /* compared later */
        return true;
    }
    return tsr_dim_expression_divide(all, others, out) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_OPEN,
                         "the size of a dim is -1, and %s elements are not a multiple of %s for "
                         "all sizes of open dims; give them sizes: --dim NAME=SIZE",
                         size_text(all, of), size_text(others, text));
}

/* -1: the dim that the others leave; 0: the input's dim, unless `allowzero`. */
static bool reshape_to(tsr_onnx_call *c, MlirValue x, size_t count, tsr_dim_expression *sizes,
                       bool allow_zero) {
    tsr_shape shape, from = tsr_onnx_type_of(x).shape;
    tsr_dim_expression own[TSR_RANK_MAX], all, made;
    size_t left = SIZE_MAX;
    char text[TSR_DIM_TEXT_MAX], of[TSR_DIM_TEXT_MAX];
    for (uint32_t i = 0; i < from.rank; i++) own[i] = tsr_dim_to_expression(c->arena, from.dims[i]);
    for (size_t i = 0; i < count; i++) {
        int64_t number = 1;
        tsr_dim_expression_is_number(&sizes[i], &number);
        if (number == 0 && !allow_zero)
            sizes[i] = i < from.rank ? own[i] : tsr_dim_expression_number(1);
        if (left == SIZE_MAX && is_minus_one(&sizes[i])) left = i;
    }
    if (!count_elements(c, from.rank, own, SIZE_MAX, &all) ||
        !count_elements(c, count, sizes, left, &made) ||
        (left != SIZE_MAX && !fill_dim(c, &all, &made, &sizes[left])) ||
        !make_shape(c, "shape", count, sizes, &shape) ||
        !count_elements(c, count, sizes, SIZE_MAX, &made))
        return false;
    bool same = same_size(&made, &all);
    if (!same && (!is_number(&made) || !is_number(&all)))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_OPEN,
                             "the shape has %s elements, and the input %s, which is not the same "
                             "for all sizes of open dims; give them sizes: --dim NAME=SIZE",
                             size_text(&made, text), size_text(&all, of));
    if (!same)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the shape has %s elements; the input has %s",
                             size_text(&made, text), size_text(&all, of));
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, x, &shape));
}

bool tsr_onnx_rule_reshape(tsr_onnx_call *c) {
    tsr_dim_expression sizes[TSR_RANK_MAX];
    size_t count = 0;
    MlirValue x = tsr_onnx_in(c, 0);
    bool allow_zero = tsr_onnx_attr_i(c, "allowzero", 0) != 0;
    return tsr_onnx_in_sizes(c, 1, "shape", TSR_RANK_MAX, sizes, &count) && !c->failed &&
           reshape_to(c, x, count, sizes, allow_zero);
}

bool tsr_onnx_rule_flatten(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape = tsr_onnx_type_of(x).shape, flat = {.rank = 2, .dims = {1, 1}};
    int64_t axis = tsr_onnx_attr_i(c, "axis", 1);
    if (axis < 0) axis += shape.rank;
    if (axis < 0 || axis > (int64_t)shape.rank)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'axis' is out of range");
    flat.dims[0] = tsr_onnx_volume(c, &shape, 0, (uint32_t)axis);
    flat.dims[1] = tsr_onnx_volume(c, &shape, (uint32_t)axis, shape.rank);
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, x, &flat));
}

bool tsr_onnx_rule_squeeze(tsr_onnx_call *c) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0, next = 0;
    bool given = false;
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape = tsr_onnx_type_of(x).shape, squeezed = {0};
    if (!tsr_onnx_ints_of(c, "axes", 1, TSR_RANK_MAX, axes, &count, &given) || c->failed ||
        !tsr_onnx_axes(c, "axes", shape.rank, count, axes))
        return false;
    for (uint32_t i = 0; i < shape.rank; i++) {
        bool named = given ? next < count && axes[next] == (int64_t)i : shape.dims[i] == 1;
        char text[TSR_DIM_TEXT_MAX];
        if (!given && tsr_dim_is_open(shape.dims[i]))
            return tsr_onnx_fail_open(c, "a dim", shape.dims[i],
                                      "the rank of the result depends on whether it is 1");
        if (named && shape.dims[i] != 1)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "axis %u has size %s; expected 1", i,
                                 tsr_dim_text(shape.dims[i], text));
        next += named;
        if (!named) squeezed.dims[squeezed.rank++] = shape.dims[i];
    }
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, x, &squeezed));
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
    tsr_dim_expression dims[TSR_RANK_MAX];
    size_t count = 0;
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_shape shape, from = tsr_onnx_type_of(x).shape;
    if (!tsr_onnx_in_sizes(c, 1, "shape", TSR_RANK_MAX, dims, &count) ||
        !make_shape(c, "shape", count, dims, &shape))
        return false;
    uint32_t rank = from.rank > shape.rank ? from.rank : shape.rank;
    tsr_shape full = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t a = i + from.rank >= rank ? from.dims[i + from.rank - rank] : 1;
        uint64_t b = i + shape.rank >= rank ? shape.dims[i + shape.rank - rank] : 1;
        char text[TSR_DIM_TEXT_MAX], other[TSR_DIM_TEXT_MAX];
        if (a != b && a != 1 && b != 1)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "dims of %s and %s cannot be broadcast",
                                 tsr_dim_text(a, text), tsr_dim_text(b, other));
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
    tsr_dim_expression dims[TSR_RANK_MAX];
    size_t count = 0;
    tsr_shape shape;
    if (!tsr_onnx_in_sizes(c, 0, "shape", TSR_RANK_MAX, dims, &count) ||
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

/* Positions of a dim: start + i * delta for `size` numbers i. */
static bool emit_range(tsr_onnx_call *c, uint64_t size) {
    MlirValue first = tsr_onnx_in(c, 0);
    tsr_dtype dtype = tsr_onnx_dtype(first);
    MlirValue positions = tsr_onnx_iota(c, TSR_DTYPE_I64, 1, 0, size);
    MlirValue scaled = tsr_onnx_is_float(first) ? tsr_onnx_cast(c, positions, dtype) : positions;
    MlirValue step = tsr_onnx_cast(c, tsr_onnx_in(c, 2), tsr_onnx_dtype(scaled));
    MlirValue origin = tsr_onnx_cast(c, first, tsr_onnx_dtype(scaled));
    step = tsr_onnx_reshape(c, step, &(tsr_shape){.rank = 0});
    origin = tsr_onnx_reshape(c, origin, &(tsr_shape){.rank = 0});
    MlirValue y = EMIT(c, "add", EMIT(c, "mul", scaled, step), origin);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, dtype));
}

/* True if a number of the range depends on an open dim. */
static bool range_is_open(tsr_onnx_call *c) {
    bool open = false;
    for (size_t i = 0; i < 3; i++) {
        const tsr_onnx_known *known =
            tsr_onnx_evaluate_open(c->importer, tsr_onnx_in_or_null(c, i));
        open = open || (known && known->open);
    }
    return open;
}

/* Integers in steps of 1, 2 …: ceil((limit - start) / delta). */
static bool open_range(tsr_onnx_call *c) {
    tsr_dim_expression start, limit, size;
    int64_t delta = 0;
    size_t count = 0;
    uint64_t dim = 0;
    if (!tsr_onnx_in_sizes(c, 0, "start", 1, &start, &count) ||
        !tsr_onnx_in_sizes(c, 1, "limit", 1, &limit, &count) ||
        !tsr_onnx_in_int(c, 2, "delta", &delta))
        return false;
    tsr_dim_expression by = tsr_dim_expression_number(delta);
    tsr_dim_expression up = tsr_dim_expression_number(delta - 1);
    bool computed = delta > 0 && tsr_dim_expression_subtract(&limit, &start, &size) &&
                    (delta == 1 || (tsr_dim_expression_add(&size, &up, &size) &&
                                    tsr_dim_expression_floor(c->arena, &size, &by, &size)));
    if (!computed)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_OPEN,
                             "a range that depends on open dims has the step %" PRId64
                             "; give them sizes: --dim NAME=SIZE",
                             delta);
    return tsr_onnx_make_dim(c, "the length of the range", &size, &dim) && emit_range(c, dim);
}

bool tsr_onnx_rule_range(tsr_onnx_call *c) {
    double start = 0, limit = 0, delta = 0;
    if (range_is_open(c)) return open_range(c);
    if (!tsr_onnx_in_f64(c, 0, "start", &start) || !tsr_onnx_in_f64(c, 1, "limit", &limit) ||
        !tsr_onnx_in_f64(c, 2, "delta", &delta))
        return false;
    double count = delta == 0 ? 0 : (limit - start) / delta;
    if (delta == 0 || count > (double)INT32_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "the range from %g to %g by %g is too long",
                             start, limit, delta);
    uint64_t size = count > 0 ? (uint64_t)count : 0;
    size += count > 0 && (double)size < count;
    return emit_range(c, size);
}

/* The positions where row and column numbers differ by at most, or at least, k. */
static MlirValue diagonal(tsr_onnx_call *c, uint64_t rows, uint64_t columns, int64_t k,
                          tsr_predicate predicate) {
    MlirValue row = tsr_onnx_iota(c, TSR_DTYPE_I64, 2, 0, rows);
    MlirValue column = tsr_onnx_iota(c, TSR_DTYPE_I64, 2, 1, columns);
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
    MlirValue squeezed = diagonal(c, tsr_onnx_dim_of(x, rank - 2), tsr_onnx_dim_of(x, rank - 1), k,
                                  upper ? TSR_PREDICATE_GE : TSR_PREDICATE_LE);
    return tsr_onnx_out(c, 0, EMIT(c, "where", squeezed, x, ZERO(c, x)));
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

/* Without given sizes: as many positions for each part, but the last. */
static bool split_evenly(tsr_onnx_call *c, MlirValue x, uint32_t axis, size_t parts,
                         int64_t *out_sizes) {
    uint64_t size = 0;
    int64_t at = 0;
    if (!tsr_onnx_known_dim(c, "the input", x, axis, &size)) return false;
    int64_t dim = (int64_t)size, each = (dim + (int64_t)parts - 1) / (int64_t)parts;
    for (size_t i = 0; i < parts; i++) {
        out_sizes[i] = at + each <= dim ? each : dim - at;
        at += out_sizes[i];
    }
    return true;
}

/* Parts of an open dim, which add up to it. */
static bool split_open(tsr_onnx_call *c, MlirValue x, uint32_t axis, size_t parts) {
    tsr_dim_expression *sizes = TSR_NEW(c->arena, tsr_dim_expression, parts + 1);
    tsr_dim_expression at = tsr_dim_expression_number(0);
    tsr_dim_expression dim = tsr_dim_to_expression(c->arena, tsr_onnx_dim_of(x, axis));
    size_t count = 0;
    TSR_NEED(sizes);
    if (!tsr_onnx_in_sizes(c, 1, "split", parts, sizes, &count)) return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t start, size;
        if (!tsr_onnx_make_dim(c, "the start of a part", &at, &start) ||
            !tsr_onnx_make_dim(c, "the size of a part", &sizes[i], &size))
            return false;
        tsr_onnx_out(c, i, tsr_onnx_slice_open(c, x, axis, start, size, 1));
        if (!tsr_dim_expression_add(&at, &sizes[i], &at)) return false;
    }
    return (count == parts && same_size(&at, &dim)) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the parts do not add up to the axis");
}

bool tsr_onnx_rule_split(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    size_t count = 0, parts = c->output_count;
    bool given = false;
    uint32_t axis;
    int64_t *sizes = TSR_NEW(c->arena, int64_t, parts + 1), at = 0;
    TSR_NEED(sizes);
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), tsr_onnx_rank(x), &axis))
        return false;
    if (tsr_dim_is_open(tsr_onnx_dim_of(x, axis)) && tsr_onnx_has(c, 1))
        return split_open(c, x, axis, parts);
    if (!tsr_onnx_ints_of(c, "split", 1, parts, sizes, &count, &given) ||
        (!given && !split_evenly(c, x, axis, parts, sizes)))
        return false;
    uint64_t size = 0;
    if (!tsr_onnx_known_dim(c, "the input", x, axis, &size)) return false;
    int64_t dim = (int64_t)size;
    for (size_t i = 0; i < parts; i++) {
        if (sizes[i] < 0 || sizes[i] > dim - at || (given && count != parts))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the parts do not add up to the axis, which has %" PRId64, dim);
        tsr_onnx_out(c, i, tsr_onnx_slice_dim(c, x, axis, at, sizes[i], 1));
        at += sizes[i];
    }
    return !c->failed;
}

/* Positions `first`, `first + step` … of one dim, which may go backwards. */
static MlirValue walk_dim(tsr_onnx_call *c, MlirValue x, uint32_t dim, int64_t first, int64_t size,
                          int64_t step) {
    if (step > 0) return tsr_onnx_slice_dim(c, x, dim, size ? first : 0, size, step);
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)size + 1);
    TSR_NEED(positions);
    for (int64_t i = 0; i < size; i++) positions[i] = first + i * step;
    return tsr_onnx_gather(c, x, tsr_onnx_int_list(c, (size_t)size, positions), dim);
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
    int64_t distance = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    int64_t size = distance > 0 ? (distance - 1) / stride + 1 : 0;
    return walk_dim(c, x, axis, start, size, step);
}

/* A bound of x[start:end] as a position from 0 to the size of the dim. */
static bool clamp_bound(tsr_onnx_call *c, const tsr_dim_expression *dim, tsr_dim_expression *at) {
    tsr_dim_range range = tsr_onnx_range(c->importer, at);
    tsr_dim_expression zero = tsr_dim_expression_number(0), beyond;
    if (range.high < 0) { /* INT64_MIN and the like: before the first position */
        if (range.high <= -INT32_MAX || !tsr_dim_expression_add(at, dim, at))
            *at = zero;
        else if (tsr_onnx_range(c->importer, at).low < 0 &&
                 !tsr_dim_expression_max(c->arena, at, &zero, at))
            return false;
        return true;
    }
    if (range.low < 0) return false;
    if (range.low >= INT32_MAX) { /* INT64_MAX and the like: to the end */
        *at = *dim;
        return true;
    }
    if (!tsr_dim_expression_subtract(at, dim, &beyond)) return false;
    tsr_dim_range by = tsr_onnx_range(c->importer, &beyond);
    if (by.high <= 0) return true;
    if (by.low < 0) return tsr_dim_expression_min(c->arena, at, dim, at);
    *at = *dim;
    return true;
}

/* As slice_axis, for an axis or bounds that are open; steps go forward. */
static MlirValue slice_open(tsr_onnx_call *c, MlirValue x, uint32_t axis, tsr_dim_expression start,
                            tsr_dim_expression end, int64_t step) {
    tsr_dim_expression dim = tsr_dim_to_expression(c->arena, tsr_onnx_dim_of(x, axis)), size;
    uint64_t first = 0, count = 0;
    if (step < 1)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_OPEN,
                                   "axis %u or a bound is open, and the step is %" PRId64
                                   "; give the open dims sizes: --dim NAME=SIZE",
                                   axis, step);
    tsr_dim_expression by = tsr_dim_expression_number(step);
    tsr_dim_expression up = tsr_dim_expression_number(step - 1);
    if (!clamp_bound(c, &dim, &start) || !clamp_bound(c, &dim, &end) ||
        !tsr_dim_expression_subtract(&end, &start, &size) ||
        (step > 1 && (!tsr_dim_expression_add(&size, &up, &size) ||
                      !tsr_dim_expression_floor(c->arena, &size, &by, &size))))
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_OPEN,
                                   "whether a bound of axis %u is below 0 depends on open dims; "
                                   "give them sizes: --dim NAME=SIZE",
                                   axis);
    tsr_dim_range range = tsr_onnx_range(c->importer, &size);
    if (range.high <= 0) size = start = tsr_dim_expression_number(0);
    tsr_dim_expression none = tsr_dim_expression_number(0);
    if (range.high > 0 && range.low < 0) tsr_dim_expression_max(c->arena, &size, &none, &size);
    if (!tsr_onnx_make_dim(c, "the start of the slice", &start, &first) ||
        !tsr_onnx_make_dim(c, "the size of the slice", &size, &count))
        return (MlirValue){NULL};
    return tsr_onnx_slice_open(c, x, axis, first, count, step);
}

static MlirValue slice_any(tsr_onnx_call *c, MlirValue x, uint32_t axis,
                           const tsr_dim_expression *start, const tsr_dim_expression *end,
                           int64_t step) {
    int64_t first, last;
    bool known = tsr_dim_is_known(tsr_onnx_dim_of(x, axis)) &&
                 tsr_dim_expression_is_number(start, &first) &&
                 tsr_dim_expression_is_number(end, &last);
    return known ? slice_axis(c, x, axis, first, last, step)
                 : slice_open(c, x, axis, *start, *end, step);
}

/* The bounds of a slice: attributes before version 10, inputs since. */
static bool read_bounds(tsr_onnx_call *c, const char *name, size_t input, tsr_dim_expression *out,
                        size_t *out_count) {
    int64_t numbers[TSR_RANK_MAX];
    bool given = false;
    if (!tsr_onnx_attr(c, name) && tsr_onnx_has(c, input))
        return tsr_onnx_in_sizes(c, input, name, TSR_RANK_MAX, out, out_count);
    if (!tsr_onnx_ints_of(c, name, input, TSR_RANK_MAX, numbers, out_count, &given)) return false;
    for (size_t i = 0; i < *out_count; i++) out[i] = tsr_dim_expression_number(numbers[i]);
    return true;
}

bool tsr_onnx_rule_slice(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    tsr_dim_expression starts[TSR_RANK_MAX], ends[TSR_RANK_MAX];
    int64_t axes[TSR_RANK_MAX], steps[TSR_RANK_MAX];
    size_t count = 0, end_count = 0, axis_count = 0, step_count = 0;
    bool has_axes = false, has_steps = false;
    for (int64_t i = 0; i < TSR_RANK_MAX; i++) axes[i] = i, steps[i] = 1;
    if (!read_bounds(c, "starts", 1, starts, &count) ||
        !read_bounds(c, "ends", 2, ends, &end_count) ||
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
        x = slice_any(c, x, axis, &starts[i], &ends[i], steps[i]);
    }
    return tsr_onnx_out(c, 0, x);
}

/* ---- repeating and padding ------------------------------------------------------------------- */

bool tsr_onnx_rule_tile(tsr_onnx_call *c) {
    tsr_dim_expression repeats[TSR_RANK_MAX];
    size_t count = 0;
    MlirValue x = tsr_onnx_in(c, 0);
    if (!tsr_onnx_in_sizes(c, 1, "repeats", TSR_RANK_MAX, repeats, &count)) return false;
    if (count != tsr_onnx_rank(x))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "%zu repeats for %u dims", count,
                             tsr_onnx_rank(x));
    for (uint32_t i = 0; i < count; i++) {
        tsr_shape shape = tsr_onnx_type_of(x).shape, split = shape, full;
        uint64_t times;
        if (!tsr_onnx_make_dim(c, "a repeat", &repeats[i], &times)) return false;
        if (times == 1) continue;
        if (shape.rank == TSR_RANK_MAX)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the input has %u dims; at most %d can be "
                                 "imported",
                                 shape.rank, TSR_RANK_MAX - 1);
        for (uint32_t k = shape.rank++; k > i; k--) shape.dims[k] = shape.dims[k - 1];
        shape.dims[i] = 1;
        full = shape;
        full.dims[i] = times;
        split.dims[i] = tsr_onnx_times(c, split.dims[i], times);
        x = tsr_onnx_broadcast(c, tsr_onnx_reshape(c, x, &shape), &full);
        x = tsr_onnx_reshape(c, x, &split);
    }
    return tsr_onnx_out(c, 0, x);
}

/* The position that a padded position shows: reflected, wrapped around, or the nearest. */
static int64_t pad_position(const char *mode, int64_t at, int64_t dim) {
    if (strcmp(mode, "edge") == 0) return at < 0 ? 0 : at >= dim ? dim - 1 : at;
    if (strcmp(mode, "wrap") == 0) return ((at % dim) + dim) % dim;
    int64_t period = dim > 1 ? 2 * (dim - 1) : 1;
    at = ((at % period) + period) % period;
    return at < dim ? at : period - at;
}

static MlirValue pad_dim(tsr_onnx_call *c, MlirValue x, uint32_t dim, const char *mode, int64_t low,
                         int64_t high) {
    uint64_t of = 0;
    if (low == 0 && high == 0) return x;
    if (!tsr_onnx_known_dim(c, "the input", x, dim, &of)) return (MlirValue){NULL};
    int64_t size = (int64_t)of, count = size + low + high;
    if (size == 0 || count < 0)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "an empty dim cannot be padded so");
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)count + 1);
    TSR_NEED(positions);
    for (int64_t i = 0; i < count; i++) positions[i] = pad_position(mode, i - low, size);
    return tsr_onnx_gather(c, x, tsr_onnx_int_list(c, (size_t)count, positions), dim);
}

/* Negative padding cuts off. */
static MlirValue pad_constant(tsr_onnx_call *c, MlirValue x, const int64_t *low,
                              const int64_t *high, MlirValue value) {
    int64_t added_low[TSR_RANK_MAX], added_high[TSR_RANK_MAX];
    double number = 0;
    uint32_t rank = tsr_onnx_rank(x);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t cut_low = low[i] < 0 ? -low[i] : 0, cut_high = high[i] < 0 ? -high[i] : 0;
        uint64_t left = tsr_onnx_dim_of(x, i);
        added_low[i] = low[i] > 0 ? low[i] : 0;
        added_high[i] = high[i] > 0 ? high[i] : 0;
        if (!tsr_dim_subtract(left, (uint64_t)cut_low, &left) ||
            !tsr_dim_subtract(left, (uint64_t)cut_high, &left))
            return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "dim %u is cut below 0", i);
        x = tsr_onnx_slice_open(c, x, i, (uint64_t)cut_low, left, 1);
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
        uint64_t size = 0;
        if (!tsr_onnx_known_dim(c, "the input", x, axis, &size)) return false;
        int64_t more = sizes[i] - (int64_t)size;
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
    uint64_t b = (uint64_t)block, area = b * b, channels = 0;
    if (!tsr_onnx_known_dim(c, "the input", x, 1, &channels)) return false;
    if (block < 1 || block > INT32_MAX || channels % area)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "%" PRIu64 " channels are not a multiple of blocks of %" PRId64,
                             s.dims[1], block);
    uint64_t d = s.dims[1] / area;
    const tsr_shape dcr = {.rank = 6, .dims = {s.dims[0], b, b, d, s.dims[2], s.dims[3]}};
    const tsr_shape crd = {.rank = 6, .dims = {s.dims[0], d, b, b, s.dims[2], s.dims[3]}};
    const tsr_shape four = {
        .rank = 4,
        .dims = {s.dims[0], d, tsr_onnx_times(c, s.dims[2], b), tsr_onnx_times(c, s.dims[3], b)}};
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
    uint64_t b = (uint64_t)block, rows = 0, columns = 0;
    for (uint32_t i = 2; i < 4; i++)
        if (tsr_dim_is_open(s.dims[i]) && block > 0 && !tsr_dim_divide(s.dims[i], b, &rows))
            return tsr_onnx_fail_open(c, "a dim of the image", s.dims[i],
                                      "it must be a multiple of the blocks");
    if (block < 1 || block > INT32_MAX || !tsr_dim_divide(s.dims[2], b, &rows) ||
        !tsr_dim_divide(s.dims[3], b, &columns))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "the image is not a multiple of blocks of %" PRId64, block);
    const tsr_shape six = {.rank = 6, .dims = {s.dims[0], s.dims[1], rows, b, columns, b}};
    const tsr_shape four = {
        .rank = 4, .dims = {s.dims[0], tsr_onnx_times(c, s.dims[1], b * b), rows, columns}};
    bool is_crd = strcmp(tsr_onnx_attr_s(c, "mode", "DCR"), "CRD") == 0;
    return tsr_onnx_out(
        c, 0,
        regroup(c, x, &six,
                is_crd ? (const int64_t[]){0, 1, 3, 5, 2, 4} : (const int64_t[]){0, 3, 5, 1, 2, 4},
                &four));
}
