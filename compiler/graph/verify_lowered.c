/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-verify-lowered: checks the form that the next stage requires. Every function is an
 * entry of static tessera ops that are `kept` in ops.def.
 */
#include "compiler/graph/rules.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/passes.h"

#include <string.h>

static bool is_lowered(tsr_op op) {
    if (op == TSR_GRAPH_CONCAT || op == TSR_GRAPH_CAST || op == TSR_GRAPH_ATTENTION ||
        op == TSR_GRAPH_ATTENTION_GRAD || op == TSR_GRAPH_TOP_K || op == TSR_GRAPH_GATHER ||
        op == TSR_GRAPH_CONV2D || op == TSR_GRAPH_CONV2D_GRAD_INPUT || op == TSR_GRAPH_MATMUL)
        return true;
    if (tsr_op_dialect(op) != TSR_DIALECT_GRAPH) return false;
    tsr_lower_fn lower = tsr_graph_rules(op)->lower;
    return lower == tsr_lower_legal || lower == tsr_lower_reduction;
}

/* Ops that only order others, and compute nothing. */
static bool is_order(MlirOperation op) {
    switch (tsr_op_of(op)) {
    case TSR_SR_BARRIER:
    case TSR_SR_ENTER:
    case TSR_SR_LEAVE:
    case TSR_SR_EXPORT_BEGIN:
    case TSR_SR_IMPORT_BEGIN:
    case TSR_ASYNC_AWAIT:
        return true;
    default:
        return false;
    }
}

static bool check_type(MlirOperation op, MlirValue value, const char *what, size_t index) {
    tsr_type type;
    char text[TSR_TYPE_TEXT_MAX];
    if (is_order(op) && tsr_sr_is_token(mlirValueGetType(value))) return true;
    if (tsr_value_type(value, &type) && tsr_type_is_static(&type)) return true;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_DYNAMIC,
                   "%s: %s %zu is %s; every dim must be known here", tsr_op_name(op), what, index,
                   tsr_value_type(value, &type) ? tsr_type_text(&type, text) : "no tensor");
    return false;
}

/* Refuses a value of a small float type where no kernel accepts one. */
static bool check_small(MlirOperation op, MlirValue value, bool is_native) {
    tsr_type type;
    char text[TSR_TYPE_TEXT_MAX];
    if (!tsr_op_is_of(op, TSR_DIALECT_GRAPH) || !tsr_value_type(value, &type) ||
        (type.dtype != TSR_DTYPE_BF16 && type.dtype != TSR_DTYPE_F16) ||
        tsr_takes_small(tsr_op_of(op), is_native))
        return true;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_LEFT,
                   "%s: has a value of %s; f32 is needed after lowering", tsr_op_name(op),
                   tsr_type_text(&type, text));
    return false;
}

static bool check_op(MlirOperation op, bool is_native) {
    if (!tsr_op_is(op, TSR_FUNC_RETURN) && !is_lowered(tsr_op_of(op)) && !is_order(op) &&
        !tsr_sr_is_vrank(op)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_LEFT,
                       tsr_op_is_of(op, TSR_DIALECT_SR)
                           ? "%s: this op can only be read and checked; it cannot be compiled"
                           : "%s: must not exist after lowering",
                       tsr_op_name(op));
        return false;
    }
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (!check_type(op, tsr_op_operand(op, i), "operand", i) ||
            !check_small(op, tsr_op_operand(op, i), is_native))
            return false;
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (!check_type(op, tsr_op_result(op, i), "result", i) ||
            !check_small(op, tsr_op_result(op, i), is_native))
            return false;
    return true;
}

bool tsr_pass_verify_lowered(MlirModule module) {
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    bool done = true, is_native = numerics && strcmp(numerics, "native") == 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_graph_is_lowered_func(func)) {
            tsr_diag_error(mlirOperationGetLocation(func), TSR_DIAG_LEFT,
                           "%s: only entries may be left", tsr_op_name(func));
            done = false;
            continue;
        }
        MlirBlock body = tsr_op_body(func);
        for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
            done = check_type(func, mlirBlockGetArgument(body, i), "argument", (size_t)i) && done;
        TSR_FOR_EACH_OP(op, body) { done = check_op(op, is_native) && done; }
    }
    return done;
}
