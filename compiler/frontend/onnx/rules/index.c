/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops by indices. Negative indices count from the end. Gathers and scatters of single elements go
 * through offsets into the flattened tensor.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

bool tsr_onnx_rule_gather(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1);
    uint32_t axis;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), tsr_onnx_rank(x), &axis))
        return false;
    return tsr_onnx_out(
        c, 0,
        tsr_onnx_gather(c, x, tsr_onnx_wrap_indices(c, indices, tsr_onnx_dim_of(x, axis)), axis));
}

static MlirValue flatten(tsr_onnx_call *c, MlirValue x) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    uint64_t count = tsr_onnx_volume(c, &shape, 0, shape.rank);
    return tsr_onnx_reshape(c, x, &(tsr_shape){.rank = 1, .dims = {count}});
}

/* For each index along `axis`, the offset of its element in a row-major tensor of shape `full`.
 * Other dims of the indices are positions of the same dims. */
static MlirValue element_offsets(tsr_onnx_call *c, MlirValue indices, uint32_t axis,
                                 const tsr_shape *full) {
    tsr_shape shape = tsr_onnx_type_of(indices).shape;
    MlirValue sum = {NULL};
    uint64_t step = 1;
    indices = tsr_onnx_cast(c, tsr_onnx_wrap_indices(c, indices, full->dims[axis]), TSR_DTYPE_I64);
    for (uint32_t i = full->rank; i-- > 0; step = tsr_onnx_times(c, step, full->dims[i])) {
        MlirValue position =
            i == axis ? indices : tsr_onnx_iota(c, TSR_DTYPE_I64, full->rank, i, shape.dims[i]);
        position = EMIT(c, "mul", position, tsr_onnx_dim_number(c, position, step));
        sum = i + 1 == full->rank ? position : EMIT(c, "add", sum, position);
    }
    return sum;
}

/* Fails unless the indices have the rank of the data, and no more positions in the other dims. */
static bool check_element_indices(tsr_onnx_call *c, MlirValue x, MlirValue indices, uint32_t axis) {
    if (c->failed) return false;
    bool fits = tsr_onnx_rank(x) == tsr_onnx_rank(indices);
    for (uint32_t i = 0; i < tsr_onnx_rank(x) && fits; i++) {
        uint64_t of_indices = tsr_onnx_dim_of(indices, i), of_x = tsr_onnx_dim_of(x, i);
        bool known = tsr_dim_is_known(of_indices) && tsr_dim_is_known(of_x);
        if (i == axis || of_indices == of_x) continue;
        if (!known)
            return tsr_onnx_fail_open(c, "a dim of the indices or of the data",
                                      tsr_dim_is_open(of_x) ? of_x : of_indices,
                                      "the indices must fit into the data");
        fits = of_indices <= of_x;
    }
    return fits || tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the indices do not fit into the dims of the data");
}

bool tsr_onnx_rule_gather_elements(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1);
    tsr_shape full = tsr_onnx_type_of(x).shape;
    uint32_t axis;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), full.rank, &axis) ||
        !check_element_indices(c, x, indices, axis))
        return false;
    MlirValue offsets = element_offsets(c, indices, axis, &full);
    return tsr_onnx_out(c, 0, tsr_onnx_gather(c, flatten(c, x), offsets, 0));
}

/* ---- tuples of indices ----------------------------------------------------------------------- */

/* The last dim of the indices names positions in dims `batch` … of a tensor of shape `full`.
 * Returns the offsets among these dims and the batch dims before them, with the dims of the indices
 * but the last. */
static MlirValue tuple_offsets(tsr_onnx_call *c, MlirValue indices, uint32_t batch,
                               const tsr_shape *full) {
    tsr_shape shape = tsr_onnx_type_of(indices).shape;
    uint32_t last = shape.rank - 1, depth = (uint32_t)shape.dims[last];
    tsr_shape tuples = {.rank = last};
    MlirValue sum = tsr_onnx_filled(c, TSR_DTYPE_I64, &(tsr_shape){.rank = 0}, 0);
    uint64_t step = 1;
    memcpy(tuples.dims, shape.dims, sizeof shape.dims);
    for (uint32_t i = depth; i-- > 0;) {
        uint64_t size = full->dims[batch + i];
        MlirValue position =
            tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, indices, last, i, 1, 1), &tuples);
        position = tsr_onnx_cast(c, tsr_onnx_wrap_indices(c, position, size), TSR_DTYPE_I64);
        sum = EMIT(c, "add", sum, EMIT(c, "mul", position, tsr_onnx_dim_number(c, position, step)));
        step = tsr_onnx_times(c, step, size);
    }
    for (uint32_t i = batch; i-- > 0; step = tsr_onnx_times(c, step, full->dims[i])) {
        MlirValue position = tsr_onnx_iota(c, TSR_DTYPE_I64, last, i, shape.dims[i]);
        sum = EMIT(c, "add", sum, EMIT(c, "mul", position, tsr_onnx_dim_number(c, position, step)));
    }
    return tsr_onnx_broadcast(c, sum, &tuples);
}

static bool check_tuples(tsr_onnx_call *c, MlirValue x, MlirValue indices, uint32_t batch) {
    uint64_t depth = 0;
    if (!tsr_onnx_need_rank(c, "indices", indices, 1, TSR_RANK_MAX)) return false;
    uint32_t last = tsr_onnx_rank(indices) - 1;
    if (!tsr_onnx_known_dim(c, "indices", indices, last, &depth)) return false;
    bool fits = batch <= last && batch + depth <= tsr_onnx_rank(x);
    for (uint32_t i = 0; i < batch && fits; i++)
        fits = tsr_onnx_dim_of(x, i) == tsr_onnx_dim_of(indices, i);
    return fits || tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the tuples of indices do not fit to the dims of the data");
}

/* The dims before `count` become one. */
static MlirValue merge_leading(tsr_onnx_call *c, MlirValue x, uint32_t count) {
    tsr_shape shape = tsr_onnx_type_of(x).shape, merged = {.rank = 1};
    merged.dims[0] = tsr_onnx_volume(c, &shape, 0, count);
    for (uint32_t i = count; i < shape.rank; i++) merged.dims[merged.rank++] = shape.dims[i];
    return tsr_onnx_reshape(c, x, &merged);
}

bool tsr_onnx_rule_gather_nd(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1);
    uint32_t batch = (uint32_t)tsr_onnx_attr_i(c, "batch_dims", 0);
    if (c->failed || !check_tuples(c, x, indices, batch)) return false;
    tsr_shape full = tsr_onnx_type_of(x).shape;
    uint32_t depth = (uint32_t)tsr_onnx_dim_of(indices, tsr_onnx_rank(indices) - 1);
    if (tsr_onnx_rank(indices) - 1 + full.rank - batch - depth > TSR_RANK_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "the result has more than %d dims",
                             TSR_RANK_MAX);
    if (full.rank == TSR_RANK_MAX && batch + depth == 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "tuples of 0 indices");
    MlirValue offsets = tuple_offsets(c, indices, batch, &full);
    return tsr_onnx_out(c, 0, tsr_onnx_gather(c, merge_leading(c, x, batch + depth), offsets, 0));
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* Scatters slices into dim 0 of `x`; how: an attribute of the op, or "add". Sums and products of
 * small integers are computed in i32 and wrap. */
static MlirValue scatter(tsr_onnx_call *c, MlirValue x, MlirValue offsets, MlirValue updates,
                         const char *how) {
    MlirContext context = c->builder->context;
    tsr_attr attrs[] = {
        tsr_onnx_i64_attr(c, "axis", 0), {"how", tsr_attr_make_string(context, how)}, {0}};
    tsr_attr adding[] = {attrs[0], {0}};
    tsr_dtype dtype = tsr_onnx_dtype(x);
    bool computes = strcmp(how, "add") == 0 || strcmp(how, "mul") == 0;
    bool is_small = !tsr_dtype_is_float(dtype) && tsr_dtype_bits(dtype) < 32;
    bool is_wide = is_small && dtype != TSR_DTYPE_I1
                       ? computes
                       : dtype == TSR_DTYPE_I1 && strcmp(how, "set") != 0;
    if (is_wide) x = tsr_onnx_cast(c, x, TSR_DTYPE_I32);
    if (is_wide) updates = tsr_onnx_cast(c, updates, TSR_DTYPE_I32);
    MlirValue y = strcmp(how, "add") == 0 ? EMIT_WITH(c, "scatter_add", adding, x, offsets, updates)
                                          : EMIT_WITH(c, "scatter", attrs, x, offsets, updates);
    return tsr_onnx_cast(c, y, dtype);
}

/* The attribute `reduction` as a word of `scatter`, or "add". */
static bool read_reduction(tsr_onnx_call *c, const char **out_how) {
    static const char *const words[][2] = {
        {"none", "set"}, {"add", "add"}, {"mul", "mul"}, {"max", "max"}, {"min", "min"}};
    const char *word = tsr_onnx_attr_s(c, "reduction", "none");
    for (size_t i = 0; i < TSR_COUNT(words) && !c->failed; i++)
        if (strcmp(word, words[i][0]) == 0) {
            *out_how = words[i][1];
            return true;
        }
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                         "attribute 'reduction' is '%s'; expected none, add, mul, max or min",
                         word);
}

bool tsr_onnx_rule_scatter_elements(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1), updates = tsr_onnx_in(c, 2);
    tsr_shape full = tsr_onnx_type_of(x).shape;
    uint32_t axis;
    const char *how = NULL;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), full.rank, &axis) ||
        !check_element_indices(c, x, indices, axis) || !read_reduction(c, &how))
        return false;
    MlirValue offsets = flatten(c, element_offsets(c, indices, axis, &full));
    MlirValue y = scatter(c, flatten(c, x), offsets, flatten(c, updates), how);
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, y, &full));
}

bool tsr_onnx_rule_scatter_nd(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1), updates = tsr_onnx_in(c, 2);
    const char *how = NULL;
    if (c->failed || !check_tuples(c, x, indices, 0) || !read_reduction(c, &how)) return false;
    tsr_shape full = tsr_onnx_type_of(x).shape;
    uint32_t last = tsr_onnx_rank(indices) - 1, depth = (uint32_t)tsr_onnx_dim_of(indices, last);
    MlirValue offsets = flatten(c, tuple_offsets(c, indices, 0, &full));
    MlirValue y =
        scatter(c, merge_leading(c, x, depth), offsets, merge_leading(c, updates, last), how);
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, y, &full));
}

/* Writes updates at positions that an input gives, for caches of keys and values. */
bool tsr_onnx_rule_tensor_scatter(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), updates = tsr_onnx_in(c, 1);
    const char *mode = tsr_onnx_attr_s(c, "mode", "linear");
    tsr_shape full = tsr_onnx_type_of(x).shape;
    uint32_t axis;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", -2), full.rank, &axis)) return false;
    if (axis == 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'axis' is the batch");
    tsr_shape shape = tsr_onnx_type_of(updates).shape, batch = {.rank = full.rank};
    for (uint32_t i = 0; i < full.rank; i++) batch.dims[i] = i ? 1 : full.dims[0];
    MlirValue start =
        tsr_onnx_has(c, 2)
            ? tsr_onnx_cast(c, c->inputs[2], TSR_DTYPE_I64)
            : tsr_onnx_filled(c, TSR_DTYPE_I64, &(tsr_shape){.rank = 1, .dims = {full.dims[0]}}, 0);
    MlirValue position = tsr_onnx_iota(c, TSR_DTYPE_I64, full.rank, axis, shape.dims[axis]);
    position = EMIT(c, "add", position, tsr_onnx_reshape(c, start, &batch));
    if (strcmp(mode, "circular") == 0) {
        MlirValue size = tsr_onnx_dim_number(c, position, full.dims[axis]);
        position = EMIT(c, "sub", position, EMIT(c, "mul", EMIT(c, "div", position, size), size));
    }
    position = tsr_onnx_broadcast(c, position, &shape);
    MlirValue offsets = flatten(c, element_offsets(c, position, axis, &full));
    MlirValue y = scatter(c, flatten(c, x), offsets, flatten(c, updates), "set");
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, y, &full));
}

/* ---- positions ------------------------------------------------------------------------------- */

/* depth and values; negative indices count from the end, others outside give the off value */
bool tsr_onnx_rule_one_hot(tsr_onnx_call *c) {
    MlirValue indices = tsr_onnx_in(c, 0), values = tsr_onnx_in(c, 2);
    double depth = 0;
    uint32_t axis, rank = tsr_onnx_rank(indices);
    if (!tsr_onnx_in_f64(c, 1, "depth", &depth)) return false;
    if (depth < 0 || depth > (double)INT32_MAX || rank == TSR_RANK_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "depth is %g for %u dims", depth, rank);
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", -1), rank + 1, &axis)) return false;
    tsr_shape shape = tsr_onnx_type_of(indices).shape, full = {.rank = rank + 1};
    for (uint32_t i = 0, from = 0; i <= rank; i++)
        full.dims[i] = i == axis ? 1 : shape.dims[from++];
    tsr_dtype given = tsr_onnx_dtype(indices);
    bool is_small = !tsr_onnx_is_float(indices) && tsr_dtype_bits(given) < 32;
    bool fits = is_small || given == TSR_DTYPE_I32;
    indices = tsr_onnx_cast(c, indices, fits ? TSR_DTYPE_I32 : TSR_DTYPE_I64);
    /* A ui64 that no i64 holds becomes negative and so outside, too. */
    if (!tsr_dtype_is_unsigned(given)) indices = tsr_onnx_wrap_indices(c, indices, (uint64_t)depth);
    MlirValue classes = tsr_onnx_iota(c, tsr_onnx_dtype(indices), rank + 1, axis, (uint64_t)depth);
    MlirValue hot =
        tsr_onnx_compare(c, TSR_PREDICATE_EQ, tsr_onnx_reshape(c, indices, &full), classes);
    tsr_shape scalar = {.rank = 0};
    MlirValue off = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, values, 0, 0, 1, 1), &scalar);
    MlirValue on = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, values, 0, 1, 1, 1), &scalar);
    return tsr_onnx_out(c, 0, EMIT(c, "where", hot, on, off));
}

/* Numbers in the opposite order; mirrored twice, they are the same again. Inverted bits: -1 - x, or
 * the largest number minus x, which no integer overflows. */
static MlirValue mirrored(tsr_onnx_call *c, MlirValue x) {
    return tsr_onnx_is_float(x) ? EMIT(c, "neg", x) : EMIT(c, "not", x);
}

/* Positions of an axis from the last to the first. */
static MlirValue reversed_positions(tsr_onnx_call *c, uint64_t size) {
    if (tsr_dim_is_open(size)) {
        MlirValue positions = tsr_onnx_iota(c, TSR_DTYPE_I64, 1, 0, size);
        MlirValue last = EMIT(c, "sub", tsr_onnx_dim_number(c, positions, size), ONE(c, positions));
        return EMIT(c, "sub", last, positions);
    }
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)size + 1);
    TSR_NEED(positions);
    for (uint64_t i = 0; i < size; i++) positions[i] = (int64_t)(size - 1 - i);
    return tsr_onnx_int_list(c, (size_t)size, positions);
}

/* The first of several extremes, or by the reversed axis the last. */
static MlirValue arg_extreme(tsr_onnx_call *c, MlirValue x, uint32_t axis, bool smallest,
                             bool last) {
    uint64_t size = tsr_onnx_dim_of(x, axis);
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), {0}};
    if (smallest) x = mirrored(c, x);
    if (last) x = tsr_onnx_gather(c, x, reversed_positions(c, size), axis);
    MlirValue index = EMIT_WITH(c, "argmax", attrs, x);
    if (!last) return index;
    if (tsr_dim_is_known(size))
        return EMIT(c, "sub", tsr_onnx_number(c, index, (double)size - 1), index);
    MlirValue end = EMIT(c, "sub", tsr_onnx_dim_number(c, index, size), ONE(c, index));
    return EMIT(c, "sub", end, index);
}

bool tsr_onnx_rule_arg_extreme(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    bool last = tsr_onnx_attr_i(c, "select_last_index", 0) != 0;
    uint32_t axis;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), tsr_onnx_rank(x), &axis))
        return false;
    tsr_shape reduced = tsr_onnx_type_of(x).shape;
    MlirValue index = arg_extreme(c, x, axis, c->row->with[0] == 's', last);
    reduced.dims[axis] = 1;
    if (tsr_onnx_attr_i(c, "keepdims", 1)) index = tsr_onnx_reshape(c, index, &reduced);
    return tsr_onnx_out(c, 0, index);
}

/* The smallest: the largest in the opposite order. */
bool tsr_onnx_rule_top_k(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), results[2];
    int64_t k = tsr_onnx_attr_i(c, "k", 0);
    bool largest = tsr_onnx_attr_i(c, "largest", 1) != 0;
    uint32_t axis;
    if (c->opset >= 10 && !tsr_onnx_in_int(c, 1, "k", &k)) return false;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", -1), tsr_onnx_rank(x), &axis))
        return false;
    MlirValue keys = largest ? x : mirrored(c, x);
    uint64_t size = tsr_onnx_dim_of(x, axis);
    char text[TSR_DIM_TEXT_MAX];
    if (k < 0 || (tsr_dim_is_known(size) && k > (int64_t)size))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "k is %" PRId64 "; the axis has %s", k,
                             tsr_dim_text(size, text));
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), tsr_onnx_i64_attr(c, "k", k), {0}};
    tsr_type types[] = {tsr_onnx_type_of(keys), tsr_onnx_type_of(keys)};
    types[1].dtype = TSR_DTYPE_I64;
    types[0].shape.dims[axis] = types[1].shape.dims[axis] = (uint64_t)k;
    if (!tsr_onnx_emit_many(c, TSR_GRAPH_NAME("top_k"), &keys, 1, attrs, 2, types, results))
        return false;
    tsr_onnx_out(c, 1, results[1]);
    return tsr_onnx_out(c, 0, largest ? results[0] : mirrored(c, results[0]));
}

bool tsr_onnx_rule_cumsum(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t given = 0;
    uint32_t axis;
    if (!tsr_onnx_in_int(c, 1, "axis", &given) ||
        !tsr_onnx_axis(c, "axis", given, tsr_onnx_rank(x), &axis))
        return false;
    MlirContext context = c->builder->context;
    bool exclusive = tsr_onnx_attr_i(c, "exclusive", 0), reverse = tsr_onnx_attr_i(c, "reverse", 0);
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis),
                        {"reverse", tsr_attr_make_bool(context, reverse)},
                        {"exclusive", tsr_attr_make_bool(context, exclusive)},
                        {0}};
    return tsr_onnx_out(c, 0, EMIT_WITH(c, "cumsum", attrs, x));
}

/* ---- positions of a known tensor ------------------------------------------------------------- */

bool tsr_onnx_rule_non_zero(tsr_onnx_call *c) {
    const tsr_onnx_known *x = tsr_onnx_in_known(c, 0, "X");
    if (!x) return false;
    uint64_t count = 0, rank = x->type.shape.rank ? x->type.shape.rank : 1;
    for (uint64_t i = 0; i < x->count; i++)
        count += x->is_float ? x->floats[i] != 0 : x->ints[i] != 0;
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)(count * rank) + 1);
    TSR_NEED(positions);
    for (uint64_t i = 0, at = 0; i < x->count; i++) {
        uint64_t rest = i;
        if (x->is_float ? x->floats[i] == 0 : x->ints[i] == 0) continue;
        for (uint64_t d = rank; d-- > 0;) {
            uint64_t dim = x->type.shape.rank ? x->type.shape.dims[d] : 1;
            positions[d * count + at] = (int64_t)(rest % dim);
            rest /= dim;
        }
        at++;
    }
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 2, .dims = {rank, count}}};
    return tsr_onnx_out(c, 0, tsr_onnx_constant(c, &type, positions));
}

/* NonMaxSuppression, Unique */
bool tsr_onnx_rule_sized_by_data(tsr_onnx_call *c) {
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_OP,
                         "the size of the result depends on the elements of the input, and a "
                         "program has known sizes; let the model end before this node, and "
                         "compute it in the caller");
}

bool tsr_onnx_rule_compress(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    const tsr_onnx_known *condition = tsr_onnx_in_known(c, 1, "condition");
    uint32_t axis = 0;
    if (!condition) return false;
    if (!tsr_onnx_attr(c, "axis"))
        x = flatten(c, x);
    else if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), tsr_onnx_rank(x), &axis))
        return false;
    size_t count = 0;
    uint64_t size = 0;
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)condition->count + 1);
    TSR_NEED(positions);
    if (!tsr_onnx_known_dim(c, "the input", x, axis, &size)) return false;
    for (uint64_t i = 0; i < condition->count; i++)
        if (condition->ints[i] && i < size) positions[count++] = (int64_t)i;
    return tsr_onnx_out(c, 0, tsr_onnx_gather(c, x, tsr_onnx_int_list(c, count, positions), axis));
}

/* Reverses the first `lens` positions of each row. */
bool tsr_onnx_rule_reverse_sequence(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), lengths = tsr_onnx_in(c, 1);
    tsr_shape full = tsr_onnx_type_of(x).shape, rows = {.rank = full.rank};
    uint32_t time, batch;
    if (!tsr_onnx_axis(c, "time_axis", tsr_onnx_attr_i(c, "time_axis", 0), full.rank, &time) ||
        !tsr_onnx_axis(c, "batch_axis", tsr_onnx_attr_i(c, "batch_axis", 1), full.rank, &batch))
        return false;
    for (uint32_t i = 0; i < full.rank; i++) rows.dims[i] = i == batch ? full.dims[i] : 1;
    lengths = tsr_onnx_reshape(c, tsr_onnx_cast(c, lengths, TSR_DTYPE_I64), &rows);
    MlirValue position = tsr_onnx_iota(c, TSR_DTYPE_I64, full.rank, time, full.dims[time]);
    MlirValue back = EMIT(c, "sub", EMIT(c, "sub", lengths, ONE(c, lengths)), position);
    MlirValue inside = tsr_onnx_compare(c, TSR_PREDICATE_GE, back, ZERO(c, back));
    MlirValue from = tsr_onnx_broadcast(c, EMIT(c, "where", inside, back, position), &full);
    MlirValue offsets = element_offsets(c, from, time, &full);
    return tsr_onnx_out(c, 0, tsr_onnx_gather(c, flatten(c, x), offsets, 0));
}
