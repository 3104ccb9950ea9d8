/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of entries that call groups: an op that is not a kernel is allowed only if later
 * stages can assign its memory without one.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/passes.h"
#include "compiler/schedule/schedule.h"

/* The view uses its operand's memory, which a kernel must have written. */
static bool check_view(MlirOperation op) {
    MlirOperation from = op;
    while (tsr_op_is_view(from)) from = tsr_value_owner(tsr_op_operand(from, 0));
    const tsr_op_row *row = tsr_op_row_find(from);
    bool given =
        mlirOperationIsNull(from) ||
        (row && (row->op_class == TSR_CLASS_SOURCE || row->op_class == TSR_CLASS_CONSTANT));
    if (!given) return true;
    return tsr_op_emit_error(
        op, TSR_DIAG_ENTRY_VIEW,
        "reads a value that no kernel computed, in another shape; move the reshape into a group");
}

/* Rejects ops that the scheduler does not know. */
static bool check_other(MlirOperation op) {
    if (tsr_op_is(op, TSR_FUNC_RETURN) || tsr_op_is_of(op, TSR_DIALECT_SCHED)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_ENTRY_OP,
                             "is in an entry that calls groups, but is not a call");
}

static bool check_op(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    if (!row) return check_other(op);
    if (tsr_op_is_view(op)) return check_view(op);
    if (row->op_class == TSR_CLASS_CONSTANT) {
        if (tsr_op_string(op, TSR_CONSTANT_NAME)) return true;
        return tsr_op_emit_error(op, TSR_DIAG_ENTRY_CONSTANT,
                                 "is in an entry that calls groups, but has no " TSR_CONSTANT_NAME);
    }
    if (row->op_class == TSR_CLASS_VIEW || !tsr_op_row_is_computed(row)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_ENTRY_OP,
                             "is in an entry that calls groups, but not in a group");
}

bool tsr_schedule_verify_entries(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_graph_is_lowered_func(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) { done = check_op(op) && done; }
    }
    return done;
}

bool tsr_pass_verify_scheduled(MlirModule module) {
    return tsr_graph_verify(module, true) && tsr_schedule_verify_entries(module) &&
           tsr_schedule_verify_deterministic(module);
}

static bool holds(MlirModule module, tsr_op id) {
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, id)) return true;
    }
    return false;
}

/* The only rules of Target IR are the rules of its ops, which have been checked. */
bool tsr_pass_verify_level(MlirModule module) {
    if (holds(module, TSR_TARGET_FUNC) || holds(module, TSR_TARGET_KERNEL)) return true;
    bool scheduled = holds(module, TSR_SCHED_FUNC) || holds(module, TSR_TILE_FUNC);
    if (scheduled) return tsr_pass_verify_scheduled(module);
    return tsr_pass_verify(module) && tsr_pass_effects(module);
}
