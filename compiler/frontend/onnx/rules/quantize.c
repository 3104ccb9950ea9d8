/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantisation by exact arithmetic on floats. Sums of products of bytes are computed in f64, which
 * holds each exactly.
 */
#include "compiler/frontend/onnx/rules/windows.h"
#include "compiler/frontend/onnx/tensor.h"

#include <inttypes.h>
#include <string.h>

/* ---- scales and zero points ------------------------------------------------------------------ */

/* One number for all, one for each place of the axis, or one for each block along the axis, as
 * something that broadcasts to x. */
static MlirValue spread(tsr_onnx_call *c, MlirValue value, MlirValue x) {
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
    whole.dims[axis] *= (uint64_t)block;
    value = tsr_onnx_reshape(c, tsr_onnx_broadcast(c, value, &split), &whole);
    return tsr_onnx_slice_dim(c, value, axis, 0, (int64_t)shape.dims[axis], 1);
}

static double lowest(tsr_dtype dtype) { return dtype == TSR_DTYPE_I8 ? -128 : 0; }
static double highest(tsr_dtype dtype) { return dtype == TSR_DTYPE_I8 ? 127 : 255; }

/* Rounds x, adds the zero point, and saturates to 8 bits. */
static MlirValue to_byte(tsr_onnx_call *c, MlirValue x, MlirValue zero, tsr_dtype dtype) {
    MlirValue y = tsr_onnx_round(c, x);
    if (!mlirValueIsNull(zero)) y = EMIT(c, "add", y, tsr_onnx_cast(c, zero, tsr_onnx_dtype(y)));
    y = EMIT(c, "max", y, tsr_onnx_number(c, y, lowest(dtype)));
    y = EMIT(c, "min", y, tsr_onnx_number(c, y, highest(dtype)));
    return tsr_onnx_cast(c, y, dtype);
}

/* The 8-bit type of an output: that of the zero point, or of an attribute, or unsigned. */
static tsr_dtype output_type(tsr_onnx_call *c, MlirValue zero) {
    int64_t given = tsr_onnx_attr_i(c, "output_dtype", 0);
    tsr_dtype dtype = !mlirValueIsNull(zero) ? tsr_onnx_dtype(zero)
                      : given                ? tsr_onnx_type_dtype(given)
                                             : TSR_DTYPE_UI8;
    if (dtype != TSR_DTYPE_I8 && dtype != TSR_DTYPE_UI8)
        tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE,
                      "the output has elements of %s; int8 and uint8 can be imported",
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
        EMIT(c, "div", tsr_onnx_cast(c, x, by), tsr_onnx_cast(c, spread(c, scale, x), by));
    ratio = tsr_onnx_wide(c, ratio);
    return tsr_onnx_out(c, 0, to_byte(c, ratio, spread(c, zero, x), dtype));
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
    if (!mlirValueIsNull(zero)) y = EMIT(c, "sub", y, tsr_onnx_cast(c, spread(c, zero, x), by));
    y = EMIT(c, "mul", y, tsr_onnx_cast(c, spread(c, scale, x), by));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, dtype));
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
    return tsr_onnx_out(c, 0, to_byte(c, ratio, point, TSR_DTYPE_UI8));
}

/* ---- products -------------------------------------------------------------------------------- */

/* x minus its zero point, in f64. */
static MlirValue centred(tsr_onnx_call *c, MlirValue x, MlirValue zero) {
    MlirValue y = tsr_onnx_cast(c, x, TSR_DTYPE_F64);
    if (mlirValueIsNull(zero)) return y;
    return EMIT(c, "sub", y, tsr_onnx_cast(c, zero, TSR_DTYPE_F64));
}

/* A number for all, or for each row of [.., M, K]. */
static MlirValue of_rows(tsr_onnx_call *c, MlirValue value) {
    tsr_shape shape = tsr_onnx_type_of(value).shape;
    if (mlirValueIsNull(value) || shape.rank != 1 || shape.dims[0] == 1) return value;
    return tsr_onnx_reshape(c, value, &(tsr_shape){.rank = 2, .dims = {shape.dims[0], 1}});
}

bool tsr_onnx_rule_matmul_integer(tsr_onnx_call *c) {
    MlirValue a = centred(c, tsr_onnx_in(c, 0), of_rows(c, tsr_onnx_in_or_null(c, 2)));
    MlirValue b = centred(c, tsr_onnx_in(c, 1), tsr_onnx_in_or_null(c, 3));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, tsr_onnx_product(c, a, b), TSR_DTYPE_I32));
}

/* The scale of the result: a's times b's over y's, in f32 as far as they are. */
static MlirValue rescale(tsr_onnx_call *c, MlirValue y, MlirValue a, MlirValue b, MlirValue to) {
    tsr_dtype by = tsr_onnx_dtype(a);
    MlirValue factor =
        EMIT(c, "div", EMIT(c, "mul", a, tsr_onnx_cast(c, b, by)), tsr_onnx_cast(c, to, by));
    return EMIT(c, "mul", y, tsr_onnx_cast(c, factor, TSR_DTYPE_F64));
}

bool tsr_onnx_rule_qlinear_matmul(tsr_onnx_call *c) {
    MlirValue a = centred(c, tsr_onnx_in(c, 0), of_rows(c, tsr_onnx_in(c, 2)));
    MlirValue b = centred(c, tsr_onnx_in(c, 3), tsr_onnx_in(c, 5)), zero = tsr_onnx_in(c, 7);
    tsr_dtype dtype = output_type(c, zero);
    MlirValue y = rescale(c, tsr_onnx_product(c, a, b), of_rows(c, tsr_onnx_in(c, 1)),
                          tsr_onnx_in(c, 4), tsr_onnx_in(c, 6));
    MlirValue sum = EMIT(c, "add", y, tsr_onnx_cast(c, zero, TSR_DTYPE_F64));
    return tsr_onnx_out(c, 0, to_byte(c, sum, (MlirValue){NULL}, dtype));
}

/* [F] as [F, 1, 1, 1], to be broadcast to a filter. */
static MlirValue of_filters(tsr_onnx_call *c, MlirValue value, MlirValue filter) {
    tsr_shape column = {.rank = tsr_onnx_rank(filter), .dims = {1, 1, 1, 1, 1, 1, 1, 1}};
    if (mlirValueIsNull(value) || tsr_onnx_count(value) == 1)
        return mlirValueIsNull(value) ? value : tsr_onnx_reshape(c, value, &(tsr_shape){.rank = 0});
    column.dims[0] = tsr_onnx_count(value);
    return tsr_onnx_reshape(c, value, &column);
}

static MlirValue integer_conv(tsr_onnx_call *c, MlirValue x, MlirValue x_zero, MlirValue filter,
                              MlirValue filter_zero) {
    int64_t size[3] = {0};
    tsr_onnx_windows w;
    if (!tsr_onnx_need_rank(c, "the image", x, 3, 5) ||
        !tsr_onnx_need_rank(c, "the filter", filter, tsr_onnx_rank(x), tsr_onnx_rank(x)))
        return (MlirValue){NULL};
    for (uint32_t i = 2; i < tsr_onnx_rank(filter); i++)
        size[i - 2] = (int64_t)tsr_onnx_dim_of(filter, i);
    if (!tsr_onnx_read_windows(c, x, size, &w)) return (MlirValue){NULL};
    return tsr_onnx_conv(c, centred(c, x, x_zero),
                         centred(c, filter, of_filters(c, filter_zero, filter)), &w,
                         tsr_onnx_attr_i(c, "group", 1));
}

bool tsr_onnx_rule_conv_integer(tsr_onnx_call *c) {
    MlirValue y = integer_conv(c, tsr_onnx_in(c, 0), tsr_onnx_in_or_null(c, 2), tsr_onnx_in(c, 1),
                               tsr_onnx_in_or_null(c, 3));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, TSR_DTYPE_I32));
}

bool tsr_onnx_rule_qlinear_conv(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), filter = tsr_onnx_in(c, 3), zero = tsr_onnx_in(c, 7);
    MlirValue bias = tsr_onnx_in_or_null(c, 8), scale = tsr_onnx_in(c, 4);
    tsr_dtype dtype = output_type(c, zero);
    MlirValue y = integer_conv(c, x, tsr_onnx_in(c, 2), filter, tsr_onnx_in(c, 5));
    uint32_t rank = tsr_onnx_rank(y);
    if (!mlirValueIsNull(bias))
        y = EMIT(c, "add", y, tsr_onnx_per_channel(c, tsr_onnx_cast(c, bias, TSR_DTYPE_F64), rank));
    if (tsr_onnx_count(scale) > 1) scale = tsr_onnx_per_channel(c, scale, rank);
    y = rescale(c, y, tsr_onnx_in(c, 1), scale, tsr_onnx_in(c, 6));
    MlirValue sum = EMIT(c, "add", y, tsr_onnx_cast(c, zero, TSR_DTYPE_F64));
    return tsr_onnx_out(c, 0, to_byte(c, sum, (MlirValue){NULL}, dtype));
}
