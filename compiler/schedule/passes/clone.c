/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups that replace others: a pass makes a clone of a group, calls it instead, and looks it up
 * again at the next call. While the pass runs, an attribute of the group, one for each suffix,
 * names its clone. The clone cannot be found by its own name, because a program may already use
 * any name.
 */
#include "compiler/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

/* Prefix of the attributes of a group that hold the symbols of its clones; the suffix follows. */
#define CLONE_PREFIX "tsched.clone_"

enum { SYMBOL_BYTES = 512, BASE_CHARACTERS = 400, NAME_BYTES = 64 };

/* True if attribute `i` names a clone; returns its name. */
static bool clone_name(MlirOperation op, intptr_t i, MlirStringRef *name) {
    *name = mlirIdentifierStr(mlirOperationGetAttribute(op, i).name);
    size_t length = strlen(CLONE_PREFIX);
    return name->length > length && memcmp(name->data, CLONE_PREFIX, length) == 0;
}

static bool has_clones(MlirOperation op) {
    MlirStringRef name;
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
        if (clone_name(op, i, &name)) return true;
    }
    return false;
}

static void forget(MlirModule module) {
    MlirStringRef name;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        for (intptr_t i = mlirOperationGetNumAttributes(op) - 1; i >= 0; i--) {
            if (clone_name(op, i, &name)) mlirOperationRemoveAttributeByName(op, name);
        }
    }
}

void tsr_clones_begin(MlirModule module) { forget(module); }

MlirOperation tsr_clone_find(MlirModule module, MlirOperation group, const char *suffix) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, CLONE_PREFIX "%s", suffix);
    const char *symbol = tsr_op_string(group, name);
    return symbol ? tsr_module_find(module, symbol) : (MlirOperation){NULL};
}

void tsr_clone_add(MlirModule module, MlirOperation group, MlirOperation clone,
                   const char *suffix) {
    MlirContext context = mlirModuleGetContext(module);
    char symbol[SYMBOL_BYTES], name[NAME_BYTES];
    snprintf(name, sizeof name, CLONE_PREFIX "%s", suffix);
    snprintf(symbol, sizeof symbol, "%.*s_%s", BASE_CHARACTERS, tsr_op_symbol(group), suffix);
    for (unsigned i = 2; !mlirOperationIsNull(tsr_module_find(module, symbol)); i++)
        snprintf(symbol, sizeof symbol, "%.*s_%s_%u", BASE_CHARACTERS, tsr_op_symbol(group), suffix,
                 i);
    tsr_op_set(clone, "sym_name", tsr_attr_make_string(context, symbol));
    tsr_op_set(group, name, tsr_attr_make_string(context, symbol));
    mlirBlockInsertOwnedOperationAfter(mlirModuleGetBody(module), group, clone);
}

bool tsr_group_is_called(MlirModule module, const char *symbol) {
    TSR_FOR_EACH_OP(entry, mlirModuleGetBody(module)) {
        if (!tsr_op_is(entry, TSR_FUNC_FUNC) || !tsr_op_has_body(entry)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
            const char *callee = tsr_op_is(op, TSR_SCHED_CALL) ? tsr_op_string(op, "callee") : NULL;
            if (callee && strcmp(callee, symbol) == 0) return true;
        }
    }
    return false;
}

void tsr_clones_end(MlirModule module) {
    TSR_FOR_EACH_OP(group, mlirModuleGetBody(module)) {
        if (has_clones(group) && !tsr_group_is_called(module, tsr_op_symbol(group)))
            mlirOperationDestroy(group);
    }
    forget(module);
}
