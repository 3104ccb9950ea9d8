/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that deterministic entries call: instructions of a GPU in them must be marked as
 * deterministic, because nothing else is known of them.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/schedule/schedule.h"

#include <stdio.h>

typedef struct walk {
    MlirSymbolTable symbols;
    MlirOperation func, call;
    bool done;
} walk;

/* The entry that the function runs in: itself, or the one of which it is a loop's body. */
static MlirOperation entry_of(const walk *w) {
    const char *entry = tsr_op_string(w->func, TSR_BODY_NAME);
    return entry ? mlirSymbolTableLookup(w->symbols, tsr_ref(entry)) : w->func;
}

static MlirWalkResult check_instruction(MlirOperation op, void *user) {
    walk *w = user;
    char text[512], called[512];
    tsr_op id = tsr_op_of(op);
    if ((id != TSR_TARGET_PTX_INSTR && id != TSR_TARGET_HIP_INSTR) ||
        tsr_op_has(op, "deterministic"))
        return MlirWalkResultAdvance;
    snprintf(text, sizeof text,
             "%s: may give other bits on each run; expected {deterministic}, because the entry "
             "'@%.200s' is deterministic",
             tsr_op_name(op), tsr_op_symbol(entry_of(w)));
    snprintf(called, sizeof called, "'@%.200s' calls its kernel", tsr_op_symbol(w->func));
    tsr_diag_error_note(mlirOperationGetLocation(op), TSR_DIAG_NONDETERMINISTIC, text,
                        mlirOperationGetLocation(w->call), called);
    w->done = false;
    return MlirWalkResultAdvance;
}

static MlirWalkResult check_call(MlirOperation op, void *user) {
    walk *w = user;
    const char *callee = tsr_op_is(op, TSR_SCHED_CALL) ? tsr_op_string(op, "callee") : NULL;
    MlirOperation kernel = {NULL};
    if (callee) kernel = mlirSymbolTableLookup(w->symbols, tsr_ref(callee));
    if (mlirOperationIsNull(kernel)) return MlirWalkResultAdvance;
    w->call = op;
    mlirOperationWalk(kernel, check_instruction, w, MlirWalkPreOrder);
    return MlirWalkResultAdvance;
}

bool tsr_schedule_verify_deterministic(MlirModule module) {
    walk w = {.symbols = mlirSymbolTableCreate(mlirModuleGetOperation(module)), .done = true};
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        w.func = func;
        if (!tsr_graph_is_lowered_func(func)) continue;
        MlirOperation entry = entry_of(&w);
        if (!mlirOperationIsNull(entry) && tsr_op_has(entry, TSR_DETERMINISTIC_NAME))
            mlirOperationWalk(func, check_call, &w, MlirWalkPreOrder);
    }
    mlirSymbolTableDestroy(w.symbols);
    return w.done;
}
