/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer steps: shape rules and lowering to elementwise ops.
 */
#include "compiler/graph/rules.h"
#include "compiler/shim/shim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- attributes ------------------------------------------------------------------------------ */

static size_t read_parameters(MlirAttribute attr, const char **out_mnemonic, double *out_values) {
    *out_mnemonic = "";
    return mlirAttributeIsNull(attr) ? 0 : tsr_shim_graph_attr(attr, out_mnemonic, out_values);
}

static bool read_adamw(MlirAttribute optimizer, tsr_adamw *out_adamw) {
    const char *mnemonic;
    double values[TSR_SHIM_PARAMETERS_MAX] = {0};
    if (read_parameters(optimizer, &mnemonic, values) != 5 || strcmp(mnemonic, "adamw") != 0)
        return false;
    *out_adamw = (tsr_adamw){.lr = values[0],
                             .beta1 = values[1],
                             .beta2 = values[2],
                             .eps = values[3],
                             .weight_decay = values[4]};
    return true;
}

bool tsr_graph_adamw(MlirOperation op, tsr_adamw *out_adamw) {
    return read_adamw(tsr_op_attr(op, "optimizer"), out_adamw);
}

static bool read_sgd(MlirAttribute optimizer, tsr_sgd *out_sgd) {
    const char *mnemonic;
    double values[TSR_SHIM_PARAMETERS_MAX] = {0};
    if (read_parameters(optimizer, &mnemonic, values) != 3) return false;
    *out_sgd = (tsr_sgd){.lr = values[0],
                         .momentum = values[1],
                         .weight_decay = values[2],
                         .nesterov = strcmp(mnemonic, "nesterov") == 0};
    return true;
}

static bool check_rate(const tsr_rule *rule, double lr, double weight_decay) {
    if (!(lr >= 0) || !isfinite(lr))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "lr is %g, needs lr >= 0", lr);
    if (!(weight_decay >= 0) || !isfinite(weight_decay))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "weight_decay is %g, needs weight_decay >= 0",
                             weight_decay);
    return true;
}

static bool check_adamw(const tsr_rule *rule, const tsr_adamw *o) {
    if (!(o->beta1 >= 0 && o->beta1 < 1))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "beta1 is %g, needs 0 <= beta1 < 1", o->beta1);
    if (!(o->beta2 >= 0 && o->beta2 < 1))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "beta2 is %g, needs 0 <= beta2 < 1", o->beta2);
    if (!(o->eps > 0) || !isfinite(o->eps))
        return tsr_rule_fail(rule, TSR_DIAG_EPSILON, "eps is %g, needs eps > 0", o->eps);
    return check_rate(rule, o->lr, o->weight_decay);
}

static bool check_sgd(const tsr_rule *rule, const tsr_sgd *o) {
    if (!(o->momentum >= 0 && o->momentum < 1))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "momentum is %g, needs 0 <= momentum < 1",
                             o->momentum);
    return check_rate(rule, o->lr, o->weight_decay);
}

static bool check_optimizer(const tsr_rule *rule) {
    tsr_adamw adamw;
    tsr_sgd sgd;
    bool is_adamw = tsr_graph_adamw(rule->op, &adamw);
    if (!is_adamw && !read_sgd(tsr_op_attr(rule->op, "optimizer"), &sgd))
        return tsr_rule_fail(rule, TSR_DIAG_OPTIMIZER,
                             "optimizer is not #tessera.adamw, #tessera.sgd or #tessera.nesterov");
    return (is_adamw ? check_adamw(rule, &adamw) : check_sgd(rule, &sgd)) &&
           tsr_lr_schedule_check(rule);
}

static bool check_group_rate(MlirOperation minimize, MlirOperation param, double lr,
                             double factor) {
    char text[512];
    double rate = lr * factor;
    if (isfinite(rate) && (rate != 0 || lr == 0)) return true;
    snprintf(text, sizeof text,
             "tessera.param: the learning rate of '%.300s' is lr * lr_factor = %g * %g = %g; "
             "expected a finite number that is not 0",
             tsr_op_string(param, "name"), lr, factor, rate);
    tsr_diag_error_note(mlirOperationGetLocation(param), TSR_DIAG_RATE, text,
                        mlirOperationGetLocation(minimize), "lr is given here");
    return false;
}

/* A group of PyTorch's optimizers has its own lr and weight_decay; the other numbers stay. */
bool tsr_optimizer_for(MlirOperation minimize, MlirOperation param, MlirAttribute *out_optimizer) {
    static const char adamw[] = "#tessera.adamw<lr = %.17e, beta1 = %.17e, beta2 = %.17e, "
                                "eps = %.17e, weight_decay = %.17e>";
    static const char sgd[] = "#tessera.%s<lr = %.17e, momentum = %.17e, weight_decay = %.17e>";
    MlirAttribute all = tsr_op_attr(minimize, "optimizer"),
                  factor = tsr_op_attr(param, "lr_factor");
    double f = mlirAttributeIsNull(factor) ? 1 : mlirFloatAttrGetValueDouble(factor);
    double decays = tsr_op_has(param, "no_decay") ? 0 : 1;
    char text[256];
    tsr_adamw a;
    tsr_sgd s;
    if (f == 1 && decays == 1) {
        *out_optimizer = all;
        return true;
    }
    bool is_adamw = tsr_graph_adamw(minimize, &a);
    if (!is_adamw) {
        bool read = read_sgd(all, &s);
        TSR_ASSERT(read);
    }
    if (!check_group_rate(minimize, param, is_adamw ? a.lr : s.lr, f)) return false;
    if (is_adamw)
        snprintf(text, sizeof text, adamw, a.lr * f, a.beta1, a.beta2, a.eps,
                 a.weight_decay * decays);
    else
        snprintf(text, sizeof text, sgd, s.nesterov ? "nesterov" : "sgd", s.lr * f, s.momentum,
                 s.weight_decay * decays);
    *out_optimizer = mlirAttributeParseGet(mlirOperationGetContext(minimize), tsr_ref(text));
    TSR_ASSERT(!mlirAttributeIsNull(*out_optimizer));
    return true;
}

MlirAttribute tsr_optimizer_group(MlirOperation minimize, MlirOperation param) {
    MlirContext context = mlirOperationGetContext(minimize);
    MlirAttribute factor = tsr_op_attr(param, "lr_factor");
    MlirNamedAttribute members[3];
    intptr_t count = 0;
    if (!mlirAttributeIsNull(factor))
        members[count++] =
            mlirNamedAttributeGet(mlirIdentifierGet(context, tsr_ref("lr_factor")),
                                  mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context),
                                                         mlirFloatAttrGetValueDouble(factor)));
    if (tsr_op_has(param, "no_decay"))
        members[count++] = mlirNamedAttributeGet(mlirIdentifierGet(context, tsr_ref("no_decay")),
                                                 mlirUnitAttrGet(context));
    if (!count) return mlirAttributeGetNull();
    members[count++] = mlirNamedAttributeGet(mlirIdentifierGet(context, tsr_ref("optimizer")),
                                             tsr_op_attr(minimize, "optimizer"));
    return mlirDictionaryAttrGet(context, count, members);
}

/* ---- rules ----------------------------------------------------------------------------------- */

bool tsr_check_minimize(tsr_rule *rule) {
    char text[TSR_TYPE_TEXT_MAX];
    const tsr_type *loss = &rule->operands[0];
    if (loss->shape.rank || !(TSR_DTYPES_WIDE_FLOAT >> loss->dtype & 1))
        return tsr_rule_fail(rule, TSR_DIAG_LOSS, "the loss is %s, needs a scalar f32 or f64",
                             tsr_type_text(loss, text));
    if (rule->result_count) rule->results[0] = *loss; /* the norm */
    return check_optimizer(rule) && tsr_clip_check(rule);
}

/* The optional factor of the gradient. */
static bool check_scale(const tsr_rule *rule, size_t operand) {
    char text[TSR_TYPE_TEXT_MAX];
    if (rule->operand_count <= operand) return true;
    const tsr_type *scale = &rule->operands[operand];
    if (scale->shape.rank)
        return tsr_rule_fail(rule, TSR_DIAG_SCALAR, "the scale is %s, needs a scalar",
                             tsr_type_text(scale, text));
    return tsr_rule_same_dtype(rule, 0, "the parameter", operand, "the scale");
}

bool tsr_check_adamw(tsr_rule *rule) {
    const tsr_type *step = &rule->operands[4];
    char text[TSR_TYPE_TEXT_MAX];
    if (!tsr_rule_dtype(rule, 0, "the parameter", TSR_DTYPES_WIDE_FLOAT)) return false;
    if (step->shape.rank || step->dtype != TSR_DTYPE_I64)
        return tsr_rule_fail(rule, TSR_DIAG_SCALAR, "the step is %s, needs a scalar i64",
                             tsr_type_text(step, text));
    return check_scale(rule, 5) && check_optimizer(rule);
}

bool tsr_check_sgd(tsr_rule *rule) {
    return tsr_rule_dtype(rule, 0, "the parameter", TSR_DTYPES_WIDE_FLOAT) &&
           check_scale(rule, 3) && check_optimizer(rule);
}

/* ---- by elementwise ops ---------------------------------------------------------------------- */

/* The numbers of a step: those of its own attribute, or those that a run can set, as its group
 * changes them. */
typedef struct numbers {
    tsr_numbers emit;
    MlirAttribute optimizer; /* the numbers without the group */
    double lr_factor;
    bool decays;
} numbers;

static numbers numbers_of(tsr_builder *b, MlirOperation op) {
    numbers n = {tsr_numbers_of(b, op), tsr_op_attr(op, "optimizer"), 1, true};
    MlirAttribute group = tsr_op_attr(op, TSR_GROUP_NAME);
    if (!n.emit.prefix || mlirAttributeIsNull(group)) return n;
    MlirAttribute factor = mlirDictionaryAttrGetElementByName(group, tsr_ref("lr_factor"));
    if (!mlirAttributeIsNull(factor)) n.lr_factor = mlirFloatAttrGetValueDouble(factor);
    n.decays = mlirAttributeIsNull(mlirDictionaryAttrGetElementByName(group, tsr_ref("no_decay")));
    n.optimizer = mlirDictionaryAttrGetElementByName(group, tsr_ref("optimizer"));
    return n;
}

/* In f64; a number of the program is multiplied at build time, with the same result. */
static MlirValue emit_lr(const numbers *n, double lr) {
    MlirValue base = tsr_number_emit(&n->emit, "lr", lr, TSR_DTYPE_F64);
    tsr_builder *b = n->emit.builder;
    return n->lr_factor == 1 ? base : tsr_emit_mul(b, base, tsr_emit_number(b, base, n->lr_factor));
}

static MlirValue root(tsr_builder *b, MlirValue x) {
    return tsr_emit_unary(b, TSR_GRAPH_NAME("sqrt"), x);
}

static MlirValue scaled(tsr_builder *b, MlirOperation op, size_t scale) {
    MlirValue g = tsr_op_operand(op, 1);
    return tsr_op_operand_count(op) > scale ? tsr_emit_mul(b, g, tsr_op_operand(op, scale)) : g;
}

/* 1 - beta^step, in f64: in f32 it would lose half its digits at the first steps. */
static MlirValue correction(const numbers *n, const char *name, double beta, MlirValue step) {
    tsr_builder *b = n->emit.builder;
    MlirValue base = tsr_number_emit(&n->emit, name, beta, TSR_DTYPE_F64);
    MlirValue one = tsr_emit_constant(b, TSR_DTYPE_F64, 1.0);
    return tsr_emit_sub(b, one, tsr_emit_binary(b, TSR_GRAPH_NAME("ipow"), base, step));
}

/* 1 - x in f64, rounded to `dtype`. */
static MlirValue rest(tsr_builder *b, MlirValue x, tsr_dtype dtype) {
    return tsr_emit_cast(b, tsr_emit_sub(b, tsr_emit_constant(b, TSR_DTYPE_F64, 1.0), x), dtype);
}

/* 1 - lr * weight_decay */
static MlirValue emit_decay(const numbers *n, const tsr_adamw *o, MlirOperation op, MlirValue lr,
                            tsr_dtype dtype) {
    tsr_builder *b = n->emit.builder;
    if (!n->decays) return tsr_emit_constant(b, dtype, 1.0);
    if (!n->emit.prefix && !tsr_lr_schedule_is_given(op))
        return tsr_emit_constant(b, dtype, 1.0 - o->lr * o->weight_decay);
    MlirValue decay = tsr_number_emit(&n->emit, "weight_decay", o->weight_decay, TSR_DTYPE_F64);
    return rest(b, tsr_emit_mul(b, lr, decay), dtype);
}

/* A number as it is, or 1 minus it, rounded to `dtype`. */
static MlirValue emit_factor(const numbers *n, const char *name, double value, tsr_dtype dtype) {
    if (!n->emit.prefix) return tsr_emit_constant(n->emit.builder, dtype, value);
    return tsr_emit_cast(n->emit.builder, tsr_number_emit(&n->emit, name, value, TSR_DTYPE_F64),
                         dtype);
}
static MlirValue emit_rest(const numbers *n, const char *name, double value, tsr_dtype dtype) {
    if (!n->emit.prefix) return tsr_emit_constant(n->emit.builder, dtype, 1.0 - value);
    return rest(n->emit.builder, tsr_number_emit(&n->emit, name, value, TSR_DTYPE_F64), dtype);
}

/* g is the gradient, times `scale` if present, t the step, starting at 1, and lr its rate:
 *   p1 = p * (1 - lr * weight_decay)
 *   m' = m + (g - m) * (1 - beta1)
 *   v' = v * beta2 + (g * g) * (1 - beta2)
 *   p' = p1 - lr / (1 - beta1^t) * (m' / (sqrt(v') / sqrt(1 - beta2^t) + eps))
 */
bool tsr_lower_adamw(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue p = tsr_op_operand(op, 0), g = scaled(&b, op, 5), m = tsr_op_operand(op, 2),
              v = tsr_op_operand(op, 3), step = tsr_op_operand(op, 4);
    tsr_dtype dtype = tsr_type_of(p).dtype;
    const numbers n = numbers_of(&b, op);
    tsr_adamw o;
    bool valid = read_adamw(n.optimizer, &o);
    TSR_ASSERT(valid);
    MlirValue lr = tsr_lr_schedule_emit(&b, op, emit_lr(&n, o.lr), step);
    MlirValue rate =
        tsr_emit_cast(&b, tsr_emit_div(&b, lr, correction(&n, "beta1", o.beta1, step)), dtype);
    MlirValue scale = tsr_emit_cast(&b, root(&b, correction(&n, "beta2", o.beta2, step)), dtype);
    MlirValue decayed = tsr_emit_mul(&b, p, emit_decay(&n, &o, op, lr, dtype));
    MlirValue new_m = tsr_emit_add(
        &b, m, tsr_emit_mul(&b, tsr_emit_sub(&b, g, m), emit_rest(&n, "beta1", o.beta1, dtype)));
    MlirValue new_v = tsr_emit_add(
        &b, tsr_emit_mul(&b, v, emit_factor(&n, "beta2", o.beta2, dtype)),
        tsr_emit_mul(&b, tsr_emit_mul(&b, g, g), emit_rest(&n, "beta2", o.beta2, dtype)));
    MlirValue denominator = tsr_emit_add(&b, tsr_emit_div(&b, root(&b, new_v), scale),
                                         tsr_number_emit(&n.emit, "eps", o.eps, dtype));
    MlirValue new_p =
        tsr_emit_sub(&b, decayed, tsr_emit_mul(&b, rate, tsr_emit_div(&b, new_m, denominator)));
    tsr_emit_replace(op, 3, (MlirValue[]){new_p, new_m, new_v});
    return true;
}

static MlirValue emit_step(tsr_builder *b) {
    tsr_type type = tsr_type_scalar(TSR_DTYPE_I64);
    return tsr_build_value(b, TSR_GRAPH_NAME("step"), NULL, 0, tsr_type_make(b->context, &type),
                           NULL);
}

/* As torch.optim.SGD without dampening, its velocity from 0:
 *   h  = g + weight_decay * p
 *   v' = momentum * v + h
 *   p' = p - lr * v'                    nesterov: p - lr * (h + momentum * v')
 */
bool tsr_lower_sgd(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue p = tsr_op_operand(op, 0), g = scaled(&b, op, 3), v = tsr_op_operand(op, 2);
    tsr_dtype dtype = tsr_type_of(p).dtype;
    const numbers n = numbers_of(&b, op);
    tsr_sgd o;
    bool read = read_sgd(n.optimizer, &o);
    TSR_ASSERT(read);
    MlirValue momentum = tsr_number_emit(&n.emit, "momentum", o.momentum, dtype);
    /* Without arithmetic, a number is read in the parameter's type. */
    bool plain = n.lr_factor == 1 && !tsr_lr_schedule_is_given(op);
    MlirValue lr = plain ? tsr_number_emit(&n.emit, "lr", o.lr, dtype) : emit_lr(&n, o.lr);
    if (tsr_lr_schedule_is_given(op)) lr = tsr_lr_schedule_emit(&b, op, lr, emit_step(&b));
    if (!plain) lr = tsr_emit_cast(&b, lr, dtype);
    if (o.weight_decay != 0 && n.decays) {
        MlirValue decay = tsr_number_emit(&n.emit, "weight_decay", o.weight_decay, dtype);
        g = tsr_emit_add(&b, g, tsr_emit_mul(&b, decay, p));
    }
    MlirValue new_v = tsr_emit_add(&b, tsr_emit_mul(&b, momentum, v), g), direction = new_v;
    if (o.nesterov) direction = tsr_emit_add(&b, g, tsr_emit_mul(&b, momentum, new_v));
    MlirValue new_p = tsr_emit_sub(&b, p, tsr_emit_mul(&b, lr, direction));
    tsr_emit_replace(op, 2, (MlirValue[]){new_p, new_v});
    return true;
}
