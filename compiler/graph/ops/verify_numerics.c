/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of tessera.verify.numerics. Its `stable` part walks from the value back to the ops that
 * it is computed from, in the same block.
 */
#include "compiler/graph/rules.h"
#include "runtime/base/array.h"

#include <math.h>

enum { OPS_MAX = 1024 }; /* ops that the walk visits */

bool tsr_graph_verify_bounds(MlirOperation op, double *out_low, double *out_high) {
    MlirAttribute list = tsr_op_attr(op, "bounded");
    double bounds[2] = {-(double)INFINITY, (double)INFINITY};
    if (!mlirAttributeIsNull(list)) {
        if (!mlirAttributeIsAArray(list) || mlirArrayAttrGetNumElements(list) != 2) return false;
        for (intptr_t i = 0; i < 2; i++) {
            MlirAttribute bound = mlirArrayAttrGetElement(list, i);
            int64_t integer = 0;
            if (tsr_attr_i64(bound, &integer))
                bounds[i] = (double)integer;
            else if (mlirAttributeIsAFloat(bound))
                bounds[i] = mlirFloatAttrGetValueDouble(bound);
            else
                return false;
        }
    }
    *out_low = bounds[0];
    *out_high = bounds[1];
    return bounds[0] <= bounds[1];
}

/* The op, through ops that only move or convert elements. */
static MlirOperation find_maker(MlirValue value) {
    MlirOperation op = tsr_value_owner(value);
    while (tsr_op_is(op, TSR_GRAPH_BROADCAST) || tsr_op_is(op, TSR_GRAPH_RESHAPE) ||
           tsr_op_is(op, TSR_GRAPH_CAST))
        op = tsr_value_owner(tsr_op_operand(op, 0));
    return op;
}

static bool is_shifted(MlirOperation exp) {
    MlirOperation difference = find_maker(tsr_op_operand(exp, 0));
    return tsr_op_is(difference, TSR_GRAPH_SUB) &&
           tsr_op_is(find_maker(tsr_op_operand(difference, 1)), TSR_GRAPH_REDUCE_MAX);
}

/* The first exp of anything else; null: none. *out_whole: false if there are too many ops. */
static MlirOperation find_unstable(MlirValue value, bool *out_whole) {
    MlirOperation open[OPS_MAX], none = {NULL};
    size_t count = 0;
    *out_whole = true;
    if (!mlirOperationIsNull(tsr_value_owner(value))) open[count++] = tsr_value_owner(value);
    for (size_t at = 0; at < count; at++) {
        MlirOperation op = open[at];
        if (tsr_op_is(op, TSR_GRAPH_EXP) && !is_shifted(op)) return op;
        for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
            MlirOperation from = tsr_value_owner(tsr_op_operand(op, i));
            size_t k = 0;
            if (mlirOperationIsNull(from)) continue;
            while (k < count && !mlirOperationEqual(open[k], from)) k++;
            if (k < count) continue;
            *out_whole = count < OPS_MAX;
            if (!*out_whole) return none;
            open[count++] = from;
        }
    }
    return none;
}

static bool check_stable(const tsr_rule *rule) {
    bool whole = true;
    MlirOperation exp = find_unstable(tsr_op_operand(rule->op, 0), &whole);
    if (!whole)
        return tsr_rule_fail(rule, TSR_DIAG_UNSTABLE,
                             "is computed by more than %d ops, too many to prove that it is stable",
                             OPS_MAX);
    if (mlirOperationIsNull(exp)) return true;
    tsr_diag_error_note(mlirOperationGetLocation(rule->op), TSR_DIAG_UNSTABLE,
                        "tessera.verify.numerics: the value is not stable: an exp can overflow; "
                        "expected exp of differences to a reduce_max",
                        mlirOperationGetLocation(exp), "this exp takes other values");
    return false;
}

bool tsr_check_verify_numerics(tsr_rule *rule) {
    double low, high;
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_FLOAT)) return false;
    if (!tsr_graph_verify_bounds(rule->op, &low, &high))
        return tsr_rule_fail(rule, TSR_DIAG_BOUNDS,
                             "bounded is not a list of two numbers, the lower one first, such as "
                             "[-100, 100]");
    return !tsr_op_has(rule->op, "stable") || check_stable(rule);
}
