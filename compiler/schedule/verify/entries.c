/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of entries that call groups: an op that is not a kernel is allowed only if later
 * stages can place it without one.
 */
#include "compiler/graph/graph.h"
#include "compiler/schedule/schedule.h"

#include <string.h>

static bool complain(MlirOperation op, tsr_diag_number number, const char *text) {
    tsr_diag_error(mlirOperationGetLocation(op), number, "%s: %s", tsr_op_name(op), text);
    return false;
}

/* The view uses its operand's memory, which a kernel must have written. */
static bool check_view(MlirOperation op) {
    MlirOperation from = op;
    while (!mlirOperationIsNull(from) && tsr_op_is(from, "tessera.reshape"))
        from = tsr_value_owner(tsr_op_operand(from, 0));
    const tsr_op_row *row = mlirOperationIsNull(from) ? NULL : tsr_op_row_find(from);
    bool given =
        mlirOperationIsNull(from) ||
        (row && (row->op_class == TSR_CLASS_SOURCE || row->op_class == TSR_CLASS_CONSTANT));
    if (!given) return true;
    return complain(
        op, TSR_DIAG_ENTRY_VIEW,
        "reads a value that no kernel computed, in another shape; move the reshape into a group");
}

/* Rejects ops that the scheduler does not know. */
static bool check_other(MlirOperation op) {
    if (tsr_op_is(op, "func.return") || strncmp(tsr_op_name(op), "tsched.", 7) == 0) return true;
    return complain(op, TSR_DIAG_ENTRY_OP, "is in an entry that calls groups, but is not a call");
}

static bool check_op(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    if (!row) return check_other(op);
    if (tsr_op_is(op, "tessera.reshape")) return check_view(op);
    if (row->op_class == TSR_CLASS_CONSTANT) {
        if (tsr_op_string(op, TSR_CONSTANT_NAME)) return true;
        return complain(op, TSR_DIAG_ENTRY_CONSTANT,
                        "is in an entry that calls groups, but has no " TSR_CONSTANT_NAME);
    }
    if (row->op_class == TSR_CLASS_VIEW || !tsr_op_row_is_computed(row)) return true;
    return complain(op, TSR_DIAG_ENTRY_OP, "is in an entry that calls groups, but not in a group");
}

bool tsr_schedule_verify_entries(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_graph_is_lowered_func(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) { done = check_op(op) && done; }
    }
    return done;
}
