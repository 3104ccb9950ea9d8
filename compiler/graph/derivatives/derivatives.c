/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that request derivatives, for pass tessera-autodiff:
 *
 *   jvp                the ops of its region, each followed by the ops of its tangents (forward.c)
 *   vjp                the ops of its region, followed by those of the gradients (autodiff.c)
 *   custom_derivative  if gradients or tangents reach it, the ops of its rule. If it only has a
 *                      rule of the other mode, the transpose of that rule: J^T g is linear in g,
 *                      and its gradient with respect to g, from the tangents, is J t; and the
 *                      reverse
 *
 * Nested ops become straight-line first, innermost first, so that derivatives of derivatives are
 * derivatives of the ops that replaced the inner ones.
 */
#include "compiler/graph/derivatives/autodiff.h"
#include "compiler/graph/rules.h"
#include "compiler/process/guard.h"

#include <stdio.h>

enum { BODY, VJP, JVP };

static size_t count_arguments(MlirBlock block) { return (size_t)mlirBlockGetNumArguments(block); }

static MlirValue or_zeros(tsr_builder *b, MlirValue value, MlirValue like) {
    return mlirValueIsNull(value) ? tsr_emit_zeros(b, like) : value;
}

/* ---- jvp and vjp ----------------------------------------------------------------------------- */

/* Yields the results, then the derivatives, and replaces the op. */
static void finish(MlirOperation op, const MlirValue *results, size_t count,
                   const MlirValue *derivatives, size_t derivative_count) {
    MlirValue yields[2 * TSR_RULE_RESULTS_MAX], operands[TSR_RULE_OPERANDS_MAX];
    MlirBlock block = tsr_region_block(op, 0);
    for (size_t i = 0; i < count; i++) yields[i] = results[i];
    for (size_t i = 0; i < derivative_count; i++) yields[count + i] = derivatives[i];
    tsr_block_yield(block, mlirOperationGetLocation(op), yields, count + derivative_count);
    for (size_t i = 0; i < count_arguments(block); i++) operands[i] = tsr_op_operand(op, i);
    tsr_block_splice(op, operands);
}

static bool open_jvp(MlirOperation op) {
    MlirBlock block = tsr_region_block(op, 0);
    MlirValue results[TSR_RULE_RESULTS_MAX], tangents[TSR_RULE_RESULTS_MAX];
    size_t inputs = count_arguments(block), next = inputs, count = 0;
    tsr_forward f;
    tsr_forward_init(&f);
    for (size_t i = 0; i < inputs; i++) {
        MlirValue argument = mlirBlockGetArgument(block, (intptr_t)i);
        if (tsr_value_is_float(argument)) tsr_forward_set(&f, argument, tsr_op_operand(op, next++));
    }
    bool done = tsr_forward_block(&f, block);
    MlirOperation end = mlirBlockGetTerminator(block);
    tsr_builder b = tsr_builder_before(end);
    size_t result_count = tsr_op_operand_count(end);
    for (size_t i = 0; i < result_count; i++) {
        results[i] = tsr_op_operand(end, i);
        if (tsr_value_is_float(results[i]))
            tangents[count++] = or_zeros(&b, tsr_forward_get(&f, results[i]), results[i]);
    }
    tsr_forward_finish(&f);
    if (done) finish(op, results, result_count, tangents, count);
    return done;
}

static bool open_vjp(MlirOperation op) {
    MlirBlock block = tsr_region_block(op, 0);
    MlirLocation location = mlirOperationGetLocation(op);
    MlirOperation end = mlirBlockGetTerminator(block);
    MlirValue results[TSR_RULE_RESULTS_MAX], roots[TSR_RULE_OPERANDS_MAX];
    MlirValue gradients[TSR_RULE_RESULTS_MAX] = {{NULL}}, out[TSR_RULE_OPERANDS_MAX];
    size_t inputs = count_arguments(block), next = inputs, root_count = 0;
    size_t result_count = tsr_op_operand_count(end);
    for (size_t i = 0; i < inputs; i++) {
        MlirValue argument = mlirBlockGetArgument(block, (intptr_t)i);
        if (tsr_value_is_float(argument)) roots[root_count++] = argument;
    }
    for (size_t i = 0; i < result_count; i++) {
        results[i] = tsr_op_operand(end, i);
        if (tsr_value_is_float(results[i])) gradients[i] = tsr_op_operand(op, next++);
    }
    /* Loops of the block may have been replaced: read the yielded values again. */
    mlirOperationMoveBefore(end, op);
    const tsr_question q = {roots, root_count, results, gradients, result_count, out};
    bool done = tsr_autodiff_block(block, location, &q);
    for (size_t i = 0; i < result_count; i++) results[i] = tsr_op_operand(end, i);
    mlirOperationDestroy(end);
    tsr_builder b = tsr_builder_at_end(block, location);
    for (size_t i = 0; done && i < root_count; i++) out[i] = or_zeros(&b, out[i], roots[i]);
    if (done) finish(op, results, result_count, out, root_count);
    return done;
}

bool tsr_derivatives_open(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            MlirBlock inner = tsr_region_block(op, i);
            if (!mlirBlockIsNull(inner) && !tsr_derivatives_open(inner)) return false;
        }
        tsr_op id = tsr_op_of(op);
        if (id != TSR_GRAPH_JVP && id != TSR_GRAPH_VJP) continue;
        tsr_autodiff_hoist_from(op);
        if (!tsr_autodiff_check(op)) return false;
        if (!(id == TSR_GRAPH_JVP ? open_jvp(op) : open_vjp(op))) return false;
    }
    return true;
}

/* ---- custom_derivative ----------------------------------------------------------------------- */

/* Copies a rule's ops to the builder, applied to these cotangents or tangents; returns the yielded
 * values. */
static void copy_rule(tsr_copies *c, tsr_builder *b, MlirOperation op, intptr_t rule,
                      const MlirValue *directions, MlirValue *out_yields) {
    MlirBlock from = tsr_region_block(op, rule);
    MlirOperation end = mlirBlockGetTerminator(from);
    intptr_t at = 0;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        tsr_copies_set(c, mlirBlockGetArgument(from, at++), tsr_op_operand(op, i));
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        tsr_copies_set(c, mlirBlockGetArgument(from, at++), tsr_op_result(op, i));
    for (size_t i = 0; at < mlirBlockGetNumArguments(from); i++)
        tsr_copies_set(c, mlirBlockGetArgument(from, at++), directions[i]);
    tsr_copies_ops(c, from, b);
    for (size_t i = 0; i < tsr_op_operand_count(end); i++)
        out_yields[i] = tsr_copies_get(c, tsr_op_operand(end, i));
}

/* True if all ops that depend on the block's arguments have float results and pass gradients. */
static bool passes_all(MlirBlock block) {
    tsr_arena arena = {0};
    tsr_copies active = {.arena = &arena};
    bool passes = true;
    for (size_t i = 0; i < count_arguments(block); i++) {
        MlirValue argument = mlirBlockGetArgument(block, (intptr_t)i);
        tsr_copies_set(&active, argument, argument);
    }
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_op_of(op);
        bool reads = false;
        if (id == TSR_GRAPH_YIELD) continue;
        for (size_t k = 0; k < tsr_op_operand_count(op); k++)
            reads = reads || tsr_copies_has(&active, tsr_op_operand(op, k));
        if (!reads) continue;
        passes = passes && tsr_op_dialect(id) == TSR_DIALECT_GRAPH &&
                 tsr_graph_rules(id)->gradient != tsr_gradient_none;
        for (size_t k = 0; k < tsr_op_result_count(op); k++) {
            MlirValue result = tsr_op_result(op, k);
            passes = passes && tsr_value_is_float(result);
            tsr_copies_set(&active, result, result);
        }
    }
    tsr_arena_finish(&arena);
    return passes;
}

static bool refuse_rule(MlirOperation op, intptr_t rule) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_RULE_LINEAR,
                   "%s: region `%s` is not linear in its %s, and `%s` is not given",
                   tsr_op_name(op), rule == VJP ? "vjp" : "jvp",
                   rule == VJP ? "cotangents" : "tangents", rule == VJP ? "jvp" : "vjp");
    return false;
}

/* Applies the transpose of the rule of the other mode. `like`: the floats of its directions;
 * `given`: the factors of the floats that it yields, null: none. */
static bool transpose_rule(tsr_builder *b, MlirOperation op, intptr_t rule, size_t count,
                           const MlirValue *like, const MlirValue *given, MlirValue *out) {
    MlirBlock block = tsr_scratch_open(b);
    MlirValue arguments[TSR_RULE_OPERANDS_MAX], yields[TSR_RULE_OPERANDS_MAX];
    tsr_arena arena = {0};
    tsr_copies c = {.arena = &arena};
    tsr_builder inside = tsr_builder_at_end(block, b->location);
    size_t yield_count = tsr_op_operand_count(mlirBlockGetTerminator(tsr_region_block(op, rule))),
           used_count = 0;
    for (size_t i = 0; i < count; i++)
        arguments[i] = mlirBlockAddArgument(block, mlirValueGetType(like[i]), b->location);
    copy_rule(&c, &inside, op, rule, arguments, yields);
    tsr_arena_finish(&arena);
    tsr_block_yield(block, b->location, yields, yield_count);
    tsr_block_sweep(block);
    bool linear = passes_all(block);
    mlirOperationDestroy(mlirBlockGetTerminator(block));
    if (!linear) return refuse_rule(op, rule);
    if (!tsr_autodiff_transpose(block, b->location, yield_count, yields, given, out)) return false;
    for (size_t i = 0; i < count; i++)
        if (!mlirValueIsNull(out[i])) yields[used_count++] = out[i];
    tsr_block_yield(block, b->location, yields, used_count);
    tsr_block_sweep(block);
    for (size_t i = 0; i < count; i++)
        if (tsr_value_is_used(arguments[i])) return refuse_rule(op, rule);
    tsr_scratch_close(block);
    return true;
}

/* The floats among the op's operands, or its results. */
static size_t list_floats(MlirOperation op, bool results, MlirValue *out) {
    size_t count = results ? tsr_op_result_count(op) : tsr_op_operand_count(op), floats = 0;
    for (size_t i = 0; i < count; i++) {
        MlirValue value = results ? tsr_op_result(op, i) : tsr_op_operand(op, i);
        if (tsr_value_is_float(value)) out[floats++] = value;
    }
    return floats;
}

static bool has_rule(MlirOperation op, intptr_t rule) {
    return !mlirBlockIsNull(tsr_region_block(op, rule));
}

/* Gradients (`rule` VJP) or tangents (JVP) of the floats of `to`, from those of `from`. */
static bool apply(tsr_builder *b, MlirOperation op, intptr_t rule, MlirValue *given,
                  MlirValue *out) {
    MlirValue from[TSR_RULE_OPERANDS_MAX], to[TSR_RULE_OPERANDS_MAX];
    size_t from_count = list_floats(op, rule == VJP, from);
    size_t to_count = list_floats(op, rule != VJP, to);
    if (!has_rule(op, rule))
        return transpose_rule(b, op, rule == VJP ? JVP : VJP, to_count, to, given, out);
    tsr_arena arena = {0};
    tsr_copies c = {.arena = &arena};
    for (size_t i = 0; i < from_count; i++) given[i] = or_zeros(b, given[i], from[i]);
    copy_rule(&c, b, op, rule, given, out);
    tsr_arena_finish(&arena);
    return true;
}

typedef bool (*passes_fn)(const void *walk, MlirValue value);

static bool refuse_capture(MlirOperation op, MlirOperation reader, size_t operand,
                           const char *what) {
    char text[256];
    snprintf(text, sizeof text,
             "%s: %s pass through operand %zu of %.100s, which the function captures from outside; "
             "make it an operand of the op",
             tsr_op_name(op), what, operand, tsr_op_name(reader));
    tsr_diag_error_note(mlirOperationGetLocation(op), TSR_DIAG_RULE_CAPTURE, text,
                        mlirOperationGetLocation(reader), "read here");
    return false;
}

/* Rules do not cover values that the function captures. */
static bool check_captures(MlirOperation op, MlirBlock block, passes_fn passes, const void *walk,
                           const char *what) {
    TSR_FOR_EACH_OP(inner, block) {
        for (size_t i = 0; i < tsr_op_operand_count(inner); i++)
            if (passes(walk, tsr_op_operand(inner, i))) return refuse_capture(op, inner, i, what);
        for (intptr_t r = 0; r < mlirOperationGetNumRegions(inner); r++) {
            MlirBlock nested = tsr_region_block(inner, r);
            if (!mlirBlockIsNull(nested) && !check_captures(op, nested, passes, walk, what))
                return false;
        }
    }
    return true;
}

static bool has_tangent(const void *walk, MlirValue value) {
    const tsr_forward *f = walk;
    return tsr_copies_has(&f->tangents, value);
}

static bool is_active(const void *walk, MlirValue value) {
    const slot *known = tsr_autodiff_find(walk, value);
    return known && known->active;
}

bool tsr_custom_forward(tsr_forward *f, tsr_builder *builder, MlirOperation op) {
    MlirValue x[TSR_RULE_OPERANDS_MAX], y[TSR_RULE_OPERANDS_MAX];
    MlirValue given[TSR_RULE_OPERANDS_MAX], out[TSR_RULE_OPERANDS_MAX];
    size_t inputs = list_floats(op, false, x), results = list_floats(op, true, y);
    bool any = false;
    for (size_t i = 0; i < inputs; i++) {
        given[i] = tsr_forward_get(f, x[i]);
        any = any || !mlirValueIsNull(given[i]);
    }
    if (!check_captures(op, tsr_region_block(op, BODY), has_tangent, f, "tangents")) return false;
    if (!any) return true;
    if (!apply(builder, op, JVP, given, out)) return false;
    for (size_t i = 0; i < results; i++)
        if (!mlirValueIsNull(out[i])) tsr_forward_set(f, y[i], out[i]);
    return true;
}

bool tsr_custom_reverse(autodiff *ad, tsr_builder *builder, MlirOperation op) {
    MlirValue x[TSR_RULE_OPERANDS_MAX], y[TSR_RULE_OPERANDS_MAX];
    MlirValue given[TSR_RULE_OPERANDS_MAX], out[TSR_RULE_OPERANDS_MAX];
    size_t inputs = list_floats(op, false, x), results = list_floats(op, true, y);
    bool any = false;
    for (size_t i = 0; i < inputs; i++) any = any || tsr_autodiff_slot(ad, x[i])->active;
    for (size_t i = 0; i < results; i++) given[i] = tsr_autodiff_slot(ad, y[i])->gradient;
    if (!check_captures(op, tsr_region_block(op, BODY), is_active, ad, "gradients")) return false;
    if (!any) return true;
    if (!apply(builder, op, VJP, given, out)) return false;
    for (size_t i = 0; i < inputs; i++) {
        slot *to = tsr_autodiff_slot(ad, x[i]);
        if (to->active && !mlirValueIsNull(out[i]))
            tsr_autodiff_add(builder, &to->gradient, out[i]);
    }
    return true;
}

/* ---- closing --------------------------------------------------------------------------------- */

void tsr_derivatives_close(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        MlirValue operands[TSR_RULE_OPERANDS_MAX];
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            MlirBlock inner = tsr_region_block(op, i);
            if (!mlirBlockIsNull(inner)) tsr_derivatives_close(inner);
        }
        if (!tsr_op_is(op, TSR_GRAPH_CUSTOM_DERIVATIVE)) continue;
        for (size_t i = 0; i < tsr_op_operand_count(op); i++) operands[i] = tsr_op_operand(op, i);
        tsr_block_splice(op, operands);
    }
}
