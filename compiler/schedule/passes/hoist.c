/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-hoist. Values that an entry computes element by element from one tensor that it only
 * reads, such as a weight in bf16 or its transpose, are computed once. The pass hoists the group
 * out of the step: the host program runs it only when the tensor has changed (TSR_OP_PREPARE).
 *
 *     %w = tessera.param "w"
 *     %h = tsched.call @k1_cast(%w)      ->      %h = tsched.call @k1_cast_hoisted(%w)
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/op_rows.h"
#include "compiler/schedule/schedule.h"

#include <string.h>

bool tsr_is_invariant(tsr_assigned *assigned, MlirOperation entry, MlirValue value) {
    MlirOperation owner = tsr_value_owner(value);
    if (mlirOperationIsNull(owner)) return false;
    if (tsr_op_is(owner, TSR_GRAPH_CONSTANT)) return true;
    const char *name = tsr_op_string(owner, "name");
    return tsr_op_is(owner, TSR_GRAPH_PARAM) && name && !tsr_assigned_has(assigned, entry, name);
}

MlirOperation tsr_entry_of(MlirModule module, MlirOperation func) {
    const char *name = tsr_op_string(func, TSR_BODY_NAME);
    return name ? tsr_module_find(module, name) : func;
}

/* An elementwise group, a transpose or words, of one argument, with one result; not hoisted
 * already. */
static bool is_hoistable(MlirOperation group) {
    const char *kind = tsr_op_string(group, "kind");
    if (!tsr_op_is(group, TSR_SCHED_FUNC) || !kind || strcmp(kind, "map") != 0 ||
        tsr_op_has(group, TSR_HOISTED_NAME))
        return false;
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        const tsr_op_row *row = tsr_op_row_find(op);
        bool computes =
            (row && (row->op_class == TSR_CLASS_MAP || row->op_class == TSR_CLASS_CONSTANT)) ||
            tsr_op_is(op, TSR_GRAPH_TRANSPOSE) || tsr_op_is(op, TSR_GRAPH_WORDS);
        if (!computes && !tsr_op_is(op, TSR_SCHED_RETURN)) return false;
    }
    return true;
}

/* A hoisted group writes a buffer of its own: its value is neither a result of the entry nor
 * assigned to a tensor. */
static bool is_for_kernels(MlirValue value) {
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (!tsr_op_is(mlirOpOperandGetOwner(use), TSR_SCHED_CALL)) return false;
    return true;
}

static MlirOperation hoist_group(MlirModule module, MlirOperation group) {
    MlirOperation hoisted = tsr_clone_find(module, group, "hoisted");
    if (!mlirOperationIsNull(hoisted)) return hoisted;
    hoisted = mlirOperationClone(group);
    tsr_op_set(hoisted, TSR_HOISTED_NAME, tsr_attr_make_unit(mlirModuleGetContext(module)));
    tsr_clone_add(module, group, hoisted, "hoisted");
    return hoisted;
}

static void hoist_in(MlirModule module, MlirOperation func, tsr_assigned *assigned) {
    MlirOperation entry = tsr_entry_of(module, func);
    if (mlirOperationIsNull(entry) || !tsr_graph_is_lowered_func(entry)) return;
    TSR_FOR_EACH_OP(call, tsr_op_body(func)) {
        if (!tsr_op_is(call, TSR_SCHED_CALL) || tsr_op_operand_count(call) != 1 ||
            tsr_op_result_count(call) != 1 ||
            !tsr_is_invariant(assigned, entry, tsr_op_operand(call, 0)) ||
            !is_for_kernels(tsr_op_result(call, 0)))
            continue;
        MlirOperation group = tsr_module_find(module, tsr_op_string(call, "callee"));
        if (mlirOperationIsNull(group) || !is_hoistable(group)) continue;
        tsr_op_set(call, "callee",
                   tsr_attr_make_symbol(mlirModuleGetContext(module),
                                        tsr_op_symbol(hoist_group(module, group))));
    }
}

bool tsr_pass_hoist(MlirModule module) {
    tsr_assigned assigned = {0};
    tsr_clones_begin(module);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_graph_is_lowered_func(func)) hoist_in(module, func, &assigned);
    }
    tsr_assigned_finish(&assigned);
    tsr_clones_end(module);
    return true;
}
