/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-inline-regions: makes programs flat again. The ops of a checkpoint replace it and
 * carry the number of their segment; attributes of the function hold the checkpoint's attributes
 * and the hints. The ops of a resilience region are placed between a tessera_sr.enter and a
 * tessera_sr.leave with its name; attributes of the function hold the handlers of restarts, and of
 * regions that name none.
 *
 *   func attributes  tessera_sr.segments = ["full", …]     policy of segment i
 *                    tessera_sr.budgets = [-1, …]          its budget in bytes; -1: no budget
 *                    tessera_sr.hint = "selective", tessera_sr.hint_budget = 4096
 *                    tessera_sr.shards = ["w", "data", "zero2"]  for parameter w; "*": for all
 *   op attribute     tessera_sr.segment = 0
 */
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SEGMENTS_MAX = 4096, SHARDS_MAX = 1024 };

typedef struct inliner {
    MlirOperation func;
    MlirContext context;
    MlirAttribute policies[SEGMENTS_MAX];
    int64_t budgets[SEGMENTS_MAX];
    size_t count, region_count;
    bool regions_alone; /* inline only regions directly in the function, and no checkpoints, hints,
                         * shards */
} inliner;

static const char *policy_text(MlirOperation op) {
    const char *text = tsr_op_string(op, "policy");
    return text ? text : "selective";
}

static int64_t budget_of(MlirOperation op) {
    int64_t budget = -1;
    tsr_op_i64(op, "budget_bytes", &budget);
    return budget;
}

/* Numbers the ops; ops of an inner checkpoint are numbered again when the inner checkpoint is
 * inlined. A null segment: no segment. */
static void number(MlirBlock block, MlirAttribute segment) {
    TSR_FOR_EACH_OP(op, block) {
        if (mlirAttributeIsNull(segment))
            mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref(TSR_SR_SEGMENT));
        else if (!tsr_op_is(op, TSR_GRAPH_YIELD))
            mlirOperationSetDiscardableAttributeByName(op, tsr_ref(TSR_SR_SEGMENT), segment);
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            MlirBlock inner = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
            if (!mlirBlockIsNull(inner)) number(inner, segment);
        }
    }
}

/* Moves the ops of the region before the op, replaces the op's results from `first` on by the
 * yielded values, and erases the op. */
static void splice(MlirOperation op, size_t first) {
    MlirBlock block = tsr_sr_body(op);
    if (!mlirBlockIsNull(block)) {
        TSR_FOR_EACH_OP(inner, block) {
            if (!tsr_op_is(inner, TSR_GRAPH_YIELD)) {
                mlirOperationMoveBefore(inner, op);
                continue;
            }
            for (size_t i = 0; i < tsr_op_operand_count(inner); i++)
                mlirValueReplaceAllUsesOfWith(tsr_op_result(op, first + i),
                                              tsr_op_operand(inner, i));
            mlirOperationDestroy(inner);
        }
    }
    mlirOperationDestroy(op);
}

static bool inline_checkpoint(inliner *o, MlirOperation op) {
    tsr_sr_policy policy;
    bool read = tsr_sr_policy_read(op, &policy);
    MlirBlock block = tsr_sr_body(op);
    if (!mlirBlockIsNull(block) && mlirOperationIsNull(mlirBlockGetFirstOperation(block)))
        block = (MlirBlock){NULL};
    TSR_ASSERT(read);
    if (policy == TSR_SR_NONE && !mlirBlockIsNull(block)) number(block, mlirAttributeGetNull());
    if (policy != TSR_SR_NONE && !mlirBlockIsNull(block)) {
        if (o->count == SEGMENTS_MAX) {
            tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_POLICY,
                           "%s: '@%s' has more than %d checkpoints", tsr_op_name(op),
                           tsr_op_symbol(o->func), SEGMENTS_MAX);
            return false;
        }
        number(block, tsr_attr_make_i64(o->context, (int64_t)o->count));
        o->policies[o->count] = tsr_attr_make_string(o->context, policy_text(op));
        o->budgets[o->count++] = budget_of(op);
    }
    splice(op, 0);
    return true;
}

/* ---- resilience regions ---------------------------------------------------------------------- */

static bool refuse_region(MlirOperation op, const char *text) {
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_REGION, "%s: %s", tsr_op_name(op),
                   text);
    return false;
}

/* Records a handler on `owner` and drops the op. */
static bool note_handler(MlirOperation owner, const char *name, MlirOperation op) {
    if (tsr_op_has(owner, name)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_HANDLER,
                       "%s: there is a handler already", tsr_op_name(op));
        return false;
    }
    tsr_op_set(owner, name, tsr_op_attr(op, "handler"));
    mlirOperationDestroy(op);
    return true;
}

/* Handlers of the region's failures are inside it. */
static bool collect_events(inliner *o, MlirOperation region, MlirOperation enter) {
    MlirBlock block = tsr_sr_body(region);
    if (mlirBlockIsNull(block)) return true;
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_sr_op_plain(op);
        if (id == TSR_SR_RESILIENCE_REGION)
            return refuse_region(op, "is inside another region of resilience");
        if (id == TSR_SR_ON_FAILURE && !note_handler(enter, "on_failure", op)) return false;
        if (id == TSR_SR_ON_RECOVERY && !note_handler(o->func, TSR_SR_RECOVERY_HANDLER, op))
            return false;
    }
    return true;
}

static bool is_name_taken(const inliner *o, MlirOperation except, const char *name) {
    TSR_FOR_EACH_OP(op, tsr_op_body(o->func)) {
        if (!tsr_op_is(op, TSR_SR_ENTER) || mlirOperationEqual(op, except)) continue;
        if (strcmp(tsr_op_string(op, "name"), name) == 0) return true;
    }
    return false;
}

static bool inline_region(inliner *o, MlirOperation op) {
    char made[32];
    const char *name = tsr_op_string(op, "name"), *mode = tsr_op_string(op, "mode");
    size_t values = tsr_op_result_count(op) - 1;
    tsr_builder b = tsr_builder_before(op);
    MlirType token = mlirValueGetType(tsr_op_result(op, 0));
    MlirValue yielded[TSR_SR_VALUES_MAX];
    if (values > TSR_SR_VALUES_MAX) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_REGION,
                       "%s: yields %zu values; at most %d are possible", tsr_op_name(op), values,
                       TSR_SR_VALUES_MAX);
        return false;
    }
    snprintf(made, sizeof made, "region%zu", o->region_count++);
    if (!name) name = made;
    const tsr_attr attrs[] = {{"name", tsr_attr_make_string(o->context, name)},
                              {"mode", tsr_attr_make_string(o->context, mode ? mode : "restart")},
                              {0}};
    MlirValue entered = tsr_build_value(&b, "tessera_sr.enter", NULL, 0, token, attrs);
    MlirOperation enter = tsr_value_owner(entered);
    if (is_name_taken(o, enter, name))
        return refuse_region(op, "another region of the function has this name");
    if (!collect_events(o, op, enter)) return false;
    MlirBlock block = tsr_sr_body(op);
    MlirOperation last =
        mlirBlockIsNull(block) ? (MlirOperation){NULL} : mlirBlockGetTerminator(block);
    for (size_t i = 0; i < values; i++) yielded[i] = tsr_op_operand(last, i);
    MlirValue left = tsr_build_value(&b, "tessera_sr.leave", yielded, values, token, attrs);
    MlirOperation leave = tsr_value_owner(left);
    mlirOperationRemoveAttributeByName(leave, tsr_ref("mode"));
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), left);
    mlirOperationMoveAfter(leave, op);
    splice(op, 1);
    return true;
}

/* ---- shards ---------------------------------------------------------------------------------- */

/* The name of the parameter that is sharded: operand 0 is its value, or its state. */
static const char *sharded_name(MlirOperation op) {
    MlirOperation owner = tsr_value_owner(tsr_op_operand(op, 0));
    if (tsr_op_is(owner, TSR_GRAPH_PARAM)) return tsr_op_string(owner, "name");
    if (tsr_op_is(owner, TSR_GRAPH_OPT_STATE)) return tsr_op_string(owner, "of");
    return NULL;
}

/* The string attribute `name`, or the string in `attr`, which is #tessera.opt.shard or a similar
 * attribute. */
static const char *either(MlirOperation op, const char *name, const char *attr) {
    MlirAttribute text = {NULL}, mesh = {NULL};
    const char *mnemonic;
    if (tsr_op_has(op, name)) return tsr_op_string(op, name);
    if (!tsr_op_has(op, attr)) return NULL;
    return tsr_shim_opt_attr(tsr_op_attr(op, attr), &mnemonic, &text, &mesh) ? tsr_attr_string(text)
                                                                             : NULL;
}

/* The op's mesh: its own attribute, or the one in its #tessera.opt.shard. */
static MlirAttribute mesh_of(MlirOperation op, const char *shard) {
    MlirAttribute text = {NULL}, mesh = {NULL};
    const char *mnemonic;
    if (tsr_op_has(op, "mesh")) return tsr_op_attr(op, "mesh");
    if (!tsr_op_has(op, shard)) return mesh;
    return tsr_shim_opt_attr(tsr_op_attr(op, shard), &mnemonic, &text, &mesh)
               ? mesh
               : mlirAttributeGetNull();
}

static bool note_shard(inliner *o, MlirOperation op, const char *of, const char *axis,
                       const char *policy, MlirAttribute mesh) {
    MlirOperation module = mlirOperationGetParentOperation(o->func);
    MlirAttribute all[3 * SHARDS_MAX], old = tsr_op_attr(o->func, TSR_SR_SHARDS);
    intptr_t count = mlirAttributeIsNull(old) ? 0 : mlirArrayAttrGetNumElements(old);
    if (!of || !axis || !policy || strncmp(policy, "zero", 4) != 0 || !policy[4] || policy[5]) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_SHARD,
                       "%s: needs a named parameter or its state, an axis and a policy",
                       tsr_op_name(op));
        return false;
    }
    if (!mlirAttributeIsNull(mesh) && !tsr_sr_check_mesh(module, op, mesh, axis)) return false;
    if (count + 3 > 3 * SHARDS_MAX) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_SHARD,
                       "'@%s' shards more than %d parameters one by one", tsr_op_symbol(o->func),
                       SHARDS_MAX);
        return false;
    }
    for (intptr_t i = 0; i < count; i++) all[i] = mlirArrayAttrGetElement(old, i);
    all[count] = tsr_attr_make_string(o->context, of);
    all[count + 1] = tsr_attr_make_string(o->context, axis);
    all[count + 2] = tsr_attr_make_string(o->context, policy);
    tsr_op_set(o->func, TSR_SR_SHARDS, mlirArrayAttrGet(o->context, count + 3, all));
    return true;
}

/* The op declares the shards of one parameter; its results are its operands. */
static bool inline_shard(inliner *o, MlirOperation op) {
    MlirValue state = {NULL};
    if (tsr_op_has(op, "offload")) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_SHARD,
                       "%s: state cannot be offloaded yet", tsr_op_name(op));
        return false;
    }
    if (!note_shard(o, op, sharded_name(op), either(op, "axis", "shard"),
                    either(op, "policy", "partition"), mesh_of(op, "shard")))
        return false;
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        state = tsr_op_operand(op, i);
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i), state);
    }
    mlirOperationDestroy(op);
    return true;
}

/* On minimize, the two attributes declare the shards of every parameter. */
static bool inline_minimize(inliner *o, MlirOperation op) {
    const char *axis = either(op, "", "tessera.opt.shard");
    const char *policy = either(op, "", "tessera.opt.partition");
    MlirAttribute mesh = mesh_of(op, "tessera.opt.shard");
    if (!axis && !policy) return true;
    mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref("tessera.opt.shard"));
    mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref("tessera.opt.partition"));
    return note_shard(o, op, "*", axis, policy, mesh);
}

/* Drops states of the declaration-only type. */
static void drop_declared(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_GRAPH_OPT_STATE) && !tsr_value_is_used(tsr_op_result(op, 0)) &&
            tsr_shim_is_opt_state(mlirValueGetType(tsr_op_result(op, 0))))
            mlirOperationDestroy(op);
    }
}

/* ---- hints ----------------------------------------------------------------------------------- */

enum { HINT_TEXT_MAX = 64 };

static void describe_hint(const char *policy, int64_t budget, char out[static HINT_TEXT_MAX]) {
    if (budget < 0)
        snprintf(out, HINT_TEXT_MAX, "\"%s\" without a budget", policy);
    else
        snprintf(out, HINT_TEXT_MAX, "\"%s\" with a budget of %" PRId64 " bytes", policy, budget);
}

/* Calls inline the hints of their functions: equal hints are allowed. */
static bool note_hint(inliner *o, MlirOperation op) {
    char is[HINT_TEXT_MAX], was[HINT_TEXT_MAX];
    const char *before = tsr_op_string(o->func, TSR_SR_HINT);
    int64_t budget = -1;
    tsr_op_i64(o->func, TSR_SR_HINT_BUDGET, &budget);
    if (before && (strcmp(before, policy_text(op)) != 0 || budget != budget_of(op))) {
        describe_hint(policy_text(op), budget_of(op), is);
        describe_hint(before, budget, was);
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_SR_POLICY,
                       "%s: policy is %s; the function has %s", tsr_op_name(op), is, was);
        return false;
    }
    tsr_op_set(o->func, TSR_SR_HINT, tsr_attr_make_string(o->context, policy_text(op)));
    if (tsr_op_has(op, "budget_bytes"))
        tsr_op_set(o->func, TSR_SR_HINT_BUDGET, tsr_attr_make_i64(o->context, budget_of(op)));
    mlirOperationDestroy(op);
    return true;
}

static bool inline_op(inliner *o, MlirOperation op, tsr_op id, bool *changed) {
    switch (id) {
    case TSR_SR_CHECKPOINT:
        *changed = true;
        return inline_checkpoint(o, op);
    case TSR_SR_RESILIENCE_REGION:
        *changed = true;
        return inline_region(o, op);
    case TSR_SR_SUSPEND:
        *changed = true;
        splice(op, 0);
        return true;
    case TSR_SR_ON_FAILURE:
        return note_handler(o->func, TSR_SR_FAILURE_HANDLER, op);
    case TSR_SR_ON_RECOVERY:
        return note_handler(o->func, TSR_SR_RECOVERY_HANDLER, op);
    case TSR_SR_RECOMPUTE_HINT:
        return note_hint(o, op);
    default:
        return inline_shard(o, op);
    }
}

static bool is_inlined(const inliner *o, tsr_op id) {
    switch (id) {
    case TSR_SR_RESILIENCE_REGION:
    case TSR_SR_ON_FAILURE:
    case TSR_SR_ON_RECOVERY:
        return true;
    case TSR_SR_SUSPEND:
    case TSR_SR_CHECKPOINT:
    case TSR_SR_RECOMPUTE_HINT:
    case TSR_SR_OPTIMIZER_SHARD:
        return !o->regions_alone;
    default:
        return false;
    }
}

/* The ops of an inlined op are before `op`, so nested ones are found by starting again. */
static bool inline_block(inliner *o, MlirBlock block, bool *changed) {
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_sr_op_plain(op);
        if (is_inlined(o, id)) {
            if (!inline_op(o, op, id, changed)) return false;
            continue;
        }
        if (o->regions_alone) continue;
        if (tsr_op_is(op, TSR_GRAPH_MINIMIZE) && !inline_minimize(o, op)) return false;
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            MlirBlock inner = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
            if (!mlirBlockIsNull(inner) && !inline_block(o, inner, changed)) return false;
        }
    }
    return true;
}

bool tsr_sr_inline_regions(MlirOperation func) {
    inliner o = {.func = func, .context = mlirOperationGetContext(func), .regions_alone = true};
    bool changed = false;
    return inline_block(&o, tsr_op_body(func), &changed);
}

static bool inline_func(MlirOperation func) {
    inliner o = {.func = func, .context = mlirOperationGetContext(func)};
    bool changed = true;
    while (changed) {
        changed = false;
        if (!inline_block(&o, tsr_op_body(func), &changed)) return false;
    }
    drop_declared(tsr_op_body(func));
    if (o.count == 0) return true;
    tsr_op_set(func, TSR_SR_SEGMENTS, mlirArrayAttrGet(o.context, (intptr_t)o.count, o.policies));
    tsr_op_set(func, TSR_SR_BUDGETS, tsr_attr_make_i64s(o.context, o.count, o.budgets));
    return true;
}

bool tsr_pass_inline_regions(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (tsr_op_is(func, TSR_FUNC_FUNC) && tsr_op_has_body(func))
            done = inline_func(func) && done;
    }
    return done;
}
