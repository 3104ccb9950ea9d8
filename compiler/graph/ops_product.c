/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product and cross entropy: shape rules and gradients.
 */
#include "compiler/graph/rules.h"

static bool same_dtype(const tsr_rule *rule, size_t a, const char *a_name, size_t b,
                       const char *b_name) {
    tsr_dtype x = rule->operands[a].dtype, y = rule->operands[b].dtype;
    if (x == y) return true;
    return tsr_rule_fail(rule, TSR_DIAG_DTYPE, "element types differ: %s is %s, %s is %s", a_name,
                         tsr_dtype_name(x), b_name, tsr_dtype_name(y));
}

bool tsr_check_matmul(tsr_rule *rule) {
    uint32_t a = tsr_op_flag(rule->op, "transpose_a"), b = tsr_op_flag(rule->op, "transpose_b");
    if (!tsr_rule_dtype(rule, 0, "lhs", TSR_DTYPES_FLOAT) ||
        !same_dtype(rule, 0, "lhs", 1, "rhs") || !tsr_rule_rank(rule, 0, "lhs", 2) ||
        !tsr_rule_rank(rule, 1, "rhs", 2) ||
        !tsr_rule_same_dim(rule, 0, "lhs", 1 - a, 1, "rhs", b, "contracted dimensions"))
        return false;
    rule->results[0] = (tsr_type){.dtype = rule->operands[0].dtype, .shape.rank = 2};
    rule->results[0].shape.dims[0] = rule->operands[0].shape.dims[a];
    rule->results[0].shape.dims[1] = rule->operands[1].shape.dims[1 - b];
    return true;
}

/* C = op(A) op(B), G the gradient of C:
 *   dA = G op(B)^T, transposed if A enters transposed; dB = op(A)^T G, transposed likewise.
 */
bool tsr_gradient_matmul(tsr_gradient *of) {
    MlirValue a = tsr_op_operand(of->op, 0), b = tsr_op_operand(of->op, 1), g = of->of_result;
    bool ta = tsr_op_flag(of->op, "transpose_a"), tb = tsr_op_flag(of->op, "transpose_b");
    if (of->wanted[0])
        of->of_operands[0] = ta ? tsr_emit_matmul(of->builder, b, g, tb, true)
                                : tsr_emit_matmul(of->builder, g, b, false, !tb);
    if (of->wanted[1])
        of->of_operands[1] = tb ? tsr_emit_matmul(of->builder, g, a, true, ta)
                                : tsr_emit_matmul(of->builder, a, g, !ta, false);
    return true;
}

static bool check_rows(const tsr_rule *rule) {
    return tsr_rule_dtype(rule, 0, "logits", TSR_DTYPES_FLOAT) &&
           tsr_rule_dtype(rule, 1, "labels", TSR_DTYPES_I64) &&
           tsr_rule_rank(rule, 0, "logits", 2) && tsr_rule_rank(rule, 1, "labels", 1) &&
           tsr_rule_same_dim(rule, 0, "logits", 0, 1, "labels", 0, "numbers of rows");
}

bool tsr_check_cross_entropy(tsr_rule *rule) {
    if (!check_rows(rule)) return false;
    rule->results[0] = rule->operands[1];
    rule->results[0].dtype = rule->operands[0].dtype;
    if (rule->results[0].shape.dims[0] == TSR_DIM_DYNAMIC)
        rule->results[0].shape.dims[0] = rule->operands[0].shape.dims[0];
    return true;
}

bool tsr_gradient_cross_entropy(tsr_gradient *of) {
    MlirValue operands[] = {tsr_op_operand(of->op, 0), tsr_op_operand(of->op, 1), of->of_result};
    if (of->wanted[0])
        of->of_operands[0] = tsr_build_value(of->builder, TSR_GRAPH_NAME("cross_entropy_grad"),
                                             operands, 3, mlirValueGetType(operands[0]), NULL);
    return true;
}

bool tsr_check_cross_entropy_grad(tsr_rule *rule) {
    if (!check_rows(rule) || !same_dtype(rule, 0, "logits", 2, "dlosses") ||
        !tsr_rule_rank(rule, 2, "dlosses", 1) ||
        !tsr_rule_same_dim(rule, 0, "logits", 0, 2, "dlosses", 0, "numbers of rows"))
        return false;
    rule->results[0] = rule->operands[0];
    return true;
}
