/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-decompose: replaces ops that are combinations of others by these, as the column
 * `lowering` of ops.def specifies; then ops on bf16 and f16 are computed in f32 and rounded once.
 */
#include "compiler/graph/rules.h"
#include "compiler/ir/attributes.h"
#include "compiler/passes.h"

#include <string.h>

bool tsr_lower_legal(MlirOperation op) {
    TSR_ASSERT(!mlirOperationIsNull(op));
    return true;
}

bool tsr_lower_refused(MlirOperation op) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_LEFT,
                   "%s: an earlier pass must have removed it", tsr_op_name(op));
    return false;
}

static bool is_static(MlirOperation op) {
    size_t operands = tsr_op_operand_count(op), results = tsr_op_result_count(op);
    for (size_t i = 0; i < operands + results; i++) {
        bool is_operand = i < operands;
        size_t k = is_operand ? i : i - operands;
        tsr_type type;
        char text[TSR_TYPE_TEXT_MAX];
        if (!tsr_value_type(is_operand ? tsr_op_operand(op, k) : tsr_op_result(op, k), &type))
            continue;
        if (tsr_type_is_static(&type)) continue;
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_DYNAMIC,
                       "%s: %s %zu is %s; its dims must be known", tsr_op_name(op),
                       is_operand ? "operand" : "result", k, tsr_type_text(&type, text));
        return false;
    }
    return true;
}

/* ---- small floats ---------------------------------------------------------------------------- */

static bool is_small(MlirValue value) {
    tsr_type type;
    return tsr_value_type(value, &type) &&
           (type.dtype == TSR_DTYPE_BF16 || type.dtype == TSR_DTYPE_F16);
}

bool tsr_takes_small(tsr_op id, bool is_native) {
    switch (id) {
    case TSR_GRAPH_MATMUL: /* matrix units accept them directly */
    case TSR_GRAPH_ATTENTION:
    case TSR_GRAPH_ATTENTION_GRAD:
        return is_native;
    case TSR_GRAPH_PARAM:
    case TSR_GRAPH_OPT_STATE:
    case TSR_GRAPH_CONSTANT:
    case TSR_GRAPH_ASSIGN:
    case TSR_GRAPH_CAST:
    case TSR_GRAPH_BITCAST:
    case TSR_GRAPH_RESHAPE:
    case TSR_GRAPH_TRANSPOSE:
    case TSR_GRAPH_BROADCAST:
    case TSR_GRAPH_SLICE:
    case TSR_GRAPH_PAD:
    case TSR_GRAPH_CONCAT:
    case TSR_GRAPH_GATHER:
    case TSR_GRAPH_LOOP:
    case TSR_GRAPH_CONV2D:
    case TSR_GRAPH_MAX_POOL2D:
    case TSR_GRAPH_AVG_POOL2D:
    case TSR_GRAPH_CONV2D_GRAD_INPUT: /* that of the filter would widen in its inner loop */
        return true;
    default:
        return false;
    }
}

/* The ops that replace an op of a planned group belong to the group. */
static void give_group(MlirAttribute group, MlirOperation op) {
    if (!mlirAttributeIsNull(group)) tsr_op_set(op, TSR_PLANNED_GROUP, group);
}

/* Widens the operands before the op and rounds the results after it. */
static void widen(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirOperation next = mlirOperationGetNextInBlock(op);
    MlirAttribute group = tsr_op_attr(op, TSR_PLANNED_GROUP);
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        if (!is_small(tsr_op_operand(op, i))) continue;
        MlirValue wide = tsr_emit_cast(&b, tsr_op_operand(op, i), TSR_DTYPE_F32);
        give_group(group, tsr_value_owner(wide));
        mlirOperationSetOperand(op, (intptr_t)i, wide);
    }
    b.before = next;
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        MlirValue result = tsr_op_result(op, i);
        if (!is_small(result)) continue;
        tsr_type wide = tsr_type_of(result);
        tsr_dtype narrow = wide.dtype;
        wide.dtype = TSR_DTYPE_F32;
        mlirValueSetType(result, tsr_type_make(b.context, &wide));
        MlirValue rounded = tsr_emit_cast(&b, result, narrow);
        give_group(group, tsr_value_owner(rounded));
        mlirValueReplaceAllUsesExcept(result, rounded, 1,
                                      (MlirOperation[]){tsr_value_owner(rounded)});
    }
}

static bool touches_small(MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (is_small(tsr_op_operand(op, i))) return true;
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (is_small(tsr_op_result(op, i))) return true;
    return false;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool is_lowered(MlirOperation op, bool is_native) {
    tsr_op id = tsr_op_of(op);
    size_t operands = tsr_op_operand_count(op);
    if (id == TSR_GRAPH_CAST) return tsr_cast_is_plain(op) || !is_small(tsr_op_result(op, 0));
    if (id == TSR_GRAPH_CONCAT) return operands > 1 && operands <= TSR_CONCAT_PARTS_MAX;
    if (id == TSR_GRAPH_ATTENTION || id == TSR_GRAPH_ATTENTION_GRAD)
        return tsr_attention_is_legal(op);
    if (id == TSR_GRAPH_GATHER) return !tsr_takes_first(op);
    if (id == TSR_GRAPH_TOP_K) return tsr_top_k_is_legal(op);
    if (id == TSR_GRAPH_CONV2D || id == TSR_GRAPH_CONV2D_GRAD_INPUT)
        return tsr_conv_is_legal(op, is_native);
    if (id == TSR_GRAPH_MATMUL) return !tsr_is_product_of_bytes(op);
    if (tsr_op_dialect(id) != TSR_DIALECT_GRAPH || tsr_moe_is_late(id)) return true;
    tsr_lower_fn lower = tsr_graph_rules(id)->lower;
    return lower == tsr_lower_legal || (lower == tsr_lower_reduction && tsr_reduction_is_legal(op));
}

/* The new ops may need lowering themselves: repeat until nothing changes. */
static bool lower_block(MlirBlock block, bool is_native) {
    bool done = true, changed = true;
    while (changed && done) {
        MlirOperation before = {NULL}; /* the last op that stays */
        changed = false;
        TSR_FOR_EACH_OP(op, block) {
            MlirOperation behind = mlirOperationGetNextInBlock(op);
            MlirAttribute group = tsr_op_attr(op, TSR_PLANNED_GROUP);
            if (is_lowered(op, is_native)) {
                before = op;
                continue;
            }
            bool lowered = is_static(op) && tsr_graph_rules(tsr_op_of(op))->lower(op);
            changed = changed || lowered;
            done = done && lowered;
            MlirOperation made = mlirOperationIsNull(before) ? mlirBlockGetFirstOperation(block)
                                                             : mlirOperationGetNextInBlock(before);
            for (; !mlirOperationEqual(made, behind); made = mlirOperationGetNextInBlock(made)) {
                give_group(group, made);
                before = made;
            }
        }
    }
    return done;
}

bool tsr_pass_decompose(MlirModule module) {
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    bool is_native = numerics && strcmp(numerics, "native") == 0, done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        MlirBlock block = tsr_op_body(func);
        done = lower_block(block, is_native) && done;
        if (!done) continue;
        TSR_FOR_EACH_OP(op, block) {
            tsr_op id = tsr_op_of(op);
            if (tsr_op_dialect(id) == TSR_DIALECT_GRAPH && !tsr_takes_small(id, is_native) &&
                touches_small(op))
                widen(op);
        }
    }
    return done;
}
