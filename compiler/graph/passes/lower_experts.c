/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-lower-experts, after tessera-virtual-ranks: lowers the ops between tokens and slots
 * of experts. Before, a virtual rank's groups could not be told from others: the scatters and
 * gathers here read one table of all groups.
 */
#include "compiler/graph/rules.h"
#include "compiler/passes.h"

bool tsr_pass_lower_experts(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            if (tsr_moe_is_late(tsr_op_of(op)) && !tsr_graph_rules(tsr_op_of(op))->lower(op))
                return false;
        }
    }
    return true;
}
