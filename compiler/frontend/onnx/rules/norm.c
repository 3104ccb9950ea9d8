/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations.
 */
#include "compiler/frontend/onnx/rules/windows.h"
#include "compiler/frontend/onnx/tensor.h"
#include "compiler/frontend/onnx/train/train.h"

#include <inttypes.h>
#include <string.h>

/* ---- means and variances --------------------------------------------------------------------- */

static MlirValue mean_of(tsr_onnx_call *c, MlirValue x, size_t count, const int64_t *axes,
                         bool keepdims) {
    return tsr_onnx_reduce(c, TSR_GRAPH_NAME("mean"), x, count, axes, keepdims);
}

/* The mean of squares around the mean, which has size 1 in the axes. */
static MlirValue variance_of(tsr_onnx_call *c, MlirValue x, MlirValue mean, size_t count,
                             const int64_t *axes, bool keepdims) {
    MlirValue off = EMIT(c, "sub", x, mean);
    return mean_of(c, EMIT(c, "mul", off, off), count, axes, keepdims);
}

/* 1 / sqrt(x + eps) */
static MlirValue inverse_root(tsr_onnx_call *c, MlirValue x, double eps) {
    MlirValue root = EMIT(c, "sqrt", EMIT(c, "add", x, tsr_onnx_number(c, x, eps)));
    return EMIT(c, "div", ONE(c, root), root);
}

/* layernorm_safe or rmsnorm_safe of x with the scale and bias that are there. */
static MlirValue norm(tsr_onnx_call *c, const char *op, MlirValue x, MlirValue scale,
                      MlirValue bias, size_t count, const int64_t *axes, double eps) {
    MlirValue operands[] = {x, scale, bias};
    size_t operand_count = mlirValueIsNull(scale) ? 1 : mlirValueIsNull(bias) ? 2 : 3;
    tsr_attr attrs[] = {
        tsr_onnx_i64s_attr(c, "axes", count, axes), tsr_onnx_f64_attr(c, "eps", eps), {0}};
    return tsr_onnx_emit(c, op, operands, operand_count, attrs, NULL);
}

/* ---- batch ----------------------------------------------------------------------------------- */

static MlirValue batch_norm(tsr_onnx_call *c, MlirValue x, const MlirValue *of, double eps) {
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "axis", 1), tsr_onnx_f64_attr(c, "eps", eps), {0}};
    tsr_dtype dtype = tsr_onnx_dtype(x);
    MlirValue operands[] = {x, tsr_onnx_cast(c, of[0], dtype), tsr_onnx_cast(c, of[1], dtype),
                            tsr_onnx_cast(c, of[2], dtype), tsr_onnx_cast(c, of[3], dtype)};
    return tsr_onnx_emit(c, TSR_GRAPH_NAME("batch_norm"), operands, 5, attrs, NULL);
}

/* The batch's own statistics; the next running ones are outputs. */
static bool batch_norm_train(tsr_onnx_call *c, MlirValue x, const MlirValue *of, double eps) {
    double momentum = tsr_onnx_attr_f(c, "momentum", (double)0.9f);
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < tsr_onnx_rank(x); i++)
        if (i != 1) axes[count++] = i;
    MlirValue wide = tsr_onnx_wide(c, x);
    MlirValue mean = mean_of(c, wide, count, axes, true);
    MlirValue now[] = {mean_of(c, wide, count, axes, false),
                       variance_of(c, wide, mean, count, axes, false)};
    for (size_t i = 0; i < 2; i++) {
        MlirValue old = tsr_onnx_cast(c, of[2 + i], tsr_onnx_dtype(wide));
        MlirValue next = EMIT(c, "add", EMIT(c, "mul", old, tsr_onnx_number(c, old, momentum)),
                              EMIT(c, "mul", now[i], tsr_onnx_number(c, old, 1 - momentum)));
        if (tsr_onnx_wants(c, 1 + i))
            tsr_onnx_out(c, 1 + i, tsr_onnx_cast(c, next, tsr_onnx_dtype(of[2 + i])));
    }
    const MlirValue by[] = {of[0], of[1], now[0], now[1]};
    return tsr_onnx_out(c, 0, batch_norm(c, x, by, eps));
}

/* In training: as batch_norm_train, in the element type of the running statistics. */
static bool batch_norm_trained(tsr_onnx_call *c, MlirValue x, const MlirValue *of, double eps) {
    const MlirValue old[] = {tsr_onnx_statistic(c, 3), tsr_onnx_statistic(c, 4)};
    tsr_dtype dtype = tsr_onnx_dtype(old[0]);
    const MlirValue operands[] = {tsr_onnx_cast(c, x, dtype), tsr_onnx_cast(c, of[0], dtype),
                                  tsr_onnx_cast(c, of[1], dtype), old[0], old[1]};
    const tsr_attr attrs[] = {
        tsr_onnx_i64_attr(c, "axis", 1),
        tsr_onnx_f64_attr(c, "eps", eps),
        tsr_onnx_f64_attr(c, "momentum", 1 - tsr_onnx_attr_f(c, "momentum", (double)0.9f)),
        {0}};
    MlirValue results[3];
    if (!tsr_onnx_emit_many(c, TSR_GRAPH_NAME("batch_norm_train"), operands, 5, attrs, 3, NULL,
                            results))
        return false;
    for (size_t i = 0; i < 2; i++) {
        tsr_onnx_set_statistic(c, 3 + i, results[1 + i]);
        if (tsr_onnx_wants(c, 1 + i)) tsr_onnx_out(c, 1 + i, results[1 + i]);
    }
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, results[0], tsr_onnx_dtype(x)));
}

bool tsr_onnx_rule_batch_norm(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    MlirValue of[] = {tsr_onnx_in(c, 1), tsr_onnx_in(c, 2), tsr_onnx_in(c, 3), tsr_onnx_in(c, 4)};
    double eps = tsr_onnx_attr_f(c, "epsilon", (double)1e-5f);
    if (c->opset < 9 && !tsr_onnx_attr_must_be(c, "spatial", 1, 1)) return false;
    if (!tsr_onnx_need_rank(c, "the input", x, 2, TSR_RANK_MAX)) return false;
    if (tsr_onnx_trains(c)) return batch_norm_trained(c, x, of, eps);
    if (c->opset >= 14 && tsr_onnx_attr_i(c, "training_mode", 0) && !tsr_onnx_is_trained(c))
        return batch_norm_train(c, x, of, eps);
    for (size_t i = 0; i < 2; i++)
        if (tsr_onnx_is_trained(c) && tsr_onnx_wants(c, 1 + i)) tsr_onnx_out(c, 1 + i, of[2 + i]);
    return tsr_onnx_out(c, 0, batch_norm(c, x, of, eps));
}

/* ---- rows of one image ----------------------------------------------------------------------- */

bool tsr_onnx_rule_instance_norm(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), scale = tsr_onnx_in(c, 1), bias = tsr_onnx_in(c, 2);
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    uint32_t rank = tsr_onnx_rank(x);
    if (!tsr_onnx_need_rank(c, "the input", x, 3, TSR_RANK_MAX)) return false;
    for (uint32_t i = 2; i < rank; i++) axes[count++] = i;
    double eps = tsr_onnx_attr_f(c, "epsilon", (double)1e-5f);
    return tsr_onnx_out(c, 0,
                        norm(c, TSR_GRAPH_NAME("layernorm_safe"), x,
                             tsr_onnx_per_channel(c, scale, rank),
                             tsr_onnx_per_channel(c, bias, rank), count, axes, eps));
}

/* Groups of channels become rows; before version 21 scale and bias have one number per group. */
bool tsr_onnx_rule_group_norm(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), scale = tsr_onnx_in(c, 1), bias = tsr_onnx_in(c, 2);
    int64_t groups = tsr_onnx_attr_i(c, "num_groups", 0);
    double eps = tsr_onnx_attr_f(c, "epsilon", (double)1e-5f);
    if (!tsr_onnx_need_rank(c, "the input", x, 2, TSR_RANK_MAX)) return false;
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    uint64_t channels = 0;
    if (!tsr_onnx_known_dim(c, "the input", x, 1, &channels)) return false;
    if (groups < 1 || channels % (uint64_t)groups)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "%" PRIu64 " channels are not a multiple of %" PRId64 " groups",
                             channels, groups);
    uint64_t each = channels / (uint64_t)groups;
    uint64_t row = tsr_onnx_times(c, each, tsr_onnx_volume(c, &shape, 2, shape.rank));
    const tsr_shape rows = {.rank = 3, .dims = {shape.dims[0], (uint64_t)groups, row}};
    uint64_t scales = 0;
    if (c->opset < 21 && !tsr_onnx_known_dim(c, "the scale", scale, 0, &scales)) return false;
    bool by_group = tsr_onnx_count(scale) == (uint64_t)groups && c->opset < 21;
    MlirValue wide = tsr_onnx_wide(c, x);
    MlirValue y = norm(c, TSR_GRAPH_NAME("layernorm_safe"), tsr_onnx_reshape(c, wide, &rows),
                       (MlirValue){NULL}, (MlirValue){NULL}, 1, (const int64_t[]){2}, eps);
    if (!by_group) y = tsr_onnx_reshape(c, y, &shape);
    uint32_t rank = by_group ? 3 : shape.rank;
    tsr_dtype dtype = tsr_onnx_dtype(y);
    y = EMIT(c, "mul", y, tsr_onnx_per_channel(c, tsr_onnx_cast(c, scale, dtype), rank));
    y = EMIT(c, "add", y, tsr_onnx_per_channel(c, tsr_onnx_cast(c, bias, dtype), rank));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, tsr_onnx_reshape(c, y, &shape), tsr_onnx_dtype(x)));
}

/* The axes from `axis` to the last. */
static bool trailing_axes(tsr_onnx_call *c, MlirValue x, int64_t *axes, size_t *count) {
    uint32_t first;
    if (!tsr_onnx_axis(c, "axis", tsr_onnx_attr_i(c, "axis", -1), tsr_onnx_rank(x), &first))
        return false;
    *count = 0;
    for (uint32_t i = first; i < tsr_onnx_rank(x); i++) axes[(*count)++] = i;
    return true;
}

bool tsr_onnx_rule_layer_norm(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), scale = tsr_onnx_in(c, 1), bias = tsr_onnx_in_or_null(c, 2);
    double eps = tsr_onnx_attr_f(c, "epsilon", (double)1e-5f);
    int64_t axes[TSR_RANK_MAX], type = tsr_onnx_attr_i(c, "stash_type", TSR_ONNX_FLOAT);
    size_t count = 0;
    if (!trailing_axes(c, x, axes, &count)) return false;
    tsr_dtype stash = tsr_onnx_type_dtype(type), dtype = tsr_onnx_dtype(x);
    if (!tsr_dtype_is_float(stash))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_TYPE, "attribute 'stash_type' is %s",
                             tsr_onnx_type_name(type));
    if (tsr_onnx_wants(c, 1) || tsr_onnx_wants(c, 2)) {
        MlirValue wide = tsr_onnx_cast(c, x, stash);
        MlirValue mean = mean_of(c, wide, count, axes, true);
        MlirValue variance = variance_of(c, wide, mean, count, axes, true);
        tsr_onnx_out(c, 1, mean);
        tsr_onnx_out(c, 2, inverse_root(c, variance, eps));
    }
    scale = tsr_onnx_cast(c, scale, dtype);
    if (!mlirValueIsNull(bias)) bias = tsr_onnx_cast(c, bias, dtype);
    return tsr_onnx_out(
        c, 0, norm(c, TSR_GRAPH_NAME("layernorm_safe"), x, scale, bias, count, axes, eps));
}

bool tsr_onnx_rule_rms_norm(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), scale = tsr_onnx_in(c, 1);
    double eps = tsr_onnx_attr_f(c, "epsilon", (double)1e-5f);
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    if (!trailing_axes(c, x, axes, &count)) return false;
    scale = tsr_onnx_cast(c, scale, tsr_onnx_dtype(x));
    return tsr_onnx_out(
        c, 0,
        norm(c, TSR_GRAPH_NAME("rmsnorm_safe"), x, scale, (MlirValue){NULL}, count, axes, eps));
}

/* com.microsoft.SkipLayerNormalization and its simplified form: the sum of two, normalised. */
bool tsr_onnx_rule_skip_norm(tsr_onnx_call *c) {
    bool simplified = c->row->with[0] == 'r';
    MlirValue x = tsr_onnx_in(c, 0), skip = tsr_onnx_in(c, 1), scale = tsr_onnx_in(c, 2);
    MlirValue shift = simplified ? (MlirValue){NULL} : tsr_onnx_in_or_null(c, 3);
    MlirValue bias = tsr_onnx_in_or_null(c, simplified ? 3 : 4);
    double eps = tsr_onnx_attr_f(c, "epsilon", (double)1e-5f);
    int64_t axis = (int64_t)tsr_onnx_rank(x) - 1;
    MlirValue sum = EMIT(c, "add", x, skip);
    if (!mlirValueIsNull(bias)) sum = EMIT(c, "add", sum, bias);
    if (tsr_onnx_wants(c, 3)) tsr_onnx_out(c, 3, sum);
    const char *op = simplified ? TSR_GRAPH_NAME("rmsnorm_safe") : TSR_GRAPH_NAME("layernorm_safe");
    return tsr_onnx_out(c, 0, norm(c, op, sum, scale, shift, 1, &axis, eps));
}

/* (x - mean) / (deviation + 1e-9) over the given axes */
bool tsr_onnx_rule_mean_variance_norm(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    int64_t axes[TSR_RANK_MAX] = {0, 2, 3};
    size_t count = 3;
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, "axes");
    if (a) count = a->ints.count < TSR_RANK_MAX ? a->ints.count : TSR_RANK_MAX;
    if ((a && !tsr_onnx_attr_ints(c, "axes", count, 0, axes)) || c->failed ||
        !tsr_onnx_axes(c, "axes", tsr_onnx_rank(x), count, axes))
        return false;
    MlirValue wide = tsr_onnx_wide(c, x), mean = mean_of(c, wide, count, axes, true);
    MlirValue deviation = EMIT(c, "sqrt", variance_of(c, wide, mean, count, axes, true));
    deviation = EMIT(c, "add", deviation, tsr_onnx_number(c, deviation, 1e-9));
    MlirValue y = EMIT(c, "div", EMIT(c, "sub", wide, mean), deviation);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}

/* x / (bias + alpha / size * sum of squares of near channels)^beta */
bool tsr_onnx_rule_lrn(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), sum = {NULL};
    int64_t size = tsr_onnx_attr_i(c, "size", 1);
    double alpha = tsr_onnx_attr_f(c, "alpha", (double)0.0001f);
    double beta = tsr_onnx_attr_f(c, "beta", 0.75), bias = tsr_onnx_attr_f(c, "bias", 1);
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    uint64_t channels = 0;
    if (!tsr_onnx_need_rank(c, "the input", x, 2, TSR_RANK_MAX) ||
        !tsr_onnx_known_dim(c, "the input", x, 1, &channels))
        return false;
    if (size < 1 || size > 4096)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute 'size' is %" PRId64, size);
    low[1] = (size - 1) / 2;
    high[1] = size - 1 - low[1];
    MlirValue wide = tsr_onnx_wide(c, x);
    MlirValue squares = tsr_onnx_pad(c, EMIT(c, "mul", wide, wide), low, high, NULL, 0);
    for (int64_t k = 0; k < size && !c->failed; k++) {
        MlirValue part = tsr_onnx_slice_dim(c, squares, 1, k, (int64_t)channels, 1);
        sum = k ? EMIT(c, "add", sum, part) : part;
    }
    sum = EMIT(c, "mul", sum, tsr_onnx_number(c, sum, alpha / (double)size));
    sum = EMIT(c, "add", sum, tsr_onnx_number(c, sum, bias));
    MlirValue y = EMIT(c, "div", wide, EMIT(c, "pow", sum, tsr_onnx_number(c, sum, beta)));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, tsr_onnx_dtype(x)));
}
