/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-autodiff: replaces every tessera.minimize by the gradients of its loss, using
 * reverse accumulation (Griewank and Walther 2008, chapter 3.2), and by one optimizer step for
 * each parameter that the loss depends on. Calls must have been inlined. Before this, jvp and vjp
 * are replaced by the ops that they denote (derivatives.c); afterwards custom_derivative is
 * replaced.
 *
 * Forward over the ops before minimize: a value is active if it is of a float type and depends on
 * a parameter. Backward: each op's gradient rule is asked for the gradients of its active
 * operands; a value used several times gets the sum, in the order in which the backward walk meets
 * the uses, so that the bits depend only on the program.
 */
#include "compiler/graph/derivatives/autodiff.h"

#include "compiler/graph/effects/effects.h"
#include "compiler/graph/rules.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

slot *tsr_autodiff_slot(autodiff *ad, MlirValue value) {
    uint64_t hash = (uint64_t)(uintptr_t)value.ptr * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (ad->capacity - 1);
    while (ad->slots[at].value && ad->slots[at].value != value.ptr)
        at = (at + 1) & (ad->capacity - 1);
    ad->slots[at].value = value.ptr;
    return &ad->slots[at];
}

void tsr_autodiff_collect(autodiff *ad, size_t others) {
    size_t values = others + (size_t)mlirBlockGetNumArguments(ad->block);
    TSR_FOR_EACH_OP(op, ad->block) {
        if (mlirOperationEqual(op, ad->minimize)) break;
        ad->op_count++;
        values += tsr_op_operand_count(op) + tsr_op_result_count(op);
    }
    for (ad->capacity = 64; ad->capacity < 2 * values + 2;) ad->capacity *= 2;
    ad->slots = TSR_NEW(&ad->arena, slot, ad->capacity);
    ad->ops = TSR_NEW(&ad->arena, MlirOperation, ad->op_count + 1);
    ad->params = TSR_NEW(&ad->arena, trained, ad->op_count + 1);
    TSR_NEED(ad->slots && ad->ops && ad->params);
    size_t count = 0;
    TSR_FOR_EACH_OP(op, ad->block) {
        if (mlirOperationEqual(op, ad->minimize)) break;
        ad->ops[count++] = op;
    }
}

slot *tsr_autodiff_find(const autodiff *ad, MlirValue value) {
    uint64_t hash = (uint64_t)(uintptr_t)value.ptr * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (ad->capacity - 1);
    while (ad->slots[at].value && ad->slots[at].value != value.ptr)
        at = (at + 1) & (ad->capacity - 1);
    return ad->slots[at].value ? &ad->slots[at] : NULL;
}

static bool reads_active(const autodiff *ad, MlirOperation op) {
    for (size_t k = 0; k < tsr_op_operand_count(op); k++) {
        const slot *known = tsr_autodiff_find(ad, tsr_op_operand(op, k));
        if (known && known->active) return true;
    }
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r));
        if (mlirBlockIsNull(block)) continue;
        TSR_FOR_EACH_OP(inner, block) {
            if (reads_active(ad, inner)) return true;
        }
    }
    return false;
}

void tsr_autodiff_mark(autodiff *ad) {
    for (size_t i = 0; i < ad->op_count; i++) {
        MlirOperation op = ad->ops[i];
        bool trains = tsr_op_is(op, TSR_GRAPH_PARAM) && !tsr_op_has(op, "frozen");
        if (!trains && !reads_active(ad, op)) continue;
        for (size_t k = 0; k < tsr_op_result_count(op); k++) {
            MlirValue result = tsr_op_result(op, k);
            tsr_autodiff_slot(ad, result)->active = tsr_value_is_float(result);
        }
    }
}

void tsr_autodiff_add(tsr_builder *builder, MlirValue *sum, MlirValue gradient) {
    if (mlirValueIsNull(*sum))
        *sum = gradient;
    else
        *sum = tsr_emit_binary(builder, TSR_GRAPH_NAME("add"), *sum, gradient);
}

/* All reads of a parameter count as one parameter. */
static bool reach_param(autodiff *ad, tsr_builder *builder, MlirOperation op, MlirValue gradient) {
    const char *name = tsr_op_string(op, "name");
    if (!name || !name[0]) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_NAME_MISSING,
                       "tessera.param: a trained parameter needs a name");
        return false;
    }
    uint32_t number = tsr_names_add(&ad->param_names, name, (uint32_t)ad->param_count);
    if (number < ad->param_count) {
        tsr_autodiff_add(builder, &ad->params[number].gradient, gradient);
        ad->params[number].param = op;
        return true;
    }
    trained *param = &ad->params[ad->param_count++];
    *param = (trained){.param = op, .name = name, .gradient = gradient};
    return mlirOperationIsNull(ad->minimize) ||
           tsr_optimizer_for(ad->minimize, op, &param->optimizer);
}

bool tsr_autodiff_check(MlirOperation op) {
    tsr_rule rule;
    if (tsr_effects_of(op) & (TSR_EFFECT_IO | TSR_EFFECT_STATE | TSR_EFFECT_COLLECTIVE)) {
        char effects[TSR_EFFECTS_TEXT_MAX];
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_GRADIENT_EFFECT,
                       "%s: a gradient would be moved across it, but it has the effect %s",
                       tsr_op_name(op),
                       tsr_effects_format(tsr_effects_of(op) & TSR_EFFECTS_ALL, effects));
        return false;
    }
    if (!tsr_op_is_of(op, TSR_DIALECT_GRAPH)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_GRADIENT_CALL,
                       "%s: no gradient rule for this op%s", tsr_op_name(op),
                       tsr_op_is(op, TSR_FUNC_CALL) ? "; inline calls first" : "");
        return false;
    }
    if (!tsr_graph_check(op, &rule)) return false;
    for (size_t i = 0; i < rule.operand_count + rule.result_count; i++) {
        size_t k = i - rule.operand_count;
        bool is_operand = i < rule.operand_count;
        const tsr_type *type = is_operand ? &rule.operands[i] : &rule.declared[k];
        char text[TSR_TYPE_TEXT_MAX];
        if (tsr_type_is_static(type)) continue;
        return tsr_rule_fail(&rule, TSR_DIAG_DYNAMIC, "%s %zu is %s; gradients need known dims",
                             is_operand ? "operand" : "result", is_operand ? i : k,
                             tsr_type_text(type, text));
    }
    return true;
}

/* Computes the gradients of an op's active operands, and adds them to the gradients of these
 * operands. */
static bool reverse_op(autodiff *ad, tsr_builder *builder, size_t index) {
    MlirOperation op = ad->ops[index];
    tsr_gradient of = {.builder = builder, .op = op};
    if (tsr_op_result_count(op) == 0) return true;
    bool any = false;
    if (tsr_op_result_count(op) > TSR_RULE_RESULTS_MAX) return tsr_autodiff_check(op);
    for (size_t k = 0; k < tsr_op_result_count(op); k++) {
        of.of_results[k] = tsr_autodiff_slot(ad, tsr_op_result(op, k))->gradient;
        any = any || !mlirValueIsNull(of.of_results[k]);
    }
    if (!any) return true;
    builder->location = mlirOperationGetLocation(op);
    if (!tsr_autodiff_check(op)) return false;
    tsr_op id = tsr_op_of(op);
    if (id == TSR_GRAPH_SCAN || id == TSR_GRAPH_IF || id == TSR_GRAPH_WHILE)
        return tsr_autodiff_control(ad, builder, index);
    if (id == TSR_GRAPH_CUSTOM_DERIVATIVE) return tsr_custom_reverse(ad, builder, op);
    of.of_result = of.of_results[0];
    if (mlirValueIsNull(of.of_result)) {
        tsr_type type = tsr_type_of(tsr_op_result(op, 0));
        of.of_result = tsr_emit_filled(builder, &type, 0.0);
    }
    if (id == TSR_GRAPH_PARAM) return reach_param(ad, builder, op, of.of_result);
    for (size_t k = 0; k < tsr_op_operand_count(op); k++)
        of.wanted[k] = tsr_autodiff_slot(ad, tsr_op_operand(op, k))->active;
    if (!tsr_graph_rules(id)->gradient(&of)) return false;
    for (size_t k = 0; k < tsr_op_operand_count(op); k++)
        if (of.wanted[k] && !mlirValueIsNull(of.of_operands[k]))
            tsr_autodiff_add(builder, &tsr_autodiff_slot(ad, tsr_op_operand(op, k))->gradient,
                             of.of_operands[k]);
    return true;
}

bool tsr_autodiff_reverse(autodiff *ad, tsr_builder *builder) {
    for (size_t i = ad->op_count; i-- > 0;)
        if (!reverse_op(ad, builder, i)) return false;
    return true;
}

bool tsr_autodiff_block(MlirBlock block, MlirLocation location, const tsr_question *q) {
    autodiff inner = {.block = block};
    tsr_builder b = tsr_builder_at_end(block, location);
    tsr_autodiff_collect(&inner, q->root_count + q->seed_count);
    for (size_t i = 0; i < q->root_count; i++)
        tsr_autodiff_slot(&inner, q->roots[i])->active = true;
    tsr_autodiff_mark(&inner);
    for (size_t i = 0; i < q->seed_count; i++) {
        if (mlirValueIsNull(q->seeds[i]) || mlirValueIsNull(q->gradients[i])) continue;
        slot *seed = tsr_autodiff_find(&inner, q->seeds[i]);
        if (seed && seed->active) tsr_autodiff_add(&b, &seed->gradient, q->gradients[i]);
    }
    bool done = tsr_autodiff_reverse(&inner, &b);
    for (size_t i = 0; i < q->root_count; i++)
        q->out[i] = tsr_autodiff_slot(&inner, q->roots[i])->gradient;
    tsr_arena_finish(&inner.arena);
    return done;
}

bool tsr_autodiff_transpose(MlirBlock block, MlirLocation location, size_t count,
                            const MlirValue *values, const MlirValue *gradients, MlirValue *out) {
    MlirValue roots[TSR_RULE_OPERANDS_MAX + TSR_RULE_RESULTS_MAX];
    size_t root_count = (size_t)mlirBlockGetNumArguments(block);
    TSR_ASSERT(root_count <= TSR_COUNT(roots));
    for (size_t i = 0; i < root_count; i++) roots[i] = mlirBlockGetArgument(block, (intptr_t)i);
    const tsr_question q = {roots, root_count, values, gradients, count, out};
    return tsr_autodiff_block(block, location, &q);
}

/* Differentiates the simpler ops that the op is lowered to, with respect to each operand. */
bool tsr_gradient_lowered(tsr_gradient *of) {
    MlirBlock block = tsr_scratch_open(of->builder);
    MlirOperation copy = mlirOperationClone(of->op);
    MlirValue values[TSR_RULE_RESULTS_MAX], roots[TSR_RULE_OPERANDS_MAX];
    size_t operands = tsr_op_operand_count(of->op), results = tsr_op_result_count(of->op);
    size_t count = 0;
    mlirBlockAppendOwnedOperation(block, copy);
    for (size_t i = 0; i < operands; i++) {
        MlirValue operand = tsr_op_operand(of->op, i);
        if (!of->wanted[i]) continue;
        roots[count] =
            mlirBlockAddArgument(block, mlirValueGetType(operand), of->builder->location);
        mlirOperationSetOperand(copy, (intptr_t)i, roots[count++]);
    }
    for (size_t i = 0; i < results; i++) values[i] = tsr_op_result(copy, i);
    tsr_block_yield(block, of->builder->location, values, results);
    if (!tsr_graph_rules(tsr_op_of(copy))->lower(copy)) return false;
    MlirOperation end = mlirBlockGetTerminator(block);
    for (size_t i = 0; i < results; i++) values[i] = tsr_op_operand(end, i);
    mlirOperationDestroy(end);
    MlirValue out[TSR_RULE_OPERANDS_MAX], gradients[TSR_RULE_OPERANDS_MAX];
    const tsr_question q = {roots, count, values, of->of_results, results, out};
    if (!tsr_autodiff_block(block, of->builder->location, &q)) return false;
    size_t given = 0;
    for (size_t i = 0; i < count; i++)
        if (!mlirValueIsNull(out[i])) gradients[given++] = out[i];
    tsr_block_yield(block, of->builder->location, gradients, given);
    end = mlirBlockGetTerminator(block);
    given = count = 0;
    for (size_t i = 0; i < operands; i++)
        if (of->wanted[i]) mlirValueReplaceAllUsesOfWith(roots[count++], tsr_op_operand(of->op, i));
    count = 0;
    for (size_t i = 0; i < operands; i++)
        if (of->wanted[i] && !mlirValueIsNull(out[count++]))
            of->of_operands[i] = tsr_op_operand(end, given++);
    tsr_scratch_close(block);
    return true;
}

/* ---- the optimizer step ---------------------------------------------------------------------- */

/* Returns the location of an assign of the parameter before the step, for the error. */
static MlirLocation find_assign(const autodiff *ad, const char *name) {
    TSR_FOR_EACH_OP(op, ad->block) {
        const char *target = tsr_op_is(op, TSR_GRAPH_ASSIGN) ? tsr_op_string(op, "target") : NULL;
        if (target && strcmp(target, name) == 0) return mlirOperationGetLocation(op);
    }
    return mlirOperationGetLocation(ad->minimize);
}

static MlirValue read_state(tsr_builder *builder, const trained *param, const char *name,
                            const char *kind) {
    tsr_type type = tsr_type_of(param->gradient);
    return tsr_emit_state(builder, &type, name, param->name, kind);
}

static void assign(tsr_builder *builder, MlirValue value, const char *target) {
    tsr_attr attr = {"target", tsr_attr_make_string(builder->context, target)};
    tsr_build(builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("assign"),
                                      .operand_count = 1,
                                      .operands = &value,
                                      .attr_count = 1,
                                      .attrs = &attr});
}

static MlirOperation step_op(autodiff *ad, tsr_builder *builder, const trained *param,
                             const char *name, size_t operands, const MlirValue *values,
                             size_t results) {
    MlirType type = mlirValueGetType(values[0]);
    bool settable = tsr_op_has(ad->minimize, TSR_SETTABLE_NAME);
    const tsr_attr all[] = {{"optimizer", param->optimizer},
                            {"lr_schedule", tsr_op_attr(ad->minimize, "lr_schedule")},
                            {TSR_SETTABLE_NAME, tsr_op_attr(ad->minimize, TSR_SETTABLE_NAME)},
                            {TSR_GROUP_NAME, settable
                                                 ? tsr_optimizer_group(ad->minimize, param->param)
                                                 : mlirAttributeGetNull()}};
    tsr_attr attrs[TSR_COUNT(all)];
    size_t count = 0;
    for (size_t i = 0; i < TSR_COUNT(all); i++)
        if (!mlirAttributeIsNull(all[i].value)) attrs[count++] = all[i];
    return tsr_build(builder, &(tsr_op_desc){.name = name,
                                             .operand_count = operands,
                                             .operands = values,
                                             .result_count = results,
                                             .results = (MlirType[]){type, type, type},
                                             .attr_count = count,
                                             .attrs = attrs});
}

/* "NAME.KIND" */
static const char *state_name(autodiff *ad, const trained *param, const char *kind) {
    const char *name = tsr_arena_printf(&ad->arena, "%s.%s", param->name, kind);
    TSR_NEED(name);
    return name;
}

static MlirValue scale_for(autodiff *ad, tsr_builder *builder, const trained *param) {
    return tsr_emit_cast(builder, ad->scale, tsr_type_of(param->gradient).dtype);
}

static void step_adamw(autodiff *ad, tsr_builder *builder, const trained *param, MlirValue step) {
    const char *m_name = state_name(ad, param, "adam_m");
    const char *v_name = state_name(ad, param, "adam_v");
    MlirValue operands[] = {tsr_op_result(param->param, 0),
                            param->gradient,
                            read_state(builder, param, m_name, "adam_m"),
                            read_state(builder, param, v_name, "adam_v"),
                            step,
                            ad->scale};
    bool scales = !mlirValueIsNull(ad->scale);
    if (scales) operands[5] = scale_for(ad, builder, param);
    MlirOperation adamw =
        step_op(ad, builder, param, TSR_GRAPH_NAME("adamw"), 5 + scales, operands, 3);
    assign(builder, tsr_op_result(adamw, 0), param->name);
    assign(builder, tsr_op_result(adamw, 1), m_name);
    assign(builder, tsr_op_result(adamw, 2), v_name);
}

static void step_sgd(autodiff *ad, tsr_builder *builder, const trained *param) {
    const char *name = state_name(ad, param, "velocity");
    MlirValue operands[] = {tsr_op_result(param->param, 0), param->gradient,
                            read_state(builder, param, name, "velocity"), ad->scale};
    bool scales = !mlirValueIsNull(ad->scale);
    if (scales) operands[3] = scale_for(ad, builder, param);
    MlirOperation sgd = step_op(ad, builder, param, TSR_GRAPH_NAME("sgd"), 3 + scales, operands, 2);
    assign(builder, tsr_op_result(sgd, 0), param->name);
    assign(builder, tsr_op_result(sgd, 1), name);
}

static bool update(autodiff *ad, tsr_builder *builder, const trained *param, tsr_assigned *before,
                   MlirValue step) {
    if (tsr_assigned_has(before, mlirBlockGetParentOperation(ad->block), param->name)) {
        char text[512];
        snprintf(text, sizeof text, "tessera.minimize: parameter '%.300s' already has a next value",
                 param->name);
        tsr_diag_error_note(mlirOperationGetLocation(ad->minimize), TSR_DIAG_ASSIGN_TWICE, text,
                            find_assign(ad, param->name), "assigned here");
        return false;
    }
    tsr_adamw adamw;
    if (tsr_graph_adamw(ad->minimize, &adamw))
        step_adamw(ad, builder, param, step);
    else
        step_sgd(ad, builder, param);
    tsr_names_add(&before->names, param->name, 0);
    return true;
}

/* Computes the norm of the gradients, in the order of parameters, if it is used. */
static bool clip(autodiff *ad, tsr_builder *builder) {
    MlirOperation op = ad->minimize;
    uint64_t parts = 1;
    bool reports = tsr_op_result_count(op) > 0, clips = tsr_clip_is_given(op);
    if (!reports && !clips) return true;
    if (!tsr_sr_find_virtual_ranks(ad->module, &parts)) return false;
    MlirValue *gradients = TSR_NEW(&ad->arena, MlirValue, ad->param_count);
    TSR_NEED(gradients);
    for (size_t i = 0; i < ad->param_count; i++)
        gradients[i] = ad->params[ad->param_count - 1 - i].gradient;
    MlirValue norm = tsr_global_norm_emit(builder, ad->param_count, gradients, parts,
                                          tsr_type_of(tsr_op_operand(op, 0)).dtype);
    if (reports) mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), norm);
    if (clips) ad->scale = tsr_clip_emit(builder, op, norm);
    MlirOperation func = mlirBlockGetParentOperation(ad->block);
    tsr_entry_kind kind;
    if (tsr_op_is(func, TSR_FUNC_FUNC) && tsr_graph_entry_kind(func, &kind) &&
        kind == TSR_ENTRY_TRAIN)
        tsr_graph_watch(func, norm, "gradient norm");
    return true;
}

static bool has_frozen(const autodiff *ad) {
    for (size_t i = 0; i < ad->op_count; i++)
        if (tsr_op_is(ad->ops[i], TSR_GRAPH_PARAM) && tsr_op_has(ad->ops[i], "frozen")) return true;
    return false;
}

static bool differentiate(autodiff *ad) {
    tsr_builder builder = tsr_builder_before(ad->minimize);
    MlirValue loss = tsr_op_operand(ad->minimize, 0);
    tsr_autodiff_hoist(ad->block);
    tsr_autodiff_collect(ad, 0);
    tsr_autodiff_mark(ad);
    if (!tsr_autodiff_slot(ad, loss)->active) {
        tsr_diag_error(mlirOperationGetLocation(ad->minimize), TSR_DIAG_NO_PARAMETER,
                       "tessera.minimize: the loss depends on no parameter%s",
                       has_frozen(ad) ? " that is not frozen" : "");
        return false;
    }
    tsr_autodiff_slot(ad, loss)->gradient =
        tsr_emit_constant(&builder, tsr_type_of(loss).dtype, 1.0);
    if (!tsr_autodiff_reverse(ad, &builder)) return false;
    builder.location = mlirOperationGetLocation(ad->minimize);
    tsr_type step_type = tsr_type_scalar(TSR_DTYPE_I64);
    MlirValue step = tsr_build_value(&builder, TSR_GRAPH_NAME("step"), NULL, 0,
                                     tsr_type_make(builder.context, &step_type), NULL);
    if (!clip(ad, &builder)) return false;
    tsr_assigned before = {0};
    bool done = true;
    for (size_t i = ad->param_count; done && i-- > 0;)
        done = update(ad, &builder, &ad->params[i], &before, step);
    tsr_assigned_finish(&before);
    return done;
}

static bool run_on_block(MlirModule module, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (!tsr_op_is(op, TSR_GRAPH_MINIMIZE)) continue;
        autodiff ad = {.module = module, .block = block, .minimize = op};
        bool done = differentiate(&ad);
        if (done && tsr_sr_wants_recompute(mlirBlockGetParentOperation(block)))
            tsr_sr_mark_backward(ad.ops[ad.op_count - 1], op);
        tsr_arena_finish(&ad.arena);
        tsr_names_finish(&ad.param_names);
        if (!done) return false;
        mlirOperationDestroy(op);
    }
    return true;
}

bool tsr_pass_autodiff(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        MlirBlock block = tsr_op_body(func);
        bool good = tsr_derivatives_open(block) && run_on_block(module, block);
        if (good) tsr_derivatives_close(block);
        done = done && good;
    }
    return done;
}
