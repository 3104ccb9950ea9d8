/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers: shape rules, gradients and lowering to tessera.philox, which gives each logical
 * element of each sample of each step a number of its own.
 */
#include "compiler/graph/rules.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/samples.h"
#include "runtime/base/array.h"
#include "runtime/base/random/uniform.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

bool tsr_check_dropout(tsr_rule *rule) {
    double rate;
    rule->results[0] = rule->operands[0];
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_FLOAT) ||
        !tsr_rule_f64(rule, "rate", 0.0, &rate))
        return false;
    if (rate >= 0 && rate < 1) return true;
    return tsr_rule_fail(rule, TSR_DIAG_RATE, "rate is %g, needs 0 <= rate < 1", rate);
}

static bool check_drawn(const tsr_rule *rule) {
    if (TSR_DTYPES_FLOAT >> rule->declared[0].dtype & 1) return true;
    return tsr_rule_fail(rule, TSR_DIAG_RESULT_DTYPE,
                         "element type of the result is %s, must be a float",
                         tsr_dtype_name(rule->declared[0].dtype));
}

bool tsr_rule_uniform(const tsr_rule *rule, const char *what, tsr_dtype dtype, double low,
                      double high) {
    if (!(low < high))
        return tsr_rule_fail(rule, TSR_DIAG_RANGE, "%sneeds low < high, has %g and %g", what, low,
                             high);
    if (!tsr_dtype_is_float(dtype) ||
        (tsr_dtype_rounds_finite(dtype, low) && tsr_dtype_rounds_finite(dtype, high)))
        return true;
    double most = tsr_dtype_below(dtype, (double)INFINITY);
    return tsr_rule_fail(rule, TSR_DIAG_HOLDS, "%sgoes from %g to %g; %s holds %g to %g", what, low,
                         high, tsr_dtype_name(dtype), -most, most);
}

bool tsr_check_random_uniform(tsr_rule *rule) {
    double low, high;
    if (!check_drawn(rule) || !tsr_rule_f64(rule, "low", 0.0, &low) ||
        !tsr_rule_f64(rule, "high", 1.0, &high))
        return false;
    return tsr_rule_uniform(rule, "", rule->declared[0].dtype, low, high);
}

bool tsr_check_random_normal(tsr_rule *rule) {
    double mean, deviation;
    if (!check_drawn(rule) || !tsr_rule_f64(rule, "mean", 0.0, &mean) ||
        !tsr_rule_f64(rule, "deviation", 1.0, &deviation))
        return false;
    if (deviation > 0) return true;
    return tsr_rule_fail(rule, TSR_DIAG_DEVIATION, "needs a deviation > 0, has %g", deviation);
}

static bool check_scalar(const tsr_rule *rule, size_t operand, const char *what) {
    return tsr_rule_dtype(rule, operand, what, TSR_DTYPES_I64) &&
           tsr_rule_rank(rule, operand, what, 0);
}

bool tsr_check_philox(tsr_rule *rule) {
    int64_t stream = -1, draw = 0;
    tsr_dtype dtype = rule->declared[0].dtype;
    if (!tsr_rule_dtype(rule, 0, "element", TSR_DTYPES_I64) || !check_scalar(rule, 1, "step") ||
        !check_scalar(rule, 2, "seed"))
        return false;
    if (!(TSR_DTYPES_WIDE_FLOAT >> dtype & 1))
        return tsr_rule_fail(rule, TSR_DIAG_RESULT_DTYPE,
                             "element type of the result is %s, must be f64 or f32",
                             tsr_dtype_name(dtype));
    tsr_op_i64(rule->op, "draw", &draw);
    if (!tsr_op_i64(rule->op, "stream", &stream) || stream < 0 || stream > UINT32_MAX || draw < 0 ||
        draw > UINT32_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_STREAM,
                             "stream is %" PRId64 ", draw is %" PRId64 "; both need 0 to 2^32 - 1",
                             stream, draw);
    if (tsr_op_has(rule->op, "normal") && tsr_op_has(rule->op, "shared"))
        return tsr_rule_fail(
            rule, TSR_DIAG_STREAM,
            "has both normal and shared; 15 bits are not enough for a normal number");
    rule->results[0].shape = rule->operands[0].shape;
    return true;
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* The same elements, by the same stream. */
bool tsr_gradient_dropout(tsr_gradient *of) {
    MlirValue operand = of->of_result;
    MlirType type = mlirValueGetType(operand);
    tsr_attr attrs[] = {{"rate", tsr_op_attr(of->op, "rate")},
                        {"stream", tsr_op_attr(of->op, "stream")},
                        {TSR_SEED_NAME, tsr_op_attr(of->op, TSR_SEED_NAME)}};
    size_t count = TSR_COUNT(attrs) - mlirAttributeIsNull(attrs[2].value);
    if (mlirAttributeIsNull(attrs[1].value)) {
        tsr_diag_error(mlirOperationGetLocation(of->op), TSR_DIAG_STREAM_MISSING,
                       "%s: has no stream yet; run -tessera-streams first", tsr_op_name(of->op));
        return false;
    }
    if (of->wanted[0])
        of->of_operands[0] =
            tsr_op_result(tsr_build(of->builder, &(tsr_op_desc){.name = tsr_op_name(of->op),
                                                                .operand_count = 1,
                                                                .operands = &operand,
                                                                .result_count = 1,
                                                                .results = &type,
                                                                .attr_count = count,
                                                                .attrs = attrs}),
                          0);
    return true;
}

/* ---- by philox ------------------------------------------------------------------------------- */

MlirValue tsr_random_source(tsr_builder *b, const char *name) {
    tsr_type type = tsr_type_scalar(TSR_DTYPE_I64);
    return tsr_build_value(b, name, NULL, 0, tsr_type_make(b->context, &type), NULL);
}

MlirValue tsr_random_seed(tsr_builder *b, MlirOperation op, const tsr_samples *samples) {
    int64_t seed = 0;
    if (tsr_op_i64(op, TSR_SEED_NAME, &seed))
        return tsr_emit_constant(b, TSR_DTYPE_I64, (double)seed);
    return samples ? samples->seed : tsr_random_source(b, TSR_GRAPH_NAME("seed"));
}

MlirValue tsr_random_positions(tsr_builder *b, const tsr_shape *shape) {
    MlirValue element = tsr_emit_constant(b, TSR_DTYPE_I64, 0.0);
    uint64_t step = 1;
    for (uint32_t i = shape->rank; i-- > 0; step *= shape->dims[i]) {
        if (shape->dims[i] <= 1) continue;
        MlirValue position = tsr_emit_iota(b, shape, i, TSR_DTYPE_I64);
        MlirValue factor = tsr_emit_constant(b, TSR_DTYPE_I64, (double)step);
        element = tsr_emit_add(b, element, tsr_emit_mul(b, position, factor));
    }
    return element;
}

/* i64, in this shape: an iteration's elements follow the elements of the previous iteration. */
static MlirValue number_elements(tsr_builder *b, const tsr_shape *shape,
                                 const tsr_samples *samples) {
    MlirValue element = tsr_random_positions(b, shape);
    uint64_t count = 1;
    for (uint32_t i = 0; i < shape->rank; i++) count *= shape->dims[i];
    if (samples) {
        MlirValue size = tsr_emit_constant(b, TSR_DTYPE_I64, (double)count);
        element = tsr_emit_add(b, element, tsr_emit_mul(b, samples->iteration, size));
    }
    return tsr_emit_broadcast(b, element, shape);
}

/* operands: element, step, seed. `how`: NULL, "normal" or "shared". */
static MlirValue sample_at(tsr_builder *b, tsr_dtype dtype, int64_t stream, const char *how,
                           const MlirValue *operands) {
    tsr_type type = {.dtype = dtype == TSR_DTYPE_F64 ? dtype : TSR_DTYPE_F32,
                     .shape = tsr_type_of(operands[0]).shape};
    tsr_attr attrs[3] = {{"stream", tsr_attr_make_i64(b->context, stream)}};
    if (how) attrs[1] = (tsr_attr){how, tsr_attr_make_unit(b->context)};
    return tsr_build_value(b, TSR_GRAPH_NAME("philox"), operands, 3,
                           tsr_type_make(b->context, &type), attrs);
}

/* Numbers of the op's stream in the shape of its result: f64 for f64, else f32. */
static bool sample(tsr_builder *b, MlirOperation op, const tsr_samples *samples, bool normal,
                   MlirValue *out_drawn) {
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    int64_t stream;
    if (!tsr_op_i64(op, "stream", &stream)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_STREAM_MISSING,
                       "%s: has no stream; pass tessera-streams gives it one", tsr_op_name(op));
        return false;
    }
    MlirValue operands[] = {number_elements(b, &type.shape, samples),
                            samples ? samples->step : tsr_random_source(b, TSR_GRAPH_NAME("step")),
                            tsr_random_seed(b, op, samples)};
    *out_drawn = sample_at(b, type.dtype, stream, normal ? "normal" : NULL, operands);
    return true;
}

static bool finish(MlirOperation op, tsr_builder *b, MlirValue y) {
    y = tsr_emit_cast(b, y, tsr_type_of(tsr_op_result(op, 0)).dtype);
    tsr_emit_replace(op, 1, &y);
    return true;
}

static MlirValue scale(tsr_builder *b, MlirValue x, double factor) {
    return factor == 1.0 ? x : tsr_emit_mul(b, x, tsr_emit_number(b, x, factor));
}

static MlirValue shift(tsr_builder *b, MlirValue x, double by) {
    return by == 0.0 ? x : tsr_emit_add(b, x, tsr_emit_number(b, x, by));
}

/* True if no result can exceed the last number, whether or not a target fuses product and sum. */
static bool stays_below(const tsr_uniform *u, tsr_dtype computed) {
    if (u->factor != 1.0) return false;
    if (computed == TSR_DTYPE_F64) {
        double most = 1 - 0x1p-53, product = most * u->span;
        return product + u->low <= u->last && fma(most, u->span, u->low) <= u->last;
    }
    float most = 1 - 0x1p-24f, span = (float)u->span, low = (float)u->low, product = most * span;
    float sum = product + low, fused = fmaf(most, span, low);
    return (double)sum <= u->last && (double)fused <= u->last;
}

/* Follows the rule of base/uniform.h, like the runtime's initial values. */
static bool lower_uniform(MlirOperation op, const tsr_samples *samples) {
    tsr_builder b = tsr_builder_before(op);
    double low = 0.0, high = 1.0;
    MlirValue x;
    tsr_op_f64(op, "low", &low);
    tsr_op_f64(op, "high", &high);
    if (!sample(&b, op, samples, false, &x)) return false;
    tsr_dtype computed = tsr_type_of(x).dtype;
    tsr_uniform u = tsr_uniform_make(computed, tsr_type_of(tsr_op_result(op, 0)).dtype, low, high);
    x = scale(&b, shift(&b, scale(&b, x, u.span), u.low), u.factor);
    if (!stays_below(&u, computed))
        x = tsr_emit_binary(&b, TSR_GRAPH_NAME("min"), x, tsr_emit_number(&b, x, u.last));
    return finish(op, &b, x);
}

static bool lower_normal(MlirOperation op, const tsr_samples *samples) {
    tsr_builder b = tsr_builder_before(op);
    double mean = 0.0, deviation = 1.0;
    MlirValue x;
    tsr_op_f64(op, "mean", &mean);
    tsr_op_f64(op, "deviation", &deviation);
    if (!sample(&b, op, samples, true, &x)) return false;
    return finish(op, &b, shift(&b, scale(&b, x, deviation), mean));
}

/* x, or 0, depending on numbers in [0, 1). */
static MlirValue drop(tsr_builder *b, MlirValue x, MlirValue drawn, double rate) {
    MlirValue mask = tsr_emit_compare(b, TSR_PREDICATE_GE, drawn, tsr_emit_number(b, drawn, rate));
    x = tsr_emit_wide(b, x);
    x = tsr_emit_mul(b, x, tsr_emit_number(b, x, 1.0 / (1.0 - rate)));
    return tsr_emit_where(b, mask, x, tsr_emit_number(b, x, 0.0));
}

MlirValue tsr_random_drop(tsr_builder *b, MlirValue x, double rate, int64_t stream,
                          MlirValue elements, MlirValue step, MlirValue seed) {
    MlirValue operands[] = {elements, step, seed};
    return drop(b, x, sample_at(b, tsr_type_of(x).dtype, stream, "shared", operands), rate);
}

static bool lower_dropped(MlirOperation op, const tsr_samples *samples) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue x = tsr_op_operand(op, 0), drawn;
    double rate = 0.0;
    tsr_op_f64(op, "rate", &rate);
    if (rate == 0.0) return finish(op, &b, x);
    if (!sample(&b, op, samples, false, &drawn)) return false;
    return finish(op, &b, drop(&b, x, drawn, rate));
}

bool tsr_random_lower(MlirOperation op, const tsr_samples *samples) {
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_RANDOM_UNIFORM:
        return lower_uniform(op, samples);
    case TSR_GRAPH_RANDOM_NORMAL:
        return lower_normal(op, samples);
    case TSR_GRAPH_ATTENTION:
        return tsr_attention_sample(op, samples);
    default:
        return lower_dropped(op, samples);
    }
}

bool tsr_random_count(MlirOperation op, uint64_t *out_count) {
    tsr_shape shape = tsr_type_of(tsr_op_result(op, 0)).shape;
    uint64_t numbers = 1, heads;
    if (tsr_op_is(op, TSR_GRAPH_ATTENTION)) {
        shape = tsr_type_of(tsr_op_operand(op, 0)).shape;
        uint64_t keys = tsr_type_of(tsr_op_operand(op, 1)).shape.dims[2];
        if (!tsr_samples_of_head(shape.dims[2], keys, &numbers)) return false;
        shape.rank = 2;
    }
    return tsr_shape_count(&shape, &heads) && !__builtin_mul_overflow(heads, numbers, out_count);
}

bool tsr_lower_random_uniform(MlirOperation op) { return tsr_random_lower(op, NULL); }

bool tsr_lower_random_normal(MlirOperation op) { return tsr_random_lower(op, NULL); }

bool tsr_random_trains(MlirOperation op) {
    MlirOperation func = op; /* the function whose body or region contains the op */
    while (!mlirOperationIsNull(func) && !tsr_op_is(func, TSR_FUNC_FUNC))
        func = mlirOperationGetParentOperation(func);
    if (mlirOperationIsNull(func)) return false;
    const char *body = tsr_op_string(func, TSR_BODY_NAME);
    tsr_entry_kind kind;
    if (body)
        func =
            tsr_module_find(mlirModuleFromOperation(mlirOperationGetParentOperation(func)), body);
    return !mlirOperationIsNull(func) && tsr_graph_entry_kind(func, &kind) &&
           kind == TSR_ENTRY_TRAIN;
}

bool tsr_lower_dropout(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    return tsr_random_trains(op) ? tsr_random_lower(op, NULL)
                                 : finish(op, &b, tsr_op_operand(op, 0));
}
