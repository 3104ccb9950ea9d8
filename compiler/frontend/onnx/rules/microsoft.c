/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops of domain com.microsoft that ONNX Runtime's optimizer makes of several ops. Those of
 * attention are in attention.c, those of other families in the family's file.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- activations at the end of an op --------------------------------------------------------- */

/* Parameter `index` of the activation: an element of `activation_params`, or an attribute. */
static double parameter(tsr_onnx_call *c, size_t index, const char *name, double otherwise) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, "activation_params");
    if (!a) return tsr_onnx_attr_f(c, name, otherwise);
    return index < a->floats.count ? (double)((const float *)a->floats.items)[index] : otherwise;
}

static MlirValue leaky(tsr_onnx_call *c, MlirValue x) {
    double alpha = parameter(c, 0, "activation_alpha", (double)0.01f);
    MlirValue below = EMIT(c, "mul", x, tsr_onnx_number(c, x, alpha));
    return EMIT(c, "where", tsr_onnx_compare(c, TSR_PREDICATE_GE, x, ZERO(c, x)), x, below);
}

static MlirValue clip(tsr_onnx_call *c, MlirValue x) {
    double low = parameter(c, 0, "activation_min", -(double)INFINITY);
    double high = parameter(c, 1, "activation_max", (double)INFINITY);
    x = EMIT(c, "max", x, tsr_onnx_number(c, x, low));
    return EMIT(c, "min", x, tsr_onnx_number(c, x, high));
}

static MlirValue hard_sigmoid(tsr_onnx_call *c, MlirValue x) {
    double alpha = parameter(c, 0, "activation_alpha", (double)0.2f);
    double beta = parameter(c, 1, "activation_beta", 0.5);
    MlirValue line = EMIT(c, "add", EMIT(c, "mul", x, tsr_onnx_number(c, x, alpha)),
                          tsr_onnx_number(c, x, beta));
    return EMIT(c, "max", EMIT(c, "min", line, ONE(c, x)), ZERO(c, x));
}

static MlirValue relu(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "relu", x); }
static MlirValue tangent(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "tanh", x); }
static MlirValue sigmoid(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "sigmoid", x); }
static MlirValue softplus(tsr_onnx_call *c, MlirValue x) { return EMIT(c, "softplus", x); }

/* Applies attribute `activation` to output 0. */
static bool activate(tsr_onnx_call *c) {
    static const struct {
        const char *word;
        MlirValue (*apply)(tsr_onnx_call *c, MlirValue x);
    } rows[] = {
        {"Relu", relu}, {"Tanh", tangent},    {"Sigmoid", sigmoid},         {"Softplus", softplus},
        {"Clip", clip}, {"LeakyRelu", leaky}, {"HardSigmoid", hard_sigmoid}};
    const char *word = tsr_onnx_attr_s(c, "activation", "");
    if (c->failed || !word[0]) return !c->failed;
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (strcmp(rows[i].word, word) == 0)
            return tsr_onnx_out(c, 0, rows[i].apply(c, c->outputs[0]));
    return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                         "attribute 'activation' is '%s'; expected "
                         "Relu, Tanh, Sigmoid, Softplus, Clip, LeakyRelu or HardSigmoid",
                         word);
}

/* A convolution, plus input 3. */
bool tsr_onnx_rule_fused_conv(tsr_onnx_call *c) {
    if (!tsr_onnx_rule_conv(c)) return false;
    if (tsr_onnx_has(c, 3)) tsr_onnx_out(c, 0, EMIT(c, "add", c->outputs[0], c->inputs[3]));
    return activate(c);
}

bool tsr_onnx_rule_fused_gemm(tsr_onnx_call *c) { return tsr_onnx_rule_gemm(c) && activate(c); }

/* ---- units of GELU --------------------------------------------------------------------------- */

/* The input, plus the optional bias. */
static MlirValue biased(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), bias = tsr_onnx_in_or_null(c, 1);
    return mlirValueIsNull(bias) ? x : EMIT(c, "add", x, bias);
}

/* BiasGelu, FastGelu; with: the approximation. */
bool tsr_onnx_rule_bias_gelu(tsr_onnx_call *c) {
    tsr_attr attrs[] = {{"approximate", tsr_attr_make_string(c->builder->context, c->row->with)},
                        {0}};
    return tsr_onnx_out(c, 0, EMIT_WITH(c, "gelu", attrs, biased(c)));
}

/* x times the sigmoid of alpha x */
bool tsr_onnx_rule_quick_gelu(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), wide = tsr_onnx_wide(c, x);
    double alpha = tsr_onnx_attr_f(c, "alpha", (double)1.702f);
    MlirValue gate = EMIT(c, "sigmoid", EMIT(c, "mul", wide, tsr_onnx_number(c, wide, alpha)));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, EMIT(c, "mul", wide, gate), tsr_onnx_dtype(x)));
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* Rows of words, positions and segments, [B, S, H]. */
static MlirValue embed(tsr_onnx_call *c, MlirValue ids) {
    MlirValue table = tsr_onnx_in(c, 2), positions = tsr_onnx_in(c, 3);
    uint64_t length = tsr_onnx_dim_of(ids, 1);
    if (c->failed) return ids;
    MlirValue sum = tsr_onnx_gather(c, table, ids, 0);
    if (tsr_onnx_has(c, 8)) {
        positions = tsr_onnx_gather(c, positions, c->inputs[8], 0);
    } else {
        char words[TSR_DIM_TEXT_MAX], most[TSR_DIM_TEXT_MAX];
        if (tsr_dim_exceeds(length, tsr_onnx_dim_of(positions, 0)))
            return tsr_onnx_fail_value(
                c, TSR_DIAG_ONNX_SHAPE, "%s words, and embeddings of %s positions",
                tsr_dim_text(length, words), tsr_dim_text(tsr_onnx_dim_of(positions, 0), most));
        positions = tsr_onnx_slice_open(c, positions, 0, 0, length, 1);
    }
    sum = EMIT(c, "add", sum, positions);
    if (!tsr_onnx_has(c, 1) || !tsr_onnx_has(c, 4)) return sum;
    return EMIT(c, "add", sum, tsr_onnx_gather(c, c->inputs[4], c->inputs[1], 0));
}

/* Output 1 is the length of each sequence: the sum of its mask. */
bool tsr_onnx_rule_embed_norm(tsr_onnx_call *c) {
    MlirValue ids = tsr_onnx_in(c, 0), scale = tsr_onnx_in(c, 5), shift = tsr_onnx_in(c, 6);
    if (!tsr_onnx_need_rank(c, "input_ids", ids, 2, 2)) return false;
    const tsr_shape batch = {.rank = 1, .dims = {tsr_onnx_dim_of(ids, 0)}};
    MlirValue sum = embed(c, ids);
    tsr_attr attrs[] = {tsr_onnx_i64s_attr(c, "axes", 1, (const int64_t[]){2}),
                        tsr_onnx_f64_attr(c, "eps", tsr_onnx_attr_f(c, "epsilon", (double)1e-12f)),
                        {0}};
    tsr_onnx_out(c, 0, EMIT_WITH(c, "layernorm_safe", attrs, sum, scale, shift));
    if (tsr_onnx_wants(c, 1)) {
        MlirValue lengths = tsr_onnx_filled(c, TSR_DTYPE_I32, &batch, 0);
        if (tsr_onnx_has(c, 7))
            lengths = tsr_onnx_reduce(c, TSR_GRAPH_NAME("sum"),
                                      tsr_onnx_cast(c, c->inputs[7], TSR_DTYPE_I32), 1,
                                      (const int64_t[]){1}, false);
        tsr_onnx_out(c, 1, lengths);
    }
    if (tsr_onnx_wants(c, 2)) tsr_onnx_out(c, 2, sum);
    return !c->failed;
}
