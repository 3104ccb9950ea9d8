/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-drop-other-functions: after inlining, drops every function that is not an entry. A
 * remaining call (recursion, a function without body) is an error.
 */
#include "compiler/passes.h"

static bool check_calls(MlirOperation func) {
    bool done = true;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (!tsr_op_is(op, TSR_FUNC_CALL)) continue;
        const char *callee = tsr_op_string(op, "callee");
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_CALL,
                       "func.call: '@%s' calls itself or was not inlined", callee ? callee : "");
        done = false;
    }
    return done;
}

bool tsr_pass_drop_other_functions(MlirModule module) {
    bool done = true;
    size_t entries = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        if (!tsr_op_has(func, "tessera.entry")) continue;
        entries++;
        done = check_calls(func) && done;
    }
    if (!done) return false;
    if (entries == 0) {
        tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(module)), TSR_DIAG_ENTRY,
                       "the module has no function with attribute tessera.entry");
        return false;
    }
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_op_is(func, TSR_FUNC_FUNC) && !tsr_op_has(func, "tessera.entry"))
            mlirOperationDestroy(func);
    }
    return true;
}
