/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups that stand for others: a pass makes one of a group, calls it instead, and asks for it
 * again at the next call. Which one it is stands in an attribute while the pass runs: names are for
 * people, and a program may have taken any.
 */
#include "compiler/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

#define TWIN_NAME "tsched.twin" /* of a group: the symbol of the one that stands for it */

enum { SYMBOL_BYTES = 512, BASE_CHARACTERS = 400 };

static void forget(MlirModule module) {
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_has(op, TWIN_NAME)) mlirOperationRemoveAttributeByName(op, tsr_ref(TWIN_NAME));
    }
}

void tsr_twins_begin(MlirModule module) { forget(module); }

MlirOperation tsr_twin_find(MlirModule module, MlirOperation group) {
    const char *symbol = tsr_op_string(group, TWIN_NAME);
    return symbol ? tsr_module_find(module, symbol) : (MlirOperation){NULL};
}

void tsr_twin_add(MlirModule module, MlirOperation group, MlirOperation twin, const char *suffix) {
    MlirContext context = mlirModuleGetContext(module);
    char symbol[SYMBOL_BYTES];
    snprintf(symbol, sizeof symbol, "%.*s_%s", BASE_CHARACTERS, tsr_op_symbol(group), suffix);
    for (unsigned i = 2; !mlirOperationIsNull(tsr_module_find(module, symbol)); i++)
        snprintf(symbol, sizeof symbol, "%.*s_%s_%u", BASE_CHARACTERS, tsr_op_symbol(group), suffix,
                 i);
    tsr_op_set(twin, "sym_name", tsr_attr_make_string(context, symbol));
    tsr_op_set(group, TWIN_NAME, tsr_attr_make_string(context, symbol));
    mlirBlockInsertOwnedOperationAfter(mlirModuleGetBody(module), group, twin);
}

bool tsr_group_is_called(MlirModule module, const char *symbol) {
    TSR_FOR_EACH_OP(entry, mlirModuleGetBody(module)) {
        if (!tsr_op_is(entry, "func.func") || !tsr_op_has_body(entry)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
            const char *callee = tsr_op_is(op, "tsched.call") ? tsr_op_string(op, "callee") : NULL;
            if (callee && strcmp(callee, symbol) == 0) return true;
        }
    }
    return false;
}

void tsr_twins_end(MlirModule module) {
    TSR_FOR_EACH_OP(group, mlirModuleGetBody(module)) {
        if (tsr_op_has(group, TWIN_NAME) && !tsr_group_is_called(module, tsr_op_symbol(group)))
            mlirOperationDestroy(group);
    }
    forget(module);
}
