/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantisation. Products of bytes are products of integers, from which what zero points add is
 * subtracted: sums of weights are computed at the import. Where inputs of Conv, MatMul and Gemm are
 * results of DequantizeLinear, the product is one of their integers, and the scales follow it.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/rules/quantized.h"

#include <inttypes.h>
#include <string.h>

static bool is_byte(MlirValue x) {
    tsr_dtype dtype = tsr_onnx_dtype(x);
    return dtype == TSR_DTYPE_I8 || dtype == TSR_DTYPE_UI8;
}

/* ---- scales and zero points ------------------------------------------------------------------ */

/* One number for all, one for each position of the axis, or one for each block along the axis, as
 * something that broadcasts to x. */
static MlirValue expand(tsr_onnx_call *c, MlirValue value, MlirValue x) {
    tsr_shape shape = tsr_onnx_type_of(x).shape, is = tsr_onnx_type_of(value).shape;
    int64_t block = tsr_onnx_attr_i(c, "block_size", 0);
    uint32_t axis;
    if (mlirValueIsNull(value) || c->failed) return value;
    if (tsr_onnx_count(value) == 1) return tsr_onnx_reshape(c, value, &(tsr_shape){.rank = 0});
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 1), shape.rank, &axis))
        return (MlirValue){NULL};
    if (!block) {
        tsr_shape row = {.rank = shape.rank, .dims = {1, 1, 1, 1, 1, 1, 1, 1}};
        row.dims[axis] = is.dims[0];
        if (is.rank != 1)
            return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "a scale has %u dims", is.rank);
        return tsr_onnx_reshape(c, value, &row);
    }
    if (is.rank != shape.rank || shape.rank == TSR_RANK_MAX || block < 0)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE,
                                   "scales of blocks have %u dims, the input %u", is.rank,
                                   shape.rank);
    tsr_shape split = is, whole = is; /* each block's number block_size times */
    for (uint32_t i = split.rank++; i > axis + 1; i--) split.dims[i] = split.dims[i - 1];
    split.dims[axis + 1] = 1;
    value = tsr_onnx_reshape(c, value, &split);
    split.dims[axis + 1] = (uint64_t)block;
    whole.dims[axis] = tsr_onnx_times(c, whole.dims[axis], (uint64_t)block);
    value = tsr_onnx_reshape(c, tsr_onnx_broadcast(c, value, &split), &whole);
    return tsr_onnx_slice_open(c, value, axis, 0, shape.dims[axis], 1);
}

/* Rounds x, adds the zero point, and saturates to an integer of 8 or 16 bits. */
static MlirValue to_small(tsr_onnx_call *c, MlirValue x, MlirValue zero, tsr_dtype dtype) {
    MlirValue y = tsr_onnx_round(c, x);
    if (!mlirValueIsNull(zero)) y = EMIT(c, "add", y, tsr_onnx_cast(c, zero, tsr_onnx_dtype(y)));
    y = EMIT(c, "max", y, tsr_onnx_number(c, y, (double)tsr_dtype_lowest(dtype)));
    y = EMIT(c, "min", y, tsr_onnx_number(c, y, (double)tsr_dtype_highest(dtype)));
    return tsr_onnx_cast(c, y, dtype);
}

/* The type of an output: that of the zero point, or of an attribute, or ui8. */
static tsr_dtype output_type(tsr_onnx_call *c, MlirValue zero) {
    int64_t given = tsr_onnx_attr_i(c, "output_dtype", 0);
    tsr_dtype dtype = !mlirValueIsNull(zero) ? tsr_onnx_dtype(zero)
                      : given                ? tsr_onnx_type_dtype(given)
                                             : TSR_DTYPE_UI8;
    bool is_integer = tsr_dtype_is_signed(dtype) || tsr_dtype_is_unsigned(dtype);
    if (!is_integer || tsr_dtype_bits(dtype) > 16)
        tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE,
                      "the output has elements of %s; integers of 8 and 16 bits can be imported",
                      given ? tsr_onnx_type_name(given) : tsr_dtype_name(dtype));
    return dtype;
}

bool tsr_onnx_rule_quantize(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), scale = tsr_onnx_in(c, 1), zero = tsr_onnx_in_or_null(c, 2);
    tsr_dtype dtype = output_type(c, zero);
    int64_t precision = tsr_onnx_attr_i(c, "precision", 0);
    if (c->failed) return false;
    tsr_dtype by = precision ? tsr_onnx_type_dtype(precision) : tsr_onnx_dtype(x);
    if (!tsr_dtype_is_float(by)) by = TSR_DTYPE_F32;
    MlirValue ratio =
        EMIT(c, "div", tsr_onnx_cast(c, x, by), tsr_onnx_cast(c, expand(c, scale, x), by));
    ratio = tsr_onnx_wide(c, ratio);
    return tsr_onnx_out(c, 0, to_small(c, ratio, expand(c, zero, x), dtype));
}

/* Products of the value may use its integers: they are bytes, with a scale for all or for each
 * position of an axis. */
static void note_dequantized(tsr_onnx_call *c, MlirValue y) {
    tsr_onnx_importer *im = c->importer;
    MlirValue x = tsr_onnx_in(c, 0);
    uint32_t axis = 0, rank = tsr_onnx_rank(x);
    if (c->failed || !is_byte(x) || tsr_onnx_dtype(y) != TSR_DTYPE_F32 ||
        tsr_onnx_attr_i(c, "block_size", 0) || im->trains)
        return;
    bool one = tsr_onnx_count(tsr_onnx_in(c, 1)) == 1;
    if (!one && !tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", 1), rank, &axis)) return;
    tsr_onnx_grow(&im->arena, (void **)&im->dequantized, im->dequantized_count,
                  &im->dequantized_capacity, sizeof *im->dequantized);
    im->dequantized[im->dequantized_count++] =
        (tsr_onnx_dequantized){.value = y,
                               .bytes = x,
                               .scale = tsr_onnx_in(c, 1),
                               .zero = tsr_onnx_in_or_null(c, 2),
                               .axis = one ? TSR_ONNX_NO_AXIS : axis};
}

bool tsr_onnx_rule_dequantize(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), scale = tsr_onnx_in(c, 1), zero = tsr_onnx_in_or_null(c, 2);
    int64_t given = tsr_onnx_attr_i(c, "output_dtype", 0);
    tsr_dtype dtype = given ? tsr_onnx_type_dtype(given) : tsr_onnx_dtype(scale);
    if (c->failed) return false;
    if (!tsr_dtype_is_float(dtype))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE, "attribute 'output_dtype' is %s",
                             tsr_onnx_type_name(given));
    bool wide = tsr_onnx_dtype(x) == TSR_DTYPE_I32 || tsr_onnx_dtype(scale) == TSR_DTYPE_F64;
    tsr_dtype by = wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32;
    MlirValue y = tsr_onnx_cast(c, x, by);
    if (!mlirValueIsNull(zero)) y = EMIT(c, "sub", y, tsr_onnx_cast(c, expand(c, zero, x), by));
    y = EMIT(c, "mul", y, tsr_onnx_cast(c, expand(c, scale, x), by));
    y = tsr_onnx_cast(c, y, dtype);
    note_dequantized(c, y);
    return tsr_onnx_out(c, 0, y);
}

/* Scale and zero point from the range of x, which is made to hold 0. */
bool tsr_onnx_rule_dynamic_quantize(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), zero = ZERO(c, x), levels = tsr_onnx_number(c, x, 255);
    int64_t axes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t rank = tsr_onnx_rank(x);
    MlirValue high = tsr_onnx_reduce(c, TSR_GRAPH_NAME("reduce_max"), x, rank, axes, false);
    MlirValue low = tsr_onnx_reduce(c, TSR_GRAPH_NAME("reduce_min"), x, rank, axes, false);
    high = EMIT(c, "max", high, zero);
    low = EMIT(c, "min", low, zero);
    MlirValue range = EMIT(c, "sub", high, low);
    MlirValue empty = tsr_onnx_compare(c, TSR_PREDICATE_EQ, range, zero);
    MlirValue scale = EMIT(c, "div", EMIT(c, "where", empty, ONE(c, x), range), levels);
    MlirValue point = EMIT(c, "div", EMIT(c, "neg", low), scale);
    point = tsr_onnx_round(c, EMIT(c, "min", EMIT(c, "max", point, zero), levels));
    tsr_onnx_out(c, 1, scale);
    tsr_onnx_out(c, 2, tsr_onnx_cast(c, point, TSR_DTYPE_UI8));
    MlirValue ratio = EMIT(c, "div", x, scale);
    return tsr_onnx_out(c, 0, to_small(c, ratio, point, TSR_DTYPE_UI8));
}

/* ---- products -------------------------------------------------------------------------------- */

static MlirValue wide(tsr_onnx_call *c, MlirValue x) { return tsr_onnx_cast(c, x, TSR_DTYPE_I32); }

/* True if there is no zero point, or all are known to be 0. */
static bool is_zero(tsr_onnx_call *c, MlirValue zero) {
    if (mlirValueIsNull(zero)) return true;
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, zero);
    if (!known || known->is_float || known->open) return false;
    for (uint64_t i = 0; i < known->count; i++)
        if (known->ints[i]) return false;
    return true;
}

/* The sums of the elements of an initializer over the dims first ... end - 1: null for another
 * value.
 */
static MlirValue sum_weights(tsr_onnx_call *c, MlirValue x, uint32_t first, uint32_t end) {
    tsr_onnx_importer *im = c->importer;
    MlirOperation owner = tsr_value_owner(x);
    if (tsr_op_is(owner, TSR_GRAPH_TRANSPOSE) && tsr_onnx_rank(x) == 2 && end == first + 1) {
        first = 1 - first; /* a matrix, and no identity */
        end = first + 1;
        owner = tsr_value_owner(tsr_op_operand(owner, 0));
    }
    const tsr_onnx_param *param =
        tsr_op_is(owner, TSR_GRAPH_PARAM) ? tsr_onnx_find_param(im, owner) : NULL;
    tsr_tensor view;
    if (!param || tsr_onnx_elements(im->ctx, &im->files, param->tensor, c->arena, &view).code) {
        tsr_error_clear(im->ctx);
        return (MlirValue){NULL};
    }
    uint64_t outer = 1, count = 1, inner = 1;
    tsr_type type = {.dtype = TSR_DTYPE_I32};
    for (uint32_t d = 0; d < view.shape.rank; d++) {
        uint64_t dim = view.shape.dims[d], *part = d < first ? &outer : d < end ? &count : &inner;
        *part *= dim;
        if (d < first || d >= end) type.shape.dims[type.shape.rank++] = dim;
    }
    int32_t *sums = tsr_arena_alloc(c->arena, outer * inner + 1, sizeof *sums, sizeof *sums);
    if (!sums) return (MlirValue){NULL};
    memset(sums, 0, outer * inner * sizeof *sums);
    bool is_signed = view.dtype == TSR_DTYPE_I8;
    const uint8_t *bytes = view.data;
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t k = 0; k < count; k++)
            for (uint64_t i = 0; i < inner; i++, bytes++)
                sums[o * inner + i] += is_signed ? (int8_t)*bytes : *bytes;
    return tsr_onnx_constant(c, &type, sums);
}

/* The sums over the dims first ... end - 1, which are removed. */
static MlirValue sum_bytes(tsr_onnx_call *c, MlirValue x, uint32_t first, uint32_t end) {
    int64_t axes[TSR_RANK_MAX];
    uint32_t count = 0;
    if (c->failed) return (MlirValue){NULL};
    MlirValue sums = sum_weights(c, x, first, end);
    if (!mlirValueIsNull(sums)) return sums;
    for (uint32_t d = first; d < end; d++) axes[count++] = d;
    return tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"), wide(c, x), count, axes, false);
}

/* The same over dim `axis`, which becomes 1. */
static MlirValue sum_axis(tsr_onnx_call *c, MlirValue x, uint32_t axis) {
    tsr_shape reduced = tsr_onnx_type_of(x).shape;
    reduced.dims[axis] = 1;
    return tsr_onnx_reshape(c, sum_bytes(c, x, axis, axis + 1), &reduced);
}

/* A number for all, or for each row of [.., M, K]. */
static MlirValue of_rows(tsr_onnx_call *c, MlirValue value) {
    tsr_shape shape = tsr_onnx_type_of(value).shape;
    if (mlirValueIsNull(value) || shape.rank != 1 || shape.dims[0] == 1) return value;
    return tsr_onnx_reshape(c, value, &(tsr_shape){.rank = 2, .dims = {shape.dims[0], 1}});
}

/* (a - a_zero) (b - b_zero) of matrices = a b - a_zero (sums of b's columns)
 *     - b_zero (sums of a's rows) + K a_zero b_zero */
static MlirValue multiply_matrices(tsr_onnx_call *c, MlirValue a, MlirValue a_zero, MlirValue b,
                                   MlirValue b_zero) {
    bool moves_a = !is_zero(c, a_zero), moves_b = !is_zero(c, b_zero);
    uint32_t rank = tsr_onnx_rank(a);
    MlirValue y = tsr_onnx_matmul(c, a, b, false, false);
    if (moves_a) {
        MlirValue sums = sum_axis(c, b, tsr_onnx_rank(b) - 2);
        y = EMIT(c, "sub", y, EMIT(c, "mul", wide(c, a_zero), sums));
    }
    if (!moves_b) return y;
    y = EMIT(c, "sub", y, EMIT(c, "mul", sum_axis(c, a, rank - 1), wide(c, b_zero)));
    if (!moves_a) return y;
    MlirValue both = EMIT(c, "mul", wide(c, a_zero), wide(c, b_zero));
    MlirValue count = tsr_onnx_dim_number(c, both, tsr_onnx_dim_of(a, rank - 1));
    return EMIT(c, "add", y, EMIT(c, "mul", both, count));
}

/* As ONNX's MatMul: operands of one dim become matrices; their dim vanishes from the result. */
static MlirValue multiply(tsr_onnx_call *c, MlirValue a, MlirValue a_zero, MlirValue b,
                          MlirValue b_zero) {
    tsr_shape left = tsr_onnx_type_of(a).shape, right = tsr_onnx_type_of(b).shape, shape = {0};
    bool row = left.rank == 1, column = right.rank == 1;
    if (c->failed) return (MlirValue){NULL};
    if (left.rank == 0 || right.rank == 0)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "an operand is a scalar");
    if (!is_byte(a) || !is_byte(b))
        return tsr_onnx_fail_value(
            c, TSR_DIAG_ONNX_TYPE, "operands are %s and %s; integers of 8 bits can be imported",
            tsr_dtype_name(tsr_onnx_dtype(a)), tsr_dtype_name(tsr_onnx_dtype(b)));
    if (row) a = tsr_onnx_reshape(c, a, &(tsr_shape){.rank = 2, .dims = {1, left.dims[0]}});
    if (column) b = tsr_onnx_reshape(c, b, &(tsr_shape){.rank = 2, .dims = {right.dims[0], 1}});
    MlirValue y = multiply_matrices(c, a, of_rows(c, a_zero), b, b_zero);
    tsr_shape full = tsr_onnx_type_of(y).shape;
    for (uint32_t i = 0; i < full.rank; i++) {
        bool removed = (row && i + 2 == full.rank) || (column && i + 1 == full.rank);
        if (!removed) shape.dims[shape.rank++] = full.dims[i];
    }
    return tsr_onnx_reshape(c, y, &shape);
}

bool tsr_onnx_rule_matmul_integer(tsr_onnx_call *c) {
    return tsr_onnx_out(c, 0,
                        multiply(c, tsr_onnx_in(c, 0), tsr_onnx_in_or_null(c, 2), tsr_onnx_in(c, 1),
                                 tsr_onnx_in_or_null(c, 3)));
}

/* Multiplies by a's scale times b's over y's, and rounds to the output's type. */
static MlirValue requantize(tsr_onnx_call *c, MlirValue y, MlirValue a, MlirValue b, MlirValue to,
                            MlirValue zero) {
    tsr_dtype by = tsr_onnx_dtype(a), dtype = output_type(c, zero);
    MlirValue factor =
        EMIT(c, "div", EMIT(c, "mul", a, tsr_onnx_cast(c, b, by)), tsr_onnx_cast(c, to, by));
    factor = tsr_onnx_wide(c, factor);
    y = EMIT(c, "mul", tsr_onnx_cast(c, y, tsr_onnx_dtype(factor)), factor);
    return to_small(c, y, zero, dtype);
}

bool tsr_onnx_rule_qlinear_matmul(tsr_onnx_call *c) {
    MlirValue y =
        multiply(c, tsr_onnx_in(c, 0), tsr_onnx_in(c, 2), tsr_onnx_in(c, 3), tsr_onnx_in(c, 5));
    return tsr_onnx_out(c, 0,
                        requantize(c, y, of_rows(c, tsr_onnx_in(c, 1)), tsr_onnx_in(c, 4),
                                   tsr_onnx_in(c, 6), tsr_onnx_in(c, 7)));
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* `count` positions of the number along the dim. */
static MlirValue border(tsr_onnx_call *c, MlirValue x, MlirValue number, uint32_t dim,
                        int64_t count) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    shape.dims[dim] = (uint64_t)count;
    return tsr_onnx_broadcast(c, tsr_onnx_reshape(c, number, &(tsr_shape){.rank = 0}), &shape);
}

/* Surrounds the image [N, C, ..] by its zero point, which stands for 0. */
static MlirValue surround(tsr_onnx_call *c, MlirValue x, MlirValue zero, tsr_onnx_windows *w) {
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, zero);
    for (uint32_t i = 0; i < w->count; i++) {
        low[i + 2] = w->low[i];
        high[i + 2] = w->high[i];
        w->low[i] = w->high[i] = 0;
    }
    if (known && known->count == 1 && !known->is_float && !known->open)
        return tsr_onnx_pad(c, x, low, high, NULL, (double)known->ints[0]);
    for (uint32_t d = 2; d < w->count + 2 && !c->failed; d++) {
        MlirValue parts[3];
        size_t count = 0;
        if (low[d]) parts[count++] = border(c, x, zero, d, low[d]);
        parts[count++] = x;
        if (high[d]) parts[count++] = border(c, x, zero, d, high[d]);
        if (count > 1) x = tsr_onnx_concat(c, count, parts, d);
    }
    return x;
}

/* The filter is known to have no zero point, or is moved by it, which is exact in 16 bits: then the
 * products are those of floats that hold every sum. */
static MlirValue convolve_wide(tsr_onnx_call *c, MlirValue x, MlirValue x_zero, MlirValue filter,
                               MlirValue filter_zero, const tsr_onnx_windows *w) {
    tsr_shape column = {.rank = tsr_onnx_rank(filter), .dims = {1, 1, 1, 1, 1, 1, 1, 1}};
    tsr_dtype by = TSR_DTYPE_F64;
    column.dims[0] = tsr_onnx_count(filter_zero);
    x = tsr_onnx_cast(c, x, by);
    if (!mlirValueIsNull(x_zero))
        x = EMIT(c, "sub", x,
                 tsr_onnx_cast(c, tsr_onnx_reshape(c, x_zero, &(tsr_shape){.rank = 0}), by));
    MlirValue zero = tsr_onnx_reshape(c, tsr_onnx_cast(c, filter_zero, by), &column);
    filter = EMIT(c, "sub", tsr_onnx_cast(c, filter, by), zero);
    MlirValue y = tsr_onnx_conv(c, x, filter, w, tsr_onnx_attr_i(c, "group", 1));
    return tsr_onnx_cast(c, y, TSR_DTYPE_I32);
}

/* The sums of (x - x_zero) (filter - filter_zero). */
static MlirValue convolve(tsr_onnx_call *c, MlirValue x, MlirValue x_zero, MlirValue filter,
                          MlirValue filter_zero, tsr_onnx_windows w) {
    if (!is_zero(c, filter_zero)) return convolve_wide(c, x, x_zero, filter, filter_zero, &w);
    bool moves = !is_zero(c, x_zero);
    if (moves) x = surround(c, x, x_zero, &w);
    MlirValue y = tsr_onnx_conv(c, x, filter, &w, tsr_onnx_attr_i(c, "group", 1));
    if (!moves) return y;
    MlirValue sums = sum_bytes(c, filter, 1, tsr_onnx_rank(filter));
    MlirValue number = wide(c, tsr_onnx_reshape(c, x_zero, &(tsr_shape){.rank = 0}));
    return EMIT(c, "sub", y,
                tsr_onnx_per_channel(c, EMIT(c, "mul", sums, number), tsr_onnx_rank(y)));
}

static bool read_filter(tsr_onnx_call *c, MlirValue x, MlirValue filter, tsr_onnx_windows *w) {
    int64_t size[3] = {0};
    return tsr_onnx_need_rank(c, "the image", x, 3, 5) &&
           tsr_onnx_need_rank(c, "the filter", filter, tsr_onnx_rank(x), tsr_onnx_rank(x)) &&
           tsr_onnx_filter_sizes(c, filter, size) && tsr_onnx_read_windows(c, x, size, w);
}

bool tsr_onnx_rule_conv_integer(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), filter = tsr_onnx_in(c, 1);
    tsr_onnx_windows w;
    if (!read_filter(c, x, filter, &w)) return false;
    return tsr_onnx_out(
        c, 0, convolve(c, x, tsr_onnx_in_or_null(c, 2), filter, tsr_onnx_in_or_null(c, 3), w));
}

bool tsr_onnx_rule_qlinear_conv(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), filter = tsr_onnx_in(c, 3);
    MlirValue bias = tsr_onnx_in_or_null(c, 8), scale = tsr_onnx_in(c, 4);
    tsr_onnx_windows w;
    if (!read_filter(c, x, filter, &w)) return false;
    MlirValue y = convolve(c, x, tsr_onnx_in(c, 2), filter, tsr_onnx_in(c, 5), w);
    uint32_t rank = tsr_onnx_rank(y);
    if (!mlirValueIsNull(bias)) y = EMIT(c, "add", y, tsr_onnx_per_channel(c, bias, rank));
    if (tsr_onnx_count(scale) > 1) scale = tsr_onnx_per_channel(c, scale, rank);
    return tsr_onnx_out(
        c, 0, requantize(c, y, tsr_onnx_in(c, 1), scale, tsr_onnx_in(c, 6), tsr_onnx_in(c, 7)));
}

/* ---- products of dequantised values ---------------------------------------------------------- */

static const tsr_onnx_dequantized *find(const tsr_onnx_call *c, MlirValue value) {
    const tsr_onnx_importer *im = c->importer;
    for (size_t i = im->dequantized_count; i-- > 0 && !mlirValueIsNull(value);)
        if (mlirValueEqual(im->dequantized[i].value, value)) return &im->dequantized[i];
    return NULL;
}

/* Both operands, if a has one scale, and b one or one for each position of dim `axis`. */
static bool find_factors(const tsr_onnx_call *c, MlirValue a, MlirValue b, uint32_t axis,
                         const tsr_onnx_dequantized **out_a, const tsr_onnx_dequantized **out_b) {
    *out_a = find(c, a);
    *out_b = find(c, b);
    return *out_a && *out_b && (*out_a)->axis == TSR_ONNX_NO_AXIS &&
           ((*out_b)->axis == TSR_ONNX_NO_AXIS || (*out_b)->axis == axis);
}

/* y times both scales; the second may have one for each position of dim `axis` of y. */
static MlirValue scale_by(tsr_onnx_call *c, MlirValue y, const tsr_onnx_dequantized *a,
                          const tsr_onnx_dequantized *b, uint32_t axis) {
    tsr_shape shape = {.rank = tsr_onnx_rank(y), .dims = {1, 1, 1, 1, 1, 1, 1, 1}};
    MlirValue one = tsr_onnx_reshape(c, a->scale, &(tsr_shape){.rank = 0});
    MlirValue factor = EMIT(c, "mul", b->scale, one);
    if (b->axis == TSR_ONNX_NO_AXIS)
        shape.rank = 0;
    else
        shape.dims[axis] = tsr_onnx_count(factor);
    return EMIT(c, "mul", tsr_onnx_cast(c, y, TSR_DTYPE_F32), tsr_onnx_reshape(c, factor, &shape));
}

MlirValue tsr_onnx_quantized_conv(tsr_onnx_call *c, MlirValue x, MlirValue filter,
                                  const tsr_onnx_windows *w) {
    const tsr_onnx_dequantized *a, *b;
    if (c->failed || !find_factors(c, x, filter, 0, &a, &b) || !is_zero(c, b->zero))
        return (MlirValue){NULL};
    MlirValue y = convolve(c, a->bytes, a->zero, b->bytes, (MlirValue){NULL}, *w);
    return scale_by(c, y, a, b, 1);
}

MlirValue tsr_onnx_quantized_product(tsr_onnx_call *c, MlirValue a, MlirValue b, bool transpose_a,
                                     bool transpose_b) {
    const tsr_onnx_dequantized *x, *y;
    uint32_t rank = tsr_onnx_rank(b);
    if (c->failed || tsr_onnx_rank(a) < 2 || rank < 2) return (MlirValue){NULL};
    uint32_t axis = transpose_b ? rank - 2 : rank - 1;
    if (!find_factors(c, a, b, axis, &x, &y)) return (MlirValue){NULL};
    uint32_t last = tsr_onnx_rank(a) - 1;
    MlirValue left = transpose_a ? tsr_onnx_swap(c, x->bytes, last - 1, last) : x->bytes;
    MlirValue right = transpose_b ? tsr_onnx_swap(c, y->bytes, rank - 2, rank - 1) : y->bytes;
    MlirValue product = multiply(c, left, x->zero, right, y->zero);
    return scale_by(c, product, x, y, tsr_onnx_rank(product) - 1);
}
