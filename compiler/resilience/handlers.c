/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-handlers: a function that tessera.resilience.on_failure or on_recovery names
 * becomes an entry of the bundle, so that it is lowered like other entries. A handler has no
 * arguments and no results; it only reads and assigns tensors.
 */
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"

static bool refuse(MlirOperation op, const char *name, const char *text) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_HANDLER, "%s: handler '@%s' %s",
                   tsr_op_name(op), name, text);
    return false;
}

static bool check_ops(MlirOperation op, const char *name, MlirBlock block) {
    TSR_FOR_EACH_OP(inner, block) {
        if (tsr_op_is(inner, TSR_GRAPH_MINIMIZE)) return refuse(op, name, "trains");
        if (tsr_op_is_of(inner, TSR_DIALECT_SR))
            return refuse(op, name, "holds regions, events or tokens");
    }
    return true;
}

static bool resolve(MlirModule module, MlirOperation op) {
    const char *name = tsr_op_string(op, "handler");
    MlirOperation func = tsr_module_find(module, name ? name : "");
    MlirContext context = mlirOperationGetContext(op);
    if (!tsr_op_is(func, TSR_FUNC_FUNC)) return refuse(op, name, "is not a function of the module");
    if (!tsr_op_has_body(func)) return refuse(op, name, "has no body");
    if (tsr_op_has(func, TSR_SR_HANDLER)) return true;
    if (tsr_op_has(func, "tessera.entry")) return refuse(op, name, "is an entry");
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    if (mlirFunctionTypeGetNumInputs(type) || mlirFunctionTypeGetNumResults(type))
        return refuse(op, name, "has arguments or results");
    if (!check_ops(op, name, tsr_op_body(func))) return false;
    tsr_op_set(func, "tessera.entry", tsr_attr_make_string(context, "train"));
    tsr_op_set(func, TSR_SR_HANDLER, tsr_attr_make_unit(context));
    return true;
}

/* Regions are nested in functions and in each other; the parser limits the depth. */
static bool resolve_block(MlirModule module, MlirBlock block) {
    bool done = true;
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_sr_op_plain(op);
        if (id == TSR_SR_ON_FAILURE || id == TSR_SR_ON_RECOVERY) done = resolve(module, op) && done;
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            MlirBlock inner = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
            if (!mlirBlockIsNull(inner)) done = resolve_block(module, inner) && done;
        }
    }
    return done;
}

bool tsr_pass_handlers(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_op_is(func, TSR_FUNC_FUNC) && tsr_op_has_body(func))
            done = resolve_block(module, tsr_op_body(func)) && done;
    }
    return done;
}
