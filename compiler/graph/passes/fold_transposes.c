/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-fold-transposes: a product reads a matrix in its stored order, so that no elements
 * are moved: `matmul(transpose(x), y)` becomes `matmul {transpose_a} (x, y)` if the transpose
 * swaps the last two dims. The bits are unchanged: each element is the same sum in the same order.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/passes.h"

static bool swaps_last_two(MlirOperation op) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_op_is(op, TSR_GRAPH_TRANSPOSE) ||
        !tsr_op_i64s(op, "permutation", TSR_RANK_MAX, permutation, &count) || count < 2)
        return false;
    for (size_t i = 0; i + 2 < count; i++)
        if (permutation[i] != (int64_t)i) return false;
    return permutation[count - 2] == (int64_t)count - 1;
}

static void fold_operand(MlirOperation product, size_t index, const char *flag) {
    MlirContext context = mlirOperationGetContext(product);
    bool transposes = tsr_op_flag(product, flag);
    MlirValue value = tsr_op_operand(product, index);
    for (MlirOperation owner; owner = tsr_value_owner(value), swaps_last_two(owner);) {
        value = tsr_op_operand(owner, 0);
        transposes = !transposes;
    }
    if (mlirValueEqual(value, tsr_op_operand(product, index))) return;
    tsr_op_set(product, flag, tsr_attr_make_bool(context, transposes));
    mlirOperationSetOperand(product, (intptr_t)index, value);
}

bool tsr_pass_fold_transposes(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            if (!tsr_op_is(op, TSR_GRAPH_MATMUL) || tsr_op_has(op, TSR_WORDS_NAME)) continue;
            fold_operand(op, 0, "transpose_a");
            fold_operand(op, 1, "transpose_b");
        }
    }
    return true;
}
