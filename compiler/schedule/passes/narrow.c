/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-narrow. A matmul whose second operand is a matrix of bf16 or f16, widened to f32 by a
 * group of its own, takes the narrow matrix itself and widens it when it reads it (or packs it, or
 * once: pack.c), so that no call writes it to memory in f32:
 *
 *     %h = tsched.call @k0_cast(%w)
 *     %y = tsched.call @k1_matmul(%x, %h)   ->   %y = tsched.call @k1_matmul_narrow(%x, %w)
 *
 * The results are bit-identical. The pass is for CPUs: tsr_tile_lower runs it.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/op_rows.h"
#include "compiler/schedule/fusion/fusion.h"
#include "compiler/schedule/schedule.h"

/* Attribute of groups that widen, while the pass runs: some calls no longer use them. */
#define REPLACED_NAME "tsched.replaced"

enum { MATRIX = 1 /* operand of a matmul */ };

static MlirOperation group_of(MlirModule module, MlirOperation call) {
    const char *callee = !tsr_op_is(call, TSR_SCHED_CALL) ? NULL : tsr_op_string(call, "callee");
    MlirOperation group = tsr_module_find(module, callee ? callee : "");
    bool known = tsr_op_is(group, TSR_SCHED_FUNC) && !mlirBlockIsNull(tsr_op_body(group));
    return known ? group : (MlirOperation){NULL};
}

/* True if the group contains only a cast that widens its argument. */
static bool is_widening(MlirOperation group) {
    MlirOperation cast = mlirBlockGetFirstOperation(tsr_op_body(group));
    tsr_type to;
    return tsr_op_is_width_cast(cast) && tsr_value_type(tsr_op_result(cast, 0), &to) &&
           to.dtype == TSR_DTYPE_F32 &&
           tsr_op_is(mlirOperationGetNextInBlock(cast), TSR_SCHED_RETURN);
}

static MlirOperation find_matmul(MlirOperation group) {
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        if (tsr_op_is(op, TSR_GRAPH_MATMUL)) return op;
    }
    return (MlirOperation){NULL};
}

static bool is_used_once(MlirValue value) {
    MlirOpOperand use = mlirValueGetFirstUse(value);
    return !mlirOpOperandIsNull(use) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(use));
}

/* Returns the group that takes its matrix, argument `index`, as `type`. */
static MlirOperation narrow_group(MlirModule module, MlirOperation group, size_t index,
                                  MlirType type) {
    bool is_bf16 = mlirTypeIsABF16(mlirShapedTypeGetElementType(type));
    const char *suffix = is_bf16 ? "bf16" : "f16";
    MlirOperation found = tsr_clone_find(module, group, suffix);
    if (!mlirOperationIsNull(found)) return found;
    MlirType inputs[TSR_FUSE_ARGUMENTS_MAX], results[TSR_FUSE_ARGUMENTS_MAX];
    MlirType function = mlirTypeAttrGetValue(tsr_op_attr(group, "function_type"));
    intptr_t input_count = mlirFunctionTypeGetNumInputs(function);
    intptr_t result_count = mlirFunctionTypeGetNumResults(function);
    for (intptr_t i = 0; i < input_count; i++) inputs[i] = mlirFunctionTypeGetInput(function, i);
    for (intptr_t i = 0; i < result_count; i++) results[i] = mlirFunctionTypeGetResult(function, i);
    inputs[index] = type;
    MlirOperation made = mlirOperationClone(group), product = find_matmul(made);
    MlirValue argument = mlirBlockGetArgument(tsr_op_body(made), (intptr_t)index);
    MlirType wide = mlirValueGetType(argument);
    tsr_builder at = tsr_builder_before(product);
    mlirValueSetType(argument, type);
    mlirOperationSetOperand(product, MATRIX,
                            tsr_build_value(&at, "tessera.cast", &argument, 1, wide, NULL));
    function = mlirFunctionTypeGet(mlirModuleGetContext(module), input_count, inputs, result_count,
                                   results);
    tsr_op_set(made, "function_type", tsr_attr_make_type(function));
    tsr_clone_add(module, group, made, suffix);
    return made;
}

static void narrow_call(MlirModule module, MlirOperation call) {
    MlirOperation group = group_of(module, call);
    if (mlirOperationIsNull(group)) return;
    MlirOperation product = find_matmul(group);
    if (mlirOperationIsNull(product) || tsr_op_operand_count(call) > TSR_FUSE_ARGUMENTS_MAX ||
        tsr_op_result_count(call) > TSR_FUSE_ARGUMENTS_MAX)
        return;
    MlirValue argument = tsr_op_operand(product, MATRIX);
    if (!mlirValueIsABlockArgument(argument) || !is_used_once(argument)) return;
    size_t index = (size_t)mlirBlockArgumentGetArgNumber(argument);
    MlirOperation cast = tsr_value_owner(tsr_op_operand(call, index));
    MlirOperation widens = group_of(module, cast);
    if (mlirOperationIsNull(widens) || !is_widening(widens)) return;
    MlirValue matrix = tsr_op_operand(cast, 0);
    MlirOperation narrow = narrow_group(module, group, index, mlirValueGetType(matrix));
    mlirOperationSetOperand(call, (intptr_t)index, matrix);
    MlirContext context = mlirModuleGetContext(module);
    tsr_op_set(call, "callee", tsr_attr_make_symbol(context, tsr_op_symbol(narrow)));
    tsr_op_set(widens, REPLACED_NAME, tsr_attr_make_unit(context));
    if (mlirOpOperandIsNull(mlirValueGetFirstUse(tsr_op_result(cast, 0))))
        mlirOperationDestroy(cast);
}

/* Erases groups that widened for calls which now take the matrix itself. */
static void drop_replaced(MlirModule module) {
    TSR_FOR_EACH_OP(group, mlirModuleGetBody(module)) {
        if (!mlirOperationRemoveDiscardableAttributeByName(group, tsr_ref(REPLACED_NAME))) continue;
        if (!tsr_group_is_called(module, tsr_op_symbol(group))) mlirOperationDestroy(group);
    }
}

bool tsr_pass_narrow(MlirModule module) {
    tsr_clones_begin(module);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_graph_is_lowered_func(func)) continue;
        TSR_FOR_EACH_OP(call, tsr_op_body(func)) narrow_call(module, call);
    }
    tsr_clones_end(module);
    drop_replaced(module);
    return true;
}
