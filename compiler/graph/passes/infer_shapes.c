/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-infer-shapes: makes result types with dynamic dims as static as the operands allow,
 * using each op's shape rule; likewise the result types of functions and of the calls to them, and
 * the arguments of regions of jvp, vjp and custom_derivative.
 */
#include "compiler/graph/rule.h"
#include "compiler/passes.h"

#include <string.h>

/* Gives `value` the dims of `better` that it does not know yet. */
static bool refine(MlirValue value, const tsr_type *better) {
    tsr_type type;
    bool changed = false;
    if (!tsr_value_type(value, &type) || type.shape.rank != better->shape.rank) return false;
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        if (type.shape.dims[i] != TSR_DIM_DYNAMIC || better->shape.dims[i] == TSR_DIM_DYNAMIC)
            continue;
        type.shape.dims[i] = better->shape.dims[i];
        changed = true;
    }
    if (changed) mlirValueSetType(value, tsr_type_make(mlirValueGetContext(value), &type));
    return changed;
}

/* Refines the block's arguments from the op's operands or results; with `floats`, only from those
 * of a float type. */
static void refine_arguments(MlirBlock block, size_t *at, MlirOperation op, bool of_results,
                             bool floats, bool *changed) {
    size_t count = of_results ? tsr_op_result_count(op) : tsr_op_operand_count(op);
    for (size_t i = 0; i < count && *at < (size_t)mlirBlockGetNumArguments(block); i++) {
        MlirValue value = of_results ? tsr_op_result(op, i) : tsr_op_operand(op, i);
        tsr_type type;
        if (!tsr_value_type(value, &type) || (floats && !tsr_dtype_is_float(type.dtype))) continue;
        *changed = refine(mlirBlockGetArgument(block, (intptr_t)(*at)++), &type) || *changed;
    }
}

/* The arguments of the region: x; for a rule then y, and directions. */
static void refine_region(MlirOperation op, intptr_t index, bool *changed) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, index));
    tsr_op id = tsr_op_of(op);
    size_t at = 0;
    if (id != TSR_GRAPH_JVP && id != TSR_GRAPH_VJP && id != TSR_GRAPH_CUSTOM_DERIVATIVE) return;
    refine_arguments(block, &at, op, false, false, changed);
    if (index == 0) return;
    refine_arguments(block, &at, op, true, false, changed);
    refine_arguments(block, &at, op, index == 1, true, changed);
}

static bool refine_op(MlirOperation op, bool *changed) {
    tsr_rule rule;
    tsr_type type;
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
        if (mlirBlockIsNull(block)) continue;
        refine_region(op, i, changed);
        TSR_FOR_EACH_OP(inner, block) {
            if (!refine_op(inner, changed)) return false;
        }
    }
    if (!tsr_op_is_of(op, TSR_DIALECT_GRAPH)) return true;
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (!tsr_value_type(tsr_op_result(op, i), &type)) return true;
    if (!tsr_graph_check(op, &rule)) return false;
    for (size_t i = 0; i < rule.result_count; i++)
        *changed = refine(tsr_op_result(op, i), &rule.results[i]) || *changed;
    return true;
}

static void refine_call(MlirModule module, MlirOperation call, bool *changed) {
    const char *callee = tsr_op_string(call, "callee");
    MlirOperation func = callee ? tsr_module_find(module, callee) : (MlirOperation){NULL};
    if (mlirOperationIsNull(func)) return;
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    for (size_t i = 0; i < tsr_op_result_count(call); i++) {
        tsr_type result;
        if (tsr_type_read(mlirFunctionTypeGetResult(type, (intptr_t)i), &result))
            *changed = refine(tsr_op_result(call, i), &result) || *changed;
    }
}

/* Changes the function's result types to those of the returned values. */
static void refine_func(MlirOperation func, MlirOperation terminator, bool *changed) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    enum { MAX = TSR_CONFIG_PORTS_MAX };
    MlirType inputs[MAX], results[MAX];
    intptr_t input_count = mlirFunctionTypeGetNumInputs(type);
    intptr_t result_count = mlirFunctionTypeGetNumResults(type);
    if (input_count > MAX || result_count > MAX ||
        mlirOperationGetNumOperands(terminator) != result_count)
        return;
    for (intptr_t i = 0; i < input_count; i++) inputs[i] = mlirFunctionTypeGetInput(type, i);
    for (intptr_t i = 0; i < result_count; i++)
        results[i] = mlirValueGetType(mlirOperationGetOperand(terminator, i));
    MlirType refined =
        mlirFunctionTypeGet(mlirTypeGetContext(type), input_count, inputs, result_count, results);
    if (mlirTypeEqual(refined, type)) return;
    tsr_op_set(func, "function_type", tsr_attr_make_type(refined));
    *changed = true;
}

bool tsr_pass_infer_shapes(MlirModule module) {
    bool done = true, changed = true;
    while (changed && done) {
        changed = false;
        TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
            if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
            TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
                if (tsr_op_is(op, TSR_FUNC_CALL))
                    refine_call(module, op, &changed);
                else if (tsr_op_is(op, TSR_FUNC_RETURN))
                    refine_func(func, op, &changed);
                else
                    done = refine_op(op, &changed) && done;
            }
        }
    }
    return done;
}
