/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of optimizers as ops: domain ai.onnx.preview.training. An op updates several tensors: its
 * inputs are the learning rate, the number of the step, then all tensors, all gradients and all of
 * each kind of state; its outputs are the new tensors and the new state.
 */
#include "compiler/frontend/onnx/rules.h"

#include <string.h>

typedef struct stepper {
    tsr_onnx_call *c;
    MlirValue rate, step; /* scalars; step: f32 or f64 */
    size_t tensors, states;
} stepper;

static MlirValue times(tsr_onnx_call *c, MlirValue x, double factor) {
    return EMIT(c, "mul", x, tsr_onnx_number(c, x, factor));
}

/* a x + b y */
static MlirValue blend(tsr_onnx_call *c, double a, MlirValue x, double b, MlirValue y) {
    return EMIT(c, "add", times(c, x, a), times(c, y, b));
}

static bool begin(tsr_onnx_call *c, size_t states, stepper *s) {
    MlirValue rate = tsr_onnx_in(c, 0), step = tsr_onnx_in(c, 1);
    if (c->failed) return false;
    size_t kinds = states + 2, given = c->input_count - 2;
    if (!given || given % kinds || c->output_count != given / kinds * (states + 1))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                             "the node has %zu inputs and %zu outputs; each tensor needs %zu "
                             "inputs after the first 2, and %zu outputs",
                             c->input_count, c->output_count, kinds, states + 1);
    *s = (stepper){c, rate, tsr_onnx_cast(c, step, tsr_onnx_dtype(rate)), given / kinds, states};
    return true;
}

/* Input of kind `kind` for tensor `i`: the tensor, its gradient, its state. */
static MlirValue of_tensor(const stepper *s, size_t kind, size_t i) {
    return tsr_onnx_in(s->c, 2 + kind * s->tensors + i);
}

static bool give(const stepper *s, size_t kind, size_t i, MlirValue value) {
    return tsr_onnx_out(s->c, kind * s->tensors + i, value);
}

/* The gradient with that of the regularisation. */
static MlirValue gradient(const stepper *s, size_t i) {
    double norm = tsr_onnx_attr_f(s->c, "norm_coefficient", 0);
    MlirValue g = of_tensor(s, 1, i);
    return norm == 0 ? g : EMIT(s->c, "add", times(s->c, of_tensor(s, 0, i), norm), g);
}

bool tsr_onnx_rule_adagrad(tsr_onnx_call *c) {
    stepper s;
    if (!begin(c, 1, &s)) return false;
    double decay = tsr_onnx_attr_f(c, "decay_factor", 0);
    double epsilon = tsr_onnx_attr_f(c, "epsilon", (double)1e-6f);
    MlirValue slowed = EMIT(c, "add", times(c, s.step, decay), ONE(c, s.step));
    MlirValue rate = EMIT(c, "div", s.rate, slowed);
    for (size_t i = 0; i < s.tensors && !c->failed; i++) {
        MlirValue g = gradient(&s, i);
        MlirValue sum = EMIT(c, "add", of_tensor(&s, 2, i), EMIT(c, "mul", g, g));
        MlirValue root = EMIT(c, "sqrt", sum);
        root = EMIT(c, "add", root, tsr_onnx_number(c, root, epsilon));
        MlirValue change = EMIT(c, "div", EMIT(c, "mul", rate, g), root);
        give(&s, 0, i, EMIT(c, "sub", of_tensor(&s, 0, i), change));
        give(&s, 1, i, sum);
    }
    return !c->failed;
}

/* 1 - base^step */
static MlirValue correction(const stepper *s, double base) {
    MlirValue one = ONE(s->c, s->step);
    MlirValue power = EMIT(s->c, "pow", tsr_onnx_number(s->c, s->step, base), s->step);
    return EMIT(s->c, "sub", one, power);
}

/* The rate with the corrections of the moments, from step 1 on. */
static MlirValue adam_rate(const stepper *s, double alpha, double beta) {
    tsr_onnx_call *c = s->c;
    MlirValue root = EMIT(c, "sqrt", correction(s, beta));
    MlirValue rate = EMIT(c, "div", EMIT(c, "mul", s->rate, root), correction(s, alpha));
    MlirValue later = tsr_onnx_compare(c, TSR_PREDICATE_GT, s->step, ZERO(c, s->step));
    return EMIT(c, "where", later, rate, s->rate);
}

bool tsr_onnx_rule_adam(tsr_onnx_call *c) {
    stepper s;
    if (!begin(c, 2, &s)) return false;
    double alpha = tsr_onnx_attr_f(c, "alpha", (double)0.9f);
    double beta = tsr_onnx_attr_f(c, "beta", (double)0.999f);
    double epsilon = tsr_onnx_attr_f(c, "epsilon", (double)1e-6f);
    double after = tsr_onnx_attr_f(c, "norm_coefficient_post", 0);
    MlirValue rate = adam_rate(&s, alpha, beta);
    for (size_t i = 0; i < s.tensors && !c->failed; i++) {
        MlirValue g = gradient(&s, i);
        MlirValue first = blend(c, alpha, of_tensor(&s, 2, i), 1 - alpha, g);
        MlirValue second = blend(c, beta, of_tensor(&s, 3, i), 1 - beta, EMIT(c, "mul", g, g));
        MlirValue root = EMIT(c, "sqrt", second);
        root = EMIT(c, "add", root, tsr_onnx_number(c, root, epsilon));
        MlirValue change = EMIT(c, "mul", rate, EMIT(c, "div", first, root));
        MlirValue x = EMIT(c, "sub", of_tensor(&s, 0, i), change);
        give(&s, 0, i, after == 0 ? x : times(c, x, 1 - after));
        give(&s, 1, i, first);
        give(&s, 2, i, second);
    }
    return !c->failed;
}

bool tsr_onnx_rule_momentum(tsr_onnx_call *c) {
    stepper s;
    const char *mode = tsr_onnx_attr_s(c, "mode", "standard");
    bool nesterov = strcmp(mode, "nesterov") == 0;
    if (!begin(c, 1, &s)) return false;
    if (!nesterov && strcmp(mode, "standard") != 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute 'mode' is '%s'; expected standard or nesterov", mode);
    double alpha = tsr_onnx_attr_f(c, "alpha", 0), beta = tsr_onnx_attr_f(c, "beta", 0);
    MlirValue later = tsr_onnx_compare(c, TSR_PREDICATE_GT, s.step, ZERO(c, s.step));
    MlirValue share = EMIT(c, "where", later, tsr_onnx_number(c, s.step, beta), ONE(c, s.step));
    for (size_t i = 0; i < s.tensors && !c->failed; i++) {
        MlirValue g = gradient(&s, i);
        MlirValue v =
            EMIT(c, "add", times(c, of_tensor(&s, 2, i), alpha), EMIT(c, "mul", share, g));
        MlirValue direction = nesterov ? EMIT(c, "add", g, times(c, v, alpha)) : v;
        give(&s, 0, i, EMIT(c, "sub", of_tensor(&s, 0, i), EMIT(c, "mul", s.rate, direction)));
        give(&s, 1, i, v);
    }
    return !c->failed;
}
