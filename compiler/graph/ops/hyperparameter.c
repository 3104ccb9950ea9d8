/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that a run can set: tessera.hyperparameter, and the numbers of optimizers, which become
 * such ops. Pass tessera-identify gives each optimizer's op whose numbers it lists the prefix of
 * their names; the numbers of other optimizers stay constants.
 */
#include "compiler/graph/rules.h"
#include "manifests/config.h"
#include "runtime/base/array.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Largest number below 1, and smallest one above 0 that f32 holds. */
#define BELOW_ONE 0x1.fffffffffffffp-1
#define ABOVE_ZERO ((double)FLT_TRUE_MIN)

typedef struct range {
    const char *name;
    double least, most;
} range;

static const range ranges[] = {
    {"lr", 0, FLT_MAX},
    {"weight_decay", 0, FLT_MAX},
    {"beta1", 0, BELOW_ONE},
    {"beta2", 0, BELOW_ONE},
    {"momentum", 0, BELOW_ONE},
    {"eps", ABOVE_ZERO, FLT_MAX},
    {"clip_norm", ABOVE_ZERO, FLT_MAX},
};

/* ---- the op ---------------------------------------------------------------------------------- */

void tsr_hyperparameter_range(MlirOperation op, double *out_least, double *out_most) {
    *out_least = -(double)FLT_MAX;
    *out_most = (double)FLT_MAX;
    tsr_op_f64(op, "least", out_least);
    tsr_op_f64(op, "most", out_most);
}

bool tsr_check_hyperparameter(tsr_rule *rule) {
    tsr_dtype dtype = rule->declared[0].dtype;
    const char *key = tsr_op_string(rule->op, "key");
    double value, least, most;
    if (!key || !tsr_name_valid(key))
        return tsr_rule_fail(rule, TSR_DIAG_NAME_MISSING,
                             "key is empty, too long or not printable");
    if (!(TSR_DTYPES_WIDE_FLOAT >> dtype & 1))
        return tsr_rule_fail(rule, TSR_DIAG_RESULT_DTYPE,
                             "element type of the result is %s, must be f32 or f64",
                             tsr_dtype_name(dtype));
    rule->results[0] = tsr_type_scalar(dtype);
    if (!tsr_rule_f64(rule, "value", 0, &value)) return false;
    tsr_hyperparameter_range(rule->op, &least, &most);
    if (!tsr_dtype_rounds_finite(dtype, least) || !tsr_dtype_rounds_finite(dtype, most))
        return tsr_rule_fail(rule, TSR_DIAG_HOLDS, "the range is %g to %g; %s holds %g to %g",
                             least, most, tsr_dtype_name(dtype), -(double)FLT_MAX, (double)FLT_MAX);
    if (value >= least && value <= most) return true;
    return tsr_rule_fail(rule, TSR_DIAG_RATE, "value is %g, needs %g <= value <= %g", value, least,
                         most);
}

/* ---- numbers of optimizers ------------------------------------------------------------------- */

tsr_numbers tsr_numbers_of(tsr_builder *b, MlirOperation op) {
    MlirAttribute settable = tsr_op_attr(op, TSR_SETTABLE_NAME);
    return (tsr_numbers){b, mlirAttributeIsNull(settable) ? NULL : tsr_attr_string(settable)};
}

static MlirAttribute make_f64(const tsr_numbers *numbers, double value) {
    MlirContext context = numbers->builder->context;
    return mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), value);
}

/* A program may have a number beyond the range. */
static range range_of(const char *name, double value) {
    size_t i = 0;
    while (i < TSR_COUNT(ranges) && strcmp(ranges[i].name, name) != 0) i++;
    TSR_ASSERT(i < TSR_COUNT(ranges) && "a range for each name");
    return (range){name, fmin(ranges[i].least, value), fmax(ranges[i].most, value)};
}

MlirValue tsr_number_emit(const tsr_numbers *numbers, const char *name, double value,
                          tsr_dtype dtype) {
    tsr_builder *b = numbers->builder;
    char key[TSR_NAME_MAX + 1];
    tsr_type type = tsr_type_scalar(dtype);
    if (!numbers->prefix || !tsr_dtype_rounds_finite(dtype, value))
        return tsr_emit_constant(b, dtype, value);
    snprintf(key, sizeof key, "%s%s", numbers->prefix, name);
    range r = range_of(name, value);
    const tsr_attr attrs[] = {{"key", tsr_attr_make_string(b->context, key)},
                              {"value", make_f64(numbers, value)},
                              {"least", make_f64(numbers, r.least)},
                              {"most", make_f64(numbers, r.most)},
                              {0}};
    return tsr_build_value(b, TSR_GRAPH_NAME("hyperparameter"), NULL, 0,
                           tsr_type_make(b->context, &type), attrs);
}
