/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers. They come from the streams of the program, one for each node: attribute `seed` is
 * not read, `tessera-run --seed` sets them.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/frontend/onnx/tensor.h"
#include "compiler/process/guard.h"

#include <inttypes.h>
#include <string.h>

static MlirValue uniform(tsr_onnx_call *c, const tsr_type *type, double low, double high) {
    tsr_attr attrs[] = {tsr_onnx_f64_attr(c, "low", low), tsr_onnx_f64_attr(c, "high", high), {0}};
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("random_uniform"), NULL, 0, attrs, type);
}

static MlirValue normal(tsr_onnx_call *c, const tsr_type *type) {
    tsr_attr attrs[] = {tsr_onnx_f64_attr(c, "mean", tsr_onnx_attr_f(c, "mean", 0)),
                        tsr_onnx_f64_attr(c, "deviation", tsr_onnx_attr_f(c, "scale", 1)),
                        {0}};
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("random_normal"), NULL, 0, attrs, type);
}

/* Attribute `dtype`, or `otherwise`. */
static bool read_dtype(tsr_onnx_call *c, tsr_dtype otherwise, bool floats, tsr_dtype *out_dtype) {
    int64_t given = tsr_onnx_attr_i(c, "dtype", 0);
    tsr_dtype dtype = given ? tsr_onnx_type_dtype(given) : otherwise;
    if (c->failed) return false;
    if (dtype == TSR_DTYPE_NONE || (floats && !tsr_dtype_is_float(dtype)))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE, "random numbers of type %s",
                             given ? tsr_onnx_type_name(given) : tsr_dtype_name(dtype));
    *out_dtype = dtype;
    return true;
}

/* RandomUniform, RandomNormal and their forms with an input that gives the shape. */
bool tsr_onnx_rule_random(tsr_onnx_call *c) {
    bool is_like = strstr(c->row->op, "Like"), is_normal = strcmp(c->row->with, "normal") == 0;
    tsr_type type = {.dtype = TSR_DTYPE_F32};
    if (is_like) {
        type = tsr_onnx_type_of(tsr_onnx_in(c, 0));
    } else {
        const tsr_onnx_attribute *shape = tsr_onnx_attr(c, "shape");
        int64_t dims[TSR_RANK_MAX];
        if (!shape || shape->ints.count > TSR_RANK_MAX)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                                 "attribute 'shape' has %zu dims; "
                                 "expected at most %d",
                                 shape ? shape->ints.count : 0, TSR_RANK_MAX);
        if (!tsr_onnx_attr_ints(c, "shape", shape->ints.count, 0, dims)) return false;
        type.shape.rank = (uint32_t)shape->ints.count;
        for (uint32_t i = 0; i < type.shape.rank; i++) {
            if (dims[i] < 0 || dims[i] > INT32_MAX)
                return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "a dim of %" PRId64, dims[i]);
            type.shape.dims[i] = (uint64_t)dims[i];
        }
    }
    if (!read_dtype(c, type.dtype, true, &type.dtype)) return false;
    if (is_normal) return tsr_onnx_out(c, 0, normal(c, &type));
    double low = tsr_onnx_attr_f(c, "low", 0), high = tsr_onnx_attr_f(c, "high", 1);
    return tsr_onnx_out(c, 0, uniform(c, &type, low, high));
}

/* 1 with the probability that the input gives */
bool tsr_onnx_rule_bernoulli(tsr_onnx_call *c) {
    MlirValue chance = tsr_onnx_wide(c, tsr_onnx_in(c, 0));
    tsr_type type = tsr_onnx_type_of(chance);
    tsr_dtype dtype;
    if (c->failed || !read_dtype(c, tsr_onnx_dtype(c->inputs[0]), false, &dtype)) return false;
    MlirValue hit = tsr_onnx_compare(c, TSR_PREDICATE_LT, uniform(c, &type, 0, 1), chance);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, hit, dtype));
}

/* Dropout in training mode: drops with probability `ratio`, whose inverse scales the others. */
bool tsr_onnx_drop(tsr_onnx_call *c, MlirValue x, double ratio) {
    tsr_type type = tsr_onnx_type_of(x);
    if (!(ratio >= 0 && ratio < 1))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "ratio is %g; expected 0 <= ratio < 1", ratio);
    type.dtype = type.dtype == TSR_DTYPE_F64 ? TSR_DTYPE_F64 : TSR_DTYPE_F32;
    MlirValue draw = uniform(c, &type, 0, 1), wide = tsr_onnx_wide(c, x);
    MlirValue stays = tsr_onnx_compare(c, TSR_PREDICATE_GE, draw, tsr_onnx_number(c, draw, ratio));
    MlirValue scaled = EMIT(c, "mul", wide, tsr_onnx_number(c, wide, 1 / (1 - ratio)));
    if (tsr_onnx_wants(c, 1)) tsr_onnx_out(c, 1, stays);
    MlirValue y = EMIT(c, "where", stays, scaled, ZERO(c, scaled));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}
