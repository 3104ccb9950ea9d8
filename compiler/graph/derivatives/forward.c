/* SPDX-License-Identifier: Apache-2.0
 *
 * Tangents for pass tessera-autodiff: forward accumulation (Griewank and Walther 2008, chapter
 * 3.1). In program order, each op with tangents of operands is asked for the tangents of its
 * results; the new ops are inserted after it.
 *
 * Few ops have a forward rule. A gradient rule is linear in the gradient g of the result and
 * computes J^T g; its transpose, the gradient of that expression with respect to g, is J. Therefore
 * the rule is applied to a placeholder for g, the ops that it emits are run in reverse from the
 * tangents, and the ops that computed with g are dropped. If J is diagonal or the op linear, there
 * are simpler and shorter rules: column `forward` of ops.def.
 */
#include "compiler/graph/derivatives/autodiff.h"
#include "compiler/graph/rules.h"
#include "compiler/ir/attributes.h"
#include "compiler/process/guard.h"

#include <string.h>

void tsr_forward_init(tsr_forward *f) {
    *f = (tsr_forward){.arena = {0}};
    f->tangents.arena = &f->arena;
}

void tsr_forward_finish(tsr_forward *f) { tsr_arena_finish(&f->arena); }

MlirValue tsr_forward_get(const tsr_forward *f, MlirValue value) {
    return tsr_copies_has(&f->tangents, value) ? tsr_copies_get(&f->tangents, value)
                                               : (MlirValue){NULL};
}

void tsr_forward_set(tsr_forward *f, MlirValue value, MlirValue tangent) {
    tsr_copies_set(&f->tangents, value, tangent);
}

/* ---- rules ----------------------------------------------------------------------------------- */

bool tsr_forward_none(tsr_tangent *of) {
    TSR_ASSERT(of->builder);
    return true;
}

bool tsr_forward_unsupported(tsr_tangent *of) {
    tsr_diag_error(mlirOperationGetLocation(of->op), TSR_DIAG_NO_GRADIENT,
                   "%s: this op has no gradient rule", tsr_op_name(of->op));
    return false;
}

static MlirOperation copy_of(const tsr_tangent *of) {
    MlirOperation copy = mlirOperationClone(of->op);
    mlirOperationRemoveDiscardableAttributeByName(copy, tsr_ref(TSR_PLANNED_GROUP));
    mlirBlockInsertOwnedOperationBefore(of->builder->block, of->builder->before, copy);
    return copy;
}

/* Applies the op to the tangents. */
bool tsr_forward_linear(tsr_tangent *of) {
    MlirValue operands[TSR_RULE_OPERANDS_MAX];
    size_t count = tsr_op_operand_count(of->op);
    bool any = false;
    for (size_t k = 0; k < tsr_op_result_count(of->op); k++)
        any = any || tsr_value_is_float(tsr_op_result(of->op, k));
    if (!any) return true;
    for (size_t k = 0; k < count; k++) {
        operands[k] = tsr_op_operand(of->op, k);
        if (!tsr_value_is_float(operands[k])) continue;
        operands[k] = mlirValueIsNull(of->of_operands[k]) ? tsr_emit_zeros(of->builder, operands[k])
                                                          : of->of_operands[k];
    }
    MlirOperation made = copy_of(of);
    for (size_t k = 0; k < count; k++) mlirOperationSetOperand(made, (intptr_t)k, operands[k]);
    for (size_t k = 0; k < tsr_op_result_count(of->op); k++)
        of->of_results[k] = tsr_op_result(made, k);
    return true;
}

/* Adds the tangents of the results that are due to those of the `wanted` operands. */
static bool transpose(tsr_tangent *of, const bool *wanted) {
    MlirLocation location = of->builder->location;
    MlirBlock block = tsr_scratch_open(of->builder);
    tsr_builder inside = tsr_builder_at_end(block, location);
    MlirValue out[TSR_RULE_RESULTS_MAX];
    tsr_gradient g = {.builder = &inside, .op = of->op, .is_linear = true};
    size_t results = tsr_op_result_count(of->op), given_count = 0;
    for (size_t k = 0; k < results; k++) {
        MlirValue result = tsr_op_result(of->op, k);
        if (!tsr_value_is_float(result)) continue;
        g.of_results[k] = mlirBlockAddArgument(block, mlirValueGetType(result), location);
    }
    g.of_result = g.of_results[0];
    memcpy(g.wanted, wanted, sizeof g.wanted);
    if (!tsr_graph_rules(tsr_op_of(of->op))->gradient(&g) ||
        !tsr_autodiff_transpose(block, location, tsr_op_operand_count(of->op), g.of_operands,
                                of->of_operands, out))
        return false;
    MlirValue given[TSR_RULE_RESULTS_MAX];
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        if (!mlirValueIsNull(out[i])) given[given_count++] = out[i];
    tsr_block_yield(block, location, given, given_count);
    tsr_block_sweep(block);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        TSR_ASSERT(!tsr_value_is_used(mlirBlockGetArgument(block, i)));
    tsr_scratch_close(block);
    for (size_t k = 0, i = 0; k < results; k++) {
        if (mlirValueIsNull(g.of_results[k])) continue;
        MlirValue tangent = out[i++];
        if (!mlirValueIsNull(tangent)) tsr_autodiff_add(of->builder, &of->of_results[k], tangent);
    }
    return true;
}

bool tsr_forward_transposed(tsr_tangent *of) {
    bool wanted[TSR_RULE_OPERANDS_MAX] = {false};
    for (size_t k = 0; k < tsr_op_operand_count(of->op); k++)
        wanted[k] = !mlirValueIsNull(of->of_operands[k]);
    return transpose(of, wanted);
}

/* Applies the gradient rule with the tangent instead of the result's gradient. For a broadcast
 * operand that would sum it: the rule is transposed there. */
bool tsr_forward_diagonal(tsr_tangent *of) {
    tsr_shape shape = tsr_type_of(tsr_op_result(of->op, 0)).shape;
    bool stretched[TSR_RULE_OPERANDS_MAX] = {false}, any = false;
    for (size_t k = 0; k < tsr_op_operand_count(of->op); k++) {
        tsr_gradient g = {.builder = of->builder, .op = of->op, .of_result = of->of_operands[k]};
        if (mlirValueIsNull(g.of_result)) continue;
        tsr_shape is = tsr_type_of(g.of_result).shape;
        g.of_results[0] = g.of_result;
        g.wanted[k] = true;
        stretched[k] = !tsr_shape_equal(&is, &shape);
        any = any || stretched[k];
        if (stretched[k]) continue;
        if (!tsr_graph_rules(tsr_op_of(of->op))->gradient(&g)) return false;
        if (!mlirValueIsNull(g.of_operands[k]))
            tsr_autodiff_add(of->builder, &of->of_results[0], g.of_operands[k]);
    }
    return !any || transpose(of, stretched);
}

/* Applies the rules to the simpler ops that the op is lowered to; the op itself stays. */
bool tsr_forward_lowered(tsr_tangent *of) {
    MlirValue values[TSR_RULE_RESULTS_MAX];
    size_t results = tsr_op_result_count(of->op), given_count = 0;
    MlirBlock block = tsr_scratch_open(of->builder);
    tsr_builder inside = tsr_builder_at_end(block, of->builder->location);
    const tsr_tangent copied = {.builder = &inside, .op = of->op};
    MlirOperation copy = copy_of(&copied);
    tsr_forward f; /* a walk of its own: values of the block that are dropped must not remain in the
                    * outer one */
    tsr_forward_init(&f);
    for (size_t k = 0; k < tsr_op_operand_count(copy); k++)
        if (!mlirValueIsNull(of->of_operands[k]))
            tsr_forward_set(&f, tsr_op_operand(copy, k), of->of_operands[k]);
    for (size_t k = 0; k < results; k++) values[k] = tsr_op_result(copy, k);
    tsr_block_yield(block, inside.location, values, results);
    bool done = tsr_graph_rules(tsr_op_of(copy))->lower(copy) && tsr_forward_block(&f, block);
    for (size_t k = 0; done && k < results; k++) {
        of->of_results[k] = tsr_forward_get(&f, tsr_op_operand(mlirBlockGetTerminator(block), k));
        if (!mlirValueIsNull(of->of_results[k])) values[given_count++] = of->of_results[k];
    }
    tsr_forward_finish(&f);
    if (!done) return false;
    tsr_block_yield(block, inside.location, values, given_count);
    tsr_block_sweep(block);
    tsr_scratch_close(block);
    return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool reads_tangent(const tsr_forward *f, MlirOperation op) {
    for (size_t k = 0; k < tsr_op_operand_count(op); k++)
        if (tsr_copies_has(&f->tangents, tsr_op_operand(op, k))) return true;
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
        MlirBlock block = tsr_region_block(op, r);
        if (mlirBlockIsNull(block)) continue;
        TSR_FOR_EACH_OP(inner, block) {
            if (reads_tangent(f, inner)) return true;
        }
    }
    return false;
}

static bool forward_op(tsr_forward *f, tsr_builder *builder, MlirOperation op) {
    tsr_tangent of = {.builder = builder, .op = op};
    if (!tsr_autodiff_check(op)) return false;
    tsr_op id = tsr_op_of(op);
    if (id == TSR_GRAPH_SCAN || id == TSR_GRAPH_IF || id == TSR_GRAPH_WHILE)
        return tsr_forward_control(f, op);
    if (id == TSR_GRAPH_CUSTOM_DERIVATIVE) return tsr_custom_forward(f, builder, op);
    for (size_t k = 0; k < tsr_op_operand_count(op); k++)
        of.of_operands[k] = tsr_forward_get(f, tsr_op_operand(op, k));
    if (!tsr_graph_rules(id)->forward(&of)) return false;
    for (size_t k = 0; k < tsr_op_result_count(op); k++)
        if (tsr_value_is_float(tsr_op_result(op, k)) && !mlirValueIsNull(of.of_results[k]))
            tsr_forward_set(f, tsr_op_result(op, k), of.of_results[k]);
    return true;
}

bool tsr_forward_block(tsr_forward *f, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_GRAPH_YIELD) || !reads_tangent(f, op)) continue;
        tsr_builder builder = tsr_builder_before(op);
        builder.before = mlirOperationGetNextInBlock(op);
        if (!forward_op(f, &builder, op)) return false;
    }
    return true;
}
