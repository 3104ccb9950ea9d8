/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops by indices. Negative indices count from the end. Gathers and scatters of single elements go
 * through offsets into the flattened tensor.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/process/guard.h"

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
    return tsr_onnx_reshape(c, x, &(tsr_shape){.rank = 1, .dims = {tsr_onnx_count(x)}});
}

/* For each index along `axis`, the offset of its element in a row-major tensor of shape `full`.
 * Other dims of the indices are places of the same dims. */
static MlirValue element_offsets(tsr_onnx_call *c, MlirValue indices, uint32_t axis,
                                 const tsr_shape *full) {
    tsr_shape shape = tsr_onnx_type_of(indices).shape;
    MlirValue sum = {NULL};
    uint64_t step = 1;
    indices = tsr_onnx_cast(c, tsr_onnx_wrap_indices(c, indices, full->dims[axis]), TSR_DTYPE_I64);
    for (uint32_t i = full->rank; i-- > 0; step *= full->dims[i]) {
        MlirValue place =
            i == axis ? indices : tsr_onnx_places(c, TSR_DTYPE_I64, full->rank, i, shape.dims[i]);
        place = EMIT(c, "mul", place, tsr_onnx_number(c, place, (double)step));
        sum = i + 1 == full->rank ? place : EMIT(c, "add", sum, place);
    }
    return sum;
}

/* Fails unless the indices have the rank of the data, and no more places in the other dims. */
static bool check_element_indices(tsr_onnx_call *c, MlirValue x, MlirValue indices, uint32_t axis) {
    if (c->failed) return false;
    bool fits = tsr_onnx_rank(x) == tsr_onnx_rank(indices);
    for (uint32_t i = 0; i < tsr_onnx_rank(x) && fits; i++)
        fits = i == axis || tsr_onnx_dim_of(indices, i) <= tsr_onnx_dim_of(x, i);
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

/* The last dim of the indices names places in dims `batch` … of a tensor of shape `full`. Returns
 * the offsets among these dims and the batch dims before them, with the dims of the indices but
 * the last. */
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
        MlirValue place =
            tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, indices, last, i, 1, 1), &tuples);
        place = tsr_onnx_cast(c, tsr_onnx_wrap_indices(c, place, size), TSR_DTYPE_I64);
        sum = EMIT(c, "add", sum, EMIT(c, "mul", place, tsr_onnx_number(c, place, (double)step)));
        step *= size;
    }
    for (uint32_t i = batch; i-- > 0; step *= full->dims[i]) {
        MlirValue place = tsr_onnx_places(c, TSR_DTYPE_I64, last, i, shape.dims[i]);
        sum = EMIT(c, "add", sum, EMIT(c, "mul", place, tsr_onnx_number(c, place, (double)step)));
    }
    return tsr_onnx_broadcast(c, sum, &tuples);
}

static bool check_tuples(tsr_onnx_call *c, MlirValue x, MlirValue indices, uint32_t batch) {
    if (!tsr_onnx_need_rank(c, "indices", indices, 1, TSR_RANK_MAX)) return false;
    uint32_t last = tsr_onnx_rank(indices) - 1;
    bool fits = batch <= last && batch + tsr_onnx_dim_of(indices, last) <= tsr_onnx_rank(x);
    for (uint32_t i = 0; i < batch && fits; i++)
        fits = tsr_onnx_dim_of(x, i) == tsr_onnx_dim_of(indices, i);
    return fits || tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "the tuples of indices do not fit to the dims of the data");
}

/* The dims before `count` become one. */
static MlirValue merge_leading(tsr_onnx_call *c, MlirValue x, uint32_t count) {
    tsr_shape shape = tsr_onnx_type_of(x).shape, merged = {.rank = 1, .dims = {1}};
    for (uint32_t i = 0; i < count; i++) merged.dims[0] *= shape.dims[i];
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

/* Scatters slices into dim 0 of `x`. Setting: a place that an index names takes the sum of its
 * updates, and indices name a place once, as ONNX demands. */
static MlirValue scatter(tsr_onnx_call *c, MlirValue x, MlirValue offsets, MlirValue updates,
                         bool adds) {
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", 0), {0}};
    tsr_dtype dtype = tsr_onnx_dtype(x);
    bool is_byte = dtype == TSR_DTYPE_I8 || dtype == TSR_DTYPE_UI8 || dtype == TSR_DTYPE_I1;
    tsr_dtype by = is_byte ? TSR_DTYPE_I32 : dtype;
    tsr_shape shape = tsr_onnx_type_of(x).shape, rows = {.rank = 1, .dims = {shape.dims[0]}};
    MlirValue wide = tsr_onnx_cast(c, updates, by);
    if (adds) {
        MlirValue sum = EMIT_WITH(c, "scatter_add", attrs, tsr_onnx_cast(c, x, by), offsets, wide);
        return tsr_onnx_cast(c, sum, dtype);
    }
    MlirValue sums =
        EMIT_WITH(c, "scatter_add", attrs, tsr_onnx_filled(c, by, &shape, 0), offsets, wide);
    tsr_shape named = tsr_onnx_type_of(offsets).shape;
    MlirValue hits = EMIT_WITH(c, "scatter_add", attrs, tsr_onnx_filled(c, TSR_DTYPE_I32, &rows, 0),
                               offsets, tsr_onnx_filled(c, TSR_DTYPE_I32, &named, 1));
    MlirValue is_hit = tsr_onnx_compare(c, TSR_PREDICATE_NE, hits, ZERO(c, hits));
    tsr_shape column = {.rank = shape.rank, .dims = {shape.dims[0], 1, 1, 1, 1, 1, 1, 1}};
    is_hit = tsr_onnx_reshape(c, is_hit, &column);
    return EMIT(c, "where", is_hit, tsr_onnx_cast(c, sums, dtype), x);
}

/* Reads the attribute `reduction`: set or add. */
static bool read_reduction(tsr_onnx_call *c, bool *out_adds) {
    const char *word = tsr_onnx_attr_s(c, "reduction", "none");
    *out_adds = strcmp(word, "add") == 0;
    return (!c->failed && (*out_adds || strcmp(word, "none") == 0)) ||
           tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                         "attribute 'reduction' is '%s'; none and add can be imported", word);
}

bool tsr_onnx_rule_scatter_elements(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1), updates = tsr_onnx_in(c, 2);
    tsr_shape full = tsr_onnx_type_of(x).shape;
    uint32_t axis;
    bool adds = false;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), full.rank, &axis) ||
        !check_element_indices(c, x, indices, axis) || !read_reduction(c, &adds))
        return false;
    MlirValue offsets = flatten(c, element_offsets(c, indices, axis, &full));
    MlirValue y = scatter(c, flatten(c, x), offsets, flatten(c, updates), adds);
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, y, &full));
}

bool tsr_onnx_rule_scatter_nd(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1), updates = tsr_onnx_in(c, 2);
    bool adds = false;
    if (c->failed || !check_tuples(c, x, indices, 0) || !read_reduction(c, &adds)) return false;
    tsr_shape full = tsr_onnx_type_of(x).shape;
    uint32_t last = tsr_onnx_rank(indices) - 1, depth = (uint32_t)tsr_onnx_dim_of(indices, last);
    MlirValue offsets = flatten(c, tuple_offsets(c, indices, 0, &full));
    MlirValue y =
        scatter(c, merge_leading(c, x, depth), offsets, merge_leading(c, updates, last), adds);
    return tsr_onnx_out(c, 0, tsr_onnx_reshape(c, y, &full));
}

/* Writes updates at places that an input gives, for caches of keys and values. */
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
    MlirValue place = tsr_onnx_places(c, TSR_DTYPE_I64, full.rank, axis, shape.dims[axis]);
    place = EMIT(c, "add", place, tsr_onnx_reshape(c, start, &batch));
    if (strcmp(mode, "circular") == 0) {
        MlirValue size = tsr_onnx_number(c, place, (double)full.dims[axis]);
        place = EMIT(c, "sub", place, EMIT(c, "mul", EMIT(c, "div", place, size), size));
    }
    place = tsr_onnx_broadcast(c, place, &shape);
    MlirValue offsets = flatten(c, element_offsets(c, place, axis, &full));
    MlirValue y = scatter(c, flatten(c, x), offsets, flatten(c, updates), false);
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
    bool exact = tsr_onnx_dtype(indices) == TSR_DTYPE_I64 || tsr_onnx_is_float(indices);
    indices = tsr_onnx_cast(c, indices, exact ? TSR_DTYPE_I64 : TSR_DTYPE_I32);
    indices = tsr_onnx_wrap_indices(c, indices, (uint64_t)depth);
    MlirValue classes =
        tsr_onnx_places(c, tsr_onnx_dtype(indices), rank + 1, axis, (uint64_t)depth);
    MlirValue hot =
        tsr_onnx_compare(c, TSR_PREDICATE_EQ, tsr_onnx_reshape(c, indices, &full), classes);
    tsr_shape scalar = {.rank = 0};
    MlirValue off = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, values, 0, 0, 1, 1), &scalar);
    MlirValue on = tsr_onnx_reshape(c, tsr_onnx_slice_dim(c, values, 0, 1, 1, 1), &scalar);
    return tsr_onnx_out(c, 0, EMIT(c, "where", hot, on, off));
}

/* The first of several extremes, or by the reversed axis the last. */
static MlirValue arg_extreme(tsr_onnx_call *c, MlirValue x, uint32_t axis, bool smallest,
                             bool last) {
    int64_t size = (int64_t)tsr_onnx_dim_of(x, axis);
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), {0}};
    if (tsr_onnx_dtype(x) == TSR_DTYPE_UI8) x = tsr_onnx_cast(c, x, TSR_DTYPE_I32);
    if (smallest && tsr_onnx_is_float(x))
        x = EMIT(c, "neg", x);
    else if (smallest) /* -1 - x, which no integer overflows */
        x = EMIT(c, "sub", tsr_onnx_number(c, x, -1), x);
    if (last) {
        int64_t *places = TSR_NEW(c->arena, int64_t, (size_t)size + 1);
        TSR_NEED(places);
        for (int64_t i = 0; i < size; i++) places[i] = size - 1 - i;
        x = tsr_onnx_gather(c, x, tsr_onnx_int_list(c, (size_t)size, places), axis);
    }
    MlirValue index = EMIT_WITH(c, "argmax", attrs, x);
    if (!last) return index;
    return EMIT(c, "sub", tsr_onnx_number(c, index, (double)(size - 1)), index);
}

bool tsr_onnx_rule_arg_extreme(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    bool last = tsr_onnx_attr_i(c, "select_last_index", 0) != 0;
    uint32_t axis;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 0), tsr_onnx_rank(x), &axis))
        return false;
    tsr_shape kept = tsr_onnx_type_of(x).shape;
    MlirValue index = arg_extreme(c, x, axis, c->row->with[0] == 's', last);
    kept.dims[axis] = 1;
    if (tsr_onnx_attr_i(c, "keepdims", 1)) index = tsr_onnx_reshape(c, index, &kept);
    return tsr_onnx_out(c, 0, index);
}

/* The smallest: the largest of negated numbers. */
bool tsr_onnx_rule_top_k(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), results[2];
    int64_t k = tsr_onnx_attr_i(c, "k", 0);
    bool largest = tsr_onnx_attr_i(c, "largest", 1) != 0;
    uint32_t axis;
    if (c->opset >= 10 && !tsr_onnx_in_int(c, 1, "k", &k)) return false;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", -1), tsr_onnx_rank(x), &axis))
        return false;
    tsr_dtype dtype = tsr_onnx_dtype(x);
    bool is_byte = dtype == TSR_DTYPE_UI8;
    MlirValue keys = is_byte ? tsr_onnx_cast(c, x, TSR_DTYPE_I32) : x;
    MlirValue top = tsr_onnx_number(c, keys, -1);
    if (!largest) keys = tsr_onnx_is_float(keys) ? EMIT(c, "neg", keys) : EMIT(c, "sub", top, keys);
    if (k < 0 || k > (int64_t)tsr_onnx_dim_of(x, axis))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "k is %" PRId64 "; the axis has %" PRIu64, k,
                             tsr_onnx_dim_of(x, axis));
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", axis), tsr_onnx_i64_attr(c, "k", k), {0}};
    tsr_type types[] = {tsr_onnx_type_of(keys), tsr_onnx_type_of(keys)};
    types[1].dtype = TSR_DTYPE_I64;
    types[0].shape.dims[axis] = types[1].shape.dims[axis] = (uint64_t)k;
    if (!tsr_onnx_emit_many(c, TSR_GRAPH_NAME("top_k"), &keys, 1, attrs, 2, types, results))
        return false;
    if (!largest)
        results[0] =
            tsr_onnx_is_float(keys) ? EMIT(c, "neg", results[0]) : EMIT(c, "sub", top, results[0]);
    tsr_onnx_out(c, 1, results[1]);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, results[0], dtype));
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

/* ---- places of a known tensor ---------------------------------------------------------------- */

bool tsr_onnx_rule_non_zero(tsr_onnx_call *c) {
    const tsr_onnx_known *x = tsr_onnx_in_known(c, 0, "X");
    if (!x) return false;
    uint64_t count = 0, rank = x->type.shape.rank ? x->type.shape.rank : 1;
    for (uint64_t i = 0; i < x->count; i++)
        count += x->is_float ? x->floats[i] != 0 : x->ints[i] != 0;
    int64_t *places = TSR_NEW(c->arena, int64_t, (size_t)(count * rank) + 1);
    TSR_NEED(places);
    for (uint64_t i = 0, at = 0; i < x->count; i++) {
        uint64_t rest = i;
        if (x->is_float ? x->floats[i] == 0 : x->ints[i] == 0) continue;
        for (uint64_t d = rank; d-- > 0;) {
            uint64_t dim = x->type.shape.rank ? x->type.shape.dims[d] : 1;
            places[d * count + at] = (int64_t)(rest % dim);
            rest /= dim;
        }
        at++;
    }
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 2, .dims = {rank, count}}};
    return tsr_onnx_out(c, 0, tsr_onnx_constant(c, &type, places));
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
    int64_t *places = TSR_NEW(c->arena, int64_t, (size_t)condition->count + 1);
    TSR_NEED(places);
    for (uint64_t i = 0; i < condition->count; i++)
        if (condition->ints[i] && i < tsr_onnx_dim_of(x, axis)) places[count++] = (int64_t)i;
    return tsr_onnx_out(c, 0, tsr_onnx_gather(c, x, tsr_onnx_int_list(c, count, places), axis));
}

/* Reverses the first `lens` places of each row. */
bool tsr_onnx_rule_reverse_sequence(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), lengths = tsr_onnx_in(c, 1);
    tsr_shape full = tsr_onnx_type_of(x).shape, rows = {.rank = full.rank};
    uint32_t time, batch;
    if (!tsr_onnx_axis(c, "time_axis", tsr_onnx_attr_i(c, "time_axis", 0), full.rank, &time) ||
        !tsr_onnx_axis(c, "batch_axis", tsr_onnx_attr_i(c, "batch_axis", 1), full.rank, &batch))
        return false;
    for (uint32_t i = 0; i < full.rank; i++) rows.dims[i] = i == batch ? full.dims[i] : 1;
    lengths = tsr_onnx_reshape(c, tsr_onnx_cast(c, lengths, TSR_DTYPE_I64), &rows);
    MlirValue place = tsr_onnx_places(c, TSR_DTYPE_I64, full.rank, time, full.dims[time]);
    MlirValue back = EMIT(c, "sub", EMIT(c, "sub", lengths, ONE(c, lengths)), place);
    MlirValue inside = tsr_onnx_compare(c, TSR_PREDICATE_GE, back, ZERO(c, back));
    MlirValue from = tsr_onnx_broadcast(c, EMIT(c, "where", inside, back, place), &full);
    MlirValue offsets = element_offsets(c, from, time, &full);
    return tsr_onnx_out(c, 0, tsr_onnx_gather(c, flatten(c, x), offsets, 0));
}
